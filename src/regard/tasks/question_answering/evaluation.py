"""How good a model's answers are, by the official metrics of SQuAD 1.1 and 2.0."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from regard.data.malformed import MalformedRows
from regard.data.predictions import Candidate
from regard.data.questions import Question
from regard.errors import InputError
from regard.tasks.question_answering.answerer import Answerer
from regard.tasks.question_answering.data import QuestionData
from regard.tasks.question_answering.examples import Given, in_memory, reader
from regard.tasks.question_answering.findings import Answer
from regard.tasks.question_answering.scoring import judged
from regard.tasks.question_answering.task import QuestionAnsweringTask


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: `exact_match` and `f1` of SQuAD's official scripts, as shares; where there are questions without an answer the
            same apart, as `f1.has_answer` and `f1.no_answer`; where the model tells whether there is an answer the threshold
            used, and `f1.best` with the best one.
        count: questions.
        cut: how many were longer than the model reads.
        predictions: one for each question, with its id.
    """

    metrics: dict[str, float]
    count: int
    cut: int
    predictions: tuple[Answer, ...] = field(repr=False, default=())

    @property
    def texts(self) -> dict[str, str]:
        """The answers by the questions' ids, as `regard.data.predictions.write_predictions` takes them."""
        return {answer.id: answer.text for answer in self.predictions}

    @property
    def no_answer(self) -> dict[str, float]:
        """The lead of "no answer" by the questions' ids, as `write_no_answer` takes it; empty where the model tells none."""
        return {answer.id: answer.no_answer_score for answer in self.predictions if answer.no_answer_score is not None}

    @property
    def candidates(self) -> dict[str, list[Candidate]]:
        """The best passages by the questions' ids, as `write_candidates` takes them."""
        return {answer.id: _candidates(answer) for answer in self.predictions}


def evaluate_questions(
    model: Answerer, questions: Given, *, threshold: float | None = None, n_best: int = 1
) -> QuestionEvaluation:
    """Compare a model's answers with the right ones.

    Arguments:
        questions: `Question`s, or (question, context, answer).
        threshold: the lead of "no answer" above which it is believed; None = the model's own, or 0 as published where that is not
            known and some question has no answer.
        n_best: passages that each prediction is to hold.

    Raises:
        InputError: for an empty list, two questions of one id, or a threshold for a model that always answers.
    """
    if isinstance(questions, str) or not questions:
        raise InputError("there is nothing to evaluate; give a list with at least one question")
    asked = in_memory(questions) or []
    _check_ids(asked)
    if threshold is None and model.task.unanswerable is None and any(question.impossible for question in asked):
        threshold = 0.0
    said = list(
        model.answered(
            [(question.question, question.context) for question in asked],
            n_best=n_best,
            threshold=threshold,
            names=None,
        )
    )
    right = [tuple(answer.text for answer in question.answers) for question in asked]
    return QuestionEvaluation(
        metrics=judged(right, said, threshold=model.threshold if threshold is None else threshold),
        count=len(asked),
        cut=sum(model.cut([question.question for question in asked])),
        predictions=tuple(replace(answer, id=question.id) for answer, question in zip(said, asked, strict=True)),
    )


def answer_beside(task: QuestionAnsweringTask, question: Question, said: Answer) -> dict[str, Any]:
    """A question, its answers (none where it has none) and the one that was told, by name."""
    del task
    found = asdict(said)
    del found["question"], found["id"]
    return {
        "id": question.id,
        "question": question.question,
        "answers": [answer.text for answer in question.answers],
        "predicted": found.pop("text"),
        **found,
    }


def read_for_evaluation(data: QuestionData, malformed: MalformedRows) -> Iterator[Question]:
    """The questions that `data.train` names, with their answers."""
    read = reader(data, data.train)
    if read is None:
        raise InputError("no file of questions is named; name one")
    return iter(read(malformed))


def _check_ids(questions: list[Question]) -> None:
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise InputError(
                f"two questions have the id {question.id!r:.80}; predictions are told apart by it, so make them differ"
            )
        seen.add(question.id)


def _candidates(answer: Answer) -> list[Candidate]:
    return [
        Candidate(
            text=passage.text,
            probability=passage.probability,
            start_logit=passage.start_logit,
            end_logit=passage.end_logit,
        )
        for passage in answer.passages
    ]
