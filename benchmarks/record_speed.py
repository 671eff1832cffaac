"""Write a report of `regard bench` down among the measured results.

regard bench translation --cases training --threads 2 --rounds 5 ... --output speed.json
python benchmarks/record_speed.py speed.json --name speed-training --title "..." --command "regard bench ..."
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from measured import record

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    for name in ("--name", "--title", "--command"):
        parser.add_argument(name, required=True)
    parser.add_argument("--seed", type=int, default=1, help="the one that the suite starts from")
    parser.add_argument("--target", default="")
    parser.add_argument("--note", default="")
    arguments = parser.parse_args()
    report = json.loads(arguments.report.read_text(encoding="utf-8"))
    figures: dict[str, Any] = {}
    units = {row["unit"] for row in report["rows"]}
    shapes = []
    for row in report["rows"]:
        case, _, shape = row["case"].partition(": ")
        shapes.append(shape)
        figures[case if len(units) == 1 else f"{case} ({row['unit']})"] = {"regard": row["ours"], **row["peers"]}
        figures[f"{case}, ours over peer"] = row["ratio"]
        if row["spread"]:
            figures[f"{case}, ours over peer, least and most of a round"] = row["spread"]
    for contest in report.get("details", {}).get("contests", {}).values():
        for name in dict.fromkeys(name for found in contest["measures"].values() for name in found):
            if not any(name.partition(",")[0] in row["case"] for row in report["rows"]):  # those are rows already
                figures[name] = {who: found[name] for who, found in contest["measures"].items() if name in found}
    about = f"{', '.join(sorted(units))}; {'; '.join(dict.fromkeys(shapes))}"
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    absent = f" Not installed: {', '.join(report['absent'])}." if report["absent"] else ""
    failed = "".join(f" {name} failed: {sentence}" for name, sentence in report.get("failed", {}).items())
    record(
        ROOT / "docs" / "results" / f"{arguments.name}.json",
        title=arguments.title,
        command=arguments.command,
        precision="named in each case",
        seed=arguments.seed,
        threads=report["threads"],
        target=arguments.target,
        figures=figures,
        note=" ".join(filter(None, (f"{about}. Versions: {versions}.{absent}{failed}", arguments.note))),
    )


if __name__ == "__main__":
    main()
