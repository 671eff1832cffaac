"""A vocab.txt is read like the tokenizer.json it says the same as; what is wrong with one is said in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.errors import InputError
from regard.text import Tokenizer, tokenizer_config

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [*SPECIAL, "un", "##aff", "##able", "e", "é", "東", "東京", ",", "##\u2028"]
CORPUS = ["The dog barks, the dogs barked.", "naïve Ärger 1990 東京 don't 👍 Unaffable"] * 4


@pytest.fixture
def folder(tmp_path: Path):
    """Writes a vocab.txt, and a tokenizer_config.json where keywords say what is in it."""

    def write(pieces: list[str], **config: object) -> Path:
        (tmp_path / "vocab.txt").write_bytes("".join(f"{piece}\n" for piece in pieces).encode())
        if config:
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        return tmp_path

    return write


def test_a_folder_and_a_file_are_read_alike(folder, tmp_path: Path) -> None:
    expected = Tokenizer.from_vocabulary(PIECES)
    for path in (folder(PIECES), str(tmp_path / "vocab.txt")):
        tokenizer = Tokenizer.load(path)
        assert tokenizer == expected
        assert tokenizer.tokens(range(tokenizer.size)) == PIECES
        assert tokenizer.tokens(tokenizer.encode("Unaffable")) == ["un", "##aff", "##able"]
    expected.save(tmp_path)
    assert (tmp_path / "vocab.txt").read_text(encoding="utf-8") == "".join(f"{piece}\n" for piece in PIECES)


@pytest.mark.parametrize(
    "change", [lambda b: b.replace(b"\n", b"\r\n"), lambda b: b"\xef\xbb\xbf" + b, lambda b: b[:-1]]
)
def test_line_ends_marks_and_a_last_line_without_an_end_are_taken_care_of(folder, tmp_path: Path, change) -> None:
    file = folder(PIECES) / "vocab.txt"
    file.write_bytes(change(file.read_bytes()))
    assert Tokenizer.load(tmp_path) == Tokenizer.from_vocabulary(PIECES)


def test_case_is_derived_from_the_vocabulary(folder) -> None:
    assert Tokenizer.load(folder(PIECES)).encode("É") == [PIECES.index("e")]
    with_case = [*PIECES, "Un"]
    assert Tokenizer.load(folder(with_case)).encode("é") == [PIECES.index("é")]
    # Reserved entries say nothing of case.
    assert Tokenizer.load(folder([*PIECES, "[unused1]", "<S>"])).encode("É") == [PIECES.index("e")]


def test_the_config_beside_it_decides(folder) -> None:
    (e, accented), unknown = (PIECES.index(piece) for piece in ("e", "é")), PIECES.index("[UNK]")
    assert Tokenizer.load(folder(PIECES, do_lower_case=False)).encode("É é") == [unknown, accented]
    assert Tokenizer.load(folder(PIECES, do_lower_case=True)).encode("É é") == [e, e]
    assert Tokenizer.load(folder(PIECES, do_lower_case=True, strip_accents=False)).encode("É é") == [accented, accented]
    assert Tokenizer.load(folder(PIECES, do_lower_case=False, strip_accents=True)).encode("é") == [e]
    chinese = Tokenizer.load(folder(PIECES, tokenize_chinese_chars=False))
    assert chinese.encode("東京") == [PIECES.index("東京")]
    assert Tokenizer.load(folder(PIECES, tokenize_chinese_chars=True)).encode("東京") == [PIECES.index("東"), unknown]
    assert Tokenizer.load(folder(PIECES, model_max_length=512)).encode("É") == [e]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        ("\n".join(PIECES[:3]).encode() + b"\n", r"has no \[SEP\]; it is truncated, or not a vocabulary"),
        ("\n".join([*SPECIAL[:1], *PIECES[5:]]).encode(), r"has no \[UNK\], \[CLS\], \[SEP\]"),
        ("\n".join(SPECIAL).encode() + b"\n", "no vocabulary besides its special tokens"),
        ("\n".join([*PIECES, "un"]).encode() + b"\n", r"lines 6 and 15 are both 'un'"),
        ("\n".join([*PIECES[:7], "", *PIECES[7:]]).encode() + b"\n", "line 8 is empty"),
        ("\n".join([*PIECES[:7], "a\0b"]).encode() + b"\n", "is damaged .it has a NUL in line 8."),
        ("\n".join(PIECES[:11]).encode()[:-1], "is truncated inside a character of line 11"),
        ("\n".join([*PIECES[:9], "ü"]).encode("latin-1"), "is not UTF-8 text in line 10"),
        ("\n".join(PIECES[:10]).encode("utf-16"), "is not UTF-8 text in line 1"),
    ],
)
def test_a_damaged_file_is_one_sentence_naming_it(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "vocab.txt"
    file.write_bytes(content)
    for path in (tmp_path, file):
        with pytest.raises(InputError, match=says) as caught:
            Tokenizer.load(path)
        assert str(caught.value).startswith(f"{file}: ")
        assert "\n" not in str(caught.value)


def test_a_last_line_that_breaks_off_is_told_by_the_model_beside_it(folder, tmp_path: Path) -> None:
    file = folder(PIECES) / "vocab.txt"
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": len(PIECES)}))
    Tokenizer.load(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])  # the end of the last line alone is missing
    Tokenizer.load(tmp_path)
    file.write_bytes("\n".join(PIECES[:8]).encode()[:-2])
    with pytest.raises(InputError, match=r"is truncated in line 8 \(config\.json has 14 tokens"):
        Tokenizer.load(tmp_path)
    # A model may have more rows than there are tokens.
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 64}))
    file.write_bytes(whole)
    assert Tokenizer.load(tmp_path).size == len(PIECES)


def test_a_missing_or_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"other\.txt: no such file; give a vocab\.txt"):
        Tokenizer.load(tmp_path / "other.txt")
    with pytest.raises(InputError, match=r"a tokenizer\.json or a vocab\.txt in it"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"do_lower_case": "yes"}, "do_lower_case is 'yes'; it must be true, false or null"),
        (
            {"tokenizer_class": "BertJapaneseTokenizer"},
            r"words are not split by white space and punctuation .BertJapaneseTokenizer.",
        ),
        ({"word_tokenizer_type": "mecab"}, "not split by white space"),
        ({"do_basic_tokenize": False}, "not split by white space"),
    ],
)
def test_a_config_that_cannot_be_followed_is_refused(folder, config: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Tokenizer.load(folder(PIECES, **config))


@pytest.mark.parametrize("text", ["", "{", "[1]", "[" * 100_000])
def test_a_damaged_config_is_named(folder, tmp_path: Path, text: str) -> None:
    folder(PIECES)
    (tmp_path / "tokenizer_config.json").write_text(text)
    with pytest.raises(InputError, match=r"tokenizer_config\.json: (is not JSON|holds a list, not a JSON object)"):
        Tokenizer.load(tmp_path)


def test_pieces_given_in_python_are_checked_too() -> None:
    with pytest.raises(InputError, match=r"the vocabulary: has no \[SEP\]"):
        Tokenizer.from_vocabulary(["[PAD]", "[UNK]", "[CLS]", "a"])
    with pytest.raises(InputError, match="the vocabulary: lines 6 and 7 are both 'a'"):
        Tokenizer.from_vocabulary([*SPECIAL, "a", "a"])
    without_mask = Tokenizer.from_vocabulary([*SPECIAL[:4], "a"])
    assert without_mask.mask_id is None
    assert without_mask.encode("a") == [4]


# --- saving, and other programs ---------------------------------------------------------------------------


def test_both_files_are_written_and_read_back(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(CORPUS, kind="bert", size=150)
    tokenizer.save(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["tokenizer.json", "vocab.txt"]
    assert Tokenizer.load(tmp_path) == tokenizer
    (tmp_path / "tokenizer.json").unlink()
    assert Tokenizer.load(tmp_path) == tokenizer
    Tokenizer.train(CORPUS, kind="bpe", size=150).save(tmp_path / "other")
    assert [file.name for file in (tmp_path / "other").iterdir()] == ["tokenizer.json"]


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("extra", [[], ["<2de>"]])
def test_the_folder_opens_with_transformers(tmp_path: Path, lowercase: bool, extra: list[str]) -> None:
    transformers = pytest.importorskip("transformers")
    ours = Tokenizer.train(CORPUS, kind="bert", size=150, lowercase=lowercase, extra_tokens=extra)
    ours.save(tmp_path)
    config = tokenizer_config(ours, maximum_length=64)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    for text in [*CORPUS[:2], "ÉTÉ naïve\x07 東京!", ""]:
        assert theirs(text)["input_ids"] == [ours.start_id, *ours.encode(text), ours.end_id]
    pair = theirs("the dog", "barks")
    first, second = ours.encode("the dog"), ours.encode("barks")
    assert pair["input_ids"] == [ours.start_id, *first, ours.end_id, *second, ours.end_id]
    assert pair["token_type_ids"] == [0] * (len(first) + 2) + [1] * (len(second) + 1)
    assert theirs("the [MASK]", add_special_tokens=False)["input_ids"] == ours.encode_marked("the [MASK]")
    assert (theirs.mask_token_id, theirs.pad_token_id, len(theirs)) == (ours.mask_id, ours.padding_id, ours.size)
    assert theirs.model_max_length == 64
    assert theirs.decode(ours.encode("the dogs")) == ours.decode(ours.encode("the dogs"))
    assert Tokenizer.load(tmp_path) == ours  # with the config beside it


def test_other_kinds_open_with_transformers_too(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    ours = Tokenizer.train(CORPUS, kind="bpe", size=90)
    ours.save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer_config(ours)))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    assert theirs(CORPUS[0], add_special_tokens=False)["input_ids"] == ours.encode(CORPUS[0])
    assert (theirs.pad_token_id, theirs.eos_token_id, theirs.mask_token_id) == (ours.padding_id, ours.end_id, None)


@pytest.mark.parametrize("kind", ["BertTokenizer", "PreTrainedTokenizerFast"])
def test_a_config_that_contradicts_the_tokenizer_is_believed_where_transformers_believes_it(
    tmp_path: Path, kind: str
) -> None:
    transformers = pytest.importorskip("transformers")
    Tokenizer.train([*CORPUS, "NAIVE arger"], kind="bert", size=150).save(tmp_path)
    roles = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    config = {"tokenizer_class": kind, "do_lower_case": True, **roles}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    text = "The Ärger, NAÏVE"
    assert Tokenizer.load(tmp_path).encode(text) == theirs(text, add_special_tokens=False)["input_ids"]
    lowered = Tokenizer.load(tmp_path).encode(text) == Tokenizer.load(tmp_path).encode("the arger, naive")
    assert lowered == (kind == "BertTokenizer")
