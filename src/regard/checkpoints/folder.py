"""A model's folder: config.json, model.safetensors, tokenizer files, regard.json, README.md. No pickle is ever read.

It is on this machine, or on the Hugging Face hub and fetched once. The network is used only where `hub:` is before a
name, and by `push_folder`.
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
from regard.checkpoints.hf_format import FORMATS, format_of, hf_format
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
"""What is fetched of a repository. Pickles are not."""

PREFIX = "hub:"
"""What is before the id of a repository."""


PATIENCE = 5.0
"""Seconds to wait for the hub's first answer: the library itself would wait for ever."""


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
    if not re.fullmatch(HUB_NAME, name):
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

    Weights that are there are replaced: files of them that the folder does not have are removed in the same commit.

    Arguments:
        folder: of a model.
        place: the repository, `owner/name`, or `name` for one's own; `hub:` may be before it.
        private: whether a new repository is private; None for what the owner's settings say. One that is there stays as it is.
        token: that may write; None for that of `hf auth login` or of the variable HF_TOKEN.
        message: of the commit.

    Returns:
        The address of the commit.

    Raises:
        InputError: for a name that is no repository's, without a token or its right to write, and where the hub cannot be asked.
    """
    name = place.removeprefix(PREFIX)
    if not re.fullmatch(HUB_NAME, name):
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


CONFIG = "config.json"
MOST_PLACES = 1 << 28
"""Numbers in a table of positions, which is computed from the config where it is not read."""
WEIGHTS = "model.safetensors"
CARD = "regard.json"

OWN = "regard"
"""The name of our own layout."""

OLDER: Mapping[str, Mapping[str, Any]] = {"transformer": {"output_bias": "none"}}
"""What a config.json of our own layout meant by leaving a key out, before there was such a key."""


@dataclass(frozen=True, slots=True)
class Card:
    """What regard.json says: what the model is for and how it came to be.

    Arguments:
        task: the task's name and all that prediction needs.
        recipe: the resolved recipe it was trained with; empty where unknown.
        metrics: the last evaluation.
        digests: the SHA-256 of every tensor in model.safetensors.
        versions: of the libraries that wrote it; empty where another program did.
        layout: `name`, whose config and names the folder has: one of Hugging Face's (`FORMATS`), with what their config cannot
            say under `unsaid`; or `regard`, with `why` it could not be told in one of those.
        code: the parts that are not the package's, as `regard.parts.write_code` tells them; empty where there are none.
        files: the SHA-256 of every file next to this one and the weights, by its place in the folder; empty in folders of
            before.
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
    """The model's tensors by name, each tied one once, under the first of its names."""
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
    """Write config, weights and card into an existing folder: in Hugging Face's layout where it can be told there.

    Arguments:
        tensors: as `parameters_of` gives them. On the meta device where the weights are written by others, in our own
            layout; `record_weights` then notes their digests.
        obstacle: what besides the config keeps the model from being told there, as half a sentence; empty where nothing does.
        said: what the task adds to Hugging Face's config.json, such as the names of labels.
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
    """Put the weights in a model's folder in several files, if they are larger than one may be, as transformers does.

    Raises:
        InputError: as `shard_file`.
    """
    shard_file(folder / WEIGHTS, max_shard_size)


def record_files(folder: Path) -> None:
    """Note in regard.json the digest of every file of a model, once all are written; what `regard check` compares with."""
    path = folder / CARD
    if not path.is_file():
        return
    places = sorted(each for each in folder.rglob("*") if each.is_file() and each not in (path, folder / WEIGHTS))
    files = {each.relative_to(folder).as_posix(): file_digest(each) for each in places}
    path.write_text(_json(_read_json(path) | {"files": files}))


def record_weights(folder: Path, digests: Mapping[str, str]) -> None:
    """Note in regard.json the digests of weights that others wrote."""
    path = folder / CARD
    path.write_text(_json(_read_json(path) | {"digests": dict(digests)}), encoding="utf-8")


def layout_of(config: Any, obstacle: str = "") -> dict[str, Any]:
    """The layout that a model is written in, as regard.json has it; see `Card`.

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

    Its config is one of Hugging Face's that we read, and there is no card; or it holds the two files of a published ELMo.
    """
    folder = Path(folder)
    if elmo.published_files(folder) is not None:
        return True
    if (folder / CARD).is_file() or not (folder / CONFIG).is_file():
        return False
    return _is_hf(_read_json(folder / CONFIG))


def read_card(folder: str | os.PathLike[str]) -> Card:
    """What a folder says of itself; next to nothing where another program wrote it.

    Raises:
        InputError: where it is no model folder, or its card is damaged or of a later format.
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
            raise InputError(f"{path}: {part.name} is missing or no object; the file is damaged, copy it again")
    check_code(parts["code"], path.parent)
    # A metric that has no value, such as a correlation of one number, is null in JSON.
    parts["metrics"] = {name: math.nan if value is None else value for name, value in parts["metrics"].items()}
    parts["task"] = renamed_task(parts["task"], "name")
    parts["recipe"] = renamed_recipe(parts["recipe"])
    return Card(**parts)


