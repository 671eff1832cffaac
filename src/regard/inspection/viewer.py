"""A view of attention as one HTML page that needs no other file."""

from __future__ import annotations

import base64
import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from regard.files import write_file
from regard.inspection.naming import RESTING, head_kinds, layer_names, telling, telling_cells
from regard.inspection.patches import Patches
from regard.inspection.view import SENTENCES, WORDS, AttentionMap, AttentionView
from regard.inspection.words import readable, shown_tokens, visible, word_numbers, word_texts
from regard.web import framed, page


def html_page(view: AttentionView) -> str:
    """The page that shows a view: a heatmap, lines between tokens, all layers and heads, coloured text, an image's patches.

    It is one file without any link to another, opens from a disk without a network, and says so to the
    browser (a content security policy that allows nothing else). Weights are stored on a logarithmic scale
    that is the finer the fewer there are (see `Scale`); the page says how far each value may be off, and zero
    stays zero. The exact numbers are in `AttentionView.to_json`.

    Where the tokens are pieces of words, the page can merge them: a map's own `query_words` and `key_words`
    say how, else the marks of the common tokenizers do.

    >>> view = AttentionView.of([[0.9, 0.1], [0.2, 0.8]], ["la", "<b>"], ["the", "house"], title="en-fr")
    >>> page = html_page(view)
    >>> "<title>en-fr</title>" in page, "<b>" in page
    (True, False)
    """
    scale = scale_for(view.maps)
    stored = [store(item, scale) for item in view.maps]
    return _page(view, scale, data=described(view, stored), weights=[each.text for each in stored])


def framed_page(view: AttentionView) -> tuple[str, dict[str, Any], list[bytes]]:
    """The page of a view without its data, for a frame that gives them: a notebook's widget.

    Returns:
        The page, what it shows as JSON, and the deflated weights of each map.
    """
    scale = scale_for(view.maps)
    stored = [store(item, scale) for item in view.maps]
    levels = [base64.b64decode(each.text) for each in stored]
    return _page(view, scale, data=None, weights=[]), described(view, stored), levels


def _page(view: AttentionView, scale: Scale, *, data: dict[str, Any] | None, weights: Sequence[str]) -> str:
    parts = {"title": readable(view.title), "note": readable(view.note), "footer": _rounding(scale), "weights": weights}
    return page("viewer", parts, data=data, styles=("viewer.css",))


def described(view: AttentionView, levels: Sequence[Levels]) -> dict[str, Any]:
    """What the viewer's modules read of a view, but for the weights: maps share the tokens of their sides.

    Arguments:
        view: what is shown.
        levels: of its maps' weights.
    """
    sides: dict[tuple[Any, ...], int] = {}
    names = layer_names(dict.fromkeys(readable(item.address) for item in view.maps))
    maps = [_described(item, one, sides, names) for item, one in zip(view.maps, levels, strict=True)]
    return {
        "title": readable(view.title),
        "examples": [readable(label) for label in view.examples],
        "images": [image and base64.b64encode(image).decode("ascii") for image in view.images],
        "sides": [_side(*side) for side in sides],
        "maps": maps,
        **({"documents": documents} if any(documents := _documents(view)) else {}),
        **({"tracks": [track.to_json() for track in view.tracks]} if view.tracks else {}),
    }


def _documents(view: AttentionView) -> list[list[int] | None]:
    """Of each example that is a document of sentences the numbers of its two maps: of the words, and of the sentences."""
    places = {(item.example, item.address): number for number, item in enumerate(view.maps)}
    pairs = ([places.get((example, one)) for one in (WORDS, SENTENCES)] for example in range(len(view.examples)))
    return [None if None in pair else pair for pair in pairs]  # type: ignore[misc]  # none of them is None


def packed(view: AttentionView, more: Mapping[str, Any]) -> bytes:
    """A view in one body, for a page that a server feeds: the length of a JSON object, that object, the numbers of all weights.

    Arguments:
        view: what is shown.
        more: what else the JSON object tells.

    >>> view = AttentionView.of([[0.9, 0.1], [0.2, 0.8]], ["la", "maison"], ["the", "house"])
    >>> body = packed(view, {"step": 3})
    >>> head = json.loads(body[4 : 4 + int.from_bytes(body[:4], "little")])
    >>> head["step"], head["maps"][0]["heads"]
    (3, 1)
    """
    scale = scale_for(view.maps)
    levels = [Levels.of(item, scale) for item in view.maps]
    head = json.dumps({**described(view, levels), **more}, ensure_ascii=False, separators=(",", ":")).encode()
    planes = (plane for item, one in zip(view.maps, levels, strict=True) for plane in one.planes(item, scale))
    return b"".join((struct.pack("<I", len(head)), head, *planes))


def save_page(view: AttentionView, path: str | os.PathLike[str]) -> None:
    """Write the page of a view to a file.

    Raises:
        InputError: it cannot be written; a file that was there before is then as it was.

    """
    write_file(path, html_page(view).encode())


