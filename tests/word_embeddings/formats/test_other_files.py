"""Files that are no word vectors, or were cut, or are damaged."""

from __future__ import annotations

import gzip
import io
import os
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from regard.errors import InputError
from regard.word_embeddings.files import read_vectors, write_vectors
from regard.word_embeddings.store import NgramSubwords, WordVectors

VECTORS = WordVectors(
    words=("the", "of", "größe"),
    matrix=np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32),
    counts=np.array([9, 5, 2]),
    subwords=NgramSubwords(table=np.ones((5, 4), dtype=np.float32)),
)


def archive() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        file.writestr("glove.txt", "a 1 2")
    return held.getvalue()


def array() -> bytes:
    held = io.BytesIO()
    np.save(held, np.eye(2))
    return held.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (archive(), "a zip archive"),
        (array(), "a NumPy array"),
        (save({"a": np.eye(2)}), "a safetensors file"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "a PNG image"),
        (b"\x80\x04\x95\x10", "is a pickle"),
        (b"BZh91AY&SY\x99\x00", "bzip2"),
        ("king 1 2\n".encode("utf-16"), "UTF-16"),
        (b"once upon a time\nthere was a king\n", "'once upon a time' is not a word with its numbers"),
        (b"cat\tdog\t7.5\nking\tqueen\t8\n", r"'cat\\tdog\\t7.5' is not a word with its numbers"),
        (bytes(1000), "a binary file of an unknown kind"),
        (b"\n\n\n", "is not a word"),
    ],
)
def test_something_else_is_said_to_be_so(tmp_path, content, said):
    (tmp_path / "a.bin").write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_vectors(tmp_path / "a.bin")


def test_places_without_vectors(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_vectors(tmp_path / "none")
    with pytest.raises(InputError, match=r"without regard\.json"):
        read_vectors(tmp_path)
    (tmp_path / "regard.json").write_text('{"kind": "model"}')
    with pytest.raises(InputError, match="is not a folder of word vectors"):
        read_vectors(tmp_path)
    with pytest.raises(InputError, match="limit is 0"):
        read_vectors(tmp_path, limit=0)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["word2vec", "word2vec-binary", "fasttext"])
def test_a_file_that_was_cut_anywhere_is_refused(tmp_path, kind, packed):
    write_vectors(VECTORS, tmp_path / "a", kind)
    whole = (tmp_path / "a").read_bytes().rstrip(b"\n")
    for size in range(1, len(whole), 1 if len(whole) < 300 else 7):
        if kind == "word2vec" and whole[size : size + 1] not in (b" ", b"\n"):
            continue  # a number with fewer digits is one
        (tmp_path / "b").write_bytes(gzip.compress(whole[:size], 1) if packed else whole[:size])
        with pytest.raises(InputError):
            read_vectors(tmp_path / "b")


@pytest.mark.parametrize("kind", ["word2vec", "word2vec-binary", "fasttext"])
def test_bytes_after_the_end_are_refused(tmp_path, kind):
    write_vectors(VECTORS, tmp_path / "a", kind)
    with (tmp_path / "a").open("ab") as file:
        file.write(b"more 1 2 3 4\n")
    with pytest.raises(InputError, match=r"continues after|declares 3 words, and 4 follow"):
        read_vectors(tmp_path / "a")


def test_gzip_data_that_was_cut_or_changed_is_refused(tmp_path):
    write_vectors(VECTORS, tmp_path / "a.txt.gz")
    content = (tmp_path / "a.txt.gz").read_bytes()
    (tmp_path / "b").write_bytes(content[:-9])
    with pytest.raises(InputError, match="cut short"):
        read_vectors(tmp_path / "b")
    (tmp_path / "b").write_bytes(content[:-6] + b"xxxxxx")
    with pytest.raises(InputError, match="corrupt"):
        read_vectors(tmp_path / "b")


def test_the_byte_of_a_fault_in_a_binary_is_named(tmp_path):
    row = struct.pack("<2f", 1, 2)
    broken = struct.pack("<2f", 1, float("nan"))
    for record, said in (
        (b"caf\xe9 " + row, r"at byte 15 the word b'caf\\xe9' is not UTF-8"),
        (b"bad " + broken, "at byte 15 the vector of 'bad' has a number that is not finite"),
        (b" " + row, "at byte 15 a word is empty"),
    ):
        (tmp_path / "a").write_bytes(b"2 2\nww " + row + record)
        with pytest.raises(InputError, match=said):
            read_vectors(tmp_path / "a")


def test_a_pipe_is_refused(tmp_path):
    place = tmp_path / "pipe"
    os.mkfifo(place)
    descriptor = os.open(place, os.O_RDWR)
    try:
        os.write(descriptor, b"1 1\na 1\n")
        with pytest.raises(InputError, match="a pipe"):
            read_vectors(place)
    finally:
        os.close(descriptor)


@pytest.fixture(scope="module")
def wholes(tmp_path_factory) -> dict[str, bytes]:
    place = tmp_path_factory.mktemp("whole") / "a"
    found = {}
    for kind in ("word2vec", "glove", "word2vec-binary", "fasttext"):
        write_vectors(VECTORS, place, kind)
        found[kind] = place.read_bytes()
    return found


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["word2vec", "glove", "word2vec-binary", "fasttext"]), st.integers(0, 10**6), st.binary(max_size=9)
)
def test_damage_is_a_sentence_or_other_vectors_but_never_a_traceback(wholes, tmp_path_factory, kind, at, content):
    whole = bytearray(wholes[kind])
    at %= len(whole)
    whole[at : at + len(content)] = content
    place = tmp_path_factory.getbasetemp() / "damaged"
    place.write_bytes(bytes(whole))
    try:
        read_vectors(place, say=lambda sentence: None)["the"]
    except InputError as error:
        assert str(place) in str(error) or "has no vector" in str(error)  # noqa: PT017
