"""What a translator learns from, as data: the `data` and `tokenizer` sections of a recipe."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from regard.errors import InputError
from regard.models.config import check
from regard.structure import from_mapping
from regard.tasks.preparation import TokenizerSettings
from regard.tasks.translation.builtin_data import BuiltinData, DatesData, SequencesData

Place = str | tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslationData:
    """The `data` section of a recipe.

    Arguments:
        train: a TSV, CSV or JSONL file, two parallel files, or `hub:owner/name`; gzip is recognised.
        validation: likewise; held out from the training data where null.
        validation_size: how many pairs to hold out, at most a tenth of all.
        dates: builtin dates instead of files.
        sequences: builtin sequence problems instead of files.
        targets: for one model that translates into several languages: each language's name with a section like this one.
        source, target: column index, column name or JSON key of the two texts.
        format: `tsv`, `csv`, `jsonl`, or `auto`.
        on_error: what to do about a malformed row: `skip` counts and reports it, `stop` ends with an error.
        maximum_tokens: pairs with a longer side are left out of training and counted; null keeps all.

    Raises:
        InputError: for several kinds of data at once, or languages that cannot be told apart.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_size: int = 1_000
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
                f"left out beside data.{name}",
                f"choose builtin {name} or your own files",
            )
        check(self.validation_size > 0, "data.validation_size", self.validation_size, "above 0", "raise it")

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
                    f"data.targets.{language}.targets is given, and a language has no others; leave it out"
                )
        for part in dataclasses.fields(self):
            if part.name != "targets" and getattr(self, part.name) != part.default:
                raise InputError(
                    f"data.{part.name} is given beside data.targets; say it for each language, such as "
                    f"data.targets.{next(iter(targets))}.{part.name}"
                )

    @property
    def builtin(self) -> BuiltinData | None:
        """The builtin data named here; None where there are files."""
        return self.dates if self.dates is not None else self.sequences

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that a model of this data translates into, by name; empty for one without a name."""
        return tuple(self.targets or ())


@dataclass(frozen=True, kw_only=True, slots=True)
class PairTokenizerSettings(TokenizerSettings):
    """The `tokenizer` section of a recipe.

    Arguments:
        kind: `auto`, `bpe`, `wordpiece`, `bert` (BERT's own WordPiece), `unigram`, `word` or `character`. `auto` reads the texts
            and takes characters for numbers, codes, names and single words, else BPE, for source and target apart unless
            `shared`; training says what it chose.
        size: the largest vocabulary.
        lowercase: drop case.
        path: a folder, tokenizer.json or vocab.txt to take instead of training one.
        sentinels: how many of T5's sentinels a trained one has, each to stand for a span that was taken out; T5 has 100.
        shared: one vocabulary for source and target.
    """

    kind: Literal[  # pyright: ignore[reportIncompatibleVariableOverride]  # of all tasks, translation alone chooses
        "auto", "bpe", "byte_bpe", "wordpiece", "bert", "unigram", "word", "character"
    ] = "bpe"
    shared: bool = True


def builtin_pairs(
    data: TranslationData | Mapping[str, Any], split: str, size: int, seed: int = 0
) -> list[tuple[str, str]]:
    """`size` pairs of builtin data, to judge a model on, perhaps of other lengths than it was trained on.

    Arguments:
        data: the `data` section of a recipe, or a mapping with the entries to differ from the defaults.
        split: `train`, `validation` or `test`; a source is in one of them only, whatever seed, size and lengths.
        size: how many.
        seed: another seed draws others.

    Raises:
        InputError: for data that is not builtin, or has fewer different sources than asked for.

    >>> builtin_pairs({"sequences": {"kind": "reversal", "shortest": 3, "longest": 3}}, "test", size=1)
    [('s15 s17 s20', 's20 s17 s15')]
    """
    if isinstance(data, Mapping):
        data = from_mapping(TranslationData, data, "data")
    if data.builtin is None:
        raise InputError("data names no builtin data; give data.dates or data.sequences")
    return list(data.builtin.pairs(split, size, seed))
