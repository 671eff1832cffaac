"""Where a model is: a folder here, or a repository of the Hugging Face hub, fetched once."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path
from typing import Any

from regard.errors import InputError

PATTERNS = ("*.json", "*.safetensors", "vocab.txt", "merges.txt", "README.md")
"""What is fetched of a repository. Pickles are not."""

PREFIX = "hub:"
"""What stands before the id of a repository."""

NAME = r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?"
"""The form of an id: `name` or `owner/name`."""


PATIENCE = 5.0
"""Seconds to wait for the hub's first answer: the library itself would wait for ever."""


def hub_hint(place: str | os.PathLike[str]) -> str:
    """How to write a path that is not here if it was meant as a model of the hub; empty where it reads as none."""
    text = os.fspath(place)
    if not re.fullmatch(NAME, text):
        return ""
    return f"; hub:{text} would be the model of that name on the Hugging Face hub"


def located(place: str | os.PathLike[str]) -> Path:
    """The folder itself, or for `hub:name` and `hub:owner/name` that of a repository of the hub.

    Without `hub:` in front the network is never asked. What an earlier call has left in the hub's cache is taken from there.

    Raises:
        InputError: where the hub cannot be asked or has nothing of that name, and for a name that is no repository's.
    """
    text = os.fspath(place)
    if not text.startswith(PREFIX):
        return Path(place)
    name = text.removeprefix(PREFIX)
    if not re.fullmatch(NAME, name):
        raise InputError(f"{text}: no name of a model on the Hugging Face hub; write hub:owner/name")
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError:
        raise InputError(
            f"{text}: models of the Hugging Face hub are fetched by its own library; pip install 'regard[hub]'"
        ) from None
    kept = _kept(hub, name)
    if kept is not None and _is_whole(kept):
        return kept
    try:
        hub.model_info(name, timeout=PATIENCE)
        fetched = Path(hub.snapshot_download(name, allow_patterns=list(PATTERNS)))
    except Exception as error:  # the library passes on whatever the network or the hub raised
        if kept is not None:  # another program may have left a tokenizer alone there, which may be all that is wanted
            return kept
        raise InputError(f"{text}: {_said(error)}") from error
    if (fetched / "config.json").is_file() and not _is_whole(fetched):
        raise InputError(
            f"{text}: the Hugging Face hub has its weights as a pickle alone, which is never read; choose a model that has "
            "safetensors, or convert it with transformers"
        )
    return fetched


def _kept(hub: Any, name: str) -> Path | None:
    """The folder of a repository in the hub's cache, whoever put it there; None where it is not."""
    try:
        return Path(hub.snapshot_download(name, allow_patterns=list(PATTERNS), local_files_only=True))
    except Exception:  # as above; which of its errors says so differs between its versions
        return None


def _is_whole(folder: Path) -> bool:
    """Whether a folder has all that a model needs, and not only what another program once asked for."""
    return (folder / "config.json").is_file() and next(folder.glob("*.safetensors"), None) is not None


def _said(error: Exception) -> str:
    """What is wrong, as half a sentence, and what to do."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "GatedRepoError" in kinds:
        return "its owner on the Hugging Face hub wants to be asked first; ask there, then log in with `hf auth login`"
    if "RepositoryNotFoundError" in kinds:
        return "the Hugging Face hub shows none of that name; check the name, or log in where it is private"
    lines = str(error).strip().splitlines()
    return (
        f"the Hugging Face hub could not be asked for one ({type(error).__name__}{': ' + lines[0] if lines else ''}); check the "
        "name and the connection"
    )
