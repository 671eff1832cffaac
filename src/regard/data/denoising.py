"""BART's noise: spans of a text each replaced by one mask, and its sentences in another order (Lewis et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.models.config import check


@dataclass(frozen=True, kw_only=True, slots=True)
class Denoising:
    """How a text is made noisy: sentence permutation, then text infilling (Lewis et al. 2020, sections 2.2 and 5).

        noise = round(density * n),   l_1, l_2, ... ~ Poisson(mean_span),   S = the least with l_1 + ... + l_S >= noise

    Sentences are put in random order, all orders as probable. Then S spans are taken out, the last cut so that they have `noise`
    tokens together, and one mask stands for each; a span of length 0 inserts a mask. The tokens that stay keep their order, and
    all ways to lay them and the spans in one row have equal chances, so two masks may stand side by side. S is at most `noise`:
    the last of so many takes what is left, and an input is never longer than its text. The target is the text as it was.

    The released code takes out whole words and may take out a few tokens more or less; here the counts are exact.

    Arguments:
        density: share of the tokens taken out.
        mean_span: of the Poisson distribution of a span's length.
        permute: whether sentences are put in random order.
        static: make the same noise in every epoch.
        seed: of all chances.

    Raises:
        InputError: for a density or mean that is none.
    """

    density: float = 0.3
    mean_span: float = 3.0
    permute: bool = True
    static: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check(0 <= self.density < 1, "data.density", self.density, "at least 0 and below 1", "0.3 is usual")
        check(self.mean_span >= 1, "data.mean_span", self.mean_span, "at least 1", "3 is usual")

    def counts(self, lengths: np.ndarray) -> np.ndarray:
        """How many tokens of each text are taken out.

        Arguments:
            lengths: (N,), tokens of each text.

        >>> Denoising().counts(np.array([512, 10, 1])).tolist()
        [154, 3, 0]
        """
        return np.rint(lengths * self.density).astype(np.int64)

    def corrupt(
        self,
        texts: Sequence[np.ndarray],
        rows: Sequence[int],
        *,
        mask: int,
        separators: Sequence[int] = (),
        draw: int | None = None,
    ) -> list[np.ndarray]:
        """The noisy texts: a function of `seed`, `draw` and each text's row, whatever other texts are there.

        Arguments:
            texts: the ids of each, without special tokens.
            rows: a number for each.
            mask: the id that stands for a span.
            separators: the ids that end a sentence, a full stop for one; without any a text is one sentence.
            draw: a number that differs from epoch to epoch, without effect where `static`; None in evaluation.

        >>> noisy = Denoising(permute=False).corrupt([np.arange(20)], [0], mask=99)[0]
        >>> int((noisy != 99).sum()), len(noisy) <= 20
        (14, True)
        """
        stream = 0 if draw is None else 1 if self.static else 2 + draw
        key = np.random.SeedSequence([self.seed, 0xBA27, stream]).generate_state(1, np.uint64)[0]
        found = []
        for text, row in zip(texts, rows, strict=True):
            generator = np.random.Generator(np.random.Philox(key=[int(key), row]))
            ids = text.astype(np.int64)
            if self.permute:
                ids = permuted_sentences(ids, separators, generator)
            noise = int(self.counts(np.array([len(ids)]))[0])
            found.append(infilled(ids, span_lengths(noise, self.mean_span, generator), mask, generator))
        return found


def sentence_ends(text: np.ndarray, separators: Sequence[int]) -> np.ndarray:
    """Where each sentence ends: after separators, several in a row being one end, and where the text does.

    Arguments:
        text: (L,) ids.
        separators: the ids that end a sentence.

    >>> sentence_ends(np.array([5, 0, 0, 6, 7, 0, 8]), [0]).tolist()
    [3, 6, 7]
    """
    ends = np.isin(text, np.asarray(separators, dtype=np.int64))
    last = ends.copy()
    last[:-1] &= ~ends[1:]
    last[-1:] = True
    return np.flatnonzero(last) + 1


def permuted_sentences(text: np.ndarray, separators: Sequence[int], generator: np.random.Generator) -> np.ndarray:
    """The sentences of a text in random order, all orders as probable; each keeps its separators.

    Arguments:
        text: (L,) ids.
        separators: as in `sentence_ends`.
        generator: of the chances.
    """
    sentences = np.split(text, sentence_ends(text, separators)[:-1])
    return np.concatenate([sentences[place] for place in generator.permutation(len(sentences))])


def span_lengths(noise: int, mean: float, generator: np.random.Generator) -> np.ndarray:
    """Poisson lengths of spans that have `noise` tokens together, the last cut to fit; at most `noise` spans.

    Arguments:
        noise: tokens of all spans together.
        mean: of the Poisson distribution.
        generator: of the chances.
    """
    lengths: list[int] = []
    left = noise
    while left > 0:
        drawn = int(generator.poisson(mean))
        length = left if len(lengths) == noise - 1 else min(drawn, left)
        lengths.append(length)
        left -= length
    return np.array(lengths, dtype=np.int64)


def infilled(text: np.ndarray, lengths: np.ndarray, mask: int, generator: np.random.Generator) -> np.ndarray:
    """A text with one mask in place of each span, a span of length 0 being an insertion.

    Arguments:
        text: (L,) ids.
        lengths: (S,), of the spans, together at most L; they are taken out in this order.
        mask: the id that stands for each.
        generator: of the chances: each choice of places is as probable as another.
    """
    kept = len(text) - int(lengths.sum())
    spans = np.zeros(kept + len(lengths), dtype=bool)
    spans[generator.permutation(len(spans))[: len(lengths)]] = True
    sizes = np.ones(len(spans), dtype=np.int64)
    sizes[spans] = lengths
    starts = np.cumsum(sizes) - sizes
    made = np.full(len(spans), mask, dtype=np.int64)
    made[~spans] = text[starts[~spans]]
    return made
