"""One worker of a distributed run, for test_distributed.py: started by torchrun, told what to do in a JSON file.

Checks from inside what cannot be seen from outside: that parameters are sharded, and that only the first worker writes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Shard

import regard
import regard.training.run as run_module
from regard.checkpoints import read_parameters
from regard.training.loop import Stopped


class Inside:
    """Looks at the parameters before the first update and after every update; leaves, or sends SIGTERM, at a step if told to."""

    def __init__(
        self, sharded: bool, leave_at: int | None, signal_at: int | None, signalled: int, resumed: Path | None
    ) -> None:
        self.sharded, self.leave_at, self.signal_at, self.signalled = sharded, leave_at, signal_at, signalled
        self.resumed = resumed

    def started(self, model, progress, total_steps):
        self.model = model
        self.check()
        if self.resumed is not None:
            self.compare(self.resumed)

    def compare(self, run: Path) -> None:
        """What this worker holds is what stands in the last checkpoint, bit for bit."""
        last = json.loads((run / "checkpoints.json").read_text())["last"]
        _, stored = read_parameters(run / "checkpoints" / last)
        for name, parameter in self.model.named_parameters():
            held = parameter.to_local() if isinstance(parameter, DTensor) else parameter
            if not torch.equal(held, stored[name][: held.shape[0]]):  # the first worker has the first rows
                raise SystemExit(f"{name} is not what was saved")

    def stepped(self, progress, tokens_per_second):
        self.check()
        if progress.step == self.leave_at:
            os._exit(3)  # as abruptly as a machine that loses its power; torchrun ends the other worker
        if progress.step == self.signal_at:
            os.kill(self.signalled, signal.SIGTERM)
            time.sleep(2)  # in which torchrun passes it on

    def logged(self, event):
        """After an evaluation, which runs forward alone, the shards must have been put back."""
        self.check()

    def ended(self, progress):
        """Nothing."""

    def check(self) -> None:
        for name, parameter in self.model.named_parameters():
            if isinstance(parameter, DTensor) is not self.sharded:
                raise SystemExit(f"{name} is a {type(parameter).__name__}")
            if self.sharded:
                (placement,) = parameter.placements
                if placement != Shard(0) or parameter.to_local().numel() >= parameter.numel() > 1:
                    raise SystemExit(f"{name} is not divided among the workers: {placement}")


def poison(what: str, ids: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """Make NaN of the vectors, or of their gradient, of texts that have one letter three times in a row."""
    same = (ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] > 1)  # beyond the special tokens
    here = (same[:, 1:] & same[:, :-1]).any(dim=1)[:, None, None]
    if what == "gradient" and vectors.requires_grad and here.any():
        vectors.register_hook(lambda gradient: gradient.masked_fill(here, torch.inf))
    return vectors.masked_fill(here, torch.nan) if what == "loss" else vectors


def forbid_writing(folder: Path) -> None:
    """End this process if it opens a file of the run for writing, or makes, moves or removes one."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            writes = bool((flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        elif event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree"):
            path, writes = arguments[0], True
        else:
            return
        if writes and isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path).startswith(str(folder)):
            print(f"worker {os.environ['RANK']} writes: {event} {os.fsdecode(path)}", file=sys.stderr, flush=True)
            os._exit(4)

    sys.addaudithook(hook)


def main() -> None:
    """Train, and print what came out as one line of JSON."""
    orders = json.loads(Path(sys.argv[1]).read_text())
    output = Path(orders["output"])
    first = os.environ["RANK"] == "0"
    if not first:
        forbid_writing(output)
    if orders["poison"]:  # on every worker: callbacks are called on the first alone
        made = run_module.Checkpoints.restore

        def restore(self, model, optimizer):
            model.encoder.embedding.register_forward_hook(
                lambda module, inputs, output: poison(orders["poison"], inputs[0], output)
            )
            return made(self, model, optimizer)

        run_module.Checkpoints.restore = restore
    other = Path(sys.argv[1]).with_name(f"other-{os.environ['MASTER_PORT']}")  # of this run
    if not first:
        other.write_text(str(os.getpid()))
    while first and not (other.is_file() and other.read_text()):
        time.sleep(0.01)
    signalled = os.getppid() if orders["signalled"] == "torchrun" else int(other.read_text() or 0)
    try:
        trained = regard.train(
            orders["recipe"],
            output=output,
            data=[tuple(example) if isinstance(example, list) else example for example in orders["data"]],
            resume=orders["resume"],
            callbacks=[
                Inside(
                    orders["sharded"],
                    orders["leave_at"],
                    orders["signal_at"],
                    signalled,
                    output if orders["resume"] else None,
                )
            ],
        )
    except regard.InputError as error:
        os.write(2, f"REFUSED {error}\n".encode())  # in one piece, beside that of the other worker
        return
    except Stopped as stopped:
        print(f"STOPPED {stopped.number} {stopped.step}", file=sys.stderr, flush=True)
        return
    if first:
        print("RESULT " + json.dumps({"metrics": trained.metrics, "steps": trained.steps, "best": trained.best_step}))


if __name__ == "__main__":
    main()
