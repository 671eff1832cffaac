"""Sentence embedding: text embeddings, learned from pairs and triples (Reimers and Gurevych 2019)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.checkpoints import located
from regard.data.token_store import TokenStore
from regard.embeddings.features import Features, LayerChoice, features, layer_choice
from regard.embeddings.pooling import POOLER, SimilarityMeasure, angular, check_measure, check_modes, unit
from regard.embeddings.reading import BATCH_TOKENS, Readers, read_all
from regard.embeddings.sentence_transformers import SentenceModules, read_modules
from regard.errors import InputError
from regard.layers import SentenceEncoderModel
from regard.layers.embeddings import check_finite
from regard.metrics.regression import pearson, spearman
from regard.models import MODELS
from regard.quantization.encoder import Group
from regard.tasks.encoders import (
    TEXT,
    EncoderPredictor,
    bits_of,
    stored_numbers,
    tokenizer_from_hf,
)
from regard.tasks.predictor import Evaluation
from regard.tasks.preparation import (
    TRAIN,
    VALIDATION,
    EncoderTokenizerSettings,
    Places,
    Prepared,
    encoder_tokenizer,
    prepare,
    write_store,
)
from regard.tasks.sentence_data import (
    NEGATIVE,
    PAIR,
    SCORE,
    SENTENCE_PAIRS,
    SentenceData,
    SentenceEmbeddingTask,
    SentenceExample,
    check_form,
    check_pooling,
    range_of,
)
from regard.tasks.spec import OF_SENTENCE_ENCODERS, TaskSpec, encoder_config


@dataclass(frozen=True, kw_only=True, slots=True)
class Embedding:
    """The vector of a text.

    Arguments:
        text: what was read.
        vector: (W,) float32.
    """

    text: str
    vector: NDArray[np.float32] = field(repr=False)


class SentenceEncoder(EncoderPredictor[SentenceEmbeddingTask]):
    """A model that gives texts vectors: strings in, an array out. Any encoder can be one.

    Arguments:
        model: a `TextEncoder` or a `SentenceEncoderModel`; what head it has does not matter.
        task: tokenizer, pooling and what is behind it.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    metric_names: ClassVar[tuple[str, ...]] = ("spearman", "pearson")

    def __init__(
        self,
        model: Any,
        task: SentenceEmbeddingTask,
        *,
        recipe: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(model, task, recipe=recipe, metrics=metrics)
        self._readers = Readers(self.model, task.tokenizer.padding_id)

    @property
    def width(self) -> int:
        """W, of the vectors that `embed` gives by default."""
        return self.width_of("last")

    def width_of(self, layers: LayerChoice | str | int | Sequence[int]) -> int:
        """W, of the vectors made of a choice of layers.

        Raises:
            InputError: for a layer that the model does not have, layers that are stacked, and a choice that does not fit the
                linear maps behind the pooling.
        """
        choice, dense = self._choice(layers), self.task.dense
        widths = [self._widths[number] for number in choice.numbers(len(self.model.layers))]
        width = len(self.task.pooling) * (sum(widths) if choice.combine == "concatenate" else widths[0])
        if self.task.pooling == POOLER:
            width = self.model.config.width
        if dense and dense[0].weight.shape[1] != width:
            raise InputError(
                f"the model has a linear map of {dense[0].weight.shape[1]} numbers behind its pooling, and these layers, pooled, "
                f"give {width}; choose one layer, or a sum, and the model's own pooling"
            )
        return int(dense[-1].weight.shape[0]) if dense else width

    def pooled(self, modes: Sequence[str] | None = None, *, normalise: bool | None = None) -> SentenceEncoder:
        """The same model, whose vectors of tokens become one of a text in another way.

        Arguments:
            modes: such as ("cls",) or ("mean", "max"); the model's own where None.
            normalise: whether vectors have length one; as the model has it where None.

        Raises:
            InputError: for what is no way to pool, with the nearest.
        """
        changes: dict[str, Any] = {} if normalise is None else {"normalise": normalise}
        if modes is not None:
            check_modes(modes)
            check_pooling(self.model, modes)
            changes["pooling"] = tuple(modes)
        task = dataclasses.replace(self.task, **changes)
        return SentenceEncoder(self.model, task, recipe=self.recipe, metrics=self.metrics)

    def embed(
        self,
        texts: Sequence[str],
        *,
        layers: LayerChoice | str | int | Sequence[int] = "last",
        prompt: str | None = None,
        precision: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> NDArray[np.float32]:
        """The text embeddings.

        The vector of an empty text is that of the special tokens alone. A model that is being inspected is run as it is, not as a
        copy prepared for speed.

        Arguments:
            layers: the layers whose token vectors are used, as for `features`; concatenated layers give longer vectors.
            prompt: the name of the prompt that is put before each text; None = the model's default prompt.
            precision: to compute in: `float32`, `bfloat16` or `int8`; the model's own where None.
            batch_tokens: tokens read together by one core. It changes memory and speed.

        Returns:
            (N, W) float32, in the order of the texts.

        Raises:
            InputError: for what is no string, an unknown prompt or precision, and layers as `width_of`.
        """
        inputs = self.task.encode(texts, maximum=self.maximum_length, prompt=prompt)
        return self._vectors(inputs, precision, batch_tokens, texts, layers)

    def embed_tokens(
        self, inputs: Sequence[Sequence[int]], *, precision: str | None = None, batch_tokens: int = BATCH_TOKENS
    ) -> NDArray[np.float32]:
        """As `embed`, for token ids as `task.encode` gives them. Watchers of the model are not notified.

        Arguments:
            inputs: token ids, special ones included, each at most `maximum_length` of them.
            precision, batch_tokens: as for `embed`.
        """
        return self._vectors(inputs, precision, batch_tokens)

    def features(
        self,
        texts: Sequence[str | Sequence[str]],
        *,
        layers: LayerChoice | str | int | Sequence[int] = "last",
        precision: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> list[Features]:
        """The vectors of every token of some texts, from any choice of layers.

        What is longer than the model reads is read in overlapping windows.

        Arguments:
            texts: strings, or lists of words.
            layers: a `LayerChoice`; a name such as `last`, `second_to_last`, `sum_last_four`, `concatenate_last_four`,
                `embeddings`, `all`; or numbers of layers, which are summed.
            precision: as for `embed`.
            batch_tokens: as for `embed`.

        Raises:
            InputError: for a text that is empty or no string, and a layer that the model does not have.
        """
        return features(
            self._readers.reader(precision),
            self.task.tokenizer,
            texts,
            layers=layers,
            depth=len(self.model.layers),
            maximum=self.model.maximum_length,
            batch_tokens=batch_tokens,
        )

    def similarity(
        self, first: Sequence[str], second: Sequence[str], *, measure: SimilarityMeasure = "cosine"
    ) -> NDArray[np.float32]:
        """How alike every first text and every second are.

        Arguments:
            measure: the cosine of their vectors; or `angular`, one minus the angle between them in half turns (Cer et al. 2018,
                equation 1), which distinguishes texts that are very much alike.

        Returns:
            (N, M) float32.

        Raises:
            InputError: as `embed`, and for another measure.
        """
        check_measure(measure)
        left, right = (unit(self.embed(texts)) for texts in (first, second))
        cosines = left @ right.T
        return cosines if measure == "cosine" else angular(cosines)

    def validate(self, data: TokenStore, count: int) -> dict[str, float]:
        """Spearman's and Pearson's correlation of cosines with what they ought to be.

        That is the data's numbers; where it has none, 1 for texts that belong together and 0 for as many that do not: each first
        text with the third of its example, or else with the second of the next.
        """
        rows = range(min(count, len(data)))
        texts = [column for column in (TEXT, PAIR, NEGATIVE) if column in data.columns]
        low = (
            torch.is_autocast_enabled(self.device.type) and torch.get_autocast_dtype(self.device.type) == torch.bfloat16
        )
        with torch.autocast(self.device.type, enabled=False):
            found = [
                unit(self._vectors([data.sequence(column, row).tolist() for row in rows], "bfloat16" if low else None))
                for column in texts
            ]
        cosines = (found[0] * found[1]).sum(axis=1)
        if self.task.objective == "cosine":
            right = np.array([stored_numbers(data, SCORE, row)[0] for row in rows])
        else:
            strangers = found[2] if len(found) > 2 else np.roll(found[1], -1, axis=0)
            cosines = np.concatenate([cosines, (found[0] * strangers).sum(axis=1)])
            right = np.repeat([1.0, 0.0], len(rows))
        if len(right) < 2:
            raise InputError("one example has no correlation; give two to validate on")
        return {"spearman": _number(spearman(right, cosines)), "pearson": _number(pearson(right, cosines))}

    def _vectors(
        self,
        inputs: Sequence[Sequence[int]],
        precision: str | None,
        batch_tokens: int = BATCH_TOKENS,
        texts: Sequence[str] | None = None,
        layers: LayerChoice | str | int | Sequence[int] = "last",
    ) -> NDArray[np.float32]:
        """The vectors of inputs that are tokens already.

        Arguments:
            texts: the texts of the inputs, passed to watchers of the model.
        """
        choice = self._choice(layers)
        reader = self._readers.plain if self.task.pooling == POOLER else self._readers.reader(precision)
        vectors = np.empty((len(inputs), self.width_of(choice)), dtype=np.float32)

        def use(group: Group) -> None:
            hidden = group.states[0] if len(group.states) == 1 and not choice.weights else choice.combined(group.states)
            found: Tensor = check_finite(self.task.vectors(hidden, group.valid, group.pooled), "these texts")
            vectors[group.rows] = found.float().cpu().numpy()
            if texts is not None and not reader.parallel:
                self._tell(texts, vectors, group.rows)

        read_all(reader, inputs, choice.numbers(len(self.model.layers)), use, batch_tokens=batch_tokens)
        if texts is not None and reader.parallel:
            self._tell(texts, vectors, range(len(texts)))
        return vectors

    def _choice(self, layers: LayerChoice | str | int | Sequence[int]) -> LayerChoice:
        choice = layer_choice(layers, len(self.model.layers))
        if choice.combine == "stack":
            raise InputError(
                "one vector of a text is wanted, and the layers chosen are kept apart; sum or concatenate them"
            )
        numbers = choice.numbers(len(self.model.layers))
        if self.task.pooling == POOLER and (numbers != (len(self.model.layers),) or choice.weights):
            raise InputError(
                "the vector of a whole text that the model makes itself is of its last layer; leave the layers out, or choose "
                "another pooling, such as mean"
            )
        if choice.combine == "sum" and len({self._widths[number] for number in numbers}) > 1:
            raise InputError("the layers chosen have vectors of different widths, which have no sum; concatenate them")
        return choice

    @property
    def _widths(self) -> Sequence[int]:
        """Of the embedding's vectors and of each layer's."""
        if isinstance(self.model, SentenceEncoderModel):
            return self.model.widths
        return [self.model.config.width] * (1 + len(self.model.layers))

    def _tell(self, texts: Sequence[str], vectors: NDArray[np.float32], rows: Sequence[int]) -> None:
        if self._watchers():
            self.tell([Embedding(text=texts[row], vector=vectors[row]) for row in rows])


def _number(correlation: float) -> float:
    """A correlation that is not defined, because all cosines are the same, is none."""
    return 0.0 if np.isnan(correlation) else correlation


def prepare_sentences(
    data: SentenceData,
    tokenizer: EncoderTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Any = None,
    given_validation: Any = None,
) -> Prepared[SentenceEmbeddingTask]:
    """Read the data for the tokenizer and the range of its numbers, then for the tokens, and leave all in `folder`.

    Arguments:
        folder: where to write them; if they exist already (a resumed run), they are reused.
        seed: of the choice of held-out examples.
        given, given_validation: examples in memory instead of what `data` names, as `SENTENCE_PAIRS` takes them: (first, second),
            (first, second, number), (first, second, one that does not belong).

    Raises:
        InputError: for data that cannot be read, too little of it, or examples of another form than the objective needs.
    """

    def write() -> tuple[SentenceEmbeddingTask, list[str]]:
        splits = SENTENCE_PAIRS.splits(data, seed, given, given_validation)
        first = next(splits.everything(), None)
        if first is None:
            raise InputError("the training data has no example that can be used; give some")
        objective = data.chosen
        if data.objective == "auto" and given is not None:
            objective = "ranking" if first.score is None else "cosine"
        start = _modules(tokenizer)
        if start is not None and start.dense:
            raise InputError(
                "the model to start from has linear maps behind its pooling, which are not trained; start from another, or from "
                "its encoder alone"
            )
        check_form(first, objective, len(first.texts), first.score is not None)
        lowest, highest = range_of(data, splits.train()) if objective == "cosine" else (0.0, 1.0)
        task = SentenceEmbeddingTask(
            tokenizer=encoder_tokenizer(tokenizer, lambda: (text for each in splits.train() for text in each.texts)),
            maximum_length=data.maximum_length,
            pooling=data.pooling if data.pooling is not None else start.pooling if start is not None else ("mean",),
            normalise=data.normalise if data.normalise is not None else start is None or start.normalise,
            lowercase=start is not None and start.lowercase,
            sentences=tokenizer.sentences,
            prompts={} if start is None else start.prompts,
            prompt=None if start is None else start.prompt,
            objective=objective,
            scale=data.scale,
            margin=data.margin,
            lowest=lowest,
            highest=highest,
        )
        parts = len(first.texts) if objective != "cosine" else 2
        cut = [
            _write(folder, task, TRAIN, splits.train(), parts),
            _write(folder, task, VALIDATION, splits.validation(), parts),
        ]
        notes = splits.notes
        if sum(cut):
            notes.append(
                f"{sum(cut):,} texts were longer than data.maximum_length = {task.maximum_length} tokens and were cut."
            )
        return task, notes

    return prepare(SentenceEmbeddingTask, folder, write)


def _modules(tokenizer: EncoderTokenizerSettings) -> SentenceModules | None:
    """What stands around the encoder that training starts from, where sentence-transformers wrote it down."""
    if tokenizer.path is None:
        return None
    place = located(tokenizer.path)
    return read_modules(place) if place.is_dir() else None


def _write(
    folder: Path, task: SentenceEmbeddingTask, split: str, examples: Iterator[SentenceExample], parts: int
) -> int:
    """Write the store of a split; returns how many texts were cut."""
    cut, places = 0, Places()
    form: SentenceExample | None = None

    def rows() -> Iterator[Sequence[Sequence[int]]]:
        nonlocal cut, form
        while chunk := list(itertools.islice(examples, 512)):
            form = form or chunk[0]
            for example in chunk:
                check_form(example, task.objective, len(form.texts), form.score is not None)
            columns = [
                task.encode([example.texts[side] for example in chunk], maximum=1 << 30) for side in range(parts)
            ]
            for number, example in enumerate(chunk):
                texts = [column[number] for column in columns]
                cut += sum(len(ids) > task.maximum_length for ids in texts)
                end = [task.tokenizer.end_id]
                kept = [
                    ids if len(ids) <= task.maximum_length else ids[: task.maximum_length - 1] + end for ids in texts
                ]
                places.note(example.file, example.line)
                yield [*kept, [bits_of(example.score or 0.0)]]

    size = task.tokenizer.size
    columns = dict.fromkeys((TEXT, PAIR, NEGATIVE)[:parts], size) | {SCORE: 1 << 32}
    write_store(folder, split, columns, rows(), places)
    return cut


CHUNK = 1024
"""Rows of cosines held at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Similarity:
    """How alike two texts were found.

    Arguments:
        first, second: the texts.
        cosine: of their vectors.
    """

    first: str
    second: str
    cosine: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceEvaluation(Evaluation):
    """What an evaluation found: `predictions` are `Similarity`s.

    Its metrics are, of rated pairs, `spearman` and `pearson` of cosines with the numbers; of pairs that belong together,
    `recall_at_1`, `recall_at_10` and `mean_reciprocal_rank` of each partner among all; of triples, `accuracy`, the share in
    which the third text is farther than the second.
    """


def evaluate_sentences(model: SentenceEncoder, examples: Any, *, precision: str | None = None) -> SentenceEvaluation:
    """Measure the vectors of a model on examples.

    Arguments:
        examples: `SentenceExample`s, or (first, second, number), (first, second), (first, second, one that does not belong).
        precision: to compute in; the model's own where None.

    Raises:
        InputError: for an empty list, or examples of different forms.
    """
    found = SENTENCE_PAIRS.to_measure(examples)
    form = len(found[0].texts), found[0].score is None
    for example in found:
        if (len(example.texts), example.score is None) != form:
            raise InputError(f"{example.where}: is of another form than the first example; all must be of one")
    vectors = [
        unit(model.embed([example.texts[side] for example in found], precision=precision)) for side in range(form[0])
    ]
    cosines = (vectors[0] * vectors[1]).sum(axis=1)
    if not form[1]:
        right = np.array([example.score for example in found], dtype=np.float64)
        metrics = {"spearman": spearman(right, cosines), "pearson": pearson(right, cosines)}
    elif form[0] == 3:
        metrics = {"accuracy": float(np.mean(cosines > (vectors[0] * vectors[2]).sum(axis=1)))}
    else:
        ranks = _ranks(vectors[0], vectors[1], [example.texts[1] for example in found])
        metrics = {
            "recall_at_1": float(np.mean(ranks == 1)),
            "recall_at_10": float(np.mean(ranks <= 10)),
            "mean_reciprocal_rank": float(np.mean(1 / ranks)),
        }
    predictions = (
        Similarity(first=example.texts[0], second=example.texts[1], cosine=float(cosine))
        for example, cosine in zip(found, cosines, strict=True)
    )
    return SentenceEvaluation(metrics=metrics, count=len(found), predictions=tuple(predictions))


def similarity_record(task: SentenceEmbeddingTask, example: SentenceExample, said: Similarity) -> dict[str, Any]:
    """Two texts, how alike they are said to be, and the cosine of their vectors, by name."""
    del task
    score = {} if example.score is None else {"score": example.score}
    return {"first": said.first, "second": said.second, **score, "cosine": said.cosine}


def _ranks(first: NDArray[np.float32], second: NDArray[np.float32], texts: Sequence[str]) -> NDArray[np.int64]:
    """The place of each row's partner among all second texts by cosine, from 1; the same text again does not count."""
    numbers: dict[str, int] = {}
    which = np.array([numbers.setdefault(text, len(numbers)) for text in texts])
    _, keep = np.unique(which, return_index=True)
    candidates = second[keep]
    ranks = np.empty(len(first), dtype=np.int64)
    for start in range(0, len(first), CHUNK):
        rows = slice(start, start + CHUNK)
        scores = first[rows] @ candidates.T
        own = np.take_along_axis(scores, which[rows, None], axis=1)
        ranks[rows] = 1 + (scores > own).sum(axis=1)
    return ranks


def encoder_from_hf(folder: Path, config: Any) -> SentenceEmbeddingTask:
    """The task of a folder: as its `modules.json` has it; without one the mean of all tokens, not normalised.

    Of a model that makes one vector of each text, that one.

    Raises:
        InputError: for modules that Regard does not have, or where there is no tokenizer.
    """
    found = read_modules(folder) or SentenceModules()
    longest = config.maximum_positions
    family = MODELS[config.model_type]
    return SentenceEmbeddingTask(
        tokenizer=tokenizer_from_hf(folder, config),
        maximum_length=longest if found.maximum_length is None else min(found.maximum_length, longest),
        pooling=POOLER if family.interface == "text_vectors" else found.pooling,
        sentences=family.sentences,
        normalise=found.normalise,
        lowercase=found.lowercase,
        prompts=found.prompts,
        prompt=found.prompt,
        dense=found.dense,
    )


SENTENCE_EMBEDDING = TaskSpec(
    task=SentenceEmbeddingTask,
    predictor=SentenceEncoder,
    interface="text_vectors",
    sections={"data": SentenceData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_sentences,
    evaluate=evaluate_sentences,
    examples=SENTENCE_PAIRS,
    record=similarity_record,
    derived_config=encoder_config("none", 0),
    derived_if_present=OF_SENTENCE_ENCODERS,
    from_hf=encoder_from_hf,
)
