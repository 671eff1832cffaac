"""Training of sentence encoders on pairs and triples of texts: data section, rows and files."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regard.data.labelled import LABELLED_FORMATS, read_labelled
from regard.data.lines import Line, read_lines
from regard.data.malformed import MalformedRow, MalformedRows, malformed_row, short, text_fault, usable
from regard.data.objects import has_objects, objects_of, objects_of_jsonl, values_of
from regard.data.rows import parts_of, sound
from regard.data.tables import (
    FORMATS,
    SAMPLE_ROWS,
    Row,
    columns_of_table,
    columns_read,
    csv_rows,
    guess_format,
    has_header,
    is_number_of_rows,
    tsv_rows,
)
from regard.embeddings.pooling import PoolingMode, check_modes
from regard.errors import InputError, nearest
from regard.models.config import check
from regard.tasks.examples import Examples, Place, check_amount

Objective = Literal["auto", "ranking", "cosine", "triplet"]

PAIR_FORMATS = tuple(name for name, known in LABELLED_FORMATS.items() if known.number)
"""The known data sets of rated pairs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceData:
    """The `data` section of a recipe.

    Arguments:
        train: a TSV, CSV or JSONL file, or several; gzip is recognised.
        validation: the same for validation; held out from the training data if null.
        validation_share: the share of training examples to hold out.
        validation_size: the number of examples to hold out instead, at most a tenth of all.
        format: `auto` depends on the file's extension; or a public data set of rated pairs, `stsb`.
        text, pair: the columns of the two texts of a pair: an index, a name or a JSON key; null for the usual names (text, pair;
            sentence1, sentence2; anchor, positive) or the first two columns.
        negative: the column of a third text, a negative for the first one; null if there is none.
        label: the column of a number, the similarity of the two texts; null if there is none.
        objective: the loss. `ranking`: find each text's partner among all texts of the batch, negatives included; `cosine`: the
            cosine should equal the number; `triplet`: the third text should be farther than the second; `auto` is `cosine` if
            there are numbers, else `ranking`.
        scale: the factor of the cosines in `ranking`.
        margin: the margin of `triplet`, by which the third text should be farther.
        lowest, highest: the numbers for a cosine of 0 and of 1; null for the minimum and the maximum of the training data.
        pooling: how the vectors of tokens are combined: `mean`, `cls`, `max` and others, or several; `pooler` is the model's own
            vector of a whole text. null = as in the pretrained folder, if sentence-transformers wrote it; the model's own vector
            for `infersent` and similar models; else `mean`.
        normalise: whether to normalise vectors to length one; null = as in the pretrained folder, else true.
        maximum_length: the maximum number of tokens of a text, special ones included; longer texts are truncated.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.1
    validation_size: int | None = None
    format: str = "auto"
    text: int | str | None = None
    pair: int | str | None = None
    negative: int | str | None = None
    label: int | str | None = None
    objective: Objective = "auto"
    scale: float = 20.0
    margin: float = 1.0
    lowest: float | None = None
    highest: float | None = None
    pooling: tuple[PoolingMode, ...] | None = None
    normalise: bool | None = None
    maximum_length: int = 128

    def __post_init__(self) -> None:
        names = (*FORMATS, *PAIR_FORMATS)
        if self.format not in names:
            raise InputError(f"data.format is {self.format!r}; {nearest(self.format, names)}")
        check_amount(self)
        check(self.maximum_length >= 3, "data.maximum_length", self.maximum_length, "at least 3", "128 is usual")
        check(self.scale > 0, "data.scale", self.scale, "above 0", "20 is usual")
        check(self.margin >= 0, "data.margin", self.margin, "0 or more", "1 is usual")
        if self.pooling is not None:
            check_modes(self.pooling)
        if self.lowest is not None and self.highest is not None:
            check(
                self.lowest < self.highest,
                "data.highest",
                self.highest,
                f"above {self.lowest}",
                "it means a cosine of 1",
            )
        self._check_objective()

    def _check_objective(self) -> None:
        rated = self.rated
        chosen = self.chosen
        if chosen == "triplet" and self.negative is None and self.format == "auto":
            raise InputError("data.objective is triplet and no third text is named; give its column as data.negative")
        if chosen == "cosine" and not rated:
            raise InputError("data.objective is cosine and no number is named; give its column as data.label")
        if chosen == "cosine" and self.negative is not None:
            raise InputError("data.negative is for the objectives ranking and triplet; leave it out for cosine")

    @property
    def rated(self) -> bool:
        """Whether the pairs have numbers."""
        return self.label is not None or self.format in PAIR_FORMATS

    @property
    def chosen(self) -> Literal["ranking", "cosine", "triplet"]:
        """The objective, with `auto` replaced."""
        if self.objective != "auto":
            return self.objective
        return "cosine" if self.rated else "ranking"


USUAL = (
    ("anchor", "text", "sentence1", "sentence", "question", "query"),
    ("positive", "pair", "sentence2", "answer", "passage"),
)
"""The usual names of the columns of the two texts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceExample:
    """An example of two or three texts.

    Arguments:
        texts: a pair that belongs together or is rated; then optionally a negative for the first text.
        score: the similarity of the first two texts; None if it is not known.
        file, line: the file and the line (from 1) where it was read.
    """

    texts: tuple[str, ...]
    score: float | None = None
    file: str
    line: int

    @property
    def where(self) -> str:
        """The file and line of the example, for messages."""
        return f"{self.file}, line {self.line}"


