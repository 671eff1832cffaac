"""Hugging Face's layouts of models, each as one table: `HFFormat`.

A format says how a model of ours is called there and back: the fields of its config.json, the names of its tensors, the names of
activations, and what our models cannot be. The machinery that reads and writes by these tables stands here, once; the tables
themselves in `encoders` (BERT), `decoders` (GPT, Reformer), `translators` (Marian, T5) and `images` (ViT). What no table can
say is a small named function next to it.

Every field of a config.json is followed, refused by its name, or known to change nothing (`IGNORED`); any other is reported in a
warning. Every tensor is mapped by a rule, or is one of those that the format names as repeated, constant or ignored.
`FORMATS` names every format, so a new layout is a table and a line there.
"""

from __future__ import annotations

import importlib
import itertools
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import Tensor

from regard.checkpoints.tensors import NameTable, Rule, check_same
from regard.errors import InputError
from regard.models import MODELS
from regard.models.config import shapes_only
from regard.reading import read_json_object
from regard.structure import from_mapping

FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "marian": "translators:MARIAN",
        "pegasus": "translators:PEGASUS",
        "bart": "translators:BART",
        "bert": "encoders:BERT",
        "distilbert": "encoders:DISTILBERT",
        "roberta": "later_encoders:ROBERTA",
        "xlm-roberta": "later_encoders:XLM_ROBERTA",
        "electra": "later_encoders:ELECTRA",
        "modernbert": "modern_encoders:MODERNBERT",
        "openai-gpt": "decoders:GPT",
        "gpt2": "decoders:GPT2",
        "reformer": "decoders:REFORMER",
        "gpt_neox": "rotary_decoders:GPT_NEOX",
        "llama": "rotary_decoders:LLAMA",
        "mistral": "rotary_decoders:MISTRAL",
        "qwen2": "rotary_decoders:QWEN2",
        "qwen3": "rotary_decoders:QWEN3",
        "t5": "translators:T5",
        "mt5": "translators:MT5",
        "vit": "images:VIT",
    }
)
"""By the `model_type` of their config.json, the module here and the name of the table in it; imported when it is needed."""

FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "transformer": ("marian", "pegasus", "bart"),
        "bert": ("bert",),
        "distilbert": ("distilbert",),
        "roberta": ("roberta",),
        "xlm_roberta": ("xlm-roberta",),
        "electra": ("electra",),
        "modernbert": ("modernbert",),
        "gpt": ("openai-gpt",),
        "gpt2": ("gpt2",),
        "gpt3": ("gpt2",),
        "reformer": ("reformer",),
        "gpt_neox": ("gpt_neox",),
        "llama": ("llama", "mistral", "qwen2", "qwen3"),
        "llama_classifier": ("llama", "mistral", "qwen2", "qwen3"),
        "t5": ("t5",),
        "vit": ("vit",),
    }
)
"""By our own families, the formats that a model may be written in; a family that is not here is in no other library."""

ACTIVATIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gelu": ("gelu",),
        "gelu_tanh": ("gelu_new", "gelu_pytorch_tanh", "gelu_fast"),
        "relu": ("relu",),
        "swish": ("silu", "swish"),
    }
)
"""Our names of activations and theirs, the one that is written first."""

