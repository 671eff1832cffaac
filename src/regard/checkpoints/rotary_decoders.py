"""Hugging Face's layouts of decoders with rotary positions: Llama, Mistral, Qwen2 and Qwen3, and at the end GPT-NeoX.

The first four belong to our family `llama`. They differ in what their config.json can represent: Llama has biases everywhere or
nowhere, Mistral a sliding window in all blocks, Qwen2 biases of queries, keys and values, Qwen3 norms of queries and keys, and
the last two a window from one block on. A model is written in the first layout that can represent it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from regard.attention import RotaryScaling
from regard.checkpoints.encoders import labels_to_hf
from regard.checkpoints.hf_format import HFFormat, HFTensor, Reading, TensorTable
from regard.errors import InputError
from regard.models.gpt_neox import GPTNeoXConfig
from regard.models.llama import LlamaConfig, head_width_of, key_heads_of
from regard.models.llama_classifier import LlamaClassifierConfig
from regard.structure import from_mapping

RotaryConfig = LlamaConfig | GPTNeoXConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class DecoderExtra:
    """The settings that Hugging Face's config.json does not have."""

    padding_id: int | None = None
    end_id: int | None = None
    maximum_positions: int | None = None
    dropout: float | None = None
    head_dropout: float | None = None


def _extra(config: RotaryConfig) -> dict[str, Any]:
    scaling = config.rotary_scaling
    longest = config.maximum_positions if scaling is not None and scaling.kind == "dynamic" else None
    kept: dict[str, Any] = {"padding_id": config.padding_id, "end_id": config.end_id, "maximum_positions": longest}
    if isinstance(config, LlamaClassifierConfig):
        kept["head_dropout"] = config.head_dropout
    return {**kept, "dropout": config.dropout or None if isinstance(config, LlamaConfig) else None}


# --- config.json ------------------------------------------------------------------------------------------------

SCALINGS: Mapping[str, Mapping[str, str]] = {
    "linear": {},
    "dynamic": {},
    "llama3": {"low_frequency": "low_freq_factor", "high_frequency": "high_freq_factor"},
    "yarn": {
        "beta_fast": "beta_fast",
        "beta_slow": "beta_slow",
        "attention_factor": "attention_factor",
        "truncated": "truncate",
    },
}
"""Our names and theirs of the settings of each kind of scaling, besides the factor."""

TRAINED = "original_max_position_embeddings"


def _rotary_to_hf(config: LlamaConfig) -> dict[str, Any]:
    """The settings of rotary positions, under the names that all versions of transformers read."""
    return {"rope_theta": config.rotary_base, **_scaling_to_hf(config)}


def _scaling_to_hf(config: RotaryConfig) -> dict[str, Any]:
    scaling = config.rotary_scaling
    if scaling is None:
        return {"rope_scaling": None, "max_position_embeddings": config.maximum_positions}
    said = {"rope_type": scaling.kind, "factor": scaling.factor}
    said |= {theirs: getattr(scaling, ours) for ours, theirs in SCALINGS[scaling.kind].items()}
    if scaling.kind in ("llama3", "yarn"):
        said[TRAINED] = scaling.trained_positions
    longest = scaling.trained_positions if scaling.kind == "dynamic" else config.maximum_positions
    said = {key: value for key, value in said.items() if value is not None}
    return {"rope_scaling": said, "max_position_embeddings": longest}


def _rotary_from_hf(reading: Reading) -> dict[str, Any]:
    """The base and the scaling, from `rope_parameters` or, in files before version 5, `rope_scaling` and `rope_theta`.

    Raises:
        InputError: for a kind of scaling or a setting of one that Regard does not have.
    """
    base, share = _given(reading, "rope_theta"), reading.values.get("partial_rotary_factor")
    found = _rotation_from_hf(reading, base, share, whole=True)
    return {name: value for name, value in found.items() if name != "rotary_share"}


