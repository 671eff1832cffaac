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
    SentenceExample,
    check_form,
    range_of,
)
from regard.tasks.sentence_task import SentenceEmbeddingTask, check_pooling
from regard.tasks.spec import OF_SENTENCE_ENCODERS, TaskSpec, encoder_config


@dataclass(frozen=True, kw_only=True, slots=True)
class Embedding:
    """The vector of a text.

    Arguments:
        text: the text.
        vector: (W,) float32.
    """

    text: str
    vector: NDArray[np.float32] = field(repr=False)


class SentenceEncoder(EncoderPredictor[SentenceEmbeddingTask]):
    """A model that computes text embeddings, ready to use: strings in, an array out. Any encoder can be one.

    Arguments:
        model: a `TextEncoder` or a `SentenceEncoderModel`, with any head.
        task: the tokenizer, the pooling and the linear maps after it.
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
        """W, the width of the vectors that `embed` returns by default."""
        return self.width_of("last")

    def width_of(self, layers: LayerChoice | str | int | Sequence[int]) -> int:
        """W, the width of the vectors for a choice of layers.

        Raises:
            InputError: for a layer that the model does not have, stacked layers, and a width that does not fit the linear maps
                after the pooling.
        """
        choice, dense = self._choice(layers), self.task.dense
        widths = [self._widths[number] for number in choice.numbers(len(self.model.layers))]
        width = len(self.task.pooling) * (sum(widths) if choice.combine == "concatenate" else widths[0])
        if self.task.pooling == POOLER:
            width = self.model.config.width
        if dense and dense[0].weight.shape[1] != width:
            raise InputError(
                f"the model has a linear map of {dense[0].weight.shape[1]} numbers after its pooling, and these layers, pooled, "
                f"have {width}; choose one layer, or a sum, and the model's own pooling"
            )
        return int(dense[-1].weight.shape[0]) if dense else width

    def pooled(self, modes: Sequence[str] | None = None, *, normalise: bool | None = None) -> SentenceEncoder:
        """The same model with another pooling.

        Arguments:
            modes: the pooling, such as ("cls",) or ("mean", "max"); None = the model's own.
            normalise: whether to normalise vectors to length one; None = as the model does.

        Raises:
            InputError: for an unknown pooling, with the nearest name.
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

        The vector of an empty text is the vector of the special tokens alone. A model that is being inspected is run itself, not
        as a copy prepared for speed.

        Arguments:
            layers: the layers whose token vectors are used, as for `features`; concatenated layers give longer vectors.
            prompt: the name of the prompt that is put before each text; None = the model's default prompt.
            precision: the precision of the computation: `float32`, `bfloat16` or `int8`; None = the model's own.
            batch_tokens: the number of tokens in one batch of one core. It changes memory and speed.

        Returns:
            (N, W) float32, in the order of the texts.

        Raises:
            InputError: for a text that is not a string, an unknown prompt or precision, and for layers as `width_of`.
        """
        inputs = self.task.encode(texts, maximum=self.maximum_length, prompt=prompt)
        return self._vectors(inputs, precision, batch_tokens, texts, layers)

    def embed_tokens(
        self, inputs: Sequence[Sequence[int]], *, precision: str | None = None, batch_tokens: int = BATCH_TOKENS
    ) -> NDArray[np.float32]:
        """As `embed`, for token ids such as from `task.encode`. Observers of the model are not notified.

        Arguments:
            inputs: token ids, special ones included, at most `maximum_length` in each.
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
        """The vectors of every token of texts, from any choice of layers.

        Texts longer than the model's positions are read in overlapping windows.

        Arguments:
            texts: strings, or lists of words.
            layers: a `LayerChoice`; a name such as `last`, `second_to_last`, `sum_last_four`, `concatenate_last_four`,
                `embeddings`, `all`; or numbers of layers, which are summed.
            precision: as for `embed`.
            batch_tokens: as for `embed`.

        Raises:
            InputError: for an empty text, a text that is not a string, and a layer that the model does not have.
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
        """The similarity of every first text with every second text.

        Arguments:
            measure: `cosine`, the cosine of their vectors; or `angular`, 1 - angle / pi (Cer et al. 2018, equation 1), which
                distinguishes very similar texts better.

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
        """Spearman's and Pearson's correlation of cosines with their targets.

        The targets are the data's numbers. Without numbers they are 1 for the pairs, and 0 for as many negative pairs: each first
        text with the third of its example, or else with the second of the next example.
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
            raise InputError("a correlation needs at least two validation examples; give more")
        return {"spearman": _number(spearman(right, cosines)), "pearson": _number(pearson(right, cosines))}

    def _vectors(
        self,
        inputs: Sequence[Sequence[int]],
        precision: str | None,
        batch_tokens: int = BATCH_TOKENS,
        texts: Sequence[str] | None = None,
        layers: LayerChoice | str | int | Sequence[int] = "last",
    ) -> NDArray[np.float32]:
        """The vectors of tokenized inputs.

        Arguments:
            texts: the texts of the inputs, for observers of the model.
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
                "one vector of each text is needed, but the chosen layers are stacked; sum or concatenate them"
            )
        numbers = choice.numbers(len(self.model.layers))
        if self.task.pooling == POOLER and (numbers != (len(self.model.layers),) or choice.weights):
            raise InputError(
                "the pooling pooler uses the model's own vector, which is computed from its last layer; leave the layers out, or "
                "choose another pooling, such as mean"
            )
        if choice.combine == "sum" and len({self._widths[number] for number in numbers}) > 1:
            raise InputError(
                "the chosen layers have vectors of different widths, which cannot be summed; concatenate them"
            )
        return choice

    @property
    def _widths(self) -> Sequence[int]:
        """The widths of the vectors of the embedding and of each layer."""
        if isinstance(self.model, SentenceEncoderModel):
            return self.model.widths
        return [self.model.config.width] * (1 + len(self.model.layers))

    def _tell(self, texts: Sequence[str], vectors: NDArray[np.float32], rows: Sequence[int]) -> None:
        if self._watchers():
            self.tell([Embedding(text=texts[row], vector=vectors[row]) for row in rows])


