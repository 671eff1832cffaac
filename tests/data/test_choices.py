"""Reading multiple-choice questions: SWAG, RACE, JSONL, and what is malformed in them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from regard.data.choices import ChoiceQuestion, read_choices
from regard.data.malformed import MalformedRows
from regard.errors import InputError

HEADER = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3"
SWAG = f"""{HEADER},label
0,lsmdc1052,18313,Students look. She,Students look.,She,gold,"pats her, then goes.",turns.,walks.,wheels,2
1,anetv_dm5,18419,He rides. He,He rides.,He,gold,sits.,stands.,sings.,leaves.,0
"""
RACE = {
    "article": "I am a teacher. I like it.",
    "questions": ["What is he?", "He _ it."],
    "options": [["a cook", "a teacher"], ["likes", "sells", "eats", "hates"]],
    "answers": ["B", "A"],
    "id": "high1.txt",
}


def write(folder: Path, name: str, content: object) -> Path:
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    if isinstance(content, dict):
        content = json.dumps(content)
    file.write_bytes(content if isinstance(content, bytes) else str(content).encode())
    return file


def error(path, **options) -> str:
    with pytest.raises(InputError) as caught:
        list(read_choices(path, **options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("packed", [False, True])
def test_swag(tmp_path: Path, packed: bool) -> None:
    file = write(tmp_path, "train.csv", gzip.compress(SWAG.encode()) if packed else SWAG)
    first, second = read_choices(file, on_error="stop")
    assert first == ChoiceQuestion(
        context="Students look.",
        question="She",
        choices=("pats her, then goes.", "turns.", "walks.", "wheels"),
        answer=2,
        file=str(file),
        number=2,
    )
    assert second.answer == 0
    assert len(list(read_choices(write(tmp_path, "b", SWAG), format="swag"))) == 2
    test = write(tmp_path, "test.csv", "\n".join(line.rpartition(",")[0] for line in SWAG.splitlines()))
    assert [question.answer for question in read_choices(test, answered=False, on_error="stop")] == [None, None]
    assert "no column 'label' in the header" in error(test)


def test_race(tmp_path: Path) -> None:
    for number, level in enumerate(("high", "middle")):
        write(tmp_path / "dev", f"{level}{number}.txt", RACE)
    questions = list(read_choices(tmp_path / "dev", on_error="stop"))
    assert len(questions) == 4
    assert [question.answer for question in questions[:2]] == [1, 0]
    assert questions[1].choices == ("likes", "sells", "eats", "hates")
    assert (questions[1].context, questions[1].question) == ("I am a teacher. I like it.", "He _ it.")
    joined = write(tmp_path, "all.jsonl", "\n".join([json.dumps(RACE)] * 3))
    assert [question.number for question in read_choices(joined)] == [1, 2, 3, 4, 5, 6]
    bare = {key: value for key, value in RACE.items() if key != "answers"}
    assert next(read_choices(write(tmp_path, "a.txt", bare), answered=False)).answer is None


def test_jsonl(tmp_path: Path) -> None:
    rows = [
        {"context": "It rains.", "choices": ["She runs.", "She flies."], "answer": 1},
        {"context": "It rains.", "question": "Who runs?", "choices": ["She", "He", "They"], "answer": 0},
    ]
    file = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)))
    questions = list(read_choices(file, on_error="stop"))
    assert [(question.question, len(question.choices), question.answer) for question in questions] == [
        ("", 2, 1),
        ("Who runs?", 3, 0),
    ]
    assert [question.answer for question in read_choices([file, file], answered=False)] == [None] * 4


GOOD = {"context": "It rains.", "choices": ["a", "b"], "answer": 1}
BAD_OBJECTS = [
    ({"answer": 2}, "answer outside the choices"),
    ({"answer": -1}, "answer outside the choices"),
    ({"answer": "b"}, "answer is not a number"),
    ({"answer": 1.0}, "answer is not a number"),
    ({"answer": True}, "answer is not a number"),
    ({"answer": None}, "no answer"),
    ({"choices": ["a"], "answer": 0}, "fewer than two choices"),
    ({"choices": "ab"}, "not a list of choices"),
    ({"choices": ["a", ""]}, "empty choice"),
    ({"choices": ["a", 3]}, "not a text"),
    ({"choices": ["a", "b\0"]}, "NUL character"),
    ({"context": ""}, "empty context"),
    ({"context": None}, "not a text"),
    ({"question": 3}, "not a text"),
]


@pytest.mark.parametrize(("change", "reason"), BAD_OBJECTS)
def test_a_malformed_object_is_recorded_and_the_others_read(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    lines = [json.dumps(GOOD), json.dumps(GOOD | change), json.dumps(GOOD)]
    malformed = MalformedRows()
    assert len(list(read_choices(write(tmp_path, "a.jsonl", "\n".join(lines)), malformed=malformed))) == 2
    assert [(row.line, row.reason) for row in malformed.first] == [(2, reason)]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2,x,1,A. She,A.,She,gold,a,b,c,d,4", "answer outside the choices"),
        ("2,x,1,A. She,A.,She,gold,a,b,c,d,", "no answer"),
        ("2,x,1,A. She,A.,She,gold,a,b,c,d,two", "answer is not a number"),
        ("2,x,1,A. She,,She,gold,a,b,c,d,1", "empty context"),
        ("2,x,1,A. She,A.,She,gold,a,b,c,1", "wrong number of columns"),
        ('2,x,1,"A. She,A.,She,gold,a,b,c,d,1', "broken quoting"),
    ],
)
def test_a_malformed_line_of_swag(tmp_path: Path, row: str, reason: str) -> None:
    malformed = MalformedRows()
    file = write(tmp_path, "a.csv", f"{SWAG}{row}\n{SWAG.splitlines()[1]}\n")
    assert len(list(read_choices(file, malformed=malformed))) == 3
    assert [(row.line, row.reason) for row in malformed.first] == [(4, reason)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"answers": ["B"]}, "lists that do not fit"),
        ({"options": None}, "lists that do not fit"),
        ({"answers": ["B", "E"]}, "answer outside the choices"),
        ({"answers": ["B", "both"]}, "answer is not a number"),
        ({"questions": ["What?", 5]}, "not a text"),
        ({"article": None}, "not a text"),
    ],
)
def test_a_malformed_question_of_race(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    file = write(tmp_path, "a", "\n".join(map(json.dumps, [RACE, RACE | change, RACE])))
    malformed = MalformedRows()
    found = len(list(read_choices(file, malformed=malformed)))
    assert malformed.first[0].reason == reason
    assert malformed.first[0].unit == "question"
    assert found + malformed.total in (5, 6)  # lists that do not fit are one fault


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_choices(tmp_path / "none")  # by the call itself, before anything is read
    assert "no .txt file is in the folder" in error(tmp_path)
    assert "is a folder" in error(tmp_path, format="jsonl")
    assert "is empty" in error(write(tmp_path, "a", ""))
    assert "no column 'sent1'" in error(write(tmp_path, "a.csv", "a,b\n1,2\n"))
    assert "none of 1 row is usable; each line needs to be a JSON object with a context" in error(
        write(tmp_path, "a.jsonl", '{"context": "a"}')
    )
    assert "line too long" in error(write(tmp_path, "b.jsonl", '{"context": "' + "x" * 10_000_000))
    assert "did you mean 'swag'?" in error(tmp_path, format="swags")
    assert "name at least one" in error([])
