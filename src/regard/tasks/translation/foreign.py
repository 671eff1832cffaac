"""Translation models that another program wrote, read by us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.tasks.generation_config import read_generation_config
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
    generation = read_generation_config(
        folder, start_id=config.start_id, end_id=config.end_id, usual=GenerationSettings()
    )
    return TranslationTask(tokenizer, tokenizer, generation)
