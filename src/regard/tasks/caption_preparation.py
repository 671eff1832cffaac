"""The preparation of captions: finding the images and captions of a `data` section, and writing them into stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard.data.scenes import Scenes
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.tasks.caption_data import (
    CaptionData,
    CaptionExample,
    columns,
    example_of,
    examples_in,
    in_tokens,
    numbers_of,
)
from regard.tasks.examples import amount_of, hold_out
from regard.tasks.images import ImageSize, frames_file, frames_of, write_frames
from regard.tasks.preparation import TRAIN, VALIDATION, TokenizerSettings
from regard.text import Tokenizer

HELD_OUT = 0xCA97
"""Makes the choice of held-out images independent of other samples with the same seed."""


@dataclass(frozen=True, slots=True)
class _Split:
    """The examples of one split; each is read when it is used."""

    count: int
    captions: Callable[[], Iterator[str]]
    examples: Callable[[], Iterator[CaptionExample]]


@dataclass(frozen=True, slots=True)
class FoundCaptions:
    """The data that the data section names."""

    train: _Split
    validation: _Split
    size: ImageSize
    notes: tuple[str, ...]
    words: tuple[str, ...] = ()


def write_captions(found: FoundCaptions, data: CaptionData, settings: TokenizerSettings, folder: Path) -> list[str]:
    """Train the tokenizer and write it and both splits into `folder`; return messages for the user.

    Raises:
        InputError: for an image that cannot be read, with `data.on_error` stop, or if no caption is left.
    """
    for split in (TRAIN, VALIDATION):
        frames_file(folder / split).unlink(missing_ok=True)
    tokenizer = _tokenizer(found, settings)
    tokenizer.save(folder)
    notes = list(found.notes)
    for name, split in ((TRAIN, found.train), (VALIDATION, found.validation)):
        writing = _Writing(
            tokenizer, found.size, data.maximum_tokens if name == TRAIN else None, data.on_error == "skip"
        )
        writing.write(folder / name, split)
        notes += writing.notes()
    return notes


@dataclass(slots=True)
class _Writing:
    """Writes the frames and captions of one split, and counts what it leaves out."""

    tokenizer: Tokenizer
    size: ImageSize
    limit: int | None
    skips: bool
    too_long: int = 0
    damaged: list[InputError] = field(default_factory=list)

    def write(self, place: Path, split: _Split) -> None:
        shape = (self.size.height, self.size.width, self.size.channels)
        usable, ready = self._usable(split), list[CaptionExample]()

        def images() -> Iterator[np.ndarray]:
            for example, frames in usable:
                ready.append(example)
                yield frames

        rows = [row for span in write_frames(place, images(), shape) for row in self._rows(ready.pop(), span)]
        if not rows and self.damaged:
            raise self.damaged[0]
        if len(TokenStore.write(place, columns(self.tokenizer.size), rows)) == 0:
            raise InputError("no caption is left to train on: all are longer than data.maximum_tokens; raise it")

    def _usable(self, split: _Split) -> Iterator[tuple[CaptionExample, np.ndarray]]:
        for example in split.examples():
            try:
                frames = frames_of(example.image, self.size)
            except InputError as error:
                if not self.skips:
                    raise
                self.damaged.append(error)
            else:
                yield example, frames

    def _rows(self, example: CaptionExample, span: tuple[int, int]) -> Iterator[list[Sequence[int]]]:
        for caption in example.captions:
            ids = self.tokenizer.encode(caption)
            if self.limit is not None and len(ids) > self.limit:
                self.too_long += 1
                continue
            named = [in_tokens(each, caption, self.tokenizer) for each in example.named]
            yield [ids, span, numbers_of(named)]

    def notes(self) -> Iterator[str]:
        """Notes for the user."""
        if self.damaged:
            yield f"{len(self.damaged)} images could not be read and were skipped; the first: {self.damaged[0]}"
        if self.too_long:
            yield f"{self.too_long} captions are longer than data.maximum_tokens = {self.limit} and were left out."


def _tokenizer(found: FoundCaptions, settings: TokenizerSettings) -> Tokenizer:
    if settings.path is not None:
        return Tokenizer.load(settings.path)

    def texts() -> Iterator[str]:
        yield from found.train.captions()
        yield from found.words  # a small sample may not contain all words

    trained = Tokenizer.train(texts(), kind=settings.kind, size=settings.size, lowercase=settings.lowercase)
    if trained.unknown_id is not None and trained.unknown_id in trained.encode(" ".join(found.words)):
        raise InputError(
            f"the tokenizer of {trained.size} tokens does not know all {len(found.words)} words of data.scenes; raise "
            f"tokenizer.size = {settings.size}"
        )
    return trained


def size_of(data: CaptionData, given: Sequence[CaptionExample] | None, seed: int) -> ImageSize:
    """The size to which every image is converted: that of the scenes, or as the data section sets it."""
    if data.scenes is not None and given is None:
        frames, height, width, channels = data.scenes.scenes("train", 1, seed).shape
        return ImageSize(height=height, width=width, channels=channels, frames=frames)
    frames = 1 if given is None else max((example.frames for example in given), default=1)
    return ImageSize(
        height=data.height, width=data.width, channels=3 if data.colour else 1, frames=frames, fit=data.fit
    )


def find_captions(
    data: CaptionData,
    size: ImageSize,
    seed: int,
    given: Sequence[CaptionExample] | None,
    given_validation: Sequence[CaptionExample] | None,
) -> FoundCaptions:
    """The training and validation examples of `data`, or those in memory, without reading images.

    Arguments:
        size: the size to which every image is converted.
        seed: the seed of builtin data and of the choice of held-out images.
        given, given_validation: examples in memory instead.

    Raises:
        InputError: for data that cannot be read, or too little data.
    """
    if given is not None:
        if given_validation is not None:
            return FoundCaptions(_in_memory(given, "train"), _in_memory(given_validation, "validation"), size, ())
        held = _held_out(len(given), data, seed)
        train = [example for i, example in enumerate(given) if i not in held]
        return FoundCaptions(
            _in_memory(train, "train"), _in_memory([given[i] for i in sorted(held)], "validation"), size, ()
        )
    if data.scenes is not None:
        train = data.scenes.scenes("train", data.scenes.size, seed)
        validation = data.scenes.scenes("validation", data.scenes.validation_size, seed)
        return FoundCaptions(_of_scenes(train), _of_scenes(validation), size, (), train.words())
    return _of_files(data, size, seed)


def _in_memory(examples: Sequence[CaptionExample], split: str) -> _Split:
    if not examples:
        raise InputError(f"the {split} examples are an empty list; give some")
    return _Split(
        len(examples),
        lambda: (caption for example in examples for caption in example.captions),
        lambda: iter(examples),
    )


def _of_scenes(scenes: Scenes) -> _Split:
    examples = lambda: map(example_of, scenes)  # noqa: E731
    return _Split(len(scenes), lambda: (scene.caption for scene in scenes), examples)


def _of_files(data: CaptionData, size: ImageSize, seed: int) -> FoundCaptions:
    if data.train is None or data.images is None:
        raise InputError(
            "data.train is missing; name a file of captions and its images (data.images), or builtin data such as "
            "data.scenes={}"
        )
    notes: list[str] = []
    train = _read(data.train, data.images, data, notes)
    if data.validation is not None:
        validation = _read(data.validation, data.validation_images or data.images, data, notes)
    else:
        held = _held_out(len(train), data, seed)
        validation = [example for i, example in enumerate(train) if i in held]
        train = [example for i, example in enumerate(train) if i not in held]
    return FoundCaptions(_in_memory(train, "train"), _in_memory(validation, "validation"), size, tuple(notes))


def _read(path: str, place: str, data: CaptionData, notes: list[str]) -> list[CaptionExample]:
    return examples_in(path, place, colour=data.colour, on_error=data.on_error, notes=notes)


def _held_out(count: int, data: CaptionData, seed: int) -> frozenset[int]:
    return hold_out(count, **amount_of(data), seed=seed, what="images", stream=HELD_OUT)
