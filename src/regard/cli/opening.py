"""The model that a command works with, on the device asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

Device = Annotated[
    str, typer.Option(metavar="NAME", help="auto, cpu or cuda; auto is a graphics card where PyTorch sees one.")
]


def opened(model: Path, device: str, task: str | None = None) -> Any:
    """A model's folder, loaded for a task; its own where None.

    Raises:
        InputError: for a device that is not there, and as `regard.load` does.
    """
    from regard.machine import device_named
    from regard.tasks.loading import load
    from regard.training.memory import keep_freed_memory

    place = device_named(device, "--device")
    keep_freed_memory()
    return load(model, task=task, device=place)
