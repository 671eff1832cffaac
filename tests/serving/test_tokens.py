"""What tokens are called in answers, and the bytes they stand for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers

from regard.serving.messages import Began, Likely, Piece, Token
from regard.serving.openai import Asked, chunks, completed
from regard.serving.tokens import token_names
from regard.text import Tokenizer

TEXT = "a cat — 猫 and a \N{GRINNING FACE} sat"


def byte_level() -> Tokenizer:
    return Tokenizer.train(["a cat and a cat sat on the mat"] * 3, kind="byte_bpe", size=270)


def with_byte_tokens() -> Tokenizer:
    """As SentencePiece has it: spaces as marks, and bytes for what it does not know."""
    pieces = ["<unk>", "<s>", "</s>", "<pad>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"acdnst"]
    made = tokenizers.Tokenizer(
        models.BPE(
            vocab={piece: place for place, piece in enumerate(pieces)}, merges=[], unk_token="<unk>", byte_fallback=True
        )
    )
    made.add_special_tokens(["<unk>", "<s>", "</s>", "<pad>"])
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return Tokenizer.from_json(made.to_str())


@pytest.mark.parametrize("made", [byte_level, with_byte_tokens])
def test_tokens_have_the_bytes_that_they_add(made: Callable[[], Tokenizer]) -> None:
    tokenizer = made()
    named = token_names(tokenizer)
    ids = tokenizer.encode(TEXT)
    told = [named(index) for index in ids]
    assert b"".join(held or b"" for _, held in told).decode().strip() == TEXT
    parts = {name: held for name, held in told if name.startswith("bytes:")}
    assert parts["bytes:\\xe2"] == b"\xe2"
    assert all(name == (held or b"").decode() for name, held in told if name not in parts)
    end = tokenizer.end_id
    assert named(end) == (tokenizer.tokens([end])[0], None)
    assert named(10**6) == ("<1000000>", None)


class Written:
    """An engine that has written these tokens, each in a piece of its own."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens

    async def write(self, **asked: Any) -> AsyncGenerator[Began | Piece]:
        yield Began(key=1, prompt_tokens=1, reused=0, text="", tokens=[])
        for place, token in enumerate(self.tokens, start=1):
            end = "stop" if place == len(self.tokens) else ""
            yield Piece(key=1, copy=0, text="", tokens=[token], end=end)


def answers(tokens: Sequence[Token], *, chat: bool) -> tuple[Any, list[Any]]:
    """The log-probabilities of a whole answer, and of each piece of a stream."""
    link: Any = Written(tokens)

    def asked() -> Asked:
        return Asked(model="m", chat=chat, writes=[{"copies": 1}], kept=1, top=2)

    async def both() -> tuple[Any, list[Any]]:
        whole = (await completed(link, asked()))["choices"][0]["logprobs"]
        return whole, [each["choices"][0]["logprobs"] async for each in chunks(link, asked())]

    return asyncio.run(both())


def tokens_of(tokenizer: Tokenizer, text: str) -> list[Token]:
    named = token_names(tokenizer)
    ids = [*tokenizer.encode(text), tokenizer.end_id]
    return [Token(index, *named(index), -1.0, [Likely(index, *named(index), -1.0)]) for index in ids]


def test_offsets_count_characters_and_no_names() -> None:
    tokens = tokens_of(byte_level(), TEXT)
    whole, pieces = answers(tokens, chat=False)
    offsets = whole["text_offset"]
    assert offsets == [offset for each in pieces for offset in each["text_offset"]]
    for token, begin, end in zip(tokens, offsets, [*offsets[1:], len(TEXT)], strict=True):
        if not token.text.startswith("bytes:") and token.added is not None:
            assert TEXT[begin:end] == token.text
    assert offsets[-1] == len(TEXT)  # of the end token
    assert sum(token.text.startswith("bytes:") for token in tokens) >= 6


def test_conversations_have_the_bytes_of_tokens() -> None:
    tokens = tokens_of(byte_level(), "a —")
    whole, pieces = answers(tokens, chat=True)
    entries = whole["content"]
    assert entries == [entry for each in pieces if each for entry in each["content"]]
    assert bytes(byte for entry in entries for byte in entry["bytes"] or ()).decode() == "a —"
    assert [entry["bytes"] for entry in entries][-1] is None
    assert json.dumps(entries[-2]["token"]) == r'"bytes:\\x94"'
    assert [entry["top_logprobs"][0]["bytes"] for entry in entries] == [entry["bytes"] for entry in entries]


def test_tokens_of_one_text_are_told_apart() -> None:
    likely = [
        Likely(5, "A", b"A", -0.5),
        Likely(7, "B", b"B", -1.0),
        Likely(8, "B", b"B", -1.5),
        Likely(9, "A", b"A", -2.0),
    ]
    chosen, other = Token(9, "A", b"A", -2.0, likely), Token(3, "C", b"C", -3.0, likely)
    whole, _ = answers([chosen, other], chat=False)
    assert whole["top_logprobs"] == [
        {"A": -2.0, "token_id:5": -0.5, "B": -1.0, "token_id:8": -1.5},
        {"C": -3.0, "A": -0.5, "B": -1.0, "token_id:8": -1.5, "token_id:9": -2.0},
    ]
