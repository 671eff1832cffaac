"""Texts that say something of each other, as a sentence encoder learns from them: data section, rows and files, and the task."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

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
from regard.data.token_store import TokenStore
from regard.embeddings.pooling import POOLER, Dense, PoolingMode, check_modes, normalised, pool
from regard.embeddings.reading import counted_of
from regard.embeddings.sentence_transformers import SentenceModules, read_modules, write_modules
from regard.errors import InputError, nearest
from regard.layers import HeadKind, SentenceEncoderModel, Tokens
from regard.models import MODELS
from regard.models.config import check
from regard.structure import from_mapping
from regard.tasks.encoders import (
    TEXT,
    EncoderTask,
    obstacle,
    stored_numbers,
    tokens_of,
)
from regard.tasks.examples import Examples, Place, check_amount
from regard.tasks.losses import cosine_loss, ranking_loss, triplet_loss
from regard.tasks.task import LossSum
from regard.text import Tokenizer

Objective = Literal["auto", "ranking", "cosine", "triplet"]

PAIR_FORMATS = tuple(name for name, known in LABELLED_FORMATS.items() if known.number)
"""The known sets whose texts are rated pairs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceData:
    """The `data` section of a recipe.

    Arguments:
        train: a TSV, CSV or JSONL file, or several; gzip is recognised.
        validation: the same for validation; held out from the training data if null.
        validation_share: of the training examples, to be held out.
        validation_size: so many instead, at most a tenth of all.
        format: `auto` goes by the file's name; or that of a public set of rated pairs, `stsb`.
        text, pair: column index, column name or JSON key of the two texts that belong together; where null the usual names (text,
            pair; sentence1, sentence2; anchor, positive) or the first two columns.
        negative: the same of a third text, which does not belong to the first; null where there is none.
        label: the same of a number that says how alike the two are; null where there is none.
        objective: what is learned. `ranking`: to tell a text's partner from all others in the batch, and from the third texts;
            `cosine`: that the cosine is the number; `triplet`: that the third text is farther than the second; `auto` is
            `cosine` where there are numbers, else `ranking`.
        scale: of the cosines in `ranking`.
        margin: by how much the third text is to be farther, for `triplet`.
        lowest, highest: the numbers that mean a cosine of 0 and of 1; where null the least and the largest of the training data.
        pooling: how the vectors of tokens become one: `mean`, `cls`, `max` and others, or several; `pooler` is the vector of a
            whole text that the model makes itself. Where null as in the folder that the model starts from, if
            sentence-transformers made it; of `infersent` and its like their own; else `mean`.
        normalise: whether vectors are brought to length one; where null likewise, else true.
        maximum_length: the most tokens of a text, special ones included; longer texts are cut.

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
        """Whether there are numbers."""
        return self.label is not None or self.format in PAIR_FORMATS

    @property
    def chosen(self) -> Literal["ranking", "cosine", "triplet"]:
        """The objective, `auto` resolved."""
        if self.objective != "auto":
            return self.objective
        return "cosine" if self.rated else "ranking"


USUAL = (
    ("anchor", "text", "sentence1", "sentence", "question", "query"),
    ("positive", "pair", "sentence2", "answer", "passage"),
)
"""What the columns of the two texts are often called."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceExample:
    """Two texts, or three.

    Arguments:
        texts: two that belong together, or that are rated; then perhaps one that does not belong to the first.
        score: how alike the first two are; None where no number says it.
        file, line: where it was read (lines from 1).
    """

    texts: tuple[str, ...]
    score: float | None = None
    file: str
    line: int

    @property
    def where(self) -> str:
        """As messages call it."""
        return f"{self.file}, line {self.line}"


WANTED = "two texts, two and a number, or three of which the last does not belong"


