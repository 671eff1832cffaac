"""GPT's own tokenizer: transformers gives the same ids from the same files, and damaged files are refused."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.text import INPUT_TOKENS, Tokenizer

MERGES = [
    "t h",
    "th e</w>",
    "d o",
    "do g</w>",
    "c a",
    "ca f",
    "caf e</w>",
    "i n",
    "in g</w>",
    "u n",
    "b e",
    "be l",
    "1 9",
]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,'!-éжд東"
TEXTS = [
    "The dog's café: undoing THE unbelievable, 1990-1999!",
    "Zürich naïve café, 東京 Привет, 🙂🏽 x",
    "tabs\tand\n\nlines\r\n  many   spaces",
    "\x00\x01a\u200d b\u00a0c\u3000d \ufffd",
    "e\u0301 é ﬁ ½ Ⅳ ß İ ſ",
    "a" * 3_000,
    "undogs" * 400,
    "</w> the</w> <unk",
    "مرحبا हिन्दी 한국어",
    "",
    "  ",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A vocabulary like GPT's: letters, letters at the ends of words, and what the merges make."""
    place = tmp_path_factory.mktemp("gpt")
    pieces = [
        "<unk>",
        *LETTERS,
        *(f"{letter}</w>" for letter in LETTERS),
        *(merge.replace(" ", "") for merge in MERGES),
    ]
    ids = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    (place / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    (place / "merges.txt").write_text("\n".join(["#version: 0.2", *MERGES]) + "\n", encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def tokenizer(folder) -> Tokenizer:
    return Tokenizer.load(folder)


def test_words_are_lowered_and_their_last_pieces_marked(tokenizer):
    ids = tokenizer.encode("The dog, undoing")
    assert tokenizer.tokens(ids) == ["the</w>", "dog</w>", ",</w>", "un", "do", "ing</w>"]
    assert tokenizer.decode(ids) == "the dog , undoing"
    assert tokenizer.kind == "gpt"
    assert tokenizer.continues(ids).tolist() == [False, False, False, False, True, True]


def test_one_token_plays_every_part(tokenizer):
    parts = {tokenizer.padding_id, tokenizer.start_id, tokenizer.end_id, tokenizer.separator_id, tokenizer.unknown_id}
    assert parts == {0}
    assert tokenizer.encode("🙂") == [0]


def test_the_same_files_give_the_same_ids_in_transformers(folder, tokenizer):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.OpenAIGPTTokenizer.from_pretrained(folder)
    draw = random.Random(1)
    pool = [
        *map(chr, range(0x600)),
        *map(chr, range(0x2000, 0x2070)),
        *map(chr, range(0x1F600, 0x1F640)),
        *LETTERS * 20,
    ]
    drawn = ["".join(draw.choices(pool, k=60)) for _ in range(300)]
    for text in [*TEXTS, *drawn]:
        assert tokenizer.encode(text) == theirs(text)["input_ids"], text[:40]
    assert tokenizer.size == len(theirs)
    assert tokenizer.decode(tokenizer.encode(TEXTS[0])) == theirs.decode(
        theirs(TEXTS[0])["input_ids"], skip_special_tokens=True
    )


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_together_and_alone_and_with_spans_a_text_has_the_same_ids(tokenizer, text):
    ids, spans = tokenizer.encode_with_spans(text)
    assert ids == tokenizer.encode(text) == tokenizer.encode_batch(["the", text])[1]
    assert all(0 <= start <= end <= len(text) for start, end in spans)


def test_the_folder_the_files_and_the_tokenizer_json_are_the_same(folder, tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    assert Tokenizer.load(tmp_path) == Tokenizer.load(folder / "merges.txt") == tokenizer
    assert Tokenizer.load(tmp_path).kind == "gpt"


def test_a_long_text_is_read_in_parts_without_a_trace(tokenizer):
    text = "the dog's café, " * 5_000
    assert tokenizer.encode(text) == tokenizer.encode("the dog's café, ") * 5_000


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.json", '{"a</w>": 0, "b</w>": 1}', "has no <unk>"),
        ("vocab.json", '{"<unk>": 0, "b</w>": "x"}', "does not map pieces to ids"),
        ("merges.txt", "zz qq\n", "the merges do not fit the vocabulary"),
        ("merges.txt", "a\n", "merges.txt, line 1: is not a merge of two pieces"),
    ],
)
def test_damaged_files_are_refused_by_name(folder, tmp_path, name, content, message):
    for file in ("vocab.json", "merges.txt"):
        (tmp_path / file).write_bytes((folder / file).read_bytes())
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("kind", ["bert", "byte_bpe", "bpe", "unigram", "word", "character"])
def test_any_tokenizer_can_be_given_the_tokens_around_inputs(kind, tmp_path):
    plain = Tokenizer.train(["the dog barks at the cat"] * 3, kind=kind, size=300)
    found = plain.with_input_tokens()
    ids = [found.start_id, found.separator_id, found.end_id]
    assert tuple(found.tokens(ids)) == INPUT_TOKENS
    assert ids == [plain.size, plain.size + 1, plain.size + 2]
    assert (found.size, found.padding_id, found.unknown_id) == (plain.size + 3, plain.padding_id, plain.unknown_id)
    text = "the _start_ dog _delimiter_ _classify_"
    assert found.encode(text) == plain.encode(text), "no text spells them"
    assert found.with_input_tokens() is found
    found.save(tmp_path)
    assert Tokenizer.load(tmp_path) == found


def test_the_tokens_around_inputs_are_refused_where_a_piece_is_called_so():
    plain = Tokenizer.train(["a"], kind="word", size=20)
    layout = plain.layout
    layout["model"]["vocab"]["_start_"] = plain.size + 5
    with pytest.raises(InputError, match="cannot be given _start_"):
        Tokenizer.from_json(json.dumps(layout)).with_input_tokens()
