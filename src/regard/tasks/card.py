"""The model card: the README.md of a model's folder."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import yaml
from torch import Tensor

from regard.checkpoints import layout_of, write_model
from regard.checkpoints.layouts import called, readers, tokens_in
from regard.metrics.classification import OF_EACH_CLASS, f1_in_words, judged_class
from regard.models import MODELS
from regard.models.config import ModelConfig, config_to_json
from regard.parts import FOLDER, used
from regard.rendering import WORDS


def write_with_card(
    folder: Path,
    config: Any,
    tensors: Mapping[str, Tensor],
    *,
    task: Mapping[str, Any],
    recipe: Mapping[str, Any],
    metrics: Mapping[str, float],
    use: Sequence[str],
    obstacle: str = "",
    said: Mapping[str, Any] | None = None,
) -> Mapping[str, Any]:
    """Write a model into an existing folder, with its README.md.

    Arguments:
        task: the values that `Task.save` returned.
        use: lines of Python that show what `model` does.
        obstacle, said: as for `write_model`.

    Returns:
        The layout in which it is written; see `layout_of`.
    """
    recipe = without_places(recipe)
    write_model(folder, config, tensors, task=task, recipe=recipe, metrics=metrics, obstacle=obstacle, said=said)
    layout = layout_of(config, obstacle)
    # Some programs open the folder only if the tokenizer has as many tokens as the model's table has rows.
    rows = getattr(config, "target_vocabulary", getattr(config, "vocabulary", None))
    opened = (
        {}
        if "why" in layout
        else readers({"model_type": layout["name"], "vocab_size": rows}, tokens_in(folder, unfinished=True))
    )
    card = model_card(config, task, recipe, metrics, layout, use, converted="CTranslate2" in opened)
    (folder / README).write_text(card, encoding="utf-8")
    return layout


README = "README.md"
RUN_HEADING = "## This run's folder"

SEEN = "examples"
"""The key in the recipe of a model's folder with the numbers of examples: `training`, `validation`, and for each of the
`classes`."""

IN_PARTS = (
    "language_modelling",
    "masked_language_modelling",
    "bidirectional_language_modelling",
    "span_corruption",
    "denoising",
    "tagging",
    "question_answering",
)
"""Tasks in which a long text is read in parts, each of which counts as an example."""

HEADINGS = {"examples": "validation examples", "f1": "F1"}

NAMING_FILES = ("data", "model", "tokenizer")
"""The sections of a recipe whose strings may be paths."""


def run_section() -> str:
    """The section about the run's folder in its README.md, in Markdown."""
    return (
        f"{RUN_HEADING}\n\n"
        "This is the folder of a run, which contains more than the model:\n\n"
        "- `data/`: the examples for training and validation, mostly as token ids, from which the texts can be recovered;\n"
        "- `checkpoints/`: the last and the best checkpoint, with the optimiser's state, to resume the run;\n"
        "- `recipe.yaml`: every setting, with the paths of the files that were read; `log.jsonl`: the training log.\n\n"
        "To share the model, write only the files that prediction needs into another folder: `regard export RUN FOLDER`.\n"
    )


