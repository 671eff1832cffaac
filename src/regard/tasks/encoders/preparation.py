"""From examples to token stores that a model which reads whole texts is trained on."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from regard.checkpoints import located
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.tasks.encoders.data import EncoderTokenizerSettings
from regard.tasks.prepared import TRAIN, VALIDATION
from regard.tasks.tokenizer_settings import TokenizerSettings
from regard.text import Tokenizer

Row = Sequence[Sequence[int] | np.ndarray]
"""For each column of a store, in order, the numbers of one example."""


def cleared(folder: Path) -> None:
    """Make `folder`, without what a preparation that was killed left in it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (TRAIN, VALIDATION, ".*.partial"):
        for path in folder.glob(name):
            shutil.rmtree(path, ignore_errors=True)


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


def write_store(folder: Path, split: str, columns: Mapping[str, int], rows: Iterable[Row]) -> None:
    """Write the rows of one split.

    Raises:
        InputError: where there are none.
    """
    if len(TokenStore.write(folder / split, columns, rows)) == 0:
        raise InputError(f"there is no {split} example that can be used; give some")
