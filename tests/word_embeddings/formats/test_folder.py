"""regard's own folder: mapped, whole or not there, and checked before it is believed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regard.errors import InputError
from regard.word_embeddings.files import read_vectors, write_vectors
from regard.word_embeddings.store import NgramSubwords, WordVectors

VECTORS = WordVectors(
    words=("the", "New York", ""),
    matrix=np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32),
    counts=np.array([9, 5, 0]),
    subwords=NgramSubwords(table=np.ones((5, 4), dtype=np.float32), minimum=2, maximum=5),
    metadata={"trained": {"epochs": 5}, "corpus": "größe"},
)


@pytest.fixture
def folder(tmp_path) -> Path:
    write_vectors(VECTORS, tmp_path / "own")
    return tmp_path / "own"


def test_everything_that_is_known_is_kept_and_nothing_is_copied(folder):
    read = read_vectors(folder)
    assert read.words == VECTORS.words
    assert isinstance(read.matrix, np.memmap)
    np.testing.assert_array_equal(read.counts, VECTORS.counts)
    assert isinstance(read.subwords, NgramSubwords)
    assert (read.subwords.minimum, read.subwords.maximum) == (2, 5)
    assert read.metadata == {**VECTORS.metadata, "format": "folder", "source": str(folder)}
    few = read_vectors(folder, limit=2)
    assert len(few) == len(few.counts if few.counts is not None else ()) == 2


def test_a_folder_of_vectors_is_replaced_even_by_its_own_but_no_other_is(folder):
    write_vectors(read_vectors(folder).first(2), folder)
    assert read_vectors(folder).words == VECTORS.words[:2]
    write_vectors(replace(VECTORS, subwords=None, counts=None), folder)
    assert sorted(each.name for each in folder.iterdir()) == ["regard.json", "vectors.npy", "words.txt"]
    (folder / "regard.json").unlink()
    with pytest.raises(InputError, match="has other content"):
        write_vectors(VECTORS, folder)
    assert (folder / "words.txt").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"metadata": {"a": object()}}, "not JSON"),
        ({"words": ("a", "b\nc", "d")}, r"'b\\nc' has a line break"),
        ({"words": ("a", "\ud800", "d")}, "unpaired surrogate"),
        ({"subwords": object()}, "subwords of the type object"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_leaves_nothing(tmp_path, changes, said):
    with pytest.raises(InputError, match=said):
        write_vectors(replace(VECTORS, **changes), tmp_path / "own")
    assert list(tmp_path.iterdir()) == []


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def reshaped(path: Path, shape: bytes) -> None:
    """The header says another shape; its length stays."""
    content = path.read_bytes()
    old = re.search(rb"\(3, 4\)", content)
    assert old is not None
    room = content[old.start() :].index(b"\n") + old.start()
    new = content[: old.start()] + shape + b", }"
    path.write_bytes(new.ljust(room) + content[room:])


def pickled(path: Path) -> None:
    np.save(path, np.array([{"a": 1}] * 3, dtype=object), allow_pickle=True)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda own: cut(own / "words.txt", -2), "the last line has no line break"),
        (lambda own: (own / "words.txt").write_text("a\nb\n"), "2 words and vectors.npy 3 vectors"),
        (lambda own: (own / "words.txt").write_bytes(b"a\nb\xff\nc\n"), "words.txt:2: is not UTF-8"),
        (lambda own: (own / "words.txt").write_text("a\nb\na\n"), "'a' is there twice"),
        (lambda own: (own / "words.txt").unlink(), "words.txt: no such file"),
        (lambda own: cut(own / "vectors.npy", -4), "is not a readable array"),
        (lambda own: cut(own / "vectors.npy", 20), "is not a readable array"),
        (lambda own: (own / "vectors.npy").write_bytes(b""), "is not a readable array"),
        (lambda own: reshaped(own / "vectors.npy", b"(((((("), "is not a readable array"),
        (lambda own: reshaped(own / "vectors.npy", b"(True, 4)"), "is not a readable array"),
        (lambda own: reshaped(own / "vectors.npy", b"(10**9, 4)"), "is not a readable array"),
        (lambda own: pickled(own / "vectors.npy"), "is not a readable array"),
        (lambda own: np.save(own / "vectors.npy", np.eye(3)), "is not an array of float32 with 2 dimensions"),
        (lambda own: np.save(own / "counts.npy", np.ones(2, dtype=np.int64)), "counts of the shape"),
        (
            lambda own: np.save(own / "subwords.npy", np.ones((5, 3), dtype=np.float32)),
            "rows of width 3, and the vectors have width 4",
        ),
        (lambda own: (own / "subwords.npy").unlink(), "subwords.npy: no such file"),
        (lambda own: (own / "regard.json").write_text("{"), "regard.json: is not JSON"),
        (lambda own: (own / "regard.json").write_text("[]"), "holds a list, not a JSON object"),
    ],
)
def test_a_damaged_folder_is_refused_with_the_file(folder, damage, said):
    damage(folder)
    with pytest.raises(InputError, match=said):
        read_vectors(folder)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("format_version", 2, "format_version 2 is not known; update regard"),
        ("subwords", {"minimum": 3}, "need a minimum and a maximum"),
        ("subwords", {"minimum": 3, "maximum": 1}, "n-grams of 3 to 1 characters"),
        ("metadata", [1], "metadata"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(folder, name, value, said):
    place = folder / "regard.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {name: value}))
    with pytest.raises(InputError, match=said):
        read_vectors(folder)
