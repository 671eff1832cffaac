"""The data of bidirectional language modelling: its settings, and sentences as bytes and words."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard.data.running_text import Boundary, Document, SentenceUnit, joined
from regard.models.config import check
from regard.tasks.examples import Place, check_amount
from regard.text import Tokenizer
from regard.text.bpe import MARK
from regard.text.word_list import END, SPECIAL, START, WordList


@dataclass(frozen=True, kw_only=True, slots=True)
class BidirectionalTextData:
    """The `data` section of a recipe.

    Words are separated by white space, so there should be spaces around punctuation.

    Arguments:
        train: a file of plain text, or several; gzip is recognised.
        validation: other files of plain text; if null, documents are held out from the training files.
        validation_share: the share of documents to hold out.
        validation_size: the number of documents to hold out instead, at most a tenth of all.
        builtin: `python_docs`, the reference text that comes with Python, instead of files; some of its topics are used for
            validation.
        documents: where a document ends: at a `blank_line`; at a `heading` such as WikiText's ` = Title = `; or with each `line`.
        sentences: `split` running text into sentences by rules, or each `line` is a sentence.
        cleaning: `wikitext` joins the words and numbers that WikiText separates by ` @-@ `; `none` changes nothing.
        vocabulary: the maximum number of words to predict, the most frequent ones; all others count as
            one unknown word. The input of every word is its characters.
        words: a file, or the folder of a model, with the list of words to predict, instead of the most frequent words.
        length: the maximum number of words of a sentence; a longer sentence is divided into several.
        sampled: number of negative words, sampled again for each batch, in the training loss (sampled softmax); 0 for
            all words. Evaluation always uses all words.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.05
    validation_size: int | None = None
    builtin: Literal["python_docs"] | None = None
    documents: Boundary = "blank_line"
    sentences: SentenceUnit = "split"
    cleaning: Literal["none", "wikitext"] = "none"
    vocabulary: int = 10_000
    words: str | None = None
    length: int = 64
    sampled: int = 0

    def __post_init__(self) -> None:
        check_amount(self)
        least = len(SPECIAL) + 1
        check(self.vocabulary >= least, "data.vocabulary", self.vocabulary, f"at least {least}", "10000 is usual")
        check(self.length >= 1, "data.length", self.length, "at least 1", "64 is usual")
        check(self.sampled >= 0, "data.sampled", self.sampled, "0 or more", "a tenth of the vocabulary is usual")


AT_ONCE = 4096
"""The number of sentences that are tokenized at once."""


@dataclass(frozen=True, slots=True)
class Spelt:
    """A sentence, or a part of one, as bytes and as words.

    Arguments:
        ids: its bytes, with a mark before each word, without begin and end marks.
        words: the words as strings.
    """

    ids: Sequence[int]
    words: tuple[str, ...]

    def read(self, tokenizer: Tokenizer) -> list[int]:
        """The tokens that a model reads: the bytes with the begin and end marks of a text."""
        return [tokenizer.start_id, *self.ids, tokenizer.end_id]

    def word_ids(self, words: WordList) -> list[int]:
        """The ids of the words to predict, with the begin and end marks of a text."""
        return [SPECIAL.index(START), *words.numbers(self.words), SPECIAL.index(END)]


def spelt(tokenizer: Tokenizer, sentences: Iterable[str], *, length: int | None = None) -> Iterator[Spelt]:
    """Sentences as bytes and words; sentences without a word are left out.

    Arguments:
        length: the maximum number of words; a longer sentence is divided into several. None for no limit.

    >>> tokenizer = Tokenizer.train([], kind="spelling", size=259)
    >>> [each.words for each in spelt(tokenizer, ["Why not ? No idea .", " "], length=4)]
    [('Why', 'not', '?', 'No'), ('idea', '.')]
    """
    iterator = iter(sentences)
    while some := list(itertools.islice(iterator, AT_ONCE)):
        for ids in tokenizer.encode_batch(some):
            yield from _stretches(ids, length)


def of_documents(documents: Iterable[Document], *, wikitext: bool) -> Iterator[str]:
    """The sentences of documents; with `wikitext`, words that WikiText separates by ` @-@ ` are joined."""
    for sentence in itertools.chain.from_iterable(documents):
        yield joined(sentence) if wikitext else sentence


def _stretches(ids: list[int], length: int | None) -> Iterator[Spelt]:
    if not ids:
        return
    starts = np.flatnonzero(np.asarray(ids) == MARK).tolist()
    edges = [*starts[:: length or len(starts)], len(ids)]
    for start, stop in itertools.pairwise(edges):
        part = ids[start:stop]
        yield Spelt(part, tuple(bytes(part).decode().split(chr(MARK))[1:]))
