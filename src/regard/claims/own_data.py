"""Running a claim on the user's own data: finding the files, and replacing the claim's data."""

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
from regard.structure import renamed
from regard.training.recipe import put

Place = str | list[str]
SPLITS: Mapping[str, tuple[str, ...]] = {
    "train": ("train",),
    "validation": ("val", "valid", "validation", "dev"),
    "test": ("test",),
}
"""The beginnings of the names of files of each split in a folder."""

TABLES = (".tsv", ".csv", ".jsonl")
SMALLEST, MOST_HELD_OUT = 100, 2_000


@renamed(pictures="images")
@dataclass(frozen=True, kw_only=True, slots=True)
class OwnData:
    """What `data.path` means to a claim.

    Arguments:
        says: a sentence for the user about what the data replace.
        needed: whether the claim has no data of its own.
        texts: whether the data are plain text instead of pairs.
        images: whether the data are a folder or archive of images instead of pairs.
        pieces: whether the data are music: a folder of MIDI files, or a file of chorales.
        files: a description of the files to give, if they are neither pairs nor one text.
        languages: the ends of the names of the two parallel files of a split in a folder, the source first, such as [en, de].
        settings: dotted keys of the recipe that are changed for the user's pairs.
        renamed: keys of the arms that do not apply to the user's pairs, and the keys that replace them:
            `data.sequences.longest` can become `data.maximum_tokens`.
    """

    says: str
    needed: bool = False
    texts: bool = False
    images: bool = False
    pieces: bool = False
    files: str = ""
    languages: tuple[str, str] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Files:
    """The files of each split: a file of pairs, two parallel files, or a file of text.

    Arguments:
        train: the training data.
        validation, test: None if a text has none; then validation text is held out from the training text.
        cut: whether they were made from the user's files by splitting; then they have JSON objects.
    """

    train: Place
    validation: Place | None
    test: Place | None
    cut: bool = False


def on_own_data(
    comparison: Mapping[str, Any], own: OwnData, files: Files, reading: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The sections of a comparison with the user's data instead of builtin data.

    Measures on a test split use the user's test split; their other settings are not changed.

    Arguments:
        reading: `source`, `target` and `format` of a recipe's data section, for reading the files.
    """
    values = copied(comparison)
    recipe = values["recipe"]
    reading = {} if files.cut else dict(reading or {})
    cut = {
        key: value
        for key, value in recipe["data"].items()
        if (own.texts or own.images or own.pieces) and key not in ("train", "validation", "builtin", "motifs")
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
    """The files of each split for a `data.path`.

    A folder with files for training, validation and test is used directly: `train.en.gz` with `train.de.gz`, or `train.tsv`.
    One file of pairs (TSV, CSV, JSONL), or two parallel files, are split: a tenth for validation and a tenth for the test. The
    split of a pair depends only on the text of its source, so no source is in two splits.

    Arguments:
        path: a folder, a file, or a list of two parallel files, the source first.
        folder: where to write the split files; existing ones are reused.
        reading: `source`, `target` and `format` for `regard.data.pairs.read_pairs`.

    Raises:
        InputError: if no usable file is found.
    """
    if own.texts:
        return _texts(path)
    if own.images or own.pieces:
        if not isinstance(path, str):
            what = (
                "a folder or a zip archive of images" if own.images else "a folder of MIDI files or a file of chorales"
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
                f"data.path: {path} has no training pairs; give a folder with train.tsv (or .csv, .jsonl), or with "
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
    """Files of text: one file, or the files of the splits in a folder."""
    if not isinstance(path, str):
        raise InputError(f"data.path is {path!r}; give a folder or a file of text")
    place = Path(path)
    if not place.is_dir():
        return Files(train=path, validation=None, test=None)
    found = {split: _text_in_folder(place, starts) for split, starts in SPLITS.items()}
    train = found["train"]
    if train is None:
        raise InputError(f"data.path: {path} has no train.txt (or train.txt.gz); name the file itself")
    return Files(train=train, validation=found["validation"], test=found["test"])


def _text_in_folder(folder: Path, starts: Sequence[str]) -> str | None:
    """The first file of text whose name has one of these beginnings."""
    names = sorted(path.name for path in folder.iterdir() if path.name.removesuffix(".gz").endswith(".txt"))
    return next((str(folder / name) for start in starts for name in names if name.startswith(start)), None)


def _in_folder(folder: Path, starts: Sequence[str], languages: tuple[str, str] | None) -> Place | None:
    """The first two parallel files, or the first file, whose name has one of these beginnings."""
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
    """Split pairs into three files of JSON objects, unless they exist."""
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
                    continue  # not used for training either, so that the split does not depend on the order
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
    """Each pair with its split, by a hash of its source, so that a source is never in two splits."""
    for pair in pairs:
        tenth = int.from_bytes(hashlib.blake2b(pair.source.encode(), digest_size=8).digest(), "big") % 10
        yield pair, {8: "validation", 9: "test"}.get(tenth, "train")
