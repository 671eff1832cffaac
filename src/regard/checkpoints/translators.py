"""Hugging Face's layouts of encoder-decoder models: our Transformer as Marian, Pegasus or BART; T5.

A post-norm Transformer is written as Marian, a pre-norm one as Pegasus, and one with learned positions and normalised embeddings
as BART.

Marian and Pegasus differ from ours not only in names. Their sinusoidal positions are all sines, then all cosines, so all axes of
the model's channels are reordered; every projection has a bias, which is zero if ours has none; the logits have a constant bias
that excludes padding. The epsilon of norms and the scales of scores and embeddings are fixed. Nothing is computed: a model is
equal after writing and reading, bit for bit.

T5's bias by distance is in the first block of each stack there. Old files repeat the table of embeddings, and have a second bias
in the attention over the source, which is not used. mT5 is T5 1.1 with another vocabulary; it is read but not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.checkpoints.hf_format import ACTIVATIONS, Constant, HFFormat, HFTensor, Reading, TensorTable
from regard.errors import InputError, nearest
from regard.layers import NEVER, OutputBias
from regard.models.t5 import T5Config
from regard.models.transformer import TransformerConfig

# --- Marian and Pegasus -----------------------------------------------------------------------------------------

BIAS = "final_logits_bias"


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerExtra:
    """The settings that Hugging Face's config.json does not have; the defaults are for folders of other programs.

    Arguments:
        attention_bias: whether the attention projections have trained biases.
        output_bias: the kind of the bias of the logits.
        alignment_layer: as in our config.
    """

    attention_bias: bool = True
    output_bias: OutputBias = "trained"
    alignment_layer: int = -1


def _transformer_tokens(config: TransformerConfig) -> str:
    """Why its special tokens cannot be written, as half a sentence."""
    if config.start_id != config.padding_id:
        return "a target does not start with the padding token"
    if config.padding_id == config.end_id:
        return "padding is also the end token"
    if config.norm == "post" and config.padding_id != config.target_vocabulary - 1:
        return "the padding token is not the last one"
    return ""


def _output_bias_from_hf(reading: Reading) -> dict[str, Any]:
    """The kind of the bias of the logits; in a folder of another program it is found from the bias itself."""
    if not reading.foreign:
        return {}
    bias = reading.tensors.get(BIAS)
    if bias is None or not bias.any():
        return {"output_bias": "none"}
    padding = reading.settings.get("padding_id")
    if not isinstance(padding, int) or bias.dim() != 2:
        return {"output_bias": "trained"}
    only_padding = torch.equal(bias, _ruling_out(padding, bias.shape[1]).to(bias.dtype))
    return {"output_bias": "padding" if only_padding else "trained"}


def _ruling_out(padding: int | None, vocabulary: int) -> Tensor:
    """The bias of the logits that excludes padding; zeros if there is no padding token."""
    bias = torch.zeros(1, vocabulary)
    if padding is not None and -vocabulary <= padding < vocabulary:
        bias[0, padding] = NEVER
    return bias


def _transformer_constants(config: TransformerConfig) -> dict[str, Constant]:
    """The tensors of their file that are constant in our model: the bias of the logits, positions, and biases of projections."""
    constants = _biases(config)
    for stack in ("encoder", "decoder"):
        positions = _sines_then_cosines(config.maximum_positions, config.width)
        name = f"model.{stack}.embed_positions.weight"  # files of Marian do not have them
        constants[name] = Constant(positions, "sinusoids", 1e-3, optional=True, written=config.norm == "pre")
    return constants


def _biases(config: TransformerConfig) -> dict[str, Constant]:
    """The bias of the logits and the biases of projections, if ours has none."""
    constants: dict[str, Constant] = {}
    if config.output_bias != "trained":
        bias = _ruling_out(config.ruled_out, config.target_vocabulary)
        constants[BIAS] = Constant(bias, "zero except for padding", optional=True)
    for stack, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for layer in range(0 if config.attention_bias else layers):
            for attention in ("self_attn", "encoder_attn")[: 1 if stack == "encoder" else 2]:
                for part in ("q", "k", "v", "out"):
                    name = f"model.{stack}.layers.{layer}.{attention}.{part}_proj.bias"
                    constants[name] = Constant(torch.zeros(config.width))
    return constants


def _sines_then_cosines(count: int, width: int) -> Tensor:
    """Sinusoidal positions in their order of channels, (count, D)."""
    places = np.arange(count, dtype=np.float64)[:, None]
    frequencies = np.power(10000.0, np.arange(0, width, 2, dtype=np.float64) / width)
    angles = places / frequencies
    return torch.from_numpy(np.concatenate((np.sin(angles), np.cos(angles)), axis=1)).float()


def reads(name: str) -> HFTensor:
    """A matrix whose input is the model's channels."""
    return HFTensor(name, channels=(1,))


