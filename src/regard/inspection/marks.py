"""What an attention decided before it had any score, to be drawn over its map: windows, hash buckets and chunks.

Luong's local attention chooses a centre and looks at a window around it; Reformer's looks inside chunks of an order by
hash bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import torch

from regard.attention import ChunkedAttention, Local, LSHAttention, ScoredAttention
from regard.attention.lsh import BUCKETS
from regard.errors import InputError
from regard.inspection.calls import Call


@dataclass(frozen=True, kw_only=True, slots=True)
class Marks:
    """What is drawn over a map of (H, L, S) weights.

    Arguments:
        centres: (H, L), for each query the place of the keys around which it looks, a real number; empty where there are none.
        window: how many places on either side.
        buckets: (H, N, S), for each of N rounds the bucket that each key fell into; empty where nothing is hashed.
        chunk: how many keys of an order by bucket, and within a bucket by place, are looked at together.
        borders: the keys with which a chunk of the text begins, but for the first.

    >>> marks = Marks(buckets=[[[1, 0, 1, 0]]], chunk=2)
    >>> marks.order(0, 0), marks.chunks(0, 0)
    ([1, 3, 0, 2], [1, 0, 1, 0])
    """

    centres: tuple[tuple[float, ...], ...] = ()
    window: int = 0
    buckets: tuple[tuple[tuple[int, ...], ...], ...] = ()
    chunk: int = 0
    borders: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Convert what was given to tuples."""
        try:
            centres = tuple(tuple(map(float, row)) for row in self.centres)
            buckets = tuple(tuple(tuple(map(int, row)) for row in head) for head in self.buckets)
            borders = tuple(map(int, self.borders))
        except (TypeError, ValueError):
            raise InputError(
                "marks: centres, buckets and borders are lists of numbers; give them as Marks says"
            ) from None
        for name, value in (("centres", centres), ("buckets", buckets), ("borders", borders)):
            object.__setattr__(self, name, value)

    def check(self, shape: tuple[int, int, int], address: str) -> None:
        """Make sure that the marks fit a map.

        Raises:
            InputError: where they do not.
        """
        heads, queries, keys = shape
        fits = (
            (not self.centres or (len(self.centres) == heads and {len(row) for row in self.centres} == {queries}))
            and (not self.buckets or len(self.buckets) == heads)
            and all(len(row) == keys for head in self.buckets for row in head)
            and all(0 < border < keys for border in self.borders)
        )
        if not fits:
            raise InputError(f"{address}: the marks are those of another map than one of shape {shape}")

    def of_head(self, head: int) -> Self:
        """Those of one head."""
        return replace(self, centres=self.centres[head : head + 1], buckets=self.buckets[head : head + 1])

    def order(self, head: int, turn: int) -> list[int]:
        """The keys in the order of a round: by bucket, and within one by place."""
        row = self.buckets[head][turn]
        return sorted(range(len(row)), key=lambda key: (row[key], key))

    def chunks(self, head: int, turn: int) -> list[int]:
        """Which chunk of that order each key is in."""
        places = {key: place for place, key in enumerate(self.order(head, turn))}
        return [places[key] // max(self.chunk, 1) for key in range(len(places))]

    @property
    def note(self) -> str:
        """What is drawn over the map, in words.

        >>> Marks(centres=[[1.0]], window=2).note
        'boxes are the windows, 2 places to either side of the centres, which are dots'
        """
        if self.centres:
            return f"boxes are the windows, {self.window} places to either side of the centres, which are dots"
        if self.buckets:
            return f"a strip has the hash bucket of each key, a row for each round; chunks of their order have {self.chunk} keys"
        return f"lines are the borders of chunks of {self.chunk} tokens" if self.borders else ""

    def to_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)


def marks_of(
    calls: Sequence[Call], row: int, path: Sequence[int] | None, queries: Sequence[int], keys: Sequence[int]
) -> Marks | None:
    """The marks of one batch row of a layer's map; None where its mechanism has none, or only weights were kept.

    Arguments:
        calls: of the layer, in order.
        row: which batch row.
        path: in a search, in which row the answer was at each step.
        queries, keys: the places of the map, padding left out.
    """
    mechanism, kept = calls[0].called.mechanism, [call.inputs for call in calls]
    if any(inputs is None for inputs in kept):
        return None
    if isinstance(mechanism, ScoredAttention) and isinstance(mechanism.alignment, Local):
        with torch.no_grad():
            centres = torch.cat(
                [
                    _centres(call, row if path is None else path[step], path is not None)
                    for step, call in enumerate(calls)
                ][: None if path is None else len(path)],
                dim=1,
            )
        return Marks(centres=tuple(map(tuple, centres[:, list(queries)].tolist())), window=mechanism.alignment.window)
    if path is not None or len(calls) != 1 or kept[0] is None:
        return None
    if isinstance(mechanism, ChunkedAttention):
        return Marks(borders=tuple(range(mechanism.chunk, len(keys), mechanism.chunk)), chunk=mechanism.chunk)
    if isinstance(mechanism, LSHAttention):
        found = mechanism.replay_state(kept[0]).get(BUCKETS)
        if found is not None:
            return Marks(
                buckets=tuple(tuple(map(tuple, head)) for head in found[row][..., list(keys)].tolist()),
                chunk=mechanism.chunk,
            )
    return None


def _centres(call: Call, row: int, searched: bool) -> torch.Tensor:
    """(H, L) of one call; of a search those of the one hypothesis, for several may be so many queries of one batch row."""
    inputs = call.inputs
    if inputs is None:
        raise RuntimeError("a call without inputs has no centres")
    _, heads, width, _ = call.shape
    batch = row // width if searched else row
    given = inputs.record.get("centre")
    places = (
        inputs.query_positions.expand(inputs.shape[0], -1)[batch].expand(heads, -1) if given is None else given[batch]
    )
    one = slice(row % width, row % width + 1) if searched else slice(None)
    return places[:, one].detach().float().cpu()


def spans(marks: Marks, head: int, keys: int) -> list[tuple[int, int]]:
    """For each query the first key of its window and the one behind the last.

    >>> spans(Marks(centres=[[1.5, 9.0]], window=1), 0, 5)
    [(1, 3), (5, 5)]
    """
    found = []
    for centre in marks.centres[head]:
        first = min(max(int(np.ceil(centre - marks.window)), 0), keys)
        found.append((first, max(first, min(int(np.floor(centre + marks.window)) + 1, keys))))
    return found
