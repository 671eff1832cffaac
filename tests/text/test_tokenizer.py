"""Every kind gives back what it was given, says where tokens stand, and lets no text play special token."""

from __future__ import annotations

import copy
import errno
import itertools
import json
import os
import pickle
import subprocess
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers

from regard.errors import InputError
from regard.text import Tokenizer
from regard.text.training import suited_kind

KINDS = ["bpe", "wordpiece", "unigram", "word", "character"]
SUBWORD = ["bpe", "wordpiece", "unigram"]
WORDS = ["the", "dog", "barks", "naïve", "Ärger", "12", "été", "don", "t"]
MARKS = [".", ",", "'", "(", ")", "-", "!", "<", ">", "/", "#", "€"]
SPACES = [" ", "  ", "\n", "\t", " \n "]
# Every piece of WORDS, MARKS and SPACES stands in this text, both after a space and not.
CORPUS = [
    " ".join(WORDS) + "\n" + "\n".join(WORDS) + " \n" + "(".join(WORDS),
    "The dog barks. The dogs (two) barked!  Twice.\ttab",
    *(f"{mark} a{mark}b {mark}" for mark in MARKS),
    *(f"a{space}b" for space in SPACES),
] * 3

texts = st.lists(st.sampled_from(WORDS + MARKS + SPACES), max_size=12).map("".join)
# Characters composed since a Unicode version that only one of the two sides knows would compare unequal.
any_text = st.text(st.characters(max_codepoint=0x2000, exclude_categories=("Cs", "Cn")), max_size=30)


@pytest.fixture(scope="module")
def trained() -> dict[str, Tokenizer]:
    return {kind: Tokenizer.train(CORPUS, kind=kind, size=400) for kind in KINDS}


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


