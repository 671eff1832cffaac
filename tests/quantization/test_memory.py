"""Weights in large pages: the same numbers, next to one another, and kept as long as somebody reads them."""

from __future__ import annotations

import copy
import gc
import mmap
import pickle

import pytest
import torch

from regard.models import GPT2, GPT2Config
from regard.quantization import InferenceDecoder
from regard.quantization.memory import ALIGNMENT, CHUNK, LARGE_PAGE, LargePages


def test_tensors_of_any_kind_keep_their_numbers():
    memory = LargePages()
    given = [
        torch.randn(3, 5),
        torch.randn(4, 2).bfloat16().T,
        torch.arange(7, dtype=torch.uint8),
        torch.empty(0, 3),
        torch.tensor(2.5, dtype=torch.float64),
        torch.nn.Parameter(torch.randn(2, 2)),
    ]
    kept = [memory.keep(tensor) for tensor in given]
    for tensor, own in zip(given, kept, strict=True):
        assert own.dtype == tensor.dtype
        assert torch.equal(own, tensor)
        assert own.is_contiguous()
        assert not own.requires_grad
        assert own.data_ptr() % ALIGNMENT == 0
    assert kept[0].data_ptr() % LARGE_PAGE == 0
    assert kept[2].data_ptr() - kept[0].data_ptr() == 2 * ALIGNMENT


def test_one_that_is_larger_than_a_chunk_has_its_own():
    memory = LargePages()
    first, large, later = (memory.keep(torch.full((size,), 7, dtype=torch.uint8)) for size in (8, CHUNK + 5, 9))
    assert all(bool((tensor == 7).all()) for tensor in (first, large, later))
    assert large.data_ptr() % LARGE_PAGE == 0


def test_they_are_there_as_long_as_they_are_read():
    kept = LargePages().keep(torch.arange(100_000))
    gc.collect()
    assert torch.equal(kept, torch.arange(100_000))


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="this system has no large pages to ask for")
def test_a_system_that_refuses_gives_ordinary_pages(monkeypatch):
    class Refusing(mmap.mmap):
        def madvise(self, *arguments):
            raise OSError("no large pages here")

    monkeypatch.setattr(mmap, "mmap", Refusing)
    assert LargePages().keep(torch.ones(3)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8", "int4"])
def test_the_weights_of_a_decoder_are_there_one_after_another(precision):
    config = GPT2Config(vocabulary=40, width=32, heads=1, feedforward_width=64, layers=2, maximum_positions=6)
    torch.manual_seed(1)
    decoder = InferenceDecoder(GPT2(config).eval(), precision)
    weights = [getattr(part, "values", getattr(part, "weight", None)) for part in decoder.layers.modules()]
    places = [weight.data_ptr() for weight in weights if weight is not None and weight.ndim > 1]
    assert len(places) == 12
    assert places == sorted(places)
    assert places[-1] - places[0] < LARGE_PAGE
    state = decoder.start(1)
    wanted = decoder.step(torch.tensor([3]), state)[0]
    pickled = pickle.dumps(decoder)
    assert len(pickled) < 2 * sum(parameter.nbytes for parameter in GPT2(config).parameters()) + 100_000
    for other in (copy.deepcopy(decoder), pickle.loads(pickled)):
        assert torch.equal(other.step(torch.tensor([3]), other.start(1))[0], wanted)
        assert next(other.layers.modules()) is not next(decoder.layers.modules())
        again = [getattr(part, "values", getattr(part, "weight", None)) for part in other.layers.modules()]
        places = [weight.data_ptr() for weight in again if weight is not None and weight.ndim > 1]
        assert max(places) - min(places) < LARGE_PAGE
