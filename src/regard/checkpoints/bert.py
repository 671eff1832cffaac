"""Hugging Face's layouts of BERT and DistilBERT, both ways.

Every tensor is the same there; names differ, the oldest files call a norm's gain and bias gamma and beta, and what stands on the
encoder is told by `architectures` and by the names of the tensors.
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
from regard.layers import FIXED_OUTPUTS, POOLED, Activation, HeadKind
from regard.models import Bert, BertConfig, DistilBert, DistilBertConfig
from regard.models.bert import NORM_EPSILON
from regard.models.config import shapes_only
from regard.structure import from_mapping

EncoderConfig = BertConfig | DistilBertConfig

ACTIVATIONS: Mapping[Activation, tuple[str, ...]] = {
    "gelu": ("gelu",),
    "gelu_tanh": ("gelu_new", "gelu_pytorch_tanh", "gelu_fast"),
    "relu": ("relu",),
    "swish": ("silu", "swish"),
}
"""Our names and theirs, the one that is written first."""

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
"""What follows `Bert` or `DistilBert` in the name of their class with that head."""

SIZES: Mapping[str, Mapping[str, str]] = {
    "bert": {
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
        "deviation": "initializer_range",
        "padding_id": "pad_token_id",
    },
    "distilbert": {
        "vocabulary": "vocab_size",
        "width": "dim",
        "heads": "n_heads",
        "feedforward_width": "hidden_dim",
        "layers": "n_layers",
        "maximum_positions": "max_position_embeddings",
        "activation": "activation",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "deviation": "initializer_range",
        "padding_id": "pad_token_id",
    },
}
"""Our names of a config's fields and theirs."""

FIXED: Mapping[str, object] = {
    "is_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
}
"""What their config can say otherwise, and our models cannot be."""

DECODERS = frozenset({"cls.predictions.decoder.weight", "vocab_projector.weight"})
"""What their files call the table of the output where they repeat it; it is the embedding's."""

CLASSES = {"bert": "Bert", "distilbert": "DistilBert"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsaid:
    """What their files cannot say of every head; regard.json keeps it."""

    head_dropout: float | None = None
    pooler: bool = True


def obstacle(config: EncoderConfig) -> str:
    """Why a model cannot be told in one of these layouts, as half a sentence; empty where it can."""
    if config.model_type == "distilbert" and config.norm_epsilon != NORM_EPSILON:
        return f"the epsilon of the norms is {config.norm_epsilon:g} and not {NORM_EPSILON:g}"
    return ""


def family_of(config: EncoderConfig) -> str:
    """What Hugging Face calls a model of this config."""
    return config.model_type


def config_to_theirs(config: EncoderConfig, dtype: torch.dtype) -> dict[str, Any]:
    """The content of their config.json."""
    family = config.model_type
    values: dict[str, Any] = {
        "model_type": family,
        "architectures": [CLASSES[family] + ARCHITECTURES[config.head]],
        "dtype": str(dtype).removeprefix("torch."),
        **{theirs: getattr(config, ours) for ours, theirs in SIZES[family].items()},
        "tie_word_embeddings": True,
    }
    values[SIZES[family]["activation"]] = ACTIVATIONS[config.activation][0]
    if family == "bert":
        values |= {"classifier_dropout": config.head_dropout, "position_embedding_type": "absolute"}
    elif config.head in POOLED:
        values["seq_classif_dropout"] = config.head_dropout
    elif config.head == "spans":
        values["qa_dropout"] = config.head_dropout
    if config.pruned_heads:
        pruned: dict[str, list[int]] = {}
        for layer, head in sorted(config.pruned_heads):
            pruned.setdefault(str(layer), []).append(head)
        values["pruned_heads"] = pruned
    if config.head in ("sequence", "tokens"):
        values["id2label"] = {str(index): f"LABEL_{index}" for index in range(config.outputs)}
        values["label2id"] = {f"LABEL_{index}": index for index in range(config.outputs)}
    return values


def unsaid(config: EncoderConfig) -> dict[str, Any]:
    """What `config_to_theirs` could not say."""
    if isinstance(config, BertConfig) and config.head != "none":  # there the tensors say it
        return {"head_dropout": config.head_dropout, "pooler": config.pooler}
    return {"head_dropout": config.head_dropout}


def config_to_ours(
    values: Mapping[str, Any], said: Mapping[str, Any] | None, tensors: Mapping[str, Tensor], where: str
) -> EncoderConfig:
    """Our config from their config.json.

    Arguments:
        values: the content of config.json.
        said: what regard.json keeps beside it; None for a folder made elsewhere.
        tensors: those of the file, which say what stands on the encoder.
        where: what messages call config.json.

    Raises:
        InputError: for what is missing, of another type, or not to be had in our model.
    """
    family = str(values["model_type"])
    for key, wanted in FIXED.items():
        if values.get(key, wanted) not in (wanted, None):
            raise InputError(f"{where}.{key} is {values[key]!r}; Regard's {CLASSES[family]} needs {wanted!r}")
    names = SIZES[family]
    settings = {ours: values[theirs] for ours, theirs in names.items() if values.get(theirs) is not None}
    if "activation" in settings:
        given = settings["activation"]
        settings["activation"] = next((name for name, theirs in ACTIVATIONS.items() if given in theirs), None)
        if settings["activation"] is None:
            known = ", ".join(name for theirs in ACTIVATIONS.values() for name in theirs)
            raise InputError(f"{where}.{names['activation']} is {given!r}; it must be one of {known}")
    if values.get("pruned_heads"):
        settings["pruned_heads"] = _pruned(values["pruned_heads"], where)
    plain = _plain(family, tensors, where)
    head = _head(values, plain, where)
    if values.get("tie_word_embeddings") is False and head in ("masked", "pretraining") and not DECODERS & plain.keys():
        raise InputError(
            f"{where}.tie_word_embeddings is False, and the weights have no table for the output; Regard's "
            f"{CLASSES[family]} has one table for both"
        )
    settings |= {"vocabulary": settings.get("vocabulary", 30_522), "head": head, "outputs": _outputs(head, plain)}
    config = DistilBertConfig if family == "distilbert" else BertConfig
    rest = from_mapping(Unsaid, said or {}, f"{where} (with regard.json: layout.unsaid)")
    settings["head_dropout"] = rest.head_dropout
    if family == "bert":
        settings["pooler"] = "pooler.dense.weight" in plain if head == "none" else rest.pooler
        if said is None:
            settings["head_dropout"] = values.get("classifier_dropout")
    elif said is None and head in (*POOLED, "spans"):
        settings["head_dropout"] = values.get("qa_dropout" if head == "spans" else "seq_classif_dropout")
    try:
        return from_mapping(config, settings, where)
    except InputError as error:
        raise InputError(in_their_words(str(error), names, where)) from error


def _pruned(value: Any, where: str) -> list[list[int]]:
    """Their mapping from layers to heads as pairs."""
    try:
        return [[int(layer), int(head)] for layer, heads in value.items() for head in heads]
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"{where}.pruned_heads is {value!r}; it must map layers to lists of heads") from None


