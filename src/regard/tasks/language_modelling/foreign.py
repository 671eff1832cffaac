"""Language models that another program wrote, read by us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.models import GPT2Config, GPT3Config, GPTConfig, ReformerConfig
from regard.tasks.generation_config import read_generation_config
from regard.tasks.language_modelling.task import LanguageModellingTask
from regard.text import Tokenizer

FAMILIES = (GPTConfig, GPT2Config, GPT3Config, ReformerConfig)
"""Configs of the models that `transformers` writes as language models too."""


def writes_text(config: Any) -> bool:
    """Whether a config is that of a language model which other programs write."""
    return type(config) in FAMILIES


def foreign_language_modelling(folder: Path, config: Any) -> LanguageModellingTask:
    """The task of a folder that another program wrote: its tokenizer, and what that puts before prompts.

    Arguments:
        folder: has a tokenizer.json, or GPT's `vocab.json` and `merges.txt`.
        config: of the model in it.

    Raises:
        InputError: where there is no tokenizer, or it and config.json do not belong together.
    """
    tokenizer = Tokenizer.load(folder)
    if tokenizer.size > config.vocabulary:
        raise InputError(
            f"{folder}: its tokenizer has {tokenizer.size} tokens where config.json's vocab_size is {config.vocabulary}; "
            "tokenizer and model must come from the same folder"
        )
    if tokenizer.end_id != config.end_id:
        raise InputError(
            f"{folder}: the tokenizer's end of text, {tokenizer.tokens([tokenizer.end_id])[0]}, has the id "
            f"{tokenizer.end_id} where config.json's eos_token_id is {config.end_id}; tokenizer and model must come from the "
            "same folder"
        )
    usual = GenerationSettings(maximum_length=100)
    asked = read_generation_config(folder, start_id=None, end_id=config.end_id, usual=usual)
    generation = None if asked is usual else asked
    return LanguageModellingTask(tokenizer, before_prompts=tokenizer.added_before, generation=generation)
