"""Word order in the vectors of two sentence encoders, and how the encoders' time grows with the length of a text."""

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
"""The shortest length, in tokens, in the fit of the time exponent. The time of shorter texts is mostly the cost of a call."""

SAME = 1e-5
"""Cosines that differ by at most this count as equal: the same numbers summed in another order differ by rounding."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WordOrder:
    """The two Universal Sentence Encoders on triples whose second and third texts have the same words (`RoleTriples`).

    Measured are:

    - `accuracy`: the share of test triples, in per cent, whose second text has a higher cosine with the first than the third text
      has; a tie counts as half;
    - `time exponent`: the slope of the logarithm of a forward pass's time over the logarithm of the text's length, fitted to
      256, 512 and 1,024 tokens.

    Arguments:
        encoder: `transformer`, `averaging` (words only), or `bigrams` (averaging of words and bigrams).
        width: the width of the vectors.
        layers: the number of Transformer blocks, or of linear maps of the averaging network.
        bigrams: the number of rows in the table of bigram embeddings.
        size: the number of training triples.
        test_size: the number of test triples.
        steps: the number of updates.
        batch: the approximate number of triples in an update.
        learning_rate: the peak learning rate; it decreases to 0 along a cosine.
        texts: the number of texts in a batch when time is measured.
        repeats: the number of timed passes for each length; the fastest counts.

    Raises:
        InputError: for a size below its minimum.
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
        """The accuracy in per cent, and the exponent of time."""
        return ("accuracy", "time exponent")

    def run(self, seed: int) -> dict[str, float]:
        """Train the encoder, and measure accuracy and time."""
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
            # All lengths in turn, so that a slow moment of the machine does not affect only one length.
            for _ in range(self.repeats):
                for length in LENGTHS:
                    ids = torch.randint(4, model.config.vocabulary, (self.texts, length), generator=draw)
                    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool), "nowhere")
                    began = time.perf_counter()
                    model(tokens)
                    seconds[length] = min(seconds[length], time.perf_counter() - began)
        long = [length for length in LENGTHS if length >= FROM]
        return float(np.polyfit(np.log(long), np.log([seconds[length] for length in long]), 1)[0])


TOKENS = 10
"""The approximate number of tokens in a sentence."""


def order_accuracy(encoder: SentenceEncoder, triples: Sequence[Sequence[str]]) -> float:
    """The share of triples whose second text has a higher cosine with the first than the third text has; a tie counts as half.

    Arguments:
        encoder: the encoder of the texts.
        triples: triples of texts.
    """
    first, second, third = (unit(encoder.embed([triple[side] for triple in triples])) for side in range(3))
    lead = (first * second).sum(axis=1) - (first * third).sum(axis=1)
    return float((lead > SAME).mean() + 0.5 * (np.abs(lead) <= SAME).mean())