def html_fragment(view: AttentionView, *, height: int = 680) -> str:
    """The page inside a frame, for a notebook's `_repr_html_`; nothing in it can touch what is around it.

    Arguments:
        view: what to show.
        height: of the frame, in CSS pixels.

    """
    return framed(
        html_page(view), readable(view.title), height=height, allowed="allow-scripts allow-downloads allow-modals"
    )


def _described(
    item: AttentionMap, stored: Levels, sides: dict[tuple[Any, ...], int], names: dict[str, str]
) -> dict[str, Any]:
    """A map without its weights; its tokens are a place in `sides`, where layers share them."""
    query = (item.query_tokens, item.query_words, item.query_patches)
    key = (item.key_tokens, item.key_words, item.key_patches)
    kinds = head_kinds(item)
    return {
        "address": readable(item.address),
        "name": names[readable(item.address)],
        "kind": item.kind,
        "causal": item.is_causal,
        "kinds": kinds,
        # A head that rests is after all others, whatever its remaining weights tell.
        "telling": (telling(item) - [kind in RESTING for kind in kinds]).round(4).tolist(),
        "cells": telling_cells(item),
        "marks": None if item.marks is None else item.marks.to_json(),
        "example": item.example,
        "heads": item.heads,
        "query": sides.setdefault(query, len(sides)),
        "key": sides.setdefault(key, len(sides)),
        "zero": stored.zero,
        "knee": stored.knee,
        "step": stored.step,
        "size": stored.size,
    }


def _side(tokens: tuple[str, ...], words: tuple[int, ...] | None, patches: Patches | None) -> dict[str, Any]:
    # A patch is a whole; its number in a grid would be lost in a word.
    words = None if patches else words or word_numbers(tokens)
    shown, raw = shown_tokens(tokens), tuple(map(visible, tokens))
    return {
        "tokens": shown,
        # What the tokenizer itself calls them, for the box next to the pointer.
        **({} if shown == raw else {"raw": raw}),
        "words": words,
        "texts": None if words is None else [visible(word) for word in word_texts(tokens, words)],
        "patches": None if patches is None else [patches.rows, patches.columns, patches.first],
    }


def _rounding(scale: Scale) -> str:
    return (
        f"Weights are kept on this page to about {scale.step / 2:.1%} of themselves and {scale.knee * scale.step / 2:.0e} of "
        "their layer's largest; the tooltip gives each error. Zero is exact."
    )


# Weights as a page keeps them: whole numbers on a logarithmic scale, deflated.
#
# A weight w is stored as a level: 0 where it is exactly zero, 1 where it is smaller than the first step but not zero, and else
#
#     level = 1 + round(log(1 + |w| / knee) / step)        w' = knee (exp(step (level - 1)) - 1)
#
# so that steps are even below the knee and a constant share of the weight above it. What comes back is off by at most
#
#     (|w'| + knee) (exp(step / 2) - 1)
#
# which the page shows next to every value. Negative weights have their levels below a zero in the middle of the range.
#
# How fine the steps are depends on how much there is to keep (`SCALES`): a sentence's weights are stored to a thousandth of
# themselves and 1e-7 of the largest, 12 layers of 12 heads over 512 tokens to one hundredth of themselves and 1e-4 or 2e-4 of
# the largest. Measured on softmax over normal scores, those 37.7 million weights take 20.5 MB of page where the scores'
# deviation is 2 and 16.8 MB where it is 3 (deflated by Huffman codes and runs alone, which is near the entropy). A weight is
# then off by 9e-5 and 4e-5 in the mean, and by less than 0.01 at most, where it is near 1.


SAMPLE = 400_000  # weights looked at to foresee the size


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """How finely weights are stored.

    Arguments:
        knee: the share of a map's largest weight below which steps are even.
        levels: the level of the largest weight, which is exact.
        budget: the characters of page for which this scale may be chosen.
    """

    knee: float
    levels: int
    budget: float

    @property
    def step(self) -> float:
        """The relative step above the knee."""
        return float(np.log1p(1 / self.knee)) / (self.levels - 1)