def gives(name: str) -> HFTensor:
    """The parameters whose output is the model's channels: a matrix and its bias, or a norm."""
    return HFTensor(name, channels=(0,))


def _transformer_tensors(slot: str) -> TensorTable:
    """The names of all tensors.

    Arguments:
        slot: the position of norms: `after` or `before` each sub-layer.
    """
    table: dict[str, str | HFTensor] = {
        "encoder.embedding.tokens.weight": reads("model.shared.weight"),
        "output.bias": HFTensor(BIAS, unsqueezed=0),
    }
    for stack in ("encoder", "decoder"):
        ours, theirs = f"{stack}.layers.{{i}}", f"model.{stack}.layers.{{i}}"
        for mine, other, residual in (
            ("attention", "self_attn", "attention_residual"),
            ("cross_attention", "encoder_attn", "cross_residual"),  # only in the decoder
        ):
            table |= {
                f"{ours}.{mine}.query.weight": reads(f"{theirs}.{other}.q_proj.weight"),
                f"{ours}.{mine}.key.weight": reads(f"{theirs}.{other}.k_proj.weight"),
                f"{ours}.{mine}.value.weight": reads(f"{theirs}.{other}.v_proj.weight"),
                f"{ours}.{mine}.query.bias": f"{theirs}.{other}.q_proj.bias",
                f"{ours}.{mine}.key.bias": f"{theirs}.{other}.k_proj.bias",
                f"{ours}.{mine}.value.bias": f"{theirs}.{other}.v_proj.bias",
                f"{ours}.{mine}.output.{{*}}": gives(f"{theirs}.{other}.out_proj.{{*}}"),
                f"{ours}.{residual}.{slot}.{{*}}": gives(f"{theirs}.{other}_layer_norm.{{*}}"),
            }
        table |= {
            f"{ours}.feedforward.inner.weight": reads(f"{theirs}.fc1.weight"),
            f"{ours}.feedforward.inner.bias": f"{theirs}.fc1.bias",
            f"{ours}.feedforward.outer.{{*}}": gives(f"{theirs}.fc2.{{*}}"),
            f"{ours}.feedforward_residual.{slot}.{{*}}": gives(f"{theirs}.final_layer_norm.{{*}}"),
            f"{stack}.norm.{{*}}": gives(f"model.{stack}.layer_norm.{{*}}"),
        }
    return table


