"""Check a folder: whether every file is there and undamaged, matches its recorded digest, and which programs can open it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from regard.checking.files import (
    INDEX,
    LEFT,
    CheckedFile,
    Listed,
    Report,
    blamed,
    found,
    found_tensors,
    json_object,
    missing,
    texts_of,
    tried,
    unexpected,
    unplaced,
)
from regard.checking.servers import served
from regard.checkpoints.adapters import ADAPTER
from regard.checkpoints.elmo import published_files
from regard.checkpoints.folder import CARD, CONFIG, WEIGHTS
from regard.checkpoints.layouts import readers as readers_of
from regard.checkpoints.layouts import tokens_in
from regard.data.token_store import TokenStore
from regard.embeddings.search import FORMAT_VERSION
from regard.errors import InputError
from regard.files import PARTIAL_PREFIX
from regard.parts import Code, load_code
from regard.reading import json_value, parse_json, read_text
from regard.tasks.loading import POINTER, load, pointers_before, pointers_of
from regard.tasks.predictor import is_model_file
from regard.tasks.preparation import READY
from regard.training.checkpoint import OPTIMIZER, PROGRESS
from regard.training.recipe import read_yaml
from regard.training.run import RECIPE
from regard.training.shards import files_of
from regard.word_embeddings.formats import files as vectors_folder


def check(folder: str | os.PathLike[str], *, code: Code | None = None) -> Report:
    """Check every file of a folder written by Regard or `transformers`, and try to open the folder.

    Nothing is changed. Damage is listed in the report and raises no error.

    Arguments:
        folder: of a model, a run, word embeddings, a token store, or texts with a search index.
        code: your own Python file, or files, with the parts that the model was made with.

    Returns:
        The report; `Report.whole` tells whether the folder is complete and undamaged.

    Raises:
        InputError: for a folder that does not exist, or holds nothing known.

    >>> check("no-such-folder")
    Traceback (most recent call last):
        ...
    regard.errors.InputError: no-such-folder: no such folder; give the folder of a model, a run, vectors, tokens or an index
    """
    load_code(code)
    place = Path(folder)
    if not place.is_dir():
        what = "is a file" if place.exists() else "no such folder"
        raise InputError(f"{place}: {what}; give the folder of a model, a run, vectors, tokens or an index")
    listed = Listed(place)
    for known, checked in (
        (is_tokens, check_tokens),
        (is_vectors, check_vectors),
        (is_run, check_run),
        (is_model, check_model),
        (lambda listed: INDEX in listed.names, check_index),
    ):
        if known(listed):
            return checked(listed)
    raise InputError(f"{place}: holds nothing that Regard or transformers wrote; give a folder that one of them wrote")


# Folders of models: Regard's, and those of transformers.


PARTS = f"{WEIGHTS}.index.json"
"""The file in which transformers lists which of several files has which tensor."""

THEIRS = frozenset(
    {
        "special_tokens_map.json",
        "added_tokens.json",
        "merges.txt",
        "vocab.json",
        "spiece.model",
        "sentencepiece.bpe.model",
        "source.spm",
        "target.spm",
        "image_processor_config.json",
        "processor_config.json",
        "chat_template.jinja",
        "LICENSE",
        ".gitattributes",
        PARTS,
    }
)
"""Files that other programs write into a model's folder and read."""

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
EXCUSES = ("needs the ", "update regard")
"""Parts of error messages that concern this installation and not the folder."""


def is_model(listed: Listed) -> bool:
    """Whether a folder is that of a model, or what is left of one."""
    names = {CONFIG, CARD, WEIGHTS, PARTS}
    return bool(names & {*listed.names, *listed.irregular}) or published_files(listed.folder) is not None


def check_model(listed: Listed) -> Report:
    """Check a model's folder."""
    folder = listed.folder
    card = json_object(folder / CARD)
    ours = CARD in listed.names
    digests = texts_of(card.get("files"))
    files = _files(listed, card, digests, ours=ours)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        predictor, refusal = tried(lambda: load(folder))
    excused = any(word in refusal for word in EXCUSES)
    files = _with_refusal(files, refusal, folder, ours=ours and not excused)
    task = "" if predictor is None else str(predictor.task.name)
    others = _others(listed, card)
    servers = served(folder) if "transformers" in others else {}
    return Report(
        folder=str(folder),
        kind="model",
        files=tuple(sorted(files, key=lambda file: file.path)),
        task=task,
        refusal=refusal,
        blamed=bool(refusal) and ours and not excused,
        readers={
            **({"Regard": task.replace("_", " ")} if task else {}),
            **others,
            **{name: each.opens for name, each in servers.items() if each.opens},
        },
        notes=(
            *(str(each.message) for each in warned if each.category is UserWarning),
            *(note for name, each in servers.items() for note in each.notes(name)),
        ),
    )


