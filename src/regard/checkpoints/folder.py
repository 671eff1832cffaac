"""A model's folder: config.json, model.safetensors, tokenizer files, regard.json, README.md. No pickle is ever read.

It is on this machine, or on the Hugging Face hub, from where it is downloaded once. The network is used only for names that begin
with `hub:`, and by `push_folder`.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.checkpoints import elmo
from regard.checkpoints.adapters import with_adapters
from regard.checkpoints.layouts import FORMATS, format_of, hf_format
from regard.checkpoints.renamed import CONFIG as RENAMED
from regard.checkpoints.renamed import renamed_keys, renamed_recipe, renamed_task
from regard.checkpoints.tensors import check_same, file_digest, read_outline, read_tensors, shard_file, write_tensors
from regard.errors import HUB_NAME, InputError, nearest
from regard.machine import versions
from regard.models import MODELS
from regard.models.config import config_from_json, config_to_json, shapes_only
from regard.parts import check_code, own_hint, used, write_code
from regard.reading import read_json_object
from regard.structure import finite

PATTERNS = ("*.json", "*.safetensors", "vocab.txt", "merges.txt", "README.md")
"""The files of a repository that are downloaded; pickles are not."""

PREFIX = "hub:"
"""The prefix of the id of a repository."""


PATIENCE = 5.0
"""The seconds to wait for the hub's first answer; without it the library waits for ever."""


