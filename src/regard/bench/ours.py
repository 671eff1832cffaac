"""Regard's own side: the driver that runs in a process like those of the peers."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from regard.bench import ours_decoding, ours_encoding, ours_looking
from regard.training.callbacks import Callback

HERE = Path(__file__).resolve()


class Training:
    """Updates by the training loop itself, reading the token store and padding included."""

    def available(self) -> bool:
        """Always."""
        return True

    def versions(self) -> dict[str, str]:
        """Those of the whole report."""
        return {}

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model, the optimiser and the loop."""
        import torch

        from regard.data.token_store import TokenStore
        from regard.models import MODELS
        from regard.tasks.loading import load
        from regard.training.loop import Loop
        from regard.training.memory import keep_freed_memory
        from regard.training.optimizers import build_optimizer
        from regard.training.precision import resolve
        from regard.training.progress import Progress
        from regard.training.settings import TrainingSettings
        from regard.training.workers import Workers

        keep_freed_memory()  # as the command line does
        translator = load(job["folder"])
        rate = job["shape"]["dropout"]
        config = dataclasses.replace(
            translator.model.config,
            attention_bias=True,
            dropout=rate,
            attention_dropout=rate,
            feedforward_dropout=rate,
        )
        model = MODELS[config.model_type].model(config).train()
        settings = TrainingSettings(
            steps=job["updates"],
            batch_tokens=job["batch_tokens"],
            optimizer="adam",
            learning_rate=job["learning_rate"],
            betas=tuple(job["betas"]),
            label_smoothing=job["label_smoothing"],
            clip_norm=job["clip_norm"],
            precision=job["precision"],
            device="cpu",
        )
        self._clock = _Clock()
        self._loop = Loop(
            task=translator.task,
            model=model,
            wrapped=model,
            optimizer=build_optimizer(model, settings),
            settings=settings,
            seed=job["seed"],
            data=TokenStore.open(job["store"]),
            workers=Workers(0, 1, torch.device("cpu")),
            dtype=resolve(settings.precision, torch.device("cpu"))[0],
            progress=Progress(),
            log=None,
            callbacks=[self._clock],
            evaluate=lambda: {"loss": 0.0},
            save=lambda: None,
        )
        self._updates = job["updates"]
        return {"note": f"{sum(parameter.numel() for parameter in model.parameters()):,} parameters"}

    def run(self) -> dict[str, Any]:
        """`updates` more updates; the amount is target tokens, the end tokens among them."""
        loop = self._loop
        before = loop.progress.tokens
        loop.settings = dataclasses.replace(loop.settings, steps=loop.progress.step + self._updates)
        loop.run()
        return {"amount": loop.progress.tokens - before, "seconds": self._clock.seconds}


class _Clock(Callback):
    """The time from the moment a sitting begins to its last update: without what the loop does once it is through."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def started(self, model: nn.Module, progress: Any, total_steps: int | None) -> None:
        """Begin."""
        self._began = time.perf_counter()

    def stepped(self, progress: Any, tokens_per_second: float) -> None:
        """An update is done."""
        self.seconds = time.perf_counter() - self._began

    def logged(self, event: Mapping[str, Any]) -> None:
        """Nothing."""

    def ended(self, progress: Any) -> None:
        """Nothing."""


class Translation:
    """Beam search as `Translator` calls it, from token ids to token ids."""

    def available(self) -> bool:
        """Always."""
        return True

    def versions(self) -> dict[str, str]:
        """Those of the whole report."""
        return {}

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Load the folder in the precision asked for, and leave it out where it is no faster."""
        from regard.generation import GenerationSettings
        from regard.tasks.loading import load
        from regard.training.memory import keep_freed_memory

        keep_freed_memory()  # as the command line does
        self._translator = load(job["folder"], dtype=job["precision"])
        slow = getattr(self._translator.model, "slow", "")
        if slow:
            return {"left_out": slow}
        task = self._translator.task
        own = {"beam": job["beam"], "length_penalty": 1.0, "enough": job["beam"], "maximum_extra": job["extra"]}
        self._batches = [
            (
                task.read(rows),
                GenerationSettings(**own, minimum_length=length, maximum_length=length)
                if length
                else GenerationSettings(**own),
            )
            for rows, length in zip(job["batches"], job["lengths"], strict=True)
        ]
        return {"note": f"{type(self._translator.model).__name__} in {job['precision']}"}

    def run(self) -> dict[str, Any]:
        """Every batch once; the amount is tokens of the best answers, without the end token."""
        from regard.generation import search

        answers = []
        began = time.perf_counter()
        for source, settings in self._batches:
            answers += [best[0].tokens for best in search(self._translator.model, source, settings)]
        seconds = time.perf_counter() - began
        return {"amount": sum(map(len, answers)), "seconds": seconds, "answers": [list(row) for row in answers]}


KINDS = {
    "training": Training,
    "translation": Translation,
    **ours_looking.KINDS,
    **ours_encoding.KINDS,
    **ours_decoding.KINDS,
}
