"""A walk on the terminal."""

from __future__ import annotations

import io
import re

import pytest
import torch
from rich.console import Console

from regard.attention import AttentionInputs, Causal, ScaledDot, ScoredAttention
from regard.inspection import Walk, walk, walk_attention
from regard.inspection.walk.terminal import render


def printed(seen: Walk, width: int = 100, **options) -> str:
    console = Console(file=io.StringIO(), width=width, **options)
    console.print(render(seen))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture
def seen(translator) -> Walk:
    return walk(translator("transformer", norm="post"), "abcd", "c", layer="encoder.layers.0.attention")


def small(keys=("a", "b"), **more) -> Walk:
    inputs = AttentionInputs(
        query=torch.tensor([[[[2.0, 0.0]]]]), key=torch.tensor([[[[1.0, 5.0], [-3.0, 0.0]]]]), **more
    )
    return walk_attention(ScoredAttention(ScaledDot()), inputs, torch.eye(2).view(1, 1, 2, 2), keys=keys)


def test_steps_are_numbered_and_have_their_lines_and_numbers(seen):
    text = printed(seen)
    flat = " ".join(text.split())
    for number, title in enumerate(["Queries, keys, values", "Scores", "Scale", "Softmax", "Weigh", "Sum"], start=1):
        assert f"{number} · {title} ─" in text
    for step in seen.steps:
        wanted = [step.sentence, step.equation, *step.notes, *(f"{line.file}:{line.line}" for line in step.lines)]
        assert [each for each in wanted if " ".join(each.split()) not in flat] == []
    assert f"{seen.weights.max():.6f}" in text
    assert "(S, E) = (5, 4)" in text


def test_bars_grow_with_the_number_and_show_its_sign():
    scores = printed(small()).partition("2 · Scores")[2].partition("3 · Scale")[0]
    a = re.search(r"a +2\.00 +(█+)\n", scores)
    b = re.search(r"b +-6\.00 +(░+)\n", scores)
    assert a is not None
    assert b is not None
    assert len(b[1]) == pytest.approx(3 * len(a[1]), abs=2)


@pytest.mark.parametrize("token", ["[bold red]x[/]", "\x1b[31mred", "\u202etxet", "a\nb", ""])
def test_markup_and_control_characters_in_tokens_are_text(token):
    text = printed(small(keys=[token, "b"]), force_terminal=False)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold␣red]x" in text or "bold" not in token


def test_colour_only_where_there_is_some(seen):
    assert "\x1b[" not in printed(seen)
    assert "\x1b[48;2;" in printed(seen, force_terminal=True, color_system="truecolor")
    assert "\x1b[48;2;" not in printed(seen, force_terminal=True, color_system="truecolor", no_color=True)


@pytest.mark.parametrize("width", [24, 40, 80, 200])
def test_no_line_is_wider_than_the_console(width, seen):
    assert max(map(len, printed(seen, width=width).splitlines())) <= width


def test_what_may_not_be_seen_says_so():
    assert printed(small(mask=Causal())).count("may not be seen\n") == 4
