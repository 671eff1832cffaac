"""Whole prompts: instruction, examples shown, question; and whether they fit the model."""

from __future__ import annotations

from collections.abc import Sequence

from regard.errors import InputError
from regard.prompting.examples import Example
from regard.prompting.likelihood import continued
from regard.prompting.posed import Posed, posed
from regard.prompting.shots import Shots
from regard.prompting.template import Template
from regard.tasks.language_modelling.language_model import LanguageModel


def prompt_of(template: Template, shown: Sequence[Posed], question: str) -> str:
    """The instruction, the examples with their answers, and the question, with the separator between.

    >>> template = Template(task="answer", question="{q}", instruction="Answer.", separator="; ")
    >>> shown = Posed(question="1 + 1 =", continuations=(" 2",), answers=("2",), right=0, where="a file")
    >>> prompt_of(template, [shown], "2 + 2 =")
    'Answer.; 1 + 1 = 2; 2 + 2 ='
    """
    instruction = [template.instruction] if template.instruction else []
    return template.separator.join([*instruction, *(each.shown for each in shown), question])


def prompts_of(
    model: LanguageModel,
    template: Template,
    examples: Sequence[Example],
    questions: Sequence[Posed],
    shots: Shots | None,
) -> list[str]:
    """The prompt of each question.

    Raises:
        InputError: for one that does not fit the model's positions with all that follows it, with the number of shots that does.
    """
    shown: list[list[Posed]] = [
        [] if shots is None else [posed(template, each) for each in shots.of(place, example)]
        for place, example in enumerate(examples)
    ]
    prompts = [prompt_of(template, each, question.question) for each, question in zip(shown, questions, strict=True)]
    _check_room(model, template, questions, shown, prompts)
    return prompts


def _check_room(
    model: LanguageModel,
    template: Template,
    questions: Sequence[Posed],
    shown: Sequence[Sequence[Posed]],
    prompts: Sequence[str],
) -> None:
    limit = model.model.maximum_length
    if limit is None:
        return
    for place, (question, prompt) in enumerate(zip(questions, prompts, strict=True)):
        taken = _positions(model, template, question, prompt)
        if taken <= limit:
            continue
        count = len(shown[place])
        asked = (
            f"{question.where}: with {count} shots it takes {taken} tokens"
            if count
            else f"{question.where}: it takes {taken}"
        )
        fitting = _fitting(model, template, questions, shown, limit)
        remedy = (
            f"show at most {fitting}, which fit every question"
            if fitting is not None
            else f"not every question fits even alone; shorten it, or train with a larger {model.model.length_setting}"
        )
        raise InputError(f"{asked}, and the model has positions for {limit}; {remedy}")


def _positions(model: LanguageModel, template: Template, question: Posed, prompt: str) -> int:
    """The positions that a prompt takes with all that follows: the last token is told, and not read."""
    if template.writes:
        return 1 + len(model.task.tokenizer.encode(prompt)) + template.maximum_length - 1
    return max(len(each.ids) - 1 for each in continued(model, prompt, question.continuations))


def _fitting(
    model: LanguageModel,
    template: Template,
    questions: Sequence[Posed],
    shown: Sequence[Sequence[Posed]],
    limit: int,
) -> int | None:
    """The most examples with which every question fits, the first of those drawn; None where one does not fit without any."""

    def fits(count: int) -> bool:
        return all(
            _positions(model, template, question, prompt_of(template, each[:count], question.question)) <= limit
            for question, each in zip(questions, shown, strict=True)
        )

    return next((count for count in range(len(shown[0]), -1, -1) if fits(count)), None)
