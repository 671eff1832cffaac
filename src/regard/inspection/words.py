"""What tokens are in words: which word each piece belongs to and which text it stands for, by the marks that tokenizers leave."""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Iterator, Sequence

# What begins a word: SentencePiece's mark, that of byte-level BPE, a space or its visible stand-in.
STARTS = ("▁", "Ġ", " ", "␣")
SPACES = "▁Ġ "
"""What tokenizers write for the space before a word."""
SPECIAL = (("[", "]"), ("<", ">"))

# GPT-2 writes each byte as one letter: what can be seen as itself, the others as the letters from U+0100 on.
_SEEN = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_BYTES = {chr(byte): byte for byte in _SEEN}
_BYTES |= {chr(0x100 + i): byte for i, byte in enumerate(byte for byte in range(256) if byte not in _SEEN)}


def word_numbers(tokens: Sequence[str]) -> tuple[int, ...] | None:
    """The number of its word for each token, from 0, or None where the tokens have no marks to tell by.

    Known marks: WordPiece's `##` (continues a word), SentencePiece's `▁` and byte-level BPE's `Ġ` (begin one), `@@` at the end
    (the word continues) and `</w>` at the end (it ends here). A special token such as `[CLS]` or `</s>` is a word of its own.

    >>> word_numbers(["[CLS]", "tired", "##ness", "wins"])
    (0, 1, 1, 2)
    >>> word_numbers(["▁the", "▁anim", "al", "</s>"])
    (0, 1, 1, 2)
    >>> word_numbers(["no", "marks"]) is None
    True
    """
    begins = _begins(tokens)
    if begins is None:
        return None
    numbers: list[int] = []
    for first, token in zip(begins, tokens, strict=True):
        after_special = not numbers or is_special(tokens[len(numbers) - 1])
        new = first or after_special or is_special(token)
        numbers.append((numbers[-1] if numbers else -1) + new)
    return tuple(numbers) if len(set(numbers)) < len(numbers) else None


def token_texts(tokens: Sequence[str]) -> tuple[str, ...]:
    r"""The text that each token of a sequence stands for, its space before it included.

    SentencePiece's `▁` is a space. The tokens of a byte-level vocabulary (GPT-2's, RoBERTa's) write every byte as a letter: `Ġ`
    is a space, `Ċ` a new line, `Ã©` an é; of a character that is cut into several tokens each has bytes, such as `\xc3`. Whether
    a vocabulary is one of those is decided from all tokens together, for `Ġ` and `č` are letters of languages too.

    Arguments:
        tokens: of one text, in order, as a tokenizer writes them.

    >>> token_texts(["The", "Ġcaf", "Ã©", "Ċ", "<|endoftext|>"]), token_texts(["▁the", "cat"]), token_texts(["Ġużeppi", "č"])
    (('The', ' caf', 'é', '\n', '<|endoftext|>'), (' the', 'cat'), ('Ġużeppi', 'č'))
    """
    if not _is_byte_level(tokens):
        return tuple(token if is_special(token) else token.replace("▁", " ") for token in tokens)
    return tuple(token if is_special(token) else _from_bytes(token) for token in tokens)


def shown_tokens(tokens: Sequence[str]) -> tuple[str, ...]:
    r"""How each token of a sequence is shown, in every image and table: `token_texts` with what cannot be seen made visible.

    >>> shown_tokens(["The", "Ġcat", "Ċ"]), shown_tokens(["▁the", "▁"]), shown_tokens(["a b", "##do"])
    (('The', '␣cat', '⏎'), ('␣the', '␣'), ('a␣b', '##do'))
    """
    return tuple(map(visible, token_texts(tokens)))


def word_texts(tokens: Sequence[str], numbers: Sequence[int]) -> tuple[str, ...]:
    """Each word as one text, its pieces joined without their marks.

    >>> word_texts(["[CLS]", "tired", "##ness", "▁wins"], (0, 1, 1, 2))
    ('[CLS]', 'tiredness', 'wins')
    """
    words: list[str] = []
    byte_level = _is_byte_level(tokens)
    for start, stop in spans(numbers):
        whole = "".join(tokens[start:stop])
        if byte_level and not is_special(whole):  # a character may be cut into several pieces
            text = _from_bytes(whole)
            words.append(text.removeprefix(" ") or text)
            continue
        pieces = [_bare(token, first=i == 0) for i, token in enumerate(tokens[start:stop])]
        words.append("".join(pieces) or whole.replace("▁", " "))
    return tuple(words)


