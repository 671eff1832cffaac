"""Make docs/results.md, docs/speed.md, docs/claims/ and the figures of docs/figures.md from the files in docs/results/."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from regard.claims import claims as catalogue
from regard.claims.claim import order_of
from regard.claims.page import claim_page, escaped
from speed_page import speed_page

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
SHIPPED = ROOT / "src" / "regard_claims" / "verdicts.json"
KINDS = ("confirmed", "refuted", "undecided", "supported", "contradicted", "inconclusive", "not tested at this scale")


def main() -> None:
    pages = [(path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in sorted(RESULTS.glob("*.json"))]
    lines = [
        "# Measured results",
        "",
        "Made by `make results` from the files in [results/](results/); do not edit. Every figure is next to the command that",
        "gives it, its threads, precision and seed.",
        "",
    ]
    for name, page in pages:
        if "claim" not in page:
            lines += section(name, page)
    judged = [(name, page) for name, page in pages if "claim" in page]
    readings = yaml.safe_load((RESULTS / "readings.yaml").read_text(encoding="utf-8"))
    lines += [
        "## The papers' claims",
        "",
        f"{sentence(counted(judged))}. [One page each](claims/index.md), with every seed, what was predicted, and the verdict.",
        "",
    ]
    write_claims(judged, readings)
    (ROOT / "docs" / "results.md").write_text("\n".join(lines), encoding="utf-8")
    (ROOT / "docs" / "speed.md").write_text(speed_page(RESULTS), encoding="utf-8")
    short = ROOT / "docs" / "figures.md"
    text = short.read_text(encoding="utf-8")
    for name, page in pages:
        mark = f"<!-- results:{name} -->"
        text = re.sub(re.escape(mark) + r"[^\n|]*", lambda _, m=mark, p=page: m + " " + summary(p) + " " + " ", text)
    text = re.sub(r"(<!-- claims -->)[^\n|]*", lambda found: f"{found[1]} {counted(judged)} ", text)
    short.write_text(text, encoding="utf-8")


def write_claims(pages: list[tuple[str, dict[str, Any]]], readings: dict[str, str]) -> None:
    """A page for each claim in docs/claims/, their index, and the verdicts that the wheel has."""
    folder = ROOT / "docs" / "claims"
    folder.mkdir(exist_ok=True)
    found = by_claim(pages)
    for old in folder.glob("*.md"):
        if old.stem not in found:
            old.unlink()
    for name, results in found.items():
        said = {round_of(page): reading_of(page, readings) for page in results}
        text = claim_page(results, place="../results/", readings=said)
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    lectures = (ROOT / "docs" / "lectures.md").read_text(encoding="utf-8")
    (folder / "index.md").write_text(claim_index(pages, readings, lectures), encoding="utf-8")
    text = json.dumps(shipped(pages, readings), indent=1, ensure_ascii=False) + "\n"
    SHIPPED.write_text(text, encoding="utf-8")


def counted(pages: list[tuple[str, dict[str, Any]]]) -> str:
    """How many claims were run, and what came out in each round."""
    said = []
    known = catalogue()
    for number, name in ((1, "first"), (2, "second")):
        # Every claim can be asked by parts; those that were from the beginning have no first round.
        there = len(known) if number == 2 else sum(number in claim.rounds for claim in known)
        verdicts = [page["claim"]["verdict"] for _, page in pages if round_of(page) == number]
        parts = [f"{verdicts.count(kind)} {kind}" for kind in dict.fromkeys((*KINDS, *verdicts)) if kind in verdicts]
        if verdicts:
            said.append(f"{name} round, {len(verdicts)} of {there} run: {', '.join(parts)}")
    return "; ".join(said)


def round_of(page: dict[str, Any]) -> int:
    """The round of a recorded claim; results of before there were rounds are the first's."""
    return page["claim"].get("round", 1)


