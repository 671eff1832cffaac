"""The provenance of a prediction before its runs: the commit of its file, or the version of the package and a digest."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import regard
from regard.claims.claim import Claim
from regard.errors import InputError
from regard.files import replace_file
from regard.reading import read_json_object

FILE = "prediction.json"
GIT_SECONDS = 20


def prediction_digest(claim: Claim, round_: int) -> str:
    """The SHA-256 of the prediction and of the expressions that judge it.

    Raises:
        InputError: for a round that the claim does not have.
    """
    second = claim.second(round_)
    asked: dict[str, Any] = {
        "predicted": claim.in_round(round_).predicted,
        "judge": claim.judge,
        "refutes": claim.refutes,
    }
    if second is not None:
        parts = [
            {"kind": part.kind, "contrast": part.contrast, "bounds": part.predicted, "says": part.says}
            for part in second.parts
        ]
        asked = {"predicted": second.predicted, "parts": parts}
    return hashlib.sha256(json.dumps(asked, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def provenance(claim: Claim, round_: int) -> dict[str, Any]:
    """The present provenance of a prediction.

    | key | |
    |---|---|
    | `prediction` | `prediction_digest` |
    | `file` | SHA-256 of the claim's file; null for a claim without one |
    | `commit`, `committed` | the last commit that changed the file, and when; null outside a git checkout |
    | `clean` | whether the file is as committed; null outside a git checkout |
    | `version` | the version of regard |
    """
    file = claim.file
    found: dict[str, Any] = {
        "prediction": prediction_digest(claim, round_),
        "file": None if file is None else hashlib.sha256(file.read_bytes()).hexdigest(),
        "commit": None,
        "committed": None,
        "clean": None,
        "version": regard.__version__,
    }
    if file is not None and _git(file, "ls-files", "--error-unmatch") is not None:
        commit, _, time = (_git(file, "log", "-1", "--format=%H %cI") or "").strip().partition(" ")
        found |= {
            "commit": commit or None,
            "committed": time or None,
            "clean": _git(file, "status", "--porcelain") == "",
        }
    return found


def before_the_runs(claim: Claim, round_: int, place: Path, *, reused: bool = False) -> dict[str, Any]:
    """The provenance at the time of the first run in `place`; the present one if there are no runs yet.

    Arguments:
        reused: whether finished runs of other folders can be reused, which the provenance then mentions.

    Raises:
        InputError: if the runs there were started with another prediction.
    """
    now = provenance(claim, round_)
    path = place / FILE
    if path.is_file():
        then = read_json_object(path, "remove the folder and run again")
        if then.get("prediction") != now["prediction"]:
            raise InputError(
                f"{place}: these runs were started with another prediction; choose another --output, or undo the change of "
                "the prediction"
            )
        return then
    now["before_the_runs"] = not (place / "runs").exists() and not reused
    replace_file(path, json.dumps(now, indent=2) + "\n")
    return now


def spoken(found: dict[str, Any]) -> str:
    """The provenance as a sentence.

    >>> spoken({"commit": "0123456789abcdef", "committed": "2026-01-02T03:04:05+00:00", "clean": True, "before_the_runs": True})
    'committed before the runs: 0123456789ab, 2026-01-02'
    """
    if found["commit"] is None:
        said = f"regard {found['version']}, prediction {found['prediction'][:12]}, in no git checkout"
    else:
        when = "before the runs" if found.get("before_the_runs") else "when runs were there already"
        said = f"committed {when}: {found['commit'][:12]}, {str(found['committed'])[:10]}"
    return said if found["clean"] is not False else f"{said}; the claim's file has changes that are not committed"


def _git(file: Path, *words: str) -> str | None:
    """The output of a git command about a file; None without git, outside a checkout, or on an error."""
    try:
        done = subprocess.run(
            ["git", *words, "--", file.name],
            cwd=file.resolve().parent,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None
