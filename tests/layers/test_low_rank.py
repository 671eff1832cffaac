"""Low-rank adapters: the equation, the start, the gradient, the merging."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from regard.errors import InputError
from regard.layers import Images, Tokens
from regard.layers.blocks import LowRankLinear, adapt, adaptable
from regard.models import GPT2, MODELS, GPT2Config
from regard.training import TrainingSettings
from regard.training.optimizers import build_optimizer

WITHOUT_MAPS = (
    *("cho", "sutskever", "lstm_language_model", "lstm_transducer", "ntm"),
    *("show_and_tell", "elmo", "han", "infersent", "use_averaging", "convolutional_network"),
)
"""Families whose linear maps are all read by something else than their own call."""

TEXTS = Tokens.pad([[0, 4, 5, 6], [0, 7]])


@pytest.fixture
def gpt(seeded, randomize) -> GPT2:
    config = GPT2Config(
        vocabulary=9,
        width=8,
        heads=2,
        feedforward_width=12,
        layers=2,
        maximum_positions=6,
        dropout=0.0,
        embedding_dropout=0.0,
        attention_dropout=0.0,
    )
    return randomize(GPT2(config))


def drawn(model: nn.Module, generator: torch.Generator) -> None:
    """Both matrices of every adapter: zero at the start hides the other one."""
    for module in model.modules():
        if isinstance(module, LowRankLinear):
            with torch.no_grad():
                module.down.copy_(torch.randn(module.down.shape, generator=generator))
                module.up.copy_(torch.randn(module.up.shape, generator=generator))


@pytest.mark.parametrize("bias", [True, False])
def test_the_equation(bias, generator, randomize):
    base = randomize(nn.Linear(6, 4, bias=bias))
    layer = LowRankLinear(base, rank=3, alpha=5.0).eval()
    drawn(layer, generator)
    x = torch.randn(2, 7, 6, generator=generator)
    product = torch.einsum("or,ri->oi", layer.up, layer.down)
    expected = x @ base.weight.T + (base.bias if bias else 0.0) + 5.0 / 3 * x @ product.T
    assert torch.allclose(layer(x), expected, atol=1e-5)
    assert layer.up.shape == (4, 3)
    assert layer.down.shape == (3, 6)


def test_dropout_falls_on_the_adapters_input_alone(randomize, generator, seeded):
    base = randomize(nn.Linear(6, 4))
    layer = LowRankLinear(base, rank=2, alpha=2.0, dropout=0.5).train()
    x = torch.randn(64, 6, generator=generator)
    assert torch.equal(layer(x), base(x))  # nothing is added yet, and the frozen map drops nothing
    drawn(layer, generator)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_at_the_start_the_model_is_what_it_was(gpt):
    before = gpt.eval()(TEXTS)
    adapt(gpt, ["query", "value", "inner"], rank=2, alpha=4)
    assert torch.equal(gpt.eval()(TEXTS), before)


def test_gradients_and_moments_are_the_adapters_alone(gpt, generator):
    names = adapt(gpt, ["query", "value"], rank=2, alpha=4)
    drawn(gpt, generator)
    optimizer = build_optimizer(gpt, TrainingSettings(steps=1))
    gpt(TEXTS).square().sum().backward()
    expected = {f"{name}.{part}" for name in names for part in ("down", "up")}
    assert {name for name, parameter in gpt.named_parameters() if parameter.grad is not None} == expected
    assert all(parameter.grad.abs().sum() > 0 for parameter in gpt.parameters() if parameter.grad is not None)
    optimizer.step()
    moments = sum(v.numel() for state in optimizer.state.values() for v in state.values() if v.dim())
    assert moments == 2 * len(names) * 2 * (8 + 8)  # two moments, r (I + O) numbers
    assert moments < sum(parameter.numel() for parameter in gpt.parameters()) / 4


def test_frozen_parameters_are_the_very_ones(gpt):
    before = dict(gpt.named_parameters())
    adapt(gpt, ["query"], rank=2, alpha=4)
    for name, parameter in gpt.named_parameters():
        if not name.endswith((".down", ".up")):
            assert parameter is before[name]
            assert not parameter.requires_grad


def test_merged_it_is_the_same_model(gpt, generator):
    adapt(gpt, ["*.query", "outer"], rank=3, alpha=7, dropout=0.3)
    drawn(gpt, generator)
    expected = gpt.eval()(TEXTS)
    merged = copy.deepcopy(gpt)
    for name, module in gpt.named_modules():
        if isinstance(module, LowRankLinear):
            parent, _, own = name.rpartition(".")
            setattr(merged.get_submodule(parent), own, module.merged())
    assert not any(isinstance(module, LowRankLinear) for module in merged.modules())
    assert torch.allclose(merged.eval()(TEXTS), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("on", "count"),
    [(["query"], 2), (["layers.0.attention.*"], 4), (["inner", "outer"], 4), (["layers.1.feedforward.inner"], 1)],
)
def test_names_mean_ends_of_full_names(on, count, gpt):
    assert len(adapt(gpt, on, rank=1, alpha=1)) == count


@pytest.mark.parametrize(
    ("on", "message"),
    [(["querry"], "did you mean 'query'"), (["nothing"], "choose from inner, key, outer, output, query, value")],
)
def test_a_name_that_fits_no_map_is_told_with_those_there_are(on, message, gpt):
    with pytest.raises(InputError, match=message):
        adapt(gpt, on, rank=1, alpha=1)


@pytest.mark.parametrize("name", MODELS)
def test_every_map_that_can_have_an_adapter_is_applied_as_one(name, seeded):
    """A map whose matrix a model multiplies by itself would pass its adapter over without a word."""
    shapes = {"width": 8, "heads": 2, "feedforward_width": 6, "layers": 1}
    shapes |= {"inputs": 3, "outputs": 2} if MODELS[name].interface == "transducer" else {}
    shapes |= {"ways": 2, "shots": 1, "side": 16}
    config = MODELS[name].config
    known = set(config.__dataclass_fields__)
    sizes = {key: value for key, value in shapes.items() if key in known}
    sizes |= {key: 9 for key in ("vocabulary", "source_vocabulary", "target_vocabulary") if key in known}
    sizes |= {key: 6 for key in known if key.endswith("_width") and key not in sizes}
    sizes |= {key: 1 for key in ("encoder_layers", "decoder_layers") if key in known}
    sizes |= {"gnmt": {"layers": 2}, "elmo": {"vocabulary": 259}, "gpt_neox": {"rotary_share": 0.5}}.get(name, {})
    if MODELS[name].interface == "captioner":
        sizes |= {"image_height": 8, "image_width": 8, "convolutions": (4,)}
    if MODELS[name].interface == "image_classifier":
        sizes |= {"image_height": 8, "image_width": 8, "image_channels": 3, "outputs": 2}
        sizes |= {"patch": 4} if "patch" in known else {}
    if name == "reformer":
        sizes |= {"layers": ("local", "lsh")}
    if name.startswith("lstm"):
        sizes.pop("heads", None)
    model = MODELS[name].model(config(**sizes))
    if not adaptable(model):
        assert name in WITHOUT_MAPS
        return
    maps = adapt(model, sorted(adaptable(model)), rank=1, alpha=1)
    tokens = Tokens.pad([[3, 4, 5], [6, 7]])
    given = (tokens, tokens) if MODELS[name].interface == "encoder_decoder" else (tokens,)
    if MODELS[name].interface == "few_shot":
        given = (torch.randint(256, (2, 3, 16, 16), dtype=torch.uint8), torch.tensor([[0, 1], [1, 0]]))
    if MODELS[name].interface in ("captioner", "image_classifier"):
        pixels = torch.randint(256, (2, 1, 3, 8, 8), dtype=torch.uint8)
        images = Images(pixels, torch.ones(2, 1, dtype=torch.bool))
        given = (images, tokens) if MODELS[name].interface == "captioner" else (images,)
    made = model(*given)
    found = made if isinstance(made, torch.Tensor) else made.logits if hasattr(made, "sampled") else made.hidden
    found.square().sum().backward()
    parameters = dict(model.named_parameters())
    assert [each for each in maps if parameters[f"{each}.up"].grad is None] == []
