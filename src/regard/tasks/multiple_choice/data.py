"""What a model that chooses learns from, as data: the `data` section of a recipe."""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.choices import FORMATS
from regard.errors import InputError, nearest
from regard.models.config import check
from regard.tasks.multiple_choice.task import QuestionPlace

Place = str | tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceData:
    """The `data` section of a recipe.

    Arguments:
        train: a file of SWAG's CSV, RACE's JSON or a JSONL file, or several; gzip is recognised.
        validation: likewise; held out from the training data, context by context, where null.
        validation_share: of the training questions, to be held out.
        format: `swag`, `race`, `jsonl`, or `auto` to go by the file.
        maximum_length: the most tokens of a context and one choice, special ones included; longer ones are cut.
        question: where the question of an example stands: before each `choice`, as for BERT, or behind the `context`, as for GPT.
        auxiliary: the weight of a language model's loss on the texts beside the task's own, for decoders such as `gpt2`; 0.5 as
            published, 0 for none.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.1
    format: str = "auto"
    maximum_length: int = 128
    question: QuestionPlace = "choice"
    auxiliary: float = 0.0

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InputError(f"data.format is {self.format!r}; {nearest(self.format, FORMATS)}")
        check(self.auxiliary >= 0, "data.auxiliary", self.auxiliary, "0 or more", "0.5 is usual, 0 turns it off")
        share = self.validation_share
        check(0 < share < 1, "data.validation_share", share, "above 0 and below 1", "0.1 is usual")
        check(self.maximum_length >= 5, "data.maximum_length", self.maximum_length, "at least 5", "128 is usual")
