"""Questions that are given in memory, and what is asked of any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regard.data.malformed import MalformedRows
from regard.data.questions import Answer, Question, read_questions
from regard.data.rows import listed, parts_of
from regard.errors import InputError
from regard.tasks.examples import Reader
from regard.tasks.question_answering.data import Place, QuestionData

Example = Question | tuple[str, str, str | None] | tuple[str, str, tuple[str, int]] | Mapping[str, Any]
"""A question, or (question, context, answer): the answer as a text that stands in the context, of which the first place is taken,
as (text, place), or None where the context has none. Or a mapping with these, such as SQuAD's rows in the library `datasets`."""

WANTED = "(question, context, answer)"

Given = Sequence[Example]


def reader(data: QuestionData, place: Place | None) -> Reader[Question] | None:
    """What reads the questions of a place; None where there is none."""
    if place is None:
        return None
    path = place if isinstance(place, str) else list(place)

    def read(malformed: MalformedRows) -> Iterator[Question]:
        return read_questions(path, format=data.format, malformed=malformed)

    return read


def in_memory(given: Given | None) -> list[Question] | None:
    """Questions in memory as `Question`s.

    Raises:
        InputError: for what is none, and an answer that does not stand in its context.
    """
    if given is None:
        return None
    return [_question(example, number) for number, example in enumerate(listed(given, "questions", WANTED), start=1)]


def _question(example: Example, number: int) -> Question:
    where = f"question {number}"
    if isinstance(example, Question):
        for answer in example.answers:
            _check_answer(where, example.context, answer.text, answer.start)
        return example
    question, context, answer = parts_of(example, where, [["question"], ["context"], ["answer", "answers"]], WANTED)
    if isinstance(example, Mapping) and isinstance(answer, Mapping):  # as SQuAD's in the library `datasets`
        texts, starts = parts_of(answer, f"the answers of {where}", [["text"], ["answer_start"]], "(texts, places)")
        found = tuple(Answer(text=text, start=start) for text, start in zip(texts, starts, strict=True))
        for each in found:
            _check_answer(where, context, each.text, each.start)
        return _as_question(number, question, context, found)
    answer = (answer, example["answer_start"]) if isinstance(example, Mapping) and "answer_start" in example else answer
    text, start = (
        parts_of(answer, f"the answer of {where}", [["text"], ["start"]], "(text, place)")
        if isinstance(answer, tuple | list)
        else (answer, None)
    )
    for what, part in (("question", question), ("context", context)):
        if not isinstance(part, str) or not part.strip():
            raise InputError(f"{where}: its {what} is {part!r:.80}; give a text")
    answers: tuple[Answer, ...] = ()
    if text is not None:
        if not isinstance(text, str) or not (start is None or type(start) is int):
            raise InputError(
                f"{where}: its answer is {answer!r:.80}; give a text, (text, place), or None for no answer"
            )
        start = context.find(text) if start is None else start
        _check_answer(where, context, text, start)
        answers = (Answer(text=text, start=start),)
    return _as_question(number, question, context, answers)


def _as_question(number: int, question: str, context: str, answers: tuple[Answer, ...]) -> Question:
    return Question(
        id=str(number),
        question=question,
        context=context,
        answers=answers,
        impossible=not answers,
        file="questions",
        number=number,
    )


def _check_answer(where: str, context: str, text: str, start: int) -> None:
    if not text.strip():
        raise InputError(f"{where}: its answer is empty; give None where the context has none")
    if start < 0 or start + len(text) > len(context) or not context.startswith(text, start):
        place = f"at {start} of the context's {len(context)} characters" if start >= 0 else "in the context"
        raise InputError(f"{where}: its answer {text!r:.60} does not stand {place}; mend the text or the place")


def together(question: Question) -> str:
    """What questions have in common that must not stand both in training and in validation: the article, else the context."""
    return question.title or question.context


def answer_of(question: Question) -> Answer | None:
    """The answer to learn: of several the one that most give, of equally many the first; None where there is none."""
    counts = Counter(question.answers)
    return max(counts, key=counts.__getitem__) if counts else None


def check_answered(unanswerable: bool, question: Question) -> None:
    """Refuse a question without an answer where every context holds one.

    Raises:
        InputError: naming the question.
    """
    if question.answers or (question.impossible and unanswerable):
        return
    where = f"{question.file}, question {question.number}"
    if question.impossible:
        raise InputError(
            f"{where}: has no answer, and what is learnt from has one for each; say data.unanswerable=true, or leave it out"
        )
    raise InputError(f"{where}: has no answer and is not said to be without one; give an answer, or impossible=True")
