"""Sorting with stacks of attention layers, with and without skip connections, and the rank of their layers' outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch

from regard.claims.measure import Measure
from regard.data.sequences import Sequences
from regard.inspection.analysis.collapse import Collapse
from regard.models.config import check
from regard.tasks.encoders import join, padded
from regard.tasks.loading import load
from regard.tasks.tagging import Tagger
from regard_claims.shared import check_counts, check_examples, learning, trained

Sentence = tuple[list[str], list[str]]
RESIDUAL = "residual"
LAYER = "layer"


@dataclass(frozen=True, kw_only=True, slots=True)
class SortingDepth:
    """An `AttentionStack` that predicts at every position of a sequence the symbol of the sorted sequence (section 4).

    Measured on the test split are:

    - `accuracy`: the share of right symbols, in per cent;
    - `residual`: `regard.inspection.analysis.relative_residual` of the trained stack after the embedding (layer 0) and after each
      layer, mean over the sequences. Layers beyond the depth of the stack are NaN.

    Arguments:
        skips, feedforward, width, heads, layers, feedforward_width: as in `AttentionStackConfig`.
        deepest: the largest number of layers of any arm.
        symbols: the number of different symbols.
        length: the length of a sequence.
        size: the number of training sequences.
        test_size: the number of test sequences.
        steps: the number of updates.
        batch: the approximate number of sequences in an update.
        learning_rate: the peak learning rate; it decreases to 0 along a cosine.

    Raises:
        InputError: for a size below its minimum.
    """

    precision: ClassVar[str] = "float32"
    skips: bool = True
    feedforward: bool = True
    width: int = 48
    heads: int = 2
    layers: int = 6
    feedforward_width: int = 96
    deepest: int = 6
    symbols: int = 10
    length: int = 8
    size: int = 10_000
    test_size: int = 500
    steps: int = 500
    batch: int = 64
    learning_rate: float = 2e-3

    def __post_init__(self) -> None:
        check_counts(self, "layers", "length", "test_size", "steps", "batch")
        deepest = self.deepest
        check(deepest >= self.layers, "experiment.deepest", deepest, "no fewer than the layers", "raise it")
        check_examples(self)

    @property
    def measures(self) -> tuple[str | Measure, ...]:
        """The accuracy in per cent, and a residual for each layer."""
        return ("accuracy", Measure(name=RESIDUAL, kind="computed", along=LAYER))

    def run(self, seed: int) -> dict[str, float | Mapping[int, float]]:
        """Train the stack, and measure accuracy and residuals."""
        tokens = self.length + 2  # with the start and end tokens
        with trained(
            "tagging",
            self._sizes(tokens),
            _sentences("train", self.symbols, self.length, self.size, seed),
            seed=seed,
            data={"scheme": "none", "maximum_length": max(5, tokens)},
            training=learning(self, self.batch * tokens),
        ) as folder:
            tagger = load(folder, task="tagging")
            test = _sentences("test", self.symbols, self.length, self.test_size, seed)
            told = tagger.tag_batch([words for words, _ in test])
            right = sum(
                tag == symbol
                for tagging, (_, answer) in zip(told, test, strict=True)
                for tag, symbol in zip(tagging.tags, answer, strict=True)
            )
            residuals = residuals_of(tagger, [words for words, _ in test])
        layers = {number: residuals.get(number, float("nan")) for number in range(self.deepest + 1)}
        return {"accuracy": 100 * right / (len(test) * self.length), RESIDUAL: layers}

    def _sizes(self, tokens: int) -> dict[str, Any]:
        names = ("skips", "feedforward", "width", "heads", "layers", "feedforward_width")
        return {
            "name": "attention_stack",
            "maximum_positions": tokens,
            **{name: getattr(self, name) for name in names},
        }


def residuals_of(tagger: Tagger, sentences: list[list[str]]) -> dict[int, float]:
    """The mean relative residual of the sentences after the embedding (0) and after each layer."""
    tokenizer = tagger.task.tokenizer
    joined = [join(tokenizer, tokenizer.encode(" ".join(words)), maximum=tagger.maximum_length) for words in sentences]
    tokens, _ = padded(joined, padding_id=tokenizer.padding_id)
    with torch.no_grad():
        states = tagger.model.hidden_states(tokens)
    found = Collapse.of({str(number): state for number, state in enumerate(states)}, valid=tokens.valid)
    return dict(enumerate(found.means))


@lru_cache(maxsize=4)
def _sentences(split: str, symbols: int, length: int, size: int, seed: int) -> list[Sentence]:
    """Sequences and their sorted copies as lists of symbols; cached, because all arms of a seed use the same."""
    problems = Sequences(split, kind="sorting", symbols=symbols, shortest=length, longest=length, size=size, seed=seed)
    return [(source.split(), target.split()) for source, target in problems]
