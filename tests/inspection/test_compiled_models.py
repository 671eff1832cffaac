"""Models that run through `torch.compile`: traced anew, with queries and keys among the outputs of the graph."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regard
from regard.layers import Tokens
from regard.models import Bahdanau, BahdanauConfig, Bert, BertConfig, Transformer, TransformerConfig

SOURCE, TARGET = Tokens.pad([[3, 4, 5, 6], [4, 5]]), Tokens.pad([[1, 3, 4], [1, 4]])
X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))


class Fused(nn.Module):
    """Three layers that call the fused kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.blocks = nn.ModuleList(FusedBlock(layer) for layer in self.layers)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class FusedBlock(nn.Module):
    """Self-attention with a projection."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return x + torch.nn.functional.scaled_dot_product_attention(y, x, x, is_causal=True)


def ours() -> nn.Module:
    return Transformer(
        TransformerConfig(
            source_vocabulary=20, target_vocabulary=20, width=8, heads=2, encoder_layers=1, decoder_layers=2
        )
    )


def recurrent() -> nn.Module:
    return Bahdanau(
        BahdanauConfig(
            source_vocabulary=9,
            target_vocabulary=9,
            embedding_width=4,
            hidden_width=5,
            attention_width=6,
            maxout_width=3,
        )
    )


class Reader(nn.Module):
    """A BERT of which heads were pruned, its last vectors alone."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"vocabulary": 20, "width": 12, "heads": 3, "feedforward_width": 8, "layers": 2}
        self.bert = Bert(BertConfig(**sizes, pruned_heads=((0, 1),)))

    def forward(self, tokens: Tokens) -> Tensor:
        return self.bert(tokens).hidden


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "transformer": (ours, (SOURCE, TARGET)),
    "bahdanau": (recurrent, (SOURCE, TARGET)),
    "bert": (Reader, (SOURCE,)),
    "fused": (Fused, (X,)),
    "torch": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), 2), (X,)),
}


def whole(model: nn.Module, backend: str) -> Any:
    return torch.compile(model, backend=backend)


def in_place(model: nn.Module, backend: str) -> nn.Module:
    model = copy.deepcopy(model)
    model.compile(backend=backend)
    return model


def in_parts(model: nn.Module, backend: str) -> nn.Module:
    model = copy.deepcopy(model)
    for child in model.children():
        if not isinstance(child, nn.ModuleList):
            child.compile(backend=backend)
        for part in child if isinstance(child, nn.ModuleList) else ():
            part.compile(backend=backend)
    return model


WAYS = {"whole": whole, "in place": in_place, "in parts": in_parts}


@pytest.fixture(autouse=True)
def forgotten():
    """Each test compiles anew."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize(
    "backend",
    ["eager", pytest.param("inductor", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize(
    ("family", "way"),
    [
        pytest.param(family, "whole", marks=[pytest.mark.slow] if family in ("bahdanau", "transformer") else [])
        for family in MODELS
    ]
    + [pytest.param("transformer", "in place", marks=pytest.mark.slow), ("fused", "in place"), ("fused", "in parts")],
)
def test_a_compiled_model_shows_what_the_model_shows(family, way, backend):
    build, given = MODELS[family]
    torch.manual_seed(5)
    model = build().eval()
    compiled = WAYS[way](model, backend)
    with torch.no_grad():
        with regard.look(model) as want:
            model(*given)
        alone = compiled(*given)
        for _ in range(2):
            with regard.look(compiled) as seen:
                looked_at = compiled(*given)
            torch.testing.assert_close(looked_at, alone, atol=1e-6, rtol=1e-5)
            assert seen.addresses == want.addresses
            assert len(seen.runs) == 1
            for address in want.addresses:
                torch.testing.assert_close(seen.weights(address), want.weights(address), atol=1e-5, rtol=1e-5)
        assert torch.equal(compiled(*given), alone)


def test_values_and_hidden_states_leave_the_graph_too():
    model = Fused().eval()
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        with regard.look(model, values=True, hidden=["blocks.*"]) as want:
            model(X)
        with regard.look(compiled, values=True, hidden=["blocks.*"]) as seen:
            compiled(X)
    for address in want.addresses:
        assert torch.equal(seen.value_norms(address), want.value_norms(address))
        assert torch.equal(seen.hidden(address), want.hidden(address))


def test_the_graph_is_traced_once_for_all_looks():
    model = Fused().eval()
    traced = 0

    def count(graph: Any, inputs: Any) -> Any:
        nonlocal traced
        traced += 1
        return graph.forward

    compiled = torch.compile(model, backend=count)
    with torch.no_grad():
        compiled(X)
        for _ in range(4):
            with regard.look(compiled) as seen:
                compiled(X)
            assert len(seen.addresses) == 3
        compiled(X)
    assert traced == 2


@pytest.mark.parametrize("family", [pytest.param("transformer", marks=pytest.mark.slow), "fused"])
def test_shapes_may_be_dynamic(family):
    build, given = MODELS[family]
    torch.manual_seed(5)
    model = build().eval()
    compiled: Any = torch.compile(model, backend="eager", dynamic=True)
    longer = (
        (Tokens.pad([[3, 4, 5, 6, 7, 8, 2], [4, 5]]), Tokens.pad([[1, 3, 4, 5, 6], [1, 4]]))
        if family == "transformer"
        else (torch.randn(2, 9, 8),)
    )
    batches = (given, longer, given)
    with torch.no_grad():
        with regard.look(model) as want:
            alone = [model(*one) for one in batches]
        with regard.look(compiled) as seen:
            looked_at = [compiled(*one) for one in batches]
    torch.testing.assert_close(looked_at, alone)
    assert seen.addresses == want.addresses
    for run in range(3):
        for address in want.addresses:
            torch.testing.assert_close(seen.weights(address, run=run), want.weights(address, run=run))


def test_training_through_a_compiled_graph():
    torch.manual_seed(2)
    model = Fused()
    compiled = torch.compile(copy.deepcopy(model), backend="eager")
    with regard.look(compiled) as seen:
        compiled(X).square().mean().backward()
    model(X).square().mean().backward()
    for ours, theirs in zip(compiled.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
    assert not seen.weights("blocks.0").requires_grad


def test_attention_that_a_module_lays_out_in_a_graph_is_not_seen_and_a_warning_says_so():
    class ByHand(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return (x @ y.mT).softmax(dim=-1) @ y

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hand = ByHand()

        def forward(self, x: Tensor) -> Tensor:
            return torch.nn.functional.scaled_dot_product_attention(self.hand(x, x), x, x)

    model = Both()
    with regard.look(model) as seen:
        wanted = model(X)
    assert seen.addresses == ["hand", "Both"]
    compiled: Any = torch.compile(model, backend="eager")
    for _ in range(2):  # traced, then run again
        with pytest.warns(UserWarning, match=r"^hand: a softmax is computed in a graph of torch\.compile"):  # noqa: SIM117
            with regard.look(compiled) as seen:
                torch.testing.assert_close(compiled(X), wanted)
        assert seen.addresses == ["Both"]


def test_a_graph_that_breaks_is_refused_in_one_sentence():
    class Breaking(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            torch._dynamo.graph_break()
            return torch.nn.functional.scaled_dot_product_attention(x, x, x)

    model: Any = torch.compile(Breaking(), backend="eager")
    assert model(X).shape == X.shape
    with pytest.raises(regard.InputError, match=r"look at the model without torch\.compile"), regard.look(model):
        model(X)
    assert model(X).shape == X.shape
