"""Multiple choice, as a task."""

from __future__ import annotations

from regard.tasks.multiple_choice.chooser import Chooser
from regard.tasks.multiple_choice.data import ChoiceData
from regard.tasks.multiple_choice.evaluation import choice_beside, evaluate_choices, read_for_evaluation
from regard.tasks.multiple_choice.foreign import chooses, foreign_chooser
from regard.tasks.multiple_choice.preparation import prepare_choices
from regard.tasks.multiple_choice.task import MultipleChoiceTask
from regard.tasks.preparation import EncoderTokenizerSettings
from regard.tasks.spec import OF_VECTOR_READERS, TaskSpec, decided_of_encoder

MULTIPLE_CHOICE = TaskSpec(
    task=MultipleChoiceTask,
    predictor=Chooser,
    interface="whole_text",
    sections={"data": ChoiceData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_choices,
    evaluate=evaluate_choices,
    read=read_for_evaluation,
    beside=choice_beside,
    filled_in=decided_of_encoder("choice", 1),
    decided_of_some=OF_VECTOR_READERS,
    fits=chooses,
    foreign=foreign_chooser,
)
