"""What a beam search over a language model copies of its cache, and where the numbers of a text depend on its batch.

python benchmarks/cache.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from measured import record
from regard.generation import Continuation, FixedLength, beam_search
from regard.layers import Tokens
from regard.models import GPT2, GPT2Config
from regard.quantization import InferenceDecoder

ROOT = Path(__file__).resolve().parent.parent
PROMPT = [7, 19, 31, 43, 55]
OTHERS = [list(range(3, 3 + length)) for length in (12, 9, 2)]


class Copies(TorchDispatchMode):
    """Counts the bytes that operations other than attention make of tensors in a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[int, Any] = {}
        self.bytes = 0

    def hold(self, state: Any) -> None:
        """The keys and values of this state are in a cache from now on."""
        for part in (tensor for layer in state.reader.cache.layers for tensor in (layer.key, layer.value)):
            self.held[part.untyped_storage().data_ptr()] = part

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        found = function(*arguments, **(named or {}))
        if not any(name in str(function) for name in ("scaled_dot_product", "new_empty")):
            of_cache = any(self._place(each) in self.held for each in tree_leaves((arguments, named or {})))
            for made in tree_leaves(found) if of_cache else ():
                if isinstance(made, torch.Tensor) and self._place(made) not in self.held:
                    self.bytes += made.numel() * made.element_size()
        return found

    @staticmethod
    def _place(value: Any) -> int | None:
        return value.untyped_storage().data_ptr() if isinstance(value, torch.Tensor) else None


class Counted(Continuation[Any]):
    """A language model whose caches are known to `Copies`."""

    def __init__(self, model: Any, copies: Copies) -> None:
        super().__init__(model)
        self.copies = copies

    def start(self, source: Tokens) -> Any:
        """As a language model does, with its caches made known."""
        state = super().start(source)
        self.copies.hold(state)
        return state

    def step(self, tokens: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
        """As a language model does, with its caches made known."""
        self.copies.hold(state)
        logits, after = super().step(tokens, state)
        self.copies.hold(after)
        return logits, after


@torch.no_grad()
def differing(model: Any) -> dict[str, str]:
    """How many logits of a text differ in bits when it is read with others from when it is read alone."""
    alone_read, alone = model.read(Tokens.pad([PROMPT]), model.start(1))
    found: dict[str, torch.Tensor] = {}
    batches = {
        "with texts as long": ([PROMPT, [8] * len(PROMPT)], "right"),
        "padded behind": ([PROMPT, *OTHERS], "right"),
        "padded in front": ([PROMPT, *OTHERS], "left"),
    }
    token = torch.tensor([9])
    wanted = model.step(token, alone)[0][0]
    for name, (texts, side) in batches.items():
        tokens = Tokens.pad(texts, side=side)
        logits, state = model.read(tokens, model.start(len(texts)))
        found[f"read {name}"] = logits[0][tokens.valid[0]] != alone_read[0]
        if side == "left" or name == "with texts as long":
            stepped = model.step(token.expand(len(texts)), state)[0][0]
            found[f"a step after, {name}"] = stepped != wanted
    together = model.step(token.expand(4), alone.select(torch.zeros(4, dtype=torch.long)))[0][0]
    found["a step with others, after reading alone"] = together != wanted
    return {name: f"{int(part.sum())} of {part.numel()}" for name, part in found.items()}


def main() -> None:
    torch.manual_seed(0)
    model = GPT2(GPT2Config(vocabulary=500, maximum_positions=128)).eval()
    figures: dict[str, Any] = {}
    copies = Copies()
    with copies:
        beam_search(Counted(model, copies), Tokens.pad([PROMPT]), beam=4, limit=FixedLength(64), minimum_length=63)
    figures["cache copied by a beam of 4 in 64 steps, MB"] = round(copies.bytes / 1e6, 3)
    formats = {"float32": model, "8 bits": InferenceDecoder(model, "int8")}
    formats["bfloat16"] = GPT2(model.config).bfloat16().eval()
    formats["bfloat16"].load_state_dict(model.state_dict())
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for name, made in formats.items():
            figures[f"logits that differ in bits from the text alone, {name}, {threads} threads"] = differing(made)
    record(
        ROOT / "docs" / "results" / "cache.json",
        title="One cache: what a beam search copies, and where the numbers of a text depend on its batch",
        command="python benchmarks/cache.py",
        precision="float32, bfloat16, int8",
        seed=0,
        figures=figures,
        target="a beam of 4 over a GPT-2 copies at most 1 MB of its cache in 64 steps",
        note="Random weights, 500 tokens; the prompt's part of the cache is moved once, to a larger buffer.",
    )


if __name__ == "__main__":
    main()
