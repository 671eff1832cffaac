"""Model folders: `regard info` describes one, `export` copies, `push` uploads, and `check` checks it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.console import envelope, one_line, print_json, print_table, say
from regard.cli.doctor import say_machine
from regard.cli.settings import Json, Model
from regard.reading import read_json_object
from regard.rendering import metric_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regard.checkpoints import Card
    from regard.text import Tokenizer


def info(
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Describe a model's folder; without one, the machine, as `regard doctor`.

    \b
    Example:
      regard info
      regard info runs/dates --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    if model is None:
        say_machine("info", as_json=as_json)
        return
    values = folder(model)
    if as_json:
        print_json(envelope("info") | values)
    else:
        print_table(_folder_rows(values))


def folder(path: Path) -> dict[str, Any]:
    """The description of a folder: task, family, sizes, vocabularies, attention, recipe, metrics, versions, and the run's state.

    Raises:
        InputError: for a folder that has no model, or is damaged.
    """
    from regard.checkpoints import is_foreign, read_card, read_config
    from regard.inspection import attention_addresses
    from regard.inspection.text_reader import TextReader
    from regard.models import MODELS
    from regard.models.config import config_to_json
    from regard.tasks.labelled import names_of
    from regard.tasks.loading import load, model_folder, task_of

    place = model_folder(path)
    missing = _missing_code(place)
    if missing:
        return _without_code(path, place, missing)
    whole_text = MODELS[read_config(place).model_type].serves("whole_text")
    reader: Any = TextReader.load(place) if whole_text else load(place)
    card, config = read_card(place), reader.model.config
    sizes = config_to_json(config)
    del sizes["format_version"]
    family, head = sizes.pop("model_type"), {}
    if whole_text:
        labels = card.task.get("classes", card.task.get("labels", []))
        if is_foreign(place) and config.head in ("sequence", "tokens") and config.outputs > 1:
            labels = names_of(place, config.outputs)
        head = {
            "head": sizes.pop("head"),
            "outputs": sizes.pop("outputs"),
            "labels": list(labels) if isinstance(labels, list | tuple) else [],
            "positive": card.task.get("positive"),
        }
    tokenizers = {"text": reader.tokenizer} if whole_text else reader.task.tokenizers
    return {
        "folder": str(path),
        "checkpoint": place.name if place != path else None,
        "task": task_of(place) if whole_text else reader.task.name,
        "languages": [] if whole_text else list(card.task.get("languages", [])),
        "family": family,
        **head,
        "parameters": sum(parameter.numel() for parameter in reader.model.parameters()),
        "sizes": sizes,
        "tokenizers": {side: _tokenizer(each) for side, each in tokenizers.items()},
        "attention": list(attention_addresses(reader.model)),
        "metrics": dict(card.metrics) if whole_text else reader.metrics,
        "versions": dict(card.versions),
        "layout": _layout(place, card),
        "recipe": dict(card.recipe) if whole_text else reader.recipe,
        "run": _run_state(path),
    }


def _missing_code(place: Path) -> str:
    """What is missing of the user's own code that a model needs, as a sentence; empty where nothing is missing."""
    from regard.checkpoints.folder import CARD
    from regard.errors import InputError
    from regard.parts import check_code

    if not (place / CARD).is_file():
        return ""
    code = read_json_object(place / CARD, "copy it again").get("code")
    try:
        check_code(code if isinstance(code, dict) else {}, place)
    except InputError as error:
        return str(error)
    return ""


def _without_code(path: Path, place: Path, missing: str) -> dict[str, Any]:
    """The description of a folder from its files alone, where the user's own code for the model is missing.

    Raises:
        InputError: for damaged files.
    """
    from regard.checkpoints.folder import CARD, CONFIG, WEIGHTS
    from regard.checkpoints.tensors import read_outline

    card = read_json_object(place / CARD, "copy it again")
    sizes = read_json_object(place / CONFIG, "copy it again")
    sizes.pop("format_version", None)
    task: dict[str, Any] = dict(card.get("task") or {})
    labels = task.get("classes", task.get("labels", []))
    return {
        "folder": str(path),
        "checkpoint": place.name if place != path else None,
        "missing": missing,
        "task": str(task.get("name", "")),
        "languages": list(task.get("languages") or []),
        "family": str(sizes.pop("model_type", "unknown")),
        "labels": list(labels) if isinstance(labels, list | tuple) else [],
        "positive": task.get("positive"),
        "parameters": sum(tensor.numel() for tensor in read_outline(place / WEIGHTS).values()),
        "sizes": sizes,
        "tokenizers": {},
        "attention": [],
        "metrics": {name: value for name, value in (card.get("metrics") or {}).items() if value is not None},
        "versions": dict(card.get("versions") or {}),
        "layout": dict(card.get("layout") or {}) or {"name": "own", "why": "it needs your own code"},
        "recipe": dict(card.get("recipe") or {}),
        "run": _run_state(path),
    }


