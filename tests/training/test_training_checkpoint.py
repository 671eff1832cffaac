"""Checkpoints of a run: written whole or not at all, and refused by name when damaged."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

import regard
from regard.checkpoints import tensors
from regard.training.proof import differing, remains

STEP = "checkpoints/step-00000003"


class Stop:
    """Interrupts a run after some step, before its checkpoint."""

    def __init__(self, step: int) -> None:
        self.step = step

    def started(self, model, progress, total_steps):
        """Nothing."""

    def stepped(self, progress, tokens_per_second):
        if progress.step == self.step:
            raise KeyboardInterrupt

    def logged(self, event):
        """Nothing."""

    def ended(self, progress):
        """Nothing."""


@pytest.fixture
def values(recipe):
    return recipe("transformer", steps=6, save_every=3)


@pytest.fixture
def interrupted(values, pairs, tmp_path) -> Path:
    """A run that was stopped at step 5 and has a checkpoint of step 3."""
    with pytest.raises(KeyboardInterrupt):
        regard.train(values, output=tmp_path / "run", data=pairs, callbacks=[Stop(5)])
    return tmp_path / "run"


@pytest.fixture
def further(values, pairs, tmp_path) -> Path:
    """A run that was stopped at step 8 and has checkpoints of steps 3 and 6."""
    with pytest.raises(KeyboardInterrupt):
        regard.train(longer(values), output=tmp_path / "run", data=pairs, callbacks=[Stop(8)])
    return tmp_path / "run"


def longer(values):
    return {**values, "training": {**values["training"], "steps": 9}}


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """As on a disk that fills up: writing beyond so many bytes of a file fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def refusal(values, pairs, folder: Path) -> str:
    with pytest.raises(regard.InputError) as caught:
        regard.train(values, output=folder, data=pairs, resume=True)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# The model takes 20 kB, the optimiser's state 46 kB: the disk fills up in the one or in the other.
@pytest.mark.parametrize("room", [9_000, 30_000])
def test_a_full_disk_leaves_the_checkpoint_before_intact(room, interrupted, values, pairs, tmp_path):
    before = snapshot(interrupted / STEP)
    assert len(before["model.safetensors"]) > 9_000
    assert len(before["model.safetensors"]) < 30_000 < len(before["optimizer.safetensors"])
    with no_file_above(room):
        message = refusal(values, pairs, interrupted)
    assert "the disk is full" in message
    assert "what was saved before is intact" in message
    assert snapshot(interrupted / STEP) == before
    assert [path.name for path in (interrupted / "checkpoints").iterdir()] == ["step-00000003"]
    assert regard.load(interrupted / STEP).translate("abc").source == "abc"

    resumed = regard.train(values, output=interrupted, data=pairs, resume=True)
    whole = regard.train(values, output=tmp_path / "whole", data=pairs)
    name = "model.safetensors"
    assert (resumed.folder / name).read_bytes() == (whole.folder / name).read_bytes()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_known_by_its_other_names(code, monkeypatch, interrupted, values, pairs):
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tensors, "save_file", fail)
    assert "the disk is full" in refusal(values, pairs, interrupted)
    monkeypatch.undo()
    assert regard.train(values, output=interrupted, data=pairs, resume=True).steps == 6


def test_a_torn_pointer_leaves_the_old_one(monkeypatch, interrupted, values, pairs):
    from regard.training import checkpoint

    def fail(path: Path, content: str) -> None:
        raise regard.InputError("power cut")

    monkeypatch.setattr(checkpoint, "replace_file", fail)
    refusal(values, pairs, interrupted)
    assert json.loads((interrupted / "checkpoints.json").read_text())["last"] == "step-00000003"
    monkeypatch.undo()
    # The unnamed step-00000006 is written again.
    assert regard.train(values, output=interrupted, data=pairs, resume=True).steps == 6


