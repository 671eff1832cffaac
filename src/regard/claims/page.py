"""A claim's verdicts as a Markdown page, for the documentation and for runs on the user's own data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.claims.provenance import spoken

ROUNDS = {1: "First round", 2: "Second round"}


def claim_page(
    results: Sequence[Mapping[str, Any]], *, place: str = "", readings: Mapping[int, str] | None = None
) -> str:
    """The page of one claim: its statement as the title, then the last round, then the round before it.

    Arguments:
        results: the results of `regard.claims.verdict.recorded`, one for each round.
        place: the prefix of plots in links, such as `../results/`, for a page of the documentation.
        readings: by round, a short explanation of the verdict.
    """
    ordered = sorted(results, key=_round, reverse=True)
    claim = ordered[0]["claim"]
    lines = [f"# {escaped(claim['statement'].rstrip('.'))}", "", f"Claim {claim['row']}, {escaped(claim['source'])}."]
    if len(ordered) > 1:
        lines[-1] += " It was tested in two rounds; the last one is first."
    for result in ordered:
        lines += ["", *_section(result, place, (readings or {}).get(_round(result), ""))]
    if place:
        lines += ["", "Verdicts and intervals are explained in [the papers' claims](../claims.md)."]
    return "\n".join(lines) + "\n"


def escaped(text: Any) -> str:
    """The text with escaped `|`, for tables, and escaped dollar signs, which would start formulas."""
    return str(text).replace("|", "\\|").replace("$", "\\$")


def number(value: Any) -> str:
    """A value with four digits; a dash for None.

    >>> number(0.123456), number(None), number("not reached")
    ('0.1235', '-', 'not reached')
    """
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _round(result: Mapping[str, Any]) -> int:
    return result["claim"].get("round", 1)  # results without this key are of the first round


def _section(result: Mapping[str, Any], place: str, reading: str) -> list[str]:
    claim = result["claim"]
    by_parts = 1 not in claim.get("rounds", (1, 2))  # a claim with only one round needs no number
    lines = [f"## {'Verdict' if by_parts else ROUNDS[_round(result)]}: {claim['verdict']}", ""]
    why = reading or claim.get("reason", "")
    if why:
        lines += [f"**{claim['verdict']}**: {escaped(why)}.", ""]
    if claim["changes"]:
        lines += [f"With {escaped(', '.join(claim['changes']))}: the verdict is for the claim with these changes.", ""]
    if result.get("plot"):
        lines += [f"![{escaped(claim['statement'])}]({place}{result['plot']})", ""]
    lines += [f"*Predicted beforehand:* {escaped(claim['predicted'])}", ""]
    lines += _parts(claim["parts"]) if claim.get("parts") else _measured(result["figures"])
    machine = result["machine"]
    versions = ", ".join(f"{key} {value}" for key, value in machine["versions"].items())
    where = f"{machine['processor']}, {machine['cores']} cores" + (f", {machine['gpu']}" if machine["gpu"] else "")
    minutes, threads = result["figures"]["minutes"], result["threads"]
    command = result["command"]
    if _round(result) == 1 and " --round " not in command:  # recorded before there was a second round
        command += " --round 1"
    lines += [
        "",
        "```sh",
        command,
        "```",
        "",
        f"Seeds {result['seed']}, {minutes:.1f} minutes, {threads} thread{'s'[: threads != 1]}, {result['precision']}; {where}; "
        f"{versions}.",
    ]
    if claim.get("provenance"):
        lines.append(f"The prediction: {spoken(claim['provenance'])}.")
    return lines


def _parts(parts: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "| part | predicted | median | interval | smallest visible effect | the paper's own | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for part in parts:
        condition = part["kind"] == "condition"
        ends = part["interval"]
        interval = "-" if condition or ends is None else f"{number(ends[0])} to {number(ends[1])}"
        paper = "-" if part["paper"] is None else f"{number(part['paper']['value'])} ({part['paper']['place']})"
        visible = "-" if condition else number(part["smallest_visible"])
        verdict = part["verdict"] + (f": {part['reason']}" if part["verdict"] == "not tested at this scale" else "")
        says, predicted = f"{part['kind']}: {part['says']}", part["predicted"] or "-"
        cells = [says, predicted, number(part["estimate"]), interval, visible, paper, verdict]
        lines.append("| " + " | ".join(map(escaped, cells)) + " |")
    return lines


def _measured(figures: Mapping[str, Any]) -> list[str]:
    lines = ["| measured | median | every seed |", "|---|---|---|"]
    for name, value in figures.items():
        if name not in ("verdict", "minutes"):
            seeds = ", ".join(map(number, value["seeds"]))
            lines.append(f"| {escaped(name)} | {number(value['median'])} | {seeds} |")
    return lines
