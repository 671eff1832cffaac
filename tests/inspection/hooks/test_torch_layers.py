"""Torch's own attention layers, on every path that they take, and modules that call its attention functions themselves."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import regard

WIDTH = 6


def drawn(module: nn.Module) -> nn.Module:
    """The module with every parameter drawn anew, ready for use."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, generator=torch.Generator().manual_seed(parameter.numel()))
    return module.eval()


def own_weights(layer: nn.MultiheadAttention, *given: Tensor, **masks: Any) -> Tensor:
    """What the layer itself gives when it is asked for its weights."""
    with torch.no_grad():
        return layer(*given, need_weights=True, average_attn_weights=False, **masks)[1]


PADDING = torch.zeros(3, 7, dtype=torch.bool)
PADDING[1, 5:] = True
LAYERS = [
    dict(zip(("batch_first", "num_heads", "add_bias_kv", "add_zero_attn", "kdim"), one, strict=True))
    for one in itertools.product([True, False], [2, 3], [False, True], [False, True], [None, 5])
]


@pytest.mark.parametrize("settings", LAYERS, ids=lambda one: "-".join(map(str, one.values())))
def test_multi_head_attention_of_every_kind(settings):
    layer = drawn(nn.MultiheadAttention(WIDTH, vdim=settings["kdim"], **settings))
    generator = torch.Generator().manual_seed(0)
    target = torch.randn(3, 4, WIDTH, generator=generator)
    source = torch.randn(3, 7, settings["kdim"] or WIDTH, generator=generator)
    blocked = {size: torch.rand(size, 7, generator=generator) > 0.8 for size in (4, 7)}
    for mask in blocked.values():
        mask[:, 0] = False
    if not settings["batch_first"]:
        target, source = target.transpose(0, 1), source.transpose(0, 1)
    ways = [(target, source, source)] + ([(source, source, source)] if settings["kdim"] is None else [])
    for given, padded, masked, grad, asked in itertools.product(ways, *[(False, True)] * 4):
        masks = {"key_padding_mask": PADDING} if padded else {}
        if masked:
            masks["attn_mask"] = blocked[given[0].shape[1 if settings["batch_first"] else 0]]
        with torch.set_grad_enabled(grad):
            alone = layer(*given, need_weights=asked, **masks)[0]
            with regard.look(layer) as seen:
                looked_at = layer(*given, need_weights=asked, **masks)[0]
        assert torch.equal(alone, looked_at)
        weights = seen.weights("MultiheadAttention")
        torch.testing.assert_close(weights, own_weights(layer, *given, **masks), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("heads", [2, 3])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("padding", ["none", "right", "inside"])
@pytest.mark.parametrize("mode", ["evaluation", "gradients", "training"])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_encoder_layers_on_every_path(norm_first, mode, padding, batch_first, heads):
    encoder: Any = drawn(
        nn.TransformerEncoder(
            nn.TransformerEncoderLayer(WIDTH, heads, 11, batch_first=batch_first, norm_first=norm_first), 2
        )
    ).train(mode == "training")
    x = torch.randn(3, 7, WIDTH, generator=torch.Generator().manual_seed(0))
    mask = None
    if padding != "none":
        mask = torch.zeros(3, 7, dtype=torch.bool)
        # To the right of every row the layers work on a nested batch, shorter than it was; inside a row they cannot.
        mask[:, 6:] = padding == "right"
        mask[1, 5:] = padding == "right"
        mask[1, 2] = padding == "inside"
    given = x if batch_first else x.transpose(0, 1)

    def run() -> Tensor:
        torch.manual_seed(1)
        with torch.set_grad_enabled(mode != "evaluation"):
            return encoder(given, src_key_padding_mask=mask)

    alone = run()
    with regard.look(encoder) as seen:
        looked_at = run()
    assert torch.equal(alone, looked_at)
    assert seen.addresses == ["layers.0.self_attn", "layers.1.self_attn"]
    if mode == "training":
        return  # dropout makes of the second layer's input what it will
    called: list[tuple[Any, ...]] = []
    for layer in encoder.layers:  # hooks close the fused path, which has no weights to show
        layer.self_attn.register_forward_pre_hook(lambda *call: called.append(call), with_kwargs=True)
    with torch.enable_grad():
        encoder(given, src_key_padding_mask=mask)
    valid = torch.ones(3, 7, dtype=torch.bool) if mask is None else ~mask
    for address, (layer, read, named) in zip(seen.addresses, list(called), strict=True):
        want = own_weights(layer, *read[:3], key_padding_mask=named["key_padding_mask"], attn_mask=named["attn_mask"])
        got = seen.weights(address)
        assert got.shape == want.shape
        rows = valid[:, None, :, None]
        torch.testing.assert_close(got * rows, want * rows, atol=1e-4, rtol=1e-4)


def test_the_whole_transformer_of_torch():
    model: Any = drawn(nn.Transformer(8, 2, 2, 2, 12, batch_first=True, dropout=0.0))
    source, target = torch.randn(2, 6, 8), torch.randn(2, 4, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    with torch.no_grad():
        alone = model(source, target, tgt_mask=mask, tgt_is_causal=True)
        with regard.look(model) as seen:
            looked_at = model(source, target, tgt_mask=mask, tgt_is_causal=True)
    assert torch.equal(alone, looked_at)
    assert tuple(seen.weights("decoder.layers.1.multihead_attn").shape) == (2, 2, 4, 6)
    assert not seen.weights("decoder.layers.0.self_attn").triu(1).any()
    names = [f"s{place}" for place in range(6)], [f"t{place}" for place in range(4)]
    view = seen.view(0, tokens=names[0], target_tokens=names[1])
    assert view.map("decoder.layers.1.multihead_attn").kind == "cross"


class Fused(nn.Module):
    """Calls the fused kernel with whatever it is given."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, **named: Any) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, **named)


AXES = {
    "two": ((5, 4), (7, 4), (5, 7)),
    "three": ((3, 5, 4), (3, 7, 4), (3, 5, 7)),
    "four": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 5, 7)),
    "five": ((2, 2, 3, 5, 4), (2, 2, 3, 7, 4), (2, 2, 3, 5, 7)),
    "grouped": ((2, 4, 5, 4), (2, 2, 7, 4), (2, 1, 5, 7)),
}


@pytest.mark.parametrize("mask", ["none", "causal", "bool", "bias", "shared", "all-blocked"])
@pytest.mark.parametrize("axes", AXES)
def test_the_fused_kernel_with_any_axes_and_mask(axes, mask):
    of_query, of_key, of_mask = AXES[axes]
    generator = torch.Generator().manual_seed(4)
    query, key = torch.randn(of_query, generator=generator), torch.randn(of_key, generator=generator)
    value = torch.eye(7).expand(*of_key[:-1], 7)  # so that the outputs are the weights
    named: dict[str, Any] = {"scale": 0.7}
    if axes == "grouped":
        named["enable_gqa"] = True
    if mask == "causal":
        named["is_causal"] = True
    elif mask in ("bool", "all-blocked"):
        named["attn_mask"] = torch.rand(of_mask, generator=generator) > (0.4 if mask == "bool" else 1.0)
        named["attn_mask"][..., 0] |= mask == "bool"
    elif mask == "bias":
        named["attn_mask"] = torch.randn(of_mask, generator=generator)
    elif mask == "shared":
        named["attn_mask"] = torch.randn(of_mask[-2:], generator=generator)
    model = Fused()
    with regard.look(model) as seen:
        output = model(query, key, value, **named)
    weights = seen.weights("Fused")
    assert weights.dim() == 4
    torch.testing.assert_close(weights.reshape(output.shape), output, atol=1e-6, rtol=1e-5)


class Flexible(nn.Module):
    """Flex attention with documents, a slope for each head, and grouped keys."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(8, 16)
        self.key = nn.Linear(8, 8)
        self.slope = torch.rand(4, generator=torch.Generator().manual_seed(1))
        self.documents = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1, 1, 1]])
        self.function: Any = flex_attention

    def forward(self, x: Tensor) -> Tensor:
        query = self.query(x).unflatten(-1, (4, 4)).transpose(1, 2)
        key = self.key(x).unflatten(-1, (2, 4)).transpose(1, 2)
        return self.function(
            query,
            key,
            torch.eye(8).expand(2, 2, 8, 8),
            score_mod=lambda score, b, h, i, j: score - self.slope[h] * (i - j),
            block_mask=create_block_mask(
                lambda b, h, i, j: (self.documents[b, i] == self.documents[b, j]) & (i >= j), 2, None, 8, 8, "cpu"
            ),
            enable_gqa=True,
        )


