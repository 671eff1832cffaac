"""Text as people have it: spaces in words, tabs, CRLF, repeats; and every fault with its line."""

from __future__ import annotations

import gzip
import tracemalloc
import warnings

import numpy as np
import pytest

from regard.errors import InputError
from regard.word_embeddings.files import read_vectors

GOOD = [
    b"the 1 2 3",
    b". . . 4 5 6",
    b"at name@domain.com 7 8 9",
    b"1984 -1 -2 -3",
    b"windows 95 0.5 0.25 1e-3",
    b"end 0 0 0",
]
WORDS = ("the", ". . .", "at name@domain.com", "1984", "windows 95", "end")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("header", [b"", b"6 3\n"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b" \n"])
def test_words_may_hold_spaces_and_lines_end_in_any_way(tmp_path, header, end, packed):
    content = header + end.join(GOOD)
    (tmp_path / "a").write_bytes(gzip.compress(content) if packed else content)
    vectors = read_vectors(tmp_path / "a")
    assert vectors.words == WORDS
    np.testing.assert_array_equal(vectors["windows 95"], np.array([0.5, 0.25, 1e-3], dtype=np.float32))
    assert vectors.metadata["format"] == ("word2vec" if header else "glove")


@pytest.mark.parametrize(
    "content",
    [
        b"2 2\na\t1\t2\nb  3   4\n",
        b"a\t1\t2\nb\t3\t4",
        b"\xef\xbb\xbfa 1 2\nb 3 4\n\n\n",
        b"\xef\xbb\xbf2 2\na 1 2\nb 3 4\n",
        b"a +1 2.\nb 3e0 4\n",
    ],
)
def test_tabs_runs_of_spaces_marks_and_empty_lines_at_the_end(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    vectors = read_vectors(tmp_path / "a")
    assert vectors.words == ("a", "b")
    assert vectors.matrix.tolist() == [[1, 2], [3, 4]]


def test_only_line_feeds_end_lines_and_only_ascii_spaces_end_words(tmp_path):
    words = ["a\u2028b", "\x85", "c\xa0d", "e\rf", "\u3000"]
    (tmp_path / "a").write_text("".join(f"{word} 1 2\n" for word in words), encoding="utf-8", newline="")
    assert read_vectors(tmp_path / "a").words == tuple(words)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"bad 1 2 x3", "'x3' is not a number"),
        (b"bad 1 2 1_0", "'1_0' is not a number"),
        (b"bad 1 nan 2", "nan is not a finite float32 number"),
        (b"bad 1 -inf 2", "-inf is not a finite float32 number"),
        (b"bad 1 1e39 2", "1e39 is not a finite float32 number"),
        (b"bad 1 2", "has 2 numbers after its word, and 3 are needed"),
        (b"bad 0.1 0.2 0.3 0.4", "has 4 numbers after its word, and 3 are needed"),
        (b" 1 2 3", "no word"),
        (b"", "the line is empty"),
        ("größe 1 2 3".encode("latin-1"), "not UTF-8; convert the file"),
    ],
)
@pytest.mark.parametrize("header", [False, True])
def test_a_fault_is_named_with_its_line(tmp_path, line, said, header):
    lines = [b"w%d 1 2 3" % number for number in range(30)]
    lines[20] = line
    (tmp_path / "a.txt").write_bytes((b"30 3\n" if header else b"") + b"\n".join(lines))
    with pytest.raises(InputError) as caught:
        read_vectors(tmp_path / "a.txt")
    assert f"a.txt:{22 if header else 21}: " in str(caught.value)
    assert said in str(caught.value)
    assert len(read_vectors(tmp_path / "a.txt", limit=20)) == 20


def test_a_word_that_comes_again_keeps_its_first_vector_and_that_is_said(tmp_path):
    (tmp_path / "a.txt").write_text("6 1\nthe 1\nof 2\nthe 3\nand 4\nof 5\nthe 6\n")
    said: list[str] = []
    vectors = read_vectors(tmp_path / "a.txt", say=said.append)
    assert vectors.words == ("the", "of", "and")
    assert vectors.matrix.tolist() == [[1], [2], [4]]
    (sentence,) = said
    assert sentence.startswith("3 of 6 vectors")
    assert "'the', line 4, after line 2" in sentence
    with pytest.warns(UserWarning, match="3 of 6") as caught:
        read_vectors(tmp_path / "a.txt")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_vectors(tmp_path / "a.txt", limit=2)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_header_that_promises_other_than_follows_is_refused(tmp_path, rows):
    (tmp_path / "a.txt").write_text(f"{rows} 2\na 1.0000001 2\nb 3.0000001 4\n")
    with pytest.raises(InputError, match=f"declares {rows} words, and 2 follow"):
        read_vectors(tmp_path / "a.txt")
    assert len(read_vectors(tmp_path / "a.txt", limit=1)) == 1


@pytest.mark.parametrize(
    "header", [b"1000000000000 300\n", b"1 99999999999\n", b"7 0\n", b"999999999999999999 999999\n"]
)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("row", [b"a 1 2 3\n", b"a \0\0\x80?\0\0\0@"])
def test_nothing_is_made_room_for_on_the_word_of_a_header(tmp_path, header, packed, row):
    (tmp_path / "a").write_bytes(gzip.compress(header + row) if packed else header + row)
    tracemalloc.start()
    try:
        with pytest.raises(InputError):
            read_vectors(tmp_path / "a")
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def test_many_lines_are_read_as_one_after_another(tmp_path):
    draw = np.random.default_rng(0)
    matrix = draw.normal(size=(9000, 20)).astype(np.float32)  # some megabytes, so several blocks
    with (tmp_path / "a").open("w") as file:
        file.writelines(f"w{row} {' '.join(map(str, numbers))}\n" for row, numbers in enumerate(matrix.tolist()))
    vectors = read_vectors(tmp_path / "a")
    assert vectors.words == tuple(f"w{row}" for row in range(9000))
    np.testing.assert_array_equal(vectors.matrix, matrix)
    np.testing.assert_array_equal(read_vectors(tmp_path / "a", limit=7001).matrix, matrix[:7001])
