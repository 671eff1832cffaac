"""Hugging Face's layouts of GPT and GPT-2, both ways.

Their matrices stand behind what they multiply, and query, key and value are one. The oldest files have no prefix before names,
and hold the mask of every block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.checkpoints.names import NameTable, Rule, in_their_words
from regard.checkpoints.tensors import check_same
from regard.errors import InputError
from regard.layers import Activation
from regard.models import GPT, GPT2, GPT3, GPT2Config, GPT3Config, GPTConfig
from regard.models.config import shapes_only
from regard.structure import from_mapping

CausalConfig = GPTConfig | GPT2Config | GPT3Config

NAMES: Mapping[str, Mapping[str, str]] = {
    family: {
        "vocabulary": "vocab_size",
        "width": "n_embd",
        "heads": "n_head",
        "layers": "n_layer",
        "maximum_positions": "n_positions",
        "activation": activation,
        "dropout": "resid_pdrop",
        "embedding_dropout": "embd_pdrop",
        "attention_dropout": "attn_pdrop",
        "norm_epsilon": "layer_norm_epsilon",
        "deviation": "initializer_range",
    }
    for family, activation in (("openai-gpt", "afn"), ("gpt2", "activation_function"))
}
"""Our names of a config's fields and theirs, for each of their families."""

ACTIVATIONS: Mapping[str, Mapping[Activation, tuple[str, ...]]] = {
    "gpt2": {
        "gelu_tanh": ("gelu_new", "gelu_pytorch_tanh", "gelu_fast"),
        "gelu": ("gelu",),
        "relu": ("relu",),
        "swish": ("silu", "swish"),
    },
    "openai-gpt": {"gelu_tanh": ("gelu",), "relu": ("relu",), "swish": ("silu", "swish")},
}
"""Our names and theirs, the one that is written first. What GPT's own code calls gelu is the approximation."""

FIXED: Mapping[str, object] = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
"""What their config can say otherwise, and our models cannot be."""

CLASSES = {"openai-gpt": "OpenAIGPT", "gpt2": "GPT2"}
PREFIX = "transformer."
OUTPUT = "lm_head.weight"


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsaid:
    """What their config cannot say; regard.json keeps it."""

    family: str | None = None
    padding_id: int | None = None
    end_id: int | None = None
    scaled_residuals: bool | None = None


def obstacle(config: CausalConfig) -> str:
    """Why a model cannot be told in one of these layouts, as half a sentence; empty where it can."""
    if isinstance(config, GPT3Config) and config.band is not None:
        return "every second block looks only a band back (model.band)"
    if isinstance(config, GPTConfig) and config.feedforward_width != 4 * config.width:
        return f"the feed-forward nets are {config.feedforward_width} wide, where it has four times the width"
    if config.activation not in ACTIVATIONS[family_of(config)]:
        return f"the activation is {config.activation}"
    return ""


def family_of(config: CausalConfig) -> str:
    """What Hugging Face calls a model of this config."""
    return "openai-gpt" if isinstance(config, GPTConfig) else "gpt2"


def config_to_theirs(config: CausalConfig, dtype: torch.dtype) -> dict[str, Any]:
    """The content of their config.json."""
    family = family_of(config)
    values: dict[str, Any] = {
        "model_type": family,
        "architectures": [f"{CLASSES[family]}LMHeadModel"],
        "dtype": str(dtype).removeprefix("torch."),
        **{theirs: getattr(config, ours) for ours, theirs in NAMES[family].items()},
        "bos_token_id": config.end_id,
        "eos_token_id": config.end_id,
        "pad_token_id": config.padding_id,
        "tie_word_embeddings": True,
    }
    values[NAMES[family]["activation"]] = ACTIVATIONS[family][config.activation][0]
    if family == "gpt2":
        values["n_inner"] = config.feedforward_width
    return values


def unsaid(config: CausalConfig) -> dict[str, Any]:
    """What `config_to_theirs` could not say."""
    said: dict[str, Any] = {"family": config.model_type, "padding_id": config.padding_id, "end_id": config.end_id}
    return said if isinstance(config, GPT3Config) else said | {"scaled_residuals": config.scaled_residuals}


