"""The files that experiments on word vectors take from one folder: text to train on, and test sets."""

from __future__ import annotations

from pathlib import Path

from regard.claims.own_data import SPLITS
from regard.errors import InputError
from regard.vectors.training import Corpus
from regard.vectors.training.corpus import Tokenisation


def training_text(path: str | None, tokenisation: Tokenisation) -> Corpus:
    """The training text of a folder, `train.txt`, perhaps gzip; what the WikiText sets have beside text is left out.

    Raises:
        InputError: where there is no folder or no such file.
    """
    if path is None:
        raise InputError("experiment.path is missing; name a folder with train.txt, perhaps gzip")
    folder = Path(path)
    names = sorted(each.name for each in folder.iterdir() if each.is_file()) if folder.is_dir() else []
    found = next((name for name in names if name.split(".")[0] in SPLITS["train"] and ".txt" in name), None)
    if found is None:
        raise InputError(f"{folder}: holds no train.txt (or train.txt.gz); give a folder with text for training")
    return Corpus(paths=(str(folder / found),), tokenisation=tokenisation, cleaning="wikitext")


def file_of(path: str | None, name: str) -> Path:
    """A file by its name in the folder, or by its own path."""
    inside = Path(path or "") / name
    return inside if inside.exists() else Path(name)
