"""Tokenizers as folders of Llama's type and of GPT-NeoX have them, beside transformers, and what such a folder does in use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers

import regard
from regard.generation import GenerationSettings
from regard.text import Tokenizer

transformers = pytest.importorskip("transformers")

TEXTS = ["The quick brown fox, it's 1234567 years old!\n\n  def f(x):\n\treturn x", "naïve café — 日本語 🙂 ok"] * 20
SPLITS = {
    # By letters, by up to three digits, by marks and by white space, as the decoders of 2024 do it.
    "digits by three": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "digits one by one": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
}


def bytes_split_by(
    pattern: str, special: list[str], *, begins: str = "", composed: bool = False
) -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.BPE(ignore_merges=bool(begins)))
    if composed:
        made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(
        TEXTS,
        trainers.BpeTrainer(vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False),
    )
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    if begins:
        made.post_processor = processors.TemplateProcessing(
            single=f"{begins} $A",
            pair=f"{begins} $A {begins}:1 $B:1",
            special_tokens=[(begins, made.token_to_id(begins))],
        )
    return made


def pieces_with_bytes() -> tokenizers.Tokenizer:
    """SentencePiece's BPE as Llama 2 has it: spaces as marks, and bytes for what it does not know."""
    special = ["<unk>", "<s>", "</s>"]
    made = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.train_from_iterator(
        [text.encode("ascii", "ignore").decode() for text in TEXTS],
        trainers.BpeTrainer(
            vocab_size=500,
            special_tokens=[*special, *(f"<0x{byte:02X}>" for byte in range(256))],
            show_progress=False,
        ),
    )
    layout = json.loads(made.to_str())
    layout["added_tokens"] = [each for each in layout["added_tokens"] if each["content"] in special]
    made = tokenizers.Tokenizer.from_str(json.dumps(layout))
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", made.token_to_id("<s>"))]
    )
    return made


def bytes_and_runs_of_spaces() -> tokenizers.Tokenizer:
    """GPT-NeoX's: bytes split as GPT-2's, composed, and tokens for 2 to 24 spaces that are no special ones."""
    made = tokenizers.Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.post_processor = processors.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(
        TEXTS,
        trainers.BpeTrainer(
            vocab_size=400,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            special_tokens=["<|endoftext|>", "<|padding|>"],
            show_progress=False,
        ),
    )
    made.add_tokens([AddedToken(" " * count, normalized=True) for count in range(24, 1, -1)])
    return made


MADE: dict[str, tuple[Callable[[], tokenizers.Tokenizer], dict[str, Any]]] = {
    "llama 3": (
        lambda: bytes_split_by(
            SPLITS["digits by three"],
            ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"],
            begins="<|begin_of_text|>",
        ),
        {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
    ),
    "llama 2": (pieces_with_bytes, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}),
    "qwen": (
        lambda: bytes_split_by(
            SPLITS["digits one by one"], ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], composed=True
        ),
        {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
    ),
    "smollm": (
        lambda: bytes_split_by(SPLITS["digits one by one"], ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]),
        {
            "bos_token": {"__type": "AddedToken", "content": "<|im_start|>"},
            "eos_token": "<|im_end|>",
            "pad_token": "<|im_end|>",
        },
    ),
    "gpt-neox": (
        bytes_and_runs_of_spaces,
        {"tokenizer_class": "GPTNeoXTokenizer", **dict.fromkeys(("bos_token", "eos_token"), "<|endoftext|>")},
    ),
}
every_kind = pytest.mark.parametrize("kind", MADE)