def _tokenizer(tokenizer: Tokenizer) -> dict[str, Any]:
    return {"kind": tokenizer.kind, "vocabulary": tokenizer.size}


def _layout(place: Path, card: Card) -> dict[str, Any]:
    """The folder's layout, and, where it is Regard's own, why."""
    from regard.checkpoints import is_foreign
    from regard.checkpoints.elmo import published_files
    from regard.checkpoints.folder import OWN

    if published_files(place) is not None:
        return {"name": "bilm-tf"}
    if is_foreign(place):
        return {"name": str(read_json_object(place / "config.json", "copy it again").get("model_type"))}
    return dict(card.layout) or {"name": OWN, "why": "it was written before there were other layouts"}


def _place(values: Mapping[str, Any]) -> Path:
    """The folder of the model: the given one, or one of its checkpoints."""
    folder = Path(values["folder"])
    return folder / "checkpoints" / values["checkpoint"] if values.get("checkpoint") else folder


def _layout_text(layout: Mapping[str, Any], sizes: Mapping[str, Any], place: Path) -> str:
    if "why" in layout:
        return f"Regard's own, which no other program can open: {layout['why']}"
    if layout["name"] == "bilm-tf":
        return "that of ELMo's authors, which AllenNLP can open"
    from regard.checkpoints.layouts import called, readers, tokens_in

    name = called(layout["name"])
    if sizes.get("pruned_heads"):
        return f"Hugging Face's {name}, which transformers can open up to version 4; later versions do not support pruned heads"
    rows = sizes.get("target_vocabulary", sizes.get("vocabulary"))
    opened = readers({"model_type": layout["name"], "vocab_size": rows}, tokens_in(place))
    converted = " and CTranslate2 converts" if "CTranslate2" in opened else ""
    return f"Hugging Face's {name}, which transformers opens{converted}"


def _run_state(path: Path) -> dict[str, Any] | None:
    """The state of a run in a folder; None where there is only a model."""
    from regard.tasks.loading import POINTER

    try:
        last = str(read_json_object(path / POINTER, "")["last"])
        state = read_json_object(path / "checkpoints" / last / "progress.json", "")["progress"]
        return {name: state[name] for name in ("step", "epoch", "tokens", "seconds", "best_step", "finished")}
    except (ValueError, KeyError, TypeError):
        return None


