"""`regard.export`: the model of a run by itself, to be given away."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import InputError, nearest
from regard.files import new_folder
from regard.parts import FOLDER, Code, load_code
from regard.rendering import text_table
from regard.tasks.loading import load, model_folder, pointers_of
from regard.tasks.predictor import check_replaceable

BEST, LAST = "best", "last"


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """A model's folder that was written.

    Arguments:
        folder: where it is.
        source: the folder it was read from: the run's own, or that of a checkpoint.
        task: what the model is for.
        files: the bytes of every file, by its place in the folder.
        notes: what is to be known before the folder is given away, in sentences.
    """

    folder: Path
    source: Path
    task: str
    files: dict[str, int]
    notes: tuple[str, ...] = ()

    def rows(self) -> list[tuple[str, str]]:
        """Names and values as people read them; what `print` and notebooks show."""
        return [
            ("model", str(self.folder)),
            ("from", str(self.source)),
            ("task", self.task.replace("_", " ")),
            *((name, f"{size:,} bytes") for name, size in self.files.items()),
        ]

    def __str__(self) -> str:
        return text_table(self.rows())

    def _repr_html_(self) -> str:
        from regard.web import html_table

        return html_table(self.rows())


def export(
    folder: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    checkpoint: str = BEST,
    code: Code | None = None,
    max_shard_size: int | str | None = None,
) -> Exported:
    """Write what predicting needs, and nothing else, into a folder to be given away.

    No examples, no state of the optimiser, no log, and of paths outside of the folder where training was started the file's name
    alone. The weights are those of the run, bit for bit; adapters are merged into them. What a vocabulary holds (words and
    parts of words of the training texts, names of classes) is part of the model and stays.

    Arguments:
        folder: of a run or model.
        target: a new folder, or that of a model, which is replaced; whole, or not at all.
        checkpoint: of a run: `best`, which is what `load` takes, `last`, or the name of a folder under checkpoints/.
        code: your own Python file, or files, with the parts that the model was made with. Copies of these go with the model.
        max_shard_size: how large a file of weights may be, such as `5GB`; see `Predictor.save`.

    Raises:
        InputError: for a folder that holds no model, or is damaged; for a target that holds something else, or lies in the run.

    >>> regard.export("runs/mails", "mails")  # doctest: +SKIP
    """
    load_code(code)
    place = _source(Path(folder), checkpoint)
    target = Path(target)
    _check_target(target, Path(folder), place)
    predictor: Any = load(place)
    with new_folder(target) as partial:
        predictor.write_files(partial, max_shard_size=max_shard_size)
    files = {path.relative_to(target).as_posix(): path.stat().st_size for path in _files(target)}
    return Exported(folder=target, source=place, task=predictor.task.name, files=files, notes=tuple(_notes(files)))


def _source(folder: Path, checkpoint: str) -> Path:
    """The folder of the model that was asked for."""
    if checkpoint == BEST:
        return model_folder(folder)
    pointers = pointers_of(folder)
    there = [path.name for path in sorted((folder / "checkpoints").glob("step-*")) if path.is_dir()]
    name = pointers.get(LAST, "") if checkpoint == LAST else checkpoint
    if name not in there:
        if not there:
            raise InputError(f"{folder}: holds no checkpoints, so there is no {checkpoint!r}; leave --checkpoint out")
        raise InputError(f"{folder}: has no checkpoint {checkpoint!r}; {nearest(checkpoint, [BEST, LAST, *there])}")
    return folder / "checkpoints" / name


def _check_target(target: Path, folder: Path, place: Path) -> None:
    """Refuse a place where something would be lost, or where the model would be back in the workshop."""
    real, sources = target.resolve(), (folder.resolve(), place.resolve())
    if any(real == source or real.is_relative_to(source) or source.is_relative_to(real) for source in sources):
        raise InputError(f"{target}: and {folder} lie in one another; choose a folder of its own")
    if target.exists() and not target.is_dir():
        raise InputError(f"{target}: is a file; choose a new folder")
    if target.is_dir() and any(target.iterdir()) and not (target / "config.json").is_file():
        raise InputError(f"{target}: is there already and holds no model; choose a new folder")
    check_replaceable(target)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _notes(files: dict[str, int]) -> list[str]:
    own = [name for name in files if name.startswith(f"{FOLDER}/")]
    if not own:
        return []
    return [f"{', '.join(own)}: your own code as it is; look for names and paths in it before you give it away."]
