"""Hugging Face's layouts of text encoders: BERT and DistilBERT.

All tensors are equal, only their names differ; the oldest files call the gain and the bias of a norm gamma and beta. The head is
found from the names of the tensors and from `architectures`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.checkpoints.hf_format import HFFormat, Reading, TensorTable
from regard.errors import InputError
from regard.layers import FIXED_OUTPUTS, POOLED, HeadKind
from regard.models.bert import NORM_EPSILON, BertConfig, DistilBertConfig

ARCHITECTURES: Mapping[HeadKind, str] = {
    "none": "Model",
    "masked": "ForMaskedLM",
    "next_sentence": "ForNextSentencePrediction",
    "pretraining": "ForPreTraining",
    "sequence": "ForSequenceClassification",
    "tokens": "ForTokenClassification",
    "spans": "ForQuestionAnswering",
    "choice": "ForMultipleChoice",
}
"""The part of the name of a class with this head after `Bert` or `DistilBert`."""

NOT_OURS = {"is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute"}
"""Settings that must have these values, because our models support no others."""


# --- the head, from the names of the tensors --------------------------------------------------------------------


def head_from_hf(reading: Reading) -> dict[str, Any]:
    """The head and its number of outputs, from the names of the tensors, or from the architecture if those are not sufficient.

    Raises:
        InputError: for an architecture that is not a list of names, and an output over the vocabulary without a table.
    """
    values, tensors, where = reading.values, reading.tensors, reading.where
    architectures = values.get("architectures") or []
    if not isinstance(architectures, list):
        raise InputError(f"{where}.architectures is {architectures!r}; it must be a list of names")
    head = _head(tensors, "".join(map(str, architectures)))
    if head in ("masked", "pretraining"):
        refuse_untied(reading, "cls.predictions.decoder.weight", "vocab_projector.weight")
    counted = head in ("sequence", "tokens")
    return {"head": head, "outputs": int(tensors["classifier.weight"].shape[0]) if counted else FIXED_OUTPUTS[head]}


def refuse_untied(reading: Reading, *tables: str) -> None:
    """Refuse an output over the vocabulary whose table is neither tied to the embedding nor in the file.

    Arguments:
        tables: possible names of the output's table; if it is there, it is compared with the embedding later.

    Raises:
        InputError: if the file lacks it.
    """
    if reading.values.get("tie_word_embeddings") is False and not set(tables) & reading.tensors.keys():
        raise InputError(
            f"{reading.where}.tie_word_embeddings is False, and the weights have no table for the output; in Regard's model the "
            "output has the table of the embedding"
        )


def _head(tensors: Mapping[str, Any], architecture: str) -> HeadKind:
    predicts = any(name.startswith(("cls.predictions.", "vocab_transform.")) for name in tensors)
    follows = "cls.seq_relationship.weight" in tensors
    pooled = "bert.pooler.dense.weight" in tensors
    if predicts and follows:
        return "pretraining" if pooled else "masked"
    if predicts or follows:
        return "masked" if predicts else "next_sentence"
    if "qa_outputs.weight" in tensors:
        return "spans"
    if "classifier.weight" not in tensors:
        return "none"
    for head in ("tokens", "choice", "sequence"):
        if ARCHITECTURES[head] in architecture:
            return head
    return "sequence" if pooled or "pre_classifier.weight" in tensors else "tokens"


def labels_to_hf(config: Any) -> dict[str, Any]:
    """Default names of the outputs, which a task replaces by its own."""
    if config.head not in ("sequence", "tokens"):
        return {}
    names = [f"LABEL_{index}" for index in range(config.outputs)]
    return {
        "id2label": {str(index): name for index, name in enumerate(names)},
        "label2id": {name: index for index, name in enumerate(names)},
    }


# --- pruned attention heads -------------------------------------------------------------------------------------


def pruned_heads_to_hf(config: Any) -> dict[str, Any]:
    """The pruned heads as a mapping from layers to lists of heads."""
    pruned: dict[str, list[int]] = {}
    for layer, head in sorted(config.pruned_heads):
        pruned.setdefault(str(layer), []).append(head)
    return {"pruned_heads": pruned} if pruned else {}


def pruned_heads_from_hf(reading: Reading) -> dict[str, Any]:
    """The pruned heads as pairs (layer, head).

    Raises:
        InputError: for a value that is not a mapping from layers to lists of heads.
    """
    value = reading.values.get("pruned_heads") or {}
    try:
        return {"pruned_heads": [[int(layer), int(head)] for layer, heads in value.items() for head in heads]}
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"{reading.where}.pruned_heads is {value!r}; it must map layers to lists of heads") from None


# --- BERT -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class BertExtra:
    """The settings that Hugging Face's config.json does not have for every head."""

    head_dropout: float | None = None
    pooler: bool = True


