"""Pictures with their captions, however they were given."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.data.pictures import fitted, read_picture
from regard.data.scenes import Named, Scene
from regard.errors import InputError
from regard.tasks.captioning.task import PictureSize
from regard.text import Tokenizer

Picture = str | os.PathLike[str] | np.ndarray | Sequence[Any] | Callable[[], np.ndarray]
"""A file; an array (Y, X, C) or (Y, X) uint8, or (F, Y, X, C) of frames; a list of frames, each likewise; or what gives such an
array when it is called, so that it need not be in memory before."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CaptionExample:
    """A picture and what may be said of it.

    Arguments:
        picture: see `Picture`.
        captions: one or more, all right.
        named: what the caption names, and where it is, where that is known; then there is one caption.

    Raises:
        InputError: where there is no caption, or one is empty.
    """

    picture: Picture
    captions: tuple[str, ...]
    named: tuple[Named, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.captions, str) or not self.captions or not all(text.strip() for text in self.captions):
            raise InputError(f"the captions of a picture are {self.captions!r}; give a tuple of texts, none empty")
        if self.named and len(self.captions) > 1:
            raise InputError(
                "places are known by the words of one caption, and there are several; give one, or no places"
            )

    @property
    def frames(self) -> int:
        """How many frames the picture has."""
        if isinstance(self.picture, np.ndarray):
            return len(self.picture) if self.picture.ndim == 4 else 1
        return len(self.picture) if isinstance(self.picture, list | tuple) else 1


def example_of(scene: Scene) -> CaptionExample:
    """A builtin scene as an example."""
    return CaptionExample(picture=scene.frames, captions=(scene.caption,), named=scene.named)


def in_tokens(named: Named, caption: str, tokenizer: Tokenizer) -> Named:
    """What some words of a caption name, told by the tokens of these words."""
    words = caption.split()
    first, after = (len(tokenizer.encode(" ".join(words[:end]))) if end else 0 for end in named.words)
    return named._replace(words=(first, after))


def frames_of(picture: Picture, size: PictureSize) -> np.ndarray:
    """A picture as a model reads it: (F, height, width, channels) uint8.

    Raises:
        InputError: for a file that is none, an array of another kind, or too many frames.
    """
    frames = _frames(picture, colour=size.channels == 3)
    if not 1 <= len(frames) <= size.frames:
        raise InputError(
            f"a sequence of {len(frames)} frames was given, and the model reads up to {size.frames}; "
            + ("give one picture at a time" if size.frames == 1 else "leave some out")
        )
    return np.stack([fitted(_channelled(frame, size.channels), size.height, size.width, size.fit) for frame in frames])


def _frames(picture: Picture, *, colour: bool) -> list[np.ndarray]:
    if callable(picture):
        picture = picture()
    if isinstance(picture, np.ndarray):
        if picture.dtype != np.uint8 or picture.ndim not in (2, 3, 4) or not picture.size:
            raise InputError(
                f"a picture is an array of {picture.dtype} and shape {picture.shape}; give uint8 of shape (Y, X, C), or "
                "(F, Y, X, C) for frames"
            )
        return list(picture) if picture.ndim == 4 else [picture if picture.ndim == 3 else picture[..., None]]
    if isinstance(picture, list | tuple):
        return [frame for part in picture for frame in _frames(part, colour=colour)]
    if isinstance(picture, str | os.PathLike):
        return [read_picture(picture, colour=colour)]
    raise InputError(f"a picture is a {type(picture).__name__}; give a file, or an array of uint8")


def _channelled(frame: np.ndarray, channels: int) -> np.ndarray:
    """A frame with as many channels as the model reads: grey is every colour alike, and a colour's grey its lightness."""
    given = frame.shape[2]
    if given == channels:
        return frame
    if given == 1:
        return np.repeat(frame, channels, axis=2)
    if given == 3 and channels == 1:
        return (
            (frame @ np.array([0.299, 0.587, 0.114])).round().astype(np.uint8)[..., None]
        )  # as Pillow does (ITU-R 601)
    raise InputError(f"a picture has {given} channels; give red, green and blue, or one of grey")
