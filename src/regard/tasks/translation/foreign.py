"""Translation models that another program wrote, read by us."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.tasks.translation.open_folder import GENERATION_CONFIG
from regard.tasks.translation.task import TranslationTask
from regard.text import Tokenizer


def foreign_translation(folder: Path, config: Any) -> TranslationTask:
    """The task of a folder that another program wrote: its tokenizer and decoding settings.

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
    return TranslationTask(tokenizer, tokenizer, _settings(folder / GENERATION_CONFIG))


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
