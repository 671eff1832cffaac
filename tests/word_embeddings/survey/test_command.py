"""`regard vectors survey`: a page and its key, and back from answers to a judgement."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.cli.vectors.evaluation import create, score
from regard.errors import InputError

WORDS = [f"word{number}" for number in range(80)]


@pytest.fixture
def vectors(tmp_path):
    draw = np.random.default_rng(0)
    files = []
    for name in ("one", "two"):
        lines = (f"{word} {' '.join(f'{value:.4f}' for value in draw.normal(size=5))}\n" for word in WORDS)
        files.append(tmp_path / f"{name}.txt")
        files[-1].write_text("80 5\n" + "".join(lines))
    return files


def test_from_vectors_to_a_judgement(vectors, tmp_path, capsys):
    page = tmp_path / "page.html"
    create(vectors, page, queries=6, intruders=2, as_json=True)
    made = json.loads(capsys.readouterr().out)
    key = json.loads((tmp_path / "page.key.json").read_text())
    assert (made["items"], made["id"]) == (len(key["items"]), key["page"])
    assert not any(table in page.read_text() for table in key["tables"] if "." in table)
    answers = tmp_path / "answers.jsonl"
    lines = [{"page": key["page"], "judge": "a", "item": item["name"], "choice": 0} for item in key["items"]]
    answers.write_text("\n".join(map(json.dumps, lines)) + "\n{half")
    score(tmp_path / "page.key.json", [answers], as_json=True)
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["answers"] == {"a": made["items"]}
    assert found["left_out"] == {"no JSON object": 1}
    assert "1 malformed row" in err
    neighbours = [each for each in found["shares"] if each["kind"] == "neighbour" and each["rank"] is None]
    assert sum(each["won"] for each in neighbours) == neighbours[0]["answered"]
    score(tmp_path / "page.key.json", [answers])
    assert "preferred at rank 5" in capsys.readouterr().out


def test_a_key_that_answers_may_need_is_not_written_over(vectors, tmp_path):
    create(vectors, tmp_path / "page.html", queries=2)
    before = (tmp_path / "page.key.json").read_bytes(), (tmp_path / "page.html").read_bytes()
    with pytest.raises(InputError, match="exists"):
        create(vectors, tmp_path / "page.html", queries=2, seed=5)
    assert before == ((tmp_path / "page.key.json").read_bytes(), (tmp_path / "page.html").read_bytes())


def test_what_cannot_be_used_is_said(vectors, tmp_path):
    with pytest.raises(InputError, match=r"ends in \.html"):
        create(vectors, tmp_path / "page.txt")
    with pytest.raises(InputError, match="two or more"):
        create(vectors[:1], tmp_path / "page.html")
    assert not (tmp_path / "page.key.json").exists()
    with pytest.raises(InputError, match="no such file"):
        score(tmp_path / "none.key.json", [tmp_path / "none.jsonl"])
