"""Reading plain text: units, several files, gzip, lines that cannot be used; and the text that comes with Python."""

from __future__ import annotations

import gzip

import pytest

from regard.data.malformed import MalformedRows
from regard.data.running_text import python_docs, read_texts
from regard.errors import InputError


@pytest.fixture
def file(tmp_path):
    def make(content: str | bytes, name: str = "a.txt"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return make


def test_lines_lose_the_spaces_around_them_and_empty_ones_are_none(file):
    assert list(read_texts(file(" one \n\n \t\ntwo words\r\nthree"))) == ["one", "two words", "three"]


def test_paragraphs_keep_their_lines(file):
    text = "\n\na\n  b\n \nc\n\n\n"
    assert list(read_texts(file(text), unit="paragraph")) == ["a\n  b", "c"]


def test_several_files_follow_one_another_and_no_paragraph_reaches_into_the_next(file):
    paths = [file("a\nb", "1.txt"), file("c\n\nd\n", "2.txt")]
    assert list(read_texts(paths)) == ["a", "b", "c", "d"]
    assert list(read_texts(paths, unit="paragraph")) == ["a\nb", "c", "d"]


def test_gzip_is_told_by_content(file):
    assert list(read_texts(file(gzip.compress("žluť\n".encode()), "a.txt"))) == ["žluť"]


def test_broken_lines_are_left_out_and_counted(file):
    malformed = MalformedRows()
    content = b"good\n" * 30 + b"br\xffken\n" + b"x" * ((1 << 20) + 5) + b"\nend\n"
    assert list(read_texts(file(content), malformed=malformed))[-2:] == ["good", "end"]
    assert malformed.by_reason == {"not UTF-8": 1, "longer than 1 MiB": 1}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda file, tmp: file(""), "is empty"),
        (lambda file, tmp: tmp / "none.txt", "no such file"),
        (lambda file, tmp: file(bytes(range(256)) * 20), "binary"),
        (lambda file, tmp: [], "no file of text"),
    ],
)
def test_files_that_cannot_be_used(file, tmp_path, make, message):
    with pytest.raises(InputError, match=message):
        list(read_texts(make(file, tmp_path)))


def test_an_unknown_unit_names_the_nearest(file):
    with pytest.raises(InputError, match="did you mean 'line'"):
        read_texts(file("a"), unit="lines")


def test_python_docs_are_always_there_and_no_topic_is_in_two_splits():
    splits = {split: list(python_docs(split)) for split in ("train", "validation", "test")}
    assert all(splits.values())
    together = [text for texts in splits.values() for text in texts]
    assert len(set(together)) == len(together)
    sizes = {split: sum(map(len, texts)) for split, texts in splits.items()}
    assert sizes["train"] > 200_000
    assert all(0.01 < sizes[split] / sum(sizes.values()) < 0.2 for split in ("validation", "test"))
    assert list(python_docs("test")) == splits["test"]
    with pytest.raises(InputError, match="did you mean 'train'"):
        next(python_docs("trian"))
