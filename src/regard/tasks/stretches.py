"""What tasks share that pre-train an encoder-decoder on stretches of text: their data, batches, preparation, evaluation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from regard.data.batching import Batches
from regard.data.running_text import Boundary, Cleaning, Document
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.models.config import check
from regard.tasks.documents import DOCUMENTS, DocumentReaders, DocumentSplits, encoded_documents, texts_of
from regard.tasks.examples import Place, check_amount
from regard.tasks.losses import summed_losses
from regard.tasks.pairs import PairBatch, PairPredictor, PairTask
from regard.tasks.predictor import Evaluation
from regard.tasks.preparation import (
    TRAIN,
    VALIDATION,
    Prepared,
    TokenizerSettings,
    encoder_tokenizer,
    prepare,
    write_store,
)
from regard.text import Tokenizer

STRETCH = "stretch"
"""The column of the token stores."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StretchData:
    """What the `data` sections have in common.

    The documents are laid end to end and the stream is cut into stretches of equal length.

    Arguments:
        train: a file of plain text, or several; gzip is recognised.
        validation: likewise; held out from the training files, document by document, where null.
        validation_share: of the documents, to be held out.
        validation_size: so many instead, at most a tenth of all.
        builtin: `python_docs`, the reference text that comes with Python, in addition to the files, or alone; a few of its
            topics are for validation.
        documents: where one ends: at a `blank_line`; at a `heading` such as WikiText's ` = Title = `; or with each `line`.
        cleaning: `wikitext` undoes what those sets did to spaces and hyphens, and reads `<unk>` as the unknown token.
        length: tokens of an input, those around it included.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.05
    validation_size: int | None = None
    builtin: Literal["python_docs"] | None = None
    documents: Boundary = "blank_line"
    cleaning: Cleaning = "none"
    length: int = 512

    def __post_init__(self) -> None:
        check_amount(self)
        check(self.length >= 8, "data.length", self.length, "at least 8", "512 is usual")

    @property
    def sentences(self) -> Literal["line"]:
        """Text is read line by line: sentences are not needed."""
        return "line"


class StretchTask(PairTask):
    """What makes an input and a target of each stretch of text: an objective of pre-training."""

    @abstractmethod
    def corrupted(
        self, texts: Sequence[np.ndarray], rows: Sequence[int], draw: int | None
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The inputs and targets of some stretches, without what stands around them.

        Arguments:
            texts: the ids of each.
            rows: a number for each, of which chances are a function.
            draw: a number that differs from epoch to epoch; None in evaluation.
        """

    @abstractmethod
    def sizes(self, lengths: np.ndarray) -> np.ndarray:
        """The most tokens of each input and each target, those around them included, (N, 2).

        Arguments:
            lengths: (N,), tokens of each stretch.
        """

    @abstractmethod
    def stretch(self, length: int) -> int:
        """The most tokens a stretch can have for its input to be no longer than `length`."""

    @abstractmethod
    def noted(self, lengths: np.ndarray) -> str:
        """What becomes of stretches of these lengths, as the end of a sentence about them."""

    def check_stretch(self, length: int) -> None:
        """Refuse stretches of so many tokens where the tokenizer does not do for them."""
        del length

    def lengths(self, data: TokenStore) -> np.ndarray:
        """Tokens of input and target, those around them included, (N, 2)."""
        return self.sizes(data.lengths(STRETCH))

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> PairBatch:
        """The stretches of these rows as a batch; each is corrupted alike at every call."""
        return self._read(data, rows, None)

    def training_batch(self, data: TokenStore, rows: Sequence[int], draw: int) -> PairBatch:
        """The stretches of these rows as a batch; how each is corrupted is a function of the seed, `draw` and the row."""
        return self._read(data, rows, draw)

    def _read(self, data: TokenStore, rows: Sequence[int], draw: int | None) -> PairBatch:
        texts = [data.sequence(STRETCH, int(row)) for row in rows]
        return self.batch(*self.corrupted(texts, rows, draw))

    def shorter(self, split: str, limit: int) -> str:
        """How stretches become shorter."""
        del split
        return f"lower data.length, to {limit} at most"


T = TypeVar("T", bound=StretchTask)


