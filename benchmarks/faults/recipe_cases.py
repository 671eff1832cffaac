"""Recipes, the package's own and tiny ones, with faults in them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from random import Random
from typing import Any

import yaml
from mutating import changed_yaml, drawn_value, flip, like
from valid import RECIPES, recipe_of

OWN = Path(__file__).resolve().parents[2] / "recipes"

SETTINGS = [
    "training.steps", "training.epochs", "training.tokens", "training.seconds", "training.batch_tokens",
    "training.accumulate", "training.learning_rate",
    "training.betas", "training.epsilon", "training.weight_decay", "training.schedule", "training.warmup",
    "training.clip_norm", "training.precision",
    "training.device", "training.evaluate_every", "training.save_every", "training.log_every", "training.patience",
    "training.best", "training.optimizer",
    "training.label_smoothing", "training.frozen", "training.tracker", "training.adapters", "training.compile",
    "training.recompute", "seed", "task", "model",
    "model.name", "model.dropout", "model.pretrained", "model.layers", "model.width", "model.heads", "data", "data.train",
    "data.validation",
    "data.validation_size", "data.validation_share", "data.maximum_length", "data.text", "data.label", "data.format",
    "data.builtin", "data.dates",
    "data.sequences", "data.length", "tokenizer", "tokenizer.kind", "tokenizer.size", "tokenizer.shared",
    "tokenizer.lowercase", "generation",
    "generation.beam", "generation.maximum_length", "generation.length_penalty", "generation.sample",
    "generation.temperature", "generation.top_k",
]  # fmt: skip
"""What recipes say, whether or not the drawn one does."""


FILES = {
    "translation": "pairs.tsv",
    "classification": "texts.csv",
    "regression": "rated.csv",
    "tagging": "tags.conll",
    "question_answering": "questions.jsonl",
    "sentence_embedding": "alike.tsv",
}
"""What a task learns from; all others read text.txt."""


def write(path: Path, data: Path, draw: Random) -> None:
    """Write a recipe, mostly with a fault in it; what is right in it is small."""
    if draw.random() < 0.4:
        recipe = _own(data, draw)
    else:
        recipe = recipe_of(draw.choice(sorted(RECIPES)), data)
        for _ in range(draw.choice([0, 1, 1, 1, 2])):
            _set(recipe, draw)
    text = yaml.safe_dump(recipe, allow_unicode=True).replace("\ue000", "")
    if draw.random() < 0.4:
        with contextlib.suppress(Exception):
            text = changed_yaml(text, draw)
    path.write_text(text, encoding="utf-8", errors="replace")
    if draw.random() < 0.05:
        flip(path, draw)


def _set(recipe: dict[str, Any], draw: Random) -> None:
    """Set one of the settings to something else."""
    way = draw.choice(SETTINGS).split(".")
    holder: Any = recipe
    for key in way[:-1]:
        holder = holder.setdefault(key, {})
        if not isinstance(holder, dict):
            return
    known = way[-1] in holder
    holder[way[-1]] = like(holder[way[-1]], draw) if known and draw.random() < 0.6 else drawn_value(draw)


def _own(data: Path, draw: Random) -> dict[str, Any]:
    """One of the package's own, made small, its files those that are here."""
    recipe: dict[str, Any] = yaml.safe_load(draw.choice(sorted(OWN.glob("*.yaml"))).read_text(encoding="utf-8"))
    training = {**recipe.get("training", {}), "steps": 1, "batch_tokens": 64}
    recipe["training"] = {name: value for name, value in training.items() if name != "epochs"}
    recipe["model"] = {
        name: min(value, 16) if _is_size(name, value) else value for name, value in recipe["model"].items()
    }
    task = recipe.get("task", "translation")
    recipe["data"] = {name: _small(name, value, data, task) for name, value in (recipe.get("data") or {}).items()}
    if task == "copying":
        recipe["data"]["size"] = 20
    if recipe["model"].get("pretrained", "") is None and draw.random() < 0.7:
        recipe["model"] = dict(recipe_of("classifier", data)["model"])
    return recipe


def _is_size(name: str, value: Any) -> bool:
    return type(value) is int and (name.endswith("width") or name in ("projection", "cells"))


def _small(name: str, value: Any, data: Path, task: str) -> Any:
    """A part of `data` that is there, and small."""
    if isinstance(value, dict):
        part = {key: _small(key, each, data, task) for key, each in value.items()}
        return (
            part | {"size": 20, "validation_size": 4}
            if name in ("dates", "sequences", "scenes", "motifs", "maps")
            else part
        )
    if name in ("train", "validation"):
        return None if value is None and name == "validation" else str(data / FILES.get(task, "text.txt"))
    if name in ("size", "validation_size"):
        return 20
    # The reference text that comes with Python takes longer to read than a case may.
    return None if value == "python_docs" else value
