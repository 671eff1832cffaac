"""Make docs/results.md, and the figures of docs/figures.md, from the JSON files in docs/results/."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from regard.claims import claims as catalogue
from regard.claims.claim import order_of

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"


def main() -> None:
    pages = [(path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in sorted(RESULTS.glob("*.json"))]
    lines = [
        "# Measured results",
        "",
        "Made by `make results` from the files in [results/](results/); do not edit. Every figure stands beside the command that",
        "gives it, its threads, precision and seed.",
        "",
    ]
    for name, page in pages:
        if "claim" not in page:
            lines += section(name, page)
    judged = [(name, page) for name, page in pages if "claim" in page]
    readings = yaml.safe_load((RESULTS / "readings.yaml").read_text(encoding="utf-8"))
    lines += claims(judged, readings)
    (ROOT / "docs" / "results.md").write_text("\n".join(lines), encoding="utf-8")
    short = ROOT / "docs" / "figures.md"
    text = short.read_text(encoding="utf-8")
    for name, page in pages:
        mark = f"<!-- results:{name} -->"
        text = re.sub(re.escape(mark) + r"[^\n|]*", lambda _, m=mark, p=page: m + " " + summary(p) + " " + " ", text)
    text = re.sub(r"(<!-- claims -->)[^\n|]*", lambda found: f"{found[1]} {counted(judged)} ", text)
    short.write_text(text, encoding="utf-8")


def counted(pages: list[tuple[str, dict[str, Any]]]) -> str:
    """How many claims were run, and what came out."""
    verdicts = [page["claim"]["verdict"] for _, page in pages]
    parts = [f"{verdicts.count(kind)} {kind}" for kind in ("confirmed", "refuted", "undecided") if kind in verdicts]
    return f"{len(verdicts)} of {len(catalogue())} run: {', '.join(parts)}"


def claims(pages: list[tuple[str, dict[str, Any]]], readings: dict[str, str]) -> list[str]:
    """A table of the papers' claims, by row, those not run yet, then a section for each; refutations stand as they came out.

    Arguments:
        pages: names and contents of the recorded results.
        readings: what a verdict comes to, by the claim's name.
    """
    if not pages:
        return []
    pages = sorted(pages, key=lambda found: order_of(found[1]["claim"]["row"]))
    lines = [
        "## The papers' claims",
        "",
        "What is predicted was written before the first run, thresholds and all; what is measured is the median over seeds, then "
        "every seed's value.",
        "",
        "| row | claim | predicted | measured | verdict |",
        "|---|---|---|---|---|",
    ]
    for _, page in pages:
        claim = page["claim"]
        link = f"[{spoken(claim['statement'])}](#{anchor(page['title'])})"
        verdict = f"**{claim['verdict']}**" + (f" (with {spoken(claim['changes'])})" if claim["changes"] else "")
        verdict += f": {spoken(readings[claim['claim']])}" if claim["claim"] in readings else ""
        figures = {key: value for key, value in page["figures"].items() if key not in ("verdict", "minutes")}
        measured = "; ".join(f"{key} {spread(value)}" for key, value in figures.items())
        lines.append(f"| {claim['row']} | {link} | {spoken(claim['predicted'])} | {measured} | {verdict} |")
    lines += ["", *missing({page["claim"]["claim"] for _, page in pages})]
    for name, page in pages:
        lines += [*section(name, page), f"![{spoken(page['claim']['statement'])}](results/{page['plot']})", ""]
    return lines


def missing(judged: set[str]) -> list[str]:
    """The claims in the catalogue that have no figures here, each with its command."""
    left = [claim for claim in catalogue() if claim.name not in judged]
    if not left:
        return []
    lines = ["Not run yet, with the minutes they are planned to take:", ""]
    for claim in left:
        lines.append(
            f"- {claim.row} {spoken(claim.statement)} `regard claims run {claim.name}`, {spoken(claim.minutes)}"
        )
    return [*lines, ""]


def anchor(title: str) -> str:
    """What a heading is called in links."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def spread(value: Any) -> str:
    """The median, then every seed's value."""
    return f"{spoken(value['median'])} ({', '.join(map(spoken, value['seeds']))})"


def section(name: str, page: dict[str, Any]) -> list[str]:
    machine = page["machine"]
    lines = [f"## {page['title']}", ""]
    if page["target"]:
        lines += [f"Asked beforehand: {page['target']}", ""]
    lines += figures_table(page["figures"])
    where = f"{machine['processor']}, {machine['cores']} cores" + (f", {machine['gpu']}" if machine["gpu"] else "")
    seed = "" if page["seed"] is None else f", seed {page['seed']}"
    lines += [
        "",
        f"`{page['command']}`",
        "",
        f"{page['threads']} threads, {page['precision']}{seed}; {where}; "
        + ", ".join(f"{key} {value}" for key, value in machine["versions"].items())
        + f" ([{name}.json](results/{name}.json)).",
        "",
    ]
    return [*lines, page["note"], ""] if page["note"] else lines


def figures_table(figures: dict[str, Any]) -> list[str]:
    """A row for each figure; a column for each thing measured where most figures are of the same several things."""
    columns = max((list(value) for value in figures.values() if isinstance(value, dict)), key=len, default=[])
    alike = [value for value in figures.values() if isinstance(value, dict) and set(value) <= set(columns)]
    if len(columns) < 3 or len(alike) < len(figures) or len(alike) < 5:
        return ["| figure | value |", "|---|---|", *(f"| {key} | {spoken(value)} |" for key, value in figures.items())]
    rows = [
        f"| {key} | " + " | ".join(spoken(value.get(each, "")) for each in columns) for key, value in figures.items()
    ]
    return [
        "| figure | " + " | ".join(columns) + " |",
        "|" + "---|" * (len(columns) + 1),
        *(f"{row} |" for row in rows),
    ]


def summary(page: dict[str, Any]) -> str:
    figures = [f"{key} {spoken(value)}" for key, value in page["figures"].items() if not isinstance(value, list | dict)]
    return "; ".join(figures[:4])


def spoken(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "; ".join(spoken(part) for part in value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {spoken(part)}" for key, part in value.items())
    return str(value).replace("|", "\\|")


if __name__ == "__main__":
    main()
