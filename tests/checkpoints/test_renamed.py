"""Folders and recipes that were written with names of before open, and are saved with the names of today."""

from __future__ import annotations

from pathlib import Path

import pytest

import regard
from regard.checkpoints.renamed import renamed_keys, renamed_recipe
from regard.training.recipe import read_recipe

FOLDERS = Path(__file__).parents[1] / "golden" / "folders"


@pytest.mark.parametrize(
    ("name", "task"),
    [("vit", "image_classification"), ("lambda_network", "image_classification"), ("show_and_tell", "captioning")],
)
def test_an_earlier_folder_opens_and_is_saved_with_the_names_of_today(name, task, tmp_path):
    assert "picture" in (FOLDERS / name / "regard.json").read_text("utf-8")
    regard.load(FOLDERS / name, task=task).save(tmp_path / "saved")
    for file in (tmp_path / "saved").glob("*.json"):
        assert "picture" not in file.read_text("utf-8"), file.name
    assert read_recipe(FOLDERS / name / "recipe.yaml").task == task


def test_only_names_that_have_changed_are_changed():
    recipe = {"task": "captioning", "data": {"pictures": "a.zip", "size": 3}, "training": {"pictures": 1}}
    assert renamed_recipe(recipe) == {**recipe, "data": {"images": "a.zip", "size": 3}}
    assert renamed_recipe({"task": "translation", "data": {"pictures": 1}}) == {
        "task": "translation",
        "data": {"pictures": 1},
    }
    assert renamed_keys({"width": 3, "old": 1}, {"old": "new"}) == {"width": 3, "new": 1}
