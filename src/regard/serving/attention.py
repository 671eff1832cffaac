"""Attention in answers, as it is asked for and as it is laid out: request fields, what the engine sends, pages kept for a while.

`attention` asks for weights next to any answer; `interventions` changes the model while it makes that answer. How the engine
does both is in `regard.serving.looking`.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

if TYPE_CHECKING:
    from regard.inspection import AttentionView

MOST_NUMBERS = 2**20
"""Weights of one answer as numbers of JSON, about 11 bytes each."""

MOST_BYTES = 2**24
"""Weights of one answer in base64, or on a page: 64 MiB of float32. 12 layers of 12 heads have as many on 341 tokens."""

MOST_INTERVENTIONS = 64


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An object that holds these fields and no other."""


Place = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]


class Attention(Strict):
    """Which weights to send. What a layer is called, `GET /v1/models/NAME` lists.

    Arguments:
        layers: numbers, or addresses with `*` for any part; all where None.
        heads: from 0; all where None.
        rows: of queries, from 0, or from -1 backwards; `all`; or `written`, of a language model the rows from which the tokens of
            its answer were chosen. None for `written` of a language model and `all` of any other.
        encoding_format: `float` for lists of numbers; `base64` for float32 in little-endian order.
        page: whether to send the address of a page that shows the weights, in place of them. It is kept for ten minutes.
    """

    layers: Annotated[list[Place | Name], Meta(min_length=1, max_length=512)] | None = None
    heads: Annotated[list[Annotated[int, Meta(ge=0, lt=2**31)]], Meta(min_length=1, max_length=512)] | None = None
    rows: Literal["written", "all"] | Annotated[list[Place], Meta(min_length=1, max_length=65536)] | None = None
    encoding_format: Literal["float", "base64"] = "float"
    page: bool = False

    @property
    def most(self) -> int:
        """Weights that may be asked for."""
        return MOST_BYTES if self.page or self.encoding_format == "base64" else MOST_NUMBERS


EVERYTHING = Attention(rows="all", encoding_format="base64")
"""All weights, as the studio asks for them."""


class Scale(Strict, tag_field="kind", tag="scale"):
    """Multiply what attention heads give out: by 0, which switches them off, or by any number.

    Arguments:
        address: of attention layers, with `*` for any part.
        heads: from 0; all where None.
        factor: the number.
    """

    address: Name
    heads: Annotated[list[Place], Meta(max_length=512)] | None = None
    factor: Annotated[float, Meta(ge=-1e6, le=1e6)] = 0.0


class Patch(Strict, tag_field="kind", tag="patch"):
    """Put what a module gives out for another text in place of what it gives out for this one.

    Arguments:
        address: of one module, such as `layers.3`.
        source: `from`: the other text or its token ids, without a chat template; for a task, what its `inputs` may be.
        positions: tokens of this text, or of the prompt, from 0 or from -1 backwards.
        source_positions: `from_positions`, those of the other text; the same numbers where None.
    """

    address: Name
    source: Any = msgspec.field(name="from")
    positions: Annotated[list[Place], Meta(min_length=1, max_length=65536)]
    source_positions: Annotated[list[Place], Meta(max_length=65536)] | None = msgspec.field(
        name="from_positions", default=None
    )


class Weigh(Strict, tag_field="kind", tag="weights"):
    """Put given weights in place of those of one query of one attention head.

    Arguments:
        address: of one attention layer.
        head: from 0.
        row: of the query: a token of this text, or of the prompt, from 0 or from -1 backwards.
        weights: a number for each key; of a language model for each token up to the query.
    """

    address: Name
    head: Annotated[int, Meta(ge=0, lt=2**31)]
    row: Place
    weights: Annotated[list[Annotated[float, Meta(ge=-1e6, le=1e6)]], Meta(min_length=1, max_length=65536)]


Interventions = Annotated[list[Scale | Patch | Weigh], Meta(max_length=MOST_INTERVENTIONS)]


class Grid(msgspec.Struct, frozen=True, array_like=True):
    """Which tokens are patches of an image: see `regard.inspection.patches.Patches`."""

    rows: int
    columns: int
    first: int


