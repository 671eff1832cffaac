"""Where a word stands among the tokens of a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regard.errors import InputError
from regard.inspection.walk.steps import quoted
from regard.inspection.words import shown_tokens, token_texts

MOST_LISTED = 50
"""Tokens or places that a message names."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where a word stands.

    Arguments:
        position: of the token taken.
        note: what was chosen for the reader, empty where there was no choice.
    """

    position: int
    note: str = ""


def find_word(tokens: Sequence[str], word: str | None, position: int | None = None) -> Found:
    """The token that a word is, or the first of its pieces.

    A word is found whole: "it" is not found inside "with". Where it does not occur so, a token spelt like it will do, and then
    the same with case left aside.

    Arguments:
        tokens: as tokenizers write them: see `regard.inspection.words.token_texts`; "##" continues a word.
        word: what to look for; None where `position` says it all.
        position: which token, counted from 0, where a word occurs more than once.

    Raises:
        InputError: where the word is not among the tokens, occurs more than once, or is not at `position`; the tokens are listed.

    >>> find_word(["▁the", "▁run", "ner", "▁it"], "runner")
    Found(position=1, note='“runner” is cut into 2 tokens, ␣run and ner; the first is taken.')
    >>> find_word(["▁with", "▁it"], "it").position
    1
    """
    if position is not None and not 0 <= position < len(tokens):
        raise InputError(f"position is {position}; the tokens are counted from 0: {_listed(tokens)}")
    if word is None:
        if position is None:
            raise InputError(
                f"name the token to follow, with query (--query) or position (--position): {_listed(tokens)}"
            )
        return Found(position)
    places = _occurrences(tokens, word.strip())
    if not places:
        raise InputError(f"{quoted(word)} is not among the tokens: {_listed(tokens)}")
    if position is not None:
        pieces = next((pieces for pieces in places if position in pieces), None)
        if pieces is None:
            raise InputError(f"{quoted(word)} is not at position {position}; it is at {_at(places)}: {_listed(tokens)}")
        return Found(position, _of_pieces(tokens, word, pieces, position))
    if len(places) > 1:
        raise InputError(
            f"{quoted(word)} occurs {len(places):,} times, at {_at(places)}; choose one with position (--position): "
            + _listed(tokens)
        )
    return Found(places[0][0], _of_pieces(tokens, word, places[0], places[0][0]))


def occurs(tokens: Sequence[str], word: str) -> bool:
    """Whether a word, or a token spelt like it, is among the tokens."""
    return bool(_occurrences(tokens, word.strip()))


def _occurrences(tokens: Sequence[str], word: str) -> list[list[int]]:
    """For each occurrence of a word the tokens it is made of."""
    if not word:
        return []
    for fold in (str, str.casefold):
        found = _whole(tokens, word, fold) or _spelt(tokens, word, fold)
        if found:
            return found
    return []


def _whole(tokens: Sequence[str], word: str, fold: Callable[[str], str]) -> list[list[int]]:
    """Occurrences in the text that the tokens make, with no letter or digit on either side."""
    text, owners = "", []
    for index, surface in enumerate(map(fold, _surfaces(tokens))):
        text += surface
        owners += [index] * len(surface)
    word = fold(word)
    found, start = [], text.find(word)
    while start >= 0:
        stop = start + len(word)
        before, after = text[start - 1 : start], text[stop : stop + 1]
        inside = (before.isalnum() and word[0].isalnum()) or (after.isalnum() and word[-1].isalnum())
        if not inside:
            found.append(sorted(set(owners[start:stop])))
        start = text.find(word, start + 1)
    return found


def _spelt(tokens: Sequence[str], word: str, fold: Callable[[str], str]) -> list[list[int]]:
    """Tokens that are written so, marks included or left out."""
    wanted = fold(word)
    written = zip(tokens, shown_tokens(tokens), _surfaces(tokens), strict=True)
    return [
        [index]
        for index, (token, shown, surface) in enumerate(written)
        if wanted in (fold(token), fold(shown), fold(surface.strip()))
    ]


def _surfaces(tokens: Sequence[str]) -> list[str]:
    """What each token stands for in the text; a special token stands apart from its neighbours."""
    return [
        f" {token} "
        if token.startswith("<") and token.endswith(">") and len(token) > 2
        else text[2:]
        if text.startswith("##") and len(text) > 2
        else text
        for token, text in zip(tokens, token_texts(tokens), strict=True)
    ]


def _of_pieces(tokens: Sequence[str], word: str, pieces: Sequence[int], taken: int) -> str:
    if len(pieces) < 2:
        return ""
    shown = shown_tokens(tokens)
    names = [shown[piece] for piece in pieces]
    which = "the first" if taken == pieces[0] else shown[taken]
    return (
        f"{quoted(word)} is cut into {len(pieces)} tokens, {', '.join(names[:-1])} and {names[-1]}; {which} is taken."
    )


def _at(places: Sequence[Sequence[int]]) -> str:
    positions = [str(pieces[0]) for pieces in places[:MOST_LISTED]]
    if len(places) > MOST_LISTED:
        return f"{', '.join(positions)} and {len(places) - MOST_LISTED:,} more"
    return positions[0] if len(positions) == 1 else f"{', '.join(positions[:-1])} and {positions[-1]}"


def _listed(tokens: Sequence[str]) -> str:
    listed = ", ".join(f"{index} {text}" for index, text in enumerate(shown_tokens(tokens[:MOST_LISTED])))
    return listed + (f" ... and {len(tokens) - MOST_LISTED:,} more" if len(tokens) > MOST_LISTED else "")
