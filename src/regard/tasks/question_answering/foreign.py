"""Models that answer questions and that another program wrote, read by us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.tasks.encoders import foreign_tokenizer
from regard.tasks.question_answering.task import QuestionAnsweringTask

LENGTH, STRIDE, QUESTION = 384, 128, 64
"""Tokens of a window, from one window to the next, and of a question, as published; a smaller model has less of each."""


def answers(config: Any) -> bool:
    """Whether a model tells where an answer begins and where it ends."""
    return getattr(config, "head", None) == "spans"


def foreign_answerer(folder: Path, config: Any) -> QuestionAnsweringTask:
    """The task of a folder whose model finds answers; whether it was trained to say that there is none is not told there.

    Raises:
        InputError: where there is no tokenizer.
    """
    length = min(LENGTH, config.maximum_positions)
    question = max(1, min(QUESTION, length // 4))
    return QuestionAnsweringTask(
        tokenizer=foreign_tokenizer(folder, config),
        maximum_length=length,
        stride=max(1, min(STRIDE, length - question - 3)),
        maximum_question=question,
        unanswerable=None,
    )