MARIAN = HFFormat(
    model_type="marian",
    title="Marian",
    configs=(TransformerConfig,),
    architecture="MarianMTModel",
    fields={
        "source_vocabulary": "vocab_size",
        "target_vocabulary": "vocab_size",
        "width": "d_model",
        "encoder_layers": "encoder_layers",
        "decoder_layers": "decoder_layers",
        "heads": "encoder_attention_heads",
        "feedforward_width": "encoder_ffn_dim",
        "maximum_positions": "max_position_embeddings",
        "activation": "activation_function",
        "padding_id": "pad_token_id",
        "end_id": "eos_token_id",
        "start_id": "decoder_start_token_id",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "feedforward_dropout": "activation_dropout",
    },
    activations={"relu": ("relu",), "gelu": ("gelu",), "swish": ("swish", "silu")},
    defaults={"scale_embedding": False},
    required=(
        *("vocab_size", "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "encoder_ffn_dim"),
        *("decoder_attention_heads", "decoder_ffn_dim", "max_position_embeddings", "activation_function"),
        *("pad_token_id", "eos_token_id", "decoder_start_token_id"),
    ),
    common_names={
        "hidden_size": "d_model",
        "num_attention_heads": "encoder_attention_heads",
        "num_hidden_layers": "encoder_layers",
    },
    must_be={"scale_embedding": True, "share_encoder_decoder_embeddings": True, "tie_word_embeddings": True},
    must_agree={
        "decoder_attention_heads": "encoder_attention_heads",
        "decoder_ffn_dim": "encoder_ffn_dim",
        "decoder_vocab_size": "vocab_size",
    },
    implied={
        "norm": "post",
        "sharing": "all",
        "positions": "sinusoidal",
        "first_position": 0,
        "scaled_embedding": True,
        "embedding_norm": False,
        "scale_power": 0.5,
        "score": "scaled_dot",
        "alignment": "softmax",
        "norm_epsilon": 1e-5,  # fixed for every layer norm in their code
    },
    written={
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "is_encoder_decoder": True,
        "use_cache": True,
        "bos_token_id": None,
        "forced_eos_token_id": None,
        # CTranslate2 uses these settings of the norms to build its stacks.
        "normalize_before": False,
        "add_final_layer_norm": False,
        "normalize_embedding": False,
        "static_position_embeddings": True,
    },
    ignored={
        "add_bias_logits": "the file has the bias of the logits",
        "extra_pos_embeddings": "the file has the positions",
        "gelu_activation": "another name of activation_function in old files",
    },
    unwritten={"relative_distance": "used for relative positions only"},
    extra=TransformerExtra,
    unsupported=_transformer_tokens,
    to_hf=(
        lambda config: {
            "decoder_attention_heads": config.heads,
            "decoder_ffn_dim": config.feedforward_width,
            "decoder_vocab_size": config.target_vocabulary,
            "num_hidden_layers": config.encoder_layers,
        },
    ),
    from_hf=(_output_bias_from_hf,),
    tensors=_transformer_tensors("after"),
    repeated=dict.fromkeys(
        ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"),
        "model.shared.weight",
    ),
    constants=_transformer_constants,
    converted="equal",
)

PEGASUS = replace(
    MARIAN,
    model_type="pegasus",
    title="Pegasus",
    architecture="PegasusForConditionalGeneration",
    implied={**MARIAN.implied, "norm": "pre"},
    written={**MARIAN.written, "normalize_before": True, "add_final_layer_norm": True},
    tensors=_transformer_tensors("before"),
)

# --- BART -------------------------------------------------------------------------------------------------------


def _bart_tokens(config: TransformerConfig) -> str:
    """Why its special tokens cannot be written, as half a sentence."""
    return "padding is also the end token" if config.padding_id == config.end_id else ""


def _bart_tensors() -> TensorTable:
    """The names of all tensors. Positions are learned, so channels have the same order."""
    table: dict[str, str | HFTensor] = {
        ours: HFTensor(theirs.name, unsqueezed=theirs.unsqueezed) if isinstance(theirs, HFTensor) else theirs
        for ours, theirs in _transformer_tensors("after").items()
    }
    for stack in ("encoder", "decoder"):
        table |= {
            f"{stack}.embedding.positions.weight": f"model.{stack}.embed_positions.weight",
            f"{stack}.embedding.norm.{{*}}": f"model.{stack}.layernorm_embedding.{{*}}",
        }
    return table


BART = replace(
    MARIAN,
    model_type="bart",
    title="BART",
    architecture="BartForConditionalGeneration",
    fields={**MARIAN.fields, "scaled_embedding": "scale_embedding"},
    must_be={
        "tie_word_embeddings": True,
        # In old files: mBART is a BART with other values of these.
        "normalize_before": False,
        "add_final_layer_norm": False,
        "normalize_embedding": True,
        "static_position_embeddings": False,
    },
    must_agree={
        "decoder_attention_heads": "encoder_attention_heads",
        "decoder_ffn_dim": "encoder_ffn_dim",
    },
    implied={
        **{name: value for name, value in MARIAN.implied.items() if name != "scaled_embedding"},
        "positions": "learned",
        "first_position": 2,
        "embedding_norm": True,
    },
    written={
        "tie_word_embeddings": True,
        "is_encoder_decoder": True,
        "use_cache": True,
        "bos_token_id": None,
        "forced_eos_token_id": None,
        "normalize_before": False,
        "add_final_layer_norm": False,
        "normalize_embedding": True,
        "static_position_embeddings": False,
    },
    unsupported=_bart_tokens,
    to_hf=(
        lambda config: {
            "decoder_attention_heads": config.heads,
            "decoder_ffn_dim": config.feedforward_width,
            "num_hidden_layers": config.encoder_layers,
        },
    ),
    tensors=_bart_tensors(),
    prefix="model.",  # files of a model without a head have no prefix
    outside=(BIAS, "lm_head."),
    constants=_biases,
)

# --- T5 and mT5 -------------------------------------------------------------------------------------------------

GATED, GATED_GELU = "gated-", "gated-gelu"
"""The prefix of the names of gated activations; the name for T5 1.1, whose GELU is the tanh approximation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class T5Extra:
    """The settings that Hugging Face's config.json does not have."""

    alignment_layer: int = -1


def _t5_between_versions(config: T5Config) -> str:
    """Why it is neither T5 1.0 nor 1.1, as half a sentence."""
    if config.scaled_output != (config.sharing == "all"):
        return "the output must be scaled if it shares the embedding's table, and not scaled if it has its own"
    if config.gated and config.activation == "gelu":
        return "the gate is the exact GELU, and this layout has the approximation"
    return ""


def _feedforward_to_hf(config: T5Config) -> dict[str, Any]:
    """Their name of the activation, which includes whether it is gated."""
    name = ACTIVATIONS[config.activation][0]
    if config.gated:
        name = GATED_GELU if config.activation == "gelu_tanh" else GATED + name
    return {"feed_forward_proj": name}


def _feedforward_from_hf(reading: Reading) -> dict[str, Any]:
    name = _given(reading, "feed_forward_proj", "relu")
    if name == GATED_GELU:
        return {"gated": True, "activation": "gelu_tanh"}
    known = [each for names in ACTIVATIONS.values() for each in names]
    if not isinstance(name, str) or name.removeprefix(GATED) not in known:
        where = f"{reading.where}.feed_forward_proj"
        raise InputError(f"{where} is {name!r}; {nearest(str(name), [*known, *(GATED + each for each in known)])}")
    plain = name.removeprefix(GATED)
    return {
        "gated": name.startswith(GATED),
        "activation": next(ours for ours, theirs in ACTIVATIONS.items() if plain in theirs),
    }


def _sharing_to_hf(config: T5Config) -> dict[str, Any]:
    return {"tie_word_embeddings": config.sharing == "all", "scale_decoder_outputs": config.scaled_output}


def _sharing_from_hf(reading: Reading) -> dict[str, Any]:
    """Whether the output shares the embedding's table, and whether it is scaled.

    The output of T5 1.1 is not scaled. Old configs identify the version by `tie_word_embeddings` only; in new ones it is always
    true. The output of an mT5 is never scaled, with one table or two. Whether the output has its own table depends on the file.
    """
    tied = _given(reading, "tie_word_embeddings", True)
    said = _given(reading, "scale_decoder_outputs", tied)
    for key, value in (("tie_word_embeddings", tied), ("scale_decoder_outputs", said)):
        if not isinstance(value, bool):
            raise InputError(f"{reading.where}.{key} is {value!r}; it must be true or false")
    scaled = said and reading.values["model_type"] == "t5"
    own = "lm_head.weight" in reading.tensors and not scaled
    return {"sharing": "inputs" if own else "all", "scaled_output": scaled}


def _depth_from_hf(reading: Reading) -> dict[str, Any]:
    """The number of decoder layers; by default that of the encoder."""
    settings = reading.settings
    return {} if "decoder_layers" in settings else {"decoder_layers": settings["encoder_layers"]}


def _start_from_hf(reading: Reading) -> dict[str, Any]:
    """The first token of a target; by default the padding token."""
    settings = reading.settings
    return {} if "start_id" in settings else {"start_id": settings["padding_id"]}


def _given(reading: Reading, key: str, default: Any) -> Any:
    """The value of a field of theirs, or `default` if it is missing or null."""
    value = reading.values.get(key)
    return reading.defaults.get(key, default) if value is None else value


def _t5_tensors(config: T5Config) -> TensorTable:
    """The names of all tensors; the output has its own table, or shares that of the inputs."""
    table = {"encoder.embedding.weight": "shared.weight"}
    if config.sharing == "inputs":
        table["output.weight"] = "lm_head.weight"
    inner = {"gate": "wi_0", "inner": "wi_1", "outer": "wo"} if config.gated else {"inner": "wi", "outer": "wo"}
    for stack, last in (("encoder", 1), ("decoder", 2)):
        ours, theirs = f"{stack}.layers.{{i}}", f"{stack}.block.{{i}}.layer"
        table |= {
            f"{ours}.attention.query.weight": f"{theirs}.0.SelfAttention.q.weight",
            f"{ours}.attention.key.weight": f"{theirs}.0.SelfAttention.k.weight",
            f"{ours}.attention.value.weight": f"{theirs}.0.SelfAttention.v.weight",
            f"{ours}.attention.output.weight": f"{theirs}.0.SelfAttention.o.weight",
            f"{ours}.attention_residual.before.weight": f"{theirs}.0.layer_norm.weight",
        }
        if stack == "decoder":
            table |= {
                f"{ours}.cross_attention.query.weight": f"{theirs}.1.EncDecAttention.q.weight",
                f"{ours}.cross_attention.key.weight": f"{theirs}.1.EncDecAttention.k.weight",
                f"{ours}.cross_attention.value.weight": f"{theirs}.1.EncDecAttention.v.weight",
                f"{ours}.cross_attention.output.weight": f"{theirs}.1.EncDecAttention.o.weight",
                f"{ours}.cross_residual.before.weight": f"{theirs}.1.layer_norm.weight",
            }
        for mine, other in inner.items():
            table[f"{ours}.feedforward.{mine}.weight"] = f"{theirs}.{last}.DenseReluDense.{other}.weight"
        table |= {
            f"{ours}.feedforward_residual.before.weight": f"{theirs}.{last}.layer_norm.weight",
            f"{stack}.relative.weight": f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            f"{stack}.norm.weight": f"{stack}.final_layer_norm.weight",
        }
    return table


T5 = HFFormat(
    model_type="t5",
    title="T5",
    configs=(T5Config,),
    architecture="T5ForConditionalGeneration",
    fields={
        "source_vocabulary": "vocab_size",
        "target_vocabulary": "vocab_size",
        "width": "d_model",
        "heads": "num_heads",
        "head_width": "d_kv",
        "feedforward_width": "d_ff",
        "encoder_layers": "num_layers",
        "decoder_layers": "num_decoder_layers",
        "buckets": "relative_attention_num_buckets",
        "maximum_distance": "relative_attention_max_distance",
        "dropout": "dropout_rate",
        "norm_epsilon": "layer_norm_epsilon",
        "padding_id": "pad_token_id",
        "start_id": "decoder_start_token_id",
        "end_id": "eos_token_id",
    },
    special_fields={
        "activation": "feed_forward_proj",
        "gated": "feed_forward_proj",
        "sharing": "tie_word_embeddings",
        "scaled_output": "scale_decoder_outputs",
    },
    defaults={"vocab_size": 32_128, "num_layers": 6, "pad_token_id": 0, "eos_token_id": 1},
    common_names={
        "hidden_size": "d_model",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_layers",
        "head_dim": "d_kv",
    },
    must_be={"is_encoder_decoder": True},
    written={"is_encoder_decoder": True, "use_cache": True},
    ignored={
        "n_positions": "positions are not limited",
        "dense_act_fn": "the same as feed_forward_proj, which is followed",
        "is_gated_act": "the same as feed_forward_proj, which is followed",
    },
    extra=T5Extra,
    unsupported=_t5_between_versions,
    to_hf=(_feedforward_to_hf, _sharing_to_hf),
    from_hf=(_feedforward_from_hf, _sharing_from_hf, _depth_from_hf, _start_from_hf),
    tensors=_t5_tensors,
    repeated=dict.fromkeys(
        ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"), "shared.weight"
    ),
    ignored_tensors=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),
    converted="padded",
)

MT5_DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 250_112,
    "d_ff": 1024,
    "num_layers": 8,
    "num_heads": 6,
    "feed_forward_proj": GATED_GELU,
    "tie_word_embeddings": False,
}
MT5 = replace(T5, model_type="mt5", title="mT5", defaults={**T5.defaults, **MT5_DEFAULTS})
