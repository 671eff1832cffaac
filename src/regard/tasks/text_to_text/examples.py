"""The examples that a text-to-text model learns from or is measured on: files, or what is given in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from regard.data.malformed import MalformedRows
from regard.data.pairs import read_pairs
from regard.data.questions import read_questions
from regard.errors import InputError
from regard.tasks.text_to_text.data import Place, TextToTextData

Given = Sequence[tuple[str, str]]


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
        if isinstance(given, str) or not given:
            raise InputError(f"the {split} examples are {given!r:.60}; give a list of pairs of texts")
        return lambda _: (in_memory(each, number) for number, each in enumerate(given, start=1))
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


def in_memory(given: object, number: int) -> Example:
    """An example of what the user has: an `Example`, (source, target), or (source, several right targets).

    Raises:
        InputError: for anything else.

    >>> in_memory(("a", ["b", "c"]), 1).targets
    ('b', 'c')
    """
    if isinstance(given, Example):
        return given
    if isinstance(given, list | tuple) and len(given) == 2:
        source, target = given
        targets = (target,) if isinstance(target, str) else tuple(target) if isinstance(target, list | tuple) else ()
        if isinstance(source, str) and targets and all(isinstance(each, str) for each in targets):
            return Example(source, targets, f"example {number}")
    raise InputError(f"example {number} is {given!r:.60}; give (source, target), both texts, or several right targets")


def _questions(path: str | list[str], data: TextToTextData, malformed: MalformedRows) -> Iterator[Example]:
    """The questions that have an answer; the others are left out."""
    for question in read_questions(path, on_error=data.on_error, malformed=malformed):
        if question.answers:
            targets = tuple(dict.fromkeys(answer.text for answer in question.answers))
            yield Example(
                as_text(question.question, question.context), targets, f"{question.file}, question {question.number}"
            )
