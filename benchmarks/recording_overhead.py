"""What recording costs: a Transformer of 8 + 8 layers on 512 tokens, the same step with and without a recorder, in turn.

python benchmarks/recording_overhead.py
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

import regard
from measured import record
from regard.layers import Tokens
from regard.machine import keep_freed_memory
from regard.models import Transformer, TransformerConfig

ROOT = Path(__file__).resolve().parent.parent
VOCABULARY = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results" / "recording.json")
    arguments = parser.parse_args()
    keep_freed_memory()  # else what is kept costs new pages: 17 % were seen
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(
            source_vocabulary=VOCABULARY,
            target_vocabulary=VOCABULARY,
            width=arguments.width,
            heads=8,
            feedforward_width=4 * arguments.width,
            encoder_layers=arguments.layers,
            decoder_layers=arguments.layers,
        )
    )
    shape = (arguments.batch, arguments.length)
    source, target = (
        Tokens(torch.randint(4, VOCABULARY, shape), torch.ones(shape, dtype=torch.bool)) for _ in range(2)
    )

    def forward() -> None:
        with torch.no_grad():
            model(source, target)

    def training_step() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(source, target).float().logsumexp(dim=-1).mean()
        loss.backward()
        model.zero_grad(set_to_none=True)

    figures: dict[str, object] = {}
    for name, run, training in (
        ("forward, float32", forward, False),
        ("training step, bfloat16", training_step, True),
    ):
        model.train(training)
        ratio, seconds = compared(model, run, arguments.rounds)
        figures[f"{name}: on / off"] = round(ratio, 4)
        figures[f"{name}: seconds off"] = round(seconds, 3)
    with regard.look(model) as seen:
        forward()
    figures["maps recorded in one pass"] = len(seen.addresses)
    record(
        arguments.output,
        title="Cost of recording attention",
        command="python benchmarks/recording_overhead.py",
        precision="float32 and bfloat16",
        seed=0,
        target="at most 5 % slower with recording on, at 8 layers and length 512",
        figures=figures,
        note=f"{arguments.layers} + {arguments.layers} layers, width {arguments.width}, 8 heads, batch {arguments.batch}, "
        f"{arguments.length} tokens on both sides; medians of {arguments.rounds} pairs, on and off in turn. All layers are "
        "recorded; each pass's record is dropped after it. The C library keeps freed memory (`keep_freed_memory`); with "
        "glibc's defaults the forward pass was seen 17 % slower with recording on, for the new pages that the queries and keys "
        "then take. Weights are computed only when read, which is not part of this.",
    )


def compared(model: Transformer, run: Callable[[], None], rounds: int) -> tuple[float, float]:
    """Median of the ratios on / off over pairs run in turn, and the median seconds of off."""
    ratios, off_times = [], []
    for number in range(rounds + 2):
        times = {}
        for on in (False, True) if number % 2 else (True, False):
            with regard.look(model) if on else contextlib.nullcontext():
                began = time.perf_counter()
                run()
                times[on] = time.perf_counter() - began
        if number >= 2:  # the first two warm up
            ratios.append(times[True] / times[False])
            off_times.append(times[False])
    return statistics.median(ratios), statistics.median(off_times)


if __name__ == "__main__":
    main()
