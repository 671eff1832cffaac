"""Passages of text files, and an index of them that follows the files."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save

from regard.embeddings.search import (
    LONGEST,
    PATTERNS,
    ChangedFile,
    Index,
    described,
    files_of,
    passages_of,
    read_document,
)
from regard.errors import InputError

ORIGIN = {"model": "letters"}


class Letters:
    """Gives a text the counts of its letters, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: list[str]) -> np.ndarray:
        self.asked += texts
        return np.array(
            [[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], np.float32
        )


@pytest.fixture
def folder(tmp_path) -> Path:
    place = tmp_path / "notes"
    (place / "inner").mkdir(parents=True)
    (place / "a.txt").write_text("zebras " * 12 + "\n\n" + "apples and pears in a basket " * 3 + "\n")
    (place / "inner" / "b.md").write_text("# Quizzes\n\n" + "quick quizzes about queens " * 4)
    (place / ".hidden.txt").write_text("hidden " * 20)
    (place / "c.py").write_text("code " * 20)
    return place


def searched(folder: Path, *queries: str, count: int = 1, embed: Letters | None = None) -> list:
    embed = embed or Letters()
    index = Index(folder, dict(ORIGIN))
    index.update(embed, PATTERNS)
    return index.search(embed(list(queries)), count)


# --- passages ---


@settings(max_examples=80, deadline=None)
@given(st.text(alphabet="ab1-. \n\r\té", max_size=120), st.integers(1, 40))
def test_passages_lose_no_word_and_know_their_lines(text, times):
    text = text * times
    covered = [False] * len(text)
    last = 0
    for passage in passages_of(text):
        assert last <= passage.start < passage.end <= len(text)
        assert passage.end - passage.start <= LONGEST
        assert passage.line == 1 + text[: passage.start].replace("\r\n", "\n").replace("\r", "\n").count("\n")
        assert any(map(str.isalnum, text[passage.start : passage.end]))
        covered[passage.start : passage.end] = [True] * (passage.end - passage.start)
        last = passage.end
    assert all(there or not letter.isalnum() for there, letter in zip(covered, text, strict=True))


def test_a_line_without_end_is_cut_between_words():
    text = "word " * 2000
    found = list(passages_of(text))
    assert len(found) > 3
    assert all(text[passage.start : passage.end].strip().startswith("word") for passage in found)
    assert len(list(passages_of("x" * 10_000_000))) == 6250


def test_a_short_paragraph_is_a_passage_and_a_heading_goes_with_the_next():
    text = "Door code: 4711\n\n# Food\n\nBread.\n\nSoups\n=====\n\nLeek.\n\nWe met in Lisbon."
    found = [text[passage.start : passage.end] for passage in passages_of(text)]
    assert found == ["Door code: 4711", "# Food\n\nBread.", "Soups\n=====\n\nLeek.", "We met in Lisbon."]


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("a.csv", 'id,text\n1,"zebras, two\nlines"\n2,apples\n', [2, 4]),
        ("b.csv", "id;text\n1;zebras, two lines\n2;apples\n", [2, 3]),
        ("c.tsv", "text\tid\nzebras\t1\n\napples\t2\n", [2, 4]),
        ("d.jsonl", '{"text": "zebras"}\n\n{"id": 2, "text": "apples"}\n', [1, 3]),
        ("e.jsonl", '"zebras"\n"apples"\n', [1, 2]),
    ],
)
def test_rows_of_tables_are_passages(tmp_path, name, content, lines):
    path = tmp_path / name
    path.write_text(content)
    document = read_document(path)
    assert document is not None
    assert [passage.line for passage in document.passages] == lines
    assert [document.text_of(passage)[:6] for passage in document.passages] == ["zebras", "apples"]
    (found,) = searched(path, "ppl")[0]
    assert (found.file, found.line, found.text) == (name, lines[1], "apples")


