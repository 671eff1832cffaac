"""Preparation of data as token ids in the run's folder; it is done once, and reused by a run that continues."""

from __future__ import annotations

import json
import shutil
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from regard.checkpoints import located
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.files import replace_file
from regard.reading import LARGEST, open_regular, parse_json, read_json_object, read_text
from regard.tasks.task import Task
from regard.text import Tokenizer

READY = "ready"
SETTINGS = "task.json"
TRAIN, VALIDATION = "train", "validation"
"""The names of the token stores in the folder."""

PLACES = ".places"
"""The suffix of a file next to a store: a line of JSON with file names, then for each row a file's number and a line (uint32)."""

T = TypeVar("T", bound=Task)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared(Generic[T]):
    """The prepared data of a run.

    Arguments:
        task: tokenizers and settings.
        train, validation: the examples as token ids.
        notes: messages for the user about the data.
    """

    task: T
    train: TokenStore
    validation: TokenStore
    notes: tuple[str, ...]


def prepare(
    task: type[T],
    folder: Path,
    write: Callable[[], tuple[T, Sequence[str]]],
    *,
    again: Callable[[], T] | None = None,
    store: Callable[[Path], TokenStore] = TokenStore.open,
) -> Prepared[T]:
    """Prepare the data of a task once; a finished preparation in `folder` is reused, as in a run that continues.

    Arguments:
        task: the type of the task, whose `load` reads it from the folder.
        folder: where to write. The remains of a preparation that was killed are removed.
        write: reads the data and writes both token stores into the folder; returns the task, and messages for the user.
        again: makes the task of a finished preparation, for tasks that are not saved in `task.json`; None = read `task.json`.
        store: opens a token store.

    Raises:
        InputError: as `write`, and for damaged files.
    """
    if not is_prepared(folder):
        cleared(folder)
        made, notes = write()
        if again is None:
            replace_file(folder / SETTINGS, json.dumps(made.save(folder)))
        replace_file(folder / READY, "\n".join(notes))  # written last, as a mark that everything else is complete
    advice = "train again in a new folder"
    found = again() if again is not None else task.load(folder, read_json_object(folder / SETTINGS, advice))
    notes = tuple(line for line in read_text(folder / READY, advice).splitlines() if line)
    return Prepared(found, store(folder / TRAIN), store(folder / VALIDATION), notes)


def is_prepared(folder: Path) -> bool:
    """Whether the preparation in `folder` is finished."""
    return (folder / READY).is_file()


