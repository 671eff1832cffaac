"""Reading labelled texts: any table, GLUE's files as distributed, and what is malformed in them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import tracemalloc
import types
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.labelled import LABELLED_FORMATS, LabelledText, read_labelled
from regard.data.lines import LONGEST_LINE
from regard.data.malformed import MalformedRows
from regard.errors import InputError


def write(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def parts(rows) -> list[tuple]:
    return [(row.text, row.label) if row.pair is None else (row.text, row.pair, row.label) for row in rows]


def error(path, **options) -> str:
    with pytest.raises(InputError) as caught:
        list(read_labelled(path, **options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- any table --------------------------------------------------------------------------------------------

GOOD = {
    "a.tsv": 'fine\tpos\n"bad\tneg\n',
    "b.tsv": 'label\ttext\npos\tfine\nneg\t"bad\n',
    "a.csv": 'text,label\nfine,pos\n"""bad",neg\n',
    "a.jsonl": '{"text": "fine", "label": "pos"}\n{"sentence": "\\"bad", "label": "neg"}\n',
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("name", GOOD)
def test_formats_with_gzip_byte_order_mark_and_line_ends(tmp_path: Path, name, ending, mark, packed) -> None:
    content = mark + GOOD[name].encode().replace(b"\n", ending)
    file = write(tmp_path, name, gzip.compress(content) if packed else content)
    first = 2 if GOOD[name].splitlines()[0].replace(",", "\t") in ("label\ttext", "text\tlabel") else 1
    assert list(read_labelled(file)) == [
        LabelledText(text="fine", label="pos", file=str(file), line=first),
        LabelledText(text='"bad', label="neg", file=str(file), line=first + 1),
    ]


def test_columns_by_number_and_by_name(tmp_path: Path) -> None:
    file = write(tmp_path, "a.tsv", "id\tone\ttwo\tgold\n7\ta\tb\tyes\n8\tc\td\tno\n")
    wanted = [("a", "b", "yes"), ("c", "d", "no")]
    assert parts(read_labelled(file, text="one", pair="two", label="gold")) == wanted
    assert parts(read_labelled(file, text=1, pair=2, label=3, header=True)) == wanted
    assert parts(read_labelled(file, text="one", pair=2)) == wanted  # the label is the last column left
    assert parts(read_labelled(file, text=1)) == [("a", "yes"), ("c", "no")]  # 7 and 8 stand below "id"
    assert parts(read_labelled(file, text="two", labelled=False)) == [("b", None), ("d", None)]
    assert parts(read_labelled(write(tmp_path, "b.tsv", "yes\ta\nno\tb\n"), text=1)) == [("a", "yes"), ("b", "no")]


def test_usual_names_are_found_wherever_they_stand(tmp_path: Path) -> None:
    file = write(tmp_path, "a.csv", "score,sentence2,x,sentence1\n1,b,-,a\n")
    assert parts(read_labelled(file)) == [("a", "b", "1")]
    assert parts(read_labelled(file, number=True)) == [("a", "b", 1.0)]
    assert parts(read_labelled(file, text="sentence1")) == [("a", "1")]  # one text was asked for
    nli = write(tmp_path, "n.tsv", "question\tsentence\tgold_label\nWhen?\tIn May.\tyes\n")
    assert parts(read_labelled(nli)) == [("When?", "In May.", "yes")]
    assert parts(read_labelled(write(tmp_path, "t.tsv", "sentence\tlabel\na\t1\n"))) == [("a", "1")]
    assert parts(read_labelled(file, pair="x")) == [("a", "-", "1")]
    only = write(tmp_path, "b.csv", "id,text\n1,a\n")
    assert parts(read_labelled(only, labelled=False)) == [("a", None)]
    assert parts(read_labelled(only, header=False, text=1, label=0))[0] == ("text", "id")


