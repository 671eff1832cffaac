"""Every number of the papers that is computed again: it agrees, or it differs as its note says."""

from __future__ import annotations

import pytest
from test_docs import DOCS, of_the_docs

TABLE = of_the_docs("published_numbers")
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
