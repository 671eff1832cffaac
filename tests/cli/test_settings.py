from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from typing import Any

import pytest
import typer

from regard.cli.costs import PLAN
from regard.cli.main import app
from regard.cli.settings import DECODING, check_known, settings_in, split_settings, with_options
from regard.cli.vectors.training import VECTORS
from regard.errors import InputError
from regard.generation import GenerationSettings

BEAM = GenerationSettings(beam=5, n_best=3, coverage_penalty=0.2, maximum_length=9)
DRAW = GenerationSettings(sample=True, temperature=0.7, top_k=4, seed=2, maximum_length=9)


def test_what_is_not_given_is_the_models_own():
    assert with_options(BEAM, {"beam": None, "seed": None}) == BEAM
    assert with_options(BEAM, {"length_penalty": 1}).length_penalty == 1.0
    assert with_options(BEAM, {"length_penalty": 1}).beam == 5


def test_sampling_drops_the_models_own_search_and_the_other_way_round():
    sampled = with_options(BEAM, {"sample": True, "top_p": 0.9})
    assert (sampled.beam, sampled.coverage_penalty, sampled.top_p) == (1, 0.0, 0.9)
    assert (sampled.n_best, sampled.maximum_length) == (3, 9)
    searched = with_options(DRAW, {"sample": False, "beam": 4})
    assert (searched.sample, searched.temperature, searched.top_k, searched.beam) == (False, 1.0, None, 4)


def test_a_narrower_beam_asks_for_fewer_answers():
    assert with_options(BEAM, {"beam": 2}).n_best == 2
    assert with_options(BEAM, {"beam": 8}).n_best == 3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sample": True, "beam": 3}, "sampling keeps no beam"),
        ({"beam": 2, "n_best": 3}, "more than the beam of 2"),
        ({"temperature": 2.0}, "only matters when sampling"),
        ({"beam": "wide"}, "generation.beam is 'wide'; it must be a whole number"),
        ({"beem": 2}, "did you mean 'beam'"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, sentence):
    with pytest.raises(InputError, match=sentence):
        with_options(GenerationSettings(), options)


def test_words_with_a_setting_are_told_from_files():
    words = ["a.en", "beam=5", "./beam=5", "a.de", "sample=true", "hub:x/y@train=1", "top_k=null"]
    assert split_settings(words) == (
        ["a.en", "./beam=5", "a.de", "hub:x/y@train=1"],
        {"beam": 5, "sample": True, "top_k": None},
    )


def test_a_wrong_setting_is_refused():
    with pytest.raises(InputError, match="is not YAML"):
        split_settings(["a.tsv", "beam=["])
    check_known({"beam": 5, "sample": True})
    with pytest.raises(InputError, match="did you mean 'beam'"):
        check_known({"length_penalty": 1, "beem": 5})


@pytest.mark.parametrize("settings", [DECODING, VECTORS, PLAN], ids=lambda each: each.place)
def test_options_are_the_fields_of_the_class_as_it_is_imported(settings):
    module, _, name = settings.place.partition(":")
    kind = getattr(importlib.import_module(module), name)
    if dataclasses.is_dataclass(kind):
        fields: dict[str, Any] = {part.name: part for part in dataclasses.fields(kind)}
    else:
        parameters = inspect.signature(kind).parameters.values()
        fields = {part.name: part for part in parameters if part.kind is inspect.Parameter.KEYWORD_ONLY}
    found = settings_in(settings.place)
    assert list(found) == list(fields)
    assert set(settings.names) <= set(fields)
    for part in settings.parameters():
        option = part.annotation.__metadata__[0]
        assert option.help[0].isupper() or part.name in ("method", "device")  # names come first in these
        assert re.search(r"\.(  \[default: .+\])?$", option.help)
        value = fields[part.name].default
        if part.name not in settings.own and type(value) in (int, float, bool, str):
            assert found[part.name].type is type(value)


def test_commands_that_write_have_the_same_options_of_decoding():
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    options = set(DECODING.names)

    def options_of(command: str) -> set[str]:
        return {each.name for each in commands[command].params} & options

    assert options_of("translate") == options_of("caption") == options
    assert options_of("generate") == options - {"coverage_penalty"}
    assert options_of("summarize") == options - {"n_best"}
    assert options_of("compose") == options - {"beam", "n_best", "length_penalty", "coverage_penalty"}
    assert options_of("evaluate") == {"beam", "length_penalty"}
