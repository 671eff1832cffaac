"""`regard map`: what becomes the points of a page, and what is refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.word_embeddings import WordVectors
from regard.word_embeddings.files import write_vectors

GOLDEN = Path(__file__).parents[1] / "golden" / "folders"


@pytest.fixture
def words(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    matrix = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    write_vectors(WordVectors(words=tuple("abcdef"), matrix=matrix), tmp_path / "words.txt")
    return tmp_path / "words.txt"


def points(path: str) -> list[dict]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_words_with_colours_of_two_files(command, words):
    Path("rank.txt").write_text("0.5\n1.5\n2.5\n\n4.5\n5.5\n")
    Path("kind.tsv").write_text("c\tvowel\na\tvowel\nz\tnone\n")
    made = command(
        "map",
        "words.txt",
        "-o",
        "m.html",
        "--colour",
        "rank.txt",
        "--colour",
        "kind.tsv",
        "--export",
        "p.jsonl",
        "--json",
    )
    assert made.code == 0
    told = json.loads(made.out)
    assert (told["points"], told["dim"], told["neighbours"], told["method"]) == (6, 4, 5, "pca")
    assert 0 < sum(told["shares"]) <= 1
    rows = points("p.jsonl")
    assert [row["rank"] for row in rows] == [0.5, 1.5, 2.5, None, 4.5, 5.5]
    assert [row["kind"] for row in rows] == ["vowel", "", "vowel", "", "", ""]
    assert "words.txt" in Path("m.html").read_text()


def test_a_limit_is_said(command, words):
    made = command("map", "words.txt", "--limit", "4", "--neighbours", "0", "--export", "p.csv")
    assert made.code == 0
    assert "only the first 4 are on the map" in made.err
    assert "map.html: 4 points" in made.err
    assert len(Path("p.csv").read_text().splitlines()) == 5


def test_texts_by_an_encoder_are_its_vectors(command, words):
    Path("t.csv").write_text("label,message\nspam,the old dog\nham,the red cat\nham,the dog sees\n")
    made = command(
        "map",
        str(GOLDEN / "bert-embedding"),
        "t.csv",
        "--text",
        "message",
        "--colour",
        "label",
        "--dtype",
        "float32",
        "--export",
        "p.jsonl",
    )
    assert made.code == 0, made.err
    rows = points("p.jsonl")
    assert [(row["text"], row["label"]) for row in rows] == [
        ("the old dog", "spam"),
        ("the red cat", "ham"),
        ("the dog sees", "ham"),
    ]
    vectors = regard.load(GOLDEN / "bert-embedding", task="sentence_embedding").embed([row["text"] for row in rows])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for place, row in enumerate(rows):
        wanted = 1 - unit[row["neighbors"]["ids"]] @ unit[place]
        np.testing.assert_allclose(row["neighbors"]["distances"], wanted, atol=1e-5)


@pytest.mark.parametrize("suffix", [".npy", ".jsonl", ".parquet"])
def test_what_embed_wrote_is_read(command, words, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    Path("t.txt").write_text("the old dog\nthe red cat\nthe dog sees\n")
    model = str(GOLDEN / "bert-embedding")
    assert command("embed", model, "--input", "t.txt", "--output", f"v{suffix}", "--dtype", "float32").code == 0
    given = [f"v{suffix}", "t.txt"] if suffix == ".npy" else [f"v{suffix}"]
    assert command("map", *given, "--export", "p.jsonl").code == 0
    assert command("map", model, "t.txt", "--dtype", "float32", "--export", "q.jsonl").code == 0
    for one, other in zip(points("p.jsonl"), points("q.jsonl"), strict=True):
        assert one["text"] == other["text"]
        np.testing.assert_allclose([one["x"], one["y"]], [other["x"], other["y"]], atol=1e-4)


def test_an_array_has_a_text_for_each_row_and_a_limit_cuts_both(command, words):
    np.save("v.npy", np.random.default_rng(1).normal(size=(4, 3)))  # float64 too
    Path("t.txt").write_text("a\nb\nc\nd\n")
    assert command("map", "v.npy", "t.txt").code == 0
    assert "only the first 2" in command("map", "v.npy", "t.txt", "--limit", "2").err
    Path("t.txt").write_text("a\nb\nc\n")
    assert "4 embeddings for 3 texts" in command("map", "v.npy", "t.txt").refusal()
    Path("t.txt").write_text("a\nb\nc\nd\ne\n")
    assert "4 embeddings for 5 texts" in command("map", "v.npy", "t.txt").refusal()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("words.txt", "--method", "pac"), "there is no method 'pac'; did you mean 'pca'"),
        (("words.txt", "--export", "p.xls"), "ends in '.xls'"),
        (("words.txt", "--text", "message"), "--text is a column of TEXTS"),
        (("words.txt", "--colour", "label"), "is no column and no file"),
        (("words.txt", "--colour", "short.txt"), "has 2 lines for 6 points"),
        (("words.txt", "--colour", "others.tsv"), "none of its words is on the map"),
        (("table.csv", "-o", "m.html"), "table.csv"),
        (("v.npy",), "embeddings without texts"),
        (("empty.npy", "short.txt"), "is no array that can be read"),
        (("flat.npy", "short.txt"), "give (N, W) floats"),
        (("bad.jsonl",), "bad.jsonl, line 1"),
        (("ragged.jsonl",), "have different widths"),
        ((str(GOLDEN / "bert-embedding"),), "is a model; give a file of texts"),
        ((str(GOLDEN / "bert-embedding"), "table.csv", "--text", "text", "--colour", "lable"), "did you mean 'label'"),
        (("nowhere.txt",), "nowhere.txt"),
    ],
)
def test_what_makes_no_map_is_refused_in_a_sentence(command, words, given, said):
    Path("short.txt").write_text("1\n2\n")
    Path("others.tsv").write_text("y\t1\nz\t2\n")
    Path("table.csv").write_text("text,label\nthe dog,x\n")
    np.save("v.npy", np.zeros((2, 3), dtype=np.float32))
    np.save("flat.npy", np.zeros(3, dtype=np.float32))
    Path("empty.npy").write_text("no array")
    Path("bad.jsonl").write_text('{"text": "a"}\n')
    Path("ragged.jsonl").write_text('{"text": "a", "vector": [1, 2]}\n{"text": "b", "vector": [1]}\n')
    assert said in command("map", *given).refusal()
    assert not Path("map.html").exists()
