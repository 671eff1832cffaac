"""Sums over the queries of attention maps, for each head: they add up over maps, and means come of them.

The maps are those of a view, or rows of plain tensors without their padding (`as_maps`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from regard.errors import InputError
from regard.inspection.view import AttentionMap, Kind
from regard.inspection.words import SPACES

Place = Literal["previous-token", "next-token", "diagonal", "first-token", "delimiter", "sink"]
"""Where a query may look: at the token before it, after it, at itself; at the first of all, a mark that parts others, or an
attention sink, the first of all or a special token, where that is not itself."""

PLACES: tuple[Place, ...] = get_args(Place)


def as_maps(
    layers: Mapping[str, Tensor],
    *,
    queries: Tensor | None,
    keys: Tensor | None,
    query_tokens: Sequence[Sequence[str]] | None,
    key_tokens: Sequence[Sequence[str]] | None,
    kind: Kind,
) -> Iterator[AttentionMap]:
    """Each row of each layer (B, H, L, S) as a map of its real tokens; tokens that are not given are empty strings.

    Raises:
        InputError: for shapes that do not fit.
    """
    if kind == "self":  # one sequence: what is known of its queries is known of its keys
        queries = keys if queries is None else queries
        keys = queries if keys is None else keys
        query_tokens = key_tokens if query_tokens is None else query_tokens
        key_tokens = query_tokens if key_tokens is None else key_tokens
    if not layers:
        raise InputError("layers is empty; give the weights of at least one layer")
    for address, weights in layers.items():
        batch, length, width = _checked(address, weights, kind)
        rows = _real(queries, (batch, length), f"{address}: queries")
        columns = _real(keys, (batch, width), f"{address}: keys")
        for row in range(batch):
            there, seen = rows[row], columns[row]
            if not bool(there.any()) or not bool(seen.any()):
                continue
            yield AttentionMap(
                address=address,
                kind=kind,
                query_tokens=_texts(query_tokens, row, there, f"{address}: query_tokens"),
                key_tokens=_texts(key_tokens, row, seen, f"{address}: key_tokens"),
                weights=weights[row].detach()[:, there.to(weights.device)][:, :, seen.to(weights.device)],  # type: ignore[arg-type]
                example=row,
            )


def _checked(address: str, weights: Tensor, kind: Kind) -> tuple[int, int, int]:
    if not isinstance(weights, Tensor) or weights.dim() != 4 or not weights.is_floating_point():
        found = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
        raise InputError(f"{address}: weights are {found}; give a float tensor (batch, heads, queries, keys)")
    batch, _, length, width = weights.shape
    if kind == "self" and length != width:
        raise InputError(
            f"{address}: {length} queries look at {width} keys, which is no self-attention; give kind='cross'"
        )
    return batch, length, width


def _real(valid: Tensor | None, shape: tuple[int, int], where: str) -> Tensor:
    if valid is None:
        return torch.ones(shape, dtype=torch.bool)
    if valid.dtype != torch.bool or tuple(valid.shape) != shape:
        raise InputError(
            f"{where}: is {valid.dtype} {tuple(valid.shape)}; give bool {shape}, True where there is a real token"
        )
    return valid.cpu()


def _texts(tokens: Sequence[Sequence[str]] | None, row: int, real: Tensor, where: str) -> tuple[str, ...]:
    if tokens is None:
        return ("",) * int(real.sum())
    if row >= len(tokens) or len(tokens[row]) != len(real):
        raise InputError(f"{where}: row {row} does not have {len(real)} strings; give one for each place, padding too")
    return tuple(text for text, there in zip(tokens[row], real.tolist(), strict=True) if there)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HeadSums:
    """Sums over queries, for each of H heads.

    Arguments:
        kind: of all maps.
        queries: counted.
        entropy, relative_entropy, largest, distance: (H,) sums over these.
        attention: (H, 6), weights by place, in the order of `PLACES`.
        most: (H, 6), how often the largest weight is there.
        lookers: (6,), how many queries can look there.
        order: (H,), sum of gammas over sentences; ordered: (H,), over how many.
    """

    kind: Kind
    queries: int
    entropy: np.ndarray
    relative_entropy: np.ndarray
    largest: np.ndarray
    distance: np.ndarray
    attention: np.ndarray
    most: np.ndarray
    lookers: np.ndarray
    order: np.ndarray
    ordered: np.ndarray

    def added(self, other: HeadSums) -> HeadSums:
        """Both together.

        Raises:
            InputError: where they are not of one layer.
        """
        if self.kind != other.kind or self.entropy.shape != other.entropy.shape:
            raise InputError(
                "maps of one address differ in kind or in number of heads; give layers different addresses"
            )
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return HeadSums(
            kind=self.kind,
            **{name: value + getattr(other, name) for name, value in values.items() if name != "kind"},
        )

    @classmethod
    def of(
        cls, item: AttentionMap, *, causal: bool | None, delimiters: frozenset[str], specials: frozenset[str]
    ) -> HeadSums:
        """The sums over the queries of one map.

        Raises:
            InputError: for negative weights, and more queries than keys in self-attention.
        """
        heads, length, width = item.weights.shape
        if item.weights.min(initial=0.0) < 0:
            raise InputError(f"{item.address}: some weights are negative, so they are no shares of attention")
        crossed = item.kind == "cross"
        if not crossed and length > width:
            raise InputError(f"{item.address}: {length} queries look at {width} keys, which is no self-attention")
        # Fewer queries than keys are the last ones: the others were read before, as with a cache.
        queries = np.arange(width - length, width) if not crossed else np.zeros(length, dtype=int)
        # Whether any query looks at a key after it.
        onward = not crossed and any(bool(np.triu(head, width - length + 1).any()) for head in item.weights)
        if causal and onward:
            raise InputError(f"{item.address}: queries look at keys after them, so it is not causal; leave causal out")
        causal = not crossed and bool(length > 1 and not onward if causal is None else causal)
        visible = queries + 1 if causal else np.full(length, width)
        totals = item.weights.sum(axis=-1, dtype=np.float64)
        # A query that some head lets see nothing has nothing to say either.
        counted = (visible > 1) & (totals > 0).all(axis=0)
        places = _places(item, queries, crossed, causal, delimiters, specials) & counted[:, None]
        apart = np.abs(queries[:, None] - np.arange(width))  # says nothing in cross-attention, and is not read there
        sums = np.zeros((heads, 4))
        attention, most = (np.zeros((heads, len(places))) for _ in range(2))
        order, ordered = np.zeros(heads), np.zeros(heads)
        for head in range(heads):  # one after the other: all heads of a long text at once would fill the memory
            shares = item.weights[head] / np.where(totals[head] > 0, totals[head], 1.0)[:, None]
            entropies = 0.0 - (shares * np.log(shares, out=np.zeros_like(shares), where=shares > 0)).sum(axis=-1)
            largest = shares.max(axis=-1, keepdims=True)
            at_largest = (shares == largest) & (largest > 0)
            hits = at_largest / np.maximum(at_largest.sum(axis=-1, keepdims=True), 1)
            relative = entropies[counted] / np.log(visible[counted])
            distances = (shares * apart).sum(axis=-1)
            sums[head] = (entropies[counted].sum(), relative.sum(), largest[counted].sum(), distances[counted].sum())
            attention[head] = [shares[place].sum() for place in places]
            most[head] = [hits[place].sum() for place in places]
            if crossed:
                order[head], ordered[head] = _order(shares)
        return cls(
            kind=item.kind,
            queries=int(counted.sum()),
            entropy=sums[:, 0],
            relative_entropy=sums[:, 1],
            largest=sums[:, 2],
            distance=sums[:, 3],
            attention=attention,
            most=most,
            lookers=places.any(axis=-1).sum(axis=-1),
            order=order,
            ordered=ordered,
        )


def _places(
    item: AttentionMap,
    queries: np.ndarray,
    crossed: bool,
    causal: bool,
    delimiters: frozenset[str],
    specials: frozenset[str],
) -> np.ndarray:
    """(6, L, S) bool in the order of `PLACES`: which key is at the place, for the queries that can see it."""
    length, width = item.weights.shape[1:]
    query, key = queries[:, None], np.arange(width)[None, :]
    seen = key <= query if causal else np.ones((length, width), dtype=bool)
    nowhere = np.zeros((length, width), dtype=bool)
    tokens = [token.strip(SPACES) for token in item.key_tokens]
    marks, special = (np.array([token in wanted for token in tokens]) for wanted in (delimiters, specials))
    previous, after, same = (nowhere,) * 3 if crossed else (key == query - 1, key == query + 1, key == query)
    # A first token or a delimiter that looks at itself says what the diagonal says already.
    others = seen & ~same
    first, sink = (key == 0) & others, ((key == 0) | special[None, :]) & others
    return np.stack([previous & seen, after & seen, same, first, marks[None, :] & others, sink])


def _order(shares: np.ndarray) -> tuple[float, bool]:
    """Gamma over pairs of queries, and whether there is a pair that looks at two places."""
    places = shares.argmax(axis=-1)
    later = np.sign(places[None, :] - places[:, None])  # [i, k]: whether k looks further right than i
    signs = later[np.triu_indices(len(places), 1)]
    untied = np.abs(signs).sum()
    return (float(signs.sum() / untied), True) if untied else (0.0, False)
