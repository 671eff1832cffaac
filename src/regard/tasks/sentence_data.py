"""Training of sentence encoders on pairs and triples of texts: data section, rows and files, and the task."""

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

Learnt = Literal["ranking", "cosine", "triplet"]


@dataclass(frozen=True, slots=True, eq=False)
class SentenceBatch:
    """A batch for one step of training.

    Arguments:
        tokens: (P x B, L), the first texts of B examples, then the second texts, then the third if P is 3.
        size: B.
        scores: (B,) float32, the similarities of the first two texts; meaningless for other objectives than `cosine`.
        same: (B, (P - 1) x B) bool, True = the other text equals the partner or the first text of the row, so it is no negative.
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
    """Turns texts into vectors, and pairs and triples of texts into a loss.

        vector = normalise(dense(pool(token vectors)))

    Arguments:
        tokenizer: for all texts.
        maximum_length: the maximum number of tokens of a text, special ones included; longer texts are truncated.
        pooling: how the vectors of tokens are combined; the results of several methods are concatenated.
        normalise: whether vectors are normalised to length one.
        lowercase: whether texts are lower-cased before tokenization.
        sentences: whether to put a separator between the sentences of a text, for models that distinguish sentences.
        prompts: prompts by name, which can be put before texts.
        prompt: the name of the default prompt; None for none.
        dense: linear maps after the pooling; they are not trained.
        objective, scale, margin, lowest, highest: the loss of the training, as in the recipe's `data` section.
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
        """The modules after the encoder, as sentence-transformers divides them."""
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
        """The tokens of texts, special ones included, truncated to `maximum`.

        Arguments:
            prompt: the name of the prompt to put before each text; None = the default prompt.

        Raises:
            InputError: for a text that is not a string, or a prompt that the model does not have.
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
        """The vector of each text, (B, W) float32.

        Arguments:
            hidden: (B, L, D), the vectors of tokens.
            valid: (B, L) bool, True = a real token, False = padding; None = all are real.
            pooled: (B, D), the model's own vectors of the texts, for the pooling `pooler`.
        """
        if self.pooling != POOLER:
            found = pool(hidden, valid, self.pooling)
        elif pooled is None:
            raise RuntimeError("pooling is pooler, and the model returned no vector of whole texts")
        else:
            found = pooled if pooled.dtype == torch.float64 else pooled.float()
        for dense in self.dense:
            found = dense(found)
        return normalised(found) if self.normalise else found

    # --- training ---

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse a `maximum_length` above the model's positions, and the pooling `pooler` for a model without it.

        Raises:
            InputError: naming the settings.
        """
        EncoderTask.check(self, model, train, validation)
        check_pooling(model, self.pooling)

    def lengths(self, data: TokenStore) -> np.ndarray:
        """The number of tokens of each text of an example, (N, texts)."""
        return np.stack([data.lengths(column) for column in _texts(data)], axis=1)

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> SentenceBatch:
        """The examples of these rows as a batch."""
        return self.batch(
            [[data.sequence(column, row).tolist() for row in rows] for column in _texts(data)],
            [stored_numbers(data, SCORE, row)[0] for row in rows],
        )

    def batch(self, texts: Sequence[Sequence[Sequence[int]]], scores: Sequence[float]) -> SentenceBatch:
        """A batch of token ids (of the first, the second and optionally the third texts) and scores."""
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
        """The loss of a batch, summed over its examples; label smoothing does not apply."""
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
            if found.pooled is not None:
                # An unused pooler needs a gradient too, because DDP waits for a gradient of every parameter.
                total = total + 0.0 * found.pooled.sum()
        return LossSum(total, batch.size, right)

    def wanted(self, scores: Tensor) -> Tensor:
        """The target cosines of scores."""
        return (scores - self.lowest) / (self.highest - self.lowest)

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The mean loss; `validate` computes the other metrics."""
        del right
        return {"loss": loss}

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """The numbers of examples, the pooling and the size of the vocabulary, as one line."""
        form = {"cosine": "rated pairs", "triplet": "triples"}.get(self.objective, "pairs")
        if self.objective == "ranking" and NEGATIVE in train.columns:
            form = "pairs with a negative"
        pooling = "the model's own" if self.pooling == POOLER else " and ".join(self.pooling).replace("_", " ")
        return (
            f"{len(train):,} {form} to learn from, {len(validation):,} to validate on; pooling by {pooling}; a vocabulary of "
            f"{self.tokenizer.size:,}"
        )

    # --- folders ---

    def settings(self) -> dict[str, Any]:
        """The values for regard.json, which prediction needs besides the tokenizer and the linear maps."""
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
        """Write all files of a model into an existing folder, also in sentence-transformers' layout if that can represent it."""
        EncoderTask.write(self, folder, config, tensors, recipe=recipe, metrics=metrics)
        of_sentence_transformers = not obstacle(self.tokenizer) and MODELS[config.model_type].interface == "encoder"
        if (of_sentence_transformers and self.pooling != POOLER) or self.dense:
            maximum = min(self.maximum_length, config.maximum_positions)
            write_modules(folder, self.modules, width=config.width, maximum=maximum)


def check_pooling(model: Any, pooling: Sequence[str]) -> None:
    """Refuse the pooling `pooler` for a model that computes no vector of a whole text.

    Raises:
        InputError: with what to choose instead.
    """
    if (
        tuple(pooling) == POOLER
        and not isinstance(model, SentenceEncoderModel)
        and getattr(model, "pooler", None) is None
    ):
        raise InputError(
            f"pooling is pooler, and this {model.config.model_type} computes no vector of a whole text; choose another, such as "
            "mean"
        )


def _texts(data: TokenStore) -> list[str]:
    return [column for column in (TEXT, PAIR, NEGATIVE) if column in data.columns]
