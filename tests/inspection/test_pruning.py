"""Heads taken out for good: what is left answers as the whole does with those heads silent."""

from __future__ import annotations

import json
import shutil
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.attention import Score, ScoredAttention
from regard.checkpoints import parameters_of, read_model, write_model
from regard.errors import InputError
from regard.inspection import ScaleHeads, change, prune
from regard.layers import Tokens
from regard.models import MODELS, BertConfig, DistilBertConfig, Transformer, TransformerConfig
from regard.tasks.classification import ClassificationTask, Classifier
from regard.text import Tokenizer

SIZES: dict[str, Any] = {"vocabulary": 13, "width": 12, "heads": 4, "feedforward_width": 10, "layers": 3}
EXACT = {"rtol": 1e-10, "atol": 1e-12}
GONE = {0: [1], 2: [0, 3, 2]}
CONFIGS = {
    "bert": BertConfig(**SIZES, head="pretraining", outputs=2, dropout=0.2),
    "distilbert": DistilBertConfig(**SIZES, head="tokens", outputs=3),
}
both = pytest.mark.parametrize("family", CONFIGS)


@pytest.fixture
def build(seeded, randomize):
    def make(family: str, dtype: torch.dtype = torch.float64) -> Any:
        return randomize(MODELS[family].model(CONFIGS[family])).to(dtype).eval()

    return make


@pytest.fixture
def tokens() -> Tokens:
    return Tokens.pad([[3, 9, 5, 12, 2], [7, 2], [4, 11, 8, 2]], side="left")


def silenced(model: Any, tokens: Tokens, gone: dict[int, list[int]]) -> Any:
    edits = [ScaleHeads(address=f"layers.{layer}.attention", heads=heads) for layer, heads in gone.items()]
    with torch.no_grad(), change(model, *edits):
        return model(tokens)


def same(found: Any, expected: Any, tokens: Tokens, **tolerance: float) -> None:
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            one, other = (part[tokens.valid] if part.dim() == 3 else part for part in (one, other))
            torch.testing.assert_close(one, other, **(tolerance or EXACT))


@both
def test_a_pruned_model_is_the_whole_one_with_those_heads_silent(family, build, tokens):
    model = build(family)
    smaller = prune(model, GONE)
    same(smaller(tokens), silenced(model, tokens, GONE), tokens)
    assert smaller.config.pruned_heads == ((0, 1), (2, 0), (2, 2), (2, 3))
    assert [layer.attention.query.weight.shape for layer in smaller.layers] == [(9, 12), (12, 12), (3, 12)]
    assert [layer.attention.output.weight.shape for layer in smaller.layers] == [(12, 9), (12, 12), (12, 3)]
    gone = 4 * (4 * 3 * 12 + 3 * 3)
    assert sum(p.numel() for p in smaller.parameters()) == sum(p.numel() for p in model.parameters()) - gone


@both
def test_the_model_that_was_given_stays_as_it_was(family, build, tokens):
    model = build(family)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    expected, config, state = model(tokens), model.config, torch.get_rng_state()
    smaller = prune(model, GONE)
    with torch.no_grad():
        for parameter in smaller.parameters():
            parameter.zero_()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    same(model(tokens), expected, tokens, rtol=0, atol=0)
    assert model.config is config
    assert torch.equal(torch.get_rng_state(), state)


