"""The common part of tasks that pre-train an encoder-decoder on stretches of text: data, batches, preparation, evaluation."""

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
    """The common settings of the `data` sections.

    The documents are concatenated and the stream is cut into stretches of equal length.

    Arguments:
        train: a file of plain text, or several; gzip is recognised.
        validation: other files of plain text; if null, documents are held out from the training files.
        validation_share: the share of documents to hold out.
        validation_size: the number of documents to hold out instead, at most a tenth of all.
        builtin: `python_docs`, the reference text that comes with Python, in addition to the files, or alone; some of its
            topics are used for validation.
        documents: where a document ends: at a `blank_line`; at a `heading` such as WikiText's ` = Title = `; or with each `line`.
        cleaning: `wikitext` restores the spaces and hyphens of the original text, and reads `<unk>` as the unknown token.
        length: the number of tokens of an input, with its start and end token.

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
        """`line`: text is read line by line, because sentences are not needed."""
        return "line"


class StretchTask(PairTask):
    """The base class of tasks that make an input and a target from each stretch of text for pre-training."""

    @abstractmethod
    def corrupted(
        self, texts: Sequence[np.ndarray], rows: Sequence[int], draw: int | None
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The inputs and targets of stretches, without start and end tokens.

        Arguments:
            texts: the token ids of each stretch.
            rows: a number for each stretch, which determines the random choices.
            draw: a number that differs from epoch to epoch; None in evaluation.
        """

    @abstractmethod
    def sizes(self, lengths: np.ndarray) -> np.ndarray:
        """The maximum numbers of tokens of each input and each target, start and end tokens included, (N, 2).

        Arguments:
            lengths: (N,), the number of tokens of each stretch.
        """

    @abstractmethod
    def stretch(self, length: int) -> int:
        """The maximum number of tokens of a stretch whose input has at most `length` tokens."""

    @abstractmethod
    def noted(self, lengths: np.ndarray) -> str:
        """The corruption of stretches of these lengths, as the end of a message about them."""

    def check_stretch(self, length: int) -> None:
        """Refuse stretches of `length` tokens if the tokenizer is not sufficient for them."""
        del length

    def lengths(self, data: TokenStore) -> np.ndarray:
        """The numbers of tokens of input and target, start and end tokens included, (N, 2)."""
        return self.sizes(data.lengths(STRETCH))

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> PairBatch:
        """The stretches of these rows as a batch; the corruption is the same at every call."""
        return self._read(data, rows, None)

    def training_batch(self, data: TokenStore, rows: Sequence[int], draw: int) -> PairBatch:
        """The stretches of these rows as a batch; the corruption is a function of the seed, `draw` and the row."""
        return self._read(data, rows, draw)

    def _read(self, data: TokenStore, rows: Sequence[int], draw: int | None) -> PairBatch:
        texts = [data.sequence(STRETCH, int(row)) for row in rows]
        return self.batch(*self.corrupted(texts, rows, draw))

    def shorter(self, split: str, limit: int) -> str:
        """The setting that makes stretches shorter, for messages."""
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
    """Read the texts once for the tokenizer and once for the tokens, and write both into `folder`.

    Texts can be larger than memory: documents are read, and stretches written, one after another.

    Arguments:
        kind: the type of the task.
        make: makes the task from a tokenizer and the name of the tokenizer in messages.
        folder: where to write them; if they exist already (a resumed run), they are reused.
        seed: the seed of the choice of held-out documents.
        given, given_validation: documents in memory instead of those of `data`, in a form that `DOCUMENTS` accepts.

    Raises:
        InputError: for data that cannot be read, too little data, or a tokenizer that the task cannot use.
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
    "the training text is one document, so none can be held out for validation; name data.validation, or split the text "
    "into documents with data.documents"
)


def _write(
    folder: Path, split: str, documents: Iterable[Document], data: StretchData, task: StretchTask, length: int
) -> str:
    """Write the stretches of one split; return a message about them."""
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
    """The stream of all documents, cut after every `length` tokens; the last stretch is kept if it has at least 2 tokens.

    There is no separator between documents, as in the authors' code.
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
    """The results of an evaluation; there are no predictions, because no text is generated.

    Its metrics are `loss`, the mean of -log p over the tokens of targets, natural log; `perplexity`, exp of it; and
    `token_accuracy`, the share of tokens that were the most probable one. Special tokens count.

    Arguments:
        tokens: the number of tokens of the targets.
    """

    tokens: int


def evaluate_stretches(
    model: PairPredictor[Any], documents: Any, *, length: int | None = None, batch_tokens: int = 16_384
) -> StretchEvaluation:
    """Corrupt texts, in the same way at every call, and measure how well the model predicts each token of the targets.

    Arguments:
        documents: documents in a form that `DOCUMENTS` accepts.
        length: the number of tokens of an input; None = as in the recipe.
        batch_tokens: the number of tokens in one batch, of input and target, padding included; it changes memory and speed, and
            results only by rounding.

    Raises:
        InputError: for an empty list, or fewer than two tokens.
    """
    given = DOCUMENTS.to_measure(documents)
    task: StretchTask = model.task
    data = model.recipe.get("data") or {}
    room = task.stretch(length or int(data.get("length", 512)))
    texts = list(stretches(encoded_documents(given, task.sides[0], unknown=data.get("cleaning") == "wikitext"), room))
    if not texts:
        raise InputError("there is nothing to evaluate; the texts have fewer than two tokens")
    sizes = task.sizes(np.array([len(text) for text in texts]))

    def batches() -> Iterator[PairBatch]:
        for rows in Batches(sizes, maximum_tokens=batch_tokens).in_order():
            yield task.batch(*task.corrupted([texts[row] for row in rows], rows.tolist(), None)).to(model.device)

    total, tokens, correct = summed_losses(task.loss, model.model, batches(), "these texts")[""]
    metrics = task.metrics_of(total / tokens, correct / tokens)
    return StretchEvaluation(metrics=metrics, count=len(texts), tokens=tokens)
