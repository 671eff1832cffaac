"""From pictures and captions to stores that a captioner is trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard.data.scenes import Scenes
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.tasks.captioning.data import CaptionData
from regard.tasks.captioning.examples import CaptionExample, example_of, in_memory, in_tokens
from regard.tasks.captioning.reading import examples_in
from regard.tasks.captioning.store import CaptionStore, columns, numbers_of
from regard.tasks.captioning.task import CaptioningTask
from regard.tasks.pictures import PictureSize, frames_file, frames_of, write_frames
from regard.tasks.preparation import READY, TRAIN, VALIDATION, Prepared, TokenizerSettings, cleared, finish, is_prepared
from regard.text import Tokenizer

HELD_OUT = 0xCA97
"""Sets the choice of held-out pictures apart from other draws of the same seed."""


@dataclass(frozen=True, slots=True)
class _Split:
    """The examples of one split, each read when it is needed."""

    count: int
    captions: Callable[[], Iterator[str]]
    examples: Callable[[], Iterator[CaptionExample]]


@dataclass(frozen=True, slots=True)
class _Found:
    """What the data section names."""

    train: _Split
    validation: _Split
    size: PictureSize
    notes: tuple[str, ...]
    words: tuple[str, ...] = ()


def prepare(
    data: CaptionData,
    tokenizer: TokenizerSettings,
    generation: GenerationSettings,
    folder: Path,
    *,
    seed: int,
    given: Sequence[CaptionExample] | None = None,
    given_validation: Sequence[CaptionExample] | None = None,
) -> Prepared[CaptioningTask]:
    """Read the captions once for the tokenizer and, with the pictures, once for the stores, and leave both in `folder`.

    Arguments:
        folder: where to put them; taken as they are if they are there already (a resumed run).
        seed: of builtin data and of the choice of held-out pictures.
        given, given_validation: pictures with captions in memory instead of what `data` names.

    Raises:
        InputError: for data that cannot be read, or too little of it.
    """
    if is_prepared(folder):
        size = _size_of(data, given, seed)
    else:
        found = _found(data, seed, given, given_validation)
        size = found.size
        finish(folder, _written(found, data, tokenizer, folder))
    task = CaptioningTask(Tokenizer.load(folder), size, generation, data.objective)
    notes = tuple(line for line in (folder / READY).read_text(encoding="utf-8").splitlines() if line)
    return Prepared(task, CaptionStore.open(folder / TRAIN), CaptionStore.open(folder / VALIDATION), notes)


def _written(found: _Found, data: CaptionData, settings: TokenizerSettings, folder: Path) -> list[str]:
    cleared(folder)
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
    size: PictureSize
    limit: int | None
    skips: bool
    too_long: int = 0
    damaged: list[InputError] = field(default_factory=list)

    def write(self, place: Path, split: _Split) -> None:
        shape = (self.size.height, self.size.width, self.size.channels)
        usable, ready = self._usable(split), list[CaptionExample]()

        def pictures() -> Iterator[np.ndarray]:
            for example, frames in usable:
                ready.append(example)
                yield frames

        rows = [row for span in write_frames(place, pictures(), shape) for row in self._rows(ready.pop(), span)]
        if not rows and self.damaged:
            raise self.damaged[0]
        if len(TokenStore.write(place, columns(self.tokenizer.size), rows)) == 0:
            raise InputError("no caption is left to learn from: all are longer than data.maximum_tokens; raise it")

    def _usable(self, split: _Split) -> Iterator[tuple[CaptionExample, np.ndarray]]:
        for example in split.examples():
            try:
                frames = frames_of(example.picture, self.size)
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
        """What the user ought to know."""
        if self.damaged:
            yield f"{len(self.damaged)} pictures could not be read and were left out; the first: {self.damaged[0]}"
        if self.too_long:
            yield f"{self.too_long} captions are longer than data.maximum_tokens = {self.limit} and were left out."


def _tokenizer(found: _Found, settings: TokenizerSettings) -> Tokenizer:
    if settings.path is not None:
        return Tokenizer.load(settings.path)

    def texts() -> Iterator[str]:
        yield from found.train.captions()
        yield from found.words  # a small or unlucky draw may lack one

    trained = Tokenizer.train(texts(), kind=settings.kind, size=settings.size, lowercase=settings.lowercase)
    if trained.unknown_id is not None and trained.unknown_id in trained.encode(" ".join(found.words)):
        raise InputError(
            f"the tokenizer of {trained.size} tokens does not know all {len(found.words)} words of data.scenes; raise "
            f"tokenizer.size = {settings.size}"
        )
    return trained


def _size_of(data: CaptionData, given: Sequence[CaptionExample] | None, seed: int) -> PictureSize:
    """What every picture is made into."""
    if data.scenes is not None and given is None:
        frames, height, width, channels = data.scenes.scenes("train", 1, seed).shape
        return PictureSize(height=height, width=width, channels=channels, frames=frames)
    frames = 1 if given is None else max((example.frames for example in given), default=1)
    return PictureSize(
        height=data.height, width=data.width, channels=3 if data.colour else 1, frames=frames, fit=data.fit
    )


def _found(
    data: CaptionData,
    seed: int,
    given: Sequence[CaptionExample] | None,
    given_validation: Sequence[CaptionExample] | None,
) -> _Found:
    given = None if given is None else in_memory(given, "train")
    given_validation = None if given_validation is None else in_memory(given_validation, "validation")
    size = _size_of(data, given, seed)
    if given is not None:
        if given_validation is not None:
            return _Found(_in_memory(given, "train"), _in_memory(given_validation, "validation"), size, ())
        held = _held_out(len(given), data.validation_size, seed)
        train = [example for i, example in enumerate(given) if i not in held]
        return _Found(_in_memory(train, "train"), _in_memory([given[i] for i in sorted(held)], "validation"), size, ())
    if data.scenes is not None:
        train = data.scenes.scenes("train", data.scenes.size, seed)
        validation = data.scenes.scenes("validation", data.scenes.validation_size, seed)
        return _Found(_of_scenes(train), _of_scenes(validation), size, (), train.words())
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


def _of_files(data: CaptionData, size: PictureSize, seed: int) -> _Found:
    if data.train is None or data.pictures is None:
        raise InputError(
            "data.train is missing; name a file of captions and its pictures (data.pictures), or builtin data such as "
            "data.scenes={}"
        )
    notes: list[str] = []
    train = _read(data.train, data.pictures, data, notes)
    if data.validation is not None:
        validation = _read(data.validation, data.validation_pictures or data.pictures, data, notes)
    else:
        held = _held_out(len(train), data.validation_size, seed)
        validation = [example for i, example in enumerate(train) if i in held]
        train = [example for i, example in enumerate(train) if i not in held]
    return _Found(_in_memory(train, "train"), _in_memory(validation, "validation"), size, tuple(notes))


def _read(path: str, place: str, data: CaptionData, notes: list[str]) -> list[CaptionExample]:
    return examples_in(path, place, colour=data.colour, on_error=data.on_error, notes=notes)


def _held_out(count: int, wanted: int, seed: int) -> frozenset[int]:
    size = min(wanted, count // 10)
    if size == 0:
        raise InputError(
            f"{count} pictures are too few to hold some out for validation; give at least 10, or data.validation"
        )
    generator = np.random.Generator(np.random.Philox(key=[seed, HELD_OUT]))
    return frozenset(generator.choice(count, size=size, replace=False).tolist())