SCALES = (
    Scale(knee=1e-4, levels=4607, budget=4e6),  # steps of 0.2 %
    Scale(knee=0.005, levels=254, budget=12e6),  # 2.1 %
    Scale(knee=0.01, levels=232, budget=24e6),  # 2 %
    Scale(knee=0.02, levels=198, budget=24e6),  # 2 %, coarser below the knee
    Scale(knee=0.02, levels=99, budget=24e6),  # 4 %
    Scale(knee=0.05, levels=39, budget=float("inf")),  # 8 %
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Levels:
    """How the weights of one map are numbers.

    Arguments:
        shape: (heads, queries, keys).
        zero: the number that stands for level 0: 0 unless some weights are negative.
        knee: in units of the weights.
        step: of the logarithm.
        size: bytes of a number; of two, the lower ones of a head come first, then the upper ones.
    """

    shape: tuple[int, int, int]
    zero: int
    knee: float
    step: float
    size: int

    @classmethod
    def of(cls, item: AttentionMap, scale: Scale) -> Self:
        """Those of a map on a scale."""
        largest = _largest(item)
        zero = scale.levels if bool((item.weights < 0).any()) else 0
        return cls(
            shape=item.weights.shape,  # pyright: ignore[reportArgumentType]  # a map's weights have three dimensions
            zero=zero,
            knee=scale.knee * largest,
            step=scale.step,
            size=1 if scale.levels + zero <= 255 else 2,
        )

    def planes(self, item: AttentionMap, scale: Scale) -> Iterator[bytes]:
        """The numbers of a map; a head at a time, so that no more than one is held twice."""
        largest = _largest(item)
        for head in item.weights:
            numbers = _levels(head, largest, scale)
            if self.zero:
                numbers = np.where(head < 0, self.zero - numbers, self.zero + numbers)
            for place in range(self.size):
                yield (numbers >> 8 * place).astype(np.uint8).tobytes()


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredWeights(Levels):
    """The weights of one map as the page holds them.

    Arguments:
        text: the deflated numbers in base64.
    """

    text: str


def store(item: AttentionMap, scale: Scale) -> StoredWeights:
    """The weights of a map on a scale."""
    levels = Levels.of(item, scale)
    packer = zlib.compressobj(6, zlib.DEFLATED, zlib.MAX_WBITS, 9, zlib.Z_RLE)
    parts = [packer.compress(plane) for plane in levels.planes(item, scale)]
    parts.append(packer.flush())
    return StoredWeights(**asdict(levels), text=base64.b64encode(b"".join(parts)).decode("ascii"))


def restore(stored: StoredWeights) -> tuple[np.ndarray, np.ndarray]:
    """The weights and the largest error of each, as the page computes them: two float64 arrays of shape (heads, queries, keys).

    >>> from regard.inspection.view import AttentionView
    >>> view = AttentionView.of([[0.9, 0.1, 0.0]], ["it"], ["the", "animal", "did"])
    >>> weights, errors = restore(store(view.maps[0], SCALES[0]))
    >>> weights.round(3).tolist(), float(errors[0, 0, 2])
    ([[[0.9, 0.1, 0.0]]], 0.0)
    """
    signed = _numbers(stored).astype(np.int64) - stored.zero
    levels = np.abs(signed)
    weights = np.sign(signed) * stored.knee * np.expm1(stored.step * np.maximum(levels - 1, 0))
    return weights, errors_of(levels, stored)


def errors_of(levels: np.ndarray, stored: StoredWeights) -> np.ndarray:
    """The largest difference between a weight and what its level stands for."""
    half = np.expm1(stored.step / 2) * 1.0001  # and the rounding to float32 on the way
    values = stored.knee * np.expm1(stored.step * np.maximum(levels - 1, 0))
    return np.where(levels == 0, 0.0, (values + stored.knee) * half)


def scale_for(maps: Sequence[AttentionMap]) -> Scale:
    """The finest scale that keeps the maps within its budget, foreseen from a sample of their rows."""
    total = sum(item.weights.size for item in maps)
    if total * 2 * 4 / 3 <= SCALES[0].budget:  # it fits as it is, two bytes each in base64: a keystroke waits for this
        return SCALES[0]
    rows = list(_sampled(maps, SAMPLE / total))
    seen = sum(row.size for row, _ in rows)
    for scale in SCALES:
        packer = zlib.compressobj(6, zlib.DEFLATED, zlib.MAX_WBITS, 9, zlib.Z_RLE)
        packed = 0
        for place in range(1 if scale.levels <= 255 else 2):
            for row, largest in rows:
                levels = _levels(row, largest, scale)
                packed += len(packer.compress((levels >> 8 * place).astype(np.uint8).tobytes()))
        packed += len(packer.flush())
        if packed / seen * total * 4 / 3 <= scale.budget:
            return scale
    return SCALES[-1]


def _sampled(maps: Sequence[AttentionMap], share: float) -> Iterator[tuple[np.ndarray, float]]:
    """Rows spread evenly over every head, each with its map's largest weight."""
    for item in maps:
        largest = _largest(item)
        stride = max(int(1 / share), 1)
        flat = item.weights.reshape(-1, item.weights.shape[2])
        yield flat[min(stride // 2, len(flat) - 1) :: stride], largest


def _largest(item: AttentionMap) -> float:
    return float(np.abs(item.weights).max()) or 1.0


def _levels(weights: np.ndarray, largest: float, scale: Scale) -> np.ndarray:
    """The level of each weight, without its sign: uint16."""
    magnitudes = np.abs(weights)
    # Divided first: the largest weight of a map may be so small that its inverse is not a float32.
    scaled = magnitudes / np.float32(largest)
    scaled *= np.float32(1 / scale.knee)
    np.log1p(scaled, out=scaled)
    scaled *= np.float32(1 / scale.step)
    levels = np.rint(scaled, out=scaled).astype(np.uint16)
    levels += magnitudes != 0
    return levels


def _numbers(stored: StoredWeights) -> np.ndarray:
    flat = np.frombuffer(zlib.decompress(base64.b64decode(stored.text)), dtype=np.uint8)
    heads, queries, keys = stored.shape
    planes = flat.reshape(heads, stored.size, queries, keys).astype(np.uint16)
    return planes[:, 0] if stored.size == 1 else planes[:, 0] + (planes[:, 1] << 8)
