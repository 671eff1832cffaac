"""The model card: what a stranger who finds the folder reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import regard
import regard.training
from regard.tasks.card import model_card


def test_the_card_has_front_matter_metrics_sizes_and_recipe(translator, tmp_path):
    model = translator("transformer")
    model.metrics, model.recipe = {"bleu": 36.25}, {"seed": 3, "note": "žluť"}
    model.save(tmp_path / "model")
    text = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    found = yaml.safe_load(front)
    assert found.pop("model-index")[0]["results"][0]["metrics"] == [{"type": "bleu", "value": 36.25, "name": "BLEU"}]
    assert found == {"library_name": "regard", "tags": ["translation", "transformer"], "pipeline_tag": "translation"}
    assert "| bleu | 36.25 |" in body
    blocks = body.split("```json\n")[1:]
    sizes, recipe = (json.loads(block.split("```")[0]) for block in blocks)
    assert sizes["width"] == 12
    assert recipe == {"seed": 3, "note": "žluť"}


def test_the_hubs_own_library_reads_the_metrics(translator, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    model = translator("transformer")
    model.recipe = {"data": {"train": "/home/ann/pairs: all.tsv"}}
    model.metrics = {"bleu": 36.25, "exact_match": 0.5, "chrf": float("nan")}
    model.save(tmp_path / "model")
    card = hub.ModelCard.load(tmp_path / "model" / "README.md", ignore_metadata_errors=False)
    results = {each.metric_type: each for each in card.data.eval_results}
    assert {name: each.metric_value for name, each in results.items()} == {"bleu": 36.25, "exact_match": 0.5}
    assert results["bleu"].task_type == card.data.pipeline_tag == "translation"
    assert (results["bleu"].dataset_type, results["bleu"].dataset_split) == ("pairs: all.tsv", "validation")
    assert card.data.model_name == "transformer for translation"
    model.metrics = {}
    model.save(tmp_path / "bare")
    assert hub.ModelCard.load(tmp_path / "bare" / "README.md").data.eval_results is None


def test_the_card_of_a_classifier_has_its_classes_with_figures_and_the_number_of_examples(tmp_path):
    recipe = {
        "task": "classification",
        "model": {"name": "bert", "width": 8, "heads": 2, "layers": 1, "feedforward_width": 8},
        "data": {"validation_share": 0.2, "threshold": 0.999999},
        "tokenizer": {"size": 60},
        "training": {"steps": 2, "batch_tokens": 400, "precision": "float32"},
    }
    rows = [(f"text {number}", "a|b" if number % 7 else "odd") for number in range(70)]
    run = regard.train(recipe, output=tmp_path / "run", data=rows)
    regard.export(run.folder, tmp_path / "given")
    for folder in (run.folder, tmp_path / "given"):
        text = (folder / "README.md").read_text(encoding="utf-8")
        assert "Trained on 56 examples, validated on 14." in text
        assert "## The 2 classes" in text
        (line,) = (line for line in text.splitlines() if line.startswith("| odd |"))
        assert line == "| odd | 8 | 0.000 | 0.000 | 0.000 | 2 |"
        (line,) = (line for line in text.splitlines() if line.startswith("| a\\|b |"))
        assert line == "| a\\|b | 48 | 0.857 | 1.000 | 0.923 | 12 |"
        assert "| classes | training examples | precision | recall | F1 | validation examples |" in text
        assert "| F1 of odd | 0 |" in text
        assert "Predicted at a probability of 0.999999 or more: odd." in text
        assert "f1.odd" not in text
    noted = regard.load(tmp_path / "given").recipe
    assert noted["examples"] == {"training": 56, "validation": 14, "classes": {"a|b": 48, "odd": 8}}
    assert regard.training.read_recipe(noted).task == "classification"


def test_the_card_names_labels_tags_and_numbers(translator, tmp_path):
    config = translator().model.config

    def card(task: dict, metrics: dict | None = None, recipe: dict | None = None) -> str:
        return model_card(config, task, recipe or {}, metrics or {}, {"name": "own", "why": "x"}, [])

    assert "## The 2 tags\n\nB-PER, O\n" in card({"name": "tagging", "tags": ["B-PER", "O"]})
    text = card({"name": "multi_label_classification", "classes": ["sun", "sea"], "threshold": 0.3}, {"f1.sea": 0.5})
    assert "## The 2 labels\n\n| labels | F1 |\n|---|---|\n| sun |  |\n| sea | 0.500 |\n" in text
    assert "Predicted at a probability of 0.3 or more: each label." in text
    assert "## The 2 numbers\n\njoy, fear\n" in card({"name": "multi_output_regression", "names": ["joy", "fear"]})
    noted = {"examples": {"training": 1200, "validation": 30}}
    assert "Trained on 1,200 examples, validated on 30." in card({"name": "translation"}, recipe=noted)
    assert "each part of a text that is read in parts counts as one." in card({"name": "tagging"}, recipe=noted)


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


@pytest.mark.parametrize(
    ("name", "opens"),
    [
        *((name, "AutoModelForCausalLM") for name in ("gpt2", "gpt_neox", "llama", "reformer")),
        *((name, "AutoModelForSeq2SeqLM") for name in ("t5-text-to-text", "transformer")),
        *((name, "AutoModelForSequenceClassification") for name in ("bert", "llama-classifier")),
    ],
)
def test_the_card_names_the_class_of_transformers_that_opens_the_folder(name, opens, tmp_path):
    transformers = pytest.importorskip("transformers")
    folder = tmp_path / "again"
    regard.load(Path(__file__).parents[1] / "golden" / "folders" / name).save(folder)
    assert f"{opens}.from_pretrained" in (folder / "README.md").read_text()
    assert getattr(transformers, opens).from_pretrained(folder)
