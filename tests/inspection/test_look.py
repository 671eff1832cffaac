"""`regard.look` as a user calls it."""

from __future__ import annotations

import pytest
import torch

import regard
from regard.errors import InputError
from regard.training import Callback


def test_a_record_is_read_inside_the_block_and_after_it(translator):
    looked_at = translator("bahdanau")
    with regard.look(looked_at) as seen:
        looked_at.translate("abc")
        inside = seen.weights("decoder.attention")
    assert torch.equal(seen.weights("decoder.attention"), inside)


def test_a_model_and_its_translator_are_looked_at_alike(translator):
    looked_at = translator("transformer")
    with regard.look(looked_at) as outer, regard.look(looked_at.model) as inner:
        looked_at.model(looked_at.task.read([[5, 6]]), looked_at.task.read([[1]]))
    for address in outer.addresses:
        assert torch.equal(outer.weights(address), inner.weights(address))
    assert outer.task is looked_at.task
    assert inner.task is None


@pytest.mark.parametrize("thing", ["runs/dates", None, torch.zeros(2)])
def test_what_cannot_be_looked_at_is_told_so(thing):
    with pytest.raises(InputError, match="cannot be looked at"), regard.look(thing):
        pass


def test_a_loaded_model_can_be_looked_at(translator, tmp_path):
    looked_at = translator("transformer")
    looked_at.save(tmp_path / "model")
    loaded = regard.load(tmp_path / "model")
    with regard.look(looked_at) as one, regard.look(loaded) as two:
        assert looked_at.translate("abc") == loaded.translate("abc")
    for address in one.addresses:
        assert torch.equal(one.weights(address), two.weights(address))


class LookingOn:
    """A callback that watches a run's attention while it learns."""

    def __init__(self) -> None:
        self.sharpness: list[float] = []

    def started(self, model, progress, total_steps):
        self.look = regard.look(model, keep=1)
        self.seen = self.look.__enter__()

    def stepped(self, progress, tokens_per_second):
        # After the update: Bahdanau's own parameter has changed, so read what does not depend on it.
        self.sharpness.append(self.seen.weights("decoder.layers.0.cross_attention").amax(-1).mean().item())

    def logged(self, event):
        """Nothing."""

    def ended(self, progress):
        self.look.__exit__(None, None, None)


def test_training_can_be_looked_at_and_is_not_changed(tmp_path):
    pairs = [(f"a{number}b", f"b{number}a") for number in range(40)]
    recipe = {
        "seed": 2,
        "model": {"name": "transformer", "width": 8, "heads": 2, "encoder_layers": 1, "decoder_layers": 1},
        "data": {"validation_size": 4},
        "tokenizer": {"kind": "character", "size": 30},
        "training": {"steps": 4, "batch_tokens": 100, "precision": "float32"},
    }
    watching: Callback = LookingOn()
    looked = regard.train(recipe, output=tmp_path / "looked", data=pairs, callbacks=[watching])
    plain = regard.train(recipe, output=tmp_path / "plain", data=pairs)
    assert len(watching.sharpness) == 4
    assert all(0 < value <= 1 for value in watching.sharpness)
    name = "model.safetensors"
    assert (looked.folder / name).read_bytes() == (plain.folder / name).read_bytes()
