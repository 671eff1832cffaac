"""Hugging Face's layout of the Reformer as a language model, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.attention.lsh import usual_buckets
from regard.checkpoints.names import NameTable, Rule, in_their_words
from regard.checkpoints.tensors import check_same
from regard.errors import InputError
from regard.layers import Activation
from regard.models import Reformer, ReformerConfig
from regard.models.config import shapes_only
from regard.structure import from_mapping

NAMES: Mapping[str, str] = {
    "vocabulary": "vocab_size",
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "head_width": "attention_head_size",
    "feedforward_width": "feed_forward_size",
    "layers": "attn_layers",
    "maximum_positions": "max_position_embeddings",
    "chunk": "lsh_attn_chunk_length",
    "chunks_before": "lsh_num_chunks_before",
    "rounds": "num_hashes",
    "hash_seed": "hash_seed",
    "local_chunk": "local_attn_chunk_length",
    "local_chunks_before": "local_num_chunks_before",
    "feedforward_chunk": "chunk_size_feed_forward",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "lsh_attention_probs_dropout_prob",
    "local_attention_dropout": "local_attention_probs_dropout_prob",
    "norm_epsilon": "layer_norm_eps",
    "deviation": "initializer_range",
}
"""Our names of a config's fields and theirs."""

OTHERS: Mapping[str, str] = {
    "buckets": "num_buckets",
    "axial_shape": "axial_pos_shape",
    "axial_widths": "axial_pos_embds_dim",
    "end_id": "eos_token_id",
    "padding_id": "pad_token_id",
}
"""The same of fields that are not simply taken over."""

ACTIVATIONS: Mapping[Activation, tuple[str, ...]] = {
    "relu": ("relu",),
    "gelu": ("gelu",),
    "gelu_tanh": ("gelu_new", "gelu_pytorch_tanh", "gelu_fast"),
    "swish": ("silu", "swish"),
}
"""Our names and theirs, the one that is written first."""

FIXED: Mapping[str, object] = {
    "is_decoder": True,
    "lsh_num_chunks_after": 0,
    "local_num_chunks_after": 0,
    "tie_word_embeddings": False,
}
"""What their config can say otherwise, and our model, which reads from the left, cannot be."""

POSITIONS = "reformer.embeddings.position_embeddings."
AXIAL = (POSITIONS + "weights.0", POSITIONS + "weights.1")
BIAS, REPEATED = "lm_head.bias", "lm_head.decoder.bias"
"""The output's bias, which old files hold twice; where a model of ours has none it is zero in theirs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsaid:
    """What their config cannot say; regard.json keeps it."""

    padding_id: int | None = None
    end_id: int | None = None
    usual_buckets: bool = False


def obstacle(config: ReformerConfig) -> str:
    """Why a model cannot be told in this layout, as half a sentence; empty where it can."""
    if config.sets != "chunk":
        return f"its queries look among the keys of a {config.sets} (model.sets), where all of a chunk are looked at"
    if config.activation not in ACTIVATIONS:
        return f"the activation is {config.activation}"
    return ""


def family_of(config: ReformerConfig) -> str:
    """What Hugging Face calls a model of this config."""
    del config
    return "reformer"


def config_to_theirs(config: ReformerConfig, dtype: torch.dtype) -> dict[str, Any]:
    """The content of their config.json."""
    buckets = config.buckets or usual_buckets(config.maximum_positions, config.chunk)
    values: dict[str, Any] = {
        "model_type": "reformer",
        "architectures": ["ReformerModelWithLMHead"],
        "dtype": str(dtype).removeprefix("torch."),
        **{theirs: getattr(config, ours) for ours, theirs in NAMES.items()},
        **FIXED,
        "hidden_act": ACTIVATIONS[config.activation][0],
        "num_buckets": buckets[0] if len(buckets) == 1 else list(buckets),
        "axial_pos_embds": bool(config.axial_shape),
        "bos_token_id": config.end_id,
        "eos_token_id": config.end_id,
        "pad_token_id": config.padding_id,
    }
    if config.axial_shape:
        values |= {"axial_pos_shape": list(config.axial_shape), "axial_pos_embds_dim": list(config.axial_widths)}
    return values


def unsaid(config: ReformerConfig) -> dict[str, Any]:
    """What `config_to_theirs` could not say."""
    return {"padding_id": config.padding_id, "end_id": config.end_id, "usual_buckets": not config.buckets}


def config_to_ours(
    values: Mapping[str, Any], said: Mapping[str, Any] | None, tensors: Mapping[str, Tensor], where: str
) -> ReformerConfig:
    """Our config from their config.json.

    Arguments:
        values: the content of config.json.
        said: what regard.json keeps beside it; None for a folder made elsewhere.
        tensors: those of the file.
        where: what messages call config.json.

    Raises:
        InputError: for what is missing, of another type, or not to be had in our model.
    """
    for key, wanted in FIXED.items():
        given = values.get(key, False if key == "is_decoder" else wanted)
        if given not in (wanted, None):
            needs = f"Regard's Reformer, which reads from the left, needs {wanted!r}"
            raise InputError(f"{where}.{key} is {given!r}; {needs}")
    settings = {ours: values[theirs] for ours, theirs in NAMES.items() if values.get(theirs) is not None}
    given = settings.get("activation", "relu")
    settings["activation"] = next((name for name, written in ACTIVATIONS.items() if given in written), None)
    if settings["activation"] is None:
        choices = ", ".join(name for written in ACTIVATIONS.values() for name in written)
        raise InputError(f"{where}.hidden_act is {given!r}; it must be one of {choices}")
    rest = from_mapping(Unsaid, said or {}, f"{where} (with regard.json: layout.unsaid)")
    buckets = values.get("num_buckets")
    if buckets is not None and not rest.usual_buckets:
        settings["buckets"] = buckets if isinstance(buckets, list | tuple) else [buckets]
    if buckets is None and "lsh" in values.get("attn_layers", ("lsh",)):
        raise InputError(
            f"{where}.num_buckets is null, and transformers then takes a number that depends on the first text it reads; "
            "write the number that the model was trained with, a power of two near twice the length over the chunk length"
        )
    if values.get("axial_pos_embds", True):
        settings["axial_shape"] = values.get("axial_pos_shape", (64, 64))
        settings["axial_widths"] = values.get("axial_pos_embds_dim", (64, 192))
    bias = tensors.get(BIAS)
    settings["output_bias"] = bias is not None and bool(bias.any())
    end = rest.end_id if rest.end_id is not None else values.get("eos_token_id", 2)
    padding = rest.padding_id if rest.padding_id is not None else values.get("pad_token_id", 0)
    settings["end_id"] = end[0] if isinstance(end, list) and len(end) == 1 else end
    settings["padding_id"] = settings["end_id"] if padding is None else padding
    try:
        return from_mapping(ReformerConfig, settings | {"sets": "chunk"}, where)
    except InputError as error:
        raise InputError(in_their_words(str(error), {**NAMES, **OTHERS}, where)) from error


def tensors_to_theirs(config: ReformerConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our parameters under their names; axial vectors as tables that broadcast."""
    renamed = name_table(config).to_theirs(tensors)
    if not config.output_bias:
        output = tensors["output.weight"]
        renamed[BIAS] = torch.zeros(len(output), dtype=output.dtype, device=output.device)
    if config.axial_shape:
        row, column = AXIAL
        renamed[row], renamed[column] = renamed[row].unsqueeze(1), renamed[column].unsqueeze(0)
    return renamed


