"""The `data` section of a recipe: one kind of data at a time, languages that can be told apart, builtin pairs for judges."""

from __future__ import annotations

import pytest

from regard.data.sequences import Sequences
from regard.errors import InputError
from regard.structure import from_mapping
from regard.tasks.translation_data import DatesData, SequencesData, TranslationData, builtin_pairs

FILES = {"train": "a.tsv"}


def section(**values) -> TranslationData:
    return from_mapping(TranslationData, values, "recipe.yaml.data")


def test_a_section_from_yaml():
    data = section(sequences={"kind": "sorting", "symbols": 9, "longest": 14})
    assert data.builtin == SequencesData(kind="sorting", symbols=9, longest=14)
    assert data.languages == ()
    assert section(dates={}).builtin == DatesData()
    assert section(train=["a.en", "a.de"]).builtin is None


def test_languages_in_the_order_of_the_recipe():
    data = section(targets={"fr": {"train": ["a.en", "a.fr"]}, "de": {"train": "a.tsv", "target": 2}})
    assert data.languages == ("fr", "de")
    assert data.targets is not None
    assert data.targets["fr"].train == ("a.en", "a.fr")
    assert data.targets["de"].target == 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"sequences": {}, "train": "a.tsv"},
            r"data\.train is 'a\.tsv' but must be left out if data\.sequences is given",
        ),
        (
            {"dates": {}, "train": "a.tsv"},
            r"data\.train .* left out if data\.dates is given; choose builtin dates or your own",
        ),
        ({"dates": {}, "validation": "a.tsv"}, r"data\.validation .* left out if data\.dates is given"),
        ({"dates": {}, "sequences": {}}, r"data\.dates and data\.sequences are both given"),
        ({"sequences": {"kind": "mirror"}}, r"data\.sequences\.kind is 'mirror'; choose 'copy' or 'reversal'"),
        ({"sequences": {"lenght": 3}}, r"data\.sequences: unknown key 'lenght'"),
        ({"sequences": {"shortest": 13}}, "lengths from 13 to 12 cannot be sampled"),
        ({"sequences": {"size": 0}}, r"data\.sequences\.size is 0 but must be above 0"),
        ({"targets": {"de": FILES}}, r"data\.targets is \['de'\] but must be two languages or more"),
        ({"targets": {}}, "two languages or more"),
        ({"targets": {"de": FILES, "f r": FILES}}, "'f r' but must be letters, digits"),
        ({"targets": {"de": FILES, "<fr>": FILES}}, "'<fr>' but must be letters, digits"),
        ({"targets": {"de": FILES, False: FILES}}, r"data\.targets: the key False is not text; put it in quotes"),
        (
            {"targets": {"de": FILES, "fr": {"trian": "a"}}},
            r"data\.targets\.fr: unknown key 'trian'; did you mean 'train'",
        ),
        ({"targets": {"de": FILES, "fr": "a.tsv"}}, r"data\.targets\.fr is 'a\.tsv'; it must be a mapping"),
        ({"targets": "de"}, r"data\.targets is 'de'"),
        (
            {"targets": {"de": FILES, "fr": {"targets": {"a": FILES, "b": FILES}}}},
            r"data\.targets\.fr\.targets is given, but a language has no target languages",
        ),
        (
            {"targets": {"de": FILES, "fr": FILES}, "on_error": "stop"},
            r"data\.on_error and data\.targets are both given; set it for each language, such as data\.targets\.de\.on_error",
        ),
    ],
)
def test_what_does_not_go_together_is_one_sentence(values, message):
    with pytest.raises(InputError, match=message):
        section(**values)


def test_pairs_of_builtin_data_for_a_judge():
    trained = {"sequences": {"kind": "recall", "symbols": 9, "shortest": 5, "longest": 5, "size": 100}}
    longer = {"sequences": trained["sequences"] | {"shortest": 30, "longest": 30}}
    pairs = builtin_pairs(longer, "test", 25, seed=3)
    assert {len(source.split()) for source, _ in pairs} == {31}
    assert pairs == [
        tuple(e) for e in Sequences("test", kind="recall", symbols=9, shortest=30, longest=30, size=25, seed=3)
    ]
    assert builtin_pairs(section(**longer), "test", 25, seed=3) == pairs
    assert builtin_pairs(longer, "test", 25) != pairs


def test_a_judge_may_ask_for_less_than_training_would():
    """Only the pairs asked for have to exist, not the 20,000 of the default size."""
    few = {"sequences": {"kind": "copy", "symbols": 4, "shortest": 3, "longest": 3}}
    assert len(builtin_pairs(few, "test", 6)) == 6
    with pytest.raises(InputError, match="only about 6 different sources"):
        builtin_pairs(few, "test", 7)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"train": "a.tsv"}, "names no builtin data"),
        ({}, "names no builtin data"),
        ({"sequences": {"kind": "mirror"}}, r"data\.sequences\.kind"),
        ({"sequence": {}}, "did you mean 'sequences'"),
    ],
)
def test_a_judge_is_told_what_is_wrong(data, message):
    with pytest.raises(InputError, match=message):
        builtin_pairs(data, "test", 5)
