"""Kill a training run with SIGKILL at random moments, resume it each time, and compare it with one that was never stopped.

python benchmarks/resume_kills.py
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from measured import record

ROOT = Path(__file__).resolve().parent.parent
MODELS: dict[str, dict[str, Any]] = {
    "bahdanau": {
        "name": "bahdanau",
        "embedding_width": 24,
        "hidden_width": 32,
        "attention_width": 32,
        "maxout_width": 24,
        "dropout": 0.1,
    },
    "transformer": {
        "name": "transformer",
        "width": 32,
        "heads": 4,
        "feedforward_width": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "sharing": "none",
    },
}


def recipe(model: str, precision: str) -> dict[str, Any]:
    """Three epochs, with accumulation, early-stop counters and checkpoints between evaluations."""
    return {
        "seed": 7,
        "model": MODELS[model],
        "data": {"dates": {"size": 6_000, "validation_size": 100, "languages": ["en", "de", "fr"], "typo_rate": 0.1}},
        "tokenizer": {"kind": "character", "size": 500, "shared": False},
        "training": {
            "epochs": 3,
            "batch_tokens": 1_200,
            "accumulate": 2,
            "learning_rate": 3e-3,
            "warmup": 20,
            "precision": precision,
            "evaluate_every": 60,
            "patience": 1_000,
            "save_every": 11,
            "log_every": 5,
        },
    }


def child(values: dict[str, Any], folder: Path) -> int:
    """Start the run, or resume it, in a forked process; returns its id. The parent never runs an operation of torch."""
    process = os.fork()
    if process:
        return process
    try:
        import regard

        regard.train(values, output=folder, resume=(folder / "recipe.yaml").is_file())
        os._exit(0)
    except BaseException as error:
        print(f"the run failed: {error!r}", flush=True)
        os._exit(1)


def finish(values: dict[str, Any], folder: Path) -> float:
    """Run to the end; returns the seconds it took."""
    began = time.monotonic()
    _, status = os.waitpid(child(values, folder), 0)
    if status:
        raise SystemExit(f"the run in {folder} ended with status {status}")
    return time.monotonic() - began


def killed(
    values: dict[str, Any], folder: Path, kills: int, seconds: float, chance: random.Random
) -> tuple[int, list[int]]:
    """Kill and resume until `kills` kills were delivered, then finish; returns how many, and the steps resumed from."""
    delivered, resumed = 0, []
    mean = 0.9 * seconds / kills
    while delivered < kills:
        process = child(values, folder)
        deadline = time.monotonic() + chance.uniform(0.2, 1.4) * mean + 0.4
        while time.monotonic() < deadline:
            done, _ = os.waitpid(process, os.WNOHANG)
            if done:
                return delivered, resumed
            time.sleep(0.002)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        delivered += 1
        pointer = folder / "checkpoints.json"
        resumed.append(int(json.loads(pointer.read_text())["last"][5:]) if pointer.is_file() else 0)
    finish(values, folder)
    return delivered, resumed


def logged_steps(folder: Path) -> list[tuple[str, int]]:
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [(event["event"], event["step"]) for event in events]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="for each model and precision")
    parser.add_argument("--seed", type=int, default=1, help="of the moments to kill at")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results" / "resume.json")
    arguments = parser.parse_args()
    import regard.data.dates
    import regard.training.run  # noqa: F401  loaded once, so that the forked runs start at once

    chance = random.Random(arguments.seed)
    figures: dict[str, object] = {}
    for model in MODELS:
        for precision in ("float32", "bfloat16"):
            values = recipe(model, precision)
            with tempfile.TemporaryDirectory() as place:
                whole, broken = Path(place) / "whole", Path(place) / "broken"
                seconds = finish(values, whole)
                delivered, resumed = killed(values, broken, arguments.kills, seconds, chance)
                weights = [(folder / "model.safetensors").read_bytes() for folder in (whole, broken)]
                steps = logged_steps(broken)
                figures[f"{model}, {precision}"] = {
                    "kills": delivered,
                    "weights equal bit for bit": weights[0] == weights[1],
                    "log lines the same, none twice": steps == logged_steps(whole) and len(steps) == len(set(steps)),
                    "resumed from steps": resumed,
                    "seconds without kills": round(seconds, 1),
                }
                print(model, precision, figures[f"{model}, {precision}"], flush=True)
    record(
        arguments.output,
        title="Killed and resumed",
        command="python benchmarks/resume_kills.py",
        precision="float32 and bfloat16",
        seed=arguments.seed,
        target="20 SIGKILLs at random moments, resumed: final weights equal bit for bit; both models, float32 and bfloat16",
        figures=figures,
    )


if __name__ == "__main__":
    main()
