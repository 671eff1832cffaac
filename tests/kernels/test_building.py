"""The cache of kernels is private and checked; compilers that misbehave, and wheels' libraries, cost speed alone."""

from __future__ import annotations

import multiprocessing
import os
import platform
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.kernels import building as native
from regard.kernels import interface, trial, variants
from regard.kernels.building import built_kernels, kernels

pytestmark = pytest.mark.skipif(kernels().library is None, reason=f"no compiled kernels: {kernels().why}")


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> Path:
    """A copy of the library: the machine's own stays untouched."""
    copy = tmp_path_factory.mktemp("real") / "real.so"
    copy.write_bytes(Path(kernels().library._name).read_bytes())
    return copy


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "regard" / "kernels"


@pytest.fixture
def compiler(tmp_path, monkeypatch, real):
    """Makes the compiler a shell script, which has `out` and `real`; returns a function that counts its calls."""
    log = tmp_path / "calls"

    def make(script: str = 'cp "$real" "$out"'):
        file = tmp_path / "compiler"
        file.write_text(f"#!/bin/sh\necho >> {log}\nfor out; do :; done\nreal={real}\n{script}\n")
        file.chmod(0o700)
        monkeypatch.setenv("CXX", str(file))
        return lambda: len(log.read_text()) if log.exists() else 0

    return make


def files(folder: Path) -> dict[str, Path]:
    return {path.suffix: path for path in folder.iterdir()}


def test_a_library_is_kept_private_beside_its_digest_and_built_once(cache, compiler):
    calls = compiler()
    assert built_kernels().library is not None
    assert calls() == 2  # compiled and linked
    assert files(cache).keys() == {".so", ".sha256", ".lock"}
    assert cache.stat().st_mode & 0o777 == cache.parent.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in cache.iterdir())
    assert built_kernels().library is not None
    assert calls() == 2


def rewritten(path: Path, content: bytes) -> None:
    """As another file: this process has the old one in its memory."""
    path.unlink()
    path.write_bytes(content)
    path.chmod(0o700)


def cut(found: dict[str, Path]) -> None:
    rewritten(found[".so"], found[".so"].read_bytes()[:8192])


