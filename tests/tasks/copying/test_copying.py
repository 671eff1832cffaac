"""Copying bits: what is drawn, what the model reads and is asked, what is counted, and a run from a recipe."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.data.sequences import BitCopies
from regard.errors import InputError
from regard.models import NTM, NTMConfig
from regard.tasks.copying import Copier, CopyingTask

TASK = CopyingTask(3)
RECIPE: dict[str, Any] = {
    "task": "copying",
    "seed": 3,
    "model": {"name": "ntm", "slots": 6, "slot_width": 4, "controller_width": 8},
    "data": {"width": 2, "shortest": 1, "longest": 3, "size": 200, "validation_size": 20},
    "training": {"steps": 4, "batch_tokens": 60, "warmup": 0, "evaluate_every": 2, "save_every": 2},
}


@pytest.fixture
def copier(seeded, randomize) -> Copier:
    return Copier(randomize(NTM(NTMConfig(inputs=4, outputs=3, slots=5, slot_width=4, controller_width=6))), TASK)


@given(width=st.integers(1, 6), lengths=st.tuples(st.integers(3, 5), st.integers(5, 8)), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_no_sequence_is_in_two_splits_and_all_are_of_the_sizes_asked_for(width, lengths, seed):
    drawn = {
        split: BitCopies(split, width=width, shortest=lengths[0], longest=lengths[1], size=40, seed=seed)
        for split in ("train", "validation", "test")
    }
    train, validation, test = (set(copies) for copies in drawn.values())
    assert train.isdisjoint(validation | test)
    assert validation.isdisjoint(test)
    for numbers in drawn["train"]:
        assert lengths[0] <= len(numbers) <= lengths[1]
        assert all(0 <= number < 1 << width for number in numbers)
    assert drawn["train"][7] == BitCopies(width=width, shortest=lengths[0], longest=lengths[1], size=8, seed=seed)[7]


def test_what_is_read_and_what_is_asked():
    batch = TASK.batch([[5, 1], [6, 0, 3]])
    assert batch.x.shape == (2, 7, 4)
    assert batch.x[0].tolist() == [[1, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1], *([[0, 0, 0, 0]] * 4)]
    assert batch.x[1, 3].tolist() == [0, 0, 0, 1]
    assert batch.bits[1].tolist() == [[0, 1, 1], [0, 0, 0], [1, 1, 0]]
    assert batch.lengths.tolist() == [2, 3]


class Echo(torch.nn.Module):
    """Tells at each step the number of the step, in all outputs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.arange(x.shape[1]).view(1, -1, 1).expand(len(x), -1, 3).float()


def test_the_answer_is_told_from_the_step_after_the_delimiter_on():
    told = TASK.bit_logits(Echo(), TASK.batch([[5, 1], [6, 0, 3]]))
    assert told[0, :2, 0].tolist() == [3, 4]
    assert told[1, :, 0].tolist() == [4, 5, 6]


def test_the_loss_is_the_sum_over_the_bits_of_the_sequence_alone(copier):
    """By hand from the probabilities, each sequence by itself; padding in a batch adds nothing."""
    sequences = [[5, 1], [6, 0, 3], [7]]
    found = TASK.loss(copier.model, TASK.batch(sequences))
    assert found.tokens == 3 * 6
    total, right = 0.0, 0
    for numbers, answer in zip(sequences, copier.copies(sequences), strict=True):
        for number, vector in zip(numbers, answer.probabilities, strict=True):
            for place, share in enumerate(vector):
                one = number >> place & 1
                total -= math.log(share if one else 1 - share)
                right += (share > 0.5) == bool(one)
    assert found.total.item() == pytest.approx(total, rel=1e-5)
    assert int(found.correct) == right


def test_answers_do_not_depend_on_the_batch(copier):
    bits = [[[1, 0, 1], [0, 0, 1]], [[1, 1, 1]], [[0, 1, 0]] * 4]
    together = copier.copy_batch(bits)
    for one, answer in zip(bits, together, strict=True):
        alone = copier.copy(one)
        assert alone.bits == answer.bits
        assert alone.probabilities[0] == pytest.approx(answer.probabilities[0], abs=1e-6)
        assert answer.wrong == sum(
            a != b for x, y in zip(answer.bits, one, strict=True) for a, b in zip(x, y, strict=True)
        )


@pytest.mark.parametrize("bits", ["abc", [], [[1, 0]], [[1, 0, 2]], [1, 0, 1]])
def test_what_is_no_sequence_of_bits_is_refused(copier, bits):
    with pytest.raises(InputError, match="sequence 1"):
        copier.copy(bits)


def test_an_evaluation_counts_as_the_paper_does(copier):
    sequences = [[5, 1], [6, 0, 3]]
    found = regard.evaluate(copier, sequences)
    loss = TASK.loss(copier.model, TASK.batch(sequences))
    assert found.metrics["bits_per_sequence"] == pytest.approx(loss.total.item() / math.log(2) / 2, rel=1e-5)
    assert found.metrics["bit_error"] == pytest.approx(1 - int(loss.correct) / 15)
    assert found.count == 2
    for wrong in ([], "55", [[8]], [[]]):
        with pytest.raises(InputError):
            regard.evaluate(copier, wrong)


def test_a_run_from_a_recipe_is_repeated_and_opened(tmp_path):
    runs = [regard.train(RECIPE, output=tmp_path / name) for name in ("one", "two")]
    assert runs[0].metrics == runs[1].metrics
    assert set(runs[0].metrics) == {"loss", "bit_error", "exact_match"}
    model = regard.load(tmp_path / "one")
    assert isinstance(model, Copier)
    assert len(model.copy([[1, 0], [0, 1], [1, 1]]).bits) == 3
    assert json.loads((tmp_path / "one" / "regard.json").read_text())["task"] == {"name": "copying", "width": 2}


def test_sequences_in_memory_instead_of_drawn_ones(tmp_path):
    run = regard.train(RECIPE, output=tmp_path / "run", data=[[1, 2, 3], [0]], validation=[[2]])
    assert run.steps == 4
    with pytest.raises(InputError, match="not below 4"):
        regard.train(RECIPE, output=tmp_path / "wide", data=[[4]], validation=[[2]])
    with pytest.raises(InputError, match="one vector at least"):
        regard.train(RECIPE, output=tmp_path / "empty", data=[[]], validation=[[2]])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"width": 0}, "width is 0"),
        ({"width": 40}, "width is 40"),
        ({"shortest": 4, "longest": 3}, "lengths from 4 to 3"),
        ({"size": 0}, "data.size"),
    ],
)
def test_data_that_cannot_be_drawn_is_refused(changes, said, tmp_path):
    with pytest.raises(InputError, match=said):
        regard.train(RECIPE | {"data": RECIPE["data"] | changes}, output=tmp_path / "run")


def test_a_model_of_another_interface_is_refused(tmp_path):
    with pytest.raises(InputError, match="no model for task copying"):
        regard.train(RECIPE | {"model": {"name": "snail"}}, output=tmp_path / "run")
