"""Makes folders/: a tiny trained folder of each model family and each task, and what training and predicting gave.

    python tests/golden/make_folders.py                       # writes folders/ anew, the losses and answers into it
    python tests/golden/make_folders.py --output /tmp/after   # elsewhere, to compare two versions of the code: diff -r
    python tests/golden/make_folders.py --open                # opens what is in folders/ and counts what is not the same bits
    python tests/golden/make_folders.py --losses              # trains anew and writes the losses that are others now, no folder

The folders are what users have on their disks: they must open with every later version and answer the same. So they are made
anew only where a family or a task is added (`--only NAME`), or for a change of what is computed that is wanted and said; losses
alone where training samples other random numbers than before.
On the processor and the threads they were made with, losses and answers are the same bits. Others add the same numbers up in
another order: compared with a relative tolerance of 1e-4 (`TOLERANCE`), where after these updates of float32 no more than 1e-5
was ever seen.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import regard
from regard.generation import GenerationSettings

FOLDERS = Path(__file__).with_name("folders")
TOLERANCE = 1e-4

WORDS = ["dog", "cat", "bird", "king", "queen", "barks", "sleeps", "sees", "old", "new", "red", "house"]
TEXT = "the old dog sees"


def _sentences(count: int) -> list[str]:
    draw = random.Random(1)
    return ["the " + " ".join(draw.choice(WORDS) for _ in range(draw.randint(2, 5))) for _ in range(count)]


SENTENCES = _sentences(40)


def _pairs() -> list[tuple[str, str]]:
    """Squares in base seven and the same backwards."""
    words = []
    for number in range(3, 603, 12):
        digits, rest = "", number * number
        while rest:
            digits, rest = digits + "abcdefg"[rest % 7], rest // 7
        words.append(digits)
    return [(word, word[::-1]) for word in words]


def _labels(text: str) -> list[str]:
    return [word for word in ("dog", "old") if word in text]


def _asked() -> list[dict[str, Any]]:
    found = []
    for number, context in enumerate(SENTENCES):
        word = context.split()[1]
        answer = {"answer": word, "answer_start": context.index(word)}
        found.append({"id": str(number), "question": "which one ?", "context": context, **answer})
    return found


def _image(height: int, width: int) -> np.ndarray:
    return (np.arange(height * width * 3, dtype=np.int64).reshape(height, width, 3) * 7 % 256).astype(np.uint8)


IMAGES = [(_image(8, 8) // 2 + (100 if number % 2 else 0), "light" if number % 2 else "dark") for number in range(24)]

CHARACTERS = {"tokenizer": {"kind": "character", "size": 40}, "data": {"validation_size": 10}}
INPUTS = {"tokenizer": {"kind": "bert", "size": 60}, "data": {"maximum_length": 16, "validation_share": 0.25}}
LEFT_TO_RIGHT = {
    "tokenizer": {"kind": "byte_bpe", "size": 270},
    "data": {"length": 12, "unit": "line", "validation_share": 0.25},
}
WHOLE_WORDS = {
    "tokenizer": {"kind": "word", "size": 40},
    "data": {"length": 12, "unit": "line", "validation_share": 0.25},
}
SMALL = {"width": 8, "heads": 2, "feedforward_width": 12, "layers": 2, "maximum_positions": 24}
RECURRENT = {"embedding_width": 6, "hidden_width": 8}
TWO_SIDED = {"width": 8, "heads": 2, "feedforward_width": 12, "encoder_layers": 1, "decoder_layers": 2}
T5 = {"name": "t5", **TWO_SIDED, "head_width": 4}
ATTENDED = {"convolutions": [4, 4], "embedding_width": 4, "hidden_width": 6}


@dataclass(frozen=True)
class Case:
    """A model trained for a task.

    Arguments:
        recipe: the sections of its recipe that are not the same for all.
        ask: what is predicted with it, by a name.
        data: the examples; None for drawn ones.
        start: the case whose folder this one is fine-tuned from.
    """

    recipe: Mapping[str, Any]
    ask: Callable[[Any], Mapping[str, Any]]
    data: Any = None
    start: str = ""
    training: Mapping[str, Any] = field(default_factory=dict)


def _translation(model: dict[str, Any], **changes: Any) -> Case:
    settings = GenerationSettings(beam=3, n_best=2, maximum_length=8)
    training = {"accumulate": 2, "label_smoothing": 0.1, "clip_norm": 0.5}
    return Case(
        {"task": "translation", "model": model, **CHARACTERS, **changes},
        lambda it: {"greedy": it.translate("abcdefg"), "beam": it.translate_batch(["gfedc", "a"], settings)},
        _pairs(),
        training=training,
    )


def _language(model: dict[str, Any], sections: Mapping[str, Any] = LEFT_TO_RIGHT, **changes: Any) -> Case:
    settings = GenerationSettings(maximum_length=6)
    return Case(
        {"task": "language_modelling", "model": model, **sections, **changes},
        lambda it: {"score": it.score(TEXT), "generated": it.generate(["the", "the old dog"], settings)},
        SENTENCES,
    )


def _classes(model: dict[str, Any], sections: Mapping[str, Any] = INPUTS, **more: Any) -> Case:
    examples = [(text, "yes" if "dog" in text else "no") for text in SENTENCES]
    return Case(
        {"task": "classification", "model": model, **sections},
        lambda it: {"classified": it.classify_batch([TEXT, "the red house"])},
        examples,
        **more,
    )


def _images(model: dict[str, Any]) -> Case:
    return Case(
        {"task": "image_classification", "model": model, "data": {"validation_size": 4}},
        lambda it: {"classified": it.classify_batch([IMAGES[0][0], IMAGES[1][0]])},
        IMAGES,
    )


def _captions(model: dict[str, Any]) -> Case:
    scenes = {"size": 20, "validation_size": 4, "objects": "shapes", "rows": 1, "columns": 2, "fewest": 1, "most": 2}
    return Case(
        {"task": "captioning", "model": model, "data": {"scenes": scenes}, "tokenizer": {"kind": "word", "size": 40}},
        lambda it: {"captions": it.caption_batch([_image(16, 32), _image(16, 32)[::-1].copy()])},
    )


def _copies(model: dict[str, Any]) -> Case:
    data = {"width": 2, "shortest": 1, "longest": 3, "size": 60, "validation_size": 6}
    bits = [[[1, 0], [0, 1], [1, 1]], [[0, 0]]]
    return Case({"task": "copying", "model": model, "data": data}, lambda it: {"copies": it.copy_batch(bits)})


BART = {
    "name": "transformer",
    **TWO_SIDED,
    "maximum_positions": 64,
    "positions": "learned",
    "first_position": 2,
    "scaled_embedding": False,
    "embedding_norm": True,
    "attention_bias": True,
    "activation": "gelu",
    "output_bias": "none",
}
BERT = {"name": "bert", **SMALL}
SHOWN = [(np.eye(8, dtype=np.uint8) * 200, "slanted"), (np.full((8, 8), 90, np.uint8), "grey")]

CASES: dict[str, Case] = {
    "transformer": _translation({"name": "transformer", **TWO_SIDED, "maximum_positions": 24}),
    "transformer-pre": _translation(
        {"name": "transformer", **TWO_SIDED, "maximum_positions": 24, "norm": "pre", "positions": "learned"},
        tokenizer={"kind": "character", "size": 40, "shared": False},
    ),
    "bahdanau": _translation({"name": "bahdanau", **RECURRENT, "attention_width": 5, "maxout_width": 4}),
    "cho": _translation({"name": "cho", **RECURRENT, "maxout_width": 4}),
    "luong": _translation({"name": "luong", **RECURRENT, "layers": 2}),
    "gnmt": _translation({"name": "gnmt", **RECURRENT, "attention_width": 5, "layers": 3}),
    "sutskever": _translation({"name": "sutskever", **RECURRENT, "layers": 2}),
    "t5-span-corruption": Case(
        {
            "task": "span_corruption",
            "model": T5,
            "data": {"length": 16, "validation_share": 0.25},
            "tokenizer": {"kind": "unigram", "size": 60, "sentinels": 4},
        },
        lambda it: {"filled": it.fill_batch(["the <extra_id_0> sees", "the old <extra_id_0>"])},
        SENTENCES,
    ),
    "bart-denoising": Case(
        {
            "task": "denoising",
            "model": BART,
            "data": {"length": 16, "validation_share": 0.25},
            "tokenizer": {"kind": "roberta", "size": 280},
        },
        lambda it: {"filled": it.fill_batch(["the <mask> sees", "the old <mask>"])},
        SENTENCES,
    ),
    "t5-text-to-text": Case(
        {
            "task": "text_to_text",
            "model": T5,
            "data": {"validation_size": 10},
            "tokenizer": {"kind": "unigram", "size": 120},
        },
        lambda it: {"generated": it.generate(["abcdefg", "gfedc"])},
        _pairs(),
    ),
    "decoder": _language({"name": "decoder", **SMALL, "key_heads": 1, "positions": "relative", "gated": True}),
    "gpt": _language({"name": "gpt", **SMALL}),
    "gpt2": _language({"name": "gpt2", **SMALL}),
    "gpt3": _language({"name": "gpt3", **SMALL, "band": 4}),
    "gpt_neox": _language({"name": "gpt_neox", **SMALL, "rotary_share": 0.5}),
    "llama": _language({"name": "llama", **SMALL, "key_heads": 1}),
    "reformer": _language(
        {"name": "reformer", **SMALL, "layers": ["local", "lsh"], "chunk": 4, "local_chunk": 4, "buckets": [2]}
    ),
    "lstm_language_model": _language({"name": "lstm_language_model", **RECURRENT}, WHOLE_WORDS),
    "lstmn": _language({"name": "lstmn", **RECURRENT}, WHOLE_WORDS),
    "music_transformer": Case(
        {
            "task": "language_modelling",
            "model": {"name": "music_transformer", "width": 8, "heads": 2, "feedforward_width": 12, "layers": 1},
            "data": {"motifs": {"notes": 15, "size": 30, "validation_size": 5, "longest": 3}, "length": 16},
            "tokenizer": {"kind": "grid"},
        },
        lambda it: {
            "score": it.score("C4 D4 E4"),
            "generated": it.generate("C4", GenerationSettings(maximum_length=6)),
        },
    ),
    "bert": _classes(BERT),
    "distilbert-regression": Case(
        {"task": "regression", "model": BERT | {"name": "distilbert"}, **INPUTS},
        lambda it: {"rated": it.rate_batch([TEXT, "the red house"])},
        [(text, len(text) / 7) for text in SENTENCES],
    ),
    "roberta-masked": Case(
        {
            "task": "masked_language_modelling",
            "model": BERT | {"name": "roberta"},
            "tokenizer": {"kind": "roberta", "size": 275, "lowercase": False},
            "data": {**INPUTS["data"], "next_sentence": False},
        },
        lambda it: {"filled": it.fill("the <mask> sees"), "score": it.score(TEXT)},
        [SENTENCES[at : at + 4] for at in range(0, 40, 4)],
    ),
    "xlm_roberta": _classes(BERT | {"name": "xlm_roberta"}),
    "modernbert": _classes({"name": "modernbert", **SMALL, "window": 4}),
    "electra": _classes(BERT | {"name": "electra", "embedding_width": 6}),
    "bert-multi-label": Case(
        {"task": "multi_label_classification", "model": BERT, **INPUTS},
        lambda it: {"labelled": it.classify_batch([TEXT, "the red house"])},
        [(text, _labels(text)) for text in SENTENCES],
    ),
    "bert-multi-output": Case(
        {"task": "multi_output_regression", "model": BERT, **INPUTS},
        lambda it: {"rated": it.rate_batch([TEXT, "the red house"])},
        [(text, [len(text) / 7, text.count("e") / 3]) for text in SENTENCES],
    ),
    "bert-tagging": Case(
        {"task": "tagging", "model": BERT, **INPUTS},
        lambda it: {"tagged": it.tag_batch([TEXT, "the red house"])},
        [(text.split(), ["B-X" if word in ("dog", "king") else "O" for word in text.split()]) for text in SENTENCES],
    ),
    "bert-answers": Case(
        {
            "task": "question_answering",
            "model": BERT,
            "data": {"maximum_length": 20, "maximum_question": 8, "stride": 4, "validation_share": 0.25},
            "tokenizer": {"kind": "bert", "size": 60},
        },
        lambda it: {"answer": it.answer("which one ?", "the red house sees a dog", n_best=2)},
        _asked(),
    ),
    "bert-masked": Case(
        {"task": "masked_language_modelling", "model": BERT, **INPUTS},
        lambda it: {"filled": it.fill("the [MASK] sees"), "score": it.score(TEXT)},
        [SENTENCES[at : at + 4] for at in range(0, 40, 4)],
    ),
    "bert-choice": Case(
        {"task": "multiple_choice", "model": BERT, **INPUTS},
        lambda it: {"chosen": it.choose(TEXT, ["the cat", "the house", "a king"])},
        [(text, [text.split()[1], "house"], 0) for text in SENTENCES],
    ),
    "bert-embedding": Case(
        {"task": "sentence_embedding", "model": BERT, **INPUTS},
        lambda it: {"embedded": it.embed([TEXT, "the red house"])},
        list(zip(SENTENCES[::2], SENTENCES[1::2], strict=True)),
    ),
    "attention_stack": _classes({"name": "attention_stack", **SMALL}),
    "elmo": Case(
        {
            "task": "bidirectional_language_modelling",
            "model": {
                "name": "elmo",
                "projection": 4,
                "cells": 6,
                "character_width": 4,
                "filters": [[1, 4], [2, 4]],
                "highways": 1,
                "maximum_characters": 9,
            },
            "data": {"vocabulary": 20, "length": 12, "validation_share": 0.25},
        },
        lambda it: {"score": it.score(TEXT)},
        SENTENCES,
    ),
    "han": _classes(
        {"name": "han", "embedding_width": 4, "hidden_width": 4, "attention_width": 4},
        {**INPUTS, "tokenizer": {"kind": "word", "size": 40}},
    ),
    "infersent": _classes(
        {"name": "infersent", **RECURRENT, "classifier_width": 6}, {**INPUTS, "tokenizer": {"kind": "word", "size": 40}}
    ),
    "use_transformer": _classes(
        {"name": "use_transformer", "width": 8, "heads": 2, "feedforward_width": 12, "layers": 1}
    ),
    "use_averaging": _classes({"name": "use_averaging", "width": 8, "bigrams": 16, "feedforward_layers": 2}),
    "gpt-classifier": _classes({}, {"data": INPUTS["data"]}, start="gpt"),
    "gpt2-classifier": _classes({}, {"data": INPUTS["data"]}, start="gpt2"),
    "gpt3-classifier": _classes({}, {"data": INPUTS["data"]}, start="gpt3"),
    "llama-classifier": _classes({}, {"data": INPUTS["data"]}, start="llama"),
    "vit": _images({"name": "vit", "patch": 4, "width": 8, "heads": 2, "feedforward_width": 12, "layers": 1}),
    "convolutional_network": _images({"name": "convolutional_network", "convolutions": [4, 6]}),
    "lecture_network": _images({"name": "lecture_network", "widths": [6, 4]}),
    "lambda_network": _images({"name": "lambda_network", "convolutions": [4], "width": 8, "heads": 2, "key_width": 4}),
    "show_and_tell": _captions({"name": "show_and_tell", **ATTENDED, "feature_width": 6}),
    "show_attend_and_tell": _captions({"name": "show_attend_and_tell", **ATTENDED, "attention_width": 5}),
    "ntm": _copies({"name": "ntm", "slots": 6, "slot_width": 4, "controller_width": 8}),
    "lstm_transducer": _copies({"name": "lstm_transducer", "hidden_width": 8, "layers": 2}),
    "snail": Case(
        {
            "task": "few_shot",
            "model": {
                "name": "snail",
                "embedding_channels": [4],
                "embedding_width": 6,
                "filters": [4, 4],
                "key_widths": [4, 4, 4],
                "value_widths": [4, 4, 4],
            },
            "data": {"builtin": "digits", "ways": 2, "shots": 1, "side": 8, "asked": 2, "turned": False},
        },
        lambda it: {"classified": it.classify(SHOWN, np.eye(8, dtype=np.uint8) * 180)},
    ),
}
"""By the name of its folder: at least one of each model family and of each task."""


def plain(value: Any) -> Any:
    """What JSON can say of an answer: floats to their last bit, and of dataclasses every field that is no record."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if dataclasses.is_dataclass(value):
        return {part.name: plain(getattr(value, part.name)) for part in dataclasses.fields(value)}
    if isinstance(value, torch.Tensor | np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(part) for part in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, np.generic):
        return value.item()
    assert value is None or isinstance(value, str | int | float | bool), (
        f"{type(value).__name__} is no part of an answer"
    )
    return value


