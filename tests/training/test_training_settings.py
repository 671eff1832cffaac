"""The training section's own checks, however it was made."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import InputError
from regard.training import TrainingSettings


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"steps": None}, "training.steps"),
        ({"batch_tokens": 0}, "training.batch_tokens"),
        ({"accumulate": 0}, "training.accumulate"),
        ({"evaluate_every": 0}, "training.evaluate_every"),
        ({"save_every": -1}, "training.save_every"),
        ({"log_every": 0}, "training.log_every"),
        ({"epochs": 0.0}, "training.epochs"),
        ({"patience": 0}, "training.patience"),
        ({"learning_rate": 0.0}, "training.learning_rate"),
        ({"learning_rate": float("nan")}, "training.learning_rate"),
        ({"label_smoothing": 1.0}, "training.label_smoothing"),
        ({"clip_norm": 0.0}, "training.clip_norm"),
        ({"parallel": "fsdp", "evaluate_generated": 5}, "training.evaluate_generated"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(changes, field):
    with pytest.raises(InputError, match=field):
        TrainingSettings(**({"steps": 3} | changes))


def test_either_limit_is_enough():
    assert TrainingSettings(epochs=0.5).steps is None
    assert TrainingSettings(steps=1).epochs is None


def test_batches_get_smaller_for_small_data_only():
    settings = TrainingSettings(steps=1, batch_tokens=100, minimum_batches=4)
    few, many = np.full((10, 2), 10), np.full((100, 2), 10)
    assert settings.tokens_of_a_batch(few) == 50
    assert settings.tokens_of_a_batch(many) == 100
    assert TrainingSettings(steps=1, batch_tokens=100).tokens_of_a_batch(few) == 100
    assert TrainingSettings(steps=1, minimum_batches=4).tokens_of_a_batch(np.array([[1]])) == 1
