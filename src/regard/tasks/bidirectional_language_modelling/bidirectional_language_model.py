"""A bidirectional language model ready to use: how probable words are from either side, and their vectors from every layer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batching import Batches
from regard.errors import InputError
from regard.layers import Reduction
from regard.layers.output import check_finite
from regard.tasks.bidirectional_language_modelling.sentences import Spelt, spelt
from regard.tasks.bidirectional_language_modelling.task import BidirectionalBatch, BidirectionalLanguageModellingTask
from regard.tasks.predictor import Predictor

BATCH_WORDS = 2048
"""Words read together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BidirectionalScore:
    """How probable the words of a sentence are.

    Arguments:
        text: what was read.
        words: of it.
        forward: log p(word | those before it), natural log, one for each word and one for the end.
        backward: log p(word | those after it), one for the begin and one for each word.
        unknown: how many of the words are told as the one unknown word.
    """

    text: str
    words: tuple[str, ...]
    forward: tuple[float, ...]
    backward: tuple[float, ...]
    unknown: int

    @property
    def perplexity(self) -> float:
        """The mean of both models' perplexities, as the paper has it."""
        return sum(math.exp(min(700.0, -math.fsum(side) / len(side))) for side in (self.forward, self.backward)) / 2


class BidirectionalLanguageModel(Predictor[BidirectionalLanguageModellingTask]):
    """A bidirectional language model ready to use: sentences in, `BidirectionalScore`s or vectors of words out.

    For vectors of texts, features merged from pieces, `regard embed` and `regard vectors extract` load the same folder for task
    `sentence_embedding`.

    Arguments:
        model: an `ELMo` that tells words.
        task: tokenizer and words.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    def score(self, text: str) -> BidirectionalScore:
        """How probable the words of a sentence are, from either side; words are what stands between white space.

        Raises:
            InputError: for a text without a word, or more bytes than the model reads.
        """
        return self.score_batch([text])[0]

    def score_batch(self, texts: Sequence[str], *, batch_words: int = BATCH_WORDS) -> list[BidirectionalScore]:
        """The same of many sentences; the answers come in their order.

        Arguments:
            batch_words: words read together. It does not change the answers, only memory and speed.

        Raises:
            InputError: as `score`.
        """
        sentences = self._spelt(texts)
        sides: dict[int, tuple[list[float], list[float]]] = {}
        for rows, batch in self._batches(sentences, batch_words):
            with torch.no_grad():
                forward, backward = self.model(batch.tokens, reduce=_probabilities(batch))
            for place, row in enumerate(rows):
                count = len(sentences[row].words) + 1
                check_finite(torch.stack([forward[place, :count], backward[place, :count]]), "these words")
                sides[row] = (forward[place, :count].tolist(), backward[place, :count].tolist())
        known = self.task.words.places
        return [
            BidirectionalScore(
                text=text,
                words=each.words,
                forward=tuple(sides[row][0]),
                backward=tuple(sides[row][1]),
                unknown=sum(word not in known for word in each.words),
            )
            for row, (text, each) in enumerate(zip(texts, sentences, strict=True))
        ]

    def word_states(
        self, sentences: Sequence[str | Sequence[str]], *, batch_words: int = BATCH_WORDS
    ) -> list[NDArray[np.float32]]:
        """The vectors of every word of some sentences from every layer: (W, L + 1, D) each, layer 0 first.

        Arguments:
            sentences: strings, or lists of words without white space in them.
            batch_words: as for `score_batch`.

        Raises:
            InputError: as `score`; for a word that is empty or has white space in it.
        """
        read = self._spelt([each if isinstance(each, str) else _joined(each, n) for n, each in enumerate(sentences, 1)])
        found: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * len(read)
        for rows, batch in self._batches(read, batch_words):
            with torch.no_grad():
                states = torch.stack(self.model.word_states(self.model.words_of(batch.tokens)), dim=2)
            vectors = states.float().cpu().numpy()
            for place, row in enumerate(rows):
                check_finite(states[place, 1 : 1 + len(read[row].words)], "these words")
                found[row] = vectors[place, 1 : 1 + len(read[row].words)].copy()
        return found

    def tell(self, count: int) -> None:
        """Tell whoever watches this thread that so many sentences are done."""
        for watcher in self._watchers():
            watcher.predicted([None] * count, [])

    def _spelt(self, texts: Sequence[str]) -> list[Spelt]:
        if isinstance(texts, str):
            raise InputError("one string given where a list of sentences is wanted; put it in a list")
        for number, text in enumerate(texts, start=1):
            if not isinstance(text, str) or not text.split():
                raise InputError(f"sentence {number} is {text!r:.60}, without a word; leave it out")
        found = list(spelt(self.task.tokenizer, texts))
        limit = self.model.maximum_length
        for number, each in enumerate(found, start=1):
            if len(each.ids) + 2 > limit:
                raise InputError(
                    f"sentence {number} has {len(each.ids) + 2:,} tokens (bytes) where the model reads {limit:,}; split it"
                )
        return found

    def _batches(self, sentences: Sequence[Spelt], size: int) -> Iterator[tuple[list[int], BidirectionalBatch]]:
        if not sentences:
            return
        lengths = np.array([[len(each.words) + 2] for each in sentences], dtype=np.int64)
        for rows in Batches(lengths, maximum_tokens=size).in_order():
            yield rows.tolist(), self.task.batch([sentences[row] for row in rows]).to(self.device)


def _probabilities(batch: BidirectionalBatch) -> Reduction:
    """What turns the vectors that tell into log-probabilities of the words that stand there, (B, W - 1) for each side."""

    def reduce(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> list[Tensor]:
        found = []
        for side, labels in enumerate((batch.words[:, 1:], batch.words[:, :-1])):
            logits = F.linear(hidden[:, side], weight, bias).float()
            found.append(logits.gather(-1, labels.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(dim=-1))
        return found

    return reduce


def _joined(words: Sequence[str], number: int) -> str:
    for word in words:
        if not isinstance(word, str) or len(word.split()) != 1:
            raise InputError(f"sentence {number}: {word!r:.40} is no word; give strings without white space")
    return " ".join(words)