# --- round trips ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "word"])
@given(text=texts)
@settings(max_examples=60, deadline=None)
def test_decoding_gives_the_text_back_exactly(trained: dict[str, Tokenizer], kind: str, text: str) -> None:
    tokenizer = trained[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.unknown_id not in ids
    assert tokenizer.decode(ids) == nfc(text)


@given(text=texts)
@settings(max_examples=60, deadline=None)
def test_words_give_the_text_back_where_all_are_known(trained: dict[str, Tokenizer], text: str) -> None:
    # Words run together ("dogthe") are other words, and not in the vocabulary.
    tokenizer = trained["word"]
    ids = tokenizer.encode(text)
    if tokenizer.unknown_id not in ids:
        assert tokenizer.decode(ids) == nfc(text)
    else:
        assert any(a.isalnum() and b.isalnum() for a, b in itertools.pairwise(text))


@given(text=any_text)
@settings(max_examples=80, deadline=None)
def test_a_vocabulary_trained_on_any_text_gives_it_back(text: str) -> None:
    if not text.strip():
        return
    for kind in ("character", "bpe", "unigram"):
        tokenizer = Tokenizer.train([text], kind=kind, size=300)
        assert tokenizer.decode(tokenizer.encode(text)) == nfc(text), kind


@pytest.mark.parametrize("kind", KINDS)
def test_punctuation_stands_alone_and_the_space_is_in_the_word(trained: dict[str, Tokenizer], kind: str) -> None:
    if kind == "character":
        assert trained[kind].tokens(trained[kind].encode("a b\n")) == ["a", " ", "b", "\n"]
        return
    tokenizer = Tokenizer.train(["the dog. the dog.", "a dog, the end"] * 9, kind=kind, size=100)
    tokens = tokenizer.tokens(tokenizer.encode("the dog."))
    if kind == "unigram":  # so little text has likelier pieces than its words
        assert "".join(tokens[:-1]) == "▁the▁dog"
        assert tokens[-1] == "."
    else:
        assert tokens == ["▁the", "▁dog", "."]


@pytest.mark.parametrize("kind", KINDS)
def test_leading_trailing_and_double_spaces_survive(trained: dict[str, Tokenizer], kind: str) -> None:
    for text in ["", " ", "  ", " dog", "dog ", "  the  dog  ", "\n", " \n dog"]:
        assert trained[kind].decode(trained[kind].encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_lower_case_is_learnt_and_kept_by_the_file(kind: str) -> None:
    tokenizer = Tokenizer.train(CORPUS, kind=kind, size=400, lowercase=True)
    assert tokenizer.encode("THE DOG") == tokenizer.encode("the dog")
    assert tokenizer.decode(tokenizer.encode("THE Ärger")) == "the ärger"
    assert Tokenizer.from_json(tokenizer.to_json()).encode("THE") == tokenizer.encode("the")


def test_wordpiece_marks_the_inside_of_words() -> None:
    tokenizer = Tokenizer.train(["playing playing plays plays"] * 5, kind="wordpiece", size=30)
    tokens = tokenizer.tokens(tokenizer.encode("plays pla"))
    assert tokens[0].startswith("▁")
    assert tokens[-1].startswith("##")
    assert tokenizer.decode(tokenizer.encode("plays pla")) == "plays pla"


def test_what_was_never_seen_is_unknown_and_leaves_the_rest() -> None:
    tokenizer = Tokenizer.train(["ab ba"], kind="character", size=20)
    assert tokenizer.encode("aжb") == [*tokenizer.encode("a"), tokenizer.unknown_id, *tokenizer.encode("b")]
    assert tokenizer.decode(tokenizer.encode("aжb")) == "ab"


def test_a_vocabulary_of_limited_size_keeps_the_most_frequent() -> None:
    characters = Tokenizer.train(["aaabbc"], kind="character", size=5)
    assert characters.tokens(range(characters.size)) == ["</s>", "<unk>", "a", "b", "<pad>"]
    words = Tokenizer.train(["a a a b b c"], kind="word", size=5)
    assert words.tokens(range(words.size)) == ["</s>", "<unk>", "▁a", "▁b", "<pad>"]


def test_a_very_long_word_is_no_burden() -> None:
    for kind in SUBWORD:
        tokenizer = Tokenizer.train(["ab" * 20_000], kind=kind, size=60)
        text = "ba" * 20_000
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_chinese_words_are_characters() -> None:
    tokenizer = Tokenizer.train(["中文字符"], kind="word", size=20)
    assert tokenizer.tokens(tokenizer.encode("中符字文")) == ["▁中", "符", "字", "文"]


# --- spans ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(text=texts)
@settings(max_examples=40, deadline=None)
def test_spans_cover_the_text_in_order(trained: dict[str, Tokenizer], kind: str, text: str) -> None:
    tokenizer = trained[kind]
    spans = tokenizer.spans(text)
    assert len(spans) == len(tokenizer.encode(text))
    assert "".join(text[start:end] for start, end in spans) == text
    assert [a for span in spans for a in span] == sorted(a for span in spans for a in span)


@pytest.mark.parametrize("kind", KINDS)
def test_spans_point_at_each_tokens_text(trained: dict[str, Tokenizer], kind: str) -> None:
    text = "the naïve  dog (Ärger)\n12."
    tokenizer = trained[kind]
    for token, (start, end) in zip(tokenizer.tokens(tokenizer.encode(text)), tokenizer.spans(text), strict=True):
        shown = token.removeprefix("##") if len(token) > 2 else token
        assert text[start:end].lstrip(" ") == shown.replace("▁", " ").lstrip(" ")


@pytest.mark.parametrize("kind", KINDS)
def test_spans_point_into_the_original_where_characters_are_composed(trained: dict[str, Tokenizer], kind: str) -> None:
    text = "e\u0301te\u0301 dog e\u0301"  # six letters become four
    tokenizer = trained[kind]
    ids, spans = tokenizer.encode(text), tokenizer.spans(text)
    assert "".join(text[start:end] for start, end in spans) == text
    for index, (start, end) in zip(ids, spans, strict=True):
        if index != tokenizer.unknown_id:
            assert nfc(text[start:end]).strip() == tokenizer.tokens([index])[0].removeprefix("##").strip("▁ ")


def test_the_mark_of_the_start_alone_points_nowhere() -> None:
    tokenizer = Tokenizer.train(["ab", "a b"], kind="unigram", size=8)
    text = "ba"
    tokens, spans = tokenizer.tokens(tokenizer.encode(text)), tokenizer.spans(text)
    assert tokens[0] == "▁"
    assert spans[:2] == [(0, 0), (0, 1)]


# --- special tokens ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", [False, True])
def test_the_spelling_of_a_special_token_is_plain_text(
    trained: dict[str, Tokenizer], tmp_path: Path, kind: str, stored: bool
) -> None:
    tokenizer = Tokenizer.train([*CORPUS, "<s> </s> <pad> <unk> <s></s>"] * 3, kind=kind, size=400)
    if stored:
        tokenizer.save(tmp_path)
        tokenizer = Tokenizer.load(tmp_path)
    specials = {tokenizer.padding_id, tokenizer.start_id, tokenizer.end_id, tokenizer.unknown_id}
    for text in ["<s>", "</s>", "a <pad> b", "<s>the</s>", "<unk>"]:
        ids = tokenizer.encode(text)
        assert specials.isdisjoint(ids), text
        assert tokenizer.decode(ids) == text
        assert tokenizer.encode_batch([text]) == [ids]


def test_a_loaded_vocabulary_that_finds_special_tokens_in_text_is_overruled() -> None:
    vocabulary = {"<pad>": 0, "</s>": 1, "<unk>": 2, "dog": 3}
    backend = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = Tokenizer(backend)
    assert tokenizer.encode("dog </s> <pad>") == [3, 2, 2]
    assert tokenizer.decode([3, 1, 0]) == "dog"


@pytest.mark.parametrize("kind", KINDS)
def test_padding_is_last_and_starts_and_special_tokens_are_not_decoded(
    trained: dict[str, Tokenizer], kind: str
) -> None:
    tokenizer = trained[kind]
    last = tokenizer.size - 1
    assert tokenizer.tokens([0, 1, last]) == ["</s>", "<unk>", "<pad>"]
    roles = (tokenizer.padding_id, tokenizer.start_id, tokenizer.end_id, tokenizer.unknown_id)
    assert roles == (last, last, 0, 1)
    assert tokenizer.special_ids == {0, 1, last}
    assert tokenizer.extra_tokens == ()
    ids = [last, *tokenizer.encode("the dog."), 0, last, last]
    assert tokenizer.decode(ids) == "the dog."
    assert tokenizer.kind == kind


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", [False, True])
def test_extra_tokens_have_one_id_each_and_no_text_spells_them(tmp_path: Path, kind: str, stored: bool) -> None:
    extra = ["<2de>", "<2fr>"]
    tokenizer = Tokenizer.train([*CORPUS, "<2de> <2de>a<2fr>"] * 3, kind=kind, size=200, extra_tokens=extra)
    assert tokenizer.size <= 200
    if stored:
        tokenizer.save(tmp_path)
        tokenizer = Tokenizer.load(tmp_path)
    ids = [tokenizer.id_of(token) for token in extra]
    assert ids == [tokenizer.size - 3, tokenizer.size - 2]
    assert tokenizer.extra_tokens == ("<2de>", "<2fr>")
    for text in ("<2de>", "a <2fr> b", "<2de><2fr>"):
        read = tokenizer.encode(text)
        assert set(ids).isdisjoint(read), text
        assert tokenizer.decode([ids[0], *read, ids[1]]) == tokenizer.decode(read)
    assert tokenizer.decode([ids[1], *tokenizer.encode("the dog.")]) == "the dog."
    assert tokenizer.tokens(ids) == extra


def test_extra_tokens_change_nothing_about_the_rest() -> None:
    plain = Tokenizer.train(CORPUS, kind="word", size=40)
    more = Tokenizer.train(CORPUS, kind="word", size=42, extra_tokens=["<a>", "<b>"])
    assert more.tokens(range(39)) == plain.tokens(range(39))
    assert (more.id_of("<a>"), more.id_of("<b>"), more.id_of("<pad>")) == (39, 40, 41)


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (["dog"], "'dog' is not of the form <name>"),
        (["<two words>"], "not of the form"),
        (["<>"], "not of the form"),
        (["<2de>", "<2de>"], "exists already"),
        (["</s>"], "exists already"),
        ("<2de>", "the one string"),
        ([3], "not of the form"),
    ],
)
def test_extra_tokens_that_text_could_spell_are_refused(extra, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Tokenizer.train(["a dog"], kind="word", size=20, extra_tokens=extra)


def test_a_special_token_that_is_not_there_is_named(trained: dict[str, Tokenizer]) -> None:
    for missing in ("<2de>", "▁the"):
        with pytest.raises(
            InputError, match=f"'{missing}' is not a special token of this tokenizer; it has </s>, <unk>, "
        ):
            trained["word"].id_of(missing)


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        (["[PAD]", "[UNK]", "[CLS]", "[SEP]"], (0, 2, 3, 1)),  # BERT
        (["<pad>", "</s>", "<unk>"], (0, 0, 1, 2)),  # T5 and Marian: a target starts with padding
        (["<|endoftext|>"], (0, 0, 0, None)),  # GPT-2: one for all
    ],
)
def test_roles_are_known_by_content(names: list[str], roles: tuple) -> None:
    vocabulary = {name: index for index, name in enumerate([*names, "dog"])}
    unknown = next((name for name in names if "unk" in name.lower()), "dog")
    backend = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    backend.add_special_tokens(names)
    tokenizer = Tokenizer(backend)
    assert (tokenizer.padding_id, tokenizer.start_id, tokenizer.end_id, tokenizer.unknown_id) == roles


