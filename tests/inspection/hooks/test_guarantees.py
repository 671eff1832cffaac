"""What a look promises holds for modules of other libraries too."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard


class Block(nn.Module):
    """Self-attention through the fused kernel, with a cache that is written in place where there is one."""

    def __init__(self, cached: int = 0) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(6, 6), nn.Linear(6, 6)
        self.cache = torch.zeros(2, 1, cached, 6) if cached else None

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        query, key = self.query(x)[:, None], self.key(x)[:, None]
        mask = None
        if self.cache is not None:
            self.cache[:, :, start : start + x.shape[1]] = key.detach()
            key = self.cache
            mask = (torch.arange(key.shape[2]) < start + x.shape[1]).expand(x.shape[1], -1)
        return F.scaled_dot_product_attention(query, key, key, attn_mask=mask)[:, 0]


class Pair(nn.Module):
    """Two blocks, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


@pytest.fixture
def x() -> Tensor:
    """A batch of two rows of five."""
    return torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(0))


def states(model: nn.Module) -> list[dict[str, Any]]:
    """All that hangs on the modules."""
    return [
        {name: copy.copy(value) for name, value in part.__dict__.items() if not isinstance(value, torch.Tensor)}
        for part in model.modules()
    ]


def test_nothing_is_left_on_the_modules(x):
    model = nn.ModuleList([Pair(), nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, batch_first=True), 1)])
    before = states(model)
    with regard.look(model) as seen:
        model[0](x)
        model[1](x)
    assert states(model) == before
    assert seen.addresses == ["0.first", "0.second", "1.layers.0.self_attn"]


def test_an_error_in_the_model_is_the_models_and_leaves_nothing(x):
    model = Pair()
    before = states(model)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), regard.look(model):
        model(x[..., :3])
    assert states(model) == before


