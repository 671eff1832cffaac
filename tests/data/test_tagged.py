"""Reading tagged sentences: columns of every kind, JSONL, what is malformed and how much of it is left out."""

from __future__ import annotations

import gzip
import json
import sys
import tracemalloc
import types
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.lines import LONGEST_LINE
from regard.data.malformed import MalformedRows
from regard.data.tagged import TaggedSentence, read_tagged
from regard.errors import InputError


def write(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def parts(sentences) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(sentence.words, sentence.tags) for sentence in sentences]


CONLL = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

-DOCSTART- -X- O O

Peter NNP I-NP I-PER
"""
READ = [(("EU", "rejects"), ("I-ORG", "O")), (("Peter",), ("I-PER",))]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("gap", [b" ", b"\t", b"  \t "])
def test_columns(tmp_path: Path, gap: bytes, ending: bytes, mark: bytes, packed: bool) -> None:
    text = CONLL.encode().replace(b" ", gap) if gap != b"  \t " else CONLL.encode().replace(b" ", b"  ")
    content = mark + text.replace(b"\n", ending)
    file = write(tmp_path, "a.conll", gzip.compress(content) if packed else content)
    assert list(read_tagged(file)) == [
        TaggedSentence(words=READ[0][0], tags=READ[0][1], file=str(file), line=3),
        TaggedSentence(words=READ[1][0], tags=READ[1][1], file=str(file), line=8),
    ]


def test_columns_by_number(tmp_path: Path) -> None:
    file = write(tmp_path, "a", CONLL)
    assert parts(read_tagged(file, tag=1))[1] == (("Peter",), ("NNP",))
    assert parts(read_tagged(file, word=1, tag=-2))[1] == (("NNP",), ("I-NP",))
    reversed_columns = write(tmp_path, "b", "O the\nB-A cat\n")
    assert parts(read_tagged(reversed_columns, word=1, tag=0)) == [(("the", "cat"), ("O", "B-A"))]


def test_words_with_spaces_where_tabs_part_the_columns(tmp_path: Path) -> None:
    # As in WNUT17: lines that hold nothing but a tab part the sentences too.
    file = write(tmp_path, "a", "New York\tB-location\nis\tO\n\t\nbig\u00a0one\tO \n")
    assert parts(read_tagged(file)) == [(("New York", "is"), ("B-location", "O")), (("big\u00a0one",), ("O",))]
    spaces = write(tmp_path, "b", "big\u00a0one \u2028 O\n")  # other white space parts nothing
    assert parts(read_tagged(spaces, tag=2)) == [(("big\u00a0one",), ("O",))]


def test_many_empty_lines_and_none_at_the_end(tmp_path: Path) -> None:
    file = write(tmp_path, "a", "\n\n\na O\n\n \n\nb O")
    assert [(sentence.words, sentence.line) for sentence in read_tagged(file)] == [(("a",), 4), (("b",), 8)]


def test_without_tags(tmp_path: Path) -> None:
    file = write(tmp_path, "a", "one\ntwo\n\nthree\n")
    assert parts(read_tagged(file, tagged=False)) == [(("one", "two"), ()), (("three",), ())]
    assert parts(read_tagged(write(tmp_path, "b", CONLL), tagged=False))[1] == (("Peter",), ())
    with pytest.raises(InputError, match="each line needs a word and its tag"):
        list(read_tagged(file))


def test_several_files(tmp_path: Path) -> None:
    one, two = write(tmp_path, "a", CONLL), write(tmp_path, "b.jsonl", '{"words": ["x"], "tags": ["O"]}')
    assert parts(read_tagged([one, two])) == [*READ, (("x",), ("O",))]


def test_jsonl(tmp_path: Path) -> None:
    rows = [{"words": ["New York", "is"], "tags": ["B-A", "O"]}, {"tokens": ["x"], "labels": [3]}]
    file = write(tmp_path, "a.txt", "\n".join(map(json.dumps, rows)))
    assert parts(read_tagged(file)) == [(("New York", "is"), ("B-A", "O")), (("x",), ("3",))]
    named = write(tmp_path, "b", '{"a": {"w": ["x"]}, "ner": ["O"]}')
    assert parts(read_tagged(named, word="a.w", tag="ner")) == [(("x",), ("O",))]
    assert parts(read_tagged(named, word="a.w", tagged=False)) == [(("x",), ())]


def test_a_hub_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = types.ModuleType("datasets")
    rows = [{"tokens": ["a", "b"], "ner_tags": [0, 3]}, {"tokens": ["c"], "ner_tags": []}]
    hub.load_dataset = lambda *arguments, **options: rows  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", hub)
    assert parts(read_tagged("hub:someone/ner", tag="ner_tags")) == [(("a", "b"), ("0", "3"))]


word = st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=6).filter(
    lambda text: "\ufeff" not in text and not text.startswith(("{", "-DOC")) and not text.isspace()
)


@given(
    data=st.lists(
        st.lists(st.tuples(word, st.sampled_from(["O", "B-A"])), min_size=1, max_size=4), min_size=1, max_size=4
    )
)
@settings(max_examples=60, deadline=None)
def test_what_was_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, data) -> None:
    text = "\n".join("".join(f"{word} {tag}\n" for word, tag in sentence) for sentence in data)
    file = write(tmp_path_factory.mktemp("tagged"), "a", text)
    wanted = [tuple(zip(*sentence, strict=True)) for sentence in data]
    assert parts(read_tagged(file, on_error="stop")) == wanted


BAD_COLUMNS = [
    (b"alone", "wrong number of columns"),
    (b"a b O", "wrong number of columns"),
    (b"caf\xe9 O", "not UTF-8"),
    (b"a\0 O", "NUL character"),
    (b"x" * (LONGEST_LINE + 1) + b" O", "line too long"),
    (b"\xc2\xa0 O", "empty word"),
]


@pytest.mark.parametrize(("line", "reason"), BAD_COLUMNS, ids=[reason for _, reason in BAD_COLUMNS])
def test_a_malformed_line_costs_its_own_sentence_only(tmp_path: Path, line: bytes, reason: str) -> None:
    file = write(tmp_path, "a", b"a O\nb O\n\nc O\n" + line + b"\nd O\nworse\n\ne O\n" + b"f O\n" * 20)
    malformed = MalformedRows()
    sentences = list(read_tagged(file, malformed=malformed))
    assert [sentence.words[0] for sentence in sentences] == ["a", "e"]
    assert [(row.line, row.reason) for row in malformed.first] == [(5, reason)]
    with pytest.raises(InputError, match=f"line 5: {reason}"):
        list(read_tagged(file, on_error="stop"))


BAD_OBJECTS = [
    ({"words": ["a", "b"], "tags": ["O"]}, "tags do not fit the words"),
    ({"words": [], "tags": []}, "no words"),
    ({"words": "a b", "tags": ["O"]}, "not a list of words"),
    ({"words": ["a", 3], "tags": ["O", "O"]}, "not a text"),
    ({"words": ["a", ""], "tags": ["O", "O"]}, "empty word"),
    ({"words": ["a\0"], "tags": ["O"]}, "NUL character"),
    ({"words": ["a"], "tags": [None]}, "not a text"),
    ({"words": ["a"], "tags": [True]}, "not a text"),
    ({"words": ["a"]}, "missing key"),
]


@pytest.mark.parametrize(("row", "reason"), BAD_OBJECTS)
def test_a_malformed_object_is_recorded_and_the_others_read(tmp_path: Path, row: dict, reason: str) -> None:
    good = '{"words": ["a"], "tags": ["O"]}'
    file = write(tmp_path, "a.jsonl", "\n".join([good, json.dumps(row), good]))
    malformed = MalformedRows()
    assert len(list(read_tagged(file, malformed=malformed))) == 2
    assert [(row.line, row.reason) for row in malformed.first] == [(2, reason)]


def test_tags_that_were_not_seen_in_training(tmp_path: Path) -> None:
    file = write(tmp_path, "a", "a O\nb B-PER\n\nc O\nd B-LOC\n")
    malformed = MalformedRows()
    assert parts(read_tagged(file, tags=["O", "B-PER"], malformed=malformed)) == [(("a", "b"), ("O", "B-PER"))]
    assert str(malformed.first[0]).endswith("line 4: unknown tag ('B-LOC')")


def test_a_file_without_empty_lines_is_no_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.tagged.LONGEST_SENTENCE", 50)
    file = write(tmp_path, "a", "a O\n" * 51 + "\nb O\n")
    malformed = MalformedRows()
    assert parts(read_tagged(file, malformed=malformed)) == [(("b",), ("O",))]
    assert malformed.by_reason == {"sentence too long": 1}
    assert len(list(read_tagged(write(tmp_path, "b", "a O\n" * 50)))) == 1


def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    file = write(tmp_path, "a.gz", gzip.compress((b"word" * 150 + b" O\nis O\n\n") * 12_000, 1))  # 7 MB of text
    tracemalloc.start()
    count = sum(1 for _ in read_tagged(file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 12_000
    assert peak < 3e6


def error(path, **options) -> str:
    with pytest.raises(InputError) as caught:
        list(read_tagged(path, **options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    assert "no such file" in error(tmp_path / "none")
    assert "is a folder" in error(tmp_path)
    assert "is empty" in error(write(tmp_path, "a", "\n\n"))
    assert "iconv -f UTF-16" in error(write(tmp_path, "b", CONLL.encode("utf-16")))
    assert "is a binary file" in error(write(tmp_path, "c", bytes(range(256)) * 100))
    assert "ends too early" in error(write(tmp_path, "d", gzip.compress(CONLL.encode() * 500)[:-30]))
    assert "none of 1 row is usable; each line needs a word and its tag" in error(
        write(tmp_path, "e", "only words here\n" * 1 + "a\n")
    )
    assert "no file" in error([])
    assert "did you mean 'columns'" in error(tmp_path / "x", format="column")
    assert "numbers of columns" in error(write(tmp_path, "f", CONLL), word="words")
    assert "are keys here" in error(write(tmp_path, "g", '{"words": ["a"], "tags": ["O"]}'), tag=-1)