# --- batches, threads, processes, equality ----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_its_texts_one_by_one(trained: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = trained[kind]
    batch = ["the dog.", "", "été (12)", "жжж"]
    assert tokenizer.encode_batch(batch) == [tokenizer.encode(text) for text in batch]
    assert tokenizer.encode_batch([]) == []


def test_copies_are_equal_and_other_vocabularies_are_not(trained: dict[str, Tokenizer]) -> None:
    tokenizer = trained["bpe"]
    for other in (pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer)):
        assert other == tokenizer
        assert hash(other) == hash(tokenizer)
        assert other.encode("<s> dog") == tokenizer.encode("<s> dog")
    assert trained["bpe"] != trained["unigram"]
    assert Tokenizer.train(["ab"], kind="character", size=9) != Tokenizer.train(["ac"], kind="character", size=9)
    assert tokenizer != "bpe"


def test_threads_may_share_one(trained: dict[str, Tokenizer]) -> None:
    tokenizer = trained["unigram"]
    lines = [f"the dog barks {number}" for number in range(200)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(tokenizer.encode, lines)) == [tokenizer.encode(line) for line in lines]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_text_gives_the_same_tokenizer(kind: str) -> None:
    # The library's hash tables are seeded anew for each training, so a hidden dependence shows here.
    lines = [f"{a}{b}{c} {c}{a}." for a in "abcäöü" for b in "ABCDEФЖ" for c in "xyz0189é"]
    trainings = {Tokenizer.train(iter(lines), kind=kind, size=150).to_json() for _ in range(5)}
    assert len(trainings) == 1