def config_to_ours(
    values: Mapping[str, Any], said: Mapping[str, Any] | None, tensors: Mapping[str, Tensor], where: str
) -> CausalConfig:
    """Our config from their config.json.

    Arguments:
        values: the content of config.json.
        said: what regard.json keeps beside it; None for a folder made elsewhere.
        tensors: those of the file.
        where: what messages call config.json.

    Raises:
        InputError: for what is missing, of another type, or not to be had in our model.
    """
    del tensors
    theirs = str(values["model_type"])
    for key, wanted in FIXED.items():
        if values.get(key, wanted) not in (wanted, None):
            raise InputError(f"{where}.{key} is {values[key]!r}; Regard's {CLASSES[theirs]} needs {wanted!r}")
    names = NAMES[theirs]
    settings = {ours: values[name] for ours, name in names.items() if values.get(name) is not None}
    if "activation" in settings:
        given, known = settings["activation"], ACTIVATIONS[theirs]
        settings["activation"] = next((name for name, written in known.items() if given in written), None)
        if settings["activation"] is None:
            choices = ", ".join(name for written in known.values() for name in written)
            raise InputError(f"{where}.{names['activation']} is {given!r}; it must be one of {choices}")
    rest = from_mapping(Unsaid, said or {}, f"{where} (with regard.json: layout.unsaid)")
    end = rest.end_id if rest.end_id is not None else values.get("eos_token_id")
    # Where none is named: GPT's one special token, <unk>, is the first, GPT-2's the last.
    vocabulary = settings.get("vocabulary")
    last = 0 if theirs == "openai-gpt" or not isinstance(vocabulary, int) else vocabulary - 1
    settings["end_id"] = end if end is not None else last
    padding = rest.padding_id if rest.padding_id is not None else values.get("pad_token_id")
    settings["padding_id"] = padding if padding is not None else settings["end_id"]
    called = {**names, "end_id": "eos_token_id", "padding_id": "eos_token_id" if padding is None else "pad_token_id"}
    if isinstance(settings.get("width"), int):
        settings["feedforward_width"] = values.get("n_inner") or 4 * settings["width"]
    family: type[Any] = GPTConfig if theirs == "openai-gpt" else GPT2Config
    if rest.family == GPT3Config.model_type:
        family, settings = GPT3Config, settings | {"band": None}
    if family is not GPT3Config and rest.scaled_residuals is not None:
        settings["scaled_residuals"] = rest.scaled_residuals
    try:
        return from_mapping(family, settings, where)
    except InputError as error:
        raise InputError(in_their_words(str(error), called, where)) from error


def tensors_to_theirs(config: CausalConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our parameters under their names."""
    return {PREFIX + name: tensor for name, tensor in name_table(config).to_theirs(tensors).items()}


def tensors_to_ours(config: CausalConfig, tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """Their tensors under our names.

    Raises:
        InputError: naming every tensor that is missing, not known or of another shape, as the file calls it, and an output that
            is not the embedding table.
    """
    plain = {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items()}
    called = {name.removeprefix(PREFIX): name for name in tensors}
    table = _table_name(config)
    output = plain.pop(OUTPUT, None)
    if output is not None and not (table in plain and torch.equal(output, plain[table])):
        raise InputError(f"{where}: {OUTPUT} is not the embedding table; Regard's model has one table for both")
    names = name_table(config)
    needed = {name: tensor for name, tensor in plain.items() if not _constant(name)}
    with shapes_only():
        kinds: dict[type[Any], type[Any]] = {GPTConfig: GPT, GPT2Config: GPT2, GPT3Config: GPT3}
        wanted = names.to_theirs(dict(kinds[type(config)](config).named_parameters()))
    prefix = PREFIX if any(name.startswith(PREFIX) for name in tensors) else ""

    def name_of(name: str) -> str:
        return called.get(name, prefix + name)

    shapes = {name_of(name): tuple(tensor.shape) for name, tensor in wanted.items()}
    check_same(shapes, {name_of(name): tensor for name, tensor in needed.items()}, where)
    return names.to_ours(needed)


def name_table(config: CausalConfig) -> NameTable:
    """Our names of a model's parameters and theirs, without their prefix."""
    slot = "after" if isinstance(config, GPTConfig) else "before"
    ours, theirs = "layers.{i}.", "h.{i}."
    rules = [
        Rule(("embedding.tokens.weight",), _table_name(config)),
        Rule(
            ("embedding.positions.weight",),
            "positions_embed.weight" if isinstance(config, GPTConfig) else "wpe.weight",
        ),
    ]
    for kind in ("weight", "bias"):
        matrix = kind == "weight"
        parts = tuple(f"{ours}attention.{part}.{kind}" for part in ("query", "key", "value"))
        rules.append(Rule(parts, f"{theirs}attn.c_attn.{kind}", transposed=matrix))
        for mine, other in (
            ("attention.output", "attn.c_proj"),
            ("feedforward.inner", "mlp.c_fc"),
            ("feedforward.outer", "mlp.c_proj"),
        ):
            rules.append(Rule((f"{ours}{mine}.{kind}",), f"{theirs}{other}.{kind}", transposed=matrix))
        for number, residual in enumerate(("attention_residual", "feedforward_residual"), start=1):
            rules.append(Rule((f"{ours}{residual}.{slot}.{kind}",), f"{theirs}ln_{number}.{kind}"))
        if not isinstance(config, GPTConfig):
            rules.append(Rule((f"norm.{kind}",), f"ln_f.{kind}"))
    return NameTable(tuple(rules))


def _table_name(config: CausalConfig) -> str:
    return "tokens_embed.weight" if isinstance(config, GPTConfig) else "wte.weight"


def _constant(name: str) -> bool:
    """Whether a name is that of a causal mask or of the numbers from 0 on, which old files hold."""
    return name == "position_ids" or name.endswith((".attn.bias", ".attn.masked_bias"))