def _head(values: Mapping[str, Any], plain: Mapping[str, Tensor], where: str) -> HeadKind:
    """What stands on the encoder: told by its tensors, and where these leave it open by the architecture.

    Raises:
        InputError: for an architecture that is not a list of names.
    """
    architectures = values.get("architectures") or []
    if not isinstance(architectures, list):
        raise InputError(f"{where}.architectures is {architectures!r}; it must be a list of names")
    predicts = any(name.startswith(("cls.predictions.", "vocab_transform.")) for name in plain)
    follows = "cls.seq_relationship.weight" in plain
    if predicts or follows:
        if predicts and follows:
            return "pretraining" if "pooler.dense.weight" in plain else "masked"
        return "masked" if predicts else "next_sentence"
    if "qa_outputs.weight" in plain:
        return "spans"
    if "classifier.weight" not in plain:
        return "none"
    named = "".join(map(str, architectures))
    for head in ("tokens", "choice", "sequence"):
        if ARCHITECTURES[head] in named:
            return head
    return "sequence" if {"pooler.dense.weight", "pre_classifier.weight"} & plain.keys() else "tokens"


def _outputs(head: HeadKind, plain: Mapping[str, Tensor]) -> int:
    return int(plain["classifier.weight"].shape[0]) if head in ("sequence", "tokens") else FIXED_OUTPUTS[head]


