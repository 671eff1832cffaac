"""Filling gaps and telling next sentences as transformers does, on its folders, and on ours opened by it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import regard
from regard.errors import InputError
from regard.text import Tokenizer

transformers = pytest.importorskip("transformers")

TEXTS = ["Paris is the [MASK] of France.", "the [MASK] dog [MASK].", "[MASK] is it"]


@pytest.fixture(scope="module")
def vocabulary() -> list[str]:
    texts = ["paris is the capital of france and berlin is that of germany", "the small dog barks loudly, is it so"]
    tokenizer = Tokenizer.train(texts * 3, kind="bert", size=80, lowercase=True)
    return tokenizer.tokens(range(tokenizer.size))


@pytest.fixture
def foreign(tmp_path, vocabulary):
    """A folder as transformers writes it, every parameter drawn."""

    def make(kind: str) -> Path:
        torch.manual_seed(3)
        sizes = {"vocab_size": len(vocabulary), "max_position_embeddings": 24}
        if kind.startswith("DistilBert"):
            config = transformers.DistilBertConfig(dim=16, n_heads=2, hidden_dim=20, n_layers=2, **sizes)
        else:
            config = transformers.BertConfig(
                hidden_size=16, num_attention_heads=2, intermediate_size=20, num_hidden_layers=2, **sizes
            )
        model = getattr(transformers, kind)(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0, 0.5)
        folder = tmp_path / kind
        model.save_pretrained(folder)
        (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
        return folder

    return make


def theirs(folder: Path, kind: str):
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=True)
    return getattr(transformers, kind).from_pretrained(folder).eval(), tokenizer


@pytest.mark.parametrize("kind", ["BertForMaskedLM", "BertForPreTraining", "DistilBertForMaskedLM"])
def test_the_same_candidates_with_the_same_probabilities(kind, foreign, tmp_path):
    folder = foreign(kind)
    model = regard.load(folder, task="masked_language_modelling")
    model.save(tmp_path / "ours")
    for place in (folder, tmp_path / "ours"):
        other, tokenizer = theirs(place, kind)
        for text, filled in zip(TEXTS, regard.load(place).fill_batch(TEXTS, top=6), strict=True):
            encoded = tokenizer(text, return_tensors="pt")
            with torch.no_grad():
                out = other(**encoded)
            logits = out.prediction_logits if kind == "BertForPreTraining" else out.logits
            masked = encoded["input_ids"][0] == tokenizer.mask_token_id
            best = logits[0][masked].softmax(dim=-1).topk(6)
            assert len(filled.masks) == int(masked.sum())
            for candidates, values, indices in zip(filled.masks, best.values, best.indices, strict=True):
                assert [each.token for each in candidates] == tokenizer.convert_ids_to_tokens(indices.tolist())
                assert [each.probability for each in candidates] == pytest.approx(values.tolist(), rel=1e-4)


def test_next_sentences(foreign):
    folder = foreign("BertForPreTraining")
    other, tokenizer = theirs(folder, "BertForPreTraining")
    pairs = [("paris is the capital", "of france"), ("the dog", "barks loudly, is it so")]
    for (first, second), probability in zip(pairs, regard.load(folder).follows_batch(pairs), strict=True):
        with torch.no_grad():
            logits = other(**tokenizer(first, second, return_tensors="pt")).seq_relationship_logits
        assert probability == pytest.approx(logits.softmax(dim=-1)[0, 0].item(), rel=1e-4)


def test_a_model_without_such_a_head_is_refused_by_name(foreign):
    folder = foreign("BertForSequenceClassification")
    with pytest.raises(InputError, match="the head 'sequence', and masked language modelling is wanted"):
        regard.load(folder, task="masked_language_modelling")
