"""Hugging Face's layout of ModernBERT: rotary positions, gated feed-forward networks, local windows, a layer in every head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.checkpoints.encoders import ARCHITECTURES, labels_to_hf
from regard.checkpoints.hf_format import HFFormat, Reading, TensorTable
from regard.errors import InputError
from regard.layers import FIXED_OUTPUTS, HeadKind
from regard.models.modernbert import ModernBertConfig

ENCODER: TensorTable = {
    "embedding.tokens.weight": "model.embeddings.tok_embeddings.weight",
    "embedding.norm.{*}": "model.embeddings.norm.{*}",
    "layers.{i}.attention.{query,key,value}.{*}": "model.layers.{i}.attn.Wqkv.{*}",
    "layers.{i}.attention.output.{*}": "model.layers.{i}.attn.Wo.{*}",
    "layers.{i}.attention_residual.before.{*}": "model.layers.{i}.attn_norm.{*}",
    "layers.{i}.feedforward_residual.before.{*}": "model.layers.{i}.mlp_norm.{*}",
    "layers.{i}.feedforward.{gate,inner}.{*}": "model.layers.{i}.mlp.Wi.{*}",
    "layers.{i}.feedforward.outer.{*}": "model.layers.{i}.mlp.Wo.{*}",
    "norm.{*}": "model.final_norm.{*}",
}
TRANSFORM: TensorTable = {"head.transform.{*}": "head.dense.{*}", "head.norm.{*}": "head.norm.{*}"}
TASK: TensorTable = {**TRANSFORM, "head.output.{*}": "classifier.{*}"}

FULL, NEAR = "full_attention", "sliding_attention"
"""Their names of blocks that attend to the whole text, and to a local window."""


def _tensors(config: ModernBertConfig) -> TensorTable:
    if config.head == "none":
        return ENCODER
    if config.head != "masked":
        return {**ENCODER, **TASK}
    output: TensorTable = {} if config.tied_output else {"head.output.weight": "decoder.weight"}
    bias: TensorTable = {"head.output.bias": "decoder.bias"} if config.output_bias else {}
    return {**ENCODER, **TRANSFORM, **output, **bias}


def _head(reading: Reading) -> dict[str, Any]:
    """The head and its outputs: the tensors show whether there is a head, and the architecture which one.

    Raises:
        InputError: for an architecture that is not a list of names, and for a classifier without an architecture.
    """
    tensors, named = reading.tensors, reading.values.get("architectures") or []
    if not isinstance(named, list):
        raise InputError(f"{reading.where}.architectures is {named!r}; it must be a list of names")
    head: HeadKind = "none"
    if "classifier.weight" in tensors:
        kinds: tuple[HeadKind, ...] = ("tokens", "choice", "spans", "sequence")
        found: list[HeadKind] = [
            kind for kind in kinds if any(str(name).endswith(ARCHITECTURES[kind]) for name in named)
        ]
        if not found:
            raise InputError(
                f"{reading.where}.architectures is {named!r}; the weights have a classifier, so it needs a name such as "
                "ModernBertForSequenceClassification"
            )
        head = found[0]
    elif "head.dense.weight" in tensors or "decoder.bias" in tensors:
        head = "masked"
    counted = head in ("sequence", "tokens")
    outputs = int(tensors["classifier.weight"].shape[0]) if counted else FIXED_OUTPUTS[head]
    tied = bool(reading.values.get("tie_word_embeddings", True)) if head == "masked" else True
    return {"head": head, "outputs": outputs, "tied_output": tied}


def _layers_to_hf(config: ModernBertConfig) -> dict[str, Any]:
    """The settings of layers, under the names that all versions of transformers read."""
    local = set(config.local_layers)
    return {
        "layer_types": [NEAR if layer in local else FULL for layer in range(config.layers)],
        "global_attn_every_n_layers": config.global_every,
        "global_rope_theta": config.rotary_base,
        "local_rope_theta": config.local_rotary_base,
    }


def _layers_from_hf(reading: Reading) -> dict[str, Any]:
    """The blocks that attend to the whole text: from `layer_types`, or in files before version 5 every n-th block.

    Raises:
        InputError: for unknown kinds, or if there is not one for each block.
    """
    every, kinds = reading.values.get("global_attn_every_n_layers"), reading.values.get("layer_types")
    found: dict[str, Any] = {} if every is None else {"global_every": every}
    if kinds is None:
        return found
    if not isinstance(kinds, list) or not set(map(str, kinds)) <= {FULL, NEAR}:
        raise InputError(f"{reading.where}.layer_types is {kinds!r}; it must be a list of {FULL} and {NEAR}")
    count = reading.settings.get("layers")
    if isinstance(count, int) and count > 0 and len(kinds) != count:
        raise InputError(
            f"{reading.where}.layer_types has {len(kinds)} entries and num_hidden_layers is {count}; give one for each"
        )
    return {**found, "global_layers": [layer for layer, kind in enumerate(kinds) if kind == FULL]}


def _rotary_from_hf(reading: Reading) -> dict[str, Any]:
    """The rotary bases of both kinds of blocks, from `rope_parameters` or, in files before version 5, separate fields.

    Raises:
        InputError: for a scaling, which Regard's ModernBERT does not have.
    """
    values = reading.values
    half, window = values.get("sliding_window"), values.get("local_attention")
    if isinstance(half, int) and isinstance(window, int) and half != window // 2:
        raise InputError(
            f"{reading.where}.sliding_window is {half} and local_attention {window}, but it must be half of that; leave "
            "sliding_window out"
        )
    where, said = f"{reading.where}.rope_parameters", values.get("rope_parameters") or {}
    if not isinstance(said, Mapping) or not all(isinstance(each, Mapping | None) for each in said.values()):
        raise InputError(f"{where} is {said!r}; it must be an object with {FULL} and {NEAR}")
    if unknown := said.keys() - {FULL, NEAR}:
        raise InputError(
            f"{where} has {', '.join(sorted(unknown))}; Regard's ModernBERT only supports {FULL} and {NEAR}"
        )
    if values.get("rope_scaling"):
        raise InputError(
            f"{reading.where}.rope_scaling is {values['rope_scaling']!r}; Regard's ModernBERT has no scaling"
        )
    found = {}
    for ours, kind, field in (
        ("rotary_base", FULL, "global_rope_theta"),
        ("local_rotary_base", NEAR, "local_rope_theta"),
    ):
        rotary = dict(said.get(kind) or {})
        scaled = rotary.pop("rope_type", "default")
        base = rotary.pop("rope_theta", values.get(field))
        if scaled != "default" or rotary:
            raise InputError(
                f"{where}.{kind} is {said[kind]!r}; Regard's ModernBERT has no scaling: give only rope_theta"
            )
        if base is not None:
            found[ours] = float(base) if isinstance(base, int) and not isinstance(base, bool) else base
    return found


def _count_to_hf(config: ModernBertConfig) -> dict[str, Any]:
    """The number of classes, for text-embeddings-inference; transformers counts their names instead."""
    return {"num_labels": config.outputs} if config.head in ("sequence", "tokens") else {}


MODERNBERT = HFFormat(
    model_type="modernbert",
    title="ModernBERT",
    configs=(ModernBertConfig,),
    architecture=lambda config: "ModernBert" + ARCHITECTURES[config.head],
    fields={
        "vocabulary": "vocab_size",
        "width": "hidden_size",
        "heads": "num_attention_heads",
        "feedforward_width": "intermediate_size",
        "layers": "num_hidden_layers",
        "maximum_positions": "max_position_embeddings",
        "window": "local_attention",
        "attention_bias": "attention_bias",
        "feedforward_bias": "mlp_bias",
        "norm_bias": "norm_bias",
        "head_bias": "classifier_bias",
        "output_bias": "decoder_bias",
        "activation": "hidden_activation",
        "head_activation": "classifier_activation",
        "pooling": "classifier_pooling",
        "embedding_dropout": "embedding_dropout",
        "attention_dropout": "attention_dropout",
        "feedforward_dropout": "mlp_dropout",
        "head_dropout": "classifier_dropout",
        "norm_epsilon": "norm_eps",
        "init_std": "initializer_range",
        "init_cutoff": "initializer_cutoff_factor",
        "padding_id": "pad_token_id",
    },
    defaults={"vocab_size": 50_368, "pad_token_id": 50_283},
    token_ids={
        "bos_token_id": "start_id",
        "cls_token_id": "start_id",
        "eos_token_id": "end_id",
        "sep_token_id": "separator_id",
    },
    special_fields={
        "head": "architectures",
        "outputs": "id2label",
        "tied_output": "tie_word_embeddings",
        "global_layers": "layer_types",
        "global_every": "global_attn_every_n_layers",
        "rotary_base": "rope_parameters",
        "local_rotary_base": "rope_parameters",
    },
    ignored={
        "global_rope_theta": "followed, if it is not in rope_parameters",
        "local_rope_theta": "followed, if it is not in rope_parameters",
        "rope_scaling": "refused if it is set",
        "position_embedding_type": "rotary in older files, which all models have",
        "deterministic_flash_attn": "a setting of their kernel",
        "reference_compile": "a setting of their computation",
        "repad_logits_with_grad": "a setting of their computation",
        "sparse_prediction": "which logits their model computes in training",
        "sparse_pred_ignore_index": "which logits their model computes in training",
        "cls_token_id": "this is read from the tokenizer",
        "sep_token_id": "this is read from the tokenizer",
        "sliding_window": "half of local_attention, which is followed",
    },
    to_hf=(
        _layers_to_hf,
        lambda config: {"tie_word_embeddings": config.tied_output},
        labels_to_hf,
        _count_to_hf,
    ),
    from_hf=(_layers_from_hf, _rotary_from_hf, _head),
    tensors=_tensors,
    prefix="model.",
    outside=("head.", "decoder.", "classifier."),
    bare=lambda config: config.head == "none",
    repeated={"decoder.weight": "model.embeddings.tok_embeddings.weight"},
)
