"""Hugging Face's layouts of the encoder-decoder Transformer, both ways: Marian when post-norm, Pegasus when pre-norm.

What differs from ours, beside names: the sinusoids there are all sines, then all cosines, so every axis along which the model's
channels run is put in that order; every projection has a bias, zero where ours has none; the logits have a constant bias, by
which padding is ruled out. Epsilon of the norms, the scale of scores and embeddings are fixed. Nothing is computed: a model
goes there and back bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.checkpoints.names import NameTable, Rule, in_their_words
from regard.checkpoints.tensors import check_same
from regard.errors import InputError
from regard.layers import NEVER, NormPlacement, OutputBias
from regard.models import Transformer, TransformerConfig
from regard.models.config import shapes_only
from regard.structure import from_mapping

NORMS: Mapping[str, NormPlacement] = {"marian": "post", "pegasus": "pre"}
"""What Hugging Face calls the family, and where its layer norms stand."""

EPSILON = 1e-5
"""Of every layer norm there; their configs cannot say another."""

ARCHITECTURES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
ACTIVATIONS: Mapping[str, Literal["relu", "gelu", "swish"]] = {
    "relu": "relu",
    "gelu": "gelu",
    "swish": "swish",
    "silu": "swish",
}

NAMES: Mapping[str, str] = {
    "source_vocabulary": "vocab_size",
    "target_vocabulary": "vocab_size",
    "width": "d_model",
    "heads": "encoder_attention_heads",
    "feedforward_width": "encoder_ffn_dim",
    "maximum_positions": "max_position_embeddings",
    "feedforward_dropout": "activation_dropout",
    "padding_id": "pad_token_id",
    "start_id": "decoder_start_token_id",
    "end_id": "eos_token_id",
    **{name: name for name in ("encoder_layers", "decoder_layers", "dropout", "attention_dropout")},
}
"""Our names of a config's fields and theirs."""

TABLE, BIAS = "model.shared.weight", "final_logits_bias"
TIED = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenConfig:
    """What a config.json of Hugging Face says of these models, under their names; what is not here changes no output."""

    vocab_size: int
    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    max_position_embeddings: int
    activation_function: str
    pad_token_id: int
    eos_token_id: int
    decoder_start_token_id: int
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    scale_embedding: bool = False
    decoder_vocab_size: int | None = None
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str) -> OpenConfig:
        """The config in a config.json.

        Raises:
            InputError: for what is missing, of another type, or not to be had in our Transformer.
        """
        known = {part.name for part in fields(cls)}
        config = from_mapping(cls, {key: value for key, value in values.items() if key in known}, where)
        for key, other in (
            ("decoder_attention_heads", "encoder_attention_heads"),
            ("decoder_ffn_dim", "encoder_ffn_dim"),
            ("decoder_vocab_size", "vocab_size"),
        ):
            mine, its = getattr(config, key), getattr(config, other)
            if mine is not None and mine != its:
                raise InputError(f"{where}.{key} is {mine} and {other} is {its}; Regard's Transformer needs them equal")
        for key in ("scale_embedding", "share_encoder_decoder_embeddings", "tie_word_embeddings"):
            if getattr(config, key) is not True:
                raise InputError(
                    f"{where}.{key} is false; Regard's Transformer scales its embeddings and has one table"
                )
        if config.activation_function not in ACTIVATIONS:
            raise InputError(
                f"{where}.activation_function is {config.activation_function!r}; it must be one of {', '.join(ACTIVATIONS)}"
            )
        return config


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsaid:
    """What their config.json cannot say; regard.json keeps it. The defaults are those of a folder made elsewhere.

    Arguments:
        attention_bias: whether the biases of the attention projections are trained ones.
        output_bias: what the bias of the logits is.
        alignment_layer: as in our config.
    """

    attention_bias: bool = True
    output_bias: OutputBias = "trained"
    alignment_layer: int = -1