@pytest.mark.filterwarnings("ignore:flex_attention called without:UserWarning")
@pytest.mark.parametrize("way", ["eager", pytest.param("compiled", marks=pytest.mark.slow)])
def test_flex_attention(way):
    model = drawn(Flexible())
    if way == "compiled":
        model.function = torch.compile(flex_attention)
    x = torch.randn(2, 8, 8, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        alone = model(x)
        with regard.look(model, values=True) as seen:
            looked_at = model(x)
    assert torch.equal(alone, looked_at)
    weights = seen.weights("Flexible")
    torch.testing.assert_close(weights, looked_at, atol=1e-5, rtol=1e-5)  # the values are the unit vectors
    torch.testing.assert_close(seen.weights("Flexible", rows=[1], heads=[2]), weights[1:, 2:3])
    assert seen.value_norms("Flexible").eq(1).all()


def test_a_function_compiled_once_is_traced_once_whoever_calls_it():
    traced = 0

    def count(graph: Any, inputs: Any) -> Any:
        nonlocal traced
        traced += 1
        return graph.forward

    torch._dynamo.reset()
    attend = torch.compile(F.scaled_dot_product_attention, backend=count)

    class Calling(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return attend(x, x, x)

    model = nn.Sequential(*[Calling() for _ in range(12)])
    x = torch.randn(2, 2, 5, 4)
    with torch.no_grad(), regard.look(model) as seen:
        model(x)
    assert seen.addresses == [str(place) for place in range(12)]
    assert traced == 1
    torch.testing.assert_close(seen.weights("0"), (x @ x.mT / 2).softmax(dim=-1))
    torch._dynamo.reset()


class LaidOut(nn.Module):
    """Attention as people write it: the softmax of a product, dropout, and another product."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        if self.way == "einsum":
            weights = torch.softmax(torch.einsum("bld,bsd->bls", x, x), dim=-1)
            return torch.einsum("bls,bsd->bld", self.dropout(weights), x)
        if self.way == "method":
            return (x @ x.mT).softmax(-1).to(x.dtype) @ x
        if self.way == "bmm":
            return torch.bmm(self.dropout(F.softmax(torch.bmm(x, x.mT), dim=2)), x)
        weights = F.softmax(torch.matmul(x, x.mT), dim=-1, dtype=torch.float32).to(x.dtype)
        return torch.matmul(self.dropout(weights).unsqueeze(1), x.unsqueeze(1))


@pytest.mark.parametrize("way", ["einsum", "method", "bmm", "matmul"])
def test_weights_that_a_module_lays_out_itself(way):
    model = LaidOut(way).train()
    x = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    alone = model(x)
    torch.manual_seed(0)
    with regard.look(model) as seen:
        looked_at = model(x)
    assert torch.equal(alone, looked_at)
    assert torch.equal(seen.weights("LaidOut")[:, 0], (x @ x.mT).softmax(dim=-1))  # before dropout


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_laid_out_weights_changed_in_place_afterwards_are_not_misread(mode):
    class Careless(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            weights = torch.softmax(x @ x.mT, dim=-1)
            output = weights @ x
            weights.zero_()
            return output

    model, x = Careless(), torch.randn(2, 5, 3)
    with mode(), regard.look(model) as seen:
        model(x)
    if mode is torch.no_grad:
        with pytest.raises(regard.InputError, match="changed since"):
            seen.weights("Careless")
    else:
        assert torch.equal(seen.weights("Careless")[:, 0], torch.softmax(x @ x.mT, dim=-1))


def test_dropout_in_place_does_not_hide_what_was_before_it():
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dropout = nn.Dropout(0.5, inplace=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.dropout(torch.softmax(x @ x.mT, dim=-1)) @ x

    model, x = InPlace().train(), torch.randn(2, 5, 3)
    with torch.no_grad(), regard.look(model) as seen:
        model(x)
    assert torch.equal(seen.weights("InPlace")[:, 0], torch.softmax(x @ x.mT, dim=-1))


def test_a_softmax_that_weighs_nothing_is_no_attention():
    model = nn.Sequential(nn.Linear(3, 4), nn.Softmax(dim=-1))
    with regard.look(model) as seen:
        model(torch.randn(2, 5, 3))
    assert seen.addresses == []
    with pytest.raises(regard.InputError, match="no attention was called"):
        seen.weights("0")
