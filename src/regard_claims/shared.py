"""Functions shared by several experiments: checks of settings, training on examples in memory, and finding data files."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.claims.own_data import SPLITS, OwnData, files_of
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.models.config import check
from regard.tasks.language_modelling import LanguageModel
from regard.tasks.loading import load
from regard.tasks.preparation import VALIDATION
from regard.tasks.spec import spec_of
from regard.training.run import train
from regard.word_embeddings.training import Corpus
from regard.word_embeddings.training.corpus import Tokenisation

NEVER = 1_000_000_000
"""An interval in updates that is longer than any training, so that the event never happens."""

SETTINGS: Mapping[str, Any] = {
    "schedule": "cosine",
    "warmup": 50,
    "precision": "float32",
    "evaluate_every": NEVER,
    "save_every": NEVER,
}
"""The defaults of the `training` section; an experiment can override them."""


def check_counts(experiment: Any, *names: str) -> None:
    """Refuse a setting of an experiment that is below 1.

    Raises:
        InputError: naming the setting and its value.
    """
    for name in names:
        value = getattr(experiment, name)
        check(value >= 1, f"experiment.{name}", value, "at least 1", "raise it")


def check_examples(experiment: Any, name: str = "size") -> None:
    """Refuse a number of examples below 200, because `trained` holds out the last hundredth.

    Raises:
        InputError: naming the setting and its value.
    """
    value = getattr(experiment, name)
    check(value >= 200, f"experiment.{name}", value, "at least 200", "a hundredth of them is held out")


def learning(experiment: Any, batch_tokens: int) -> dict[str, Any]:
    """The keys of the `training` section for an experiment: its `steps` or `epochs`, its learning rate, and `batch_tokens`."""
    length = "steps" if hasattr(experiment, "steps") else "epochs"
    return {
        length: getattr(experiment, length),
        "batch_tokens": batch_tokens,
        "learning_rate": experiment.learning_rate,
    }


def decoder(experiment: Any, *, positions: str, feedforward_width: int) -> dict[str, Any]:
    """The `model` section of a decoder without dropout, with the experiment's `width`, `heads`, `layers` and `length`."""
    return {
        "name": "decoder",
        "positions": positions,
        "width": experiment.width,
        "heads": experiment.heads,
        "layers": experiment.layers,
        "feedforward_width": feedforward_width,
        "maximum_positions": experiment.length,
        "dropout": 0.0,
    }


def accuracy(predicted: Sequence[Any], labels: Sequence[str]) -> float:
    """The share of right predictions in per cent; each prediction has an attribute `label`."""
    return 100 * sum(one.label == label for one, label in zip(predicted, labels, strict=True)) / len(labels)


@contextlib.contextmanager
def trained(
    task: str,
    model: Mapping[str, Any],
    examples: Sequence[Any],
    *,
    seed: int,
    training: Mapping[str, Any],
    data: Mapping[str, Any] | None = None,
    tokenizer: Mapping[str, Any] | None = None,
) -> Iterator[Path]:
    """Train a model with a recipe; a context manager that gives the run's folder and deletes it at the end of the block.

    Arguments:
        task: the recipe's task.
        model: the recipe's `model` section.
        examples: the training examples. The last hundredth, at least 2, is held out for validation.
        seed: the seed of the recipe.
        training: keys of the `training` section that override `SETTINGS`, such as the learning rate, steps and batch size.
        data: the recipe's `data` section.
        tokenizer: keys of the `tokenizer` section that override a word vocabulary of 1,000; unused by tasks without a tokenizer.
    """
    held_out = max(2, len(examples) // 100)
    recipe: dict[str, Any] = {
        "task": task,
        "seed": seed,
        "model": dict(model),
        "data": dict(data or {}),
        "training": {**SETTINGS, **training},
    }
    if "tokenizer" in spec_of(task).sections:
        recipe["tokenizer"] = {"kind": "word", "size": 1_000, **(tokenizer or {})}
    with tempfile.TemporaryDirectory(prefix="regard-") as place:
        folder = Path(place) / "run"
        train(recipe, output=folder, data=examples[:-held_out], validation=examples[-held_out:])
        yield folder


@contextlib.contextmanager
def language_model(
    model: Mapping[str, Any],
    *,
    path: str | None,
    data: Mapping[str, Any],
    tokenizer: Mapping[str, Any],
    length: int,
    seed: int,
    training: Mapping[str, Any],
) -> Iterator[tuple[LanguageModel, TokenStore]]:
    """Train a language model on a text; a context manager that gives the model and the tokens of the validation text.

    Arguments:
        model: the recipe's `model` section.
        path: a text file, or a folder with train.txt and valid.txt. None: builtin data.
        data: the keys of the `data` section that name the builtin data; unused with `path`.
        tokenizer: the recipe's `tokenizer` section.
        length: the length of the training sequences, in tokens.
        seed: the seed of the recipe.
        training: keys of the `training` section that override `SETTINGS`.
    """
    if path is not None:
        found = files_of(path, OwnData(says="text", texts=True), Path())
        data = {"train": found.train, "validation": found.validation}
    with tempfile.TemporaryDirectory(prefix="regard-") as place:
        folder = Path(place) / "run"
        train(
            {
                "task": "language_modelling",
                "seed": seed,
                "model": dict(model),
                "data": {**data, "length": length},
                "tokenizer": dict(tokenizer),
                "training": {**SETTINGS, **training},
            },
            output=folder,
        )
        yield load(folder, task="language_modelling"), TokenStore.open(folder / "data" / VALIDATION)


def training_text(path: str | None, tokenisation: Tokenisation) -> Corpus:
    """The training text of a folder: `train.txt` or `train.txt.gz`. WikiText's headings and markers are removed.

    Arguments:
        path: the folder.
        tokenisation: how the text is split into words.

    Raises:
        InputError: if `path` is None or not a folder, or the folder has no training text.
    """
    if path is None:
        raise InputError("experiment.path is missing; name a folder with train.txt, perhaps gzip")
    folder = Path(path)
    names = sorted(each.name for each in folder.iterdir() if each.is_file()) if folder.is_dir() else []
    found = next((name for name in names if name.split(".")[0] in SPLITS["train"] and ".txt" in name), None)
    if found is None:
        raise InputError(f"{folder}: holds no train.txt (or train.txt.gz); give a folder with text for training")
    return Corpus(paths=(str(folder / found),), tokenisation=tokenisation, cleaning="wikitext")


def split_file(folder: Path, parts: Sequence[str], what: str, suffix: str) -> Path:
    """The file of a split: a file with one of `parts` between the dots of its name, such as `eng.train` or `train.tsv`.

    Arguments:
        folder: the folder to look in.
        parts: the names of the split. A file that matches an earlier one takes precedence.
        what: what the file contains, for the error message.
        suffix: the usual extension of such a file, for the error message.

    Raises:
        InputError: if there is no such file.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    found = next((name for part in parts for name in names if part in name.split(".")), None)
    if found is None:
        raise InputError(
            f"{folder}: holds no file of {what}, called such as {parts[0]}.{suffix}; give a folder with one for training and one "
            "for validation"
        )
    return folder / found


def file_of(path: str | None, name: str) -> Path:
    """`path`/`name` if it exists, else `name` as a path of its own."""
    inside = Path(path or "") / name
    return inside if inside.exists() else Path(name)