WANTED = "two texts, two and a number, or three of which the last does not belong"


def _row(row: Any, called: str, number: int, data: Any) -> SentenceExample:
    """An example from (first, second), (first, second, number) or (first, second, negative).

    Or from a mapping with the usual names of columns, and "negative", "score" or "label".
    """
    del data
    if isinstance(row, Mapping):
        names = [*USUAL, *([each] for each in ("negative", "score", "label") if each in row)]
        row = parts_of(row, called, names, WANTED)
    parts = tuple(row) if isinstance(row, tuple | list) else ()
    texts = tuple(part for part in parts if isinstance(part, str))
    rest = parts[len(texts) :]
    scores = [float(part) for part in rest if isinstance(part, int | float) and not isinstance(part, bool)]
    if len(texts) not in (2, 3) or len(rest) > 1 or len(scores) < len(rest) or (rest and len(texts) == 3):
        raise InputError(f"{called} is {short(row)}; give {WANTED}")
    for text in texts:
        if (fault := text_fault("text", text)) is not None:
            sound(malformed_row("examples", number, *fault), WANTED)
    if scores and not math.isfinite(scores[0]):
        raise InputError(f"{called} has the number {scores[0]}; give finite ones")
    return SentenceExample(texts=texts, score=scores[0] if scores else None, file="examples", line=number)


def _read(data: SentenceData, place: str | list[str], malformed: MalformedRows) -> Iterator[SentenceExample]:
    for path in [place] if isinstance(place, str) else place:
        yield from _known(data, path, malformed) if data.format in PAIR_FORMATS else _file(data, path, malformed)


SENTENCE_PAIRS = Examples(
    type=SentenceExample,
    rows="examples",
    wanted=WANTED,
    file="file of pairs of texts",
    row=_row,
    read=_read,
)


def _known(data: SentenceData, path: str, malformed: MalformedRows) -> Iterator[SentenceExample]:
    for row in read_labelled(path, format=data.format, labelled=data.chosen == "cosine", malformed=malformed):
        score = None if row.label is None else float(row.label)
        yield SentenceExample(texts=(row.text, row.pair or ""), score=score, file=row.file, line=row.line)


def _file(data: SentenceData, path: str, malformed: MalformedRows) -> Iterator[SentenceExample]:
    chosen = [data.text, data.pair] + ([data.negative] if data.negative is not None else [])
    sides = ["text", "pair", "negative"][: len(chosen)] + ["label"] * (
        data.label is not None and data.chosen == "cosine"
    )
    chosen += [data.label] * (len(sides) - len(chosen))
    lines = None if has_objects(path) else read_lines(path)
    format = data.format
    if lines is not None and format == "auto":
        format, lines = guess_format(path, lines)
    if lines is None or format == "jsonl":
        found = _of_objects(path, lines, chosen)
    else:
        rows = tsv_rows(path, lines) if format == "tsv" else csv_rows(path, lines)
        found = _of_table(path, rows, chosen, malformed)
    needed = f"each row needs {', '.join(sides[:-1])} and {sides[-1]}; say which columns or keys they are under data"
    return usable((_example(path, row, sides) for row in found), path, needed, "skip", malformed)


Cells = tuple[int, list[object]] | MalformedRow


