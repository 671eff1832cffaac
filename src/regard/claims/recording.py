"""Writing a verdict down among the measured results: one JSON file and its plot."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

from regard.claims.verdict import Verdict
from regard.errors import InputError
from regard.machine import machine, versions


def record(verdict: Verdict, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write `claims-NAME.json`, in the form of the other measured results, and `claims/NAME.png`; returns both.

    A refutation is written like a confirmation.

    Raises:
        InputError: for a verdict that is not of a run in this process, without matplotlib, or a full disk.
    """
    from regard.files import replace_file

    compared, claim = verdict.compared, verdict.claim
    if compared is None or verdict.outcome is None:
        raise InputError(f"claim {claim.name!r} was not run; run it first")
    folder = Path(folder)
    picture = folder / "claims" / f"{claim.name}.png"
    picture.parent.mkdir(parents=True, exist_ok=True)
    compared.save_plot(picture, f"{claim.row}  {claim.statement}\n{verdict.outcome}: {claim.predicted}")
    notes = [claim.source + "."]
    if verdict.changes:
        notes.append(f"Run with {', '.join(verdict.changes)}: the verdict is of the claim under these changes.")
    if verdict.reason:
        notes.append(f"Undecided: {verdict.reason}.")
    # Of the claim as it is, without saying where on this machine its data lies.
    command = verdict.command if verdict.changes else claim.command
    values = {
        "title": f"Claim {claim.row}: {claim.statement.rstrip('.')}",
        "target": claim.predicted,
        "figures": {"verdict": verdict.outcome, **_figures(verdict), "minutes": round((verdict.seconds or 0) / 60, 1)},
        "command": command,
        "threads": torch.get_num_threads(),
        "precision": compared.comparison.precision,
        "seed": ", ".join(map(str, verdict.seeds)),
        "machine": machine() | {"versions": versions()},
        "note": " ".join(notes),
        "plot": f"claims/{claim.name}.png",
        "claim": verdict.to_json()
        | {"command": command, "statement": claim.statement, "changes": list(verdict.changes)},
    }
    path = folder / f"claims-{claim.name}.json"
    replace_file(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")
    return path, picture


def _figures(verdict: Verdict) -> dict[str, Any]:
    """The measured numbers, arm by arm: the median, then every seed's."""
    found: dict[str, Any] = {}
    for arm, measures in (verdict.measured or {}).items():
        for name, numbers in measures.items():
            seeds = ["not reached" if value is None else value for value in numbers["seeds"].values()]
            found[f"{arm}: {name}"] = {"median": _or_not(numbers["median"]), "seeds": seeds}
    return found


def _or_not(value: float | None) -> float | str:
    return "not reached" if value is None else value
