"""The contract of models that make one vector of each text: every such family in `MODELS` passes the same battery.

A variant joins by one line in `VARIANTS`.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.layers import SentenceEncoderModel, Tokens
from regard.models import MODELS, HANConfig, InferSentConfig, USEAveragingConfig, USETransformerConfig
from regard.testing import check_model

SIZES: dict[type[Any], dict[str, Any]] = {
    HANConfig: {"embedding_width": 5, "hidden_width": 3, "attention_width": 7, "boundary_ids": (1, 2)},
    InferSentConfig: {"embedding_width": 5, "hidden_width": 4, "classifier_width": 6},
    USETransformerConfig: {
        "width": 12,
        "heads": 3,
        "feedforward_width": 10,
        "layers": 2,
        "maximum_positions": 12,
        "classifier_width": 6,
    },
    USEAveragingConfig: {"width": 6, "bigrams": 40, "feedforward_layers": 2, "classifier_width": 0},
}


def sized(kind: type[Any], **changes: Any) -> Any:
    return kind(**({"vocabulary": 11, "dropout": 0.3} | SIZES[kind] | changes))


CLASSES = {"head": "sequence", "outputs": 3}
VARIANTS = {
    "han": sized(HANConfig, **CLASSES),
    "han of averages": sized(HANConfig, gathering="average", **CLASSES),
    "han of maxima": sized(HANConfig, gathering="maximum", **CLASSES),
    "han of pairs": sized(HANConfig, texts=2, **CLASSES),
    "han without a head": sized(HANConfig),
    "infersent": sized(InferSentConfig, texts=2, **CLASSES),
    "infersent of one text": sized(InferSentConfig, head="sequence", outputs=1),
    "infersent mean": sized(InferSentConfig, pooling="mean", texts=2, **CLASSES),
    "infersent last": sized(InferSentConfig, pooling="last", texts=2, **CLASSES),
    "infersent of words": sized(InferSentConfig, layers=0, texts=2, classifier_width=0, **CLASSES),
    "use transformer": sized(USETransformerConfig, texts=2, attention_dropout=0.2, **CLASSES),
    "use transformer without a head": sized(USETransformerConfig),
    "use averaging": sized(USEAveragingConfig, texts=2, **CLASSES),
    "use averaging without bigrams": sized(USEAveragingConfig, bigrams=0, texts=2, head="choice", outputs=1),
    "use averaging of one text": sized(USEAveragingConfig, head="choice", outputs=1),
}

every_variant = pytest.mark.parametrize("variant", VARIANTS)
every_side = pytest.mark.parametrize("side", ["left", "right"])
EXACT = {"rtol": 1e-10, "atol": 1e-12}
ROWS = [[1, 4, 2, 5, 2, 6, 7, 2, 8, 2], [1, 9, 2, 3, 2], [1, 10, 4, 9, 3, 2]]
SECONDS = [5, 3, 2]
"""Where the second text of each row begins."""


@pytest.fixture
def build(seeded, randomize):
    def make(variant: str, dtype: torch.dtype = torch.float64) -> SentenceEncoderModel:
        config = VARIANTS[variant]
        model = MODELS[config.model_type].model(config)
        assert isinstance(model, SentenceEncoderModel)
        return randomize(model, scale=1.2).to(dtype).eval()

    return make


def batch(side: str = "right") -> tuple[Tokens, Tensor]:
    tokens = Tokens.pad(ROWS, side=side)  # type: ignore[arg-type]
    segments = torch.zeros_like(tokens.ids)
    for row, second in enumerate(SECONDS):
        segments[row, int(tokens.valid[row].nonzero()[0]) + second :] = 1
    return tokens, segments


def test_every_registered_family_is_in_the_battery():
    families = {name for name, family in MODELS.items() if family.interface == "text_vectors"}
    assert {config.model_type for config in VARIANTS.values()} == families
    for name in families:
        assert MODELS[name].serves("whole_text")
        assert not MODELS[name].serves("encoder")


@every_variant
def test_contract(variant):
    # A last sentence of one word has no word before or after it; without the attention nothing else reads it.
    idle = ("weight_hh_l0",) if variant.endswith(("averages", "maxima")) else ()
    assert check_model(VARIANTS[variant], idle=("key.bias", *idle))


@every_variant
def test_outputs_have_the_announced_shapes(variant, build):
    config = VARIANTS[variant]
    model, (tokens, segments) = build(variant), batch()
    found = model(tokens, segments)
    assert found.pooled.shape == (3, config.width * (1 if config.texts == 1 else 4))
    assert found.hidden.shape == (3, 10, model.widths[-1])
    assert (found.logits is None) == (config.head == "none")
    assert found.logits is None or found.logits.shape == (3, config.outputs)
    states = model.hidden_states(tokens)
    assert tuple(state.shape[-1] for state in states) == model.widths
    assert len(states) == 1 + len(model.layers) == 1 + config.layers


@every_variant
@every_side
def test_the_texts_of_a_pair_are_what_they_are_alone(variant, side, build):
    """[u ; v ; |u - v| ; u * v], u and v of two texts that were never in one row."""
    if VARIANTS[variant].texts == 1:
        return
    model, (tokens, segments) = build(variant), batch(side)
    firsts = Tokens.pad([row[:second] for row, second in zip(ROWS, SECONDS, strict=True)])
    seconds = Tokens.pad([[1, *row[second:]] for row, second in zip(ROWS, SECONDS, strict=True)])
    u, v = model(firsts).pooled, model(seconds).pooled
    assert model(firsts).logits is None
    expected = torch.cat([u, v, (u - v).abs(), u * v], dim=1)
    found = model(tokens, segments)
    torch.testing.assert_close(found.pooled, expected, **EXACT)
    hidden = model.read(firsts).hidden, model.read(seconds).hidden
    for row, second in enumerate(SECONDS):
        real = found.hidden[row][tokens.valid[row]]
        torch.testing.assert_close(real[:second], hidden[0][row, :second], **EXACT)
        torch.testing.assert_close(real[second:], hidden[1][row, 1 : len(real) - second + 1], **EXACT)


@every_variant
def test_vectors_of_several_readings_are_added_before_the_head(variant, build):
    config = VARIANTS[variant]
    if config.head == "none":
        return
    model, (tokens, segments) = build(variant), batch()
    four = torch.tensor([0, 1, 2, 0])
    read = model(tokens.select(four), segments[four], readings=2)
    vectors = model(tokens.select(four), segments[four]).pooled
    together = torch.stack([vectors[0] + vectors[1], vectors[2] + vectors[3]])
    torch.testing.assert_close(read.logits, model.head(None, together, None).logits, **EXACT)


@every_variant
def test_every_word_of_a_text_counts_and_none_of_another(variant, build):
    if variant.endswith("maxima") or (variant.startswith("infersent") and VARIANTS[variant].pooling == "max"):
        return  # of a maximum a word may be no part
    model, (_, segments) = build(variant), batch()
    embedded: list[Tensor] = []
    table = next(module for module in model.modules() if isinstance(module, nn.Embedding))
    table.register_forward_hook(lambda module, inputs, output: embedded.append(output))
    row = model(Tokens.pad([ROWS[0], ROWS[2]]), segments[[0, 2]]).pooled[0]
    (gradient,) = torch.autograd.grad(row.square().sum(), embedded[-1])
    moved = gradient.abs().amax(dim=-1) > 0
    if VARIANTS[variant].texts == 1:
        boundaries = torch.tensor([index in getattr(VARIANTS[variant], "boundary_ids", ()) for index in ROWS[0]])
        assert torch.equal(moved[0], ~boundaries)
        assert not moved[1].any()
    else:  # first texts, then second ones
        assert moved[[0, 2]].any(dim=1).all()
        assert not moved[[1, 3]].any()


@every_variant
def test_a_text_without_a_word_is_finite(variant, build):
    model = build(variant)
    nothing = Tokens(torch.tensor([[1, 2], [1, 5]]), torch.tensor([[True, True], [False, False]]))
    with torch.enable_grad():
        pooled = model(nothing).pooled
        pooled.sum().backward()
    assert pooled.isfinite().all()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("kind", "change", "named"),
    [
        (HANConfig, {"boundary_ids": (1, 11)}, "boundary_ids"),
        (HANConfig, {"gathering": "sum"}, "gathering"),
        (HANConfig, {"hidden_width": 0}, "hidden_width"),
        (InferSentConfig, {"layers": 2}, "layers"),
        (InferSentConfig, {"layers": 0, "pooling": "last"}, "pooling"),
        (InferSentConfig, {"texts": 3}, "texts"),
        (USETransformerConfig, {"heads": 5}, "heads"),
        (USETransformerConfig, {"width": 9}, "width"),
        (USEAveragingConfig, {"bigrams": -1}, "bigrams"),
        (USEAveragingConfig, {"feedforward_layers": 0}, "feedforward_layers"),
        (USEAveragingConfig, {"dropout": 1.0}, "dropout"),
        (InferSentConfig, {"head": "sequence", "outputs": 0}, "outputs"),
        (InferSentConfig, {"head": "tokens", "outputs": 3}, "head"),
    ],
)
def test_what_no_such_model_can_be_is_refused(kind, change, named):
    with pytest.raises(InputError, match=named):
        sized(kind, **change)
