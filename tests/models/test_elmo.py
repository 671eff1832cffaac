"""ELMo: shapes, what each direction sees, the mixture and its heads, and that the same text always gives the same vectors."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import regard
from regard.checkpoints import parameters_of, read_model, write_model
from regard.errors import InputError
from regard.layers import Tokens
from regard.models import MODELS, ELMo, ELMoConfig
from regard.models.config import config_from_json, config_to_json

EXACT = {"rtol": 1e-10, "atol": 1e-12}
TEXTS = [[256, 32, 104, 105, 32, 121, 257], [256, 32, 104, 105, 257], [256, 32, 120, 32, 104, 105, 32, 122, 122, 257]]


def config(**changes: Any) -> ELMoConfig:
    sizes: dict[str, Any] = {
        "projection": 3,
        "cells": 5,
        "character_width": 4,
        "filters": ((1, 3), (2, 4)),
        "highways": 1,
    }
    return ELMoConfig(**(sizes | {"maximum_characters": 6, "cell_clip": 0.8, "projection_clip": 0.6} | changes))


VARIANTS = {
    "none": config(),
    "words": config(words=9),
    "sequence": config(head="sequence", outputs=4),
    "tokens": config(head="tokens", outputs=3),
    "tokens read": config(head="tokens", outputs=3, reader_width=2, mix_normalise=True),
    "choice read": config(head="choice", outputs=1, reader_width=2),
    "three layers": config(layers=3, residual=False, activation="tanh", cell_clip=None, projection_clip=None),
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


@pytest.fixture
def build(seeded, randomize):
    return lambda variant, dtype=torch.float64: randomize(ELMo(VARIANTS[variant]), scale=1.5).to(dtype).eval()


def batch(side: str = "right") -> Tokens:
    return Tokens.pad(TEXTS, padding_id=258, side=side)  # type: ignore[arg-type]


def told(model: ELMo, tokens: Tokens) -> dict[str, torch.Tensor]:
    """All that a model says of real tokens."""
    found = model(tokens)
    parts = {"hidden": found.hidden[tokens.valid], "pooled": found.pooled, "logits": found.logits}
    if found.logits is not None and found.logits.dim() == 3:
        parts["logits"] = found.logits[tokens.valid]
    return {name: part for name, part in parts.items() if part is not None}


@every_variant
def test_what_it_says_has_the_announced_shapes(variant, build):
    model, tokens = build(variant), batch()
    settings = VARIANTS[variant]
    found = model(tokens)
    assert found.hidden.shape == (3, 10, 6)
    assert len(model.hidden_states(tokens)) == settings.layers + 1 == len(model.layers) + 1
    assert torch.equal(model.hidden_states(tokens)[-1], found.hidden)
    of_text = settings.head in ("sequence", "choice")
    assert (found.pooled is not None) == of_text
    if settings.head == "none":
        assert found.logits is None
    else:
        assert found.logits.shape == ((3, settings.outputs) if of_text else (3, 10, settings.outputs))


@every_variant
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_and_the_rest_of_the_batch_change_nothing(variant, side, build):
    if VARIANTS[variant].mix_normalise:
        pytest.skip("its mean and variance are of the whole batch, as in the authors' code")
    model, tokens = build(variant), batch(side)
    together = told(model, tokens)
    start = 0
    for row, text in enumerate(TEXTS):
        alone = told(model, Tokens.pad([text], padding_id=258))
        for name, part in together.items():
            per_text = name == "pooled" or (name == "logits" and VARIANTS[variant].head != "tokens")
            here = part[row : row + 1] if per_text else part[start : start + len(text)]
            torch.testing.assert_close(here, alone[name], **EXACT)
        start += len(text)


@every_variant
def test_what_stands_at_padding_is_never_looked_at(variant, build):
    model, tokens = build(variant), batch()
    filled = Tokens(tokens.ids.masked_fill(~tokens.valid, 32), tokens.valid)
    expected = told(model, tokens)
    for name, part in told(model, filled).items():
        assert torch.equal(part, expected[name])


def test_the_layer_of_letters_is_the_same_vector_twice_and_knows_no_neighbours(build):
    model, tokens = build("none"), batch()
    states = model.hidden_states(tokens)
    letters = states[0]
    assert torch.equal(letters[..., :3], letters[..., 3:])
    hi = [letters[0, 1], letters[1, 1], letters[2, 4]]  # the same word in three texts, at other places
    assert torch.equal(hi[0], hi[1])
    assert torch.equal(hi[0], hi[2])
    assert not torch.allclose(states[1][0, 1], states[1][1, 1])


def test_a_word_is_told_by_neither_direction_from_itself(build):
    """Change word k: what tells it, the forward net's vector of k - 1 and the backward net's of k + 1, stays as it is."""
    model = build("words")
    seen: list[torch.Tensor] = []

    def reduce(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        assert weight.shape == (9, 3)
        assert bias is not None
        seen.append(hidden)

    for word in (104, 113):
        model(Tokens.pad([[256, 32, 97, 32, word, 32, 98, 257]], padding_id=258), reduce=reduce)
    one, other = seen
    assert one.shape == (1, 2, 4, 3)
    same = (one == other).all(dim=-1)[0]
    # Told are, forward, words 1, 2, 3, 4 from those before; backward words 0, 1, 2, 3 from those after; word 2 is another.
    assert same.tolist() == [[True, True, False, False], [False, False, True, True]]


def test_the_mixture_is_the_softmax_of_its_weights_times_gamma(build):
    model, tokens = build("tokens"), batch()
    states = model.hidden_states(tokens)
    mix, head = model.head.mix, model.head
    shares = torch.exp(mix.weights) / torch.exp(mix.weights).sum()
    mixture = mix.gamma * (shares[0] * states[0] + shares[1] * states[1] + shares[2] * states[2])
    expected = mixture @ head.output.weight.T + head.output.bias
    torch.testing.assert_close(model(tokens).logits[tokens.valid], expected[tokens.valid], **EXACT)


def test_the_vector_of_a_text_is_the_mean_over_words_however_long_they_are(build):
    model, tokens = build("sequence"), batch()
    words = model.words_of(tokens)
    mixture = model.head.mix(model.word_states(words), words.valid)
    expected = torch.stack([mixture[row][words.valid[row]].mean(dim=0) for row in range(3)])
    torch.testing.assert_close(model(tokens).pooled, expected, **EXACT)
    assert torch.equal(model.counted(tokens), words.begins)


def test_the_same_text_gives_the_same_vectors_to_the_bit(build):
    model, tokens = build("none", torch.float32), batch()
    first = model(tokens).hidden
    model(Tokens.pad([[256, 32, 113, 257]] * 5, padding_id=258))
    assert torch.equal(model(tokens).hidden, first)
    assert torch.equal(copy.deepcopy(model)(tokens).hidden, first)


def test_a_look_sees_its_layers_and_changes_nothing(build):
    model, tokens = build("none", torch.float32), batch()
    plain = model(tokens).hidden
    with regard.look(model, hidden=["layers.*"]) as seen:
        assert torch.equal(model(tokens).hidden, plain)
    words = model.words_of(tokens)
    for number, state in enumerate(model.word_states(words)[1:]):
        assert torch.equal(seen.hidden(f"layers.{number}"), state)


@every_variant
def test_it_survives_the_way_to_a_folder_and_back(variant, build, tmp_path):
    model, tokens = build(variant, torch.float32), batch()
    write_model(tmp_path, model.config, parameters_of(model), task={"name": "none"}, recipe={}, metrics={})
    found = read_model(tmp_path)
    assert found.config == model.config
    for name, part in told(found, tokens).items():
        assert torch.equal(part, told(model, tokens)[name])
    assert config_from_json(ELMoConfig, config_to_json(model.config), "it") == model.config


@every_variant
def test_every_parameter_learns(variant, build):
    model, tokens = build(variant).train(), batch()
    for module in model.modules():
        if hasattr(module, "rate"):
            module.rate = 0.0
    if VARIANTS[variant].words:
        loss = model(tokens, reduce=lambda h, w, b: (h @ w.T + b).square().sum())
    else:
        loss = sum(part.square().sum() for part in told(model, tokens).values())
    loss.backward()
    without = {
        name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()
    }
    assert without == set()


def test_the_published_model_has_the_published_number_of_parameters():
    """93.6 million, recalled. AllenNLP has 16 more, a row of letters for what is masked, which is all zeros."""
    with torch.device("meta"):
        model = ELMo(ELMoConfig())
    assert sum(parameter.numel() for parameter in model.parameters()) == 93_600_848


def test_it_serves_what_takes_encoders():
    family = MODELS["elmo"]
    assert all(family.serves(one) for one in ("bidirectional_language_model", "encoder", "whole_text"))
    assert not family.serves("language_model")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"head": "masked"}, "head is 'masked', which ELMo has not"),
        ({"head": "spans"}, "which ELMo has not"),
        ({"vocabulary": 300}, "vocabulary is 300 .*tokenizer.kind=spelling"),
        ({"filters": ((9, 3),)}, r"filters is .*in \[1, 6\]"),
        ({"filters": ()}, "filters"),
        ({"cell_clip": 0.0}, "cell_clip is 0.0"),
        ({"words": 5, "head": "tokens"}, "words is 5"),
        ({"maximum_characters": 2}, "maximum_characters is 2"),
        ({"activation": "gelu"}, "activation"),
        ({"dropout": 1.0}, "dropout is 1.0"),
    ],
)
def test_what_cannot_be_is_told(changes, said):
    with pytest.raises(InputError, match=said):
        config(**changes)


def test_a_model_without_words_tells_none(build):
    with pytest.raises(InputError, match="predicts no words"):
        build("none")(batch(), reduce=lambda h, w, b: h)
