"""How measurements are written down: one JSON file each under docs/results/, from which docs/results.md is made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from regard.machine import machine, versions


def record(
    path: Path,
    *,
    title: str,
    command: str,
    precision: str,
    seed: int | str | None,
    figures: Mapping[str, Any],
    target: str = "",
    note: str = "",
    threads: int | None = None,
) -> None:
    """Write one measurement.

    Arguments:
        title: what was measured.
        command: how to measure it again.
        precision, seed, threads: of the run.
        figures: names and values.
        target: what was asked of it beforehand.
        note: what a reader must know to take the figures rightly.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {
        "title": title,
        "target": target,
        "figures": dict(figures),
        "command": command,
        "threads": torch.get_num_threads() if threads is None else threads,
        "precision": precision,
        "seed": seed,
        "machine": machine() | {"versions": versions()},
        "note": note,
    }
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(values["figures"], ensure_ascii=False))