def test_another_process_learns_the_same() -> None:
    program = (
        "from regard.text import Tokenizer; import hashlib\n"
        "lines = [f'{a}{b}ing {b}{a}ed.' for a in 'abcdefg' for b in 'hijklmnop']\n"
        "for kind in ('bpe', 'wordpiece', 'unigram'):\n"
        "    t = Tokenizer.train(lines, kind=kind, size=90)\n"
        "    print(hashlib.sha256(t.to_json().encode()).hexdigest())\n"
    )
    runs = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(runs) == 1


# --- saving and loading -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_is_the_same(trained: dict[str, Tokenizer], tmp_path: Path, kind: str) -> None:
    tokenizer = trained[kind]
    tokenizer.save(tmp_path / "new" / "folder")
    assert [file.name for file in (tmp_path / "new" / "folder").iterdir()] == ["tokenizer.json"]
    for path in (tmp_path / "new" / "folder", str(tmp_path / "new" / "folder" / "tokenizer.json")):
        loaded = Tokenizer.load(path)
        assert loaded == tokenizer
        assert loaded.kind == kind
        assert loaded.encode("The naïve dog.") == tokenizer.encode("The naïve dog.")


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_opens_with_the_tokenizers_library(trained: dict[str, Tokenizer], tmp_path: Path, kind: str) -> None:
    trained[kind].save(tmp_path)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ids = trained[kind].encode("The naïve dog.")
    assert theirs.encode("The naïve dog.", add_special_tokens=False).ids == ids
    assert theirs.decode(ids) == "The naïve dog."


