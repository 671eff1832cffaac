"""The data of masked language modelling: its settings, and how documents are cut into inputs and written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from regard.data.pretraining import SENTENCES, Cutting, Masking, PretrainingInput
from regard.data.running_text import Boundary, Cleaning, SentenceUnit
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.models.config import check
from regard.tasks.distillation import TeacherSettings, teacher_folder
from regard.tasks.encoders import PLACES, columns_of
from regard.tasks.examples import Place, amount_of, check_amount, hold_out
from regard.tasks.preparation import TRAIN, EncoderTokenizerSettings, encoder_tokenizer, write_store
from regard.text import Tokenizer

DOCUMENTS_FOLDER = "documents"
"""The name of the folder with the documents while they are cut into inputs."""

FOLLOWED, OTHER = 0, 1
"""The outputs of the next-sentence head: the second text followed the first, or it did not."""

ORDINARY, NEXT = "ordinary", "next"
"""Columns of a store: the number of tokens of an input that are not special; and whether its second text followed the first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedTextData:
    """The `data` section of a recipe.

    Arguments:
        train: a file of plain text, or several; gzip is recognised.
        validation: other files of plain text; if null, documents are held out from the training files.
        validation_share: the share of documents to hold out.
        validation_size: the number of documents to hold out instead, at most a tenth of all.
        builtin: `python_docs`, the reference text that comes with Python, in addition to the files, or alone; some of its
            topics are used for validation.
        documents: where a document ends: at a `blank_line`; at a `heading` such as WikiText's ` = Title = `; or with each `line`.
        sentences: `split` running text into sentences by rules, or each `line` is a sentence.
        cleaning: `wikitext` restores the spaces and hyphens of the original text, and reads `<unk>` as the unknown token.
        next_sentence: whether the model also predicts if the second text of a pair followed the first.
        pairs: whether inputs are pairs of texts, or stretches of one document; null = as `next_sentence`.
        maximum_length: the maximum number of tokens of an input, special ones included.
        short_share: the share of documents that are cut into shorter pairs; or of stretches that are shorter.
        random_next: the share of pairs whose second text is from another document.
        duplicates: how many times each document is cut into inputs, each time with other random choices.
        chosen_share: the share of tokens that are chosen for prediction.
        mask_share, random_share: the shares of the chosen tokens that are replaced by the mask token, and by a random token; the
            rest stay unchanged.
        maximum_predictions: the maximum number of chosen tokens in one input; null = no limit.
        masking: `dynamic` masks other tokens in every epoch, `static` the same tokens in every epoch.
        whole_words: mask all pieces of a word or none (whole-word masking).
        teacher: a trained model to distil from as well.

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
        check_amount(self)
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
                f"data.random_next is {self.random_next:g}, so all pairs have the same label and there is nothing to predict; "
                "give 0.5, or set data.next_sentence=false"
            )
        if self.teacher is not None and self.next_sentence:
            raise InputError("data.teacher has no next-sentence prediction to distil; set data.next_sentence=false")
        self.hiding(0)

    @property
    def paired(self) -> bool:
        """Whether inputs are pairs."""
        return self.next_sentence if self.pairs is None else self.pairs

    def hiding(self, seed: int) -> Masking:
        """How tokens are masked.

        Raises:
            InputError: for shares out of range.
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


@dataclass(slots=True)
class Counts:
    """Counts over the inputs that were written.

    Arguments:
        inputs: the number of inputs.
        tokens: the number of their tokens, special ones included.
        following: the number of inputs whose second text followed the first.
        cut: the number of tokens that were cut off.
    """

    inputs: int = 0
    tokens: int = 0
    following: int = 0
    cut: int = 0

    def sentence(self, maximum: int, *, paired: bool) -> str:
        """The counts as a sentence for the user.

        Arguments:
            maximum: the maximum number of tokens of an input.
            paired: whether inputs are pairs.
        """
        mean = self.tokens / max(1, self.inputs)
        pairs = f"; {self.following / max(1, self.inputs):.1%} have the true next text" if paired else ""
        return (
            f"{self.inputs:,} inputs of {mean:.1f} tokens on average ({self.tokens:,} in all; filled up to {maximum} each, "
            f"{1 - mean / maximum:.1%} would be padding){pairs}; {self.cut / max(1, self.tokens + self.cut):.1%} of the "
            "tokens were cut off"
        )


