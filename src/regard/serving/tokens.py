"""What a token is called in an answer, and which bytes it stands for."""

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
"""The letters that GPT-2's byte-level vocabulary writes bytes in: their own where it can be printed."""

BYTE_TOKEN = re.compile("<0x([0-9A-F]{2})>")
"""How SentencePiece calls the token of a single byte."""

UNREADABLE = "�"


def token_names(tokenizer: Tokenizer) -> Callable[[int], tuple[str, bytes | None]]:
    r"""From the id of a token to what it is called, and its bytes; None for one that adds nothing to a text.

    A token is called by what it adds to a text. One whose bytes are no whole characters is called as OpenAI's API calls it, such
    as `bytes:\xe2\x80`; one that adds nothing, such as an end token, by its name in the vocabulary.
    """
    anchor = next(iter(tokenizer.encode("a")), None)  # a text's first token may lose a space in front

    @lru_cache(maxsize=65536)
    def named(index: int) -> tuple[str, bytes | None]:
        if not 0 <= index < tokenizer.size:  # rows of the model's table that no token has
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
    r"""The bytes that a vocabulary of bytes has under a name; None where it is a name of another kind.

    >>> bytes_of("<0xE2>"), bytes_of("âĢ"), bytes_of("—")
    (b'\xe2', b'\xe2\x80', None)
    """
    single = BYTE_TOKEN.fullmatch(name)
    if single:
        return bytes([int(single[1], 16)])
    found = [BYTE_OF.get(letter) for letter in name]
    return None if None in found else bytes(byte for byte in found if byte is not None)


def escaped(held: bytes) -> str:
    r"""Bytes as text: letters of ASCII as they are, the others as `\x` and two digits.

    >>> print(escaped(b" \xe2\x80"))
     \xe2\x80
    """
    return "".join(chr(byte) if 32 <= byte < 127 and byte != ord("\\") else f"\\x{byte:02x}" for byte in held)
