"""Kills training at random moments, resumes it, and compares the result bit for bit with a run that nobody killed.

    python benchmarks/resume_kills.py

For each of {bahdanau, transformer, bert} x {float32, bfloat16}: one run from start to end; then the same run in another folder,
whose process gets a SIGKILL at a moment drawn at random, again and again, until `--kills` have hit it; then it may end. A
kill may fall anywhere: while the data are prepared, between a log line and a checkpoint, in the middle of writing one.
What has to be equal: the weights of the published model and of the last checkpoint, the optimiser's state, the counters
(all but the seconds), and the log line by line, no step twice.

Children are forked from this process, which has imported everything and computed nothing, so a life does not begin with
seconds of imports.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import regard
import regard.training.run  # everything is to be imported before the first fork
from measured import record

ROOT = Path(__file__).resolve().parent.parent
MODELS: dict[str, dict[str, Any]] = {
    "bahdanau": {
        "name": "bahdanau",
        "embedding_width": 16,
        "hidden_width": 24,
        "attention_width": 24,
        "maxout_width": 16,
        "dropout": 0.1,
    },
    "transformer": {
        "name": "transformer",
        "width": 32,
        "heads": 4,
        "feedforward_width": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "maximum_positions": 40,
        "dropout": 0.1,
        "attention_dropout": 0.1,
    },
    "bert": {
        "name": "bert",
        "width": 32,
        "heads": 4,
        "feedforward_width": 64,
        "layers": 2,
        "maximum_positions": 24,
        "dropout": 0.1,
        "attention_dropout": 0.1,
    },
}


def pairs(count: int = 1200) -> list[tuple[str, str]]:
    """Random words and the same backwards."""
    draw = random.Random(1)
    words = ["".join(draw.choice("abcdefghijkl") for _ in range(draw.randint(2, 14))) for _ in range(count)]
    return [(word, word[::-1]) for word in words]


def recipe(model: str, precision: str, steps: int, seed: int) -> dict[str, Any]:
    """Saves, evaluations and log lines out of step with each other; several epochs; a shorter last window in each."""
    masked = model == "bert"  # on the same pairs, as documents of two sentences
    return {
        "task": "masked_language_modelling" if masked else "translation",
        "seed": seed,
        "model": MODELS[model],
        "data": {"maximum_length": 24} if masked else {"validation_size": 60},
        "tokenizer": {"kind": "bert" if masked else "character", "size": 60},
        "training": {
            "steps": steps,
            "batch_tokens": 700,
            "accumulate": 3,
            "learning_rate": 3e-3,
            "warmup": 30,
            "label_smoothing": 0.1,
            "weight_decay": 0.01,
            "precision": precision,
            "evaluate_every": 11,
            "save_every": 4,
            "log_every": 3,
            "patience": 1000,
        },
    }


def live(values: dict[str, Any], folder: Path, threads: int, errors: Path) -> None:
    """What a child does: train, going on from where the last one was killed."""
    try:
        torch.set_num_threads(threads)
        regard.train(values, output=folder, data=pairs(), resume=True)
    except BaseException:
        errors.write_text(traceback.format_exc())
        os._exit(1)
    os._exit(0)


def life(values: dict[str, Any], folder: Path, threads: int, doomed: Callable[[], bool]) -> bool:
    """Start a child and kill it when its time has come; whether the kill hit it."""
    errors = folder.with_suffix(".error")
    child = multiprocessing.get_context("fork").Process(target=live, args=(values, folder, threads, errors))
    child.start()
    while child.is_alive() and not doomed():
        child.join(0.002)
    if child.is_alive():
        child.kill()
        child.join()
    if child.exitcode == -signal.SIGKILL:
        return True
    if child.exitcode != 0:
        raise SystemExit(errors.read_text() if errors.is_file() else f"the child ended with {child.exitcode}")
    return False


def remains(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """All that a run leaves but the time it took: weights, optimiser and counters; and the log."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".safetensors":
            found[str(path.relative_to(folder))] = path.read_bytes()
        elif path.name == "progress.json":
            counters = json.loads(path.read_text())["progress"]
            found[str(path.relative_to(folder))] = {
                key: value for key, value in counters.items() if key not in ("seconds", "log_bytes")
            }
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return found, [{key: value for key, value in line.items() if key != "seconds"} for line in log]


