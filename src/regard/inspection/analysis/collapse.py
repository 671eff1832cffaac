"""Depth against rank (Dong et al. 2021): how alike the vectors of a text become from layer to layer.

How far a matrix is from one whose rows are all the same, and with that from rank one; a stack of attention alone as the sum of
its paths; and the residuals of a model's layers as it is, and with its skip connections or feed-forward nets taken out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, get_args

import torch
from torch import Tensor, nn

from regard.attention import AttentionLayer
from regard.errors import InputError, nearest
from regard.inspection.drawings import COLOURS
from regard.inspection.editing import without_feedforward, without_skips
from regard.inspection.record import look
from regard.layers import EncoderBlock, Images, NoSkip, PositionedEmbedding, Residual, TextEmbedding, Tokens
from regard.layers.blocks import Block

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from regard.inspection.record import Record
    from regard.inspection.runs import Run


def composite_norm(x: Tensor) -> Tensor:
    """||X||_{1,inf} = sqrt(||X||_1 ||X||_inf), the root of the largest column sum times the largest row sum.

    The paper's norm, as its authors' code has it; sums are of absolute values. Not a norm in the strict sense: the triangle
    inequality does not hold for it.

    Arguments:
        x: (..., L, D), a matrix for each of the leading axes.

    Returns:
        (...) float64.

    >>> composite_norm(torch.tensor([[3.0, 0.0], [0.0, -4.0]])).item()
    4.0
    """
    sizes = _matrix(x).abs()
    return (sizes.sum(dim=-2).amax(dim=-1) * sizes.sum(dim=-1).amax(dim=-1)).sqrt()


def row_residual(x: Tensor) -> Tensor:
    """res(X) = X - 1 x^T: what is left of rows when the same row x is taken from all of them.

    Of two rows x, the mean of all rows and the median of each column, the one is taken that leaves less in `composite_norm`. No
    formula gives the x that leaves least; that would be at least half of what the mean leaves: by the triangle inequality the
    mean's largest row sum, and its largest column sum, are at most twice the smallest that any x leaves.

    Arguments:
        x: (..., L, D).

    Returns:
        (..., L, D) float64.

    >>> row_residual(torch.tensor([[1.0, 5.0], [3.0, 5.0]])).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    wide = _matrix(x)
    left = wide - wide.mean(dim=-2, keepdim=True), wide - wide.quantile(0.5, dim=-2, keepdim=True)
    nearer = composite_norm(left[1]) < composite_norm(left[0])
    return torch.where(nearer[..., None, None], left[1], left[0])


def relative_residual(x: Tensor) -> Tensor:
    """||res(X)||_{1,inf} / ||X||_{1,inf}: 0 where all rows are the same; 0 too for a matrix of zeros.

    Arguments:
        x: (..., L, D).

    Returns:
        (...) float64. It does not change when X is multiplied by a number.

    >>> relative_residual(torch.ones(3, 5)).item(), relative_residual(torch.eye(2)).item()
    (0.0, 1.0)
    """
    whole = composite_norm(x)
    return torch.where(whole > 0, composite_norm(row_residual(x)) / whole.clamp_min(torch.finfo(whole.dtype).tiny), 0.0)


def _matrix(x: Tensor) -> Tensor:
    if x.dim() < 2 or 0 in x.shape or not x.is_floating_point():
        raise InputError(
            f"a matrix is wanted, floats (..., rows, columns), and {x.dtype} {tuple(x.shape)} was given; give one"
        )
    return x.detach().double()


