"""Where a model is: a folder here, or a repository of the Hugging Face hub, fetched once; and how a folder gets there.

The network is used only where `hub:` stands before a name, and by `push_folder`.
"""

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
    hub = _library(text, "fetched")
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


def push_folder(
    folder: str | os.PathLike[str],
    place: str,
    *,
    private: bool | None = None,
    token: str | None = None,
    message: str = "",
) -> str:
    """Upload a model's folder to a repository of the hub, which is made where there is none.

    Weights that stand there are replaced: files of them that the folder does not have are removed in the same commit.

    Arguments:
        folder: of a model.
        place: the repository, `owner/name`, or `name` for one's own; `hub:` may stand before it.
        private: whether a new repository is private; None for what the owner's settings say. One that is there stays as it is.
        token: that may write; None for that of `hf auth login` or of the variable HF_TOKEN.
        message: of the commit.

    Returns:
        The address of the commit.

    Raises:
        InputError: for a name that is no repository's, without a token or its right to write, and where the hub cannot be asked.
    """
    name = place.removeprefix(PREFIX)
    if not re.fullmatch(NAME, name):
        raise InputError(f"{place}: no name of a model on the Hugging Face hub; write owner/name")
    hub = _library(place, "uploaded")
    if token is None and hub.get_token() is None:
        raise InputError(f"{place}: {LOG_IN}")
    try:
        api = hub.HfApi(token=token)
        repository = api.create_repo(name, repo_type="model", private=private, exist_ok=True).repo_id
        commit = api.upload_folder(
            repo_id=repository,
            folder_path=str(folder),
            commit_message=message or "Upload a model of Regard",
            delete_patterns=list(OLD_WEIGHTS),
        )
    except Exception as error:  # the library passes on whatever the network or the hub raised
        raise InputError(f"{place}: {_refused(error)}") from error
    return str(commit.commit_url)


LOG_IN = "uploading to the Hugging Face hub needs a token that may write; log in with `hf auth login`, or set HF_TOKEN"
OLD_WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
"""What an upload takes the place of."""


def _refused(error: Exception) -> str:
    """Why nothing was uploaded, as half a sentence, and what to do."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    status = getattr(getattr(error, "response", None), "status_code", None)
    if "LocalTokenNotFoundError" in kinds or status == 401:
        return LOG_IN
    if status == 403:
        return "the token may not write there; take one with the right to write, and a repository of your own"
    lines = str(error).strip().splitlines()
    said = f"{type(error).__name__}{': ' + lines[0] if lines else ''}"
    return (
        f"nothing was uploaded, for the Hugging Face hub did not take it ({said}); check the connection, and try again"
    )


def _library(place: str, what: str) -> Any:
    """The hub's own library."""
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError:
        raise InputError(
            f"{place}: models of the Hugging Face hub are {what} by its own library; pip install 'regard[hub]'"
        ) from None


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
