"""`regard answer`: contexts from everywhere, one line for each question, JSON with places, faults as one sentence."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import torch

import regard
from regard.models import Bert, BertConfig
from regard.tasks.answer_spans import Answer
from regard.tasks.question_answering import QuestionAnswerer, QuestionAnsweringTask
from regard.text import Tokenizer

CONTEXT = "She has lived in Paris since 1999, and the café\nis in the middle of the town."
QUESTION = "Where has she lived?"


def written(folder: Path, *, unanswerable: bool) -> Path:
    """A model whose answers vary: every parameter is drawn."""
    tokenizer = Tokenizer.train([CONTEXT + QUESTION] * 5, kind="bert", size=150, lowercase=True)
    task = QuestionAnsweringTask(
        tokenizer=tokenizer,
        maximum_length=20,
        stride=5,
        maximum_question=8,
        maximum_answer=5,
        unanswerable=unanswerable,
    )
    config = BertConfig(
        width=12, heads=3, feedforward_width=10, layers=1, maximum_positions=20, **task.model_settings()
    )
    model = Bert(config)
    draw = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(2 * torch.randn(parameter.shape, generator=draw) / parameter.shape[-1] ** 0.5)
    QuestionAnswerer(model, task).save(folder)
    return folder


@pytest.fixture(scope="module")
def answering(tmp_path_factory) -> Path:
    return written(tmp_path_factory.mktemp("model") / "answering", unanswerable=False)


@pytest.fixture(scope="module")
def careful(tmp_path_factory) -> Path:
    return written(tmp_path_factory.mktemp("model") / "careful", unanswerable=True)


def line(answer: Answer) -> str:
    return f"{' '.join(answer.text.split())}\t{answer.probability:.4f}\n"


def test_questions_are_answered_from_the_context_a_line_for_each(command, answering):
    model = regard.load(answering)
    said = command("answer", answering, QUESTION, "since when?", "--context", CONTEXT)
    assert (said.code, said.err) == (0, "")
    assert said.out == line(model.answer(QUESTION, CONTEXT)) + line(model.answer("since when?", CONTEXT))
    assert command("answer", answering, "--context", CONTEXT, stdin=f"{QUESTION}\n\nsince when?\n".encode()).out == (
        line(model.answer(QUESTION, CONTEXT)) + "\n" + line(model.answer("since when?", CONTEXT))
    )


def test_a_context_in_a_file_is_read_whole_whatever_its_lines(command, answering, tmp_path):
    model = regard.load(answering)
    long = (CONTEXT + " ") * 30
    for name, content in (
        ("a.txt", long.encode()),
        ("a.gz", gzip.compress(long.encode())),
        ("b.txt", b"\xef\xbb\xbf" + long.encode()),
    ):
        (tmp_path / name).write_bytes(content)
        said = command("answer", answering, QUESTION, "--context-file", tmp_path / name, "--json")
        (found,) = json.loads(said.out)["answers"]
        expected = model.answer(QUESTION, long)
        assert (found["answer"], found["start"], found["end"]) == (expected.text, expected.start, expected.end)
        assert long[found["start"] : found["end"]] == found["answer"]


def test_the_best_few_come_one_in_each_line(command, answering):
    said = command("answer", answering, QUESTION, "--context", CONTEXT, "--n-best", 3).out
    expected = regard.load(answering).answer(QUESTION, CONTEXT, n_best=3)
    assert [each.split("\t")[0] for each in said.splitlines()] == [
        " ".join(passage.text.split()) for passage in expected.passages
    ]
    found = json.loads(command("answer", answering, QUESTION, "--context", CONTEXT, "--n-best", 3, "--json").out)
    assert [each["answer"] for each in found["answers"][0]["alternatives"]] == [
        passage.text for passage in expected.alternatives
    ]
    assert "no_answer_probability" not in found["answers"][0]


def test_files_of_questions_have_their_own_contexts(command, answering, tmp_path):
    model = regard.load(answering)
    asked = [(QUESTION, CONTEXT), ("Where is the café?", CONTEXT[10:])]
    lines = tmp_path / "questions.jsonl"
    lines.write_text("".join(json.dumps({"question": q, "context": c, "id": f"q{len(c)}"}) + "\n" for q, c in asked))
    squad = tmp_path / "questions.json"
    paragraphs = [{"context": c, "qas": [{"id": f"q{len(c)}", "question": q}]} for q, c in asked]
    squad.write_text(json.dumps({"version": "1.1", "data": [{"title": "T", "paragraphs": paragraphs}]}))
    expected = "".join(line(model.answer(*each)) for each in asked)
    for file in (lines, squad):
        assert command("answer", answering, "--input", file, "--output", tmp_path / "out.tsv").code == 0
        assert (tmp_path / "out.tsv").read_text() == expected
        said = json.loads(command("answer", answering, "--input", file, "--json", "--n-best", 2).out)["answers"]
        assert [each["id"] for each in said] == [f"q{len(context)}" for _, context in asked]
        assert all(len(each["alternatives"]) == 1 for each in said)


def test_a_threshold_tells_when_there_is_no_answer(command, careful):
    def told(threshold: float) -> dict:
        said = command("answer", careful, QUESTION, "--context", CONTEXT, "--json", "--threshold", threshold)
        return json.loads(said.out)["answers"][0]

    lead = told(0)["no_answer_score"]
    silent, speaking = told(lead - 1), told(lead + 1)
    assert (silent["answer"], silent["start"], silent["end"]) == ("", None, None)
    assert silent["probability"] == silent["no_answer_probability"]
    assert speaking["answer"] == silent["alternatives"][0]["answer"]
    text = command("answer", careful, QUESTION, "--context", CONTEXT, "--threshold", lead - 1).out
    assert text.startswith("\t0.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["who?"], "give the context with either --context TEXT or --context-file FILE, or use --input"),
        (["who?", "--context", "a", "--context-file", "b"], "give the context with either"),
        (["who?", "--context", " "], "the context is empty"),
        (["who?", "--context-file", "EMPTY"], "is empty"),
        (["who?", "--context-file", "missing.txt"], "missing.txt: no such file"),
        (["who?", "--context-file", "BINARY"], "is a binary file"),
        (["who?", "--context-file", "LATIN"], "is not UTF-8"),
        (["who?", "--context", "\x01\x02"], "has no token that the tokenizer knows"),
        (["a?", "lived " * 9, "--context", "a"], "question 2 has 9 tokens and the model reads 8; shorten it"),
        (["who?", "--input", "LINES"], "a QUESTION is given too"),
        (["--input", "LINES", "--context", "a"], "--context is given too"),
        (["--input", "LINES", "--n-best", "2"], "give --json as well"),
        (["--input", "WRONG"], "questions.jsonl, line 2: empty context"),
        (["--input", "HUGE"], "line 1: line too long (more than 1 MiB)"),
        (["who?", "--context", "a", "--threshold", "1"], "trained only on questions with"),
        (["who?", "--context", "a", "--n-best", "0"], "n-best"),
    ],
)
def test_faults_are_one_sentence(command, answering, tmp_path, words, message):
    files = {
        "EMPTY": b" \n",
        "BINARY": bytes(range(256)) * 40,
        "LATIN": "le café où nous étions\n".encode("latin-1") * 9,
        "LINES": json.dumps({"question": "who?", "context": "a b"}).encode() + b"\n",
        "WRONG": b'{"question": "who?", "context": "a"}\n{"question": "who?", "context": ""}\n',
        "HUGE": b'{"question": "who?", "context": "' + b"a " * (5 << 20) + b'"}\n',
    }
    for name, content in files.items():
        if name in words:
            place = tmp_path / ("questions.jsonl" if name in ("LINES", "WRONG", "HUGE") else name)
            place.write_bytes(content)
            words = [str(place) if word == name else word for word in words]
    assert message in command("answer", answering, *words).refusal()


def test_a_fault_further_down_is_named_and_leaves_no_half_file(command, answering, tmp_path):
    file = tmp_path / "questions.jsonl"
    good = '{"question": "lived", "context": "a"}\n'
    file.write_text(good * 39 + json.dumps({"question": "lived " * 9, "context": "a"}) + "\n")
    said = command("answer", answering, "--input", file, "--output", tmp_path / "out.tsv").refusal()
    assert "questions.jsonl, question 40 has 9 tokens and the model reads 8; shorten it" in said
    assert not (tmp_path / "out.tsv").exists()


def test_a_model_for_another_task_is_refused(command, model):
    said = command("answer", model, "who?", "--context", "a").refusal()
    assert "a model for translation, and question answering is wanted" in said
