"""BART's noise: each sampled span of a text replaced by one mask, and sentences permuted (Lewis et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.models.config import check


@dataclass(frozen=True, kw_only=True, slots=True)
class Denoising:
    """BART's noise: sentence permutation, then text infilling (Lewis et al. 2020, sections 2.2 and 5).

        noise = round(density * n),   l_1, l_2, ... ~ Poisson(mean_span),   S = the smallest S with l_1 + ... + l_S >= noise

    Sentences are permuted, all orders being equally probable. Then S spans are removed, the last shortened so that the spans
    have `noise` tokens in total, and one mask replaces each; a span of length 0 inserts a mask. The other tokens keep their
    order. All arrangements of spans among them are equally probable, so two masks may be adjacent. S is at most `noise`:
    span number `noise` takes all the tokens still to be removed, so an input is never longer than its text. The target is the
    original text.

    The released code removes whole words and may remove a few tokens more or fewer; here the counts are exact.

    Arguments:
        density: share of the tokens that are removed, in [0, 1).
        mean_span: mean of the Poisson distribution of span lengths, in tokens, at least 1.
        permute: whether sentences are permuted.
        static: whether every epoch has the same noise.
        seed: random seed.

    Raises:
        InputError: for a density outside [0, 1) or a mean below 1.
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
        """The number of tokens removed from each text.

        Arguments:
            lengths: (N,) integers, the number of tokens of each text.

        Returns:
            (N,) int64.

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
        """The noisy texts. Each is a function of `seed`, `draw` and its own row, independent of the other texts.

        Arguments:
            texts: the token ids of each text, without special tokens.
            rows: a number for each text, which selects its random numbers.
            mask: the id that replaces a span.
            separators: the ids that end a sentence, such as a full stop; if empty, a text is one sentence.
            draw: a number that differs from epoch to epoch, without effect if `static`; None in evaluation.

        Returns:
            An int64 array of ids for each text.

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
    """The end position of each sentence: after a run of separators, and at the end of the text.

    Arguments:
        text: (L,) ids.
        separators: the ids that end a sentence.

    Returns:
        Exclusive end positions, rising; the last is L.

    >>> sentence_ends(np.array([5, 0, 0, 6, 7, 0, 8]), [0]).tolist()
    [3, 6, 7]
    """
    ends = np.isin(text, np.asarray(separators, dtype=np.int64))
    last = ends.copy()
    last[:-1] &= ~ends[1:]
    last[-1:] = True
    return np.flatnonzero(last) + 1


def permuted_sentences(text: np.ndarray, separators: Sequence[int], generator: np.random.Generator) -> np.ndarray:
    """The sentences of a text in random order, all orders equally probable; each keeps its separators.

    Arguments:
        text: (L,) ids.
        separators: as in `sentence_ends`.
        generator: random number generator.
    """
    sentences = np.split(text, sentence_ends(text, separators)[:-1])
    return np.concatenate([sentences[place] for place in generator.permutation(len(sentences))])


def span_lengths(noise: int, mean: float, generator: np.random.Generator) -> np.ndarray:
    """Poisson-distributed span lengths with the sum `noise`, the last shortened to fit; at most `noise` spans.

    Arguments:
        noise: the number of tokens in all spans together.
        mean: mean of the Poisson distribution.
        generator: random number generator.
    """
    lengths: list[int] = []
    left = noise
    while left > 0:
        sampled = int(generator.poisson(mean))
        length = left if len(lengths) == noise - 1 else min(sampled, left)
        lengths.append(length)
        left -= length
    return np.array(lengths, dtype=np.int64)


def infilled(text: np.ndarray, lengths: np.ndarray, mask: int, generator: np.random.Generator) -> np.ndarray:
    """A text with one mask in place of each span; a span of length 0 inserts a mask.

    Arguments:
        text: (L,) ids.
        lengths: (S,) integers, the span lengths in the order of the spans, with a sum of at most L.
        mask: the id that replaces each span.
        generator: random number generator; all positions of the spans are equally probable.
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
