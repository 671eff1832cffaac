"""Recurrent translators with weights of 8 and 4 bits."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import regard
from regard.errors import InputError
from regard.generation import GenerationSettings, search
from regard.kernels import Kernels
from regard.layers import Tokens
from regard.models import (
    GNMT,
    Bahdanau,
    BahdanauConfig,
    Cho,
    ChoConfig,
    GNMTConfig,
    Luong,
    LuongConfig,
    Sutskever,
    SutskeverConfig,
)
from regard.quantization import QuantizedLinear, quantized

SIZES = {"source_vocabulary": 30, "target_vocabulary": 23, "embedding_width": 20, "hidden_width": 36}
MODELS = {
    "bahdanau": lambda: Bahdanau(BahdanauConfig(**SIZES, attention_width=28, maxout_width=17)),
    "bahdanau with a scaled product": lambda: Bahdanau(BahdanauConfig(**SIZES, maxout_width=17, score="scaled_dot")),
    "cho": lambda: Cho(ChoConfig(**SIZES)),
    "gnmt": lambda: GNMT(GNMTConfig(**SIZES | {"embedding_width": 36}, layers=3, attention_width=28)),
    "luong": lambda: Luong(LuongConfig(**SIZES, layers=2)),
    "luong, local": lambda: Luong(LuongConfig(**SIZES, layers=1, attention="local_p", score="concat")),
    "sutskever": lambda: Sutskever(SutskeverConfig(**SIZES, layers=2)),
}
SOURCE = Tokens.pad([[3, 4, 5, 6, 2], [7, 8, 2], [9, 10, 11, 12, 13, 2]])


def made(name):
    torch.manual_seed(3)
    model = MODELS[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def with_rounded_weights(model, rounded):
    """The model with its decoder's weights as they are after quantization, in float32."""
    plain = copy.deepcopy(model)
    layers = dict(rounded.decoder.named_modules())
    for name, part in plain.decoder.named_modules():
        if type(part) is torch.nn.Linear:
            assert isinstance(layers[name], QuantizedLinear)
            part.weight.data = layers[name].weight
    return plain


def followed(model, tokens):
    """The logits of each step, for two hypotheses of each source that change places."""
    found = []
    with torch.no_grad():
        state = model.start(SOURCE).reorder(torch.tensor([0, 0, 1, 1, 2, 2]))
        for step in tokens.unbind(1):
            logits, state = model.step(step, state)
            state = state.reorder(torch.tensor([1, 0, 2, 2, 5, 4]))
            found.append(logits)
    return torch.stack(found)


@pytest.mark.parametrize("precision", ["int8", "int4"])
@pytest.mark.parametrize("name", MODELS)
def test_its_steps_are_near_those_of_the_model_with_rounded_weights(name, precision):
    model = made(name)
    rounded = quantized(model, precision)
    assert type(rounded) is type(model)
    tokens = torch.randint(3, 23, (6, 5), generator=torch.Generator().manual_seed(1))
    found, near, exact = (followed(each, tokens) for each in (rounded, with_rounded_weights(model, rounded), model))
    assert found.dtype == torch.float32
    spread = float(exact.std())
    assert float((found - near).abs().mean()) < 0.02 * spread
    assert float((found - exact).abs().mean()) < (0.03 if precision == "int8" else 0.3) * spread
    with torch.no_grad():
        target = Tokens.pad([[1, 5, 6], [1, 7], [1, 8, 9]])
        forced, wanted = (each(SOURCE, target)[target.valid] for each in (rounded, model))
    assert float((forced - wanted).abs().mean()) < 0.3 * spread


@pytest.mark.parametrize("name", ["bahdanau", "luong"])
def test_beam_search_alone_and_in_a_batch(name):
    model = quantized(made(name), "int8")
    settings = GenerationSettings(beam=3, maximum_length=6)
    together = [best[0].tokens for best in search(model, SOURCE, settings)]
    rows = ([3, 4, 5, 6, 2], [7, 8, 2], [9, 10, 11, 12, 13, 2])
    assert [search(model, Tokens.pad([row]), settings)[0][0].tokens for row in rows] == together


def test_the_model_is_left_as_it_was_and_the_copy_is_not_trained_or_saved():
    model = made("bahdanau")
    before = copy.deepcopy(model.state_dict())
    rounded = quantized(model, "int8")
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())
    for refused in (rounded.train, rounded.state_dict):
        with pytest.raises(InputError, match="for inference, not for training or saving"):
            refused()
    assert not any(parameter.requires_grad for parameter in rounded.parameters())


def test_another_process_gets_the_same_model():
    rounded = quantized(made("luong"), "int8")
    again = pickle.loads(pickle.dumps(rounded))
    tokens = torch.randint(3, 23, (6, 3), generator=torch.Generator().manual_seed(1))
    assert torch.equal(followed(again, tokens), followed(rounded, tokens))


def test_without_kernels_the_weights_are_the_same_in_bfloat16():
    model = made("bahdanau")
    tokens = torch.randint(3, 23, (6, 3), generator=torch.Generator().manual_seed(1))
    found = followed(quantized(model, "int8", compiled=Kernels(None, "there is no compiler")), tokens)
    wanted = followed(quantized(model, "int8"), tokens)
    assert float((found - wanted).abs().mean()) < 0.03 * float(wanted.std())


def test_what_cannot_be_rounded_is_refused_with_the_reason():
    model = made("bahdanau")
    with regard.look(model), pytest.raises(InputError, match="int8: the model cannot be prepared: it has hooks"):
        quantized(model, "int8")
    with pytest.raises(
        InputError, match="bfloat16: the model cannot be prepared: a recurrent decoder is quantized to int8 or int4"
    ):
        quantized(model, "bfloat16")


def test_its_alignment_can_be_looked_at():
    rounded = quantized(made("bahdanau"), "int8")
    with torch.no_grad():
        _, state = rounded.step(torch.tensor([1, 1, 1]), rounded.start(SOURCE))
        weights = rounded.alignment(state)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(3))
    assert bool((weights[~SOURCE.valid] == 0).all())
