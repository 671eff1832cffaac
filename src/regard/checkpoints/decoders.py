"""Hugging Face's layouts of language models: GPT, GPT-2 (also for our GPT-3) and the Reformer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from regard.attention.lsh import usual_buckets
from regard.checkpoints.hf_format import ACTIVATIONS, Constant, HFFormat, HFTensor, Reading, TensorTable
from regard.errors import InputError
from regard.models.gpt import GPT2Config, GPT3Config, GPTConfig
from regard.models.reformer import ReformerConfig

# --- GPT and GPT-2 ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class GPTExtra:
    """The settings that Hugging Face's config.json does not have."""

    family: str | None = None
    padding_id: int | None = None
    end_id: int | None = None
    scaled_residuals: bool | None = None


def _gpt_extra(config: Any) -> dict[str, Any]:
    kept = {"family": config.model_type, "padding_id": config.padding_id, "end_id": config.end_id}
    return kept if isinstance(config, GPT3Config) else {**kept, "scaled_residuals": config.scaled_residuals}


def _gpt_tokens_to_hf(config: Any) -> dict[str, Any]:
    """The end token is also the first token of a text."""
    return {"bos_token_id": config.end_id, "eos_token_id": config.end_id, "pad_token_id": config.padding_id}


def _gpt_tokens_from_hf(reading: Reading) -> dict[str, Any]:
    """The ids of end and padding token. If the config has no end token, it is GPT's first id, <unk>, or GPT-2's last."""
    vocabulary = reading.settings.get("vocabulary")
    last = 0 if reading.values["model_type"] == "openai-gpt" or not isinstance(vocabulary, int) else vocabulary - 1
    end = _first(reading.extra.end_id, reading.values.get("eos_token_id"), last)
    padding = _first(reading.extra.padding_id, reading.values.get("pad_token_id"))
    reading.words |= {"end_id": "eos_token_id", "padding_id": "eos_token_id" if padding is None else "pad_token_id"}
    return {"end_id": end, "padding_id": _first(padding, end)}


def _first(*values: Any) -> Any:
    """The first value that is not None."""
    return next((value for value in values if value is not None), None)


def _gpt_width_from_hf(reading: Reading) -> dict[str, Any]:
    """The width of the feed-forward networks: four times the model's width unless GPT-2's config sets it."""
    width = reading.settings.get("width")
    return {"feedforward_width": reading.values.get("n_inner") or 4 * width} if isinstance(width, int) else {}


def _gpt_wide_enough(config: GPTConfig) -> str:
    if config.feedforward_width == 4 * config.width:
        return ""
    return f"the feed-forward networks have the width {config.feedforward_width}, and this layout four times the model's width"


GPT_FIELDS = {
    "vocabulary": "vocab_size",
    "width": "n_embd",
    "heads": "n_head",
    "layers": "n_layer",
    "maximum_positions": "n_positions",
    "dropout": "resid_pdrop",
    "embedding_dropout": "embd_pdrop",
    "attention_dropout": "attn_pdrop",
    "norm_epsilon": "layer_norm_epsilon",
    "init_std": "initializer_range",
}
GPT_COMMON_NAMES = {
    "hidden_size": "n_embd",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
    "max_position_embeddings": "n_positions",
}
GPT_NOT_OURS = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
GPT_IGNORED = {
    **dict.fromkeys(
        ("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout"),
        "settings of the second head of a class that is not read",
    ),
    "reorder_and_upcast_attn": "the order of a multiplication in half precision",
    "n_ctx": "another name of n_positions in old files",
    "predict_special_tokens": "a setting of old programs that no model uses",
}
GPT_MASKS = ("{*}.attn.bias", "{*}.attn.masked_bias", "transformer.position_ids")
"""Tensors of old files that are not parameters: the causal mask of every block, and the position numbers."""


def matrix_behind(name: str) -> HFTensor:
    """A matrix that is stored transposed, because the input is on its left, and its bias."""
    return HFTensor(name, transposed=True)


GPT_BLOCKS: TensorTable = {
    "layers.{i}.attention.{query,key,value}.{*}": matrix_behind("transformer.h.{i}.attn.c_attn.{*}"),
    "layers.{i}.attention.output.{*}": matrix_behind("transformer.h.{i}.attn.c_proj.{*}"),
    "layers.{i}.feedforward.inner.{*}": matrix_behind("transformer.h.{i}.mlp.c_fc.{*}"),
    "layers.{i}.feedforward.outer.{*}": matrix_behind("transformer.h.{i}.mlp.c_proj.{*}"),
}

