"""Which word each word piece belongs to, read off the marks that tokenizers leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

# What begins a word: SentencePiece's mark, that of byte-level BPE, a space or its visible stand-in.
STARTS = ("▁", "Ġ", " ", "␣")
SPECIAL = (("[", "]"), ("<", ">"))


def word_numbers(tokens: Sequence[str]) -> tuple[int, ...] | None:
    """The number of its word for each token, from 0, or None where the tokens have no marks to tell by.

    Known marks: WordPiece's `##` (continues a word), SentencePiece's `▁` and byte-level BPE's `Ġ` (begin one), `@@` at the end
    (the word goes on) and `</w>` at the end (it ends here). A special token such as `[CLS]` or `</s>` is a word of its own.

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


def word_texts(tokens: Sequence[str], numbers: Sequence[int]) -> tuple[str, ...]:
    """Each word as one text, its pieces joined without their marks.

    >>> word_texts(["[CLS]", "tired", "##ness", "▁wins"], (0, 1, 1, 2))
    ('[CLS]', 'tiredness', 'wins')
    """
    words: list[str] = []
    for start, stop in spans(numbers):
        pieces = [_bare(token, first=i == 0) for i, token in enumerate(tokens[start:stop])]
        words.append("".join(pieces) or "".join(tokens[start:stop]))
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
