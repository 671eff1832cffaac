"""Hugging Face's layouts of RoBERTa, XLM-RoBERTa and ELECTRA: like BERT's, with other names and other heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.checkpoints.encoders import (
    ARCHITECTURES,
    BERT,
    BERT_ENCODER,
    NOT_OURS,
    BertExtra,
    bert_dropout,
    bert_extra,
    labels_to_hf,
    pruned_heads_from_hf,
    pruned_heads_to_hf,
    refuse_untied,
)
from regard.checkpoints.hf_format import HFFormat, Reading, TensorTable
from regard.errors import InputError
from regard.layers import FIXED_OUTPUTS, HeadKind
from regard.models.electra import ElectraConfig
from regard.models.roberta import RobertaConfig, XLMRobertaConfig

# --- RoBERTa and XLM-RoBERTa ------------------------------------------------------------------------------------


def _bert_encoder(prefix: str) -> TensorTable:
    """The tensors of BERT's encoder under another prefix."""
    return {ours: str(theirs).replace("bert.", prefix, 1) for ours, theirs in BERT_ENCODER.items()}


ROBERTA_ENCODER: TensorTable = _bert_encoder("roberta.")
ROBERTA_HEADS: Mapping[HeadKind, TensorTable] = {
    "none": {},
    "masked": {
        "head.transform.{*}": "lm_head.dense.{*}",
        "head.norm.{*}": "lm_head.layer_norm.{*}",
        "head.output.bias": "lm_head.bias",
    },
    "sequence": {"pooler.map.{*}": "classifier.dense.{*}", "head.output.{*}": "classifier.out_proj.{*}"},
    "tokens": {"head.output.{*}": "classifier.{*}"},
    "spans": {"head.output.{*}": "qa_outputs.{*}"},
    "choice": {"head.output.{*}": "classifier.{*}"},
}
"""The tensors of heads; in RoBERTa the layer before the classes of whole texts belongs to the head, not to the encoder."""


def _roberta_head(reading: Reading) -> dict[str, Any]:
    """The head and its number of outputs."""
    values, tensors, where = reading.values, reading.tensors, reading.where
    architectures = values.get("architectures") or []
    if not isinstance(architectures, list):
        raise InputError(f"{where}.architectures is {architectures!r}; it must be a list of names")
    head: HeadKind = "none"
    if "lm_head.dense.weight" in tensors:
        head = "masked"
    elif "qa_outputs.weight" in tensors:
        head = "spans"
    elif "classifier.out_proj.weight" in tensors:
        head = "sequence"
    elif "classifier.weight" in tensors:
        head = "choice" if "roberta.pooler.dense.weight" in tensors else "tokens"
    if head == "masked":
        refuse_untied(reading, "lm_head.decoder.weight")
    counted = {"sequence": "classifier.out_proj.weight", "tokens": "classifier.weight"}.get(head)
    return {"head": head, "outputs": int(tensors[counted].shape[0]) if counted else FIXED_OUTPUTS[head]}


def _roberta_positions(reading: Reading) -> dict[str, Any]:
    """The maximum length of texts; positions begin at the row after the padding id."""
    rows, padding = reading.values.get("max_position_embeddings"), reading.settings.get("padding_id", 1)
    rows = 512 if rows is None else rows
    if not isinstance(rows, int) or not isinstance(padding, int) or rows < padding + 2:
        raise InputError(
            f"{reading.where}.max_position_embeddings is {rows!r}; it must be at least 2 more than pad_token_id, {padding!r}"
        )
    return {"maximum_positions": rows - padding - 1}


def _roberta_pooler(reading: Reading) -> dict[str, Any]:
    headless = reading.settings["head"] == "none"
    return {"pooler": "roberta.pooler.dense.weight" in reading.tensors} if headless else {}


def _roberta(model_type: str, title: str, config_class: type[RobertaConfig], prefix: str) -> HFFormat:
    return HFFormat(
        model_type=model_type,
        title=title,
        configs=(config_class,),
        architecture=lambda config: prefix + ARCHITECTURES[config.head],
        fields={ours: theirs for ours, theirs in BERT.fields.items() if ours != "maximum_positions"},
        defaults={"vocab_size": 50_265, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 1},
        must_be=NOT_OURS,
        written={"tie_word_embeddings": True, "position_embedding_type": "absolute"},
        special_fields={
            "head": "architectures",
            "outputs": "id2label",
            "head_dropout": "classifier_dropout",
            "pruned_heads": "pruned_heads",
            "maximum_positions": "max_position_embeddings",
        },
        extra=BertExtra,
        to_hf=(
            lambda config: {
                "classifier_dropout": config.head_dropout,
                "max_position_embeddings": config.maximum_positions + config.padding_id + 1,
            },
            pruned_heads_to_hf,
            labels_to_hf,
        ),
        from_hf=(pruned_heads_from_hf, _roberta_head, _roberta_positions, bert_dropout, _roberta_pooler),
        extra_metadata=bert_extra,
        tensors=lambda config: {**ROBERTA_ENCODER, **ROBERTA_HEADS[config.head]},
        prefix="roberta.",
        outside=("lm_head.", "classifier.", "qa_outputs."),
        bare=lambda config: config.head == "none",
        old_names={".gamma": ".weight", ".beta": ".bias"},
        repeated={
            "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
            "lm_head.decoder.bias": "lm_head.bias",
        },
        ignored_tensors=lambda config: (
            "roberta.embeddings.position_ids",
            # For classification the pooler is part of the head; a file can also have the encoder's pooler, which is not used.
            *(() if config.has_pooler and config.head != "sequence" else ("roberta.pooler.{*}",)),
        ),
    )


