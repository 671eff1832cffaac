"""Recipes: YAML, overrides, what is refused and how, and the way there and back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.tasks import TASKS
from regard.training import Recipe, read_recipe
from regard.training.recipe import differences, write_recipe

TEXT = """
task: translation
seed: 3
model: {name: transformer, width: 16, heads: 2, norm: pre}
data:
  train: [a.en, a.de]
  maximum_tokens: 50
tokenizer: {kind: word, size: 100}
training:
  steps: 10
  learning_rate: 1e-3
  betas: [0.9, 0.99]
  clip_norm: null
generation: {beam: 4}
"""


@pytest.fixture
def path(tmp_path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(TEXT)
    return path


def refused(source, *overrides: str) -> str:
    with pytest.raises(InputError) as caught:
        read_recipe(source, overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_yaml_becomes_typed_settings(path):
    recipe = read_recipe(path)
    assert recipe.model == {"name": "transformer", "width": 16, "heads": 2, "norm": "pre"}
    assert recipe.data.train == ("a.en", "a.de")
    assert recipe.training.betas == (0.9, 0.99)
    assert recipe.training.clip_norm is None
    assert recipe.generation.beam == 4
    assert recipe.seed == 3


def test_a_number_without_a_point_is_a_number(path):
    # YAML itself reads 1e-3 as text.
    assert yaml.safe_load("1e-3") == "1e-3"
    assert read_recipe(path).training.learning_rate == 1e-3
    assert read_recipe(path, ["training.learning_rate=2e-4"]).training.learning_rate == 2e-4
    assert read_recipe(path, ["model.dropout=1e-1"]).model_config(
        {"source_vocabulary": 9, "target_vocabulary": 9}
    ).dropout == pytest.approx(0.1)


def test_overrides_reach_every_section_and_the_last_one_counts(path):
    recipe = read_recipe(
        path,
        [
            "training.steps=7",
            "training.steps=8",
            "model.width=24",
            "data.train=[b.en, b.de]",
            "tokenizer.shared=false",
            "generation.beam=2",
            "seed=11",
            "training.clip_norm=0.5",
        ],
    )
    assert (recipe.training.steps, recipe.model["width"], recipe.seed) == (8, 24, 11)
    assert recipe.data.train == ("b.en", "b.de")
    assert recipe.tokenizer.shared is False
    assert recipe.training.clip_norm == 0.5


def test_overrides_make_sections_that_were_not_there():
    recipe = read_recipe(
        {"model": {"name": "bahdanau"}}, ["training.steps=3", "data.dates.size=50", "data.dates.validation_size=5"]
    )
    assert recipe.training.steps == 3
    assert recipe.data.dates is not None
    assert recipe.data.dates.size == 50


def test_overrides_leave_what_they_were_given_alone():
    values = {"model": {"name": "bahdanau"}, "training": {"steps": 3}, "data": {}}
    read_recipe(values, ["training.steps=4", "data.train=x.tsv"])
    assert values == {"model": {"name": "bahdanau"}, "training": {"steps": 3}, "data": {}}


@pytest.mark.parametrize(
    ("override", "nearest"),
    [
        ("sed=1", "'seed'"),
        ("trainig.steps=1", "'training'"),
        ("training.stepz=1", "'steps'"),
        ("training.learning_rat=1", "'learning_rate'"),
        ("data.trian=x", "'train'"),
        ("data.dates.sise=1", "'size'"),
        ("tokenizer.knid=bpe", "'kind'"),
        ("generation.baem=2", "'beam'"),
        ("model.widht=8", "'width'"),
        ("model.name=transfomer", "'transformer'"),
    ],
)
def test_an_unknown_key_names_the_nearest(override, nearest):
    base = {"model": {"name": "transformer"}, "data": {}, "training": {"steps": 1}}
    assert f"did you mean {nearest}?" in refused(base, override)


def test_what_the_vocabulary_decides_is_not_for_the_recipe_to_say(path):
    assert "unknown key 'padding_id'" in refused(path, "model.padding_id=3")


@pytest.mark.parametrize(
    ("override", "names"),
    [
        ("training.steps=many", ("training.steps", "'many'", "whole number")),
        ("training.steps=1.5", ("training.steps", "1.5")),
        ("training.steps=true", ("training.steps", "True")),
        ("training.compile=1", ("training.compile", "true or false")),
        ("training.betas=[0.9]", ("training.betas", "list of 2")),
        ("training.schedule=cosin", ("training.schedule", "'cosine'")),
        ("training=5", ("training", "mapping")),
        ("training.steps=0", ("training.steps", "above 0")),
        ("training.warmup=-1", ("training.warmup", "0 or more")),
        ("training.best=bleu", ("training.best", "evaluate_generated")),
        ("data.on_error=ignore", ("data.on_error", "'skip'")),
        ("model.width=wide", ("width", "'wide'")),
        ("model.width=15", ("heads", "divisor")),
        ("model.norm=mid", ("norm", "'mid'")),
        ("seed=-1", ("seed", "-1")),
        ("task=parsing", ("task", "'parsing'")),
    ],
)
def test_a_wrong_value_is_named_with_its_place_and_what_is_allowed(path, override, names):
    message = refused(path, override)
    for name in names:
        assert name in message


@pytest.mark.parametrize("override", ["training.steps", "=3", "steps 3"])
def test_what_is_no_override_is_told_how_to_write_one(path, override):
    assert "write key=value" in refused(path, override)


def test_an_override_that_is_no_yaml_is_told_to_quote(path):
    assert "quote it" in refused(path, "data.train=[a, b")


def test_an_override_below_a_plain_value_is_refused(path):
    assert "holds no settings of its own" in refused(path, "seed.more=1")


def test_missing_sections_are_named():
    assert "missing data, training" in refused({"model": {"name": "bahdanau"}})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"model: [", "is not YAML"),
        (b"- a\n- b\n", "holds no mapping"),
        (b"", "holds no mapping"),
        (b"\xff\xfe\x00", "UTF-8"),
    ],
)
def test_a_file_that_is_no_recipe_is_named(tmp_path, content, words):
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    message = refused(path)
    assert str(path) in message
    assert words in message


def test_a_missing_file_is_named(tmp_path):
    assert str(tmp_path / "none.yaml") in refused(tmp_path / "none.yaml")


def test_the_resolved_recipe_reads_back_equal(path, tmp_path):
    recipe = read_recipe(path, ["data.validation=val.tsv", "training.epochs=1.5", "generation.top_k=null"])
    saved = tmp_path / "resolved.yaml"
    saved.write_text(write_recipe(recipe))
    again = read_recipe(saved)
    assert again == recipe
    assert differences(recipe, again) == []
    # Every default is written out, so a later version's defaults do not change it.
    assert yaml.safe_load(saved.read_text())["training"]["schedule"] == "inverse_square_root"


def test_a_recipe_may_be_given_as_one(path):
    recipe = read_recipe(path)
    assert read_recipe(recipe) == recipe
    assert read_recipe(recipe, ["seed=9"]).seed == 9
    assert recipe.seed == 3


def test_differences_name_dotted_keys(path):
    one = read_recipe(path)
    other = read_recipe(path, ["training.steps=11", "model.dropout=0.2", "data.dates=null", "data.train=x.tsv"])
    assert differences(one, other) == ["data.train", "model.dropout", "training.steps"]


@settings(max_examples=40, deadline=None)
@given(
    steps=st.integers(1, 10**9),
    rate=st.floats(1e-9, 10, allow_nan=False),
    patience=st.none() | st.integers(1, 99),
    train=st.none() | st.text(min_size=1) | st.lists(st.text(min_size=1), min_size=2, max_size=2).map(tuple),
    column=st.none() | st.integers(0, 9) | st.text(min_size=1),
    seed=st.integers(0, 2**63 - 1),
)
def test_any_recipe_survives_the_way_to_yaml_and_back(steps, rate, patience, train, column, seed):
    recipe = read_recipe(
        {
            "seed": seed,
            "model": {"name": "bahdanau"},
            "data": {"train": train, "source": column},
            "training": {"steps": steps, "learning_rate": rate, "patience": patience},
        }
    )
    assert read_recipe(yaml.safe_load(write_recipe(recipe))) == recipe


FAMILIES = {"encoder_decoder": "t5", "language_model": "gpt2"}


def test_the_recipes_in_the_repository_are_valid():
    folder = Path(__file__).parents[2] / "recipes"
    found = sorted(folder.glob("*.yaml"))
    assert found
    for path in found:
        text = path.read_text()
        # A recipe for any trained model leaves open which; a family stands in for it here.
        chosen = FAMILIES.get(TASKS[yaml.safe_load(text)["task"]].interface, "bert")
        family = "elmo" if path.stem.endswith("-elmo") else chosen
        given = [f"model.name={family}"] if "pretrained: null" in text else []
        if "adapters" in yaml.safe_load(text):  # which stand beside a trained model
            given = [f"model.pretrained={Path(__file__).parents[1] / 'golden' / 'folders' / family}"]
        recipe = read_recipe(path, given)
        assert isinstance(recipe, Recipe)
        assert re.search(r"regard train recipes/" + path.name, path.read_text())