def _of_objects(path: str, lines: Iterator[Line] | None, chosen: Sequence[int | str | None]) -> Iterator[Cells]:
    if any(isinstance(key, int) for key in chosen):
        raise InputError(f"{path}: text, pair, negative and label are keys here, not column numbers")
    for row in objects_of(path) if lines is None else objects_of_jsonl(path, lines):
        if isinstance(row, MalformedRow):
            yield row
            continue
        line, content = row
        keys = [key if isinstance(key, str) else _usual(content, side) for side, key in enumerate(chosen)]
        values = values_of(path, line, content, keys)
        yield values if isinstance(values, MalformedRow) else (line, values)


def _usual(content: dict[str, object], side: int) -> str:
    return next((name for name in USUAL[side] if name in content), USUAL[side][0])


def _of_table(
    path: str, rows: Iterator[Row], chosen: Sequence[int | str | None], malformed: MalformedRows
) -> Iterator[Cells]:
    sample = list(itertools.islice(rows, SAMPLE_ROWS))
    if not sample:
        return
    first = sample[0]
    cells = [] if isinstance(first, MalformedRow) else [cell.strip() for cell in first[1]]
    named = [next((name for name in names if name in cells), None) for names in USUAL]
    by_name = any(isinstance(column, str) for column in chosen) or (chosen[:2] == [None, None] and None not in named)
    unnamed = chosen[:2] == [None, None]
    say = "say which columns they are, by name or counted from 0: data.text=0 data.pair=1"
    headed = by_name or has_header(path, sample, say if unnamed else None)
    if unnamed and not by_name and (len(cells) > len(chosen) if headed else is_number_of_rows(sample, 0)):
        raise InputError(f"{path}: it is not clear which of its columns are the texts; {say}")
    columns: list[int | str] = []
    for side, column in enumerate(chosen):
        if column is None:
            usual = named[side] if by_name else None
            column = side if usual is None else usual
        columns.append(column)
    if None in chosen:
        places = [cells.index(column) if isinstance(column, str) and column in cells else column for column in columns]
        sides = [
            (side, place)
            for side, place in zip(("text", "pair", "third"), places, strict=False)
            if isinstance(place, int)
        ]
        malformed.columns[path] = columns_read(sides, cells if headed else None, len(cells))
    for row in columns_of_table(path, itertools.chain(sample, rows), columns, headed):
        yield row if isinstance(row, MalformedRow) else (row[0], list(row[1]))


def _example(path: str, row: Cells, sides: Sequence[str]) -> SentenceExample | MalformedRow:
    if isinstance(row, MalformedRow):
        return row
    line, values = row
    score = None
    if sides[-1] == "label":
        score = _number(values[-1])
        if score is None:
            return malformed_row(path, line, "label is no number", short(values[-1]))
    texts = values[: len(sides) - (sides[-1] == "label")]
    for side, text in zip(sides, texts, strict=False):
        fault = text_fault(side, text)
        if fault is not None:
            return malformed_row(path, line, *fault)
    return SentenceExample(texts=tuple(map(str, texts)), score=score, file=path, line=line)


def _number(value: object) -> float | None:
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def check_form(example: SentenceExample, objective: str, texts: int, rated: bool) -> None:
    """Refuse an example that lacks what the objective needs, or that has another form than the first one.

    Raises:
        InputError: naming its file and line.
    """
    if objective == "cosine" and example.score is None:
        raise InputError(f"{example.where}: has no number; the objective cosine needs one for each pair")
    if objective == "triplet" and len(example.texts) < 3:
        raise InputError(f"{example.where}: has two texts; the objective triplet needs a third that does not belong")
    if len(example.texts) != texts or (example.score is not None) != rated:
        raise InputError(f"{example.where}: has another form than the first example; all must have the same form")


def range_of(data: SentenceData, examples: Iterable[SentenceExample]) -> tuple[float, float]:
    """The numbers for a cosine of 0 and of 1."""
    if data.lowest is not None and data.highest is not None:
        return data.lowest, data.highest
    scores = [example.score for example in examples if example.score is not None]
    lowest = min(scores, default=0.0) if data.lowest is None else data.lowest
    highest = max(scores, default=1.0) if data.highest is None else data.highest
    if lowest >= highest:
        raise InputError(
            f"the numbers go from {lowest:g} to {highest:g}; give data.lowest and data.highest, or pairs with different numbers"
        )
    return lowest, highest


PAIR, NEGATIVE, SCORE = "pair", "negative", "score"
"""The additional columns of a store: the tokens of the second and third text, and the bits of the score as a float32."""

ResolvedObjective = Literal["ranking", "cosine", "triplet"]
