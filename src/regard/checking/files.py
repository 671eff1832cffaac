"""The files of a folder, the check of each, and the report."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from regard.checkpoints.tensors import file_digest, read_outline, read_tensors
from regard.errors import InputError
from regard.files import PARTIAL_PREFIX
from regard.reading import read_json

INDEX = ".regard-index.safetensors"
LEFT = "left by a process that was killed"

T = TypeVar("T")


class Listed:
    """The regular files of a folder and its subfolders, by relative path; links to folders are not followed.

    Arguments:
        folder: to be listed.
        without: names at its top level that are left out.
    """

    def __init__(self, folder: Path, without: frozenset[str] = frozenset()) -> None:
        self.folder = folder
        self.names: list[str] = []
        self.irregular: list[str] = []
        """Entries that are no regular files: pipes, devices, broken links, links to folders."""
        for root, folders, files in os.walk(folder):
            here = Path(root)
            if here == folder:
                folders[:] = [name for name in folders if name not in without]
                files = [name for name in files if name not in without]
            folders.sort()
            for name in sorted(files):
                path = here / name
                (self.names if path.is_file() else self.irregular).append(path.relative_to(folder).as_posix())
            linked = [name for name in folders if (here / name).is_symlink()]
            self.irregular += [(here / name).relative_to(folder).as_posix() for name in linked]

    def path(self, name: str) -> Path:
        """The path of a file."""
        return self.folder / name

    def sub(self, name: str) -> Listed:
        """The listing of a subfolder."""
        return Listed(self.folder / name)


def tried(action: Callable[[], T]) -> tuple[T | None, str]:
    """The result of an action, or None and its error as a sentence, whatever a library raises for a damaged file."""
    try:
        return action(), ""
    except InputError as error:
        return None, str(error)
    except Exception as error:
        return None, f"cannot be read ({type(error).__name__}: {' '.join(str(error).split())[:200]})"


def found(listed: Listed, name: str, digests: Mapping[str, str]) -> CheckedFile:
    """Check a file against its recorded digest; without one, check whether it can be read."""
    path = listed.path(name)
    wanted = digests.get(name)
    if wanted is not None:
        digest, problem = tried(lambda: file_digest(path))
        if problem:
            return CheckedFile(path=name, state="damaged", remark=problem)
        if digest == wanted:
            return CheckedFile(path=name, digest="as recorded")
        if name == "README.md":  # users may edit it
            return CheckedFile(path=name, digest="another than recorded", harmless=True)
        return CheckedFile(path=name, state="damaged", digest="another than recorded")
    problem = ""
    if path.suffix == ".json":
        problem = tried(lambda: read_json(path, "copy it again"))[1]
    elif path.suffix == ".safetensors":
        problem = tried(lambda: read_outline(path, largest=0))[1]
    return CheckedFile(path=name, state="damaged" if problem else "present", remark=unplaced(problem, path))


def found_tensors(listed: Listed, name: str, digests: Mapping[str, str]) -> CheckedFile:
    """Check a file of tensors against the recorded digest of each tensor."""
    path = listed.path(name)
    tensors, problem = tried(lambda: read_tensors(path, digests))
    if tensors is None:
        other = "checksum differs" in problem
        return CheckedFile(
            path=name,
            state="damaged",
            digest="another than recorded" if other else "no digest recorded",
            remark=unplaced(problem, path),
        )
    lost, new = sorted(digests.keys() - tensors.keys()), sorted(tensors.keys() - digests.keys())
    if digests and (lost or new):
        problem = f"{'lacks' if lost else 'has besides'} {', '.join((lost or new)[:3])}"
        return CheckedFile(path=name, state="damaged", digest="another than recorded", remark=problem)
    return CheckedFile(path=name, digest="as recorded" if digests else "no digest recorded")


def missing(listed: Listed, name: str, remark: str = "", *, harmless: bool = False) -> CheckedFile:
    """The entry of a file that is missing."""
    irregular = _irregular(listed.path(name)) if name in listed.irregular else ""
    return CheckedFile(path=name, state="missing", remark=irregular or remark, harmless=harmless)


def unexpected(listed: Listed, known: set[str]) -> list[CheckedFile]:
    """The entries of files that no program reads."""
    files = [
        CheckedFile(path=name, state="unexpected", remark=LEFT if name.startswith(PARTIAL_PREFIX) else "")
        for name in listed.names
        if name not in known
    ]
    files += [
        CheckedFile(path=name, state="unexpected", remark=_irregular(listed.path(name)))
        for name in listed.irregular
        if name not in known
    ]
    return files


def json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; an empty one where it cannot be read or is something else."""
    values, _ = tried(lambda: read_json(path, ""))
    return values if isinstance(values, dict) else {}


