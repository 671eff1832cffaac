"""What a masked language model learns from, as data: the `data` section of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.data.masking import Masking
from regard.data.running_text import Boundary, Cleaning, SentenceUnit
from regard.errors import InputError
from regard.models.config import check
from regard.tasks.masked_language_modelling.teacher_settings import TeacherSettings

Place = str | tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedTextData:
    """The `data` section of a recipe.

    Arguments:
        train: a file of plain text, or several; gzip is recognised.
        validation: likewise; held out from the training files, document by document, where null.
        validation_share: of the documents, to be held out.
        builtin: `python_docs`, the reference text that comes with Python, beside the files or alone; a few of its topics are for
            validation.
        documents: where one ends: at a `blank_line`; at a `heading` such as WikiText's ` = Title = `; or with each `line`.
        sentences: running text is `split` into sentences by rules, or each `line` is one.
        cleaning: `wikitext` undoes what those sets did to spaces and hyphens, and reads `<unk>` as the unknown token.
        next_sentence: whether the model also tells if the second text of a pair followed the first.
        pairs: whether inputs are pairs of texts, or stretches of one document; null is as `next_sentence`.
        maximum_length: the most tokens of an input, special ones included.
        short_share: of documents, to be cut into shorter pairs; or of stretches, to be shorter.
        random_next: of pairs, whose second text is from another document.
        duplicates: how often each document is cut into inputs, each time by other chances.
        chosen_share: of the tokens, to be hidden and told.
        mask_share, random_share: of those, replaced by the mask token, and by a random one; what is left stays as it is.
        maximum_predictions: the most hidden in one input; no limit where null.
        masking: `dynamic` hides other tokens in every epoch, `static` the same in each.
        whole_words: hide all pieces of a word or none.
        teacher: a trained model to learn from as well (distillation).

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.05
    builtin: Literal["python_docs"] | None = None
    documents: Boundary = "blank_line"
    sentences: SentenceUnit = "split"
    cleaning: Cleaning = "none"
    next_sentence: bool = True
    pairs: bool | None = None
    maximum_length: int = 128
    short_share: float = 0.1
    random_next: float = 0.5
    duplicates: int = 1
    chosen_share: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1
    maximum_predictions: int | None = None
    masking: Literal["dynamic", "static"] = "dynamic"
    whole_words: bool = False
    teacher: TeacherSettings | None = None

    def __post_init__(self) -> None:
        share = self.validation_share
        check(0 < share < 1, "data.validation_share", share, "above 0 and below 1", "0.05 is usual")
        check(self.maximum_length >= 8, "data.maximum_length", self.maximum_length, "at least 8", "128 is usual")
        for name in ("short_share", "random_next"):
            value = getattr(self, name)
            check(0 <= value <= 1, f"data.{name}", value, "in [0, 1]", "leave it out for the published one")
        check(self.duplicates >= 1, "data.duplicates", self.duplicates, "at least 1", "1 to 10 is usual")
        if self.next_sentence and self.pairs is False:
            raise InputError(
                "data.pairs is false, and data.next_sentence needs pairs; set data.next_sentence=false too"
            )
        if self.next_sentence and not 0 < self.random_next < 1:
            raise InputError(
                f"data.random_next is {self.random_next:g}, so that all pairs are alike and there is nothing "
                "to tell; give 0.5, or set data.next_sentence=false"
            )
        if self.teacher is not None and self.next_sentence:
            raise InputError("data.teacher teaches no next sentences; set data.next_sentence=false")
        self.hiding(0)

    @property
    def paired(self) -> bool:
        """Whether inputs are pairs."""
        return self.next_sentence if self.pairs is None else self.pairs

    def hiding(self, seed: int) -> Masking:
        """How tokens are hidden.

        Raises:
            InputError: for shares that are none.
        """
        return Masking(
            chosen_share=self.chosen_share,
            mask_share=self.mask_share,
            random_share=self.random_share,
            maximum_predictions=self.maximum_predictions,
            whole_words=self.whole_words,
            static=self.masking == "static",
            seed=seed,
        )
