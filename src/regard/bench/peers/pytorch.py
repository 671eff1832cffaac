"""Plain PyTorch: the same equations from its own layers, trained in a plain loop.

Needs torch and nothing of Regard.
"""

from __future__ import annotations

import time
from importlib import metadata, util
from typing import Any


class _Updates:
    """Updates by AdamW, batch by batch; `prepare` gives the batches, and what makes a mean loss of one."""

    _model: Any
    _batches: list[Any]

    def available(self) -> bool:
        """Whether PyTorch is installed."""
        return util.find_spec("torch") is not None

    def versions(self) -> dict[str, str]:
        """Of PyTorch."""
        return {"torch": metadata.version("torch")}

    def _loss(self, batch: Any) -> tuple[Any, int]:
        """The mean loss of a batch, and its amount."""
        raise NotImplementedError

    def _begin(self, job: dict[str, Any]) -> dict[str, str]:
        import torch

        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=job["learning_rate"], fused=True)
        self._job, self._next = job, 0
        _keep_freed_memory()
        count = sum(parameter.numel() for parameter in self._model.parameters())
        return {"note": f"{count:,} parameters"}

    def run(self) -> dict[str, Any]:
        """A few updates; the amount is what `_loss` counts."""
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


class LSTMTraining(_Updates):
    """A language model of `nn.LSTM`."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the optimiser."""
        import torch
        from torch import nn

        sizes = job["model"]
        width, rate = sizes["hidden_width"], sizes["dropout"]
        self._model = nn.ModuleDict(
            {
                "embedding": nn.Embedding(sizes["vocabulary"], sizes["embedding_width"]),
                "dropout": nn.Dropout(rate),
                "lstm": nn.LSTM(sizes["embedding_width"], width, sizes["layers"], dropout=rate, batch_first=True),
                "output": nn.Linear(width, sizes["vocabulary"]),
            }
        ).train()
        self._batches = list(torch.tensor(job["batches"]))
        return self._begin(job)

    def _loss(self, batch: Any) -> tuple[Any, int]:
        import torch.nn.functional as F

        model, labels = self._model, batch[:, 1:]
        hidden, _ = model["lstm"](model["dropout"](model["embedding"](batch[:, :-1])))
        logits = model["output"](model["dropout"](hidden))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()), labels.numel()


def _keep_freed_memory() -> None:
    """Let the C library keep what is freed, as ours does: else new pages are part of what is timed."""
    import ctypes

    try:
        library = ctypes.CDLL(None)
        library.mallopt(-4, 0)  # M_MMAP_MAX
        library.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
    except (OSError, AttributeError):
        pass


KINDS = {"lstm_training": LSTMTraining}
