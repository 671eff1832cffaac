"""The model card: what a stranger who finds the folder reads."""

from __future__ import annotations

import json

import yaml


def test_the_card_has_front_matter_metrics_sizes_and_recipe(translator, tmp_path):
    model = translator("transformer")
    model.metrics, model.recipe = {"bleu": 36.25}, {"seed": 3, "note": "žluť"}
    model.save(tmp_path / "model")
    text = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    assert yaml.safe_load(front) == {"library_name": "regard", "tags": ["translation", "transformer"]}
    assert "| bleu | 36.25 |" in body
    blocks = body.split("```json\n")[1:]
    sizes, recipe = (json.loads(block.split("```")[0]) for block in blocks)
    assert sizes["width"] == 12
    assert recipe == {"seed": 3, "note": "žluť"}


def test_what_is_not_known_is_left_out(translator, tmp_path):
    translator().save(tmp_path / "model")
    text = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert "metric" not in text
    assert "Recipe" not in text


def test_no_card_tells_where_on_a_machine_the_data_was(translator, tmp_path):
    model = translator()
    model.recipe = {
        "seed": 3,
        "data": {
            "train": ["/home/ann/secret/a.de", "~ann/a.en"],
            "validation": "../ann/b.tsv",
            "targets": {"de": {"train": r"C:\Users\ann\c.tsv"}},
            "source": "text",
        },
        "model": {"name": "gpt2", "pretrained": "/home/ann/base"},
        "tokenizer": {"path": "words/tokenizer.json"},
        "generation": {"forbidden": "/home"},
    }
    model.save(tmp_path / "model")
    said = json.loads((tmp_path / "model" / "regard.json").read_text(encoding="utf-8"))["recipe"]
    assert said == {
        "seed": 3,
        "data": {
            "train": ["a.de", "a.en"],
            "validation": "b.tsv",
            "targets": {"de": {"train": "c.tsv"}},
            "source": "text",
        },
        "model": {"name": "gpt2", "pretrained": "base"},
        "tokenizer": {"path": "words/tokenizer.json"},
        "generation": {"forbidden": "/home"},
    }
    for path in (tmp_path / "model").rglob("*"):
        if path.is_file():
            assert b"ann" not in path.read_bytes().replace(b"channel", b""), path
    assert model.recipe["data"]["validation"] == "../ann/b.tsv"
