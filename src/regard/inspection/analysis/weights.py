"""Plain batches of weights as maps of single sentences, without padding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from regard.errors import InputError
from regard.inspection.view import AttentionMap, Kind


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
