"""Classes of pictures in a store, beside the pictures in one mapped file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from regard.data.token_store import Ids, TokenStore
from regard.tasks.pictures import read_frames

LABEL = "label"
"""The one column: the number of each picture's class."""

MOST_CLASSES = 1 << 20


class PictureStore(TokenStore):
    """A `TokenStore` of classes that knows the pictures: (N, Y, X, C) uint8, read from disk as they are needed.

    Arguments:
        folder: of the classes; the pictures are in a file beside it.
        tokens, offsets: as for `TokenStore`.
    """

    def __init__(self, folder: Path, tokens: dict[str, Ids], offsets: dict[str, np.ndarray]) -> None:
        super().__init__(folder, tokens, offsets)
        self.pictures = read_frames(folder)

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return (PictureStore.open, (self._folder.absolute(),))
