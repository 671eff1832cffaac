"""Data sets of the library `datasets` in memory: in as training data, and predictions back into them."""

from __future__ import annotations

from typing import Any

import pytest

import regard
from regard.data.rows import listed
from regard.errors import InputError

datasets = pytest.importorskip("datasets")

TINY: dict[str, Any] = {"name": "bert", "width": 8, "heads": 2, "layers": 1, "feedforward_width": 8}
RECIPE: dict[str, Any] = {
    "task": "classification",
    "model": TINY,
    "data": {"validation_share": 0.2},
    "tokenizer": {"size": 60},
    "training": {"steps": 2, "batch_tokens": 200, "precision": "float32"},
}
FILMS = datasets.Dataset.from_dict(
    {"text": ["a fine film", "a poor film"] * 10, "label": [1, 0] * 10},
    features=datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["poor", "fine"])}
    ),
)


def test_numbers_of_classes_become_their_names():
    assert listed(FILMS, "texts", "a text")[:2] == [
        {"text": "a fine film", "label": "fine"},
        {"text": "a poor film", "label": "poor"},
    ]
    assert listed(FILMS.with_format("numpy"), "texts", "a text")[0] == {"text": "a fine film", "label": "fine"}
    assert listed(FILMS.to_iterable_dataset(), "texts", "a text")[1]["label"] == "poor"
    tags = datasets.Dataset.from_dict(
        {"tokens": [["Ada", "sleeps"]], "tags": [[1, 0]]},
        features=datasets.Features(
            {
                "tokens": datasets.Sequence(datasets.Value("string")),
                "tags": datasets.Sequence(datasets.ClassLabel(names=["O", "B-PER"])),
            }
        ),
    )
    assert listed(tags, "sentences", "words")[0]["tags"] == ["B-PER", "O"]


def test_a_classifier_learns_a_data_set_and_answers_into_one(tmp_path):
    trained = regard.train(RECIPE, output=tmp_path / "run", data=FILMS).load()
    assert trained.task.classes == ("fine", "poor")
    said = FILMS.map(
        lambda rows: {"predicted": [each.label for each in trained.classify_batch(rows["text"])]},
        batched=True,
        batch_size=8,
    )
    assert said.column_names == ["text", "label", "predicted"]
    assert said["predicted"][:2] == [trained.classify(text).label for text in FILMS["text"][:2]]


def test_pairs_of_a_translation_data_set(tmp_path):
    rows = datasets.Dataset.from_list(
        [{"source": word, "target": word[::-1]} for word in ("ab", "abc", "bca", "cab") * 8]
    )
    recipe = {
        "task": "translation",
        "model": {"name": "bahdanau", "embedding_width": 4, "hidden_width": 6, "attention_width": 5, "maxout_width": 4},
        "tokenizer": {"kind": "character", "size": 20},
        "data": {},
        "training": RECIPE["training"],
    }
    splits = rows.train_test_split(test_size=6, seed=1)
    trained = regard.train(recipe, output=tmp_path / "run", data=splits["train"], validation=splits["test"]).load()
    assert trained.recipe["examples"] == {"training": 26, "validation": 6}


def test_several_splits_are_refused_by_their_names(tmp_path):
    both = datasets.DatasetDict({"train": FILMS, "test": FILMS})
    with pytest.raises(InputError, match=r"several splits \(train, test\); give one of them, such as data\['train'\]"):
        regard.train(RECIPE, output=tmp_path / "run", data=both)
    assert not (tmp_path / "run").exists()