def trained(name: str, place: Path) -> list[float]:
    """Train a case into `place`/its name, with its start beside it; the losses of its updates and of the validation."""
    case = CASES[name]
    recipe = {**case.recipe, "seed": 20170612}
    if case.start:
        recipe["model"] = {"pretrained": os.path.relpath(place / case.start)}
    recipe["training"] = {
        "steps": 4,
        "batch_tokens": 200,
        "learning_rate": 5e-3,
        "warmup": 2,
        "epsilon": 1e-6,
        "precision": "float32",
        "log_every": 1,
        **case.training,
    }
    folder = place / name
    result = regard.train(recipe, output=folder, **({} if case.data is None else {"data": case.data}))
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in log if line["event"] == "train"] + [float(result.metrics["loss"])]


def answers(name: str, folder: Path) -> dict[str, Any]:
    """What the model of a case predicts."""
    task = CASES[name].recipe["task"]
    return plain(CASES[name].ask(regard.load(folder, task=task)))


def make(name: str, place: Path) -> dict[str, Any]:
    """Train a case, keep the files of the model alone, and return its losses and answers."""
    losses = trained(name, place)
    for leftover in ("data", "checkpoints", "checkpoints.json", "log.jsonl", ".lock"):
        path = place / name / leftover
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return {"losses": losses, "answers": answers(name, place / name)}


