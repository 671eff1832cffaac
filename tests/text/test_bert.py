"""BERT's tokenizer: its authors' rules on any text, a vocabulary learnt the same way twice, spans into the text as given."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import unicodedata

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.text import Tokenizer
from regard.text import spans as parts

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CORPUS = [
    "The dog barks, the dogs barked.",
    "Unaffable? affable! barking un-barked",
    "naïve Ärger 1990 東京 don't 👍",
] * 4
SOME = "abdestuäéßAÉİıПривет東京あ한 \t\n\r\x00\x07\u00ad\u200b\u200d\ufeff\ufffd\u0301\u0308.,-!?'\"#$[]<>_²ª😀👍🏽\u3000\u2028"
# Only characters that are as old as the library's tables of Unicode: newer ones are unassigned to it, and so no accents, say.
# Four were put into another category since.
RECLASSIFIED = "\u166d\u1734\u1885\u1886"
KNOWN = [
    character
    for character in map(chr, range(0x110000))
    if unicodedata.ucd_3_2_0.category(character) not in ("Cn", "Cs", "Co") and character not in RECLASSIFIED
]
anything = st.text(st.one_of(st.sampled_from(SOME), st.sampled_from(KNOWN)), max_size=40)


# --- reading ----------------------------------------------------------------------------------------------


def test_the_example_of_the_authors(uncased: Tokenizer) -> None:
    assert uncased.tokens(uncased.encode("Unaffable")) == ["un", "##aff", "##able"]
    assert uncased.tokens(uncased.encode("unwaffable\u4e2d")) != ["un", "##aff", "##able"]


@given(text=anything)
@settings(max_examples=250, deadline=None)
@pytest.mark.parametrize("lowercase", [True, False])
def test_any_text_is_read_by_the_rules_written_out(uncased, cased, written_out, lowercase: bool, text: str) -> None:
    tokenizer = uncased if lowercase else cased
    assert tokenizer.tokens(tokenizer.encode(text)) == written_out(text, lowercase)


@pytest.mark.parametrize("lowercase", [True, False])
def test_every_character_inside_a_word_is_read_by_the_rules_written_out(
    uncased, cased, written_out, lowercase: bool
) -> None:
    tokenizer = uncased if lowercase else cased
    # Of the many ideographs and syllables one in a hundred.
    some = [each for each in KNOWN if each < "\u3400" or "\uf900" <= each < "\U00020000" or ord(each) % 101 == 0]
    texts = [f"d{character}d" for character in some]
    for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        assert tokenizer.tokens(ids) == written_out(text, lowercase), ascii(text)


@given(text=anything)
@settings(max_examples=150, deadline=None)
@pytest.mark.parametrize("lowercase", [True, False])
def test_any_text_is_read_as_the_reference_reads_it(uncased, cased, reference, lowercase: bool, text: str) -> None:
    theirs = reference[lowercase](text, add_special_tokens=False, return_offsets_mapping=True)
    ours = (uncased if lowercase else cased).encode_with_spans(text)
    assert ours[0] == theirs["input_ids"]
    for (start, end), (their_start, their_end) in zip(ours[1], theirs["offset_mapping"], strict=True):
        assert start == their_start
        # Ours takes in the accents that are stripped, theirs leaves them between two tokens.
        assert all(unicodedata.category(each) == "Mn" for each in text[their_end:end])


@pytest.fixture(scope="module")
def reference(pieces, tmp_path_factory):
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("reference")
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    return {
        lowercase: transformers.BertTokenizer.from_pretrained(
            folder, do_lower_case=lowercase, split_special_tokens=True, local_files_only=True
        )
        for lowercase in (True, False)
    }


@given(text=anything)
@settings(max_examples=150, deadline=None)
def test_spans_point_at_the_text_of_each_piece(uncased, pieces, text: str) -> None:
    ids, spans = uncased.encode_with_spans(text)
    assert ids == uncased.encode(text)
    assert uncased.spans(text) == spans
    edges = [edge for span in spans for edge in span]
    assert edges == sorted(edges)
    for index, (start, end) in zip(ids, spans, strict=True):
        if index != uncased.unknown_id:
            shown = uncased.tokens([index])[0]
            shown = shown.removeprefix("##") if len(shown) > 2 else shown
            bare = unicodedata.normalize("NFD", text[start:end])
            kept = (c.lower() for c in bare if unicodedata.category(c)[0] != "C" and unicodedata.category(c) != "Mn")
            assert "".join(kept) in (shown, "i" if shown == "i" else shown)


def test_spans_after_accents_case_emoji_and_chinese(uncased: Tokenizer) -> None:
    text = "  Née e\u0301t\u00e9, 😀東京\u200b\x07 STÜ"
    found = [text[start:end] for start, end in uncased.spans(text)]
    assert "".join(found) == "Née" + "e\u0301t\u00e9" + "," + "😀" + "東京" + "STÜ"
    assert any("e\u0301" in each for each in found)


@given(first=anything, middle=st.sampled_from(["abd ", ".", "éa\n", "東", "\x00", " \u0301"]), times=st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_a_long_text_in_parts_is_read_as_in_one(uncased, first: str, middle: str, times: int) -> None:
    text = first + middle * times + first[::-1]
    whole = tokenizers.Tokenizer.from_str(uncased.to_json())
    whole.encode_special_tokens = True
    expected = whole.encode(text, add_special_tokens=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "LONGEST", 7)
        patch.setattr(parts, "AT_ONCE", 20)
        ids, spans = uncased.encode_with_spans(text)
        assert ids == uncased.encode(text) == expected.ids
    assert [start for start, _ in spans] == [start for start, _ in expected.offsets]
    assert spans == uncased.spans(text)


def test_a_long_line_and_a_long_word(uncased: Tokenizer) -> None:
    line = "the don the un. " * 40_000
    assert len(uncased.encode(line)) == len(uncased.encode("the don the un. ")) * 40_000
    word = "a" * 1_000_000
    assert uncased.encode_with_spans(f"un {word} don")[1] == [(0, 2), (3, 1_000_003), (1_000_004, 1_000_007)]
    assert uncased.encode(word) == [uncased.unknown_id]
    assert len(uncased.encode("a" * 100)) > 1
    assert uncased.encode("a" * 101) == [uncased.unknown_id]


def test_special_tokens_are_text_unless_they_are_asked_for(uncased: Tokenizer) -> None:
    specials = uncased.special_ids - {uncased.unknown_id}
    for text in ("[MASK]", "the [CLS] don", "[PAD][SEP]", "[UNK]"):
        assert specials.isdisjoint(uncased.encode(text))
    ids = uncased.encode_marked("The [MASK] don[MASK] [CLS]")
    the, don = (uncased.encode(word) for word in ("the", "don"))
    assert ids == [*the, uncased.mask_id, *don, uncased.mask_id, *uncased.encode("[CLS]")]
    assert uncased.encode_marked("[MASK]") == [uncased.mask_id]
    assert uncased.encode_marked("[mask]") == uncased.encode("[mask]")
    assert uncased.encode_marked("the [SEP]", marks=["[SEP]"]) == [*the, uncased.end_id]
    assert uncased.encode_marked("the [SEP]", marks=[]) == uncased.encode("the [SEP]")
    with pytest.raises(InputError, match=r"'\[X\]' is not a special token of this tokenizer; it has \[PAD\]"):
        uncased.encode_marked("a", marks=["[X]"])
    with pytest.raises(InputError, match="give a list of special tokens"):
        uncased.encode_marked("a", marks="[MASK]")


def test_roles(uncased: Tokenizer) -> None:
    assert uncased.tokens([uncased.padding_id, uncased.unknown_id, uncased.start_id, uncased.end_id]) == SPECIAL[:4]
    assert uncased.tokens([uncased.mask_id]) == ["[MASK]"]
    assert uncased.kind == "bert"
    assert uncased.extra_tokens == ()
    assert uncased.special_ids == {0, 1, 2, 3, 4}
    assert Tokenizer.train(["a dog"], kind="word", size=9).mask_id is None


def test_other_programs_add_the_special_tokens_and_segments(uncased: Tokenizer) -> None:
    theirs = tokenizers.Tokenizer.from_str(uncased.to_json())
    found = theirs.encode("the", "don the")
    assert found.tokens == ["[CLS]", "the", "[SEP]", "don", "the", "[SEP]"]
    assert found.type_ids == [0, 0, 0, 1, 1, 1]
    assert theirs.encode("the").tokens == ["[CLS]", "the", "[SEP]"]


# --- words ------------------------------------------------------------------------------------------------


def test_words_are_read_one_by_one(uncased: Tokenizer) -> None:
    words = ["Unaffable", "", "don't", "Unaffable", "\u200b", "a b"]
    found = uncased.encode_words(words)
    assert found == [uncased.encode(word) for word in words]
    found[0].append(7)  # the caller's own
    assert found[3] == uncased.encode("Unaffable")
    assert uncased.encode_words([]) == []
    for wrong in ("dog", [["a", "dog"]], [3]):
        with pytest.raises(InputError, match="takes a list of words"):
            uncased.encode_words(wrong)  # type: ignore[arg-type]


def test_pieces_that_go_on_with_a_word(uncased: Tokenizer) -> None:
    ids = [uncased.start_id, *uncased.encode("Unaffable don't affable #"), uncased.end_id]
    going_on = uncased.continues(ids)
    assert going_on.tolist() == [token.startswith("##") for token in uncased.tokens(ids)]
    assert going_on.sum() >= 2
    assert (uncased.continues([ids, ids]) == going_on).all()
    (inside,) = uncased.encode("unaffable")[1:2]
    # A window that begins inside a word has no piece to go on with; nor has one after a special token.
    assert uncased.continues([inside, inside, uncased.mask_id, inside]).tolist() == [False, True, False, False]
    assert uncased.continues([]).shape == (0,)
    for wrong in (-1, uncased.size):
        with pytest.raises(InputError, match=f"token id {wrong} is not in"):
            uncased.continues([1, wrong])


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "character"])
def test_pieces_of_other_kinds_that_go_on_with_a_word(kind: str) -> None:
    tokenizer = Tokenizer.train(CORPUS, kind=kind, size=90)
    text = "the dogs (barked) un-barked\n1990"
    ids, spans = tokenizer.encode_with_spans(text)
    before = ""
    for going_on, token, (start, _) in zip(tokenizer.continues(ids), tokenizer.tokens(ids), spans, strict=True):
        letters = text[max(0, start - 1) : start + 1]
        behind_a_mark = before == "▁" and text[start].isalnum()
        assert going_on == ((len(letters) == 2 and letters.isalnum()) or behind_a_mark)
        before = token


def test_byte_level_pieces_that_go_on_with_a_word() -> None:
    vocabulary = {"<|endoftext|>": 0, "the": 1, "Ġdog": 2, "s": 3, "Ċ": 4, "Ġ": 5, ".": 6}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    backend.decoder = tokenizers.decoders.ByteLevel()
    found = Tokenizer(backend).continues([1, 2, 3, 6, 3, 4, 3, 5, 3])
    assert found.tolist() == [False, False, True, False, False, False, False, False, True]


# --- learning ---------------------------------------------------------------------------------------------


def test_a_vocabulary_begins_as_the_released_ones() -> None:
    tokenizer = Tokenizer.train(CORPUS, kind="bert", size=200)
    pieces = tokenizer.tokens(range(tokenizer.size))
    assert pieces[:5] == SPECIAL
    letters = sorted({letter for text in CORPUS for letter in text if not letter.isspace()})
    assert pieces[5 : 5 + len(letters)] == letters
    assert pieces[5 + len(letters) : 5 + 2 * len(letters)] == ["##" + letter for letter in letters]
    learnt = pieces[5 + 2 * len(letters) :]
    assert all(len(piece.removeprefix("##")) > 1 for piece in learnt)
    assert "dog" in learnt
    assert len(pieces) <= 200
    assert tokenizer.unknown_id not in tokenizer.encode(" ".join(CORPUS))


def test_lower_case_drops_accents_too() -> None:
    tokenizer = Tokenizer.train(CORPUS, kind="bert", size=200, lowercase=True)
    assert tokenizer.encode("NAÏVE ärger") == tokenizer.encode("naive Arger")
    assert tokenizer.decode(tokenizer.encode("NAÏVE ärger")) == "naive arger"
    assert not any(character.isupper() for piece in tokenizer.tokens(range(5, tokenizer.size)) for character in piece)
    keeping = Tokenizer.train(CORPUS, kind="bert", size=200)
    assert keeping.decode(keeping.encode("naïve Ärger")) == "naïve Ärger"


def test_the_same_texts_give_the_same_vocabulary() -> None:
    lines = [f"{a}{b}{c} {c}{a}." for a in "abcäöü" for b in "ABCDEФЖ" for c in "xyz0189é"]
    assert len({Tokenizer.train(iter(lines), kind="bert", size=150).to_json() for _ in range(5)}) == 1
    program = (
        "from regard.text import Tokenizer; import hashlib\n"
        "lines = [f'{a}{b}ing {b}{a}ed.' for a in 'abcdefg' for b in 'hijklmnop']\n"
        "print(hashlib.sha256(Tokenizer.train(lines, kind='bert', size=90).to_json().encode()).hexdigest())\n"
    )
    runs = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(runs) == 1


def test_words_that_will_be_unknown_teach_nothing() -> None:
    plain = Tokenizer.train(["cab dab"] * 9, kind="bert", size=60)
    more = Tokenizer.train(["cab dab", "ab" * 60] * 9, kind="bert", size=60)
    assert more.tokens(range(more.size)) == plain.tokens(range(plain.size))
    huge = Tokenizer.train(["cab dab", "ab" * 200_000] * 2, kind="bert", size=60)
    assert huge.encode("ab" * 60) == [huge.unknown_id]


def test_rare_characters_make_room_where_they_take_more_than_half() -> None:
    rare = "".join(
        chr(code) for code in range(0x1200, 0x1240)
    )  # 64 Ethiopic letters, each once among 200,000 characters
    texts = ["abcdefgh " * 25_000, " ".join(f"g{letter}a" for letter in rare)]
    tokenizer = Tokenizer.train(texts, kind="bert", size=65)
    pieces = tokenizer.tokens(range(tokenizer.size))
    kept = [piece for piece in pieces[5:] if len(piece) == 1]
    assert len(kept) == (65 - 5) // 4
    assert set("abcdefgh") <= set(kept)
    assert kept[-1] < "\u1240"
    assert tokenizer.encode(f"g{rare[-1]}a") == [tokenizer.unknown_id]
    assert "ga" not in pieces  # a word is not learnt from with its unknown character left out
    all_of_them = Tokenizer.train(texts, kind="bert", size=400)
    assert all_of_them.unknown_id not in all_of_them.encode(texts[1])


def test_a_size_that_cannot_hold_the_alphabet_names_one_that_suffices() -> None:
    alphabet = "".join(chr(code) for code in range(0x3B1, 0x3C9)) * 2
    with pytest.raises(InputError, match="too small for kind 'bert'") as caught:
        Tokenizer.train([alphabet], kind="bert", size=10)
    needed = int(str(caught.value).split("alone take ")[1].split(";")[0])
    tokenizer = Tokenizer.train([alphabet], kind="bert", size=needed)
    assert tokenizer.unknown_id not in tokenizer.encode(alphabet[::-1])
    with pytest.raises(InputError, match="size 6 is too small: give at least 7"):
        Tokenizer.train(["dog"], kind="bert", size=6)


def test_what_is_no_text_is_refused_and_what_goes_wrong_comes_through() -> None:
    def texts():
        yield "dog"
        raise InputError("texts.txt, line 2: broken")

    for nothing in ([], [""], ["  ", "\n"]):
        with pytest.raises(InputError, match="no text"):
            Tokenizer.train(nothing, kind="bert", size=60)
    with pytest.raises(InputError, match=r"texts\.txt, line 2: broken"):
        Tokenizer.train(texts(), kind="bert", size=60)
    with pytest.raises(InputError, match="surrogate pair"):
        Tokenizer.train(["a", "\ud800"], kind="bert", size=60)
    tokenizer = Tokenizer.train(["\x00\x07", "a"], kind="bert", size=60)
    assert tokenizer.tokens(range(5, tokenizer.size)) == ["a", "##a"]


def test_half_a_surrogate_pair_is_placed_in_a_long_text(uncased: Tokenizer) -> None:
    for action in (uncased.encode, uncased.spans, uncased.encode_marked):
        with pytest.raises(InputError, match="surrogate pair at character 400000"):
            action("the " * 100_000 + "\ud800")
        with pytest.raises(TypeError, match="encodes strings, not int"):
            action(3)  # type: ignore[arg-type]


def test_extra_tokens_have_the_last_ids_and_no_text_spells_them(tmp_path) -> None:
    plain = Tokenizer.train(CORPUS, kind="bert", size=198)
    tokenizer = Tokenizer.train(CORPUS, kind="bert", size=200, extra_tokens=["<2de>", "<2fr>"])
    assert tokenizer.extra_tokens == ("<2de>", "<2fr>")
    assert tokenizer.tokens(range(tokenizer.size - 2)) == plain.tokens(range(plain.size))
    assert tokenizer.id_of("<2fr>") == tokenizer.size - 1
    assert tokenizer.special_ids.isdisjoint(set(tokenizer.encode("<2de>")) - {tokenizer.unknown_id})
    tokenizer.save(tmp_path)
    assert Tokenizer.load(tmp_path) == tokenizer
    with pytest.raises(InputError, match="exists already"):
        Tokenizer.train(CORPUS, kind="bert", size=200, extra_tokens=["<s>"])


def test_a_batch_is_its_texts_one_by_one(uncased: Tokenizer) -> None:
    texts = ["the don.", "", "é (12)", "жжж", "the " * 9_000]
    assert uncased.encode_batch(texts) == [uncased.encode(text) for text in texts]
    assert uncased.encode_batch_with_spans(texts) == [uncased.encode_with_spans(text) for text in texts]
    assert uncased.encode_batch([]) == []


def test_learnt_pieces_are_those_of_the_most_frequent_pairs() -> None:
    """WordPiece by its definition on words so short that every joining can be followed by hand."""
    tokenizer = Tokenizer.train(["ab ab ab ac ac cb"], kind="bert", size=13)
    learnt = tokenizer.tokens(range(11, tokenizer.size))
    assert learnt == ["ab", "ac"]  # pairs: a+##b three times, a+##c twice, c+##b once


def test_the_file_says_bert(uncased: Tokenizer) -> None:
    layout = json.loads(uncased.to_json())
    assert layout["model"]["max_input_chars_per_word"] == 100
    assert layout["normalizer"]["type"] == "BertNormalizer"
    assert [token["content"] for token in layout["added_tokens"]] == SPECIAL
    assert all(token["special"] for token in layout["added_tokens"])
    changed = layout | {"normalizer": {"type": "Lowercase"}}
    assert Tokenizer.from_json(json.dumps(changed)).kind == "wordpiece"
    assert list(itertools.islice(layout["model"]["vocab"], 5)) == SPECIAL
