"""From pairs of texts to token stores that a translator is trained on."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard.data.malformed import MalformedRows
from regard.data.pairs import pairs_in_memory, read_pairs
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.tasks.preparation import TRAIN, VALIDATION, Prepared, finish, is_prepared, opened
from regard.tasks.translation.data import PairTokenizerSettings, Place, TranslationData
from regard.tasks.translation.task import TranslationTask, tag
from regard.text import Tokenizer
from regard.text.training import suited_kind

TextPairs = Sequence[tuple[str, str]]
Reader = Callable[[MalformedRows], Iterable[tuple[str, str]]]
Row = tuple[list[int], list[int]]


def prepare(
    data: TranslationData,
    tokenizer: PairTokenizerSettings,
    generation: GenerationSettings,
    folder: Path,
    *,
    seed: int,
    given: TextPairs | None = None,
    given_validation: TextPairs | None = None,
) -> Prepared[TranslationTask]:
    """Read the data once for the tokenizers and once for the tokens, and leave both in `folder`.

    Arguments:
        folder: where to put tokenizers and token stores; taken as they are if they are there already (a resumed run).
        seed: of builtin data and of the choice of held-out pairs.
        given, given_validation: pairs of texts in memory instead of what `data` names.

    Raises:
        InputError: for data that cannot be read, or too little of it.
    """
    if not is_prepared(folder):
        finish(folder, _Preparation(data, tokenizer, folder, seed, given, given_validation).run())
    shared = (folder / "tokenizer.json").is_file()
    task = TranslationTask.load(folder, {"shared": shared})
    return opened(TranslationTask(task.source_tokenizer, task.target_tokenizer, generation, data.languages), folder)


@dataclass(kw_only=True, slots=True, eq=False)
class _Part:
    """The pairs into one language.

    Arguments:
        name: where the recipe has them.
        data: what the recipe says of them.
        language: None for a model of one language.
        train, validation: read the pairs anew; validation is None where pairs are held out of the training data.
        count: training pairs, once they have been read.
        held_out: which of them are held out.
        dropped: how many are too long.
    """

    name: str
    data: TranslationData
    language: str | None
    train: Reader
    validation: Reader | None
    malformed: MalformedRows = field(default_factory=MalformedRows)
    count: int = 0
    held_out: frozenset[int] = frozenset()
    dropped: int = 0

    def hold_out(self, seed: int) -> None:
        """Choose what is held out; of files of equal length the same lines, so that parallel ones leak nothing."""
        if self.validation is not None:
            return
        size = min(self.data.validation_size, self.count // 10)
        if size == 0:
            raise InputError(
                f"{self.count} pairs are too few to hold some out for validation; give at least 10, or "
                f"{self.name}.validation"
            )
        generator = np.random.Generator(np.random.Philox(key=[seed, 0x56A1]))
        self.held_out = frozenset(generator.choice(self.count, size=size, replace=False).tolist())

    def notes(self) -> Iterator[str]:
        """What the user ought to know."""
        place = "" if self.language is None else f"{self.name}: "
        yield from (place + note for note in self.malformed.notes)
        if self.dropped:
            yield (
                f"{place}{self.dropped} of {self.count} pairs are longer than data.maximum_tokens = "
                f"{self.data.maximum_tokens} and were left out."
            )


class _Preparation:
    """One preparation: which pairs are held out is decided once the number of all is known."""

    def __init__(
        self,
        data: TranslationData,
        tokenizer: PairTokenizerSettings,
        folder: Path,
        seed: int,
        pairs: TextPairs | None,
        validation_pairs: TextPairs | None,
    ) -> None:
        self.settings = tokenizer
        self.chosen: list[str] = []
        self.folder = folder
        self.seed = seed
        if data.targets is not None:
            if pairs is not None or validation_pairs is not None:
                raise InputError("pairs in memory belong to no language; name files under data.targets")
            self.parts = [
                _part(f"data.targets.{language}", part, language, seed) for language, part in data.targets.items()
            ]
        else:
            self.parts = [_part("data", data, None, seed, pairs, validation_pairs)]

    def run(self) -> list[str]:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in (TRAIN, VALIDATION, "source", "target", ".*.partial"):  # of a preparation that was killed
            for path in self.folder.glob(name):
                shutil.rmtree(path, ignore_errors=True)
        (self.folder / "tokenizer.json").unlink(missing_ok=True)
        source, target = self._tokenizers()
        for part in self.parts:
            _check_covered(part, source, target, self.settings)
            part.hold_out(self.seed)
        columns = {"source": source.size, "target": target.size}
        TokenStore.write(self.folder / TRAIN, columns, self._rows(lambda part: _training_rows(part, source, target)))
        TokenStore.write(
            self.folder / VALIDATION, columns, self._rows(lambda part: _validation_rows(part, source, target))
        )
        for part in self.parts:
            if part.dropped and part.count == part.dropped + len(part.held_out):
                raise InputError(
                    f"no pair is left to train on: all {part.dropped} are longer than {part.name}.maximum_tokens; raise it"
                )
        return [*self.chosen, *(note for part in self.parts for note in part.notes())]

    def _rows(self, rows_of: Callable[[_Part], Iterator[Row]]) -> Iterator[Row]:
        for part in self.parts:
            yield from rows_of(part)

    def _tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        settings = self.settings
        tags = tuple(tag(part.language) for part in self.parts if part.language is not None)

        def texts(sides: tuple[int, ...], counted: bool) -> Iterator[str]:
            for part in self.parts:
                part.count = 0
                for pair in part.train(part.malformed if counted else MalformedRows()):
                    part.count += 1
                    for side in sides:
                        yield pair[side]
                alphabet = part.data.builtin.alphabet() if part.data.builtin is not None else None
                if alphabet is not None:  # a small or unlucky draw may lack a symbol
                    yield from (alphabet[side] for side in sides)

        def trained(*sides: int, counted: bool = True) -> Tokenizer:
            kind: str = settings.kind
            if kind == "auto":
                kind, why = suited_kind(texts(sides, False))
                whose = " and ".join(("source", "target")[side] for side in sides)
                self.chosen.append(f"tokenizer of the {whose}: {kind}; {why}. tokenizer.kind chooses another.")
            return Tokenizer.train(
                texts(sides, counted),
                kind=kind,
                size=settings.size,
                lowercase=settings.lowercase,
                extra_tokens=tags if 0 in sides else (),
                sentinels=settings.sentinels,
            )

        if settings.path is not None:
            source = target = Tokenizer.load(settings.path)
            missing = [name for name in tags if name not in source.extra_tokens]
            if missing:
                raise InputError(
                    f"tokenizer.path: {settings.path} has no special token {missing[0]}, which data.targets needs; "
                    "leave the path out to train one that has it"
                )
            for part in self.parts:
                part.count = sum(1 for _ in part.train(part.malformed))
        elif settings.shared:
            source = target = trained(0, 1)
        else:
            source, target = trained(0), trained(1, counted=False)
        if source is target:
            source.save(self.folder)
        else:
            source.save(self.folder / "source")
            target.save(self.folder / "target")
        return source, target


def _part(
    name: str,
    data: TranslationData,
    language: str | None,
    seed: int,
    pairs: TextPairs | None = None,
    validation_pairs: TextPairs | None = None,
) -> _Part:
    has_own = validation_pairs is not None or data.validation is not None or data.builtin is not None
    return _Part(
        name=name,
        data=data,
        language=language,
        train=_reader(name, data, data.train, "train", pairs, seed),
        validation=_reader(name, data, data.validation, "validation", validation_pairs, seed) if has_own else None,
    )


def _reader(
    name: str, data: TranslationData, place: Place | None, split: str, pairs: TextPairs | None, seed: int
) -> Reader:
    if pairs is not None:
        found = [(pair.source, pair.target) for pair in pairs_in_memory(pairs, data.source, data.target, split)]
        return lambda _: found
    builtin = data.builtin
    if builtin is not None:
        size = builtin.size if split == "train" else builtin.validation_size
        builtin.pairs(split, size, seed)  # refuses what there is not enough of now, not after the other split was read
        return lambda _: builtin.pairs(split, size, seed)
    if place is None:
        raise InputError(
            f"{name}.train is missing; name a file of pairs, two parallel files, or builtin data such as {name}.dates={{}}"
        )
    path = place if isinstance(place, str) else list(place)

    def read(malformed: MalformedRows) -> Iterator[tuple[str, str]]:
        rows = read_pairs(
            path,
            format=data.format,
            source=data.source,
            target=data.target,
            on_error=data.on_error,
            malformed=malformed,
        )
        return ((pair.source, pair.target) for pair in rows)

    return read


def _training_rows(part: _Part, source: Tokenizer, target: Tokenizer) -> Iterator[Row]:
    # What is malformed was counted when the tokenizers read it.
    limit = part.data.maximum_tokens
    for row in _encoded(part, part.train(MalformedRows()), lambda i: i not in part.held_out, source, target):
        if limit is not None and max(map(len, row)) > limit:
            part.dropped += 1
        else:
            yield row


def _validation_rows(part: _Part, source: Tokenizer, target: Tokenizer) -> Iterator[Row]:
    if part.validation is None:
        return _encoded(part, part.train(MalformedRows()), lambda i: i in part.held_out, source, target)
    return _encoded(part, part.validation(part.malformed), lambda _: True, source, target)


def _encoded(
    part: _Part,
    pairs: Iterable[tuple[str, str]],
    wanted: Callable[[int], bool],
    source: Tokenizer,
    target: Tokenizer,
) -> Iterator[Row]:
    """Token ids of the wanted pairs, the language's tag in front of the source."""
    before = [] if part.language is None else [source.id_of(tag(part.language))]
    chosen = (pair for i, pair in enumerate(pairs) if wanted(i))
    while chunk := list(itertools.islice(chosen, 1024)):
        sources = source.encode_batch([pair[0] for pair in chunk])
        targets = target.encode_batch([pair[1] for pair in chunk])
        yield from (([*before, *left], right) for left, right in zip(sources, targets, strict=True))


def _check_covered(part: _Part, source: Tokenizer, target: Tokenizer, settings: PairTokenizerSettings) -> None:
    """Refuse a vocabulary that lacks symbols of builtin data: what reads as unknown can be neither told apart nor written."""
    alphabet = part.data.builtin.alphabet() if part.data.builtin is not None else None
    for tokenizer, text in zip((source, target), alphabet or (), strict=False):
        if tokenizer.unknown_id is not None and tokenizer.unknown_id in tokenizer.encode(text):
            raise InputError(
                f"the tokenizer of {tokenizer.size} tokens does not know all {len(text.split())} symbols of {part.name}; "
                f"raise tokenizer.size = {settings.size}"
                + (f", or leave out tokenizer.path = {settings.path}" if settings.path is not None else "")
            )