def _rotation_from_hf(reading: Reading, base: Any, share: Any, *, whole: bool = False) -> dict[str, Any]:
    """The number of positions, the rotary base, the share of rotated channels and the scaling.

    Arguments:
        base, share: the values to use if they are not in `rope_parameters` or `rope_scaling`.
        whole: whether the family rotates all channels of a head.
    """
    values, positions = reading.values, _given(reading, "max_position_embeddings")
    name = "rope_scaling" if values.get("rope_scaling") else "rope_parameters"
    where, given = f"{reading.where}.{name}", values.get(name)
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f"{where} is {given!r:.60}; it must be an object")
    said = dict(given or {})
    base = said.pop("rope_theta", base)
    share = said.pop("partial_rotary_factor", share)
    if whole and share not in (None, 1, 1.0):
        raise InputError(f"{where}.partial_rotary_factor is {share!r}; Regard's Llama rotates whole heads")
    kind = said.pop("rope_type", said.get("type", "default"))
    said.pop("type", None)
    found = {"rotary_base": _decimal(base), "rotary_share": _decimal(share), "maximum_positions": positions}
    if kind == "default":
        return found
    if not isinstance(kind, str) or kind not in SCALINGS:
        raise InputError(f"{where}.rope_type is {kind!r:.60}; Regard knows default, {', '.join(SCALINGS)}")
    trained = said.pop(TRAINED, values.get(TRAINED, positions))
    factor = said.get("factor")
    numbers = {"max_position_embeddings": positions, TRAINED: trained, **_scales(said)}
    for key, value in (numbers | ({"factor": factor} if isinstance(factor, int | float) else {})).items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e18:
            raise InputError(f"{where}: {key} is {value!r:.60}; it must be a number above 0")
    settings: dict[str, Any] = {"kind": kind, "factor": said.pop("factor", None)}
    if settings["factor"] is None and kind == "yarn":
        settings["factor"] = positions / trained
    if kind != "linear":
        settings["trained_positions"] = positions if kind == "dynamic" else trained
    if kind == "yarn":
        settings["attention_factor"] = _attention_factor(said, settings["factor"])
    for ours, theirs in SCALINGS[kind].items():
        value = said.pop(theirs, None)
        if value is not None:
            settings[ours] = value
    if said:
        raise InputError(f"{where}: Regard's {kind} scaling has no setting {', '.join(sorted(said))}; leave it out")
    if kind == "dynamic":
        longest = int(positions * settings["factor"]) if isinstance(settings["factor"], int | float) else positions
        found["maximum_positions"] = reading.extra.maximum_positions or longest
    settings = {name: value for name, value in settings.items() if value is not None}
    found["rotary_scaling"] = from_mapping(RotaryScaling, settings, where)
    return found