BERT_ENCODER: TensorTable = {
    "embedding.tokens.weight": "bert.embeddings.word_embeddings.weight",
    "embedding.positions.weight": "bert.embeddings.position_embeddings.weight",
    "embedding.segments.weight": "bert.embeddings.token_type_embeddings.weight",
    "embedding.norm.{*}": "bert.embeddings.LayerNorm.{*}",
    "layers.{i}.attention.query.{*}": "bert.encoder.layer.{i}.attention.self.query.{*}",
    "layers.{i}.attention.key.{*}": "bert.encoder.layer.{i}.attention.self.key.{*}",
    "layers.{i}.attention.value.{*}": "bert.encoder.layer.{i}.attention.self.value.{*}",
    "layers.{i}.attention.output.{*}": "bert.encoder.layer.{i}.attention.output.dense.{*}",
    "layers.{i}.attention_residual.after.{*}": "bert.encoder.layer.{i}.attention.output.LayerNorm.{*}",
    "layers.{i}.feedforward.inner.{*}": "bert.encoder.layer.{i}.intermediate.dense.{*}",
    "layers.{i}.feedforward.outer.{*}": "bert.encoder.layer.{i}.output.dense.{*}",
    "layers.{i}.feedforward_residual.after.{*}": "bert.encoder.layer.{i}.output.LayerNorm.{*}",
    "pooler.map.{*}": "bert.pooler.dense.{*}",
}
BERT_HEADS: Mapping[HeadKind, TensorTable] = {
    "none": {},
    "masked": {
        "head.transform.{*}": "cls.predictions.transform.dense.{*}",
        "head.norm.{*}": "cls.predictions.transform.LayerNorm.{*}",
        "head.output.bias": "cls.predictions.bias",
    },
    "next_sentence": {"head.output.{*}": "cls.seq_relationship.{*}"},
    "pretraining": {
        "head.masked.transform.{*}": "cls.predictions.transform.dense.{*}",
        "head.masked.norm.{*}": "cls.predictions.transform.LayerNorm.{*}",
        "head.masked.output.bias": "cls.predictions.bias",
        "head.next_sentence.output.{*}": "cls.seq_relationship.{*}",
    },
    "sequence": {"head.output.{*}": "classifier.{*}"},
    "tokens": {"head.output.{*}": "classifier.{*}"},
    "spans": {"head.output.{*}": "qa_outputs.{*}"},
    "choice": {"head.output.{*}": "classifier.{*}"},
}


def bert_dropout(reading: Reading) -> dict[str, Any]:
    """The dropout before the head."""
    return {"head_dropout": reading.values.get("classifier_dropout")} if reading.foreign else {}


def _bert_pooler(reading: Reading) -> dict[str, Any]:
    """Whether a model without a head has a pooler, from its tensors."""
    headless = reading.settings["head"] == "none"
    return {"pooler": "bert.pooler.dense.weight" in reading.tensors} if headless else {}


def bert_extra(config: Any) -> dict[str, Any]:
    """The settings that config.json does not have: the head's dropout, and whether the model has a pooler without the head."""
    kept = {"head_dropout": config.head_dropout}
    return kept if config.head == "none" else {**kept, "pooler": config.pooler}


