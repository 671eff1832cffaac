"""Byte-level BPE: every text comes back, transformers gives the same ids from the same files, and damaged files are refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.text import Tokenizer

TEXTS = [
    "The cat's pyjamas weren't there; they'd gone.",
    "  leading spaces, tabs\tand\n\nlines\r\n",
    "Zürich, naïve café, 東京, Привет, 🙂🏽 and 1,234.56 numbers",
    "aaaaaaaaaaaa   bbbb    12345678",
] * 5
ODD = [
    "",
    " ",
    "\n",
    "\x00\x01",
    "a\u0301",
    "🙂",
    "<|endoftext|>",
    " <|endoftext|> x",
    "don't I'll WE'VE",
    "\u3000",
    "  a  ",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, kind="byte_bpe", size=400)


@pytest.fixture
def folder(tokenizer, tmp_path):
    """The two files that GPT-2's tokenizer is told by."""
    model = tokenizer.layout["model"]
    vocabulary = model["vocab"] | {"<|endoftext|>": tokenizer.end_id}
    merges = [" ".join(pair) if isinstance(pair, list) else pair for pair in model["merges"]]
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n", encoding="utf-8")
    return tmp_path


def test_one_token_plays_every_part(tokenizer):
    ends = {tokenizer.end_id, tokenizer.start_id, tokenizer.padding_id}
    assert ends == {tokenizer.size - 1}
    assert tokenizer.tokens(list(ends)) == ["<|endoftext|>"]
    assert tokenizer.unknown_id is None
    assert tokenizer.kind == "byte_bpe"


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_comes_back(text):
    found = test_every_text_comes_back.tokenizer  # type: ignore[attr-defined]
    ids = found.encode(text)
    assert found.decode(ids) == text
    assert found.end_id not in ids


test_every_text_comes_back.tokenizer = Tokenizer.train(TEXTS, kind="byte_bpe", size=400)  # type: ignore[attr-defined]


def test_the_spelling_of_the_end_is_text(tokenizer):
    assert tokenizer.decode(tokenizer.encode("a <|endoftext|> b")) == "a <|endoftext|> b"


def test_the_same_files_give_the_same_ids_in_transformers(folder, tokenizer):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.GPT2TokenizerFast.from_pretrained(folder)
    ours = Tokenizer.load(folder)
    for text in [*TEXTS, *ODD]:
        if "<|endoftext|>" in text:
            continue  # they read the token, a text gives no orders here
        assert ours.encode(text) == tokenizer.encode(text) == theirs(text)["input_ids"]
    assert ours.size == tokenizer.size == len(theirs)


def test_half_a_character_is_no_error(tokenizer):
    """A piece may hold some of a character's bytes; alone they read as the sign for what is no text."""
    rare = tokenizer.encode("\u1234")
    assert len(rare) > 1
    assert "\ufffd" in tokenizer.decode(rare[:1])
    assert tokenizer.decode(rare) == "\u1234"


def test_the_folder_and_the_two_files_are_the_same_tokenizer(folder, tokenizer, tmp_path):
    tokenizer.save(tmp_path / "saved")
    saved = Tokenizer.load(tmp_path / "saved")
    assert saved == tokenizer
    for place in (folder, folder / "vocab.json", folder / "merges.txt"):
        assert [Tokenizer.load(place).encode(text) for text in TEXTS] == [saved.encode(text) for text in TEXTS]
    for new, old in (("encoder.json", "vocab.json"), ("vocab.bpe", "merges.txt")):
        (folder / old).rename(folder / new)
    assert Tokenizer.load(folder).encode(TEXTS[0]) == saved.encode(TEXTS[0])


def test_spans_point_into_the_text(tokenizer):
    text = "naïve café  x"
    for (start, end), token in zip(tokenizer.spans(text), tokenizer.encode(text), strict=True):
        assert 0 <= start <= end <= len(text)
        if text[start:end].isascii() and end > start:
            assert tokenizer.decode([token]) == text[start:end]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.json", "{", "is not JSON"),
        ("vocab.json", "[]", "does not map pieces to ids"),
        ("vocab.json", '{"a": "b"}', "does not map pieces to ids"),
        ("vocab.json", '{"a": 0, "b": 0, "<|endoftext|>": 1}', "several pieces have the id 0"),
        ("vocab.json", '{"a": 0, "b": 1}', "has no <|endoftext|>"),
        ("vocab.json", '{"a": 2147483648, "<|endoftext|>": 1}', "'a' has the id 2147483648"),
        ("vocab.json", '{"a": -1, "<|endoftext|>": 1}', "'a' has the id -1"),
        ("merges.txt", "#version: 0.2\na b c\n", "merges.txt, line 2: is not a merge of two pieces"),
        ("merges.txt", "zz qq\n", "the merges do not fit the vocabulary"),
    ],
)
def test_damaged_files_are_refused_by_name(folder, name, content, message):
    (folder / name).write_text(content)
    with pytest.raises(InputError, match=message.replace("|", r"\|")):
        Tokenizer.load(folder)


def test_merges_that_are_no_text_are_refused(folder):
    (folder / "merges.txt").write_bytes(b"\xff\xfe a\n")
    with pytest.raises(InputError, match=r"merges\.txt: is not UTF-8 text"):
        Tokenizer.load(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"size": 256}, "take 257"), ({"lowercase": True}, "keeps every byte"), ({"kind": "byte_bp"}, "byte_bpe")],
)
def test_what_cannot_be_trained_is_said(changes, message):
    with pytest.raises(InputError, match=message):
        Tokenizer.train(TEXTS, **({"kind": "byte_bpe", "size": 300} | changes))


def test_extra_tokens_stand_before_the_end():
    found = Tokenizer.train(TEXTS, kind="byte_bpe", size=300, extra_tokens=["<2de>"])
    assert found.id_of("<2de>") == found.end_id - 1
