"""Reads and writes `generation_config.json` of `transformers`; warns of fields that are not followed."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from regard.errors import InputError
from regard.files import replace_file
from regard.generation import GenerationSettings
from regard.reading import read_json_object
from regard.structure import coerced
from regard.text import Tokenizer
from regard.text.bpe import merge_files_in

GENERATION_CONFIG, CONFIG = "generation_config.json", "config.json"

SAMPLING: Mapping[str, tuple[Any, Any]] = MappingProxyType(
    {"temperature": (float, 1.0), "top_k": (int, 50), "top_p": (float, 1.0), "min_p": (float | None, None)}
)
"""Fields that are used if `do_sample` is true: type, and the default of `transformers`."""

OTHER_SAMPLING = frozenset({"typical_p", "top_h", "epsilon_cutoff", "eta_cutoff"})
"""Other fields of sampling, which are not supported."""

NO_EFFECT = frozenset(
    {
        "use_cache",
        "use_mtp",
        "cache_implementation",
        "cache_config",
        "max_cache_len",
        "low_memory",
        "prefill_chunk_size",
        "compile_config",
        "disable_compile",
        "continuous_batching_config",
        "output_attentions",
        "output_hidden_states",
        "output_scores",
        "output_logits",
        "return_dict_in_generate",
        "pad_token_id",
        "bos_token_id",
        "is_assistant",
        "num_assistant_tokens",
        "num_assistant_tokens_schedule",
        "assistant_confidence_threshold",
        "assistant_early_exit",
        "assistant_lookbehind",
        "target_lookbehind",
        "assistant_ensemble_weight",
        "prompt_lookup_num_tokens",
        "max_matching_ngram_size",
        "speculation_type",
        "remove_invalid_values",
        "transformers_version",
        "_from_model_config",
    }
)
"""Fields that do not change the generated text, only time, memory or additional outputs."""

FOLLOWED = frozenset(
    {
        *SAMPLING,
        "num_beams",
        "num_return_sequences",
        "do_sample",
        "early_stopping",
        "length_penalty",
        "repetition_penalty",
        "no_repeat_ngram_size",
        "max_length",
        "max_new_tokens",
        "min_length",
        "min_new_tokens",
        "eos_token_id",
        "decoder_start_token_id",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "bad_words_ids",
        "suppress_tokens",
    }
)
"""Fields that are converted to `GenerationSettings`."""

NOT_FOLLOWED = frozenset(
    {
        *OTHER_SAMPLING,
        "begin_suppress_tokens",
        "constraints",
        "diversity_penalty",
        "dola_layers",
        "encoder_no_repeat_ngram_size",
        "encoder_repetition_penalty",
        "exponential_decay_length_penalty",
        "force_words_ids",
        "forced_decoder_ids",
        "guidance_scale",
        "max_time",
        "num_beam_groups",
        "penalty_alpha",
        "renormalize_logits",
        "sequence_bias",
        "stop_strings",
        "token_healing",
        "watermarking_config",
    }
)
"""Fields that are not supported; a warning names them if they are set."""

GENERATION_FIELDS = FOLLOWED | NOT_FOLLOWED | NO_EFFECT
"""All fields of decoding, to find them in an old config.json."""

IDS = frozenset({"eos_token_id", "decoder_start_token_id"})
"""Fields that every config.json has; if there are only these, config.json has no decoding settings."""

OLD_FORCED_START = "force_bos_token_to_be_generated"
"""The field of an old config.json that forces `bos_token_id` as the first token, as in BART's first folders."""

NEUTRAL: Mapping[str, Any] = MappingProxyType(
    {
        "num_beam_groups": 1,
        "typical_p": 1.0,
        "encoder_repetition_penalty": 1.0,
        "guidance_scale": 1.0,
    }
)
"""The neutral values of unsupported fields, besides null, false, 0 and empty lists."""


@dataclass
class _Fields:
    """The fields of one file; `take` removes a field, and those that are left are not supported."""

    path: Path
    left: dict[str, Any]
    unfollowed: list[str] = field(default_factory=list)

    def take(self, name: str, hint: Any, default: Any) -> Any:
        """Remove a field and return its value as the type `hint`; the default if it is absent or null.

        Raises:
            InputError: for another type.
        """
        value = self.left.pop(name, None)
        return default if value is None else coerced(value, hint, name)

    def name(self, what: str) -> None:
        """Add something to the list of what is not followed."""
        self.unfollowed.append(what)