class Map(msgspec.Struct, frozen=True, array_like=True):
    """The weights of one layer on one example, as `regard.inspection.AttentionMap` has them.

    Arguments:
        address, kind, example: of the map.
        heads: their numbers.
        rows: the numbers of the queries.
        query_tokens: of these rows.
        key_tokens: of the columns.
        weights: float32 in little-endian order, (heads, rows, keys).
        query_patches, key_patches: where tokens are patches of the image, and all rows are there.
        query_words, key_words: as of the map, where all rows are there.
        marks: as `Marks.to_json` gives them, where all rows and heads are there.
    """

    address: str
    kind: str
    example: int
    heads: list[int]
    rows: list[int]
    query_tokens: list[str]
    key_tokens: list[str]
    weights: bytes
    query_patches: Grid | None = None
    key_patches: Grid | None = None
    query_words: tuple[int, ...] | None = None
    key_words: tuple[int, ...] | None = None
    marks: dict[str, Any] | None = None


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """What was looked at.

    Arguments:
        maps: a layer of an example each.
        examples: what each is called.
        images: PNG bytes of each; none where no image was read.
        note: a sentence where maps are not queries by keys.
        tracks: what else is known of each step, as `Track.to_json` gives it; for pages alone.
    """

    maps: list[Map]
    examples: list[str]
    images: list[bytes | None]
    note: str
    tracks: list[dict[str, Any]] = []


class Pages:
    """Pages that were made for answers, by a name that nobody can guess; the oldest are forgotten first.

    Arguments:
        seconds: how long each is kept.
        most: bytes of all together.
    """

    def __init__(self, *, seconds: float = 600, most: int = 2**28) -> None:
        self.seconds = seconds
        self.most = most
        self._pages: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def add(self, page: bytes) -> str:
        """Keep a page; its name is returned."""
        name = secrets.token_urlsafe(18)
        self._pages[name] = (time.monotonic() + self.seconds, page)
        self._forget()
        while len(self._pages) > 1 and sum(len(kept) for _, kept in self._pages.values()) > self.most:
            self._pages.popitem(last=False)
        return name

    def get(self, name: str) -> bytes | None:
        """The page of a name; None where it is kept no longer, or never was."""
        self._forget()
        return self._pages[name][1] if name in self._pages else None

    def _forget(self) -> None:
        now = time.monotonic()
        while self._pages and next(iter(self._pages.values()))[0] < now:
            self._pages.popitem(last=False)


def laid_out(seen: Seen, asked: Attention) -> list[dict[str, Any]]:
    """Weights as an answer has them.

    >>> weights = np.array([[[0.9, 0.1]]], dtype="<f4").tobytes()
    >>> row = Map("layers.0.attention", "self", 0, [2], [1], ["b"], ["a", "b"], weights)
    >>> laid_out(Seen([row], ["a b"], [], ""), Attention())[0]["weights"]
    [[[0.9, 0.1]]]
    """
    return [
        {
            "address": each.address,
            "kind": each.kind,
            **({"example": each.example} if len(seen.examples) > 1 else {}),
            "heads": each.heads,
            "rows": each.rows,
            "query_tokens": each.query_tokens,
            "key_tokens": each.key_tokens,
            "weights": base64.b64encode(each.weights).decode()
            if asked.encoding_format == "base64"
            else _numbers(_array(each)),
        }
        for each in seen.maps
    ]


def _array(each: Map) -> np.ndarray:
    return np.frombuffer(each.weights, dtype="<f4").reshape(len(each.heads), len(each.rows), len(each.key_tokens))


def _numbers(weights: np.ndarray) -> Any:
    """Nested lists of the shortest numbers that are these float32 again."""
    return weights.astype(str).astype(np.float64).tolist()


def view_of(seen: Seen) -> AttentionView:
    """The view that a page shows."""
    from regard.inspection.marks import Marks
    from regard.inspection.patches import Patches
    from regard.inspection.tracks import Track
    from regard.inspection.view import AttentionMap, AttentionView

    def patches(grid: Grid | None) -> Patches | None:
        return None if grid is None else Patches(rows=grid.rows, columns=grid.columns, first=grid.first)

    maps = [
        AttentionMap(
            address=each.address,
            kind="self" if each.kind == "self" else "cross",
            query_tokens=tuple(each.query_tokens),
            key_tokens=tuple(each.key_tokens),
            weights=_array(each),
            example=each.example,
            query_patches=patches(each.query_patches),
            key_patches=patches(each.key_patches),
            query_words=each.query_words,
            key_words=each.key_words,
            marks=None if each.marks is None else Marks(**each.marks),
        )
        for each in seen.maps
    ]
    return AttentionView(
        title=seen.examples[0],
        maps=tuple(maps),
        note=seen.note,
        examples=tuple(seen.examples),
        images=tuple(seen.images),
        tracks=tuple(Track(**track) for track in seen.tracks),
    )