def _files(listed: Listed, card: Mapping[str, Any], digests: Mapping[str, str], *, ours: bool) -> list[CheckedFile]:
    published = published_files(listed.folder)
    if published is not None:
        there = [found(listed, path.name, {}) for path in published]
        return [*there, *unexpected(listed, {path.name for path in published})]
    weights = [WEIGHTS]
    if PARTS in listed.names and WEIGHTS not in listed.names:
        weights = [PARTS, *sorted({*texts_of(json_object(listed.path(PARTS)).get("weight_map")).values()})]
    needed: dict[str, None] = dict.fromkeys([CONFIG, *weights, *([CARD] if ours else []), *sorted(digests)])
    files = []
    for name in needed:
        if name not in listed.names:
            files.append(missing(listed, name, harmless=name == "README.md"))
        elif name == WEIGHTS:
            files.append(found_tensors(listed, name, texts_of(card.get("digests"))))
        else:
            files.append(found(listed, name, digests))
    known = {
        name for name in listed.names if is_model_file(name.split("/")[0]) or (not ours and name in THEIRS)
    } - needed.keys()
    if digests:  # all files that belong here are then recorded
        known = set()
    files += [found(listed, name, digests) for name in sorted(known)]
    others = unexpected(listed, {*needed, *known})
    return [*files, *map(_pickle, others)]


def _pickle(file: CheckedFile) -> CheckedFile:
    if not file.path.endswith(PICKLES):
        return file
    return CheckedFile(path=file.path, state="unexpected", remark="a pickle, which is never read")


def _with_refusal(files: list[CheckedFile], refusal: str, folder: Path, *, ours: bool) -> list[CheckedFile]:
    """The files, with the error from opening the folder assigned to the file that it names."""
    name = blamed(refusal, folder)
    if not name:
        return files
    if not (folder / name).is_file():
        if any(file.path == name for file in files):
            return files
        return [*files, CheckedFile(path=name, state="missing", remark=unplaced(refusal, folder / name))]
    if not ours:  # something that Regard does not support is no damage
        return files
    return [
        CheckedFile(path=name, state="damaged", remark=unplaced(refusal, folder / name))
        if file.path == name and file.state == "present" and file.digest == "no digest recorded"
        else file
        for file in files
    ]


def _others(listed: Listed, card: Mapping[str, Any]) -> dict[str, str]:
    """The other programs that can open the folder, according to its layout."""
    if published_files(listed.folder) is not None:
        return {"AllenNLP": "ELMo"}
    values = json_object(listed.path(CONFIG))
    layout = card.get("layout")
    why = layout.get("why") if isinstance(layout, dict) else None
    if not values or "format_version" in values or why is not None:
        return {"only Regard": str(why or "the folder has Regard's own layout")} if values else {}
    readers = readers_of(values, tokens_in(listed.folder))
    if "modules.json" in listed.names:
        readers["sentence-transformers"] = "SentenceTransformer"
    if json_object(listed.path(f"{ADAPTER}/{CARD}")).get("layout") == "peft":
        readers["peft"] = f"PeftModel, {ADAPTER}/"
    return readers


# Folders of runs: the model, its checkpoints, the recipe, the log and the data.


LOG, DATA, CHECKPOINTS, STAGING = "log.jsonl", "data", "checkpoints", ".model"
TRACKERS = ("tensorboard", "mlflow.db", "wandb")
OF_A_RUN = frozenset({RECIPE, LOG, DATA, CHECKPOINTS, POINTER, STAGING, *TRACKERS})


def is_run(listed: Listed) -> bool:
    """Whether a folder is that of a run."""
    tops = {name.split("/")[0] for name in listed.names}
    return RECIPE in tops or POINTER in tops


def check_run(listed: Listed) -> Report:
    """Check a run's folder: the model, then the files of training."""
    folder = listed.folder
    pointers, problem = tried(lambda: pointers_of(folder))
    begun = bool(pointers) or bool(problem)
    last = json_object(folder / CHECKPOINTS / str((pointers or {}).get("last")) / PROGRESS).get("progress")
    finished = bool(isinstance(last, dict) and last.get("finished"))
    files = [_recipe(listed), *_log(listed, begun=begun, finished=finished)]
    if POINTER in listed.names:
        files.append(
            CheckedFile(
                path=POINTER, state="damaged" if problem else "present", remark=unplaced(problem, folder / POINTER)
            )
        )
    elif (folder / CHECKPOINTS).is_dir() and any((folder / CHECKPOINTS).iterdir()):
        files.append(missing(listed, POINTER))
    reports: dict[str, Report] = {}
    before = tried(lambda: pointers_before(folder))[0] or {}
    named = dict.fromkeys([*(pointers or {}).values(), *before.values()])
    for name in named:
        more, report = _checkpoint(folder, name, last=name == (pointers or {})["last"])
        files += more
        if report is not None:
            reports[name] = report
    files += _unnamed(folder, set(named))
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
        if begun and finished:  # a finished run has its model here
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
    problem = tried(lambda: read_yaml(path))[1]
    return CheckedFile(path=RECIPE, state="damaged" if problem else "present", remark=unplaced(problem, path))


