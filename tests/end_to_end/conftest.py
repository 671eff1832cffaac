"""What the end-to-end tests share: small runs and what is left of them."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Pairs = list[tuple[str, str]]


@pytest.fixture(scope="session")
def pairs() -> Pairs:
    """Words of two to nine letters, and the same backwards."""
    draw = random.Random(13)
    words = ["".join(draw.choice("abcdefgh") for _ in range(draw.randint(2, 9))) for _ in range(130)]
    return [(word, word[::-1]) for word in words]


@pytest.fixture(scope="session")
def small_recipe() -> Callable[..., dict[str, Any]]:
    """A recipe as a mapping; keywords change its training section."""
    models = {
        "bahdanau": {"embedding_width": 6, "hidden_width": 7, "attention_width": 5, "maxout_width": 4, "dropout": 0.1},
        "transformer": {
            "width": 12,
            "heads": 3,
            "feedforward_width": 10,
            "encoder_layers": 1,
            "decoder_layers": 2,
            "maximum_positions": 40,
            "dropout": 0.1,
            "attention_dropout": 0.1,
        },
        "bert": {
            "width": 12,
            "heads": 3,
            "feedforward_width": 10,
            "layers": 2,
            "maximum_positions": 16,
            "dropout": 0.1,
            "attention_dropout": 0.1,
        },
    }

    def make(model: str, **training: Any) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "steps": 12,
            "batch_tokens": 260,
            "learning_rate": 1e-2,
            "warmup": 3,
            "precision": "float32",
        }
        if (
            model == "bert"
        ):  # pre-trained on the pairs as documents of two sentences: masks are drawn anew in each epoch
            return {
                "task": "masked_language_modelling",
                "seed": 5,
                "model": {"name": model, **models[model]},
                "data": {"maximum_length": 16, "duplicates": 3},
                "tokenizer": {"kind": "bert", "size": 60},
                "training": settings | {"learning_rate": 2e-3} | training,
            }
        return {
            "seed": 5,
            "model": {"name": model, **models[model]},
            "data": {"validation_size": 12},
            "tokenizer": {"kind": "character", "size": 60},
            "training": settings | training,
        }

    return make


@pytest.fixture(scope="session")
def remains() -> Callable[[Path], dict[str, Any]]:
    """All that a run leaves but the time it took: files byte by byte, the log line by line."""

    def read(folder: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".safetensors", ".bin"):
                found[str(path.relative_to(folder))] = path.read_bytes()
            elif path.name == "progress.json":
                state = json.loads(path.read_text())
                # The log's length depends on how the seconds in it are spelt.
                timeless = {k: v for k, v in state["progress"].items() if k not in ("seconds", "log_bytes")}
                found[str(path.relative_to(folder))] = timeless
        found["checkpoints.json"] = json.loads((folder / "checkpoints.json").read_text())
        log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        found["log"] = [{key: value for key, value in line.items() if key != "seconds"} for line in log]
        return found

    return read


@pytest.fixture(scope="session")
def python() -> list[str]:
    """How to start this very Python."""
    return [sys.executable]