# A stack of attention alone as the sum of its paths (Dong et al. 2021, section 2).


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PathLengths:
    """What goes through a stack by paths of each length.

        X_L = sum over paths (h_1 ... h_L) of  P_{h_L} ... P_{h_1} X W_{h_1} ... W_{h_L}  +  1 b^T

    A path takes in each layer one head, or where there are skip connections the skip, for which P and W are the identity. Its
    length is how many heads it takes. P are the weights that the model itself computes on this text, W_h is a head's map of
    values and of outputs; all biases together are the same row b for every token.

    Arguments:
        terms: (L + 1, N, D), the sum over all paths of 0, 1, ... L heads; zeros where there is none.
        counts: how many paths of each length there are.
        bias: (D,), b.
    """

    terms: Tensor
    counts: tuple[int, ...]
    bias: Tensor

    @classmethod
    def of(cls, blocks: Sequence[nn.Module], x: Tensor) -> Self:
        """Take a stack of attention apart; exact, and in time linear in its depth.

        Arguments:
            blocks: from the bottom up, `EncoderBlock`s without norms and feed-forward nets, such as the layers of an
                `AttentionStack` with `norm="none"` and `feedforward=False`, in evaluation mode.
            x: (N, D), the vectors of one text, without padding.

        Raises:
            InputError: for blocks with anything in them that is not linear in what is attended to, and in training mode.
        """
        if x.dim() != 2:
            raise InputError(f"x is {tuple(x.shape)}; give the vectors of one text, (tokens, width)")
        terms, bias = [x.detach()], torch.zeros_like(x[0])
        counts = [1]
        for number, block in enumerate(blocks):
            attention, skips = _attention_alone(block, number)
            weights, maps, added = _heads(attention, torch.stack(terms).sum(dim=0) + bias)
            higher = [_through(weights, maps, term) for term in terms]
            many = [len(maps) * count for count in counts]
            nothing = torch.zeros_like(x)
            below = (
                (terms, counts, bias) if skips else ([nothing] * len(terms), [0] * len(counts), torch.zeros_like(bias))
            )
            # What attention adds to the same row of every token is the same row: each row of P sums to one.
            bias = below[2] + bias @ maps.sum(dim=0) + added
            terms = [one + other for one, other in zip([*below[0], nothing], [nothing, *higher], strict=True)]
            counts = [one + other for one, other in zip([*below[1], 0], [0, *many], strict=True)]
        return cls(terms=torch.stack(terms), counts=tuple(counts), bias=bias)

    @property
    def output(self) -> Tensor:
        """(N, D), the sum of all paths and b: what the stack gives."""
        return self.terms.sum(dim=0) + self.bias

    @property
    def residuals(self) -> tuple[float, ...]:
        """Of each length, how far the sum of its paths is from rank one, `relative_residual`; NaN where there is no path."""
        found = relative_residual(self.terms).tolist()
        return tuple(each if count else math.nan for each, count in zip(found, self.counts, strict=True))

    @property
    def sizes(self) -> tuple[float, ...]:
        """The `composite_norm` of each length's sum."""
        return tuple(composite_norm(self.terms).tolist())


def _attention_alone(block: nn.Module, number: int) -> tuple[AttentionLayer, bool]:
    """A block's attention, and whether it is added to its input; refuses a block that is more than attention."""
    if not isinstance(block, EncoderBlock):
        raise InputError(f"block {number} is a {type(block).__name__}; paths are those of a stack of EncoderBlock")
    around, beyond = block.attention_residual, block.feedforward_residual
    plain = all(isinstance(part, nn.Identity) for part in (around.before, around.after, beyond.before, beyond.after))
    if not plain or not isinstance(block.feedforward, nn.Identity) or type(beyond) is not NoSkip:
        raise InputError(
            f"block {number} has a norm or a feed-forward net, with which it is no sum of paths; give one of attention alone"
        )
    if type(around) not in (Residual, NoSkip):
        raise InputError(f"block {number} has a {type(around).__name__}; give one with a skip connection, or with none")
    if any(part.training for part in block.modules()):
        raise InputError(f"block {number} is in training mode; call eval() first")
    return block.attention, type(around) is Residual


