"""The `model` section of a recipe that starts from a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.checkpoints import parameters_of, write_model
from regard.errors import InputError
from regard.models import MODELS, BertConfig, DistilBertConfig
from regard.tasks.spec import TASKS
from regard.training.recipe import check_section, config_of, folder_of, resolved

SIZES: dict[str, Any] = {"vocabulary": 20, "width": 8, "heads": 2, "feedforward_width": 6, "layers": 3}
KIND = TASKS["classification"]
FILLED: dict[str, Any] = {"vocabulary": 15, "padding_id": 1, "head": "sequence", "outputs": 4}


@pytest.fixture
def folder(seeded, tmp_path) -> Path:
    """Of a masked language model, some of whose settings are not the usual ones."""
    config = BertConfig(
        **SIZES, head="masked", dropout=0.2, activation="relu", maximum_positions=30, pruned_heads=((0, 1), (2, 0))
    )
    return written(config, tmp_path / "start")


def written(config: Any, place: Path) -> Path:
    place.mkdir()
    model = MODELS[config.model_type].model(config)
    write_model(place, config, parameters_of(model), task={}, recipe={}, metrics={})
    return place


def test_the_family_is_that_of_the_trained_model(folder):
    assert resolved({"pretrained": str(folder)}, "whole_text") == {"name": "bert", "pretrained": str(folder)}
    assert resolved({"pretrained": str(folder), "name": "distilbert"}, "whole_text")["name"] == "distilbert"
    assert resolved({"name": "bert", "width": 8}, "whole_text") == {"name": "bert", "width": 8}


def test_sizes_are_those_of_the_trained_model_and_the_head_is_the_tasks(folder):
    config = config_of({"name": "bert", "pretrained": str(folder)}, FILLED)
    assert (config.width, config.layers, config.activation, config.maximum_positions) == (8, 3, "relu", 30)
    assert (config.head, config.outputs, config.padding_id) == ("sequence", 4, 1)
    assert config.pruned_heads == ((0, 1), (2, 0))
    assert config.vocabulary == 20, "a table with more rows than the tokenizer needs is kept"
    assert config.head_dropout is None, "not the trained head's"


def test_what_the_section_says_comes_first(folder):
    config = config_of({"name": "bert", "pretrained": str(folder), "dropout": 0.0, "head_dropout": 0.5}, FILLED)
    assert (config.dropout, config.head_dropout) == (0.0, 0.5)


@pytest.mark.parametrize(
    ("layers", "pruned"),
    [([0, 2], ((0, 1), (1, 0))), ([2], ((0, 0),)), ([1], ()), ([2, 0, 2], ((0, 0), (1, 1), (2, 0)))],
)
def test_layers_are_counted_and_their_pruned_heads_go_with_them(layers, pruned, folder):
    config = config_of({"name": "bert", "pretrained": str(folder), "pretrained_layers": layers}, FILLED)
    assert config.layers == len(layers)
    assert config.pruned_heads == pruned


def test_another_family_of_the_same_sizes(folder):
    config = config_of({"name": "distilbert", "pretrained": str(folder), "pretrained_layers": [0, 2]}, FILLED)
    assert isinstance(config, DistilBertConfig)
    assert (config.width, config.layers, config.dropout, config.head_dropout) == (8, 2, 0.2, 0.2)


def test_a_run_gives_its_best_checkpoint(folder, tmp_path):
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    folder.rename(run / "checkpoints" / "step-00000005")
    (run / "checkpoints.json").write_text('{"best": "step-00000005", "last": "step-00000009"}')
    assert folder_of(str(run)) == run / "checkpoints" / "step-00000005"


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"pretrained": 3}, "model.pretrained is 3; give the folder of a model"),
        ({"pretrained": "./nowhere"}, r"nowhere: no such folder"),
        ({"pretrained_layers": [0]}, "model.pretrained_layers is given without model.pretrained"),
    ],
)
def test_a_start_that_is_none_is_refused(section, message):
    with pytest.raises(InputError, match=message):
        resolved(section, "whole_text")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "berth"}, r"model.name is 'berth'; did you mean 'bert'\?"),
        ({"name": "transformer"}, "model.name is 'transformer', which is no model for task classification"),
        ({"widht": 3}, "model: unknown key 'widht'; did you mean 'width'"),
        ({"vocabulary": 9}, "model: unknown key 'vocabulary'"),
        ({"head": "masked"}, "model: unknown key 'head'"),
        ({"heads": 3}, "heads is 3 but must be a divisor of width 8"),
        ({"dropout": "much"}, "model.dropout is 'much'; it must be a number"),
    ],
)
def test_a_section_that_cannot_be_is_refused_before_any_data_is_read(changes, message, folder):
    section = {"name": "bert", "pretrained": str(folder), **changes}
    with pytest.raises(InputError, match=message):
        check_section(section, "classification", KIND)


def test_a_tokenizer_of_more_tokens_than_the_table_has_is_refused(folder):
    with pytest.raises(InputError, match="has 20 tokens and the tokenizer 21; take the folder's own, by leaving"):
        config_of({"name": "bert", "pretrained": str(folder)}, {**FILLED, "vocabulary": 21})


def test_without_a_start_the_section_is_the_config():
    config = config_of({"name": "bert", "width": 8, "heads": 2, "layers": 1}, FILLED)
    assert (config.vocabulary, config.width, config.head) == (15, 8, "sequence")
