"""Which parts of a model a logit comes from (direct logit attribution)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.inspection.analysis.encoder_scores import place_of
from regard.inspection.analysis.lens import Read
from regard.inspection.analysis.residual_stream import Added, Stream, linear_map
from regard.inspection.words import shown_tokens
from regard.layers import ACTIVATIONS, NoSkip
from regard.quantization.linear import QuantizedLinear, activation_name
from regard.rendering import Fitted
from regard.tasks import Predictor

if TYPE_CHECKING:
    from rich.table import Table

ROUNDING = 1e-4
"""How far the parts' sum may be from the logit, relative to the sum of the parts' sizes."""

PartKind = Literal["embedding", "head", "bias", "feedforward", "norm", "output", "rounding"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of a model that adds to the residual stream.

    Arguments:
        name: of it, such as `layers.0.attention.head 3`.
        kind: `embedding` (tokens, positions, segments), `head`, `bias` (of an attention's output projection), `feedforward` (with
            its biases), `norm` (the bias of one), `output` (the bias of the output or the prediction head), `rounding` (what
            rounding activations to 8 bits adds in a model of 8 or 4 bits).
        layer: the block's number; None outside of blocks.
        head: its number, of a head.
    """

    name: str
    kind: PartKind
    layer: int | None = None
    head: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LogitAttribution:
    """Which parts a logit comes from (Elhage et al. 2021, "A mathematical framework for transformer circuits").

        logit_t = sum over parts c of  u_t . N(c) + b_t,   u_t the output's row of token t, N the norms that c passes

    A norm divides by a number of the whole stream, which is taken as it was in this pass ("frozen"): it is then linear, so each
    part goes through it by itself, as does what was added before a post-norm block's own norms. The biases of norms are parts of
    their own. A masked encoder's prediction head has an activation f; f(u) = g u with g = f(u) / u as it was, frozen likewise.

    Arguments:
        parts: P of them, in their order.
        targets: T strings, the tokens whose logits these are.
        values: (P, T) float64.
        logits: (T,) float64, as the model computed them.
        place: the position.
        tokens: those read.
        scales: by norm, the number it multiplied the stream with, 1 / sigma.
        gated: whether an activation's gate was frozen, in a prediction head.
    """

    parts: tuple[Part, ...]
    targets: tuple[str, ...]
    values: np.ndarray
    logits: np.ndarray
    place: int
    tokens: tuple[str, ...]
    scales: dict[str, float]
    gated: bool = False

    @property
    def error(self) -> float:
        """The largest difference of the parts' sum from the logit."""
        return float(np.abs(self.values.sum(axis=0) - self.logits).max())

    @classmethod
    def of_run(
        cls,
        module: nn.Module,
        run: Callable[[], Any],
        targets: Sequence[int] | None = None,
        *,
        row: int = 0,
        place: int = -1,
        tokens: Sequence[str] | None = None,
        shown: Callable[[Sequence[int]], Sequence[str]] | None = None,
    ) -> Self:
        """Of one position in one pass of a model.

        Arguments:
            module, run, row, tokens, shown: as in `LogitLens.of_run`.
            targets: ids of tokens; the most probable one where None.
            place: the position, from 0 or from -1 backwards.

        Raises:
            InputError: for a model without a residual stream, and where it is no sum of parts that norms scale.

        >>> from regard.layers import Tokens
        >>> from regard.models import GPT2, GPT2Config
        >>> sizes = {"width": 8, "heads": 2, "feedforward_width": 16, "layers": 1, "maximum_positions": 6}
        >>> model = GPT2(GPT2Config(vocabulary=9, **sizes)).eval()
        >>> found = LogitAttribution.of_run(model, lambda: model(Tokens.pad([[0, 4, 5]])), [7])
        >>> [part.name for part in found.parts][:4], found.error < 1e-5
        (['tokens', 'positions', 'layers.0.attention.head 0', 'layers.0.attention.head 1'], True)
        """
        stream = Stream.of(module, run, sums=True)
        rows, length, _ = stream.entered.shape
        if not 0 <= row < rows:
            raise InputError(f"row {row} of {rows}; count from 0")
        if not -length <= place < length:
            raise InputError(f"place {place}: {length} tokens are read, counted from 0")
        place %= length
        ending = stream.ending
        with torch.no_grad():
            end = stream.after[list(stream.after)[-1]][row, place]
            all_logits = ending.logits(ending.norm(end[None]))[0].double()
            chosen = [int(all_logits.argmax())] if targets is None else list(targets)
            if not chosen or not all(0 <= index < len(all_logits) for index in chosen):
                raise InputError(f"targets are {chosen}; give ids from 0 to {len(all_logits) - 1}, one at least")
            sum_ = _Sum(stream, row, place)
            gated = sum_.ended()
            weight, bias = ending.rows(chosen)
            values = torch.stack(sum_.vectors) @ weight.T
            parts = list(sum_.parts)
            if bool((bias != 0).any()):
                parts.append(Part(name="output.bias", kind="output"))
                values = torch.cat([values, bias[None]])
            logits = all_logits[torch.tensor(chosen, device=all_logits.device)]
            left = logits - values.sum(dim=0)
            if isinstance(ending.output, QuantizedLinear):
                parts.append(Part(name="output.rounding", kind="rounding"))
                values = torch.cat([values, left[None]])
            elif bool((left.abs() > ROUNDING * (1 + values.abs().sum(dim=0))).any()):
                raise InputError(
                    f"the parts sum to {float((logits - left)[0]):.6g} and the logit is {float(logits[0]):.6g}: something in "
                    "this model changes the stream that is not among its parts"
                )
        texts = tuple(map(str, range(length))) if tokens is None else tuple(tokens)
        return cls(
            parts=tuple(parts),
            targets=tuple(map(str, chosen)) if shown is None else tuple(shown(chosen)),
            values=values.cpu().numpy(),
            logits=logits.cpu().numpy(),
            place=place,
            tokens=texts,
            scales=sum_.scales,
            gated=gated,
        )

    @classmethod
    def of(
        cls,
        model: Predictor[Any],
        text: str,
        *,
        token: str | None = None,
        against: str | None = None,
        place: int | str = -1,
        target: str | None = None,
    ) -> Self:
        """Of a loaded model reading a text.

        Arguments:
            model, text, target: as in `LogitLens.of`.
            token: a token of the vocabulary; the most probable one where None.
            against: another, whose logit is given next to it, for `difference`.
            place: which of the tokens read, by number or by its text: the logit is that of the token after it, or in a masked
                encoder at it.

        Raises:
            InputError: as `of_run`, and for tokens that are not there.
        """
        read = Read.of(model, text, target)
        ids = []
        for name in (token, against):
            if name is not None:
                index = read.find(name)
                if index is None:
                    raise InputError(f"the vocabulary has no token {name!r}")
                ids.append(index)
        if against is not None and token is None:
            raise InputError("against needs token; give token too")
        where = place_of(place, read.tokens, "text")
        return cls.of_run(read.module, read.run, ids or None, place=where, tokens=read.tokens, shown=read.shown)

    def difference(self) -> np.ndarray:
        """(P,), each part's contribution to the first logit minus the second.

        Raises:
            InputError: where there are not two.
        """
        if len(self.targets) != 2:
            raise InputError(f"{len(self.targets)} logits are taken apart; a difference is of two")
        return self.values[:, 0] - self.values[:, 1]

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "format_version": 1,
            "tokens": list(self.tokens),
            "place": self.place,
            "targets": list(self.targets),
            "logits": self.logits.tolist(),
            "error": self.error,
            "gated": self.gated,
            "scales": self.scales,
            "parts": [
                {"name": part.name, "kind": part.kind, "layer": part.layer, "head": part.head, "values": row.tolist()}
                for part, row in zip(self.parts, self.values, strict=True)
            ],
        }

    def table(self, most: int | None = 20) -> Table:
        """The parts with the largest contributions to the first logit, and the others' sum; all where `most` is None."""
        from rich.table import Table
        from rich.text import Text

        table = Table(header_style="bold", caption_justify="left")
        table.caption = "a norm's scale is taken as it was in this pass" + (
            ", and the gate of the prediction head's activation too" if self.gated else ""
        )
        table.add_column("part")
        for name in shown_tokens(self.targets):
            table.add_column(Text(name), justify="right")
        order = np.argsort(-np.abs(self.values[:, 0]), kind="stable")
        for number in order[:most]:
            table.add_row(self.parts[number].name, *(f"{value:+.3f}" for value in self.values[number]))
        others = order[len(order) if most is None else most :]
        if len(others):
            table.add_row(f"{len(others)} others", *(f"{value:+.3f}" for value in self.values[others].sum(axis=0)))
        table.add_section()
        table.add_row("logit", *(f"{value:+.3f}" for value in self.logits))
        return table

    def __rich__(self) -> Fitted:
        """The table, for `rich.print`."""
        return Fitted(self.table())


