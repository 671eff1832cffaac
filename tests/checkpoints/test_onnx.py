"""Encoders as ONNX: onnxruntime computes what the model does, whatever the length, the batch and the side of padding."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.checkpoints import onnx as written
from regard.layers import Tokens

GOLDEN = Path(__file__).parents[1] / "golden" / "folders"
ENCODERS = (
    "bert",
    "bert-answers",
    "bert-choice",
    "bert-embedding",
    "bert-masked",
    "distilbert-regression",
    "electra",
    "modernbert",
    "roberta-masked",
)


def test_a_model_that_is_no_encoder_and_a_format_that_there_is_not_are_refused(tmp_path):
    with pytest.raises(regard.InputError, match="a GPT2 cannot be written as ONNX, only text encoders can"):
        regard.export(GOLDEN / "gpt2", tmp_path / "gpt2", format="onnx")
    with pytest.raises(regard.InputError, match="did you mean 'onnx'"):
        regard.export(GOLDEN / "bert", tmp_path / "bert", format="onx")
    assert list(tmp_path.iterdir()) == []


def test_without_onnxruntime_the_extra_is_named_and_nothing_is_written(tmp_path, monkeypatch):
    for name in ("onnx", "onnxruntime", "onnxscript"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(regard.InputError, match=r"pip install 'regard\[onnx\]'"):
        regard.export(GOLDEN / "bert", tmp_path / "bert", format="onnx")
    assert list(tmp_path.iterdir()) == []


def session(path: Path):
    return pytest.importorskip("onnxruntime").InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODERS)
def test_every_kind_of_encoder_is_the_same_in_onnxruntime(name, tmp_path):
    pytest.importorskip("onnxscript")
    regard.export(GOLDEN / name, tmp_path / "model", format="onnx")
    model = regard.load(tmp_path / "model").model.eval()
    graph = session(tmp_path / "model" / "model.onnx")
    inputs = [each.name for each in graph.get_inputs()]
    draw = torch.Generator().manual_seed(3)
    for rows, length, left in ((1, 1, 0), (1, 5, 2), (4, 3, 1), (2, 11, 4), (3, model.config.maximum_positions, 7)):
        ids = torch.randint(model.config.vocabulary, (rows, length), generator=draw)
        valid = torch.ones(rows, length, dtype=torch.bool)
        valid[-1, :left] = False  # the last row is padded on the left, the first on the right
        if rows > 1:
            valid[0, length - left :] = False
        segments = torch.randint(2, (rows, length), generator=draw)
        given = {"input_ids": ids, "attention_mask": valid.long(), "token_type_ids": segments}
        found = graph.run(None, {each: given[each].numpy() for each in inputs})
        with torch.no_grad():
            wanted = model(Tokens(ids, valid), segments if "token_type_ids" in inputs else None)
        mine = wanted.hidden if model.config.head == "none" else wanted.logits
        first = np.stack(found, -1) if model.config.head == "spans" else found[0]
        apart = np.abs(mine.numpy() - first)
        assert (apart if model.config.head in ("sequence", "choice") else apart[valid.numpy()]).max() < 1e-5, (
            rows,
            length,
        )


@pytest.mark.slow
def test_a_graph_that_comes_to_something_else_is_not_kept(tmp_path, monkeypatch):
    pytest.importorskip("onnxscript")
    monkeypatch.setattr(written, "TOLERANCE", -1.0)
    with pytest.raises(regard.InputError, match="onnxruntime differs from the model"):
        regard.export(GOLDEN / "bert", tmp_path / "bert", format="onnx")
    assert list(tmp_path.iterdir()) == []
