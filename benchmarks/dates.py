"""Run the demonstration and write down what it found.

python benchmarks/dates.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from measured import record

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "examples" / "demo.py"), "--output", folder, *sys.argv[1:]]
        printed = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    result = json.loads(printed.rsplit("RESULT ", 1)[1])
    wrong = [line.strip().removeprefix("wrong: ") for line in printed.splitlines() if line.startswith("  wrong: ")]
    record(
        ROOT / "docs" / "results" / "dates.json",
        title="Dates in 53 languages to ISO dates, Bahdanau 2015 (make demo)",
        command="make demo",
        precision="float32",
        seed=1,
        target="at most 45 s from the first training step to the figure; at least 99.5 % exact match on 2,000 held-out days "
        "over at least 40 languages; at least 95 % with one typo in the letters of each",
        figures={
            "exact match": result["exact_match"],
            "exact match with one typo": result["typo_exact_match"],
            "digits read from the right place": result["alignment"],
            "seconds": result["seconds"],
            "held-out dates": result["n"],
            "languages": 53,
            "read wrongly (without typos)": wrong,
        },
        note="With one typo some dates have no single answer: about 4 in 100 are one edit away from two months of the same form. "
        "The figure with typos moves by about one point with the length of training and with anything that changes rounding. "
        "The recipe was chosen among about ten settings judged on another draw of held-out days, not on this one. Before the "
        "special tokens were renumbered, which changes the random numbers, it gave 0.9995 and 0.961 on this draw, and 0.8305 "
        "for the place.",
    )


if __name__ == "__main__":
    main()