def _row(row: Any, called: str, number: int, data: Any) -> SentenceExample:
    """(first, second), (first, second, number), or (first, second, one that does not belong).

    Or a mapping with the names that columns of files usually have, and "negative", "score" or "label".
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
        raise InputError(f"{path}: it is not clear which of its columns hold the texts; {say}")
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
    """Refuse an example that the objective cannot be learned from, or of another form than the first.

    Raises:
        InputError: naming where it stands.
    """
    if objective == "cosine" and example.score is None:
        raise InputError(f"{example.where}: has no number; the objective cosine needs one for each pair")
    if objective == "triplet" and len(example.texts) < 3:
        raise InputError(f"{example.where}: has two texts; the objective triplet needs a third that does not belong")
    if len(example.texts) != texts or (example.score is not None) != rated:
        raise InputError(f"{example.where}: is of another form than the first example; all must be of one")


def range_of(data: SentenceData, examples: Iterable[SentenceExample]) -> tuple[float, float]:
    """The numbers that mean a cosine of 0 and of 1."""
    if data.lowest is not None and data.highest is not None:
        return data.lowest, data.highest
    scores = [example.score for example in examples if example.score is not None]
    lowest = min(scores, default=0.0) if data.lowest is None else data.lowest
    highest = max(scores, default=1.0) if data.highest is None else data.highest
    if lowest >= highest:
        raise InputError(
            f"the numbers go from {lowest:g} to {highest:g}; give data.lowest and data.highest, or pairs that are not all "
            "alike"
        )
    return lowest, highest


PAIR, NEGATIVE, SCORE = "pair", "negative", "score"
"""The columns of a store beside the first text: the tokens of the others; the bits of a float32, of no meaning without scores."""

Learnt = Literal["ranking", "cosine", "triplet"]


@dataclass(frozen=True, slots=True, eq=False)
class SentenceBatch:
    """A batch for one step of training.

    Arguments:
        tokens: (P x B, L), the first texts of B examples, then the second, then perhaps the third.
        size: B.
        scores: (B,), how alike the first two are; meaningless where no number says it.
        same: (B, (P - 1) x B) bool, True = the other text is the row's own partner or the row's own first, word for word.
    """

    tokens: Tokens
    size: int
    scores: Tensor
    same: Tensor

    def to(self, device: torch.device) -> SentenceBatch:
        """The same batch on another device."""
        return SentenceBatch(self.tokens.to(device), self.size, self.scores.to(device), self.same.to(device))


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceEmbeddingTask(EncoderTask):
    """What makes one vector of a text, and a loss of many.

        vector = normalise(dense(pool(token vectors)))

    Arguments:
        tokenizer: for all texts.
        maximum_length: the most tokens of a text, special ones included; what is longer is cut.
        pooling: how the vectors of tokens become one, or several that stand one after another.
        normalise: whether vectors have length one.
        lowercase: whether texts are brought to lower case before the tokenizer sees them.
        sentences: whether a token is between the sentences of a text, for models that distinguish them.
        prompts: texts by name, to be put before what is read.
        prompt: the name of the one that is put there unless another is asked for; None for none.
        dense: linear maps behind the pooling; they are not trained.
        objective, scale, margin, lowest, highest: what was learned, as in the recipe's `data` section.
    """

    name: ClassVar[str] = "sentence_embedding"
    head: ClassVar[HeadKind] = "none"

    pooling: tuple[PoolingMode, ...] = ("mean",)
    normalise: bool = True
    lowercase: bool = False
    sentences: bool = False
    prompts: dict[str, str] = field(default_factory=dict)
    prompt: str | None = None
    dense: tuple[Dense, ...] = ()
    objective: Learnt = "ranking"
    scale: float = 20.0
    margin: float = 1.0
    lowest: float = 0.0
    highest: float = 1.0

    @property
    def use(self) -> tuple[str, ...]:
        """A line for the model card."""
        return ('print(model.embed(["...", "..."]).shape)',)

    @property
    def modules(self) -> SentenceModules:
        """What stands around the encoder, as sentence-transformers parts it."""
        return SentenceModules(
            pooling=self.pooling,
            dense=self.dense,
            normalise=self.normalise,
            maximum_length=self.maximum_length,
            lowercase=self.lowercase,
            prompts=self.prompts,
            prompt=self.prompt,
        )

    # --- from texts to vectors ---

    def encode(self, texts: Sequence[str], *, maximum: int, prompt: str | None = None) -> list[list[int]]:
        """The tokens of texts, special ones included, cut to `maximum`.

        Arguments:
            prompt: the name of what is put before each; None = what the model is used to.

        Raises:
            InputError: for what is no string, or a prompt that the model does not have.
        """
        before = self._before(prompt)
        if isinstance(texts, str):
            raise InputError("a single string was given instead of a list of texts; put it in a list")
        for number, text in enumerate(texts, start=1):
            if not isinstance(text, str):
                raise InputError(f"text {number} is {text!r:.80}; give strings")
        given = [before + text for text in texts] if before else list(texts)
        if self.lowercase:
            given = [text.lower() for text in given]
        start, end = self.tokenizer.start_id, self.tokenizer.end_id
        return [[start, *ids[: maximum - 2], end] for ids in tokens_of(self.tokenizer, given, sentences=self.sentences)]

    def _before(self, prompt: str | None) -> str:
        name = self.prompt if prompt is None else prompt
        if name is None:
            return ""
        if name not in self.prompts:
            known = nearest(name, list(self.prompts)) if self.prompts else "it has none"
            raise InputError(f"the model has no prompt {name!r}; {known}")
        return self.prompts[name]

    def vectors(self, hidden: Tensor, valid: Tensor | None, pooled: Tensor | None = None) -> Tensor:
        """One vector of each text, (B, W), in float32.

        Arguments:
            hidden: (B, L, D), the vectors of tokens.
            valid: (B, L) bool, True = a real token; None = all are.
            pooled: (B, D), what the model makes of the texts itself, for the pooling `pooler`.
        """
        if self.pooling != POOLER:
            found = pool(hidden, valid, self.pooling)
        elif pooled is None:
            raise RuntimeError("the pooler's vector is wanted and the model gave none")
        else:
            found = pooled if pooled.dtype == torch.float64 else pooled.float()
        for dense in self.dense:
            found = dense(found)
        return normalised(found) if self.normalise else found

    # --- training ---

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse inputs that are longer than the model has positions for, and a pooler's vector where it makes none.

        Raises:
            InputError: naming the settings.
        """
        EncoderTask.check(self, model, train, validation)
        check_pooling(model, self.pooling)

    def lengths(self, data: TokenStore) -> np.ndarray:
        """Tokens of each text of an example, (N, texts)."""
        return np.stack([data.lengths(column) for column in _texts(data)], axis=1)

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> SentenceBatch:
        """The examples of these rows as a batch."""
        return self.batch(
            [[data.sequence(column, row).tolist() for row in rows] for column in _texts(data)],
            [stored_numbers(data, SCORE, row)[0] for row in rows],
        )

    def batch(self, texts: Sequence[Sequence[Sequence[int]]], scores: Sequence[float]) -> SentenceBatch:
        """Token ids of the first texts, the second and perhaps the third, and scores, to a batch."""
        every = [ids for column in texts for ids in column]
        size = len(texts[0])
        numbers: dict[tuple[int, ...], int] = {}
        which = torch.tensor([numbers.setdefault(tuple(ids), len(numbers)) for ids in every])
        first, partner, others = which[:size, None], which[size : 2 * size, None], which[size:]
        return SentenceBatch(
            Tokens.pad(every, padding_id=self.tokenizer.padding_id),
            size,
            torch.tensor(scores, dtype=torch.float32),
            (others == first) | (others == partner),
        )

    def loss(self, model: nn.Module, batch: SentenceBatch, *, smoothing: float = 0.0) -> LossSum:
        """The loss of a batch, summed over its examples; there is nothing to smooth."""
        del smoothing
        nowhere = torch.zeros(0, dtype=torch.int64, device=batch.tokens.ids.device)
        found = model(batch.tokens, None, at=nowhere)
        with torch.autocast(batch.tokens.ids.device.type, enabled=False):
            vectors = self.vectors(found.hidden, counted_of(model, batch.tokens), found.pooled)
            first, second, *third = vectors.split(batch.size)
            right = torch.zeros((), dtype=torch.int64, device=vectors.device)
            if self.objective == "cosine":
                total = cosine_loss(first, second, self.wanted(batch.scores))
            elif self.objective == "triplet":
                total, right = triplet_loss(first, second, third[0], margin=self.margin)
            else:
                others = torch.cat([second, *third])
                total, right = ranking_loss(first, others, scale=self.scale, same=batch.same)
            if (
                found.pooled is not None
            ):  # a pooler that no vector is made of; workers wait for a gradient of every parameter
                total = total + 0.0 * found.pooled.sum()
        return LossSum(total, batch.size, right)

    def wanted(self, scores: Tensor) -> Tensor:
        """The cosines that scores stand for."""
        return (scores - self.lowest) / (self.highest - self.lowest)

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The loss; how alike texts are found is among what the model is judged by."""
        del right
        return {"loss": loss}

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Examples and vocabulary in a few words."""
        form = {"cosine": "rated pairs", "triplet": "triples"}.get(self.objective, "pairs")
        if self.objective == "ranking" and NEGATIVE in train.columns:
            form = "pairs with a third text that does not belong"
        pooling = "the model's own" if self.pooling == POOLER else " and ".join(self.pooling).replace("_", " ")
        return (
            f"{len(train):,} {form} to learn from, {len(validation):,} to validate on; pooling by {pooling}; a vocabulary of "
            f"{self.tokenizer.size:,}"
        )

    # --- folders ---

    def settings(self) -> dict[str, Any]:
        """All that prediction needs besides the tokenizer and the linear maps."""
        return {part.name: getattr(self, part.name) for part in fields(self) if part.name not in ("tokenizer", "dense")}

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> Self:
        """The task that `save` wrote into `folder`."""
        settings = {key: value for key, value in values.items() if key != "name"}
        parts: dict[str, Any] = {"tokenizer": Tokenizer.load(folder)}
        modules = read_modules(folder)
        if modules is not None:
            parts["dense"] = modules.dense
        return from_mapping(cls, {**parts, **settings}, f"{folder / 'regard.json'}: task")

    def write(
        self,
        folder: Path,
        config: Any,
        tensors: Mapping[str, Tensor],
        *,
        recipe: Mapping[str, Any],
        metrics: Mapping[str, float],
    ) -> None:
        """Write all files of a model into an existing folder, in sentence-transformers' layout too where that can tell it."""
        EncoderTask.write(self, folder, config, tensors, recipe=recipe, metrics=metrics)
        of_sentence_transformers = not obstacle(self.tokenizer) and MODELS[config.model_type].interface == "encoder"
        if (of_sentence_transformers and self.pooling != POOLER) or self.dense:
            maximum = min(self.maximum_length, config.maximum_positions)
            write_modules(folder, self.modules, width=config.width, maximum=maximum)


def check_pooling(model: Any, pooling: Sequence[str]) -> None:
    """Refuse the pooling `pooler` of a model that makes no vector of a whole text.

    Raises:
        InputError: with what to choose instead.
    """
    if (
        tuple(pooling) == POOLER
        and not isinstance(model, SentenceEncoderModel)
        and getattr(model, "pooler", None) is None
    ):
        raise InputError(
            f"pooling is pooler, and this {model.config.model_type} makes no vector of a whole text; choose another, such as "
            "mean"
        )


def _texts(data: TokenStore) -> list[str]:
    return [column for column in (TEXT, PAIR, NEGATIVE) if column in data.columns]
