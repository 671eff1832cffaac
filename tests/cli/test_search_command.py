"""`regard search`: passages with file and line, an index that follows the files, and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.models import Bert, BertConfig
from regard.tasks.sentence_embedding import SentenceEncoder
from regard.tasks.sentence_task import SentenceEmbeddingTask
from regard.text import Tokenizer

TEXTS = {
    "a.txt": "the cat sat on the mat " * 4 + "\n\n" + "old roads are green and long " * 4,
    "inner/b.md": "# Dogs\n\n" + "dogs ran on the old road " * 4,
}


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory) -> Path:
    """The folder of a small encoder with random weights; not to be changed."""
    tokenizer = Tokenizer.train(list(TEXTS.values()) * 3, kind="bert", size=90, lowercase=True)
    task = SentenceEmbeddingTask(tokenizer=tokenizer, maximum_length=64)
    sizes = {"width": 32, "heads": 2, "feedforward_width": 24, "layers": 1, "maximum_positions": 64, "init_std": 0.5}
    folder = tmp_path_factory.mktemp("encoder") / "model"
    SentenceEncoder(Bert(BertConfig(**sizes, **task.model_settings())), task).save(folder)  # type: ignore[arg-type]
    return folder


@pytest.fixture
def notes(tmp_path) -> Path:
    folder = tmp_path / "notes"
    for name, text in TEXTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_the_nearest_passages_with_file_and_line(command, encoder_folder, notes):
    said = command("search", encoder_folder, notes, TEXTS["a.txt"].split("\n\n")[1], "--n-best", "2")
    assert said.code == 0, said
    first = said.out.splitlines()[0].split()
    assert float(first[0]) > 0.99
    assert first[1] == "a.txt:3"
    assert said.out.splitlines()[1].strip().startswith("old roads are green")
    assert "3 new passages of 3 in 2 files were read." in said.err
    assert (notes / ".regard-index.safetensors").is_file()


def test_the_next_search_reads_what_changed_alone(command, encoder_folder, notes, tmp_path):
    words = ("search", encoder_folder, notes, "dogs", "cats", "--index", tmp_path / "index", "--json")
    first = command(*words)
    assert not list(notes.glob(".*"))
    again = command(*words)
    assert again.out == first.out
    assert "new passages" not in again.err
    found = json.loads(again.out)["queries"]
    assert [each["query"] for each in found] == ["dogs", "cats"]
    assert {passage["file"] for passage in found[0]["passages"]} == set(TEXTS)
    assert found[0]["passages"][0].keys() == {"cosine", "file", "line", "text"}
    (notes / "c.rst").write_text("mats and cats " * 9)
    assert "1 new passages of 4 in 3 files were read." in command(*words).err


def test_a_table_is_searched_by_its_rows(command, encoder_folder, tmp_path):
    table = tmp_path / "faq.csv"
    table.write_text("id,question\n1,the cat sat on the mat\n2,old roads are green and long\n")
    said = command(
        "search", encoder_folder, table, "old roads are green and long", "--text", "question", "--n-best", "1"
    )
    assert said.code == 0, said
    assert said.out.splitlines()[0].split()[1] == "faq.csv:3"
    assert (tmp_path / ".faq.csv.regard-index.safetensors").is_file()
    wrong = command("search", encoder_folder, table, "x")
    assert wrong.code == 2
    assert "has no column 'text'" in wrong.err


def test_several_queries_are_told_apart(command, encoder_folder, notes):
    said = command("search", encoder_folder, notes, "--n-best", "1", stdin=b"dogs\ncats\n")
    assert said.out.splitlines()[0] == "dogs"
    assert said.out.splitlines()[4] == "cats"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x", "--files", "*.tex"], "has no file that matches *.tex"),
        (["x", "--unit", "lines"], "did you mean 'line'"),
        (["x", "--dtype", "half"], "--dtype is 'half'"),
        ([" "], "is empty; give a query"),
    ],
)
def test_what_is_asked_wrongly_is_one_sentence(command, encoder_folder, notes, words, message):
    said = command("search", encoder_folder, notes, *words)
    assert said.code == 2, said
    assert message in said.err.splitlines()[-1]


def test_places_that_are_none(command, encoder_folder, notes, tmp_path):
    assert "no such folder" in command("search", encoder_folder, tmp_path / "none", "x").refusal()
    assert "no such folder" in command("search", tmp_path / "none", notes, "x").refusal()
    said = command("search", encoder_folder, notes, "x", "--index", notes / "a.txt" / "index")
    assert said.code == 2
    assert "cannot be written" in said.err.splitlines()[-1]
    assert "regard search path/to/minilm docs" in command("search", "--help").out
