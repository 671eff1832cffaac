"""The decoder whose parts are settings: with the parts of GPT-2, GPT and Llama it is GPT-2, GPT and Llama."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.errors import InputError
from regard.layers import Tokens
from regard.models import (
    GPT,
    GPT2,
    Decoder,
    DecoderConfig,
    GPT2Config,
    GPTConfig,
    GPTNeoX,
    GPTNeoXConfig,
    Llama,
    LlamaConfig,
    MusicTransformer,
    MusicTransformerConfig,
)

SIZES: dict[str, Any] = {"vocabulary": 13, "width": 24, "heads": 6, "feedforward_width": 20, "layers": 3}
LIMIT = {"maximum_positions": 9}
LLAMA = {"positions": "rotary", "norm": "rms", "gated": True, "activation": "swish", "bias": False}

ALIKE: dict[str, tuple[Any, DecoderConfig]] = {
    "gpt2": (
        GPT2(GPT2Config(**SIZES, **LIMIT)),
        DecoderConfig(**SIZES, **LIMIT, activation="gelu_tanh"),
    ),
    "gpt": (
        GPT(GPTConfig(**SIZES, **LIMIT)),
        DecoderConfig(**SIZES, **LIMIT, norm_placement="post", activation="gelu_tanh"),
    ),
    "llama": (
        Llama(LlamaConfig(**SIZES, **LIMIT, key_heads=2, rotary_base=50.0)),
        DecoderConfig(**SIZES, **LIMIT, **LLAMA, key_heads=2, rotary_base=50.0),
    ),
    "gpt_neox": (
        GPTNeoX(GPTNeoXConfig(**SIZES, **LIMIT, rotary_share=1.0)),
        DecoderConfig(**SIZES, **LIMIT, positions="rotary", parallel=True, tied_output=False),
    ),
    "llama with its own output": (
        Llama(LlamaConfig(**SIZES, **LIMIT, tied_output=False, rotary_base=10_000.0)),
        DecoderConfig(**SIZES, **LIMIT, **LLAMA, tied_output=False),
    ),
}


@pytest.mark.parametrize("name", ALIKE)
def test_a_decoder_of_a_familys_parts_has_its_parameters_and_gives_its_logits(name, seeded, randomize):
    family, config = ALIKE[name]
    randomize(family).eval()
    decoder = Decoder(config).eval()
    decoder.load_state_dict(family.state_dict())
    tokens = Tokens.pad([[0, 4, 5, 11, 7, 3, 2, 2], [0, 7, 12], [0]])
    torch.testing.assert_close(decoder(tokens), family(tokens), rtol=0, atol=0)


def test_relative_positions_are_those_of_the_music_transformer(seeded, randomize):
    music = randomize(MusicTransformer(MusicTransformerConfig(**SIZES, maximum_distance=3, activation="relu"))).eval()
    decoder = Decoder(DecoderConfig(**SIZES, positions="relative", maximum_distance=3, activation="relu")).eval()
    weights = music.state_dict()
    weights["embedding.tokens.weight"] = weights["embedding.tokens.weight"].clone()
    lacking = decoder.load_state_dict(weights, strict=False)
    assert not lacking.unexpected_keys
    assert {key.rsplit(".", 1)[-1] for key in lacking.missing_keys} <= {"bias"}  # which are zero as they are drawn
    decoder.embedding.scale = music.embedding.scale  # sqrt(D)
    tokens = Tokens.pad([[0, 4, 5, 11, 7, 3, 2, 2], [0, 7, 12]])
    torch.testing.assert_close(decoder(tokens), music(tokens))


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "relative", "none"])
def test_order_counts_but_where_only_the_mask_tells_it(positions, seeded, randomize):
    config = DecoderConfig(**SIZES | {"layers": 1}, **LIMIT, positions=positions, maximum_distance=4)
    decoder = randomize(Decoder(config)).double().eval()
    one, other = (decoder(Tokens.pad([ids]))[0, -1] for ids in ([0, 4, 5, 7], [0, 5, 4, 7]))
    # one block without positions sees a set
    assert torch.allclose(one, other) == (positions == "none")


def test_a_gated_net_of_two_thirds_has_as_many_parameters():
    plain = Decoder(DecoderConfig(**SIZES | {"feedforward_width": 36}, bias=False))
    gated = Decoder(DecoderConfig(**SIZES | {"feedforward_width": 24}, bias=False, gated=True))
    assert sum(p.numel() for p in plain.parameters()) == sum(p.numel() for p in gated.parameters())


def test_each_norm_has_parameters_of_its_own():
    """Post-norm blocks share no module between their two slots."""
    decoder = Decoder(DecoderConfig(**SIZES, norm="rms", norm_placement="post"))
    norms = [module for module in decoder.modules() if isinstance(module, torch.nn.RMSNorm)]
    assert len({id(norm.weight) for norm in norms}) == len(norms) == 2 * SIZES["layers"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"heads": 5}, "a divisor of width 24"),
        ({"key_heads": 4}, "a divisor of heads 6"),
        ({"width": 18, "positions": "rotary"}, "width / heads is even"),
        ({"width": 15, "heads": 3, "positions": "sinusoidal"}, "even for sinusoidal"),
        ({"positions": "alibi"}, "positions"),
        ({"norm": "batch"}, "norm"),
        ({"rotary_base": 1.0}, "above 1"),
        ({"maximum_distance": -1}, "at least 0"),
        ({"parallel": True, "norm_placement": "post"}, "parallel is True"),
    ],
)
def test_what_cannot_be_is_refused_by_name(change, said):
    with pytest.raises(InputError, match=said):
        DecoderConfig(**SIZES | change)
