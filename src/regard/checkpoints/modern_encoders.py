"""Hugging Face's layout of ModernBERT: blocks with rotary positions, gated nets and windows, and a map in every head."""

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
"""Their names of blocks that look at the whole text, and at the tokens near by."""


def _tensors(config: ModernBertConfig) -> TensorTable:
    if config.head == "none":
        return ENCODER
    if config.head != "masked":
        return {**ENCODER, **TASK}
    output: TensorTable = {} if config.tied_output else {"head.output.weight": "decoder.weight"}
    bias: TensorTable = {"head.output.bias": "decoder.bias"} if config.output_bias else {}
    return {**ENCODER, **TRANSFORM, **output, **bias}


def _head(reading: Reading) -> dict[str, Any]:
    """What is on the encoder: its tensors say whether anything does, and the architecture what.

    Raises:
        InputError: for an architecture that is not a list of names, and classes of a model that names none.
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
                f"{reading.where}.architectures is {named!r}; the weights have a classifier, and a name such as "
                "ModernBertForSequenceClassification says of what"
            )
        head = found[0]
    elif "head.dense.weight" in tensors or "decoder.bias" in tensors:
        head = "masked"
    counted = head in ("sequence", "tokens")
    outputs = int(tensors["classifier.weight"].shape[0]) if counted else FIXED_OUTPUTS[head]
    tied = bool(reading.values.get("tie_word_embeddings", True)) if head == "masked" else True
    return {"head": head, "outputs": outputs, "tied_output": tied}


def _layers_to_hf(config: ModernBertConfig) -> dict[str, Any]:
    """Under the names that all versions of transformers read."""
    local = set(config.local_layers)
    return {
        "layer_types": [NEAR if layer in local else FULL for layer in range(config.layers)],
        "global_attn_every_n_layers": config.global_every,
        "global_rope_theta": config.rotary_base,
        "local_rope_theta": config.local_rotary_base,
    }


def _layers_from_hf(reading: Reading) -> dict[str, Any]:
    """Which blocks look at the whole text: `layer_types`, or in files before version 5 every so many.

    Raises:
        InputError: for kinds that are not known, or of which there are more or fewer than blocks.
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
            f"{reading.where}.layer_types has {len(kinds)} entries where num_hidden_layers is {count}; give one for each"
        )
    return {**found, "global_layers": [layer for layer, kind in enumerate(kinds) if kind == FULL]}


def _rotary_from_hf(reading: Reading) -> dict[str, Any]:
    """The bases of both kinds of blocks, from `rope_parameters` or, in files before version 5, fields of their own.

    Raises:
        InputError: for a scaling, which Regard's ModernBERT has not.
    """
    values = reading.values
    half, window = values.get("sliding_window"), values.get("local_attention")
    if isinstance(half, int) and isinstance(window, int) and half != window // 2:
        raise InputError(
            f"{reading.where}.sliding_window is {half} and local_attention {window}, of which it is half; take sliding_window out"
        )
    where, said = f"{reading.where}.rope_parameters", values.get("rope_parameters") or {}
    if not isinstance(said, Mapping) or not all(isinstance(each, Mapping | None) for each in said.values()):
        raise InputError(f"{where} is {said!r}; it must be an object with {FULL} and {NEAR}")
    if unknown := said.keys() - {FULL, NEAR}:
        raise InputError(f"{where} has {', '.join(sorted(unknown))}; Regard's ModernBERT knows {FULL} and {NEAR}")
    if values.get("rope_scaling"):
        raise InputError(f"{reading.where}.rope_scaling is {values['rope_scaling']!r}; Regard's ModernBERT scales none")
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
                f"{where}.{kind} is {said[kind]!r}; Regard's ModernBERT scales no positions: give rope_theta alone"
            )
        if base is not None:
            found[ours] = float(base) if isinstance(base, int) and not isinstance(base, bool) else base
    return found


def _count_to_hf(config: ModernBertConfig) -> dict[str, Any]:
    """How many classes there are: transformers counts their names, text-embeddings-inference reads this."""
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
        "global_rope_theta": "followed, where rope_parameters does not say it",
        "local_rope_theta": "followed, where rope_parameters does not say it",
        "rope_scaling": "refused where there is one",
        "position_embedding_type": "older files name rotary positions, which all have",
        "deterministic_flash_attn": "how a kernel of theirs computes",
        "reference_compile": "how theirs is computed",
        "repad_logits_with_grad": "how theirs is computed",
        "sparse_prediction": "which logits theirs computes in training",
        "sparse_pred_ignore_index": "which logits theirs computes in training",
        "cls_token_id": "which the tokenizer says",
        "sep_token_id": "which the tokenizer says",
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