def by_claim(pages: list[tuple[str, dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """The results of each claim, in the order of the rows, its last round first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for _, page in sorted(pages, key=lambda each: (order_of(each[1]["claim"]["row"]), -round_of(each[1]))):
        found.setdefault(page["claim"]["claim"], []).append(page)
    return found


def reading_of(page: dict[str, Any], readings: dict[str, str]) -> str:
    """What a verdict comes to: of the second round under `NAME, round 2`, where there was a first."""
    name, first = page["claim"]["claim"], page["claim"].get("rounds", (1, 2))[0]
    return readings.get(name if round_of(page) == first else f"{name}, round {round_of(page)}", "")


def shipped(pages: list[tuple[str, dict[str, Any]]], readings: dict[str, str]) -> dict[str, Any]:
    """What the wheel contains, as `regard.claims.shipped` reads it."""
    verdicts = []
    for results in by_claim(pages).values():
        for page in results:
            claim = page["claim"]
            entry: dict[str, Any] = {
                "claim": claim["claim"],
                "row": claim["row"],
                "round": round_of(page),
                "verdict": claim["verdict"],
                "reading": reading_of(page, readings),
                "seeds": page["seed"],
                "minutes": page["figures"]["minutes"],
            }
            if claim.get("parts"):
                kept = ("says", "kind", "predicted", "verdict", "estimate", "interval", "smallest_visible")
                entry["parts"] = [{key: part[key] for key in kept} for part in claim["parts"]]
            if claim.get("provenance"):
                entry["commit"] = claim["provenance"]["commit"]
            verdicts.append(entry)
    return {"format_version": 1, "verdicts": verdicts}


def claim_index(pages: list[tuple[str, dict[str, Any]]], readings: dict[str, str], lectures: str) -> str:
    """The index of the claims' pages: by lecture deck, then every page by paper."""
    found = by_claim(pages)
    last = {name: results[0] for name, results in found.items()}

    def line(name: str) -> str:
        claim = last[name]["claim"]
        said = reading_of(last[name], readings)
        statement = re.sub(r"[][]", "", claim["statement"].rstrip("."))  # brackets would end the link
        return f"[{escaped(statement)}]({name}.md): row {claim['row']}, **{claim['verdict']}**" + (
            f", {escaped(said)}" if said else ""
        )

    lines = [
        "# The papers' claims, one page each",
        "",
        "Made by `make results` from the files in [results/](../results/); do not edit. What a verdict means, and how to run a",
        "claim, on your own data too, is in [the papers' claims](../claims.md). `regard claims list --json` prints the same.",
        "",
        f"{sentence(counted(pages))}.",
        "",
        "Verdicts of the first round (confirmed, refuted, undecided) rest on three seeds and one condition; those of the second",
        "(supported, contradicted, inconclusive) on parts and intervals. A refutation of the first round is often no evidence",
        "against the paper: the words behind it say what was missed. Claims from row 5.1 on are asked by parts",
        "alone, and counted in the second round.",
        "",
        "## By lecture deck",
        "",
        "The claims that [the page on the lectures' mistakes](../lectures.md) rests on.",
        "",
    ]
    for deck, names in decks(lectures, last).items():
        lines += [f"- {deck}", *(f"  - {line(name)}" for name in names)]
    lines += ["", "## All pages", ""]
    papers: dict[str, list[str]] = {}
    for name, result in last.items():
        papers.setdefault(paper_of(result["claim"]["source"]), []).append(name)
    for paper, names in papers.items():
        lines += [f"### {sentence(paper)}", "", *(f"- {line(name)}" for name in names), ""]
    return "\n".join([*lines, *missing(set(found))]).rstrip() + "\n"


def paper_of(source: str) -> str:
    """The authors and the year, or what is before the first comma where there is no year."""
    dated = re.match(r".*?\b(?:19|20)\d\d\b", source)
    return dated[0] if dated else source.partition(",")[0]


def sentence(text: str) -> str:
    """With a capital."""
    return text[:1].upper() + text[1:]


def decks(lectures: str, results: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """The claims that rows of docs/lectures.md name, by row or by name, under the decks of these rows."""
    found: dict[str, list[str]] = {}
    for row in re.findall(r"^\| B-.*$", lectures, re.MULTILINE):
        cells = [cell.strip() for cell in row.strip("| ").split(" | ")]
        for name, result in results.items():
            if re.search(rf"\bclaim {re.escape(result['claim']['row'])}\b", row) or f"`{name}`" in row:
                for deck in cells[1].split(", "):
                    found.setdefault(deck, []).append(name)
    return {deck: list(dict.fromkeys(names)) for deck, names in sorted(found.items())}


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
