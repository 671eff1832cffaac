"""sentence-transformers: `encode` with the same folder and default settings, in float32 or bfloat16.

Needs sentence-transformers and torch, but not Regard.
"""

from __future__ import annotations

import time
from importlib import metadata, util
from typing import Any

from .shared import cosines


class Embedding:
    """Sentence embeddings, from strings to an array."""

    by_torch = True

    def available(self) -> bool:
        """Whether sentence-transformers and PyTorch are installed."""
        return all(util.find_spec(name) is not None for name in ("sentence_transformers", "torch"))

    def versions(self) -> dict[str, str]:
        """The versions of sentence-transformers, transformers and PyTorch."""
        return {name: metadata.version(name) for name in ("sentence-transformers", "transformers", "torch")}

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Load the folder in a precision."""
        import numpy as np
        from sentence_transformers import SentenceTransformer  # pyright: ignore[reportAttributeAccessIssue, reportMissingImports]

        settings: dict[str, Any] = (
            {} if job["precision"] == "float32" else {"model_kwargs": {"dtype": job["precision"]}}
        )
        self._model = SentenceTransformer(job["folder"], device="cpu", **settings)
        self._job = job
        self._reference = np.load(job["vectors"], allow_pickle=False)
        return {"note": f"dtype {next(self._model.parameters()).dtype}, batches of 32"}

    def run(self) -> dict[str, Any]:
        """Embed all sentences once; the amount is in sentences."""
        began = time.perf_counter()
        vectors = self._model.encode(self._job["sentences"], show_progress_bar=False)
        seconds = time.perf_counter() - began
        return {"amount": len(vectors), "seconds": seconds, "measures": cosines(vectors, self._reference)}


KINDS = {"embedding": Embedding}