def test_queries_changed_in_place_since_raise(x):
    class Careless(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            query = x * 2
            output = F.scaled_dot_product_attention(query, x, x)
            query.zero_()
            return output

    model = Careless()
    with regard.look(model) as seen:
        model(x)
    with pytest.raises(regard.InputError, match="the query changed since"):
        seen.weights("Careless")


def test_parameters_of_multi_head_attention_changed_since_raise(x):
    model = nn.MultiheadAttention(6, 2, batch_first=True).eval()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    with regard.look(model) as seen:
        model(x, x, x)[0].sum().backward()
        before = seen.weights("MultiheadAttention").clone()
        optimizer.step()
        with pytest.raises(regard.InputError, match="a parameter of the attention changed since"):
            seen.weights("MultiheadAttention")
        model(x, x, x)
        assert not torch.equal(seen.weights("MultiheadAttention"), before)


def test_parameters_are_copied_once_while_they_stay_what_they_are(x):
    model = nn.MultiheadAttention(96, 2, batch_first=True).eval()
    wide = torch.randn(2, 50, 96)
    with torch.no_grad(), regard.look(model) as seen:
        for _ in range(3):
            model(wide, wide, wide)
    copies = {id(snapshot.was) for run in seen.runs for calls in run.calls.values() for snapshot in calls[0].parameters}
    # The matrix once; its bias, which is small, at every pass.
    assert len(copies) == 1 + 3


def test_a_cache_written_in_place_is_copied_or_read_at_once(x):
    model = Block(cached=64)
    with torch.no_grad(), regard.look(model) as seen:
        model(x)
        model(x[:, :1], 5)
        model(x[:, :1], 6)
    first = seen.weights("Block", run=0)
    query, key = model.query(x), model.key(x)
    want = (query @ key.mT / 6**0.5).softmax(dim=-1)
    torch.testing.assert_close(first[:, 0, :, :5], want)
    assert not first[..., 5:].any()
    assert tuple(seen.weights("Block", run=2).shape) == (2, 1, 1, 64)


def test_steps_within_one_pass_are_rows_of_one_map(x):
    class Reader(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat(
                [F.scaled_dot_product_attention(x[:, i : i + 1], x[:, : i + 1], x[:, : i + 1]) for i in range(5)], dim=1
            )

    model = Reader()
    with regard.look(model) as seen:
        model(x)
    weights = seen.weights("Reader")
    assert tuple(weights.shape) == (2, 1, 5, 5)
    scores = (x @ x.mT / 6**0.5).masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(weights[:, 0], scores.softmax(dim=-1))


def test_a_module_that_attends_from_two_lines_has_two_addresses(x):
    class Both(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            x = F.scaled_dot_product_attention(x, x, x)
            return F.scaled_dot_product_attention(x, y, y)

    model = Both()
    with regard.look(model) as seen:
        model(x, torch.randn(2, 3, 6))
    assert seen.addresses == ["Both", "Both:2"]
    assert [tuple(seen.weights(address).shape) for address in seen.addresses] == [(2, 1, 5, 5), (2, 1, 5, 3)]


def test_modules_outside_are_not_seen(x):
    inside, outside = Block(), Block()
    with regard.look(inside) as seen:
        outside(x)
        inside(x)
        F.scaled_dot_product_attention(x, x, x)
    assert [list(run.calls) for run in seen.runs] == [["Block"]]


def test_threads_do_not_meet(x):
    model = Pair()
    models: dict[str, Any] = {"shared": model, "layer": nn.TransformerEncoderLayer(6, 2, batch_first=True).eval()}
    seen: dict[tuple[str, int], Any] = {}
    alone = {name: one(x).detach() for name, one in models.items()}
    outputs: dict[tuple[str, int], list[Tensor]] = {}
    start = threading.Barrier(4)

    def work(name: str, number: int) -> None:
        start.wait()
        with torch.no_grad(), regard.look(models[name]) as record:
            outputs[name, number] = [models[name](x) for _ in range(20)]
        seen[name, number] = record

    # Each module by two threads, one after the other entering and leaving at any time.
    threads = [threading.Thread(target=work, args=(name, number)) for name in models for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (name, _), record in seen.items():
        assert len(record.runs) == 20
        assert all(len(run.calls) == (2 if name == "shared" else 1) for run in record.runs)
    for (name, _), given in outputs.items():
        assert all(torch.allclose(one, alone[name], atol=1e-6) for one in given)


def test_a_look_does_not_see_other_threads(x):
    model = Pair()
    with regard.look(model) as seen:
        thread = threading.Thread(target=model, args=(x,))
        thread.start()
        thread.join()
    assert seen.runs == []


def test_nested_looks_see_the_same(x):
    model = nn.Sequential(Pair(), nn.TransformerEncoderLayer(6, 2, batch_first=True)).eval()
    with torch.no_grad():
        alone = model(x)
        with regard.look(model) as outer, regard.look(model) as inner:
            looked_at = model(x)
    assert torch.equal(alone, looked_at)
    assert outer.addresses == inner.addresses == ["0.first", "0.second", "1.self_attn"]
    for address in outer.addresses:
        assert torch.equal(outer.weights(address), inner.weights(address))


def test_other_function_modes_are_left_in_place(x):
    class Counting(torch.overrides.TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            Counting.calls += 1
            return func(*args, **(kwargs or {}))

    model = nn.TransformerEncoderLayer(6, 2, batch_first=True).eval()
    with torch.no_grad(), Counting():
        alone = model(x)
        counted = Counting.calls
        with regard.look(model) as seen:
            looked_at = model(x)
    assert torch.equal(alone, looked_at)
    assert Counting.calls > counted
    assert seen.addresses == ["self_attn"]


def test_inference_mode_and_kept_runs(x):
    model = Pair()
    with torch.inference_mode(), regard.look(model, keep=2) as seen:
        outputs = [model(x * factor) for factor in (1, 2, 3)]
    assert len(seen.runs) == 2
    with torch.no_grad():
        want = Pair.forward(model, x * 3)
    assert torch.equal(outputs[-1], want)
    torch.testing.assert_close(
        seen.weights("first"),
        ((3 * x) @ model.first.query.weight.T + model.first.query.bias)[:, None]
        .matmul((((3 * x) @ model.first.key.weight.T + model.first.key.bias)[:, None]).mT / 6**0.5)
        .softmax(dim=-1)
        .detach(),
    )


def test_the_fused_kernel_still_runs(x, monkeypatch):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    model = Pair()
    with (
        torch.no_grad(),
        regard.look(model),
        torch.profiler.profile() as profile,
        sdpa_kernel(SDPBackend.FLASH_ATTENTION),
    ):
        model(x)
    names = {event.key for event in profile.key_averages()}
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" in names
    assert "aten::softmax" not in names


def test_tokens_that_fit_nothing_are_refused(x):
    model = Pair()
    with regard.look(model) as seen:
        model(x)
    with pytest.raises(regard.InputError, match=r"3 given, but the maps are over 5 places"):
        seen.view(0, tokens=["a", "b", "c"])
    with pytest.raises(regard.InputError, match="a string given"):
        seen.view(0, tokens="abcde")
    with pytest.raises(regard.InputError, match="say which with row="):
        seen.view(tokens=list("abcde"))


@pytest.mark.parametrize("kind", ["fused kernel", "encoder layers"])
def test_what_was_kept_is_freed_with_the_record(kind, x):
    """At once, without the garbage collector: a training loop that looks at every step would else fill the memory."""
    model = Pair() if kind == "fused kernel" else nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2), 1).eval()
    gc.collect()
    gc.disable()
    try:
        with torch.no_grad(), regard.look(model) as seen:
            model(x)
        kept = [weakref.ref(call.query.tensor) for calls in seen.runs[0].calls.values() for call in calls]
        assert all(one() is not None for one in kept)
        del seen
        assert [one() for one in kept] == [None] * len(kept)
    finally:
        gc.enable()
