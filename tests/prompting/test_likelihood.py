"""Continuations from a state that was read once, beside the plain reading of each whole text."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.prompting.evaluation import token_log_likelihoods
from regard.prompting.template import common, continued

SHARED = "the cat sat on the mat.\n"
QUESTIONS = [
    (SHARED + "a dog", (" ran", " sat on the hill", " over")),
    (SHARED + "rain falls on", (" the plain.", " the")),
    (SHARED, ("the", "a dog ran over the hill and the plain")),
    (SHARED + "the hill and the mat and on the plain the dog", (" ran", " sat")),
]


@pytest.mark.parametrize("name", ["gpt2", "gpt3", "lstm"])
@pytest.mark.parametrize("batch_size", [1, 3, 50])
def test_a_prefix_read_once_gives_what_the_plain_reading_gives(built, plainly, name, batch_size):
    model = built(name)
    groups = [continued(model, before, texts) for before, texts in QUESTIONS]
    found = token_log_likelihoods(model, groups, batch_size=batch_size)
    for (before, texts), group in zip(QUESTIONS, found, strict=True):
        for text, each in zip(texts, group, strict=True):
            assert each.log_probabilities == pytest.approx(plainly(model, before, text), abs=1e-5)
    assert token_log_likelihoods(model, []) == []


def test_whether_each_token_was_the_most_probable(built):
    model = built(kind="character")
    written = model.generate("the cat").text[:3]
    (found,) = token_log_likelihoods(
        model, [continued(model, "the cat", [written, written[:2] + "=", "=" + written[1:]])]
    )
    assert [each.right for each in found[:2]] == [(True, True, True), (True, True, False)]
    assert found[2].right[0] is False


def test_what_is_shared_is_read_once(built, monkeypatch):
    """Tokens read: the common beginning once, each question's own part once, each continuation's tail."""
    model = built()
    groups = [continued(model, before, texts) for before, texts in QUESTIONS]
    read, real = [], type(model.model).read

    def counted(self, tokens, state):
        read.append(int(tokens.valid.sum()))
        return real(self, tokens, state)

    monkeypatch.setattr(type(model.model), "read", counted)
    token_log_likelihoods(model, groups)
    shared = 0
    while len({group[0].ids[: shared + 1] for group in groups}) == 1 and shared + 1 < min(g[0].start for g in groups):
        shared += 1
    own = sum(group[0].start - 1 - shared for group in groups)
    tails = sum(len(each.ids) - each.start for group in groups for each in group)
    assert sum(read) == shared + own + tails
    assert shared > 8
    assert sum(read) < sum(len(each.ids) - 1 for group in groups for each in group) / 1.5


def test_long_beginnings_are_read_in_parts(built, plainly, monkeypatch):
    monkeypatch.setattr("regard.prompting.evaluation.LOGITS", 200)
    model = built("lstm")
    before = SHARED * 3
    (found,) = token_log_likelihoods(model, [continued(model, before, ["the dog"])])
    assert found[0].log_probabilities == pytest.approx(plainly(model, before, "the dog"), abs=1e-5)


def test_a_token_across_the_border_is_told_whole_for_every_continuation(built):
    """The model reads " hi" and "ll" as one token, so all choices are told from before it."""
    model = built(kind="byte_bpe")
    tokenizer = model.task.tokenizer
    assert len(tokenizer.encode(" hill")) == 1
    group = continued(model, "the hi", ["ll", "de"])
    assert {each.start for each in group} == {1 + common(tokenizer.encode("the hi"), tokenizer.encode("the hill"))}
    assert all(
        tokenizer.decode(each.ids[each.start :]).endswith(end)
        for each, end in zip(group, ("hill", "hide"), strict=True)
    )


def test_a_continuation_of_nothing_is_refused(built):
    with pytest.raises(InputError, match="the continuation '' has no tokens"):
        continued(built(), "the", ["", "a"])


@settings(max_examples=60, deadline=None)
@given(one=st.lists(st.integers(0, 2), max_size=6), other=st.lists(st.integers(0, 2), max_size=6))
def test_common_beginnings(one, other):
    count = common(one, other)
    assert one[:count] == other[:count]
    assert count == min(len(one), len(other)) or one[count] != other[count]


def test_nothing_is_kept_for_gradients(built):
    model = built()
    with torch.enable_grad():
        token_log_likelihoods(model, [continued(model, "the", [" cat"])])
    assert all(parameter.grad is None for parameter in model.model.parameters())
