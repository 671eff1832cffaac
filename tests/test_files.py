"""Writes that are whole or absent."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import SafetensorError

from regard import files as regard_files
from regard.errors import InputError
from regard.files import (
    PARTIAL_PREFIX,
    clear_partial,
    new_file,
    new_folder,
    replace_file,
    scratch_folder,
    write_file,
    writing_errors,
)


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def old(tmp_path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights").write_text("old")
    return folder


def fill(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "weights").write_text("new")
    (folder / "inner" / "tokens").write_text("new too")


NEW = {"weights": "new", "inner/tokens": "new too"}


def test_a_new_folder_appears_at_the_end(tmp_path):
    with new_folder(tmp_path / "deep" / "model") as partial:
        fill(partial)
        assert not (tmp_path / "deep" / "model").exists()
    assert files(tmp_path) == {f"deep/model/{name}": text for name, text in NEW.items()}


def test_a_new_folder_takes_the_place_of_an_old_one(old, tmp_path):
    with new_folder(old) as partial:
        fill(partial)
        assert files(old) == {"weights": "old"}
    assert files(old) == NEW
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("error", [RuntimeError("bug"), KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left")])
def test_an_exception_midway_leaves_the_old_folder(error, old, tmp_path):
    raised = InputError if isinstance(error, OSError) else type(error)

    def save() -> None:
        with new_folder(old) as partial:
            fill(partial)
            raise error

    with pytest.raises(raised):
        save()
    assert files(tmp_path) == {"model/weights": "old"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("way", ["exchange", "rename"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EIO, "Input/output error")])
def test_an_exception_while_taking_the_place_leaves_the_old_folder(error, way, old, tmp_path, monkeypatch):
    real, real_sync = Path.rename, regard_files.sync

    def rename(self: Path, target: Path) -> Path:
        if self.name.startswith(PARTIAL_PREFIX):
            raise error
        return real(self, target)

    def sync(path: Path) -> None:
        if path == tmp_path:
            raise error
        real_sync(path)

    if way == "exchange":
        monkeypatch.setattr(regard_files, "sync", sync)
    else:
        monkeypatch.setattr(regard_files, "_exchanged", lambda one, other: False)
        monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(BaseException), new_folder(old) as partial:  # noqa: B017, PT011
        fill(partial)
    assert files(tmp_path) == {"model/weights": "old"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_everything_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    order: list[str] = []
    real_sync, real_rename = regard_files.sync, Path.rename

    def sync(path: Path) -> None:
        order.append(f"sync {path.name if not path.name.startswith(PARTIAL_PREFIX) else 'folder'}")
        real_sync(path)

    def rename(self: Path, target: Path) -> Path:
        order.append("rename")
        return real_rename(self, target)

    monkeypatch.setattr(regard_files, "sync", sync)
    monkeypatch.setattr(Path, "rename", rename)
    with new_folder(tmp_path / "model") as partial:
        fill(partial)
    assert sorted(order[:3]) == ["sync inner", "sync tokens", "sync weights"]
    assert order[3:] == ["sync folder", "rename", f"sync {tmp_path.name}"]


CHANGING_PLACES = """
import os, sys
from pathlib import Path
from regard import files
target = Path(sys.argv[1])
if sys.argv[2] == "rename":
    files._exchanged = lambda one, other: False
real, calls = Path.rename, []
def rename(self, to):
    found = real(self, to)
    calls.append(1)
    if len(calls) == 1 and sys.argv[2] == "rename":
        os._exit(9)
    return found
Path.rename = rename
sync = files.sync
def synced(path):
    if path == target.parent and sys.argv[2] == "exchange":
        os._exit(9)
    sync(path)
files.sync = synced
with files.new_folder(target) as partial:
    (partial / "weights").write_text("new")