def read_generation_config(
    folder: Path, *, start_id: int | None, end_id: int, usual: GenerationSettings
) -> GenerationSettings:
    """The decoding settings of a folder of `transformers`, from its generation_config.json; warns of unsupported fields, by name.

    Without that file the decoding fields of config.json are used, as in `transformers`; old folders have them there.

    Lengths are counted as in `transformers`: `max_length` and `min_length` include the start token of a decoder, or the
    prompt of a language model; `max_new_tokens` and `min_new_tokens` do not, and have precedence. An absent field has the
    default of `transformers`, except the maximum length, which is that of `usual` instead of 20 tokens.

    Arguments:
        folder: a model's folder, with or without the file.
        start_id: the decoder's start token; None for a language model, which continues its prompt.
        end_id: the token that ends a text.
        usual: the settings of a folder without the file.

    Raises:
        InputError: for a file that is not a JSON object, and for values of another type or out of range.
    """
    path = folder / (GENERATION_CONFIG if (folder / GENERATION_CONFIG).is_file() else CONFIG)
    cure = "correct it, or remove it to decode greedily" if path.name == GENERATION_CONFIG else "correct it"
    values = read_json_object(path, cure)
    try:
        if path.name == CONFIG:
            if values.get(OLD_FORCED_START):
                values["forced_bos_token_id"] = values.get("bos_token_id")
            values = {key: value for key, value in values.items() if key in GENERATION_FIELDS and value is not None}
            several_ends = isinstance(values.get("eos_token_id"), list)
            if not values.keys() - NO_EFFECT - IDS and not several_ends:
                return usual
        fields = _Fields(path, values)
        settings = _settings(fields, start_id, end_id, usual)
    except ValueError as error:
        raise InputError(f"{path}: cannot be used ({error}); {cure}") from error
    if fields.unfollowed:
        warnings.warn(
            f"{path}: not followed: {', '.join(fields.unfollowed)}; answers may differ from those of transformers",
            stacklevel=2,
        )
    return settings


def stop_strings(folder: Path, asked: GenerationSettings) -> tuple[str, ...]:
    """The strings that end a text of a language model, from its generation_config.json.

    With beam search they are not followed, and a warning says so.

    Raises:
        InputError: for a value that is not a string or a list of strings.
    """
    path = folder / GENERATION_CONFIG
    value = read_json_object(path, "correct it").get("stop_strings") if path.is_file() else None
    strings = [value] if isinstance(value, str) else value or []
    if not isinstance(strings, list) or not all(isinstance(each, str) and each for each in strings):
        raise InputError(f"{path}: stop_strings is {value!r:.80}; it must be a string, or a list of them")
    if strings and asked.beam > 1:
        warnings.warn(f"{path}: not followed: stop_strings with num_beams", stacklevel=2)
        return ()
    return tuple(strings)


def _settings(fields: _Fields, start_id: int | None, end_id: int, usual: GenerationSettings) -> GenerationSettings:
    chosen = {
        **_searching(fields),
        **_lengths(fields, start_id is not None, usual),
        **_tokens(fields, start_id, end_id),
    }
    for name, value in fields.left.items():
        neutral = not value or value == NEUTRAL.get(name)
        followed = name == "stop_strings" and start_id is None  # by `stop_strings`
        if name not in NO_EFFECT and not neutral and not followed and (chosen["sample"] or name not in OTHER_SAMPLING):
            fields.name(name)
    return GenerationSettings(**chosen)


def _searching(fields: _Fields) -> dict[str, Any]:
    beam = fields.take("num_beams", int, 1)
    sample = fields.take("do_sample", bool, False)
    if sample and beam > 1:
        fields.name("do_sample with num_beams (beam search does not sample)")
        sample = False
    sampling = {name: fields.take(name, hint, default) for name, (hint, default) in SAMPLING.items()}
    if sampling["top_k"] == 0:  # in transformers 0 means all tokens
        sampling["top_k"] = None
    stopping = fields.take("early_stopping", bool | str, False)
    if stopping not in (True, False, "never"):
        raise InputError(f'early_stopping is {stopping!r}; it must be true, false or "never"')
    penalty = fields.take("length_penalty", float, 1.0)
    repetition = fields.take("repetition_penalty", float, 1.0)
    if repetition != 1 and beam > 1:
        fields.name("repetition_penalty with num_beams")
        repetition = 1.0
    searched = {
        "length_penalty": penalty,
        "length_normalisation": "power",
        "search_end": "proof" if stopping == "never" else "estimate",
        "early_stopping": beam if stopping is True else None,
    }
    return {
        "beam": beam,
        "n_best": fields.take("num_return_sequences", int, 1),
        "sample": sample,
        "repetition_penalty": repetition,
        "no_repeat_ngram_size": fields.take("no_repeat_ngram_size", int, 0),
        **(searched if beam > 1 else {}),
        **(sampling if sample else {}),
    }


