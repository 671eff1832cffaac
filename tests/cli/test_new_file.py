from __future__ import annotations

import os
from pathlib import Path

import pytest

from regard.cli.console import NewFile
from regard.errors import InputError


def test_it_appears_whole(tmp_path: Path):
    place = tmp_path / "out.txt"
    place.write_text("old")
    with NewFile(place) as file:
        file.write("eins\n")
        file.write("日\n")
        assert place.read_text() == "old"
    assert place.read_bytes() == "eins\n日\n".encode()
    assert os.listdir(tmp_path) == ["out.txt"]


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt])
def test_or_not_at_all(tmp_path: Path, fault: type[BaseException]):
    place = tmp_path / "out.txt"
    place.write_text("old")
    with pytest.raises(fault), NewFile(place) as file:  # noqa: PT012
        file.write("new")
        raise fault
    assert place.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_a_link_stays_a_link(tmp_path: Path):
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    link.symlink_to(real)
    with NewFile(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with NewFile(pipe) as file:
        file.write("through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert pipe.is_fifo()


def test_it_has_the_permissions_of_any_other_file(tmp_path: Path):
    (tmp_path / "other").touch()
    with NewFile(tmp_path / "out.txt") as file:
        file.write("x")
    assert (tmp_path / "out.txt").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("name", ["missing/out.txt", "file.txt/out.txt", "."])
def test_a_place_that_cannot_be_written_to_is_told_at_once(tmp_path: Path, name: str):
    (tmp_path / "file.txt").touch()
    reached = False
    with pytest.raises(InputError, match=r"cannot be written|is a folder"), NewFile(tmp_path / name):
        reached = True
    assert not reached


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no /dev/full")
def test_a_full_disk_is_one_sentence():
    with pytest.raises(InputError, match="the disk is full"), NewFile(Path("/dev/full")) as file:
        file.write("x" * 100_000)