def texts_of(value: Any) -> dict[str, str]:
    """The items of a mapping whose key and value are texts; empty for anything else."""
    if not isinstance(value, dict):
        return {}
    return {key: each for key, each in value.items() if isinstance(key, str) and isinstance(each, str)}


def unplaced(sentence: str, path: Path) -> str:
    """A sentence without the file's name in front, which the report shows already."""
    return sentence.removeprefix(f"{path}: ")


def blamed(sentence: str, folder: Path) -> str:
    """The file of a folder that a sentence begins with; empty where there is none."""
    begun = re.match(re.escape(f"{folder}{os.sep}") + r"([^:]+):", sentence)
    return "" if begun is None else begun.group(1)


def _irregular(path: Path) -> str:
    if path.is_symlink():
        return "a link to a folder" if path.is_dir() else "a link to nothing"
    kind, _ = tried(lambda: path.lstat().st_mode)
    return "a pipe, not a regular file" if kind is not None and stat.S_ISFIFO(kind) else "not a regular file"


State = Literal["present", "missing", "damaged", "unexpected"]
Digest = Literal["as recorded", "another than recorded", "no digest recorded"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedFile:
    """A file that is in a folder, or is missing from it.

    Arguments:
        path: relative to the folder.
        state: `unexpected` files are read by no program, and harmless.
        digest: of the content, compared with the recorded one.
        remark: further information, as half a sentence or a sentence.
        harmless: whether a missing or changed file does not matter to any program.
    """

    path: str
    state: State = "present"
    digest: Digest = "no digest recorded"
    remark: str = ""
    harmless: bool = False

    @property
    def wrong(self) -> bool:
        """Whether the folder is incomplete or damaged because of this file."""
        return self.state in ("missing", "damaged") and not self.harmless

    def under(self, prefix: str) -> CheckedFile:
        """The same file, relative to a folder above."""
        return replace(self, path=f"{prefix}/{self.path}")

    def to_mapping(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "path": self.path,
            "state": self.state,
            "digest": self.digest,
            "remark": self.remark,
            "harmless": self.harmless,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What a folder holds, whether it is complete and undamaged, and which programs can open it.

    Arguments:
        folder: as given.
        kind: `model`, `run`, `vectors`, `index` or `tokens`.
        files: all that are there or missing.
        task: for which Regard opens it; empty where it cannot, or there is none.
        refusal: Regard's error when it opens the folder; empty where it opens.
        blamed: whether that error means that the folder is damaged.
        readers: the programs that open it, Regard and other libraries by name, and with which class or command.
        notes: further information, in sentences.
    """

    folder: str
    kind: str
    files: tuple[CheckedFile, ...]
    task: str = ""
    refusal: str = ""
    blamed: bool = False
    readers: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether every file is there and undamaged."""
        return not self.blamed and not any(file.wrong for file in self.files)

    def to_mapping(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "folder": self.folder,
            "kind": self.kind,
            "whole": self.whole,
            "files": [file.to_mapping() for file in self.files],
            "task": self.task or None,
            "refusal": self.refusal or None,
            "readers": dict(self.readers),
            "notes": list(self.notes),
        }

    def rows(self) -> list[tuple[str, str]]:
        """The rows of the report's table."""
        rows = [("folder", f"{self.folder} ({KINDS[self.kind]})")]
        for file in self.files:
            parts = [file.state, *([file.digest] if file.state in ("present", "damaged") else []), file.remark]
            rows.append((file.path, ", ".join(part for part in parts if part)))
        rows += [(f"opens in {name}" if opens else name, opens) for name, opens in self.readers.items()]
        rows += [("refused", self.refusal)] if self.refusal else []
        rows += [("note", note) for note in self.notes]
        wrong = [file.path for file in self.files if file.wrong]
        rows.append(("whole", "yes" if self.whole else f"no: {', '.join(wrong) or 'it does not open'}"))
        return rows


KINDS = {
    "model": "a model",
    "run": "a run",
    "vectors": "word embeddings",
    "index": "texts with an index for search",
    "tokens": "a token store",
}
"""The name of each kind of folder in reports."""
