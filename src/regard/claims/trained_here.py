"""Models that an experiment trains on examples in memory, in a folder that is gone afterwards."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.tasks.kinds import kind_of
from regard.training.run import train

NEVER = 1_000_000_000
"""Updates after which nothing is done: later than the last."""


@contextlib.contextmanager
def trained(
    task: str,
    model: Mapping[str, Any],
    examples: Sequence[Any],
    *,
    seed: int,
    training: Mapping[str, Any],
    data: Mapping[str, Any] | None = None,
    tokenizer: Mapping[str, Any] | None = None,
) -> Iterator[Path]:
    """The folder of a model trained once through a recipe; inside the block it is there.

    Arguments:
        task: as in a recipe.
        model: the `model` section.
        examples: to learn from; the last hundredth is held out.
        seed: of everything random.
        training: of that section what is not as below: learning rate, steps, batches.
        data, tokenizer: those sections, the latter of tasks of texts.
    """
    held_out = max(2, len(examples) // 100)
    recipe: dict[str, Any] = {
        "task": task,
        "seed": seed,
        "model": dict(model),
        "data": dict(data or {}),
        "training": {
            "schedule": "cosine",
            "warmup": 50,
            "precision": "float32",
            "evaluate_every": NEVER,
            "save_every": NEVER,
            **training,
        },
    }
    if "tokenizer" in kind_of(task).sections:
        recipe["tokenizer"] = {"kind": "word", "size": 1_000, **(tokenizer or {})}
    with tempfile.TemporaryDirectory(prefix="regard-") as place:
        folder = Path(place) / "run"
        train(recipe, output=folder, data=examples[:-held_out], validation=examples[-held_out:])
        yield folder
