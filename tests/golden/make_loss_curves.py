"""Makes loss_curves.json: the losses of ten updates of each model, exactly as they were when the file was made.

    python tests/golden/make_loss_curves.py

A change of this file is a change of what training computes, so make it anew only on purpose and say why. Compared with a
relative tolerance of 1e-4 (`TOLERANCE`): other processors and thread counts add the same numbers up in another order, which
after ten updates of float32 was never seen to differ by more than 1e-5.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch

import regard

FILE = Path(__file__).with_name("loss_curves.json")
TOLERANCE = 1e-4

MODELS: dict[str, dict[str, Any]] = {
    "bahdanau": {
        "name": "bahdanau",
        "embedding_width": 8,
        "hidden_width": 12,
        "attention_width": 10,
        "maxout_width": 6,
    },
    "transformer": {
        "name": "transformer",
        "width": 16,
        "heads": 4,
        "feedforward_width": 24,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "maximum_positions": 32,
        "dropout": 0.0,
    },
}


def pairs() -> list[tuple[str, str]]:
    """Numbers in base seven and the same backwards; no random number is drawn, so the data never change."""
    words = []
    for number in range(3, 1203, 12):
        digits, rest = "", number * number
        while rest:
            digits, rest = digits + "abcdefg"[rest % 7], rest // 7
        words.append(digits)
    return [(word, word[::-1]) for word in words]


def recipe(model: str) -> dict[str, Any]:
    """Ten updates in float32 with all that the loop does: accumulation, clipping, smoothing, warm-up."""
    return {
        "seed": 20170612,
        "model": MODELS[model],
        "data": {"validation_size": 10},
        "tokenizer": {"kind": "character", "size": 40},
        "training": {
            "steps": 10,
            "batch_tokens": 200,
            "accumulate": 2,
            "learning_rate": 5e-3,
            "warmup": 4,
            "label_smoothing": 0.1,
            "clip_norm": 0.5,
            "epsilon": 1e-6,
            "precision": "float32",
            "log_every": 1,
        },
    }


def curve(model: str, folder: Path) -> dict[str, list[float]]:
    """Training losses by update, and the validation loss at the end."""
    trained = regard.train(recipe(model), output=folder, data=pairs())
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in log if line["event"] == "train"]
    return {"train": losses, "validation": [trained.metrics["loss"]]}


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as folder:
        curves = {model: curve(model, Path(folder) / model) for model in MODELS}
    made_with = {"regard": regard.__version__, "torch": str(torch.__version__), "threads": torch.get_num_threads()}
    FILE.write_text(json.dumps({"made_with": made_with, "curves": curves}, indent=2) + "\n")


if __name__ == "__main__":
    main()
