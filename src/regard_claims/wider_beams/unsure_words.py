"""Beam search for words with several translations: the probability and the accuracy of outputs by beam width."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import ClassVar

from regard.claims.measure import Measure
from regard.generation import GenerationSettings
from regard.models.config import check
from regard.tasks.loading import load
from regard_claims.shared import check_counts, check_examples, learning, trained

BEAM = "beam"
RIGHT, LENGTH, PROBABILITY, NORMALISED = "right", "length", "log-probability", "right, normalised"

Choices = tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class UnsureWords:
    """Beam search of several widths for words with several translations (Koehn, Knowles 2017, section 3.6).

    A source has 6 to 12 words. The target has one word for each source word, in the same order, sampled independently from
    `len(shares)` translations. So a translation of n words has a probability of about the product of n shares, and a translation
    that ends early is a product of fewer. If the model overestimates the end of the sentence a little, a wide enough search finds
    such a short translation (Murray, Chiang 2018).

    Measured on test sources for each beam width:

    - `right`: the share of right outputs, in per cent. An output is right if it has as many words as the source and each is a
      translation of the source word at the same position;
    - `length`: the number of output words divided by the number of source words;
    - `log-probability`: the mean log-probability of the outputs under the model, in nats;
    - `right, normalised`: the share of right outputs if hypotheses are compared by log-probability divided by length.

    Arguments:
        symbols: the number of words in the source language.
        shares: the probabilities of a word's translations.
        width: the width of the Transformer, with one block on each side, 4 heads and feed-forward networks of twice the width.
        size: the number of training pairs.
        test_size: the number of test sources.
        beams: the beam widths.
        steps: the number of updates.
        batch: the approximate number of pairs in an update.
        learning_rate: the peak learning rate; it decreases to 0 along a cosine.

    Raises:
        InputError: for a size below its minimum, or shares that are not probabilities with the sum 1.
    """

    precision: ClassVar[str] = "float32"
    symbols: int = 30
    shares: Choices = (0.4, 0.3, 0.2, 0.1)
    width: int = 64
    size: int = 8_000
    test_size: int = 100
    beams: tuple[int, ...] = (1, 4, 16, 64)
    steps: int = 600
    batch: int = 64
    learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        check_counts(self, "symbols", "test_size", "steps", "batch")
        check_examples(self)
        sound = min(self.shares, default=0) > 0 and abs(sum(self.shares) - 1) < 1e-6
        check(sound, "experiment.shares", self.shares, "above 0, with the sum 1", "change them")
        check(min(self.beams, default=0) >= 1, "experiment.beams", self.beams, "at least 1", "raise it")

    @property
    def measures(self) -> tuple[str | Measure, ...]:
        """The four measures, each with one number for each beam width."""
        return tuple(
            Measure(name=name, kind="computed", along=BEAM) for name in (RIGHT, LENGTH, PROBABILITY, NORMALISED)
        )

    def run(self, seed: int) -> dict[str, Mapping[int, float]]:
        """Train the model, and translate the test sources with each beam width."""
        with trained(
            "translation",
            {
                "name": "transformer",
                "width": self.width,
                "heads": 4,
                "feedforward_width": 2 * self.width,
                "encoder_layers": 1,
                "decoder_layers": 1,
                "norm": "pre",
                "dropout": 0.1,
            },
            self.pairs(self.size, 2 * seed),
            seed=seed,
            tokenizer={"shared": True},
            training=learning(self, 20 * self.batch),
        ) as folder:
            model = load(folder, task="translation")
        sources = [source for source, _ in self.pairs(self.test_size, 2 * seed + 1)]
        found: dict[str, dict[int, float]] = {name: {} for name in (RIGHT, LENGTH, PROBABILITY, NORMALISED)}
        for beam in self.beams:
            plain = GenerationSettings(beam=beam, length_penalty=0.0)
            answers = model.translate_batch(sources, plain)
            found[RIGHT][beam] = 100 * fmean(is_right(answer.source, answer.text) for answer in answers)
            words = sum(len(answer.text.split()) for answer in answers)
            found[LENGTH][beam] = words / sum(len(source.split()) for source in sources)
            found[PROBABILITY][beam] = fmean(answer.log_probability for answer in answers)
            normalised = GenerationSettings(beam=beam, length_penalty=1.0, length_normalisation="power")
            found[NORMALISED][beam] = 100 * fmean(
                is_right(answer.source, answer.text) for answer in model.translate_batch(sources, normalised)
            )
        return dict(found)

    def pairs(self, size: int, seed: int) -> list[tuple[str, str]]:
        """Sample `size` pairs of a source and a target, such as `s3 s1` and `t3a t1c`."""
        draw = Random(seed)
        letters = "abcdefghijklmnopqrstuvwxyz"[: len(self.shares)]
        found = []
        for _ in range(size):
            numbers = [draw.randrange(self.symbols) for _ in range(draw.randint(6, 12))]
            chosen = draw.choices(letters, weights=self.shares, k=len(numbers))
            target = " ".join(f"t{number}{letter}" for number, letter in zip(numbers, chosen, strict=True))
            found.append((" ".join(f"s{number}" for number in numbers), target))
        return found


def is_right(source: str, text: str) -> bool:
    """Whether the text has exactly one word for each source word, each a translation of the source word at its position.

    >>> is_right("s3 s1", "t3a t1c"), is_right("s3 s1", "t3a")
    (True, False)
    """
    return [word[1:-1] for word in text.split()] == [word[1:] for word in source.split()]
