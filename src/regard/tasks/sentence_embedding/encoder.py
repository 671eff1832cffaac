"""A model that gives texts vectors, ready to use."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.token_store import TokenStore
from regard.embeddings.angular import SimilarityMeasure, angular, check_measure
from regard.embeddings.features import Features, LayerChoice, features, layer_choice
from regard.embeddings.pooling import POOLER, check_modes, unit
from regard.embeddings.readers import Readers
from regard.embeddings.reading import BATCH_TOKENS, Group, read_all
from regard.errors import InputError
from regard.layers import VectorReader
from regard.layers.output import check_finite
from regard.metrics.regression import pearson, spearman
from regard.tasks.encoders import TEXT, EncoderPredictor
from regard.tasks.sentence_embedding.task import NEGATIVE, PAIR, SentenceEmbeddingTask, check_pooling, stored_score


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
        model: a `TextEncoder` or a `VectorReader`; what head it has does not matter.
        task: tokenizer, pooling and what stands behind it.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    judged: ClassVar[tuple[str, ...]] = ("spearman", "pearson")

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
        """The vectors of texts.

        A text in which there is nothing has the vector of the special tokens alone. A model that is looked at is read as it is,
        and not a copy prepared for speed.

        Arguments:
            layers: that the vectors of tokens are taken from, as for `features`; what is concatenated makes longer vectors.
            prompt: the name of what is put before each text; None = what the model is used to.
            precision: to compute in: `float32`, `bfloat16` or `int8`; the model's own where None.
            batch_tokens: tokens read together by one core. It changes memory and speed.

        Returns:
            (N, W) float32, in the order of the texts.

        Raises:
            InputError: for what is no string, an unknown prompt or precision, and layers as `width_of`.
        """
        inputs = self.task.encode(texts, maximum=self.maximum_length, prompt=prompt)
        return self._vectors(inputs, precision, batch_tokens, texts, layers)

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
                equation 1), which tells texts apart that are very much alike.

        Returns:
            (N, M) float32.

        Raises:
            InputError: as `embed`, and for another measure.
        """
        check_measure(measure)
        left, right = (unit(self.embed(texts)) for texts in (first, second))
        cosines = left @ right.T
        return cosines if measure == "cosine" else angular(cosines)

    def judge(self, data: TokenStore, count: int) -> dict[str, float]:
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
            right = np.array([stored_score(data, row) for row in rows])
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
            texts: those that the inputs are of, for whoever watches.
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
        if isinstance(self.model, VectorReader):
            return self.model.widths
        return [self.model.config.width] * (1 + len(self.model.layers))

    def _tell(self, texts: Sequence[str], vectors: NDArray[np.float32], rows: Sequence[int]) -> None:
        if self._watchers():
            self.tell([Embedding(text=texts[row], vector=vectors[row]) for row in rows])


def _number(correlation: float) -> float:
    """A correlation that is not defined, because all cosines are the same, is none."""
    return 0.0 if np.isnan(correlation) else correlation
