"""Documents with one deciding sentence: what decides is where they say it is, and nothing else tells."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.synthetic_texts import CUE, CueDocuments
from regard.errors import InputError


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["train", "validation", "test"]), st.integers(1, 9), st.integers(2, 12), st.integers(0, 5))
def test_the_cue_and_its_word_stand_where_they_are_said_to_and_nowhere_else(split, sentences, words, seed):
    for document in CueDocuments(split, sentences=sentences, words=words, fillers=9, size=3, seed=seed):
        lines = [line.split() for line in document.text.split("\n\n")]
        assert [len(line) for line in lines] == [words] * sentences
        cue, told = (lines[document.sentence][place] for place in document.words)
        assert cue == CUE
        assert told.rstrip("12345") == document.label
        assert document.text.split().count(CUE) == 1
        for line in lines:
            assert sum(word.startswith(("good", "bad")) for word in line) <= 1


def test_classes_and_distractors_are_as_often_and_apart():
    documents = CueDocuments("train", size=2_000)
    labels = Counter(document.label for document in documents)
    assert abs(labels["good"] - 1_000) < 100
    agreeing, distractors = 0, 0
    for document in documents:
        for number, line in enumerate(document.text.split("\n\n")):
            words = [word for word in line.split() if word.startswith(("good", "bad"))]
            if words and number != document.sentence:
                distractors += 1
                agreeing += words[0].startswith(document.label)
    assert distractors == pytest.approx(2_000 * 7 / 2, rel=0.05)
    assert agreeing / distractors == pytest.approx(0.5, abs=0.03)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["train", "test"]), st.integers(1, 6), st.integers(3, 9), st.integers(0, 5))
def test_balanced_documents_leave_nothing_to_count(split, sentences, words, seed):
    for document in CueDocuments(split, sentences=sentences, words=words, balanced=True, fillers=9, size=3, seed=seed):
        lines = [line.split() for line in document.text.split("\n\n")]
        assert [len(line) for line in lines] == [words] * sentences
        for line in lines:
            assert Counter(word.rstrip("12345") for word in line if word.startswith(("good", "bad"))) == {
                "good": 1,
                "bad": 1,
            }
        cue, decides = document.words
        assert decides == cue + 1
        assert lines[document.sentence][cue] == CUE
        assert lines[document.sentence][decides].rstrip("12345") == document.label
        assert document.text.split().count(CUE) == 1


def test_splits_share_no_document_and_a_document_is_a_function_of_its_number():
    found = {
        split: {d.text for d in CueDocuments(split, sentences=1, words=2, fillers=2, size=60)}
        for split in ("train", "test")
    }
    assert not found["train"] & found["test"]
    assert CueDocuments("test", size=9)[7] == CueDocuments("test", size=900)[7]
    assert CueDocuments("test", size=9, seed=1)[7] != CueDocuments("test", size=9)[7]
    assert CueDocuments(size=5)[-1] == CueDocuments(size=5)[1:][3]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"split": "tset"}, "test"),
        ({"words": 1}, "1 words"),
        ({"words": 2, "balanced": True}, "3 words"),
        ({"sentences": 0}, "0 sentences"),
        ({"size": -1}, "got -1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(change, said):
    with pytest.raises(InputError, match=said):
        CueDocuments(**change)
