"""What a user would do with each kind of folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from judging import command
from valid import FOREIGN, RECIPES

import regard
from regard.word_embeddings.files import read_vectors
from regard.word_embeddings.neighbours import neighbours

TEXT = "the old dog sees"
IMAGE = np.arange(64, dtype=np.uint8).reshape(8, 8) * 3

PREDICTIONS: dict[str, Callable[[Any], Any]] = {
    "translation": lambda model: model.translate("abcd"),
    "classification": lambda model: model.classify(TEXT),
    "regression": lambda model: model.rate(TEXT),
    "tagging": lambda model: model.tag(TEXT),
    "question_answering": lambda model: model.answer("which one ?", TEXT),
    "masked_language_modelling": lambda model: model.fill("the [MASK] sees"),
    "sentence_embedding": lambda model: model.embed([TEXT]),
    "language_modelling": lambda model: model.generate("the"),
    "span_corruption": lambda model: model.fill("the <extra_id_0> sees"),
    "denoising": lambda model: model.fill("the <mask> sees"),
    "text_to_text": lambda model: model.generate("turn: abc"),
    "image_classification": lambda model: model.classify(IMAGE),
    "captioning": lambda model: model.caption(np.zeros((16, 32, 3), np.uint8)),
    "bidirectional_language_modelling": lambda model: model.score(TEXT),
}
"""One prediction, by the task."""

COMMANDS: dict[str, list[list[str]]] = {
    "translation": [["translate", "model", "abcd"], ["look", "model", "abcd"], ["evaluate", "model", "pairs.tsv"]],
    "classification": [["classify", "model", TEXT], ["look", "model", TEXT], ["evaluate", "model", "texts.csv"]],
    "regression": [["classify", "model", TEXT], ["embed", "model", TEXT]],
    "tagging": [["tag", "model", TEXT], ["vectors", "extract", "model", "text.txt", "-o", "vectors"]],
    "question_answering": [["answer", "model", "which one ?", "--context", TEXT]],
    "masked_language_modelling": [
        ["fill", "model", "the [MASK] sees"],
        ["walk", "model", TEXT, "--query", "d", "--position", "6"],
    ],
    "sentence_embedding": [["embed", "model", TEXT], ["search", "model", "notes", "the dog"]],
    "language_modelling": [["generate", "model", "the", "--maximum-length", "4"], ["evaluate", "model", "text.txt"]],
    "span_corruption": [["fill", "model", "the <extra_id_0> sees"]],
    "denoising": [["fill", "model", "the <mask> sees"]],
    "text_to_text": [["generate", "model", "turn: abc"]],
    "image_classification": [["classify", "model", "image.png"]],
    "captioning": [["caption", "model", "image.png"]],
    "bidirectional_language_modelling": [["evaluate", "model", "text.txt"], ["embed", "model", TEXT]],
}


def task_of(name: str) -> str:
    """The task that a kind of model folder is for."""
    return RECIPES[FOREIGN.get(name, name)]["task"]


def with_model(name: str, work: Path, data: Path, draw: Random) -> tuple[str, Callable[[], Any]]:
    """Something to do with the folder `model` in `work`."""
    task, chance = task_of(name), draw.random()
    if name == "foreign-t5":  # nothing in another program's folder says which of the two tasks it is
        task = "text_to_text"
    if chance < 0.6:
        return "load and predict", lambda: PREDICTIONS[task](regard.load("model", task=task))
    if chance < 0.75:
        return "info", command("info", "model", *draw.choice([[], ["--json"]]))
    if chance < 0.8:
        return "check", command("check", "model")
    words = draw.choice(COMMANDS[task])
    for word in words:
        _bring(word, work, data)
    return " ".join(words[:2]), command(*words)


def _bring(name: str, work: Path, data: Path) -> None:
    place = data / name
    if place.is_dir():
        shutil.copytree(place, work / name, dirs_exist_ok=True)
    elif place.is_file():
        shutil.copyfile(place, work / name)


def with_run(draw: Random) -> tuple[str, Callable[[], Any]]:
    """Something to do with the folder `run`."""
    chance = draw.random()
    if chance < 0.5:
        return "resume", lambda: regard.train("run/recipe.yaml", output="run", resume=True)
    if chance < 0.7:
        return "train --resume", command("train", "run/recipe.yaml", "-o", "run", "--resume", "training.steps=4")
    if chance < 0.8:
        return "info", command("info", "run")
    if chance < 0.9:
        return "check", command("check", "run", "--json")
    return "load", lambda: regard.load("run")


def with_vectors(name: str, draw: Random) -> tuple[str, Callable[[], Any]]:
    """Something to do with the vectors `name`."""
    chance = draw.random()
    if chance < 0.4:
        return "neighbours", command("vectors", "neighbours", name, "dog", "--n-best", "3")
    if chance < 0.6:
        return "read", lambda: neighbours(read_vectors(name), "king", 3)
    if chance < 0.7:
        return "odd", command("vectors", "doesnt-match", name, "dog", "cat", "king")
    if chance < 0.75:
        return "check", command("check", name)
    if chance < 0.85:
        return "analogy", command("vectors", "analogy", name, "man", "king", "woman", "--json")
    kind = draw.choice(["folder", "word2vec", "word2vec-binary", "glove", "fasttext"])
    return f"convert to {kind}", command("vectors", "convert", name, "converted", "--format", kind)


def with_index() -> tuple[str, Callable[[], Any]]:
    """A search in the folder `notes`."""
    return "search", command("search", "model", "notes", "the dog", "--n-best", "2", "--dtype", "float32")
