"""Data turned into token ids, in a folder of the run: made once, and taken as it is by a run that continues."""

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
"""Where in the folder the token stores are."""

PLACES = ".places"
"""What a file next to a store ends in: a line of JSON with the files, then of each row a file's number and a line (uint32)."""

T = TypeVar("T", bound=Task)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared(Generic[T]):
    """What training starts from.

    Arguments:
        task: tokenizers and settings.
        train, validation: the examples as token ids.
        notes: sentences for the user about what was found in the data.
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
    """The frame of every preparation: made once, and taken as it is where it is there already, as in a run that continues.

    Arguments:
        task: its type, which reads itself from what was written.
        folder: where everything is put. What a preparation that was killed left there is removed.
        write: reads the data and writes both token stores into the folder; returns the task, and notes for the user.
        again: makes the task where it is not in `task.json` but in files of its own and the recipe; then none is written.
        store: opens a token store.

    Raises:
        InputError: as `write`, and for files that are damaged.
    """
    if not is_prepared(folder):
        cleared(folder)
        made, notes = write()
        if again is None:
            replace_file(folder / SETTINGS, json.dumps(made.save(folder)))
        replace_file(folder / READY, "\n".join(notes))  # last: it says that the rest is whole
    advice = "train again in a new folder"
    found = again() if again is not None else task.load(folder, read_json_object(folder / SETTINGS, advice))
    notes = tuple(line for line in read_text(folder / READY, advice).splitlines() if line)
    return Prepared(found, store(folder / TRAIN), store(folder / VALIDATION), notes)


def is_prepared(folder: Path) -> bool:
    """Whether the preparation in `folder` has come to its end."""
    return (folder / READY).is_file()


def cleared(folder: Path) -> None:
    """Make `folder`, without what a preparation that was killed left in it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (TRAIN, VALIDATION, ".*.partial"):
        for path in folder.glob(name):
            shutil.rmtree(path, ignore_errors=True)


def finish(folder: Path, notes: Sequence[str]) -> None:
    """Say that the preparation in `folder` has come to its end."""
    replace_file(folder / READY, "\n".join(notes))


def settings_of(folder: Path) -> dict[str, Any]:
    """What a finished preparation in `folder` wrote of its task.

    Raises:
        InputError: for a file that is missing or damaged.
    """
    return read_json_object(folder / SETTINGS, "train again in a new folder")


def opened(task: T, folder: Path) -> Prepared[T]:
    """What a finished preparation left in `folder`.

    Raises:
        InputError: for files that are damaged.
    """
    lines = read_text(folder / READY, "train again in a new folder").splitlines()
    notes = tuple(line for line in lines if line)
    return Prepared(task, TokenStore.open(folder / TRAIN), TokenStore.open(folder / VALIDATION), notes)


# How text becomes tokens.


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerSettings:
    """The `tokenizer` section of a recipe.

    Arguments:
        kind: `bpe`, `byte_bpe` (GPT-2's), `wordpiece`, `bert` (BERT's own WordPiece), `unigram`, `word`, `character`, or
            `spelling` (the bytes of words, ELMo's); for music `performance` or `grid`, as `data.music.events` has it.
        size: the largest vocabulary.
        lowercase: lowercase the text.
        path: a folder, tokenizer.json, vocab.txt or vocab.json (with its merges.txt) to take instead of training one.
        sentinels: number of T5's sentinels in a trained tokenizer, one for each removed span; T5 has 100.
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
        kind: `bert` is WordPiece with BERT's special tokens, `roberta` and `byte_bpe` are BPE of bytes with RoBERTa's and GPT-2's
            special tokens, `spelling` is ELMo's bytes of words, which it
            always has; the others are `bpe`, `wordpiece`, `unigram`, `word`, `character`.
        size: the largest vocabulary.
        lowercase: drop case, and with kind `bert` accents too.
        path: a folder, tokenizer.json or vocab.txt to take instead of training one; that of `model.pretrained` where there is
            one.
        sentinels: how many of T5's sentinels a trained one has; `bert` has none.
        input_tokens: whether it is given `_start_`, `_delimiter_` and `_classify_`, between which a decoder of GPT's family reads
            its inputs. Filled in by the model.
        sentences: whether a text is parted into sentences, with the token between that ends a text. Filled in by the model.
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
        InputError: where there is none at the path, or it has no tokens to put around a text.
    """
    if settings.path is not None:
        return Tokenizer.load(located(settings.path))
    return Tokenizer.train(
        texts(), kind=settings.kind, size=settings.size, lowercase=settings.lowercase, sentinels=settings.sentinels
    )


def whole_text_tokenizer(settings: EncoderTokenizerSettings, texts: Callable[[], Iterator[str]]) -> Tokenizer:
    """The same, with the tokens that the model reads its inputs between where it has its own.

    Raises:
        InputError: as `encoder_tokenizer`.
    """
    tokenizer = encoder_tokenizer(settings, texts)
    return tokenizer.with_input_tokens() if settings.input_tokens else tokenizer


Row = Sequence[Sequence[int] | np.ndarray]
"""For each column of a store, in order, the numbers of one example."""


class Places:
    """Where the rows of a store were read: gathered while it is written, then kept next to it."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._rows = array("I")  # of each row the file's number, then the line

    def note(self, file: str, line: int) -> None:
        """The row written next was read there."""
        self._rows.extend((self._files.setdefault(file, len(self._files)), line))

    def keep(self, folder: Path, split: str) -> None:
        """Write what was gathered."""
        numbers = np.array(self._rows, dtype="<u4").tobytes()
        replace_file(folder / f"{split}{PLACES}", json.dumps(list(self._files)).encode() + b"\n" + numbers)


def examples_named(folder: Path, rows: np.ndarray, most: int = 5) -> str:
    """Which training examples these rows are: by their numbers from 1, and by file and line where these are known.

    Arguments:
        folder: of the preparation.
        most: to be named one by one.
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
    ):  # of a task that keeps none, or damaged: the numbers are enough
        return said
    return f"{said}, read from {', '.join(f'{file}:{line}' for file, line in read)}{more}"


def write_store(
    folder: Path, split: str, columns: Mapping[str, int], rows: Iterable[Row], places: Places | None = None
) -> None:
    """Write the rows of one split.

    Arguments:
        places: where they were read, noted as they come.

    Raises:
        InputError: where there are none.
    """
    if len(TokenStore.write(folder / split, columns, rows)) == 0:
        raise InputError(f"there is no {split} example that can be used; give some")
    if places is not None:
        places.keep(folder, split)
