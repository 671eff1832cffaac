"""Prompt templates: tasks as text with the names of fields in braces, and the prompts made from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal

from regard.errors import InputError, nearest
from regard.models.config import check
from regard.prompting.examples import Example, Shots
from regard.reading import LARGEST_YAML, parse_yaml, read_text
from regard.structure import from_mapping
from regard.tasks.language_modelling import LanguageModel

TEMPLATES = resources.files("regard.prompting") / "templates"

Task = Literal["choice", "cloze", "answer", "translation"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    r"""How an example becomes a prompt, and which part of it the model predicts.

    A prompt consists of the instruction, the in-context examples with their answers, and the question, joined by the separator.
    Patterns have the names of an example's fields in braces. Spaces at the end of a question are moved to the continuation, since
    most tokenizers encode them with the following word.

    | task | what the model does | metrics |
    |---|---|---|
    | `choice` | scores each of several continuations by likelihood | accuracy |
    | `cloze` | scores the right one, and whether greedy decoding would generate it | accuracy, perplexity |
    | `answer` | generates the answer | exact match and F1, as for SQuAD |
    | `translation` | generates the translation | BLEU |

    Arguments:
        task: see the table.
        question: pattern of the text before the answer.
        answer: pattern of the continuation, where `{answer}` stands for the answer or a choice. In a cloze, an empty one means
            the last word of the question.
        instruction: literal text at the beginning.
        separator: between instruction, examples and question.
        answer_prefix: the context of a choice without a question, for the score `unconditional`.
        right: the field with the right answer. For choices it is one of them, its number from 0, or its letter from A; for
            `answer` it may be a list of right answers.
        choices: the field with the list of choices, or the fields with one each.
        labels: choices that are the same for all examples: from the value of the field `right` to the text of the choice.
        blank: a mark in the question for the place of the choice; the text behind it is predicted with the choice.
        stop: strings that end a generated answer.
        maximum_length: the most tokens of a generated answer.

    Raises:
        InputError: for patterns with braces that enclose no field, and for settings that contradict each other.

    >>> Template(task="translation", question="{english} =", right="german", separator="\n").answer
    ' {answer}'
    """

    task: Task
    question: str
    answer: str = " {answer}"
    instruction: str = ""
    separator: str = "\n\n"
    answer_prefix: str = "Answer:"
    right: str = "answer"
    choices: str | tuple[str, ...] = "choices"
    labels: dict[str, str] = field(default_factory=dict)
    blank: str = ""
    stop: tuple[str, ...] = ("\n",)
    maximum_length: int = 50

    def __post_init__(self) -> None:
        names_in(self.question, "template.question")
        if self.answer or self.task != "cloze":
            names = names_in(self.answer, "template.answer")
            if "answer" not in names:
                raise InputError(f"template.answer is {self.answer!r}; write {{answer}} in the place of the answer")
        check(self.maximum_length >= 1, "template.maximum_length", self.maximum_length, "at least 1", "50 is usual")
        if self.task != "choice" and (self.labels or self.blank):
            name = "labels" if self.labels else "blank"
            raise InputError(f"template.{name} belongs to the task choice, and this is {self.task}; leave it out")
        if len(self.labels) == 1:
            raise InputError("template.labels has one choice; give at least two")
        if self.blank and self.blank not in self.question and not names_in(self.question, "template.question"):
            raise InputError(f"template.blank is {self.blank!r}, and the question contains neither it nor a field")

    @property
    def writes(self) -> bool:
        """Whether the model generates the answer, rather than scoring given ones."""
        return self.task in ("answer", "translation")


def templates() -> tuple[str, ...]:
    """The names of the included templates.

    >>> "translation" in templates()
    True
    """
    names = (file.name for file in TEMPLATES.iterdir() if file.name.endswith(".yaml"))
    return tuple(sorted(name.removesuffix(".yaml") for name in names))


def read_template(name: str) -> Template:
    """A template by name, or from a file of the user's.

    Raises:
        InputError: for an unknown name, with the nearest one; for a file that cannot be read or is no template.

    >>> read_template("translation").task
    'translation'
    """
    if name in templates():
        text = (TEMPLATES / f"{name}.yaml").read_text(encoding="utf-8")
    elif name.endswith((".yaml", ".yml")):
        text = read_text(name, "give a YAML file", largest=LARGEST_YAML)
    else:
        raise InputError(f"there is no template {name!r}; {nearest(name, templates())}, or give a YAML file")
    values = parse_yaml(text, name, "give a YAML file")
    if not isinstance(values, dict):
        raise InputError(f"{name}: a template is a mapping with task, question and answer; see docs/prompting.md")
    return from_mapping(Template, values, name)


_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def names_in(pattern: str, where: str) -> list[str]:
    """The names of a pattern's fields, in order.

    Raises:
        InputError: for braces that enclose no field.

    >>> names_in("{question} = {answer}", "question")
    ['question', 'answer']
    """
    found = []
    for part in _PART.finditer(pattern):
        name = part[1]
        if part[0] in ("{{", "}}"):
            continue
        if name is None or not name.strip():
            raise InputError(
                f"{where}: {pattern!r} has a brace around no field; write {{{{ or }}}} for the brace itself"
            )
        found.append(name)
    return found


def filled(pattern: str, fields: Mapping[str, object], where: str) -> str:
    """A pattern with the values of fields filled in. `{{` and `}}` stand for braces.

    Arguments:
        pattern: the pattern.
        fields: texts or numbers by name.
        where: begins error messages.

    Raises:
        InputError: for an unknown field, with the nearest one, and for a field that is neither text nor number.

    >>> filled("{a} {{=}} {b}", {"a": "x", "b": 2}, "question")
    'x {=} 2'
    """

    def value(part: re.Match[str]) -> str:
        if part[0] in ("{{", "}}"):
            return part[0][0]
        name = part[1]
        if name not in fields:
            raise InputError(f"{where}: there is no field {name!r}; {nearest(str(name), list(fields))}")
        found = fields[name]
        if isinstance(found, bool) or not isinstance(found, str | int | float):
            raise InputError(f"{where}: the field {name!r} is {type(found).__name__}; patterns use texts and numbers")
        return str(found)

    names_in(pattern, where)
    return _PART.sub(value, pattern)


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltPrompt:
    """A question and its possible continuations.

    Arguments:
        question: the text before the answer.
        continuations: the texts that may follow, as they would be in the prompt.
        answers: the answers without the template's text around them; where the model generates, all right answers.
        right: the index of the right continuation.
        where: the example's file and line.
    """

    question: str
    continuations: tuple[str, ...]
    answers: tuple[str, ...]
    right: int
    where: str

    @property
    def shown(self) -> str:
        """The question with its right answer."""
        return self.question + self.continuations[self.right]


def build_prompt(template: Template, example: Example) -> BuiltPrompt:
    """Make the question and its continuations from an example.

    Raises:
        InputError: for a missing field, a right answer that is none of the choices, or a blank that does not occur exactly once;
            the message has the example's file and line.

    >>> example = Example({"text": "fine", "label": "1"})
    >>> sentiment = Template(task="choice", question="{text}:", right="label", labels={"0": "bad", "1": "good"})
    >>> prompt = build_prompt(sentiment, example)
    >>> prompt.continuations, prompt.shown
    ((' bad', ' good'), 'fine: good')
    """
    where, fields = example.where, example.fields
    question = filled(template.question, fields, where)
    if template.task == "cloze" and not template.answer:
        return _last_word(question, where)
    after = ""
    if template.blank:
        parts = question.split(template.blank)
        if len(parts) != 2:
            raise InputError(f"{where}: {template.blank!r} occurs {len(parts) - 1} times; it must occur once")
        question, after = parts
    answers, right = _answers(template, fields, where)
    kept = question.rstrip(" ")
    spaces = (
        "" if template.writes else question[len(kept) :]
    )  # a model that generates the answer generates the space too
    return BuiltPrompt(
        question=kept,
        continuations=tuple(
            spaces + filled(template.answer, {**fields, "answer": answer}, where) + after for answer in answers
        ),
        answers=answers,
        right=right,
        where=where,
    )


def _last_word(text: str, where: str) -> BuiltPrompt:
    text = text.rstrip()
    before, space, word = text.rpartition(" ")
    if not before.strip():
        raise InputError(f"{where}: the text has one word, and none before it to predict it from; give a longer text")
    return BuiltPrompt(question=before, continuations=(space + word,), answers=(word,), right=0, where=where)


def _answers(template: Template, fields: Mapping[str, Any], where: str) -> tuple[tuple[str, ...], int]:
    """The possible answers, and the index of the right one."""
    if template.right not in fields:
        raise InputError(f"{where}: there is no field {template.right!r}; {nearest(template.right, list(fields))}")
    right = fields[template.right]
    if template.task != "choice":
        many = [str(each) for each in (right if isinstance(right, list | tuple) else [right])]
        if not many or (template.task != "answer" and len(many) > 1):
            raise InputError(f"{where}: {template.right!r} has {len(many)} right answers; give one")
        return tuple(many), 0
    if template.labels:
        labels = list(template.labels)
        if str(right) not in labels:
            raise InputError(f"{where}: {template.right!r} is {right!r}; {nearest(str(right), labels)}")
        return tuple(template.labels.values()), labels.index(str(right))
    choices = _choices(template.choices, fields, where)
    return choices, _place(right, choices, f"{where}: {template.right!r}")


def _choices(names: str | Sequence[str], fields: Mapping[str, Any], where: str) -> tuple[str, ...]:
    for name in [names] if isinstance(names, str) else names:
        if name not in fields:
            raise InputError(f"{where}: there is no field {name!r}; {nearest(name, list(fields))}")
    found = fields[names] if isinstance(names, str) else [fields[name] for name in names]
    if (
        not isinstance(found, list | tuple)
        or len(found) < 2
        or not all(isinstance(each, str) and each for each in found)
    ):
        raise InputError(f"{where}: the choices are {found!r}; give a list of two texts or more, none empty")
    return tuple(found)


def _place(right: object, choices: Sequence[str], where: str) -> int:
    """The index of the right choice, given as the choice itself, a number from 0, or a letter from A."""
    if isinstance(right, str) and right in choices:
        return choices.index(right)
    place: int | None = right if isinstance(right, int) and not isinstance(right, bool) else None
    if isinstance(right, str) and right.strip().isdecimal() and len(right) < 10:
        place = int(right)
    elif isinstance(right, str) and len(right) == 1 and "A" <= right <= "Z":
        place = ord(right) - ord("A")
    if place is None or not 0 <= place < len(choices):
        raise InputError(f"{where} is {right!r}, none of the {len(choices)} choices; give one, or its number from 0")
    return place


# Whole prompts, and whether they fit into the model's positions.


def prompt_of(template: Template, shown: Sequence[BuiltPrompt], question: str) -> str:
    """The instruction, the examples with their answers, and the question, joined by the separator.

    >>> template = Template(task="answer", question="{q}", instruction="Answer.", separator="; ")
    >>> shown = BuiltPrompt(question="1 + 1 =", continuations=(" 2",), answers=("2",), right=0, where="a file")
    >>> prompt_of(template, [shown], "2 + 2 =")
    'Answer.; 1 + 1 = 2; 2 + 2 ='
    """
    instruction = [template.instruction] if template.instruction else []
    return template.separator.join([*instruction, *(each.shown for each in shown), question])


def prompts_of(
    model: LanguageModel,
    template: Template,
    examples: Sequence[Example],
    questions: Sequence[BuiltPrompt],
    shots: Shots | None,
) -> list[str]:
    """The whole prompt of each question.

    Raises:
        InputError: for a prompt that with its continuation is longer than the model's maximum; with the number of shots that
            fits.
    """
    shown: list[list[BuiltPrompt]] = [
        [] if shots is None else [build_prompt(template, each) for each in shots.of(place, example)]
        for place, example in enumerate(examples)
    ]
    prompts = [prompt_of(template, each, question.question) for each, question in zip(shown, questions, strict=True)]
    _check_room(model, template, questions, shown, prompts)
    return prompts


def _check_room(
    model: LanguageModel,
    template: Template,
    questions: Sequence[BuiltPrompt],
    shown: Sequence[Sequence[BuiltPrompt]],
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
            f"{question.where}: with {count} shots the prompt takes {taken} tokens"
            if count
            else f"{question.where}: the prompt takes {taken} tokens"
        )
        fitting = _fitting(model, template, questions, shown, limit)
        remedy = (
            f"give at most {fitting} shots, with which every question fits"
            if fitting is not None
            else f"not every question fits even without shots; shorten it, or train with a larger {model.model.length_setting}"
        )
        raise InputError(f"{asked}, and the model has positions for {limit}; {remedy}")


def _positions(model: LanguageModel, template: Template, question: BuiltPrompt, prompt: str) -> int:
    """The positions that a prompt and its continuation take; the last token is predicted, but not read."""
    if template.writes:
        return 1 + len(model.task.tokenizer.encode(prompt)) + template.maximum_length - 1
    return max(len(each.ids) - 1 for each in continued(model, prompt, question.continuations))


def _fitting(
    model: LanguageModel,
    template: Template,
    questions: Sequence[BuiltPrompt],
    shown: Sequence[Sequence[BuiltPrompt]],
    limit: int,
) -> int | None:
    """The most of the sampled examples with which every question fits; None where one does not fit even without any."""

    def fits(count: int) -> bool:
        return all(
            _positions(model, template, question, prompt_of(template, each[:count], question.question)) <= limit
            for question, each in zip(questions, shown, strict=True)
        )

    return next((count for count in range(len(shown[0]), -1, -1) if fits(count)), None)


@dataclass(frozen=True, slots=True)
class Continued:
    """A text's tokens, and where its continuation starts.

    Arguments:
        ids: of the whole text, with the end-of-sequence token that begins every text.
        start: position of the first token whose likelihood is computed, at least 1.
    """

    ids: tuple[int, ...]
    start: int


def continued(model: LanguageModel, before: str, continuations: Sequence[str]) -> list[Continued]:
    """The tokens of a text followed by each of its continuations, with the same start of the continuation for all.

    Text and continuation are tokenized together, as in training. A token that spans the boundary belongs to the continuation,
    for all continuations.

    Raises:
        InputError: for a continuation without tokens.
    """
    tokenizer = model.task.tokenizer
    alone, *wholes = tokenizer.encode_batch([before, *(before + text for text in continuations)])
    for text, whole in zip(continuations, wholes, strict=True):
        if not text or not whole:
            raise InputError(f"the continuation {text!r} has no tokens for this model; give a text that has some")
    start = min(min(common(alone, whole), len(whole) - 1) for whole in wholes)
    return [Continued((tokenizer.end_id, *whole), 1 + start) for whole in wholes]


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the common prefix of two texts, in tokens.

    >>> common([1, 2, 3], [1, 2, 4, 5])
    2
    """
    different = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(different, min(len(one), len(other)))
