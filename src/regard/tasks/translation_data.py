"""The data of translation: builtin pairs, and the `data` and `tokenizer` sections of a recipe."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from regard.data.malformed import MalformedRows
from regard.data.pairs import Pair, pair_or_fault, read_pairs
from regard.data.rows import parts_of, sound
from regard.data.sequences import Kind, Sequences
from regard.errors import InputError
from regard.models.config import check
from regard.structure import from_mapping
from regard.tasks.examples import Examples, Place, check_amount
from regard.tasks.preparation import TokenizerSettings


class BuiltinData(Protocol):
    """Generated pairs of texts, which depend only on a few settings and a seed."""

    @property
    def size(self) -> int:
        """The number of training pairs."""
        ...

    @property
    def validation_size(self) -> int:
        """The number of validation pairs."""
        ...

    def pairs(self, split: str, size: int, seed: int) -> Iterator[tuple[str, str]]:
        """`size` pairs of the split `train`, `validation` or `test`; no source is in two of them."""
        ...

    def alphabet(self) -> tuple[str, str] | None:
        """Texts with every word of source and of target, which the vocabulary must cover; None if the words are not limited."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class DatesData:
    """Builtin data: human-written dates in dozens of languages to ISO dates.

    Arguments:
        size, validation_size: number of dates for training and validation; no calendar day is in both.
        typo_rate: share of dates with one typo in their letters, in training and validation.
        languages: CLDR codes; all if null.
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
        return ((example.source, example.target) for example in dates)

    def alphabet(self) -> None:
        """None, because names of months can be any words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SequencesData:
    """Builtin data: sequence problems whose answer is known, for the tokenizer kind `word`.

    Arguments:
        kind: `copy`, `reversal`, `sorting`, `dictionary` (word for word), `reversed_dictionary`, `recall` (of the first
            symbol) or `association` (the value next to a key).
        symbols: the number of different symbols, keys or values.
        shortest, longest: the range of the number of symbols of a source; of `recall` without the first, of `association` pairs.
        size, validation_size: number of pairs for training and validation; no source is in both.

    Raises:
        InputError: for numbers out of range.
    """

    kind: Kind = "reversal"
    symbols: int = 40
    shortest: int = 12
    longest: int = 12
    size: int = 20_000
    validation_size: int = 500

    def __post_init__(self) -> None:
        for name in ("size", "validation_size"):
            value = getattr(self, name)
            check(value > 0, f"data.sequences.{name}", value, "above 0", "raise it")
        self._problems("train", 0, 0)  # checks the settings; the number of pairs is checked when they are generated

    def pairs(self, split: str, size: int, seed: int) -> Iterator[tuple[str, str]]:
        """The texts of one split."""
        problems = self._problems(split, size, seed)
        return ((problem.source, problem.target) for problem in problems)

    def alphabet(self) -> tuple[str, str]:
        """Every symbol of the source, and of the target."""
        return self._problems("train", 0, 0).alphabet()

    def _problems(self, split: str, size: int, seed: int) -> Sequences:
        return Sequences(
            split,
            kind=self.kind,
            symbols=self.symbols,
            shortest=self.shortest,
            longest=self.longest,
            size=size,
            seed=seed,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslationData:
    """The `data` section of a recipe.

    Arguments:
        train: a TSV, CSV or JSONL file, two parallel files, or `hub:owner/name`; gzip is recognised.
        validation: the same for validation; held out from the training data if null.
        validation_size: number of pairs to hold out, at most a tenth of all.
        validation_share: the share to hold out, instead of a number.
        dates: builtin dates instead of files.
        sequences: builtin sequence problems instead of files.
        targets: for a multilingual model: the name of each target language with a section like this one.
        source, target: column index, column name or JSON key of the two texts.
        format: `tsv`, `csv`, `jsonl`, or `auto`.
        on_error: for a malformed row: `skip` counts and reports it, `stop` is an error.
        maximum_tokens: longer pairs are excluded from training and counted; null keeps all.

    Raises:
        InputError: for several kinds of data at once, or languages that cannot be distinguished.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_size: int = 1_000
    validation_share: float | None = None
    dates: DatesData | None = None
    sequences: SequencesData | None = None
    targets: dict[str, TranslationData] | None = None
    source: int | str | None = None
    target: int | str | None = None
    format: Literal["auto", "tsv", "csv", "jsonl"] = "auto"
    on_error: Literal["skip", "stop"] = "skip"
    maximum_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.targets is not None:
            self._check_targets(self.targets)
        if self.dates is not None and self.sequences is not None:
            raise InputError("data.dates and data.sequences are both given; choose one, such as by data.dates=null")
        name = "dates" if self.dates is not None else "sequences"
        for place in ("train", "validation"):
            value = getattr(self, place)
            check(
                self.builtin is None or value is None,
                f"data.{place}",
                value,
                f"left out if data.{name} is given",
                f"choose builtin {name} or your own files",
            )
        check_amount(self)

    def _check_targets(self, targets: dict[str, TranslationData]) -> None:
        check(
            len(targets) > 1, "data.targets", list(targets), "two languages or more", "for one, give data.train alone"
        )
        for language, data in targets.items():
            check(
                re.fullmatch(r"[^\W_][\w-]*", language) is not None,
                "a language in data.targets",
                language,
                "letters, digits, - and _",
                "it becomes a tag such as <2de>",
            )
            if data.targets is not None:
                raise InputError(
                    f"data.targets.{language}.targets is given, but a language has no target languages; leave it out"
                )
        for part in dataclasses.fields(self):
            if part.name != "targets" and getattr(self, part.name) != part.default:
                raise InputError(
                    f"data.{part.name} and data.targets are both given; set it for each language, such as "
                    f"data.targets.{next(iter(targets))}.{part.name}"
                )

    @property
    def builtin(self) -> BuiltinData | None:
        """The builtin data of this section; None if the data are files."""
        return self.dates if self.dates is not None else self.sequences

    @property
    def languages(self) -> tuple[str, ...]:
        """The names of the target languages; empty if there is only one."""
        return tuple(self.targets or ())


def columns_of(data: Any) -> list[list[str]]:
    """The keys of source and target in a mapping: those that a `data` section names, else "source" and "target"."""
    named = [None if data is None else getattr(data, side) for side in ("source", "target")]
    return [[name if isinstance(name, str) else side] for name, side in zip(named, ("source", "target"), strict=True)]


def pairs_in(data: Any, path: str | list[str], malformed: MalformedRows) -> Iterator[Pair]:
    """The pairs of files, read as set in a `data` section."""
    return read_pairs(
        path,
        format=data.format,
        source=data.source,
        target=data.target,
        on_error=data.on_error,
        malformed=malformed,
    )


def _row(row: Any, called: str, number: int, data: Any) -> Pair:
    left, right = parts_of(row, called, columns_of(data), PAIRS.wanted)
    return sound(pair_or_fault("pairs", number, left, right), PAIRS.wanted)


PAIRS: Examples[Pair] = Examples(
    type=Pair,
    rows="pairs",
    wanted="(source, target), two texts",
    file="file of pairs",
    formats=", two parallel files, or builtin data such as data.dates={}",
    row=_row,
    read=pairs_in,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PairTokenizerSettings(TokenizerSettings):
    """The `tokenizer` section of a recipe.

    Arguments:
        kind: `auto`, `bpe`, `wordpiece`, `bert` (BERT's own WordPiece), `unigram`, `word` or `character`. `auto` chooses from the
            texts: characters for numbers, codes, names and single words, else BPE; for source and target separately unless
            `shared`. Training reports the choice.
        size: the maximum size of the vocabulary.
        lowercase: whether to lower-case texts.
        path: a folder, tokenizer.json or vocab.txt to load instead of training a tokenizer.
        sentinels: the number of T5's sentinels in a trained tokenizer, one for each removed span; T5 has 100.
        shared: whether source and target share one vocabulary.
    """

    kind: Literal[  # pyright: ignore[reportIncompatibleVariableOverride]  # of all tasks, translation alone chooses
        "auto", "bpe", "byte_bpe", "wordpiece", "bert", "unigram", "word", "character"
    ] = "bpe"
    shared: bool = True


def builtin_pairs(
    data: TranslationData | Mapping[str, Any], split: str, size: int, seed: int = 0
) -> list[tuple[str, str]]:
    """`size` pairs of builtin data for an evaluation, which can have other lengths than those in training.

    Arguments:
        data: the `data` section of a recipe, or a mapping with the entries that differ from the defaults.
        split: `train`, `validation` or `test`; no source is in two of them, for any seed, size and lengths.
        size: the number of pairs.
        seed: the seed of the samples.

    Raises:
        InputError: for data that is not builtin, or has fewer than `size` different sources.

    >>> builtin_pairs({"sequences": {"kind": "reversal", "shortest": 3, "longest": 3}}, "test", size=1)
    [('s15 s17 s20', 's20 s17 s15')]
    """
    if isinstance(data, Mapping):
        data = from_mapping(TranslationData, data, "data")
    if data.builtin is None:
        raise InputError("data names no builtin data; give data.dates or data.sequences")
    return list(data.builtin.pairs(split, size, seed))
