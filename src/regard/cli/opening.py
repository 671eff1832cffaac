"""The model that a command works with, on the device asked for."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

Device = Annotated[
    str, typer.Option(metavar="NAME", help="auto, cpu or cuda; auto is a graphics card where PyTorch sees one.")
]


Precision = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="float32, bfloat16 or float16; for a language model of GPT's family, or a Transformer that translates, int8 or int4 "
        "too: weights of so many bits, faster on a processor.",
    ),
]


def opened(model: Path, device: str, task: str | None = None, *, precision: str = "float32") -> Any:
    """A model's folder, loaded for a task; its own where None.

    Raises:
        InputError: for a device that is not there, and as `regard.load` does.
    """
    from regard.cli.console import say
    from regard.machine import device_named
    from regard.tasks.loading import load
    from regard.training.memory import keep_freed_memory

    place = device_named(device, "--device")
    keep_freed_memory()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", UserWarning)
        predictor = load(model, task=task, device=place, dtype=precision)
    for warning in warned:
        if warning.category is UserWarning:  # of this package; those of libraries are for programmers
            say(str(warning.message))
    slow = getattr(predictor.model, "slow", "")
    if slow:
        say(slow)
    return predictor
