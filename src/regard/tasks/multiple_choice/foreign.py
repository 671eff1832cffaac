"""Models that choose and that another program wrote, read by us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.tasks.encoders import foreign_tokenizer
from regard.tasks.multiple_choice.task import MultipleChoiceTask


def chooses(config: Any) -> bool:
    """Whether a model gives one number to each choice."""
    return getattr(config, "head", None) == "choice"


def foreign_chooser(folder: Path, config: Any) -> MultipleChoiceTask:
    """The task of a folder whose model chooses.

    Raises:
        InputError: where there is no tokenizer.
    """
    return MultipleChoiceTask(tokenizer=foreign_tokenizer(folder, config), maximum_length=config.maximum_positions)