def _scales(said: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a scaling from which others are computed."""
    return {key: said[key] for key in ("mscale", "mscale_all_dim") if said.get(key)}


def _attention_factor(said: dict[str, Any], factor: Any) -> float | None:
    """The `attention_factor`, which DeepSeek's models define by two other settings."""
    scale, of_all = said.pop("mscale", None), said.pop("mscale_all_dim", None)
    given = said.pop("attention_factor", None)
    if given is not None or not (scale and of_all):
        return given
    more = RotaryScaling(kind="yarn", factor=factor, trained_positions=1).magnitude - 1
    return (more * scale + 1) / (more * of_all + 1)


def _decimal(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _given(reading: Reading, name: str) -> Any:
    """The value of a field, or its default."""
    value = reading.values.get(name)
    return reading.defaults[name] if value is None else value


def _heads_to_hf(config: LlamaConfig) -> dict[str, Any]:
    return {"num_key_value_heads": key_heads_of(config), "head_dim": head_width_of(config)}


def _heads_from_hf(reading: Reading) -> dict[str, Any]:
    """The number of key heads (the number of query heads if null) and the width of a head, with the defaults of the layout."""
    groups, width = (
        reading.values[name] if name in reading.values else reading.defaults.get(name)
        for name in ("num_key_value_heads", "head_dim")
    )
    return {"key_heads": groups, "head_width": width}


def _tokens_to_hf(config: RotaryConfig) -> dict[str, Any]:
    return {"bos_token_id": config.end_id, "eos_token_id": config.end_id, "pad_token_id": config.padding_id}


def _tokens_from_hf(reading: Reading) -> dict[str, Any]:
    """The first of several end tokens (generation_config.json has all), and the padding token, by default the end token."""
    end = reading.extra.end_id
    if end is None:
        end = reading.values["eos_token_id"] if "eos_token_id" in reading.values else reading.defaults["eos_token_id"]
        end = end[0] if isinstance(end, list) and end else end
        end = 0 if end is None else end
    padding = reading.extra.padding_id
    if padding is None:
        padding = reading.values.get("pad_token_id")
    reading.words |= {"end_id": "eos_token_id", "padding_id": "eos_token_id" if padding is None else "pad_token_id"}
    return {"end_id": end, "padding_id": end if padding is None else padding}


def _llama_biases_to_hf(config: LlamaConfig) -> dict[str, Any]:
    return {"attention_bias": config.attention_bias}


def _llama_biases_from_hf(reading: Reading) -> dict[str, Any]:
    bias = bool(_given(reading, "attention_bias"))
    return {"attention_bias": bias, "attention_output_bias": bias}


def _mistral_window_from_hf(reading: Reading) -> dict[str, Any]:
    kinds = set(reading.values.get("layer_types") or ())
    if len(kinds) > 1:
        raise InputError(
            f"{reading.where}.layer_types has several kinds; Regard's Mistral has the same window in all blocks"
        )
    window = reading.values.get("sliding_window", 4096)
    return {"sliding_window": None if kinds == {"full_attention"} else window, "window_from": 0}


def _qwen_window_to_hf(config: LlamaConfig) -> dict[str, Any]:
    first = config.window_from
    return {
        "use_sliding_window": config.sliding_window is not None,
        "sliding_window": config.sliding_window,
        "max_window_layers": first,
        "layer_types": [
            "full_attention" if config.sliding_window is None or index < first else "sliding_attention"
            for index in range(config.layers)
        ],
    }


def _qwen_window_from_hf(reading: Reading) -> dict[str, Any]:
    """The window, and the first block with a window; the blocks before it attend to all previous tokens."""
    values = reading.values
    used = values.get("use_sliding_window")
    if used not in (None, True, False):
        raise InputError(f"{reading.where}.use_sliding_window is {used!r}; it must be true or false")
    window = _given(reading, "sliding_window") if used else None
    kinds, count = values.get("layer_types"), reading.settings.get("layers")
    first = _given(reading, "max_window_layers")
    if not isinstance(first, int) or first < 0:
        raise InputError(f"{reading.where}.max_window_layers is {first!r}; it must be a whole number of at least 0")
    if kinds is not None:
        slides = [kind == "sliding_attention" for kind in kinds]
        first = slides.index(True) if any(slides) else len(slides)
        if not all(slides[first:]) or (isinstance(count, int) and 0 < count != len(slides)):
            raise InputError(
                f"{reading.where}.layer_types is {kinds!r}; Regard's {reading.values['model_type']} has full attention up to a "
                "block and sliding attention from there on, one entry for each block"
            )
        if any(slides) and window is None:
            raise InputError(
                f"{reading.where}.layer_types has sliding_attention, but there is no window; set use_sliding_window and "
                "sliding_window"
            )
    if isinstance(count, int) and isinstance(first, int) and first >= count:
        window, first = None, 0
    return {"sliding_window": window, "window_from": 0 if window is None else first}


def _biases_apart(config: LlamaConfig) -> str:
    """Why the biases cannot be written: the attention of Llama and Qwen3 has them in all four projections or in none."""
    if config.attention_bias != config.attention_output_bias:
        return "its attention has biases in some projections"
    return _written_head(config)


def _not_a_llama(config: LlamaConfig) -> str:
    uneven = config.width % config.heads
    return _biases_apart(config) or (f"{config.heads} heads do not divide the width {config.width}" if uneven else "")


def _not_a_qwen2(config: LlamaConfig) -> str:
    own = "" if head_width_of(config) * config.heads == config.width else "its heads have a width of their own"
    return own or _written_head(config)


FIELDS = {
    "vocabulary": "vocab_size",
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "feedforward_width": "intermediate_size",
    "layers": "num_hidden_layers",
    "activation": "hidden_act",
    "attention_dropout": "attention_dropout",
    "norm_epsilon": "rms_norm_eps",
    "init_std": "initializer_range",
    "tied_output": "tie_word_embeddings",
}
SPECIAL = {
    "key_heads": "num_key_value_heads",
    "head_width": "head_dim",
    "maximum_positions": "max_position_embeddings",
    "rotary_base": "rope_theta",
    "rotary_scaling": "rope_scaling",
    "end_id": "eos_token_id",
    "padding_id": "pad_token_id",
    "head": "architectures",
    "outputs": "id2label",
}
BIASES = {"attention_bias": "attention_bias", "attention_output_bias": "attention_bias"}
NO_BIASES = {"attention_bias": False, "attention_output_bias": False, "feedforward_bias": False}
WINDOWS = {"sliding_window": "sliding_window", "window_from": "max_window_layers"}
IGNORED = {
    "rope_parameters": "followed, as rope_scaling and rope_theta",
    TRAINED: "followed, with the scaling",
    "partial_rotary_factor": "refused if only a part of each head is rotated",
    "pretraining_tp": "in how many parts a multiplication is computed",
    "rope_interleaved": "a setting of other programs",
}
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 32_000,
    "hidden_size": 4096,
    "intermediate_size": 11_008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "rope_theta": 10_000.0,
    "attention_bias": False,
    "mlp_bias": False,
    "eos_token_id": 2,
}
QWEN_DEFAULTS = {
    **{name: value for name, value in DEFAULTS.items() if name != "mlp_bias"},
    "vocab_size": 151_936,
    "intermediate_size": 22_016,
    "max_position_embeddings": 32_768,
    "num_key_value_heads": 32,
    "sliding_window": 4096,
    "max_window_layers": 28,
    "eos_token_id": None,
}


def _tensors(config: LlamaConfig) -> TensorTable:
    if isinstance(config, LlamaClassifierConfig):
        return {**TENSORS, "head.output.weight": SCORE}
    output: TensorTable = {} if config.tied_output else {"output.weight": "lm_head.weight"}
    return {**TENSORS, **output}


SCORE = "score.weight"
"""The name of the tensor of a classifier's head."""


def _named_for(title: str) -> Callable[[LlamaConfig], str]:
    """A function from a config to the name of their class, which depends on the head."""

    def named(config: LlamaConfig) -> str:
        return f"{title}For" + ("SequenceClassification" if isinstance(config, LlamaClassifierConfig) else "CausalLM")

    return named


def _head_to_hf(config: LlamaConfig) -> dict[str, Any]:
    return labels_to_hf(config) if isinstance(config, LlamaClassifierConfig) else {}


def _head_from_hf(reading: Reading) -> dict[str, Any]:
    """The head, a linear map without a bias on the last token, if its tensor is there; their models have no dropout before it."""
    if SCORE not in reading.tensors:
        return {}
    dropout = 0.0 if reading.extra.head_dropout is None else reading.extra.head_dropout
    outputs = len(reading.tensors[SCORE])
    return {"family": "llama_classifier", "head": "sequence", "outputs": outputs, "head_dropout": dropout}


def _written_head(config: LlamaConfig) -> str:
    """Why a head cannot be written: their classes have heads for one text, and none for multiple choice."""
    choice = isinstance(config, LlamaClassifierConfig) and config.head != "sequence"
    return "its head compares several texts" if choice else ""


TENSORS: TensorTable = {
    "embedding.tokens.weight": "model.embed_tokens.weight",
    "layers.{i}.attention.query.{*}": "model.layers.{i}.self_attn.q_proj.{*}",
    "layers.{i}.attention.key.{*}": "model.layers.{i}.self_attn.k_proj.{*}",
    "layers.{i}.attention.value.{*}": "model.layers.{i}.self_attn.v_proj.{*}",
    "layers.{i}.attention.output.{*}": "model.layers.{i}.self_attn.o_proj.{*}",
    "layers.{i}.attention.query_norm.{*}": "model.layers.{i}.self_attn.q_norm.{*}",
    "layers.{i}.attention.key_norm.{*}": "model.layers.{i}.self_attn.k_norm.{*}",
    "layers.{i}.feedforward.gate.{*}": "model.layers.{i}.mlp.gate_proj.{*}",
    "layers.{i}.feedforward.inner.{*}": "model.layers.{i}.mlp.up_proj.{*}",
    "layers.{i}.feedforward.outer.{*}": "model.layers.{i}.mlp.down_proj.{*}",
    "layers.{i}.attention_residual.before.{*}": "model.layers.{i}.input_layernorm.{*}",
    "layers.{i}.feedforward_residual.before.{*}": "model.layers.{i}.post_attention_layernorm.{*}",
    "norm.{*}": "model.norm.{*}",
}

COMMON: Mapping[str, Any] = {
    "configs": (LlamaConfig, LlamaClassifierConfig),
    "extra": DecoderExtra,
    "extra_metadata": _extra,
    "tensors": _tensors,
    "prefix": "model.",
    "outside": ("lm_head.", "score."),
    "repeated": {"lm_head.weight": "model.embed_tokens.weight"},
    # Old files, from the time of Llama 2, have the rotary frequencies.
    "ignored_tensors": ("{*}.rotary_emb.inv_freq",),
}

LLAMA = HFFormat(
    model_type="llama",
    title="Llama",
    architecture=_named_for("Llama"),
    fields={**FIELDS, "feedforward_bias": "mlp_bias"},
    special_fields={**SPECIAL, **BIASES},
    defaults=DEFAULTS,
    implied={"sliding_window": None, "window_from": 0, "query_key_norm": False},
    ignored=IGNORED,
    unsupported=_not_a_llama,
    to_hf=(_heads_to_hf, _rotary_to_hf, _tokens_to_hf, _llama_biases_to_hf, _head_to_hf),
    from_hf=(_heads_from_hf, _rotary_from_hf, _tokens_from_hf, _llama_biases_from_hf, _head_from_hf),
    **COMMON,
)

MISTRAL = HFFormat(
    model_type="mistral",
    title="Mistral",
    architecture=_named_for("Mistral"),
    fields=FIELDS,
    special_fields={**SPECIAL, "sliding_window": "sliding_window"},
    defaults={
        **{name: value for name, value in DEFAULTS.items() if name not in ("attention_bias", "mlp_bias")},
        "intermediate_size": 14_336,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131_072,
    },
    must_be={"attention_bias": False, "mlp_bias": False},
    implied={**NO_BIASES, "query_key_norm": False, "window_from": 0},
    ignored={**IGNORED, "layer_types": "refused if there are several kinds"},
    unsupported=_written_head,
    to_hf=(
        _heads_to_hf,
        _rotary_to_hf,
        _tokens_to_hf,
        lambda config: {"sliding_window": config.sliding_window},
        _head_to_hf,
    ),
    from_hf=(_heads_from_hf, _rotary_from_hf, _tokens_from_hf, _mistral_window_from_hf, _head_from_hf),
    **COMMON,
)

QWEN2 = HFFormat(
    model_type="qwen2",
    title="Qwen2",
    architecture=_named_for("Qwen2"),
    fields=FIELDS,
    special_fields={**SPECIAL, **WINDOWS},
    defaults={name: value for name, value in QWEN_DEFAULTS.items() if name != "attention_bias"},
    must_be={"attention_bias": True, "mlp_bias": False},
    implied={**NO_BIASES, "attention_bias": True, "query_key_norm": False},
    ignored={**IGNORED, "use_sliding_window": "followed", "layer_types": "followed"},
    unsupported=_not_a_qwen2,
    to_hf=(_heads_to_hf, _rotary_to_hf, _tokens_to_hf, _qwen_window_to_hf, _head_to_hf),
    from_hf=(_heads_from_hf, _rotary_from_hf, _tokens_from_hf, _qwen_window_from_hf, _head_from_hf),
    **COMMON,
)

QWEN3 = HFFormat(
    model_type="qwen3",
    title="Qwen3",
    architecture=_named_for("Qwen3"),
    fields=FIELDS,
    special_fields={**SPECIAL, **WINDOWS, **BIASES},
    defaults={**QWEN_DEFAULTS, "head_dim": 128},
    must_be={"mlp_bias": False},
    implied={"query_key_norm": True, "feedforward_bias": False},
    ignored={**IGNORED, "use_sliding_window": "followed", "layer_types": "followed"},
    unsupported=_biases_apart,
    to_hf=(_heads_to_hf, _rotary_to_hf, _tokens_to_hf, _qwen_window_to_hf, _llama_biases_to_hf, _head_to_hf),
    from_hf=(
        _heads_from_hf,
        _rotary_from_hf,
        _tokens_from_hf,
        _qwen_window_from_hf,
        _llama_biases_from_hf,
        _head_from_hf,
    ),
    **COMMON,
)

# --- GPT-NeoX ---------------------------------------------------------------------------------------------------


def _neox_rotary_to_hf(config: GPTNeoXConfig) -> dict[str, Any]:
    """The settings of rotary positions, under the names that all versions of transformers read."""
    found = {"rotary_pct": config.rotary_share, "rotary_emb_base": config.rotary_base}
    return {**found, **_scaling_to_hf(config)}


def _neox_rotary_from_hf(reading: Reading) -> dict[str, Any]:
    """The settings of rotary positions, from `rope_parameters` or, before version 5, `rotary_pct` and `rotary_emb_base`.

    Raises:
        InputError: for a kind of scaling or a setting of one that Regard does not have.
    """
    return _rotation_from_hf(reading, _given(reading, "rotary_emb_base"), _given(reading, "rotary_pct"))


def _neox_tensors(config: GPTNeoXConfig) -> TensorTable:
    attention = "gpt_neox.layers.{i}.attention."
    output: TensorTable = {} if config.tied_output else {"output.weight": "embed_out.weight"}
    return {
        "embedding.tokens.weight": "gpt_neox.embed_in.weight",
        "layers.{i}.attention.{query,key,value}.{*}": HFTensor(attention + "query_key_value.{*}", heads=config.heads),
        "layers.{i}.attention.output.{*}": attention + "dense.{*}",
        "layers.{i}.feedforward.inner.{*}": "gpt_neox.layers.{i}.mlp.dense_h_to_4h.{*}",
        "layers.{i}.feedforward.outer.{*}": "gpt_neox.layers.{i}.mlp.dense_4h_to_h.{*}",
        "layers.{i}.attention_residual.before.{*}": "gpt_neox.layers.{i}.input_layernorm.{*}",
        "layers.{i}.feedforward_residual.before.{*}": "gpt_neox.layers.{i}.post_attention_layernorm.{*}",
        "norm.{*}": "gpt_neox.final_layer_norm.{*}",
        **output,
    }


GPT_NEOX = HFFormat(
    model_type="gpt_neox",
    title="GPT-NeoX",
    configs=(GPTNeoXConfig,),
    architecture="GPTNeoXForCausalLM",
    fields={
        **{ours: theirs for ours, theirs in FIELDS.items() if ours != "norm_epsilon"},
        "norm_epsilon": "layer_norm_eps",
        "parallel": "use_parallel_residual",
        "attention_bias": "attention_bias",
        "dropout": "hidden_dropout",
    },
    special_fields={
        "maximum_positions": "max_position_embeddings",
        "rotary_share": "rotary_pct",
        "rotary_base": "rotary_emb_base",
        "rotary_scaling": "rope_scaling",
        "end_id": "eos_token_id",
        "padding_id": "pad_token_id",
    },
    defaults={
        "vocab_size": 50_432,
        "hidden_size": 6144,
        "num_hidden_layers": 44,
        "num_attention_heads": 64,
        "intermediate_size": 24_576,
        "hidden_act": "gelu",
        "max_position_embeddings": 2048,
        "layer_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "use_parallel_residual": True,
        "attention_bias": True,
        "rotary_pct": 0.25,
        "rotary_emb_base": 10_000.0,
        "eos_token_id": 2,
    },
    ignored={
        "rope_parameters": "followed, as rope_scaling, rotary_pct and rotary_emb_base",
        TRAINED: "followed, with the scaling",
        "attention_probs_dropout_prob": "training only",
        "is_decoder": "the class decides",
    },
    extra=DecoderExtra,
    extra_metadata=_extra,
    to_hf=(_neox_rotary_to_hf, _tokens_to_hf),
    from_hf=(_neox_rotary_from_hf, _tokens_from_hf),
    tensors=_neox_tensors,
    prefix="gpt_neox.",
    outside=("embed_out.", "lm_head.", "score."),
    # The output is called lm_head in transformers since version 5, but still embed_out in files.
    old_names={"lm_head.weight": "embed_out.weight"},
    repeated={"embed_out.weight": "gpt_neox.embed_in.weight"},
    # Old files have the causal mask and the rotary frequencies.
    ignored_tensors=("{*}.attention.bias", "{*}.attention.masked_bias", "{*}.rotary_emb.inv_freq"),
)
