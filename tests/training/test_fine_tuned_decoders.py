"""Decoders of transformers' folders, fine-tuned whole and by adapters with the recipes that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.parity.test_llama_tokenizers import folder_of

import regard
from regard.checkpoints import read_parameters
from regard.checkpoints.adapters import read_adapters
from regard.generation import GenerationSettings
from regard.layers import Tokens

transformers = pytest.importorskip("transformers")

RECIPES = Path(__file__).parents[2] / "recipes"
FEW = [
    *("data.length=24", "training.epochs=null", "training.steps=30", "training.batch_tokens=200", "training.warmup=1"),
    *("training.accumulate=1", "training.evaluate_every=30", "training.save_every=30", "training.precision=float32"),
]
TEXTS = ["the quick brown fox", "the quick brown fox", "the old fox is quick"] * 20
every_kind = pytest.mark.parametrize("kind", ["smollm", "llama 2", "gpt-neox"])


def tuned(kind: str, recipe: str, place: Path, *more: str) -> Any:
    (place / "before").mkdir()
    folder = folder_of(kind, place / "before")
    settings = [f"model.pretrained={folder}", *FEW, *more]
    return regard.train(RECIPES / recipe, settings, output=place / "run", data=TEXTS)


def logits_there(folder: Path, ids: torch.Tensor, adapter: Path | None = None) -> torch.Tensor:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    if adapter is not None:
        model = pytest.importorskip("peft").PeftModel.from_pretrained(model, adapter)
    with torch.no_grad():
        return model.eval()(input_ids=ids).logits


@every_kind
def test_by_adapters_the_model_learns_and_peft_makes_the_same_of_the_folder(kind, tmp_path):
    run = tuned(kind, "fine-tune-lora.yaml", tmp_path, "training.learning_rate=1e-2")
    before = regard.load(tmp_path / "before")
    after = run.load()
    losses = [regard.evaluate(each, TEXTS[:3]).metrics["loss"] for each in (before, after)]
    assert losses[1] < losses[0] - 0.5
    start, stored = read_parameters(tmp_path / "before")[1], read_parameters(run.folder, merged=False)[1]
    assert all(torch.equal(stored[name], start[name]) for name in start)
    card, _ = read_adapters(run.folder, after.model.config)
    assert len(card.maps) == 2 * (6 if kind == "gpt-neox" else 7)
    assert card.layout == "peft"
    ids = torch.tensor([[5, 9, 6, 12, 7]])
    with torch.no_grad():
        ours = after.model(Tokens.pad(ids.tolist()))
    assert not torch.allclose(logits_there(run.folder, ids), ours, atol=1e-2)
    torch.testing.assert_close(logits_there(run.folder, ids, run.folder / "adapter"), ours, rtol=1e-4, atol=1e-4)
    after.save(tmp_path / "whole")
    torch.testing.assert_close(logits_there(tmp_path / "whole", ids), ours, rtol=1e-4, atol=1e-4)


@every_kind
def test_the_whole_model_learns_and_opens_in_transformers_again(kind, tmp_path):
    run = tuned(kind, "fine-tune.yaml", tmp_path, "training.learning_rate=1e-2")
    after = run.load()
    losses = [regard.evaluate(each, TEXTS[:3]).metrics["loss"] for each in (regard.load(tmp_path / "before"), after)]
    assert losses[1] < losses[0] - 0.5
    assert after.generate("the", GenerationSettings(maximum_length=6)).tokens
    ids = torch.tensor([[5, 9, 6, 12, 7]])
    with torch.no_grad():
        ours = after.model(Tokens.pad(ids.tolist()))
    torch.testing.assert_close(logits_there(run.folder, ids), ours, rtol=1e-4, atol=1e-4)
    written = transformers.AutoConfig.from_pretrained(run.folder).model_type
    assert written == transformers.AutoConfig.from_pretrained(tmp_path / "before").model_type
    tokenizers = [transformers.AutoTokenizer.from_pretrained(each) for each in (tmp_path / "before", run.folder)]
    assert tokenizers[0]("the quick  fox")["input_ids"] == tokenizers[1]("the quick  fox")["input_ids"]


def test_adapters_are_planned_with_what_they_train_alone(tmp_path):
    folder = folder_of("smollm", tmp_path)
    whole, beside = (
        regard.plan(
            str(RECIPES / each), [f"model.pretrained={folder}", "data.length=24"], tokens=1e6, device="t4", read=False
        )
        for each in ("fine-tune.yaml", "fine-tune-lora.yaml")
    )
    assert whole.parameters.trained == whole.parameters.total
    assert beside.memory[0].parts["optimizer"] == 8 * beside.parameters.trained
    assert beside.parameters.total - beside.parameters.trained == whole.parameters.total


LABELLED = [
    (f"the quick {word} is {end}", kind) for word in ("fox", "brown") for end, kind in (("old", "a"), ("x", "b"))
]


@pytest.mark.parametrize("kind", ["smollm", "llama 2"])
@pytest.mark.parametrize("recipe", ["classify.yaml", "gpt-classify.yaml"])
def test_a_classifier_opens_in_transformers_with_the_tokens_that_it_reads_between(kind, recipe, tmp_path):
    (tmp_path / "before").mkdir()
    folder = folder_of(kind, tmp_path / "before", tie_word_embeddings=recipe == "gpt-classify.yaml")
    settings = [f"model.pretrained={folder}", "data.maximum_length=24", *FEW[1:], "training.learning_rate=1e-2"]
    run = regard.train(RECIPES / recipe, settings, output=tmp_path / "run", data=LABELLED * 15)
    model = run.load()
    assert model.model.config.model_type == "llama_classifier"
    assert regard.evaluate(model, LABELLED).metrics["accuracy"] == 1
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(run.folder).eval()
    assert type(theirs).__name__ == "LlamaForSequenceClassification"
    tokenizer = transformers.AutoTokenizer.from_pretrained(run.folder)
    for text, _ in LABELLED:
        with torch.no_grad():
            shares = theirs(**tokenizer(text, return_tensors="pt")).logits[0].softmax(dim=-1).tolist()
        said = model.classify(text).probabilities
        assert {theirs.config.id2label[place]: share for place, share in enumerate(shares)} == pytest.approx(
            said, abs=1e-4
        )


def test_next_tokens_are_not_told_by_a_classifier_without_the_table_for_them(tmp_path):
    folder = folder_of("smollm", tmp_path, tie_word_embeddings=False)
    settings = [f"model.pretrained={folder}", "data.maximum_length=24", *FEW[1:]]
    with pytest.raises(regard.InputError, match="auxiliary"):
        regard.train(RECIPES / "gpt-classify.yaml", settings, output=tmp_path / "run", data=LABELLED * 15)


def test_a_classifier_from_elsewhere_whose_texts_stand_between_no_tokens_is_refused(tmp_path):
    """Another last token would be read than there, and another answer given."""
    folder = folder_of("smollm", tmp_path)
    made = transformers.LlamaForSequenceClassification.from_pretrained(folder, num_labels=3)
    made.save_pretrained(folder)
    assert read_parameters(folder)[0].outputs == 3
    with pytest.raises(regard.InputError, match="does not put a token before and after each text"):
        regard.load(folder, task="classification")
