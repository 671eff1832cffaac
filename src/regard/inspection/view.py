"""The data of every figure of attention: weights, tokens, images.

It does not depend on models: weights from any library can be shown, see `AttentionView.of`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Any, Literal, Self

import numpy as np

from regard.errors import InputError, nearest
from regard.inspection.marks import Marks
from regard.inspection.patches import Patches, png
from regard.inspection.tracks import TRACK_FIELDS, Track
from regard.reading import as_object, parse_json

WORDS, SENTENCES = "words.attention", "sentences.attention"
"""The addresses of the two attentions of a hierarchical network; together they give the weight of each word in its document."""

Kind = Literal["self", "cross"]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AttentionMap:
    """The weights of one attention layer on one example.

    Arguments:
        address: of the layer in the model, such as "decoder.layers.0.cross_attention".
        kind: "self" if queries and keys are the same sequence, else "cross".
        query_tokens: L strings, the rows (the output, in a decoder).
        key_tokens: S strings, the columns (the source).
        weights: (H, L, S), stored as float32, read-only; `weights[h, i, j]` is the weight of key j for query i in head h. They
            need not be a distribution, and can be negative.
        example: the index of its example in the view.
        query_words: for each query token the number of its word, in ascending order; see
            `regard.inspection.words.word_numbers`. None if tokens are not word pieces, or it is unknown.
        key_words: the same for the keys.
        query_patches: the query tokens that are patches of the example's image; None = no patches.
        key_patches: the same for the keys.
        marks: windows, buckets and chunks to draw over the map; None = no marks.

    Raises:
        InputError: if the weights are not (H, L, S) numbers that fit the tokens, or are not finite; or words or patches do not
            fit the tokens.

    >>> seen = AttentionMap(address="decoder.attention", kind="cross", query_tokens=("la", "maison"),
    ...                     key_tokens=("the", "house"), weights=np.eye(2)[None])
    >>> seen.heads, seen.mean().tolist()
    (1, [[1.0, 0.0], [0.0, 1.0]])

    """

    address: str
    kind: Kind
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    weights: np.ndarray
    example: int = 0
    query_words: tuple[int, ...] | None = None
    key_words: tuple[int, ...] | None = None
    query_patches: Patches | None = None
    key_patches: Patches | None = None
    marks: Marks | None = None

    def __post_init__(self) -> None:
        """Convert the arguments to their declared types, and check that they fit together."""
        if not isinstance(self.address, str) or not self.address:
            raise InputError(f"address: {self.address!r} is not a name; give where the weights were seen")
        if self.kind not in ("self", "cross"):
            raise InputError(f"{self.address}: kind is {self.kind!r}; give 'self' or 'cross'")
        if not isinstance(self.example, int) or isinstance(self.example, bool) or self.example < 0:
            raise InputError(f"{self.address}: example is {self.example!r}; give an index from 0")
        queries = _tokens(self.query_tokens, f"{self.address}: query_tokens")
        keys = _tokens(self.key_tokens, f"{self.address}: key_tokens")
        weights = _float32(self.weights, self.address)
        if weights.ndim != 3 or weights.shape[1:] != (len(queries), len(keys)) or not weights.size:
            raise InputError(
                f"{self.address}: weights have shape {weights.shape} but the tokens ask for "
                f"(heads, {len(queries)}, {len(keys)}), each at least 1; give a row for each query token "
                "and a column for each key token"
            )
        finite = np.isfinite(weights)
        if not finite.all():
            head, row, column = (int(i) for i in np.argwhere(~finite)[0])
            raise InputError(
                f"{self.address}: the weight of head {head}, query {row}, key {column} is "
                f"{weights[head, row, column]}; only finite weights can be shown"
            )
        weights.setflags(write=False)
        object.__setattr__(self, "query_tokens", queries)
        object.__setattr__(self, "key_tokens", keys)
        object.__setattr__(self, "weights", weights)
        if self.marks is not None:
            if not isinstance(self.marks, Marks):
                raise InputError(f"{self.address}: marks is {self.marks!r:.60}; give Marks(...)")
            self.marks.check((weights.shape[0], len(queries), len(keys)), self.address)
        for side, tokens in (("query", queries), ("key", keys)):
            words, patches = getattr(self, f"{side}_words"), getattr(self, f"{side}_patches")
            if words is not None:
                object.__setattr__(self, f"{side}_words", _words(words, len(tokens), f"{self.address}: {side}_words"))
            if patches is not None and not isinstance(patches, Patches):
                raise InputError(f"{self.address}: {side}_patches is {patches!r}; give Patches(rows=..., columns=...)")
            if patches is not None and patches.last >= len(tokens):
                raise InputError(
                    f"{self.address}: {side}_patches end at token {patches.last}, but there are {len(tokens)} "
                    f"{side} tokens; give the grid's rows and columns, and the first patch's position"
                )

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal, the weights bit for bit."""
        if not isinstance(other, AttentionMap):
            return NotImplemented
        names = [field.name for field in fields(self) if field.name != "weights"]
        return all(getattr(self, name) == getattr(other, name) for name in names) and (
            self.weights.shape == other.weights.shape and self.weights.tobytes() == other.weights.tobytes()
        )

    __hash__ = None  # type: ignore[assignment]  # it holds an array

    @property
    def is_causal(self) -> bool:
        """Whether this is self-attention in which no query attends to a later token, and some query to an earlier one.

        Fewer queries than keys are the last positions, as with a cache.
        """
        later = len(self.key_tokens) - len(self.query_tokens) + 1
        if self.kind != "self" or later < 1 or np.triu(self.weights, later).any():
            return False
        return bool(np.tril(self.weights, later - 2).any())

    @property
    def heads(self) -> int:
        """The number of heads, H."""
        return self.weights.shape[0]

    def mean(self) -> np.ndarray:
        """The mean of the heads: (L, S), float32."""
        return self.weights.mean(axis=0, dtype=np.float64).astype(np.float32)


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionView:
    """Attention maps to show together, of several layers and of one or several examples.

    Arguments:
        title: a short title.
        maps: at least one; an address occurs once for each example.
        note: a sentence shown under the title.
        examples: a label for each example; by default they are numbered.
        images: an image or None for each example: PNG bytes or a uint8 array (Y, X, 3), stored as PNG bytes. Empty = no images.
        tracks: further values of each step, along the queries of the maps: see `regard.inspection.tracks`.

    Raises:
        InputError: if there is no map, two maps share an address and an example, or an example has no label; for something that
            is not an image; or if a track does not have as many steps as the maps of its example have queries.

    >>> view = AttentionView.of([[0.9, 0.1], [0.2, 0.8]], ["la", "maison"], ["the", "house"], title="en-fr")
    >>> view.map("attention").weights.shape
    (1, 2, 2)
    >>> AttentionView.from_json(view.to_json()) == view
    True

    """

    title: str
    maps: tuple[AttentionMap, ...]
    note: str = ""
    examples: tuple[str, ...] = ()
    images: tuple[bytes | None, ...] = ()
    tracks: tuple[Track, ...] = ()

    def __post_init__(self) -> None:
        """Number examples without labels, and check that the maps fit together."""
        for name in ("title", "note"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"{name}: {getattr(self, name)!r} is not text; give a string")
        maps = tuple(self.maps)
        if not maps:
            raise InputError("maps: there is no attention map to show; give at least one")
        for item in maps:
            if not isinstance(item, AttentionMap):
                raise InputError(f"maps: {type(item).__name__} is not an AttentionMap; see AttentionView.of")
        count = 1 + max(item.example for item in maps)
        examples = _tokens(self.examples, "examples") or tuple(f"example {i}" for i in range(count))
        if len(examples) < count:
            raise InputError(f"examples: {len(examples)} labels for {count} examples; give each a label")
        places: set[tuple[int, str]] = set()
        for item in maps:
            if (item.example, item.address) in places:
                raise InputError(f"maps: {item.address!r} occurs twice in example {item.example}; rename one")
            places.add((item.example, item.address))
        # An array is a sequence of its rows: one image alone would pass as many.
        if not isinstance(self.images, list | tuple):
            raise InputError(f"images: {type(self.images).__name__} given; give a list with an image for each example")
        if self.images and len(self.images) != len(examples):
            raise InputError(f"images: {len(self.images)} for {len(examples)} examples; give one, or None, for each")
        images = tuple(None if image is None else png(image) for image in self.images)
        for track in self.tracks:
            if not any(item.example == track.example and len(item.query_tokens) == len(track.values) for item in maps):
                raise InputError(
                    f"tracks: {track.name!r} has {len(track.values)} steps, and no map of example {track.example} as many queries"
                )
        object.__setattr__(self, "maps", maps)
        object.__setattr__(self, "examples", examples)
        object.__setattr__(self, "images", images if any(images) else ())
        object.__setattr__(self, "tracks", tuple(self.tracks))

    @property
    def addresses(self) -> tuple[str, ...]:
        """All addresses without repetition, in the order of the maps."""
        return tuple(dict.fromkeys(item.address for item in self.maps))

    def map(self, address: str, example: int = 0) -> AttentionMap:
        """The map at an address of an example.

        Raises:
            InputError: if there is none; the message names the nearest address.
        """
        for item in self.maps:
            if item.address == address and item.example == example:
                return item
        if not 0 <= example < len(self.examples):
            raise InputError(f"example {example}: this view has examples 0 to {len(self.examples) - 1}")
        raise InputError(
            f"no attention map at {address!r} in example {example}: {nearest(str(address), self.addresses)}"
        )

    def with_heads(self, heads: Sequence[str]) -> Self:
        """The view with only some heads, in the given order, each as a separate map, to compare them.

        Arguments:
            heads: `"3"` is head 3 of every layer, `"0.3"` head 3 of layer 0. The layer can also be an address, with `*` for any
                part of it. Both are counted from 0.

        Raises:
            InputError: for a head or a layer that does not exist.

        >>> view = AttentionView.of(np.ones((4, 1, 1)), ["a"], ["b"], address="layers.0.attention")
        >>> [(item.address, item.heads) for item in view.with_heads(["0.3", "1"]).maps]
        [('layers.0.attention, head 3', 1), ('layers.0.attention, head 1', 1)]
        """
        chosen: dict[tuple[int, str], AttentionMap] = {}
        for wanted in heads:
            layer, number = layer_and_head(wanted)
            fitting = [item for item in self.maps if is_layer(item.address, layer)]
            if not fitting:
                raise InputError(f"head {wanted!r}: there is no layer {layer!r} among {', '.join(self.addresses)}")
            for item in fitting:
                if number >= item.heads:
                    raise InputError(f"head {wanted!r}: {item.address} has heads 0 to {item.heads - 1}")
                address = f"{item.address}, head {number}"
                marks = None if item.marks is None else item.marks.of_head(number)
                one = replace(item, address=address, weights=item.weights[number : number + 1], marks=marks)
                chosen.setdefault((item.example, address), one)
        if not chosen:
            raise InputError("heads: the list is empty; name heads, such as 0.3")
        return replace(self, maps=tuple(chosen.values()))

    @classmethod
    def of(
        cls,
        weights: Any,
        query_tokens: Sequence[str],
        key_tokens: Sequence[str],
        *,
        title: str = "Attention",
        address: str = "attention",
        kind: Kind | None = None,
        note: str = "",
        image: Any = None,
        query_words: Sequence[int] | None = None,
        key_words: Sequence[int] | None = None,
        query_patches: Patches | None = None,
        key_patches: Patches | None = None,
    ) -> AttentionView:
        """The view of one array of weights, from any library.

        Arguments:
            weights: (L, S) or (H, L, S); an array, nested lists or a torch tensor of any dtype and device.
            query_tokens: L strings, the rows.
            key_tokens: S strings, the columns.
            title: a short title.
            address: the name of the layer.
            kind: "self" or "cross"; by default "self" if the two token sequences are equal.
            note: a sentence shown under the title.
            image: the image whose patches are queries or keys: PNG bytes or a uint8 array (Y, X, 3).
            query_words: for each query token the number of its word.
            key_words: the same for the keys.
            query_patches: the query tokens that are patches of the image.
            key_patches: the same for the keys.

        Raises:
            InputError: if the shapes do not fit, or a number is not finite.

        """
        array = _float32(weights, address)
        queries, keys = _tokens(query_tokens, "query_tokens"), _tokens(key_tokens, "key_tokens")
        if array.ndim not in (2, 3):
            raise InputError(
                f"{address}: weights have shape {array.shape} but the tokens ask for ({len(queries)}, "
                f"{len(keys)}) or (heads, {len(queries)}, {len(keys)}); index one example of a batch first"
            )
        item = AttentionMap(
            address=address,
            kind=kind or ("self" if queries == keys else "cross"),
            query_tokens=queries,
            key_tokens=keys,
            weights=array if array.ndim == 3 else array[None],
            query_words=query_words,  # type: ignore[arg-type]  # a map turns what it is given into tuples
            key_words=key_words,  # type: ignore[arg-type]
            query_patches=query_patches,
            key_patches=key_patches,
        )
        return cls(title=title, maps=(item,), note=note, images=() if image is None else (image,))

    def to_json(self) -> str:
        """The view as JSON text. `from_json` returns an equal view, with every weight bit for bit."""
        return written(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> AttentionView:
        """The view in a text that `to_json` of this or an earlier version wrote.

        Raises:
            InputError: for another text.
        """
        return read(text)


def _tokens(tokens: Any, name: str) -> tuple[str, ...]:
    # A single string would pass as a sequence of its characters, which is seldom what was meant.
    if isinstance(tokens, str | bytes) or not isinstance(tokens, Sequence):
        raise InputError(f"{name}: {type(tokens).__name__} given; give a list of strings")
    for i, token in enumerate(tokens):
        if not isinstance(token, str):
            raise InputError(f"{name}[{i}]: {token!r} is not a string; turn token ids into text first")
    return tuple(tokens)


def layer_and_head(head: int | str) -> tuple[str, int]:
    """The layer and the number of a head such as `0.3`; the layer is empty if only the number is given.

    Raises:
        InputError: for a text of another form.

    >>> layer_and_head("5.11"), layer_and_head(3), layer_and_head("decoder.layers.0.attention.1")
    (('5', 11), ('', 3), ('decoder.layers.0.attention', 1))
    """
    layer, _, number = str(head).rpartition(".")
    if not number.isascii() or not number.isdigit():
        raise InputError(
            f"head {head!r} is no head; give a number, such as 3, or with its layer, such as 0.3; both are counted from 0"
        )
    return layer, int(number)


def is_layer(address: str, layer: str) -> bool:
    """Whether an address is that of a layer, given by its number or by a name with `*`; an empty layer matches any address."""
    if not layer:
        return True
    return layer in address.split(".") if layer.isdigit() else fnmatchcase(address, layer)


def _float32(weights: Any, name: str) -> np.ndarray:
    # torch's bfloat16 has no numpy twin, so a tensor is widened by torch itself, without importing it here.
    if hasattr(weights, "detach"):
        weights = weights.detach().float().cpu().numpy()
    try:
        array = np.asarray(weights)
        if array.dtype.kind not in "biuf":
            raise TypeError
        with np.errstate(over="ignore"):
            return np.array(array, dtype=np.float32, order="C")
    except (TypeError, ValueError):
        raise InputError(
            f"{name}: the weights are not a full array of real numbers; give shape (heads, queries, keys)"
        ) from None


def _words(numbers: Any, size: int, name: str) -> tuple[int, ...]:
    try:
        array = np.asarray(numbers)
    except ValueError:  # rows of several lengths
        array = np.empty(0)
    if array.shape != (size,) or array.dtype.kind not in "iu" or (array[1:] < array[:-1]).any():
        raise InputError(f"{name}: give a whole number for each of the {size} tokens, none smaller than the one before")
    return tuple(int(number) for number in array)


FORMAT_VERSION = 4
FIRST_FIELDS = ("address", "kind", "example", "query_tokens", "key_tokens", "weights")
LATER_FIELDS = ("query_words", "key_words", "query_patches", "key_patches")  # since version 2
LAST_FIELDS = ("marks",)  # since version 3
HINT = "give what to_json wrote"


def written(view: AttentionView) -> str:
    """The view as JSON text, for `read`."""
    maps = [
        {
            "address": item.address,
            "kind": item.kind,
            "example": item.example,
            "query_tokens": item.query_tokens,
            "key_tokens": item.key_tokens,
            "query_words": item.query_words,
            "key_words": item.key_words,
            "query_patches": item.query_patches and asdict(item.query_patches),
            "key_patches": item.key_patches and asdict(item.key_patches),
            "marks": item.marks and item.marks.to_json(),
            "weights": [[[_nine_digits(x) for x in row] for row in head] for head in item.weights],
        }
        for item in view.maps
    ]
    value = {
        "format_version": FORMAT_VERSION,
        "title": view.title,
        "note": view.note,
        "examples": view.examples,
        "images": [image and base64.b64encode(image).decode("ascii") for image in view.images],
        "maps": maps,
        "tracks": [track.to_json() for track in view.tracks],  # since version 4
    }
    return json.dumps(value)


def read(text: str | bytes) -> AttentionView:
    """The view in a text that this version or an earlier one wrote.

    Raises:
        InputError: for another text.

    """
    value = as_object(parse_json(text, "attention view", HINT), "attention view", HINT)
    version = value.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= FORMAT_VERSION:
        raise InputError(
            f"attention view: format_version is {version!r}, this version reads 1 to {FORMAT_VERSION}; "
            "write the view again"
        )
    names = ["format_version", "title", "note", "examples", "maps"]
    names += ["images"] * (version > 1) + ["tracks"] * (version > 3)
    fields = _fields(value, names, "attention view")
    for name in ("maps", "images", "tracks"):
        if not isinstance(fields.get(name, []), list):
            raise InputError(f"attention view: {name!r} is not a list; {HINT}")
    maps = [_map(item, f"map {i}", version) for i, item in enumerate(fields["maps"])]
    images = tuple(_image(image, f"image {i}") for i, image in enumerate(fields.get("images", ())))
    tracks = tuple(
        Track(**_fields(track, list(TRACK_FIELDS), f"track {i}")) for i, track in enumerate(fields.get("tracks", ()))
    )
    return AttentionView(
        title=fields["title"],
        note=fields["note"],
        examples=fields["examples"],
        maps=tuple(maps),
        images=images,
        tracks=tracks,
    )


def _map(value: Any, where: str, version: int) -> AttentionMap:
    later = LATER_FIELDS * (version > 1) + LAST_FIELDS * (version > 2)
    fields = _fields(value, [*FIRST_FIELDS, *later], where)
    if fields.get("marks") is not None:
        names = ["centres", "window", "buckets", "chunk", "borders"]
        fields["marks"] = Marks(**_fields(fields["marks"], names, f"{where}: marks"))
    for name in ("query_patches", "key_patches"):
        if fields.get(name) is not None:
            fields[name] = Patches(**_fields(fields[name], ["rows", "columns", "first"], f"{where}: {name}"))
    return AttentionMap(**fields)


def _image(value: Any, where: str) -> bytes | None:
    if value is None:
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise InputError(f"{where}: this is not base64; {HINT}") from None


def _nine_digits(weight: float) -> float:
    # Nine digits name a float32 uniquely, and are half as long as the digits of the float64 it would become.
    return float(f"{weight:.9g}")


def _fields(value: Any, names: list[str], where: str) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(names):
        found = ", ".join(map(str, value)) if isinstance(value, dict) else type(value).__name__
        raise InputError(f"{where}: has {found or 'nothing'}, needs {', '.join(names)}; {HINT}")
    return {name: value[name] for name in names}
