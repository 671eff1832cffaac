"""Folders that hold no model: vectors of words, token stores, indexes for search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from regard.checking.files import INDEX, Listed, json_object, missing, tried, unexpected, unplaced
from regard.checking.report import CheckedFile, Report
from regard.data.token_store import TokenStore
from regard.embeddings.search import FORMAT_VERSION
from regard.errors import InputError
from regard.reading import parse_json
from regard.vectors.formats import folder as vectors_folder

STORE = "store.json"
AT_ONCE = 1 << 22
"""Token ids that are looked at together."""


def is_vectors(listed: Listed) -> bool:
    """Whether a folder holds vectors of words, or what is left of them."""
    kind = json_object(listed.path(vectors_folder.DESCRIPTION)).get("kind")
    return kind == vectors_folder.KIND or {vectors_folder.MATRIX, vectors_folder.WORDS} <= {*listed.names}


def check_vectors(listed: Listed) -> Report:
    """Check a folder of word vectors, by reading it as `read_vectors` does."""
    own = vectors_folder
    refusal = tried(lambda: own.read_folder(listed.folder, None))[1]
    state = json_object(listed.path(own.DESCRIPTION))
    needed = [own.DESCRIPTION, own.WORDS, own.MATRIX, *([own.SUBWORDS] if state.get("subwords") else [])]
    known = [*needed, *(name for name in (own.COUNTS, own.SUBWORDS) if name not in needed and name in listed.names)]
    files = _blamed([CheckedFile(path=name) for name in known if name in listed.names], refusal, listed)
    files += [missing(listed, name) for name in needed if name not in listed.names]
    if refusal and not any(file.wrong for file in files):  # what is wrong with the numbers names no file
        files = [replace(file, state="damaged", remark=refusal) if file.path == own.MATRIX else file for file in files]
    files += unexpected(listed, {*known})
    readers = {} if refusal else {"Regard": "vectors of words"}
    return Report(
        folder=str(listed.folder),
        kind="vectors",
        files=tuple(sorted(files, key=lambda file: file.path)),
        refusal=refusal,
        blamed=bool(refusal) and "update regard" not in refusal,
        readers=readers
        | {
            "numpy": f"numpy.load, {own.MATRIX}",
            "gensim": "not as it is; regard vectors convert writes what gensim opens",
        },
    )


def is_tokens(listed: Listed) -> bool:
    """Whether a folder is a token store."""
    return STORE in listed.names or (any(name.endswith(".offsets.bin") and "/" not in name for name in listed.names))


def check_tokens(listed: Listed) -> Report:
    """Check a token store: sizes, checksums where it has them, offsets that do not fall, ids in their vocabulary."""
    state = json_object(listed.path(STORE))
    told = state.get("columns")
    columns: dict[str, Any] = told if isinstance(told, dict) else {}
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
    """Look at every number of a store.

    Raises:
        InputError: naming the file and what is wrong in it.
    """
    for name in store.columns:
        if (store.lengths(name) < 0).any():
            raise InputError(f"{folder / name}.offsets.bin: its numbers fall")
        size = columns[name].get("size")
        path = folder / f"{name}.bin"
        ids = np.memmap(path, dtype=columns[name]["dtype"], mode="r") if path.stat().st_size else np.empty(0)
        for start in range(0, len(ids), AT_ONCE):
            if isinstance(size, int) and (ids[start : start + AT_ONCE] >= size).any():
                raise InputError(f"{path}: holds ids that the vocabulary of {size:,} has not")


def check_index(listed: Listed) -> Report:
    """Check texts with an index: the index itself, and whether the texts are those it was made of."""
    path = listed.path(INDEX)
    content, refusal = tried(lambda: _read_index(path))
    files = [CheckedFile(path=INDEX, state="damaged" if refusal else "present", remark=unplaced(refusal, path))]
    for name, (size, written) in sorted((content or {}).items()):
        status, gone = tried(lambda name=name: listed.path(name).stat())
        if status is None or gone:
            files.append(missing(listed, name, "the next search leaves it out", harmless=True))
        elif (status.st_size, status.st_mtime_ns) != (size, written):
            files.append(CheckedFile(path=name, remark="changed since; the next search reads it anew"))
        else:
            files.append(CheckedFile(path=name, remark="as it was read, by size and date"))
    return Report(
        folder=str(listed.folder),
        kind="index",
        files=tuple(files),
        refusal=refusal,
        blamed=bool(refusal),
        readers={} if refusal else {"only Regard": "regard search"},
    )


def _read_index(path: Path) -> dict[str, tuple[int, int]]:
    """Size and date of every file in an index.

    Raises:
        InputError: for another format, or vectors that are not those of the passages; for other damage whatever a library raises.
    """
    with safe_open(path, framework="np") as file:
        said = file.metadata() or {}
        if said.get("regard_index") != FORMAT_VERSION:
            raise InputError(f"is of the format {said.get('regard_index')!r}, and is made anew by the next search")
        vectors = file.get_tensor("vectors")
    files = parse_json(said["files"], "its list of files", "remove it")
    passages = sum(len(entry["passages"]) for entry in files.values())
    if vectors.ndim != 2 or len(vectors) != passages:
        raise InputError(f"has {len(vectors):,} vectors for {passages:,} passages")
    if not np.isfinite(vectors).all():
        raise InputError("holds numbers that are not finite")
    return {name: (int(entry["size"]), int(entry["written"])) for name, entry in files.items()}


def _blamed(files: list[CheckedFile], refusal: str, listed: Listed) -> list[CheckedFile]:
    """The files, with what reading the folder found out about one of them."""
    if "update regard" in refusal:
        return files
    return [
        CheckedFile(path=file.path, state="damaged", remark=unplaced(refusal, listed.path(file.path)))
        if refusal.startswith(f"{listed.path(file.path)}:")
        else file
        for file in files
    ]
