"""Tokens aggregated to entities, beside `transformers`' own pipeline over the same folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

import regard
from regard.serving.tasks import ROUTES
from regard.text import Tokenizer

transformers = pytest.importorskip("transformers")

NAMES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC-x", "MISC")
TEXTS = [
    "Ann Lee saw unaffable mats in Paris",
    "unaffable-cats, Mats!  (Pariser) don't",
    "Über Café Cafe\u0301 漢字 🙂 Paris🙂mats",
    "mat\u200bmat matmatmat\tx\n x",
    "a",
]


def tokenizer(kind: str) -> Tokenizer:
    texts = ["ann lee saw una ##ffable mats in paris cafe uber", "mat cat un affable s x", *TEXTS[:2]] * 4
    return Tokenizer.train(
        texts, kind=kind, size=70 if kind == "bert" else 300, **({"lowercase": True} if kind == "bert" else {})
    )


@pytest.fixture(params=["bert", "roberta"])
def folder(request: pytest.FixtureRequest, randomize: Any, tmp_path: Path) -> Path:
    """Of BertForTokenClassification, or RoBERTa's."""
    words = tokenizer(request.param)
    sizes = {
        "vocab_size": words.size,
        "id2label": dict(enumerate(NAMES)),
        "label2id": {name: number for number, name in enumerate(NAMES)},
        "hidden_size": 12,
        "num_attention_heads": 3,
        "intermediate_size": 10,
        "num_hidden_layers": 2,
        "max_position_embeddings": 60,
        "pad_token_id": words.padding_id,
    }
    if request.param == "bert":
        model = transformers.BertForTokenClassification(transformers.BertConfig(**sizes))
    else:
        model = transformers.RobertaForTokenClassification(transformers.RobertaConfig(type_vocab_size=1, **sizes))
    randomize(model, scale=2.0).eval()
    with torch.no_grad():  # else what all tokens share outweighs what tells them apart
        for name, parameter in model.named_parameters():
            if name.endswith(("bias", "token_type_embeddings.weight")):
                parameter.zero_()
            elif "attention.output.dense" in name:
                parameter.div_(3)
    model.save_pretrained(tmp_path)
    words.save(tmp_path)
    return tmp_path


@pytest.mark.parametrize("strategy", ["none", "simple", "first", "average", "max"])
@pytest.mark.filterwarnings("ignore:Tokenizer does not support real words")
def test_every_way_to_aggregate_is_that_of_transformers(folder: Path, strategy: str) -> None:
    ours = regard.load(folder, task="tagging")
    route = ROUTES["token-classification"]
    unknown = "[UNK]" if ours.task.tokenizer.find("[UNK]") is not None else "<unk>"
    theirs = transformers.pipeline(
        "token-classification",
        model=transformers.AutoModelForTokenClassification.from_pretrained(folder),
        tokenizer=transformers.PreTrainedTokenizerFast.from_pretrained(folder, unk_token=unknown),
        aggregation_strategy=strategy,
        device="cpu",
    )
    seen = set()
    for text in TEXTS:
        for ignored in (None, []):
            given = {"inputs": text, "parameters": {"aggregation_strategy": strategy, "ignore_labels": ignored}}
            found = route.answer(ours, msgspec.convert(given, route.request))
            wanted = theirs(text, ignore_labels=["O"] if ignored is None else ignored)
            for one, other in zip(found, wanted, strict=True):
                other.pop("index", None)
                assert one.pop("score") == pytest.approx(float(other.pop("score")), abs=1e-5)
                assert one == other
                seen.add(other.get("entity") or other["entity_group"])
    assert len(seen) > 1
