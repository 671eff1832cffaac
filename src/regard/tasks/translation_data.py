"""From pairs of texts to token stores that a translator is trained on."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from regard.checkpoints import replace_file
from regard.data.malformed import MalformedRows
from regard.data.pairs import read_pairs
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.models.config import check
from regard.tasks.translation import TranslationTask
from regard.text import Tokenizer

Place = str | tuple[str, ...]
TextPairs = Sequence[tuple[str, str]]
READY = "ready"


@dataclass(frozen=True, kw_only=True, slots=True)
class DatesData:
    """Builtin data: human-written dates in dozens of languages to ISO dates.

    Arguments:
        size, validation_size: how many dates to draw for training and validation; no calendar day is in both.
        typo_rate: share of the dates that have one typo in their letters, in training and validation alike.
        languages: CLDR codes; all where null.
    """

    size: int = 100_000
    validation_size: int = 2_000
    typo_rate: float = 0.0
    languages: tuple[str, ...] | None = None

    def pairs(self, split: str, size: int, seed: int) -> Iterator[tuple[str, str]]:
        """The texts of one split."""
        from regard.data.dates import LANGUAGES, Dates

        languages = LANGUAGES if self.languages is None else self.languages
        dates = Dates(split, size=size, seed=seed, languages=languages, typo_rate=self.typo_rate)
        for index in range(size):
            example = dates[index]
            yield example.source, example.target


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslationData:
    """The `data` section of a recipe.

    Arguments:
        train: a TSV, CSV or JSONL file, two parallel files, or `hub:owner/name`; gzip is recognised.
        validation: likewise; held out from the training data where null.
        validation_size: how many pairs to hold out, at most a tenth of all.
        dates: builtin dates instead of files.
        source, target: column index, column name or JSON key of the two texts.
        format: `tsv`, `csv`, `jsonl`, or `auto`.
        on_error: what to do about a malformed row: `skip` counts and reports it, `stop` ends with an error.
        maximum_tokens: pairs with a longer side are left out of training and counted; null keeps all.
    """

    train: str | tuple[str, ...] | None = None
    validation: str | tuple[str, ...] | None = None
    validation_size: int = 1_000
    dates: DatesData | None = None
    source: int | str | None = None
    target: int | str | None = None
    format: Literal["auto", "tsv", "csv", "jsonl"] = "auto"
    on_error: Literal["skip", "stop"] = "skip"
    maximum_tokens: int | None = None

    def __post_init__(self) -> None:
        check(
            self.dates is None or self.train is None,
            "data.train",
            self.train,
            "left out beside data.dates",
            "choose builtin dates or your own files",
        )
        check(self.validation_size > 0, "data.validation_size", self.validation_size, "above 0", "raise it")


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerSettings:
    """The `tokenizer` section of a recipe.

    Arguments:
        kind: `bpe`, `wordpiece`, `unigram`, `word` or `character`.
        size: the largest vocabulary.
        shared: one vocabulary for source and target.
        lowercase: drop case.
        path: a folder or tokenizer.json to take instead of training one.
    """

    kind: Literal["bpe", "wordpiece", "unigram", "word", "character"] = "bpe"
    size: int = 8_000
    shared: bool = True
    lowercase: bool = False
    path: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What training starts from.

    Arguments:
        task: tokenizers and decoding settings.
        train, validation: token stores with columns `source` and `target`.
        notes: sentences for the user: malformed rows, pairs left out.
    """

    task: TranslationTask
    train: TokenStore
    validation: TokenStore
    notes: tuple[str, ...] = field(default=())


def prepare(
    data: TranslationData,
    tokenizer: TokenizerSettings,
    generation: GenerationSettings,
    folder: Path,
    *,
    seed: int,
    pairs: TextPairs | None = None,
    validation_pairs: TextPairs | None = None,
) -> Prepared:
    """Read the data once for the tokenizers and once for the tokens, and leave both in `folder`.

    Arguments:
        folder: where to put tokenizers and token stores; taken as they are if they are there already (a resumed run).
        seed: of builtin data and of the choice of held-out pairs.
        pairs, validation_pairs: texts in memory instead of what `data` names.

    Raises:
        InputError: for data that cannot be read, or too little of it.
    """
    finished = folder / READY
    if not is_prepared(folder):
        notes = _Preparation(data, tokenizer, folder, seed, pairs, validation_pairs).run()
        replace_file(finished, "\n".join(notes))
    lines = tuple(line for line in finished.read_text(encoding="utf-8").splitlines() if line)
    shared = (folder / "tokenizer.json").is_file()
    task = TranslationTask.load(folder, {"shared": shared})
    task = TranslationTask(task.source_tokenizer, task.target_tokenizer, generation)
    return Prepared(task, TokenStore.open(folder / "train"), TokenStore.open(folder / "validation"), lines)


def is_prepared(folder: Path) -> bool:
    """Whether `prepare` has come to its end in `folder`."""
    return (folder / READY).is_file()


