"""What a bidirectional language model learns from, as data: the `data` section of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.data.running_text import Boundary, SentenceUnit
from regard.models.config import check
from regard.text.word_list import SPECIAL

Place = str | tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class BidirectionalTextData:
    """The `data` section of a recipe.

    Words are what stands between white space, so the text should be one in which punctuation stands apart.

    Arguments:
        train: a file of plain text, or several; gzip is recognised.
        validation: likewise; held out from the training files, document by document, where null.
        validation_share: of the documents, to be held out.
        builtin: `python_docs`, the reference text that comes with Python, instead of files; a few of its topics are for
            validation.
        documents: where one ends: at a `blank_line`; at a `heading` such as WikiText's ` = Title = `; or with each `line`.
        sentences: running text is `split` into sentences by rules, or each `line` is one.
        cleaning: `wikitext` joins the parts of words and numbers between which those sets put ` @-@ `; else nothing is changed.
        vocabulary: the most words that the models tell, the commonest; all others are told as one. Every word is read by its
            letters all the same.
        words: a list of words to tell, a file or the folder of a model, instead of the commonest.
        length: the most words of a sentence that are read at once; what is left of a longer one is read by itself.
        sampled: against how many words, drawn anew for each batch, the right one is told in training; 0 for all. What is measured
            is measured against all.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.05
    builtin: Literal["python_docs"] | None = None
    documents: Boundary = "blank_line"
    sentences: SentenceUnit = "split"
    cleaning: Literal["none", "wikitext"] = "none"
    vocabulary: int = 10_000
    words: str | None = None
    length: int = 64
    sampled: int = 0

    def __post_init__(self) -> None:
        share = self.validation_share
        check(0 < share < 1, "data.validation_share", share, "above 0 and below 1", "0.05 is usual")
        least = len(SPECIAL) + 1
        check(self.vocabulary >= least, "data.vocabulary", self.vocabulary, f"at least {least}", "10000 is usual")
        check(self.length >= 1, "data.length", self.length, "at least 1", "64 is usual")
        check(self.sampled >= 0, "data.sampled", self.sampled, "0 or more", "a tenth of the vocabulary is usual")
