"""Reading questions: SQuAD 1.1 and 2.0, JSONL; answers that are not where they are said to be."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.malformed import MalformedRows
from regard.data.questions import Answer, Question, answer_texts, read_questions
from regard.errors import InputError

CONTEXT = "Ann lives in Paris. Paris 🗼 is old."


def question(id: str = "q", answers: list[tuple[str, int]] | None = None, **further: Any) -> dict[str, Any]:
    placed = [("Paris", 13), ("Paris", 20)] if answers is None else answers
    listed = [{"text": text, "answer_start": start} for text, start in placed]
    return {"id": id, "question": "Where?", "answers": listed} | further


def squad(*questions: Any, context: Any = CONTEXT) -> dict[str, Any]:
    paragraphs = [{"context": context, "qas": list(questions)}]
    return {"version": "1.1", "data": [{"title": "Ann", "paragraphs": paragraphs}]}


def write(folder: Path, content: object, name: str = "dev.json") -> Path:
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return file


def error(path, **options) -> str:
    with pytest.raises(InputError) as caught:
        list(read_questions(path, **options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_squad_1_1(tmp_path: Path, indent: int | None, mark: bytes, packed: bool) -> None:
    document = squad(question("a"), question("b", [("old", 31)]))
    content = mark + json.dumps(document, indent=indent, ensure_ascii=indent is None).encode()
    file = write(tmp_path, gzip.compress(content) if packed else content)
    both = (Answer(text="Paris", start=13), Answer(text="Paris", start=20))
    first = Question(id="a", question="Where?", context=CONTEXT, answers=both, title="Ann", file=str(file), number=1)
    found = list(read_questions(file, on_error="stop"))
    assert found[0] == first
    assert found[1].answers == (Answer(text="old", start=31),)  # characters are counted, not bytes
    assert [question.number for question in found] == [1, 2]
    assert answer_texts(found) == {"a": ("Paris", "Paris"), "b": ("old",)}


def test_squad_2_0(tmp_path: Path) -> None:
    plausible = [{"text": "Rome", "answer_start": 999}]
    document = squad(
        question("a", is_impossible=False), question("b", [], is_impossible=True, plausible_answers=plausible)
    )
    first, second = read_questions(write(tmp_path, document), on_error="stop")
    assert not first.impossible
    assert second.impossible
    assert second.answers == ()


def test_jsonl(tmp_path: Path) -> None:
    rows = [
        {"context": CONTEXT, "question": "Where?", "answer": "Paris", "answer_start": 13},
        {
            "context": CONTEXT,
            "question": "Where?",
            "answer": ["Paris", "in Paris"],
            "answer_start": [20, 10],
            "id": "x",
        },
        {"context": CONTEXT, "question": "Why?", "impossible": True, "title": "Ann"},
        {"context": CONTEXT, "question": "Why?", "answer": None, "answer_start": None, "impossible": True, "id": 9},
    ]
    file = write(tmp_path, "\n".join(map(json.dumps, rows)).encode(), "a.jsonl")
    found = list(read_questions(file, on_error="stop"))
    assert [question.id for question in found] == ["1", "x", "3", "9"]
    assert found[1].answers == (Answer(text="Paris", start=20), Answer(text="in Paris", start=10))
    assert [question.impossible for question in found] == [False, False, True, True]
    assert found[2].title == "Ann"
    # The content tells, where the name does not.
    assert len(list(read_questions(write(tmp_path, file.read_bytes(), "b.txt")))) == 4


def test_questions_to_be_answered_have_no_answers(tmp_path: Path) -> None:
    bare = {"id": "a", "question": "Where?"}
    (found,) = read_questions(write(tmp_path, squad(bare)), answered=False, on_error="stop")
    assert found.answers == ()
    (found,) = read_questions(
        write(tmp_path, squad(question(answers=[("nowhere", 3)]))), answered=False, on_error="stop"
    )
    assert found.answers == ()
    file = write(tmp_path, b'{"context": "c", "question": "q"}', "a.jsonl")
    assert len(list(read_questions(file, answered=False, on_error="stop"))) == 1
    assert "no answer" in error(file)


def test_an_id_used_twice_in_jsonl(tmp_path: Path) -> None:
    row = {"context": CONTEXT, "question": "Why?", "impossible": True, "id": "x"}
    malformed = MalformedRows()
    file = write(tmp_path, "\n".join([json.dumps(row)] * 2).encode(), "a.jsonl")
    assert len(list(read_questions(file, malformed=malformed))) == 1
    assert str(malformed.first[0]) == f"{file}, line 2: id used before (id 'x')"


def test_several_files(tmp_path: Path) -> None:
    one, two = write(tmp_path, squad(question("a")), "1"), write(tmp_path, squad(question("a")), "2")
    assert [question.file for question in read_questions([one, two], on_error="stop")] == [str(one), str(two)]


passages = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=20)


@given(parts=st.tuples(passages, passages, passages))
@settings(max_examples=60, deadline=None)
def test_offsets_count_characters_of_any_script(tmp_path_factory: pytest.TempPathFactory, parts) -> None:
    before, answer, after = parts
    if answer.isspace():
        answer += "x"
    document = squad(question(answers=[(answer, len(before))]), context=before + answer + after)
    (found,) = read_questions(write(tmp_path_factory.mktemp("squad"), document), on_error="stop")
    start = found.answers[0].start
    assert found.context[start : start + len(found.answers[0].text)] == answer


BAD_QUESTIONS = [
    (
        question("x", [("Paris", 14)]),
        "answer is not the text at its position",
        "'Paris', but the context at 14 is 'aris.'",
    ),
    (question("x", [("Paris", 13), ("Rome", 13)]), "answer is not the text at its position", "'Rome'"),
    (question("x", [("paris", 13)]), "answer is not the text at its position", "'paris'"),
    (question("x", [("Paris", -1)]), "answer outside the context", "at -1 of 35 characters"),
    (question("x", [("old.", 32)]), "answer outside the context", "at 32 of 35 characters"),
    (question("x", [("Paris", 10**12)]), "answer outside the context", "at 1000000000000"),
    (question("x", [("Paris", "13")]), "answer without a position", "'13'"),  # type: ignore[list-item]
    (question("x", [("Paris", None)]), "answer without a position", "None"),  # type: ignore[list-item]
    (question("x", [("Paris", True)]), "answer without a position", "True"),
    (question("x", [("", 3)]), "empty answer", ""),
    (question("x", [(3, 3)]), "not a text", "answer is 3"),  # type: ignore[list-item]
    (question("x", []), "no answer", ""),
    (question("x", is_impossible=True), "impossible but answered", "Paris"),
    (question("x", is_impossible="no"), "impossible is not true or false", ""),
    (question("x", question=""), "empty question", ""),
    (question("x", question="a\0b"), "NUL character", ""),
    (question("x", question=None), "not a text", ""),
    (question("x") | {"answers": "Paris"}, "not a list of answers", "'Paris'"),
    ("what?", "not a question", "'what?'"),
    (question("a"), "id used before", ""),
    ({"question": "Where?", "answers": []}, "not a text", "id is None"),
]


@pytest.mark.parametrize(("bad", "reason", "detail"), BAD_QUESTIONS)
def test_a_malformed_question_is_recorded_by_its_id_and_left_out(
    tmp_path: Path, bad: Any, reason: str, detail: str
) -> None:
    file = write(tmp_path, squad(question("a"), copy.deepcopy(bad), question("z")))
    malformed = MalformedRows()
    assert [question.id for question in read_questions(file, malformed=malformed)] == ["a", "z"]
    (found,) = malformed.first
    assert (found.line, found.reason) == (2, reason)
    assert str(found).startswith(f"{file}, question 2: {reason}")
    assert detail in found.detail
    if isinstance(bad, dict) and "id" in bad:
        assert f"id {bad['id']!r}" in found.detail
    assert f"question 2: {reason}" in error(file, on_error="stop")


@pytest.mark.parametrize("context", ["", None, "a\0b", ["a"]])
def test_a_context_that_is_no_text(tmp_path: Path, context: Any) -> None:
    document = squad(question("a"), context=context)
    document["data"] += squad(question("b"))["data"]
    malformed = MalformedRows()
    assert [question.id for question in read_questions(write(tmp_path, document), malformed=malformed)] == ["b"]
    assert malformed.total == 1


def test_articles_and_paragraphs_that_are_none(tmp_path: Path) -> None:
    document = squad(question("a"))
    document["data"] = ["?", {"title": "x"}, {"paragraphs": [3, {"context": "c"}]}, *document["data"]]
    malformed = MalformedRows()
    (found,) = read_questions(write(tmp_path, document), malformed=malformed)
    assert found.number == 5
    assert malformed.by_reason == {"not an article": 2, "not a paragraph": 2}


BAD_LINES = [
    ({"answer": "Paris", "answer_start": 3}, "answer is not the text at its position"),
    ({"answer": "Paris"}, "answers without positions"),
    ({"answer": ["Paris", "Ann"], "answer_start": [13]}, "answers without positions"),
    ({}, "no answer"),
    ({"context": 3}, "not a text"),
]


@pytest.mark.parametrize(("change", "reason"), BAD_LINES)
def test_a_malformed_line_is_recorded_by_its_number(tmp_path: Path, change: dict, reason: str) -> None:
    base = {"context": CONTEXT, "question": "Where?"}
    good = json.dumps(base | {"answer": "Paris", "answer_start": 13})
    file = write(tmp_path, "\n".join([good, json.dumps(base | change), "[]", good]).encode(), "a.jsonl")
    malformed = MalformedRows()
    assert len(list(read_questions(file, malformed=malformed))) == 2
    assert [(row.line, row.reason) for row in malformed.first] == [(2, reason), (3, "not a JSON object")]


def test_one_long_line(tmp_path: Path) -> None:
    # A SQuAD document may well be one long line; a context of ten megabytes is a context.
    long = "x" * 10_000_000 + " Paris"
    (found,) = read_questions(write(tmp_path, squad(question(answers=[("Paris", 10_000_001)]), context=long)))
    assert found.answers[0].start == 10_000_001
    row = json.dumps({"context": long, "question": "q", "answer": "Paris", "answer_start": 10_000_001})
    assert "line too long" in error(write(tmp_path, row.encode(), "a.jsonl"))


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_questions(tmp_path / "none")  # by the call itself, before anything is read
    assert "is a folder" in error(tmp_path)
    assert "is empty" in error(write(tmp_path, b""))
    assert "is empty" in error(write(tmp_path, b"\n"), format="squad")
    assert "is not JSON" in error(write(tmp_path, json.dumps(squad(question())).encode()[:-5]))
    assert "list of articles" in error(write(tmp_path, {"questions": []}))
    assert "list of articles" in error(write(tmp_path, [1]))
    assert "no rows" in error(write(tmp_path, {"data": []}))
    assert "none of 1 row is usable" in error(write(tmp_path, squad(question(answers=[]))))
    content = json.dumps(squad(question()), ensure_ascii=False)
    assert "iconv" in error(write(tmp_path, content.replace("🗼", "é").encode("latin-1")), format="squad")
    assert "UTF-16" in error(write(tmp_path, content.encode("utf-16")))
    assert "ends too early" in error(write(tmp_path, gzip.compress(content.encode())[:-20]))
    assert "nested too deeply" in error(write(tmp_path, b"[" * 100_000), format="squad")
    assert "name at least one" in error([])
    assert "did you mean 'squad'?" in error(tmp_path, format="squat")
