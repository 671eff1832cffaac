"""What was found in a folder, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

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
        """The same file, told of from a folder above."""
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
