"""What recording costs in another library's model: BERT-base's shape in transformers, on and off in turn in one process.

python benchmarks/recording_transformers.py

`regard bench look` times the same in processes of their own, beside eager attention; here the pairs are next to one another, so
that a few percent can be told.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertModel

import regard
from measured import record
from regard.machine import keep_freed_memory

ROOT = Path(__file__).resolve().parent.parent
SHAPES = ((8, 512), (2, 2048))
WAYS: dict[str, Sequence[str] | None] = {"one layer": ["encoder.layer.0.*"], "all 12 layers": None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    keep_freed_memory()
    torch.manual_seed(0)
    model = BertModel(BertConfig(max_position_embeddings=2048), add_pooling_layer=False).eval()
    figures: dict[str, Any] = {}
    for batch, tokens in SHAPES:
        ids = torch.randint(model.config.vocab_size, (batch, tokens))
        with torch.no_grad():
            alone = model(ids)[0]
            with regard.look(model) as seen:
                looked_at = model(ids)[0]
        figures[f"{batch}x{tokens}: output equal bit for bit"] = torch.equal(alone, looked_at)
        kept = {id(kept): kept for call in seen.runs[0].calls.values() for kept in (call[0].query, call[0].key) if kept}
        size = sum(one.tensor.numel() * one.tensor.element_size() for one in kept.values())
        figures[f"{batch}x{tokens}: MB of queries and keys kept, all layers"] = round(size / 1e6, 1)
        del seen, alone, looked_at, kept
        for way, addresses in WAYS.items():
            ratio, seconds, apart = compared(model, ids, addresses, arguments.rounds)
            figures[f"{batch}x{tokens}, {way}: on / off"] = round(ratio, 4)
            figures[f"{batch}x{tokens}, {way}: middle half of the pairs"] = [round(value, 3) for value in apart]
            figures[f"{batch}x{tokens}, {way}: seconds off"] = round(seconds, 3)
    record(
        ROOT / "docs" / "results" / "recording_transformers.json",
        title="Cost of recording a model of another library",
        command="python benchmarks/recording_transformers.py",
        precision="float32",
        seed=0,
        target="one layer of BERT-base's shape at 8x512 and 2x2,048: at most 5 % time; memory: the queries and keys",
        figures=figures,
        note=f"transformers' BertModel, its default kernel (sdpa), random weights, forward pass; medians of {arguments.rounds} "
        "pairs. On includes entering and leaving the look. The C library keeps freed memory.",
    )


def compared(
    model: BertModel, ids: torch.Tensor, addresses: Sequence[str] | None, rounds: int
) -> tuple[float, float, list[float]]:
    """Median of the ratios on / off over pairs in turn, median seconds of off, and the quartiles of the ratios."""
    ratios, off_times = [], []
    for number in range(rounds + 2):
        times = {}
        for on in (False, True) if number % 2 else (True, False):
            began = time.perf_counter()
            with torch.no_grad(), regard.look(model, addresses) if on else contextlib.nullcontext():
                model(ids)
            times[on] = time.perf_counter() - began
        if number >= 2:  # the first two warm up
            ratios.append(times[True] / times[False])
            off_times.append(times[False])
    quartiles = statistics.quantiles(ratios, n=4)
    return statistics.median(ratios), statistics.median(off_times), [quartiles[0], quartiles[2]]


if __name__ == "__main__":
    main()
