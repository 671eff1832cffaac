"""What pages call layers and heads: "Decoder layer 1", "previous token"; and which heads tell most of a text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from regard.errors import InputError
from regard.inspection.view import AttentionMap
from regard.inspection.words import SPACES

STACKS = ("encoder", "decoder")
KINDS = {
    "previous-token": "previous token",
    "next-token": "next token",
    "diagonal": "same token",
    "first-token": "first token",
    "delimiter": "delimiters",
    "sink": "sink",
    "broad": "broad",
}
"""How a page says what `regard.inspection.analysis.Head.names` calls a head; of several names the first here counts."""


def layer_names(addresses: Iterable[str]) -> dict[str, str]:
    """A short name for each address: its stack, where there are two, and its number. Two layers never get one name.

    >>> layer_names(["layers.0.attention", "layers.1.attention, head 2"])
    {'layers.0.attention': 'Layer 0', 'layers.1.attention, head 2': 'Layer 1, head 2'}
    >>> list(layer_names(["encoder.layer.0.self_attn", "decoder.layer.0.self_attn", "decoder.layer.0.cross_attn"]).values())
    ['Encoder layer 0', 'Decoder layer 0', 'Decoder layer 0, cross-attention']
    >>> layer_names(["decoder.attention"])
    {'decoder.attention': 'Decoder attention'}
    """
    every = list(addresses)
    stacks = {stack for address in every for stack in STACKS if stack in address.split(".")}
    names = {address: _name(address, len(stacks) > 1) for address in every}
    shared = Counter(names.values())
    return {address: name if shared[name] == 1 else f"{name}: {address}" for address, name in names.items()}


def _name(address: str, stacked: bool) -> str:
    path, comma, rest = address.partition(",")
    parts = path.split(".")
    number = next((part for part in parts if re.fullmatch(r"\d+", part)), None)
    if number is None:
        return address if " " in path else path.replace(".", " ").replace("_", " ").strip().capitalize() + comma + rest
    stack = next((part for part in parts if part in STACKS), None)
    crossed = any(re.search("cross|encoder_att|encdec", part, re.IGNORECASE) for part in parts)
    name = f"{stack.capitalize()} layer {number}" if stack and stacked else f"Layer {number}"
    return name + (", cross-attention" if crossed else "") + comma + rest


def head_kinds(item: AttentionMap) -> list[str | None]:
    """What each head of a map does, where it does one thing, as `HeadStatistics` counts it on this text.

    >>> tokens, before = tuple("vwxyz"), np.eye(5)[[0, 0, 1, 2, 3]]
    >>> head_kinds(AttentionMap(address="a", kind="self", query_tokens=tokens, key_tokens=tokens, weights=before[None]))
    ['previous token']
    """
    from regard.inspection.analysis.heads import HeadStatistics

    try:
        found = HeadStatistics.of_maps([item]).heads
    except InputError:  # weights below zero, or nothing to choose between: such heads have no names
        return [None] * item.heads
    return [next((said for name, said in KINDS.items() if name in head.names()), None) for head in found]


RESTING = ("first token", "sink")
"""Names of heads whose weights mostly lie on the first or a special token. Pages open on another head where there is one."""


def telling(item: AttentionMap) -> np.ndarray:
    """How much each head tells of the text: the mean over queries of the largest weight that is the query's own choice.

    That is by how much the weight exceeds the mean of all queries for that key. In self-attention the query itself, its two
    neighbours and the first token are left aside; and everywhere special tokens such as `[SEP]`. So a head that always looks one
    token back, or at the same token from everywhere, tells nothing.

    >>> tokens, weights = tuple("wxyz"), np.stack([np.eye(4), np.eye(4)[[3, 3, 3, 1]]])
    >>> item = AttentionMap(address="a", kind="self", query_tokens=tokens, key_tokens=tokens, weights=weights)
    >>> telling(item).tolist()
    [0.0, 0.3125]
    """
    return np.array([own.max(axis=-1).mean() for own in _own_choices(item)])


def telling_cells(item: AttentionMap) -> list[list[int]]:
    """The query of each head that tells most, and the key that it chose: where a page begins.

    >>> tokens, weights = tuple("wxyz"), np.eye(4)[[3, 3, 3, 1]]
    >>> telling_cells(AttentionMap(address="a", kind="self", query_tokens=tokens, key_tokens=tokens, weights=weights[None]))
    [[3, 1]]
    """
    return [[int(place) for place in np.unravel_index(own.argmax(), own.shape)] for own in _own_choices(item)]


def _own_choices(item: AttentionMap) -> Iterator[np.ndarray]:
    """By how much each weight of a head exceeds the mean of all queries for its key: (L, S), 0 at left out keys."""
    from regard.inspection.analysis.heads import SPECIALS

    queries, keys = len(item.query_tokens), len(item.key_tokens)
    special = np.array([token.strip(SPACES) in SPECIALS for token in item.key_tokens])
    aside = np.broadcast_to(special, (queries, keys))
    if item.kind == "self":
        place = np.arange(keys) - np.arange(queries)[:, None] - (keys - queries)
        aside = aside | (np.abs(place) <= 1) | (np.arange(keys) == 0)
    for head in item.weights:
        sizes = np.abs(head)
        yield np.where(aside, 0.0, sizes - sizes.mean(axis=0)).clip(0.0)
