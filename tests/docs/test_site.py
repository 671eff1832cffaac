"""The documentation site: which page stands where, and that it can be built without a warning and without a network."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def part_of_the_site(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"site_{name}", DOCS / "site" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_stands_in_the_contents_once() -> None:
    listed = Counter(part_of_the_site("contents").pages(DOCS))
    written = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")}
    assert [page for page, times in listed.items() if times > 1] == []
    assert written - listed.keys() == set(), (
        "link these pages under `All pages` of docs/index.md or docs/papers/index.md"
    )


def test_a_page_that_is_left_out_or_listed_twice_is_seen(tmp_path: Path) -> None:
    rows = "| [one](one.md) | |\n| [sub](sub/index.md) | |\n| [one](one.md) | |\n"
    (tmp_path / "index.md").write_text(f"[two](two.md)\n\n## All pages\n\n### Guides\n\n{rows}")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "index.md").write_text("## All pages\n\n### Papers\n\n- [three](three.md): 2017\n")
    assert part_of_the_site("contents").pages(tmp_path) == ["index", "one", "sub/index", "sub/three", "one"]


def test_sections_become_trees_with_what_the_site_adds() -> None:
    index = "## All pages\n\n### Guides\n\n| [one](one.md) | |\n\n### Reference\n\n- [two](two.md): files\n"
    made = part_of_the_site("contents").with_toctrees(index, {"Reference": ["api/index"]})
    assert made.startswith(index)
    assert re.findall(r":caption: (.*)\n\n((?:.+\n)+?)```", made) == [
        ("Guides", "one\n"),
        ("Reference", "api/index\ntwo\n"),
    ]


def test_live_pages_have_a_place_and_places_a_page() -> None:
    viewers = part_of_the_site("viewers")
    places = [name for page in DOCS.rglob("*.md") for name in viewers.PLACE.findall(page.read_text("utf-8"))]
    assert sorted(places) == sorted(viewers.LIVE)
    shown = viewers.embedded("before\n\n<!-- live: walk -->\n\nafter\n", "../")
    assert '<iframe src="../_static/live/walk.html" title="' in shown


def test_a_broken_link_a_missing_anchor_and_a_font_from_elsewhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">right</a> <a href="b.html#gone">no anchor</a> <a href="c.html">no page</a> <a href="#top">none</a>'
        '<a href="https://example.org/x#y">elsewhere</a> <script src="https://example.org/x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<p id="here">text</p> <img src="data:image/png;base64,AAAA">')
    (tmp_path / "a.css").write_text("@import url('//example.org/font.css'); body { background: url(a.png) }")
    found = part_of_the_site("links").check(tmp_path)
    assert sorted(found.broken) == ["a.html: #top", "a.html: b.html#gone", "a.html: c.html"]
    assert found.elsewhere == {"https://example.org/x"}
    assert sorted(found.loaded) == ["a.css: //example.org/font.css", "a.html: https://example.org/x.js"]
    assert (found.pages, found.inside) == (2, 4)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    for needed in ("sphinx", "myst_parser", "furo", "latex2mathml"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed (pip install 'regard[docs]')")
    command = [
        sys.executable,
        str(DOCS / "site" / "build.py"),
        str(tmp_path / "site"),
        "--work",
        str(tmp_path / "work"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONUTF8": "1"})
    assert done.returncode == 0, done.stderr[-4000:]
    found = part_of_the_site("links").check(tmp_path / "site")
    assert found.pages > 100
    assert found.broken == []
    assert found.loaded == []
    transformer = (tmp_path / "site" / "papers" / "transformer-2017.html").read_text("utf-8")
    assert "<math" in transformer
    assert "\\frac" not in transformer
    front = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert "reference/api/index.html" in front
    assert "reference/command-line/index.html" in front
    assert "regard train" in (tmp_path / "site" / "searchindex.js").read_text("utf-8")
    assert 'id="regard.look"' in (tmp_path / "site" / "reference" / "api" / "regard.html").read_text("utf-8")