def differing(found: Any, wanted: Any, where: str = "") -> list[str]:
    """Where two answers are not the same bits."""
    if isinstance(found, dict) and isinstance(wanted, dict) and found.keys() == wanted.keys():
        return [each for key in found for each in differing(found[key], wanted[key], f"{where}.{key}")]
    if isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        return [each for at, part in enumerate(found) for each in differing(part, wanted[at], f"{where}[{at}]")]
    return [] if type(found) is type(wanted) and found == wanted else [f"{where}: {found!r}, was {wanted!r}"]


def _retrained(name: str) -> list[float]:
    with tempfile.TemporaryDirectory() as place:
        if start := CASES[name].start:
            shutil.copytree(FOLDERS / start, Path(place) / start)
        os.chdir(place)
        losses = trained(name, Path(place))
        os.chdir(FOLDERS)
    return losses


def main() -> None:
    """Write the folders, or open them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=FOLDERS)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), metavar="NAME")
    parser.add_argument("--open", action="store_true", help="open what is there instead, and compare bits")
    parser.add_argument(
        "--losses", action="store_true", help="write the losses of training anew that differ, no folder"
    )
    arguments = parser.parse_args()
    place: Path = arguments.output.absolute()
    file = place / "expected.json"
    expected = json.loads(file.read_text())["cases"] if file.exists() else {}
    if arguments.open:
        others = [
            each
            for name in arguments.only
            for each in differing(answers(name, place / name), expected[name]["answers"], name)
        ]
        print(
            "\n".join(
                [*others, f"{len(arguments.only)} folders opened, {len(others)} numbers or texts are not the same bits"]
            )
        )
        raise SystemExit(bool(others))
    place.mkdir(exist_ok=True)
    for name in arguments.only:
        if arguments.losses:
            before, losses = expected[name]["losses"], _retrained(name)
            if not np.allclose(losses, before, rtol=TOLERANCE, atol=1e-9):
                print(name, before[-1], losses[-1], flush=True)
                expected[name]["losses"] = losses
            continue
        os.chdir(place)
        shutil.rmtree(place / name, ignore_errors=True)
        expected[name] = make(name, place)
        print(name, expected[name]["losses"][-1], flush=True)
    made_with = {"regard": regard.__version__, "torch": str(torch.__version__), "threads": torch.get_num_threads()}
    ordered = {name: expected[name] for name in CASES if name in expected}
    file.write_text(json.dumps({"made_with": made_with, "cases": ordered}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
