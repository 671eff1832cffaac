"""Hugging Face's layouts of models, each as one table: `HFFormat`.

A format maps names in both directions: fields of config.json, names of tensors and names of activations; and it defines what our
models do not support. The code that reads and writes with these tables is in this file; the tables are in `encoders` (BERT),
`decoders` (GPT, Reformer), `translators` (Marian, T5), `images` (ViT) and others. What a table cannot express is a small function
next to it.

Every field of a config.json is followed, refused by its name, or known to have no effect (`IGNORED`); any other field causes a
warning. Every tensor is mapped by a rule, or is named by the format as repeated, constant or ignored. `layouts.FORMATS`
has all formats, so a new layout is a table and a line there.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import Tensor

from regard.checkpoints.tensors import NameTable, Rule, check_same
from regard.errors import InputError
from regard.models import MODELS
from regard.models.config import shapes_only
from regard.structure import from_mapping

ACTIVATIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gelu": ("gelu",),
        "gelu_tanh": ("gelu_new", "gelu_pytorch_tanh", "gelu_fast"),
        "relu": ("relu",),
        "swish": ("silu", "swish"),
    }
)
"""Our names of activations and theirs; the first of theirs is the one that is written."""

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
"""The fields of decoding, which `regard.tasks.generation_config` reads."""
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
        **dict.fromkeys(ORIGIN, "the origin of the file"),
        **dict.fromkeys(ANSWERS, "additional outputs, or what is cached between steps"),
        **dict.fromkeys(NAMED, "names and meaning of the outputs, which the tasks read"),
        **dict.fromkeys(DECODING, "decoding, which is read from generation_config.json"),
        **dict.fromkeys(TRAINING, "training only"),
        "architectures": "the head is found from the tensors",
        "dtype": "the dtype of the tensors is used",
        "torch_dtype": "the dtype of the tensors is used",
        "chunk_size_feed_forward": "how many positions are computed at a time",
        "is_encoder_decoder": "this follows from the class",
        "bos_token_id": "the start of texts, which the tokenizer defines",
        "eos_token_id": "the end of texts, which the tokenizer defines",
        "sep_token_id": "the end of texts, which the tokenizer defines",
        "pad_token_id": "padding is masked",
        "tokenizer_class": "this is read from the tokenizer's own files",
        "quantization_config": "quantised tensors are refused",
    }
)
"""Fields of config.json that have no effect on the output in any format, with the reason."""


@dataclass(frozen=True, slots=True)
class HFTensor:
    """A tensor of theirs that differs from ours in more than its name.

    Arguments:
        name: its name in their file.
        transposed, channels, unsqueezed, heads: as in `Rule`.
    """

    name: str
    transposed: bool = False
    channels: tuple[int, ...] = ()
    unsqueezed: int | None = None
    heads: int | None = None


TensorTable = Mapping[str, "str | HFTensor"]
"""Our names and theirs. In a name `{i}` is the number of a layer and `{*}` the rest of the name, mostly `weight` and `bias`;
`{query,key,value}` are several tensors of ours, which are concatenated along the first axis in theirs."""


@dataclass(frozen=True, slots=True)
class NothingElse:
    """The extra metadata of a format whose config.json has all settings of a model."""


@dataclass(slots=True)
class Reading:
    """A config.json while it is read; the argument of a format's special functions.

    Arguments:
        values: its content, with every field under the family's own name; for a model of images, the content of
            preprocessor_config.json under `preprocessor`.
        settings: the fields of our config that are known so far.
        extra: the additional settings in regard.json, as the format's `extra`; its defaults if another program wrote the folder.
        foreign: whether another program wrote the folder.
        tensors: the tensors of the file, under the names of the format's table; for large ones only shapes.
        where: the name of config.json in messages.
        words: our names of fields and theirs, for messages.
        defaults: the defaults of the format.
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
    """A tensor in their file that is constant in our model, not a parameter.

    Arguments:
        value: its required value, float32.
        described: the description of this value in messages.
        tolerance: the maximum difference of each number, besides the rounding of half precision.
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
    """One of Hugging Face's layouts: the names in it of a model of ours, in both directions.

    For config.json:

    Arguments:
        model_type: its name of the family.
        title: the usual name of the family.
        configs: our configs that are written in this layout. A folder of another program becomes the first, unless a function of
            `from_hf` returns another `family`.
        architecture: the name of their class, or a function from a config to it.
        fields: our names of the fields and theirs.
        activations: our names of the activations and theirs; missing ones cannot be written.
        defaults: the values of their fields that are left out, if they differ from the defaults of our config.
        required: their fields that a file must have.
        common_names: names of fields that are common to all of their models, and the family's own names of them.
        must_be: their fields for which our model supports one value only, with that value.
        must_agree: pairs of their fields that must be equal.
        implied: our fields that their config does not have, with the only value that can be written.
        written: values that are written in addition to `fields`, for other programs.
        token_ids: their fields that repeat an id of the tokenizer, for other programs, and its name in `Tokenizer`.
        ignored: their fields without effect on the output, besides `IGNORED`, with the reason.
        special_fields: our further fields, which the functions below write and read, and their names of them in messages.
        unwritten: our fields that are not written, with the reason why this has no effect on the output.
        extra: a dataclass of settings that their config does not have, which are kept in regard.json. A field with the name of a
            field of our config sets it.

    For tensors:

    Arguments:
        tensors: the table of names, or a function from a config to it.
        prefix: the beginning of all names except those of a head.
        outside: the beginnings of names without the prefix.
        bare: returns whether the file of a config has no prefix.
        old_names: endings of names in old files, and their present endings.
        repeated: names of tensors that some files have twice, and the name of the tensor that they must equal.
        ignored_tensors: patterns of names of tensors that are not needed, or a function from a config to them.
        constants: tensors of their file that are constant in our model.

    For what tables cannot express:

    Arguments:
        unsupported: returns why a config cannot be written, as half a sentence; empty if it can.
        to_hf: functions that return further fields of their config.json.
        from_hf: functions that return further settings of our config; each one gets the settings before it.
        extra_metadata: returns the values of `extra` to keep for a config; None = all.
        converted: whether CTranslate2's converter accepts the format: empty = no; `equal` = if the model has as many rows as the
            tokenizer has tokens; `padded` = also if it has more rows.
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

    # --- why a model cannot be written --------------------------------------------------------------------------

    def unsupported_reasons(self, config: Any) -> list[str]:
        """Why a model cannot be written in this format, as half sentences; empty if it can."""
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
        """The settings that `config_to_hf` does not contain, for regard.json."""
        if self.extra_metadata is not None:
            return dict(self.extra_metadata(config))
        return {part.name: getattr(config, part.name) for part in fields(self.extra)}

    def config_from_hf(
        self, values: Mapping[str, Any], extra: Mapping[str, Any] | None, tensors: Mapping[str, Tensor], where: str
    ) -> Any:
        """Our config from their config.json.

        Arguments:
            values: its content; under `preprocessor` the content of preprocessor_config.json, if there is one.
            extra: the additional settings in regard.json; None if another program wrote the folder.
            tensors: the tensors of the file, whose names and shapes define what config.json may not contain.
            where: the name of config.json in messages.

        Raises:
            InputError: for missing values, values of another type, and values that our model does not support.
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
        shared = {part.name for part in fields(self.extra)} & {part.name for part in fields(self.configs[0])}
        kept = {name: getattr(reading.extra, name) for name in shared}
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
        """Whether a field of their config.json is followed, refused by its name, or known to have no effect."""
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
        """Refuse fields with values that our model does not support, by name."""
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
        """Warn of unknown fields, unless they are null, false or empty."""
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
        """The settings of our config that the tables define."""
        given = {**self.defaults, **{key: value for key, value in values.items() if value is not None}}
        settings = {ours: given[theirs] for ours, theirs in self.fields.items() if theirs in given}
        for name in self._activation_fields:
            if name in settings:
                settings[name] = self.activation(settings[name], f"{where}.{self.fields[name]}")
        return settings | dict(self.implied)

    @property
    def _activation_fields(self) -> list[str]:
        """Our fields with the name of an activation."""
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
        """Our parameters under their names, and the constant tensors of their file."""
        theirs = self.name_table(config).to_theirs(tensors)
        first = next(iter(tensors.values()))
        for name, constant in self._constants(config).items():
            if constant.written:
                theirs[name] = constant.value.to(dtype=first.dtype, device=first.device)
        return {self._name_in_file(config, name): tensor for name, tensor in theirs.items()}

    def tensors_from_hf(self, config: Any, tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
        """Their tensors under our names.

        Raises:
            InputError: naming every tensor that is missing, unknown or of another shape, by its name in the file; a repeated
                tensor with other values; and a constant tensor with another value.
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
        """The name in the table of a tensor of a file, which can have old names or no prefixes."""
        for old, new in self.old_names.items():
            if name.endswith(old):
                name = name.removesuffix(old) + new
        return name if name.startswith((self.prefix, *self.outside)) else self.prefix + name

    def _named(self, tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
        """Their tensors under the names of the table."""
        found: dict[str, Tensor] = {}
        for theirs, tensor in tensors.items():
            name = self._name(theirs)
            if name in found:
                once = name.removeprefix(self.prefix)
                raise InputError(f"{where}: the weights have {once} twice, once as {theirs}; leave one of them")
            found[name] = tensor
        return found

    def _drop_repeated(self, found: dict[str, Tensor], wanted: Mapping[str, object], where: str) -> None:
        """Remove tensors that repeat another one; if the original is missing, the repeated one replaces it."""
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
        """Refuse missing and unexpected tensors and wrong shapes, with their names in the file."""
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
    """The value of a part of a format that can be a function of the config."""
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
    """A message about a field of our config, changed to their name of the field.

    Arguments:
        names: our names of fields and theirs.
        where: the name of their config.json in messages.

    >>> in_hf_words("width is 0 but must be at least 1", {"width": "n_embd"}, "model/config.json")
    'model/config.json.n_embd is 0 but must be at least 1'
    """
    for ours, theirs in names.items():
        for start in (f"{where}.{ours} ", f"{ours} "):
            if message.startswith(start):
                return f"{where}.{theirs} {message.removeprefix(start)}"
    return message if message.startswith(where) else f"{where}: {message}"
