"""The words of plain text, with the places where they stand."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

Span = tuple[int, int]

# As BERT's tokenizer has them: the characters of Chinese, each a word of its own.
_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f"
_CONTROL = "\\x00-\\x1f\\x7f-\\x9f"


def words_of(text: str) -> list[Span]:
    r"""Where each word of a text stands: (start, end) in characters, end excluded.

    A word is

    - letters, digits and what combines with them, with single marks of punctuation between: `1,000.50`, `22-year-old`, `a@b.org`;
    - an address of the web, a mention, a hashtag: `https://example.org/?a`, `@name`, `#topic`;
    - letters with a dot each: `U.S.`; a single capital letter with its dot, if a capital follows: `J. Smith`;
    - the ending `'s`;
    - each Chinese character, and each other mark, but several dots in a row are one.

    Data sets of tagged words are cut in much this way, so a model meets plain text as it met them. Control characters are no part
    of any word.

    >>> text = "U.S. officials met Angela Merkel's aide (22-year-old J. Doe)."
    >>> [text[start:end] for start, end in words_of(text)]
    ['U.S.', 'officials', 'met', 'Angela', 'Merkel', "'s", 'aide', '(', '22-year-old', 'J.', 'Doe', ')', '.']
    """
    return [found.span() for found in _pattern().finditer(text)]


@cache
def _pattern() -> re.Pattern[str]:
    # What stands on or joins the letters of many scripts is no letter to `re`.
    joined = [code for code in range(0x300, 0x10000) if unicodedata.category(chr(code)) in ("Mn", "Mc", "Me", "Cf")]
    letter = rf"(?:(?![{_CHINESE}])[\w{''.join(map(chr, joined))}])"
    return re.compile(
        rf"(?:https?://|www\.)[^\s{_CONTROL}]*[^\s{_CONTROL}.,;:!?\"')\]}}]"
        rf"|[@\#]{letter}+"
        r"|\b(?:[^\W\d_]\.){2,}(?!\w)"
        r"|\b[A-Z]\.(?=[ \t]+[A-Z])"
        r"|['’][sS]\b"
        rf"|{letter}+(?:(?!['’][sS]\b)[-.,:/@'’&+]{letter}+)*"
        r"|\.{2,}"
        rf"|[^\s{_CONTROL}]"
    )
