"""Spans encoded as one tag per word: the schemes BIO, IOB1, BIOES and BILOU, and conversion between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, get_args

from regard.errors import InputError, nearest

Scheme = Literal["BIO", "IOB1", "BIOES", "BILOU"]
SCHEMES: tuple[str, ...] = get_args(Scheme)
OUTSIDE = "O"

_ALIASES = {"IOB2": "BIO", "IOBES": "BIOES"}
# The meaning of each scheme's marks in the letters of BIOES: begin, inside, end, single.
_MARKS = {
    "BIO": {"B": "B", "I": "I"},
    "IOB1": {"B": "B", "I": "I"},
    "BIOES": {"B": "B", "I": "I", "E": "E", "S": "S"},
    "BILOU": {"B": "B", "I": "I", "L": "E", "U": "S"},
}


class Span(NamedTuple):
    """Consecutive words with a type: words `start` to `end`, where `end` is exclusive."""

    type: str
    start: int
    end: int


def spans_of(tags: Sequence[str], scheme: Scheme | str = "BIO") -> list[Span]:
    """The spans that a sequence of tags encodes, in order.

    Invalid sequences are read as by the CoNLL evaluation script `conlleval`: a span begins at every B, and at every other mark
    that does not continue a span of its own type (such as an I after O or after another type). It ends before O, before the
    next beginning, and at the end of the sequence. So BIO and IOB1 are read in the same way. In BIOES and BILOU a span also
    begins and ends at S (U), and ends at E (L). `conlleval` itself does not know S and lets a B after E continue the span; it
    finds the same spans if the tags are first converted to BIO.

    Arguments:
        tags: each `O`, or a mark, a hyphen and a type, such as `B-PER`. The type may contain hyphens; type and hyphen may be
            left out.
        scheme: the scheme of the tags; `IOB2` and `IOBES` are aliases of `BIO` and `BIOES`.

    Raises:
        InputError: for a tag that is not in the scheme, or an unknown scheme.

    >>> spans_of(["B-PER", "I-PER", "O", "I-LOC", "I-ORG"])
    [Span(type='PER', start=0, end=2), Span(type='LOC', start=3, end=4), Span(type='ORG', start=4, end=5)]
    """
    marks = _marks(scheme)
    spans: list[Span] = []
    type, start = None, 0  # of the open span; type is None if no span is open
    for place, tag in enumerate(tags):
        mark, kind = _parted(tag, marks, scheme)
        begins = mark in ("B", "S") or (mark != OUTSIDE and kind != type)
        if type is not None and (begins or mark == OUTSIDE):
            spans.append(Span(type, start, place))
            type = None
        if begins:
            type, start = kind, place
        if type is not None and mark in ("E", "S"):
            spans.append(Span(type, start, place + 1))
            type = None
    if type is not None:
        spans.append(Span(type, start, len(tags)))
    return spans


def tags_of(spans: Iterable[Span], length: int, scheme: Scheme | str = "BIO") -> tuple[str, ...]:
    """The tags of `length` words that encode these spans.

    Raises:
        InputError: if spans overlap, are empty or are out of range; for an unknown scheme.

    >>> tags_of([Span("PER", 0, 2), Span("PER", 2, 3)], 4, "IOB1")
    ('I-PER', 'I-PER', 'B-PER', 'O')
    """
    written = {role: mark for mark, role in _marks(scheme).items()}
    tags = [OUTSIDE] * length
    before = Span("", 0, 0)
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        if not before.end <= span.start < span.end <= length:
            raise InputError(
                f"{span} overlaps another, is empty, or is not within {length} words; give spans that do not overlap"
            )
        roles = ["B", *["I"] * (span.end - span.start - 1)]
        if "E" in written:
            roles[-1] = "S" if len(roles) == 1 else "E"
        elif _named(scheme) == "IOB1" and not (before.end == span.start > 0 and before.type == span.type):
            roles[0] = "I"  # IOB1 uses B only for a span directly after another of the same type
        tags[span.start : span.end] = [f"{written[role]}-{span.type}" if span.type else written[role] for role in roles]
        before = span
    return tuple(tags)


def convert(tags: Sequence[str], source: Scheme | str, target: Scheme | str) -> tuple[str, ...]:
    """The same spans in another scheme. Invalid sequences become valid ones, read as by `spans_of`.

    Raises:
        InputError: as `spans_of`.

    >>> convert(["I-PER", "I-PER", "B-PER", "O"], "IOB1", "BIOES")
    ('B-PER', 'E-PER', 'S-PER', 'O')
    """
    return tags_of(spans_of(tags, source), len(tags), target)


def repair(tags: Sequence[str], scheme: Scheme | str = "BIO") -> tuple[str, ...]:
    """Valid tags for the same spans; valid sequences are returned unchanged.

    Raises:
        InputError: as `spans_of`.

    >>> repair(["O", "I-PER", "I-LOC"])
    ('O', 'B-PER', 'B-LOC')
    """
    return convert(tags, scheme, scheme)


def faults(tags: Sequence[str], scheme: Scheme | str = "BIO") -> list[int]:
    """The indices of the tags that break the scheme's rules: those that `repair` changes.

    Raises:
        InputError: as `spans_of`.

    >>> faults(["O", "I-PER", "I-PER"])
    [1]
    """
    return [place for place, (tag, right) in enumerate(zip(tags, repair(tags, scheme), strict=True)) if tag != right]


def scheme_of(sentences: Iterable[Sequence[str]]) -> Scheme:
    """The scheme of a data set's tags: among those that have all its marks, the one with the fewest rule violations.

    In a tie (for example without any spans) it is the first of `SCHEMES`.

    Raises:
        InputError: for tags that are in no scheme, such as parts of speech.

    >>> scheme_of([["I-PER", "I-PER", "O", "I-LOC"], ["O"]])
    'IOB1'
    """
    sentences = [list(tags) for tags in sentences]
    used = {tag.partition("-")[0]: tag for tags in sentences for tag in tags if tag != OUTSIDE}
    fitting = [scheme for scheme in get_args(Scheme) if used.keys() <= _MARKS[scheme].keys()]
    if not fitting:
        examples = ", ".join(repr(tag) for tag in list(used.values())[:8])
        raise InputError(f"the tags ({examples}) do not encode spans in any known scheme: {', '.join(SCHEMES)}")
    broken = {scheme: sum(len(faults(tags, scheme)) for tags in sentences) for scheme in fitting}
    return min(fitting, key=broken.__getitem__)


def types_of(sentences: Iterable[Sequence[str]], scheme: Scheme | str = "BIO") -> list[str]:
    """The span types of a data set, each once, in alphabetical order.

    Raises:
        InputError: as `spans_of`.

    >>> types_of([["B-PER", "O"], ["B-LOC", "I-LOC"]])
    ['LOC', 'PER']
    """
    marks = _marks(scheme)
    split = (_parted(tag, marks, scheme) for tags in sentences for tag in tags)
    return sorted({type for mark, type in split if mark != OUTSIDE})


def _named(scheme: str) -> str:
    return _ALIASES.get(scheme, scheme)


def _marks(scheme: str) -> dict[str, str]:
    marks = _MARKS.get(_named(scheme))
    if marks is None:
        raise InputError(f"tag scheme {scheme!r} is not known; {nearest(scheme, SCHEMES)}")
    return marks


def _parted(tag: str, marks: dict[str, str], scheme: str) -> tuple[str, str]:
    """The mark of a tag in the letters of BIOES, and its type."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    mark, _, type = tag.partition("-")
    if mark not in marks:
        raise InputError(
            f"tag {tag!r} is not in the scheme {scheme}, which has O, and {', '.join(marks)} with a type, as in B-PER"
        )
    return marks[mark], type