def tensors_to_ours(config: ReformerConfig, tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """Their tensors under our names.

    Raises:
        InputError: naming every tensor that is missing, not known or of another shape, as the file calls it.
    """
    given = {name: tensor for name, tensor in tensors.items() if name != REPEATED}
    with shapes_only():
        wanted = tensors_to_theirs(config, dict(Reformer(config).named_parameters()))
    check_same({name: tuple(tensor.shape) for name, tensor in wanted.items()}, given, where)
    if config.axial_shape:
        row, column = AXIAL
        given[row], given[column] = given[row].squeeze(1), given[column].squeeze(0)
    if not config.output_bias:
        del given[BIAS]
    return name_table(config).to_ours(given)


def name_table(config: ReformerConfig) -> NameTable:
    """Our names of a model's parameters and theirs."""
    rules = [Rule(("embedding.tokens.weight",), "reformer.embeddings.word_embeddings.weight")]
    if config.axial_shape:
        rules += [
            Rule((f"embedding.positions.{part}",), name) for part, name in zip(("row", "column"), AXIAL, strict=True)
        ]
    else:
        rules.append(Rule(("embedding.positions.weight",), POSITIONS + "embedding.weight"))
    for index, kind in enumerate(config.layers):
        ours, theirs = f"layers.{index}.", f"reformer.encoder.layers.{index}."
        parts = (
            {"query": "query_key", "value": "value"}
            if kind == "lsh"
            else {part: part for part in ("query", "key", "value")}
        )
        for mine, other in parts.items():
            rules.append(Rule((f"{ours}attention.{mine}.weight",), f"{theirs}attention.self_attention.{other}.weight"))
        rules.append(Rule((f"{ours}attention.output.weight",), f"{theirs}attention.output.dense.weight"))
    for kind in ("weight", "bias"):
        for mine, other in (
            ("attention_norm", "attention.layer_norm"),
            ("feedforward_norm", "feed_forward.layer_norm"),
            ("feedforward.inner", "feed_forward.dense.dense"),
            ("feedforward.outer", "feed_forward.output.dense"),
        ):
            rules.append(Rule((f"layers.{{i}}.{mine}.{kind}",), f"reformer.encoder.layers.{{i}}.{other}.{kind}"))
        rules.append(Rule((f"norm.{kind}",), f"reformer.encoder.layer_norm.{kind}"))
    rules += [Rule(("output.weight",), "lm_head.decoder.weight"), Rule(("output.bias",), BIAS)]
    return NameTable(tuple(rules))
