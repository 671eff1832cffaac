"""A tagger ready to use."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from regard.data.token_store import TokenStore
from regard.data.words import Span, words_of
from regard.errors import InputError, nearest
from regard.metrics.chunks import chunk_scores
from regard.metrics.classification import accuracy
from regard.tasks.encoders import EncoderPredictor
from regard.tasks.gaps import refuse_gaps
from regard.tasks.tagging.decoding import Decoding
from regard.tasks.tagging.task import GOES_ON, TAG, TaggingTask, read_windows
from regard.tasks.tagging.windows import Window, read_sentences

DECODINGS = ("constrained", "greedy")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entity:
    """A span of words that the tags mark.

    Arguments:
        type: such as `PER`.
        text: as it stands.
        start, end: where, in characters of the text, end excluded.
        probability: the product of those of its words' tags.
    """

    type: str
    text: str
    start: int
    end: int
    probability: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Tagging:
    """What a tagger says of a text.

    Arguments:
        text: what was read; words that were given apart, with a blank between.
        words: of the text.
        tags: one for each word.
        probabilities: of each of the tags, whatever stands around.
        spans: where each word stands in the text: (start, end) in characters, end excluded.
        entities: the spans that the tags mark, in order; none where tags are no spans, such as parts of speech.
    """

    text: str
    words: tuple[str, ...]
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]
    spans: tuple[Span, ...]
    entities: tuple[Entity, ...]


class Tagger(EncoderPredictor[TaggingTask]):
    """A tagger ready to use: texts, or the words of sentences, in, `Tagging`s out.

    Arguments:
        model: a `TextEncoder` with one output for each tag at every token.
        task: tokenizer and tags.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    judged: ClassVar[tuple[str, ...]] = ("f1", "precision", "recall", "accuracy")

    def tag(self, text: str | Sequence[str], *, decoding: Decoding | None = None) -> Tagging:
        """The tags of one text, or of the words of one sentence.

        Arguments:
            text: a string, which is cut into words as `regard.data.words.words_of` says; or a list of words.
            decoding: `constrained` or `greedy`, as `TaggingTask`; the task's own where None.

        Raises:
            InputError: for a text without a word, or something that is no text.
        """
        return self.tag_batch([text], decoding=decoding)[0]

    def tag_batch(
        self,
        texts: Sequence[str | Sequence[str]],
        *,
        documents: Sequence[int] | None = None,
        decoding: Decoding | None = None,
    ) -> list[Tagging]:
        """The tags of many texts, each as for `tag`; the answers come in the order of the texts.

        Arguments:
            documents: the number of each text's document; those of one stand together. A model that was trained with
                `data.context` reads its neighbours there with each text; without it each text is read alone.

        Raises:
            InputError: as `tag`; where there are not as many documents as texts.
        """
        if isinstance(texts, str):
            raise InputError("one string given where a list of texts is wanted; put it in a list")
        if documents is not None and len(documents) != len(texts):
            raise InputError(f"{len(texts):,} texts and {len(documents):,} documents; give the document of each text")
        refuse_gaps(texts, why="there is nothing to tag")
        cut = [_cut(text, number) for number, text in enumerate(texts, start=1)]
        sentences = [[text[start:end] for start, end in spans] for text, spans in cut]
        scores = self.scores(sentences, documents=documents)
        made = [
            self._said(text, words, spans, path, np.exp(each[np.arange(len(path)), path]))
            for (text, spans), words, each, path in zip(
                cut, sentences, scores, self.decoded(scores, decoding), strict=True
            )
        ]
        self.tell(made)
        return made

    def scores(self, sentences: Sequence[Sequence[str]], *, documents: Sequence[int] | None = None) -> list[np.ndarray]:
        """The log-probabilities of all tags at each word, (words, tags) float32 for each sentence.

        Arguments:
            sentences: the words of each.
            documents: as `tag_batch`.
        """
        task = self.task
        parts = list(
            read_sentences(
                task.tokenizer, sentences, maximum=self.maximum_length, context=task.context, documents=documents
            )
        )
        found = iter(self.window_scores([window for windows in parts for window in windows]))
        return [np.concatenate(list(itertools.islice(found, len(windows)))) for windows in parts]

    def window_scores(self, windows: Sequence[Window]) -> list[np.ndarray]:
        """The same at the words that each window tags."""
        found: list[np.ndarray] = [np.empty(0)] * len(windows)
        for rows, _, encoded in self.encoded([window.joined for window in windows]):
            if encoded.logits is None:
                continue
            chosen = [windows[row].places for row in rows]
            row = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor([len(places) for places in chosen]))
            place = torch.tensor(list(itertools.chain.from_iterable(chosen)))
            logits = encoded.logits[row.to(self.device), place.to(self.device)]
            taken = iter(logits.float().log_softmax(dim=-1).cpu().split([len(places) for places in chosen]))
            for number in rows:
                found[number] = next(taken).numpy()
        return found

    def decoded(self, scores: Sequence[np.ndarray], decoding: Decoding | None = None) -> list[np.ndarray]:
        """The tags, by number, of each sentence whose log-probabilities these are."""
        decoding = self.task.decoding if decoding is None else decoding
        if decoding not in DECODINGS:
            raise InputError(f"decoding is {decoding!r}; {nearest(decoding, DECODINGS)}")
        if decoding == "greedy":
            return [each.argmax(axis=1) for each in scores]
        transitions = self.task.transitions
        return [transitions.best(each) for each in scores]

    def _said(
        self, text: str, words: Sequence[str], spans: Sequence[Span], path: np.ndarray, probabilities: np.ndarray
    ) -> Tagging:
        tags = tuple(self.task.tags[number] for number in path.tolist())
        each = tuple(probabilities.astype(float).tolist())
        marked = self.task.spans(tags) if self.task.scheme is not None else []
        entities = []
        for type, first, last in marked:
            start, end = spans[first][0], spans[last - 1][1]
            entities.append(
                Entity(type=type, text=text[start:end], start=start, end=end, probability=math.prod(each[first:last]))
            )
        return Tagging(
            text=text,
            words=tuple(words),
            tags=tags,
            probabilities=each,
            spans=tuple(spans),
            entities=tuple(entities),
        )

    def judge(self, data: TokenStore, count: int) -> dict[str, float]:
        """Precision, recall and F1 of spans as conlleval counts them, and the share of words whose tag is right.

        Where tags are no spans each word is one, and all four are the same.
        """
        rows = range(min(count, len(data)))
        scores = self.window_scores(read_windows(data, rows))
        right: list[list[int]] = []
        sentences: list[list[np.ndarray]] = []
        for row, each in zip(rows, scores, strict=True):
            if not right or not data.sequence(GOES_ON, row)[0]:
                right.append([])
                sentences.append([])
            right[-1] += data.sequence(TAG, row).tolist()
            sentences[-1].append(each)
        predicted = self.decoded([np.concatenate(parts) for parts in sentences])
        names = self.task.tags
        return judged(
            self.task,
            [[names[number] for number in numbers] for numbers in right],
            [[names[number] for number in path.tolist()] for path in predicted],
        )


