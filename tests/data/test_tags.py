"""Tag schemes: each into each and back, broken sequences as conlleval reads them, the scheme of a data set."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tags import SCHEMES, Span, convert, faults, repair, scheme_of, spans_of, tags_of, types_of
from regard.errors import InputError

MARKS = {"BIO": "BI", "IOB1": "BI", "BIOES": "BIES", "BILOU": "BILU"}
PAIRS = list(itertools.product(SCHEMES, SCHEMES))


@st.composite
def sentences(draw) -> tuple[list[Span], int]:
    """Some spans that stand apart, and the number of words."""
    spans, place = [], 0
    for _ in range(draw(st.integers(0, 4))):
        start = place + draw(st.integers(0, 2))
        place = start + draw(st.integers(1, 3))
        spans.append(Span(draw(st.sampled_from(["PER", "LOC", "creative-work", ""])), start, place))
    return spans, place + draw(st.integers(0, 2))


def any_tags(scheme: str):
    tag = st.sampled_from(["O", *(f"{mark}-{type}" for mark in MARKS[scheme] for type in ("A", "B-c"))])
    return st.lists(tag, max_size=10)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(sentence=sentences())
@settings(max_examples=60, deadline=None)
def test_spans_come_back_out_of_their_tags(scheme: str, sentence: tuple[list[Span], int]) -> None:
    spans, length = sentence
    tags = tags_of(spans, length, scheme)
    assert len(tags) == length
    assert spans_of(tags, scheme) == spans
    assert faults(tags, scheme) == []


@pytest.mark.parametrize(("source", "target"), PAIRS)
@given(sentence=sentences())
@settings(max_examples=20, deadline=None)
def test_each_scheme_into_each_and_back(source: str, target: str, sentence: tuple[list[Span], int]) -> None:
    tags = tags_of(*sentence, source)
    there = convert(tags, source, target)
    assert there == tags_of(*sentence, target)
    assert convert(there, target, source) == tags


@pytest.mark.parametrize("scheme", SCHEMES)
def test_any_tags_of_a_scheme_can_be_read_and_put_right(scheme: str) -> None:
    @given(tags=any_tags(scheme))
    @settings(max_examples=100, deadline=None)
    def check(tags: list[str]) -> None:
        right = repair(tags, scheme)
        assert repair(right, scheme) == right
        assert spans_of(right, scheme) == spans_of(tags, scheme)
        assert [place for place in range(len(tags)) if right[place] != tags[place]] == faults(tags, scheme)
        assert [tag == "O" for tag in right] == [tag == "O" for tag in tags]

    check()


def test_the_schemes_by_example() -> None:
    spans = [Span("PER", 0, 2), Span("PER", 2, 3), Span("LOC", 4, 7)]
    assert tags_of(spans, 8, "BIO") == ("B-PER", "I-PER", "B-PER", "O", "B-LOC", "I-LOC", "I-LOC", "O")
    assert tags_of(spans, 8, "IOB1") == ("I-PER", "I-PER", "B-PER", "O", "I-LOC", "I-LOC", "I-LOC", "O")
    assert tags_of(spans, 8, "BIOES") == ("B-PER", "E-PER", "S-PER", "O", "B-LOC", "I-LOC", "E-LOC", "O")
    assert tags_of(spans, 8, "BILOU") == ("B-PER", "L-PER", "U-PER", "O", "B-LOC", "I-LOC", "L-LOC", "O")
    assert tags_of(spans[:1], 2, "IOB2") == tags_of(spans[:1], 2, "BIO")
    assert tags_of(spans[:1], 2, "IOBES") == tags_of(spans[:1], 2, "BIOES")
    assert tags_of([Span("", 0, 2)], 3) == ("B", "I", "O")


# What conlleval makes of sequences that no scheme allows.
BROKEN = [
    ("BIO", "O I-A I-A O", [("A", 1, 3)]),
    ("BIO", "B-A I-B I-B", [("A", 0, 1), ("B", 1, 3)]),
    ("BIO", "I-A B-A I-A", [("A", 0, 1), ("A", 1, 3)]),
    ("BIO", "I-A I-A", [("A", 0, 2)]),
    ("BIO", "B B I", [("", 0, 1), ("", 1, 3)]),
    ("BIO", "B-A-b I-A-b I-A", [("A-b", 0, 2), ("A", 2, 3)]),
    ("IOB1", "B-A I-A O B-A", [("A", 0, 2), ("A", 3, 4)]),
    ("BIOES", "B-A B-A E-A", [("A", 0, 1), ("A", 1, 3)]),
    ("BIOES", "E-A E-A", [("A", 0, 1), ("A", 1, 2)]),
    ("BIOES", "B-A E-B I-B", [("A", 0, 1), ("B", 1, 2), ("B", 2, 3)]),
    ("BIOES", "S-A I-A S-A", [("A", 0, 1), ("A", 1, 2), ("A", 2, 3)]),
    ("BIOES", "B-A O I-A E-A", [("A", 0, 1), ("A", 2, 4)]),
    ("BIOES", "B-A E-A B-A E-A", [("A", 0, 2), ("A", 2, 4)]),
    ("BILOU", "U-A L-A I-A L-A", [("A", 0, 1), ("A", 1, 2), ("A", 2, 4)]),
]


@pytest.mark.parametrize(("scheme", "tags", "wanted"), BROKEN)
def test_broken_sequences(scheme: str, tags: str, wanted: list[tuple[str, int, int]]) -> None:
    assert spans_of(tags.split(), scheme) == wanted


def test_conll_2003_is_iob1_and_comes_out_as_bio() -> None:
    sentences = [["I-ORG", "O", "I-MISC", "O"], ["I-PER", "I-PER"], ["O", "I-LOC", "B-LOC", "I-LOC"]]
    assert scheme_of(sentences) == "IOB1"
    assert [convert(tags, "IOB1", "BIO") for tags in sentences] == [
        ("B-ORG", "O", "B-MISC", "O"),
        ("B-PER", "I-PER"),
        ("O", "B-LOC", "B-LOC", "I-LOC"),
    ]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_scheme_of_a_data_set_is_found_even_with_a_few_faults(scheme: str) -> None:
    spans = [[Span("A", 0, 2), Span("A", 2, 3)], [Span("B", 1, 2)], [Span("A", 0, 3)], [Span("B", 2, 4)]]
    data = [list(tags_of(each, 5, scheme)) for each in spans] * 5
    assert scheme_of(data) == scheme
    data[0][0] = data[0][0].replace("I-", "B-") if scheme == "IOB1" else data[0][0].replace("B-", "I-")
    assert faults(data[0], scheme)
    assert scheme_of(data) == scheme


def test_the_scheme_of_little_data() -> None:
    assert scheme_of([]) == scheme_of([["O", "O"]]) == "BIO"
    assert scheme_of([["B-A", "O"]]) == "BIO"
    assert scheme_of([["I-A", "O"]]) == "IOB1"
    assert scheme_of([["S-A", "O"]]) == "BIOES"
    assert scheme_of([["B-A", "L-A"]]) == "BILOU"


def test_types() -> None:
    assert types_of([["S-b", "O"], ["B-a-c", "E-a-c"]], "BIOES") == ["a-c", "b"]


def test_unknown_tags_and_schemes_are_named() -> None:
    with pytest.raises(InputError, match=r"tag 'S-PER' is not in the scheme BIO, which has O, and B, I"):
        spans_of(["O", "S-PER"])
    with pytest.raises(InputError, match="tag 'o'"):
        convert(["o"], "BIO", "BIOES")
    with pytest.raises(InputError, match="tag ''"):
        spans_of([""])
    with pytest.raises(InputError, match="scheme 'BIOSE' is not known; did you mean 'BIOES'"):
        repair([], "BIOSE")
    with pytest.raises(InputError, match=r"the tags \('NNP', 'VB'\) do not encode spans"):
        scheme_of([["NNP", "VB"]])
    with pytest.raises(InputError, match="do not encode spans"):
        scheme_of([["S-A", "U-A"]])


@pytest.mark.parametrize("spans", [[("A", 0, 2), ("A", 1, 3)], [("A", 1, 1)], [("A", 2, 4)], [("A", -1, 1)]])
def test_spans_that_cannot_be_written_are_refused(spans: list[tuple[str, int, int]]) -> None:
    with pytest.raises(InputError, match="do not overlap"):
        tags_of([Span(*span) for span in spans], 3)
