"""A loss or gradient that is no finite number ends the run, and the message says which batch made it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

import regard
from regard.tasks.preparation import examples_named
from regard.training.callbacks import Callback

BAD = "hhh"
"""The source of the one example that makes NaN; no other has a letter `h` twice in a row."""


class Poisoned(Callback):
    """Makes the loss, or its gradient alone, NaN or infinite in every batch with the bad example, from a step on."""

    def __init__(self, what: str, value: float, step: int = 1) -> None:
        self.what, self.value, self.step, self.done = what, value, step, 0

    def started(self, model, progress, total_steps):
        self.done = progress.step
        model.encoder.embedding.register_forward_hook(self.poison)

    def stepped(self, progress, tokens_per_second):
        self.done = progress.step

    def poison(self, module, inputs, output):
        ids = inputs[0]
        if self.done + 1 < self.step or not module.training:
            return output
        same = (ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] > 1)  # beyond the special tokens
        here = (same[:, 1:] & same[:, :-1]).any(dim=1)
        if not here.any():
            return output
        if self.what == "loss":
            return torch.where(here[:, None, None], torch.full_like(output, self.value), output)
        output.register_hook(lambda gradient: torch.where(here[:, None, None], self.value, gradient))
        return output


def with_bad_example(pairs, at: int):
    kept = [pair for pair in pairs if not any(letter * 3 in pair[0] for letter in "abcdefgh")]
    return [*kept[:at], (BAD, BAD), *kept[at:]]


@pytest.mark.parametrize(("precision", "clip"), [("float32", 1.0), ("float32", None), ("bfloat16", 1.0)])
@pytest.mark.parametrize(
    ("what", "value", "said"),
    [
        ("loss", math.nan, r"the loss is nan"),
        ("gradient", math.inf, r"the gradient of \S+ holds NaN or infinity"),
    ],
)
def test_the_step_and_the_examples_are_named_and_the_last_checkpoint_stays(
    what, value, said, clip, precision, recipe, pairs, tmp_path
):
    data, run = with_bad_example(pairs, 40), tmp_path / "run"
    settings = recipe(steps=60, accumulate=3, save_every=2, clip_norm=clip, precision=precision)
    with pytest.raises(regard.InputError, match=f"diverged at step [0-9]+: {said} ") as caught:
        regard.train(settings, output=run, data=data, validation=pairs[:9], callbacks=[Poisoned(what, value, step=8)])
    said = str(caught.value)
    step = int(said.partition("at step ")[2].partition(":")[0])
    last = f"step-{(step - 1) // 2 * 2:08d}"
    assert f"the checkpoint of step {int(last[5:])} is kept" in said
    assert json.loads((run / "checkpoints.json").read_text())["last"] == last
    assert regard.load(run / "checkpoints" / last).translate("abc").source == "abc"
    # The batch that is named has the example, and is one of three.
    assert " of the update's " in said
    named = said.partition("example")[2].partition(" of ")[0]
    assert "41" in named or "more" in named
    # Without the poison the run goes on from there.
    assert regard.train(settings, output=run, data=data, validation=pairs[:9], resume=True).steps == 60


def test_the_line_of_a_file_is_named(recipe, pairs, tmp_path):
    """Malformed and held-out lines are counted, so that the number is the one that an editor shows."""
    data = with_bad_example(pairs, 20)
    file, run = tmp_path / "pairs.tsv", tmp_path / "run"
    file.write_text("no tab\n" + "".join(f"{source}\t{target}\n" for source, target in data))
    settings = recipe(steps=130, batch_tokens=4)  # a batch of one example
    settings["data"] |= {"train": str(file)}
    settings["data"]["validation_size"] = 5
    with pytest.raises(regard.InputError, match=r"diverged at step .*: the loss is nan ") as caught:
        regard.train(settings, output=run, callbacks=[Poisoned("loss", math.nan)])
    assert f"read from {file}:22)" in str(caught.value)
    assert file.read_text().splitlines()[21] == f"{BAD}\t{BAD}"


def test_places_that_are_damaged_or_missing_leave_the_numbers(tmp_path: Path):
    rows = torch.tensor([2, 0]).numpy()
    assert examples_named(tmp_path, rows) == f"examples 3, 1 of {tmp_path / 'train'}"
    for damaged in (b"", b"[]\n", b"[", b'["a"]\n123', b'["a"]\n' + bytes(8), b"\xff\n" + bytes(24)):
        (tmp_path / "train.places").write_bytes(damaged)
        assert examples_named(tmp_path, rows) == f"examples 3, 1 of {tmp_path / 'train'}"
