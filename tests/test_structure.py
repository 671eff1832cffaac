from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from regard.errors import InputError
from regard.structure import coerced, finite, from_mapping, renamed


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    name: Literal["adam", "sgd"] = "adam"
    betas: tuple[float, float] = (0.9, 0.98)


@dataclass(frozen=True, kw_only=True)
class Settings:
    steps: int
    rate: float = 0.1
    note: str | None = None
    optimizer: Optimizer = field(default_factory=Optimizer)
    extra: Optimizer | None = None
    sizes: tuple[int, ...] = ()
    anything: Any = None
    others: dict[str, Optimizer] | None = None


def test_values_become_fields_nested_ones_too():
    settings = from_mapping(
        Settings,
        {
            "steps": 3,
            "rate": 1,
            "note": None,
            "optimizer": {"name": "sgd", "betas": [0, 1]},
            "extra": {"name": "adam"},
            "sizes": [1, 2, 3],
            "anything": {"left": ["as", "it", "is"]},
        },
        "recipe.yaml",
    )
    assert settings == Settings(
        steps=3,
        rate=1.0,
        optimizer=Optimizer(name="sgd", betas=(0.0, 1.0)),
        extra=Optimizer(),
        sizes=(1, 2, 3),
        anything={"left": ["as", "it", "is"]},
    )
    assert isinstance(settings.rate, float)


def test_a_mapping_of_dataclasses_by_name():
    settings = from_mapping(Settings, {"steps": 3, "others": {"slow": {"name": "sgd"}, "fast": {}}}, "recipe.yaml")
    assert settings.others == {"slow": Optimizer(name="sgd"), "fast": Optimizer()}
    assert from_mapping(Settings, {"steps": 3, "others": None}, "recipe.yaml").others is None


def test_what_is_left_out_keeps_its_default():
    assert from_mapping(Settings, {"steps": 3}, "recipe.yaml") == Settings(steps=3)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "recipe.yaml: missing steps"),
        ("steps", "recipe.yaml is 'steps'; it must be a mapping of settings"),
        ([["steps", 3]], "recipe.yaml is [['steps', 3]]; it must be a mapping of settings"),
        ({"steps": 3, "optimzer": {}}, "recipe.yaml: unknown key 'optimzer'; did you mean 'optimizer'?"),
        (
            {"steps": 3, "optimizer": {"nam": "adam"}},
            "recipe.yaml.optimizer: unknown key 'nam'; did you mean 'name'?",
        ),
        ({"steps": "three"}, "recipe.yaml.steps is 'three'; it must be a whole number"),
        ({"steps": 3.0}, "recipe.yaml.steps is 3.0; it must be a whole number"),
        ({"steps": True}, "recipe.yaml.steps is True; it must be a whole number"),
        ({"steps": None}, "recipe.yaml.steps is None; it must be a whole number"),
        ({"steps": 3, "rate": "fast"}, "recipe.yaml.rate is 'fast'; it must be a number"),
        ({"steps": 3, "rate": False}, "recipe.yaml.rate is False; it must be a number"),
        ({"steps": 3, "note": 4}, "recipe.yaml.note is 4; it must be text or null"),
        ({"steps": 3, "optimizer": "adam"}, "recipe.yaml.optimizer is 'adam'; it must be a mapping of settings"),
        ({"steps": 3, "optimizer": {"name": "adamw"}}, "recipe.yaml.optimizer.name is 'adamw'; choose 'adam' or 'sgd'"),
        ({"steps": 3, "extra": {"name": "adamw"}}, "recipe.yaml.extra.name is 'adamw'; choose 'adam' or 'sgd'"),
        ({"steps": 3, "optimizer": {"betas": [0.9]}}, "recipe.yaml.optimizer.betas is [0.9]; it must be a list of 2"),
        ({"steps": 3, "sizes": [1, "two"]}, "recipe.yaml.sizes is 'two'; it must be a whole number"),
        ({"steps": 3, "sizes": 1}, "recipe.yaml.sizes is 1; it must be a list"),
        (
            {"steps": 3, "others": {"slow": {"nam": "adam"}}},
            "recipe.yaml.others.slow: unknown key 'nam'; did you mean 'name'?",
        ),
        ({"steps": 3, "others": {"slow": 3}}, "recipe.yaml.others.slow is 3; it must be a mapping of settings"),
        ({"steps": 3, "others": {False: {}}}, "recipe.yaml.others: the key False is not text; put it in quotes"),
        ({"steps": 3, "others": 3}, "recipe.yaml.others is 3; it must be a mapping or null"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_place(values, message):
    with pytest.raises(InputError) as caught:
        from_mapping(Settings, values, "recipe.yaml")
    assert str(caught.value).startswith(message)


def test_yaml_reads_an_exponent_without_a_point_as_text():
    assert coerced("1e-3", float, "rate") == 0.001


def test_a_dataclass_already_made_is_taken_as_it_is():
    optimizer = Optimizer(name="sgd")
    assert coerced(optimizer, Optimizer, "optimizer") is optimizer
    assert coerced(optimizer, Optimizer | None, "optimizer") is optimizer
    assert coerced(None, Optimizer | None, "optimizer") is None


@pytest.mark.parametrize("hint", [str, int | str | None])
def test_a_name_that_yaml_reads_as_true_says_to_quote_it(hint):
    with pytest.raises(InputError, match=r"data\.label is True; .*put such a name in quotes"):
        coerced(True, hint, "data.label")


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -float("inf"), "inf", "nan", "1e999", 10**400])
@pytest.mark.parametrize("hint", [float, float | None, tuple[float, ...]])
def test_numbers_have_to_be_finite(value, hint):
    given = [value] if hint == tuple[float, ...] else value
    with pytest.raises(InputError, match=r"rate.* must be a (finite )?number"):
        coerced(given, hint, "rate")