def test_what_a_killed_process_left_half_written_is_cleared(interrupted, values, pairs):
    for folder in (interrupted, interrupted / "checkpoints"):
        (folder / ".partial-abc").mkdir()
        (folder / ".partial-abc" / "model.safetensors").write_bytes(b"half")
        (folder / ".partial-file").write_bytes(b"half")
    regard.train(values, output=interrupted, data=pairs, resume=True)
    assert not list(interrupted.rglob(".partial*"))


def test_a_publication_that_was_killed_is_finished(values, pairs, tmp_path):
    trained = regard.train(values, output=tmp_path / "run", data=pairs)
    whole = snapshot(trained.folder)
    (trained.folder / "config.json").unlink()
    (trained.folder / ".model" / "source").mkdir(parents=True)
    regard.train(values, output=trained.folder, data=pairs, resume=True)
    assert snapshot(trained.folder) == whole
    assert not (trained.folder / ".model").exists()


def test_files_are_readable_by_whom_the_umask_lets(interrupted):
    mask = os.umask(0)
    os.umask(mask)
    for path in (interrupted / STEP).iterdir():
        assert path.stat().st_mode & 0o777 == 0o666 & ~mask, path.name


def damage_tensors(path: Path, change) -> None:
    read = load_file(path)
    change(read)
    save_file(read, path)


def flip_last_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


MOMENT = "decoder.layers.1.feedforward.inner.weight/exp_avg"