BERT = HFFormat(
    model_type="bert",
    title="BERT",
    configs=(BertConfig,),
    architecture=lambda config: "Bert" + ARCHITECTURES[config.head],
    fields={
        "vocabulary": "vocab_size",
        "width": "hidden_size",
        "heads": "num_attention_heads",
        "feedforward_width": "intermediate_size",
        "layers": "num_hidden_layers",
        "maximum_positions": "max_position_embeddings",
        "segments": "type_vocab_size",
        "activation": "hidden_act",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
        "norm_epsilon": "layer_norm_eps",
        "init_std": "initializer_range",
        "padding_id": "pad_token_id",
    },
    defaults={"vocab_size": 30_522},
    must_be=NOT_OURS,
    written={"tie_word_embeddings": True, "position_embedding_type": "absolute"},
    special_fields={
        "head": "architectures",
        "outputs": "id2label",
        "head_dropout": "classifier_dropout",
        "pruned_heads": "pruned_heads",
    },
    extra=BertExtra,
    to_hf=(lambda config: {"classifier_dropout": config.head_dropout}, pruned_heads_to_hf, labels_to_hf),
    from_hf=(pruned_heads_from_hf, head_from_hf, bert_dropout, _bert_pooler),
    extra_metadata=bert_extra,
    tensors=lambda config: {**BERT_ENCODER, **BERT_HEADS[config.head]},
    prefix="bert.",
    outside=("cls.", "classifier.", "qa_outputs."),
    bare=lambda config: config.head == "none",
    old_names={".gamma": ".weight", ".beta": ".bias"},
    repeated={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    ignored_tensors=lambda config: (
        "bert.embeddings.position_ids",
        *(() if config.has_pooler else ("bert.pooler.{*}", "cls.seq_relationship.{*}")),
    ),
    converted="padded",
)


# --- DistilBERT -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class DistilBertExtra:
    """The settings that Hugging Face's config.json does not have for every head."""

    head_dropout: float | None = None
    pooler: bool = True


DISTILBERT_ENCODER: TensorTable = {
    "embedding.tokens.weight": "distilbert.embeddings.word_embeddings.weight",
    "embedding.positions.weight": "distilbert.embeddings.position_embeddings.weight",
    "embedding.norm.{*}": "distilbert.embeddings.LayerNorm.{*}",
    "layers.{i}.attention.query.{*}": "distilbert.transformer.layer.{i}.attention.q_lin.{*}",
    "layers.{i}.attention.key.{*}": "distilbert.transformer.layer.{i}.attention.k_lin.{*}",
    "layers.{i}.attention.value.{*}": "distilbert.transformer.layer.{i}.attention.v_lin.{*}",
    "layers.{i}.attention.output.{*}": "distilbert.transformer.layer.{i}.attention.out_lin.{*}",
    "layers.{i}.attention_residual.after.{*}": "distilbert.transformer.layer.{i}.sa_layer_norm.{*}",
    "layers.{i}.feedforward.inner.{*}": "distilbert.transformer.layer.{i}.ffn.lin1.{*}",
    "layers.{i}.feedforward.outer.{*}": "distilbert.transformer.layer.{i}.ffn.lin2.{*}",
    "layers.{i}.feedforward_residual.after.{*}": "distilbert.transformer.layer.{i}.output_layer_norm.{*}",
}
DISTILBERT_HEADS: Mapping[HeadKind, TensorTable] = {
    "none": {},
    "masked": {
        "head.transform.{*}": "vocab_transform.{*}",
        "head.norm.{*}": "vocab_layer_norm.{*}",
        "head.output.bias": "vocab_projector.bias",
    },
    "sequence": {"pooler.map.{*}": "pre_classifier.{*}", "head.output.{*}": "classifier.{*}"},
    "tokens": {"head.output.{*}": "classifier.{*}"},
    "spans": {"head.output.{*}": "qa_outputs.{*}"},
    "choice": {"pooler.map.{*}": "pre_classifier.{*}", "head.output.{*}": "classifier.{*}"},
}


def _distilbert_dropout_field(head: HeadKind) -> str:
    """The field of the dropout before a head; empty if there is none."""
    return "seq_classif_dropout" if head in POOLED else "qa_dropout" if head == "spans" else ""


def _distilbert_dropout_to_hf(config: DistilBertConfig) -> dict[str, Any]:
    name = _distilbert_dropout_field(config.head)
    return {name: config.head_dropout} if name else {}


def _distilbert_dropout_from_hf(reading: Reading) -> dict[str, Any]:
    name = _distilbert_dropout_field(reading.settings["head"])
    return {"head_dropout": reading.values.get(name)} if reading.foreign and name else {}


DISTILBERT = HFFormat(
    model_type="distilbert",
    title="DistilBERT",
    configs=(DistilBertConfig,),
    architecture=lambda config: "DistilBert" + ARCHITECTURES[config.head],
    fields={
        "vocabulary": "vocab_size",
        "width": "dim",
        "heads": "n_heads",
        "feedforward_width": "hidden_dim",
        "layers": "n_layers",
        "maximum_positions": "max_position_embeddings",
        "activation": "activation",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "init_std": "initializer_range",
        "padding_id": "pad_token_id",
    },
    defaults={"vocab_size": 30_522},
    common_names={"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"},
    must_be=NOT_OURS,
    implied={"norm_epsilon": NORM_EPSILON},
    written={"tie_word_embeddings": True},
    special_fields={
        "head": "architectures",
        "outputs": "id2label",
        "head_dropout": "seq_classif_dropout",
        "pruned_heads": "pruned_heads",
    },
    ignored={"qa_dropout": "training only, and followed for spans"},
    extra=DistilBertExtra,
    to_hf=(_distilbert_dropout_to_hf, pruned_heads_to_hf, labels_to_hf),
    from_hf=(pruned_heads_from_hf, head_from_hf, _distilbert_dropout_from_hf),
    extra_metadata=lambda config: {"head_dropout": config.head_dropout},
    tensors=lambda config: {**DISTILBERT_ENCODER, **DISTILBERT_HEADS[config.head]},
    prefix="distilbert.",
    outside=(
        "vocab_transform.",
        "vocab_layer_norm.",
        "vocab_projector.",
        "pre_classifier.",
        "classifier.",
        "qa_outputs.",
    ),
    bare=lambda config: config.head == "none",
    old_names={".gamma": ".weight", ".beta": ".bias"},
    repeated={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
    ignored_tensors=("distilbert.embeddings.position_ids",),
    converted="padded",
)
