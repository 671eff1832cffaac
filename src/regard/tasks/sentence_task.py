"""The task of sentence encoders: texts to vectors, and pairs and triples of texts to a loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.token_store import TokenStore
from regard.embeddings.pooling import POOLER, Dense, PoolingMode, normalised, pool
from regard.embeddings.reading import counted_of
from regard.embeddings.sentence_transformers import SentenceModules, read_modules, write_modules
from regard.errors import InputError, nearest
from regard.layers import HeadKind, SentenceEncoderModel, Tokens
from regard.models import MODELS
from regard.structure import from_mapping
from regard.tasks.encoders import (
    TEXT,
    EncoderTask,
    obstacle,
    stored_numbers,
    tokens_of,
)
from regard.tasks.losses import cosine_loss, ranking_loss, triplet_loss
from regard.tasks.sentence_data import NEGATIVE, PAIR, SCORE, ResolvedObjective
from regard.tasks.task import LossSum
from regard.text import Tokenizer


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
    objective: ResolvedObjective = "ranking"
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
