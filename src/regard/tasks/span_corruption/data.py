"""What a model is pre-trained on by span corruption, as data: the `data` and `tokenizer` sections of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.data.running_text import Boundary, Cleaning
from regard.data.span_corruption import SpanCorruption
from regard.models.config import check
from regard.tasks.preparation import TokenizerSettings

Place = str | tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanTextData:
    """The `data` section of a recipe.

    The documents are laid end to end and the stream is cut into stretches of equal length, out of each of which spans are taken.

    Arguments:
        train: a file of plain text, or several; gzip is recognised.
        validation: likewise; held out from the training files, document by document, where null.
        validation_share: of the documents, to be held out.
        builtin: `python_docs`, the reference text that comes with Python, beside the files or alone; a few of its topics are for
            validation.
        documents: where one ends: at a `blank_line`; at a `heading` such as WikiText's ` = Title = `; or with each `line`.
        cleaning: `wikitext` undoes what those sets did to spaces and hyphens, and reads `<unk>` as the unknown token.
        length: tokens of an input, its sentinels and its end token included; the stretch of text that it is made of has more.
        density: share of the tokens taken out.
        mean_span: tokens of a span on average.
        corruption: `dynamic` takes other spans out in every epoch, `static` the same in each.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.05
    builtin: Literal["python_docs"] | None = None
    documents: Boundary = "blank_line"
    cleaning: Cleaning = "none"
    length: int = 512
    density: float = 0.15
    mean_span: float = 3.0
    corruption: Literal["dynamic", "static"] = "dynamic"

    def __post_init__(self) -> None:
        share = self.validation_share
        check(0 < share < 1, "data.validation_share", share, "above 0 and below 1", "0.05 is usual")
        check(self.length >= 8, "data.length", self.length, "at least 8", "512 is usual")
        self.taking_out(0)

    @property
    def sentences(self) -> Literal["line"]:
        """Text is read line by line: nothing hangs on sentences."""
        return "line"

    def taking_out(self, seed: int) -> SpanCorruption:
        """How spans are taken out.

        Raises:
            InputError: for a density or mean that is none.
        """
        return SpanCorruption(
            density=self.density, mean_span=self.mean_span, static=self.corruption == "static", seed=seed
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SentinelTokenizerSettings(TokenizerSettings):
    """The `tokenizer` section of a recipe.

    Arguments:
        kind: `unigram` (as published), `bpe`, `wordpiece`, `word` or `character`.
        size: the largest vocabulary, sentinels included.
        lowercase: drop case.
        path: a folder or tokenizer.json to take instead of training one; that of `model.pretrained` where there is one.
        sentinels: how many a trained one has, each to stand for a span that was taken out.
    """

    kind: Literal["unigram", "bpe", "wordpiece", "word", "character"] = "unigram"
    sentinels: int = 100