GPT = HFFormat(
    model_type="openai-gpt",
    title="GPT",
    configs=(GPTConfig,),
    architecture="OpenAIGPTLMHeadModel",
    fields={**GPT_FIELDS, "activation": "afn"},
    # `gelu` in GPT's own code is the tanh approximation.
    activations={"gelu_tanh": ("gelu",), "relu": ("relu",), "swish": ("silu", "swish")},
    common_names=GPT_COMMON_NAMES,
    must_be=GPT_NOT_OURS,
    written={"tie_word_embeddings": True},
    ignored=GPT_IGNORED,
    extra=GPTExtra,
    unsupported=_gpt_wide_enough,
    to_hf=(_gpt_tokens_to_hf,),
    from_hf=(_gpt_tokens_from_hf, _gpt_width_from_hf),
    special_fields={"feedforward_width": "n_inner", "end_id": "eos_token_id", "padding_id": "pad_token_id"},
    extra_metadata=_gpt_extra,
    tensors={
        "embedding.tokens.weight": "transformer.tokens_embed.weight",
        "embedding.positions.weight": "transformer.positions_embed.weight",
        **GPT_BLOCKS,
        "layers.{i}.attention_residual.after.{*}": "transformer.h.{i}.ln_1.{*}",
        "layers.{i}.feedforward_residual.after.{*}": "transformer.h.{i}.ln_2.{*}",
    },
    prefix="transformer.",
    outside=("lm_head.",),
    repeated={"lm_head.weight": "transformer.tokens_embed.weight"},
    ignored_tensors=GPT_MASKS,
)

GPT2 = HFFormat(
    model_type="gpt2",
    title="GPT-2",
    configs=(GPT2Config, GPT3Config),
    architecture="GPT2LMHeadModel",
    fields={**GPT_FIELDS, "activation": "activation_function", "feedforward_width": "n_inner"},
    activations={"gelu_tanh": ACTIVATIONS["gelu_tanh"], **ACTIVATIONS},
    common_names=GPT_COMMON_NAMES,
    must_be=GPT_NOT_OURS,
    implied={"band": None},
    written={"tie_word_embeddings": True},
    ignored=GPT_IGNORED,
    extra=GPTExtra,
    to_hf=(_gpt_tokens_to_hf,),
    from_hf=(_gpt_tokens_from_hf, _gpt_width_from_hf),
    special_fields={"end_id": "eos_token_id", "padding_id": "pad_token_id"},
    extra_metadata=_gpt_extra,
    tensors={
        "embedding.tokens.weight": "transformer.wte.weight",
        "embedding.positions.weight": "transformer.wpe.weight",
        **GPT_BLOCKS,
        "layers.{i}.attention_residual.before.{*}": "transformer.h.{i}.ln_1.{*}",
        "layers.{i}.feedforward_residual.before.{*}": "transformer.h.{i}.ln_2.{*}",
        "norm.{*}": "transformer.ln_f.{*}",
    },
    prefix="transformer.",
    outside=("lm_head.",),
    repeated={"lm_head.weight": "transformer.wte.weight"},
    ignored_tensors=GPT_MASKS,
    converted="equal",
)

# --- Reformer ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class ReformerExtra:
    """The settings that Hugging Face's config.json does not have."""

    padding_id: int | None = None
    end_id: int | None = None
    usual_buckets: bool = False


def _reformer_extra(config: ReformerConfig) -> dict[str, Any]:
    return {"padding_id": config.padding_id, "end_id": config.end_id, "usual_buckets": not config.buckets}


def _buckets_to_hf(config: ReformerConfig) -> dict[str, Any]:
    buckets = config.buckets or usual_buckets(config.maximum_positions, config.chunk)
    return {"num_buckets": buckets[0] if len(buckets) == 1 else list(buckets)}


def _buckets_from_hf(reading: Reading) -> dict[str, Any]:
    buckets = reading.values.get("num_buckets")
    if buckets is None and "lsh" in reading.values.get("attn_layers", ("lsh",)):
        raise InputError(
            f"{reading.where}.num_buckets is null, and transformers then uses a number that depends on the first text that it "
            "reads; write the number of the model's training, a power of two near twice the length over the chunk length"
        )
    if buckets is None or reading.extra.usual_buckets:
        return {}
    return {"buckets": buckets if isinstance(buckets, list | tuple) else [buckets]}


def _axes_to_hf(config: ReformerConfig) -> dict[str, Any]:
    """The settings of axial positions (the vectors of a row and a column are concatenated), or of one vector per position."""
    if not config.axial_shape:
        return {"axial_pos_embds": False}
    shape, widths = list(config.axial_shape), list(config.axial_widths)
    return {"axial_pos_embds": True, "axial_pos_shape": shape, "axial_pos_embds_dim": widths}


def _axes_from_hf(reading: Reading) -> dict[str, Any]:
    values = reading.values
    if not values.get("axial_pos_embds", True):
        return {}
    return {
        "axial_shape": values.get("axial_pos_shape", (64, 64)),
        "axial_widths": values.get("axial_pos_embds_dim", (64, 192)),
    }


