"""Running a claim (train, measure, judge), and writing the verdict with the other measured results, whatever it is."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from regard.claims.catalogue import EXPERIMENT, compute
from regard.claims.claim import FIRST, Claim
from regard.claims.compared import Compared, spread_json
from regard.claims.comparing import Place, compare
from regard.claims.expression import NoNumber, references
from regard.claims.own_data import OwnData, files_of, on_own_data
from regard.claims.parts_plot import save_parts_plot
from regard.claims.provenance import before_the_runs, spoken
from regard.claims.second_round import judged_parts
from regard.errors import InputError
from regard.files import replace_file
from regard.machine import machine, versions
from regard.reading import read_json_object
from regard.training.callbacks import Callback
from regard.training.recipe import read_override

RESULT = "claim.json"
Outcome = Literal[
    "confirmed", "refuted", "undecided", "supported", "contradicted", "inconclusive", "not tested at this scale"
]
"""The verdicts; the first three are of the first round, the others of the second."""

_READING = ("data.source", "data.target", "data.format")


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The verdict of a claim.

    Arguments:
        claim: the claim.
        outcome: the verdict; None before it is run.
        round: 1, which confirms or refutes by one expression, or 2, which judges parts.
        parts: the parts of the second round, as from `PartVerdict.to_json`.
        provenance: the provenance of the prediction before the runs; None if it was not recorded.
        measured: by arm and measure, the median with the value of every seed.
        reason: why there is no decision; may be empty.
        changes: changes of the claim's settings: such a run tests the claim with these changes.
        seconds: the duration of training and measuring.
        seeds: the seeds of the runs.
        command: the command to run it again.
        compared: the comparison; None if the verdict was read from a file.
    """

    claim: Claim
    outcome: Outcome | None = None
    round: int = FIRST
    parts: tuple[dict[str, Any], ...] = ()
    provenance: dict[str, Any] | None = None
    measured: dict[str, Any] | None = None
    reason: str = ""
    changes: tuple[str, ...] = ()
    seconds: float | None = None
    seeds: tuple[int, ...] = ()
    command: str = ""
    compared: Compared | None = None

    def to_json(self) -> dict[str, Any]:
        """The verdict as JSON values, as in `regard claims run --json`."""
        claim = self.claim.in_round(self.round)
        return {
            "claim": claim.name,
            "row": claim.row,
            "source": claim.source,
            "round": self.round,
            "rounds": list(self.claim.rounds),
            "predicted": claim.predicted,
            "measured": self.measured,
            "parts": list(self.parts),
            "verdict": self.outcome,
            "reason": self.reason,
            "provenance": self.provenance,
            "seconds": self.seconds,
            "seeds": list(self.seeds or claim.seeds),
            "command": self.command or claim.command,
        }


def run_claim(
    claim: Claim,
    overrides: Sequence[str] = (),
    *,
    output: Place,
    round_: int | None = None,
    seeds: int | Sequence[int] | None = None,
    reuse: Sequence[Place] = (),
    callbacks: Sequence[Callback] = (),
    say: Callable[[str], None] | None = None,
) -> Verdict:
    """Run a claim's comparison, or continue it, and judge.

    Arguments:
        overrides: `key=value` changes of the recipe of all arms; `data.path=` runs the claim on the user's own data.
        output: the folder of all claims; this claim has `output`/name, in the second round `output`/name-round-2; with changes
            their digest is appended.
        round_: the round; None for the last round of the claim.
        seeds: seeds instead of the claim's.
        reuse, callbacks, say: as for `regard.compare`.

    Raises:
        InputError: for data that is needed and not given, or that cannot replace the claim's own.
    """
    asked = claim.latest if round_ is None else round_
    file, claim = claim, claim.in_round(asked)
    own, others = _split(overrides)
    changes = [*overrides]
    wanted = claim.seeds if seeds is None else tuple(range(1, seeds + 1)) if isinstance(seeds, int) else tuple(seeds)
    if wanted != claim.seeds:
        changes.append(f"seeds {', '.join(map(str, wanted))}")
    # For a claim without data of its own, data.path is not a change of the claim.
    plain = claim.needs_data and [key for key, _ in own.items()] == ["data.path"] and not others
    place = place_of(claim, asked, output)
    place = place if plain or not overrides else place.with_name(f"{place.name}-{_digest(overrides)}")
    sections = _sections(claim, own, place)
    known = before_the_runs(file, asked, place, reused=bool(reuse))
    if say is not None:
        say(f"{claim.row} {claim.name}: {claim.statement}")
    if EXPERIMENT in sections:
        compared = compute(sections, others, output=place / "runs", seeds=wanted, say=say)
    else:
        compared = compare(
            sections,
            others,
            output=place / "runs",
            seeds=wanted,
            reuse=[Path(each) / "runs" if (Path(each) / "runs").is_dir() else each for each in reuse],
            callbacks=callbacks,
            say=say,
        )
    second = claim.second(asked)
    parts: tuple[dict[str, Any], ...] = ()
    outcome: Outcome
    if second is None:
        outcome, reason = judged(claim, compared)
    else:
        outcome, reason, found = judged_parts(second, compared, wanted)
        parts = tuple(each.to_json() for each in found)
    command = ["regard", "claims", "run", claim.name, *overrides]
    if asked != claim.latest:
        command += ["--round", str(asked)]
    if wanted != claim.seeds:
        command += ["--seeds", str(len(wanted))]
    verdict = Verdict(
        claim=file,
        outcome=outcome,
        round=asked,
        parts=parts,
        provenance=known,
        measured=measured(claim, compared, asked),
        reason=reason,
        changes=tuple(change for change in changes if not (plain and change.startswith("data.path="))),
        seconds=round(compared.seconds, 1),
        seeds=wanted,
        command=shlex.join(command),
        compared=compared,
    )
    saved = verdict.to_json() | {"changes": list(verdict.changes)}
    replace_file(place / RESULT, json.dumps(saved, indent=2, ensure_ascii=False) + "\n")
    return verdict


