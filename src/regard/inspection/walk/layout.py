"""How the numbers of a step are laid out, the same on the terminal and on the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regard.inspection.view import readable, visible
from regard.inspection.walk.steps import Shown, Step
from regard.inspection.words import shown_tokens

if TYPE_CHECKING:
    from regard.inspection.walk.walking import Walk

BARRED = 3  # columns of a table that leave room for a bar
MOST = 24  # keys in a table or a stack of strips; of more the ones with the largest weights


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers side by side, a row for each label.

    Arguments:
        labels: of the rows that are shown, as they are printed.
        tokens: what the tokenizer calls them.
        columns: what stands beside them.
        rows: which entries the rows are.
    """

    labels: tuple[str, ...]
    tokens: tuple[str, ...]
    columns: tuple[Shown, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Strips:
    """A vector, or one for each label, as a strip of colours.

    Arguments:
        shown: the numbers.
        labels: of the rows that are shown, as they are printed; None for a single vector.
        tokens: what the tokenizer calls them.
        rows: which rows they are; empty for a single vector.
    """

    shown: Shown
    labels: tuple[str, ...] | None
    tokens: tuple[str, ...]
    rows: tuple[int, ...]

    @property
    def values(self) -> np.ndarray:
        """(rows, entries)."""
        return self.shown.values[list(self.rows)] if self.rows else self.shown.values.reshape(1, -1)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Single numbers."""

    shown: tuple[Shown, ...]


Block = Table | Strips | Numbers


def blocks(step: Step, keep: Sequence[int], keys: Sequence[str]) -> Iterator[Block]:
    """What a step shows: neighbours with the same labels share a table, single numbers a line.

    Arguments:
        step: the step.
        keep: which keys to show.
        keys: the tokens looked at; labels of another number are shown in full.
    """
    together: list[Shown] = []
    names = dict(zip(keys, shown_tokens(keys), strict=True))
    for item in (*step.shown, None):
        if together and (item is None or _form(item) != _form(together[0])):
            yield _block(together, keep, len(keys), names)
            together = []
        if item is not None:
            if _form(item) == "strips":
                yield _block([item], keep, len(keys), names)
            else:
                together.append(item)


def kept(walk: Walk, most: int = MOST) -> tuple[int, ...]:
    """The keys to show, in their order: all, or of too many those with the largest weights."""
    if len(walk.keys) <= most:
        return tuple(range(len(walk.keys)))
    order = np.argsort(-np.abs(walk.weights), kind="stable")[:most]
    return tuple(sorted(order.tolist()))


def left_out(walk: Walk, keep: Sequence[int]) -> str:
    """A sentence about the keys that are not shown; empty where all are."""
    if len(keep) == len(walk.keys):
        return ""
    return f"Of the {len(walk.keys)} keys the {len(keep)} with the largest weights are shown; the JSON has all."


def legend(walk: Walk) -> str:
    """The letters of the shapes and their sizes."""
    return " · ".join(f"{letter} {words} = {size}" for letter, words, size in walk.sizes)


def subject(walk: Walk) -> str:
    """Which layer, mechanism and head."""
    head = f" · head {walk.head} of heads 0 to {walk.heads - 1}" if walk.heads > 1 else ""
    return f"{walk.address} · {walk.mechanism}{head}"


def query_text(walk: Walk) -> str:
    """The token that asks, as it is shown."""
    names = dict(zip(walk.queries, shown_tokens(walk.queries), strict=True))
    return names.get(walk.query, visible(walk.query))


def with_whole(shown: Shown) -> str:
    """What tensor the numbers are a part of, and the note about them."""
    return "; ".join(part for part in (f"of {shown.of}" if shown.of else "", shown.note) if part)


def decimals(values: np.ndarray) -> int:
    """How many decimals show seven digits of the largest number, and never fewer than two.

    >>> decimals(np.array([0.25])), decimals(np.array([12.5, 3.0]))
    (6, 5)
    """
    finite = np.abs(values[np.isfinite(values)])
    largest = float(finite.max(initial=0.0))
    return max(2, 6 - int(np.floor(np.log10(largest)))) if largest >= 1 else 6


def written(value: float, places: int) -> str:
    """A number with so many decimals; one that would read zero and is not is written with an exponent.

    >>> written(0.25, 6), written(3e-9, 6), written(0.0, 6)
    ('0.250000', '3.0e-09', '0')
    """
    if value == 0:
        return "0"
    if abs(value) < 0.5 * 10.0**-places:
        return f"{value:.1e}"
    return f"{value:.{places}f}"


def first_entries(shown: Shown, count: int = 4) -> str:
    """The first numbers of a vector, and how many follow."""
    vector = shown.values.ravel()
    places = decimals(vector)
    parts = [written(float(value), places) for value in vector[:count]]
    return "(" + ", ".join(parts) + (f", … {len(vector)} numbers)" if len(vector) > count else ")")


def _form(item: Shown) -> object:
    if item.values.ndim == 0:
        return "number"
    return item.labels if item.values.ndim == 1 and item.labels is not None else "strips"


def _block(together: Sequence[Shown], keep: Sequence[int], count: int, names: Mapping[str, str]) -> Block:
    first = together[0]
    if first.values.ndim == 0:
        return Numbers(tuple(together))
    if first.labels is None:
        return Strips(first, None, (), ())
    rows = (
        tuple(keep) if first.letters.startswith("S") and len(first.labels) == count else tuple(range(len(first.labels)))
    )
    tokens = tuple(first.labels[row] for row in rows)
    of_keys = first.letters.startswith("S")
    labels = tuple(names[token] if of_keys and token in names else readable(token) for token in tokens)
    if first.values.ndim == 1:
        return Table(labels, tokens, tuple(together), rows)
    return Strips(first, labels, tokens, rows)