def _lengths(fields: _Fields, starts: bool, usual: GenerationSettings) -> dict[str, Any]:
    most, total = fields.take("max_new_tokens", int, None), fields.take("max_length", int, None)
    least, least_total = fields.take("min_new_tokens", int, None), fields.take("min_length", int, 0)
    if least is None and least_total and not starts:
        fields.name("min_length (min_new_tokens is)")
    if starts:  # the totals include the start token
        most = total - 1 if most is None and total is not None else most
        least = max(0, least_total - 1) if least is None else least
        total = None
    if most is not None:
        total = None
    elif total is None:
        most = usual.maximum_length
    least = least or 0
    return {
        "maximum_length": most,
        "total_length": total,
        "minimum_length": least if most is None else min(least, most),
    }


def _tokens(fields: _Fields, start_id: int | None, end_id: int) -> dict[str, Any]:
    given = fields.take("eos_token_id", int | tuple[int, ...], end_id)
    ends = given if isinstance(given, tuple) else (given,)
    start = fields.take("decoder_start_token_id", int, start_id)
    if start_id is not None and start != start_id:
        fields.name(f"decoder_start_token_id (answers start from {start_id})")
    first = fields.take("forced_bos_token_id", int, None)
    if start_id is None and first is not None:
        fields.name("forced_bos_token_id")
        first = None
    forced = fields.take("forced_eos_token_id", int | tuple[int, ...], None)
    if forced not in (None, end_id, (end_id,)):
        fields.name("forced_eos_token_id")
    bad = fields.take("bad_words_ids", tuple[tuple[int, ...], ...], ())
    if any(len(ids) > 1 for ids in bad):
        fields.name("bad_words_ids of more than one token")
    never = {ids[0] for ids in bad if len(ids) == 1} | set(fields.take("suppress_tokens", tuple[int, ...], ()))
    # An end token among the bad words stays allowed in transformers too.
    return {
        "forced_end": forced in (end_id, (end_id,)),
        "forced_start": first,
        "forbidden_tokens": tuple(sorted(never - {*ends, end_id})),
        "end_tokens": () if set(ends) <= {end_id} else tuple(dict.fromkeys(ends)),
    }


TOKENIZER_CONFIG = "tokenizer_config.json"
LONGEST = 512
"""The `max_length` to write if neither model nor settings have a limit; without it other programs would stop after 20 tokens."""


