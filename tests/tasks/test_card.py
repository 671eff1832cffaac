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