def test_json_has_no_word_for_nan():
    assert finite({"a": [1.5, float("nan")], "b": (float("-inf"), "x", None, 3)}) == {
        "a": [1.5, None],
        "b": [None, "x", None, 3],
    }


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63), 1 << 200])
def test_a_whole_number_is_one_that_the_libraries_take(value):
    for hint in (int, int | None, tuple[int, ...]):
        with pytest.raises(InputError, match="whole numbers go up to"):
            coerced([value] if hint == tuple[int, ...] else value, hint, "seed")
    assert coerced((1 << 63) - 1, int, "seed") == (1 << 63) - 1
    with pytest.raises(InputError, match="whole numbers go up to 9,223,372,036,854,775,807"):
        coerced(value, int, "seed")


def test_a_long_value_is_not_shown_whole():
    for value, hint in (([1] * 10**6, int), ("x" * 10**6, bool), (1 << 20_000, int), (1 << 20_000, str)):
        with pytest.raises(InputError) as caught:
            coerced(value, hint, "seed")
        assert len(str(caught.value)) < 400


@renamed(deviation="init_std")
@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    init_std: float = 0.02
    width: int = 3


def test_an_old_name_of_a_field_is_read_from_files_without_a_warning(recwarn):
    assert from_mapping(Drawn, {"deviation": 0.1}, "config.json") == Drawn(init_std=0.1)
    assert not recwarn


def test_an_old_name_of_a_field_works_in_python_with_a_warning():
    with pytest.warns(DeprecationWarning, match="Drawn.deviation is called init_std"):
        drawn = Drawn(deviation=0.1)
    with pytest.warns(DeprecationWarning, match="Drawn.deviation is called init_std"):
        assert drawn.deviation == 0.1
    assert dataclasses.replace(drawn, width=4) == Drawn(init_std=0.1, width=4)


def test_a_field_under_both_its_names_is_refused():
    with pytest.raises(InputError, match="deviation is the old name of init_std, which is given too"):
        from_mapping(Drawn, {"deviation": 0.1, "init_std": 0.2}, "config.json")
    with pytest.raises(InputError, match="deviation is the old name of init_std, which is given too"):
        Drawn(deviation=0.1, init_std=0.2)
