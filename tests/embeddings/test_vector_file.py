"""A file of vectors: what it holds, that a stop loses and repeats nothing, and full disks."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

from regard.embeddings.vector_file import FORMATS, VectorFile
from regard.errors import InputError

ORIGIN = {"model": "m", "input": {"path": "a.txt", "bytes": 3}}
WIDTH = 3


def rows(first: int, last: int) -> tuple[list[str], np.ndarray]:
    """Texts and vectors that depend on the row alone."""
    vectors = np.array([[row, row / 3, -row] for row in range(first, last)], dtype=np.float32).reshape(-1, WIDTH)
    return [f'text {row} "é"' for row in range(first, last)], vectors


def whole(path: Path, *cuts: int) -> bytes:
    with VectorFile(path, width=WIDTH, origin=ORIGIN) as file:
        for start, end in zip((0, *cuts), cuts, strict=False):
            file.append(*rows(start, end))
    return path.read_bytes()


def begun(path: Path, *ends: int, origin: dict | None = ORIGIN, error: type[BaseException] = KeyboardInterrupt) -> None:
    """Write rows up to each end, then stop."""
    with VectorFile(path, width=WIDTH, origin=origin) as file:
        for end in ends:
            if file.rows < end:
                file.append(*rows(file.rows, end))
        raise error


@pytest.fixture(params=list(FORMATS))
def ending(request) -> str:
    if request.param == ".parquet":
        pytest.importorskip("pyarrow")
    return request.param


def read(path: Path) -> tuple[list[str], np.ndarray]:
    if path.suffix == ".npy":
        return [], np.load(path, allow_pickle=False)
    if path.suffix == ".jsonl":
        found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [each["text"] for each in found], np.array([each["vector"] for each in found], dtype=np.float32)
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    return table["text"].to_pylist(), np.array(table["vector"].to_pylist(), dtype=np.float32)


def test_what_is_read_is_what_was_written(tmp_path, ending):
    path = tmp_path / f"v{ending}"
    whole(path, 4, 9)
    texts, vectors = read(path)
    assert np.array_equal(vectors, rows(0, 9)[1])
    assert texts == ([] if ending == ".npy" else rows(0, 9)[0])
    assert os.listdir(tmp_path) == [path.name]


def test_a_run_that_was_stopped_anywhere_ends_with_the_same_file(tmp_path, ending):
    wanted = whole(tmp_path / f"whole{ending}", 3, 6, 8)
    path = tmp_path / f"parts{ending}"
    for stop in (0, 3, 6, 8):
        with pytest.raises(KeyboardInterrupt):
            begun(path, stop)
        assert not path.exists()
        with (tmp_path / f"{path.name}.partial").open("ab") as torn:
            torn.write(b"half a row")  # what a kill in the middle of writing leaves
    with VectorFile(path, width=WIDTH, origin=ORIGIN) as file:
        assert file.rows == 8
    assert path.read_bytes() == wanted
    assert sorted(os.listdir(tmp_path)) == sorted([path.name, f"whole{ending}"])


def test_a_run_that_cannot_be_gone_on_with_leaves_nothing(tmp_path, ending):
    path = tmp_path / f"v{ending}"
    with pytest.raises(KeyboardInterrupt):
        begun(path, 2, origin=None)
    assert os.listdir(tmp_path) == []


def test_nothing_is_a_file_of_no_rows(tmp_path, ending):
    path = tmp_path / f"v{ending}"
    with VectorFile(path, width=WIDTH, origin=None):
        pass
    assert len(read(path)[1]) == 0
    if ending == ".npy":
        assert np.load(path).shape == (0, WIDTH)


def test_what_another_run_began_is_not_gone_on_with(tmp_path):
    path = tmp_path / "v.npy"
    with pytest.raises(KeyboardInterrupt):
        begun(path, 2)
    other = ORIGIN | {"model": "n"}
    with (
        pytest.raises(InputError, match="begun with another model; remove it"),
        VectorFile(path, width=WIDTH, origin=other),
    ):
        pass
    notes = tmp_path / "v.npy.partial.json"
    said = notes.read_text()
    notes.write_text(said.replace('"bytes": 152', '"bytes": 9152'))
    with pytest.raises(InputError, match="was truncated"), VectorFile(path, width=WIDTH, origin=ORIGIN):
        pass
    notes.write_text("{")
    with pytest.raises(InputError, match="damaged"), VectorFile(path, width=WIDTH, origin=ORIGIN):
        pass
    assert (tmp_path / "v.npy.partial").stat().st_size == 152, "nothing is lost"


def test_an_earlier_file_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "v.npy"
    before = whole(path, 5)
    with pytest.raises(ZeroDivisionError):
        begun(path, 2, origin=None, error=ZeroDivisionError)
    assert path.read_bytes() == before


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "v.npy"
    real = os.fsync
    left = [4]

    def full(descriptor: int) -> None:
        left[0] -= 1
        if left[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="the disk is full; what was saved before is intact"):
        begun(path, *range(1, 21))
    monkeypatch.undo()
    with VectorFile(path, width=WIDTH, origin=ORIGIN) as file:
        file.append(*rows(file.rows, 20))
    assert np.array_equal(np.load(path), rows(0, 20)[1])


@pytest.mark.parametrize(
    ("name", "message"), [("v.txt", "cannot be written to a file"), ("v", "choose from"), ("v.npz", "'.npy'")]
)
def test_other_endings_are_refused(tmp_path, name, message):
    with pytest.raises(InputError, match=message):
        VectorFile(tmp_path / name, width=WIDTH, origin=None)


def test_places_that_cannot_be_written_to_are_refused(tmp_path):
    (tmp_path / "v.npy").mkdir()
    for path, message in ((tmp_path / "v.npy", "is a folder"), (tmp_path / "no" / "v.npy", "cannot be written")):
        with pytest.raises(InputError, match=message), VectorFile(path, width=WIDTH, origin=None):
            pass


def test_parquet_needs_a_library_that_is_named(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pip install 'regard\[parquet\]'"):
        VectorFile(tmp_path / "v.parquet", width=WIDTH, origin=None)
