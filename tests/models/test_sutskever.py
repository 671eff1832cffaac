from __future__ import annotations

from typing import Any

import pytest
import torch

import regard
from regard.errors import InputError
from regard.layers import Tokens
from regard.models import Sutskever, SutskeverConfig


def tiny(**changes: Any) -> SutskeverConfig:
    sizes: dict[str, Any] = {
        "source_vocabulary": 11,
        "target_vocabulary": 9,
        "embedding_width": 4,
        "hidden_width": 5,
        "layers": 3,
    }
    return SutskeverConfig(**(sizes | changes))


@pytest.fixture
def model(seeded, randomize):
    return randomize(Sutskever(tiny())).double().eval()


def test_the_defaults_are_the_papers():
    config = SutskeverConfig(source_vocabulary=160_000, target_vocabulary=80_000)
    assert (config.layers, config.hidden_width, config.embedding_width) == (4, 1000, 1000)
    assert config.reverse_source
    assert config.dropout == 0


def test_the_papers_number_of_parameters():
    """384 million, of which 64 million recurrent, as the paper counts them."""
    with torch.device("meta"):
        model = Sutskever(SutskeverConfig(source_vocabulary=160_000, target_vocabulary=80_000))
    stacks = sum(p.numel() for side in (model.encoder, model.decoder) for p in side.stack.parameters())
    assert round(stacks / 1e6) == 64
    assert round(sum(parameter.numel() for parameter in model.parameters()) / 1e6) == 384


@pytest.mark.parametrize("side", ["left", "right"])
def test_only_real_tokens_are_reversed_whichever_side_is_padded(side, model, seeded, randomize):
    """Reading reversed is reading the reversed sentence: each row by itself, not the padded row end to end."""
    rows = [[3, 4, 5, 6], [7, 8]]
    forwards = Sutskever(tiny(reverse_source=False)).double().eval()
    forwards.load_state_dict(model.state_dict())
    turned = forwards.start(Tokens.pad([row[::-1] for row in rows]))
    torch.testing.assert_close(model.start(Tokens.pad(rows, side=side)).layers, turned.layers, rtol=1e-10, atol=1e-12)


def test_the_target_is_not_reversed(model):
    """The first logits hang on the first target token alone."""
    source = Tokens.pad([[3, 4, 5]])
    logits = [model(source, Tokens.pad([[1, 3, last]]))[0] for last in (4, 5)]
    torch.testing.assert_close(logits[0][:2], logits[1][:2], rtol=0, atol=0)
    assert not torch.allclose(logits[0][2], logits[1][2])


def test_every_decoder_layer_starts_from_the_same_encoder_layer(model):
    """h and c of all three: without any one of them the first logits would be others."""
    source = Tokens.pad([[3, 4, 5], [6, 7]])
    state = model.start(source)
    embedded = model.encoder.embedding(source.ids)
    _, last = model.encoder.stack.read(embedded, source.valid, backwards=True)
    torch.testing.assert_close(state.layers, last, rtol=0, atol=0)
    plain, _ = model.step(torch.tensor([1, 1]), state)
    for layer in range(3):
        for part in range(2):
            layers = [list(pair) for pair in state.layers]
            layers[layer][part] = torch.zeros_like(layers[layer][part])
            changed, _ = model.step(
                torch.tensor([1, 1]), type(state)(source_valid=source.valid, layers=tuple(map(tuple, layers)))
            )
            assert (changed - plain).abs().amax(dim=1).min() > 1e-6


def test_encoder_and_decoder_are_two_nets(model):
    own = {parameter.data_ptr() for parameter in model.encoder.parameters()}
    assert not own & {parameter.data_ptr() for parameter in model.decoder.parameters()}


def test_the_papers_first_weights(seeded):
    model = Sutskever(tiny(initialization="paper", hidden_width=40, embedding_width=30))
    for name, parameter in model.named_parameters():
        assert parameter.abs().max() <= 0.08, name
        assert parameter.abs().max() > 0.06, name
    everything = torch.cat([parameter.flatten() for parameter in model.parameters()])
    assert everything.std().item() == pytest.approx(0.08 / 3**0.5, rel=0.02)


def test_looking_at_it_says_that_there_is_no_attention(model):
    with pytest.raises(InputError, match="no attention"), regard.look(model):
        pass


def test_a_model_without_layers_is_refused():
    with pytest.raises(InputError, match="layers is 0 but must be at least 1"):
        tiny(layers=0)
