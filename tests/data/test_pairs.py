"""Reading pairs: every format, every malformed row by reason, every unusable file in one sentence."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import sys
import tracemalloc
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.lines import LONGEST_LINE
from regard.data.malformed import MalformedRow, MalformedRows
from regard.data.pairs import Pair, read_pairs, read_parallel
from regard.errors import InputError


def write(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def texts(pairs: Iterator[Pair]) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs]


def until_error(pairs: Iterator[Pair]) -> tuple[list[Pair], InputError]:
    """The pairs that came before the error, and the error."""
    before = []
    try:
        for pair in pairs:
            before.append(pair)
    except InputError as error:
        return before, error
    raise AssertionError("no error was raised")


def reasons(path, **options) -> dict[int, str]:
    malformed = MalformedRows()
    list(read_pairs(path, malformed=malformed, **options))
    return {row.line: row.reason for row in malformed.first}


# --- formats ----------------------------------------------------------------------------------------------

GOOD = {
    "pairs.tsv": 'one\tun\n"two\tdeux"\n',
    "pairs.csv": 'one,un\n"""two","deux"""\n',
    "pairs.jsonl": '{"source": "one", "target": "un"}\n{"source": "\\"two", "target": "deux\\""}\n',
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("name", GOOD)
def test_formats_with_gzip_byte_order_mark_and_line_ends(
    tmp_path: Path, name: str, ending: bytes, mark: bytes, packed: bool
) -> None:
    content = mark + GOOD[name].encode().replace(b"\n", ending)
    file = write(tmp_path, name, gzip.compress(content) if packed else content)
    pairs = list(read_pairs(file))
    assert pairs == [
        Pair(source="one", target="un", file=str(file), line=1),
        Pair(source='"two', target='deux"', file=str(file), line=2),
    ]


def test_gzip_is_told_by_content_and_the_format_by_the_name_before_gz(tmp_path: Path) -> None:
    assert texts(read_pairs(write(tmp_path, "a.csv.gz", gzip.compress(b"a,b\n")))) == [("a", "b")]
    assert texts(read_pairs(write(tmp_path, "b.csv.gz", b"a,b\n"))) == [("a", "b")]


def test_without_a_telling_name_the_first_line_decides(tmp_path: Path) -> None:
    assert texts(read_pairs(write(tmp_path, "a.txt", "a, b\tc\n"))) == [("a, b", "c")]
    assert texts(read_pairs(write(tmp_path, "b", '{"source": "a", "target": "b"}'))) == [("a", "b")]
    assert texts(read_pairs(write(tmp_path, "c.txt", "a,b\n"), format="csv")) == [("a", "b")]


def test_texts_are_handed_on_as_they_stand(tmp_path: Path) -> None:
    file = write(tmp_path, "a.tsv", " a  \t\u2028b\x0bc\u00a0\nlast\tone")
    assert texts(read_pairs(file)) == [(" a  ", "\u2028b\x0bc\u00a0"), ("last", "one")]


def test_columns_by_index_and_by_name(tmp_path: Path) -> None:
    tsv = write(tmp_path, "a.tsv", "id\ten\tfr\n1\tone\tun\n2\ttwo\tdeux\n")
    assert texts(read_pairs(tsv, source="fr", target="en")) == [("un", "one"), ("deux", "two")]
    assert texts(read_pairs(tsv, source=1, target=2)) == [("one", "un"), ("two", "deux")]
    file = write(tmp_path, "a.csv", 'id, en ,"fr"\n1,"one, or\nso",un\n2,two,deux\n')
    pairs = list(read_pairs(file, source="en", target="fr"))
    assert [(pair.source, pair.line) for pair in pairs] == [("one, or\nso", 2), ("two", 4)]
    assert texts(read_pairs(file, source="en", target=2))[1] == ("two", "deux")


def test_keys_may_be_nested(tmp_path: Path) -> None:
    rows = [
        {"translation": {"en": "one", "fr": "un"}},
        {"translation.en": "two", "translation": {"fr": "deux"}},
    ]
    file = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)))
    assert texts(read_pairs(file, source="translation.en", target="translation.fr")) == [
        ("one", "un"),
        ("two", "deux"),
    ]


words = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0\r\ufeff"), min_size=1).filter(
    lambda text: not text.isspace()
)


@given(rows=st.lists(st.tuples(words, words), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_csv_that_python_wrote_is_read_back(tmp_path_factory: pytest.TempPathFactory, rows) -> None:
    buffer = io.StringIO()
    csv.writer(buffer).writerows(rows)
    file = write(tmp_path_factory.mktemp("csv"), "a.csv", buffer.getvalue())
    assert texts(read_pairs(file, on_error="stop")) == rows


@given(rows=st.lists(st.tuples(words, words), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_jsonl_that_python_wrote_is_read_back(tmp_path_factory: pytest.TempPathFactory, rows) -> None:
    lines = [json.dumps({"source": a, "target": b}, ensure_ascii=len(a) % 2 == 0) for a, b in rows]
    file = write(tmp_path_factory.mktemp("jsonl"), "a.jsonl", "\n".join(lines))
    assert texts(read_pairs(file, on_error="stop")) == rows


def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    line = b"source " * 40 + b"\t" + b"target " * 40 + b"\n"
    file = write(tmp_path, "a.tsv.gz", gzip.compress(line * 40_000, 1))  # 22 MB of text
    tracemalloc.start()
    count = sum(1 for _ in read_pairs(file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 40_000
    assert peak < 4e6


# --- parallel files ---------------------------------------------------------------------------------------


def test_two_files_whose_lines_belong_together(tmp_path: Path) -> None:
    source = write(tmp_path, "a.en.gz", gzip.compress(b"one\r\ntwo\r\n"))
    target = write(tmp_path, "a.fr", "\ufeffun\ndeux")
    expected = [
        Pair(source="one", target="un", file=str(source), line=1),
        Pair(source="two", target="deux", file=str(source), line=2),
    ]
    assert list(read_parallel(source, target)) == expected
    assert list(read_pairs([source, str(target)])) == expected


@pytest.mark.parametrize("longer", ["source", "target"])
def test_different_numbers_of_lines_are_reported_with_both(tmp_path: Path, longer: str) -> None:
    long, short = write(tmp_path, "long", "a\nb\nc\nd\ne\n"), write(tmp_path, "short", "1\n2\n3")
    files = [long, short] if longer == "source" else [short, long]
    malformed = MalformedRows()
    assert len(list(read_pairs(files, malformed=malformed))) == 3
    (row,) = malformed.first
    assert (row.file, row.line, row.reason) == (str(long), 4, "different numbers of lines")
    assert "long has 5 lines" in row.detail or "long 5" in row.detail
    assert "short has 3 lines" in row.detail or "short 3" in row.detail
    with pytest.raises(InputError, match="the last 2 have no partner"):
        list(read_pairs(files, on_error="stop"))


def test_malformed_lines_of_parallel_files_name_their_file(tmp_path: Path) -> None:
    source = write(tmp_path, "s", b"one\n\ntwo\xff\n\nfive\nsix\n")
    target = write(tmp_path, "t", b"un\ndeux\ntrois\n\n \nsi\0x\n")
    malformed = MalformedRows()
    assert texts(read_parallel(source, target, malformed=malformed)) == [("one", "un")]
    assert [(Path(row.file).name, row.line, row.reason) for row in malformed.first] == [
        ("s", 2, "empty source"),
        ("s", 3, "not UTF-8"),
        ("s", 4, "empty source"),
        ("t", 5, "empty target"),
        ("t", 6, "NUL character"),
    ]


def test_other_numbers_of_files_and_columns_of_two_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "a", "a\n")
    with pytest.raises(InputError, match="3 files given"):
        read_pairs([file] * 3)
    with pytest.raises(InputError, match="have no columns"):
        read_pairs([file, file], source=1)


# --- malformed rows ---------------------------------------------------------------------------------------

LONG = b"x" * (LONGEST_LINE + 1)
BAD_ROWS = [
    ("a.tsv", b"only one", "wrong number of columns"),
    ("a.tsv", b"a\tb\tc", "wrong number of columns"),
    ("a.tsv", b"\tb", "empty source"),
    ("a.tsv", b"a\t  ", "empty target"),
    ("a.tsv", b"", "empty line"),
    ("a.tsv", b"caf\xe9\tb", "not UTF-8"),
    ("a.tsv", b"a\0\tb", "NUL character"),
    ("a.tsv", b"a\t" + LONG, "line too long"),
    ("a.csv", b"only one", "wrong number of columns"),
    ("a.csv", b"a,b,c", "wrong number of columns"),
    ("a.csv", b",b", "empty source"),
    ("a.csv", b"a,", "empty target"),
    ("a.csv", b"", "empty line"),
    ("a.csv", b'"caf\xe9",b', "not UTF-8"),
    ("a.csv", b"a,\0", "NUL character"),
    ("a.csv", b"a," + LONG, "line too long"),
    ("a.csv", b'"a"b,c', "broken quoting"),
    ("a.csv", b'"never closed,c', "broken quoting"),
    ("a.jsonl", b'{"source": "a", "target": ', "broken JSON"),
    ("a.jsonl", b"[" * 100_000, "broken JSON"),
    ("a.jsonl", b'["a", "b"]', "not a JSON object"),
    ("a.jsonl", b'{"source": "a", "goal": "b"}', "missing key"),
    ("a.jsonl", b'{"source": "a", "target": 3}', "not a text"),
    ("a.jsonl", b'{"source": "a", "target": null}', "not a text"),
    ("a.jsonl", b'{"source": "", "target": "b"}', "empty source"),
    ("a.jsonl", b'{"source": "a", "target": "\\u0000"}', "NUL character"),
    ("a.jsonl", b'{"source": "a", "target": "\\ud800"}', "not UTF-8"),
    ("a.jsonl", b'{"source": "a", "target": "caf\xe9"}', "not UTF-8"),
    ("a.jsonl", b"", "empty line"),
    ("a.jsonl", b'{"source": "a", "target": "' + LONG + b'"}', "line too long"),
]
GOOD_ROW = {"a.tsv": b"a\tb", "a.csv": b"a,b", "a.jsonl": b'{"source": "a", "target": "b"}'}


@pytest.mark.parametrize(("name", "row", "reason"), BAD_ROWS, ids=[f"{b[0]}-{b[2]}" for b in BAD_ROWS])
def test_a_malformed_row_is_recorded_and_the_others_read(tmp_path: Path, name: str, row: bytes, reason: str) -> None:
    good = GOOD_ROW[name]
    file = write(tmp_path, name, b"\n".join([good, good, row, good, good, b""]))
    malformed = MalformedRows()
    assert [pair.line for pair in read_pairs(file, malformed=malformed)] == [1, 2, 4, 5]
    (found,) = malformed.first
    assert (found.file, found.line, found.reason) == (str(file), 3, reason)
    assert len(str(found)) < len(str(file)) + 250
    before, caught = until_error(read_pairs(file, on_error="stop"))
    assert [pair.line for pair in before] == [1, 2]
    assert str(caught).startswith(f"{file}, line 3: {reason}")
    assert "\n" not in str(caught)


def test_an_unclosed_quote_costs_its_own_line_only(tmp_path: Path) -> None:
    rows = ["a,b"] * 3 + ['"open,b'] + ["c,d"] * 5000 + ['"e","f"', "g,h"]
    file = write(tmp_path, "a.csv", "\n".join(rows))
    malformed = MalformedRows()
    pairs = texts(read_pairs(file, malformed=malformed))
    assert len(pairs) == len(rows) - 1
    assert pairs[-2:] == [("e", "f"), ("g", "h")]
    assert [(row.line, row.reason) for row in malformed.first] == [(4, "broken quoting")]


def test_the_usual_number_of_columns_is_what_most_rows_have(tmp_path: Path) -> None:
    file = write(tmp_path, "a.tsv", "stray\ttab\there\n" + "a\tb\n" * 5)
    assert reasons(file) == {1: "wrong number of columns"}
    # A third column, as of an attribution, is fine where all rows have it.
    third = write(tmp_path, "b.tsv", "a\tb\tCC-BY\n" * 3 + "a\tb\n")
    assert reasons(third) == {4: "wrong number of columns"}


def test_malformed_rows_are_counted_once_however_often_the_file_is_read(tmp_path: Path) -> None:
    file = write(tmp_path, "a.tsv", "a\tb\nbad\na\tb\n\tb\nbad\n")
    malformed = MalformedRows()
    next(read_pairs(file, malformed=malformed))  # a first look
    for _ in range(3):
        list(read_pairs(file, malformed=malformed))
    assert malformed.total == 3
    assert malformed.by_reason == {"wrong number of columns": 2, "empty source": 1}
    list(read_pairs(write(tmp_path, "b.tsv", "a\tb\nbad\n"), malformed=malformed))
    assert malformed.total == 4


def test_the_tally_keeps_the_first_and_counts_all() -> None:
    malformed = MalformedRows(keep=2)
    assert malformed.summary() == "No malformed rows."
    for line in range(1, 1001):
        malformed.record(MalformedRow(file="f", line=line, reason="even" if line % 2 == 0 else "odd", detail="d"))
    assert [row.line for row in malformed.first] == [1, 2]
    assert malformed.total == 1000
    assert malformed.by_reason == {"odd": 500, "even": 500}
    counts, _, examples = malformed.summary().partition(": ")
    assert counts == "1,000 malformed rows were left out (500 odd, 500 even)"
    assert examples == "f, line 1: odd (d); f, line 2: even (d) ..."


# --- files that cannot be used ----------------------------------------------------------------------------


def error(path, **options) -> str:
    with pytest.raises(InputError) as caught:
        list(read_pairs(path, **options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_missing_folder_empty_and_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"none\.tsv: no such file"):
        read_pairs(tmp_path / "none.tsv")  # by the call itself, before anything is read
    assert "is a folder" in error(tmp_path)
    for content in (b"", b"\n\n \r\n", b"\xef\xbb\xbf", gzip.compress(b"")):
        assert "is empty" in error(write(tmp_path, "a.tsv", content))

    def forbidden(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr("os.open", forbidden)
        assert "cannot be read (permission denied); check the path and its permissions" in error(tmp_path / "a.tsv")


def test_one_column_says_what_is_needed_and_what_was_found(tmp_path: Path) -> None:
    message = error(write(tmp_path, "a.tsv", "hello world\nbye\n"))
    assert "none of 2 rows is usable" in message
    assert "two tab-separated columns, source and target" in message
    assert "line 1: wrong number of columns (1 instead of 2: 'hello world')" in message
    assert "two comma-separated columns" in error(write(tmp_path, "a.csv", "a:b\nc:d\n"))
    assert "JSON object with texts under 'source'" in error(write(tmp_path, "a.json", '[\n{"source": 1}\n]'))
    assert "two tab-separated" in error(write(tmp_path, "b.tsv", "hello\n"), on_error="stop")


def test_a_wrong_format_is_given_up_without_reading_all(tmp_path: Path) -> None:
    file = write(tmp_path, "a.tsv", "one column\n" * 100_000)
    malformed = MalformedRows()
    assert "none of 1,000 rows read is usable" in error(file, malformed=malformed)
    assert malformed.total == 1000


@pytest.mark.parametrize(
    "content",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x10\0\0\0\x10\x08\x06\0\0\0",
        random.Random(0).randbytes(50_000),
        b"\x7fELF" + bytes(100_000),
        b"a\tb\0\n" * 10,
    ],
)
def test_a_binary_file_is_called_one(tmp_path: Path, content: bytes) -> None:
    assert "is a binary file" in error(write(tmp_path, "a.tsv", content))
    assert "is a binary file" in error(write(tmp_path, "a.tsv", gzip.compress(content)))


def test_archives_are_named(tmp_path: Path) -> None:
    assert "is a zip archive" in error(write(tmp_path, "a.tsv", b"PK\x03\x04" + bytes(100)))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"])
def test_another_encoding_is_named_with_the_remedy(tmp_path: Path, encoding: str) -> None:
    file = write(
        tmp_path,
        "my pairs.tsv",
        "Käse\tcheese\nBrot\tbread\r\nWürste\tsausages\nÄrger\ttrouble\n".encode(encoding),
    )
    message = error(file)
    assert "UTF-8 is needed" in message
    name = "LATIN1" if encoding in ("latin-1", "cp1252") else encoding.upper().replace("-LE", "LE").replace("-BE", "BE")
    assert f"iconv -f {name} -t UTF-8 '{file}'" in message


def test_one_pair_in_another_encoding_is_enough_to_say_so(tmp_path: Path) -> None:
    assert "iconv" in error(write(tmp_path, "a.tsv", "Käse\tcheese\n".encode("latin-1")))


def test_a_few_lines_in_another_encoding_are_rows_not_the_file(tmp_path: Path) -> None:
    content = "Käse\tcheese\n".encode() * 20 + "Käse\tcheese\n".encode("latin-1") * 4 + b"a\tb\n" * 20
    assert reasons(write(tmp_path, "a.tsv", content)) == dict.fromkeys(range(21, 25), "not UTF-8")


def test_broken_gzip_is_fatal_where_it_breaks(tmp_path: Path) -> None:
    generator = random.Random(1)
    lines = b"".join(b"%d\t%d\n" % (generator.getrandbits(60), generator.getrandbits(60)) for _ in range(60_000))
    packed = gzip.compress(lines)
    assert "gzip data ends too early" in error(write(tmp_path, "a.tsv.gz", packed[:20]))
    for content, says in (
        (packed[:-1000], "ends too early, in line"),
        (packed[:-8] + b"\0\0\0\0" + packed[-4:], "corrupt at line"),
        (packed[:700_000] + b"\xff" * 2000 + packed[702_000:], "corrupt at line"),
    ):
        file = write(tmp_path, "a.tsv.gz", content)
        before, caught = until_error(read_pairs(file))
        assert says in str(caught)
        assert len(before) > 30_000  # what came before the break was handed on


def test_header_faults(tmp_path: Path) -> None:
    file = write(tmp_path, "a.csv", "source,targte\na,b\n")
    assert "no column 'target' in the header; did you mean 'targte'?" in error(file, source="source", target="target")
    assert "has a header and no rows" in error(write(tmp_path, "b.csv", "a,b\n"), source="a", target="b")
    assert "no column 7" in error(file, source="source", target=7)
    assert "columns count from 0" in error(file, source=-1)
    assert "are keys here" in error(write(tmp_path, "a.jsonl", "{}"), source=0)


def test_unknown_choices_name_the_nearest(tmp_path: Path) -> None:
    file = write(tmp_path, "a.tsv", "a\tb\n")
    assert "did you mean 'jsonl'?" in error(file, format="jsonk")
    assert "did you mean 'stop'?" in error(file, on_error="stpo")


# --- the hub ----------------------------------------------------------------------------------------------


def fake_hub(monkeypatch: pytest.MonkeyPatch, load) -> list[tuple]:
    calls = []

    def load_dataset(*arguments, **options):
        calls.append((*arguments, options))
        return load()

    module = types.ModuleType("datasets")
    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    return calls


def test_a_hub_dataset_is_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"translation": {"en": "one", "fr": "un"}}, {"translation": {"en": "two"}}]
    calls = fake_hub(monkeypatch, lambda: iter(rows))
    malformed = MalformedRows()
    name = "hub:owner/name:en-fr@validation"
    pairs = list(read_pairs(name, source="translation.en", target="translation.fr", malformed=malformed))
    assert pairs == [Pair(source="one", target="un", file=name, line=1)]
    assert calls == [("owner/name", "en-fr", {"split": "validation", "streaming": True})]
    assert malformed.by_reason == {"missing key": 1}
    list(read_pairs("hub:owner/name", source="translation.en", target="translation.fr"))
    assert calls[1] == ("owner/name", None, {"split": "train", "streaming": True})
    assert "name others as source and target" in error("hub:owner/name")


def test_a_missing_library_and_no_network_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "pip install 'regard[hub]'" in error("hub:owner/name")

    def offline():
        raise ConnectionError("no route to host\nand much more")

    fake_hub(monkeypatch, offline)
    assert "cannot be opened (ConnectionError: no route to host); check the name" in error("hub:owner/name")

    def breaking():
        yield {"source": "a", "target": "b"}
        raise TimeoutError

    fake_hub(monkeypatch, breaking)
    assert "reading stopped at row 2 (TimeoutError)" in error("hub:owner/name")
