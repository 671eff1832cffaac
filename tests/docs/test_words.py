"""Words that readers had to read twice stay out of the pages and of every --help."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from regard.cli.main import main

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page for page in DOCS.glob("*.md") if page.name not in ("results.md", "figures.md"))
NOT_PROSE = re.compile(r"```.*?```|<!-- settings.*?/settings -->|`[^`\n]*`|\]\([^)]*\)", re.DOTALL)

PHRASES = {
    "vectors of words": "word embeddings",
    "gone on with": "continued or resumed",
    "go on with": "continue",
    "nobody told": "not in the training data",
    "what stands": "what is, or the token",
    "learnt": "learned",
    "perhaps gzip": "optionally gzipped",
    "it is told": "predicted, given or said",
    "is told of": "reported, or given",
    "graphics card": "GPU",
    "drawn at random": "random",
    "what it is that": "what",
    "whose past": "the cache of",
}


COMMANDS = (
    "",
    *("train", "evaluate", "predict", "translate", "generate", "prompt", "summarize", "classify", "fill", "tag"),
    *("answer", "embed", "search", "map", "look", "walk", "rank", "lens", "compare", "info", "export", "push"),
    *("check", "doctor", "plan", "bench", "caption", "compose", "serve", "studio", "claims", "claims run"),
    *("vectors train", "vectors extract", "vectors evaluate", "vectors bias", "vectors debias", "vectors convert"),
    *("vectors survey create", "vectors survey score"),
)


def phrases_in(text: str) -> list[str]:
    plain = " ".join(text.lower().split())
    return [f"{phrase!r}: write {better!r}" for phrase, better in PHRASES.items() if phrase in plain]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_none_of_these_phrases(page: Path) -> None:
    assert not phrases_in(NOT_PROSE.sub("", page.read_text("utf-8")))


@pytest.mark.parametrize("command", COMMANDS)
def test_no_help_has_these_phrases(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    found = capsys.readouterr().out
    assert not phrases_in(found)
    assert not re.search(r"\b(pictures?|drawn|beside|told)\b", re.sub(r"--\w+|\S+\.\w+", "", found)), command


def test_a_phrase_is_found_across_lines() -> None:
    assert phrases_in("a run may be gone on\nwith") == ["'gone on with': write 'continued or resumed'"]
