"""A model that reads whole texts, ready to use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.data.batching import Batches
from regard.data.token_store import TokenStore
from regard.layers import Encoded, Tokens
from regard.layers.finite import check_finite
from regard.tasks.encoders.inputs import Joined, padded, read_inputs
from regard.tasks.encoders.task import EncoderTask
from regard.tasks.predictor import Predictor

E = TypeVar("E", bound=EncoderTask)

BATCH_TOKENS = 4096
"""Tokens read together, padding included: enough to keep two cores busy, and few enough to stay in their caches."""


class EncoderPredictor(Predictor[E]):
    """A model that reads one or two whole texts and says something of them.

    Arguments:
        model: a `TextEncoder`, or another `WholeTextReader`, with the task's head.
        task: tokenizer and settings.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    judged_always: ClassVar[bool] = True

    @property
    def maximum_length(self) -> int:
        """The most tokens of one input: the task's, or the model's where it has fewer positions."""
        return min(self.task.maximum_length, self.model.maximum_length)

    def encoded(
        self,
        inputs: Sequence[Joined],
        *,
        batch_tokens: int = BATCH_TOKENS,
        at: Callable[[Tokens], Tensor] | None = None,
    ) -> Iterator[tuple[list[int], Tokens, Encoded]]:
        """What the model makes of the inputs, batch by batch, those of like length together.

        Arguments:
            batch_tokens: tokens read together. It does not change the answers, only memory and speed.
            at: for heads over the vocabulary: the places of a batch, as indices into B x L, whose logits are wanted; None = all.

        Yields:
            The numbers of the inputs in a batch, the batch as it was read, and what the model made of it.

        Raises:
            InputError: for logits that are not finite.
        """
        if not inputs:
            return
        readings = self.task.readings
        lengths = readings * np.array([[len(joined.ids)] for joined in inputs], dtype=np.int64)
        for rows in Batches(lengths, maximum_tokens=batch_tokens).in_order():
            chosen = [inputs[row] for row in rows]
            tokens, segments = padded(chosen, padding_id=self.task.tokenizer.padding_id, readings=readings)
            tokens = tokens.to(self.device)
            with torch.no_grad():
                places = None if at is None else at(tokens)
                found = self.model(tokens, segments.to(self.device), at=places, readings=readings)
            for part in (found.logits, found.next_sentence, found.next_token):
                if part is not None:
                    # Of each token, padding too, or of each text, or of the places asked for.
                    each = part.shape[:-1] == tokens.valid.shape and at is None
                    check_finite(part, "these texts", where=tokens.valid if each else None)
            yield rows.tolist(), tokens, found

    def tell(self, predictions: Sequence[Any]) -> None:
        """Tell whoever watches this thread what a batch became."""
        for watcher in self._watchers():
            watcher.predicted(predictions, [])

    def stored(self, data: TokenStore, count: int) -> list[Joined]:
        """The first `count` inputs of a store."""
        return read_inputs(data, range(min(count, len(data))))
