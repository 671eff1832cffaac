"""A T5 folder's tokenizer read by us and by `transformers`: the same ids of any text, and the sentinels where they belong."""

from __future__ import annotations

import base64
import json
import random
import zlib
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.errors import InputError
from regard.text import Tokenizer

transformers = pytest.importorskip("transformers")

# SentencePiece's compiled form of these rules: the ligature fi to two letters; one half to 1, a fraction slash and 2; full-width
# a, b, c, 1 and 2 to plain ones; e and a combining acute to one letter; no-break, zero-width and ideographic spaces, tabs and
# ends of lines to a space; bell and byte-order mark to nothing.
RULES = (
    "c-j@ycT5yP7{=juSB*g>#u$zNsArEohZ=kDz4wX=g1z^03#cffg4o;HImM3M6BS~`j=e*ovG-nov&oZp_RD5wHuH_LODZJg43v317Sd(Q36Q)6"
    "q=LNXfX8Jkrj!&|Ov+W4LLOV5YEpn(a`+%WrIdzJHZrcTl$&HqPdxKPGEW2?zV)}2@>0)-qAXYhNolrRWC;`p%cvyEpft)N(I=HB%b_AFpfW1q"
    "c!n*1qOB^7gTS^_71ePp%vMdZ25O@g*uLtZKI(yOs{tCL5t^b2nxh$7q6J!`75D|UL3^}AM|41EbV65jL3eaRPxL@<^g>_sL4Wi^Fa}@{LXvES"
    "kb^M<p$JD9hG8g1U^qr$B*tJg#$hZbU_2&aBBo$6reP{(U^-@DCLD9{h(rWtBMNgd2lEh(7|cg37GMz;A`XkO1o2pk1T4ogti%ee#wx7E8mz}U"
    "Y=9S=un}9Z8QZWGK6C!qf$i97dIr0(3wyB#`>_uPkc>k(h$A>`dI3k_H$8(CoWLoZL@G`j(U#K4vp9qEIERb4fJ;cn6<o$OT*VDs$4zA5Hg4fA"
    "?%+P|;UOO2F&^P5o*)aEMzW<WuchaVpWy}GC0KezzQh~6HZ{D(2fW88e8d-g#y5P$4}8Zj{KOyp#y|Wux85bU+?h^P5Z5PI18Kz2aHab6AHG7J"
    "#{"
)
LINES = [
    "The model reads a text and writes a text, whatever the task is.",
    "translate English to German: That is good.",
    "Größe ändern für Bücher und Straßen, déjà vu à Noël",
    "приветствие мир и дружба, こんにちは 世界 東京",
    "summarize: 12 of 1999 e-mails & more!",
] * 8
TEXTS = [
    "",
    "the text of a model",
    "  spaces   all  over ",
    "emoji 😀👩\u200d👩\u200d👧 here",
    "control\x00\x07 characters\u200b of width 0",
    "Größe für Bücher, \ufb01ne ½ \uff41\uff42\uff43 \uff11\uff12",
    "e\u0301te\u0301, a\u00a0b, a\u2028b\u3000c",
    "こんにちは 世界 привет العربية हिन्दी ไทย",
    "tab\tand\r\nline",
    "▁mark and \ufeff",
    "<b>x</b> & \ue000",
    "x" * 300,
]
SENTINELS = 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder as `transformers` leaves one: `<pad>`, `</s>` and `<unk>` first, then pieces, then the sentinels, counted down."""
    pieces = tokenizers.Tokenizer(models.Unigram())
    pieces.normalizer = normalizers.Precompiled(zlib.decompress(base64.b85decode(RULES)))
    pieces.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    special = ["<pad>", "</s>", "<unk>"]
    pieces.train_from_iterator(
        LINES, trainers.UnigramTrainer(vocab_size=220, special_tokens=special, unk_token="<unk>", show_progress=False)
    )
    learnt = [(piece, score) for piece, score in json.loads(pieces.to_str())["model"]["vocab"]]
    sentinels = [f"<extra_id_{number}>" for number in reversed(range(SENTINELS))]
    whole = tokenizers.Tokenizer(models.Unigram([*learnt, *((name, 0.0) for name in sentinels)], 2, False))
    whole.normalizer, whole.pre_tokenizer = pieces.normalizer, pieces.pre_tokenizer
    whole.decoder = decoders.Metaspace(prepend_scheme="always")
    whole.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    whole.add_special_tokens([*special, *sentinels])
    place = tmp_path_factory.mktemp("t5")
    whole.save(str(place / "tokenizer.json"))
    told = {"tokenizer_class": "T5Tokenizer", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    told |= {"extra_ids": SENTINELS, "additional_special_tokens": sentinels[::-1]}
    (place / "tokenizer_config.json").write_text(json.dumps(told))
    (place / "config.json").write_text(json.dumps({"model_type": "t5"}))
    return place


@pytest.fixture(scope="module")
def theirs(folder) -> Any:
    found = transformers.AutoTokenizer.from_pretrained(folder)
    assert type(found).__name__ == "T5Tokenizer"
    return found


def test_ids_and_texts_are_theirs(folder, theirs):
    ours = Tokenizer.load(folder)
    draw = random.Random(3)
    letters = "".join(TEXTS) + "".join(map(chr, range(1, 0x250)))
    drawn = ["".join(draw.choice(letters) for _ in range(draw.randint(1, 40))) for _ in range(400)]
    for text in [*TEXTS, *LINES[:5], *drawn]:
        ids = ours.encode(text)
        assert [*ids, ours.end_id] == theirs(text).input_ids, text
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True), text


def test_roles_and_sentinels_are_theirs(folder, theirs):
    ours = Tokenizer.load(folder)
    assert ours.size == len(theirs)
    assert (ours.padding_id, ours.start_id, ours.end_id, ours.unknown_id) == (0, 0, 1, 2)
    assert (ours.kind, ours.adds_end) == ("unigram", True)
    assert ours.sentinels == tuple(theirs.convert_tokens_to_ids(f"<extra_id_{number}>") for number in range(SENTINELS))
    assert ours.sentinels[:2] == (ours.size - 1, ours.size - 2)


def test_sentinels_in_a_text_are_read_where_they_are_asked_for(folder, theirs):
    ours = Tokenizer.load(folder)
    text = "The <extra_id_0> reads a text<extra_id_1>, and <extra_id_2> ."
    ids = ours.encode_marked(text, ours.tokens(ours.sentinels))
    assert [*ids, ours.end_id] == theirs(text).input_ids
    assert not set(ours.encode(text)) & set(ours.sentinels)


def test_it_is_saved_as_it_was(folder, tmp_path):
    ours = Tokenizer.load(folder)
    ours.save(tmp_path)
    assert Tokenizer.load(tmp_path) == ours


def test_a_folder_of_sentencepiece_alone_says_what_to_do(tmp_path):
    (tmp_path / "spiece.model").write_bytes(b"")
    with pytest.raises(
        InputError,
        match=r"tokenizer\.json: no such file; spiece\.model in its folder is a SentencePiece model.*AutoTok",
    ):
        Tokenizer.load(tmp_path)
