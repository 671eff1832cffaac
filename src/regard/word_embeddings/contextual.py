"""Word vectors out of an encoder that reads words in context: averaged over contexts, alone, or its table of pieces."""

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
"""A string, in which the tokenizer finds words, or a list of words."""

Progress = Callable[[int, int], None]
"""Called with how many are done and how many there are."""


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
    """The mean of a word's contextual vectors, for every word of a text that is frequent enough.

    The vector of a word in a sentence is the mean of its pieces'. A word that is in more than `contexts` sentences is taken from
    as many of them, spread evenly over the text, so that no one chapter says what it means; all its occurrences in a sentence
    count. No number is sampled. The text is read twice, once to count, and only sentences from which something is taken are
    given to the model; in memory are the counts, and for each word that is kept one sum in float64.

    Arguments:
        encoder: any model that `regard.load(folder, task="sentence_embedding")` gives.
        sentences: strings, whose words are found as the model's tokenizer finds them, or lists of words. Something that can be
            gone through twice, such as a list; empty ones are left out.
        layers: as for `features`, such as `last`, `embeddings`, `sum_last_four`, `concatenate_last_four`, or numbers.
        contexts: the most sentences that a word is taken from.
        minimum_count: words that occur less often are left out.
        lowercase: whether a word and the same in capitals are one. The model reads the sentence as it stands.
        precision: to compute in: `float32`, `bfloat16` or `int8`; the model's own where None.
        name: what messages and tables call the vectors.
        progress: is called with how many sentences were gone through.

    Returns:
        The words, the commonest first, with their counts in the whole text.

    Raises:
        InputError: for sentences that can be gone through only once, sizes below 1, no word that is frequent enough, and layers
            that the model does not have.
    """
    if isinstance(sentences, str) or iter(sentences) is sentences:
        raise InputError("sentences: are read twice, to count and to average; give a list of them")
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
    """Sentences with the words that are taken from them, some at a time, and how many sentences were gone through."""
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
    """Whether the sentence of this number, from 0, is among so many that are spread evenly over all that hold a word.

    >>> [number for number in range(10) if taken(number, 10, 4)]
    [0, 3, 5, 8]
    """
    return of <= contexts or number * contexts % of < contexts


# Words alone: the vector of a word that is a text of its own.

WORDS_TOGETHER = 1024
"""Words whose vectors are in memory at once, next to the table."""


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
    """What an encoder makes of each word as a text of its own: the mean of its pieces' vectors between the special tokens.

    Arguments:
        encoder: any model that `regard.load(folder, task="sentence_embedding")` gives.
        words: all different.
        layers: as for `features`.
        counts: how often each occurs somewhere, (N,) int64, to be kept with them; None for nothing.
        precision: to compute in; the model's own where None.
        name: what messages and tables call the vectors.
        progress: is called with how many words are done, and of how many.

    Raises:
        InputError: for no word, a word given twice, and layers that the model does not have.
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


# Pieces: the table of an encoder's input embeddings, and words as means of their pieces.


@dataclass(frozen=True, kw_only=True, eq=False)
class PieceMean:
    """A word's vector as the mean of its pieces'.

    Arguments:
        tokenizer: parts words into pieces.
        matrix: (V, W), a vector for each piece by its number.
    """

    tokenizer: Tokenizer
    matrix: Matrix

    def vector(self, word: str) -> Matrix | None:
        """Of width (W,) float32; None for a word of which nothing is left, or that has an unknown piece."""
        ids = self.tokenizer.encode_words([word])[0]
        if not ids or self.tokenizer.unknown_id in ids:
            return None
        return self.matrix[ids].mean(axis=0, dtype=np.float32)


def piece_vectors(encoder: SentenceEncoder, *, name: str = "pieces") -> WordVectors:
    """The rows that an encoder looks its tokens up in, before positions and layer norm; other words are means of pieces.

    Words inside a word are called as in the vocabulary, such as "##ing".

    Arguments:
        encoder: any model that `regard.load(folder, task="sentence_embedding")` gives.
        name: what messages and tables call the vectors.
    """
    tokenizer = encoder.task.tokenizer
    weight = encoder.model.embedding.tokens.weight.detach().float().cpu().numpy()
    size = min(tokenizer.size, len(weight))  # some tables are longer than the vocabulary, for speed
    matrix = np.array(weight[:size])
    return WordVectors(
        words=tuple(tokenizer.tokens(range(size))),
        matrix=matrix,
        subwords=PieceMean(tokenizer=tokenizer, matrix=matrix),
        metadata={"method": "input embeddings of pieces"},
        name=name,
    )


# The words of a text as the tokenizer finds them, and how often each occurs.


SENTENCES_TOGETHER = 256
"""Sentences that are in memory at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WordCounts:
    """What a text is made of.

    Arguments:
        words: how often each word occurs.
        holding: in how many sentences.
        sentences: how many there are, empty ones left out.
    """

    words: Counter[str]
    holding: Counter[str]
    sentences: int

    def frequent(self, minimum: int) -> tuple[tuple[str, ...], Counts]:
        """The words that occur so often, the commonest first, those alike by the alphabet, and their counts.

        Raises:
            InputError: for a minimum below 1, and where no word is so frequent.
        """
        if minimum < 1:
            raise InputError(f"minimum_count is {minimum}; give 1 or more")
        found = sorted((-count, word) for word, count in self.words.items() if count >= minimum)
        if not found:
            raise InputError(
                f"sentences: hold {self.words.total():,} words, none of them {minimum} times; lower minimum_count or give more "
                "text"
            )
        return tuple(word for _, word in found), np.array([-count for count, _ in found], dtype=np.int64)


def counted(tokenizer: Tokenizer, sentences: Iterable[Sentence], *, lowercase: bool = False) -> WordCounts:
    """How often each word occurs.

    Arguments:
        tokenizer: finds the words of sentences that are strings.
        sentences: strings, or lists of words; read one after another.
        lowercase: whether a word and the same in capitals are one.
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
    """The words of each sentence, as `features(...).merged().words` has them; lists of words are their own."""
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
    """Sentences that are not empty, some at a time."""
    filled = (each for each in sentences if (each.strip() if isinstance(each, str) else each))
    while some := list(islice(filled, SENTENCES_TOGETHER)):
        yield some


def key(word: str, lowercase: bool) -> str:
    """What a word is counted as."""
    return word.lower() if lowercase else word


# The choice of layers.


def chosen(encoder: SentenceEncoder, layers: Layers) -> tuple[LayerChoice, int]:
    """The choice of layers, and the width of the vectors it gives.

    Raises:
        InputError: for a layer that the model does not have, and for layers that are kept apart.
    """
    choice = layer_choice(layers, len(encoder.model.layers))
    if choice.combine == "stack":
        raise InputError(
            "one vector of a word is wanted, and the layers chosen are kept apart; sum or concatenate them"
        )
    wide = len(choice.layers) if choice.combine == "concatenate" else 1
    return choice, wide * int(encoder.model.config.width)


def described(choice: LayerChoice) -> dict[str, Any]:
    """A choice of layers as JSON values."""
    weights = None if choice.weights is None else list(choice.weights)
    return {"layers": list(choice.layers), "combine": choice.combine, "weights": weights}