def _log(listed: Listed, *, begun: bool, finished: bool) -> list[CheckedFile]:
    if LOG not in listed.names:
        return [missing(listed, LOG)] if begun else []
    lines, problem = tried(lambda: read_text(listed.path(LOG), "").split("\n"))
    for number, line in enumerate(lines or [], start=1):
        if line and tried(lambda line=line: json_value(line))[1]:
            if number == len(lines or []) and not finished:
                return [
                    CheckedFile(path=LOG, remark="the last line is incomplete; it is rewritten when the run continues")
                ]
            problem = f"line {number} is no JSON"
            break
    return [CheckedFile(path=LOG, state="damaged" if problem else "present", remark=problem)]


def _checkpoint(folder: Path, name: str, *, last: bool) -> tuple[list[CheckedFile], Report | None]:
    """Check a checkpoint that is still needed: a model's folder with the state of training."""
    prefix = f"{CHECKPOINTS}/{name}"
    place = folder / CHECKPOINTS / name
    if not place.is_dir():
        return [CheckedFile(path=f"{prefix}/", state="missing", remark=f"{POINTER} names it")], None
    states = [path.name for path in files_of(place / OPTIMIZER)]
    listed = Listed(place, frozenset({OPTIMIZER, PROGRESS, *states}))
    report = check_model(listed)
    files = [*report.files]
    state = json_object(place / PROGRESS)
    progress, digests = state.get("progress"), texts_of(state.get("digests"))
    state_files = Listed(place)
    if PROGRESS not in state_files.names:
        files.append(missing(state_files, PROGRESS, "the run cannot continue from it"))
    else:
        files.append(
            found(state_files, PROGRESS, {})
            if isinstance(progress, dict)
            else CheckedFile(path=PROGRESS, state="damaged")
        )
    if states:
        files.append(found_tensors(state_files, OPTIMIZER, digests))
    else:
        ended = isinstance(progress, dict) and bool(progress.get("finished"))
        remark = "removed when the run had ended" if ended or not last else "the run cannot continue without it"
        files.append(missing(state_files, OPTIMIZER, remark, harmless=ended or not last))
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
    """Check the prepared examples: token stores, and their descriptions."""
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
        files.append(missing(listed, f"{DATA}/{READY}", "the preparation of the data was interrupted"))
    return files


# Folders without a model: word embeddings, token stores, search indexes.


STORE = "store.json"
AT_ONCE = 1 << 22
"""The number of token ids that are checked at a time."""


def is_vectors(listed: Listed) -> bool:
    """Whether a folder holds word embeddings, or what is left of them."""
    kind = json_object(listed.path(vectors_folder.DESCRIPTION)).get("kind")
    return kind == vectors_folder.KIND or {vectors_folder.MATRIX, vectors_folder.WORDS} <= {*listed.names}


def check_vectors(listed: Listed) -> Report:
    """Check a folder of word embeddings by reading it, as `read_vectors` does."""
    own = vectors_folder
    refusal = tried(lambda: own.read_folder(listed.folder, None))[1]
    state = json_object(listed.path(own.DESCRIPTION))
    needed = [own.DESCRIPTION, own.WORDS, own.MATRIX, *([own.SUBWORDS] if state.get("subwords") else [])]
    known = [*needed, *(name for name in (own.COUNTS, own.SUBWORDS) if name not in needed and name in listed.names)]
    files = _blamed([CheckedFile(path=name) for name in known if name in listed.names], refusal, listed)
    files += [missing(listed, name) for name in needed if name not in listed.names]
    if refusal and not any(file.wrong for file in files):  # errors in the numbers name no file
        files = [replace(file, state="damaged", remark=refusal) if file.path == own.MATRIX else file for file in files]
    files += unexpected(listed, {*known})
    readers = {} if refusal else {"Regard": "word embeddings"}
    return Report(
        folder=str(listed.folder),
        kind="vectors",
        files=tuple(sorted(files, key=lambda file: file.path)),
        refusal=refusal,
        blamed=bool(refusal) and "update regard" not in refusal,
        readers=readers
        | {
            "numpy": f"numpy.load, {own.MATRIX}",
            "gensim": "not in this format; convert with: regard vectors convert",
        },
    )


