"""How a task is put as text, as data: templates, and their patterns, texts with the names of fields in braces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Literal

from regard.errors import InputError, nearest
from regard.models.config import check
from regard.reading import LARGEST_YAML, parse_yaml, read_text
from regard.structure import from_mapping

TEMPLATES = resources.files("regard.prompting") / "templates"

Task = Literal["choice", "cloze", "answer", "translation"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    r"""How an example becomes text, and what of it the model is to tell.

    A prompt is the instruction, the examples that are shown, each with its answer, and the question, with the separator between
    them. Patterns name the fields of an example in braces. Spaces at the end of a question are told with what follows, because
    most tokenizers have them at the beginning of a word.

    | task | what the model does | judged by |
    |---|---|---|
    | `choice` | says how likely each of several continuations is | accuracy |
    | `cloze` | says how likely the right one is, and whether it would write it | accuracy, perplexity |
    | `answer` | writes the answer | exact match and F1, as for SQuAD |
    | `translation` | likewise | BLEU |

    Arguments:
        task: see the table.
        question: pattern of what stands before the answer.
        answer: pattern of what follows, `{answer}` being the answer or a choice. In a cloze an empty one stands for the last word
            of the question.
        instruction: what stands before all, as it is.
        separator: between instruction, examples and question.
        answer_prefix: what a choice follows where nothing is asked, for the score `unconditional`.
        right: the field that holds the right answer. Of choices it is one of them, its number from 0, or its letter from A; of
            `answer` it may be a list of answers that are all right.
        choices: the field that holds the list of choices, or the fields that hold one each.
        labels: choices that are always the same: what the right answer's field may be, and the text that stands for each.
        blank: a mark in the question where the choice belongs; what is behind it is told with the choice.
        stop: strings that end what is written.
        maximum_length: tokens that are written at most.

    Raises:
        InputError: for patterns with a brace that belongs to no field, or settings that contradict each other.

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
                raise InputError(f"template.answer is {self.answer!r}; put {{answer}} where the answer stands")
        check(self.maximum_length >= 1, "template.maximum_length", self.maximum_length, "at least 1", "50 is usual")
        if self.task != "choice" and (self.labels or self.blank):
            name = "labels" if self.labels else "blank"
            raise InputError(f"template.{name} belongs to the task choice, and this is {self.task}; leave it out")
        if len(self.labels) == 1:
            raise InputError("template.labels has one choice; give two at least")
        if self.blank and self.blank not in self.question and not names_in(self.question, "template.question"):
            raise InputError(f"template.blank is {self.blank!r}, and the question has neither that nor a field")

    @property
    def writes(self) -> bool:
        """Whether the model writes the answer, and does not only say how likely it is."""
        return self.task in ("answer", "translation")


def templates() -> tuple[str, ...]:
    """The names of the templates that ship.

    >>> "translation" in templates()
    True
    """
    names = (file.name for file in TEMPLATES.iterdir() if file.name.endswith(".yaml"))
    return tuple(sorted(name.removesuffix(".yaml") for name in names))


def read_template(name: str) -> Template:
    """A template that ships, by its name, or a file of the user's own.

    Raises:
        InputError: where there is none, with the nearest; for a file that cannot be read or is no template.

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
    """The fields that a pattern asks for, in their order.

    Raises:
        InputError: for a brace that belongs to none.

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
    """A pattern with the values of fields in it. `{{` and `}}` are the braces themselves.

    Arguments:
        fields: texts or numbers.
        where: what messages call the place.

    Raises:
        InputError: for a field that is not there, with the nearest, or is neither text nor number.

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
            raise InputError(
                f"{where}: the field {name!r} is {type(found).__name__}; a pattern takes texts and numbers"
            )
        return str(found)

    names_in(pattern, where)
    return _PART.sub(value, pattern)
