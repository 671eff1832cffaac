"""Comparisons small enough to run in a test: sequences of a few symbols, models of a few hundred parameters."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.claims.compared import Compared, Run
from regard.claims.comparison import Comparison, read_comparison
from regard.claims.measuring import Bin, Value


@pytest.fixture(scope="session")
def small() -> Callable[..., dict[str, Any]]:
    """A recipe as a mapping; keywords change its training section."""

    def make(**training: Any) -> dict[str, Any]:
        return {
            "model": {
                "name": "transformer",
                "width": 8,
                "heads": 2,
                "feedforward_width": 12,
                "encoder_layers": 1,
                "decoder_layers": 1,
                "dropout": 0.1,
            },
            "data": {
                "sequences": {
                    "kind": "reversal",
                    "symbols": 5,
                    "shortest": 2,
                    "longest": 5,
                    "size": 120,
                    "validation_size": 20,
                }
            },
            "tokenizer": {"kind": "word", "size": 20},
            "training": {
                "steps": 6,
                "batch_tokens": 200,
                "learning_rate": 1e-2,
                "warmup": 2,
                "precision": "float32",
                "evaluate_every": 3,
                "save_every": 2,
                "log_every": 1,
            }
            | training,
            "generation": {"maximum_length": 8},
        }

    return make


MEASURES = [
    "loss",
    "steps_to:loss=0.001",
    "parameters",
    "tokens_per_second",
    {"name": "answers", "kind": "decoded", "metric": "exact_match", "split": "test", "size": 12},
    {
        "name": "by length",
        "kind": "teacher_forced",
        "metric": "token_accuracy",
        "split": "test",
        "size": 30,
        "bins": [3],
    },
]


@pytest.fixture(scope="session")
def compared(small, tmp_path_factory) -> Compared:
    """Two arms trained with two seeds, and one that takes the first's runs with a beam; not to be changed."""
    return regard.compare(
        small(),
        arms={
            "pre": ["model.norm=pre"],
            "post": {"model.norm": "post"},
            "beam": {"trains": "pre", "generation.beam": 3},
        },
        seeds=2,
        measures=MEASURES,
        output=tmp_path_factory.mktemp("compared") / "runs",
    )


@pytest.fixture
def made_up(small) -> Callable[..., Compared]:
    """A comparison with numbers given: `made_up({"a": {"bleu": [30, 31, 29]}})`; a dict of a seed's bins is allowed too."""

    def make(numbers: dict[str, dict[str, list[Any]]], **curves: Any) -> Compared:
        names = list(next(iter(numbers.values())))
        kinds: dict[str, dict[str, Any]] = {}
        for name in names:
            binned = any(isinstance(value, dict) for arm in numbers.values() for value in arm[name])
            kinds[name] = {"name": name, "kind": "decoded", "metric": "bleu", "bins": [10, 20] if binned else []}
            if name.startswith("updates"):
                kinds[name] = {"name": name, "kind": "steps_to", "metric": "token_accuracy", "threshold": 0.9}
        count = len(next(iter(next(iter(numbers.values())).values())))
        comparison: Comparison = read_comparison(
            small(), arms={arm: {"model.dropout": n / 100} for n, arm in enumerate(numbers)}, seeds=count,
            measures=list(kinds.values()),
        )  # fmt: skip
        runs = []
        for arm, measures in numbers.items():
            for place, seed in enumerate(comparison.seeds):
                values = {name: _value(found[place]) for name, found in measures.items()}
                runs.append(
                    Run(
                        arm=arm, seed=seed, folder=Path("nowhere"), parameters=1234, steps=9, reason="9 steps done",
                        training_seconds=2.0, measuring_seconds=0.5, values=values,
                        curves={"loss": tuple(curves.get(f"{arm}_{seed}", ((3, 2.0 + seed), (6, 1.0 + seed))))},
                    )
                )  # fmt: skip
        return Compared(comparison=comparison, folder=Path("nowhere"), runs=tuple(runs))

    return make


def _value(found: Any) -> Value:
    if not isinstance(found, dict):
        return Value(number=found)
    ranges = ((1, 10), (11, 20), (21, None))
    bins = tuple(
        Bin(shortest=low, longest=high, count=5, value=found[name])
        for (low, high), name in zip(ranges, ("short", "middle", "long"), strict=True)
    )
    return Value(number=found["all"], bins=bins)


@pytest.fixture(scope="session")
def words() -> list[tuple[str, str]]:
    """Pairs for a user's own files: 300 short texts and the same backwards."""
    draw = random.Random(5)
    texts = [" ".join(draw.choice("abcdef") for _ in range(draw.randint(2, 6))) for _ in range(300)]
    return [(text, text[::-1]) for text in dict.fromkeys(texts)]


@pytest.fixture
def environment() -> dict[str, str]:
    """For child processes: this very package, one thread."""
    return {**os.environ, "PYTHONPATH": str(Path(regard.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
