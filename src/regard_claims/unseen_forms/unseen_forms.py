"""Vectors of inflected and misspelled forms that do not occur in the training text, and their distance to the base word."""

from __future__ import annotations

import string
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from regard.errors import InputError
from regard.models.config import check_sizes
from regard.word_embeddings.evaluation.analogies import evaluate_analogies, read_analogies
from regard.word_embeddings.neighbours import neighbours
from regard.word_embeddings.store import WordVectors
from regard.word_embeddings.training.corpus import Method, Tokenisation, Vocabulary, count_words, settings_of
from regard.word_embeddings.training.train import train_vectors
from regard_claims.shared import file_of, training_text

KINDS = ("plural", "-ed", "-ing", "typo")
FOUND, SYNTACTIC, SEMANTIC = "word found", "syntactic analogies", "semantic analogies"

_SHORTEST = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """A form that is removed from the training text, its base word, and the kind of form, one of `KINDS`."""

    form: str
    word: str
    kind: str


@dataclass(frozen=True, kw_only=True, slots=True)
class UnseenForms:
    """Vectors of forms that are removed from the training text (Bojanowski et al. 2017, section 5).

    The forms are the plurals and the forms in -ed and -ing of the most frequent words that have any, and one misspelling of each
    of these words with one wrong letter. Measured are:

    - the share of forms whose base word is among the `nearest` nearest neighbours of the form's vector, over all forms and for
      each kind; a form without a vector counts as not found;
    - the accuracy on syntactic and on semantic analogies, among the questions whose words are all in the vocabulary.

    Arguments:
        path: a folder with the training text, `train.txt` or `train.txt.gz`.
        analogies: an analogy file: its name in the folder, or its path.
        tokenisation: how the text is split into words, see `regard.word_embeddings.training.Corpus`.
        method: the training method.
        words: the number of base words.
        nearest: the number of nearest neighbours to search.
        width, window, epochs, negative, minimum_count, learning_rate, subsample, noise_exponent: training settings, see
            `VectorSettings`.
        buckets: the number of n-gram buckets of fastText; unused by other methods.
    """

    precision: ClassVar[str] = "float32"
    path: str | None = None
    analogies: str = "questions-words.txt"
    tokenisation: Tokenisation = "whitespace"
    method: Method = "fasttext"
    words: int = 200
    nearest: int = 10
    width: int = 100
    window: int = 5
    epochs: int = 5
    negative: int = 5
    minimum_count: int = 5
    learning_rate: float = 0.05
    subsample: float = 1e-4
    noise_exponent: float = 0.5
    buckets: int = 200_000

    def __post_init__(self) -> None:
        check_sizes(self, "words", "nearest")

    @property
    def measures(self) -> tuple[str, ...]:
        """The shares of forms found, and the accuracies on analogies."""
        return (FOUND, *(f"{FOUND}, {kind}" for kind in KINDS), SYNTACTIC, SEMANTIC)

    def run(self, seed: int) -> dict[str, float]:
        """Remove the forms from the text, train vectors, and search for the base words.

        Raises:
            InputError: for a missing or unreadable file, or a text in which fewer than `words` words have such forms.
        """
        corpus = training_text(self.path, self.tokenisation)
        asked = read_analogies(file_of(self.path, self.analogies))
        forms = withheld_forms(count_words(corpus, self.minimum_count), self.words, seed)
        settings = settings_of(
            self.method, width=self.width, window=self.window, epochs=self.epochs, negative=self.negative, seed=seed,
            minimum_count=self.minimum_count, learning_rate=self.learning_rate, subsample=self.subsample,
            noise_exponent=self.noise_exponent, buckets=self.buckets if self.method == "fasttext" else None,
        )  # fmt: skip
        vectors = train_vectors(_Without(sentences=corpus, out=frozenset(form.form for form in forms)), settings)
        found = {form: _finds(vectors, form, self.nearest) for form in forms}
        numbers = {FOUND: float(np.mean(list(found.values())))}
        for kind in KINDS:
            right = [value for form, value in found.items() if form.kind == kind]
            numbers[f"{FOUND}, {kind}"] = float(np.mean(right)) if right else 0.0
        scores = evaluate_analogies(vectors, asked, resamples=0)
        for name, score in ((SYNTACTIC, scores.syntactic), (SEMANTIC, scores.semantic)):
            numbers[name] = (score.accuracy if score is not None else None) or 0.0
        return numbers


def withheld_forms(vocabulary: Vocabulary, words: int, seed: int) -> list[Form]:
    """The forms of the most frequent words that have at least one form in the vocabulary, and one misspelling of each word.

    A word that is itself a form of a more frequent word is skipped.

    Arguments:
        vocabulary: the words of the text, most frequent first.
        words: the number of base words.
        seed: the seed of the misspellings.

    Raises:
        InputError: if fewer than `words` words have a form in the vocabulary.
    """
    known = set(vocabulary.words)
    generator = np.random.Generator(np.random.Philox(key=[seed, 0x7E57]))
    forms: list[Form] = []
    out: set[str] = set()
    chosen: list[str] = []
    for word in vocabulary.words:
        if len(chosen) == words:
            break
        if len(word) < _SHORTEST or not (word.isascii() and word.isalpha()) or word in out:
            continue
        mine = [form for form in inflected(word) if form.form in known and form.form not in {*out, *chosen}]
        if mine:
            chosen.append(word)
            forms += mine
            out.update(form.form for form in mine)
    if len(chosen) < words:
        raise InputError(
            f"{len(chosen):,} words of the text have such forms; give more text, or lower experiment.words"
        )
    return forms + [Form(form=_misspelt(word, known, generator), word=word, kind="typo") for word in chosen]


def inflected(word: str) -> list[Form]:
    """The plural and the forms in -ed and -ing of an English word, by spelling rules.

    >>> [form.form for form in inflected("state")], [form.form for form in inflected("study")]
    (['states', 'stated', 'stating'], ['studies', 'studied', 'studying'])
    """
    if word.endswith("y") and word[-2] not in "aeiou":
        made = (word[:-1] + "ies", word[:-1] + "ied", word + "ing")
    elif word.endswith(("s", "x", "z", "ch", "sh")):
        made = (word + "es", word + "ed", word + "ing")
    elif word.endswith("e"):
        made = (word + "s", word + "d", word[:-1] + "ing")
    else:
        made = (word + "s", word + "ed", word + "ing")
    return [Form(form=form, word=word, kind=kind) for form, kind in zip(made, KINDS, strict=False)]


def _misspelt(word: str, known: Collection[str], generator: np.random.Generator) -> str:
    """The word with one inner letter replaced, such that the result is not in the vocabulary."""
    while True:
        place = int(generator.integers(1, len(word) - 1))
        letter = string.ascii_lowercase[int(generator.integers(26))]
        form = word[:place] + letter + word[place + 1 :]
        if form not in known and form != word:
            return form


def _finds(vectors: WordVectors, form: Form, nearest: int) -> bool:
    vector = vectors.get(form.form)
    return vector is not None and form.word in (each.word for each in neighbours(vectors, vector, nearest))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Without:
    """The sentences with the words in `out` removed."""

    sentences: Iterable[Sequence[str]]
    out: Collection[str]

    def __iter__(self) -> Iterator[list[str]]:
        for sentence in self.sentences:
            yield [word for word in sentence if word not in self.out]