def obstacle(config: TransformerConfig) -> str:
    """Why a model cannot be told in one of these layouts, as half a sentence; empty where it can."""
    last = config.target_vocabulary - 1
    reasons = {
        "source, target and output do not share one table": config.sharing != "all",
        f"positions are {config.positions} and not sinusoidal": config.positions != "sinusoidal",
        f"scores are scaled by the power {config.scale_power:g} and not 0.5": config.scale_power != 0.5,
        f"the score is {config.score}": config.score != "scaled_dot",
        f"the alignment is {config.alignment}": config.alignment != "softmax",
        f"the epsilon of the norms is {config.norm_epsilon:g} and not {EPSILON:g}": config.norm_epsilon != EPSILON,
        "a target does not start with the padding token": config.start_id != config.padding_id,
        "padding is also the end token": config.padding_id == config.end_id,
        "the padding token is not the last one": config.norm == "post" and config.padding_id != last,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def family_of(config: TransformerConfig) -> str:
    """What Hugging Face calls a model of this config."""
    return next(name for name, norm in NORMS.items() if norm == config.norm)


def config_to_theirs(config: TransformerConfig, dtype: torch.dtype) -> dict[str, Any]:
    """The content of their config.json."""
    family = family_of(config)
    values = OpenConfig(
        vocab_size=config.target_vocabulary,
        d_model=config.width,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        encoder_attention_heads=config.heads,
        decoder_attention_heads=config.heads,
        encoder_ffn_dim=config.feedforward_width,
        decoder_ffn_dim=config.feedforward_width,
        max_position_embeddings=config.maximum_positions,
        activation_function=config.activation,
        pad_token_id=config.padding_id,
        eos_token_id=config.end_id,
        decoder_start_token_id=config.start_id,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        activation_dropout=config.feedforward_dropout,
        scale_embedding=True,
        decoder_vocab_size=config.target_vocabulary,
    )
    return {
        "model_type": family,
        "architectures": [ARCHITECTURES[family]],
        "dtype": str(dtype).removeprefix("torch."),
        **asdict(values),
        "num_hidden_layers": config.encoder_layers,
        "is_encoder_decoder": True,
        "use_cache": True,
        "bos_token_id": None,
        "forced_eos_token_id": None,
        # CTranslate2 builds its stacks by what is said of the norms.
        "normalize_before": config.norm == "pre",
        "add_final_layer_norm": config.norm == "pre",
        "normalize_embedding": False,
        "static_position_embeddings": True,
    }


def unsaid(config: TransformerConfig) -> dict[str, Any]:
    """What `config_to_theirs` could not say."""
    return asdict(Unsaid(**{part.name: getattr(config, part.name) for part in fields(Unsaid)}))


def config_to_ours(
    values: Mapping[str, Any], said: Mapping[str, Any] | None, tensors: Mapping[str, Tensor], where: str
) -> TransformerConfig:
    """Our config from their config.json.

    Arguments:
        values: the content of config.json.
        said: what regard.json keeps beside it; None for a folder made elsewhere.
        tensors: those of the file: from the bias of the logits a folder made elsewhere is understood.
        where: what messages call config.json.

    Raises:
        InputError: for what is missing, of another type, or not to be had in our Transformer.
    """
    theirs = OpenConfig.read(values, where)
    rest = from_mapping(Unsaid, said or {}, f"{where} (with regard.json: layout.unsaid)")
    try:
        config = TransformerConfig(
            source_vocabulary=theirs.vocab_size,
            target_vocabulary=theirs.vocab_size,
            width=theirs.d_model,
            heads=theirs.encoder_attention_heads,
            feedforward_width=theirs.encoder_ffn_dim,
            encoder_layers=theirs.encoder_layers,
            decoder_layers=theirs.decoder_layers,
            norm=NORMS[str(values["model_type"])],
            maximum_positions=theirs.max_position_embeddings,
            dropout=theirs.dropout,
            attention_dropout=theirs.attention_dropout,
            feedforward_dropout=theirs.activation_dropout,
            activation=ACTIVATIONS[theirs.activation_function],
            norm_epsilon=EPSILON,
            padding_id=theirs.pad_token_id,
            start_id=theirs.decoder_start_token_id,
            end_id=theirs.eos_token_id,
            attention_bias=rest.attention_bias,
            output_bias=rest.output_bias,
            alignment_layer=rest.alignment_layer,
        )
    except InputError as error:
        raise InputError(in_their_words(str(error), NAMES, where)) from error
    return config if said is not None else replace(config, output_bias=_kind_of(tensors.get(BIAS), config))


def _kind_of(bias: Tensor | None, config: TransformerConfig) -> OutputBias:
    if bias is None or not bias.any():
        return "none"
    ruled_out = _output_bias(replace(config, output_bias="padding"), bias.dtype)
    return "padding" if torch.equal(bias, ruled_out) else "trained"


def tensors_to_theirs(config: TransformerConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our parameters, and the constants that their file holds beside them, under their names."""
    ours = dict(tensors)
    bias = ours.pop("output.bias", None)
    theirs = name_table(config).to_theirs(ours)
    theirs |= _constants(config, next(iter(tensors.values())).dtype)
    if bias is not None:
        theirs[BIAS] = bias.unsqueeze(0)
    return {name: tensor.contiguous() for name, tensor in theirs.items()}


def tensors_to_ours(config: TransformerConfig, tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """Their tensors under our names.

    Raises:
        InputError: naming every tensor that is missing, not known or of another shape, and any that this model holds constant
            and that is not what it has to be.
    """
    with shapes_only():
        parameters = dict(Transformer(config).named_parameters())
    wanted = {name: tuple(tensor.shape) for name, tensor in tensors_to_theirs(config, parameters).items()}
    found = dict(tensors)
    for name in TIED:  # some files repeat it
        repeated = found.pop(name, None)
        if repeated is not None and not (TABLE in found and torch.equal(repeated, found[TABLE])):
            raise InputError(f"{where}: {name} differs from {TABLE}; Regard's Transformer has one table")
    constants = _constants(config, found[TABLE].dtype if TABLE in found else torch.float32)
    if BIAS not in found and BIAS in constants:
        found[BIAS] = constants[BIAS]
    for name in POSITIONS:
        found.setdefault(name, _positions(config, torch.float32))
        wanted[name] = (config.maximum_positions, config.width)
        constants[name] = _positions(config, found[name].dtype)
    check_same(wanted, found, where)
    for name, constant in constants.items():
        exact = 1e-3 if name in POSITIONS else 0.0
        if not torch.allclose(found.pop(name).float(), constant.float(), rtol=1e-2, atol=exact):
            held = (
                "sinusoids" if name in POSITIONS else "zero but for what rules padding out" if name == BIAS else "zero"
            )
            raise InputError(
                f"{where}: {name} is not {held}, as this model holds it; copy the file again from its source"
            )
    bias = found.pop(BIAS, None)
    ours = name_table(config).to_ours(found)
    if bias is not None:
        ours["output.bias"] = bias.squeeze(0)
    return {name: tensor.contiguous() for name, tensor in ours.items()}


def name_table(config: TransformerConfig) -> NameTable:
    """Our names of a Transformer's parameters and theirs; biases that ours has not are no part of it."""
    slot = "after" if config.norm == "post" else "before"
    rules = [Rule(("encoder.embedding.tokens.weight",), TABLE, channels=(1,))]
    for stack in ("encoder", "decoder"):
        ours, theirs = f"{stack}.layers.{{i}}.", f"model.{stack}.layers.{{i}}."
        parts = [("attention", "self_attn", "attention_residual")]
        if stack == "decoder":
            parts.append(("cross_attention", "encoder_attn", "cross_residual"))
        for mine, other, residual in parts:
            for short in ("query", "key", "value"):
                rules.append(Rule((f"{ours}{mine}.{short}.weight",), f"{theirs}{other}.{short[0]}_proj.weight", (1,)))
                rules.append(Rule((f"{ours}{mine}.{short}.bias",), f"{theirs}{other}.{short[0]}_proj.bias"))
            for kind in ("weight", "bias"):
                rules.append(Rule((f"{ours}{mine}.output.{kind}",), f"{theirs}{other}.out_proj.{kind}", (0,)))
                rules.append(Rule((f"{ours}{residual}.{slot}.{kind}",), f"{theirs}{other}_layer_norm.{kind}", (0,)))
        rules.append(Rule((f"{ours}feedforward.inner.weight",), f"{theirs}fc1.weight", (1,)))
        rules.append(Rule((f"{ours}feedforward.inner.bias",), f"{theirs}fc1.bias"))
        for kind in ("weight", "bias"):
            rules.append(Rule((f"{ours}feedforward.outer.{kind}",), f"{theirs}fc2.{kind}", (0,)))
            rules.append(Rule((f"{ours}feedforward_residual.{slot}.{kind}",), f"{theirs}final_layer_norm.{kind}", (0,)))
            if config.norm == "pre":
                rules.append(Rule((f"{stack}.norm.{kind}",), f"model.{stack}.layer_norm.{kind}", (0,)))
    return NameTable(tuple(rules))


def _constants(config: TransformerConfig, dtype: torch.dtype) -> dict[str, Tensor]:
    """What their file holds that is no parameter of ours."""
    constants: dict[str, Tensor] = {}
    if config.output_bias != "trained":
        constants[BIAS] = _output_bias(config, dtype)
    if config.norm == "pre":  # a Marian file leaves them out
        constants |= {name: _positions(config, dtype) for name in POSITIONS}
    if not config.attention_bias:
        for stack, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
            for attention in ("self_attn", "encoder_attn")[: 1 if stack == "encoder" else 2]:
                for layer in range(layers):
                    for part in ("q", "k", "v", "out"):
                        name = f"model.{stack}.layers.{layer}.{attention}.{part}_proj.bias"
                        constants[name] = torch.zeros(config.width, dtype=dtype)
    return constants


def _output_bias(config: TransformerConfig, dtype: torch.dtype) -> Tensor:
    bias = torch.zeros(1, config.target_vocabulary, dtype=dtype)
    if config.ruled_out is not None:
        bias[0, config.ruled_out] = NEVER
    return bias


def _positions(config: TransformerConfig, dtype: torch.dtype) -> Tensor:
    """Sines then cosines, (positions, D), rounded as theirs are."""
    places = np.arange(config.maximum_positions, dtype=np.float64)[:, None]
    frequencies = np.power(10000.0, np.arange(0, config.width, 2, dtype=np.float64) / config.width)
    angles = places / frequencies
    return torch.from_numpy(np.concatenate((np.sin(angles), np.cos(angles)), axis=1)).float().to(dtype)