def without_places(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe to publish: paths outside the folder where training was started are replaced by their last part.

    An absolute path could reveal the machine and its user; recipe.yaml in the run's own folder keeps it.

    >>> without_places({"data": {"train": "/home/ann/mails.csv", "validation": "data/more.csv"}, "seed": 1})
    {'data': {'train': 'mails.csv', 'validation': 'data/more.csv'}, 'seed': 1}
    """
    return {name: _named(value) if name in NAMING_FILES else value for name, value in recipe.items()}


def _named(value: Any) -> Any:
    """A setting in which every path outside the current folder is replaced by its last part."""
    if isinstance(value, Mapping):
        return {key: _named(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_named(each) for each in value]
    if not isinstance(value, str):
        return value
    windows = PureWindowsPath(value)
    path = windows if windows.drive else PurePosixPath(value)
    elsewhere = bool(windows.drive) or path.is_absolute() or ".." in path.parts or value.startswith("~")
    return path.name or value if elsewhere else value


def model_card(
    config: ModelConfig,
    task: Mapping[str, Any],
    recipe: Mapping[str, Any],
    metrics: Mapping[str, float],
    layout: Mapping[str, Any],
    use: Sequence[str],
    *,
    converted: bool = False,
) -> str:
    """The model card in Markdown: how to use the model, how it was trained, and what was measured.

    Arguments:
        layout: the layout of the folder, as in regard.json.
        use: lines of Python that show what `model` does.
        converted: whether CTranslate2's converter accepts the folder.
    """
    own = [
        part for part in used(config, task["name"], recipe) if part.origin.file is not None and not part.origin.package
    ]
    files = list(dict.fromkeys(f"{FOLDER}/{part.origin.file.name}" for part in own))  # type: ignore[union-attr]
    code = f", code={(files[0] if len(files) == 1 else files)!r}" if own else ""
    names = _names(task)
    of_classes = {f"{metric}.{name}" for metric in OF_EACH_CLASS for name in names}
    whole = {name: value for name, value in metrics.items() if name not in of_classes}
    lines = [
        "---",
        *yaml.safe_dump(_front(config, task, recipe, whole), allow_unicode=True, sort_keys=False).splitlines(),
        "---",
        "",
        f"# {config.model_type} for {str(task['name']).replace('_', ' ')}",
        "",
        "Trained with [Regard](https://pypi.org/project/regard/). Use it:",
        "",
        "```python",
        "import regard",
        "",
        f'model = regard.load("."{code})  # this folder',
        *use,
        "```",
        "",
    ]
    if own:
        named = ", ".join(f"the {part.kind} {part.name!r}" for part in own)
        lines += [f"Regard does not have {named}: the code is in {' and '.join(files)}. Read it before you run it.", ""]
    if "why" not in layout and hasattr(config, "head"):
        lines += _encoder_elsewhere(config, layout)
    elif "why" not in layout and task["name"] == "image_classification":
        lines += _IMAGES_ELSEWHERE
    else:
        lines += _elsewhere(config, layout, task.get("languages") or [], converted=converted)
    seen = recipe.get(SEEN) or {}
    if seen:
        parts = "; each part of a text that is read in parts counts as one" if task["name"] in IN_PARTS else ""
        lines += [f"Trained on {seen['training']:,} examples, validated on {seen['validation']:,}{parts}.", ""]
    if metrics:
        called = {"f1": f1_in_words(names, task.get("positive"))} if task["name"] == "classification" else {}
        lines += [
            "Measured on the validation examples, which also selected the checkpoint; results on other data may be worse.",
            "",
        ]
        lines += ["| metric | value |", "|---|---|"]
        lines += [f"| {called.get(name, name)} | {value:.4g} |" for name, value in whole.items()]
        lines.append("")
    if names:
        lines += _of_names(task, names, metrics, seen.get("classes") or {})
    lines += ["## Sizes", "", "```json", json.dumps(config_to_json(config), indent=2), "```", ""]
    said = {name: value for name, value in recipe.items() if name != SEEN}
    if said:
        lines += [
            "## Recipe",
            "",
            "```json",
            json.dumps(said, indent=2, ensure_ascii=False),
            "```",
            "",
        ]
    return "\n".join(lines)


HUB_TASKS = {
    "translation": "translation",
    "classification": "text-classification",
    "multi_label_classification": "text-classification",
    "tagging": "token-classification",
    "question_answering": "question-answering",
    "masked_language_modelling": "fill-mask",
    "language_modelling": "text-generation",
    "sentence_embedding": "sentence-similarity",
    "captioning": "image-to-text",
    "image_classification": "image-classification",
}
"""The names of tasks on the Hugging Face hub, by their names here; tasks that the hub does not have are missing."""


def _front(
    config: ModelConfig, task: Mapping[str, Any], recipe: Mapping[str, Any], metrics: Mapping[str, float]
) -> dict[str, Any]:
    """The metadata of a card for the hub: library, task, tags, and the metrics in its schema `model-index`."""
    called = f"{config.model_type} for {str(task['name']).replace('_', ' ')}"
    hub = HUB_TASKS.get(task["name"])
    front: dict[str, Any] = {"library_name": "regard", "tags": [task["name"], config.model_type]}
    front |= {"pipeline_tag": hub} if hub is not None else {}
    values = {name: round(float(value), 6) for name, value in metrics.items() if math.isfinite(value)}
    if values:
        data = _data_name(recipe.get("data") or {})
        result = {
            "task": {"type": hub or str(task["name"]).replace("_", "-")},
            "dataset": {"name": f"{data}, validation examples", "type": data, "split": "validation"},
            "metrics": [
                {"type": name, "value": value, "name": WORDS.get(name, name.replace("_", " "))}
                for name, value in values.items()
            ],
        }
        front["model-index"] = [{"name": called, "results": [result]}]
    return front


def _data_name(data: Mapping[str, Any]) -> str:
    """The file of the validation examples, or the builtin data set; `data` if the recipe names none."""
    for key in ("validation", "train"):
        if isinstance(data.get(key), str):
            return str(data[key])
    return next((name for name, value in data.items() if isinstance(value, Mapping)), "data")


def _names(task: Mapping[str, Any]) -> list[str]:
    """The names of a model's outputs: its classes, labels, tags or numbers; empty if they have no names."""
    found = task.get("classes") or task.get("tags") or task.get("names") or ()
    return [str(name) for name in found] if isinstance(found, list | tuple) else []


def _of_names(
    task: Mapping[str, Any], names: Sequence[str], metrics: Mapping[str, float], counts: Mapping[str, int]
) -> list[str]:
    """A section with the names of the outputs, and the number of training examples and the metrics of each."""
    what = "classes" if "classes" in task else "tags" if "tags" in task else "numbers"
    if task["name"] == "multi_label_classification":
        what = "labels"
    lines = [f"## The {len(names):,} {what}", ""]
    columns = [
        (metric, {name: metrics[f"{metric}.{name}"] for name in names if f"{metric}.{name}" in metrics})
        for metric in OF_EACH_CLASS
    ]
    shown = [(metric, found) for metric, found in columns if found]
    if shown or counts:
        headings = [*(["training examples"] if counts else []), *(HEADINGS.get(metric, metric) for metric, _ in shown)]
        lines += [f"| {what} | {' | '.join(headings)} |", "|---" * (len(headings) + 1) + "|"]
        for name in names:
            cells = [f"{counts.get(name, 0):,}"] if counts else []
            cells += [_number(metric, found.get(name)) for metric, found in shown]
            lines.append(f"| {_cell(name)} | {' | '.join(cells)} |")
    else:
        lines.append(", ".join(_cell(name) for name in names))
    lines.append("")
    if isinstance(task.get("threshold"), float):
        of = judged_class(names, task.get("positive")) if task["name"] == "classification" else "each label"
        lines += [f"Predicted at a probability of {task['threshold']:g} or more: {of}.", ""]
    return lines


def _number(metric: str, value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if metric == "examples" else f"{value:.3f}"


def _cell(name: str) -> str:
    """A name as a cell of a table in Markdown."""
    return " ".join(name.split()).replace("|", "\\|")


def _elsewhere(config: Any, layout: Mapping[str, Any], languages: Sequence[str], *, converted: bool) -> list[str]:
    """A section about how other programs open the folder, or why they cannot."""
    if "why" in layout:
        return [f"The folder has Regard's own layout, which no other program opens: {layout['why']}.", ""]
    tagged = (
        [
            f"# the first token is the target language, such as tokenizer.convert_tokens_to_ids({tag!r})"
            for tag in [f"<2{languages[0]}>"]
        ]
        if languages
        else []
    )
    opened = "opens and CTranslate2 converts" if converted else "opens"
    alone = MODELS[config.model_type].interface == "language_model"
    opens = "AutoModelForCausalLM" if alone else "AutoModelForSeq2SeqLM"
    return [
        f"The folder is also one of Hugging Face's ({called(layout['name'])}), which transformers {opened}:",
        "",
        "```python",
        f"from transformers import {opens}, AutoTokenizer",
        "",
        f'tokenizer, model = AutoTokenizer.from_pretrained("."), {opens}.from_pretrained(".")',
        *tagged,
        'answer = model.generate(**tokenizer("...", return_tensors="pt"))',
        "print(tokenizer.decode(answer[0], skip_special_tokens=True))",
        "```",
        "",
    ]


_IMAGES_ELSEWHERE = [
    "The folder is also one of Hugging Face's, which transformers opens:",
    "",
    "```python",
    "from transformers import AutoImageProcessor, AutoModelForImageClassification",
    "",
    'processor, model = AutoImageProcessor.from_pretrained("."), AutoModelForImageClassification.from_pretrained(".")',
    'print(model(**processor(image, return_tensors="pt")).logits)  # an image of Pillow\'s',
    "```",
    "",
]

CLASSES = {
    "none": "AutoModel",
    "masked": "AutoModelForMaskedLM",
    "next_sentence": "AutoModelForNextSentencePrediction",
    "pretraining": "AutoModelForPreTraining",
    "sequence": "AutoModelForSequenceClassification",
    "tokens": "AutoModelForTokenClassification",
    "spans": "AutoModelForQuestionAnswering",
    "choice": "AutoModelForMultipleChoice",
}
"""The class of Hugging Face's that opens an encoder, by its head."""


def _encoder_elsewhere(config: Any, layout: Mapping[str, Any]) -> list[str]:
    """A section about how other programs open the folder of a text encoder."""
    name = called(layout["name"])
    until = "up to version 4 (because heads were pruned) " if getattr(config, "pruned_heads", ()) else ""
    opens = CLASSES[config.head]
    return [
        f"The folder is also one of Hugging Face's ({name}), which transformers {until}opens:",
        "",
        "```python",
        f"from transformers import {opens}, AutoTokenizer",
        "",
        f'tokenizer, model = AutoTokenizer.from_pretrained("."), {opens}.from_pretrained(".")',
        'print(model(**tokenizer("...", return_tensors="pt")))',
        "```",
        "",
    ]