def located(place: str | os.PathLike[str]) -> Path:
    """The folder itself, or for `hub:name` and `hub:owner/name` the downloaded folder of a repository of the hub.

    Without the prefix `hub:` the network is never used. A repository in the hub's cache is not downloaded again.

    Raises:
        InputError: if the hub cannot be reached or has no such repository, and for an invalid name of a repository.
    """
    text = os.fspath(place)
    if not text.startswith(PREFIX):
        return Path(place)
    name = text.removeprefix(PREFIX)
    if not re.fullmatch(HUB_NAME, name):
        raise InputError(f"{text}: is not a name of a model on the Hugging Face hub; write hub:owner/name")
    hub = _library(text, "fetched")
    kept = _kept(hub, name)
    if kept is not None and _is_whole(kept):
        return kept
    try:
        hub.model_info(name, timeout=PATIENCE)
        fetched = Path(hub.snapshot_download(name, allow_patterns=list(PATTERNS)))
    except Exception as error:  # the library passes on any error of the network or the hub
        if kept is not None:  # the cache may have only a tokenizer from another program, which can be sufficient
            return kept
        raise InputError(f"{text}: {_said(error)}") from error
    if (fetched / "config.json").is_file() and not _is_whole(fetched):
        raise InputError(
            f"{text}: the Hugging Face hub has its weights only as a pickle, which is never read; choose a model with "
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
    """Upload a model's folder to a repository of the hub, which is created if it does not exist.

    Existing weights are replaced: weight files that the folder does not have are removed in the same commit.

    Arguments:
        folder: the folder of a model.
        place: the repository, `owner/name`, or `name` for your own; the prefix `hub:` is optional.
        private: whether a new repository is private; None for the owner's default. An existing repository is not changed.
        token: a token with permission to write; None for that of `hf auth login` or of the variable HF_TOKEN.
        message: the message of the commit.

    Returns:
        The URL of the commit.

    Raises:
        InputError: for an invalid name of a repository, without a token with permission to write, and if the hub cannot be
            reached.
    """
    name = place.removeprefix(PREFIX)
    if not re.fullmatch(HUB_NAME, name):
        raise InputError(f"{place}: is not a name of a model on the Hugging Face hub; write owner/name")
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
    except Exception as error:  # the library passes on any error of the network or the hub
        raise InputError(f"{place}: {_refused(error)}") from error
    return str(commit.commit_url)


LOG_IN = "uploading to the Hugging Face hub needs a token with permission to write; log in with `hf auth login`, or set HF_TOKEN"
OLD_WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
"""The files that an upload replaces."""


def _refused(error: Exception) -> str:
    """Why nothing was uploaded, as half a sentence, and what to do."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    status = getattr(getattr(error, "response", None), "status_code", None)
    if "LocalTokenNotFoundError" in kinds or status == 401:
        return LOG_IN
    if status == 403:
        return "the token has no permission to write there; use one that has, and a repository of your own"
    lines = str(error).strip().splitlines()
    said = f"{type(error).__name__}{': ' + lines[0] if lines else ''}"
    return f"nothing was uploaded, because the Hugging Face hub did not accept it ({said}); check the connection, and try again"


def _library(place: str, what: str) -> Any:
    """The hub's own library."""
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError:
        raise InputError(
            f"{place}: models of the Hugging Face hub are {what} with its own library; pip install 'regard[hub]'"
        ) from None


def _kept(hub: Any, name: str) -> Path | None:
    """The folder of a repository in the hub's cache; None if it is not there."""
    try:
        return Path(hub.snapshot_download(name, allow_patterns=list(PATTERNS), local_files_only=True))
    except Exception:  # the type of the error differs between versions of the library
        return None


def _is_whole(folder: Path) -> bool:
    """Whether a folder has config and weights, and not only other files that another program downloaded."""
    return (folder / "config.json").is_file() and next(folder.glob("*.safetensors"), None) is not None


def _said(error: Exception) -> str:
    """What is wrong, as half a sentence, and what to do."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "GatedRepoError" in kinds:
        return (
            "its owner on the Hugging Face hub must give you access; request it there, then log in with `hf auth login`"
        )
    if "RepositoryNotFoundError" in kinds:
        return "the Hugging Face hub has no model of that name; check the name, or log in if it is private"
    lines = str(error).strip().splitlines()
    return (
        f"the Hugging Face hub could not be reached ({type(error).__name__}{': ' + lines[0] if lines else ''}); check the "
        "name and the connection"
    )


CONFIG = "config.json"
MOST_PLACES = 1 << 28
"""The maximum number of values in a computed table of positions, whose size is given only by the config."""
WEIGHTS = "model.safetensors"
CARD = "regard.json"

OWN = "regard"
"""The name of Regard's own layout."""

OLDER: Mapping[str, Mapping[str, Any]] = {"transformer": {"output_bias": "none"}}
"""The values of keys that an older config.json of our own layout does not have, by family."""


@dataclass(frozen=True, slots=True)
class Card:
    """The content of regard.json: the task of the model and its training.

    Arguments:
        task: the task's name and the values that prediction needs.
        recipe: the complete recipe of its training; empty if unknown.
        metrics: the metrics of the last evaluation.
        digests: the SHA-256 of every tensor in model.safetensors.
        versions: the versions of the libraries that wrote it; empty if another program did.
        layout: the layout of config and names: `name` is one of Hugging Face's (`FORMATS`), with the settings that their config
            does not have under `unsaid`; or `regard`, with the reason `why` no other layout can represent the model.
        code: the parts that are not the package's, as from `regard.parts.write_code`; empty if there are none.
        files: the SHA-256 of every other file, except the weights, by its path in the folder; empty in old folders.
    """

    task: Mapping[str, Any]
    recipe: Mapping[str, Any]
    metrics: Mapping[str, float]
    digests: Mapping[str, str]
    versions: Mapping[str, str]
    layout: Mapping[str, Any] = field(default_factory=dict)
    code: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    """The model's tensors by name; a tied tensor appears once, under its first name."""
    seen: set[int] = set()
    tensors: dict[str, Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            tensors[name] = tensor.detach()
    return tensors


def write_model(
    folder: Path,
    config: Any,
    tensors: Mapping[str, Tensor],
    *,
    task: Mapping[str, Any],
    recipe: Mapping[str, Any],
    metrics: Mapping[str, float],
    obstacle: str = "",
    said: Mapping[str, Any] | None = None,
) -> None:
    """Write config, weights and card into an existing folder, in Hugging Face's layout if that can represent the model.

    Arguments:
        tensors: the tensors from `parameters_of`. On the meta device if other workers write the weights, in our own layout; then
            `record_weights` adds their digests.
        obstacle: a reason besides the config why Hugging Face's layout is not possible, as half a sentence; may be empty.
        said: the task's values for Hugging Face's config.json, such as the names of labels.
    """
    elsewhere = all(tensor.is_meta for tensor in tensors.values())
    layout = layout_of(config, obstacle or ("several workers wrote its weights, under our names" if elsewhere else ""))
    if layout["name"] == OWN:
        values, stored = config_to_json(config), dict(tensors)
    else:
        written_as = hf_format(layout["name"])
        values = written_as.config_to_hf(config, next(iter(tensors.values())).dtype) | dict(said or {})
        stored = written_as.tensors_to_hf(config, tensors)
    (folder / CONFIG).write_text(_json(values), encoding="utf-8")
    digests = {} if elsewhere else write_tensors(folder / WEIGHTS, stored)
    card = {
        "format_version": 1,
        "layout": layout,
        "task": dict(task),
        "metrics": dict(metrics),
        "versions": versions(),
        "recipe": dict(recipe),
        "digests": digests,
    }
    code = write_code(folder, used(config, task.get("name"), recipe))
    (folder / CARD).write_text(_json({**card, "code": code} if code else card), encoding="utf-8")


def shard_weights(folder: Path, max_shard_size: int | str) -> None:
    """Divide the weights in a model's folder into several files if they are larger than `max_shard_size`, as transformers does.

    Raises:
        InputError: as `shard_file`.
    """
    shard_file(folder / WEIGHTS, max_shard_size)


def record_files(folder: Path) -> None:
    """Write the digest of every file of a model into regard.json, after all files are written; `regard check` compares them."""
    path = folder / CARD
    if not path.is_file():
        return
    places = sorted(each for each in folder.rglob("*") if each.is_file() and each not in (path, folder / WEIGHTS))
    files = {each.relative_to(folder).as_posix(): file_digest(each) for each in places}
    path.write_text(_json(_read_json(path) | {"files": files}))


def record_weights(folder: Path, digests: Mapping[str, str]) -> None:
    """Write the digests of weights that other workers wrote into regard.json."""
    path = folder / CARD
    path.write_text(_json(_read_json(path) | {"digests": dict(digests)}), encoding="utf-8")


def layout_of(config: Any, obstacle: str = "") -> dict[str, Any]:
    """The layout in which a model is written, as in regard.json; see `Card`.

    Arguments:
        obstacle: as for `write_model`.
    """
    written_as, why = format_of(config)
    if written_as is None or obstacle:
        return {"name": OWN, "why": why or obstacle}
    return {"name": written_as.model_type, "unsaid": written_as.extra_to_keep(config)}


def is_gguf(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a file of llama.cpp, by its first bytes or by its name."""
    file = Path(path)
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        return stream.read(4) == b"GGUF" or file.suffix == ".gguf"


def is_foreign(folder: str | os.PathLike[str]) -> bool:
    """Whether another program wrote the folder.

    Then it has a config.json in a supported layout of Hugging Face's and no regard.json, or the two files of a published ELMo.
    """
    folder = Path(folder)
    if elmo.published_files(folder) is not None:
        return True
    if (folder / CARD).is_file() or not (folder / CONFIG).is_file():
        return False
    return _is_hf(_read_json(folder / CONFIG))


def read_card(folder: str | os.PathLike[str]) -> Card:
    """The content of a folder's regard.json; almost empty if another program wrote the folder.

    Raises:
        InputError: if it is not a model folder, or its card is damaged or of a later format.
    """
    path = Path(folder) / CARD
    if is_foreign(folder):
        return Card(task={}, recipe={}, metrics={}, digests={}, versions={})
    if not path.is_file() and (Path(folder) / CONFIG).is_file():
        _family(Path(folder) / CONFIG)
    values = _read_json(path)
    if values.get("format_version") != 1:
        raise InputError(f"{path}: format_version {values.get('format_version')!r} is not known; update regard")
    parts: dict[str, Any] = {}
    for part in fields(Card):
        parts[part.name] = values.get(part.name, None if part.default_factory is MISSING else {})
        if not isinstance(parts[part.name], dict):
            raise InputError(f"{path}: {part.name} is missing or not an object; the file is damaged, copy it again")
    check_code(parts["code"], path.parent)
    # An undefined metric, such as a correlation of one number, is null in JSON.
    parts["metrics"] = {name: math.nan if value is None else value for name, value in parts["metrics"].items()}
    parts["task"] = renamed_task(parts["task"], "name")
    parts["recipe"] = renamed_recipe(parts["recipe"])
    return Card(**parts)


def read_model(folder: str | os.PathLike[str]) -> nn.Module:
    """The model in a folder, in evaluation mode, on the CPU.

    Raises:
        InputError: naming file and key for whatever is missing, truncated, changed, unknown or of another shape.
    """
    config, tensors = read_parameters(folder)
    where = str(Path(folder) / WEIGHTS)
    model = _unset(config, tensors, where)
    with torch.no_grad():
        for name, parameter in parameters_of(model).items():
            parameter.copy_(tensors[name])
    return model.eval()


def _unset(config: Any, tensors: Mapping[str, Tensor], where: str) -> nn.Module:
    """The model of a config with unset parameters, because initialising a large model takes longer than reading its weights.

    Its shapes are compared with the tensors before it needs any memory.

    Raises:
        InputError: listing all keys that are missing, unknown, or of another shape.
    """
    family = MODELS[config.model_type].model
    with shapes_only():
        model = family(config)
    check_same({name: tuple(tensor.shape) for name, tensor in parameters_of(model).items()}, tensors, where)
    if next(model.buffers(), None) is not None:  # buffers are computed, not read, so the model is built normally
        return family(config)
    places: dict[int, list[tuple[nn.Module, str]]] = {}
    parameters: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            places.setdefault(id(parameter), []).append((module, name))
            parameters[id(parameter)] = parameter
    for key, parameter in parameters.items():
        placed = nn.Parameter(
            torch.empty(parameter.shape, dtype=parameter.dtype), requires_grad=parameter.requires_grad
        )
        for module, name in places[key]:  # a tied tensor has several
            setattr(module, name, placed)
    return model


def read_parameters(folder: str | os.PathLike[str], *, merged: bool = True) -> tuple[Any, dict[str, Tensor]]:
    """The config in a folder and its tensors under our names, from any supported layout.

    Arguments:
        merged: whether to merge the adapters in the folder, if there are any, into the tensors.

    Raises:
        InputError: as `read_model`, except that tensors in our own layout are not yet compared with the config.
    """
    folder = Path(folder)
    published = elmo.published_files(folder)
    if published is not None:
        return elmo.read_published(*published)
    file = folder / WEIGHTS
    values, name = _family(folder / CONFIG)
    config = _checked_config(folder, values, name)  # with the header of the weights, before they are read
    digests = read_card(folder).digests if (folder / CARD).is_file() else None
    tensors = read_tensors(file, digests)
    ours = hf_format(name).tensors_from_hf(config, tensors, str(file)) if _is_hf(values) else tensors
    _refuse_nan(ours, file)
    return config, with_adapters(folder, config, ours) if merged else ours


def _refuse_nan(tensors: Mapping[str, Tensor], file: Path) -> None:
    """Refuse weights with NaN or infinite numbers.

    Raises:
        InputError: naming the first tensor with such a number.
    """
    for name, tensor in tensors.items():
        if tensor.numel() and tensor.is_floating_point() and tensor.device.type != "meta":
            least, most = tensor.aminmax()
            if not bool(least.isfinite() & most.isfinite()):
                raise InputError(
                    f"{file}: {name} holds numbers that are not finite (NaN or infinite), as after training that diverged; use "
                    "an earlier checkpoint, or train again with a smaller learning rate"
                )


def read_config(folder: str | os.PathLike[str]) -> Any:
    """The config of the model in a folder, without reading its weights.

    Raises:
        InputError: as `read_parameters`, for errors of the config.
    """
    folder = Path(folder)
    published = elmo.published_files(folder)
    if published is not None:
        return elmo.config_of_options(published[0])
    return _checked_config(folder, *_family(folder / CONFIG))


def _checked_config(folder: Path, values: Mapping[str, Any], name: str) -> Any:
    """The config in config.json, with its sizes compared with the header of the weights."""
    outline = read_outline(folder / WEIGHTS)
    config = _config(folder, values, name, outline)
    _check_sizes(config, outline, folder / CONFIG)
    return config


def _check_sizes(config: Any, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Refuse sizes that are impossible for the number of weights, before memory of that size is allocated.

    Raises:
        InputError: naming the size.
    """
    total = sum(tensor.numel() for tensor in tensors.values())
    for part in fields(config):
        value = getattr(config, part.name)
        most = len(tensors) if part.name.endswith("layers") else total
        if part.name.endswith(("layers", "width", "vocabulary")) and type(value) is int and value > most:
            held = f"{len(tensors):,} tensors of {total:,} numbers in all"
            raise InputError(
                f"{path}: {part.name} is {value:,} and the weights are {held}; the two are of different models, copy the folder "
                "again"
            )
    places = (getattr(config, "maximum_positions", 0) or 0) * (getattr(config, "width", 0) or 0)
    if places > MOST_PLACES:
        raise InputError(
            f"{path}: {config.maximum_positions:,} positions are more than are supported for a width of {config.width:,}; give "
            f"at most {MOST_PLACES // config.width:,}"
        )


def _config(folder: Path, values: Mapping[str, Any], name: str, tensors: Mapping[str, Tensor]) -> Any:
    path = folder / CONFIG
    if _is_hf(values):
        preprocessor = folder / "preprocessor_config.json"
        values = {**values, "preprocessor": _read_json(preprocessor)} if preprocessor.is_file() else values
        extra = None if is_foreign(folder) else read_card(folder).layout.get("unsaid", {})
        return hf_format(name).config_from_hf(values, extra, tensors, str(path))
    version = values.get("format_version", 1)
    if version != 1:
        raise InputError(f"{path}: format_version {version!r} is not known; update regard")
    if (folder / CARD).is_file():
        read_card(folder)  # raises an error that names missing code, if any is missing
    return config_from_json(MODELS[name].config, {**OLDER.get(name, {}), **renamed_keys(values, RENAMED)}, str(path))


def _is_hf(values: Mapping[str, Any]) -> bool:
    """Whether a config.json is in a layout of Hugging Face's and not in our own, which has some of the same family names."""
    return str(values.get("model_type")) in FORMATS and "format_version" not in values


def _family(path: Path) -> tuple[dict[str, Any], str]:
    """The content of a config.json and the name of its family."""
    values = _read_json(path)
    name = str(values.get("model_type"))
    card = path.with_name(CARD)
    if name not in MODELS and name not in FORMATS and card.is_file():
        read_card(path.parent)  # raises an error that names missing code
    if name not in MODELS and name not in FORMATS:
        raise InputError(
            f"{path}: model_type is {name!r}; {nearest(name, sorted({*MODELS, *FORMATS}))}{own_hint('model')}"
        )
    return values, name


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(finite(values), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _read_json(path: Path) -> dict[str, Any]:
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: no such folder; give the folder of a trained model")
    if not path.exists():
        raise InputError(f"{path}: no such file; {path.parent} is not a model folder")
    return read_json_object(path, "the file is damaged, copy it again")