def test_keys_nested_keys_and_kinds_of_labels(tmp_path: Path) -> None:
    rows = [
        {"review": {"body": "a"}, "stars": 4},
        {"review": {"body": "b"}, "stars": True},
        {"review.body": "c", "stars": "x "},
    ]
    file = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)))
    wanted = [("a", "4"), ("b", "true"), ("c", "x")]
    assert parts(read_labelled(file, text="review.body", label="stars")) == wanted
    pairs = write(tmp_path, "b.jsonl", '{"sentence1": "a", "sentence2": "b", "score": 2.5}')
    assert parts(read_labelled(pairs, number=True)) == [("a", "b", 2.5)]
    assert parts(read_labelled(pairs, labelled=False)) == [("a", "b", None)]


def test_texts_without_labels(tmp_path: Path) -> None:
    file = write(tmp_path, "a.tsv", "one\ntwo words\n")
    assert parts(read_labelled(file, labelled=False)) == [("one", None), ("two words", None)]
    assert "each row needs a text and a label" in error(file)


def test_several_files_and_a_hub_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = write(tmp_path, "a.tsv", "a\t1\n"), write(tmp_path, "b.jsonl", '{"text": "b", "label": 2}')
    assert parts(read_labelled([one, str(two)])) == [("a", "1"), ("b", "2")]
    hub = types.ModuleType("datasets")
    hub.load_dataset = lambda *arguments, **options: [{"text": "c", "label": 0}, {"text": "", "label": 0}]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", hub)
    malformed = MalformedRows()
    assert parts(read_labelled("hub:someone/something@dev", malformed=malformed)) == [("c", "0")]
    assert malformed.by_reason == {"empty text": 1}


def test_labels_in_a_file_of_their_own(tmp_path: Path) -> None:
    texts = write(tmp_path, "a.tsv", "1\ta\n2\t\n3\tc\n4\td\n")
    labels = write(tmp_path, "labels", "yes\nno\n\nno\n")
    malformed = MalformedRows()
    assert parts(read_labelled(texts, text=1, label_file=labels, malformed=malformed)) == [("a", "yes"), ("d", "no")]
    assert malformed.by_reason == {"empty text": 1, "empty label": 1}
    malformed = MalformedRows()
    long = write(tmp_path, "long", "yes\nno\nno\nno\nno\nno\n")
    assert len(list(read_labelled(texts, text=1, label_file=long, malformed=malformed))) == 3
    assert str(malformed.first[1]).startswith(f"{long}, line 5: different numbers of texts and labels")
    malformed = MalformedRows()
    assert (
        len(list(read_labelled(texts, text=1, label_file=write(tmp_path, "short", "a\nb\n"), malformed=malformed))) == 1
    )
    assert str(malformed.first[1]).startswith(f"{texts}, line 3: different numbers of texts and labels")
    assert "belongs to one file" in error([texts, texts], label_file=labels)


words = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0\r\ufeff"), min_size=1).filter(
    lambda text: not text.isspace()
)
names = st.sampled_from(["pos", "neg", "neither one"])


