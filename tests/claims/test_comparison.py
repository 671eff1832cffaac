from __future__ import annotations

import pytest
import yaml

import regard
from regard.claims.comparison import read_budget, read_comparison, with_budget


def test_a_recipe_and_a_grid(small):
    found = read_comparison(
        small(epochs=2, patience=3), ["model.dropout=0"], grid={"model.norm": ["pre", "post"]}, budget="tokens=2e3"
    )
    assert found.seeds == (1, 2, 3)
    assert [measure.name for measure in found.measures] == ["loss", "perplexity", "token_accuracy"]
    recipes = [found.recipe_of(arm, 7) for arm in found.arms]
    assert [recipe.model["norm"] for recipe in recipes] == ["pre", "post"]
    for recipe in recipes:
        assert (recipe.seed, recipe.model["dropout"]) == (7, 0)
        limits = recipe.training
        assert (limits.steps, limits.epochs, limits.tokens, limits.patience) == (None, None, 2000.0, None)


def test_what_training_decodes_is_measured_without_asking(small):
    found = read_comparison(small(evaluate_generated=5), grid={"model.norm": ["pre", "post"]})
    assert [measure.name for measure in found.measures][-2:] == ["exact_match", "bleu"]


def test_a_file_with_all_of_it_and_what_is_said_on_top(small, tmp_path):
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(small()))
    values = {
        "recipe": "base.yaml",
        "arms": {"small": ["model.width=4"], "other": {"model": {"name": "cho", "hidden_width": 5}}},
        "seeds": [4, 8],
        "budget": {"steps": 9},
        "measures": ["loss", "steps"],
    }
    path = tmp_path / "whole.yaml"
    path.write_text(yaml.safe_dump(values))
    found = read_comparison(path)
    assert found.seeds == (4, 8)
    assert found.recipe_of(found.arm("other"), 4).model == {"name": "cho", "hidden_width": 5}
    assert found.recipe_of(found.arm("small"), 4).training.steps == 9
    assert read_comparison(path, seeds=1, measures=["steps"]).seeds == (1,)
    (tmp_path / "saved.yaml").write_text(found.to_yaml())
    assert read_comparison(tmp_path / "saved.yaml") == found


def test_arms_are_crossed_with_a_grid(small):
    found = read_comparison(
        small(),
        arms={"pre": ["model.norm=pre"], "beam": {"trains": "pre", "generation.beam": 2}},
        grid={"model.width": [4, 8]},
    )
    assert [arm.name for arm in found.arms] == ["pre,width=4", "pre,width=8", "beam,width=4", "beam,width=8"]
    last = found.recipe_of(found.arm("beam,width=8"), 1)
    assert (last.model["width"], last.model["norm"], last.generation.beam) == (8, "pre", 2)


def test_a_budget_is_one_limit():
    assert read_budget("steps=500") == {"steps": 500}
    assert read_budget({"seconds": 60}) == {"seconds": 60.0}
    assert with_budget({"training": {"epochs": 2, "warmup": 5}}, {"tokens": 9.0}) == {
        "training": {"warmup": 5, "tokens": 9.0}
    }
    for wrong, sentence in [
        ("step=5", "did you mean 'steps'"),
        ("steps=2.5", "whole number"),
        ("seconds=long", "a number"),
        ("steps", "no override"),
        ({"steps": 1, "seconds": 2}, "one limit"),
    ]:
        with pytest.raises(regard.InputError, match=sentence):
            read_budget(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "nothing to compare"),
        ({"grid": {"model.norm": ["pre", "pst"]}}, r"arm 'norm=pst': .*norm is 'pst'"),
        ({"grid": {"modle.norm": ["pre", "post"]}}, r"arm 'norm=pre': .*'modle'; did you mean 'model'"),
        ({"grid": {"model.norm": ["pre"]}, "seeds": 0}, "seeds is 0"),
        ({"grid": {"model.norm": ["pre"]}, "seeds": [1, 1]}, "none twice"),
        ({"grid": {"model.norm": ["pre"]}, "seeds": ["a"]}, "seeds is"),
        (
            {"grid": {"model.norm": ["pre"]}, "measures": [{"kind": "validation", "metric": "bleu"}]},
            "set training.evaluate_generated",
        ),
        (
            {"grid": {"model.norm": ["pre"]}, "measures": [{"kind": "decoded", "metric": "bleu", "generation": {"bean": 2}}]},
            "did you mean 'beam'",
        ),
        (
            {"grid": {"model.norm": ["pre"]}, "measures": [{"kind": "decoded", "metric": "bleu", "data": {"dats": 1}}]},
            "unknown key 'dats'",
        ),
        (
            {"grid": {"model.norm": ["pre"]}, "measures": [{"kind": "decoded", "metric": "bleu", "split": "test"}]},
            "500 are needed",
        ),
        ({"grid": {"model.norm": ["pre"]}, "measures": [{"kind": "decoded", "metric": "bleu", "to": "de"}]}, "to is 'de'"),
    ],
)  # fmt: skip
def test_mistakes_are_told_before_anything_is_trained(changes, sentence, small):
    with pytest.raises(regard.InputError, match=sentence):
        read_comparison(small(), **changes)


def test_a_comparison_with_an_unknown_section(small, tmp_path):
    path = tmp_path / "whole.yaml"
    path.write_text(yaml.safe_dump({"recipe": small(), "arm": {}}))
    with pytest.raises(regard.InputError, match="unknown key 'arm'; did you mean 'arms'"):
        read_comparison(path)
    with pytest.raises(regard.InputError, match="no such recipe"):
        read_comparison(tmp_path / "nothing.yaml")
    with pytest.raises(regard.InputError, match="must be a recipe's settings"):
        read_comparison({"recipe": 3, "arms": {"a": None}})