def _number(correlation: float) -> float:
    """A correlation; 0 if it is undefined, because all cosines are equal."""
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
    """Read the data for the tokenizer and the range of its numbers, then for the tokens, and write all into `folder`.

    Arguments:
        folder: where to write them; if they exist already (a resumed run), they are reused.
        seed: the seed of the choice of held-out examples.
        given, given_validation: examples in memory instead of those of `data`, in a form that `SENTENCE_PAIRS` accepts:
            (first, second), (first, second, number) or (first, second, negative).

    Raises:
        InputError: for data that cannot be read, too little data, or examples of another form than the objective needs.
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
                "the pretrained model has linear maps after its pooling, which are not trained; start from another model, or "
                "from its encoder alone"
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
    """The modules after the encoder of the pretrained model, if sentence-transformers wrote its folder."""
    if tokenizer.path is None:
        return None
    place = located(tokenizer.path)
    return read_modules(place) if place.is_dir() else None


def _write(
    folder: Path, task: SentenceEmbeddingTask, split: str, examples: Iterator[SentenceExample], parts: int
) -> int:
    """Write the store of a split; return the number of truncated texts."""
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
"""The number of rows of cosines in memory at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Similarity:
    """The similarity of two texts.

    Arguments:
        first, second: the texts.
        cosine: the cosine of their vectors.
    """

    first: str
    second: str
    cosine: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceEvaluation(Evaluation):
    """The results of an evaluation: `predictions` are `Similarity`s.

    Its metrics are, for rated pairs, `spearman` and `pearson` of cosines with the numbers; for pairs without numbers,
    `recall_at_1`, `recall_at_10` and `mean_reciprocal_rank` of each partner among all second texts; for triples, `accuracy`, the
    share in which the second text is nearer than the third.
    """


def evaluate_sentences(model: SentenceEncoder, examples: Any, *, precision: str | None = None) -> SentenceEvaluation:
    """Measure the vectors of a model on examples.

    Arguments:
        examples: `SentenceExample`s, or (first, second, number), (first, second), (first, second, negative).
        precision: the precision of the computation; None = the model's own.

    Raises:
        InputError: for an empty list, or examples of different forms.
    """
    found = SENTENCE_PAIRS.to_measure(examples)
    form = len(found[0].texts), found[0].score is None
    for example in found:
        if (len(example.texts), example.score is None) != form:
            raise InputError(f"{example.where}: has another form than the first example; all must have the same form")
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
    """Two texts, their score in the data, and the cosine of their vectors, by name."""
    del task
    score = {} if example.score is None else {"score": example.score}
    return {"first": said.first, "second": said.second, **score, "cosine": said.cosine}


def _ranks(first: NDArray[np.float32], second: NDArray[np.float32], texts: Sequence[str]) -> NDArray[np.int64]:
    """The rank of each row's partner among all second texts by cosine, from 1; copies of the partner do not count."""
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
    """The task of a folder, from its `modules.json`; without one the mean of all tokens, not normalised.

    For a model that computes one vector of each text, this vector is used.

    Raises:
        InputError: for modules that Regard does not have, or if there is no tokenizer.
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
