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
from regard.checkpoints.hf_format import called, readers, tokens_in
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
    """Write a model into an existing folder, and the README.md that tells of it.

    Arguments:
        task: what `save` returned.
        use: lines of Python that show what `model` does.
        obstacle, said: as for `write_model`.

    Returns:
        The layout it is written in; see `layout_of`.
    """
    recipe = without_places(recipe)
    write_model(folder, config, tensors, task=task, recipe=recipe, metrics=metrics, obstacle=obstacle, said=said)
    layout = layout_of(config, obstacle)
    # How many tokens there are decides who opens the folder.
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
"""Under this name the recipe in a model's folder notes how many examples there were: `training`, `validation`, and by name those
of each of the `classes`."""

IN_PARTS = (
    "language_modelling",
    "masked_language_modelling",
    "bidirectional_language_modelling",
    "span_corruption",
    "denoising",
    "tagging",
    "question_answering",
)
"""Tasks whose examples may be parts of a text."""

HEADINGS = {"examples": "validation examples", "f1": "F1"}

NAMING_FILES = ("data", "model", "tokenizer")
"""The sections of a recipe whose texts may be paths."""


def run_section() -> str:
    """What the README.md of a run's folder says besides of the folder itself, in Markdown."""
    return (
        f"{RUN_HEADING}\n\n"
        "This is the folder of a run, which holds more than the model:\n\n"
        "- `data/`: the examples for training and validation, mostly as numbers of tokens, which can be read back;\n"
        "- `checkpoints/`: the last and the best checkpoint, with the optimiser's state, to go on from;\n"
        "- `recipe.yaml`: every setting, with the paths of the files that were read; `log.jsonl`: the course of training.\n\n"
        "To give the model away, have `regard export RUN FOLDER` write what predicting needs alone into a folder of its own.\n"
    )


def without_places(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe for other people's eyes: of each path that leads out of the folder where training was started, the name alone.

    An absolute path tells of the machine and of its user; recipe.yaml in the run's own folder keeps it.

    >>> without_places({"data": {"train": "/home/ann/mails.csv", "validation": "data/more.csv"}, "seed": 1})
    {'data': {'train': 'mails.csv', 'validation': 'data/more.csv'}, 'seed': 1}
    """
    return {name: _named(value) if name in NAMING_FILES else value for name, value in recipe.items()}


def _named(value: Any) -> Any:
    """A setting, in which every path that leads elsewhere is its last part."""
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
    """What a stranger who finds the folder needs to know, in Markdown.

    Arguments:
        layout: as regard.json has it.
        use: lines of Python that show what `model` does.
        converted: whether CTranslate2's converter takes the folder.
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
        parts = "; a text read in parts is as many" if task["name"] in IN_PARTS else ""
        lines += [f"Learnt from {seen['training']:,} examples, validated on {seen['validation']:,}{parts}.", ""]
    if metrics:
        called = {"f1": f1_in_words(names, task.get("positive"))} if task["name"] == "classification" else {}
        lines += ["Measured on the validation examples, which also chose the checkpoint; other data may give less.", ""]
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
"""What the Hugging Face hub calls the tasks that it knows, by their names here."""


def _front(
    config: ModelConfig, task: Mapping[str, Any], recipe: Mapping[str, Any], metrics: Mapping[str, float]
) -> dict[str, Any]:
    """What the hub reads of a card: library, task, tags, and the metrics in its schema `model-index`."""
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
    """The file that validation examples are of, or the builtin data set; `data` where the recipe names none."""
    for key in ("validation", "train"):
        if isinstance(data.get(key), str):
            return str(data[key])
    return next((name for name, value in data.items() if isinstance(value, Mapping)), "data")


def _names(task: Mapping[str, Any]) -> list[str]:
    """What the outputs of a model are called: classes, labels, tags or numbers; none where they have no names."""
    found = task.get("classes") or task.get("tags") or task.get("names") or ()
    return [str(name) for name in found] if isinstance(found, list | tuple) else []


def _of_names(
    task: Mapping[str, Any], names: Sequence[str], metrics: Mapping[str, float], counts: Mapping[str, int]
) -> list[str]:
    """The names of the outputs, and what is known of each: examples to learn from, and how well it is found."""
    what = "classes" if "classes" in task else "tags" if "tags" in task else "numbers"
    if task["name"] == "multi_label_classification":
        what = "labels"
    lines = [f"## The {len(names):,} {what}", ""]
    columns = [
        (metric, {name: metrics[f"{metric}.{name}"] for name in names if f"{metric}.{name}" in metrics})
        for metric in OF_EACH_CLASS
    ]
    told = [(metric, found) for metric, found in columns if found]
    if told or counts:
        headings = [*(["training examples"] if counts else []), *(HEADINGS.get(metric, metric) for metric, _ in told)]
        lines += [f"| {what} | {' | '.join(headings)} |", "|---" * (len(headings) + 1) + "|"]
        for name in names:
            cells = [f"{counts.get(name, 0):,}"] if counts else []
            cells += [_number(metric, found.get(name)) for metric, found in told]
            lines.append(f"| {_cell(name)} | {' | '.join(cells)} |")
    else:
        lines.append(", ".join(_cell(name) for name in names))
    lines.append("")
    if isinstance(task.get("threshold"), float):
        of = judged_class(names, task.get("positive")) if task["name"] == "classification" else "each label"
        lines += [f"Told from a probability of {task['threshold']:g} on: {of}.", ""]
    return lines


def _number(metric: str, value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if metric == "examples" else f"{value:.3f}"


def _cell(name: str) -> str:
    """A name as a cell of a table in Markdown."""
    return " ".join(name.split()).replace("|", "\\|")


def _elsewhere(config: Any, layout: Mapping[str, Any], languages: Sequence[str], *, converted: bool) -> list[str]:
    """How other programs open the folder, or why they cannot."""
    if "why" in layout:
        return [f"The folder has Regard's own layout, which no other program opens: {layout['why']}.", ""]
    tagged = (
        [
            f"# the language wanted goes first: tokenizer.convert_tokens_to_ids({tag!r}), likewise the others"
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
"""By the head of an encoder, the class of Hugging Face's that opens it."""


def _encoder_elsewhere(config: Any, layout: Mapping[str, Any]) -> list[str]:
    """How other programs open the folder of an encoder of texts."""
    name = called(layout["name"])
    until = "up to version 4, for heads were pruned, " if getattr(config, "pruned_heads", ()) else ""
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
