"""The notebooks: valid, clean, without outputs, runnable from a fresh kernel, and readable by Jupyter, VS Code and marimo.

No outputs are committed: their numbers depend on the processor, the threads and the version of PyTorch, and a page of attention
is hundreds of kilobytes that no review reads.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SAID = {
    "claims": "rank-collapse",
    "dates": "2017-05-09",
    "gpt-playback": "s14| s7| s1| s19| s5| s11| s2|",
    "serving": "s14 s7 s1 s19 s5 s11 s2",
    "vit-digits": "digit 0: classified as 0",
    "word-embeddings-audit": "direct bias: 0.000000",
    "your-bert": "the output is the same bit for bit: True",
    "your-score": "sharpness learned",
}
"""What each prints, among other things, when it is run."""

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path, kind: str) -> list[str]:
    held = json.loads(path.read_text("utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in held if cell["cell_type"] == kind]


def defined(code: str) -> set[str]:
    """The names that a cell defines for the others: what marimo allows one cell alone to do."""

    def names(node: ast.AST) -> Iterator[str]:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from ((alias.asname or alias.name).partition(".")[0] for alias in aliases)
            case (
                ast.ListComp()
                | ast.SetComp()
                | ast.DictComp()
                | ast.GeneratorExp()
                | ast.Lambda()
                | ast.ExceptHandler()
            ):
                pass
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case _:
                for child in ast.iter_child_nodes(node):
                    yield from names(child)

    return {name for name in names(ast.parse(code)) if not name.startswith("_")}


def test_they_are_those_that_are_known_and_linked():
    assert [path.stem for path in NOTEBOOKS] == sorted(SAID)
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    assert re.findall(r"^\| \[[^\]]+\]\(\.\./notebooks/([\w-]+)\.ipynb\)", index, re.MULTILINE) != []
    assert sorted(re.findall(r"\(\.\./notebooks/([\w-]+)\.ipynb\)", index)) == sorted(SAID)


@each
def test_it_is_a_valid_notebook_without_outputs(path):
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert 8 <= len(notebook.cells) <= 20
    assert notebook.cells[0].cell_type == "markdown"
    title, _, rest = notebook.cells[0].source.partition("\n")
    assert title.startswith("# ")
    assert "Needed: `pip install" in rest
    for cell in notebook.cells:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


@each
def test_its_code_compiles_and_each_name_is_defined_in_one_cell(path):
    found = Counter(name for code in cells(path, "code") for name in defined(code))
    assert [name for name, times in found.items() if times > 1] == []
    assert not any(line.startswith(("%", "!")) for code in cells(path, "code") for line in code.splitlines())


@each
def test_the_extras_that_it_names_are_the_packages(path):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    (named,) = re.findall(r"'regard\[([\w,]+)\]'", cells(path, "markdown")[0])
    assert set(named.split(",")) <= extras.keys()


def test_ruff_finds_nothing():
    for command in (["check", "-q"], ["format", "--check", "-q"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, str(ROOT / "notebooks")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@each
@pytest.mark.slow
def test_it_runs_from_a_fresh_kernel(path, tmp_path, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    if path.stem == "your-bert":
        pytest.importorskip("transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    notebook: Any = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")
    assert SAID[path.stem] in printed
    assert [output.text for output in outputs if output.output_type == "stream" and output.name == "stderr"] == []
