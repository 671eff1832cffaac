"""Whether `regard serve` answers what Schemathesis makes of the server's own description: no 5xx, no hang, no traceback.

    python benchmarks/serving_fuzz.py NAME=FOLDER... [--examples 300] [--seconds 1800] [--schemathesis PATH] [--into FILE]

A server is started on a free port of this machine; Schemathesis, a command of its own, reads /openapi.json there and asks. What
counts is what Schemathesis says of the answers by all its checks but `EXCLUDED`, what the server counted, answers by status, and
what it wrote to its log.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parent))

from measured import record

WAIT = 30
"""Seconds after which an answer that has not come is a hang."""

EXCLUDED = {
    "positive_data_acceptance": "a description does not say what is in an image, where a text has a mask, which labels, prompts "
    "and modules a model has, and which fields exclude each other; such a request is refused with 400 and the name of the field",
}
"""Checks of Schemathesis that cannot be met, and why."""


def fuzzed(url: str, command: str, examples: int, seed: int, seconds: int) -> str:
    """What Schemathesis says of the server at an address, by all its checks but `EXCLUDED`."""
    words = [command, "run", f"{url}/openapi.json", "--phases", "coverage,fuzzing", "--checks", "all"]
    words += ["--exclude-checks", ",".join(EXCLUDED), "--max-time", str(seconds)]
    words += ["--continue-on-failure", "--max-examples", str(examples), "--workers", "6", "--seed", str(seed)]
    words += ["--request-timeout", str(WAIT), "--generation-database", "none", "--no-shrink", "--no-color"]
    words += ["--suppress-health-check", "all"]
    with tempfile.TemporaryDirectory() as folder:  # it leaves files in its working folder
        return subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, text=True, check=False).stdout


def main() -> None:
    """Ask and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--examples", type=int, default=300, help="at most, of each operation")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--schemathesis", default="schemathesis", help="the command")
    parser.add_argument("--seconds", type=int, default=1800, help="at most, for all operations together")
    parser.add_argument("--into", type=Path, help="where the record goes")
    given = parser.parse_args()
    words = ["regard", "serve", *given.models, "--port", "0", "--json", "--no-access-log", "--threads", "1"]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        try:
            printed = ""
            for line in server.stdout or ():
                printed += line
                if line.rstrip().endswith("}"):
                    break
            url = json.loads(printed)["url"]
            print(url, flush=True)
            paths = httpx.get(f"{url}/openapi.json").json()["paths"].values()
            operations = sum(len(each.keys() & {"get", "post"}) for each in paths)
            said = fuzzed(url, given.schemathesis, given.examples, given.seed, given.seconds)
            counts = httpx.get(f"{url}/metrics").text
            restarts = httpx.get(f"{url}/ready").json()["restarts"]
        finally:
            server.terminate()
            server.wait()
        log.seek(0)
        written = log.read()
    print(said[-5000:])
    answers: dict[str, int] = {}
    for status, count in re.findall(r'^regard:http_requests_total\{.*status="(\d+)"\} (\d+)', counts, re.MULTILINE):
        answers[status] = answers.get(status, 0) + int(count)
    figures = {
        "operations described": operations,
        "requests answered": sum(answers.values()),
        "of them by status": dict(sorted(answers.items())),
        "failures of all checks of Schemathesis but those below": sum(
            int(count) for count in re.findall(r"^  ❌ \S+ .*: (\d+)$", said, re.MULTILINE)
        ),
        "checks left out": EXCLUDED,
        "answers of 500 and above": sum(count for status, count in answers.items() if status >= "500"),
        f"answers that took longer than {WAIT} seconds": len(re.findall("timed? ?out", said, re.IGNORECASE)),
        "tracebacks in the server's log": written.count("Traceback"),
        "times the engine was started again": restarts,
    }
    if given.into is None:
        print(json.dumps(figures, indent=2))
        return
    names = " ".join(f"{each.partition('=')[0]}=FOLDER" for each in given.models)
    record(
        given.into,
        title="Whatever Schemathesis makes of the server's description, asked of the server",
        target="of 10,000 requests none fails a check, is answered with 5xx, hangs, or leaves a traceback in the log",
        command=f"python benchmarks/serving_fuzz.py {names} --examples {given.examples} --seconds {given.seconds}",
        precision="float32",
        seed=given.seed,
        threads=1,
        figures=figures,
        note="Small models, one for each task, most with random weights. The machine did other work meanwhile.",
    )


if __name__ == "__main__":
    main()