@given(rows=st.lists(st.tuples(words, names), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_csv_that_python_wrote_is_read_back(tmp_path_factory: pytest.TempPathFactory, rows) -> None:
    buffer = io.StringIO()
    csv.writer(buffer).writerows([("words", "class"), *rows])
    file = write(tmp_path_factory.mktemp("csv"), "a.csv", buffer.getvalue())
    assert parts(read_labelled(file, text="words", label="class", on_error="stop")) == rows


def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    file = write(tmp_path, "a.tsv.gz", gzip.compress((b"words " * 100 + b"\tlabel\n") * 12_000, 1))  # 7 MB of text
    tracemalloc.start()
    count = sum(1 for _ in read_labelled(file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 12_000
    assert peak < 4e6


# --- known sets -------------------------------------------------------------------------------------------

MNLI = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\t"
)
STSB = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
KNOWN = [
    # With labels, as the first rows of the distributed files.
    (
        "cola",
        'gj04\t1\t\tOne "sailor\ngj04\t0\t*\tthem slept\n',
        [('One "sailor', "acceptable"), ("them slept", "unacceptable")],
    ),
    ("sst2", "sentence\tlabel\nhide new secretions \t0\n", [("hide new secretions ", "negative")]),
    (
        "sst2",
        "a stirring film\t1\none long string\t0\n",
        [("a stirring film", "positive"), ("one long string", "negative")],
    ),
    (
        "mrpc",
        '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tHe called "the witness"\t"the witness\n',
        [('He called "the witness"', '"the witness', "equivalent")],
    ),
    (
        "qqp",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tA?\tB?\t0\n",
        [("A?", "B?", "not_duplicate")],
    ),
    ("stsb", f"{STSB}\tscore\n0\tmain\tMSRvid\t2012\t0001\tnone\tnone\tA.\tB.\t3.800\n", [("A.", "B.", 3.8)]),
    (
        "stsb",
        "main\tMSRvid\t2012test\t0001\t5.000\tA.\tB.\nnews\tMSRpar\t2012\t0002\t1.25\tC.\tD.\tsource\tother\n",
        [("A.", "B.", 5.0), ("C.", "D.", 1.25)],
    ),
    (
        "mnli",
        f"{MNLI}sentence1\tsentence2\tlabel1\tgold_label\n0\t1\t1n\tgov\t(A)\t(B)\t(R A)\t(R B)\tA\tB\tneutral\tneutral\n",
        [("A", "B", "neutral")],
    ),
    (
        "mnli",
        f"{MNLI}sentence1\tsentence2\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n"
        "0\t1\t1n\tgov\t(A)\t(B)\t(R A)\t(R B)\tA\tB\tneutral\tneutral\tneutral\tneutral\tneutral\tentailment\n",
        [("A", "B", "entailment")],
    ),
    (
        "qnli",
        "index\tquestion\tsentence\tlabel\n0\tWhen?\tIn May.\tnot_entailment\n",
        [("When?", "In May.", "not_entailment")],
    ),
    ("rte", "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tentailment\n", [("A.", "B.", "entailment")]),
    ("wnli", "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\t0\n", [("A.", "B.", "not_entailment")]),
    ("sms-spam", "ham\tOk lar... \"Joking'\nspam\tFREE\n", [("Ok lar... \"Joking'", "ham"), ("FREE", "spam")]),
    ("imdb", "label\tid\trating\ttext\nneg\t0\t3\tStory<br />of\n", [("Story<br />of", "negative")]),
]


@pytest.mark.parametrize(
    ("format", "content", "wanted"), KNOWN, ids=[f"{row[0]}-{place}" for place, row in enumerate(KNOWN)]
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_known_sets_as_they_are_distributed(
    tmp_path: Path, format: str, content: str, wanted: list, ending: str
) -> None:
    file = write(tmp_path, "train.tsv", content.replace("\n", ending))
    assert parts(read_labelled(file, format=format, on_error="stop")) == wanted
    known = LABELLED_FORMATS[format]
    assert all(row[-1] in known.labels or known.number for row in wanted)


TESTS = [
    ("cola", "index\tsentence\n0\tBill whistled.\n"),
    ("sst2", "index\tsentence\n0\tuneasy mishmash\n"),
    ("mrpc", "\ufeffindex\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\tA.\tB.\n"),
    ("qqp", "id\tquestion1\tquestion2\n0\tA?\tB?\n"),
    ("stsb", f"{STSB}\n0\tmain\tMSRvid\t2012\t0024\tnone\tnone\tA.\tB.\n"),
    ("mnli", f"{MNLI}sentence1\tsentence2\n0\t1\t1n\tgov\t(A)\t(B)\t(R A)\t(R B)\tA\tB\n"),
    ("qnli", "index\tquestion\tsentence\n0\tA?\tB.\n"),
    ("rte", "index\tsentence1\tsentence2\n0\tA.\tB.\n"),
    ("wnli", "index\tsentence1\tsentence2\n0\tA.\tB.\n"),
]


@pytest.mark.parametrize(("format", "content"), TESTS)
def test_test_files_without_labels(tmp_path: Path, format: str, content: str) -> None:
    file = write(tmp_path, "test.tsv", content)
    (row,) = read_labelled(file, format=format, labelled=False, on_error="stop")
    assert row.label is None
    assert (row.pair is None) == (format in ("cola", "sst2"))
    assert "so it is a test file" in error(file, format=format)


def test_every_format_is_whole() -> None:
    import regard.metrics.classification as classification
    import regard.metrics.regression as regression

    for name, known in LABELLED_FORMATS.items():
        assert known.header is not None or known.columns is not None, name
        assert len(known.values) == len(known.labels), name
        assert known.number == (known.metrics == ("pearson", "spearman")), name
        assert all(hasattr(classification, metric) or hasattr(regression, metric) for metric in known.metrics), name
    tested = {name for name, *_ in KNOWN} | {"wic", "coarsewsd-20", "snli"}
    assert tested == set(LABELLED_FORMATS)


def test_word_in_context(tmp_path: Path) -> None:
    rows = ["hook\tV\t0-1\tHook a fish .\tHe hooked it .", "board\tN\t2-4\tRoom and board .\tA board ."]
    data = write(tmp_path, "dev.data.txt", "\n".join(rows))
    malformed = MalformedRows()
    write(tmp_path, "dev.gold.txt", "T\nF\n")
    (row,) = read_labelled(data, format="wic", malformed=malformed)
    assert (row.text, row.pair, row.label, row.places) == ("Hook a fish .", "He hooked it .", "same", (0, 1))
    assert malformed.by_reason == {"place outside the text": 1}
    write(tmp_path, "test.data.txt", data.read_text())
    assert "its labels are in a separate file" in error(tmp_path / "test.data.txt", format="wic")
    (row,) = read_labelled(tmp_path / "test.data.txt", format="wic", labelled=False)
    assert row.label is None
    other = write(tmp_path, "other", "F\nF\n")
    assert next(read_labelled(data, format="wic", label_file=other)).label == "different"


def test_senses_of_a_word(tmp_path: Path) -> None:
    data = write(tmp_path, "train.data.txt", "2\tby the bank of a river\n0\tbanks lend\nx\tbank\n")
    write(tmp_path, "train.gold.txt", "1\n0\n0")
    assert parts(read_labelled(data, format="coarsewsd-20")) == [("by the bank of a river", "1"), ("banks lend", "0")]
    names = write(tmp_path, "classes_map.txt", '{"0": "money", "1": "geography"}')
    rows = list(read_labelled(data, format="coarsewsd-20"))
    assert [(row.label, row.text.split(" ")[row.places[0]]) for row in rows] == [
        ("geography", "bank"),
        ("money", "banks"),
    ]
    write(tmp_path, "classes_map.txt", '{"0": "money"}')
    malformed = MalformedRows()
    assert len(list(read_labelled(data, format="coarsewsd-20", malformed=malformed))) == 1
    assert malformed.by_reason == {"unknown label": 1, "place outside the text": 1}
    names.write_text("[]")
    assert "is not a JSON object from labels" in error(data, format="coarsewsd-20")


def test_a_known_set_settles_its_columns(tmp_path: Path) -> None:
    file = write(tmp_path, "a.tsv", "nothing\tknown\n")
    assert "already sets the columns and labels" in error(file, format="sst2", text=1)
    assert "already sets the columns and labels" in error(file, format="sst2", number=True)
    assert "names its columns, among them '#1 String' and '#2 String' and 'Quality'" in error(file, format="mrpc")
    assert "did you mean 'sst2'?" in error(file, format="sst-2")
    message = error(file, format="sst2")
    assert "none of 1 row is usable" in message
    assert "unknown label ('known'; '0, 1' are known)" in message


# --- malformed rows ---------------------------------------------------------------------------------------

LONG = b"x" * (10 * LONGEST_LINE)
BAD_ROWS = [
    ("a.tsv", b"only one", "wrong number of columns", {}),
    ("a.tsv", b"a\tb\tc", "wrong number of columns", {}),
    ("a.tsv", b"\tb", "empty text", {}),
    ("a.tsv", b"a\t  ", "empty label", {}),
    ("a.tsv", b"", "empty line", {}),
    ("a.tsv", b"caf\xe9\tb", "not UTF-8", {}),
    ("a.tsv", b"a\0\tb", "NUL character", {}),
    ("a.tsv", LONG + b"\tb", "line too long", {}),
    ("a.tsv", b"a\tunseen", "unknown label", {"labels": ["b"]}),
    ("a.csv", b'"a"b,c', "broken quoting", {}),
    ("a.csv", b"a,\0", "NUL character", {}),
    ("a.jsonl", b'{"text": "a"}', "missing key", {}),
    ("a.jsonl", b'{"text": 3, "label": "b"}', "not a text", {}),
    ("a.jsonl", b'{"text": "a", "label": null}', "empty label", {}),
    ("a.jsonl", b'{"text": "a", "label": ["b"]}', "not a label", {}),
    ("a.jsonl", b'{"text": "a", "label": 1.5}', "not a label", {}),
    ("a.jsonl", b'{"text": "a", "label": "\\ud800"}', "not UTF-8", {}),
    ("a.jsonl", b'{"text": "a", "pair": "", "label": "b"}', "empty pair", {}),
    ("a.jsonl", b'{"text": "\\u0000", "label": "b"}', "NUL character", {}),
    ("a.jsonl", b'{"text": "a", "label": ', "broken JSON", {}),
]
GOOD_ROW = {"a.tsv": b"a\tb", "a.csv": b"a,b", "a.jsonl": b'{"text": "a", "label": "b"}'}


@pytest.mark.parametrize(("name", "row", "reason", "options"), BAD_ROWS, ids=[f"{b[0]}-{b[2]}" for b in BAD_ROWS])
def test_a_malformed_row_is_recorded_and_the_others_read(tmp_path: Path, name, row, reason, options) -> None:
    good = GOOD_ROW[name]
    file = write(tmp_path, name, b"\n".join([good, good, row, good, good, b""]))
    malformed = MalformedRows()
    assert [row.line for row in read_labelled(file, malformed=malformed, **options)] == [1, 2, 4, 5]
    (found,) = malformed.first
    assert (found.file, found.line, found.reason) == (str(file), 3, reason)
    assert len(str(found)) < len(str(file)) + 250
    assert error(file, on_error="stop", **options).startswith(f"{file}, line 3: {reason}")


@pytest.mark.parametrize("value", ["high", "nan", "inf", "1,5"])
def test_a_label_that_is_not_a_number(tmp_path: Path, value: str) -> None:
    file = write(tmp_path, "a.tsv", f"a\t1.5\nb\t{value}\nc\t-2e1\n")
    malformed = MalformedRows()
    assert parts(read_labelled(file, number=True, malformed=malformed)) == [("a", 1.5), ("c", -20.0)]
    assert malformed.by_reason == {"label is not a number": 1}


# --- files that cannot be used ----------------------------------------------------------------------------


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    for format in ("auto", "sst2"):
        with pytest.raises(InputError, match="no such file"):
            read_labelled(tmp_path / "none", format=format)  # by the call itself, before anything is read
        assert "is a folder" in error(tmp_path, format=format)
        assert "is empty" in error(write(tmp_path, "a", "\n"), format=format)
        assert "iconv -f UTF-16" in error(write(tmp_path, "b", "text\tlabel\nä\tb\n".encode("utf-16")), format=format)
        assert "is a binary file" in error(write(tmp_path, "c", bytes(range(256)) * 100), format=format)
        assert "ends too early" in error(write(tmp_path, "d", gzip.compress(b"a\t1\n" * 9000)[:-20]), format=format)
    assert "name at least one" in error([])
    assert "iconv" in error(write(tmp_path, "e.tsv", "Käse\tcheese\n".encode("latin-1")))


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    file = write(tmp_path, "a.csv", "text,lable\na,b\n")
    assert "no column 'label' in the header; did you mean 'lable'?" in error(file, text="text", label="label")
    assert "no column 7" in error(file, text="text", label=7)
    assert "columns count from 0" in error(file, text=-1, label=0)
    assert "the first line must be a header" in error(file, text="text", header=False)
    assert "no column 1" in error(write(tmp_path, "b.csv", "text\na\n"), text="text")
    assert "has a header and no rows" in error(write(tmp_path, "c.csv", "text,label\n"))
    assert "are keys here" in error(write(tmp_path, "a.jsonl", '{"text": "a", "label": "b"}'), label=1)
    assert "data.on_error 'ignore' is not known" in error(file, text="text", label="lable", on_error="ignore")
