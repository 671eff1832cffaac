"""A typed program that uses the public interface passes pyright's strict mode, and one with a slip does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import regard

USE = """
from pathlib import Path

import torch

import regard
from regard.attention import AttentionInputs, ScaledDot, ScoredAttention
from regard.embeddings import pooling
from regard.models import Bert, BertConfig
from regard.text import Tokenizer
from regard.training import read_recipe


def trained(place: Path) -> Path:
    recipe = {"task": "translation", "data": {"dates": {"size": 10}}}
    run = regard.train(recipe, ["seed=3"], output=place, data=[("a", "b")], say=print)
    return run.folder


def sizes(run: Path, target: Path) -> dict[str, int]:
    return regard.export(run, target, format="onnx").files


def network() -> Bert:
    return Bert(BertConfig(vocabulary=90, width=12, heads=3, feedforward_width=20, layers=2))


def looked() -> list[str]:
    with regard.look(network()) as seen:
        pass
    return seen.addresses


def weights(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    return ScoredAttention(ScaledDot()).weights(AttentionInputs(query=query, key=key))


def tokens(texts: list[str]) -> int:
    return Tokenizer.train(texts, kind="character", size=30).size + read_recipe("dates").seed


def refused() -> str:
    try:
        regard.load("nowhere")
    except regard.InputError as error:
        return str(error)
    return pooling.__name__
"""
SLIPS = {
    "regard.laod('x')": "laod",
    "regard.export('a', 'b', chekpoint='last')": "chekpoint",
    "regard.train({}, output=3)": "str | PathLike[str]",
}


@pytest.mark.slow
def test_strict_mode_finds_the_slips_and_nothing_else(tmp_path):
    pytest.importorskip("pyright")
    (tmp_path / "use.py").write_text(USE)
    (tmp_path / "slips.py").write_text("import regard\n\n" + "\n".join(SLIPS) + "\n")
    place = str(Path(regard.__file__).parents[1])
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict", "extraPaths": [place]}))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )
    found = [each for each in json.loads(done.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    in_use = [each["message"] for each in found if each["file"].endswith("use.py")]
    assert in_use == []
    said = {each["range"]["start"]["line"]: each["message"] for each in found}
    for line, word in enumerate(SLIPS.values(), start=2):
        assert word in said[line]