def test_lines_are_passages_where_asked(tmp_path):
    path = tmp_path / "facts.txt"
    path.write_text("the door code\n\nthe wifi\n---\n")
    document = read_document(path, "line")
    assert document is not None
    assert [(each.line, document.text_of(each)) for each in document.passages] == [
        (1, "the door code"),
        (3, "the wifi"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "id,txt\n1,x\n", "line 1: has no column 'text'; .* did you mean 'txt'"),
        ("a.csv", "id,text\n1,x,y\n", "line 2: has 3 columns, and the header has 2"),
        ("a.jsonl", '{"text": "x"}\n{"question": "y"}', "line 2: has no column 'text'"),
        ("a.jsonl", '{"text": 1}', "line 1: 'text' is not a text"),
        ("a.jsonl", "[" * 100_000, "line 1: is not JSON"),
        ("a.tsv", "", "has no column 'text'"),
    ],
)
def test_tables_that_cannot_be_read_say_where(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_document(tmp_path / name)


# --- the index ---


def test_an_edited_file_never_answers_with_its_old_cosines(folder):
    embed = Letters()
    index = Index(folder, dict(ORIGIN))
    index.update(embed, PATTERNS)
    (folder / "a.txt").write_text("queens " * 12 + "\n\n" + "apples and pears in a basket " * 3 + "\n")
    with pytest.raises(ChangedFile, match="has changed since it was read"):
        index.search(embed(["zebras"]), 1)
    index.update(embed, PATTERNS)
    assert index.search(embed(["queens"]), 1)[0][0].text.startswith("queens")


def test_an_index_of_other_passages_is_made_again(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("text,other\nzebras,apples\n")
    index = Index.load(tmp_path / "index", path, ORIGIN)
    index.update(Letters(), PATTERNS)
    index.save(tmp_path / "index")
    assert Index.load(tmp_path / "index", path, ORIGIN).update(Letters(), PATTERNS).embedded == 0
    again = Index.load(tmp_path / "index", path, ORIGIN, column="other")
    assert again.update(Letters(), PATTERNS).embedded == 1
    assert again.search(Letters()(["a"]), 1)[0][0].text == "apples"


def test_passages_are_found_with_file_and_line(folder):
    (zebra,), (queen,) = searched(folder, "zzz", "queen quiz")
    assert (zebra.file, zebra.line) == ("a.txt", 1)
    assert zebra.text.startswith("zebras")
    assert (queen.file, queen.line) == ("inner/b.md", 1)
    assert queen.text.startswith("# Quizzes\n\nquick"), "a heading goes with what follows"
    apple = searched(folder, "apples pears basket")[0][0]
    assert (apple.file, apple.line) == ("a.txt", 3)
    every = searched(folder, "a", count=99)[0]
    assert len(every) == 3
    assert [found.cosine for found in every] == sorted((found.cosine for found in every), reverse=True)


def test_only_what_is_new_is_read_again(folder, tmp_path):
    embed, place = Letters(), tmp_path / "index"
    index = Index.load(place, folder, ORIGIN)
    first = index.update(embed, PATTERNS)
    assert (first.files, first.passages, first.embedded) == (2, 3, 3)
    index.save(place)
    embed.asked.clear()
    again = Index.load(place, folder, ORIGIN)
    assert again.update(embed, PATTERNS).embedded == 0
    assert embed.asked == []
    assert np.array_equal(again.vectors, index.vectors)
    # A passage goes, one comes, one moves to another line.
    (folder / "a.txt").write_text("\n\n" + "apples and pears in a basket " * 3 + "\n\n" + "yaks " * 20)
    os.utime(folder / "a.txt", ns=(1, 1))
    changed = again.update(embed, PATTERNS)
    assert (changed.passages, changed.embedded) == (3, 1)
    assert embed.asked[0].startswith("yaks")
    assert again.search(Letters()(["apples"]), 1)[0][0].line == 3
    (folder / "inner" / "b.md").unlink()
    assert again.update(embed, PATTERNS).passages == 2
    fresh = Index(folder, dict(ORIGIN))
    fresh.update(Letters(), PATTERNS)
    assert fresh.files == again.files
    assert np.array_equal(fresh.vectors, again.vectors)


def test_a_stop_keeps_what_was_done(folder, tmp_path):
    for number in range(6):
        (folder / f"d{number}.txt").write_text(f"file {'abcdef'[number] * 70}")
    calls = []

    def stopping(texts: list[str]) -> np.ndarray:
        calls.append(len(texts))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return Letters()(texts)

    from regard.embeddings import search as module

    index = Index(folder, dict(ORIGIN))
    together = module.TOGETHER
    module.TOGETHER = 3
    try:
        with pytest.raises(KeyboardInterrupt):
            index.update(stopping, PATTERNS)
    finally:
        module.TOGETHER = together
    assert len(index.vectors) == 3
    index.save(tmp_path / "index")
    embed = Letters()
    again = Index.load(tmp_path / "index", folder, ORIGIN)
    assert again.update(embed, PATTERNS).passages == 9
    assert len(embed.asked) == 6
    fresh = Index(folder, dict(ORIGIN))
    fresh.update(Letters(), PATTERNS)
    assert np.array_equal(fresh.vectors, again.vectors)


def test_another_model_begins_anew(folder, tmp_path):
    index = Index(folder, dict(ORIGIN))
    index.update(Letters(), PATTERNS)
    index.save(tmp_path / "index")
    assert Index.load(tmp_path / "index", folder, {"model": "other"}).files == {}


def test_files_that_are_no_text_are_named(folder):
    (folder / "z.txt").write_bytes(b"\xff\xfe\x00a")
    (folder / "y.txt").write_bytes("café".encode("latin-1") * 30)
    index = Index(folder, dict(ORIGIN))
    update = index.update(Letters(), PATTERNS)
    assert update.left_out == ("y.txt", "z.txt")
    assert "2 files are not UTF-8 text" in " ".join(described(update))


def test_what_cannot_be_searched_is_said(folder, tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        files_of(tmp_path / "none")
    with pytest.raises(InputError, match=r"has no file that matches \*\.rst"):
        files_of(folder, ["*.rst"])
    assert [path.name for path in files_of(folder, ["*.py"])] == ["c.py"]
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "a.txt").write_text("---\n")
    with pytest.raises(InputError, match="no passage to search"):
        searched(empty, "a")
    (tmp_path / "index").write_text("not an index")
    with pytest.raises(InputError, match="is not a readable index"):
        Index.load(tmp_path / "index", folder, ORIGIN)
    index = Index(folder, dict(ORIGIN))
    index.update(Letters(), PATTERNS)
    (folder / "a.txt").write_bytes(b"\0")
    with pytest.raises(InputError, match="has changed"):
        index.search(Letters()(["zebras"]), 1)


def test_an_index_file_holds_no_pickle_and_no_text(folder, tmp_path):
    index = Index(folder, dict(ORIGIN))
    index.update(Letters(), PATTERNS)
    index.save(tmp_path / "index")
    content = (tmp_path / "index").read_bytes()
    assert b"zebras" not in content
    size = int.from_bytes(content[:8], "little")
    assert "regard_index" in json.loads(content[8 : 8 + size])["__metadata__"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda vectors, files: vectors[:-1], "are float32 .* for 3 passages"),
        (lambda vectors, files: vectors[None], "are float32 .* for 3 passages"),
        (lambda vectors, files: vectors.astype(np.float64), "are float64 .* for 3 passages"),
        (lambda vectors, files: np.full_like(vectors, np.nan), "not finite"),
        (
            lambda vectors, files: files["a.txt"]["digests"].pop() and vectors,
            "different numbers of passages and digests",
        ),
        (lambda vectors, files: files.clear() or vectors, "for 0 passages"),
    ],
)
def test_an_index_that_does_not_fit_itself_is_refused(folder, tmp_path, damage, said):
    index, place = Index(folder, dict(ORIGIN)), tmp_path / "index"
    index.update(Letters(), PATTERNS)
    index.save(place)
    with safe_open(place, framework="np") as file:
        about, vectors = file.metadata(), file.get_tensor("vectors")
    files = json.loads(about["files"])
    changed = damage(vectors, files)
    place.write_bytes(save({"vectors": np.ascontiguousarray(changed)}, metadata={**about, "files": json.dumps(files)}))
    with pytest.raises(InputError, match=f"is not a readable index .*{said}"):
        Index.load(place, folder, ORIGIN)


def test_a_file_whose_places_are_damaged_is_read_again(folder):
    """Its size and time say that nothing changed, and its text is not what the digest says."""
    index, embed = Index(folder, dict(ORIGIN)), Letters()
    index.update(embed, PATTERNS)
    file = index.files["a.txt"]
    index.files["a.txt"] = replace(file, passages=tuple(replace(each, start=each.start + 1) for each in file.passages))
    with pytest.raises(ChangedFile):
        index.search(embed(["zebras"]), 1)
    asked = len(embed.asked)
    index.update(embed, PATTERNS)
    assert len(embed.asked) == asked  # the vectors are still right
    assert index.search(embed(["zebras"]), 1)[0][0].file == "a.txt"