DECODING = (
    *("max_length", "min_length", "max_new_tokens", "num_beams", "num_beam_groups", "do_sample", "early_stopping"),
    *("temperature", "top_k", "top_p", "typical_p", "length_penalty", "repetition_penalty", "diversity_penalty"),
    *("no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "suppress_tokens", "prefix"),
    *("num_return_sequences", "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values"),
    *("begin_suppress_tokens", "exponential_decay_length_penalty", "task_specific_params", "decoder_start_token_id"),
    *(
        "min_new_tokens",
        "min_p",
        "top_h",
        "epsilon_cutoff",
        "eta_cutoff",
        "penalty_alpha",
        "encoder_repetition_penalty",
    ),
    *("sequence_bias", "renormalize_logits", "constraints", "force_words_ids", "forced_decoder_ids", "stop_strings"),
    *("guidance_scale", "max_time", "token_healing", "dola_layers", "low_memory", "watermarking_config"),
    "force_bos_token_to_be_generated",
    *("cache_implementation", "cache_config", "max_cache_len", "prefill_chunk_size", "output_logits"),
)
"""What says how to decode, which `regard.tasks.generation_config` follows or names."""
TRAINING = (
    *("initializer_range", "initializer_factor", "init_std", "axial_norm_std", "sinusoidal_pos_embds"),
    *("classifier_dropout", "classif_dropout", "encoder_layerdrop", "decoder_layerdrop", "gradient_checkpointing"),
    *("hidden_dropout_prob", "dropout", "attention_dropout", "activation_dropout"),
)
ANSWERS = (
    *("output_hidden_states", "output_attentions", "output_past", "output_scores", "return_dict"),
    *("return_dict_in_generate", "use_return_dict", "use_cache", "torchscript", "use_bfloat16", "tf_legacy_loss"),
)
NAMED = ("id2label", "label2id", "num_labels", "problem_type", "_num_labels", "label_smoothing", "finetuning_task")
ORIGIN = ("transformers_version", "model_type", "_name_or_path", "name_or_path", "_commit_hash", "auto_map")

IGNORED: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(ORIGIN, "who wrote it"),
        **dict.fromkeys(ANSWERS, "what is returned besides the logits, or kept between steps"),
        **dict.fromkeys(NAMED, "what the outputs are called and mean, which the tasks read"),
        **dict.fromkeys(DECODING, "how answers are searched for, which generation_config.json says"),
        **dict.fromkeys(TRAINING, "training only"),
        "architectures": "the tensors say which head the model has",
        "dtype": "the tensors have a dtype of their own",
        "torch_dtype": "the tensors have a dtype of their own",
        "chunk_size_feed_forward": "how many places pass at a time",
        "is_encoder_decoder": "the class decides",
        "bos_token_id": "where texts begin, which the tokenizer says",
        "eos_token_id": "where texts end, which the tokenizer says",
        "sep_token_id": "where texts end, which the tokenizer says",
        "pad_token_id": "padding is masked",
        "tokenizer_class": "the tokenizer's own files say it",
        "quantization_config": "the tensors are refused where they are not plain numbers",
    }
)
"""Fields of a config.json that change no output of any format here, and why."""


@dataclass(frozen=True, slots=True)
class HFTensor:
    """A tensor of theirs that is not simply ours under another name.

    Arguments:
        name: as in their file.
        transposed, channels, unsqueezed, heads: as in `Rule`.
    """

    name: str
    transposed: bool = False
    channels: tuple[int, ...] = ()
    unsqueezed: int | None = None
    heads: int | None = None


TensorTable = Mapping[str, "str | HFTensor"]
"""Our names and theirs. In a name `{i}` stands for a layer's number and `{*}` for the rest, mostly `weight` and `bias`; of
`{query,key,value}` each is meant, and theirs is all of them stacked along the first axis."""


@dataclass(frozen=True, slots=True)
class NothingElse:
    """The extra metadata of a format whose config.json says all of a model."""


