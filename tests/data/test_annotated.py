"""Tagged words of annotated texts and of `regard tag --json`, and rows of Parquet files."""

from __future__ import annotations

import json

import pytest

from regard.data.labelled import read_labelled
from regard.data.malformed import MalformedRows
from regard.data.pairs import read_pairs
from regard.data.tagged import read_tagged
from regard.data.text_columns import read_table
from regard.errors import InputError

TEXT = "Ann Lee's aide saw New York."
WORDS = ("Ann", "Lee", "'s", "aide", "saw", "New", "York", ".")
TAGS = ("B-PER", "I-PER", "O", "O", "O", "B-LOC", "I-LOC", "O")
SPANS = [(0, 7, "PER"), (19, 27, "LOC")]


def written(tmp_path, *rows):
    file = tmp_path / "annotated.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.parametrize(
    "row",
    [
        {"text": TEXT, "spans": [{"start": start, "end": end, "label": label} for start, end, label in SPANS]},
        {
            "text": TEXT,
            "tokens": [{"text": "Ann", "start": 0, "end": 3, "id": 0}],
            "spans": [{"start": start, "end": end, "label": label, "token_start": 0} for start, end, label in SPANS],
            "answer": "accept",
        },
        {"id": 3, "text": TEXT, "label": [list(span) for span in SPANS]},
        {"text": TEXT, "labels": [[19, 28 - 1, "LOC"], [0, 8 - 1, "PER"]]},
        {
            "text": TEXT,
            "entities": [{"id": 1, "start_offset": a, "end_offset": b, "label": c} for a, b, c in SPANS],
            "relations": [],
        },
        {
            "text": TEXT,
            "words": [{"text": w, "tag": t, "start": 0, "end": 1} for w, t in zip(WORDS, TAGS, strict=True)],
        },
    ],
    ids=["prodigy", "prodigy with tokens", "doccano", "doccano, turned", "doccano with relations", "regard tag"],
)
def test_each_tool(tmp_path, row):
    (found,) = read_tagged(written(tmp_path, row))
    assert (found.words, found.tags, found.line) == (WORDS, TAGS, 1)
    (plain,) = read_tagged(written(tmp_path, row), tagged=False)
    assert (plain.words, plain.tags) == (WORDS, ())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"spans": [{"start": 0, "end": 6, "label": "PER"}]}, "span cuts a word"),
        ({"spans": [{"start": 0, "end": 99, "label": "PER"}]}, "span cuts a word"),
        ({"spans": [{"start": 0, "end": 7, "label": "A"}, {"start": 4, "end": 7, "label": "B"}]}, "spans overlap"),
        ({"spans": [{"start": 0, "label": "PER"}]}, "not a span"),
        ({"spans": [[0, 7]]}, "not a span"),
        ({"spans": [], "answer": "reject"}, "not accepted"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, change, reason):
    malformed = MalformedRows()
    rows = {"text": TEXT, **change}, {"text": "Ann ran", "spans": []}
    (found,) = read_tagged(written(tmp_path, *rows), malformed=malformed)
    assert found.tags == ("O", "O")
    assert malformed.by_reason == {reason: 1}


def test_a_space_in_a_span_is_no_part_of_it(tmp_path):
    (found,) = read_tagged(
        written(tmp_path, {"text": "to Rome now", "spans": [{"start": 2, "end": 8, "label": "LOC"}]})
    )
    assert found.tags == ("O", "B-LOC", "O")


def test_lists_of_words_beside_a_text_are_read_as_before(tmp_path):
    (found,) = read_tagged(written(tmp_path, {"text": "a b", "tokens": ["a", "b"], "labels": ["B-X", "O"]}))
    assert found.tags == ("B-X", "O")


def test_the_one_object_of_regard_tag(tmp_path):
    row = json.dumps({"text": "Ann ran", "words": [{"text": "Ann", "tag": "B-PER"}, {"text": "ran", "tag": "O"}]})
    file = tmp_path / "tagged.json"
    file.write_text('{"taggings": [\n' + row + ",\n" + row + "\n]}\n")
    assert [found.tags for found in read_tagged(file)] == [("B-PER", "O")] * 2


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    file = str(tmp_path / "rows.parquet")
    rows = [
        {"text": "a", "label": 1, "source": "one", "target": "un"},
        {"text": "b", "label": 0, "source": "two", "target": "x"},
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    assert [(row.text, row.label) for row in read_labelled(file)] == [("a", "1"), ("b", "0")]
    assert [(pair.source, pair.target) for pair in read_pairs(file)] == [("one", "un"), ("two", "x")]
    kind, texts, _ = read_table(tmp_path / "rows.parquet", None)
    assert (kind, [(text.line, text.text, text.row["label"]) for text in texts]) == (
        "jsonl",
        [(1, "a", 1), (2, "b", 0)],
    )
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="is not a readable Parquet file"):
        list(read_pairs(file))
    with pytest.raises(InputError, match="no such file"):
        list(read_pairs(str(tmp_path / "none.parquet")))
