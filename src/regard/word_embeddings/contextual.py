"""Static word embeddings from a contextual encoder: averaged over contexts, of words alone, or its input embeddings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.embeddings.features import LayerChoice, layer_choice
from regard.errors import InputError
from regard.text import Tokenizer
from regard.word_embeddings.store import Counts, Matrix, WordVectors

if TYPE_CHECKING:
    from regard.tasks.sentence_embedding import SentenceEncoder

Layers = LayerChoice | str | int | Sequence[int]

Sentence = str | Sequence[str]
"""A string, which the tokenizer splits into words, or a list of words."""

Progress = Callable[[int, int], None]
"""Is called with the number of items that are done and their total."""


def averaged_vectors(
    encoder: SentenceEncoder,
    sentences: Iterable[Sentence],
    *,
    layers: Layers = "last",
    contexts: int = 50,
    minimum_count: int = 5,
    lowercase: bool = False,
    precision: str | None = None,
    name: str = "averaged contexts",
    progress: Progress | None = None,
) -> WordVectors:
    """The mean of the contextual embeddings of each word that is frequent enough in a text.

    The embedding of a word in a sentence is the mean of the embeddings of its subword pieces. If a word occurs in more than
    `contexts` sentences, that many are used, spaced evenly over the text, so that no single chapter dominates; all occurrences
    in these sentences count. Nothing is random. The text is read twice, first for counting. Only sentences that are used are
    given to the model. Memory holds the counts and one float64 sum per word.

    Arguments:
        encoder: a model loaded with `regard.load(folder, task="sentence_embedding")`.
        sentences: strings, which the model's tokenizer splits into words, or lists of words. The iterable must be readable
            twice, such as a list. Empty sentences are skipped.
        layers: as for `features`, such as `last`, `embeddings`, `sum_last_four`, `concatenate_last_four`, or layer numbers.
        contexts: the most sentences per word.
        minimum_count: words that occur less often are left out.
        lowercase: whether words that differ only in case are counted as one. The model always reads the original sentence.
        precision: precision of the computation: `float32`, `bfloat16` or `int8`; None for the model's own.
        name: the name of the vectors in messages and tables.
        progress: is called with the number of sentences read so far and their total.

    Returns:
        The word embeddings, the most frequent words first, with their counts in the whole text.

    Raises:
        InputError: if sentences can be read only once, a number is below 1, no word is frequent enough, or the model does not
            have a layer.
    """
    if isinstance(sentences, str) or iter(sentences) is sentences:
        raise InputError("sentences: are read twice, to count and to average; give a list of sentences")
    if contexts < 1:
        raise InputError(f"contexts is {contexts}; give 1 or more")
    choice, width = chosen(encoder, layers)
    tokenizer = encoder.task.tokenizer
    found = counted(tokenizer, sentences, lowercase=lowercase)
    words, counts = found.frequent(minimum_count)
    rows = {word: row for row, word in enumerate(words)}
    holding = np.array([found.holding[word] for word in words], dtype=np.int64)
    sums, used = np.zeros((len(words), width)), np.zeros(len(words), dtype=np.int64)
    done = 0
    for some, read in _wanted(tokenizer, sentences, rows, holding, contexts, lowercase):
        each = encoder.features([text for text, _ in some], layers=choice, precision=precision) if some else []
        for (_, wanted), features in zip(some, each, strict=True):
            merged = features.merged()
            keys = [key(word, lowercase) for word in merged.words]
            places = [place for place, word in enumerate(keys) if word in wanted]
            at = [rows[keys[place]] for place in places]
            np.add.at(sums, at, merged.array[places])
            np.add.at(used, at, 1)
        done += read
        if progress is not None:
            progress(done, found.sentences)
    metadata = {
        "method": "averaged contexts",
        **described(choice),
        "contexts": contexts,
        "minimum_count": minimum_count,
        "lowercase": lowercase,
        "sentences": found.sentences,
        "occurrences_averaged": int(used.sum()),
    }
    matrix = (sums / used[:, None]).astype(np.float32)
    return WordVectors(words=words, matrix=matrix, counts=counts, metadata=metadata, name=name)


def _wanted(
    tokenizer: Tokenizer,
    sentences: Iterable[Sentence],
    rows: Mapping[str, int],
    holding: np.ndarray,
    contexts: int,
    lowercase: bool,
) -> Iterator[tuple[list[tuple[Sentence, set[str]]], int]]:
    """Batches of (sentence, words to average in it), each with the number of sentences that were read for it."""
    seen = np.zeros(len(rows), dtype=np.int64)
    for some in pieces_of(sentences):
        chosen_here: list[tuple[Sentence, set[str]]] = []
        for sentence, words in zip(some, words_in(tokenizer, some), strict=True):
            wanted: set[str] = set()
            for word in {key(word, lowercase) for word in words}:
                row = rows.get(word)
                if row is None:
                    continue
                if taken(int(seen[row]), int(holding[row]), contexts):
                    wanted.add(word)
                seen[row] += 1
            if wanted:
                chosen_here.append((sentence, wanted))
        yield chosen_here, len(some)


def taken(number: int, of: int, contexts: int) -> bool:
    """Whether sentence `number` (from 0) of the `of` sentences with a word is one of `contexts` evenly spaced ones.

    >>> [number for number in range(10) if taken(number, 10, 4)]
    [0, 3, 5, 8]
    """
    return of <= contexts or number * contexts % of < contexts


# Words alone: the embedding of a text that consists of one word.

WORDS_TOGETHER = 1024
"""The number of words that are encoded at a time."""


def vectors_alone(
    encoder: SentenceEncoder,
    words: Sequence[str],
    *,
    layers: Layers = "last",
    counts: Counts | None = None,
    precision: str | None = None,
    name: str = "words alone",
    progress: Callable[[int, int], None] | None = None,
) -> WordVectors:
    """The embedding of each word when it is the whole text: the mean over its subword pieces, without special tokens.

    Arguments:
        encoder: a model loaded with `regard.load(folder, task="sentence_embedding")`.
        words: different words.
        layers: as for `features`.
        counts: (N,) int64, the frequency of each word, which is stored with the vectors; None if unknown.
        precision: precision of the computation; None for the model's own.
        name: the name of the vectors in messages and tables.
        progress: is called with the number of words that are done and their total.

    Raises:
        InputError: for no words, a word given twice, or layers that the model does not have.
    """
    if isinstance(words, str) or not words:
        raise InputError("words: none are given; give a list of one or more")
    choice, width = chosen(encoder, layers)
    matrix = np.empty((len(words), width), dtype=np.float32)
    for start in range(0, len(words), WORDS_TOGETHER):
        some = [[word] for word in words[start : start + WORDS_TOGETHER]]
        found = encoder.features(some, layers=choice, precision=precision)
        matrix[start : start + len(some)] = np.stack([each.merged().array[0] for each in found])
        if progress is not None:
            progress(start + len(some), len(words))
    return WordVectors(
        words=tuple(words),
        matrix=matrix,
        counts=counts,
        metadata={"method": "words alone", **described(choice)},
        name=name,
    )


# Pieces: the input embeddings of an encoder, and words as means of their pieces.


@dataclass(frozen=True, kw_only=True, eq=False)
class PieceMean:
    """Computes the vector of a word as the mean of the vectors of its subword pieces.

    Arguments:
        tokenizer: splits words into pieces.
        matrix: (V, W) float32, the vector of each piece by token id.
    """

    tokenizer: Tokenizer
    matrix: Matrix

    def vector(self, word: str) -> Matrix | None:
        """The vector of a word, (W,) float32; None if it has no pieces or an unknown piece."""
        ids = self.tokenizer.encode_words([word])[0]
        if not ids or self.tokenizer.unknown_id in ids:
            return None
        return self.matrix[ids].mean(axis=0, dtype=np.float32)


def piece_vectors(encoder: SentenceEncoder, *, name: str = "pieces") -> WordVectors:
    """The input embeddings of an encoder's tokens, before positions and layer norm.

    Vectors of words that are not tokens are means of the vectors of their pieces. Pieces are named as in the vocabulary, such
    as "##ing".

    Arguments:
        encoder: a model loaded with `regard.load(folder, task="sentence_embedding")`.
        name: the name of the vectors in messages and tables.
    """
    tokenizer = encoder.task.tokenizer
    weight = encoder.model.embedding.tokens.weight.detach().float().cpu().numpy()
    size = min(tokenizer.size, len(weight))  # some tables are padded beyond the vocabulary for speed
    matrix = np.array(weight[:size])
    return WordVectors(
        words=tuple(tokenizer.tokens(range(size))),
        matrix=matrix,
        subwords=PieceMean(tokenizer=tokenizer, matrix=matrix),
        metadata={"method": "input embeddings of pieces"},
        name=name,
    )


# The words of a text, as split by the tokenizer, and their counts.


SENTENCES_TOGETHER = 256
"""The number of sentences that are in memory at a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WordCounts:
    """The word counts of a text.

    Arguments:
        words: the number of occurrences of each word.
        holding: the number of sentences that contain each word.
        sentences: the number of sentences, without empty ones.
    """

    words: Counter[str]
    holding: Counter[str]
    sentences: int

    def frequent(self, minimum: int) -> tuple[tuple[str, ...], Counts]:
        """The words with at least `minimum` occurrences and their counts, sorted by falling count, then alphabetically.

        Raises:
            InputError: for a minimum below 1, or if no word is that frequent.
        """
        if minimum < 1:
            raise InputError(f"minimum_count is {minimum}; give 1 or more")
        found = sorted((-count, word) for word, count in self.words.items() if count >= minimum)
        if not found:
            raise InputError(
                f"sentences: contain {self.words.total():,} words, and none occurs {minimum} times; lower minimum_count or give "
                "more text"
            )
        return tuple(word for _, word in found), np.array([-count for count, _ in found], dtype=np.int64)