ROBERTA = _roberta("roberta", "RoBERTa", RobertaConfig, "Roberta")
XLM_ROBERTA = _roberta("xlm-roberta", "XLM-RoBERTa", XLMRobertaConfig, "XLMRoberta")


# --- ELECTRA ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class ElectraExtra:
    """The settings that Hugging Face's config.json does not have for every head."""

    head_dropout: float | None = None


ELECTRA_ENCODER: TensorTable = {
    **{ours: theirs for ours, theirs in _bert_encoder("electra.").items() if not ours.startswith("pooler.")},
    "embedding.projection.{*}": "electra.embeddings_project.{*}",
}
ELECTRA_HEADS: Mapping[HeadKind, TensorTable] = {
    "none": {},
    "masked": {
        "head.transform.{*}": "generator_predictions.dense.{*}",
        "head.norm.{*}": "generator_predictions.LayerNorm.{*}",
        "head.output.bias": "generator_lm_head.bias",
    },
    "replaced": {
        "head.transform.{*}": "discriminator_predictions.dense.{*}",
        "head.output.{*}": "discriminator_predictions.dense_prediction.{*}",
    },
    "sequence": {"pooler.map.{*}": "classifier.dense.{*}", "head.output.{*}": "classifier.out_proj.{*}"},
    "tokens": {"head.output.{*}": "classifier.{*}"},
    "spans": {"head.output.{*}": "qa_outputs.{*}"},
    "choice": {"pooler.map.{*}": "sequence_summary.summary.{*}", "head.output.{*}": "classifier.{*}"},
}


SUMMARY = {
    "summary_type": "first",
    "summary_use_proj": True,
    "summary_activation": "gelu",
    "summary_first_dropout": 0.0,
}
"""The settings of the vector of a whole text for multiple choice; Regard's model supports only these values."""


def _dropout_field(head: HeadKind) -> str:
    """The field of the dropout before a head."""
    return "summary_last_dropout" if head == "choice" else "classifier_dropout"


def _electra_dropout(reading: Reading) -> dict[str, Any]:
    name = _dropout_field(reading.settings["head"])
    return {"head_dropout": reading.values.get(name)} if reading.foreign else {}


def _electra_head(reading: Reading) -> dict[str, Any]:
    """The head and its number of outputs.

    Raises:
        InputError: for a generator whose output is not tied to the embedding.
    """
    tensors = reading.tensors
    telling: tuple[tuple[str, HeadKind], ...] = (
        ("generator_predictions.dense.weight", "masked"),
        ("discriminator_predictions.dense.weight", "replaced"),
        ("qa_outputs.weight", "spans"),
        ("classifier.out_proj.weight", "sequence"),
        ("sequence_summary.summary.weight", "choice"),
        ("classifier.weight", "tokens"),
    )
    name, head = next(((name, head) for name, head in telling if name in tensors), ("", "none"))
    if head == "masked":
        refuse_untied(reading, "generator_lm_head.weight")
    for key, wanted in SUMMARY.items() if head == "choice" else ():
        if reading.values.get(key, wanted) != wanted:
            raise InputError(f"{reading.where}.{key} is {reading.values[key]!r}; Regard's ELECTRA needs {wanted!r}")
    counted = head in ("sequence", "tokens")
    return {"head": head, "outputs": int(tensors[name].shape[0]) if counted else FIXED_OUTPUTS[head]}


ELECTRA = HFFormat(
    model_type="electra",
    title="ELECTRA",
    configs=(ElectraConfig,),
    architecture=lambda config: "Electra" + {**ARCHITECTURES, "replaced": "ForPreTraining"}[config.head],
    fields={**BERT.fields, "embedding_width": "embedding_size"},
    must_be=NOT_OURS,
    written={"tie_word_embeddings": True, "position_embedding_type": "absolute"},
    special_fields={
        "head": "architectures",
        "outputs": "id2label",
        "head_dropout": "classifier_dropout",
        "pruned_heads": "pruned_heads",
    },
    ignored={
        "classifier_dropout": "followed if the head uses it",
        **dict.fromkeys(("summary_last_dropout", *SUMMARY), "followed, or refused by name, for choices"),
    },
    extra=ElectraExtra,
    to_hf=(lambda config: {_dropout_field(config.head): config.head_dropout}, pruned_heads_to_hf, labels_to_hf),
    from_hf=(pruned_heads_from_hf, _electra_head, _electra_dropout),
    extra_metadata=lambda config: {"head_dropout": config.head_dropout},
    tensors=lambda config: {**ELECTRA_ENCODER, **ELECTRA_HEADS[config.head]},
    prefix="electra.",
    outside=(
        *("generator_predictions.", "generator_lm_head.", "discriminator_predictions."),
        *("sequence_summary.", "classifier.", "qa_outputs."),
    ),
    bare=lambda config: config.head == "none",
    old_names={".gamma": ".weight", ".beta": ".bias"},
    repeated={"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"},
    ignored_tensors=("electra.embeddings.position_ids",),
)