def folder_of(kind: str, folder: Path, **changes: Any) -> Path:
    """As transformers writes one: a tiny model, the tokenizer, and which tokens play which part."""
    make, named = MADE[kind]
    made = make()
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 64, **named})
    )
    ends = named["eos_token"]
    sizes = {
        "vocab_size": made.get_vocab_size(),
        "hidden_size": 12,
        "num_attention_heads": 3,
        "intermediate_size": 9,
        "num_hidden_layers": 2,
        "max_position_embeddings": 64,
        "eos_token_id": made.token_to_id(ends),
        "bos_token_id": None,
        "initializer_range": 0.5,
    }
    torch.manual_seed(3)
    kind_of, own = ("GPTNeoX", {"rotary_pct": 0.5}) if kind == "gpt-neox" else ("Llama", {"num_key_value_heads": 1})
    config = getattr(transformers, f"{kind_of}Config")(**(sizes | own | changes))
    getattr(transformers, f"{kind_of}ForCausalLM")(config).save_pretrained(folder)
    return folder


@every_kind
def test_texts_have_the_ids_that_theirs_have(kind, nasty, tmp_path):
    folder = folder_of(kind, tmp_path)
    ours, theirs = Tokenizer.load(folder), transformers.AutoTokenizer.from_pretrained(folder)
    texts = nasty(500)
    expected = theirs(texts, add_special_tokens=False)["input_ids"]
    assert [ours.encode(text) for text in texts[:50]] == expected[:50]
    assert ours.encode_batch(texts) == expected
    for ids, text in zip(expected, texts, strict=True):
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False), (
            text
        )


@every_kind
def test_special_tokens_play_the_parts_that_the_folder_names(kind, tmp_path):
    folder = folder_of(kind, tmp_path)
    ours, theirs = Tokenizer.load(folder), transformers.AutoTokenizer.from_pretrained(folder)
    assert ours.end_id == theirs.eos_token_id
    # GPTNeoXTokenizer has a padding token that its files need not name; padding is masked, so the end does as well.
    named = "pad_token" in MADE[kind][1]
    assert ours.padding_id == (theirs.pad_token_id if named else theirs.eos_token_id)
    if theirs.bos_token_id is not None:
        assert ours.start_id == theirs.bos_token_id
    assert list(ours.added_before) == theirs("a")["input_ids"][: -len(ours.encode("a"))]


@every_kind
def test_a_folder_writes_on_as_theirs_does_and_is_written_back(kind, tmp_path):
    folder = folder_of(kind, tmp_path)
    model = regard.load(folder)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    read = tokenizer("The quick", return_tensors="pt")
    written = theirs.generate(**read, max_new_tokens=8, do_sample=False, pad_token_id=0)[
        0, read["input_ids"].shape[1] :
    ]
    found = model.generate("The quick", GenerationSettings(maximum_length=8))
    ends = tokenizer.eos_token_id
    kept = written.tolist()
    kept = kept[: kept.index(ends)] if ends in kept else kept
    assert found.text == tokenizer.decode(kept, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    model.save(tmp_path / "again")
    again = regard.load(tmp_path / "again")
    assert again.task.tokenizer == model.task.tokenizer
    assert again.generate("The quick", GenerationSettings(maximum_length=8)).text == found.text
    opened = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert (opened.eos_token, opened.bos_token) == (tokenizer.eos_token, tokenizer.bos_token)
    assert opened("The quick brown")["input_ids"] == tokenizer("The quick brown")["input_ids"]


def test_of_several_end_tokens_each_ends_a_text(tmp_path):
    folder = folder_of("llama 3", tmp_path)
    file = folder / "config.json"
    values = json.loads(file.read_text())
    tokenizer = Tokenizer.load(folder)
    several = [tokenizer.id_of("<|end_of_text|>"), tokenizer.id_of("<|eot_id|>")]
    file.write_text(json.dumps(values | {"eos_token_id": several}))
    (folder / "generation_config.json").unlink()
    assert regard.load(folder).task.generation.end_tokens == tuple(several)
    file.write_text(json.dumps(values | {"eos_token_id": several[:1]}))
    with pytest.raises(regard.InputError, match="tokenizer's end of text"):
        regard.load(folder)
