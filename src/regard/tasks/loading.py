"""From a folder to something that predicts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal, overload

import torch

from regard.checkpoints import is_foreign, read_card, read_model
from regard.errors import InputError, nearest
from regard.tasks.kinds import kind_of
from regard.tasks.language_modelling.language_model import LanguageModel
from regard.tasks.translation.open_folder import foreign_parts
from regard.tasks.translation.task import TranslationTask
from regard.tasks.translation.translator import Translator

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
POINTER = "checkpoints.json"


@overload
def load(
    folder: str | os.PathLike[str],
    *,
    task: Literal["translation"],
    device: str | torch.device = "cpu",
    dtype: str = "float32",
) -> Translator: ...


@overload
def load(
    folder: str | os.PathLike[str],
    *,
    task: Literal["language_modelling"],
    device: str | torch.device = "cpu",
    dtype: str = "float32",
) -> LanguageModel: ...


@overload
def load(
    folder: str | os.PathLike[str],
    *,
    task: str | None = None,
    device: str | torch.device = "cpu",
    dtype: str = "float32",
) -> Any: ...


def load(
    folder: str | os.PathLike[str],
    *,
    task: str | None = None,
    device: str | torch.device = "cpu",
    dtype: str = "float32",
) -> Any:
    """Load a model from its folder, ready to predict; the task is read from the folder.

    A Marian or Pegasus folder of Hugging Face's loads too, if it has a tokenizer.json.

    Arguments:
        folder: a model's folder, or that of a run still in training, whose best checkpoint so far is taken.
        task: the task the caller needs; another one in the folder is an error.
        device: where to put the parameters.
        dtype: `float32`, `bfloat16` or `float16`.

    Returns:
        A `Translator` or a `LanguageModel`: what the folder's task makes of a model.

    Raises:
        InputError: for a folder that holds no model, is damaged, or is of another task.
    """
    place = model_folder(folder)
    name = task_of(place)
    if task is not None and name != task:
        raise InputError(
            f"{folder}: a model for {_spoken(name)}, and {_spoken(task)} is wanted; use the command for that"
        )
    kind = kind_of(name, f"{folder}: its task")
    if dtype not in DTYPES:
        raise InputError(f"dtype is {dtype!r}; {nearest(dtype, list(DTYPES))}")
    model = read_model(place).to(device=device, dtype=DTYPES[dtype])
    if is_foreign(place):
        tokenizer, settings = foreign_parts(place, model.config)
        return Translator(model, TranslationTask(tokenizer, tokenizer, settings))
    card = read_card(place)
    return kind.predictor(model, kind.task.load(place, card.task), recipe=card.recipe, metrics=card.metrics)


def task_of(folder: str | os.PathLike[str]) -> str:
    """The name of the task that the model in a folder is for.

    Raises:
        InputError: for a folder that holds no model, or is damaged.
    """
    place = model_folder(folder)
    card = read_card(place)
    return TranslationTask.name if is_foreign(place) else str(card.task.get("name"))


def _spoken(task: str) -> str:
    return task.replace("_", " ")


def model_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder itself if it holds a model, else the best checkpoint of the run in it.

    Raises:
        InputError: where there is neither.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the folder of a trained model")
    if (folder / "config.json").is_file():
        return folder
    pointer = folder / POINTER
    if pointer.is_file():
        try:
            names = json.loads(pointer.read_text(encoding="utf-8"))
            place = folder / "checkpoints" / str(names.get("best") or names["last"])
        except (ValueError, KeyError, AttributeError) as error:
            raise InputError(f"{pointer}: damaged; train again with --resume to write it anew") from error
        if place.is_dir():
            return place
    raise InputError(f"{folder}: holds no model (no config.json); give the folder of a trained model")
