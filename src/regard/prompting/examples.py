"""Examples with named fields, from files; and in-context examples, sampled from training examples."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from regard.data.lines import Line, read_lines
from regard.data.malformed import MalformedRow, MalformedRows, decoded, malformed_row, usable
from regard.data.objects import objects_of_jsonl
from regard.data.tables import Row, columns_of_table, csv_rows, guess_format, header_of, tsv_rows
from regard.errors import InputError, nearest
from regard.models.config import check
from regard.old_names import old_keywords

FORMATS = ("auto", "tsv", "csv", "jsonl", "lines", "childrens_books")

CONTEXT_SENTENCES = 20
"""Sentences of context before each question of the Children's Book Test."""

_NUMBERED = re.compile(r"(\d+) (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Example:
    """Named values, such as a question and its answer.

    Arguments:
        fields: texts, numbers, and lists of texts.
        where: the file and line it was read from, for messages.
    """

    fields: Mapping[str, Any]
    where: str = "an example"


def read_examples(
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    columns: Sequence[str] = (),
    malformed: MalformedRows | None = None,
) -> list[Example]:
    r"""Read the examples of a file in UTF-8, plain or compressed with gzip.

    Arguments:
        path: the file.
        format: `jsonl`, an object per line; `tsv` and `csv`, whose first line names the columns; `lines`, where each line is the
            field `text` (as LAMBADA's plain text); `childrens_books`, the Children's Book Test's own files, with the fields
            context, question, answer and candidates; `auto`: one of the first three, from the file's name or first line.
        columns: names of a table's columns; its first line is then an example.
        malformed: collects lines that cannot be used.

    Raises:
        InputError: for a file that cannot be read or has no usable example, and for an unknown format.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "pairs.tsv"
    >>> _ = file.write_text("a cat\teine Katze\n")
    >>> read_examples(file, columns=("source", "target"))[0].fields
    {'source': 'a cat', 'target': 'eine Katze'}
    """
    if format not in FORMATS:
        raise InputError(f"there is no format {format!r} of examples; {nearest(format, FORMATS)}")
    name = os.fspath(path)
    lines = read_lines(name)
    if format == "auto":
        format, lines = guess_format(name, lines)
    if columns and format not in ("tsv", "csv"):
        raise InputError(f"{name}: columns are those of a table, and this is {format}; leave them out")
    found = {
        "tsv": lambda: _of_table(name, tsv_rows(name, lines), columns),
        "csv": lambda: _of_table(name, csv_rows(name, lines), columns),
        "jsonl": lambda: _of_objects(name, lines),
        "lines": lambda: _of_lines(name, lines),
        "childrens_books": lambda: _of_childrens_books(name, lines),
    }[format]()
    return list(usable(found, name, f"give examples as {format}", "skip", malformed))


def _of_table(name: str, rows: Iterator[Row], columns: Sequence[str]) -> Iterator[Example | MalformedRow]:
    names = list(columns) or header_of(name, rows)
    doubled = next((each for each in names if names.count(each) > 1), None)
    if doubled is not None:
        raise InputError(f"{name}: two columns are called {doubled!r}; give each its own name")
    for row in columns_of_table(name, rows, range(len(names)), header=False):
        if isinstance(row, MalformedRow):
            yield row
        else:
            yield Example(dict(zip(names, row[1], strict=True)), f"{name}, line {row[0]}")


def _of_objects(name: str, lines: Iterator[Line]) -> Iterator[Example | MalformedRow]:
    for row in objects_of_jsonl(name, lines):
        yield row if isinstance(row, MalformedRow) else Example(row[1], f"{name}, line {row[0]}")


def _of_lines(name: str, lines: Iterator[Line]) -> Iterator[Example | MalformedRow]:
    for line in lines:
        text = decoded(name, line)
        if isinstance(text, MalformedRow):
            yield text
        elif not text.strip():
            yield malformed_row(name, line.number, "empty line")
        else:
            yield Example({"text": text}, f"{name}, line {line.number}")


def _of_childrens_books(name: str, lines: Iterator[Line]) -> Iterator[Example | MalformedRow]:
    """Twenty numbered sentences, then one with a blank, its word and ten candidates, separated by tabs; then an empty line."""
    for empty, group in itertools.groupby(lines, key=lambda line: not line.content.strip()):
        if empty:
            continue
        first, sentences, last = 0, [], ""
        for line in group:
            text = decoded(name, line)
            found = None if isinstance(text, MalformedRow) else _NUMBERED.fullmatch(text)
            first = first or line.number
            sentences.append(found[2] if found else None)
        last = sentences.pop()
        cells = (last or "").split("\t")
        if len(cells) != 4 or None in sentences or len(sentences) != CONTEXT_SENTENCES:
            yield malformed_row(name, first, "not twenty sentences, and one with its word and candidates")
            continue
        question, answer, _, candidates = cells
        fields = {
            "context": " ".join(map(str, sentences)),
            "question": question,
            "answer": answer,
            "candidates": [each for each in candidates.split("|") if each],
        }
        yield Example(fields, f"{name}, line {first}")


Sampling = Literal["once", "each"]

_TAG = 0x5407


@dataclass(frozen=True, kw_only=True, slots=True)
class Shots:
    """Samples K examples without replacement, never the tested one.

    Arguments:
        train: the examples to sample from; they may be the tested examples themselves.
        count: K; 0 for none.
        seed: of sampling.
        sample: `once`, the same examples for every question, so that their common prefix is read once; `each`, new ones for each
            question (Brown et al. 2020, section 2.4).

    Raises:
        InputError: for a negative count or seed, or a count above the number of examples.

    >>> numbers = [Example({"n": n}) for n in range(9)]
    >>> len({shown.fields["n"] for shown in Shots(train=numbers, count=8, seed=1).of(0, numbers[4])} - {4})
    8
    """

    train: Sequence[Example]
    count: int
    seed: int = 0
    sample: Sampling = "once"

    def __post_init__(self) -> None:
        check(self.count >= 0, "shots", self.count, "0 or more", "0 shows no example")
        check(self.seed >= 0, "seed", self.seed, "0 or more", "any whole number will do")
        if self.count > len(self.train):
            raise InputError(
                f"{self.count} shots are asked for, and there are {len(self.train)} examples to sample from"
            )

    def of(self, place: int, tested: Example) -> list[Example]:
        """The in-context examples for a question, in order.

        Arguments:
            place: the question's index, from 0; with `each` the sample depends on it.
            tested: the question's own example, which is skipped wherever it is among the training examples.

        Raises:
            InputError: where too few other examples are left.
        """
        if not self.count:
            return []
        key = [self.seed, _TAG if self.sample == "once" else _TAG + 1 + place]
        order = np.random.Generator(np.random.Philox(key=key)).permutation(len(self.train)).tolist()
        others = (self.train[i] for i in order if self.train[i].fields != tested.fields)
        found = [example for example, _ in zip(others, range(self.count), strict=False)]
        if len(found) < self.count:
            raise InputError(
                f"{tested.where}: {self.count} shots are asked for, and {len(found)} training examples differ from this one"
            )
        return found


Shots.__init__ = old_keywords(draw="sample")(Shots.__init__)  # type: ignore[method-assign]
