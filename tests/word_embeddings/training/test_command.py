"""`regard vectors train`: from files to vectors on the disk, and what is refused before the training."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest

from regard.cli.console import Interruption
from regard.cli.vectors import training as module
from regard.cli.vectors.training import train
from regard.errors import InputError
from regard.word_embeddings.files import read_vectors
from regard.word_embeddings.training import sentences, settings_of, train_vectors


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("The cat sat on the mat. The dog sat on the log.\n\nA cat, a dog!\n" * 40)
    return path


def test_vectors_are_written_with_what_is_known_of_them(text, tmp_path, capsys):
    train(
        texts=[str(text)], output=tmp_path / "out", method="fasttext", width=8, ngrams="3-4", buckets=100, as_json=True
    )
    said = json.loads(capsys.readouterr().out)
    assert (said["words"], said["dim"], said["method"]) == (8, 8, "fasttext")
    assert said["settings"]["maximum_ngram"] == 4
    assert said["words_per_second"] > 0
    read = read_vectors(tmp_path / "out")
    assert read["cats"].shape == (8,)
    assert read.metadata["settings"]["buckets"] == 100
    again = train_vectors(
        sentences(text), settings_of("fasttext", width=8, minimum_ngram=3, maximum_ngram=4, buckets=100)
    )
    np.testing.assert_array_equal(read.matrix, again.matrix)


def test_a_file_by_its_ending(text, tmp_path, capsys):
    train(texts=[str(text)], output=tmp_path / "out.txt", method="glove", width=4, largest_count=10.0, epochs=2)
    assert (tmp_path / "out.txt").read_text().startswith("8 4\nthe ")
    out = capsys.readouterr().out
    assert "640 words in 120 sentences" in out
    assert "counts" in out


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"method": "glov"}, "there is no method 'glov'; did you mean 'glove'"),
        ({"method": "glove", "negative": 5}, "glove has no setting negative"),
        ({"method": "fasttext", "ngrams": "3to6"}, "--ngrams is '3to6'; give two lengths, such as 3-6"),
        ({"tokens": "letters"}, "tokenisation is 'letters'"),
        ({"format": "word"}, "there is no kind 'word'"),
        ({"width": 0}, "width is 0"),
        ({"minimum_count": 1000}, "none of the 640 words occurs 1,000 times"),
    ],
)
def test_what_makes_no_sense_is_refused(text, tmp_path, given, says):
    with pytest.raises(InputError, match=says):
        train(texts=[str(text)], output=tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_is_refused_before_the_training(text, tmp_path):
    with pytest.raises(InputError, match="no folder that you may write to"):
        train(texts=[str(text)], output=text / "sub" / "out")
    with pytest.raises(InputError, match="no such file"):
        train(texts=[str(tmp_path / "b.txt")], output=tmp_path / "out")


def test_interrupted_it_leaves_nothing_half_written(text, tmp_path, monkeypatch):
    def interrupt(done, total, stage):
        if stage.startswith("epoch 2"):
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "progress_bar", lambda unit: contextlib.nullcontext(interrupt))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(Interruption, match="nothing was written"):
        train(texts=[str(text)], output=tmp_path / "out", method="glove", scratch=tmp_path)
    assert sorted(tmp_path.iterdir()) == before


def test_lines_that_are_no_text_are_told(tmp_path, capsys):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one two three\n" * 50 + b"\xff\xfe broken\n")
    train(texts=[str(path)], output=tmp_path / "out", method="glove", epochs=1, tokens="whitespace")
    assert "1 malformed row was left out" in capsys.readouterr().err
