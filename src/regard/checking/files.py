"""The files of a folder, what is found of each by itself, and the report of what was found."""

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
    """The plain files of a folder, by their place in it; links to folders are not followed.

    Arguments:
        folder: to be listed.
        without: names at its top that are looked at otherwise.
    """

    def __init__(self, folder: Path, without: frozenset[str] = frozenset()) -> None:
        self.folder = folder
        self.names: list[str] = []
        self.irregular: list[str] = []
        """What is no plain file: pipes, devices, links to nothing."""
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
        """Where a file is."""
        return self.folder / name

    def sub(self, name: str) -> Listed:
        """A folder in this one."""
        return Listed(self.folder / name)


def tried(action: Callable[[], T]) -> tuple[T | None, str]:
    """What an action gives, or the sentence that it failed with: whatever a damaged file makes a library raise."""
    try:
        return action(), ""
    except InputError as error:
        return None, str(error)
    except Exception as error:
        return None, f"cannot be read ({type(error).__name__}: {' '.join(str(error).split())[:200]})"


def found(listed: Listed, name: str, digests: Mapping[str, str]) -> CheckedFile:
    """A file that is there, against the digest recorded of it; without one, whether it can be read at all."""
    path = listed.path(name)
    wanted = digests.get(name)
    if wanted is not None:
        digest, said = tried(lambda: file_digest(path))
        if said:
            return CheckedFile(path=name, state="damaged", remark=said)
        if digest == wanted:
            return CheckedFile(path=name, digest="as recorded")
        if name == "README.md":  # whose text is the user's too
            return CheckedFile(path=name, digest="another than recorded", harmless=True)
        return CheckedFile(path=name, state="damaged", digest="another than recorded")
    said = ""
    if path.suffix == ".json":
        said = tried(lambda: read_json(path, "copy it again"))[1]
    elif path.suffix == ".safetensors":
        said = tried(lambda: read_outline(path, largest=0))[1]
    return CheckedFile(path=name, state="damaged" if said else "present", remark=unplaced(said, path))


def found_tensors(listed: Listed, name: str, digests: Mapping[str, str]) -> CheckedFile:
    """A file of tensors, against the digest recorded of each."""
    path = listed.path(name)
    tensors, said = tried(lambda: read_tensors(path, digests))
    if tensors is None:
        other = "checksum differs" in said
        return CheckedFile(
            path=name,
            state="damaged",
            digest="another than recorded" if other else "no digest recorded",
            remark=unplaced(said, path),
        )
    lost, new = sorted(digests.keys() - tensors.keys()), sorted(tensors.keys() - digests.keys())
    if digests and (lost or new):
        said = f"{'lacks' if lost else 'has besides'} {', '.join((lost or new)[:3])}"
        return CheckedFile(path=name, state="damaged", digest="another than recorded", remark=said)
    return CheckedFile(path=name, digest="as recorded" if digests else "no digest recorded")


def missing(listed: Listed, name: str, remark: str = "", *, harmless: bool = False) -> CheckedFile:
    """A file that ought to be there."""
    irregular = _irregular(listed.path(name)) if name in listed.irregular else ""
    return CheckedFile(path=name, state="missing", remark=irregular or remark, harmless=harmless)


def unexpected(listed: Listed, known: set[str]) -> list[CheckedFile]:
    """What is there and nobody reads."""
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
    """Of a mapping what goes from text to text; nothing of anything else."""
    if not isinstance(value, dict):
        return {}
    return {key: each for key, each in value.items() if isinstance(key, str) and isinstance(each, str)}


def unplaced(sentence: str, path: Path) -> str:
    """A sentence without the file's name at its front, which is next to it already."""
    return sentence.removeprefix(f"{path}: ")


def blamed(sentence: str, folder: Path) -> str:
    """The file of a folder that a sentence begins with; empty where it names none."""
    begun = re.match(re.escape(f"{folder}{os.sep}") + r"([^:]+):", sentence)
    return "" if begun is None else begun.group(1)


def _irregular(path: Path) -> str:
    if path.is_symlink():
        return "a link to a folder" if path.is_dir() else "a link to nothing"
    kind, _ = tried(lambda: path.lstat().st_mode)
    return "a pipe, and no plain file" if kind is not None and stat.S_ISFIFO(kind) else "no plain file"


State = Literal["present", "missing", "damaged", "unexpected"]
Digest = Literal["as recorded", "another than recorded", "no digest recorded"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedFile:
    """A file that is in a folder, or ought to be.

    Arguments:
        path: its place in the folder.
        state: `unexpected` is what nobody reads; it does no harm.
        digest: of its content, against what the folder says of it.
        remark: what else is to be said, as half a sentence or a sentence.
        harmless: whether nothing that opens the folder needs it to be otherwise.
    """

    path: str
    state: State = "present"
    digest: Digest = "no digest recorded"
    remark: str = ""
    harmless: bool = False

    @property
    def wrong(self) -> bool:
        """Whether the folder is not whole because of it."""
        return self.state in ("missing", "damaged") and not self.harmless

    def under(self, prefix: str) -> CheckedFile:
        """The same file, as named from a folder above."""
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
    """What a folder holds, whether it is whole, and who opens it.

    Arguments:
        folder: as it was asked for.
        kind: `model`, `run`, `vectors`, `index` or `tokens`.
        files: all that are there, or ought to be.
        task: what Regard opens it for; empty where it does not, or there is no such thing.
        refusal: what Regard says instead of opening it; empty where it opens.
        blamed: whether that refusal means that the folder is not whole.
        readers: what opens it: Regard, other libraries by their names, and by which class or command.
        notes: what else is to be known, in sentences.
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
        """Whether every file is there and is what it ought to be."""
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
        """Names and what they are, in the order that people read them."""
        rows = [("folder", f"{self.folder} ({KINDS[self.kind]})")]
        for file in self.files:
            said = [file.state, *([file.digest] if file.state in ("present", "damaged") else []), file.remark]
            rows.append((file.path, ", ".join(part for part in said if part)))
        rows += [(f"opens in {name}" if opens else name, opens) for name, opens in self.readers.items()]
        rows += [("refused", self.refusal)] if self.refusal else []
        rows += [("note", note) for note in self.notes]
        wrong = [file.path for file in self.files if file.wrong]
        rows.append(("whole", "yes" if self.whole else f"no: {', '.join(wrong) or 'it does not open'}"))
        return rows


KINDS = {
    "model": "a model",
    "run": "a run",
    "vectors": "vectors of words",
    "index": "texts with an index for search",
    "tokens": "a token store",
}
"""What people call each kind of folder."""
