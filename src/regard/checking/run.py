"""Runs' folders: the model, its checkpoints, the recipe, the log and the data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from regard.checking.files import LEFT, Listed, found, found_tensors, json_object, missing, texts_of, tried, unplaced
from regard.checking.model import check_model
from regard.checking.others import check_tokens, is_tokens
from regard.checking.report import CheckedFile, Report
from regard.files import PARTIAL_PREFIX
from regard.reading import json_value, read_text
from regard.tasks.loading import POINTER, pointers_of
from regard.tasks.preparation import READY
from regard.training.checkpoint import OPTIMIZER, PROGRESS
from regard.training.recipe import read_yaml
from regard.training.run import RECIPE

LOG, DATA, CHECKPOINTS, STAGING = "log.jsonl", "data", "checkpoints", ".model"
TRACKERS = ("tensorboard", "mlflow.db", "wandb")
OF_A_RUN = frozenset({RECIPE, LOG, DATA, CHECKPOINTS, POINTER, STAGING, *TRACKERS})


def is_run(listed: Listed) -> bool:
    """Whether a folder is a run's."""
    tops = {name.split("/")[0] for name in listed.names}
    return RECIPE in tops or POINTER in tops


def check_run(listed: Listed) -> Report:
    """Check a run's folder: what is the model's, then what is the run's."""
    folder = listed.folder
    pointers, said = tried(lambda: pointers_of(folder))
    begun = bool(pointers) or bool(said)
    last = json_object(folder / CHECKPOINTS / str((pointers or {}).get("last")) / PROGRESS).get("progress")
    finished = bool(isinstance(last, dict) and last.get("finished"))
    files = [_recipe(listed), *_log(listed, begun=begun, finished=finished)]
    if POINTER in listed.names:
        files.append(
            CheckedFile(path=POINTER, state="damaged" if said else "present", remark=unplaced(said, folder / POINTER))
        )
    elif (folder / CHECKPOINTS).is_dir() and any((folder / CHECKPOINTS).iterdir()):
        files.append(missing(listed, POINTER))
    reports: dict[str, Report] = {}
    for name in dict.fromkeys((pointers or {}).values()):
        more, report = _checkpoint(folder, name, last=name == (pointers or {})["last"])
        files += more
        if report is not None:
            reports[name] = report
    files += _unnamed(folder, set((pointers or {}).values()))
    files += _data(listed, begun=begun)
    files += [CheckedFile(path=name) for name in listed.names if name.split("/")[0] in TRACKERS]
    files += [
        CheckedFile(path=name, state="unexpected", remark=LEFT)
        for name in listed.names
        if name.startswith(f"{STAGING}/")
    ]
    partial = frozenset(name.split("/")[0] for name in listed.names if name.startswith(PARTIAL_PREFIX))
    files += [CheckedFile(path=f"{name}/", state="unexpected", remark=LEFT) for name in sorted(partial)]
    own = Listed(folder, OF_A_RUN | partial)
    if {"config.json", "regard.json"} & {*own.names}:
        model = check_model(own)
    else:
        best = reports.get((pointers or {}).get("best", (pointers or {}).get("last", "")))
        files += [CheckedFile(path=name) for name in own.names]
        nothing = Report(folder="", kind="run", files=(), readers={}, notes=("there is no checkpoint yet",))
        model = nothing if best is None else replace(best, files=())
        if begun and finished:  # then it ought to stand here
            files.append(missing(own, "config.json", "the run has ended; the same command with --resume writes it"))
    return replace(
        model,
        folder=str(folder),
        kind="run",
        files=(*model.files, *sorted(files, key=lambda file: file.path)),
    )


def _recipe(listed: Listed) -> CheckedFile:
    if RECIPE not in listed.names:
        return missing(listed, RECIPE, "the run cannot be resumed without it")
    path = listed.path(RECIPE)
    said = tried(lambda: read_yaml(path))[1]
    return CheckedFile(path=RECIPE, state="damaged" if said else "present", remark=unplaced(said, path))


def _log(listed: Listed, *, begun: bool, finished: bool) -> list[CheckedFile]:
    if LOG not in listed.names:
        return [missing(listed, LOG)] if begun else []
    lines, said = tried(lambda: read_text(listed.path(LOG), "").split("\n"))
    for number, line in enumerate(lines or [], start=1):
        if line and tried(lambda line=line: json_value(line))[1]:
            if number == len(lines or []) and not finished:
                return [
                    CheckedFile(path=LOG, remark="the last line is cut short, and is written anew when the run goes on")
                ]
            said = f"line {number} is no JSON"
            break
    return [CheckedFile(path=LOG, state="damaged" if said else "present", remark=said)]


def _checkpoint(folder: Path, name: str, *, last: bool) -> tuple[list[CheckedFile], Report | None]:
    """A checkpoint that counts: a model's folder, with the state of training beside."""
    prefix = f"{CHECKPOINTS}/{name}"
    place = folder / CHECKPOINTS / name
    if not place.is_dir():
        return [CheckedFile(path=f"{prefix}/", state="missing", remark=f"{POINTER} names it")], None
    listed = Listed(place, frozenset({OPTIMIZER, PROGRESS}))
    report = check_model(listed)
    files = [*report.files]
    state = json_object(place / PROGRESS)
    progress, digests = state.get("progress"), texts_of(state.get("digests"))
    beside = Listed(place)
    if PROGRESS not in beside.names:
        files.append(missing(beside, PROGRESS, "the run cannot go on from it"))
    else:
        files.append(
            found(beside, PROGRESS, {}) if isinstance(progress, dict) else CheckedFile(path=PROGRESS, state="damaged")
        )
    if OPTIMIZER in beside.names:
        files.append(found_tensors(beside, OPTIMIZER, digests))
    else:
        ended = isinstance(progress, dict) and bool(progress.get("finished"))
        said = "removed when the run had ended" if ended or not last else "the run cannot go on without it"
        files.append(missing(beside, OPTIMIZER, said, harmless=ended or not last))
    return [file.under(prefix) for file in files], report


def _unnamed(folder: Path, names: set[str]) -> list[CheckedFile]:
    place = folder / CHECKPOINTS
    if not place.is_dir():
        return []
    return [
        CheckedFile(
            path=f"{CHECKPOINTS}/{path.name}" + ("/" if path.is_dir() else ""),
            state="unexpected",
            remark=LEFT if path.name.startswith(PARTIAL_PREFIX) else f"{POINTER} does not name it",
        )
        for path in sorted(place.iterdir())
        if path.name not in names
    ]


def _data(listed: Listed, *, begun: bool) -> list[CheckedFile]:
    """The prepared examples: token stores, and what tells of them."""
    names = [name for name in listed.names if name.startswith(f"{DATA}/")]
    if not names:
        return (
            [CheckedFile(path=f"{DATA}/", state="missing", remark="the run cannot be resumed without it")]
            if begun
            else []
        )
    stores = sorted({str(Path(name).parent) for name in names if name.endswith((".bin", "/store.json"))})
    files = []
    for store in stores:
        place = listed.sub(store)
        if is_tokens(place) or any(name.endswith(".offsets.bin") for name in place.names):
            files += [file.under(store) for file in check_tokens(place).files]
    covered = {file.path for file in files}
    files += [found(listed, name, {}) for name in names if name not in covered]
    if begun and f"{DATA}/{READY}" not in names:
        files.append(missing(listed, f"{DATA}/{READY}", "the data was not prepared to its end"))
    return files
