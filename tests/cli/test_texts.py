from __future__ import annotations

import gzip
import io
import sys

import pytest

from regard.cli.inputs import read_texts
from regard.errors import InputError


def standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_arguments_are_taken_as_they_are():
    texts = list(read_texts(["one\ntext", ""], None))
    assert [(text.content, text.where) for text in texts] == [("one\ntext", "text 1"), ("", "text 2")]


CONTENT = b"\xef\xbb\xbfeins\r\n\nz\xc3\xb6lf\x0bx\nlast"
LINES = ["eins", "", "zölf\x0bx", "last"]


def test_lines_of_standard_input(monkeypatch):
    standard_input(monkeypatch, CONTENT)
    texts = list(read_texts([], None))
    assert [text.content for text in texts] == LINES
    assert texts[2].where == "standard input, line 3"


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_lines_of_a_file_are_the_same(tmp_path, pack):
    file = tmp_path / "in.txt"
    file.write_bytes(pack(CONTENT))
    texts = list(read_texts([], file))
    assert [text.content for text in texts] == LINES
    assert texts[2].where == f"{file}, line 3"


def test_nothing_on_standard_input_is_no_text(monkeypatch):
    standard_input(monkeypatch, b"")
    assert list(read_texts([], None)) == []


def test_lines_come_before_the_last_is_there(monkeypatch):
    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer) -> int:
            buffer[:4] = b"abc\n"
            return 4

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Endless())))
    texts = read_texts([], None)
    assert [next(texts).content for _ in range(3)] == ["abc"] * 3


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"abc\ncaf\xe9\n", "standard input, line 2: not UTF-8"),
        ("abc\n".encode("utf-16"), "standard input, line 1"),
        (bytes(range(256)), "standard input, line"),
        (b"a" * (2 << 20), "standard input, line 1: line too long"),
    ],
)
def test_what_is_no_text_is_refused_by_line(monkeypatch, content, sentence):
    standard_input(monkeypatch, content)
    with pytest.raises(InputError, match=sentence):
        list(read_texts([], None))


def test_a_file_is_judged_at_once(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_texts([], tmp_path / "none.txt")


def test_texts_come_from_one_place(tmp_path):
    with pytest.raises(InputError, match="give one of them"):
        read_texts(["abc"], tmp_path)
