"""Depth against rank: how alike the vectors of a text are after each layer of a model (Dong et al. 2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, get_args

import torch
from torch import Tensor, nn

from regard.errors import InputError, nearest
from regard.inspection.analysis.rank_one import relative_residual
from regard.layers import Pictures, PositionedEmbedding, TextEmbedding, Tokens
from regard.layers.blocks import Block

if TYPE_CHECKING:
    from rich.table import Table

    from regard.inspection.record import Record
    from regard.inspection.run import Run


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Collapse:
    """How far a text's vectors are from being all the same, layer after layer.

        r_l = ||res(X_l)||_{1,inf} / ||X_l||_{1,inf},   res(X) = X - 1 x^T   (section 2)

    X_l has the vectors of one text's tokens as rows. 0 = all of them are one vector, a matrix of rank one, and no token can be
    told from another. What a text's own number of tokens does to r it does in every layer.

    Arguments:
        addresses: N layers, from the bottom up.
        residuals: (N, B) float64, r of each layer and text; NaN for a text without tokens, 0 for one of one token.
    """

    addresses: tuple[str, ...]
    residuals: Tensor

    @classmethod
    def of(cls, states: Mapping[str, Tensor], *, valid: Tensor | None = None) -> Self:
        """From the vectors after each layer.

        Arguments:
            states: by address from the bottom up, (B, L, D) each.
            valid: (B, L) bool, True = a real token; all are where None. Padding may stand on either side.

        Raises:
            InputError: where there is nothing, or a layer gives something else.

        >>> rows = torch.eye(3).unsqueeze(0)
        >>> Collapse.of({"below": rows, "above": 0.01 * rows + 1}).means
        (1.0, 0.0033...)
        """
        if not states:
            raise InputError("there are no hidden states; give the vectors of at least one layer")
        found = []
        for address, state in states.items():
            if state.dim() != 3 or not state.is_floating_point():
                raise InputError(
                    f"{address} gives {tuple(state.shape)}, no vectors (batch, tokens, width); name another part"
                )
            real = torch.ones(state.shape[:2], dtype=torch.bool) if valid is None else valid.cpu()
            if real.dtype != torch.bool or real.shape != state.shape[:2]:
                raise InputError(
                    f"{address} gives {tuple(state.shape)}, and valid is {real.dtype} {tuple(real.shape)}; give bool "
                    f"{tuple(state.shape[:2])}, True where there is a real token"
                )
            found.append(torch.stack([_residual(row[kept]) for row, kept in zip(state.cpu(), real, strict=True)]))
            if found[-1].shape != found[0].shape:
                raise InputError(f"{address}: has {len(found[-1])} texts, and the layers before it {len(found[0])}")
        return cls(addresses=tuple(states), residuals=torch.stack(found))

    @classmethod
    def of_record(
        cls, record: Record, addresses: Sequence[str] | None = None, *, run: int = -1, valid: Tensor | None = None
    ) -> Self:
        """From what `regard.look(model, hidden=...)` saw in one run; `stack_addresses` tells what to look at.

        Arguments:
            record: what was seen.
            addresses: the layers, from the bottom up; all whose output was kept where None.
            run: which run.
            valid: (B, L), which tokens are real. Where None, what the record knows of the texts that were read, of the answer
                for layers of its length; all are where it knows nothing.

        Raises:
            InputError: as `of`; for a layer whose output was not kept; where a text and its answer are of one length and
                differ in padding, so that it has to be said whose layers these are.
        """
        if not record.runs:
            raise InputError("nothing was recorded; use the model inside the block: with regard.look(...) as seen: ...")
        seen = record.runs[run]
        chosen = list(seen.hidden) if addresses is None else list(addresses)
        states = {address: record.hidden(address, run=run) for address in chosen}
        parts = [
            cls.of({address: state}, valid=_valid(seen, state, address) if valid is None else valid)
            for address, state in states.items()
        ]
        if not parts:
            raise InputError("no output of a layer was kept; look with hidden=stack_addresses(model)")
        return cls(addresses=tuple(chosen), residuals=torch.cat([part.residuals for part in parts]))

    @property
    def means(self) -> tuple[float, ...]:
        """The mean over texts of each layer, texts without tokens left out."""
        return tuple(self.residuals.nanmean(dim=1).tolist())

    def after(self, address: str) -> Tensor:
        """The residuals of one layer, (B,).

        Raises:
            InputError: for a layer that is not among them.
        """
        if address not in self.addresses:
            raise InputError(f"no layer {address!r} here; {nearest(address, self.addresses)}")
        return self.residuals[self.addresses.index(address)]

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values; null for a text without tokens."""
        layers = [
            {"address": address, "residuals": [None if value != value else value for value in row.tolist()]}
            for address, row in zip(self.addresses, self.residuals, strict=True)
        ]
        return {"format_version": 1, "layers": layers}

    def __rich__(self) -> Table:
        """A row for each layer, for `rich.print`."""
        return depth_table({"residual": self})


def depth_table(found: Mapping[str, Collapse]) -> Table:
    """Several models, or several forms of one, side by side: a row for each layer, means over texts.

    Arguments:
        found: by the column's title; all of the same layers.

    Raises:
        InputError: for layers that differ.
    """
    from rich.table import Table

    addresses = {each.addresses for each in found.values()}
    if len(addresses) != 1:
        raise InputError("these have different layers, or there are none; give those of one model")
    table = Table(header_style="bold")
    table.add_column("layer", overflow="fold")
    for title in found:
        table.add_column(title, justify="right")
    for address, *numbers in zip(addresses.pop(), *(each.means for each in found.values()), strict=True):
        table.add_row(address, *(f"{number:.2g}" for number in numbers))
    return table


def stack_addresses(module: nn.Module) -> list[str]:
    """What to look at: the embeddings and blocks of a model of this package, from the bottom up.

    >>> from regard.models import Bert, BertConfig
    >>> stack_addresses(Bert(BertConfig(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=2)))
    ['embedding', 'layers.0', 'layers.1']
    """
    kinds = (TextEmbedding, PositionedEmbedding, *get_args(Block))
    return [name for name, part in module.named_modules() if isinstance(part, kinds)]


def _residual(rows: Tensor) -> Tensor:
    return relative_residual(rows) if len(rows) else torch.tensor(torch.nan, dtype=torch.float64)


def _valid(seen: Run, state: Tensor, address: str) -> Tensor | None:
    """Which tokens are real, by the texts of that shape."""
    texts = [text for text in (seen.source, seen.target) if text is not None and not isinstance(text, Pictures)]
    fitting = [text.valid.cpu() for text in texts if isinstance(text, Tokens) and text.valid.shape == state.shape[:2]]
    if len(fitting) == 2 and not torch.equal(*fitting):
        raise InputError(
            f"{address}: its texts and their answers are equally long, so it is not known which padding is meant; give valid"
        )
    if texts and not fitting:
        raise InputError(f"{address} gives {tuple(state.shape)}, which fits no text that was read; give valid")
    return fitting[0] if fitting else None
