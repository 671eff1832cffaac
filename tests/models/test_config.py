from __future__ import annotations

import pytest

from regard.errors import InputError
from regard.models import BahdanauConfig, TransformerConfig
from regard.models.config import config_from_json, config_to_json

SIZES = {"source_vocabulary": 9, "target_vocabulary": 9}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0}, "width is 0 but must be at least 1"),
        ({"decoder_layers": -1}, "decoder_layers is -1 but must be at least 1"),
        ({"heads": 5}, "heads is 5 but must be a divisor of width 512"),
        ({"width": 9, "heads": 3}, "width is 9 but must be even for sinusoidal positions"),
        (
            {"source_vocabulary": 8},
            r"sharing is 'all' but must be 'target' or 'none' for vocabularies of 8 and 9 tokens",
        ),
        ({"dropout": 1.0}, r"dropout is 1\.0 but must be in \[0, 1\)"),
        ({"attention_dropout": -0.1}, r"attention_dropout is -0\.1"),
        ({"feedforward_dropout": 2.0}, r"feedforward_dropout is 2\.0"),
        ({"alignment_layer": 6}, r"alignment_layer is 6 but must be in \[-6, 6\)"),
        ({"alignment_layer": -7}, r"alignment_layer is -7"),
        ({"start_id": 9}, r"start_id is 9 but must be in \[0, 9\)"),
        ({"padding_id": -1}, r"padding_id is -1 but must be in \[0, 9\)"),
        ({"norm": "Pre"}, "norm is 'Pre'; choose 'post' or 'pre'"),
        ({"positions": "sinusoid"}, "positions is 'sinusoid'; choose 'sinusoidal' or 'learned'"),
        ({"sharing": "some"}, "sharing is 'some'; choose 'all' or 'target' or 'none'"),
        ({"width": "512"}, "width is '512'; it must be a whole number"),
        ({"width": 512.0}, r"width is 512\.0; it must be a whole number"),
        ({"attention_bias": "yes"}, "attention_bias is 'yes'; it must be true or false"),
    ],
)
def test_a_transformer_that_cannot_be_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        TransformerConfig(**(SIZES | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_width": 0}, "hidden_width is 0 but must be at least 1"),
        ({"maxout_width": -2}, "maxout_width is -2"),
        ({"dropout": 1.5}, r"dropout is 1\.5 but must be in \[0, 1\)"),
        ({"score": "aditive"}, "score is 'aditive'; choose 'additive'"),
        ({"initialization": "none"}, "initialization is 'none'; choose 'standard' or 'paper'"),
        ({"end_id": 9}, r"end_id is 9 but must be in \[0, 9\)"),
    ],
)
def test_a_bahdanau_that_cannot_be_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        BahdanauConfig(**(SIZES | changes))


def test_an_odd_width_is_fine_with_learned_positions():
    assert TransformerConfig(**SIZES, width=9, heads=3, positions="learned").width == 9


def test_json_names_the_family_and_the_format():
    values = config_to_json(BahdanauConfig(**SIZES))
    assert values["model_type"] == "bahdanau"
    assert values["format_version"] == 1


def test_a_value_of_another_type_is_refused_with_its_place():
    values = config_to_json(TransformerConfig(**SIZES)) | {"heads": "eight"}
    with pytest.raises(InputError, match=r"config\.json\.heads is 'eight'; it must be a whole number"):
        config_from_json(TransformerConfig, values, "config.json")
