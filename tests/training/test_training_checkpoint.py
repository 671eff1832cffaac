"""Checkpoints of a run: written whole or not at all, and refused by name when damaged."""

from __future__ import annotations

import errno
import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

import regard
from regard.checkpoints import tensors

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
    "pointer is no JSON": (
        lambda p: (p.parents[1] / "checkpoints.json").write_text("{"),
        "checkpoints.json: is not JSON",
    ),
    "pointer is a list": (
        lambda p: (p.parents[1] / "checkpoints.json").write_text("[1]"),
        "checkpoints.json: holds a list",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_checkpoint_is_one_sentence_naming_file_and_key(name, interrupted, values, pairs):
    damage, words = DAMAGES[name]
    damage(interrupted / STEP)
    assert words in refusal(values, pairs, interrupted)