def is_tokens(listed: Listed) -> bool:
    """Whether a folder is a token store."""
    return STORE in listed.names or (any(name.endswith(".offsets.bin") and "/" not in name for name in listed.names))


def check_tokens(listed: Listed) -> Report:
    """Check a token store: sizes, checksums where it has them, ascending offsets, and ids within the vocabulary."""
    state = json_object(listed.path(STORE))
    named = state.get("columns")
    columns: dict[str, Any] = named if isinstance(named, dict) else {}
    named = list(columns)
    summed = [name for name in named if isinstance(columns[name], dict) and "checks" in columns[name]]
    needed = [STORE, *(f"{name}{ending}" for name in named for ending in (".bin", ".offsets.bin"))]
    needed += [f"{name}.sums.bin" for name in summed]
    store, refusal = tried(lambda: TokenStore.open(listed.folder))
    if store is not None:
        refusal = tried(store.verify)[1] or tried(lambda: _refuse_wrong_ids(store, columns, listed.folder))[1]
    recorded = not refusal and named == summed and "check" in state
    files = [
        CheckedFile(path=name, digest="as recorded" if recorded else "no digest recorded")
        for name in needed
        if name in listed.names
    ]
    files = _blamed(files, refusal, listed)
    files += [missing(listed, name) for name in needed if name not in listed.names]
    files += unexpected(listed, {*needed})
    return Report(
        folder=str(listed.folder),
        kind="tokens",
        files=tuple(sorted(files, key=lambda file: file.path)),
        refusal=refusal,
        blamed=bool(refusal),
        readers={} if refusal else {"only Regard": "token ids for training"},
    )


def _refuse_wrong_ids(store: TokenStore, columns: Any, folder: Path) -> None:
    """Check every number in a store.

    Raises:
        InputError: with the file and what is wrong in it.
    """
    for name in store.columns:
        if (store.lengths(name) < 0).any():
            raise InputError(f"{folder / name}.offsets.bin: its offsets are not ascending")
        size = columns[name].get("size")
        path = folder / f"{name}.bin"
        ids = np.memmap(path, dtype=columns[name]["dtype"], mode="r") if path.stat().st_size else np.empty(0)
        for start in range(0, len(ids), AT_ONCE):
            if isinstance(size, int) and (ids[start : start + AT_ONCE] >= size).any():
                raise InputError(f"{path}: holds ids outside of the vocabulary of {size:,} tokens")


def check_index(listed: Listed) -> Report:
    """Check texts with a search index: the index itself, and whether the texts are unchanged since."""
    path = listed.path(INDEX)
    content, refusal = tried(lambda: _read_index(path))
    files = [CheckedFile(path=INDEX, state="damaged" if refusal else "present", remark=unplaced(refusal, path))]
    for name, (size, written) in sorted((content or {}).items()):
        status, gone = tried(lambda name=name: listed.path(name).stat())
        if status is None or gone:
            files.append(missing(listed, name, "the next search leaves it out", harmless=True))
        elif (status.st_size, status.st_mtime_ns) != (size, written):
            files.append(CheckedFile(path=name, remark="changed since; the next search indexes it again"))
        else:
            files.append(CheckedFile(path=name, remark="unchanged, by size and date"))
    return Report(
        folder=str(listed.folder),
        kind="index",
        files=tuple(files),
        refusal=refusal,
        blamed=bool(refusal),
        readers={} if refusal else {"only Regard": "regard search"},
    )


def _read_index(path: Path) -> dict[str, tuple[int, int]]:
    """The size and date of every file in an index.

    Raises:
        InputError: for another format, a wrong number of vectors, and vectors that are not finite; other damage raises the
            library's errors.
    """
    with safe_open(path, framework="np") as file:
        header = file.metadata() or {}
        if header.get("regard_index") != FORMAT_VERSION:
            raise InputError(f"is of the format {header.get('regard_index')!r}, and the next search rebuilds it")
        vectors = file.get_tensor("vectors")
    files = parse_json(header["files"], "its list of files", "remove it")
    passages = sum(len(entry["passages"]) for entry in files.values())
    if vectors.ndim != 2 or len(vectors) != passages:
        raise InputError(f"has {len(vectors):,} vectors for {passages:,} passages")
    if not np.isfinite(vectors).all():
        raise InputError("holds numbers that are not finite")
    return {name: (int(entry["size"]), int(entry["written"])) for name, entry in files.items()}


def _blamed(files: list[CheckedFile], refusal: str, listed: Listed) -> list[CheckedFile]:
    """The files, with the error from reading the folder assigned to the file that it names."""
    if "update regard" in refusal:
        return files
    return [
        CheckedFile(path=file.path, state="damaged", remark=unplaced(refusal, listed.path(file.path)))
        if refusal.startswith(f"{listed.path(file.path)}:")
        else file
        for file in files
    ]
