"""A claim on the user's own data: which files, and what they replace."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.claims.comparison import copied
from regard.claims.measure import JUDGING, read_measures
from regard.data.pairs import Pair, read_pairs
from regard.errors import InputError
from regard.files import new_folder
from regard.training.recipe import put

Place = str | list[str]
SPLITS: Mapping[str, tuple[str, ...]] = {
    "train": ("train",),
    "validation": ("val", "valid", "validation", "dev"),
    "test": ("test",),
}
"""How the files of each split begin in a folder of data sets."""

TABLES = (".tsv", ".csv", ".jsonl")
SMALLEST, MOST_HELD_OUT = 100, 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnData:
    """What `data.path` means to a claim.

    Arguments:
        says: what the user's pairs replace, for people.
        needed: whether the claim has no data of its own.
        texts: whether plain text is meant, and not pairs.
        pictures: whether a folder or archive of images is meant, and not pairs.
        pieces: whether music is meant: a folder of MIDI files, or a file of chorales.
        files: what to give, where that is neither pairs nor one text.
        languages: how the two parallel files of a split end in a folder, the source's first, such as [en, de].
        settings: dotted keys of the recipe on top, where the user's pairs ask for other ones.
        renamed: keys of the arms that mean nothing there, and what says the same: `data.sequences.longest` may become
            `data.maximum_tokens`.
    """

    says: str
    needed: bool = False
    texts: bool = False
    pictures: bool = False
    pieces: bool = False
    files: str = ""
    languages: tuple[str, str] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Files:
    """Where each split is: a file of pairs, two parallel ones, or of text.

    Arguments:
        validation, test: None where a text has none; some of the training text is then held out for validation.
        cut: whether they were cut out of the user's files, and are JSON objects now.
    """

    train: Place
    validation: Place | None
    test: Place | None
    cut: bool = False


def on_own_data(
    comparison: Mapping[str, Any], own: OwnData, files: Files, reading: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The sections of a comparison with the user's pairs in place of builtin ones.

    Measures that are judged on a test split are judged on the user's; what else they say stays.

    Arguments:
        reading: `source`, `target` and `format` of a recipe's data section, for the files.
    """
    values = copied(comparison)
    recipe = values["recipe"]
    reading = {} if files.cut else dict(reading or {})
    cut = {
        key: value
        for key, value in recipe["data"].items()
        if (own.texts or own.pictures or own.pieces) and key not in ("train", "validation", "builtin", "motifs")
    }
    recipe["data"] = {**cut, "train": files.train, "validation": files.validation, **reading}
    for key, value in own.settings.items():
        put(recipe, key, copied(value))
    for name, settings in values["arms"].items():
        if isinstance(settings, dict):
            values["arms"][name] = {own.renamed.get(key, key): value for key, value in settings.items()}
    judged = {"validation": files.test, **reading}
    values["measures"] = [
        measure.to_mapping() | {"data": judged, "split": "validation"}
        if measure.kind in JUDGING and measure.split == "test"
        else measure.to_mapping()
        for measure in read_measures(values.get("measures", ()))
    ]
    return values


def files_of(path: Any, own: OwnData, folder: Path, reading: Mapping[str, Any] | None = None) -> Files:
    """The files that a `data.path` stands for.

    A folder with files for training, validation and test is taken as it is: `train.en.gz` with `train.de.gz`, or `train.tsv`.
    Of one file of pairs (TSV, CSV, JSONL), or two parallel ones, a tenth is held out for validation and another for the test;
    what is where depends on the source's text alone, so no source is in two of them.

    Arguments:
        path: of a folder, a file, or a list of two parallel files, source first.
        folder: where to write what is cut; kept, and taken as it is if it is there.
        reading: `source`, `target` and `format` for `regard.data.pairs.read_pairs`.

    Raises:
        InputError: where nothing usable is found.
    """
    if own.texts:
        return _texts(path)
    if own.pictures or own.pieces:
        if not isinstance(path, str):
            what = (
                "a folder or a zip archive of images"
                if own.pictures
                else "a folder of MIDI files or a file of chorales"
            )
            raise InputError(f"data.path is {path!r}; give {what}")
        return Files(train=path, validation=None, test=None)
    if isinstance(path, str) and Path(path).is_dir():
        place = Path(path)
        found = {split: _in_folder(place, starts, own.languages) for split, starts in SPLITS.items()}
        train, validation, test = (found[split] for split in SPLITS)
        if train is None:
            ends = " and ".join(own.languages) if own.languages else "source and target"
            raise InputError(
                f"data.path: {path} holds no training pairs; give a folder with train.tsv (or .csv, .jsonl), or with "
                f"parallel files train.* that end in {ends}, or give the files themselves"
            )
        if validation is not None and test is not None:
            return Files(train=train, validation=validation, test=test)
        return _cut(train, folder, reading or {})
    if isinstance(path, str) or (isinstance(path, list) and len(path) == 2 and all(isinstance(p, str) for p in path)):
        return _cut(path, folder, reading or {})
    raise InputError(
        f"data.path is {path!r}; give a folder, a file of pairs, or two parallel files, data.path=[a.en,a.de]"
    )


