"""`regard vectors evaluate`: several files of vectors, their sets, and what is said of bad ones."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.cli.vectors.evaluation import evaluate
from regard.errors import InputError
from regard.word_embeddings.evaluation.categories import NOUNS


@pytest.fixture
def folder(tmp_path):
    draw = np.random.default_rng(0)
    for name, words in (("one", NOUNS), ("two", NOUNS[::2])):
        rows = draw.normal(size=(len(words), 5))
        lines = (f"{word} {' '.join(f'{value:.4f}' for value in row)}\n" for word, row in zip(words, rows, strict=True))
        (tmp_path / f"{name}.txt").write_text(f"{len(words)} 5\n" + "".join(lines))
    sets = tmp_path / "sets"
    sets.mkdir()
    (sets / "pairs.txt").write_text("dog cat 9\ncar bus 8\ndog bus 1\nbroken line\ncat car 2\nking child 3\n")
    return tmp_path


def test_one_json_object_and_nothing_else_on_stdout(folder, capsys):
    evaluate([folder / "one.txt", folder / "two.txt"], similarity=[folder / "sets"], common=True, as_json=True)
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["common"]
    assert len({each["name"] for each in found["vectors"]}) == 2
    assert [each["words"] for each in found["vectors"]] == [len(NOUNS[::2])] * 2
    assert [each["similarity"][0]["pairs"] for each in found["vectors"]] == [5, 5]
    assert "1 malformed row" in err


def test_a_table_has_the_vectors_side_by_side(folder, capsys):
    evaluate([folder / "one.txt", folder / "two.txt"], similarity=[folder / "sets" / "pairs.txt"])
    lines = capsys.readouterr().out.splitlines()
    assert "one" in lines[0]
    assert "two" in lines[0]
    assert any(line.startswith("pairs, Spearman") and line.rstrip().endswith("/5") for line in lines)


def test_two_files_of_one_name_are_told_apart(folder, capsys):
    (folder / "sets" / "one.txt").write_text((folder / "two.txt").read_text())
    evaluate([folder / "one.txt", folder / "sets" / "one.txt"], as_json=True)
    names = [each["name"] for each in json.loads(capsys.readouterr().out)["vectors"]]
    assert len(set(names)) == 2


def test_settings_are_refused_before_vectors_are_read(folder):
    with pytest.raises(InputError, match="did you mean 'exact'"):
        evaluate([folder / "missing.txt"], case="exakt")
    with pytest.raises(InputError, match=r"missing\.txt"):
        evaluate([folder / "missing.txt"])
