"""Documents of sentences: where a document ends, what WikiText leaves behind, and that no text fills the memory."""

from __future__ import annotations

import gzip
import itertools

import pytest

from regard.data import running_text
from regard.data.malformed import MalformedRows
from regard.data.running_text import cleaned, heading_level, read_documents, sentences_of
from regard.errors import InputError

WIKITEXT = """
 = Robert Boulter =

 Robert Boulter is an actor . He was born in 1970 , in <unk> .
 He had a well @-@ known role .

 = = Career = =

 In 2000 ( 1 @,@ 500 days ) he won .
 Key : A = Goals
 = Points ; B =
 more . Yes .

 = Du Fu =

 Du Fu wrote .
"""


@pytest.fixture
def file(tmp_path):
    def make(content: str, name: str = "a.txt"):
        path = tmp_path / name
        path.write_text(content)
        return path

    return make


def test_documents_between_blank_lines_with_sentences_over_line_ends(file):
    text = "One is. Two\nis too.\n\n\nThree.\nFour.\n"
    assert list(read_documents(file(text))) == [["One is.", "Two is too."], ["Three.", "Four."]]


def test_the_authors_own_format_has_a_sentence_in_each_line(file):
    text = "one. Still one\n two \n\nthree\n"
    assert list(read_documents(file(text), sentences="line")) == [["one. Still one", "two"], ["three"]]


def test_a_document_in_each_line(file):
    text = "One. Two.\n\nThree.\n"
    assert list(read_documents(file(text), documents="line")) == [["One.", "Two."], ["Three."]]


def test_wikitext_by_its_titles(file):
    found = list(read_documents(file(WIKITEXT), documents="heading", cleaning="wikitext"))
    assert found == [
        [
            "Robert Boulter is an actor.",
            "He was born in 1970, in [UNK].",
            "He had a well-known role.",
            "In 2000 (1,500 days) he won.",
            "Key: A = Goals",
            "= Points; B =",
            "more.",
            "Yes.",
        ],
        ["Du Fu wrote."],
    ]


def test_headings_and_what_only_looks_like_one():
    assert [heading_level(line) for line in (" = A = ", " = = A b = = ", " = a = b = ", "= A =", " A = B ")] == [
        1,
        2,
        1,
        1,
        0,
    ]
    assert heading_level(" = = A = ") == heading_level("==") == heading_level("") == 0


def test_cleaning_leaves_other_text_alone():
    text = 'He said "no" (twice), didn\'t he? It costs $5: a well-known 50% of 3.5.'
    assert cleaned(text) == text


def test_several_files_and_gzip(file, tmp_path):
    packed = tmp_path / "b.gz"
    packed.write_bytes(gzip.compress(b"Two."))
    assert list(read_documents([file("One."), packed])) == [["One."], ["Two."]]


def test_lines_that_cannot_be_read_are_counted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good.\n" * 30 + b"br\xffken\n\n" + b"x" * ((1 << 20) + 5) + b"\nEnd.\n")
    malformed = MalformedRows()
    assert list(read_documents(path, malformed=malformed))[-1] == ["End."]
    assert malformed.by_reason == {"not UTF-8": 1, "longer than 1 MiB": 1}


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        list(read_documents(tmp_path / "none"))
    with pytest.raises(InputError, match="no file of text"):
        read_documents([])


@pytest.mark.parametrize("unit", ["split", "line"])
def test_a_document_without_end_is_read_in_parts(monkeypatch, unit):
    monkeypatch.setattr(running_text, "LONGEST_DOCUMENT", 1000)
    lines = ("This is a line of text." for _ in itertools.count())
    monkeypatch.setattr(running_text, "decoded_lines", lambda paths, malformed: lines)
    documents = read_documents("anything", sentences=unit)
    for document in itertools.islice(documents, 3):
        assert 900 <= sum(map(len, document)) <= 1200


def test_a_text_in_memory():
    assert sentences_of("Title\n\nOne\nis. Two.\n\n") == ["Title", "One is.", "Two."]
