"""Regard's own side of the suite `decoder`."""

from __future__ import annotations

import time
from typing import Any


class Decoding:
    """Greedy search over a language model, from token ids to token ids."""

    def available(self) -> bool:
        """Always."""
        return True

    def versions(self) -> dict[str, str]:
        """Those of the whole report."""
        return {}

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Load the folder in the precision asked for."""
        import torch

        from regard.checkpoints import read_model
        from regard.layers import Tokens
        from regard.prepared import BITS, PreparedDecoder
        from regard.training.memory import keep_freed_memory

        keep_freed_memory()  # as the command line does
        model, precision = read_model(job["folder"]).eval(), job["precision"]
        if precision in BITS:
            model = PreparedDecoder(model, precision)  # type: ignore[arg-type]
            if model.slow:
                return {"left_out": model.slow}
        else:
            model = model.to(getattr(torch, precision))
        self._model, self._job = model, job
        self._source = Tokens.pad(job["prompts"], padding_id=job["end_id"], side="left")
        return {"note": f"{type(model).__name__} in {precision}"}

    def run(self) -> dict[str, Any]:
        """Read the prompts and write on; the amount is tokens written."""
        from regard.generation import Continuation, FixedLength, generate

        count = self._job["tokens"]
        began = time.perf_counter()
        found = generate(
            Continuation(self._model),  # type: ignore[arg-type]
            self._source,
            limit=FixedLength(count),
            minimum_length=count,
        )
        seconds = time.perf_counter() - began
        answers = [list(hypothesis.tokens) for hypothesis in found]
        return {"amount": sum(map(len, answers)), "seconds": seconds, "answers": answers}


class CausalTraining:
    """Updates of a GPT-2 as the task and the loop make them."""

    def available(self) -> bool:
        """Always."""
        return True

    def versions(self) -> dict[str, str]:
        """Those of the whole report."""
        return {}

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the optimiser."""
        import torch

        from regard.layers import Tokens
        from regard.models import GPT2, GPT2Config
        from regard.training.memory import keep_freed_memory

        keep_freed_memory()
        sizes, rate = job["model"], job["dropout"]
        own = {"dropout": rate, "embedding_dropout": rate, "attention_dropout": rate}
        ends = {"padding_id": sizes["vocabulary"] - 1, "end_id": sizes["vocabulary"] - 1}
        self._model = GPT2(GPT2Config(**ends | sizes | own)).train()
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=job["learning_rate"], fused=True)
        batches = torch.tensor(job["batches"])
        self._batches = []
        for ids in batches:
            read = ids[:, :-1].contiguous()
            whole = torch.ones_like(read, dtype=torch.bool)
            self._batches.append((Tokens(read, whole, "nowhere"), ids[:, 1:].contiguous()))
        self._job, self._next = job, 0
        count = sum(parameter.numel() for parameter in self._model.parameters())
        return {"note": f"{count:,} parameters, {job['precision']}"}

    def run(self) -> dict[str, Any]:
        """A few updates; the amount is tokens."""
        import torch

        from regard.tasks.losses import projected_cross_entropy

        tokens, low = 0, self._job["precision"] == "bfloat16"
        began = time.perf_counter()
        for _ in range(self._job["updates"]):
            batch, labels = self._batches[self._next % len(self._batches)]
            self._next += 1
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
                total, _ = self._model(batch, reduce=projected_cross_entropy(labels))
            (total / labels.numel()).backward()
            _ = total.item()
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
            tokens += labels.numel()
        return {"amount": tokens, "seconds": time.perf_counter() - began}


KINDS = {"decoding": Decoding, "causal_training": CausalTraining}