def cleared(folder: Path) -> None:
    """Create `folder`, or remove the remains of a preparation that was killed from it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (TRAIN, VALIDATION, ".*.partial"):
        for path in folder.glob(name):
            shutil.rmtree(path, ignore_errors=True)


def finish(folder: Path, notes: Sequence[str]) -> None:
    """Mark the preparation in `folder` as finished, and write its messages."""
    replace_file(folder / READY, "\n".join(notes))


def settings_of(folder: Path) -> dict[str, Any]:
    """The values of the task in `task.json` of a finished preparation.

    Raises:
        InputError: for a missing or damaged file.
    """
    return read_json_object(folder / SETTINGS, "train again in a new folder")


def opened(task: T, folder: Path) -> Prepared[T]:
    """The data of a finished preparation in `folder`.

    Raises:
        InputError: for damaged files.
    """
    lines = read_text(folder / READY, "train again in a new folder").splitlines()
    notes = tuple(line for line in lines if line)
    return Prepared(task, TokenStore.open(folder / TRAIN), TokenStore.open(folder / VALIDATION), notes)


# The `tokenizer` section of recipes.


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerSettings:
    """The `tokenizer` section of a recipe.

    Arguments:
        kind: `bpe`, `byte_bpe` (GPT-2's), `wordpiece`, `bert` (BERT's own WordPiece), `unigram`, `word`, `character`, or
            `spelling` (the bytes of words, ELMo's); for music `performance` or `grid`, as in `data.music.events`.
        size: the maximum size of the vocabulary.
        lowercase: whether to lower-case texts.
        path: a folder, tokenizer.json, vocab.txt or vocab.json (with its merges.txt) to use instead of training a tokenizer.
        sentinels: the number of T5's sentinels in a trained tokenizer, one for each removed span; T5 has 100.
    """

    kind: Literal[
        "bpe",
        "byte_bpe",
        "roberta",
        "wordpiece",
        "bert",
        "unigram",
        "word",
        "character",
        "spelling",
        "performance",
        "grid",
    ] = "bpe"
    size: int = 8_000
    lowercase: bool = False
    path: str | None = None
    sentinels: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderTokenizerSettings(TokenizerSettings):
    """The `tokenizer` section of a recipe.

    Arguments:
        kind: `bert` is WordPiece with BERT's special tokens; `roberta` and `byte_bpe` are BPE of bytes with RoBERTa's and GPT-2's
            special tokens; `spelling`, the bytes of words, is always used for ELMo; others are `bpe`, `wordpiece`, `unigram`,
            `word`, `character`.
        size: the maximum size of the vocabulary.
        lowercase: whether to lower-case texts; with kind `bert` accents are removed too.
        path: a folder, tokenizer.json or vocab.txt to use instead of training a tokenizer; null with `model.pretrained` uses the
            tokenizer of that model.
        sentinels: the number of T5's sentinels in a trained tokenizer; `bert` has none.
        input_tokens: whether to add the tokens `_start_`, `_delimiter_` and `_classify_`, which decoders of GPT's family need for
            their inputs. Set by the model.
        sentences: whether to put the end token between the sentences of a text. Set by the model.
    """

    kind: Literal["bert", "roberta", "bpe", "byte_bpe", "wordpiece", "unigram", "word", "character", "spelling"] = (
        "bert"
    )
    lowercase: bool = True
    input_tokens: bool = False
    sentences: bool = False


def encoder_tokenizer(settings: TokenizerSettings, texts: Callable[[], Iterator[str]]) -> Tokenizer:
    """The tokenizer that a recipe names, or one trained on the texts.

    Raises:
        InputError: if there is no tokenizer at the path, or it does not add start and end tokens to a text.
    """
    if settings.path is not None:
        return Tokenizer.load(located(settings.path))
    return Tokenizer.train(
        texts(), kind=settings.kind, size=settings.size, lowercase=settings.lowercase, sentinels=settings.sentinels
    )


def whole_text_tokenizer(settings: EncoderTokenizerSettings, texts: Callable[[], Iterator[str]]) -> Tokenizer:
    """As `encoder_tokenizer`, with `_start_`, `_delimiter_` and `_classify_` if the model needs them.

    Raises:
        InputError: as `encoder_tokenizer`.
    """
    tokenizer = encoder_tokenizer(settings, texts)
    return tokenizer.with_input_tokens() if settings.input_tokens else tokenizer


Row = Sequence[Sequence[int] | np.ndarray]
"""The numbers of one example for each column of a store, in order."""


class Places:
    """The file and line of each row of a store, collected while the store is written, and saved next to it."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._rows = array("I")  # for each row the number of its file, then its line

    def note(self, file: str, line: int) -> None:
        """Add the file and line of the next row."""
        self._rows.extend((self._files.setdefault(file, len(self._files)), line))

    def keep(self, folder: Path, split: str) -> None:
        """Write the file next to the store."""
        numbers = np.array(self._rows, dtype="<u4").tobytes()
        replace_file(folder / f"{split}{PLACES}", json.dumps(list(self._files)).encode() + b"\n" + numbers)


def examples_named(folder: Path, rows: np.ndarray, most: int = 5) -> str:
    """The names of training examples for messages: their numbers from 1, and their files and lines if known.

    Arguments:
        folder: the folder of the preparation.
        most: the maximum number of examples to list.
    """
    shown, more = rows[:most].tolist(), f" and {len(rows) - most:,} more" if len(rows) > most else ""
    said = (
        f"example{'s' if len(rows) > 1 else ''} {', '.join(f'{row + 1:,}' for row in shown)}{more} of {folder / TRAIN}"
    )
    try:
        with open_regular(folder / f"{TRAIN}{PLACES}", "") as file:
            files = parse_json(file.readline(LARGEST), "", "")
            places = np.frombuffer(file.read(), dtype="<u4").reshape(-1, 2)
        read = [(files[places[row, 0]], int(places[row, 1])) for row in shown]
    except (
        OSError,
        ValueError,
        IndexError,
        TypeError,
    ):  # the file is missing (not all tasks write it) or damaged: the numbers are enough
        return said
    return f"{said}, read from {', '.join(f'{file}:{line}' for file, line in read)}{more}"


def write_store(
    folder: Path, split: str, columns: Mapping[str, int], rows: Iterable[Row], places: Places | None = None
) -> None:
    """Write the rows of one split.

    Arguments:
        places: the files and lines of the rows, which the iterator of rows adds; None if they are not known.

    Raises:
        InputError: if there are no rows.
    """
    if len(TokenStore.write(folder / split, columns, rows)) == 0:
        raise InputError(f"there is no {split} example that can be used; give some")
    if places is not None:
        places.keep(folder, split)
