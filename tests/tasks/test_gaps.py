"""Empty texts in Python and on the command line: one rule for every task that predicts."""

from __future__ import annotations

import io
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.cli.main import main
from regard.tasks import with_gaps

WORDS = ("red", "green", "blue", "cat", "dog", "sits", "runs")
BERT = {"name": "bert", "width": 16, "heads": 2, "feedforward_width": 24, "layers": 1, "maximum_positions": 128}
T5 = {"name": "t5", "width": 16, "heads": 2, "feedforward_width": 24, "encoder_layers": 1, "decoder_layers": 1}
CHO = {"name": "cho", "embedding_width": 4, "hidden_width": 6, "maxout_width": 4}
TRAINING = {"steps": 2, "batch_tokens": 300, "warmup": 1, "precision": "float32"}

draw = random.Random(2)
TEXTS = [" ".join(draw.choice(WORDS) for _ in range(4)) for _ in range(40)]
PAIRS = list(zip(TEXTS, reversed(TEXTS), strict=True))
BERT_PIECES = {"kind": "bert", "size": 60}
LABELS = ["animal" if "cat" in text else "none" for text in TEXTS]

RECIPES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "translation": ({"model": CHO, "tokenizer": {"kind": "word", "size": 20}}, PAIRS),
    "classification": ({"model": BERT, "tokenizer": BERT_PIECES}, list(zip(TEXTS, LABELS, strict=True))),
    "pairs": (
        {"task": "classification", "model": BERT, "tokenizer": BERT_PIECES},
        [(pair, label) for pair, label in zip(PAIRS, LABELS, strict=True)],
    ),
    "regression": (
        {"model": BERT, "tokenizer": BERT_PIECES},
        [(text, float(len(text))) for text in TEXTS],
    ),
    "tagging": (
        {"model": BERT, "tokenizer": BERT_PIECES},
        [(text.split(), ["B-X" if word == "cat" else "O" for word in text.split()]) for text in TEXTS],
    ),
    "masked_language_modelling": (
        {"model": BERT, "tokenizer": BERT_PIECES, "data": {"next_sentence": False, "maximum_length": 32}},
        TEXTS,
    ),
    "text_to_text": ({"model": T5, "tokenizer": {"kind": "word", "size": 150}, "data": {}}, PAIRS),
}
METHODS: dict[str, Callable[[Any], Callable[[list[Any]], Any]]] = {
    "translation": lambda model: model.translate_batch,
    "classification": lambda model: model.classify_batch,
    "pairs": lambda model: model.classify_batch,
    "regression": lambda model: model.rate_batch,
    "tagging": lambda model: model.tag_batch,
    "masked_language_modelling": lambda model: model.fill_batch,
    "text_to_text": lambda model: model.generate,
}
COMMANDS = {
    "translation": ("translate", "translations"),
    "classification": ("classify", "classifications"),
    "pairs": ("classify", "classifications"),
    "regression": ("classify", "ratings"),
    "tagging": ("tag", "taggings"),
    "masked_language_modelling": ("fill", "filled"),
    "text_to_text": ("generate", "texts"),
}


@pytest.fixture(scope="module", params=list(RECIPES))
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The name of a case and the folder of its model."""
    recipe, data = RECIPES[request.param]
    folder = tmp_path_factory.mktemp("run") / "run"
    regard.train({"task": request.param, "data": {}, "training": TRAINING} | recipe, output=folder, data=data)
    return request.param, folder


def inputs_of(name: str) -> list[Any]:
    """Five texts, the second and the fourth empty."""
    if name == "pairs":
        return [PAIRS[0], ("", "a dog"), PAIRS[1], ("a cat", " "), PAIRS[2]]
    texts = ["red cat", "", "blue dog", " \t", "green"]
    return [text + " [MASK]" if text.strip() else text for text in texts] if name.startswith("masked") else texts


def test_python_names_all_empty_texts_or_leaves_gaps(trained):
    name, folder = trained
    answer, given = METHODS[name](regard.load(folder)), inputs_of(name)
    with pytest.raises(regard.InputError, match=r"texts 2 and 4 are empty; .*with_gaps"):
        answer(given)
    answers = with_gaps(answer, given)
    assert [one is None for one in answers] == [False, True, False, True, False]
    assert [one for one in answers if one is not None] == answer([given[0], given[2], given[4]])
    assert with_gaps(answer, ["", " "]) == [None, None]


def test_the_command_keeps_the_same_places(trained, capsys, monkeypatch):
    name, folder = trained
    command, called = COMMANDS[name]
    lines = ["\t".join(each) if isinstance(each, tuple) else each for each in inputs_of(name)]
    for form in ([], ["--json"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("".join(f"{line}\n" for line in lines).encode())))
        assert main([command, str(folder), *form]) == 0, capsys.readouterr().err
        out = capsys.readouterr().out
        if form:
            assert len(json.loads(out)[called]) == 5
        elif name != "tagging":  # which writes several lines for each text
            assert [line.strip() == "" for line in out.splitlines()][1::2] == [True, True]
            assert len(out.splitlines()) == 5


def test_the_message_counts_and_an_empty_text_has_a_vector(tmp_path):
    from regard.tasks.predictor import refuse_gaps

    with pytest.raises(regard.InputError, match=r"^text 1 is empty; there is nothing to read, leave it out$"):
        refuse_gaps([" "])
    with pytest.raises(regard.InputError, match=r"^texts 1, 2, 3, 4, 5 and 3 more are empty; "):
        refuse_gaps([""] * 8)
    recipe, data = RECIPES["classification"]
    regard.train(
        {"task": "classification", "data": {}, "training": TRAINING} | recipe, output=tmp_path / "run", data=data
    )
    encoder = regard.load(tmp_path / "run", task="sentence_embedding")
    vectors = encoder.embed(["red cat", "", "blue"])
    assert vectors.shape == (3, 16)
    assert np.isfinite(vectors).all()
