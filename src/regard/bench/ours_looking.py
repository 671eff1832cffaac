"""Regard's own side of the suite `look`, on the very model of `transformers` that the peers run."""

from __future__ import annotations

import time
from importlib import util
from pathlib import Path
from typing import Any


class _Looking:
    """What recording and picturing have in common."""

    def available(self) -> bool:
        """Where `transformers` is, whose model is looked at."""
        return util.find_spec("transformers") is not None

    def versions(self) -> dict[str, str]:
        """Those of the whole report."""
        return {}

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and draw a text."""
        import torch
        from transformers import BertConfig, BertModel

        from regard.training.memory import keep_freed_memory

        keep_freed_memory()  # as the command line does
        self._model = BertModel(BertConfig(**job["model"]), add_pooling_layer=False).eval()
        generator = torch.Generator().manual_seed(job["seed"])
        with torch.no_grad():
            for parameter in self._model.parameters():
                parameter.normal_(std=0.05, generator=generator)
        self._ids = torch.randint(job["model"]["vocab_size"], (job["batch"], job["tokens"]), generator=generator)
        self._job = job
        return {"note": f"{type(self._model).__name__}, attention {self._model.config._attn_implementation}"}


class Recording(_Looking):
    """Forward passes while the recorder keeps what it needs; no weight is computed."""

    def run(self) -> dict[str, Any]:
        """A few passes; the amount is tokens."""
        import torch

        from regard.inspection import look

        job = self._job
        began = 0.0
        for number in range(1 + job["passes"]):
            if number == 1:  # the first pass brings back what the system took from a process that waited
                began = time.perf_counter()
            with torch.no_grad(), look(self._model, job["addresses"]):
                self._model(self._ids)
        seconds = time.perf_counter() - began
        amount = job["passes"] * job["batch"] * job["tokens"]
        return {"amount": amount, "seconds": seconds}


class Picture(_Looking):
    """A page from a text: forward pass, weights, page, file."""

    def run(self) -> dict[str, Any]:
        """One page; the amount is the seconds it takes."""
        import torch

        from regard.inspection import look

        job = self._job
        addresses = [f"encoder.layer.{layer}.*" for layer in range(job["layers"])]
        tokens = [f"token{index}" for index in self._ids[0].tolist()]
        began = time.perf_counter()
        with torch.no_grad(), look(self._model, addresses) as seen:
            self._model(self._ids)
        seen.show(job["file"], tokens=tokens)
        seconds = time.perf_counter() - began
        size = Path(job["file"]).stat().st_size / 1e6
        return {"amount": seconds, "seconds": 1.0, "measures": {"file, MB": size}}


KINDS = {"recording": Recording, "picture": Picture}
