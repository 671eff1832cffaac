"""What a translation model's folder holds beside config and weights for other programs to open it, and theirs read by us."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.files import replace_file
from regard.generation import GenerationSettings
from regard.text import Tokenizer

TOKENIZER_CONFIG = "tokenizer_config.json"
GENERATION_CONFIG = "generation_config.json"


def obstacle(source: Tokenizer, target: Tokenizer, vocabulary: int) -> str:
    """Why other programs could not read texts as the tokenizers here do, as half a sentence; empty where they can.

    Arguments:
        vocabulary: the number of rows in the model's table.
    """
    if source != target:
        return "source and target have two tokenizers"
    if target.size != vocabulary:
        return f"the tokenizer has {target.size} tokens and the model {vocabulary}"
    if not target.adds_end:
        return "the tokenizer.json does not add the end token"
    if target.tokens([target.padding_id]) != ["<pad>"]:
        return "the padding token is not called <pad>"
    return ""


def write(
    folder: Path, tokenizer: Tokenizer, settings: GenerationSettings, *, maximum: int, never: Sequence[int]
) -> None:
    """Write tokenizer_config.json and generation_config.json.

    Arguments:
        folder: holds tokenizer.json already.
        maximum: the model's positions.
        never: ids that are not to be written, padding aside.
    """
    named = {
        role: tokenizer.tokens([index])[0]
        for role, index in (
            ("pad_token", tokenizer.padding_id),
            ("eos_token", tokenizer.end_id),
            ("unk_token", tokenizer.unknown_id),
        )
        if index is not None
    }
    read = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **named,
        "extra_special_tokens": list(tokenizer.extra_tokens),
        # The spelling of a special token in a text is text, here as in `Tokenizer`.
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
        "model_max_length": maximum,
        "model_input_names": ["input_ids", "attention_mask"],
        "padding_side": "right",
    }
    decode = {
        "pad_token_id": tokenizer.padding_id,
        "eos_token_id": tokenizer.end_id,
        "decoder_start_token_id": tokenizer.start_id,
        "bad_words_ids": [[index] for index in (tokenizer.padding_id, *never)],
        "max_length": maximum,
        "num_beams": 1 if settings.sample else settings.beam,
        "do_sample": settings.sample,
        "use_cache": True,
    }
    if settings.beam > 1:
        # Theirs divides by |Y|^alpha where ours divides by ((5 + |Y|) / 6)^alpha: alike, not the same.
        decode["length_penalty"] = settings.length_penalty
    if settings.sample:
        chosen = {"temperature": settings.temperature, "top_k": settings.top_k, "top_p": settings.top_p}
        decode |= {name: value for name, value in chosen.items() if value is not None}
    for name, values in ((TOKENIZER_CONFIG, read), (GENERATION_CONFIG, decode)):
        replace_file(folder / name, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def foreign_parts(folder: Path, config: Any) -> tuple[Tokenizer, GenerationSettings]:
    """Tokenizer and decoding settings of a folder that another program wrote.

    Arguments:
        config: of the model in it.

    Raises:
        InputError: where there is no tokenizer.json, or it and config.json do not belong together.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise InputError(
            f"{path}: no such file; Regard reads the format of the `tokenizers` library alone, so convert the folder's "
            "tokenizer (SentencePiece models, for instance) to a tokenizer.json first"
        )
    tokenizer = Tokenizer.load(path)
    if tokenizer.size > config.target_vocabulary:
        raise InputError(
            f"{path}: has {tokenizer.size} tokens where config.json's vocab_size is {config.target_vocabulary}; "
            "tokenizer and model must come from the same folder"
        )
    for key, token, wanted in (
        ("pad_token_id", tokenizer.padding_id, config.padding_id),
        ("decoder_start_token_id", tokenizer.start_id, config.start_id),
        ("eos_token_id", tokenizer.end_id, config.end_id),
    ):
        if token != wanted:
            raise InputError(
                f"{path}: {tokenizer.tokens([token])[0]} has the id {token} where config.json's {key} is {wanted}; "
                "tokenizer and model must come from the same folder"
            )
    return tokenizer, _settings(folder / GENERATION_CONFIG)


def _settings(path: Path) -> GenerationSettings:
    """The beam, its length penalty and the longest answer that a generation_config.json asks for; greedy without one."""
    if not path.is_file():
        return GenerationSettings()
    try:
        values: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        beam = int(values.get("num_beams") or 1)
        penalty = float(values.get("length_penalty") or 0.0)
        maximum = values.get("max_length")
        return GenerationSettings(
            beam=beam,
            length_penalty=max(0.0, penalty) if beam > 1 else 0.6,
            maximum_length=None if maximum is None else int(maximum),
        )
    except (ValueError, TypeError, AttributeError, InputError) as error:
        raise InputError(f"{path}: cannot be used ({error}); mend it, or take it away to decode greedily") from error
