"""BertViz: its head view of the weights that `transformers` gives under eager attention, written to a file.

Needs bertviz, transformers and torch, and nothing of Regard.
"""

from __future__ import annotations

import time
from importlib import metadata, util
from typing import Any


class Page:
    """A page from a text: forward pass with all weights, head view, file."""

    def available(self) -> bool:
        """Whether BertViz and what it is shown are installed."""
        return all(util.find_spec(name) is not None for name in ("bertviz", "transformers", "torch"))

    def versions(self) -> dict[str, str]:
        """Of BertViz, transformers and PyTorch."""
        return {name: metadata.version(name) for name in ("bertviz", "transformers", "torch")}

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model, switched to eager attention, and sample a text."""
        import torch
        from transformers import BertConfig, BertModel

        self._model = BertModel(BertConfig(**job["model"]), add_pooling_layer=False).eval()
        self._model.set_attn_implementation("eager")
        generator = torch.Generator().manual_seed(job["seed"])
        with torch.no_grad():
            for parameter in self._model.parameters():
                parameter.normal_(std=0.05, generator=generator)
        self._ids = torch.randint(job["model"]["vocab_size"], (job["batch"], job["tokens"]), generator=generator)
        self._job = job
        return {"note": f"{type(self._model).__name__}, attention {self._model.config._attn_implementation}"}

    def run(self) -> dict[str, Any]:
        """One page; the amount is the seconds it takes."""
        import bertviz  # pyright: ignore[reportMissingImports]
        import torch

        job = self._job
        tokens = [f"token{index}" for index in self._ids[0].tolist()]
        began = time.perf_counter()
        with torch.no_grad():
            attentions = self._model(self._ids, output_attentions=True).attentions
        layers = list(range(job["layers"]))
        page = str(bertviz.head_view(attentions, tokens, include_layers=layers, html_action="return").data)  # pyright: ignore
        with open(job["file"], "w", encoding="utf-8") as file:
            file.write(page)
        seconds = time.perf_counter() - began
        return {"amount": seconds, "seconds": 1.0, "measures": {"file, MB": len(page.encode()) / 1e6}}


KINDS = {"page": Page}
