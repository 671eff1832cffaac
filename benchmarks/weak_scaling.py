"""Weak scaling: the same batches for each worker, one worker and two; and what each reads of the data and writes of a checkpoint.

    python benchmarks/weak_scaling.py
    python benchmarks/weak_scaling.py --steps 60 --rounds 3 --output weak-scaling.json

Workers have a thread each and talk over loopback (gloo). A round is one run of each kind, in turns; the speed of a run is that of
its updates after the fifth. Twice the work in the same time is 100 %: two cores that share memory and caches seldom reach it.
What is read of the training data is counted over the first epoch.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import regard
from measured import record
from regard.data import token_store
from regard.training.callbacks import Callback
from regard.training.checkpoint import Progress
from regard.training.loop import Loop

KINDS = ((1, "ddp"), (2, "ddp"), (2, "fsdp"))
WARM = 5
"""Updates that are not timed."""


def recipe_of(parallel: str, steps: int) -> dict[str, Any]:
    """A GPT-2 of 4 layers on Python's reference, two batches of 2,048 tokens an update for each worker."""
    return {
        "task": "language_modelling",
        "model": {
            "name": "gpt2",
            "width": 256,
            "heads": 4,
            "feedforward_width": 1024,
            "layers": 4,
            "maximum_positions": 256,
        },
        "data": {"builtin": "python_docs", "length": 128},
        "tokenizer": {"kind": "byte_bpe", "size": 4000},
        "training": {
            "steps": steps,
            "batch_tokens": 2048,
            "accumulate": 2,
            "precision": "float32",
            "parallel": parallel,
            "evaluate_every": steps,
            "save_every": steps,
            "evaluate_generated": 0,
            "keep_optimizer": True,
        },
    }


class Clock(Callback):
    """Times the updates after the first ones."""

    def __init__(self) -> None:
        self.tokens = self.before = 0
        self.began = self.seconds = 0.0
        self.read: dict[tuple[int, int], int] = {}

    def stepped(self, progress: Progress, tokens_per_second: float) -> None:
        now = time.perf_counter()
        if progress.step == WARM:
            self.began, self.before = now, progress.tokens
        self.seconds, self.tokens = now - self.began, progress.tokens - self.before


def work(orders: dict[str, Any]) -> None:
    """One worker: train, and write what it found."""
    clock, output = Clock(), Path(orders["output"])
    made: list[Loop] = []
    begun = Loop.__init__

    def noted(self: Loop, **parts: Any) -> None:
        begun(self, **parts)
        made.append(self)

    Loop.__init__ = noted  # type: ignore[method-assign]
    kept = token_store.Ids.between

    def between(self: Any, start: int, stop: int) -> Any:
        found = kept(self, start, stop)
        if self._file.parent.name == "train" and made and made[0].progress.epoch == 0:
            clock.read[start, stop] = found.nbytes
        return found

    token_store.Ids.between = between  # type: ignore[method-assign]
    regard.train(recipe_of(orders["parallel"], orders["steps"]), output=output, callbacks=[clock])
    ids = next((output / "data").rglob("train/*.bin"))
    whole = sum(path.stat().st_size for path in ids.parent.glob("*.bin") if path.name.count(".") == 1)
    found: dict[str, float] = {"bytes read": sum(clock.read.values()), "bytes of the data": whole}
    if os.environ.get("RANK", "0") == "0":
        found["tokens per second"] = clock.tokens / clock.seconds
    (output.parent / f"{output.name}-{os.environ.get('RANK', '0')}.json").write_text(json.dumps(found))


def run(count: int, parallel: str, steps: int, folder: Path) -> dict[str, Any]:
    """One run of so many workers."""
    output = folder / f"{count}-{parallel}"
    orders = json.dumps({"output": str(output), "parallel": parallel, "steps": steps})
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(count)]
    command += ["--master-addr", "localhost", "--master-port", str(port), __file__, "--work", orders]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    subprocess.run(command, check=True, env=environment, capture_output=True)
    reports = [json.loads((folder / f"{output.name}-{rank}.json").read_text()) for rank in range(count)]
    last = json.loads((output / "checkpoints.json").read_text())["last"]
    shards = sorted((output / "checkpoints" / last).glob("*.safetensors"))
    return {
        "tokens per second": reports[0]["tokens per second"],
        "read": [each["bytes read"] / each["bytes of the data"] for each in reports],
        "shards": {path.name: path.stat().st_size for path in shards},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=None, help="where to write the record")
    parser.add_argument("--note", default="")
    parser.add_argument("--work", default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work is not None:
        work(json.loads(given.work))
        return
    found: dict[tuple[int, str], list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for number in range(given.rounds):
        for kind in KINDS if number % 2 == 0 else reversed(KINDS):
            with tempfile.TemporaryDirectory() as folder:
                found[kind].append(run(*kind, given.steps, Path(folder)))
            print(kind, found[kind][-1], file=sys.stderr)
    speeds = {kind: [each["tokens per second"] for each in runs] for kind, runs in found.items()}
    alone = statistics.median(speeds[KINDS[0]])
    figures: dict[str, Any] = {}
    for (count, parallel), values in speeds.items():
        name = f"{count} worker{'s' if count > 1 else ''}, {parallel}"
        figures[f"{name} (tokens/s)"] = {
            "median": round(statistics.median(values)),
            "least": round(min(values)),
            "most": round(max(values)),
        }
        if count > 1:
            figures[f"{name}, of twice the speed of one"] = round(statistics.median(values) / (count * alone), 3)
        shares = found[count, parallel][-1]["read"]
        figures[f"{name}, share of the data that each read in an epoch"] = ", ".join(f"{share:.3f}" for share in shares)
    last = found[2, "fsdp"][-1]["shards"]
    figures["2 workers, fsdp, a checkpoint's shards (MB)"] = {name: round(size / 1e6, 2) for name, size in last.items()}
    if given.output is None:
        print(json.dumps(figures, indent=2))
        return
    record(
        given.output,
        title="Weak scaling from one worker to two",
        command=f"python benchmarks/weak_scaling.py --steps {given.steps} --rounds {given.rounds}",
        precision="float32",
        seed=1,
        threads=1,
        figures=figures,
        note="GPT-2 of 4 layers, width 256, 4,000 pieces; two batches of 2,048 tokens an update for each worker, AdamW; a thread "
        f"for each worker, gloo over loopback. {given.note}".strip(),
    )


if __name__ == "__main__":
    main()
