"""Regard's own side of the suite `encoder`."""

from __future__ import annotations

import time
from typing import Any


class _Ours:
    """What embedding and training have in common."""

    def available(self) -> bool:
        """Always."""
        return True

    def versions(self) -> dict[str, str]:
        """Those of the whole report."""
        return {}


class Embedding(_Ours):
    """Vectors of sentences as `SentenceEncoder.embed` gives them, from strings to an array."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Load the folder; the first turn prepares the copy that is read."""
        import numpy as np

        from regard.tasks.loading import load
        from regard.training.memory import keep_freed_memory

        keep_freed_memory()  # as the command line does
        self._encoder = load(job["folder"], task="sentence_embedding")
        self._job = job
        self._reference = np.load(job["vectors"], allow_pickle=False)
        return {"note": f"{type(self._encoder.model).__name__} in {job['precision']}"}

    def run(self) -> dict[str, Any]:
        """All sentences once; the amount is sentences."""
        import numpy as np

        began = time.perf_counter()
        vectors = self._encoder.embed(self._job["sentences"], precision=self._job["precision"])
        seconds = time.perf_counter() - began
        cosine = np.sum(vectors[: len(self._reference)].astype(np.float64) * self._reference, axis=1).min()
        return {"amount": len(vectors), "seconds": seconds, "measures": {"least cosine with float32": float(cosine)}}


class MaskedTraining(_Ours):
    """Updates of a BERT on masked text: logits at the masked places alone, and the loss in blocks."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the optimiser."""
        import torch

        from regard.layers import Tokens
        from regard.models import Bert, BertConfig
        from regard.training.memory import keep_freed_memory

        keep_freed_memory()  # as the command line does
        self._model = Bert(BertConfig(**job["model"], head="masked")).train()
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=job["learning_rate"], fused=True)
        self._batches = []
        for batch in job["batches"]:
            ids, places = torch.tensor(batch["ids"]), torch.tensor(batch["places"])
            labels = torch.tensor(batch["labels"])
            ids.view(-1)[places] = job["mask"]
            self._batches.append((Tokens(ids, torch.ones_like(ids, dtype=torch.bool)), places, labels))
        self._job, self._next = job, 0
        count = sum(parameter.numel() for parameter in self._model.parameters())
        return {"note": f"{count:,} parameters, {job['precision']}"}

    def run(self) -> dict[str, Any]:
        """A few updates; the amount is tokens."""
        import torch

        from regard.tasks.losses import smoothed_cross_entropy

        tokens, low = 0, self._job["precision"] == "bfloat16"
        began = time.perf_counter()
        for _ in range(self._job["updates"]):
            batch, places, labels = self._batches[self._next % len(self._batches)]
            self._next += 1
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
                logits = self._model(batch, at=places).logits
                total, _ = smoothed_cross_entropy(logits, labels)
            (total / len(labels)).backward()
            _ = total.item()
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
            tokens += batch.ids.numel()
        return {"amount": tokens, "seconds": time.perf_counter() - began}


KINDS = {"embedding": Embedding, "masked_training": MaskedTraining}