def judged(task: TaggingTask, right: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """The metrics of predicted tags."""
    found = chunk_scores([task.spans(tags) for tags in right], [task.spans(tags) for tags in predicted]).overall
    flat = itertools.chain.from_iterable
    return {
        "f1": found.f1,
        "precision": found.precision,
        "recall": found.recall,
        "accuracy": accuracy(list(flat(right)), list(flat(predicted))),
    }


def _cut(text: str | Sequence[str], number: int) -> tuple[str, list[Span]]:
    """A text and where its words stand in it; words that were given apart are joined by blanks.

    Raises:
        InputError: where there is no word.
    """
    if isinstance(text, str):
        spans = words_of(text)
        if not spans:
            raise InputError(f"text {number} holds no word; there is nothing to tag")
        return text, spans
    if not isinstance(text, Sequence):
        raise InputError(f"text {number} is {text!r:.80}; give a string, or a list of words")
    spans, start = [], 0
    for place, word in enumerate(text, start=1):
        if not isinstance(word, str):
            raise InputError(f"text {number}, word {place} is {word!r:.80}; give strings")
        if not word.strip():
            raise InputError(f"text {number}, word {place} is empty; leave it out")
        spans.append((start, start + len(word)))
        start += len(word) + 1
    if not spans:
        raise InputError(f"text {number} holds no word; there is nothing to tag")
    return " ".join(text), spans
