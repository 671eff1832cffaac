"""One vector for each word of a text: the mean of those that an encoder gives it in its sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from regard.errors import InputError
from regard.text import Tokenizer
from regard.vectors.contextual.counting import Sentence, counted, key, pieces_of, words_in
from regard.vectors.contextual.origin import Layers, chosen, described
from regard.vectors.store import WordVectors

if TYPE_CHECKING:
    from regard.tasks.sentence_embedding.encoder import SentenceEncoder

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
    count. No number is drawn. The text is read twice, once to count, and only sentences from which something is taken are given
    to the model; in memory are the counts, and for each word that is kept one sum in float64.

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
        progress: is told how many sentences were gone through.

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
