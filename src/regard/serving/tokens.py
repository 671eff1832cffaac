"""The text of a single token in an answer, and the bytes that it stands for."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.text import Tokenizer

_SHOWN = [*range(33, 127), *range(161, 173), *range(174, 256)]
_HIDDEN = [byte for byte in range(256) if byte not in _SHOWN]
BYTE_OF = {chr(byte): byte for byte in _SHOWN} | {chr(256 + place): byte for place, byte in enumerate(_HIDDEN)}
"""The characters that GPT-2's byte-level vocabulary uses for bytes: the byte itself where it is printable."""

BYTE_TOKEN = re.compile("<0x([0-9A-F]{2})>")
"""SentencePiece's name for the token of a single byte."""

UNREADABLE = "�"


def token_names(tokenizer: Tokenizer) -> Callable[[int], tuple[str, bytes | None]]:
    r"""A function from a token id to the token's text and its bytes; None for tokens that add nothing to a text.

    The text is what the token adds to a text. A token whose bytes are no whole characters has the form of OpenAI's API, such as
    `bytes:\xe2\x80`; one that adds nothing, such as the end-of-sequence token, has its name in the vocabulary.
    """
    anchor = next(iter(tokenizer.encode("a")), None)  # decoding may strip a space before a text's first token

    @lru_cache(maxsize=65536)
    def named(index: int) -> tuple[str, bytes | None]:
        if not 0 <= index < tokenizer.size:  # rows of the embedding table without a token
            return f"<{index}>", None
        name, text = tokenizer.tokens([index])[0], tokenizer.decode([index])
        if anchor is not None:
            before, both = tokenizer.decode([anchor]), tokenizer.decode([anchor, index])
            text = both.removeprefix(before) if both.startswith(before) else text
        if not text:
            return name, None
        if UNREADABLE not in text or (held := bytes_of(name)) is None:
            return text, text.encode()
        try:
            return held.decode(), held
        except UnicodeDecodeError:
            return "bytes:" + escaped(held), held

    return named


def bytes_of(name: str) -> bytes | None:
    r"""The bytes that a token's name stands for in a byte-level vocabulary; None for a name of another kind.

    >>> bytes_of("<0xE2>"), bytes_of("âĢ"), bytes_of("—")
    (b'\xe2', b'\xe2\x80', None)
    """
    single = BYTE_TOKEN.fullmatch(name)
    if single:
        return bytes([int(single[1], 16)])
    found = [BYTE_OF.get(letter) for letter in name]
    return None if None in found else bytes(byte for byte in found if byte is not None)


def escaped(held: bytes) -> str:
    r"""Bytes as text: printable ASCII as it is, other bytes as `\x` and two hexadecimal digits.

    >>> print(escaped(b" \xe2\x80"))
     \xe2\x80
    """
    return "".join(chr(byte) if 32 <= byte < 127 and byte != ord("\\") else f"\\x{byte:02x}" for byte in held)
