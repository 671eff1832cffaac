"""Every number of the papers that is computed again: it agrees, or it differs as its note says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def table():
    """The script that holds the table, which is no module of the package."""
    spec = importlib.util.spec_from_file_location("docs_published_numbers", DOCS / "published_numbers.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = table()
ROWS = [(title, row) for title, rows in TABLE.rows() for row in rows]


@pytest.mark.parametrize(("title", "row"), ROWS, ids=[f"{row.paper}, {row.what}" for _, row in ROWS])
def test_a_number_agrees_or_its_note_says_why_not(title, row):
    if not row.note:
        assert row.agrees, f"{row.printed} is printed, {row.computed} computed"
    else:
        assert not row.agrees, f"{row.printed} agrees with {row.computed}: take the note away"
        assert abs(row.difference) <= row.within


def test_what_is_printed_is_read_with_its_last_digit():
    def row(printed, value=0.0):
        return TABLE.Row(paper="", place="", what="", printed=printed, compute=lambda: value)

    assert (row("65M").value, row("65M").half) == (65e6, 0.5e6)
    assert (row("2.3e19").value, row("2.3e19").half) == (2.3e19, pytest.approx(0.05e19))
    assert row("24.9 %", 0.2487).agrees
    assert not row("24.9 %", 0.2496).agrees
    assert row("1,320M", 1_315_700_000).computed == "1,315.70M"


def test_the_page_is_what_the_table_writes():
    assert (DOCS / "published-numbers.md").read_text("utf-8") == TABLE.page(), "run python docs/published_numbers.py"
