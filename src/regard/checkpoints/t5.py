"""Hugging Face's layout of T5, both ways, and its mT5, which is T5 1.1 with another vocabulary, from there.

The bias by distance stands in the first block of each stack there. Old files repeat the table of embeddings, and have a second
bias, of the attention over the source, that nothing reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from torch import Tensor

from regard.checkpoints.names import NameTable, Rule, in_their_words
from regard.checkpoints.tensors import check_same
from regard.errors import InputError, nearest
from regard.layers import Activation
from regard.models import T5, T5Config
from regard.models.config import shapes_only
from regard.structure import from_mapping

ACTIVATIONS: Mapping[Activation, tuple[str, ...]] = {
    "relu": ("relu",),
    "gelu": ("gelu",),
    "gelu_tanh": ("gelu_new", "gelu_pytorch_tanh", "gelu_fast"),
    "swish": ("silu", "swish"),
}
"""Our names and theirs, the one that is written first."""

GATED, GATED_GELU = "gated-", "gated-gelu"
"""What comes before the name of an activation that gates; what T5 1.1 has, whose GELU is the approximation."""

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "t5": {},
    "mt5": {
        "vocab_size": 250_112,
        "d_ff": 1024,
        "num_layers": 8,
        "num_heads": 6,
        "feed_forward_proj": GATED_GELU,
        "tie_word_embeddings": False,
    },
}
"""What a config.json means by leaving a key out, where it is something else than with T5."""

NAMES: Mapping[str, str] = {
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
}
"""Our names of a config's fields and theirs."""

SCALED = ("t5",)
"""Whose outputs may be scaled: those of an mT5 never are, whether it has one table or two."""

TABLE, OUTPUT = "shared.weight", "lm_head.weight"
REPEATED = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
UNUSED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenConfig:
    """What a config.json of Hugging Face says of a T5, under its names; what is not here changes no output."""

    vocab_size: int = 32_128
    d_model: int = 512
    d_kv: int = 64
    d_ff: int = 2048
    num_layers: int = 6
    num_decoder_layers: int | None = None
    num_heads: int = 8
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    dropout_rate: float = 0.1
    layer_norm_epsilon: float = 1e-6
    feed_forward_proj: str = "relu"
    tie_word_embeddings: bool = True
    scale_decoder_outputs: bool | None = None
    pad_token_id: int = 0
    eos_token_id: int = 1
    decoder_start_token_id: int | None = None

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str) -> OpenConfig:
        """The config in a config.json.

        Raises:
            InputError: for what is of another type.
        """
        if values.get("is_encoder_decoder") is False:
            raise InputError(f"{where}.is_encoder_decoder is False; a T5 is an encoder and a decoder, set it to true")
        known = {part.name for part in fields(cls)}
        said = {key: value for key, value in values.items() if key in known and value is not None}
        return from_mapping(cls, {**DEFAULTS[str(values["model_type"])], **said}, where)


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsaid:
    """What their config.json cannot say; regard.json keeps it."""

    alignment_layer: int = -1


def obstacle(config: T5Config) -> str:
    """Why a model cannot be told in this layout, as half a sentence; empty where it can."""
    if config.scaled_output != (config.sharing == "all"):
        return "the output is scaled where it has a table of its own, or is not where it shares one"
    if config.gated and config.activation == "gelu":
        return "the exact GELU gates, where theirs is the approximation"
    return ""


def family_of(config: T5Config) -> str:
    """What Hugging Face calls a model of this config."""
    return config.model_type


def config_to_theirs(config: T5Config, dtype: torch.dtype) -> dict[str, Any]:
    """The content of their config.json."""
    said = OpenConfig(
        vocab_size=config.target_vocabulary,
        d_model=config.width,
        d_kv=config.head_width,
        d_ff=config.feedforward_width,
        num_layers=config.encoder_layers,
        num_decoder_layers=config.decoder_layers,
        num_heads=config.heads,
        relative_attention_num_buckets=config.buckets,
        relative_attention_max_distance=config.maximum_distance,
        dropout_rate=config.dropout,
        layer_norm_epsilon=config.norm_epsilon,
        feed_forward_proj=_projection(config),
        tie_word_embeddings=config.sharing == "all",
        scale_decoder_outputs=config.scaled_output,
        pad_token_id=config.padding_id,
        eos_token_id=config.end_id,
        decoder_start_token_id=config.start_id,
    )
    return {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "dtype": str(dtype).removeprefix("torch."),
        **asdict(said),
        "is_encoder_decoder": True,
        "use_cache": True,
    }


def unsaid(config: T5Config) -> dict[str, Any]:
    """What `config_to_theirs` could not say."""
    return asdict(Unsaid(alignment_layer=config.alignment_layer))


