"""The lines of code in a walk are those of the code."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

import regard
from regard.attention import ScaledDot
from regard.attention.kernels import fused
from regard.inspection import walk
from regard.inspection.walk import steps

WALKED = [
    ("transformer", {"norm": "post"}, "encoder.layers.0.attention"),
    ("transformer", {"norm": "pre"}, None),
    ("bahdanau", {}, None),
    ("bahdanau", {"score": "general"}, None),
    ("luong", {"attention": "local_p"}, None),
    ("luong", {"attention": "local_m", "score": "concat"}, None),
    ("luong", {"attention": "global", "score": "location"}, None),
]


@pytest.mark.parametrize(("family", "changes", "layer"), WALKED)
def test_every_line_stands_in_its_file(family, changes, layer, translator, monkeypatch):
    def missing(function):
        raise AssertionError(f"a line of {function.__qualname__} is no longer there: the whole function would be shown")

    monkeypatch.setattr(steps, "body", missing)
    looked_at = translator(family, **changes)
    seen = walk(looked_at, "abcd", position=1, target="DCB", layer=layer)
    root = Path(regard.__file__).parents[1]
    lines = [(step, line) for step in seen.steps for line in step.lines]
    for step in seen.steps:
        assert step.lines or step.title == "Content and position"
    for _, line in lines:
        text = (root / line.file).read_text("utf-8").splitlines()
        height = line.text.count("\n") + 1
        assert textwrap.dedent("\n".join(text[line.line - 1 : line.line - 1 + height])).rstrip() == line.text
        assert line.symbol.rpartition(".")[2] in (root / line.file).read_text("utf-8")


def test_the_steps_stand_beside_the_lines_that_compute_them(translator):
    seen = walk(translator("transformer"), "abcd", position=0, target="DCB")
    symbols = {step.title: [line.symbol for line in step.lines] for step in seen.steps}
    assert symbols["Queries, keys, values"] == ["AttentionLayer.queries", "AttentionLayer.keys_values"]
    assert symbols["Scores"] == symbols["Scale"] == ["ScoredAttention.aligned", "ScaledDot.forward"]
    assert symbols["Softmax"] == ["ScoredAttention.aligned", "Soft.forward"]
    assert symbols["Weigh"] == symbols["Sum"] == ["Attention.forward"]
    assert symbols["The same by the model's own path"] == ["fused"]


def test_a_statement_is_shown_whole_and_a_line_far_inside_one_alone():
    (call,) = steps.statement(fused, "scaled_dot_product_attention(")
    assert call.text.startswith("output = F.scaled_dot_product_attention(\n    query,")
    assert call.text.endswith(")")
    (inner,) = steps.statement(fused, "is_causal=")
    assert inner.text == "is_causal=causal,"


def test_what_is_gone_from_the_code_shows_all_of_the_function_and_nothing_else():
    (whole,) = steps.statement(ScaledDot.forward, "no such words")
    assert whole.text == "return query @ key.transpose(-2, -1) / query.shape[-1] ** self.power"
    assert steps.body(ScaledDot.forward) == (whole,)


def test_code_without_a_file_shows_none():
    namespace: dict = {}
    exec("def typed(x):\n    return x + 1", namespace)
    assert steps.statement(namespace["typed"], "return") == ()
    assert steps.body(namespace["typed"]) == ()
    assert steps.statement(len, "x") == ()


def test_where_the_package_lies_is_not_told():
    (line,) = steps.body(ScaledDot.forward)
    assert line.file == "regard/attention/scores.py"
