"""Attention rollout: the attention of a whole stack to its input, from the weights of its layers (Abnar, Zuidema 2020)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor

from regard.errors import InputError, nearest
from regard.inspection.view import AttentionMap, AttentionView

if TYPE_CHECKING:
    from regard.inspection.record import Record


Fusion = Literal["mean", "max", "min"]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rollout:
    """The rollout after every layer of a stack.

    Arguments:
        addresses: N layers, from the bottom up.
        weights: (N, B, L, L) float32; `weights[n, b, i, j]` is the share of input token j in position i after layer n. A row
            sums to one, and is zero at padding.
        tokens: B rows of strings, without padding; empty where unknown.
        valid: (B, L) bool, True = a real token.
    """

    addresses: tuple[str, ...]
    weights: Tensor
    valid: Tensor
    tokens: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(
        cls,
        layers: Mapping[str, Tensor],
        *,
        valid: Tensor | None = None,
        residual: float = 0.5,
        heads: Fusion = "mean",
    ) -> Rollout:
        """Roll out the weights of one stack of self-attention, an encoder's or a causal one (section 3, equation 1).

            A_l = (1 - r) W_l + r I,  rows divided by their sum          R_l = A_l R_{l-1},   R_0 = I

        with W_l the weights of layer l over its heads, and r = 0.5 for the residual connection, as published. What it leaves
        out: the sizes of the values, the feed-forward nets, and what else flows into the stack (a decoder's cross-attention).

        Arguments:
            layers: by address from the bottom up, (B, H, L, L) each, before dropout.
            valid: (B, L) bool, True = a real token; all are where None. Padding may be on either side.
            residual: r, the share of the residual connection, in [0, 1).
            heads: how heads become one: `mean` as published; `max` and `min` are common in practice.

        Raises:
            InputError: for layers that are not square or differ in size, which is what cross-attention is.

        >>> identity = torch.eye(3).expand(1, 2, 3, 3)
        >>> Rollout.of({"layers.0": identity, "layers.1": identity}).weights[-1, 0].tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        """
        if heads not in get_args(Fusion):
            raise InputError(f"heads is {heads!r}; {nearest(str(heads), get_args(Fusion))}")
        if not 0 <= residual < 1:
            raise InputError(f"residual is {residual}; give the residual connection's share, from 0 to below 1")
        shape: tuple[int, int] | None = None
        for address, weights in layers.items():
            if weights.dim() != 4 or weights.shape[2] != weights.shape[3]:
                raise InputError(
                    f"{address}: weights are {tuple(weights.shape)}; a rollout follows self-attention, (batch, heads, L, L), "
                    "through one stack, not what comes in from another"
                )
            found = (weights.shape[0], weights.shape[2])
            if shape is not None and found != shape:
                raise InputError(f"{address}: is for another batch or length than the layers before it; give one stack")
            shape = found
        if shape is None:
            raise InputError("layers is empty; give the weights of at least one layer")
        batch, length = shape
        valid = _valid(valid, batch, length)
        both = (valid.unsqueeze(2) & valid.unsqueeze(1)).to(next(iter(layers.values())).device)
        identity = torch.eye(length, device=both.device)
        rolled, after = identity.expand(batch, -1, -1) * both, []
        for weights in layers.values():
            wide = weights.detach().float()
            fused = wide.mean(dim=1) if heads == "mean" else wide.amax(dim=1) if heads == "max" else wide.amin(dim=1)
            mixed = ((1 - residual) * fused + residual * identity) * both
            rolled = mixed / mixed.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(mixed.dtype).tiny) @ rolled
            after.append(rolled)
        return cls(addresses=tuple(layers), weights=torch.stack(after), valid=valid)

    @classmethod
    def of_record(
        cls,
        record: Record,
        addresses: str | Sequence[str] = "*",
        *,
        row: int = 0,
        run: int = -1,
        residual: float = 0.5,
        heads: Fusion = "mean",
    ) -> Rollout:
        """From what `regard.look` saw of one batch row, padding left out.

        Arguments:
            record: what was seen.
            addresses: the layers of one stack, as names or patterns such as `encoder.*`.
            row: which batch row.
            run: which run.
            residual, heads: as in `of`.

        Raises:
            InputError: where the layers are not one stack of self-attention.
        """
        patterns = [addresses] if isinstance(addresses, str) else list(addresses)
        called = record.view(row, run=run).maps
        chosen = [item for item in called if any(fnmatchcase(item.address, pattern) for pattern in patterns)]
        if not chosen:
            names = ", ".join(item.address for item in called)
            raise InputError(f"no layer is called {' or '.join(map(repr, patterns))}; choose from {names}")
        return cls.of_maps(chosen, residual=residual, heads=heads)

    @classmethod
    def of_maps(
        cls, maps: AttentionView | Sequence[AttentionMap], *, residual: float = 0.5, heads: Fusion = "mean"
    ) -> Rollout:
        """From the maps of one sentence, from the bottom up.

        Raises:
            InputError: where the maps are not one stack of self-attention over one sentence.
        """
        items = list(maps.maps if isinstance(maps, AttentionView) else maps)
        for item in items:
            if item.kind == "cross":
                raise InputError(
                    f"{item.address}: looks at another sequence; a rollout follows the self-attention of one stack, so "
                    "choose its layers, such as addresses='encoder.*'"
                )
            if item.query_tokens != items[0].query_tokens or item.example != items[0].example:
                raise InputError(
                    f"{item.address}: looks at another sentence than {items[0].address}; a rollout follows one stack, so "
                    "choose its layers, such as addresses='encoder.*'"
                )
        layers = {item.address: torch.tensor(item.weights).unsqueeze(0) for item in items}
        found = cls.of(layers, residual=residual, heads=heads)
        return Rollout(
            addresses=found.addresses, weights=found.weights, valid=found.valid, tokens=(items[0].key_tokens,)
        )

    def after(self, address: str) -> Tensor:
        """The rollout after one layer, (B, L, L).

        Raises:
            InputError: for a layer that is not among them.
        """
        if address not in self.addresses:
            raise InputError(f"no layer {address!r} in this rollout; {nearest(address, self.addresses)}")
        return self.weights[self.addresses.index(address)]

    def view(
        self, row: int = 0, tokens: Sequence[str] | None = None, *, title: str = "Attention rollout"
    ) -> AttentionView:
        """The rollout after every layer as maps with one head, to be shown like weights.

        Arguments:
            row: which batch row.
            tokens: of this row, without padding; those of the record where None, else numbers.

        Raises:
            InputError: for a row that is not there, or tokens that do not fit.
        """
        if not 0 <= row < len(self.valid):
            raise InputError(f"row {row} of {len(self.valid)}; count from 0")
        real = self.valid[row]
        known = self.tokens[row] if row < len(self.tokens) else tuple(map(str, range(int(real.sum()))))
        texts = known if tokens is None else tuple(tokens)
        part = self.weights[:, row].cpu()[:, real][:, :, real]
        maps = [
            AttentionMap(
                address=address, kind="self", query_tokens=texts, key_tokens=texts, weights=weights.numpy()[None]
            )
            for address, weights in zip(self.addresses, part, strict=True)
        ]
        return AttentionView(title=title, maps=tuple(maps), note="Rollout from the input up to each layer.")


def _valid(valid: Tensor | None, batch: int, length: int) -> Tensor:
    if valid is None:
        return torch.ones(batch, length, dtype=torch.bool)
    if valid.dtype != torch.bool or tuple(valid.shape) != (batch, length):
        raise InputError(
            f"valid is {valid.dtype} {tuple(valid.shape)}; give bool ({batch}, {length}), True where there is a real token"
        )
    return valid.cpu()


ROLLOUT = "rollout"
"""The address of what all layers come to."""


def with_rollout(view: AttentionView) -> AttentionView:
    """The view with one more map for each image: the rollout through all layers, of models with a class token.

    The row of the class token is then the share that each patch has in the vector that the class is predicted from; see
    `regard.inspection.analysis.rollout`. Other views stay as they are.
    """
    maps = list(view.maps)
    for number in range(len(view.examples)):
        own = [item for item in view.maps if item.example == number]
        if not own or own[-1].query_patches is None or own[-1].query_patches.first == 0:
            return view
        rolled = Rollout.of_maps(own).weights[-1].numpy()
        maps.append(replace(own[-1], address=ROLLOUT, weights=rolled))
    return replace(view, maps=tuple(maps))