class _Preparation:
    """One preparation: which pairs are held out is decided once the number of all is known."""

    def __init__(
        self,
        data: TranslationData,
        tokenizer: TokenizerSettings,
        folder: Path,
        seed: int,
        pairs: TextPairs | None,
        validation_pairs: TextPairs | None,
    ) -> None:
        self.data = data
        self.tokenizer = tokenizer
        self.folder = folder
        self.seed = seed
        self.train_pairs = self._reader(data.train, "train", pairs)
        has_own = validation_pairs is not None or data.validation is not None or data.dates is not None
        self.validation_pairs = self._reader(data.validation, "validation", validation_pairs) if has_own else None
        self.malformed = MalformedRows()

    def _reader(
        self, place: Place | None, split: str, pairs: TextPairs | None
    ) -> Callable[[MalformedRows], Iterable[tuple[str, str]]]:
        data, seed = self.data, self.seed
        if pairs is not None:
            if not pairs:
                raise InputError(f"the {split} pairs are an empty list; give some")
            return lambda _: pairs
        if data.dates is not None:
            dates = data.dates
            size = dates.size if split == "train" else dates.validation_size
            return lambda _: dates.pairs(split, size, seed)
        if place is None:
            raise InputError(
                "data.train is missing; name a file of pairs, two parallel files, or data.dates={} for builtin dates"
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

    def run(self) -> list[str]:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("train", "validation", "source", "target", ".*.partial"):  # of a preparation that was killed
            for path in self.folder.glob(name):
                shutil.rmtree(path, ignore_errors=True)
        (self.folder / "tokenizer.json").unlink(missing_ok=True)
        source, target, count = self._tokenizers()
        columns = {"source": source.size, "target": target.size}
        held_out = self._held_out(count)
        dropped = [0]
        train = TokenStore.write(
            self.folder / "train",
            columns,
            self._encoded(self.train_pairs, source, target, lambda i: i not in held_out, dropped),
        )
        if self.validation_pairs is None:
            rows = self._encoded(self.train_pairs, source, target, lambda i: i in held_out, None)
        else:
            rows = self._encoded(self.validation_pairs, source, target, lambda _: True, None)
        TokenStore.write(self.folder / "validation", columns, rows)
        if len(train) == 0:
            raise InputError(
                f"no pair is left to train on: all {dropped[0]} are longer than data.maximum_tokens; raise it"
            )
        notes = []
        if self.malformed.total:
            notes.append(" ".join(self.malformed.summary().split()))
        if dropped[0]:
            notes.append(
                f"{dropped[0]} of {count} pairs are longer than data.maximum_tokens = {self.data.maximum_tokens} and were "
                "left out."
            )
        return notes

    def _tokenizers(self) -> tuple[Tokenizer, Tokenizer, int]:
        settings, count = self.tokenizer, 0

        def texts(sides: tuple[int, ...], malformed: MalformedRows) -> Iterator[str]:
            nonlocal count
            count = 0
            for pair in self.train_pairs(malformed):
                count += 1
                for side in sides:
                    yield pair[side]

        def trained(*sides: int, malformed: MalformedRows) -> Tokenizer:
            return Tokenizer.train(
                texts(sides, malformed),
                kind=settings.kind,
                size=settings.size,
                lowercase=settings.lowercase,
            )

        if settings.path is not None:
            source = target = Tokenizer.load(settings.path)
            count = sum(1 for _ in self.train_pairs(self.malformed))
        elif settings.shared:
            source = target = trained(0, 1, malformed=self.malformed)
        else:
            source = trained(0, malformed=self.malformed)
            target = trained(1, malformed=MalformedRows())
        if source is target:
            source.save(self.folder)
        else:
            source.save(self.folder / "source")
            target.save(self.folder / "target")
        return source, target, count

    def _held_out(self, count: int) -> frozenset[int]:
        if self.validation_pairs is not None:
            return frozenset()
        size = min(self.data.validation_size, count // 10)
        if size == 0:
            raise InputError(
                f"{count} pairs are too few to hold some out for validation; give at least 10, or data.validation"
            )
        generator = np.random.Generator(np.random.Philox(key=[self.seed, 0x56A1]))
        return frozenset(generator.choice(count, size=size, replace=False).tolist())

    def _encoded(
        self,
        pairs: Callable[[MalformedRows], Iterable[tuple[str, str]]],
        source: Tokenizer,
        target: Tokenizer,
        wanted: Callable[[int], bool],
        dropped: list[int] | None,
    ) -> Iterator[tuple[list[int], list[int]]]:
        """Token ids of the wanted pairs; `dropped` counts those that are too long, None keeps them."""
        # What is malformed in training data was counted when the tokenizers read it.
        malformed = self.malformed if pairs is self.validation_pairs else MalformedRows()
        limit = self.data.maximum_tokens
        chosen = (pair for i, pair in enumerate(pairs(malformed)) if wanted(i))
        while chunk := list(itertools.islice(chosen, 1024)):
            sources = source.encode_batch([pair[0] for pair in chunk])
            targets = target.encode_batch([pair[1] for pair in chunk])
            for row in zip(sources, targets, strict=True):
                if dropped is not None and limit is not None and max(map(len, row)) > limit:
                    dropped[0] += 1
                else:
                    yield row