def _texts(path: Any) -> Files:
    """Files of text: one, or those for training and validation in a folder."""
    if not isinstance(path, str):
        raise InputError(f"data.path is {path!r}; give a folder or a file of text")
    place = Path(path)
    if not place.is_dir():
        return Files(train=path, validation=None, test=None)
    found = {split: _text_in_folder(place, starts) for split, starts in SPLITS.items()}
    train = found["train"]
    if train is None:
        raise InputError(f"data.path: {path} holds no train.txt (or train.txt.gz); name the file itself")
    return Files(train=train, validation=found["validation"], test=found["test"])


def _text_in_folder(folder: Path, starts: Sequence[str]) -> str | None:
    """The first file of text whose name begins so."""
    names = sorted(path.name for path in folder.iterdir() if path.name.removesuffix(".gz").endswith(".txt"))
    return next((str(folder / name) for start in starts for name in names if name.startswith(start)), None)


def _in_folder(folder: Path, starts: Sequence[str], languages: tuple[str, str] | None) -> Place | None:
    """The first pair of files, or file, whose name begins so."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    for start in starts:
        mine = [
            name for name in names if name.startswith(start) and name[len(start) : len(start) + 1] in (".", "_", "-")
        ]
        for name in mine:
            stem = name.removesuffix(".gz")
            if languages is not None and stem.endswith(f".{languages[0]}"):
                other = f"{stem.removesuffix(languages[0])}{languages[1]}"
                twin = next((each for each in (other, f"{other}.gz") if each in names), None)
                if twin is not None:
                    return [str(folder / name), str(folder / twin)]
            if stem.endswith(TABLES):
                return str(folder / name)
    return None


def _cut(path: Place, folder: Path, reading: Mapping[str, Any]) -> Files:
    """Pairs cut into three files of JSON objects, once."""
    stamp = json.dumps([path, dict(reading)], default=str)
    place = folder / hashlib.sha256(stamp.encode()).hexdigest()[:12]
    files = Files(**{split: str(place / f"{split}.jsonl") for split in SPLITS}, cut=True)
    if place.is_dir():
        return files
    counts = dict.fromkeys(SPLITS, 0)
    with new_folder(place) as partial:
        opened = {split: (partial / f"{split}.jsonl").open("w", encoding="utf-8") for split in SPLITS}
        try:
            for pair, split in _dealt(read_pairs(path, **reading)):
                if split != "train" and counts[split] >= MOST_HELD_OUT:
                    continue  # not trained on either: what is held out must not depend on the order
                counts[split] += 1
                line = {"source": pair.source, "target": pair.target}
                opened[split].write(json.dumps(line, ensure_ascii=False) + "\n")
        finally:
            for file in opened.values():
                file.close()
        if min(counts.values()) * 10 < SMALLEST:
            total = sum(counts.values())
            raise InputError(
                f"data.path: {total} pairs are too few to train on, validate and test; give at least {2 * SMALLEST}"
            )
    return files


def _dealt(pairs: Iterator[Pair]) -> Iterator[tuple[Pair, str]]:
    """Each pair with its split, by a hash of its source: the same source is never in two."""
    for pair in pairs:
        tenth = int.from_bytes(hashlib.blake2b(pair.source.encode(), digest_size=8).digest(), "big") % 10
        yield pair, {8: "validation", 9: "test"}.get(tenth, "train")
