"""Pictures with their captions, however they were given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.data.rows import listed, parts_of
from regard.data.scenes import Named, Scene
from regard.errors import InputError
from regard.tasks.pictures import Picture
from regard.text import Tokenizer


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


def in_memory(given: Any, split: str) -> list[CaptionExample]:
    """Examples in memory: `CaptionExample`s, (picture, caption), (picture, captions), or mappings with these.

    Raises:
        InputError: naming the first row that is none.
    """
    wanted = "a CaptionExample, or (picture, captions)"
    found = []
    for number, row in enumerate(listed(given, f"{split} examples", wanted), start=1):
        if not isinstance(row, CaptionExample):
            names = [["picture", "image"], ["captions", "caption", "text"]]
            picture, captions = parts_of(row, f"example {number}", names, wanted)
            captions = (captions,) if isinstance(captions, str) else captions
            if not isinstance(captions, list | tuple) or not all(isinstance(text, str) for text in captions):
                raise InputError(f"example {number} has the captions {captions!r:.60}; give {wanted}")
            row = CaptionExample(picture=picture, captions=tuple(captions))
        found.append(row)
    return found


def example_of(scene: Scene) -> CaptionExample:
    """A builtin scene as an example."""
    return CaptionExample(picture=scene.frames, captions=(scene.caption,), named=scene.named)


def in_tokens(named: Named, caption: str, tokenizer: Tokenizer) -> Named:
    """What some words of a caption name, told by the tokens of these words."""
    words = caption.split()
    first, after = (len(tokenizer.encode(" ".join(words[:end]))) if end else 0 for end in named.words)
    return named._replace(words=(first, after))
