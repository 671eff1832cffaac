"""From pairs of texts to token stores that a text-to-text model is trained on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.tasks.pairs import COLUMNS
from regard.tasks.preparation import (
    TRAIN,
    VALIDATION,
    Prepared,
    cleared,
    encoder_tokenizer,
    finish,
    is_prepared,
    opened,
    write_store,
)
from regard.tasks.span_corruption.data import SentinelTokenizerSettings
from regard.tasks.text_to_text.data import TextToTextData
from regard.tasks.text_to_text.examples import Example, Given, Reader, reader
from regard.tasks.text_to_text.task import PART, TextToTextTask
from regard.text import Tokenizer

Row = tuple[list[int], list[int], list[int]]


def prepare(
    data: TextToTextData,
    tokenizer: SentinelTokenizerSettings,
    generation: GenerationSettings,
    folder: Path,
    *,
    seed: int,
    given: Given | None = None,
    given_validation: Given | None = None,
) -> Prepared[TextToTextTask]:
    """Read the data once for the tokenizer and once for the tokens, and leave both in `folder`.

    Arguments:
        folder: where to put them; taken as they are if they are there already (a resumed run).
        seed: of held-out pairs and of the order in which parts are mixed.
        given, given_validation: pairs of texts in memory instead of what `data` names.

    Raises:
        InputError: for data that cannot be read, or too little of it.
    """
    if not is_prepared(folder):
        finish(folder, _prepared(data, tokenizer, folder, seed, given, given_validation))
    task = TextToTextTask(
        Tokenizer.load(folder),
        generation,
        prefixes={name: part.prefix for name, part in data.named.items()},
        maximum_source=data.maximum_source,
        mixing=data.mixing(seed),
    )
    return opened(task, folder)


@dataclass(kw_only=True, slots=True, eq=False)
class _Part:
    """The examples of one part.

    Arguments:
        name: where the recipe has them.
        number: of the part.
        train, validation: read the examples anew; validation is None where they are held out of the training data.
        count: training examples, once they have been read.
        held_out: which of them are held out.
        kept, cut, dropped: how many are learnt from; of which the source was cut; and how many have too long a target.
    """

    name: str
    number: int
    data: TextToTextData
    train: Reader
    validation: Reader | None
    malformed: MalformedRows = field(default_factory=MalformedRows)
    count: int = 0
    held_out: frozenset[int] = frozenset()
    kept: int = 0
    cut: int = 0
    dropped: int = 0

    def hold_out(self, seed: int) -> None:
        """Choose what is held out, where there is no validation data."""
        if self.validation is not None:
            return
        size = min(self.data.validation_size, self.count // 10)
        if size == 0:
            raise InputError(
                f"{self.count} pairs are too few to hold some out for validation; give at least 10, or {self.name}.validation"
            )
        generator = np.random.Generator(np.random.Philox(key=[seed, 0x56A1]))
        self.held_out = frozenset(generator.choice(self.count, size=size, replace=False).tolist())

    def examples(self, split: str) -> Iterator[Example]:
        """Those of one split. What is malformed in the training data was counted when the tokenizer read it."""
        if split == VALIDATION and self.validation is not None:
            return self.validation(self.malformed)
        wanted = split == VALIDATION
        return (each for i, each in enumerate(self.train(MalformedRows())) if (i in self.held_out) == wanted)

    def notes(self, data: TextToTextData) -> Iterator[str]:
        """What the user ought to know."""
        place = "" if self.name == "data" else f"{self.name}: "
        yield from (place + note for note in self.malformed.notes)
        if self.cut:
            yield (
                f"{place}of {self.cut} of {self.kept} sources the first {data.maximum_source} tokens are read "
                "(data.maximum_source)."
            )
        if self.dropped:
            yield (
                f"{place}{self.dropped} pairs have a target longer than data.maximum_target = {data.maximum_target} and were "
                "left out."
            )


def _prepared(
    data: TextToTextData,
    settings: SentinelTokenizerSettings,
    folder: Path,
    seed: int,
    given: Given | None,
    given_validation: Given | None,
) -> list[str]:
    cleared(folder)
    if data.parts is not None and (given is not None or given_validation is not None):
        raise InputError("pairs in memory belong to no part; name files under data.parts")
    parts = [
        _part(number, name, part, given, given_validation) for number, (name, part) in enumerate(data.named.items())
    ]

    def texts() -> Iterator[str]:
        for part in parts:
            part.count = 0
            for example in part.train(part.malformed):
                part.count += 1
                yield part.data.prefix + example.source
                yield example.targets[0]

    if settings.path is not None:
        sum(1 for _ in texts())
    tokenizer = encoder_tokenizer(settings, texts)
    tokenizer.save(folder)
    columns = {**dict.fromkeys(COLUMNS, tokenizer.size), PART: max(2, len(parts))}
    for part in parts:
        part.hold_out(seed)
    for split in (TRAIN, VALIDATION):
        write_store(
            folder, split, columns, itertools.chain.from_iterable(_rows(p, split, data, tokenizer) for p in parts)
        )
    for part in parts:
        if not part.kept:
            raise InputError(f"no pair of {part.name} is left to learn from; raise data.maximum_target")
    return [note for part in parts for note in part.notes(data)] + _proportions(parts, data)


def _part(number: int, name: str, data: TextToTextData, given: Given | None, given_validation: Given | None) -> _Part:
    where = f"data.parts.{name}" if name else "data"
    train = reader(data, data.train, given, "training", where)
    if train is None:
        raise InputError(f"{where}.train is missing; name a file of pairs, or two parallel files")
    validation = reader(data, data.validation, given_validation, "validation", where)
    return _Part(name=where, number=number, data=data, train=train, validation=validation)


def _rows(part: _Part, split: str, data: TextToTextData, tokenizer: Tokenizer) -> Iterator[Row]:
    """Token ids of the examples of a split, prefix in front, cut where they are too long, and the part's number."""
    examples = part.examples(split)
    room = None if data.maximum_source is None else data.maximum_source - 1
    while chunk := list(itertools.islice(examples, 1024)):
        sources = tokenizer.encode_batch([part.data.prefix + each.source for each in chunk])
        targets = tokenizer.encode_batch([each.targets[0] for each in chunk])
        for source, target in zip(sources, targets, strict=True):
            if split == TRAIN:
                if data.maximum_target is not None and len(target) + 1 > data.maximum_target:
                    part.dropped += 1
                    continue
                part.kept += 1
                part.cut += room is not None and len(source) > room
            yield source[:room], target, [part.number]


def _proportions(parts: Sequence[_Part], data: TextToTextData) -> list[str]:
    """How much of an epoch each part of a mixture has, in words."""
    if len(parts) < 2:
        return []
    counts = data.mixing(0).counts(np.array([part.kept for part in parts]))
    shares = ", ".join(
        f"{part.name.rpartition('.')[2]} {count:,} of {part.kept:,} ({count / counts.sum():.1%})"
        for part, count in zip(parts, counts.tolist(), strict=True)
    )
    return [f"an epoch has {counts.sum():,} examples: {shares}."]
