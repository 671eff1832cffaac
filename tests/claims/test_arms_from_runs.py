"""Arms that start from another arm's run: pre-training and fine-tuning, teacher and student, in one comparison."""

from __future__ import annotations

from pathlib import Path

import pytest

import regard
from regard.claims import comparing
from regard.claims.comparison import arms_of, read_comparison
from regard.errors import InputError
from regard.training import read_recipe

SIZES = {"width": 8, "heads": 2, "feedforward_width": 12, "maximum_positions": 24, "dropout": 0.0}
STUDENT = {"name": "distilbert", **SIZES, "layers": 1}


@pytest.fixture
def recipe(tmp_path) -> dict:
    file = tmp_path / "a.txt"
    words = "the dog sees a cat and every bird likes one old horse"
    file.write_text("\n\n".join(f"{words}. it was number {number}. {words}." for number in range(20)))
    return {
        "task": "masked_language_modelling",
        "model": {"name": "bert", **SIZES, "layers": 2},
        "data": {"train": str(file), "next_sentence": False, "maximum_length": 24},
        "tokenizer": {"size": 120},
        "training": {"steps": 2, "batch_tokens": 300, "precision": "float32"},
    }


ARMS = {
    "teacher": {"training.steps": 3},
    "alone": {"model": STUDENT, "tokenizer.path": "run:teacher"},
    "taught": {"model": STUDENT, "data.teacher": {"folder": "run:teacher"}},
    "begun": {"model": {"name": "distilbert", "pretrained": "run:teacher", "pretrained_layers": [1]}},
}


def test_each_seed_starts_from_its_own_run(recipe, tmp_path, monkeypatch):
    output = tmp_path / "runs"
    compared = regard.compare(recipe, arms=ARMS, seeds=2, output=output, measures=["masked_loss"])
    for arm in ARMS:
        values = compared.values(arm, "masked_loss")
        assert len(values) == 2
        assert all(value is not None and value > 0 for value in values.values())
    for seed in (1, 2):
        teacher = (output / "teacher" / str(seed)).resolve()
        saved = {arm: read_recipe(output / arm / str(seed) / "recipe.yaml") for arm in ARMS}
        assert saved["alone"].tokenizer.path == str(teacher)
        assert saved["taught"].data.teacher.folder == str(teacher)
        assert saved["begun"].model["pretrained"] == str(teacher)
        one, other = (regard.load(output / arm / str(seed)).task.tokenizer for arm in ("teacher", "begun"))
        assert one == other
    # What is finished is taken as it is, from wherever the folder is now.
    moved = tmp_path / "moved"
    output.rename(moved)
    (tmp_path / "runs").symlink_to(moved)
    monkeypatch.setattr(comparing, "train", None)
    again = regard.compare(recipe, arms=ARMS, seeds=2, output=moved, measures=["masked_loss"])
    assert again.values("begun", "masked_loss") == compared.values("begun", "masked_loss")


def test_an_arm_that_says_something_else_is_another_comparison(recipe, tmp_path):
    regard.compare(recipe, arms={"teacher": {}, "begun": ARMS["begun"]}, seeds=[1], output=tmp_path / "runs")
    changed = {"teacher": {}, "begun": {**ARMS["begun"], "training.learning_rate": 1e-4}}
    with pytest.raises(InputError, match="settings of arm 'begun'"):
        regard.compare(recipe, arms=changed, seeds=[1], output=tmp_path / "runs")


def test_fine_tuning_with_and_without_pre_training(recipe, tmp_path):
    """The first arm pre-trains, the others are another task, from its run and from nothing."""
    labelled = tmp_path / "labels.tsv"
    labelled.write_text(
        "text\tlabel\n" + "".join(f"the {'dog' if n % 2 else 'cat'} sees\t{n % 2}\n" for n in range(40))
    )
    task = {
        "task": "classification",
        "data": {"train": str(labelled), "maximum_length": 16},
        "tokenizer": {"path": "run:pre-training"},
        "training.steps": 2,
    }
    arms = {
        "pre-training": {},
        "from nothing": task,
        "pre-trained": {**task, "model": {"pretrained": "run:pre-training"}},
    }
    compared = regard.compare(recipe, arms=arms, seeds=[1], output=tmp_path / "runs", measures=["accuracy"])
    assert compared.values("pre-training", "accuracy") == {1: None}
    for arm in ("from nothing", "pre-trained"):
        assert 0 <= compared.values(arm, "accuracy")[1] <= 1
        assert isinstance(regard.load(tmp_path / "runs" / arm / "1").task.classes, tuple)


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ({"a": {"model.pretrained": "run:b"}, "b": {}}, "needs the run of 'b'; name that arm before it"),
        ({"a": {"model.pretrained": "run:teacher"}}, "needs the run of 'teacher', which is not trained"),
        ({"a": {"model.pretrained": "run:a"}}, "needs the run of 'a'; name that arm before it"),
    ],
)
def test_runs_that_are_not_there(arms, message):
    with pytest.raises(InputError, match=message):
        arms_of(arms, "arms")


def test_a_comparison_comes_back_from_its_file(recipe):
    comparison = read_comparison({"recipe": recipe, "arms": ARMS, "seeds": [3]})
    assert read_comparison(comparison.to_mapping()) == comparison
    assert comparison.needs(comparison.arm("taught")) == ("teacher",)
    assert [measure.metric for measure in comparison.measures] == ["loss", "masked_loss", "masked_accuracy"]
    assert Path(comparison.recipe_of(comparison.arm("alone"), 3, {"teacher": "x"}).tokenizer.path) == Path("x")
