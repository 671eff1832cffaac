"""Whether other servers can open a folder: vLLM, and Hugging Face's text-embeddings-inference (TEI).

Derived from the code of vLLM 0.33.0 (its list of architectures, its loaders' tensor names) and TEI 1.9.3 (the fields that its
reader of config.json requires, and tensor names). Where a server supports the architecture but the folder lacks something that it
reads, the report names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.checking.files import json_object, tried
from regard.checkpoints.folder import CONFIG, WEIGHTS
from regard.checkpoints.tensors import read_outline

VLLM, TEI = "vLLM", "text-embeddings-inference"
POOLING, SETTINGS = "1_Pooling/config.json", "sentence_bert_config.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """Whether a server opens a folder.

    Arguments:
        opens: the architecture as which the server opens the folder; empty where something is missing.
        lacks: what is missing, each as a noun with its place.
        remarks: what differs in that server, in sentences.
    """

    opens: str = ""
    lacks: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def notes(self, name: str) -> Iterator[str]:
        """The notes for the report, besides what opens the folder."""
        if self.lacks:
            yield f"{name} does not open it: {', '.join(self.lacks)}"
        for remark in self.remarks if self.opens else ():
            yield f"{name} {remark}"


def served(folder: Path) -> dict[str, Served]:
    """What each server makes of a folder, without servers that do not support the architecture.

    Arguments:
        folder: of a model, in another library's layout.
    """
    values = json_object(folder / CONFIG)
    tensors, refusal = tried(lambda: frozenset(read_outline(folder / WEIGHTS, largest=0)))
    names = frozenset[str]() if tensors is None else tensors
    unread = ("weights in safetensors",) if refusal else ()
    found = {VLLM: _vllm(folder, values, names, unread), TEI: _tei(folder, values, names, unread)}
    return {name: each for name, each in found.items() if each is not None}


# --- names of tensors ---------------------------------------------------------------------------------------------

BOTH = ("weight", "bias")


def _with(names: tuple[str, ...], endings: tuple[str, ...] = BOTH) -> tuple[str, ...]:
    return tuple(f"{name}.{ending}" for name in names for ending in endings)


@dataclass(frozen=True, slots=True)
class Names:
    """The tensors of a model's body, by their names in transformers.

    Arguments:
        prefixes: that all of them may have.
        once: tensors outside the layers.
        layer: tensors of each layer, after `layers` and its number.
        layers: the name of the stack.
        count: the field of config.json with the number of layers.
    """

    prefixes: tuple[str, ...]
    once: tuple[str, ...]
    layer: tuple[str, ...]
    layers: str
    count: str = "num_hidden_layers"

    def lacking(self, names: frozenset[str], values: Mapping[str, Any]) -> list[str]:
        """The missing tensors, for the prefix with the fewest missing ones."""
        count = values.get(self.count)
        layers = range(count) if isinstance(count, int) and 0 < count < 10_000 else ()
        wanted = [*self.once, *(f"{self.layers}.{number}.{name}" for number in layers for name in self.layer)]
        found = ([f"{start}{name}" for name in wanted if not _held(names, start + name)] for start in self.prefixes)
        return min(found, key=len)


def _held(names: frozenset[str], name: str) -> bool:
    """Whether a tensor is there; old files call the parameters of norms `gamma` and `beta`, which both servers accept."""
    stem, _, ending = name.rpartition(".")
    old = {"weight": "gamma", "bias": "beta"}.get(ending, ending)
    return name in names or ("LayerNorm" in stem and f"{stem}.{old}" in names)


_LLAMA = _with(
    (
        *(f"self_attn.{part}_proj" for part in "qkvo"),
        *(f"mlp.{part}_proj" for part in ("gate", "up", "down")),
        *("input_layernorm", "post_attention_layernorm"),
    ),
    ("weight",),
)


def _llama(*more: str) -> Names:
    return Names(("model.",), ("embed_tokens.weight", "norm.weight"), (*_LLAMA, *more), "layers")


def _bert(*prefixes: str) -> Names:
    tables = _with(
        tuple(f"embeddings.{part}_embeddings" for part in ("word", "position", "token_type")), ("weight",)
    ) + _with(("embeddings.LayerNorm",))
    parts = tuple(f"attention.self.{part}" for part in ("query", "key", "value"))
    parts += ("attention.output.dense", "attention.output.LayerNorm", "intermediate.dense", "output.dense")
    return Names(("", *prefixes), tables, _with((*parts, "output.LayerNorm")), "encoder.layer")


_DISTILBERT = _with(
    (
        *(f"attention.{part}_lin" for part in ("q", "k", "v", "out")),
        *("sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm"),
    )
)
_GPT2 = _with(("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"))
_NEOX = _with(
    (
        *("attention.query_key_value", "attention.dense", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
        *("input_layernorm", "post_attention_layernorm"),
    )
)
_QWEN2 = tuple(f"self_attn.{part}_proj.bias" for part in "qkv")
BODIES: Mapping[str, Names] = {
    "gpt2": Names(("transformer.", ""), ("wte.weight", "wpe.weight", *_with(("ln_f",))), _GPT2, "h", "n_layer"),
    "gpt_neox": Names(("gpt_neox.",), ("embed_in.weight", *_with(("final_layer_norm",))), _NEOX, "layers"),
    "llama": _llama(),
    "mistral": _llama(),
    "qwen2": _llama(*_QWEN2),
    "qwen3": _llama("self_attn.q_norm.weight", "self_attn.k_norm.weight"),
    "bert": _bert("bert."),
    "roberta": _bert("roberta."),
    "xlm-roberta": _bert("roberta.", "xlm-roberta."),
    "camembert": _bert("roberta.", "camembert."),
    "distilbert": Names(
        ("", "distilbert."),
        (
            "embeddings.word_embeddings.weight",
            "embeddings.position_embeddings.weight",
            *_with(("embeddings.LayerNorm",)),
        ),
        _DISTILBERT,
        "transformer.layer",
        "n_layers",
    ),
    "modernbert": Names(
        ("", "model."),
        ("embeddings.tok_embeddings.weight", "embeddings.norm.weight", "final_norm.weight"),
        _with(("attn.Wqkv", "attn.Wo", "mlp.Wi", "mlp.Wo", "mlp_norm"), ("weight",)),
        "layers",
    ),
}
"""By `model_type`."""

_ROBERTA_HEAD = _with(("classifier.dense", "classifier.out_proj"))
_MODERN_HEAD = ("head.dense.weight", "head.norm.weight", *_with(("classifier",)))
TEXT, TOKEN = "ForSequenceClassification", "ForTokenClassification"
HEADS: Mapping[str, tuple[str, ...]] = {
    f"Bert{TEXT}": _with(("classifier",)),
    f"Bert{TOKEN}": _with(("classifier",)),
    f"Roberta{TEXT}": _ROBERTA_HEAD,
    f"Roberta{TOKEN}": _with(("classifier",)),
    f"XLMRoberta{TEXT}": _ROBERTA_HEAD,
    f"XLMRoberta{TOKEN}": _with(("classifier",)),
    f"Camembert{TEXT}": _ROBERTA_HEAD,
    f"DistilBert{TEXT}": _with(("pre_classifier", "classifier")),
    f"ModernBert{TEXT}": _MODERN_HEAD,
    f"ModernBert{TOKEN}": _MODERN_HEAD,
    **{f"{name}{TEXT}": ("score.weight",) for name in ("GPT2", "Llama", "Mistral", "Qwen2", "Qwen3")},
    "BertForMaskedLM": ("cls.predictions.bias", *_with(("cls.predictions.transform.dense",))),
}
"""The tensors of heads that a server reads, by architecture; of other architectures it reads the body only."""


def _lacking_tensors(kind: str, model_type: str, names: frozenset[str], values: Mapping[str, Any]) -> list[str]:
    """The tensors that a server would not find, as one part of a sentence; empty where it finds all."""
    lost = BODIES[model_type].lacking(names, values) + [name for name in HEADS.get(kind, ()) if name not in names]
    if kind.endswith(("ForCausalLM", "LMHeadModel")) and not values.get("tie_word_embeddings", model_type == "gpt2"):
        head = "embed_out.weight" if model_type == "gpt_neox" else "lm_head.weight"
        lost += [head] if head not in names else []
    if not lost:
        return []
    more = f" and {len(lost) - 3:,} more" if len(lost) > 3 else ""
    return [f"no tensor {', '.join(lost[:3])}{more} in {WEIGHTS}"]


# --- vLLM ---------------------------------------------------------------------------------------------------------

VLLM_KINDS: Mapping[str, str] = {
    "GPT2LMHeadModel": "gpt2",
    "GPTNeoXForCausalLM": "gpt_neox",
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    **{f"{name}{TEXT}": name.lower() for name in ("GPT2", "Llama", "Mistral", "Qwen2", "Qwen3")},
    **{f"Bert{end}": "bert" for end in ("Model", "ForMaskedLM", TEXT, TOKEN)},
    **{f"Roberta{end}": "roberta" for end in ("Model", "ForMaskedLM", TEXT, TOKEN)},
    **{f"XLMRoberta{end}": "xlm-roberta" for end in ("Model", TEXT, TOKEN)},
    **{f"ModernBert{end}": "modernbert" for end in ("Model", TEXT, TOKEN)},
}
"""Architectures in vLLM's list that Regard reads or writes, with their `model_type`. Llama's classifiers are not in its list:
vLLM derives them from the language model."""

GATED = ("llama", "mistral", "qwen2", "qwen3")
HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
"""Widths of attention heads for which vLLM has a CPU kernel."""
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
"""AutoTokenizer, which vLLM calls, needs one of these."""


def _vllm(folder: Path, values: Mapping[str, Any], names: frozenset[str], unread: tuple[str, ...]) -> Served | None:
    model_type, kind = str(values.get("model_type")), _kind(values)
    if not kind and model_type in VLLM_KINDS.values():
        return Served(lacks=(f"architectures is missing in {CONFIG}",))
    if VLLM_KINDS.get(kind) != model_type:
        return None
    lacks = [f"no {part}" for part in unread] or _lacking_tensors(kind, model_type, names, values)
    if not any((folder / name).is_file() for name in TOKENIZERS):
        lacks.append("no tokenizer.json")
    activation = values.get("hidden_act")
    if model_type in GATED and activation not in (None, "silu"):
        lacks.append(f"hidden_act is {activation!r} in {CONFIG}, and vLLM supports silu only")
    lacks += [
        f"{field} is set in {CONFIG}"
        for field in ("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention")
        if model_type == "gpt2" and values.get(field)
    ]
    lacks += _positions(values)
    remarks = []
    size = _head_size(values)
    if size is not None and size not in HEAD_SIZES:
        remarks.append(f"has no CPU kernel for attention heads of width {size}; on a GPU it may have one")
    how = ", through transformers" if model_type == "gpt_neox" else ""
    return Served(opens="" if lacks else f"{kind}{how}", lacks=tuple(lacks), remarks=tuple(remarks))


def _kind(values: Mapping[str, Any]) -> str:
    named = values.get("architectures")
    return str(named[0]) if isinstance(named, list) and named else ""


def _positions(values: Mapping[str, Any]) -> list[str]:
    lacks = []
    if values.get("position_embedding_type", "absolute") not in ("absolute", None):
        lacks.append(f"position_embedding_type is {values['position_embedding_type']!r} in {CONFIG}")
    if values.get("pruned_heads"):
        lacks.append(f"pruned_heads is set in {CONFIG}")
    return lacks


def _head_size(values: Mapping[str, Any]) -> int | None:
    own = values.get("head_dim")
    width, heads = (
        next((values[name] for name in names if name in values), None)
        for names in (("hidden_size", "n_embd"), ("num_attention_heads", "n_head"))
    )
    if isinstance(own, int):
        return own
    return width // heads if isinstance(width, int) and isinstance(heads, int) and heads > 0 else None


# --- text-embeddings-inference ------------------------------------------------------------------------------------

_BERT_FIELDS = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act"),
    *("hidden_dropout_prob", "max_position_embeddings", "type_vocab_size", "initializer_range", "layer_norm_eps"),
    "pad_token_id",
)
TEI_FIELDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert"), _BERT_FIELDS),
    "distilbert": (
        *("vocab_size", "dim", "n_layers", "n_heads", "hidden_dim", "activation", "max_position_embeddings"),
        "pad_token_id",
    ),
    "modernbert": (
        *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
        *("hidden_activation", "max_position_embeddings", "initializer_range", "initializer_cutoff_factor", "norm_eps"),
        *("norm_bias", "pad_token_id", "eos_token_id", "bos_token_id", "cls_token_id", "sep_token_id"),
        *("global_rope_theta", "local_rope_theta", "attention_bias", "attention_dropout", "local_attention"),
        *("global_attn_every_n_layers", "classifier_activation"),
    ),
}
"""The fields of config.json that TEI requires, by `model_type`."""

TEI_ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swiglu", "tanh")
POOLINGS = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean", "pooling_mode_lasttoken": "last token"}


def _tei(folder: Path, values: Mapping[str, Any], names: frozenset[str], unread: tuple[str, ...]) -> Served | None:
    model_type, kind = str(values.get("model_type")), _kind(values)
    if model_type not in TEI_FIELDS:
        return None
    if not kind:
        return Served(lacks=(f"architectures is missing in {CONFIG}",))
    if kind.endswith(TOKEN):
        return Served(lacks=(f"it would treat {kind} as a classifier of whole texts",))
    if not kind.endswith(("Model", "ForMaskedLM", "ForPreTraining", TEXT)):
        return None
    lacks = [f"no {part}" for part in unread] or _lacking_tensors(kind, model_type, names, values)
    missing = [name for name in TEI_FIELDS[model_type] if values.get(name) is None]
    classifies = kind.endswith(TEXT)
    if classifies:
        missing += [name for name in ("id2label", "label2id") if not values.get(name)]
        missing += ["num_labels"] if model_type == "modernbert" and "num_labels" not in values else []
    if missing:
        lacks.append(f"{', '.join(missing)} missing in {CONFIG}")
    if not (folder / "tokenizer.json").is_file():
        lacks.append("no tokenizer.json")
    lacks += [
        f"{name} is true in {CONFIG}, and TEI reads no such biases"
        for name in ("norm_bias", "classifier_bias")
        if model_type == "modernbert" and values.get(name)
    ]
    lacks += _positions(values)
    activation = next(
        (values[name] for name in ("hidden_act", "activation", "hidden_activation") if name in values), None
    )
    if activation is not None and activation not in TEI_ACTIVATIONS:
        lacks.append(f"the activation is {activation!r} in {CONFIG}, and TEI supports {', '.join(TEI_ACTIVATIONS)}")
    opens = "classes of texts"
    if not classifies:
        pooling, refused = _tei_pooling(folder)
        opens, lacks = f"text embeddings (pooling: {pooling})", [*lacks, *refused]
    if lacks:
        return Served(lacks=tuple(lacks))
    remarks = []
    if activation == "gelu":
        remarks.append("computes GELU by the tanh approximation, so results differ slightly")
    if classifies and values.get("problem_type") in ("multi_label_classification", "regression"):
        remarks.append("applies softmax or sigmoid to every classifier's outputs; request raw_scores")
    return Served(opens=opens, remarks=tuple(remarks))


def _tei_pooling(folder: Path) -> tuple[str, list[str]]:
    """How TEI pools a text's vectors, and why it cannot."""
    if not (folder / POOLING).is_file():  # TEI's default for every model_type with "bert" in its name, as here
        return "cls, its default without 1_Pooling", []
    settings = json_object(folder / POOLING)
    flags = ("pooling_mode_cls_token", "pooling_mode_mean_tokens")
    if missing := [flag for flag in flags if not isinstance(settings.get(flag), bool)]:
        return "", [f"{', '.join(missing)} missing in {POOLING}"]
    on = [name for flag, name in POOLINGS.items() if settings.get(flag) is True]
    others = [
        flag
        for flag, value in settings.items()
        if value is True and flag.startswith("pooling_mode_") and flag not in POOLINGS
    ]
    lacks = [] if len(on) == 1 and not others else [f"{POOLING} asks for a pooling other than cls or mean"]
    if on == ["last token"]:
        lacks = [f"{POOLING} asks for the last token, which TEI supports for decoders only"]
    if (folder / SETTINGS).is_file() and not isinstance(json_object(folder / SETTINGS).get("max_seq_length"), int):
        lacks.append(f"max_seq_length missing in {SETTINGS}")
    return (on or [""])[0], lacks