def read_model(folder: str | os.PathLike[str]) -> nn.Module:
    """The model in a folder, in evaluation mode, on the CPU.

    Raises:
        InputError: naming file and key for whatever is missing, cut short, tampered with, unknown or of another shape.
    """
    config, tensors = read_parameters(folder)
    where = str(Path(folder) / WEIGHTS)
    model = _unset(config, tensors, where)
    with torch.no_grad():
        for name, parameter in parameters_of(model).items():
            parameter.copy_(tensors[name])
    return model.eval()


def _unset(config: Any, tensors: Mapping[str, Tensor], where: str) -> nn.Module:
    """The model of a config, its parameters yet to be set: sampling those of a large one takes longer than reading them.

    Its shapes are compared with the tensors before it takes any memory.

    Raises:
        InputError: listing all keys that are missing, not known, or of another shape.
    """
    family = MODELS[config.model_type].model
    with shapes_only():
        model = family(config)
    check_same({name: tuple(tensor.shape) for name, tensor in parameters_of(model).items()}, tensors, where)
    if next(model.buffers(), None) is not None:  # what is computed and not read would be missing
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
        for module, name in places[key]:  # of a tied one several
            setattr(module, name, placed)
    return model


def read_parameters(folder: str | os.PathLike[str], *, merged: bool = True) -> tuple[Any, dict[str, Tensor]]:
    """The config in a folder and its tensors under our names, whatever layout it has.

    Arguments:
        merged: with what the adapters in the folder, if there are any, add to them.

    Raises:
        InputError: as `read_model`, except that a folder in our own layout is not yet compared with its config.
    """
    folder = Path(folder)
    published = elmo.published_files(folder)
    if published is not None:
        return elmo.read_published(*published)
    file = folder / WEIGHTS
    values, name = _family(folder / CONFIG)
    config = _config_beside(folder, values, name)  # by the header of the weights, before they are read
    digests = read_card(folder).digests if (folder / CARD).is_file() else None
    tensors = read_tensors(file, digests)
    ours = hf_format(name).tensors_from_hf(config, tensors, str(file)) if _is_hf(values) else tensors
    _refuse_nan(ours, file)
    return config, with_adapters(folder, config, ours) if merged else ours


def _refuse_nan(tensors: Mapping[str, Tensor], file: Path) -> None:
    """Refuse weights from which nothing but NaN could be computed.

    Raises:
        InputError: naming the first tensor that holds NaN or an infinite number.
    """
    for name, tensor in tensors.items():
        if tensor.numel() and tensor.is_floating_point() and tensor.device.type != "meta":
            least, most = tensor.aminmax()
            if not bool(least.isfinite() & most.isfinite()):
                raise InputError(
                    f"{file}: {name} holds numbers that are not finite (NaN or infinite), as training that diverged leaves them; "
                    "take an earlier checkpoint, or train again with a smaller learning rate"
                )


def read_config(folder: str | os.PathLike[str]) -> Any:
    """The config of the model in a folder, without reading its weights.

    Raises:
        InputError: as `read_parameters`, as far as the config goes.
    """
    folder = Path(folder)
    published = elmo.published_files(folder)
    if published is not None:
        return elmo.config_of_options(published[0])
    return _config_beside(folder, *_family(folder / CONFIG))


def _config_beside(folder: Path, values: Mapping[str, Any], name: str) -> Any:
    """The config that a config.json holds, its sizes compared with the header of the weights next to it."""
    outline = read_outline(folder / WEIGHTS)
    config = _config(folder, values, name, outline)
    _check_sizes(config, outline, folder / CONFIG)
    return config


def _check_sizes(config: Any, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Refuse sizes that weights of so many numbers cannot have, before anything of that size is made.

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
                f"{path}: {part.name} is {value:,} and the weights beside it are {held}; the two are of different models, "
                "copy the folder again"
            )
    places = (getattr(config, "maximum_positions", 0) or 0) * (getattr(config, "width", 0) or 0)
    if places > MOST_PLACES:
        raise InputError(
            f"{path}: positions for {config.maximum_positions:,} tokens are more than are tabulated for a width of "
            f"{config.width:,}; give at most {MOST_PLACES // config.width:,}"
        )


def _config(folder: Path, values: Mapping[str, Any], name: str, tensors: Mapping[str, Tensor]) -> Any:
    path = folder / CONFIG
    if _is_hf(values):
        beside = folder / "preprocessor_config.json"
        values = {**values, "preprocessor": _read_json(beside)} if beside.is_file() else values
        extra = None if is_foreign(folder) else read_card(folder).layout.get("unsaid", {})
        return hf_format(name).config_from_hf(values, extra, tensors, str(path))
    version = values.get("format_version", 1)
    if version != 1:
        raise InputError(f"{path}: format_version {version!r} is not known; update regard")
    if (folder / CARD).is_file():
        read_card(folder)  # says which code is missing, if any is
    return config_from_json(MODELS[name].config, {**OLDER.get(name, {}), **renamed_keys(values, RENAMED)}, str(path))


def _is_hf(values: Mapping[str, Any]) -> bool:
    """Whether a config.json is in one of Hugging Face's layouts, not in our own, whose families have some of the same names."""
    return str(values.get("model_type")) in FORMATS and "format_version" not in values


def _family(path: Path) -> tuple[dict[str, Any], str]:
    """The content of a config.json and the family it names."""
    values = _read_json(path)
    name = str(values.get("model_type"))
    card = path.with_name(CARD)
    if name not in MODELS and name not in FORMATS and card.is_file():
        read_card(path.parent)  # says which code is missing
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
