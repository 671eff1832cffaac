"""Small valid folders of every kind, made with the package itself, for faults to be put into."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import regard
import regard.training.callbacks
from regard.word_embeddings.files import read_vectors, write_vectors
from regard.word_embeddings.store import NgramSubwords, WordVectors

WORDS = [
    "the", "dog", "cat", "bird", "man", "woman", "king", "queen", "barks", "sleeps",
    "runs", "sees", "old", "new", "red", "big", "house", "river", "bank", "money",
]  # fmt: skip
ONE_STEP: dict[str, Any] = {"steps": 1, "batch_tokens": 200, "warmup": 1, "precision": "float32"}
BERT: dict[str, Any] = {
    "name": "bert",
    "width": 8,
    "heads": 2,
    "feedforward_width": 8,
    "layers": 1,
    "maximum_positions": 16,
}
GPT2: dict[str, Any] = {
    "name": "gpt2",
    "width": 8,
    "heads": 2,
    "feedforward_width": 8,
    "layers": 1,
    "maximum_positions": 16,
}
TRANSFORMER: dict[str, Any] = {
    "name": "transformer", "width": 8, "heads": 2, "feedforward_width": 8, "encoder_layers": 1, "decoder_layers": 1,
    "maximum_positions": 16,
}  # fmt: skip
BAHDANAU: dict[str, Any] = {
    "name": "bahdanau",
    "embedding_width": 4,
    "hidden_width": 6,
    "attention_width": 5,
    "maxout_width": 4,
}
ELMO: dict[str, Any] = {
    "name": "elmo", "projection": 4, "cells": 6, "character_width": 4, "filters": [[1, 4], [2, 4]], "highways": 1,
    "maximum_characters": 9,
}  # fmt: skip
PAIRS = {"train": "pairs.tsv", "validation_size": 8}

WORD_PIECES, CHARACTERS = {"kind": "bert", "size": 60}, {"kind": "character", "size": 30}
TABLE = {"maximum_length": 16, "text": "text", "label": "label"}
RECIPES: dict[str, dict[str, Any]] = {
    "marian": {
        "task": "translation",
        "model": TRANSFORMER,
        "data": PAIRS,
        "tokenizer": CHARACTERS,
    },
    "transformer": {
        "task": "translation",
        "model": TRANSFORMER | {"norm": "pre", "positions": "learned"},
        "data": PAIRS,
        "tokenizer": {"kind": "word", "size": 30, "shared": False},
    },
    "pegasus": {
        "task": "translation",
        "model": TRANSFORMER | {"norm": "pre"},
        "data": PAIRS,
        "tokenizer": CHARACTERS,
    },
    "bahdanau": {"task": "translation", "model": BAHDANAU, "data": PAIRS, "tokenizer": CHARACTERS},
    "classifier": {
        "task": "classification",
        "model": BERT,
        "data": TABLE | {"train": "texts.csv"},
        "tokenizer": WORD_PIECES,
    },
    "rater": {
        "task": "regression",
        "model": BERT | {"name": "distilbert"},
        "data": TABLE | {"train": "rated.csv"},
        "tokenizer": WORD_PIECES,
    },
    "tagger": {
        "task": "tagging",
        "model": BERT,
        "data": {"train": "tags.conll", "maximum_length": 16},
        "tokenizer": WORD_PIECES,
    },
    "answerer": {
        "task": "question_answering",
        "model": BERT | {"maximum_positions": 24},
        "data": {"train": "questions.jsonl", "maximum_length": 24, "maximum_question": 8, "stride": 4},
        "tokenizer": WORD_PIECES,
    },
    "masked": {
        "task": "masked_language_modelling",
        "model": BERT,
        "data": {"train": "text.txt", "maximum_length": 16},
        "tokenizer": WORD_PIECES,
    },
    "encoder": {
        "task": "sentence_embedding",
        "model": BERT,
        "data": {"train": "alike.tsv", "maximum_length": 16, "text": 0, "pair": 1},
        "tokenizer": WORD_PIECES,
    },
    "gpt2": {
        "task": "language_modelling",
        "model": GPT2,
        "data": {"train": "text.txt", "unit": "line", "length": 12},
        "tokenizer": {"kind": "byte_bpe", "size": 270},
    },
    "t5": {
        "task": "span_corruption",
        "model": {
            "name": "t5", "width": 8, "heads": 2, "head_width": 4, "feedforward_width": 8, "encoder_layers": 1,
            "decoder_layers": 1,
        },
        "data": {"train": "text.txt", "length": 16},
        "tokenizer": {"kind": "unigram", "size": 60, "sentinels": 4},
    },
    "bart": {
        "task": "denoising",
        "model": {
            "name": "transformer", "width": 8, "heads": 2, "feedforward_width": 8, "encoder_layers": 1, "decoder_layers": 1,
            "maximum_positions": 24, "positions": "learned", "embedding_norm": True, "scaled_embedding": False,
        },
        "data": {"train": "text.txt", "length": 16},
        "tokenizer": {"kind": "roberta", "size": 270},
    },
    "text_to_text": {
        "task": "text_to_text",
        "model": {
            "name": "t5", "width": 8, "heads": 2, "head_width": 4, "feedforward_width": 8, "encoder_layers": 1,
            "decoder_layers": 1,
        },
        "data": {
            "parts": {
                "turned": {"train": "pairs.tsv", "prefix": "turn: "},
                "asked": {"train": "questions.jsonl", "format": "questions"},
            }
        },
        "tokenizer": {"kind": "unigram", "size": 150},
    },
    "vit": {
        "task": "image_classification",
        "model": {"name": "vit", "patch": 4, "width": 8, "heads": 2, "feedforward_width": 8, "layers": 1},
        "data": {"builtin": "digits", "validation_size": 20, "size": 60, "height": 8, "width": 8},
    },
    "captioner": {
        "task": "captioning",
        "model": {
            "name": "show_attend_and_tell", "convolutions": [4, 4], "embedding_width": 4, "hidden_width": 6,
            "attention_width": 5,
        },
        "data": {"scenes": {"size": 20, "validation_size": 4, "objects": "shapes", "rows": 1, "columns": 2, "fewest": 1,
        "most": 2}},
        "tokenizer": {"kind": "word", "size": 40},
    },
    "elmo": {
        "task": "bidirectional_language_modelling",
        "model": ELMO,
        "data": {"train": "text.txt", "vocabulary": 20, "length": 12},
    },
    "han": {
        "task": "classification",
        "model": {"name": "han", "embedding_width": 4, "hidden_width": 4, "attention_width": 4},
        "data": TABLE | {"train": "texts.csv"},
        "tokenizer": {"kind": "word", "size": 40},
    },
    "lstm": {
        "task": "language_modelling",
        "model": {"name": "lstm_language_model", "embedding_width": 4, "hidden_width": 6},
        "data": {"train": "text.txt", "unit": "line", "length": 12},
        "tokenizer": {"kind": "word", "size": 40},
    },
}  # fmt: skip
"""A recipe for each kind of model folder. Paths are those of `write_data`."""

FOREIGN = {
    "foreign-bert": "classifier",
    "foreign-gpt2": "gpt2",
    "foreign-marian": "marian",
    "foreign-t5": "t5",
    "foreign-vit": "vit",
    "foreign-tagger": "tagger",
}
"""Folders as another program would leave them, by the folder of ours that the same weights are in."""

RUNS = ("bahdanau", "classifier", "gpt2", "tagger", "masked", "encoder")
"""What the runs with checkpoints are runs of."""

VECTORS = (
    "folder",
    "subword-folder",
    "text.vec",
    "packed.vec.gz",
    "glove.txt",
    "words.bin",
    "packed.bin.gz",
    "fasttext.bin",
)


def write_data(place: Path) -> None:
    """Small files for every task, drawn with a seed."""
    draw = random.Random(1)

    def sentence() -> str:
        return " ".join(draw.choice(WORDS) for _ in range(draw.randint(3, 7))) + " ."

    place.mkdir()
    words = ["".join(draw.choice("abcd") for _ in range(draw.randint(2, 6))) for _ in range(60)]
    (place / "pairs.tsv").write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    (place / "texts.csv").write_text(
        "text,label\n" + "".join(f"{sentence()},{draw.choice(['good', 'bad'])}\n" for _ in range(60))
    )
    (place / "rated.csv").write_text("text,label\n" + "".join(f"{sentence()},{draw.random():.2f}\n" for _ in range(60)))
    (place / "alike.tsv").write_text("".join(f"{sentence()}\t{sentence()}\n" for _ in range(60)))
    tags = [
        "".join(f"{word} {'B-X' if word in ('dog', 'king') else 'O'}\n" for word in sentence().split())
        for _ in range(40)
    ]
    (place / "tags.conll").write_text("\n".join(tags))
    (place / "text.txt").write_text("\n\n".join("\n".join(sentence() for _ in range(4)) for _ in range(20)) + "\n")
    questions = []
    for number in range(40):
        context = sentence()
        word = context.split()[1]
        answer = {"answer": word, "answer_start": context.index(word)}
        questions.append({"id": str(number), "question": "which one ?", "context": context, **answer})
    (place / "questions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in questions))
    Image.fromarray(np.arange(16 * 32 * 3, dtype=np.uint8).reshape(16, 32, 3)).save(place / "image.png")
    notes = place / "notes"
    notes.mkdir()
    for number in range(3):
        (notes / f"{number}.txt").write_text("\n\n".join(sentence() for _ in range(4)) + "\n")


def recipe_of(name: str, data: Path, **training: Any) -> dict[str, Any]:
    """The recipe of a kind, its paths below `data`."""

    def placed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: str(data / part) if key == "train" else placed(part) for key, part in value.items()}
        return value

    recipe = RECIPES[name]
    return {**recipe, "data": placed(recipe["data"]), "training": ONE_STEP | training}


def write_models(place: Path, data: Path, names: list[str]) -> None:
    """A folder for each name of `RECIPES` and `FOREIGN`."""
    place.mkdir(exist_ok=True)
    for name in names:
        if name in FOREIGN:
            write_models(place, data, [FOREIGN[name]])
            shutil.copytree(place / FOREIGN[name], place / name)
            for path in ("regard.json", "README.md", "recipe.yaml"):
                (place / name / path).unlink(missing_ok=True)
            if name == "foreign-gpt2":  # its tokenizer in the older of its two spellings
                tokenizer = json.loads((place / name / "tokenizer.json").read_text())
                model = tokenizer["model"]
                vocabulary = model["vocab"] | {each["content"]: each["id"] for each in tokenizer["added_tokens"]}
                (place / name / "vocab.json").write_text(json.dumps(vocabulary))
                (place / name / "merges.txt").write_text(
                    "#version: 0.2\n" + "".join(" ".join(pair) + "\n" for pair in model["merges"])
                )
                (place / name / "tokenizer.json").unlink()
        elif not (place / name).exists():
            regard.train(recipe_of(name, data), output=place / name)
            for path in ("data", "checkpoints"):  # the runs have them
                shutil.rmtree(place / name / path)
            for path in ("checkpoints.json", "log.jsonl"):
                (place / name / path).unlink()


def write_runs(place: Path, data: Path, names: list[str]) -> None:
    """A run for each name: two updates of three done, a checkpoint after each, as a kill leaves it."""
    place.mkdir(exist_ok=True)
    for name in names:
        recipe = recipe_of(name, data, steps=3, save_every=1, evaluate_every=2)
        with contextlib.suppress(_Stopped):
            regard.train(recipe, output=place / name, callbacks=[_Stop()])


class _Stopped(Exception):
    """Two updates are done."""


class _Stop(regard.training.callbacks.Callback):  # type: ignore[name-defined,misc]
    def stepped(self, progress: Any, tokens_per_second: float) -> None:
        if progress.step == 3:
            raise _Stopped


def write_word_vectors(place: Path, names: list[str]) -> None:
    """The same few vectors in each format."""
    place.mkdir()
    draw = np.random.default_rng(1)
    matrix = draw.normal(size=(len(WORDS), 6)).astype(np.float32)
    counts = np.arange(len(WORDS), 0, -1).astype(np.int64)
    plain = WordVectors(words=tuple(WORDS), matrix=matrix, counts=counts)
    parts = NgramSubwords(table=draw.normal(size=(10, 6)).astype(np.float32), minimum=2, maximum=3)
    subwords = WordVectors(words=tuple(WORDS), matrix=matrix, counts=counts, subwords=parts)
    for name in names:
        kind = {"folder": "folder", "subword-folder": "folder", "glove.txt": "glove", "fasttext.bin": "fasttext"}.get(
            name
        )
        write_vectors(subwords if kind == "fasttext" or name.startswith("subword") else plain, place / name, kind)  # type: ignore[arg-type]
        read_vectors(place / name)
