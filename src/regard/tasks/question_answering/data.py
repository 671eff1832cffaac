"""What a model that answers questions learns from, as data: the `data` section of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.data.questions import FORMATS
from regard.errors import InputError, nearest
from regard.models.config import check

Place = str | tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionData:
    """The `data` section of a recipe.

    Arguments:
        train: a file of SQuAD's JSON (1.1 or 2.0) or a JSONL file, or several; gzip is recognised.
        validation: likewise; held out from the training data, article by article, where null.
        validation_share: of the training questions, to be held out.
        format: `squad`, `jsonl`, or `auto` to go by the file.
        unanswerable: whether a context may hold no answer, as in SQuAD 2.0; where null, whether a training question has none.
        maximum_length: the most tokens of a window: question, a piece of the context, and special tokens.
        stride: tokens of the context from the beginning of one window to that of the next.
        maximum_question: the most tokens of a question; longer ones are cut.
        maximum_answer: the most tokens of an answer that is predicted.
        other_windows: of an answered question, the windows that the answer is not in: `keep` them, for the model to learn that it
            is not there, or `drop` them. Kept where null if a context may hold no answer, else dropped.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.1
    format: str = "auto"
    unanswerable: bool | None = None
    maximum_length: int = 384
    stride: int = 128
    maximum_question: int = 64
    maximum_answer: int = 30
    other_windows: Literal["keep", "drop"] | None = None

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InputError(f"data.format is {self.format!r}; {nearest(self.format, FORMATS)}")
        share = self.validation_share
        check(0 < share < 1, "data.validation_share", share, "above 0 and below 1", "0.1 is usual")
        check_windows("data.", self.maximum_length, self.stride, self.maximum_question, self.maximum_answer)


def check_windows(where: str, maximum_length: int, stride: int, maximum_question: int, maximum_answer: int) -> None:
    """Refuse windows that would leave out a part of the context, or have no room for one.

    Arguments:
        where: what stands before the names of the settings.

    Raises:
        InputError: naming the setting, its value and what is allowed.
    """
    check(maximum_question >= 1, f"{where}maximum_question", maximum_question, "at least 1", "64 is usual")
    check(maximum_answer >= 1, f"{where}maximum_answer", maximum_answer, "at least 1", "30 is usual")
    room = maximum_length - maximum_question - 3
    check(
        room >= 1,
        f"{where}maximum_length",
        maximum_length,
        f"at least {maximum_question + 4}, room for a question of {maximum_question} tokens, three special ones and a context",
        "384 is usual",
    )
    check(
        1 <= stride <= room,
        f"{where}stride",
        stride,
        f"at least 1 and at most {room}, the context that a window has room for beside a question of {maximum_question} tokens",
        "windows further apart would leave out what is between them",
    )
