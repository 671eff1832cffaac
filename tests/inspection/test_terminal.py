from __future__ import annotations

import io
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from regard.errors import InputError
from regard.inspection.terminal import render
from regard.inspection.view import AttentionMap, AttentionView


def printed(renderable, *, width: int = 80, colour: bool = False, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    console = Console(
        file=io.TextIOWrapper(raw, encoding=encoding, write_through=True),
        width=width,
        force_terminal=colour,
        color_system="truecolor" if colour else None,
        legacy_windows=False,
        _environ={},
    )
    console.print(renderable)
    return raw.getvalue().decode(encoding)


def test_the_figure_of_a_small_matrix():
    view = AttentionView.of([[1, 0, 0.5], [0, 0.25, 0.75]], ["la", "maison"], ["the", "big", "o"])
    assert printed(render(view)).splitlines() == [
        "attention",
        "       t b",
        "       h i",
        "       e g o",
        "    la ██  ▒▒",
        "maison   ░░▓▓",
        "0 ▕░▒▓█▏ 1  rows: output, columns: source",
    ]


def test_colour_is_used_where_the_console_has_it_and_not_where_it_has_not():
    view = AttentionView.of(np.eye(2), ["a", "b"], ["c", "d"])
    assert "\x1b[48;2;253;231;37m" in printed(render(view), colour=True)  # the bright end, for 1
    assert "\x1b[48;2;68;1;84m" in printed(render(view), colour=True)  # the dark end, for 0
    plain = printed(render(view))
    assert "\x1b" not in plain
    assert "██" in plain
    assert "\x1b[48" not in printed(render(view, colour=False), colour=True)


def test_a_console_without_block_characters_gets_others():
    text = printed(render(AttentionView.of(np.eye(2), ["a", "b"], ["c", "d"])), encoding="ascii")
    assert "a ##" in text
    assert text.isascii()


def test_a_causal_map_marks_what_cannot_be_attended():
    weights = [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]]
    causal = AttentionView.of(weights, ["a", "b", "c"], ["a", "b", "c"])
    lines = printed(render(causal)).splitlines()
    assert [line.rstrip() for line in lines[2:]] == [
        "a ██· ·",
        "b ▒▒▒▒·",
        "c     ██",
        "0 ▕░▒▓█▏ 1  rows: queries, columns: keys, · cannot be attended",
    ]
    assert "a ##x x" in printed(render(causal), encoding="ascii")
    assert "·" in printed(render(causal), colour=True)
    narrow = printed(render(causal), width=6).splitlines()
    assert [line for line in narrow if line.startswith("b ")] == ["b ▒▒▒▒", "b ·"]
    for other in (np.eye(3), np.ones((3, 3))):  # an identity says nothing of what could be attended
        assert "·" not in printed(render(AttentionView.of(other, ["a", "b", "c"], ["a", "b", "c"]))).replace(" · ", "")


def test_the_last_queries_of_a_causal_map_are_the_last_places():
    item = AttentionMap(
        address="x",
        kind="self",
        query_tokens=("b", "c"),
        key_tokens=("a", "b", "c"),
        weights=[[[0.5, 0.5, 0], [0, 0, 1]]],
    )
    assert item.is_causal
    assert [line for line in printed(render(item)).splitlines() if line.startswith("b ")] == ["b ▒▒▒▒·"]


def test_heads_are_averaged_unless_chosen():
    weights = np.stack([np.eye(2), np.eye(2)[::-1]])
    view = AttentionView.of(weights, ["a", "b"], ["c", "d"])
    mean = printed(render(view))
    assert "mean of 2 heads" in mean
    assert "a ████" in mean  # 0.5 everywhere, which is then the largest
    chosen = printed(render(view, heads=[1, 0])).splitlines()
    assert [line for line in chosen if "head" in line] == ["attention · head 1", "attention · head 0"]
    assert [line for line in chosen if line.startswith("a ")] == ["a   ██", "a ██"]
    for heads, message in [([2], "heads 0 to 1"), ([-1], "heads 0 to 1"), ([], "empty")]:
        with pytest.raises(InputError, match=message):
            render(view, heads=heads)
    with pytest.raises(InputError, match="width"):
        render(view, width=0)


def test_a_long_source_goes_on_in_blocks_that_hold_every_column_once():
    keys = [chr(ord("a") + i % 26) for i in range(100)]
    weights = np.zeros((1, 100))
    weights[0, 60] = 1
    lines = printed(render(AttentionView.of(weights, ["q"], keys)), width=40).splitlines()
    starts = [line for line in lines if line.startswith("source ")]
    assert starts[0] == "source 0 to 18 of 0 to 99"
    assert starts[-1] == "source 95 to 99 of 0 to 99"
    labels = [line for line in lines if re.fullmatch(r"  ([a-z] ?)+", line)]
    assert "".join(labels).replace(" ", "") == "".join(keys)
    rows = [line for line in lines if line.startswith("q")]
    assert rows[60 // 19] == "q " + "  " * (60 % 19) + "██"


def test_negative_weights_have_a_sign():
    text = printed(render(AttentionView.of([[-1.0, 1.0]], ["q"], ["a", "b"])))
    assert "q -███" in text
    assert "-1 ▕" in text
    coloured = printed(render(AttentionView.of([[-1.0, 1.0]], ["q"], ["a", "b"])), colour=True)
    assert "48;2;45;0;75" in coloured
    assert "48;2;127;59;8" in coloured


def test_zeros_alone_are_no_error():
    assert "0 ▕░▒▓█▏ 1" in printed(render(AttentionView.of(np.zeros((2, 2)), ["a", "b"], ["c", "d"])))


def test_tokens_cannot_command_the_terminal():
    view = AttentionView.of(np.eye(2), ["\x1b[31mred", "\u202eback"], ["\x07", "a\nb"], title="\x1b]0;x\x07")
    text = printed(render(view))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "\\x1b[31mred" in text


def test_every_map_and_example_is_headed():
    maps = [
        AttentionMap(address=a, kind="self", query_tokens=["q"], key_tokens=["k"], weights=[[[1]]], example=e)
        for a in ("layer.0", "layer.1")
        for e in (0, 1)
    ]
    text = printed(render(AttentionView(title="", maps=tuple(maps), examples=("first", "second"))))
    for heading in ("first · layer.0", "second · layer.0", "first · layer.1", "second · layer.1"):
        assert heading in text.splitlines()
    assert printed(render(maps[0])).splitlines()[0] == "layer.0"


tokens = st.text(st.sampled_from("ab 日語émר\u05b8ש\u0301مرक्ष👩\u200d👧\t\u0e33"), max_size=30)


@settings(max_examples=40, deadline=None)
@given(st.lists(tokens, min_size=1, max_size=4), st.lists(tokens, min_size=1, max_size=30), st.integers(24, 90))
def test_columns_line_up_whatever_the_script(queries, keys, width):
    view = AttentionView.of(np.ones((len(queries), len(keys))), queries, keys)
    lines = printed(render(view), width=width).splitlines()
    assert all(cell_len(line) <= width for line in lines[:-2])
    cells = [line for line in lines if "█" in line and "▕" not in line]
    begins = {cell_len(line[: line.index("█")]) for line in cells}
    assert len(begins) == 1  # in every row and block the cells start in the same column
    assert sum(line.count("█") for line in cells) == 2 * len(queries) * len(keys)
