"""Masked language models that another program wrote, read by us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.tasks.encoders import foreign_tokenizer
from regard.tasks.masked_language_modelling.task import MaskedLanguageModellingTask
from regard.tasks.masked_language_modelling.teacher import HEADS


def fills(config: Any) -> bool:
    """Whether a model tells which token stands where one is masked."""
    return getattr(config, "head", None) in HEADS


def foreign_masked(folder: Path, config: Any) -> MaskedLanguageModellingTask:
    """The task of a folder with a masked language model, which tells of next sentences where it has the head for it.

    Raises:
        InputError: where there is no tokenizer.
    """
    return MaskedLanguageModellingTask(
        tokenizer=foreign_tokenizer(folder, config),
        maximum_length=config.maximum_positions,
        next_sentence=config.head == "pretraining",
    )