def place_of(claim: Claim, round_: int, output: Place) -> Path:
    """The folder of the runs of a round, without changes; the first round of a claim has the claim's name."""
    return Path(output) / (claim.name if round_ == claim.rounds[0] else f"{claim.name}-round-{round_}")


def judged(claim: Claim, compared: Compared) -> tuple[Outcome, str]:
    """The verdict of the first round, and the reason if it is undecided."""
    judge, refutes = claim.expressions
    try:
        if judge.holds(compared):
            return "confirmed", ""
        if refutes is None or refutes.holds(compared):
            return "refuted", ""
    except NoNumber as error:
        return "undecided", str(error)
    return "undecided", "the result neither confirms nor refutes it"


def measured(claim: Claim, compared: Compared, round_: int = FIRST) -> dict[str, Any]:
    """Every number that the expressions use: `{arm: {measure: {"median", "smallest", "largest", "seeds"}}}`.

    A measure at a length has the name `measure at length`. A threshold that was never reached is null.
    """
    found: dict[str, Any] = {}
    for asked in references(*claim.asked(round_)):
        values = compared.values(asked.arm, asked.measure, asked.length)
        name = asked.measure if asked.length is None else f"{asked.measure} at {asked.length}"
        entry = spread_json(values)
        if any(value is not None and math.isinf(value) for value in values.values()):
            entry["note"] = "null: not reached"
        found.setdefault(asked.arm, {})[name] = entry
    return found


def last_verdict(claim: Claim, output: Place) -> Verdict:
    """The verdict of the last round that was run in `output` without changes; without outcome if there is none."""
    found = (_left(claim, number, output) for number in reversed(claim.rounds))
    return next((verdict for verdict in found if verdict is not None), Verdict(claim=claim, round=claim.latest))


def _left(claim: Claim, round_: int, output: Place) -> Verdict | None:
    try:
        values = read_json_object(place_of(claim, round_, output) / RESULT, "")
        if values["claim"] != claim.name or values["predicted"] != claim.in_round(round_).predicted:
            return None
        return Verdict(
            claim=claim,
            outcome=values["verdict"],
            round=round_,
            parts=tuple(values.get("parts", ())),  # older runs of the first round have neither
            provenance=values.get("provenance"),
            measured=values["measured"],
            reason=values["reason"],
            changes=tuple(values["changes"]),
            seconds=values["seconds"],
            seeds=tuple(values["seeds"]),
            command=values["command"],
        )
    except (ValueError, KeyError, TypeError):
        return None