def _heads(attention: AttentionLayer, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of every head P (H, N, N) and W (H, D, D), and what the biases of values and output add to each token, (D,)."""
    value, output, heads = attention.value, attention.output, attention.heads
    if not isinstance(value, nn.Linear) or not isinstance(output, nn.Linear) or attention.key_heads != heads:
        raise InputError("the attention has no linear map of values and of outputs for each head; give one that has")
    batch = state.unsqueeze(0)
    with torch.no_grad():
        inputs = attention.inputs(batch, attention.keys_values(batch).key)
        weights = attention.attention.weights(inputs)[0].to(state.dtype)
        maps = value.weight.unflatten(0, (heads, -1)).transpose(1, 2) @ output.weight.T.unflatten(0, (heads, -1))
        added = torch.zeros_like(state[0]) if value.bias is None else value.bias @ output.weight.T
        return weights, maps, added if output.bias is None else added + output.bias


def _through(weights: Tensor, maps: Tensor, x: Tensor) -> Tensor:
    """sum_h P_h X W_h: (N, D) to (N, D)."""
    return (weights @ x @ maps).sum(dim=0)


# Depth against rank: how alike the vectors of a text are after each layer of a model (Dong et al. 2021).


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Collapse:
    """How far a text's vectors are from being all the same, layer after layer.

        r_l = ||res(X_l)||_{1,inf} / ||X_l||_{1,inf},   res(X) = X - 1 x^T   (section 2)

    X_l has the vectors of one text's tokens as rows. 0 = all of them are one vector, a matrix of rank one, and no token can be
    distinguished from another. What a text's own number of tokens does to r it does in every layer.

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
            valid: (B, L) bool, True = a real token; all are where None. Padding may be on either side.

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
        return rank_table({"residual": self})


def rank_table(found: Mapping[str, Collapse]) -> Table:
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
    texts = [text for text in (seen.source, seen.target) if text is not None and not isinstance(text, Images)]
    fitting = [text.valid.cpu() for text in texts if isinstance(text, Tokens) and text.valid.shape == state.shape[:2]]
    if len(fitting) == 2 and not torch.equal(*fitting):
        raise InputError(
            f"{address}: its texts and their answers are equally long, so it is not known which padding is meant; give valid"
        )
    if texts and not fitting:
        raise InputError(f"{address} gives {tuple(state.shape)}, which fits no text that was read; give valid")
    return fitting[0] if fitting else None


# A model's depth against rank as it is, and with parts taken out of all its blocks; as a figure.


WIDTH, HEIGHT = 5.2, 3.4  # inches

FORMS: Mapping[str, Callable[[nn.Module], nn.Module]] = {
    "as it is": lambda module: module,
    "without skips": without_skips,
    "without feed-forward": without_feedforward,
    "attention alone": lambda module: without_feedforward(without_skips(module)),
}
"""What is compared, as the paper's figure 2 does: all with the parameters of the model as it was trained, norms included."""


def collapse_forms(module: nn.Module, read: Callable[[Any], Any]) -> dict[str, Collapse]:
    """The residuals after each layer of a model, and of copies of it without skip connections, feed-forward nets, or both.

    Arguments:
        module: a model of blocks, in evaluation mode.
        read: runs the module it is given on the same texts each time.

    Raises:
        InputError: for a model that is not made of blocks, and in training mode.

    >>> from regard.layers import Tokens
    >>> from regard.models import Bert, BertConfig
    >>> model = Bert(BertConfig(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=2)).eval()
    >>> found = collapse_forms(model, lambda each: each(Tokens.pad([[3, 4, 5]])))
    >>> [*found], found["attention alone"].residuals.shape
    (['as it is', 'without skips', 'without feed-forward', 'attention alone'], torch.Size([3, 1]))
    """
    if module.training:
        raise InputError("the module is in training mode, where dropout changes its states; call eval() first")
    addresses = stack_addresses(module)
    if not any(isinstance(part, get_args(Block)) for part in module.modules()):
        raise InputError(f"there is no block in a {type(module).__name__}; give a Transformer or one of its kin")
    found = {}
    for name, form in FORMS.items():
        model = form(module)
        with torch.no_grad(), look(model, [], hidden=addresses) as seen:
            read(model)
        found[name] = Collapse.of_record(seen)
    return found


def collapse_figure(found: Mapping[str, Collapse]) -> Figure:
    """Residuals against depth, a line for each, means over texts; what is exactly 0 is not on a logarithmic axis.

    Arguments:
        found: by the line's name; all of the same layers.

    Returns:
        A figure that is not known to pyplot; write it with `regard.inspection.plots.write_figure`.

    Raises:
        InputError: for layers that differ, or without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("a plot needs matplotlib: pip install 'regard[plot]'") from None
    if len({each.addresses for each in found.values()}) != 1:
        raise InputError("these have different layers, or there are none; give those of one model")
    addresses = next(iter(found.values())).addresses
    drawing = Figure(figsize=(max(WIDTH, 0.4 * len(addresses)), HEIGHT), layout="constrained")
    axes = drawing.add_subplot()
    for number, (name, collapse) in enumerate(found.items()):
        axes.plot(
            range(len(addresses)),
            collapse.means,
            marker="o",
            markersize=4,
            linewidth=1.6,
            color=COLOURS[number % len(COLOURS)],
            label=name,
        )
    axes.set_yscale("log")
    axes.set_xticks(range(len(addresses)), list(addresses), fontsize=7, rotation=45, ha="right")
    axes.set_ylabel("relative residual", fontsize=8)
    axes.tick_params(axis="y", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False)
    return drawing