def spans(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Start and stop of each run of equal numbers.

    >>> list(spans((0, 1, 1, 2)))
    [(0, 1), (1, 3), (3, 4)]
    """
    start = 0
    for i in range(1, len(numbers) + 1):
        if i == len(numbers) or numbers[i] != numbers[start]:
            yield start, i
            start = i


def is_special(token: str) -> bool:
    """Whether a token looks like one that stands for no text: `[SEP]`, `<s>`, `<|endoftext|>`.

    >>> is_special("[SEP]"), is_special("<"), is_special("word")
    (True, False, False)
    """
    return any(len(token) > 2 and token.startswith(left) and token.endswith(right) for left, right in SPECIAL)


def _begins(tokens: Sequence[str]) -> list[bool] | None:
    """Whether each token begins a word."""
    if any(token.startswith("##") and len(token) > 2 for token in tokens):
        return [not (token.startswith("##") and len(token) > 2) for token in tokens]
    for start in STARTS:
        if any(token.startswith(start) for token in tokens):
            return [token.startswith(start) for token in tokens]
    if any(token.endswith("@@") and len(token) > 2 for token in tokens):
        return [i == 0 or not tokens[i - 1].endswith("@@") for i in range(len(tokens))]
    if any(token.endswith("</w>") for token in tokens):
        return [i == 0 or tokens[i - 1].endswith("</w>") for i in range(len(tokens))]
    return None


def _bare(token: str, *, first: bool) -> str:
    if first and token.startswith(STARTS):
        return token[1:]
    if not first and token.startswith("##"):
        return token[2:]
    for end in ("@@", "</w>"):
        if token.endswith(end) and len(token) > len(end):
            return token[: -len(end)]
    return token


def _is_byte_level(tokens: Sequence[str]) -> bool:
    """Whether tokens are of a byte-level vocabulary: all their letters stand for bytes, and these bytes are UTF-8."""
    pieces = [token for token in tokens if not is_special(token)]
    if any(token.startswith("##") or token.endswith(("@@", "</w>")) for token in pieces if len(token) > 2):
        return False
    if any(character not in _BYTES for token in pieces for character in token):
        return False
    content = bytes(_BYTES[character] for token in pieces for character in token)
    # A letter for a space is one where a token begins with it; behind other letters it is more likely a letter.
    blank = any(token[:1] in ("Ġ", "Ċ") for token in pieces)
    if not blank and content.isascii():
        return False
    try:
        # With blanks to tell by, the last character may be cut.
        text = codecs.getincrementaldecoder("utf-8")().decode(content, not blank)
    except UnicodeDecodeError:
        return False
    return not any(ord(character) < 0x20 and character not in "\n\t\r" for character in text)


def _from_bytes(token: str) -> str:
    r"""The text of a byte-level token; bytes that are no whole character as `\xc3`. One of another kind is itself."""
    if any(character not in _BYTES for character in token):
        return token
    return bytes(_BYTES[character] for character in token).decode("utf-8", errors="backslashreplace")


# How texts are printed, so that nothing in them acts on what is around.


def visible(token: str) -> str:
    r"""A token as it can be printed: spaces, control characters and an empty token made visible.

    A token may hold anything a tokenizer cut out of a text: a lone accent, half a code point, a terminal's
    escape sequence or a mark that reverses the reading direction of what follows. None of these may act on
    the image around it.

    >>> visible("a b\n"), visible(""), visible("\x1b[31m"), visible("\u0301")
    ('a␣b⏎', '∅', '\\x1b[31m', '◌́')
    """
    shown: list[str] = []
    for character in token:
        category = unicodedata.category(character)
        if character in _SHOWN:
            character = _SHOWN[character]
        elif category in _UNPRINTABLE and character not in _JOINERS:
            character = repr(character)[1:-1]
        elif category in ("Mn", "Me", "Mc") and not shown:
            character = "◌" + character
        shown.append(character)
    # A joiner at either end would act on whatever the image puts next to the token.
    text = "".join(shown)
    inside = text.strip(_JOINERS)
    before, _, after = text.partition(inside) if inside else (text, "", "")
    return ascii(before)[1:-1] + inside + ascii(after)[1:-1] or "∅"


def readable(text: str) -> str:
    r"""A line of text (a title, a label) as it can be printed: on one line, its spaces kept.

    >>> readable("mardi 9\nmai \x07")
    'mardi 9 mai \\x07'
    """
    return " ".join(visible(word) for word in text.split())


_SHOWN = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍", "\u00a0": "⍽"}
_UNPRINTABLE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_JOINERS = "\u200c\u200d"  # they shape Persian, Indic scripts and emoji, and are harmless