def record(verdict: Verdict, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write `claims-NAME.json`, in the form of the other measured results, and `claims/NAME.png`; return both paths.

    The files of the second round are `claims-NAME-round-2.json` and `claims/NAME-round-2.png`, next to those of the first; for a
    claim without a first round they have only its name. A refutation is written like a confirmation.

    Raises:
        InputError: for a verdict that is not of a run in this process, without matplotlib, or a full disk.
    """
    name = place_of(verdict.claim, verdict.round, "").name
    values = recorded(verdict, f"claims/{name}.png")
    plot = Path(folder) / values["plot"]
    plot.parent.mkdir(parents=True, exist_ok=True)
    save_verdict_plot(verdict, plot)
    path = Path(folder) / f"claims-{name}.json"
    replace_file(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")
    return path, plot


def recorded(verdict: Verdict, plot: str) -> dict[str, Any]:
    """A verdict in the form of the other measured results.

    Arguments:
        plot: the path of its plot, relative to the result.

    Raises:
        InputError: for a verdict that is not of a run in this process.
    """
    compared, claim = verdict.compared, verdict.claim.in_round(verdict.round)
    if compared is None or verdict.outcome is None:
        raise InputError(f"claim {claim.name!r} was not run; run it first")
    notes = [claim.source + "."]
    if verdict.changes:
        notes.append(f"Run with {', '.join(verdict.changes)}: the verdict is for the claim with these changes.")
    if verdict.reason:
        notes.append(f"{verdict.outcome[0].upper()}{verdict.outcome[1:]}: {verdict.reason}.")
    if verdict.provenance is not None:
        notes.append(f"The prediction: {spoken(verdict.provenance)}.")
    # The command without the path of data on this machine.
    asked = "" if verdict.round == claim.latest else f" --round {verdict.round}"
    command = verdict.command if verdict.changes else claim.command + asked
    return {
        "title": f"Claim {claim.row}: {claim.statement.rstrip('.')}",
        "target": claim.predicted,
        "figures": {"verdict": verdict.outcome, **_figures(verdict), "minutes": round((verdict.seconds or 0) / 60, 1)},
        "command": command,
        "threads": torch.get_num_threads(),
        "precision": compared.comparison.precision,
        "seed": ", ".join(map(str, verdict.seeds)),
        "machine": machine() | {"versions": versions()},
        "note": " ".join(notes),
        "plot": plot,
        "claim": verdict.to_json()
        | {"command": command, "statement": claim.statement, "changes": list(verdict.changes)},
    }


def save_verdict_plot(verdict: Verdict, path: str | os.PathLike[str]) -> None:
    """Write the figure of a verdict, .png or .svg: the parts of the second round, or the comparison of the first.

    Raises:
        InputError: for a verdict that is not of a run in this process, another suffix, or without matplotlib.
    """
    claim = verdict.claim.in_round(verdict.round)
    if verdict.round != FIRST and verdict.outcome is not None:
        save_parts_plot(verdict.parts, path, f"{claim.row}  {claim.statement}\n{verdict.outcome}")
    elif verdict.compared is not None:
        verdict.compared.save_plot(path, f"{claim.row}  {claim.statement}\n{verdict.outcome}: {claim.predicted}")
    else:
        raise InputError(f"claim {claim.name!r} was not run; run it first")


def _split(overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The settings for reading the user's own files, and the overrides of the recipe."""
    own: dict[str, Any] = {}
    others: list[str] = []
    pairs = [(override, *read_override(override)) for override in overrides]
    has_path = any(key == "data.path" for _, key, _ in pairs)
    for override, key, value in pairs:
        if key == "data.path" or (has_path and key in _READING):
            own[key] = value
        else:
            others.append(override)
    return own, others


def _sections(claim: Claim, own: dict[str, Any], place: Path) -> dict[str, Any]:
    data = claim.own_data
    if "data.path" not in own:
        if isinstance(data, OwnData) and data.needed:
            if data.files:
                raise InputError(
                    f"claim {claim.name!r} needs text, and nothing is downloaded: {data.says} Give data.path=, {data.files}"
                )
            if data.texts:
                raise InputError(
                    f"claim {claim.name!r} needs text, and nothing is downloaded: {data.says} Give data.path=, a file of text or "
                    "a folder with train.txt and valid.txt"
                )
            languages = (
                f" (a folder with train.{data.languages[0]}, train.{data.languages[1]}, ...)" if data.languages else ""
            )
            raise InputError(
                f"claim {claim.name!r} needs pairs, and nothing is downloaded: {data.says} Give data.path={languages}, "
                "a TSV, CSV or JSONL file of pairs, or two parallel files as data.path=[a.en,a.de]"
            )
        return claim.comparison
    if isinstance(data, str):
        raise InputError(f"claim {claim.name!r} cannot be run on other data: {data}")
    if EXPERIMENT in claim.comparison:
        path = own["data.path"]
        return {**claim.comparison, EXPERIMENT: {**claim.comparison[EXPERIMENT], "path": path}}
    reading = {key.removeprefix("data."): value for key, value in own.items() if key in _READING}
    files = files_of(own["data.path"], data, place / "data", reading)
    return on_own_data(claim.comparison, data, files, reading)


def _digest(overrides: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(sorted(overrides)).encode()).hexdigest()[:8]


def _figures(verdict: Verdict) -> dict[str, Any]:
    """The measured numbers, arm by arm: the median, and the value of every seed."""
    found: dict[str, Any] = {}
    for arm, measures in (verdict.measured or {}).items():
        for name, numbers in measures.items():
            seeds = ["not reached" if value is None else value for value in numbers["seeds"].values()]
            found[f"{arm}: {name}"] = {"median": _or_not(numbers["median"]), "seeds": seeds}
    return found


def _or_not(value: float | None) -> float | str:
    return "not reached" if value is None else value
