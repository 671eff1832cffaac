from __future__ import annotations

import gzip
import json

import pytest

import regard
from regard.claims.own_data import Files, OwnData, files_of, on_own_data
from regard.data.pairs import read_pairs
from regard.errors import InputError

OWN = OwnData(says="any", languages=("en", "de"), renamed={"data.sequences.longest": "data.maximum_tokens"})


def read(place):
    return [(pair.source, pair.target) for pair in read_pairs(place)]


def test_a_folder_of_parallel_files_is_taken_as_it_is(tmp_path):
    for name in ("train", "val", "test_2016", "test_2017"):
        for side in ("de", "en", "fr"):
            with gzip.open(tmp_path / f"{name}.{side}.gz", "wt") as file:
                file.write(f"{name} {side}\n")
    found = files_of(str(tmp_path), OWN, tmp_path / "cut")
    assert read(found.train) == [("train en", "train de")]
    assert read(found.validation) == [("val en", "val de")]
    assert read(found.test) == [("test_2016 en", "test_2016 de")]
    back = files_of(str(tmp_path), OwnData(says="", languages=("de", "fr")), tmp_path / "cut")
    assert read(back.test) == [("test_2016 de", "test_2016 fr")]
    assert not (tmp_path / "cut").exists()


def test_a_folder_of_tables(tmp_path):
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.tsv").write_text(f"{name}\tx\n")
    (tmp_path / "training-notes.txt").write_text("no data")
    found = files_of(str(tmp_path), OWN, tmp_path / "cut")
    assert (read(found.validation), found.cut) == ([("dev", "x")], False)


def test_one_file_is_cut_so_that_no_source_is_in_two(tmp_path, words):
    path = tmp_path / "mine.csv"
    twice = [*words, *words[:50]]
    path.write_text("q,a\n" + "".join(f'"{source}","{target}"\n' for source, target in twice))
    reading = {"source": "q", "target": "a"}
    found = files_of(str(path), OWN, tmp_path / "cut", reading)
    splits = [read(place) for place in (found.train, found.validation, found.test)]
    assert sorted(pair for split in splits for pair in split) == sorted(twice)
    assert len({source for split in splits for source in {pair[0] for pair in split}}) == sum(
        len({pair[0] for pair in split}) for split in splits
    )
    assert all(len(split) >= 10 for split in splits)
    assert files_of(str(path), OWN, tmp_path / "cut", reading) == found
    # A folder with nothing but training pairs is cut likewise.
    (tmp_path / "folder").mkdir()
    path.rename(tmp_path / "folder" / "train.csv")
    again = files_of(str(tmp_path / "folder"), OWN, tmp_path / "cut", reading)
    assert [read(again.train), read(again.test)] == [splits[0], splits[2]]


def test_two_parallel_files_are_cut(tmp_path, words):
    for side, column in (("en", 0), ("de", 1)):
        (tmp_path / f"my.{side}").write_text("".join(f"{pair[column]}\n" for pair in words))
    found = files_of([str(tmp_path / "my.en"), str(tmp_path / "my.de")], OWN, tmp_path / "cut")
    assert sorted(read(found.train) + read(found.validation) + read(found.test)) == sorted(words)


def test_what_is_held_out_is_not_more_than_it_takes(tmp_path, monkeypatch, words):
    monkeypatch.setattr("regard.claims.own_data.MOST_HELD_OUT", 12)
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps({"source": one, "target": two}) + "\n" for one, two in words))
    found = files_of(str(path), OWN, tmp_path / "cut")
    assert (len(read(found.validation)), len(read(found.test))) == (12, 12)


@pytest.mark.parametrize("path", [3, ["a"], ["a", "b", "c"], None])
def test_what_is_no_path(path, tmp_path):
    with pytest.raises(regard.InputError, match=r"data\.path is .*; give a folder, a file"):
        files_of(path, OWN, tmp_path / "cut")


def test_too_little_or_nothing_is_one_sentence_and_leaves_nothing(tmp_path):
    (tmp_path / "few.tsv").write_text("a\tb\n" * 50)
    with pytest.raises(regard.InputError, match="50 pairs are too few"):
        files_of(str(tmp_path / "few.tsv"), OWN, tmp_path / "cut")
    assert list((tmp_path / "cut").iterdir()) == []
    with pytest.raises(regard.InputError, match="no such file"):
        files_of(str(tmp_path / "fwe.tsv"), OWN, tmp_path / "cut")
    (tmp_path / "empty").mkdir()
    with pytest.raises(regard.InputError, match="has no training pairs"):
        files_of(str(tmp_path / "empty"), OWN, tmp_path / "cut")


def test_a_comparison_on_own_data_keeps_what_it_compares(tmp_path, words, small):
    path = tmp_path / "mine.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in words))
    files = files_of(str(path), OWN, tmp_path / "cut")
    sections = {
        "recipe": small(),
        "arms": {"short": {"data.sequences.longest": 3, "model.width": 4}, "long": {"data.sequences.longest": 9}},
        "measures": [
            "loss",
            {"name": "x", "kind": "decoded", "metric": "bleu", "split": "test", "bins": [5], "size": 9},
        ],
    }
    own = OwnData(says="", settings={"tokenizer.size": 30}, renamed=OWN.renamed)
    found = on_own_data(sections, own, files, {"source": 0})
    assert found["arms"] == {"short": {"data.maximum_tokens": 3, "model.width": 4}, "long": {"data.maximum_tokens": 9}}
    assert found["recipe"]["data"] == {"train": files.train, "validation": files.validation}
    assert found["recipe"]["tokenizer"] == {"kind": "word", "size": 30}
    judged = found["measures"][1]
    assert judged["data"] == {"validation": files.test}
    assert (judged["split"], list(judged["bins"]), judged["size"]) == ("validation", [5], 9)
    assert sections["recipe"]["data"]["sequences"]["symbols"] == 5


def test_texts_of_a_folder_and_of_one_file(tmp_path):
    own = OwnData(says="any text", needed=True, texts=True)
    for name in ("train.txt.gz", "valid.txt.gz", "notes.md"):
        (tmp_path / name).write_text("a\n")
    found = files_of(str(tmp_path), own, tmp_path / "cut")
    expected = Files(
        train=str(tmp_path / "train.txt.gz"), validation=str(tmp_path / "valid.txt.gz"), test=None, cut=False
    )
    assert found == expected
    values = {"recipe": {"data": {"builtin": "python_docs", "length": 9, "unit": "line"}}, "arms": {}, "measures": []}
    data = on_own_data(values, own, found)["recipe"]["data"]
    assert data == {"length": 9, "unit": "line", "train": expected.train, "validation": expected.validation}
    alone = files_of(str(tmp_path / "notes.md"), own, tmp_path / "cut")
    assert (alone.train, alone.validation) == (str(tmp_path / "notes.md"), None)
    with pytest.raises(InputError, match="has no train"):
        files_of(str(tmp_path.parent), own, tmp_path / "cut")