def _folder_rows(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = [
        ("folder", values["folder"] + (f" (checkpoint {values['checkpoint']})" if values["checkpoint"] else "")),
        (
            "task",
            values["task"].replace("_", " ")
            + (" into " + ", ".join(values["languages"]) if values["languages"] else ""),
        ),
        ("layout", _layout_text(values["layout"], values["sizes"], _place(values))),
        ("family", f"{values['family']}, {values['parameters']:,} parameters"),
        *_head_rows(values),
        ("sizes", ", ".join(f"{name} {value}" for name, value in values["sizes"].items())),
    ]
    rows += [
        (f"{side} tokenizer", f"{tokenizer['kind'] or 'of another kind'}, {tokenizer['vocabulary']:,} tokens")
        for side, tokenizer in values["tokenizers"].items()
    ]
    if "missing" in values:
        rows.append(("missing", f"{values['missing']}; with it, tokenizers and attention are shown too"))
    rows += [("attention", address) for address in values["attention"]]
    rows += [("trained on", _data_text(values["recipe"].get("data") or {}))] if values["recipe"] else []
    seen = values["recipe"].get("examples")
    if seen:
        rows.append(("examples", f"{seen['training']:,} for training, {seen['validation']:,} for validation"))
    run = values["run"]
    if run is not None:
        state = run["finished"] or "not finished"
        rows.append(
            ("run", f"{run['step']:,} steps, {run['seconds']:.0f} seconds; {state}; best at {run['best_step']:,}")
        )
    rows += metric_rows(values["metrics"], _words(values))
    versions = ", ".join(f"{name} {version}" for name, version in values["versions"].items())
    rows.append(("written by", versions or "another program"))
    return rows


def _words(values: Mapping[str, Any]) -> dict[str, str]:
    """The name of F1 with its class, for a classifier."""
    if values["task"] != "classification" or len(values.get("labels", ())) < 2:
        return {}
    from regard.metrics.classification import f1_in_words

    return {"f1": f1_in_words(values["labels"], values.get("positive"))}


def _head_rows(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The head of an encoder, and its labels where they have names."""
    if "head" not in values:
        return []
    head = values["head"].replace("_", " ") + (f", {values['outputs']} outputs" if values["outputs"] > 1 else "")
    labels = ", ".join(map(str, values["labels"][:12])) + (", ..." if len(values["labels"]) > 12 else "")
    return [("head", head), *([("labels", labels)] if labels else [])]


def _data_text(data: Mapping[str, Any]) -> str:
    targets = data.get("targets") or data.get("parts")
    if targets:
        return "; ".join(f"{language}: {_data_text(part)}" for language, part in targets.items())
    sequences = data.get("sequences")
    if sequences:
        lengths = "-".join(str(length) for length in dict.fromkeys((sequences["shortest"], sequences["longest"])))
        return f"builtin sequences, {sequences['size']:,}: {sequences['kind']}, length {lengths}, {sequences['symbols']} symbols"
    dates = data.get("dates")
    if dates:
        languages = dates.get("languages")
        spoken = f"in {', '.join(languages)}" if languages else "in all languages"
        return f"builtin dates, {dates['size']:,} {spoken}, {dates['typo_rate']:.0%} with a typo"
    if data.get("builtin"):
        return f"builtin {data['builtin'].replace('_', ' ')}"
    if "train" not in data:  # generated, not read from a file
        return "builtin, " + ", ".join(f"{name} {value}" for name, value in data.items())
    train = data.get("train")
    if train is None:
        return "examples given in Python"
    return train if isinstance(train, str) else " and ".join(train)


# `regard export`.


MaxShardSize = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Split weights larger than this, such as 5GB, into several files with an index."),
]


def export(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="The folder of a run or model, or a llama.cpp file (.gguf).", show_default=False
        ),
    ],
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="Output folder: a new one, or a model's, which is replaced.", show_default=False
        ),
    ],
    checkpoint: Annotated[
        str, typer.Option(metavar="NAME", help="best, last, or the name of a folder under checkpoints/.")
    ] = "best",
    max_shard_size: MaxShardSize = None,
    format: Annotated[
        str, typer.Option(metavar="NAME", help="safetensors, or onnx to also write model.onnx, for text encoders.")
    ] = "safetensors",
    as_json: Json = False,
) -> None:
    """Export a run's model for sharing: without training texts, optimizer state or paths.

    \b
    Example:
      regard export runs/dates dates
      regard export runs/dates dates-at-the-end --checkpoint last
      regard export model.gguf model
      regard export runs/spam spam --format onnx
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.tasks.predictor import export as write

    exported = write(run, folder, checkpoint=checkpoint, max_shard_size=max_shard_size, format=format)
    for note in exported.notes:
        say(note)
    if as_json:
        print_json(
            envelope("export")
            | {
                "folder": str(exported.folder),
                "from": str(exported.source),
                "task": exported.task,
                "files": exported.files,
                "bytes": sum(exported.files.values()),
                "notes": list(exported.notes),
            }
        )
    else:
        print_table(exported.rows())


# `regard push`.


def push(
    model: Model,
    place: Annotated[
        str,
        typer.Argument(
            metavar="OWNER/NAME",
            help="The repository, created if missing; a NAME alone is in your account.",
            show_default=False,
        ),
    ],
    private: Annotated[
        bool | None,
        typer.Option(
            "--private/--public",
            help="Visibility of a new repository; by default as in your account's settings.",
            show_default=False,
        ),
    ] = None,
    message: Annotated[
        str, typer.Option(metavar="TEXT", help="Commit message; by default one that names Regard.", show_default=False)
    ] = "",
    max_shard_size: MaxShardSize = "5GB",
    as_json: Json = False,
) -> None:
    """Upload a model to the Hugging Face hub, as `export` writes it.

    Everybody who may read the repository can then download the model. Needs a network connection, `pip install
    'regard[hub]'`, and a write token from `hf auth login` or in HF_TOKEN.

    \b
    Example:
      regard push runs/dates my-name/dates
      regard push runs/dates my-name/dates --private --message "More steps" --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.tasks.loading import load

    predictor = load(model)
    address = predictor.push_to_hub(place, private=private, message=message, max_shard_size=max_shard_size)
    if as_json:
        print_json(envelope("push") | {"model": str(model), "repository": place, "commit": address})
    else:
        print_table([("model", str(model)), ("task", predictor.task.name.replace("_", " ")), ("uploaded to", address)])


# `regard check`.


NOT_WHOLE = 1


def check(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="Folder of a model, a run, word embeddings, tokens, or texts with an index.",
            show_default=False,
        ),
    ],
    as_json: Json = False,
) -> None:
    """Check that a folder is complete and undamaged, and list the programs that open it.

    Every file is compared with its recorded digest. The exit code is 0 if the folder is intact, 1 if not, and 2 if there is
    no such folder.

    \b
    Example:
      regard check runs/dates
      regard check path/to/bert --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.checking import check as check_folder

    report = check_folder(folder)
    if as_json:
        print_json(envelope("check") | report.to_mapping())
    else:
        print_table((one_line(name), one_line(value)) for name, value in report.rows())
    if not report.whole:
        raise typer.Exit(NOT_WHOLE)
