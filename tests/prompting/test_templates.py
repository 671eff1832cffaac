"""Templates, examples from files, and examples put as text."""

from __future__ import annotations

import gzip
import json

import pytest

from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.prompting import Example, Template, build_prompt, read_examples, read_template, templates

QUESTION = Example({"question": "Where?", "choices": ["here", "there"], "answer": 1}, "q.jsonl, line 3")


@pytest.mark.parametrize("name", templates())
def test_what_ships_is_a_template(name):
    fields = {
        "context": "A cat sat.",
        "question": "It XXXXX down .",
        "text": "a fine film",
        "source": "a cat",
        "target": "eine Katze",
        "choices": ["sat", "ran"],
        "candidates": ["sat", "ran"],
        "answer": "sat",
        "label": 1,
    }
    found = build_prompt(read_template(name), Example(fields))
    assert all(found.continuations)
    assert found.shown.startswith(found.question)
    assert "{" not in found.shown


def test_choices_follow_and_the_right_one_is_named_by_text_number_or_letter():
    template = read_template("question-choice")
    for right in (1, "1", "there", "B"):
        found = build_prompt(template, Example({**QUESTION.fields, "answer": right}))
        assert found.question == "Question: Where?\nAnswer:"
        assert found.continuations == (" here", " there")
        assert found.right == 1
        assert found.shown == "Question: Where?\nAnswer: there"


def test_choices_may_stand_in_fields_of_their_own_or_be_always_the_same():
    apart = Template(task="choice", question="{q}", choices=("a", "b"), right="right")
    assert build_prompt(apart, Example({"q": "?", "a": "x", "b": "y", "right": "b".upper()})).answers == ("x", "y")
    fixed = read_template("sentiment")
    found = build_prompt(fixed, Example({"text": "fine", "label": "1"}))
    assert (found.continuations, found.right) == ((" negative", " positive"), 1)


def test_a_blank_is_filled_and_what_is_behind_it_is_told_too():
    fields = {"context": "It rained .", "question": "She took her XXXXX home .", "candidates": ["hat", "cat"]}
    found = build_prompt(read_template("childrens-books"), Example({**fields, "answer": "cat"}))
    assert found.question == "It rained . She took her"
    assert found.continuations == (" hat home .", " cat home .")
    assert found.right == 1


def test_the_last_word_is_told():
    found = build_prompt(read_template("last-word"), Example({"text": "He put on his hat \n"}))
    assert (found.question, found.continuations, found.answers) == ("He put on his", (" hat",), ("hat",))


def test_what_is_written_begins_without_a_space_and_may_have_several_right_answers():
    found = build_prompt(read_template("answer"), Example({"question": "Who?", "answer": ["Anna", "Anna B."]}))
    assert found.question == "Q: Who?\nA:"
    assert found.answers == ("Anna", "Anna B.")
    assert found.shown == "Q: Who?\nA: Anna"
    found = build_prompt(read_template("translation"), Example({"source": "a cat", "target": "eine Katze"}))
    assert found.shown == "a cat = eine Katze"


@pytest.mark.parametrize(
    ("template", "fields", "message"),
    [
        ({"question": "{questoin}"}, {}, "there is no field 'questoin'; did you mean 'question'"),
        ({"question": "{choices}"}, {}, "'choices' is list; patterns use texts and numbers"),
        ({"question": "{question}"}, {"answer": 2}, "'answer' is 2, none of the 2 choices"),
        ({"question": "{question}"}, {"answer": "elsewhere"}, "'answer' is 'elsewhere', none of the 2"),
        ({"question": "{question}"}, {"choices": ["one"]}, "give a list of two texts or more"),
        ({"question": "{question}", "choices": "options"}, {}, "there is no field 'options'"),
        ({"question": "{question}", "right": "label"}, {}, "there is no field 'label'"),
        ({"question": "{question}", "blank": "XXX"}, {}, "'XXX' occurs 0 times; it must occur once"),
        ({"question": "{question}", "labels": {"a": "x", "b": "y"}}, {}, "'answer' is 1; "),
        ({"task": "cloze", "question": "{question}", "answer": ""}, {}, "the text has one word"),
        ({"task": "translation", "question": "{question}"}, {"answer": ["a", "b"]}, "has 2 right answers; give one"),
    ],
)
def test_an_example_that_does_not_fit_is_told_with_its_line(template, fields, message):
    with pytest.raises(InputError, match=message) as error:
        build_prompt(Template(**{"task": "choice", **template}), Example({**QUESTION.fields, **fields}, QUESTION.where))
    assert str(error.value).startswith("q.jsonl, line 3: ")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"question": "{a"}, r"template.question: '\{a' has a brace around no field"),
        ({"question": "{}"}, "has a brace around no field"),
        ({"question": "{a}", "answer": " so"}, r"template.answer is ' so'; write \{answer\}"),
        ({"question": "{a}", "maximum_length": 0}, "template.maximum_length is 0"),
        ({"question": "{a}", "task": "cloze", "blank": "X"}, "template.blank belongs to the task choice"),
        ({"question": "{a}", "labels": {"x": "y"}}, "template.labels has one choice"),
    ],
)
def test_a_template_that_contradicts_itself_is_refused(fields, message):
    with pytest.raises(InputError, match=message):
        Template(**{"task": "choice", **fields})