class Undeclared(Score):
    """The same score, keeping its product scale to itself, so that no fused kernel is used."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score

    def forward(self, query: Any, key: Any, inputs: Any = None) -> Any:
        return self.score(query, key, inputs)


def test_the_plain_path_too(build, tokens):
    model = build("bert")
    expected = silenced(model, tokens, GONE)
    for mechanism in model.modules():
        if isinstance(mechanism, ScoredAttention):
            mechanism.score = Undeclared(mechanism.score)
    same(prune(model, GONE)(tokens), expected, tokens)


def test_looked_at_what_is_left_is_what_it_was(build, tokens):
    """Of the first pruned layer, bit for bit; further on, what was taken out is missing, as when it is silent."""
    model = build("bert", torch.float32)
    smaller = prune(model, GONE)
    plain = smaller(tokens)
    with regard.look(smaller) as seen:
        same(smaller(tokens), plain, tokens, rtol=0, atol=0)
    edits = [ScaleHeads(address=f"layers.{layer}.attention", heads=heads) for layer, heads in GONE.items()]
    with change(model, *edits), regard.look(model) as whole:
        model(tokens)
    for layer in range(3):
        address = f"layers.{layer}.attention"
        left = [head for head in range(4) if head not in GONE.get(layer, [])]
        torch.testing.assert_close(seen.weights(address), whole.weights(address, heads=left), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_compiled(build, tokens):
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("there is no C++ compiler")
    model = build("bert", torch.float32)
    expected = silenced(model, tokens, GONE)
    torch._dynamo.reset()
    try:
        same(torch.compile(prune(model, GONE))(tokens), expected, tokens, rtol=1e-4, atol=1e-5)
        with pytest.raises(InputError, match="cannot be pruned from a OptimizedModule"):
            prune(torch.compile(model), GONE)
    finally:
        torch._dynamo.reset()


def test_taking_more_counts_as_before_any_was_taken(build, tokens):
    model = build("bert")
    steps = prune(prune(model, {0: [1], 2: [3]}), {2: [0, 2, 3], 0: [1]})  # some of them a second time
    at_once = prune(model, GONE)
    assert steps.config == at_once.config
    for one, other in zip(steps.parameters(), at_once.parameters(), strict=True):
        assert torch.equal(one, other)
    same(prune(model, {})(tokens), model(tokens), tokens, rtol=0, atol=0)


@both
def test_saved_and_loaded(family, build, tokens, tmp_path):
    """As transformers 4 had it: the weights sliced, the heads that are gone named in config.json."""
    smaller = prune(build(family, torch.float32), GONE)
    write_model(tmp_path, smaller.config, parameters_of(smaller), task={}, recipe={}, metrics={})
    assert json.loads((tmp_path / "config.json").read_text())["pruned_heads"] == {"0": [1], "2": [0, 2, 3]}
    assert (9, 12) in {tuple(tensor.shape) for tensor in load_file(tmp_path / "model.safetensors").values()}
    loaded: Any = read_model(tmp_path)
    assert loaded.config == smaller.config
    same(loaded(tokens), smaller(tokens), tokens, rtol=0, atol=0)
    same(prune(loaded, {1: [0]})(tokens), prune(smaller, {1: [0]})(tokens), tokens, rtol=0, atol=0)


def test_what_is_left_learns_and_its_table_stays_tied(build, tokens):
    smaller = prune(build("bert").train(), GONE)
    assert smaller.training
    assert smaller.layers[0].attention.query.training
    assert smaller.head.masked.output.weight is smaller.embedding.tokens.weight
    smaller(tokens).logits.square().mean().backward()
    for layer in smaller.layers:
        assert layer.attention.query.weight.grad.abs().max() > 0
        assert layer.attention.output.weight.grad.abs().max() > 0
    frozen = build("bert").requires_grad_(False)
    assert not any(parameter.requires_grad for parameter in prune(frozen, GONE).parameters())


def test_the_dtype_stays(build):
    assert {p.dtype for p in prune(build("bert").bfloat16(), GONE).parameters()} == {torch.bfloat16}


@pytest.fixture
def classifier(seeded, randomize) -> Classifier:
    tokenizer = Tokenizer.train(["the cat sat", "a dog ran off", "cats and dogs"] * 4, kind="bert", size=60)
    task = ClassificationTask(tokenizer=tokenizer, classes=("no", "yes"), maximum_length=20)
    config = BertConfig(**(SIZES | task.model_settings()))
    model = randomize(MODELS["bert"].model(config), scale=1.5)
    return Classifier(model, task, recipe={"seed": 1}, metrics={"accuracy": 0.9})


def test_a_predictor_is_pruned_into_one_of_the_same_task(classifier, tmp_path):
    texts = ["the cat sat", "a dog ran", "cats"]
    smaller = prune(classifier, GONE)
    assert type(smaller) is Classifier
    assert smaller.task is classifier.task
    assert (smaller.recipe, smaller.metrics) == ({"seed": 1}, {})
    with change(classifier, *(ScaleHeads(address=f"layers.{layer}.attention", heads=h) for layer, h in GONE.items())):
        expected = classifier.classify_batch(texts)
    for one, other in zip(smaller.classify_batch(texts), expected, strict=True):
        assert one.label == other.label
        assert one.probability == pytest.approx(other.probability, rel=1e-5)
    smaller.save(tmp_path / "smaller")
    loaded = regard.load(tmp_path / "smaller", task="classification")
    assert loaded.classify_batch(texts) == smaller.classify_batch(texts)
    assert loaded.model.config.pruned_heads == smaller.model.config.pruned_heads


def test_vectors_of_texts_too_by_the_copy_that_is_prepared_for_speed(classifier, tmp_path):
    """Which reads many texts without padding, all projections of a layer at once; a changed model is read itself."""
    classifier.save(tmp_path / "model")
    encoder = regard.load(tmp_path / "model", task="sentence_embedding")
    texts = ["the cat sat", "a dog ran off", "cats"]
    with change(encoder, *(ScaleHeads(address=f"layers.{layer}.attention", heads=h) for layer, h in GONE.items())):
        expected = encoder.embed(texts)
    np.testing.assert_allclose(prune(encoder, GONE).embed(texts), expected, rtol=1e-4, atol=1e-5)
    assert not np.allclose(encoder.embed(texts), expected, atol=1e-3)


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ({3: [0]}, r"pruned_heads is \(\(3, 0\),\) but must be different pairs of a layer below 3 and a head below 4"),
        ({0: [4]}, "a layer below 3 and a head below 4; they count from 0"),
        ({0: [-1]}, "a layer below 3 and a head below 4"),
        ({1: [0, 1, 2, 3]}, "without one layer whose heads are all gone; leave one head in each layer"),
        ({"0": [1]}, "pruned_heads is '0'; it must be a whole number"),
    ],
)
def test_heads_that_are_not_there_are_refused(heads, message, build):
    with pytest.raises(InputError, match=message):
        prune(build("bert"), heads)


def test_the_last_head_of_a_layer_stays_also_when_taken_one_by_one(build):
    with pytest.raises(InputError, match="without one layer whose heads are all gone"):
        prune(prune(build("bert"), {1: [0, 1, 2]}), {1: [3]})


def test_other_models_are_refused():
    config = TransformerConfig(source_vocabulary=9, target_vocabulary=9, width=8, heads=2)
    with pytest.raises(
        InputError, match="heads cannot be pruned from a Transformer; give an encoder of texts, such as a BERT"
    ):
        prune(Transformer(config), {0: [0]})
