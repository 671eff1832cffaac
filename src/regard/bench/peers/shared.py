"""What several drivers share: which libraries are installed, updates in a plain loop, and what is looked at or compared.

Like them this imports nothing of Regard, and no library before it is needed.
"""

from __future__ import annotations

import ctypes
import time
from importlib import metadata, util
from typing import Any


class Installed:
    """A driver of a library that is installed as a Python package."""

    needs: tuple[str, ...]
    """The library and what decides its speed, by the names under which they are imported."""

    def available(self) -> bool:
        """Whether all that is needed is installed."""
        return all(util.find_spec(name) is not None for name in self.needs)

    def versions(self) -> dict[str, str]:
        """Of all that is needed."""
        return {name: metadata.version(name) for name in self.needs}


class Updates(Installed):
    """Updates by AdamW, batch by batch; `prepare` gives the model and the batches, `_loss` the loss of one."""

    needs = ("torch",)
    by_torch = True
    _model: Any
    _batches: list[Any]

    def _loss(self, batch: Any) -> tuple[Any, int]:
        """The mean loss of a batch, and the amount that it is."""
        raise NotImplementedError

    def _begin(self, job: dict[str, Any]) -> str:
        """Build the optimiser; how large the model is, in words."""
        import torch

        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=job["learning_rate"], fused=True)
        self._job, self._next = job, 0
        keep_freed_memory()
        return f"{sum(parameter.numel() for parameter in self._model.parameters()):,} parameters"

    def run(self) -> dict[str, Any]:
        """Run a few updates; the amount is in the unit of `_loss`."""
        import torch

        amount, low = 0, self._job["precision"] == "bfloat16"
        began = time.perf_counter()
        for _ in range(self._job["updates"]):
            batch = self._batches[self._next % len(self._batches)]
            self._next += 1
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
                loss, count = self._loss(batch)
            loss.backward()
            _ = loss.item()
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
            amount += count
        return {"amount": amount, "seconds": time.perf_counter() - began}


def random_bert(job: dict[str, Any]) -> tuple[Any, Any]:
    """The BERT of `transformers` with random weights, and the token ids of a text, (B, L), both by the job's seed."""
    import torch
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(**job["model"]), add_pooling_layer=False).eval()
    generator = torch.Generator().manual_seed(job["seed"])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.05, generator=generator)
    ids = torch.randint(job["model"]["vocab_size"], (job["batch"], job["tokens"]), generator=generator)
    return model, ids


def cosines(vectors: Any, reference: Any) -> dict[str, float]:
    """How close the first vectors of unit length are to those in float32, as measures of a run."""
    import numpy as np

    found = np.sum(vectors[: len(reference)].astype(np.float64) * reference, axis=1)
    return {"least cosine with float32": float(found.min()), "mean cosine with float32": float(found.mean())}


def keep_freed_memory() -> None:
    """Let the C library keep what is freed, as ours does: otherwise new pages are part of what is timed."""
    try:
        library = ctypes.CDLL(None)
        library.mallopt(-4, 0)  # M_MMAP_MAX
        library.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
    except (OSError, AttributeError):
        pass
