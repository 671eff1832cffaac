"""The answers that people saved from a judging page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from regard.data.lines import is_utf_8, read_lines
from regard.data.malformed import MalformedRow, MalformedRows
from regard.reading import json_value
from regard.vectors.judging.questionnaire import Item, Questionnaire


@dataclass(frozen=True, slots=True)
class Answer:
    """What a judge chose.

    Arguments:
        judge: who.
        item: which question.
        choice: the place of the option, from 0; None where the judge did not know the words.
    """

    judge: str
    item: Item
    choice: int | None


def read_answers(
    questionnaire: Questionnaire, paths: Iterable[Path | str], malformed: MalformedRows | None = None
) -> list[Answer]:
    """The answers in JSONL files; of several by one judge to one question the last.

    Arguments:
        questionnaire: that they answer.
        paths: one or more files, each of one judge or several.
        malformed: where to count lines that are no answers, or answers to something else.

    Raises:
        InputError: for a file that cannot be read.
    """
    malformed = MalformedRows() if malformed is None else malformed
    items, page = {item.name: item for item in questionnaire.items}, questionnaire.page
    found: dict[tuple[str, str], Answer] = {}
    for path in paths:
        for line in read_lines(path):
            if not line.content.strip():
                continue
            answer = _answer(line.content, items, page) if is_utf_8(line) and not line.too_long else "no JSON object"
            if isinstance(answer, str):
                malformed.record(MalformedRow(file=str(path), line=line.number, reason=answer))
            else:
                key = (answer.judge, answer.item.name)
                found.pop(key, None)
                found[key] = answer
    return list(found.values())


def _answer(content: bytes, items: dict[str, Item], page: str) -> Answer | str:
    """The answer on a line, or why it is none."""
    try:
        values = json_value(content)
    except ValueError:
        return "no JSON object"
    if not isinstance(values, dict):
        return "no JSON object"
    if values.get("page") != page:
        return "answers another page"
    judge, name, choice = values.get("judge"), values.get("item"), values.get("choice")
    item = items.get(name) if isinstance(name, str) else None
    if item is None or not isinstance(judge, str) or not judge.strip():
        return "no such question" if item is None else "no judge"
    if choice is None:
        return Answer(judge.strip(), item, None)
    if isinstance(choice, bool) or not isinstance(choice, int) or not 0 <= choice < len(item.options):
        return "no such choice"
    if values.get("word") not in (None, item.options[choice]):
        return "choice and word differ"
    return Answer(judge.strip(), item, choice)