@dataclass(slots=True)
class Reading:
    """A config.json while it is read; what the special functions of a format are given.

    Arguments:
        values: its content, every field under the family's own name; where the file of a model for images has a
            preprocessor_config.json next to it, under `preprocessor` that.
        settings: of our config, as far as they are known.
        extra: what regard.json keeps besides it, as the format's `extra`; its defaults in a folder made elsewhere.
        foreign: whether the folder was made elsewhere.
        tensors: those of the file, under the names of the format's table; shapes alone of the large ones.
        where: what messages call config.json.
        words: our names of fields and theirs, for messages.
        defaults: as the format has them.
    """

    values: Mapping[str, Any]
    settings: dict[str, Any]
    extra: Any
    foreign: bool
    tensors: Mapping[str, Tensor]
    where: str
    words: dict[str, str]
    defaults: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor that their file holds and no parameter of ours is.

    Arguments:
        value: what it has to be, in float32.
        described: what messages call that.
        tolerance: by how much each number may differ, besides the rounding of half precision.
        optional: whether a file may lack it.
        written: whether our files have it.
    """

    value: Tensor
    described: str = "zero"
    tolerance: float = 0.0
    optional: bool = False
    written: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class HFFormat:
    """One of Hugging Face's layouts: what a model of ours is called there, both ways.

    Of the config.json:

    Arguments:
        model_type: what it calls the family.
        title: what people call the family.
        configs: our configs that are written so; the first is made of a folder from elsewhere, unless a function of `from_hf`
            names another as `family`.
        architecture: the class of theirs, or which it is for a config.
        fields: our names of the fields and theirs.
        activations: our names of the activations and theirs; those that are missing cannot be written.
        defaults: by their name, what leaving a field out means there, where it is not what our config means by it.
        required: their fields without which a file is refused.
        common_names: what all of their models call a field, and the family's own name for it.
        must_be: their fields that our model can have one value of, and that value.
        must_agree: their fields that have to be as another is, and that other.
        implied: our fields that their config cannot say, and the only value there.
        written: what is written next to `fields`, for other programs.
        token_ids: their fields that repeat an id of the tokenizer, for other programs, and what `Tokenizer` calls it.
        ignored: their fields that change no output, besides `IGNORED`, and why.
        special_fields: our names of further fields, which the functions below write and read, and where they are found there.
        unwritten: our fields that are left out there, and why that changes no output.
        extra: a dataclass of what their config cannot say; regard.json keeps it. A field of the config of the same name is taken.

    Of the tensors:

    Arguments:
        tensors: the table of names, or which it is for a config.
        prefix: what begins the names of all but a head.
        outside: how the names begin that have no prefix.
        bare: whether a config's file has no prefix at all.
        old_names: endings of names in old files, and what they are now.
        repeated: names of tensors that some files hold twice, and the one that they have to equal.
        ignored_tensors: patterns of names that carry nothing we need, or which they are for a config.
        constants: what a file holds that is no parameter of ours.

    What tables cannot say:

    Arguments:
        unsupported: why a config cannot be written, as half a sentence; empty where it can.
        to_hf: functions that give further fields of their config.json.
        from_hf: functions that give further settings of our config, each is given those before it.
        extra_metadata: what of `extra` is kept for a config; all of it where None.
        converted: whether CTranslate2's converter takes the format: not where empty; where `equal`, if the model has as many rows
            as the tokenizer has tokens; where `padded`, also if it has more.
    """

    model_type: str
    title: str
    configs: tuple[type[Any], ...]
    architecture: str | Callable[[Any], str]
    fields: Mapping[str, str]
    activations: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: ACTIVATIONS)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    common_names: Mapping[str, str] = field(default_factory=dict)
    must_be: Mapping[str, Any] = field(default_factory=dict)
    must_agree: Mapping[str, str] = field(default_factory=dict)
    implied: Mapping[str, Any] = field(default_factory=dict)
    written: Mapping[str, Any] = field(default_factory=dict)
    token_ids: Mapping[str, str] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    special_fields: Mapping[str, str] = field(default_factory=dict)
    unwritten: Mapping[str, str] = field(default_factory=dict)
    extra: type[Any] = NothingElse

    tensors: TensorTable | Callable[[Any], TensorTable]
    prefix: str = ""
    outside: tuple[str, ...] = ()
    bare: Callable[[Any], bool] | None = None
    old_names: Mapping[str, str] = field(default_factory=dict)
    repeated: Mapping[str, str] = field(default_factory=dict)
    ignored_tensors: tuple[str, ...] | Callable[[Any], tuple[str, ...]] = ()
    constants: Callable[[Any], Mapping[str, Constant]] | None = None

    unsupported: Callable[[Any], str] | None = None
    to_hf: tuple[Callable[[Any], Mapping[str, Any]], ...] = ()
    from_hf: tuple[Callable[[Reading], Mapping[str, Any]], ...] = ()
    extra_metadata: Callable[[Any], Mapping[str, Any]] | None = None
    converted: Literal["", "equal", "padded"] = ""

    # --- can it be written? -------------------------------------------------------------------------------------

    def unsupported_reasons(self, config: Any) -> list[str]:
        """Why a model cannot be written in this format, as half sentences; empty where it can."""
        reasons = [
            f"{name} is {_shown(getattr(config, name))} and not {_shown(value)}"
            for name, value in self.implied.items()
            if getattr(config, name, value) != value
        ]
        for name in self._activation_fields:
            if getattr(config, name) not in self.activations:
                reasons.append(f"the {name.replace('_', ' ')} is {getattr(config, name)}")
        special = "" if self.unsupported is None else self.unsupported(config)
        return [*reasons, special] if special else reasons

    # --- config.json --------------------------------------------------------------------------------------------

    def config_to_hf(self, config: Any, dtype: torch.dtype) -> dict[str, Any]:
        """The content of their config.json."""
        named = self.architecture if isinstance(self.architecture, str) else self.architecture(config)
        values: dict[str, Any] = {
            "model_type": self.model_type,
            "architectures": [named],
            "dtype": str(dtype).removeprefix("torch."),
            **{theirs: getattr(config, ours) for ours, theirs in self.fields.items()},
            **self.written,
        }
        for name in self._activation_fields:
            values[self.fields[name]] = self.activations[getattr(config, name)][0]
        for special in self.to_hf:
            values |= special(config)
        return values

    def extra_to_keep(self, config: Any) -> dict[str, Any]:
        """What `config_to_hf` could not say, for regard.json."""
        if self.extra_metadata is not None:
            return dict(self.extra_metadata(config))
        return {part.name: getattr(config, part.name) for part in fields(self.extra)}

    def config_from_hf(
        self, values: Mapping[str, Any], extra: Mapping[str, Any] | None, tensors: Mapping[str, Tensor], where: str
    ) -> Any:
        """Our config from their config.json.

        Arguments:
            values: its content; under `preprocessor` that of preprocessor_config.json, where there is one.
            extra: what regard.json keeps besides it; None for a folder made elsewhere.
            tensors: those of the file: their names and shapes say what config.json may not.
            where: what messages call config.json.

        Raises:
            InputError: for what is missing, of another type, or not to be had in our model.
        """
        values = self._in_own_names(values, where)
        self._refuse(values, where)
        self._report(values, where)
        reading = Reading(
            values=values,
            settings=self._settings(values, where),
            extra=from_mapping(self.extra, extra or {}, f"{where} (with regard.json: layout.unsaid)"),
            foreign=extra is None,
            tensors=self._named(tensors, where),
            where=where,
            words={**self.fields, **self.special_fields},
            defaults=self.defaults,
        )
        told = {part.name for part in fields(self.extra)} & {part.name for part in fields(self.configs[0])}
        kept = {name: getattr(reading.extra, name) for name in told}
        reading.settings |= {name: value for name, value in kept.items() if value is not None}
        for special in self.from_hf:
            reading.settings |= special(reading)
        family = reading.settings.get("family", getattr(reading.extra, "family", None))
        config = next((each for each in self.configs if each.model_type == family), self.configs[0])
        known = {part.name for part in fields(config)}
        settings = {name: value for name, value in reading.settings.items() if name in known}
        try:
            return from_mapping(config, settings, where)
        except InputError as error:
            raise InputError(in_hf_words(str(error), reading.words, where)) from error

    def explains(self, key: str) -> bool:
        """Whether a field of their config.json is followed, refused by its name, or known to change nothing."""
        return key in IGNORED or any(
            key in names
            for names in (
                self.fields.values(),
                self.defaults,
                self.common_names,
                self.must_be,
                self.must_agree,
                self.written,
                self.ignored,
                self.special_fields.values(),
            )
        )

    def _in_own_names(self, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        """The content of their config.json with every field under the family's own name."""
        found = dict(values)
        for common, own in self.common_names.items():
            value = found.pop(common, None)
            if value is not None and found.setdefault(own, value) != value:
                raise InputError(
                    f"{where}: {own} is {found[own]!r} and {common}, another name of it, {value!r}; make them one"
                )
        return found

    def _refuse(self, values: Mapping[str, Any], where: str) -> None:
        """Refuse, by the names of fields, what our model cannot be."""
        missing = [name for name in self.required if name not in values]
        if missing:
            raise InputError(f"{where}: missing {', '.join(missing)}; add what is missing")
        for key, wanted in self.must_be.items():
            given = values.get(key)
            given = self.defaults.get(key, wanted) if given is None else given
            if given != wanted:
                raise InputError(f"{where}.{key} is {given!r}; Regard's {self.title} needs {wanted!r}")
        for key, other in self.must_agree.items():
            given, its = values.get(key), values.get(other)
            if given is not None and given != its:
                raise InputError(
                    f"{where}.{key} is {given!r} and {other} is {its!r}; Regard's {self.title} needs them equal"
                )

    def _report(self, values: Mapping[str, Any], where: str) -> None:
        """Warn of fields that nothing here knows; those that are null, false or empty ask for nothing."""
        unknown = [
            key for key, value in values.items() if not self.explains(key) and value not in (None, False, [], {})
        ]
        if unknown:
            them = "it" if len(unknown) == 1 else "them"
            warnings.warn(
                f"{where}: Regard's {self.title} knows no {', '.join(sorted(unknown))}, and reads the model as if the file "
                f"did not have {them}",
                UserWarning,
                stacklevel=2,
            )

    def _settings(self, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        """What the tables say of our config."""
        given = {**self.defaults, **{key: value for key, value in values.items() if value is not None}}
        settings = {ours: given[theirs] for ours, theirs in self.fields.items() if theirs in given}
        for name in self._activation_fields:
            if name in settings:
                settings[name] = self.activation(settings[name], f"{where}.{self.fields[name]}")
        return settings | dict(self.implied)

    @property
    def _activation_fields(self) -> list[str]:
        """Our fields that name an activation."""
        return [name for name in self.fields if name.endswith("activation")]

    def activation(self, name: Any, where: str) -> str:
        """Our name of an activation of theirs.

        Raises:
            InputError: for one that our models do not have.
        """
        for ours, theirs in self.activations.items():
            if name in theirs:
                return ours
        known = ", ".join(name for theirs in self.activations.values() for name in theirs)
        raise InputError(f"{where} is {name!r}; it must be one of {known}")

    # --- tensors ------------------------------------------------------------------------------------------------

    def name_table(self, config: Any) -> NameTable:
        """Our names of a model's parameters and theirs."""
        return NameTable(tuple(itertools.starmap(_rule, _for(self.tensors, config).items())))

    def tensors_to_hf(self, config: Any, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Our parameters under their names, and the constants that their file holds besides them."""
        theirs = self.name_table(config).to_theirs(tensors)
        first = next(iter(tensors.values()))
        for name, constant in self._constants(config).items():
            if constant.written:
                theirs[name] = constant.value.to(dtype=first.dtype, device=first.device)
        return {self._name_in_file(config, name): tensor for name, tensor in theirs.items()}

    def tensors_from_hf(self, config: Any, tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
        """Their tensors under our names.

        Raises:
            InputError: naming every tensor that is missing, not known or of another shape, as the file calls it; one that is
                repeated with other numbers; and any that this model holds constant and that is not what it has to be.
        """
        found = self._named(tensors, where)
        table = self.name_table(config)
        with shapes_only():
            parameters = table.to_theirs(dict(MODELS[config.model_type].model(config).named_parameters()))
        wanted = {name: tuple(tensor.shape) for name, tensor in parameters.items()}
        self._drop_repeated(found, wanted, where)
        ignored = NameTable((), _for(self.ignored_tensors, config))
        found = {name: tensor for name, tensor in found.items() if not ignored.ignores(name)}
        constants = self._constants(config)
        for name, constant in constants.items():
            if constant.optional:
                found.setdefault(name, constant.value)
            wanted[name] = tuple(constant.value.shape)
        self._check_same(wanted, found, tensors, where)
        for name, constant in constants.items():
            held = found.pop(name)
            value = constant.value.to(held.dtype).float()
            if not torch.allclose(held.float(), value, rtol=1e-2, atol=constant.tolerance):
                raise InputError(
                    f"{where}: {name} is not {constant.described}, as this model holds it; copy the file again from its source"
                )
        return {name: tensor.contiguous() for name, tensor in table.to_ours(found).items()}

    def _constants(self, config: Any) -> Mapping[str, Constant]:
        return {} if self.constants is None else self.constants(config)

    def _name_in_file(self, config: Any, name: str) -> str:
        return name.removeprefix(self.prefix) if self.bare is not None and self.bare(config) else name

    def _name(self, name: str) -> str:
        """What the table calls a tensor of a file, which may be an old one or have no prefixes."""
        for old, new in self.old_names.items():
            if name.endswith(old):
                name = name.removesuffix(old) + new
        return name if name.startswith((self.prefix, *self.outside)) else self.prefix + name

    def _named(self, tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
        """Their tensors as the table calls them."""
        found: dict[str, Tensor] = {}
        for theirs, tensor in tensors.items():
            name = self._name(theirs)
            if name in found:
                once = name.removeprefix(self.prefix)
                raise InputError(f"{where}: the weights have {once} twice, once as {theirs}; leave one of them")
            found[name] = tensor
        return found

    def _drop_repeated(self, found: dict[str, Tensor], wanted: Mapping[str, object], where: str) -> None:
        """Take out tensors that repeat another; one whose original is missing stands for it."""
        for name, original in self.repeated.items():
            if name in wanted or name not in found:
                continue
            tensor = found.pop(name)
            if not torch.equal(found.setdefault(original, tensor), tensor):
                raise InputError(
                    f"{where}: {name} differs from {original}; Regard's {self.title} has one tensor for both "
                    "(tie_word_embeddings)"
                )

    def _check_same(
        self,
        wanted: Mapping[str, tuple[int, ...]],
        found: Mapping[str, Tensor],
        tensors: Mapping[str, Tensor],
        where: str,
    ) -> None:
        """Refuse tensors that are not those wanted, called as the file calls them."""
        called = {self._name(name): name for name in tensors}
        bare = not any(name.startswith(self.prefix) for name in tensors)

        def name_of(name: str) -> str:
            return called.get(name, name.removeprefix(self.prefix) if bare else name)

        check_same(
            {name_of(name): shape for name, shape in wanted.items()},
            {name_of(name): tensor for name, tensor in found.items()},
            where,
        )


def _for(value: Any, config: Any) -> Any:
    """A part of a format that may depend on the config."""
    return value(config) if callable(value) else value


def _rule(ours: str, theirs: str | HFTensor) -> Rule:
    """A line of a table of tensors as a rule."""
    them = HFTensor(theirs) if isinstance(theirs, str) else theirs
    several = re.search(r"\{(\w+(?:,\w+)+)\}", ours)
    names = [ours] if several is None else [ours.replace(several[0], part) for part in several[1].split(",")]
    return Rule(tuple(names), them.name, them.channels, them.transposed, them.unsqueezed, them.heads)


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def in_hf_words(message: str, names: Mapping[str, str], where: str) -> str:
    """A complaint about one of our config's fields as one about theirs.

    Arguments:
        names: our names of fields and theirs.
        where: what messages call their config.json.

    >>> in_hf_words("width is 0 but must be at least 1", {"width": "n_embd"}, "model/config.json")
    'model/config.json.n_embd is 0 but must be at least 1'
    """
    for ours, theirs in names.items():
        for start in (f"{where}.{ours} ", f"{ours} "):
            if message.startswith(start):
                return f"{where}.{theirs} {message.removeprefix(start)}"
    return message if message.startswith(where) else f"{where}: {message}"


# --- which format, and who opens it -----------------------------------------------------------------------------


def hf_format(model_type: str) -> HFFormat:
    """The format of a `model_type` of theirs.

    >>> hf_format("gpt2").fields["width"]
    'n_embd'
    """
    module, _, name = FORMATS[model_type].partition(":")
    return getattr(importlib.import_module(f"regard.checkpoints.{module}"), name)


def format_of(config: Any) -> tuple[HFFormat | None, str]:
    """The format that a model is written in; or None, and why there is none, as half a sentence."""
    formats = [hf_format(name) for name in FAMILIES.get(config.model_type, ())]
    if not formats:
        return None, f"no other library has the family {config.model_type}"
    reasons = [each.unsupported_reasons(config) for each in formats]
    nearest = min(range(len(formats)), key=lambda number: len(reasons[number]))
    return (None, reasons[nearest][0]) if reasons[nearest] else (formats[nearest], "")


def called(model_type: str) -> str:
    """What people call a layout.

    >>> called("gpt2"), called("marian")
    ('GPT-2', 'Marian')
    """
    return hf_format(model_type).title if model_type in FORMATS else model_type.capitalize()


def readers(values: Mapping[str, Any], tokens: int | None = None) -> dict[str, str]:
    """The other programs that a folder in another library's layout is for, and what each opens it as or with.

    Arguments:
        values: the content of its config.json, of which `model_type`, `architectures`, `pruned_heads` and `vocab_size` tell.
        tokens: how many its tokenizer has there; see `tokens_in`. CTranslate2 refuses a model with fewer rows, and of some
            families one with more. None where it is not known.

    >>> readers({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]})
    {'transformers': 'GPT2LMHeadModel', 'CTranslate2': 'ct2-transformers-converter'}
    >>> readers({"model_type": "vit"})
    {'transformers': 'AutoModel'}
    >>> readers({"model_type": "gpt2", "vocab_size": 50_304}, tokens=50_257)
    {'transformers': 'AutoModel'}
    """
    named = values.get("architectures")
    kind = str(named[0]) if isinstance(named, list) and named else "AutoModel"
    if values.get("pruned_heads"):
        return {"transformers": f"{kind} (up to version 4, for heads were pruned)"}
    found = {"transformers": kind}
    model_type = str(values.get("model_type"))
    converted = hf_format(model_type).converted if model_type in FORMATS else ""
    rows = values.get("vocab_size")
    if isinstance(rows, int) and tokens is not None and (tokens > rows or (converted == "equal" and tokens < rows)):
        converted = ""
    if converted:
        bare = model_type in ("bert", "distilbert")
        found["CTranslate2"] = "ct2-transformers-converter" + (", without a head" if bare else "")
    return found


def tokens_in(folder: Path, *, unfinished: bool = False) -> int | None:
    """How many tokens transformers finds in a folder's tokenizer.json; None where there is none that can be read.

    Of a T5's without a tokenizer_config.json that names another class it makes its own T5 tokenizer, which has 100 sentinels.

    Arguments:
        unfinished: whether the tokenizer_config.json is yet to be written, and will name another.
    """
    file, beside = folder / "tokenizer.json", folder / "tokenizer_config.json"
    try:
        values = read_json_object(file, "") if file.is_file() else {}
        named = read_json_object(beside, "") if beside.is_file() else {}
        kind = read_json_object(folder / "config.json", "").get("model_type")
    except InputError:
        return None
    model, added = values.get("model"), values.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(vocabulary, dict | list):
        return None
    tokens = {str(each[0]) if isinstance(each, list) and each else str(each) for each in vocabulary}
    tokens |= {str(each.get("content")) for each in added or () if isinstance(each, dict)}
    if (
        not unfinished
        and kind in ("t5", "mt5")
        and str(named.get("tokenizer_class", "T5Tokenizer")).startswith("T5Tokenizer")
    ):
        count = named.get("extra_ids")
        tokens |= {f"<extra_id_{number}>" for number in range(count if isinstance(count, int) else 100)}
    return len(tokens)