def test_the_file_opens_with_transformers(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    for kind in KINDS:
        trained[kind].save(tmp_path)
        theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
        ids = trained[kind].encode("The naïve dog.")
        assert theirs("The naïve dog.", add_special_tokens=False)["input_ids"] == ids
        assert theirs.decode(ids, clean_up_tokenization_spaces=False) == "The naïve dog."


def test_truncation_and_padding_in_a_file_are_put_aside(trained: dict[str, Tokenizer]) -> None:
    backend = tokenizers.Tokenizer.from_str(trained["bpe"].to_json())
    backend.enable_truncation(2)
    backend.enable_padding(length=50)
    assert Tokenizer(backend).encode("the dog barks (12)") == trained["bpe"].encode("the dog barks (12)")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda text: "", "is not JSON (it is empty)"),
        (lambda text: text[: len(text) // 2], "not JSON (Unterminated"),
        (lambda text: "dog", "not JSON"),
        (lambda text: "[1]", "no 'model'"),
        (lambda text: "{}", "no 'model'"),
        (lambda text: "[" * 100_000, "not JSON"),
        (lambda text: text.replace('"type": "BPE"', '"type": "Magic"'), "not a usable tokenizer"),
        (
            lambda text: _changed(text, lambda layout: layout["model"].update(vocab={}, merges=[])),
            "no vocabulary",
        ),
        (lambda text: _changed(text, _only_special), "no vocabulary"),
        (lambda text: text.replace("<pad>", "<mist>"), "no padding token"),
        (lambda text: text.replace("</s>", "<mist>"), "no end token"),
    ],
)
def test_a_damaged_file_is_one_sentence_naming_it(
    trained: dict[str, Tokenizer], tmp_path: Path, damage, says: str
) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(damage(trained["bpe"].to_json()), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        Tokenizer.load(tmp_path)
    assert str(caught.value).startswith(f"{file}: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def _changed(text: str, change) -> str:
    layout = json.loads(text)
    change(layout)
    return json.dumps(layout)


def _only_special(layout: dict) -> None:
    layout["model"].update(vocab={"</s>": 0, "<unk>": 1}, merges=[])


def test_a_missing_or_binary_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tokenizer\.json: no such file; give a folder"):
        Tokenizer.load(tmp_path)
    with pytest.raises(InputError, match="nowhere: no such file"):
        Tokenizer.load(tmp_path / "nowhere")
    (tmp_path / "tokenizer.json").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        Tokenizer.load(tmp_path)


def test_a_full_disk_leaves_the_previous_file(
    trained: dict[str, Tokenizer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained["word"].save(tmp_path)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="the disk is full"):
        trained["bpe"].save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]
    assert Tokenizer.load(tmp_path) == trained["word"]


# --- what the user may get wrong --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nothing", [[], [""], ["  ", "\n"]])
def test_no_text_is_an_error(kind: str, nothing: list[str]) -> None:
    with pytest.raises(InputError, match="no text"):
        Tokenizer.train(nothing, kind=kind, size=100)


@pytest.mark.parametrize("kind", KINDS)
def test_a_size_for_special_tokens_only_is_an_error(kind: str) -> None:
    with pytest.raises(InputError, match="size 3 is too small: give at least 4"):
        Tokenizer.train(["dog"], kind=kind, size=3)
    with pytest.raises(InputError, match="size 5 is too small: give at least 6"):
        Tokenizer.train(["dog"], kind=kind, size=5, extra_tokens=["<a>", "<b>"])


@pytest.mark.parametrize("kind", SUBWORD)
def test_a_size_below_the_alphabet_names_one_that_suffices(kind: str) -> None:
    alphabet = "".join(chr(code) for code in range(0x3B1, 0x3C9)) * 2
    with pytest.raises(InputError, match="too small for kind") as caught:
        Tokenizer.train([alphabet], kind=kind, size=10)
    needed = int(str(caught.value).split("alone take ")[1].split(";")[0])
    tokenizer = Tokenizer.train([alphabet], kind=kind, size=needed)
    assert tokenizer.decode(tokenizer.encode(alphabet[::-1])) == alphabet[::-1]


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'wordpiece'"):
        Tokenizer.train(["dog"], kind="wordpeice", size=100)


def test_one_string_is_not_several_texts() -> None:
    with pytest.raises(InputError, match="not one string"):
        Tokenizer.train("dog", kind="word", size=100)
    with pytest.raises(InputError, match="not int"):
        Tokenizer.train(["dog", 3], kind="bpe", size=100)  # type: ignore[list-item]


def test_an_error_in_the_texts_comes_through() -> None:
    def texts():
        yield "dog"
        raise InputError("pairs.tsv, line 2: broken")

    for kind in KINDS:
        with pytest.raises(InputError, match=r"pairs\.tsv, line 2: broken"):
            Tokenizer.train(texts(), kind=kind, size=100)


def test_half_a_surrogate_pair_is_named(trained: dict[str, Tokenizer]) -> None:
    for action in (trained["bpe"].encode, trained["bpe"].spans):
        with pytest.raises(InputError, match="surrogate pair at character 4"):
            action("the \ud800")
    with pytest.raises(InputError, match="surrogate pair"):
        Tokenizer.train(["a", "\ud800"], kind="word", size=100)


def test_an_id_beyond_the_vocabulary_is_named(trained: dict[str, Tokenizer]) -> None:
    tokenizer = trained["word"]
    for wrong in (tokenizer.size, -1):
        for action in (tokenizer.decode, tokenizer.tokens):
            with pytest.raises(InputError, match=f"token id {wrong} is not in"):
                action([4, wrong])


def test_the_callers_object_stays_his(trained: dict[str, Tokenizer]) -> None:
    backend = tokenizers.Tokenizer.from_str(trained["bpe"].to_json())
    tokenizer = Tokenizer(backend)
    backend.normalizer = normalizers.Lowercase()
    assert tokenizer == trained["bpe"]


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "word", "character"])
def test_sentinels_are_counted_down_from_the_last_id(tmp_path: Path, kind: str) -> None:
    tokenizer = Tokenizer.train([*CORPUS, "<extra_id_0> is text"] * 3, kind=kind, size=200, sentinels=3)
    last = tokenizer.size - 1
    assert tokenizer.sentinels == (last, last - 1, last - 2)
    assert tokenizer.tokens(tokenizer.sentinels) == ["<extra_id_0>", "<extra_id_1>", "<extra_id_2>"]
    assert tokenizer.tokens(range(3)) == ["<pad>", "</s>", "<unk>"]
    assert (tokenizer.padding_id, tokenizer.start_id, tokenizer.end_id, tokenizer.unknown_id) == (0, 0, 1, 2)
    tokenizer.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert loaded.sentinels == tokenizer.sentinels
    ids = loaded.encode("<extra_id_0> <pad> is text")
    assert not set(ids) & loaded.special_ids - {loaded.unknown_id}
    assert loaded.decode([0, *ids, last, 1]) == loaded.decode(ids)


