"""From questions with choices to token stores that a model which chooses is trained on."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.choices import ChoiceQuestion, read_choices
from regard.data.malformed import MalformedRows
from regard.data.rows import listed, parts_of
from regard.errors import InputError
from regard.files import replace_file
from regard.tasks.examples import Reader, Splits, given_or
from regard.tasks.multiple_choice.data import ChoiceData, Place
from regard.tasks.multiple_choice.task import MultipleChoiceTask, columns, row_of
from regard.tasks.preparation import (
    SETTINGS,
    TRAIN,
    VALIDATION,
    EncoderTokenizerSettings,
    Prepared,
    Row,
    cleared,
    finish,
    is_prepared,
    opened,
    settings_of,
    whole_text_tokenizer,
    write_store,
)

Example = ChoiceQuestion | tuple[str, Sequence[str], int] | Mapping[str, Any]
"""A question, (context, choices, number of the right one, from 0), or a mapping with these, perhaps with a question."""

WANTED = "(context, choices, answer)"

Given = Sequence[Example]

"""What preparation decided of the task, beside the stores."""

TOGETHER = 256
"""Questions that are tokenized together."""


def prepare_choices(
    data: ChoiceData,
    tokenizer: EncoderTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Given | None = None,
    given_validation: Given | None = None,
) -> Prepared[MultipleChoiceTask]:
    """Read the data for the tokenizer, then for the tokens, and leave all in `folder`.

    Arguments:
        folder: where to put them; taken as they are if they are there already (a resumed run).
        seed: of the choice of held-out questions.
        given, given_validation: questions in memory instead of what `data` names.

    Raises:
        InputError: for data that cannot be read, too little of it, or a question without a right choice.
    """
    if not is_prepared(folder):
        train = given_or(in_memory(given), reader(data, data.train), "training")
        if train is None:
            raise InputError("data.train is missing; name a file of multiple-choice questions")
        validation = given_or(in_memory(given_validation), reader(data, data.validation), "validation")
        splits = Splits(
            train, validation, share=data.validation_share, seed=seed, together=lambda question: question.context
        )
        cleared(folder)
        task = MultipleChoiceTask(
            tokenizer=whole_text_tokenizer(tokenizer, lambda: _texts(splits)),
            maximum_length=data.maximum_length,
            auxiliary=data.auxiliary,
            question=data.question,
        )
        cut = 0

        def rows(questions: Iterator[ChoiceQuestion]) -> Iterator[Row]:
            nonlocal cut
            while chunk := list(itertools.islice(questions, TOGETHER)):
                contexts, choices = zip(*(task.parts(question) for question in chunk), strict=True)
                encoded = task.encode(contexts, choices, maximum=task.maximum_length)
                for question, each in zip(chunk, encoded, strict=True):
                    cut += sum(joined.cut > 0 for joined in each)
                    yield row_of(each, right_of(question))

        write_store(folder, TRAIN, columns(task.tokenizer), rows(splits.train()))
        write_store(folder, VALIDATION, columns(task.tokenizer), rows(splits.validation()))
        replace_file(folder / SETTINGS, json.dumps(task.save(folder)))
        notes = splits.notes
        if cut:
            notes.append(
                f"{cut:,} choices with their contexts were longer than data.maximum_length = {task.maximum_length} tokens and "
                "were cut."
            )
        finish(folder, notes)
    return opened(MultipleChoiceTask.load(folder, settings_of(folder)), folder)


def reader(data: ChoiceData, place: Place | None) -> Reader[ChoiceQuestion] | None:
    """What reads the questions of a place; None where there is none."""
    if place is None:
        return None
    path = place if isinstance(place, str) else list(place)

    def read(malformed: MalformedRows) -> Iterator[ChoiceQuestion]:
        return read_choices(path, format=data.format, malformed=malformed)

    return read


def in_memory(given: Given | None) -> list[ChoiceQuestion] | None:
    """Questions in memory as `ChoiceQuestion`s.

    Raises:
        InputError: for what is none.
    """
    if given is None:
        return None
    return [_question(example, number) for number, example in enumerate(listed(given, "questions", WANTED), start=1)]


def _question(example: Example, number: int) -> ChoiceQuestion:
    if isinstance(example, ChoiceQuestion):
        return example
    context, choices, answer = parts_of(
        example, f"question {number}", [["context"], ["choices"], ["answer", "label"]], WANTED
    )
    question = example.get("question") or "" if isinstance(example, Mapping) else ""
    check_question(context, choices, f"question {number}")
    if type(answer) is not int or not 0 <= answer < len(choices):
        raise InputError(
            f"question {number}: its answer is {answer!r}; give the number of one of its {len(choices)} choices, from 0"
        )
    return ChoiceQuestion(
        context=context, question=str(question), choices=tuple(choices), answer=answer, file="questions", number=number
    )


def check_question(context: Any, choices: Any, where: str) -> None:
    """Refuse what is no context with two choices or more.

    Raises:
        InputError: naming the fault.
    """
    if isinstance(choices, str) or not isinstance(choices, Sequence):
        raise InputError(f"{where}: its choices are {choices!r:.80}; give a list of texts")
    if len(choices) < 2:
        raise InputError(f"{where} has {len(choices)} choices; give two or more")
    for what, text in (("context", context), *(("choice", choice) for choice in choices)):
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{where}: a {what} is {text!r:.80}; give a text")


def right_of(question: ChoiceQuestion) -> int:
    """The number of the right choice.

    Raises:
        InputError: where it is not said.
    """
    if question.answer is None:
        raise InputError(f"{question.file}, question {question.number}: says no right choice; give answered questions")
    return question.answer


def _texts(splits: Splits[ChoiceQuestion]) -> Iterator[str]:
    for question in splits.train():
        yield question.context
        yield from (f"{question.question} {choice}" if question.question else choice for choice in question.choices)
