"""The data of text to text: its settings, and reading of sources with their targets."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from regard.data.batching import Mixing
from regard.data.malformed import MalformedRows
from regard.data.pairs import pair_or_fault
from regard.data.questions import read_questions
from regard.data.rows import parts_of, sound
from regard.errors import InputError
from regard.models.config import check
from regard.tasks.examples import Examples, Place, check_amount
from regard.tasks.translation_data import columns_of, pairs_in

OF_ALL = ("parts", "limit", "temperature", "maximum_source", "maximum_target")
"""The settings that apply to all parts together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextToTextData:
    """The `data` section of a recipe: one set of pairs of texts, or several named sets (parts).

    Arguments:
        train: a TSV, CSV or JSONL file, two parallel files, or `hub:owner/name`; gzip is recognised.
        validation: the same for validation; held out from the training data if null.
        validation_size: number of pairs to hold out, at most a tenth of all.
        validation_share: the share to hold out, instead of a number.
        prefix: a text that is put before every source, such as "summarize: ", including the space at its end.
        source, target: column index, column name or JSON key of the two texts.
        format: `tsv`, `csv`, `jsonl`, or `auto`; or `questions`: SQuAD's JSON, or JSONL of questions with contexts, each read as
            "question: ... context: ..." and answered by the text of its first answer.
        on_error: for a malformed row: `skip` counts and reports it, `stop` is an error.
        parts: a mixture: the name of each part with a section like this one.
        limit: the maximum number of examples for which a part counts in the proportions of a mixture; null = all of its examples.
        temperature: with 1 the parts are mixed in proportion to their sizes; larger values make the proportions more equal.
        maximum_source: the maximum number of tokens of a source, its end token included; longer sources are truncated. null = no
            limit.
        maximum_target: pairs with a longer target are left out of training and counted; null keeps all.

    Raises:
        InputError: for parts that cannot be distinguished, or a number out of range.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_size: int = 1_000
    validation_share: float | None = None
    prefix: str = ""
    source: int | str | None = None
    target: int | str | None = None
    format: Literal["auto", "tsv", "csv", "jsonl", "questions"] = "auto"
    on_error: Literal["skip", "stop"] = "skip"
    parts: dict[str, TextToTextData] | None = None
    limit: int | None = None
    temperature: float = 1.0
    maximum_source: int | None = 512
    maximum_target: int | None = 512

    def __post_init__(self) -> None:
        if self.parts is not None:
            self._check_parts(self.parts)
        check_amount(self)
        for name in ("maximum_source", "maximum_target"):
            most = getattr(self, name)
            check(most is None or most >= 2, f"data.{name}", most, "at least 2", "512 is usual; null for no limit")
        self.mixing(0)
        if self.format == "questions" and (self.source is not None or self.target is not None):
            raise InputError("data.format is questions, which have no columns; leave data.source and data.target out")

    def _check_parts(self, parts: dict[str, TextToTextData]) -> None:
        check(len(parts) > 1, "data.parts", list(parts), "two or more", "for one, give data.train alone")
        for name, part in parts.items():
            check(
                re.fullmatch(r"[^\W_][\w-]*", name) is not None,
                "the name of a part in data.parts",
                name,
                "letters, digits, - and _",
                "it names the part's metrics, such as loss.summaries",
            )
            for own in dataclasses.fields(self):
                if own.name in OF_ALL and getattr(part, own.name) != own.default:
                    raise InputError(
                        f"data.parts.{name}.{own.name} is given, but it applies to all parts together; give data.{own.name}"
                    )
        for own in dataclasses.fields(self):
            if own.name not in OF_ALL and getattr(self, own.name) != own.default:
                raise InputError(
                    f"data.{own.name} and data.parts are both given; set it for each part, such as "
                    f"data.parts.{next(iter(parts))}.{own.name}"
                )

    @property
    def named(self) -> dict[str, TextToTextData]:
        """The parts by name; data without parts have the empty name."""
        return {"": self} if self.parts is None else self.parts

    def mixing(self, seed: int) -> Mixing:
        """The proportions of the parts in training.

        Raises:
            InputError: for a limit or temperature out of range.
        """
        return Mixing(limit=self.limit, temperature=self.temperature, seed=seed)


@dataclass(frozen=True, slots=True)
class Example:
    """A source text and its target texts, the first of which is used in training.

    Arguments:
        source: the source, without prefix.
        targets: the correct targets, at least one.
        where: the file and line, for messages.
    """

    source: str
    targets: tuple[str, ...]
    where: str = ""


def as_text(question: str, context: str) -> str:
    """A question about a context as one text (Raffel et al. 2020, appendix D.15).

    >>> as_text("Who?", "Ann did.")
    'question: Who? context: Ann did.'
    """
    return f"question: {question} context: {context}"


def _row(row: Any, called: str, number: int, data: Any) -> Example:
    left, right = parts_of(row, called, columns_of(data), EXAMPLES.wanted)
    targets = list(right) if isinstance(right, list | tuple) and right else [right]
    pairs = [sound(pair_or_fault("examples", number, left, each), EXAMPLES.wanted) for each in targets]
    return Example(pairs[0].source, tuple(pair.target for pair in pairs), called)


def _read(data: TextToTextData, path: str | list[str], malformed: MalformedRows) -> Iterator[Example]:
    if data.format == "questions":
        return _questions(path, data, malformed)
    pairs = pairs_in(data, path, malformed)
    return (Example(pair.source, (pair.target,), f"{pair.file}, line {pair.line}") for pair in pairs)


def _questions(path: str | list[str], data: TextToTextData, malformed: MalformedRows) -> Iterator[Example]:
    """The questions with an answer as examples; the others are left out."""
    for question in read_questions(path, on_error=data.on_error, malformed=malformed):
        if question.answers:
            targets = tuple(dict.fromkeys(answer.text for answer in question.answers))
            yield Example(
                as_text(question.question, question.context), targets, f"{question.file}, question {question.number}"
            )


EXAMPLES: Examples[Example] = Examples(
    type=Example,
    rows="examples",
    wanted="(source, target), two texts, or several right targets",
    file="file of pairs",
    formats=", or two parallel files",
    row=_row,
    read=_read,
)