class _Sum:
    """The stream of one token as a sum of vectors, carried from the embedding to what the output reads; all in float64."""

    def __init__(self, stream: Stream, row: int, place: int) -> None:
        self.stream, self.row, self.place = stream, row, place
        self.parts: list[Part] = []
        self.vectors: list[Tensor] = []
        self.scales: dict[str, float] = {}
        for name, vector in stream.entered_parts(row, place).items():
            self._add(Part(name=name, kind="embedding"), vector)
        self._norm("embedding.norm", getattr(stream.ending.embedding, "norm", None), self._total())
        projection = getattr(stream.ending.embedding, "projection", None)
        if projection is not None:
            self._project(projection, Part(name="embedding.projection.bias", kind="embedding"))
        self._agrees(stream.entered, "what the first block reads")
        for each in stream.sums:
            self._add_sublayer(each)

    def _add(self, part: Part, vector: Tensor) -> None:
        self.parts.append(part)
        self.vectors.append(vector)

    def _total(self) -> Tensor:
        return torch.stack(self.vectors).sum(dim=0)

    def _here(self, x: Tensor) -> Tensor:
        return x[self.row, self.place].double()

    def _agrees(self, x: Tensor, where: str) -> None:
        there, mine = self._here(x), self._total()
        size = 1 + torch.stack(self.vectors).abs().sum(dim=0)
        if bool(((there - mine).abs() > ROUNDING * size).any()):
            raise InputError(
                f"{where} is not the sum of the parts before it: something else changes the residual stream"
            )

    def _add_sublayer(self, each: Added) -> None:
        address = f"{each.address}.{each.sublayer}"
        layer = int(each.address.rpartition(".")[2])
        self._agrees(each.before, f"the input of {address}")
        if isinstance(each.residual, NoSkip):
            self.parts, self.vectors = [], []
        added = self._here(each.added)
        if each.heads is None:
            self._add(Part(name=address, kind="feedforward", layer=layer), added)
        else:
            self._add_heads(each.attention, self._here(each.heads), address, layer, added)
        whole = added if isinstance(each.residual, NoSkip) else self._here(each.before) + added
        self._norm(f"{address}.norm", each.residual.after, whole, layer)

    def _add_heads(self, attention: Any, inside: Tensor, address: str, layer: int, added: Tensor) -> None:
        """What each head adds; `inside` is (H*E,), the heads' outputs before the output projection."""
        output, heads = attention.output, attention.heads
        inside = inside.unflatten(0, (heads, -1))
        if isinstance(output, nn.Identity):
            if heads != 1:
                raise InputError(f"{address} has no output projection; its heads' outputs are not added")
            weight, bias = torch.eye(len(added), dtype=added.dtype, device=added.device), None
        else:
            weight, bias = linear_map(output)
        vectors = torch.einsum("he,dhe->hd", inside, weight.double().unflatten(1, (heads, -1)))
        for head, vector in enumerate(vectors):
            self._add(Part(name=f"{address}.head {head}", kind="head", layer=layer, head=head), vector)
        left = added - vectors.sum(dim=0)
        if bias is not None:
            self._add(Part(name=f"{address}.bias", kind="bias", layer=layer), bias.detach().double())
            left = left - self.vectors[-1]
        if isinstance(output, QuantizedLinear):
            self._add(Part(name=f"{address}.rounding", kind="rounding", layer=layer), left)

    def _norm(self, name: str, norm: nn.Module | None, whole: Tensor, layer: int | None = None) -> None:
        """Carry all parts through a norm whose scale is that of `whole`, (D,) the stream under it."""
        if norm is None or isinstance(norm, nn.Identity):
            return
        if type(norm) is nn.LayerNorm:
            scale = (whole.var(correction=0) + norm.eps).rsqrt()
            self.vectors = [(each - each.mean()) * scale for each in self.vectors]
        elif type(norm) is nn.RMSNorm:
            eps = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
            scale = (whole.square().mean() + eps).rsqrt()
            self.vectors = [each * scale for each in self.vectors]
        else:
            raise InputError(f"{name} is a {type(norm).__name__}, which is not known to be linear under a fixed scale")
        self.scales[name] = float(scale)
        if norm.weight is not None:
            self.vectors = [each * norm.weight.detach().double() for each in self.vectors]
        bias = getattr(norm, "bias", None)
        if bias is not None:
            self._add(Part(name=f"{name}.bias", kind="norm", layer=layer), bias.detach().double())

    def _project(self, linear: nn.Module, bias_part: Part) -> None:
        """Carry all parts through a linear map, whose bias is a part of its own."""
        weight, bias = linear_map(linear)
        self.vectors = [weight.double() @ each for each in self.vectors]
        if bias is not None:
            self._add(bias_part, bias.detach().double())

    def ended(self) -> bool:
        """Carry all parts through the last norm and the prediction head; whether an activation's gate was frozen."""
        ending = self.stream.ending
        self._agrees(self.stream.after[list(self.stream.after)[-1]], "what the last block gives")
        self._norm("norm", ending.norm, self._total())
        head = ending.head
        if head is None:
            return False
        if activation_name(head.activation) is None:
            raise InputError(
                "the prediction head's activation is not one of "
                + ", ".join(ACTIVATIONS)
                + ", so no gate is known of it"
            )
        self._project(head.transform, Part(name="head.transform.bias", kind="output"))
        before = self._total()
        after = head.activation(before)
        # Where u is 0 so is each f(u), and the limit of f(u) / u at 0 is of no account: parts of a sum of 0 cancel.
        gate = torch.where(before == 0, torch.full_like(before, 0.5), after / before)
        self.vectors = [each * gate for each in self.vectors]
        self._norm("head.norm", head.norm, after)
        return True
