"""What a translation model's folder holds beside config and weights for other programs to open it, and theirs read by us."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from regard.files import replace_file
from regard.generation import GenerationSettings
from regard.tasks.generation_config import GENERATION_CONFIG
from regard.text import Tokenizer

TOKENIZER_CONFIG = "tokenizer_config.json"
LONGEST = 512
"""Tokens after which another program stops where neither model nor settings say so; told nothing, it would after 20."""


def obstacle(source: Tokenizer, target: Tokenizer, vocabulary: int) -> str:
    """Why other programs could not read texts as the tokenizers here do, as half a sentence; empty where they can.

    Arguments:
        vocabulary: the number of rows in the model's table.
    """
    if source != target:
        return "source and target have two tokenizers"
    if target.size > vocabulary:
        return f"the tokenizer has {target.size} tokens and the model {vocabulary}"
    if not target.adds_end:
        return "the tokenizer.json does not add the end token"
    if target.tokens([target.padding_id]) != ["<pad>"]:
        return "the padding token is not called <pad>"
    return ""


def write(
    folder: Path, tokenizer: Tokenizer, settings: GenerationSettings, *, maximum: int | None, never: Sequence[int]
) -> None:
    """Write tokenizer_config.json and generation_config.json.

    Arguments:
        folder: holds tokenizer.json already.
        maximum: the model's positions; None where no text is too long.
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
        # The spelling of a special token is text, here as in `Tokenizer`; but to a sentinel there is no other way there.
        "split_special_tokens": not tokenizer.sentinels,
        "clean_up_tokenization_spaces": False,
        **({} if maximum is None else {"model_max_length": maximum}),
        "model_input_names": ["input_ids", "attention_mask"],
        "padding_side": "right",
    }
    decode = {
        "pad_token_id": tokenizer.padding_id,
        "eos_token_id": list(settings.end_tokens) or tokenizer.end_id,
        "decoder_start_token_id": tokenizer.start_id,
        "bad_words_ids": [[index] for index in (tokenizer.padding_id, *never, *settings.forbidden_tokens)],
        "max_length": maximum or LONGEST,
        "num_beams": 1 if settings.sample else settings.beam,
        "do_sample": settings.sample,
        "use_cache": True,
    }
    if settings.beam > 1:
        # Theirs divides by |Y|^alpha; `gnmt` divides by ((5 + |Y|) / 6)^alpha: alike, not the same.
        decode["length_penalty"] = settings.length_penalty
        decode["early_stopping"] = settings.enough is not None or ("never" if settings.search_end == "proof" else False)
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
    if settings.forced_end:
        decode["forced_eos_token_id"] = tokenizer.end_id
    if settings.sample:
        chosen = {"temperature": settings.temperature, "top_k": settings.top_k, "top_p": settings.top_p}
        decode |= {name: value for name, value in chosen.items() if value is not None}
    for name, values in ((TOKENIZER_CONFIG, read), (GENERATION_CONFIG, decode)):
        replace_file(folder / name, json.dumps(values, indent=2, ensure_ascii=False) + "\n")
