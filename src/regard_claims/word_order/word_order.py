"""What two sentence encoders know of the order of words, and how their time grows with the length of a text."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from regard.data.synthetic_texts import RoleTriples
from regard.embeddings.pooling import unit
from regard.layers import Tokens
from regard.tasks.loading import load
from regard.tasks.sentence_embedding import SentenceEncoder
from regard_claims.shared import check_counts, check_examples, learning, trained

LENGTHS = (32, 64, 128, 256, 512, 1024)
FROM = 256
"""Tokens from which on the growth of time is measured: of shorter texts it is mostly what every call costs."""

SAME = 1e-5
"""Cosines that differ by less are equal: sums of the same numbers in another order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WordOrder:
    """The Universal Sentence Encoder's two forms on triples whose third sentence has the words of the second (`RoleTriples`).

    Measured are the share of test triples, in per cent, in which the second sentence is nearer to the first than the third is,
    half of those in which both are as near; and the exponent by which the time of a forward pass grows with the length of a
    text: the slope of log time over log length from 256 to 1,024 tokens.

    Arguments:
        encoder: `transformer`, `averaging` without bigrams, or `bigrams`, averaging with them.
        width: of the vectors.
        layers: blocks of the Transformer, linear maps of the averaging network.
        bigrams: rows of the table of bigrams.
        size: triples to learn from.
        test_size: triples to measure on.
        steps: updates.
        batch: triples in an update, about.
        learning_rate: the peak, which falls to 0 along a cosine.
        texts: read at once where time is measured.
        repeats: of each length, of which the quickest counts.

    Raises:
        InputError: for sizes that are none.
    """

    precision: ClassVar[str] = "float32"
    encoder: Literal["transformer", "averaging", "bigrams"] = "transformer"
    width: int = 64
    layers: int = 2
    bigrams: int = 1 << 16
    size: int = 20_000
    test_size: int = 2_000
    steps: int = 1_500
    batch: int = 64
    learning_rate: float = 1e-3
    texts: int = 16
    repeats: int = 7

    def __post_init__(self) -> None:
        check_counts(self, "width", "layers", "bigrams", "test_size", "steps", "batch", "texts", "repeats")
        check_examples(self)

    @property
    def measures(self) -> tuple[str, ...]:
        """The share in per cent, and the exponent."""
        return ("accuracy", "time exponent")

    def run(self, seed: int) -> dict[str, float]:
        """Train the encoder, and measure it."""
        with trained(
            "sentence_embedding",
            self._sizes(),
            [tuple(triple) for triple in RoleTriples("train", size=self.size, seed=seed)],
            seed=seed,
            data={"objective": "ranking"},
            training=learning(self, self.batch * 3 * TOKENS),
        ) as folder:
            encoder = load(folder, task="sentence_embedding")
            accuracy = order_accuracy(encoder, RoleTriples("test", size=self.test_size, seed=seed))
            return {"accuracy": 100 * accuracy, "time exponent": self._exponent(encoder.model, seed)}

    def _sizes(self) -> dict[str, Any]:
        if self.encoder == "transformer":
            sizes = {"name": "use_transformer", "heads": 4, "feedforward_width": 4 * self.width, "layers": self.layers}
            return {**sizes, "width": self.width, "maximum_positions": max(LENGTHS), "dropout": 0.0}
        rows = self.bigrams if self.encoder == "bigrams" else 0
        layers = {"feedforward_layers": self.layers, "bigrams": rows, "dropout": 0.0}
        return {"name": "use_averaging", "width": self.width, **layers}

    def _exponent(self, model: Any, seed: int) -> float:
        draw = torch.Generator().manual_seed(seed)
        seconds: dict[int, float] = dict.fromkeys(LENGTHS, math.inf)
        with torch.no_grad():
            for _ in range(
                self.repeats
            ):  # all lengths in turns, so that a slow moment of the machine is not one length's
                for length in LENGTHS:
                    ids = torch.randint(4, model.config.vocabulary, (self.texts, length), generator=draw)
                    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool), "nowhere")
                    began = time.perf_counter()
                    model(tokens)
                    seconds[length] = min(seconds[length], time.perf_counter() - began)
        long = [length for length in LENGTHS if length >= FROM]
        return float(np.polyfit(np.log(long), np.log([seconds[length] for length in long]), 1)[0])


TOKENS = 10
"""Of a sentence, about."""


def order_accuracy(encoder: SentenceEncoder, triples: Sequence[Sequence[str]]) -> float:
    """The share of triples in which the second text is nearer to the first than the third is; of ties half.

    Arguments:
        encoder: makes the vectors, which are compared by their cosine.
        triples: of texts.
    """
    first, second, third = (unit(encoder.embed([triple[side] for triple in triples])) for side in range(3))
    lead = (first * second).sum(axis=1) - (first * third).sum(axis=1)
    return float((lead > SAME).mean() + 0.5 * (np.abs(lead) <= SAME).mean())
