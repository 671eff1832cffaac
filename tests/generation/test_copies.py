"""What a search copies of keys and values, counted operation by operation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.generation import Continuation, FixedLength, beam_search
from regard.layers import Tokens
from regard.models import GPT2, GPT2Config


class Copies(TorchDispatchMode):
    """Counts the bytes that operations other than attention make of tensors in a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[int, Any] = {}  # storages by address; kept, so that none is reused
        self.bytes = 0

    def hold(self, state: Any) -> None:
        """The keys and values of this state are in a cache from now on."""
        for layer in state.reader.cache.layers:
            for part in (layer.key, layer.value):
                self.held[part.untyped_storage().data_ptr()] = part

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        found = function(*arguments, **(named or {}))
        if not any(name in str(function) for name in ("scaled_dot_product", "new_empty")):  # memory not written yet
            of_cache = any(self._address(each) in self.held for each in tree_leaves((arguments, named or {})))
            for made in tree_leaves(found) if of_cache else ():
                if isinstance(made, torch.Tensor) and self._address(made) not in self.held:
                    self.bytes += made.numel() * made.element_size()
        return found

    @staticmethod
    def _address(value: Any) -> int | None:
        return value.untyped_storage().data_ptr() if isinstance(value, torch.Tensor) else None


class Counted(Continuation[Any]):
    """A language model whose caches are known to `Copies`."""

    copies: Copies

    def start(self, source: Tokens) -> Any:
        state = super().start(source)
        self.copies.hold(state)
        return state

    def step(self, tokens: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
        self.copies.hold(state)
        logits, after = super().step(tokens, state)
        self.copies.hold(after)
        return logits, after


@pytest.mark.parametrize("prompt", [[0], [0, 4, 5, 6, 7, 8, 9, 10]])
def test_a_beam_search_over_a_language_model_copies_no_cache(prompt, seeded, randomize):
    """Over the 64 steps of a beam of 4 the prompt is moved once, to where there is room, and nothing else."""
    sizes = {"vocabulary": 50, "width": 32, "heads": 4, "feedforward_width": 32, "layers": 3, "maximum_positions": 80}
    model = Counted(randomize(GPT2(GPT2Config(**sizes)).eval()))
    with Copies() as model.copies:
        found = beam_search(model, Tokens.pad([prompt]), beam=4, n_best=4, limit=FixedLength(64), minimum_length=63)
    assert min(each.length for each in found[0]) >= 63
    of_a_column = 2 * 3 * 32 * 4
    assert model.copies.bytes == (len(prompt) - 1) * of_a_column
