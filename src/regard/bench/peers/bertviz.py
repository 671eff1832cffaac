"""BertViz: its head view of the weights from `transformers` with eager attention, written to a file.

Needs bertviz, transformers and torch, but not Regard.
"""

from __future__ import annotations

import time
from typing import Any

from .shared import Installed, random_bert


class Page(Installed):
    """A page from a text: forward pass with all weights, head view, file."""

    needs = ("bertviz", "transformers", "torch")

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model with eager attention, and sample a text."""
        self._model, self._ids = random_bert(job)
        self._model.set_attn_implementation("eager")
        self._job = job
        return {"note": f"{type(self._model).__name__}, attention {self._model.config._attn_implementation}"}

    def run(self) -> dict[str, Any]:
        """Make one page; the amount is its time in seconds."""
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
