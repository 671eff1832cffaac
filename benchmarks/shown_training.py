"""What `regard train --studio` costs a training: pairs of runs, with and without it, while the page asks every 1.5 seconds.

    python benchmarks/shown_training.py dates training.steps=400 --pairs 5

Of each pair the one that goes first changes. The seconds are those of the training's own log, evaluations and what is watched in
them included; the start of the page's process before it is not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import httpx

EVERY = 1.5  # seconds, as the page asks


def ask(address: str, ended: threading.Event) -> None:
    """Ask as the page does, until the training has ended."""
    url, _, key = address.partition("#token=")
    headers, asked = {"authorization": f"Bearer {key}"}, {"since": 0, "mark": ""}
    while not ended.wait(EVERY):
        try:
            answer = httpx.post(f"{url}/log", json=asked, headers=headers).json()
        except httpx.TransportError:
            return
        if "until" in answer:
            asked = {"since": answer["until"], "mark": answer["mark"]}


def seconds(recipe: list[str], output: Path, shown: bool) -> float:
    """Seconds that one training takes."""
    command = [sys.executable, "-m", "regard", "train", *recipe, "--output", str(output), "--json"]
    command += ["--studio", "--no-browser"] if shown else []
    ended = threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        if running.stdout is None or running.stderr is None:
            raise RuntimeError("a process was started without its pipes")
        for line in running.stderr:
            if "is shown at" in line:
                threading.Thread(target=ask, args=(line.split()[-1], ended), daemon=True).start()
        found = json.loads(running.stdout.read())
        ended.set()
    return float(found["seconds"])


def main() -> None:
    """Measure, and print the ratio of each pair and their median."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="+", help="a recipe and what it says otherwise, as for regard train")
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as place:
        for pair in range(given.pairs):
            order = (False, True) if pair % 2 == 0 else (True, False)
            took = {shown: seconds(given.recipe, Path(place) / f"{pair}-{shown}", shown) for shown in order}
            ratios.append(took[True] / took[False])
            print(f"plain {took[False]:.2f} s, shown {took[True]:.2f} s, ratio {ratios[-1]:.4f}", flush=True)
    print(json.dumps({"ratio": round(statistics.median(ratios), 4), "pairs": [round(one, 4) for one in ratios]}))


if __name__ == "__main__":
    main()