def foreign_pair_tokenizer(folder: Path, config: Any) -> tuple[Tokenizer, GenerationSettings]:
    """The tokenizer and decoding settings in the folder of an encoder-decoder that another program wrote.

    If the tokenizer adds a start and an end token to each text, as BART's does, the decoder's first token is the end token.
    Special tokens without a row in the model's table are left out.

    Arguments:
        config: the config of the model in the folder.

    Raises:
        InputError: if there is neither a tokenizer.json nor a vocab.json with merges.txt, or if it does not match config.json.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        pair = merge_files_in(folder)
        if pair is None:
            raise InputError(
                f"{path}: no such file; Regard reads only the format of the `tokenizers` library, so convert the folder's "
                "tokenizer (such as a SentencePiece model) to a tokenizer.json first"
            )
        path = pair[0]
    try:
        tokenizer = Tokenizer.load(path).within(config.target_vocabulary)
    except InputError as error:
        raise InputError(str(error) if str(error).startswith(str(path)) else f"{path}: {error}") from None
    start = tokenizer.end_id if tokenizer.surrounds else tokenizer.start_id
    for key, token, wanted in (
        ("pad_token_id", tokenizer.padding_id, config.padding_id),
        ("decoder_start_token_id", start, config.start_id),
        ("eos_token_id", tokenizer.end_id, config.end_id),
    ):
        if token != wanted:
            raise InputError(
                f"{path}: {tokenizer.tokens([token])[0]} has the id {token}, and config.json's {key} is {wanted}; "
                "tokenizer and model must come from the same folder"
            )
    generation = read_generation_config(
        folder, start_id=config.start_id, end_id=config.end_id, usual=GenerationSettings()
    )
    return tokenizer, generation


def pair_obstacle(source: Tokenizer, target: Tokenizer, vocabulary: int, surrounds: bool = False) -> str:
    """Why other programs would tokenize texts differently, as half a sentence; empty if they would not.

    Arguments:
        vocabulary: the number of rows in the model's table.
        surrounds: whether texts are between the start and the end token.
    """
    if source != target:
        return "source and target have two tokenizers"
    if target.size > vocabulary:
        return f"the tokenizer has {target.size} tokens and the model {vocabulary}"
    if surrounds != target.surrounds:
        without = "" if surrounds else "out"
        return f"the tokenizer.json puts texts between the start and the end token, and the model was trained with{without} them"
    if not surrounds and not target.adds_end:
        return "the tokenizer.json does not add the end token"
    if target.tokens([target.padding_id]) != ["<pad>"]:
        return "the padding token is not called <pad>"
    return ""


def write_generation_config(
    folder: Path,
    tokenizer: Tokenizer,
    settings: GenerationSettings,
    *,
    start_id: int,
    maximum: int | None,
    never: Sequence[int],
) -> None:
    """Write tokenizer_config.json and generation_config.json.

    Arguments:
        folder: a folder with tokenizer.json.
        start_id: the first token that the decoder reads.
        maximum: the number of the model's positions; None if they are not limited.
        never: ids that are never generated, besides padding.
    """
    write_pair_tokenizer_config(folder, tokenizer, maximum)
    _write_decoding(folder, tokenizer, settings, start_id=start_id, maximum=maximum, never=never)


def write_pair_tokenizer_config(folder: Path, tokenizer: Tokenizer, maximum: int | None) -> None:
    """Write tokenizer_config.json; without it transformers would add 100 sentinels to the tokenizer.json of a T5."""
    named = {
        role: tokenizer.tokens([index])[0]
        for role, index in (
            ("pad_token", tokenizer.padding_id),
            ("eos_token", tokenizer.end_id),
            ("bos_token", tokenizer.start_id if tokenizer.names_start or tokenizer.surrounds else None),
            ("mask_token", tokenizer.mask_id),
            ("unk_token", tokenizer.unknown_id),
        )
        if index is not None
    }
    read = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **named,
        "extra_special_tokens": list(tokenizer.extra_tokens),
        # The spelling of a special token in a text is plain text, as in `Tokenizer`; except for sentinels, which can be given to
        # transformers only by their spelling.
        "split_special_tokens": not tokenizer.sentinels,
        "clean_up_tokenization_spaces": False,
        **({} if maximum is None else {"model_max_length": maximum}),
        "model_input_names": ["input_ids", "attention_mask"],
        "padding_side": "right",
    }
    replace_file(folder / TOKENIZER_CONFIG, json.dumps(read, indent=2, ensure_ascii=False) + "\n")


def _write_decoding(
    folder: Path,
    tokenizer: Tokenizer,
    settings: GenerationSettings,
    *,
    start_id: int,
    maximum: int | None,
    never: Sequence[int],
) -> None:
    decode = {
        "pad_token_id": tokenizer.padding_id,
        "eos_token_id": list(settings.end_tokens) or tokenizer.end_id,
        "decoder_start_token_id": start_id,
        "bad_words_ids": [[index] for index in (tokenizer.padding_id, *never, *settings.forbidden_tokens)],
        "max_length": maximum or LONGEST,
        "num_beams": 1 if settings.sample else settings.beam,
        "do_sample": settings.sample,
        "use_cache": True,
    }
    if settings.beam > 1:
        # transformers divides by |Y|^alpha; `gnmt` divides by ((5 + |Y|) / 6)^alpha, which is similar but not equal.
        decode["length_penalty"] = settings.length_penalty
        decode["early_stopping"] = settings.early_stopping is not None or (
            "never" if settings.search_end == "proof" else False
        )
    if settings.maximum_length is not None:
        decode["max_new_tokens"] = settings.maximum_length if maximum is None else min(settings.maximum_length, maximum)
    for name, value, unused in (
        ("min_new_tokens", settings.minimum_length, 0),
        ("num_return_sequences", settings.n_best, 1),
        ("no_repeat_ngram_size", settings.no_repeat_ngram_size, 0),
        ("repetition_penalty", settings.repetition_penalty, 1),
    ):
        if value != unused:
            decode[name] = value
    if settings.forced_start is not None:
        decode["forced_bos_token_id"] = settings.forced_start
    if settings.forced_end:
        decode["forced_eos_token_id"] = tokenizer.end_id
    if settings.sample:
        chosen = {"temperature": settings.temperature, "top_k": settings.top_k, "top_p": settings.top_p}
        decode |= {name: value for name, value in chosen.items() if value is not None}
    replace_file(folder / GENERATION_CONFIG, json.dumps(decode, indent=2, ensure_ascii=False) + "\n")