def tensors_to_theirs(config: EncoderConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our parameters under their names."""
    theirs = name_table(config).to_theirs(tensors)
    if config.head == "none":
        return theirs
    own = tuple(theirs_of_head for _, theirs_of_head in _head_names(config))
    prefix = f"{config.model_type}."
    return {name if name.startswith(own) else prefix + name: tensor for name, tensor in theirs.items()}


def tensors_to_ours(config: EncoderConfig, tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """Their tensors under our names.

    Raises:
        InputError: naming every tensor that is missing, not known or of another shape, as the file calls it, and one that is
            repeated with other numbers.
    """
    plain = _plain(config.model_type, tensors, where)
    table = plain.get("embeddings.word_embeddings.weight")
    for name in sorted(DECODERS & plain.keys()):
        repeated = plain.pop(name)
        if not (table is not None and torch.equal(repeated, table)):
            raise InputError(
                f"{where}: {name} is not the embedding table; Regard's model has one table for both (tie_word_embeddings)"
            )
    bias = plain.pop("cls.predictions.decoder.bias", None)
    if bias is not None and not torch.equal(plain.setdefault("cls.predictions.bias", bias), bias):
        raise InputError(
            f"{where}: cls.predictions.decoder.bias is not cls.predictions.bias; they are one in this model"
        )
    _check_whole(
        config, {name: each for name, each in plain.items() if not name.startswith(_ignored(config))}, tensors, where
    )
    return name_table(config).to_ours(plain)


def _check_whole(config: EncoderConfig, plain: Mapping[str, Tensor], tensors: Mapping[str, Tensor], where: str) -> None:
    """Refuse a file that is not this model's, its tensors called as it calls them."""
    family = config.model_type
    with shapes_only():
        model = (DistilBert(config) if isinstance(config, DistilBertConfig) else Bert(config)).named_parameters()
    wanted = name_table(config).to_theirs(dict(model))
    called = {_plain_name(family, name): name for name in tensors}
    prefix = f"{family}." if any(name.startswith(f"{family}.") for name in tensors) else ""
    own = tuple(theirs for _, theirs in _head_names(config))

    def name_of(name: str) -> str:
        return called.get(name, name if name.startswith(own) else prefix + name)

    shapes = {name_of(name): tuple(tensor.shape) for name, tensor in wanted.items()}
    check_same(shapes, {name_of(name): tensor for name, tensor in plain.items()}, where)


def name_table(config: EncoderConfig) -> NameTable:
    """Our names of a model's parameters and theirs, without the prefix that they give those of the encoder."""
    stack = "layers.{i}."
    if config.model_type == "bert":
        layer = "encoder.layer.{i}."
        pairs = [
            *((f"attention.{part}", f"attention.self.{part}") for part in ("query", "key", "value")),
            ("attention.output", "attention.output.dense"),
            ("attention_residual.after", "attention.output.LayerNorm"),
            ("feedforward.inner", "intermediate.dense"),
            ("feedforward.outer", "output.dense"),
            ("feedforward_residual.after", "output.LayerNorm"),
        ]
    else:
        layer = "transformer.layer.{i}."
        pairs = [
            *((f"attention.{part}", f"attention.{part[0]}_lin") for part in ("query", "key", "value")),
            ("attention.output", "attention.out_lin"),
            ("attention_residual.after", "sa_layer_norm"),
            ("feedforward.inner", "ffn.lin1"),
            ("feedforward.outer", "ffn.lin2"),
            ("feedforward_residual.after", "output_layer_norm"),
        ]
    named = [(stack + ours, layer + theirs) for ours, theirs in pairs]
    named += [("embedding.norm", "embeddings.LayerNorm"), *_head_names(config)]
    if config.model_type == "bert":
        named.append(("pooler.map", "pooler.dense"))
    rules = [
        Rule((f"embedding.{ours}.weight",), f"embeddings.{theirs}_embeddings.weight")
        for ours, theirs in (("tokens", "word"), ("positions", "position"), ("segments", "token_type"))
    ]
    for ours, theirs in named:
        if theirs in ("cls.predictions", "vocab_projector"):  # a bias without a matrix of its own
            rules.append(Rule((f"{ours}.bias",), f"{theirs}.bias"))
            continue
        rules += [Rule((f"{ours}.{kind}",), f"{theirs}.{kind}") for kind in ("weight", "bias")]
    ignored = (f"{name}{{*}}" if name.endswith(".") else name for name in _ignored(config))
    return NameTable(tuple(rules), tuple(ignored))


def _ignored(config: EncoderConfig) -> tuple[str, ...]:
    """What a file may hold and the model does not need, or how its names begin: the numbers from 0 on, another head's pooler."""
    unused = ("pooler.", "cls.seq_relationship.") if isinstance(config, BertConfig) and not config.has_pooler else ()
    return ("embeddings.position_ids", *unused)


def _head_names(config: EncoderConfig) -> list[tuple[str, str]]:
    """Our names of the modules of a head, and theirs."""
    masked = {
        "bert": [
            ("transform", "cls.predictions.transform.dense"),
            ("norm", "cls.predictions.transform.LayerNorm"),
            ("output", "cls.predictions"),
        ],
        "distilbert": [
            ("transform", "vocab_transform"),
            ("norm", "vocab_layer_norm"),
            ("output", "vocab_projector"),
        ],
    }[config.model_type]
    head = config.head
    if head == "masked":
        return [(f"head.{ours}", theirs) for ours, theirs in masked]
    if head == "pretraining":
        both = [(f"head.masked.{ours}", theirs) for ours, theirs in masked]
        return [*both, ("head.next_sentence.output", "cls.seq_relationship")]
    if head == "none":
        return []
    output = {"next_sentence": "cls.seq_relationship", "spans": "qa_outputs"}.get(head, "classifier")
    pooler = [("pooler.map", "pre_classifier")] if config.model_type == "distilbert" and head in POOLED else []
    return [*pooler, ("head.output", output)]


def _plain(family: str, tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """Their tensors without the prefix of the encoder, a norm's gain and bias called weight and bias."""
    plain: dict[str, Tensor] = {}
    for theirs, tensor in tensors.items():
        name = _plain_name(family, theirs)
        if name in plain:
            raise InputError(f"{where}: the weights have {name} twice, once as {theirs}; leave one of them")
        plain[name] = tensor
    return plain


def _plain_name(family: str, name: str) -> str:
    name = name.removeprefix(f"{family}.")
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name