def _reformer_tokens_to_hf(config: ReformerConfig) -> dict[str, Any]:
    return {"bos_token_id": config.end_id, "eos_token_id": config.end_id, "pad_token_id": config.padding_id}


def _reformer_tokens_from_hf(reading: Reading) -> dict[str, Any]:
    end = _first(reading.extra.end_id, reading.values.get("eos_token_id", 2))
    end = end[0] if isinstance(end, list) and len(end) == 1 else end
    padding = _first(reading.extra.padding_id, reading.values.get("pad_token_id", 0))
    return {"end_id": end, "padding_id": end if padding is None else padding}


REFORMER_BIAS = "lm_head.bias"


def _bias_from_hf(reading: Reading) -> dict[str, Any]:
    """Whether the output has a bias; for a model of ours without one, theirs is zero."""
    bias = reading.tensors.get(REFORMER_BIAS)
    return {"output_bias": bias is not None and bool(bias.any())}


def _reformer_constants(config: ReformerConfig) -> dict[str, Constant]:
    return {} if config.output_bias else {REFORMER_BIAS: Constant(torch.zeros(config.vocabulary))}


def _reformer_tensors(config: ReformerConfig) -> TensorTable:
    """The names of the attention's tensors: blocks with hashing have one matrix for queries and keys, local blocks have two."""
    parts = {
        "lsh": {"query": "query_key", "value": "value"},
        "local": {"query": "query", "key": "key", "value": "value"},
    }
    attentions = {
        f"layers.{index}.attention.{ours}.weight": f"reformer.encoder.layers.{index}.attention.self_attention.{theirs}.weight"
        for index, kind in enumerate(config.layers)
        for ours, theirs in parts[kind].items()
    }
    positions = REFORMER_AXES if config.axial_shape else REFORMER_POSITIONS
    return {**positions, **attentions, **REFORMER_TENSORS}


REFORMER_AXES: TensorTable = {
    "embedding.positions.row": HFTensor("reformer.embeddings.position_embeddings.weights.0", unsqueezed=1),
    "embedding.positions.column": HFTensor("reformer.embeddings.position_embeddings.weights.1", unsqueezed=0),
}
REFORMER_POSITIONS: TensorTable = {
    "embedding.positions.weight": "reformer.embeddings.position_embeddings.embedding.weight",
}
REFORMER_TENSORS: TensorTable = {
    "embedding.tokens.weight": "reformer.embeddings.word_embeddings.weight",
    "layers.{i}.attention.output.{*}": "reformer.encoder.layers.{i}.attention.output.dense.{*}",
    "layers.{i}.attention_norm.{*}": "reformer.encoder.layers.{i}.attention.layer_norm.{*}",
    "layers.{i}.feedforward_norm.{*}": "reformer.encoder.layers.{i}.feed_forward.layer_norm.{*}",
    "layers.{i}.feedforward.inner.{*}": "reformer.encoder.layers.{i}.feed_forward.dense.dense.{*}",
    "layers.{i}.feedforward.outer.{*}": "reformer.encoder.layers.{i}.feed_forward.output.dense.{*}",
    "norm.{*}": "reformer.encoder.layer_norm.{*}",
    "output.weight": "lm_head.decoder.weight",
    "output.bias": REFORMER_BIAS,
}
REFORMER_NOT_OURS: Mapping[str, Any] = {
    "is_decoder": True,
    "lsh_num_chunks_after": 0,
    "local_num_chunks_after": 0,
    "tie_word_embeddings": False,
}
"""Settings that must have these values, because our model only attends to the left."""

REFORMER = HFFormat(
    model_type="reformer",
    title="Reformer",
    configs=(ReformerConfig,),
    architecture="ReformerModelWithLMHead",
    fields={
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
        "init_std": "initializer_range",
    },
    special_fields={
        "output_bias": "lm_head.bias, a tensor",
        "buckets": "num_buckets",
        "axial_shape": "axial_pos_shape",
        "axial_widths": "axial_pos_embds_dim",
        "end_id": "eos_token_id",
        "padding_id": "pad_token_id",
    },
    defaults={"hidden_act": "relu", "is_decoder": False},
    must_be=REFORMER_NOT_OURS,
    implied={"sets": "chunk"},
    written=REFORMER_NOT_OURS,
    ignored={
        "axial_pos_embds": "whether positions have two axes, which is followed",
        "num_hidden_layers": "as many as attn_layers names",
        "chunk_size_lm_head": "how many positions are computed at a time",
    },
    extra=ReformerExtra,
    to_hf=(_buckets_to_hf, _axes_to_hf, _reformer_tokens_to_hf),
    from_hf=(_buckets_from_hf, _axes_from_hf, _bias_from_hf, _reformer_tokens_from_hf),
    extra_metadata=_reformer_extra,
    tensors=_reformer_tensors,
    ignored_tensors=("lm_head.decoder.bias",),  # old files have the bias twice
    constants=_reformer_constants,
)
