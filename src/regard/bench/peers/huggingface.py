"""Hugging Face transformers: `generate` on the exported folder, at its defaults.

Needs transformers and torch, and nothing of Regard.
"""

from __future__ import annotations

import time
from importlib import metadata, util
from typing import Any


class Translation:
    """Beam search by `generate`; everything but the beam and the longest answer is the library's default."""

    def available(self) -> bool:
        """Whether transformers and PyTorch are installed."""
        return all(util.find_spec(name) is not None for name in ("transformers", "torch"))

    def versions(self) -> dict[str, str]:
        """Of transformers and of its PyTorch."""
        return {name: metadata.version(name) for name in ("transformers", "torch")}

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Load the folder in the precision asked for."""
        import torch
        from transformers import AutoModelForSeq2SeqLM

        model = AutoModelForSeq2SeqLM.from_pretrained(job["folder"], local_files_only=True)
        self._model = model.to(getattr(torch, job["precision"])).eval()
        # Padding is ruled out by the bias of the logits already: another pass over them each step would cost time for nothing.
        model.generation_config.bad_words_ids = None  # type: ignore[union-attr]
        self._job = job
        padding, end = model.config.pad_token_id, job["end_id"]
        self._batches = []
        for rows in job["batches"]:
            longest = max(map(len, rows)) + 1
            ids = [[*row, end] + [padding] * (longest - 1 - len(row)) for row in rows]
            mask = [[1] * (len(row) + 1) + [0] * (longest - 1 - len(row)) for row in rows]
            self._batches.append((torch.tensor(ids), torch.tensor(mask)))
        # The end, padding and start are no words of an answer.
        self._marks = {end, padding, model.config.decoder_start_token_id}
        return {"note": f"{type(model).__name__}, {sum(p.numel() for p in model.parameters()):,} parameters"}

    def run(self) -> dict[str, Any]:
        """Every batch once; the amount is tokens of the best answers, without end and padding."""
        import torch

        job, found = self._job, []
        began = time.perf_counter()
        with torch.inference_mode():
            for (ids, mask), length in zip(self._batches, job["lengths"]):  # noqa: B905  # any interpreter's Python
                forced = {"min_new_tokens": length, "max_new_tokens": length}
                limits = forced if length else {"max_new_tokens": ids.shape[1] + job["extra"]}
                written = self._model.generate(
                    ids, attention_mask=mask, num_beams=job["beam"], do_sample=False, **limits
                )
                found.append(written)
        seconds = time.perf_counter() - began
        answers = [[index for index in row if index not in self._marks] for rows in found for row in rows.tolist()]
        return {"amount": sum(map(len, answers)), "seconds": seconds, "answers": answers}


KINDS = {"translation": Translation}
