"""Attention in answers: the fields of requests, what the engine sends, the layout in answers, and pages kept for a while.

`attention` asks for weights with any answer; `interventions` changes the model while it computes that answer. The engine's side
of both is in `regard.serving.looking`.
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
"""The most weights of one answer as JSON numbers, of about 11 bytes each."""

MOST_BYTES = 2**24
"""The most weights of one answer in base64 or on a page: 64 MiB of float32, as 12 layers of 12 heads have for 341 tokens."""

MOST_INTERVENTIONS = 64


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An object that refuses unknown fields."""


Place = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]


class Attention(Strict):
    """Which attention weights to send. `GET /v1/models/NAME` lists the addresses of the layers.

    Arguments:
        layers: numbers from 0, or addresses in which `*` matches any part; None for all.
        heads: numbers from 0; None for all.
        rows: positions of queries, from 0, or counted backwards from -1; `all`; or `written`, in a language model the rows from
            which the tokens of its answer were predicted. None for `written` in a language model and `all` in any other.
        encoding_format: `float` for lists of numbers; `base64` for little-endian float32.
        page: send the address of a page that shows the weights instead of the weights. It is kept for ten minutes.
    """

    layers: Annotated[list[Place | Name], Meta(min_length=1, max_length=512)] | None = None
    heads: Annotated[list[Annotated[int, Meta(ge=0, lt=2**31)]], Meta(min_length=1, max_length=512)] | None = None
    rows: Literal["written", "all"] | Annotated[list[Place], Meta(min_length=1, max_length=65536)] | None = None
    encoding_format: Literal["float", "base64"] = "float"
    page: bool = False

    @property
    def most(self) -> int:
        """The most weights that one request may ask for."""
        return MOST_BYTES if self.page or self.encoding_format == "base64" else MOST_NUMBERS


EVERYTHING = Attention(rows="all", encoding_format="base64")
"""All weights, as the studio asks for them."""


class Scale(Strict, tag_field="kind", tag="scale"):
    """Multiply the outputs of attention heads by a factor; 0 ablates them.

    Arguments:
        address: of attention layers; `*` matches any part.
        heads: numbers from 0; None for all.
        factor: the factor.
    """

    address: Name
    heads: Annotated[list[Place], Meta(max_length=512)] | None = None
    factor: Annotated[float, Meta(ge=-1e6, le=1e6)] = 0.0


class Patch(Strict, tag_field="kind", tag="patch"):
    """Activation patching: replace a module's output at some positions by its output on another text.

    Arguments:
        address: of one module, such as `layers.3`.
        source: `from` in JSON: the other text or its token ids, without a chat template; for a task, as its `inputs`.
        positions: of tokens in this text, or in the prompt, from 0, or counted backwards from -1.
        source_positions: `from_positions` in JSON: positions in the other text; None for the same numbers.
    """

    address: Name
    source: Any = msgspec.field(name="from")
    positions: Annotated[list[Place], Meta(min_length=1, max_length=65536)]
    source_positions: Annotated[list[Place], Meta(max_length=65536)] | None = msgspec.field(
        name="from_positions", default=None
    )


class Weigh(Strict, tag_field="kind", tag="weights"):
    """Replace the attention weights of one query in one head by given ones.

    Arguments:
        address: of one attention layer.
        head: number from 0.
        row: position of the query in this text, or in the prompt, from 0, or counted backwards from -1.
        weights: one number for each key; in a language model, for each token up to and including the query.
    """

    address: Name
    head: Annotated[int, Meta(ge=0, lt=2**31)]
    row: Place
    weights: Annotated[list[Annotated[float, Meta(ge=-1e6, le=1e6)]], Meta(min_length=1, max_length=65536)]


Interventions = Annotated[list[Scale | Patch | Weigh], Meta(max_length=MOST_INTERVENTIONS)]


class Grid(msgspec.Struct, frozen=True, array_like=True):
    """Which tokens are patches of an image; see `regard.inspection.patches.Patches`."""

    rows: int
    columns: int
    first: int


class Map(msgspec.Struct, frozen=True, array_like=True):
    """The attention weights of one layer on one example, as in `regard.inspection.AttentionMap`.

    Arguments:
        address, kind, example: as in the map.
        heads: the heads' numbers.
        rows: the queries' positions.
        query_tokens: one for each row.
        key_tokens: one for each column.
        weights: little-endian float32, (heads, rows, keys).
        query_patches, key_patches: which tokens are patches of the image; None where some rows are left out.
        query_words, key_words: as in the map; None where some rows are left out.
        marks: as `Marks.to_json` returns them; None where some rows or heads are left out.
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
    """The attention of one request.

    Arguments:
        maps: one for each layer and example.
        examples: the name of each example.
        images: PNG bytes for each example; None where it has no image.
        note: a sentence where the maps are not queries by keys.
        tracks: further values for each step, as `Track.to_json` returns them; only pages show them.
    """

    maps: list[Map]
    examples: list[str]
    images: list[bytes | None]
    note: str
    tracks: list[dict[str, Any]] = []


class Pages:
    """HTML pages made for answers, each under a random name that cannot be guessed; the oldest are removed first.

    Arguments:
        seconds: how long each page is kept.
        most: bytes of all pages together.
    """

    def __init__(self, *, seconds: float = 600, most: int = 2**28) -> None:
        self.seconds = seconds
        self.most = most
        self._pages: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def add(self, page: bytes) -> str:
        """Keep a page and return its name."""
        name = secrets.token_urlsafe(18)
        self._pages[name] = (time.monotonic() + self.seconds, page)
        self._forget()
        while len(self._pages) > 1 and sum(len(kept) for _, kept in self._pages.values()) > self.most:
            self._pages.popitem(last=False)
        return name

    def get(self, name: str) -> bytes | None:
        """The page with a name; None where there is none, or it is no longer kept."""
        self._forget()
        return self._pages[name][1] if name in self._pages else None

    def _forget(self) -> None:
        now = time.monotonic()
        while self._pages and next(iter(self._pages.values()))[0] < now:
            self._pages.popitem(last=False)


def laid_out(seen: Seen, asked: Attention) -> list[dict[str, Any]]:
    """Attention weights in the layout of an answer.

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
    """Nested lists of the shortest decimal numbers that round to these float32 values."""
    return weights.astype(str).astype(np.float64).tolist()


def view_of(seen: Seen) -> AttentionView:
    """The view of the attention, which pages show."""
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