def test_templates_from_files(tmp_path):
    (tmp_path / "mine.yaml").write_text('task: answer\nquestion: "{q} ->"\nstop: [".", ";"]\n')
    assert read_template(str(tmp_path / "mine.yaml")).stop == (".", ";")
    (tmp_path / "mine.yaml").write_text('task: answer\nqestion: "{q}"\n')
    with pytest.raises(InputError, match="unknown key 'qestion'; did you mean 'question'"):
        read_template(str(tmp_path / "mine.yaml"))
    (tmp_path / "mine.yaml").write_text("- a list")
    with pytest.raises(InputError, match="a template is a mapping"):
        read_template(str(tmp_path / "mine.yaml"))
    with pytest.raises(InputError, match="no such file"):
        read_template(str(tmp_path / "none.yaml"))
    with pytest.raises(InputError, match="did you mean 'translation'"):
        read_template("translatoin")


def test_examples_from_tables_objects_and_lines(tmp_path):
    (tmp_path / "a.tsv").write_text("source\ttarget\na cat\teine Katze\nno tab\n")
    malformed = MalformedRows()
    found = read_examples(tmp_path / "a.tsv", malformed=malformed)
    assert [each.fields for each in found] == [{"source": "a cat", "target": "eine Katze"}]
    assert found[0].where.endswith("a.tsv, line 2")
    assert malformed.total == 1
    (tmp_path / "b.csv").write_text('text,label\n"fine, really",1\n')
    assert read_examples(tmp_path / "b.csv")[0].fields == {"text": "fine, really", "label": "1"}
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(json.dumps({"choices": ["a", "b"]}).encode()))
    assert read_examples(tmp_path / "c.jsonl.gz")[0].fields == {"choices": ["a", "b"]}
    (tmp_path / "d.txt").write_text("one\n\ntwo words\n")
    assert [each.fields["text"] for each in read_examples(tmp_path / "d.txt", format="lines")] == ["one", "two words"]


def test_the_childrens_book_test_as_it_is_distributed(tmp_path):
    lines = [f"{n} Sentence {n} ." for n in range(1, 21)]
    good = "\n".join([*lines, "21 It was the XXXXX .\tdog\t\tcat|dog|hen"])
    short = "\n".join([*lines[:5], "6 It was the XXXXX .\tdog\t\tcat|dog"])
    (tmp_path / "cbt.txt").write_text(f"{good}\n\n{short}\n\n{good}\n")
    malformed = MalformedRows()
    found = read_examples(tmp_path / "cbt.txt", format="childrens_books", malformed=malformed)
    assert len(found) == 2
    assert malformed.total == 1
    assert found[0].fields["candidates"] == ["cat", "dog", "hen"]
    assert found[0].fields["context"].startswith("Sentence 1 . Sentence 2 .")
    put = build_prompt(read_template("childrens-books"), found[0])
    assert put.continuations[put.right] == " dog ."


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a\ta\nx\ty\n", {}, "two columns are called 'a'"),
        ("x\n", {"format": "jsno"}, "there is no format 'jsno'"),
        ('{"a": 1}\n', {"format": "jsonl", "columns": ("a",)}, "columns are those of a table"),
        ("nothing\n", {"format": "childrens_books"}, "none of 1 row is usable"),
        ("a\tb\n", {}, "has a header and no rows"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, text, options, message):
    (tmp_path / "x.tsv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_examples(tmp_path / "x.tsv", **options)
