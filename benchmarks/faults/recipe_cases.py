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


def write(path: Path, data: Path, draw: Random) -> list[str]:
    """A recipe with a fault; returns settings to put on top, which keep good ones small."""
    if draw.random() < 0.4:
        return _own(path, data, draw)
    recipe: Any = recipe_of(draw.choice(sorted(RECIPES)), data)
    for _ in range(draw.choice([0, 1, 1, 1, 2, 3])):
        way = draw.choice(SETTINGS).split(".")
        holder = recipe
        for key in way[:-1]:
            holder = holder.setdefault(key, {})
            if not isinstance(holder, dict):
                break
        else:
            value = drawn_value(draw) if way[-1] not in holder or draw.random() < 0.6 else like(holder[way[-1]], draw)
            holder[way[-1]] = value
    text = yaml.safe_dump(recipe, allow_unicode=True).replace("\ue000", "")
    if draw.random() < 0.5:
        with contextlib.suppress(Exception):
            text = changed_yaml(text, draw)
    path.write_text(text, encoding="utf-8", errors="replace")
    if draw.random() < 0.1:
        flip(path, draw)
    return []


def _own(path: Path, data: Path, draw: Random) -> list[str]:
    """One of the package's own, made small, its files those that are here."""
    source = draw.choice(sorted(OWN.glob("*.yaml")))
    text = source.read_text(encoding="utf-8")
    recipe = yaml.safe_load(text)
    small: dict[str, Any] = {"steps": 1, "batch_tokens": 64}
    recipe["training"] = {**recipe.get("training", {}), **small}
    recipe["training"].pop("epochs", None)
    for name in (
        "width",
        "feedforward_width",
        "embedding_width",
        "hidden_width",
        "attention_width",
        "maxout_width",
        "projection",
        "cells",
    ):
        if name in recipe.get("model", {}):
            recipe["model"][name] = 8
    files = ["pairs.tsv", "texts.csv", "text.txt", "tags.conll", "questions.jsonl", "alike.tsv", "rated.csv"]
    for name, part in (recipe.get("data") or {}).items():
        if isinstance(part, dict):
            part.update(
                {
                    key: 20
                    for key in ("size", "validation_size")
                    if key in part or name in ("dates", "sequences", "scenes", "motifs")
                }
            )
        elif name in ("train", "validation"):
            recipe["data"][name] = str(data / draw.choice(files)) if draw.random() < 0.9 else part
        elif name in ("size", "validation_size"):
            recipe["data"][name] = 20
    if (recipe.get("data") or {}).get("builtin") == "python_docs":
        recipe["data"]["builtin"] = None  # the reference text takes longer to read than a case may
    text = yaml.safe_dump(recipe, allow_unicode=True)
    if draw.random() < 0.9:
        text = changed_yaml(text, draw)
    path.write_text(text, encoding="utf-8", errors="replace")
    return []