def test_a_tokenizer_without_sentinels_says_so() -> None:
    assert Tokenizer.train(CORPUS, kind="word", size=60).sentinels == ()


@pytest.mark.parametrize(
    ("kind", "sentinels", "says"),
    [("bert", 2, "'bert'.*choose unigram"), ("byte_bpe", 1, "'byte_bpe'"), ("word", -1, "sentinels is -1")],
)
def test_sentinels_are_refused_where_there_can_be_none(kind: str, sentinels: int, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Tokenizer.train(CORPUS, kind=kind, size=500, sentinels=sentinels)


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("character", [str(number * 37) for number in range(50)]),
        ("character", [f"2017-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 28)]),
        (
            "character",
            ["Alma", "Bruno", "Chiara", "Dmitri", "Eszter", "Farid", "Greta", "Hiro", "Ines", "Jiří", "Kofi"],
        ),
        ("bpe", ["three hundred and twelve", "three thousand and two", "two hundred", "twelve thousand"] * 10),
        ("bpe", [f"{word} " * 60 for word in ("Alma", "Bruno", "Chiara")]),
        ("bpe", ["नमस्ते दुनिया", "नमस्ते भारत", "दुनिया भारत"] * 10),
        ("bpe", []),
    ],
)
def test_the_kind_that_suits_texts(kind, lines):
    assert suited_kind(lines)[0] == kind
