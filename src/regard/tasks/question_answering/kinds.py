"""Question answering, as a task."""

from __future__ import annotations

from regard.tasks.preparation import EncoderTokenizerSettings
from regard.tasks.question_answering.answerer import Answerer
from regard.tasks.question_answering.data import QuestionData
from regard.tasks.question_answering.evaluation import answer_beside, evaluate_questions, read_for_evaluation
from regard.tasks.question_answering.foreign import answers, foreign_answerer
from regard.tasks.question_answering.preparation import prepare_questions
from regard.tasks.question_answering.task import QuestionAnsweringTask
from regard.tasks.spec import TaskSpec, decided_of_encoder

QUESTION_ANSWERING = TaskSpec(
    task=QuestionAnsweringTask,
    predictor=Answerer,
    interface="encoder",
    sections={"data": QuestionData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_questions,
    evaluate=evaluate_questions,
    read=read_for_evaluation,
    beside=answer_beside,
    filled_in=decided_of_encoder("spans", 2),
    fits=answers,
    foreign=foreign_answerer,
)
