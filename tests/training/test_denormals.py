"""Numbers that are neither zero nor normal: flushed while training, and as before afterwards, whatever happened."""

from __future__ import annotations

import contextlib

import pytest
import torch

import regard
from regard.training.precision import denormals_flushed

pytestmark = pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot flush them")


def smallest() -> float:
    return torch.full((1,), 1e-38).mul(0.1).item()


@pytest.mark.parametrize("before", [False, True])
def test_only_inside(before):
    torch.set_flush_denormal(before)
    try:
        assert (smallest() == 0) is before
        with contextlib.suppress(KeyError), denormals_flushed():
            assert smallest() == 0
            raise KeyError
        assert (smallest() == 0) is before
    finally:
        torch.set_flush_denormal(False)


def test_training_computes_without_them(recipe, pairs, tmp_path):
    class Looking:
        seen: float = 1.0

        def started(self, model, progress, total_steps):
            pass

        def stepped(self, progress, tokens_per_second):
            self.seen = smallest()

        def logged(self, event):
            pass

        def ended(self, progress):
            pass

    looking = Looking()
    regard.train(recipe(steps=1), output=tmp_path / "run", data=pairs, callbacks=[looking])
    assert looking.seen == 0
    assert smallest() > 0