"""


@pytest.mark.parametrize("way", ["exchange", "rename"])
def test_a_kill_while_changing_places_leaves_one_of_both_and_the_next_call_clears_up(way, old, tmp_path):
    """Without the exchange the name is missing for a moment, and what had it comes back."""
    command = [sys.executable, "-c", CHANGING_PLACES, str(old), way]
    assert subprocess.run(command, check=False).returncode == 9
    assert old.exists() == (way == "exchange")
    if way == "exchange":
        assert files(old) == {"weights": "new"}
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(RuntimeError), new_folder(old):
        raise RuntimeError
    assert files(old) == {"weights": "new" if way == "exchange" else "old"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_another_process_still_writes_is_left_to_it(old, tmp_path):
    with new_folder(old) as first:
        fill(first)
        with new_folder(old) as second:
            (second / "weights").write_text("second")
        assert files(old) == {"weights": "second"}
    assert files(old) == NEW
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_folder_never_takes_the_place_of_a_file_nor_of_a_link(old, tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("mine")
    with (
        pytest.raises(InputError, match=r"notes.txt: is a file, and a folder would take its place"),
        new_folder(tmp_path / "notes.txt"),
    ):
        pass
    (tmp_path / "latest").symlink_to(old)
    with new_folder(tmp_path / "latest") as partial:
        fill(partial)
    assert (tmp_path / "latest").is_symlink()
    assert files(old) == NEW
    assert (tmp_path / "notes.txt").read_text() == "mine"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"^notes.txt: is a file"), new_folder("notes.txt"):
        pass
    monkeypatch.chdir(old)
    for here in (".", "..", ""):
        with pytest.raises(InputError, match="give the folder a name"), new_folder(here):
            pass
    assert files(old) == NEW
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "model", "notes.txt"]


def test_scratch_of_a_dead_process_is_removed_by_the_next_and_nothing_else(tmp_path):
    code = "import os, sys\nfrom regard.files import scratch_folder\nwith scratch_folder(sys.argv[1], 'work-'): os._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    (left,) = tmp_path.iterdir()
    (tmp_path / "work-notes").write_text("mine")
    with scratch_folder(tmp_path, "work-") as one, scratch_folder(tmp_path, "work-") as two:
        assert {path for path in tmp_path.iterdir() if path.is_dir()} == {one, two}
        assert left not in (one, two)
    assert [path.name for path in tmp_path.iterdir()] == ["work-notes"]


@pytest.mark.parametrize("content", ["text", b"\x00bytes"])
def test_a_file_is_replaced_whole(content, tmp_path):
    path = tmp_path / "deep" / "pointer"
    replace_file(path, "a much longer text than the new one")
    replace_file(path, content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert [p.name for p in path.parent.iterdir()] == ["pointer"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left")])
def test_a_file_is_kept_where_replacing_fails(error, tmp_path, monkeypatch):
    path = tmp_path / "pointer"
    path.write_text("old")

    def fail(descriptor: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError if isinstance(error, OSError) else KeyboardInterrupt):
        replace_file(path, "new")
    assert files(tmp_path) == {"pointer": "old"}


def test_a_new_file_appears_at_the_end(tmp_path):
    path = tmp_path / "lines"
    path.write_text("old")
    with new_file(path) as file:
        file.write(b"new ")
        assert files(tmp_path)["lines"] == "old"
        file.write(b"lines")
    assert files(tmp_path) == {"lines": "new lines"}


@pytest.mark.parametrize("error", [RuntimeError("bug"), KeyboardInterrupt(), OSError(errno.EIO, "of another file")])
def test_what_goes_wrong_inside_a_new_file_is_not_its_own(error, tmp_path):
    path = tmp_path / "lines"
    path.write_text("old")
    with pytest.raises(type(error)) as caught, new_file(path) as file:  # noqa: PT012
        file.write(b"new")
        raise error
    assert caught.value is error
    assert files(tmp_path) == {"lines": "old"}


def test_paths_that_cannot_be_written_are_named(tmp_path):
    """A folder is made by `replace_file` only."""
    for path in [tmp_path / "none" / "a.txt", tmp_path, tmp_path / ("x" * 300), tmp_path / "a\0b", ""]:
        with pytest.raises(InputError, match="cannot be written"):
            write_file(path, b"")
    assert os.listdir(tmp_path) == []


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        replace_file(tmp_path / "pointer", "text")
        with new_folder(tmp_path / "model") as partial:
            (partial / "weights").write_text("new")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"pointer": 0o640, "model": 0o750, "weights": 0o640}


def test_what_was_half_written_is_cleared_and_nothing_else(old, tmp_path):
    (tmp_path / f"{PARTIAL_PREFIX}folder").mkdir()
    (tmp_path / f"{PARTIAL_PREFIX}folder" / "weights").write_text("half")
    (tmp_path / f"{PARTIAL_PREFIX}file").write_text("half")
    clear_partial(tmp_path)
    assert files(tmp_path) == {"model/weights": "old"}
    clear_partial(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full"),
        (OSError(errno.EFBIG, "File too large"), "the disk is full"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "the disk is full"),
        (
            SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
            "the disk is full",
        ),
        (
            SafetensorError('Error while serializing: IoError(Os { code: 27, message: "File too large" })'),
            "the disk is full",
        ),
        (SafetensorError("I/O error: Input/output error (os error 5)"), "cannot be written"),
        (OSError(errno.EACCES, "Permission denied"), "not allowed to write there"),
        (OSError(errno.EROFS, "Read-only file system"), "not allowed to write there"),
        (OSError(errno.EIO, "Input/output error"), "cannot be written"),
    ],
)
def test_a_failure_of_the_file_system_is_one_sentence(error, words, tmp_path):
    with pytest.raises(InputError) as caught, writing_errors(tmp_path / "model"):
        raise error
    assert str(caught.value).startswith(f"{tmp_path / 'model'}: {words}")
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is error


def test_other_errors_are_left_as_they_are(tmp_path):
    with pytest.raises(ZeroDivisionError), writing_errors(tmp_path):
        raise ZeroDivisionError
    with pytest.raises(InputError, match=r"^mine$"), writing_errors(tmp_path):
        raise InputError("mine")


def test_a_place_below_a_file_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"), new_folder(tmp_path / "file" / "model"):
        pass
    with pytest.raises(InputError, match="cannot be written"):
        replace_file(tmp_path / "file" / "pointer", "x")
