from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.claims.comparison import Arm, arms_of, grid_arms, read_grid, split_values

SIMPLE = st.one_of(
    st.integers(-99, 99),
    st.booleans(),
    st.none(),
    st.text("abcxyz", min_size=1, max_size=5),
    st.lists(st.integers(0, 9), max_size=3),
    st.dictionaries(st.sampled_from(["name", "width"]), st.integers(0, 9), max_size=2),
)


@given(values=st.lists(SIMPLE, min_size=2, max_size=5))
@settings(max_examples=60, deadline=None)
def test_values_written_as_yaml_with_commas_between_are_read_back(values):
    text = ",".join(yaml.safe_dump(value, default_flow_style=True).removesuffix("\n...\n").strip() for value in values)
    overrides, grid = read_grid([f"model.x={text}"])
    assert overrides == []
    assert grid == {"model.x": values}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("dot,general", ["dot", "general"]),
        ("[a, b],[c]", ["[a, b]", "[c]"]),
        ("{name: cho, cell: tanh},{name: luong}", ["{name: cho, cell: tanh}", "{name: luong}"]),
        ("'a,b',c", ["'a,b'", "c"]),
        ("don't,do", ["don't", "do"]),
        ("one", ["one"]),
        ("[[1, 2], [3]],[4]", ["[[1, 2], [3]]", "[4]"]),
    ],
)
def test_commas_inside_brackets_and_quotes_part_nothing(text, parts):
    assert split_values(text) == parts


def test_every_combination_is_an_arm():
    arms = grid_arms({"model.score": ["dot", "general"], "model.width": [8, 16]})
    assert [arm.name for arm in arms] == [
        "score=dot,width=8",
        "score=dot,width=16",
        "score=general,width=8",
        "score=general,width=16",
    ]
    assert arms[2].settings == {"model.score": "general", "model.width": 8}


def test_names_are_those_of_folders_and_all_different():
    arms = grid_arms({"data.train": ["a/b.tsv", "a:b.tsv"], "model": [{"name": "cho", "cell": "gru"}, None]})
    names = [arm.name for arm in arms]
    assert len({name.casefold() for name in names}) == 4
    assert names[0] == "train=a-b.tsv,model=cho"
    assert not any(set(name) & set("/\\:*?") for name in names)
    long = grid_arms({"model.x": ["a" * 200 + "b", "a" * 200 + "c"]})
    assert len({arm.name for arm in long}) == 2
    both = grid_arms({"model.width": [1], "other.width": [2]})
    assert both[0].name == "model.width=1,other.width=2"


def test_lists_and_mappings_say_the_same():
    listed = arms_of({"a": ["model.width=8", "model.names=[x, y]"]}, "arms")
    mapped = arms_of({"a": {"model.width": 8, "model.names": ["x", "y"]}}, "arms")
    assert listed == mapped
    assert arms_of({"a": mapped[0].to_mapping()}, "arms") == mapped


def test_settings_are_applied_to_a_copy():
    recipe = {"model": {"name": "cho", "width": 4}, "data": {"train": ["a", "b"]}}
    arm = Arm(name="other", settings={"model": {"name": "luong"}, "data.train": ["c"]})
    assert arm.applied(recipe) == {"model": {"name": "luong"}, "data": {"train": ["c"]}}
    assert recipe["model"]["name"] == "cho"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Arm(name="a/b"), "cannot have the name 'a/b'"),
        (lambda: Arm(name="."), "cannot have the name"),
        (lambda: Arm(name="x", settings={"model.width": 2}, trains="y"), r"changes model\.width"),
        (lambda: arms_of({"a": {"trains": "bb"}, "b": None}, "arms"), "uses the runs of 'bb'.*'b'"),
        (lambda: arms_of({"a": None, "A": None}, "arms"), "two arms have the name"),
        (lambda: arms_of([1], "arms"), "arms: must name"),
        (lambda: arms_of({"a": [1]}, "arms"), r"arms\.a: must be a list of key=value"),
        (lambda: read_grid(["model.x=a,,b"]), "nothing between two commas"),
        (lambda: read_grid(["model.x=a,b", "model.x=c,d"]), "given twice"),
        (lambda: read_grid(["model.x"]), "no override"),
        (lambda: grid_arms({"model.x": "ab"}), "give a list of values"),
    ],
)
def test_mistakes_are_one_sentence(call, sentence):
    with pytest.raises(regard.InputError, match=sentence):
        call()
