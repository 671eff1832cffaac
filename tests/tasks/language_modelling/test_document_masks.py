"""`data.document_masks`: training stretches whose documents do not see one another."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import regard
from regard.errors import InputError
from regard.models import GPT2, GPT2Config
from regard.tasks.language_modelling import prepare_stretches
from regard.tasks.language_task import TextData
from regard.tasks.preparation import TokenizerSettings

TEXTS = ["a b c", "d", "e f g h", "b a", "c d e f g h a b", "h"] * 3


def recipe(**data: Any) -> dict[str, Any]:
    return {
        "task": "language_modelling",
        "model": {
            "name": "gpt2",
            "width": 8,
            "heads": 2,
            "feedforward_width": 12,
            "layers": 1,
            "maximum_positions": 16,
        },
        "data": {"length": 16, **data},
        "tokenizer": {"kind": "word", "size": 20},
        "training": {"steps": 2, "batch_tokens": 64, "precision": "float32"},
    }


def test_the_loss_of_packed_stretches_is_that_of_the_documents_alone(tmp_path, seeded, randomize):
    data = TextData(length=16, document_masks=True)
    prepared = prepare_stretches(
        data, TokenizerSettings(kind="word", size=20), tmp_path / "data", seed=1, given=TEXTS, given_validation=TEXTS
    )
    task, store = prepared.task, prepared.train
    config = GPT2Config(
        width=8, heads=2, feedforward_width=12, layers=2, maximum_positions=16, dropout=0.0, **task.model_settings()
    )
    model = randomize(GPT2(config)).eval()
    # From the first stretch on, up to a border of documents: pieces of a document that was cut are documents by themselves.
    packed = task.loss(model, task.read_batch(store, range(len(store))))
    end, pieces = task.tokenizer.end_id, []
    for row in range(len(store)):
        ids = store.sequence("text", row).tolist()
        begins = [0, *(i for i in range(1, len(ids) - 1) if ids[i] == end), len(ids) - 1]
        pieces += [ids[start : stop + 1] for start, stop in itertools.pairwise(begins)]
    alone = task.loss(model, task.batch(pieces))
    assert packed.tokens == alone.tokens
    assert packed.total.item() == pytest.approx(alone.total.item(), rel=1e-5)
    assert len(pieces) > 2 * len(store)


def test_a_run_with_masks_is_another_run_and_its_model_an_ordinary_one(tmp_path):
    runs = [
        regard.train(recipe(document_masks=masks), output=tmp_path / str(masks), data=TEXTS, validation=TEXTS)
        for masks in (False, True)
    ]
    assert runs[0].metrics["loss"] != runs[1].metrics["loss"]
    model = runs[1].load()
    assert not model.task.document_masks
    batch = model.task.batch([[0, 3, 4]])
    assert batch.tokens.documents is None
    assert torch.isfinite(torch.tensor(model.score("a b c").log_probability))


def test_a_model_without_masks_is_refused(tmp_path):
    values = recipe(document_masks=True)
    values["model"] = {"name": "lstm_language_model", "embedding_width": 4, "hidden_width": 4}
    with pytest.raises(InputError, match=r"data.document_masks: a LSTMLanguageModel has no masks"):
        regard.train(values, output=tmp_path / "run", data=TEXTS)
