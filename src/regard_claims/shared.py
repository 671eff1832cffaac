"""What several experiments share: checks of their settings, a model trained on examples in memory, and files of data."""

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
"""Updates after which nothing is done: later than the last."""

SETTINGS: Mapping[str, Any] = {
    "schedule": "cosine",
    "warmup": 50,
    "precision": "float32",
    "evaluate_every": NEVER,
    "save_every": NEVER,
}
"""Of the `training` section, where an experiment does not say otherwise."""


def check_counts(experiment: Any, *names: str) -> None:
    """Refuse a setting of an experiment that is below 1.

    Raises:
        InputError: naming the setting and its value.
    """
    for name in names:
        value = getattr(experiment, name)
        check(value >= 1, f"experiment.{name}", value, "at least 1", "raise it")


def check_examples(experiment: Any, name: str = "size") -> None:
    """Refuse fewer than 200 examples, of which `trained` holds out the last hundredth.

    Raises:
        InputError: naming the setting and its value.
    """
    value = getattr(experiment, name)
    check(value >= 200, f"experiment.{name}", value, "at least 200", "a hundredth of them is held out")


def learning(experiment: Any, batch_tokens: int) -> dict[str, Any]:
    """How long and how fast an experiment learns, as a part of `training`: its `steps` or `epochs`, and its learning rate."""
    length = "steps" if hasattr(experiment, "steps") else "epochs"
    return {
        length: getattr(experiment, length),
        "batch_tokens": batch_tokens,
        "learning_rate": experiment.learning_rate,
    }


def decoder(experiment: Any, *, positions: str, feedforward_width: int) -> dict[str, Any]:
    """The `model` section of a small decoder without dropout: the experiment has its width, heads, layers and length."""
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
    """The share of predictions, each with a `label`, that are right, in per cent."""
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
    """The folder of a model trained once through a recipe; inside the block it is there.

    Arguments:
        task: as in a recipe.
        model: the `model` section.
        examples: to learn from; the last hundredth is held out.
        seed: of everything random.
        training: of that section what is not as below: learning rate, steps, batches.
        data, tokenizer: those sections, the latter of tasks of texts.
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
    """A language model trained on a text, and the tokens of text that was held out, as one stream of stretches.

    Arguments:
        model: the `model` section.
        path: a file of text, or a folder with train.txt and valid.txt; builtin data where None.
        data: that part of the `data` section that names the builtin data.
        tokenizer: the section.
        length: of the stretches that are learned.
        seed, training: as for `trained`.
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
    """The training text of a folder, `train.txt`, perhaps gzip; what the WikiText sets have beside text is left out.

    Raises:
        InputError: where there is no folder or no such file.
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
    """The file of a split, one of whose parts between dots is one of `parts`: `eng.train`, `train.tsv`.

    Arguments:
        parts: the first that a file has is taken.
        what: is in the file, for messages.
        suffix: of such a file, for messages.

    Raises:
        InputError: where there is none.
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
    """A file or folder by its name in the folder, or by its own path."""
    inside = Path(path or "") / name
    return inside if inside.exists() else Path(name)
