"""Token stores: what is written is read back, nothing is copied, and half a store never opens."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import token_store
from regard.data.token_store import TokenStore
from regard.errors import InputError

COLUMNS = {"source": 300, "target": 70_000, "length": 1 << 32}
ROWS = [([1, 299], [69_999, 0, 5], [7]), ([], [3], [(1 << 32) - 1]), ([4], [], [0])]


def as_lists(store: TokenStore) -> list[tuple]:
    return [tuple(store.sequence(name, row).tolist() for name in store.columns) for row in range(len(store))]


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    store = TokenStore.write(tmp_path / "new" / "store", COLUMNS, iter(ROWS))
    for opened in (store, TokenStore.open(tmp_path / "new" / "store")):
        assert as_lists(opened) == ROWS
        assert opened.columns == ("source", "target", "length")
        assert opened.lengths("source").tolist() == [2, 0, 1]
        assert opened.lengths("target").dtype == np.int64
    assert store.sequence("source", 0).dtype == np.uint16
    assert store.sequence("target", 0).dtype == np.uint32
    names = sorted(file.name for file in (tmp_path / "new" / "store").iterdir())
    assert names == sorted([f"{c}{e}" for c in COLUMNS for e in (".bin", ".offsets.bin", ".sums.bin")] + ["store.json"])
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["store"]
    assert (tmp_path / "new" / "store" / "source.bin").stat().st_size == 3 * 2


rows = st.lists(st.tuples(*[st.lists(st.integers(0, 999), max_size=9)] * 2), max_size=30)


@given(rows=rows, chunk=st.integers(1, 20))
@settings(max_examples=40, deadline=None)
def test_any_chunk_size_writes_the_same(tmp_path_factory: pytest.TempPathFactory, rows: list, chunk: int) -> None:
    folder = tmp_path_factory.mktemp("stores")
    whole = TokenStore.write(folder / "whole", {"source": 1000, "target": 1000}, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_store, "_CHUNK", chunk)
        TokenStore.write(folder / "chunked", {"source": 1000, "target": 1000}, rows)
    assert as_lists(whole) == rows
    for file in (folder / "whole").iterdir():
        assert file.read_bytes() == (folder / "chunked" / file.name).read_bytes()


def test_a_store_larger_than_a_chunk_is_neither_written_nor_read_from_memory(tmp_path: Path) -> None:
    count, length = 4000, 2000  # 8 million ids, 16 MB on disk
    tracemalloc.start()
    generator = ((np.arange(row % 50, length),) for row in range(count))
    store = TokenStore.write(tmp_path / "store", {"source": length}, generator)
    total = sum(int(store.sequence("source", row)[-1]) for row in range(count))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == count * (length - 1)
    assert (tmp_path / "store" / "source.bin").stat().st_size == 2 * int(store.lengths("source").sum())
    assert peak < 10e6


def test_sequences_are_read_only_views_of_the_file(tmp_path: Path) -> None:
    store = TokenStore.write(tmp_path / "store", COLUMNS, ROWS)
    first, again = store.sequence("target", 0), store.sequence("target", 0)
    assert np.shares_memory(first, again)
    assert not first.flags.owndata
    assert not first.flags.writeable
    base = first
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


def test_arrays_may_be_given_and_used_again(tmp_path: Path) -> None:
    buffer = np.zeros(3, dtype=np.int32)

    def rows():
        for value in range(3):
            buffer[:] = value
            yield (buffer,)

    store = TokenStore.write(tmp_path / "store", {"source": 10}, rows())
    assert as_lists(store) == [([0, 0, 0],), ([1, 1, 1],), ([2, 2, 2],)]


def test_no_rows_and_no_ids_are_a_store(tmp_path: Path) -> None:
    assert len(TokenStore.write(tmp_path / "none", {"source": 10}, [])) == 0
    store = TokenStore.write(tmp_path / "blank", {"source": 10}, [([],), ([],)])
    assert as_lists(store) == [([],), ([],)]
    assert store.lengths("source").tolist() == [0, 0]


def test_sent_to_another_process_it_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = TokenStore.write("store", {"source": 100_000}, [(list(range(50_000)),)])
    sent = pickle.dumps(store)
    assert len(sent) < 1000
    monkeypatch.chdir("/")
    assert as_lists(pickle.loads(sent)) == as_lists(store)


def test_rows_and_columns_that_are_not_there(tmp_path: Path) -> None:
    store = TokenStore.write(tmp_path / "store", COLUMNS, ROWS)
    for index in (3, -1):
        with pytest.raises(IndexError, match=f"row {index} of a store of 3"):
            store.sequence("source", index)
    with pytest.raises(InputError, match="no column 'sauce'; did you mean 'source'"):
        store.lengths("sauce")


# --- what may go wrong while writing ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (([1], [300]), "row 2, column 'target': id 300 is not below 300"),
        (([-1], [1]), "row 2, column 'source': id -1"),
        (([1],), "row 2: 1 sequences for the 2 columns source, target"),
        (([1.5], [1]), "row 2, column 'source': a flat sequence of whole numbers"),
        (([[1]], [1]), "row 2, column 'source': a flat sequence of whole numbers"),
        ((["a"], [1]), "row 2, column 'source': a flat sequence of whole numbers"),
    ],
)
def test_ids_that_do_not_fit_are_named_and_nothing_is_left(tmp_path: Path, row: tuple, says: str) -> None:
    rows = [([1], [2, 3]), row, ([1], [1])]
    with pytest.raises(InputError, match=says.replace("[", r"\[")):
        TokenStore.write(tmp_path / "store", {"source": 300, "target": 300}, rows)
    assert list(tmp_path.iterdir()) == []


def test_the_row_is_named_in_a_later_chunk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_store, "_CHUNK", 4)
    rows = [([1],), ([],), ([2, 3],), ([],), ([1, 99],), ([1],)]
    with pytest.raises(InputError, match="row 5, column 'source': id 99"):
        TokenStore.write(tmp_path / "store", {"source": 10}, rows)


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, InputError])
def test_an_error_in_the_rows_comes_through_and_leaves_nothing(tmp_path: Path, kind: type) -> None:
    def rows():
        yield ([1],)
        raise kind("in the middle")

    with pytest.raises(kind, match="in the middle"):
        TokenStore.write(tmp_path / "store", {"source": 10}, rows())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rows", [20, 5000])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    room = [30 if rows == 20 else 3]
    fsync = os.fsync

    class Full:
        """A file on a disk with room for a few more writes."""

        def __init__(self, file) -> None:
            self._file = file

        def write(self, content: bytes) -> int:
            room[0] -= 1
            if room[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return self._file.write(content)

        def __getattr__(self, name: str):
            return getattr(self._file, name)

    def last_blocks_do_not_fit(handle: int) -> None:
        if rows == 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(handle)

    real_open = Path.open
    monkeypatch.setattr(Path, "open", lambda self, mode="r", **more: Full(real_open(self, mode, **more)))
    monkeypatch.setattr(os, "fsync", last_blocks_do_not_fit)
    monkeypatch.setattr(token_store, "_CHUNK", 1000)
    with pytest.raises(
        InputError, match="store: the disk is full; what was saved before is intact, free some space"
    ) as caught:
        TokenStore.write(tmp_path / "store", {"source": 10}, [([1, 2],)] * rows)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_writer_leaves_no_store(tmp_path: Path) -> None:
    program = (
        "import sys, itertools, regard.data.token_store as t\n"
        "def rows():\n"
        "    for n in itertools.count():\n"
        "        if n == 50_000: print('halfway', flush=True)\n"
        "        yield ([1, 2, 3] * 10,)\n"
        "t.TokenStore.write(sys.argv[1], {'source': 10}, rows())\n"
    )
    target = tmp_path / "store"
    with subprocess.Popen([sys.executable, "-c", program, str(target)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"halfway\n"
        process.send_signal(signal.SIGKILL)
    assert not target.exists()
    (rest,) = tmp_path.iterdir()
    assert rest.name.endswith(".partial")
    with pytest.raises(InputError, match="is not a token store"):
        TokenStore.open(rest)
    assert len(TokenStore.write(target, {"source": 10}, [([1],)])) == 1  # and a second try succeeds


def test_an_existing_folder_is_not_written_over(tmp_path: Path) -> None:
    store = TokenStore.write(tmp_path / "store", COLUMNS, ROWS)
    with pytest.raises(InputError, match="exists already"):
        TokenStore.write(tmp_path / "store", {"source": 10}, [])
    assert as_lists(store) == ROWS
    (tmp_path / "empty").mkdir()
    assert len(TokenStore.write(tmp_path / "empty", COLUMNS, ROWS)) == 3


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file/store: cannot be written \(not a directory\)"):
        TokenStore.write(tmp_path / "file" / "store", {"source": 10}, [])


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({}, "at least one column"),
        ({"../up": 10}, "cannot be a file name"),
        ({"source": 0}, "size 0 is not in"),
        ({"source": (1 << 32) + 1}, "is not in"),
    ],
)
def test_columns_are_checked(tmp_path: Path, columns: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        TokenStore.write(tmp_path / "store", columns, [])


# --- what may be wrong with a store -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["source.bin", "target.bin", "source.offsets.bin", "target.sums.bin"])
@pytest.mark.parametrize("change", [-1, -2, 2])
def test_a_file_of_another_size_is_named(tmp_path: Path, name: str, change: int) -> None:
    TokenStore.write(tmp_path / "store", COLUMNS, ROWS)
    file = tmp_path / "store" / name
    content = file.read_bytes()
    file.write_bytes(content[:change] if change < 0 else content + bytes(change))
    with pytest.raises(InputError, match=rf"{name}: has .* bytes instead of .*"):
        TokenStore.open(tmp_path / "store")


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is not a token store \(no store.json\)"):
        TokenStore.open(tmp_path / "nowhere")
    TokenStore.write(tmp_path / "store", COLUMNS, ROWS)
    (tmp_path / "store" / "target.bin").unlink()
    with pytest.raises(InputError, match=r"target\.bin: no such file"):
        TokenStore.open(tmp_path / "store")


def test_offsets_that_do_not_fit_the_ids_are_refused(tmp_path: Path) -> None:
    TokenStore.write(tmp_path / "store", COLUMNS, ROWS)
    file = tmp_path / "store" / "source.offsets.bin"
    file.write_bytes((np.fromfile(file, "<i8") + 1).tobytes())
    with pytest.raises(InputError, match=r"source\.offsets\.bin: is not what was written"):
        TokenStore.open(tmp_path / "store")
    without_checks(tmp_path / "store")
    with pytest.raises(InputError, match="does not fit"):
        TokenStore.open(tmp_path / "store")


def without_checks(folder: Path) -> None:
    """Make a store one of before there were checksums."""
    said = json.loads((folder / "store.json").read_text())
    del said["check"]
    for column in said["columns"].values():
        del column["checks"]
    (folder / "store.json").write_text(json.dumps(said))
    for file in folder.glob("*.sums.bin"):
        file.unlink()


def test_a_store_of_before_there_were_checksums_is_read(tmp_path: Path) -> None:
    TokenStore.write(tmp_path / "store", COLUMNS, ROWS)
    without_checks(tmp_path / "store")
    assert as_lists(TokenStore.open(tmp_path / "store")) == as_lists(TokenStore.write(tmp_path / "new", COLUMNS, ROWS))


def test_no_changed_byte_goes_unnoticed(tmp_path: Path) -> None:
    """Of any file: it is refused when opened, or when it is read, or changes nothing of what is read."""
    store = TokenStore.write(tmp_path / "store", COLUMNS, ROWS)
    wanted, noticed = as_lists(store), 0
    for file in sorted((tmp_path / "store").iterdir()):
        content = file.read_bytes()
        for place in range(0, len(content), 7 if file.name == "store.json" else 3):
            file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            try:
                assert as_lists(TokenStore.open(tmp_path / "store")) == wanted, (file.name, place)
            except InputError:
                noticed += 1
            else:
                assert file.name == "store.json"
        file.write_bytes(content)
    assert noticed > 100


def test_ids_are_checked_in_blocks_when_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_store, "_BLOCK", 4)
    monkeypatch.setattr(token_store, "_CHUNK", 3)
    TokenStore.write(tmp_path / "store", {"source": 50}, [(list(range(3 * row, 3 * row + 3)),) for row in range(8)])
    file = tmp_path / "store" / "source.bin"
    content = np.fromfile(file, "<u2")
    content[13] = 44  # in the fourth block, and the fifth row
    file.write_bytes(content.tobytes())
    store = TokenStore.open(tmp_path / "store")
    assert [store.sequence("source", row).tolist() for row in (0, 1, 2, 3, 7)] == [
        [3 * row, 3 * row + 1, 3 * row + 2] for row in (0, 1, 2, 3, 7)
    ]
    for row in (4, 4, 5):  # the sixth begins in that block
        with pytest.raises(
            InputError, match=r"source\.bin: is not what was written \(the checksum differs\); remove the folder"
        ):
            store.sequence("source", row)
    content[13] = 13
    file.write_bytes(content.tobytes())
    for row in range(8):
        assert store.sequence("source", row).tolist() == [3 * row, 3 * row + 1, 3 * row + 2]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"format_version": 1}',
        '{"format_version": 1, "rows": -1, "columns": {}}',
        '{"format_version": 1, "rows": 3, "columns": {"../x": {"dtype": "<u2", "tokens": 3}}}',
        '{"format_version": 1, "rows": 3, "columns": {"source": {"dtype": "object", "tokens": 3}}}',
    ],
)
def test_a_damaged_description_is_named(tmp_path: Path, content: str) -> None:
    TokenStore.write(tmp_path / "store", COLUMNS, ROWS)
    (tmp_path / "store" / "store.json").write_text(content)
    with pytest.raises(InputError, match=r"store\.json: (is damaged|is not JSON|holds a list|format version None)"):
        TokenStore.open(tmp_path / "store")


def test_another_version_is_named(tmp_path: Path) -> None:
    TokenStore.write(tmp_path / "store", COLUMNS, ROWS)
    file = tmp_path / "store" / "store.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format_version": 2}))
    with pytest.raises(InputError, match="format version 2 is not 1"):
        TokenStore.open(tmp_path / "store")