def write_inputs(
    folder: Path, split: str, tokenizer: Tokenizer, inputs: Iterable[PretrainingInput], *, next_sentence: bool
) -> Counts:
    """Write the store of one split; inputs without a token that could be masked are left out.

    Arguments:
        next_sentence: whether the store records if the second text followed.

    Raises:
        InputError: if no input is left.
    """
    special = np.zeros(tokenizer.size, dtype=bool)
    special[list(tokenizer.special_ids)] = True
    start, between, end = [tokenizer.start_id], list(tokenizer.separators), [tokenizer.end_id]
    counts = Counts()

    def rows() -> Iterator[list[np.ndarray | list[int]]]:
        for each in inputs:
            pair = [] if each.second is None else [between, each.second]
            ids = np.concatenate([start, each.first, *pair, end])
            ordinary = len(ids) - int(special[ids].sum())
            if not ordinary:
                continue
            counts.inputs += 1
            counts.tokens += len(ids)
            counts.following += each.follows
            counts.cut += each.cut
            second = 0 if each.second is None else 1 + len(each.first) + len(between)
            label = [[FOLLOWED if each.follows else OTHER]] if next_sentence else []
            yield [ids, [second], [ordinary], *label]

    columns = {**columns_of(tokenizer), ORDINARY: PLACES, **({NEXT: 2} if next_sentence else {})}
    write_store(folder, split, columns, rows())
    return counts


def cut_documents(
    folder: Path, split: str, store: TokenStore, rows: np.ndarray, data: MaskedTextData, tokenizer: Tokenizer, seed: int
) -> str:
    """Cut the documents of one split into inputs; return a message about them."""
    count = f"{len(rows):,} document{'s' if len(rows) != 1 else ''}"
    if data.paired and len(rows) < 2:
        raise InputError(
            f"the {split} text has {count}, and half of the next sentences are taken from another document; cut it into "
            "documents with data.documents, or leave pairs out with data.next_sentence=false"
        )
    cutting = Cutting(
        documents=store,
        rows=rows,
        room=data.maximum_length - 2 - (len(tokenizer.separators) if data.paired else 0),
        short_share=data.short_share,
        random_share=data.random_next,
        seed=seed,
    )
    times = data.duplicates if split == TRAIN else 1  # in validation each document is cut once
    inputs = cutting.pairs(times) if data.paired else cutting.stretches(times)
    found = write_inputs(folder, split, tokenizer, inputs, next_sentence=data.next_sentence)
    sentences = int(store.lengths(SENTENCES)[rows].sum())
    return f"{split}: {count} of {sentences:,} sentences, cut into {found.sentence(data.maximum_length, paired=data.paired)}."


def held_out_documents(count: int, data: MaskedTextData, seed: int) -> np.ndarray:
    """The numbers of the held-out documents of the files: as many as the recipe sets, and enough for pairs."""
    least = 2 if data.paired else 1
    too_few = (
        f"the training text has {count} document{'s' if count != 1 else ''}, too few to hold out {least} for validation; "
        "name data.validation, or cut the text into documents with data.documents"
    )
    chosen = hold_out(count, **amount_of(data), seed=seed, least=least, left=least, too_few=too_few)
    return np.array(sorted(chosen), dtype=np.int64)


def tokenizer_of(
    data: MaskedTextData, settings: EncoderTokenizerSettings, texts: Callable[[], Iterator[str]]
) -> Tokenizer:
    """The tokenizer that the recipe names, or one trained on `texts`; with a teacher, by default that of the teacher.

    Raises:
        InputError: for a tokenizer without a mask token.
    """
    if settings.path is None and data.teacher is not None:
        tokenizer = Tokenizer.load(teacher_folder(data.teacher))
    else:
        tokenizer = encoder_tokenizer(settings, texts)
    if tokenizer.mask_id is None:
        raise InputError(f"the tokenizer (kind {tokenizer.kind}) has no mask token; set tokenizer.kind=bert")
    return tokenizer
