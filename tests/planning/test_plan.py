"""Plans of published models against what was published of them, and of recipes against their runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.errors import InputError
from regard.models import MODELS
from regard.planning import DEVICES, PUBLISHED, here, plan, published, reading
from regard.planning.plan import rows_of
from regard.training.recipe import read_recipe

RECIPES = Path(__file__).parents[2] / "recipes"

# Brown et al. 2020, table D.1: parameters in millions, and floating-point operations.
TABLE = {
    "gpt3-125m": (125, 2.25e20),
    "gpt3-350m": (356, 6.41e20),
    "gpt3-760m": (760, 1.37e21),
    "gpt3-1.3b": (1320, 2.38e21),
    "gpt3-2.7b": (2650, 4.77e21),
    "gpt3-6.7b": (6660, 1.20e22),
    "gpt3-13b": (12_850, 2.31e22),
    "gpt3-175b": (174_600, 3.14e23),
}


@pytest.mark.parametrize("name", TABLE)
def test_gpt_3_is_what_its_paper_says(name):
    millions, operations = TABLE[name]
    found = plan(name)
    assert found.parameters.total / 1e6 == pytest.approx(millions, rel=0.005)
    assert found.work.tokens == pytest.approx(300e9)
    assert found.rule == pytest.approx(operations, rel=0.005)


@pytest.mark.parametrize(
    ("name", "parameters", "tokens"),
    [
        ("pythia-70m", 70_426_624, 299_892_736_000),
        ("pythia-12b", 11_846_072_320, 299_892_736_000),
        ("gpt-neox-20b", 20_554_567_680, 472_473_600_000),
        ("llama2-7b", 6_738_415_616, 2e12),
        ("llama2-70b", 68_976_648_192, 2e12),
        ("smollm2-135m", 134_515_008, None),
        ("mistral-7b", 7_241_732_096, None),
    ],
)
def test_rotary_decoders_are_as_large_and_read_as_much_as_published(name, parameters, tokens):
    found = plan(name, tokens=None if tokens else 1e9)
    assert found.parameters.total == parameters
    assert found.work.tokens == pytest.approx(tokens or 1e9)


def test_grouped_keys_take_less_memory_and_fewer_operations():
    def planned(key_heads: int) -> Any:
        model = {"name": "llama", "width": 64, "heads": 8, "key_heads": key_heads, "feedforward_width": 96, "layers": 2}
        recipe = {
            "task": "language_modelling",
            "model": model,
            "data": {"builtin": "python_docs", "length": 64},
            "tokenizer": {"kind": "byte_bpe", "size": 300},
            "training": {"steps": 10, "batch_tokens": 1024, "precision": "float32"},
        }
        return plan(recipe, device="t4", read=False)

    whole, grouped = planned(8), planned(2)
    kept = [each.memory[0].parts["activations"] for each in (whole, grouped)]
    # Keys and values are a quarter of what they were: of 1024 tokens in 2 blocks, 2 x 6 heads of 8 numbers in float32 fewer.
    assert kept[0] - kept[1] == 2 * 1024 * 2 * 6 * 8 * 4
    assert whole.parameters.total - grouped.parameters.total == 2 * 2 * 64 * 6 * 8
    assert whole.operations.parts["attention weights"] == grouped.operations.parts["attention weights"]
    assert whole.operations.parts["attention projections"] > grouped.operations.parts["attention projections"]


def test_gpt_3_costs_what_was_estimated_in_2020():
    """Li 2020 (Lambda): 355 years of one V100 at 28 teraflops a second, 4.6 million dollars at 1.5 an hour."""
    found = plan("gpt3-175b", device="v100-32", utilisation=28e12 / 125e12, price=1.5)
    assert found.rule_cost.device_years == pytest.approx(355, rel=0.01)
    assert found.rule_cost.money == pytest.approx(4.6e6, rel=0.02)
    assert found.cost.money == pytest.approx(4.6e6, rel=0.05)  # attention's products, which the rule leaves out
    assert found.operations.parts["attention weights"] / found.operations.forward == pytest.approx(0.027, abs=0.001)
    assert not found.fitting


def test_more_devices_take_less_time_and_the_same_money():
    one, many = (plan("bert-base", count=count, price=2.0, watts=400) for count in (1, 16))
    assert one.cost.seconds == pytest.approx(16 * many.cost.seconds)
    assert one.cost.money == pytest.approx(many.cost.money)
    assert many.cost.kilowatt_hours == pytest.approx(many.cost.device_hours * 0.4)
    assert len(one.memory) == 2
    assert len(many.memory) == 4


def test_activation_checkpointing_costs_up_to_a_third_more_time_and_less_memory():
    plain, again = (plan("gpt3-1.3b", device="h100-80", activation_checkpointing=choice) for choice in (False, True))
    assert 1.25 < again.cost.seconds / plain.cost.seconds <= 4 / 3
    without, with_ = plain.memory
    assert with_.parts["activations"] < without.parts["activations"] / 5


def test_a_measured_speed_takes_the_place_of_a_share_of_the_peak():
    found = plan("bert-base", tokens_per_second=1e6, price=3.6)
    assert found.cost.seconds == pytest.approx(found.work.tokens / 1e6)
    assert found.utilisation is None


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_model_can_be_planned(name):
    known = published(name)
    found = plan(name, tokens=None if known.stages else 1e9)
    assert found.config.model_type in MODELS
    assert known.source
    if known.stages:
        whole = sum(stage.updates * stage.tokens for stage in known.stages)
        assert found.work.tokens == pytest.approx(whole)
    assert known.work(tokens=1e9, length=64, rows=1).tokens == pytest.approx(1e9)
    assert json.loads(json.dumps(found.to_mapping()))["parameters"]["total"] == found.parameters.total
    assert rows_of(found)


def test_devices_say_where_their_numbers_are_from():
    for device in DEVICES.values():
        assert device.source
        assert device.peak["float32"] <= max(device.peak.values())
        assert device.memory >= 16 * 2**30


def test_this_machine_is_measured():
    found = here("cpu", size=128, seconds=0.01)
    assert found.processor
    assert found.peak["float32"] > 1e8
    assert found.memory > 2**28
    assert found.bandwidth > 1e7


SMALL: dict[str, Any] = {
    "model": {
        "name": "transformer",
        "width": 16,
        "heads": 2,
        "feedforward_width": 32,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "dropout": 0.0,
    },
    "data": {"sequences": {"kind": "copy", "size": 120, "validation_size": 10, "shortest": 3, "longest": 9}},
    "tokenizer": {"kind": "word", "size": 200},
    "training": {"epochs": 3, "batch_tokens": 300, "accumulate": 2, "precision": "float32", "evaluate_every": 1000},
}


def test_a_recipe_whose_data_is_here_is_planned_as_it_runs(tmp_path):
    class Watch:
        def started(self, model, progress, total_steps):
            self.parameters, self.steps = sum(p.numel() for p in model.parameters()), total_steps

        def stepped(self, progress, tokens_per_second):
            """Nothing."""

        def logged(self, event):
            """Nothing."""

        def ended(self, progress):
            """Nothing."""

    watch = Watch()
    regard.train(SMALL, output=tmp_path / "run", callbacks=[watch])
    found = regard.plan(SMALL, device="t4")
    assert found.parameters.total == watch.parameters
    assert found.work.updates == pytest.approx(watch.steps, abs=1)
    assert found.format == "float32"
    assert len(found.work.shapes) > 1
    assert found.work.largest.tokens <= 300


def test_of_very_many_builtin_examples_a_share_is_made_and_all_are_counted(monkeypatch):
    def planned(size: int, **settings: Any) -> Any:
        data = {"sequences": SMALL["data"]["sequences"] | {"size": size, **settings}}
        return regard.plan(SMALL | {"data": data}, device="t4").work

    exact = planned(1200)
    monkeypatch.setattr(reading, "MOST_MADE", 300)
    found = planned(1200)
    assert found.tokens == pytest.approx(exact.tokens, rel=0.03)
    assert found.updates == pytest.approx(exact.updates, rel=0.05)
    assert "1,200 examples, by 300 of them" in found.source
    assert planned(300) == planned(300, validation_size=10**8)
    many = planned(10**8)
    assert many.updates / found.updates == pytest.approx(10**8 / 1200, rel=1e-3)
    assert many.source.startswith("its data: 100,000,000 examples, by 300 of them")


def test_without_reading_it_is_planned_by_its_settings():
    recipe = str(RECIPES / "gpt-small.yaml")
    found = plan(recipe, ["training.steps=100", "training.epochs=null"], read=False)
    assert found.work.updates == 100
    assert found.work.tokens == 100 * 4096
    assert found.config.vocabulary == read_recipe(recipe).tokenizer.size
    assert found.work.largest.rows == 16


def test_frozen_parameters_have_no_gradient_and_no_moments():
    whole, part = (plan(SMALL, [f"training.frozen={names}"], read=True) for names in ("[]", "[encoder]"))
    assert part.parameters.trained < whole.parameters.trained == whole.parameters.total
    for name in ("gradients", "optimizer"):
        assert part.memory[0].parts[name] < whole.memory[0].parts[name]


def test_moments_are_planned_for_the_optimizer_of_the_recipe():
    found = {
        name: plan(SMALL, [f"training.optimizer={name}", f"training.momentum={momentum}"], count=2, read=True)
        for name, momentum in (("adam", 0), ("sgd", 0.9), ("rmsprop", 0), ("adafactor", 0))
    }
    kept = {name: planned.memory[0].parts["optimizer"] for name, planned in found.items()}
    assert kept["sgd"] == kept["rmsprop"] == kept["adam"] / 2
    assert 0 < kept["adafactor"] < kept["adam"] / 10
    assert {memory.setup.parallel for memory in found["adafactor"].memory} == {"ddp"}


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        ("gpt3-175", {}, "did you mean 'gpt3-175b'"),
        ("gpt2-xl", {}, "--tokens 300e9"),
        ("nowhere.yaml", {}, "no such recipe"),
        ("bert-base", {"device": "a100"}, "did you mean 'a100-[48]0'"),
        ("bert-base", {"utilisation": 0.0}, "--utilisation is 0"),
        ("bert-base", {"utilisation": 30.0}, "--utilisation is 30"),
        ("bert-base", {"count": 0}, "--count is 0"),
        ("bert-base", {"price": -1.0}, "--price is -1"),
        ("bert-base", {"tokens": float("nan")}, "--tokens is nan"),
        ("bert-base", {"tokens_per_second": 0.0}, "--tokens-per-second is 0"),
        ("bert-base", {"device": "t4", "precision": "bfloat16"}, "does not support bfloat16"),
        (str(RECIPES / "gpt-small.yaml"), {}, "the run ends after 6 epochs"),
        (str(RECIPES / "translate-multi30k.yaml"), {"tokens": 1e9}, "give --length"),
    ],
)
def test_what_cannot_be_planned_is_told_in_a_sentence(what, options, message):
    with pytest.raises(InputError, match=message):
        plan(what, **options)


def test_settings_for_a_published_model_are_refused():
    with pytest.raises(InputError, match="takes no settings"):
        plan("bert-base", ["model.width=3"])