def flip(found: dict[str, Path]) -> None:
    content = bytearray(found[".so"].read_bytes())
    content[len(content) // 2] ^= 1
    rewritten(found[".so"], bytes(content))


def lose_the_digest(found: dict[str, Path]) -> None:
    found[".sha256"].unlink()


def open_to_all(found: dict[str, Path]) -> None:
    found[".so"].chmod(0o777)


def link(found: dict[str, Path]) -> None:
    other = found[".so"].parents[2] / "other.so"
    found[".so"].rename(other)
    found[".so"].symlink_to(other)


def pipe(found: dict[str, Path]) -> None:
    found[".so"].unlink()
    os.mkfifo(found[".so"])


def give_away(found: dict[str, Path]) -> None:
    if os.geteuid():
        pytest.skip("only root can give files away")
    os.chown(found[".so"], 12345, 12345)


@pytest.mark.parametrize("damage", [cut, flip, lose_the_digest, open_to_all, link, pipe, give_away])
def test_what_is_not_whole_and_ones_own_is_built_again_and_never_loaded(damage, cache, compiler, real):
    calls = compiler()
    built_kernels()
    damage(files(cache))
    assert built_kernels().library is not None
    assert calls() == 4
    found = files(cache)[".so"]
    assert not found.is_symlink()
    assert found.read_bytes() == real.read_bytes()
    assert found.stat().st_uid == os.geteuid()


@pytest.mark.parametrize("what", ["no home", "relative", "a file", "open to others", "a link", "somebody else's"])
def test_without_a_folder_of_ones_own_the_library_is_built_for_the_process_alone(
    what, cache, compiler, tmp_path, monkeypatch
):
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    calls = compiler()
    if what in ("no home", "relative"):
        monkeypatch.setattr(Path, "home", staticmethod(nowhere))
        monkeypatch.setenv("XDG_CACHE_HOME", "" if what == "no home" else "cache")
    elif what == "a file":
        (tmp_path / "cache").write_text("")
    elif what == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        cache.parent.mkdir(parents=True)
        cache.symlink_to(tmp_path / "elsewhere")
    else:
        cache.mkdir(parents=True)
        cache.chmod(0o755 if what == "open to others" else 0o700)
        if what == "somebody else's":
            monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.warns(UserWarning, match="built again by each process: .* belongs to this user and that nobody else"):
        assert built_kernels().library is not None
    assert calls() == 2
    assert not list(tmp_path.rglob("*.so"))
    assert not list(tmp_path.glob("regard-*"))


ODD = {
    "bytes that are not UTF-8": (r"printf '\377\376 error: \033[2Jkaputt\n' >&2; exit 1", "did not build the kernels"),
    "nothing said": ("exit 7", "it ended with 7"),
    "nothing made": ("exit 0", "cannot open shared object file"),
    "no library": ('echo text > "$out"', "do not work .*too short"),
    "no end": ("sleep 50 & sleep 50", "compiler has not ended after 0.4 seconds"),
    "no end of words": (
        "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done",
        "compiler writes without end",
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_a_compiler_that_misbehaves_costs_speed_and_is_named(name, cache, compiler, monkeypatch):
    script, words = ODD[name]
    calls = compiler(script)
    if name == "no end":
        monkeypatch.setattr(native, "PATIENCE", 0.4)
    elif name == "no end of words":
        monkeypatch.setattr(native, "LARGEST", 1 << 17)
    began = time.monotonic()
    found = built_kernels()
    assert found.library is None
    assert time.monotonic() - began < 20
    assert found.why.isprintable()
    assert re.search(words, found.why), found.why
    assert {path.suffix for path in cache.iterdir()} <= {".lock", ".failed"}
    assert found.slowness(8).endswith("weights of 8 bits are no faster than bfloat16")
    if "no end" in name:  # is not waited for again
        before = calls()
        assert "remove " in built_kernels().why
        assert calls() == before
        os.utime(files(cache)[".failed"], (0, 0))
        built_kernels()
        assert calls() > before


def test_what_crashes_when_it_is_loaded_crashes_in_a_child_alone(cache, compiler, tmp_path):
    source = tmp_path / "crash.cpp"
    source.write_text("#include <cstdlib>\n__attribute__((constructor)) void crash() { std::abort(); }\n")
    subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", str(tmp_path / "crash.so")], check=True)
    compiler(f'cp {tmp_path}/crash.so "$out"')
    found = built_kernels()
    assert found.library is None
    assert found.why == "the kernels that were built crash (aborted)"


class Wrong:
    """A library one of whose functions comes to something else."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str):
        function = getattr(kernels().library, name)

        def call(*arguments):
            function(*arguments)
            place = arguments[{"regard_linear": 3, "regard_blocks": 2}[name]]
            interface.ctypes.c_float.from_address(place + 4 * 5).value += 0.5

        return call if name == self.name else function


def test_the_trial_tells_what_comes_out_wrong():
    assert trial.fault(kernels().library) == ""
    assert trial.fault(Wrong("regard_linear")) == "a linear layer of 32 bits computes wrong results"
    assert trial.fault(Wrong("regard_blocks")) == "a block with keys and values of 32 bits computes wrong results"


def forked(count: int, do) -> list:
    """What comes of it in so many processes that begin at once."""
    context = multiprocessing.get_context("fork")
    answers, together = context.SimpleQueue(), context.Barrier(count)

    def begin() -> None:
        together.wait()
        answers.put(do())

    children = [context.Process(target=begin) for _ in range(count)]
    for child in children:
        child.start()
    found = [answers.get() for _ in children]
    for child in children:
        child.join()
    return found


def test_of_eight_processes_that_start_at_once_one_builds(cache, compiler):
    calls = compiler('sleep 0.1; cp "$real" "$out"')
    assert forked(8, lambda: built_kernels().library is not None) == [True] * 8
    assert calls() == 2
    assert files(cache).keys() == {".so", ".sha256", ".lock"}


@pytest.mark.parametrize("most", [0, 60, 8192])
def test_where_no_file_can_grow_there_are_no_kernels_and_nothing_is_left(most, cache, compiler):
    """As on a disk that is full, or after so many bytes."""
    compiler()

    def without_room() -> tuple[bool, str]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        found = built_kernels()
        return found.library is None, found.why

    ((none, why),) = forked(1, without_room)
    assert none
    assert re.search("did not build|could not be loaded|do not work", why), why
    assert {path.suffix for path in cache.iterdir()} <= {".lock", ".failed"}
    for path in cache.glob("*.failed"):
        path.unlink()
    assert built_kernels().library is not None


def test_what_a_killed_builder_left_is_removed_and_its_lock_is_free(cache, compiler):
    compiler()
    built_kernels()
    library = files(cache)[".so"]
    for name in (f"{library.stem}-abc", f"{library.stem}-abc/inside"):
        (cache / name).mkdir()
    library.unlink()
    assert built_kernels().library is not None
    assert {path.suffix for path in cache.iterdir()} == {".so", ".sha256", ".lock"}


def test_a_full_disk_or_a_missing_interpreter_costs_speed_alone(cache, compiler, monkeypatch):
    compiler()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(native, "sync", full)
        assert "No space left on device" in built_kernels().why
    assert {path.suffix for path in cache.iterdir()} == {".lock"}
    monkeypatch.setattr(sys, "executable", "")
    assert "no Python interpreter" in built_kernels().why


# Libraries that a wheel brought.


def listed(folder: Path) -> None:
    """Write down what is there now as what ought to be."""
    told = [*variants.source_sums(), *variants.sums(sorted(folder.glob("*.so")))]
    (folder / variants.SUMS).write_text("\n".join(told) + "\n")


@pytest.fixture
def shipped(tmp_path, monkeypatch, real) -> Path:
    """As a wheel lays them down: the library under the name of this machine's variants."""
    folder = tmp_path / "_libraries"
    folder.mkdir()
    names = [f"{variant.name}.so" for variant in variants.VARIANTS if variant.machine == platform.machine()]
    for name in names:
        (folder / name).write_bytes(real.read_bytes())
    listed(folder)
    monkeypatch.setattr(variants, "SHIPPED", folder)
    return folder


def test_what_a_wheel_brought_is_taken_and_nothing_is_built(shipped, cache, compiler, monkeypatch):
    calls = compiler()
    found = built_kernels().library
    assert found is not None
    assert Path(found._name).parent == shipped
    assert trial.fault(found) == ""
    assert calls() == 0
    assert not cache.exists()
    monkeypatch.setattr(native, "_openmp", lambda: None)
    assert "no OpenMP library" in built_kernels().why


def changed(folder: Path, monkeypatch) -> None:
    for library in folder.glob("*.so"):
        content = bytearray(library.read_bytes())
        content[len(content) // 2] ^= 1
        rewritten(library, bytes(content))


def of_other_sources(folder: Path, monkeypatch) -> None:
    told = (folder / variants.SUMS).read_text()
    (folder / variants.SUMS).write_text("0" * 64 + told[64:])


def of_fewer_sources(folder: Path, monkeypatch) -> None:
    _, *others = (folder / variants.SUMS).read_text().splitlines()
    (folder / variants.SUMS).write_text("\n".join(others))


def for_another_processor(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(variants, "processor", lambda: "flags : fpu sse2")


def unlisted(folder: Path, monkeypatch) -> None:
    (folder / variants.SUMS).write_bytes(b"\377")


def no_library(folder: Path, monkeypatch) -> None:
    for library in folder.glob("*.so"):
        rewritten(library, b"text")
    listed(folder)


@pytest.mark.parametrize(
    "damage", [changed, of_other_sources, of_fewer_sources, for_another_processor, unlisted, no_library]
)
def test_what_a_wheel_brought_is_left_where_it_is_not_for_this_machine_or_not_whole(
    damage, shipped, cache, compiler, monkeypatch
):
    calls = compiler()
    damage(shipped, monkeypatch)
    found = built_kernels().library
    assert found is not None
    assert Path(found._name).parent == cache
    assert calls() == 2
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX")
    assert built_kernels() == native.Kernels(None, "there is no C++ compiler (g++ or clang++)")
