"""The examples that a text-to-text model learns from or is measured on: files, or what is given in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from regard.data.malformed import MalformedRows
from regard.data.pair import pair_or_fault
from regard.data.pairs import read_pairs
from regard.data.questions import read_questions
from regard.data.rows import listed, parts_of, sound
from regard.tasks.text_to_text.data import Place, TextToTextData

Given = Sequence[tuple[str, str]] | Sequence[Mapping[str, object]]

WANTED = "(source, target), two texts, or several right targets"


@dataclass(frozen=True, slots=True)
class Example:
    """A text to read, without prefix, and the texts that may be written, the first of which is learnt from.

    Arguments:
        targets: one at least.
        where: the file and line, for messages.
    """

    source: str
    targets: tuple[str, ...]
    where: str = ""


Reader = Callable[[MalformedRows], Iterator[Example]]


def as_text(question: str, context: str) -> str:
    """A question about a context as one text (Raffel et al. 2020, appendix D.15).

    >>> as_text("Who?", "Ann did.")
    'question: Who? context: Ann did.'
    """
    return f"question: {question} context: {context}"


def reader(
    data: TextToTextData, place: Place | None, given: Sequence[object] | None, split: str, where: str
) -> Reader | None:
    """What reads examples: those given in memory, else those of files; None where there are none.

    Arguments:
        split: `training` or `validation`, for messages.
        where: the section of the recipe.

    Raises:
        InputError: for an empty list of examples.
    """
    if given is not None:
        rows = listed(given, f"{split} examples", WANTED)
        found = [in_memory(each, number, data.source, data.target) for number, each in enumerate(rows, start=1)]
        return lambda _: iter(found)
    if place is None:
        return None
    path = place if isinstance(place, str) else list(place)
    if data.format == "questions":
        return lambda malformed: _questions(path, data, malformed)

    def read(malformed: MalformedRows) -> Iterator[Example]:
        pairs = read_pairs(
            path,
            format=data.format,
            source=data.source,
            target=data.target,
            on_error=data.on_error,
            malformed=malformed,
        )
        return (Example(pair.source, (pair.target,), f"{pair.file}, line {pair.line}") for pair in pairs)

    return read


def in_memory(given: object, number: int, source: int | str | None = None, target: int | str | None = None) -> Example:
    """An example of what the user has: an `Example`, (source, target), (source, several right targets), or a mapping.

    Arguments:
        source, target: the keys of a mapping; "source" and "target" if not given.

    Raises:
        InputError: for anything else.

    >>> in_memory(("a", ["b", "c"]), 1).targets
    ('b', 'c')
    """
    if isinstance(given, Example):
        return given
    names = [[source if isinstance(source, str) else "source"], [target if isinstance(target, str) else "target"]]
    left, right = parts_of(given, f"example {number}", names, WANTED)
    targets = list(right) if isinstance(right, list | tuple) and right else [right]
    pairs = [sound(pair_or_fault("examples", number, left, each), WANTED) for each in targets]
    return Example(pairs[0].source, tuple(pair.target for pair in pairs), f"example {number}")


def _questions(path: str | list[str], data: TextToTextData, malformed: MalformedRows) -> Iterator[Example]:
    """The questions that have an answer; the others are left out."""
    for question in read_questions(path, on_error=data.on_error, malformed=malformed):
        if question.answers:
            targets = tuple(dict.fromkeys(answer.text for answer in question.answers))
            yield Example(
                as_text(question.question, question.context), targets, f"{question.file}, question {question.number}"
            )