def counted(tokenizer: Tokenizer, sentences: Iterable[Sentence], *, lowercase: bool = False) -> WordCounts:
    """Count the words of a text.

    Arguments:
        tokenizer: splits sentences that are strings into words.
        sentences: strings, or lists of words.
        lowercase: whether words that differ only in case are counted as one.
    """
    words, holding, total = Counter[str](), Counter[str](), 0
    for some in pieces_of(sentences):
        for each in words_in(tokenizer, some):
            keys = [key(word, lowercase) for word in each]
            words.update(keys)
            holding.update(set(keys))
        total += len(some)
    return WordCounts(words=words, holding=holding, sentences=total)


def words_in(tokenizer: Tokenizer, sentences: Sequence[Sentence]) -> list[Sequence[str]]:
    """The words of each sentence, the same as `features(...).merged().words`; lists of words are returned unchanged."""
    encoded = iter(tokenizer.encode_batch_with_spans([each for each in sentences if isinstance(each, str)]))
    found: list[Sequence[str]] = []
    for sentence in sentences:
        if not isinstance(sentence, str):
            found.append(sentence)
            continue
        ids, spans = next(encoded)
        starts = np.flatnonzero(~tokenizer.continues(ids)).tolist() if ids else []
        ends = [*(place - 1 for place in starts[1:]), len(ids) - 1][: len(starts)]
        found.append([sentence[spans[a][0] : spans[b][1]] for a, b in zip(starts, ends, strict=True)])
    return found


def pieces_of(sentences: Iterable[Sentence]) -> Iterator[list[Sentence]]:
    """Sentences that are not empty, in batches."""
    filled = (each for each in sentences if (each.strip() if isinstance(each, str) else each))
    while some := list(islice(filled, SENTENCES_TOGETHER)):
        yield some


def key(word: str, lowercase: bool) -> str:
    """The form under which a word is counted."""
    return word.lower() if lowercase else word


# The choice of layers.


def chosen(encoder: SentenceEncoder, layers: Layers) -> tuple[LayerChoice, int]:
    """The choice of layers, and the width of the resulting vectors.

    Raises:
        InputError: for a layer that the model does not have, and for `stack`, which does not combine layers.
    """
    choice = layer_choice(layers, len(encoder.model.layers))
    if choice.combine == "stack":
        raise InputError("each word needs one vector, and the chosen layers are not combined; sum or concatenate them")
    wide = len(choice.layers) if choice.combine == "concatenate" else 1
    return choice, wide * int(encoder.model.config.width)


def described(choice: LayerChoice) -> dict[str, Any]:
    """A choice of layers as JSON values."""
    weights = None if choice.weights is None else list(choice.weights)
    return {"layers": list(choice.layers), "combine": choice.combine, "weights": weights}
