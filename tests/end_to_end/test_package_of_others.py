"""A package of somebody else adds a model and a mechanism without a change to ours: installed, checked, trained, looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent / "package_of_others"
RECIPE = """
task: language_modelling
model: {name: rotary_decoder, width: 16, heads: 4, key_heads: 2, feedforward_width: 24, layers: 2, maximum_positions: 16}
data: {train: text.txt, length: 12}
tokenizer: {kind: word, size: 60}
training: {steps: 150, learning_rate: 0.01, warmup: 10, batch_tokens: 120, precision: float32}
seed: 3
"""
CHECKS = """
import json
from regard.models import MODELS
from regard.testing import check_model
sizes = {"width": 16, "heads": 4, "key_heads": 2, "feedforward_width": 10, "layers": 2, "maximum_positions": 8}
print(json.dumps(check_model(MODELS["rotary_decoder"].config(vocabulary=11, dropout=0.3, **sizes))))
"""
MECHANISM_CHECKS = """
import json
from decoders_of_others import Unscaled
from regard.testing import check_mechanism
print(json.dumps(check_mechanism(lambda width, dropout: Unscaled(dropout))))
"""
BROKEN_MECHANISM = """
from decoders_of_others import Unscaled
from regard.testing import CheckFailed, check_mechanism
class Doubled(Unscaled):
    def forward(self, inputs, value):
        return 2 * super().forward(inputs, value)
try:
    check_mechanism(lambda width, dropout: Doubled(dropout))
except CheckFailed as error:
    print(str(error).splitlines()[0])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> dict[str, str]:
    """The environment of processes in which the package is installed: a folder of its own, as pip fills it."""
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*command, "--target", str(place), str(PACKAGE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    path = os.pathsep.join(filter(None, (str(place), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path}


@pytest.fixture(scope="module")
def run(installed, tmp_path_factory):
    """Runs Python in an empty folder with the package installed."""
    folder = tmp_path_factory.mktemp("work")
    words = "the cat sat on the mat and the dog lay on the rug while the bird sang in the tree".split()  # noqa: SIM905
    lines = [" ".join(words[place % 9 : place % 9 + 9]) for place in range(200)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "recipe.yaml").write_text(RECIPE, encoding="utf-8")

    def call(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command, cwd=folder, env=installed, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return call


def test_its_model_passes_the_contract(run):
    checks = json.loads(run("-c", CHECKS))
    assert {"stepping_equals_reading", "hypotheses_can_be_reordered", "equation_equals_kernel"} <= set(checks)


def test_its_mechanism_passes_the_contract(run):
    checks = json.loads(run("-c", MECHANISM_CHECKS))
    assert {"output_is_weights_times_value", "weights_are_a_distribution", "consistent_in_a_decoder"} <= set(checks)


def test_a_mechanism_of_theirs_that_breaks_the_contract_is_told_by_its_check(run):
    assert run("-c", BROKEN_MECHANISM).startswith("Doubled, output_is_weights_times_value: weights times value")


@pytest.mark.slow
def test_its_model_is_trained_from_a_recipe_and_writes_and_is_looked_at(run):
    run("-m", "regard", "train", "recipe.yaml", "--output", "run")
    written = run("-m", "regard", "generate", "run", "the cat", "--maximum-length", "6", "--json")
    assert json.loads(written)["texts"][0]["text"] == " sat on the mat and the"
    seen = run("-m", "regard", "look", "run", "the cat sat", "--json")
    assert "layers.1.attention" in seen


def test_its_mechanism_stands_in_our_models(run):
    code = (
        "from regard.models import Transformer, TransformerConfig\n"
        "model = Transformer(TransformerConfig(source_vocabulary=9, target_vocabulary=9, width=8, heads=2, "
        "feedforward_width=8, encoder_layers=1, decoder_layers=1, score='unscaled'))\n"
        "print(type(model.encoder.layers[0].attention.attention).__module__)"
    )
    assert run("-c", code).strip() == "decoders_of_others"