def prepare_stretches(
    kind: type[T],
    make: Callable[[Tokenizer, str], T],
    data: StretchData,
    tokenizer: TokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Any = None,
    given_validation: Any = None,
) -> Prepared[T]:
    """Read the texts once for the tokenizer and once for the tokens, and leave both in `folder`.

    Texts may be larger than memory: documents are read, and stretches written, one after another.

    Arguments:
        kind: the type of the task.
        make: the task of a tokenizer; the second argument is what messages call that.
        folder: where to write them; if they exist already (a resumed run), they are reused.
        seed: of held-out documents.
        given, given_validation: documents in memory instead of what `data` names, as `DOCUMENTS` takes them.

    Raises:
        InputError: for data that cannot be read or too little of it, or a tokenizer that does not do.
    """

    def again() -> T:
        return make(Tokenizer.load(folder), str(folder))

    def write() -> tuple[T, list[str]]:
        readers = DocumentReaders.of(data, given, given_validation)
        splits = DocumentSplits(data, readers, seed=seed, too_few=ONE_DOCUMENT)
        found = encoder_tokenizer(tokenizer, lambda: texts_of(splits.everything()))
        task = make(found, tokenizer.path or "tokenizer")
        length = task.stretch(data.length)
        task.check_stretch(length)
        found.save(folder)
        notes = [
            _write(folder, split, documents, data, task, length)
            for split, documents in ((TRAIN, splits.train()), (VALIDATION, splits.validation()))
        ]
        return again(), splits.notes + notes

    return prepare(kind, folder, write, again=again)


ONE_DOCUMENT = (
    "the training text is one document, and none can be held out for validation; name data.validation, or cut the text "
    "into documents with data.documents"
)


def _write(
    folder: Path, split: str, documents: Iterable[Document], data: StretchData, task: StretchTask, length: int
) -> str:
    """Write the stretches of one split; returns a sentence about them."""
    counts: list[int] = []
    tokenizer = task.sides[0]

    def rows() -> Iterator[tuple[np.ndarray]]:
        ids = encoded_documents(documents, tokenizer, unknown=data.cleaning == "wikitext")
        for stretch in stretches(ids, length):
            counts.append(len(stretch))
            yield (stretch,)

    write_store(folder, split, {STRETCH: tokenizer.size}, rows())
    lengths = np.array(counts)
    return (
        f"{split}: {len(counts):,} stretches of {lengths.mean():.1f} tokens on average ({lengths.sum():,} in all), "
        f"{task.noted(lengths)}."
    )


def stretches(documents: Iterable[list[list[int]]], length: int) -> Iterator[np.ndarray]:
    """The stream of all documents, cut after every `length` tokens; what is left at the end, if 2 tokens or more.

    Nothing is between two documents, as in the authors' code.
    """
    waiting = np.zeros(0, dtype=np.int64)
    for document in documents:
        waiting = np.concatenate([waiting, *(np.asarray(ids, dtype=np.int64) for ids in document)])
        whole = len(waiting) // length * length
        yield from np.split(waiting[:whole], whole // length) if whole else ()
        waiting = waiting[whole:]
    if len(waiting) > 1:
        yield waiting


@dataclass(frozen=True, kw_only=True, slots=True)
class StretchEvaluation(Evaluation):
    """What an evaluation found; there are no predictions, because nothing is written.

    Its metrics are `loss`, the mean of -log p over the tokens of targets, natural log; `perplexity`, exp of it; and
    `token_accuracy`, the share of tokens that were the most probable one. Special tokens count.

    Arguments:
        tokens: of their targets.
    """

    tokens: int


def evaluate_stretches(
    model: PairPredictor[Any], documents: Any, *, length: int | None = None, batch_tokens: int = 16_384
) -> StretchEvaluation:
    """Corrupt texts, alike at every call, and ask the model for each token of the targets.

    Arguments:
        documents: as `DOCUMENTS` takes them.
        length: tokens of an input, as in training; the recipe's where None.
        batch_tokens: tokens computed together, of input and target, padding included; the numbers are the same for any.

    Raises:
        InputError: for an empty list, or less than two tokens.
    """
    given = DOCUMENTS.to_measure(documents)
    task: StretchTask = model.task
    data = model.recipe.get("data") or {}
    room = task.stretch(length or int(data.get("length", 512)))
    texts = list(stretches(encoded_documents(given, task.sides[0], unknown=data.get("cleaning") == "wikitext"), room))
    if not texts:
        raise InputError("there is nothing to evaluate; the texts have less than two tokens")
    sizes = task.sizes(np.array([len(text) for text in texts]))

    def batches() -> Iterator[PairBatch]:
        for rows in Batches(sizes, maximum_tokens=batch_tokens).in_order():
            yield task.batch(*task.corrupted([texts[row] for row in rows], rows.tolist(), None)).to(model.device)

    total, tokens, correct = summed_losses(task.loss, model.model, batches(), "these texts")[""]
    metrics = task.metrics_of(total / tokens, correct / tokens)
    return StretchEvaluation(metrics=metrics, count=len(texts), tokens=tokens)