def config_to_ours(
    values: Mapping[str, Any], said: Mapping[str, Any] | None, tensors: Mapping[str, Tensor], where: str
) -> T5Config:
    """Our config from their config.json.

    Arguments:
        values: the content of config.json.
        said: what regard.json keeps beside it; None for a folder made elsewhere.
        tensors: those of the file: an output with a table of its own is there, whatever the config says.
        where: what messages call config.json.

    Raises:
        InputError: for what is of another type, or not to be had in our T5.
    """
    theirs = OpenConfig.read(values, where)
    rest = from_mapping(Unsaid, said or {}, f"{where} (with regard.json: layout.unsaid)")
    # That of T5 1.1 is not. Old configs tell the version by `tie_word_embeddings` alone; in new ones that is always true.
    scaled = theirs.tie_word_embeddings if theirs.scale_decoder_outputs is None else theirs.scale_decoder_outputs
    scaled = scaled and values["model_type"] in SCALED
    gated, activation = _activation(theirs.feed_forward_proj, where)
    start = theirs.decoder_start_token_id
    try:
        return T5Config(
            source_vocabulary=theirs.vocab_size,
            target_vocabulary=theirs.vocab_size,
            width=theirs.d_model,
            heads=theirs.num_heads,
            head_width=theirs.d_kv,
            feedforward_width=theirs.d_ff,
            encoder_layers=theirs.num_layers,
            decoder_layers=theirs.num_layers if theirs.num_decoder_layers is None else theirs.num_decoder_layers,
            activation=activation,
            gated=gated,
            buckets=theirs.relative_attention_num_buckets,
            maximum_distance=theirs.relative_attention_max_distance,
            sharing="inputs" if OUTPUT in tensors and not scaled else "all",
            scaled_output=scaled,
            dropout=theirs.dropout_rate,
            norm_epsilon=theirs.layer_norm_epsilon,
            alignment_layer=rest.alignment_layer,
            padding_id=theirs.pad_token_id,
            start_id=theirs.pad_token_id if start is None else start,
            end_id=theirs.eos_token_id,
        )
    except InputError as error:
        raise InputError(in_their_words(str(error), NAMES, where)) from error


def _projection(config: T5Config) -> str:
    """Their name of the feed-forward nets."""
    if not config.gated:
        return ACTIVATIONS[config.activation][0]
    return GATED_GELU if config.activation == "gelu_tanh" else GATED + ACTIVATIONS[config.activation][0]


def _activation(name: str, where: str) -> tuple[bool, Activation]:
    """Whether the feed-forward nets of their name are gated, and by what."""
    if name == GATED_GELU:
        return True, "gelu_tanh"
    gated = name.startswith(GATED)
    for ours, theirs in ACTIVATIONS.items():
        if name.removeprefix(GATED) in theirs:
            return gated, ours
    known = [name for names in ACTIVATIONS.values() for name in names]
    choices = [*known, *(GATED + each for each in known)]
    raise InputError(f"{where}.feed_forward_proj is {name!r}; {nearest(name, choices)}")


def tensors_to_theirs(config: T5Config, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our parameters under their names."""
    return name_table(config).to_theirs(tensors)


def tensors_to_ours(config: T5Config, tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """Their tensors under our names.

    Raises:
        InputError: naming every tensor that is missing, not known or of another shape, as the file calls it, and a second table
            where the model has one.
    """
    found = dict(tensors)
    found.pop(UNUSED, None)
    for name in REPEATED if config.sharing == "inputs" else (*REPEATED, OUTPUT):
        repeated = found.pop(name, None)
        if repeated is not None and TABLE not in found:
            found[TABLE] = repeated
        elif repeated is not None and not torch.equal(repeated, found[TABLE]):
            raise InputError(f"{where}: {name} differs from {TABLE}; Regard's T5 has one table for both")
    names = name_table(config)
    with shapes_only():
        wanted = names.to_theirs(dict(T5(config).named_parameters()))
    check_same({name: tuple(tensor.shape) for name, tensor in wanted.items()}, found, where)
    return names.to_ours(found)


def name_table(config: T5Config) -> NameTable:
    """Our names of a model's parameters and theirs."""
    rules = [Rule(("encoder.embedding.weight",), TABLE)]
    if config.sharing == "inputs":
        rules.append(Rule(("output.weight",), OUTPUT))
    inner = {"gate": "wi_0", "inner": "wi_1", "outer": "wo"} if config.gated else {"inner": "wi", "outer": "wo"}
    for stack in ("encoder", "decoder"):
        ours, theirs = f"{stack}.layers.{{i}}.", f"{stack}.block.{{i}}.layer."
        parts = [("attention", "SelfAttention", "attention_residual")]
        if stack == "decoder":
            parts.append(("cross_attention", "EncDecAttention", "cross_residual"))
        for place, (mine, other, residual) in enumerate(parts):
            for short in ("query", "key", "value", "output"):
                rules.append(Rule((f"{ours}{mine}.{short}.weight",), f"{theirs}{place}.{other}.{short[0]}.weight"))
            rules.append(Rule((f"{ours}{residual}.before.weight",), f"{theirs}{place}.layer_norm.weight"))
        last = len(parts)
        for mine, other in inner.items():
            rules.append(Rule((f"{ours}feedforward.{mine}.weight",), f"{theirs}{last}.DenseReluDense.{other}.weight"))
        rules.append(Rule((f"{ours}feedforward_residual.before.weight",), f"{theirs}{last}.layer_norm.weight"))
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        rules.append(Rule((f"{stack}.relative.weight",), bias))
        rules.append(Rule((f"{stack}.norm.weight",), f"{stack}.final_layer_norm.weight"))
    return NameTable(tuple(rules))