DAMAGES = {
    "no model": (lambda p: (p / "model.safetensors").unlink(), "model.safetensors: no such file"),
    "no progress": (lambda p: (p / "progress.json").unlink(), "progress.json: no such file"),
    "no moments": (lambda p: (p / "optimizer.safetensors").unlink(), "optimizer.safetensors: no such file"),
    "card is no JSON": (lambda p: (p / "regard.json").write_text("{"), "regard.json: is not JSON"),
    "half the moments": (
        lambda p: (p / "optimizer.safetensors").write_bytes((p / "optimizer.safetensors").read_bytes()[:9000]),
        "optimizer.safetensors: not a readable safetensors file",
    ),
    "flipped model": (lambda p: flip_last_byte(p / "model.safetensors"), "checksum differs"),
    "flipped moments": (lambda p: flip_last_byte(p / "optimizer.safetensors"), "checksum differs"),
    "lost moment": (
        lambda p: damage_tensors(p / "optimizer.safetensors", lambda t: t.pop(MOMENT)),
        f"missing {MOMENT}",
    ),
    "strange moment": (
        lambda p: damage_tensors(p / "optimizer.safetensors", lambda t: t.update(nothing=t[MOMENT].clone())),
        "nothing belongs to no parameter",
    ),
    "lost parameter": (
        lambda p: damage_tensors(p / "model.safetensors", lambda t: t.pop("model.decoder.layers.0.fc1.bias")),
        "missing model.decoder.layers.0.fc1.bias",
    ),
    "progress is no JSON": (lambda p: (p / "progress.json").write_text("{"), "progress.json: is not JSON"),
    "progress is a list": (lambda p: (p / "progress.json").write_text("[]"), "progress.json: holds a list"),
    "later format": (
        lambda p: (p / "progress.json").write_text('{"format_version": 2, "progress": {}, "digests": {}}'),
        "progress.json: format_version 2 is not known; update regard",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_checkpoint_is_one_sentence_naming_file_and_key(name, interrupted, values, pairs):
    damage, words = DAMAGES[name]
    damage(interrupted / STEP)
    assert words in refusal(values, pairs, interrupted)


LAST = "checkpoints/step-00000006"
TORN = {
    f"{LAST}/model.safetensors": lambda content: content[:9000],
    f"{LAST}/optimizer.safetensors": lambda content: content[:9000] + bytes(len(content) - 9000),
    f"{LAST}/progress.json": lambda content: content[:100],
    f"{LAST}/tokenizer.json": lambda content: content[:-1],
    "checkpoints.json": lambda content: content[:10],
}


@pytest.mark.parametrize("name", TORN)
def test_a_torn_write_falls_back_to_the_newest_checkpoint_that_is_whole_and_says_which_and_why(
    name, further, values, pairs, tmp_path
):
    """Gone on from there, the run ends as one that met no fault."""
    assert sorted(path.name for path in (further / "checkpoints").iterdir()) == ["step-00000003", "step-00000006"]
    (further / name).write_bytes(TORN[name]((further / name).read_bytes()))
    said: list[str] = []
    regard.train(longer(values), output=further, data=pairs, resume=True, say=said.append)
    (told,) = [line for line in said if "is damaged" in line]
    chosen = further / (LAST if name == "checkpoints.json" else STEP)
    assert str(further / name) in told
    assert told.endswith(f"{chosen} is intact, and the run continues from it.")
    whole = regard.train(longer(values), output=tmp_path / "whole", data=pairs)
    assert differing(remains(further), remains(whole.folder)) == ()
    assert [path.name for path in (further / "checkpoints").iterdir()] == ["step-00000009"]


def test_where_no_checkpoint_is_whole_the_newest_one_is_blamed(further, values, pairs):
    for name in (STEP, LAST):
        flip_last_byte(further / name / "model.safetensors")
    message = refusal(longer(values), pairs, further)
    assert f"{LAST}/model.safetensors" in message
    assert message.endswith("there is no undamaged earlier checkpoint")
    (further / "checkpoints.json").write_text("[1]")
    assert "checkpoints.json: holds a list" in refusal(longer(values), pairs, further)


def test_a_log_that_lost_its_end_is_told(further, values, pairs):
    log = further / "log.jsonl"
    log.write_bytes(log.read_bytes()[:50])
    said: list[str] = []
    regard.train(longer(values), output=further, data=pairs, resume=True, say=said.append)
    assert any("log.jsonl has lost its last" in line for line in said)


def test_what_power_left_unforced_is_never_needed(values, pairs, tmp_path, monkeypatch):
    """At each fsync, a folder whose other files are empty goes on to the same end; `benchmarks/faults/disks.py` tries it all."""
    run, forced, images, real = tmp_path / "run", set[tuple[int, int]](), list[Path](), os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        found = os.fstat(descriptor)
        forced.add((found.st_ino, found.st_mtime_ns))
        if (run / "checkpoints.json").exists() and len(images) < 40:
            image = tmp_path / f"image-{len(images)}"
            shutil.copytree(run, image)
            for path in run.rglob("*"):
                kept = path.stat()
                if path.is_file() and (kept.st_ino, kept.st_mtime_ns) not in forced:
                    (image / path.relative_to(run)).write_bytes(b"")
            images.append(image)

    monkeypatch.setattr(os, "fsync", fsync)
    regard.train(values, output=run, data=pairs)
    monkeypatch.undo()
    wanted = remains(run)
    assert len(images) > 10
    for image in images[:: len(images) // 4]:
        regard.train(values, output=image, data=pairs, resume=True)
        assert differing(remains(image), wanted) == ()


@pytest.mark.skipif(os.name != "posix", reason="a removed folder is known by its number")
@pytest.mark.parametrize("after", ["nothing", "another"])
def test_a_folder_that_is_removed_under_the_run_is_told_and_not_written_again(after, values, pairs, tmp_path):
    run = tmp_path / "run"

    class Remove(Stop):
        def stepped(self, progress, tokens_per_second):
            if progress.step == self.step:
                run.rename(tmp_path / "away")
                if after == "another":
                    run.mkdir()

    with pytest.raises(regard.InputError, match="was removed, moved or replaced by another folder"):
        regard.train(values, output=run, data=pairs, callbacks=[Remove(4)])
    assert not run.exists() if after == "nothing" else list(run.iterdir()) == []
    again = regard.train(values, output=tmp_path / "away", data=pairs, resume=True)  # and where it is now it goes on
    whole = regard.train(values, output=tmp_path / "whole", data=pairs)
    assert differing(remains(again.folder), remains(whole.folder)) == ()