def resumed_from(folder: Path) -> int:
    """The step that the next life will go on from."""
    pointer = folder / "checkpoints.json"
    return int(json.loads(pointer.read_text())["last"].removeprefix("step-")) if pointer.is_file() else 0


def moment(draw: random.Random, folder: Path, steps: int, latest: int, seconds_per_step: float) -> Callable[[], bool]:
    """When to kill: a random time after a random number of steps, up to `steps`; or one time in four, while starting up.

    Not much later than step `latest`, so that no run ends before its last kill.

    Counted in steps and not in seconds alone, because a busy machine may be several times slower or faster a minute later.
    """
    if draw.random() < 0.25:
        end = time.monotonic() + draw.uniform(0.0, 1.0)
        return lambda: time.monotonic() >= end
    goal = min(resumed_from(folder) + draw.randint(0, steps), latest)
    extra = draw.uniform(0.0, 8 * seconds_per_step)
    end = float("inf")

    def doomed() -> bool:
        nonlocal end
        if end == float("inf") and resumed_from(folder) >= goal and (folder / "log.jsonl").is_file():
            end = time.monotonic() + extra
        return time.monotonic() >= end

    return doomed


def case(model: str, precision: str, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One model in one precision."""
    values = recipe(model, precision, arguments.steps, arguments.seed)
    draw = random.Random(f"{arguments.seed} {model} {precision}")
    began = time.monotonic()
    life(values, folder / "whole", arguments.threads, lambda: False)
    seconds = time.monotonic() - began
    steps: list[int] = []
    while len(steps) < arguments.kills:
        # On average the lives together come to half of a whole run.
        share, latest = arguments.steps // arguments.kills, arguments.steps * 7 // 10
        doomed = moment(draw, folder / "killed", share, latest, seconds / arguments.steps)
        if not life(values, folder / "killed", arguments.threads, doomed):
            break
        steps.append(resumed_from(folder / "killed"))
    life(values, folder / "killed", arguments.threads, lambda: False)
    (state, log), (resumed_state, resumed_log) = remains(folder / "whole"), remains(folder / "killed")
    lines = [(line["event"], line["step"]) for line in resumed_log]
    return {
        "kills": len(steps),
        "weights equal bit for bit": state["model.safetensors"] == resumed_state["model.safetensors"],
        "last and best checkpoint, optimiser and counters equal bit for bit": state == resumed_state,
        "log lines the same, none twice": log == resumed_log and len(set(lines)) == len(lines),
        "resumed from steps": steps,
        "seconds without kills": round(seconds, 1),
    }


def main() -> None:
    """Run all cases and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results" / "resume.json")
    parser.add_argument("--kills", type=int, default=20, help="for each model and precision")
    parser.add_argument("--steps", type=int, default=300, help="updates of a run")
    parser.add_argument("--seed", type=int, default=1, help="of the runs and of the moments to kill at")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--precisions", nargs="+", choices=["float32", "bfloat16"], default=["float32", "bfloat16"])
    arguments = parser.parse_args()
    figures: dict[str, Any] = {}
    for model in arguments.models:
        for precision in arguments.precisions:
            with tempfile.TemporaryDirectory() as folder:
                found = case(model, precision, arguments, Path(folder))
            figures[f"{model}, {precision}"] = found
            print(model, precision, found, flush=True)
    equal = sum(all(value is not False for value in found.values()) for found in figures.values())
    summary = {
        "kills": sum(found["kills"] for found in figures.values()),
        "runs equal bit for bit to one never killed": f"{equal} of {len(figures)}",
    }
    record(
        arguments.output,
        title="Killed and resumed",
        command="python benchmarks/resume_kills.py",
        precision=" and ".join(arguments.precisions),
        seed=arguments.seed,
        target="20 SIGKILLs at random moments, resumed: final weights equal bit for bit; both models, float32 and bfloat16",
        figures=summary | figures,
        threads=arguments.threads,
    )
    if equal < len(figures):
        raise SystemExit("a resumed run differs from the one that was not killed")


if __name__ == "__main__":
    main()
