"""Attribution by gradients: how much each embedded token of a torch module contributed to a score.

The module is not changed: while a score is computed, a hook is on the embedding's output, and is gone afterwards. Gradients
are those of the embedded tokens alone; the parameters' `.grad` stays what it was.
"""

from __future__ import annotations

import contextlib
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import InputError, nearest
from regard.inspection.hooks import is_compiled


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Embedded:
    """One call of an embedding.

    Arguments:
        address: the embedding's name in the module.
        module: the embedding.
        inputs: its first argument where that is a tensor, such as token ids (B, S).
        output: (B, S, D), detached.
    """

    address: str
    module: nn.Module
    inputs: Tensor | None
    output: Tensor


class EmbeddedScore:
    """A score as a function of embedded inputs.

    Arguments:
        module: what the embeddings are in.
        score: runs the module on so many copies of the input, one row each; gives (copies,) scores. A score of the user's own
            is one of its rows as they are, and is only asked for one copy.
        embeddings: modules by address.
        copies: whether the score can be had for several copies at once.
        wanted: which calls of the embeddings are inputs, by their first argument; all where None.

    Raises:
        InputError: for a module in training mode, or a compiled one.
    """

    def __init__(
        self,
        module: nn.Module,
        score: Callable[[int], Tensor],
        embeddings: Mapping[str, nn.Module],
        *,
        copies: bool,
        wanted: Callable[[Any], bool] | None = None,
    ) -> None:
        self.copies = copies
        self._score = score
        self._embeddings = embeddings
        self._wanted = wanted
        self._thread = threading.get_ident()  # what other threads do with the same module is theirs
        self._calls: list[Embedded] = []
        self._points: Sequence[Tensor] | None = None
        if any(part.training for part in module.modules()):
            raise InputError(
                "the module is in training mode, where dropout changes the score each time; call eval() first"
            )
        if any(map(is_compiled, module.modules())):
            raise InputError("the module runs through torch.compile, where hooks are not called; build it without")

    @classmethod
    def of(cls, module: nn.Module, score: Callable[[], Tensor], addresses: Sequence[str] | None) -> EmbeddedScore:
        """A user's score of any module.

        Raises:
            InputError: where no embedding is found.
        """
        return cls(module, lambda copies: score(), find_embeddings(module, addresses), copies=False)

    def read(self) -> tuple[list[Embedded], Tensor]:
        """What the embeddings give, and the score, without gradients.

        Raises:
            InputError: where no embedding is called.
        """
        with torch.no_grad():
            found = self._evaluated(1)
        if not self._calls:
            raise InputError(f"the score does not call {' or '.join(self._embeddings)}; name other embeddings")
        return list(self._calls), found

    def at(self, points: Sequence[Tensor]) -> Tensor:
        """The score with these outputs in place of the embeddings' own, without gradients."""
        with torch.no_grad():
            return self._evaluated(1, points)

    def gradients(self, points: Sequence[Tensor], copies: int) -> tuple[Tensor, list[Tensor]]:
        """The score at these outputs, detached, and its gradient with respect to each.

        Raises:
            InputError: where the score has no gradient.
        """
        with torch.inference_mode(False), torch.enable_grad():
            leaves = [point.detach().clone().requires_grad_() for point in points]
            found = self._evaluated(copies, leaves)
            if not found.requires_grad:
                raise InputError(
                    "the score has no gradient; compute it from the module's output inside the function, without "
                    "torch.no_grad or detach"
                )
            slopes = torch.autograd.grad(found.sum(), leaves, allow_unused=True)
        unused = [
            torch.zeros_like(leaf) if slope is None else slope for leaf, slope in zip(leaves, slopes, strict=True)
        ]
        return found.detach(), unused

    def _evaluated(self, copies: int, points: Sequence[Tensor] | None = None) -> Tensor:
        self._calls, self._points = [], points
        with self._hooks():
            found = self._score(copies)
        if not isinstance(found, Tensor) or found.dim() > 1 or not found.is_floating_point():
            shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(f"the score is {shape}; give one number for each row, (batch,), or a scalar")
        if points is not None and len(self._calls) != len(points):
            raise InputError("the score called the embeddings another number of times than before; it must not vary")
        return found if torch.is_grad_enabled() else found.detach()

    @contextlib.contextmanager
    def _hooks(self) -> Iterator[None]:
        # One module may have several addresses; its hook stands once.
        unique = {id(module): (address, module) for address, module in reversed(list(self._embeddings.items()))}
        handles = [
            module.register_forward_hook(partial(self._called, address), with_kwargs=True)
            for address, module in unique.values()
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _called(
        self, address: str, module: nn.Module, arguments: tuple[Any, ...], named: Mapping[str, Any], output: Any
    ) -> Tensor | None:
        if threading.get_ident() != self._thread:
            return None
        first = next((value for value in (*arguments, *named.values()) if isinstance(value, Tensor)), None)
        if self._wanted is not None and not self._wanted(first):
            return None
        if not isinstance(output, Tensor) or output.dim() < 2 or not output.is_floating_point():
            raise InputError(f"{address} does not give a tensor (batch, places, width), so it is no embedding")
        number = len(self._calls)
        self._calls.append(Embedded(address=address, module=module, inputs=first, output=output.detach()))
        if self._points is None or number >= len(self._points):
            return None
        return self._points[number]


def find_embeddings(module: nn.Module, addresses: Sequence[str] | None) -> dict[str, nn.Module]:
    """The modules at these addresses; where None, the one `nn.Embedding` there is, or what the module says is its own.

    Raises:
        InputError: for an address that is not there, and where there is none or a choice.
    """
    if addresses is not None:
        known = dict(module.named_modules(remove_duplicate=False))
        for address in addresses:
            if address not in known:
                raise InputError(f"no module is called {address!r}; {nearest(address, list(known))}")
        return {address: known[address] for address in addresses}
    found = None
    with contextlib.suppress(NotImplementedError):  # how transformers' models say which, and that they have none
        found = getattr(module, "get_input_embeddings", lambda: None)()
    if isinstance(found, nn.Module):
        return {next((name for name, part in module.named_modules() if part is found), "embedding"): found}
    # The first name of each; a table that is shared has several.
    tables: dict[str, nn.Module] = {n: part for n, part in module.named_modules() if isinstance(part, nn.Embedding)}
    if not tables:
        raise InputError("there is no nn.Embedding in this module; name the module whose output is to be attributed to")
    if len(tables) > 1:
        raise InputError(f"there are several embeddings in this module; choose from {', '.join(tables)}")
    return tables


Rule = Literal["gauss-legendre", "trapezoid"]

Baseline = Callable[[Embedded], Tensor]
"""What stands for "nothing there": from an embedding's output (B, S, D) to a tensor that broadcasts to it."""


def zeros(embedded: Embedded) -> Tensor:
    """The zero vector for every token (Sundararajan et al. 2017, section 2, of text models)."""
    return torch.zeros_like(embedded.output)


def token(index: int) -> Baseline:
    """The baseline that has one token, such as padding, at every place; of an `nn.Embedding`.

    Raises:
        InputError: when used, for an id outside the vocabulary, and a module that is not an `nn.Embedding`.
    """

    def baseline(embedded: Embedded) -> Tensor:
        table = embedded.module
        if not isinstance(table, nn.Embedding):
            raise InputError(f"{embedded.address} is a {type(table).__name__}, no nn.Embedding with a row for a token")
        if not 0 <= index < table.num_embeddings:
            raise InputError(f"{embedded.address} has {table.num_embeddings} tokens, and none with the id {index}")
        return table.weight[index].detach()

    baseline.__name__ = f"token {index}"
    return baseline


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class InputGradients:
    """What one embedding's output contributed to a score.

    Arguments:
        address: the embedding.
        values: (B, S, D), the attribution of every entry of the output, in the score's unit.
        inputs: what the embedding was called with first, such as token ids (B, S).
    """

    address: str
    values: Tensor
    inputs: Tensor | None = None

    @property
    def scores(self) -> Tensor:
        """(B, S), the attribution of each token: the sum over the width."""
        return self.values.sum(dim=-1)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Gradients:
    """The attributions of a score.

    Arguments:
        inputs: each call of an embedding, in order.
        score: (B,), or a scalar where the score was one.
        baseline_score: the same with all inputs at their baselines; None where the method has no baseline.
    """

    inputs: tuple[InputGradients, ...]
    score: Tensor
    baseline_score: Tensor | None = None

    @property
    def error(self) -> Tensor | None:
        """How far completeness is missed: sum of all attributions minus (score - baseline score).

        Zero but for the integral's rule and rounding (Sundararajan et al. 2017, proposition 1); None without a baseline.
        """
        if self.baseline_score is None:
            return None
        apart = self.score.double() - self.baseline_score.double()
        rows = [part.values.double().flatten(1).sum(dim=1) for part in self.inputs]
        if any(row.shape != apart.shape for row in rows):  # one score, or embeddings that have the batch elsewhere
            return (torch.cat(rows).sum() - apart.sum()).float()
        return (torch.stack(rows).sum(dim=0) - apart).float()


class Method(ABC):
    """A way from gradients to attributions."""

    @property
    @abstractmethod
    def description(self) -> str:
        """Its name and settings, for the text under a figure."""

    def __call__(
        self, module: nn.Module, score: Callable[[], Tensor], *, embeddings: Sequence[str] | None = None
    ) -> Gradients:
        """Attribute a score to what a module's embeddings gave while it was computed.

        Arguments:
            module: any torch module, in evaluation mode. Not compiled.
            score: runs the module and gives (B,) scores, row b from row b of the input alone, or one scalar. It is called
                several times, and must do the same each time.
            embeddings: addresses of the modules whose outputs (B, S, D) are attributed to; by default the one `nn.Embedding`
                there is, or what the module itself calls its input embedding. One that is called twice, such as a table that
                source and target share, is two inputs, in the order of the calls.

        Raises:
            InputError: where no embedding is found or called, in training mode, and where the score has no gradient.
        """
        return self.attributed(EmbeddedScore.of(module, score, embeddings))

    @abstractmethod
    def attributed(self, score: EmbeddedScore) -> Gradients:
        """The attributions of a score of embedded inputs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GradientTimesInput(Method):
    """The gradient of the score times the input (Shrikumar et al. 2016).

        attribution_i = x_i dF(x) / dx_i,    x the embedding's output

    Exact where the score is linear; elsewhere it tells of the neighbourhood of x only, and sums to nothing in particular.

    >>> _ = torch.manual_seed(0)
    >>> table, weight = nn.Embedding(5, 3).eval(), torch.tensor([1.0, -2.0, 0.5])
    >>> found = GradientTimesInput()(table, lambda: (table(torch.tensor([[1, 4]])) @ weight).sum(dim=1))
    >>> torch.allclose(found.inputs[0].scores, (table.weight[[1, 4]] @ weight).unsqueeze(0))
    True
    """

    @property
    def description(self) -> str:
        """Its name; it has no settings."""
        return "gradient times input"

    def attributed(self, score: EmbeddedScore) -> Gradients:
        """One pass forwards and backwards."""
        inputs, _ = score.read()
        found, gradients = score.gradients([each.output for each in inputs], 1)
        parts = []
        for each, slope in zip(inputs, gradients, strict=True):
            wide = torch.promote_types(slope.dtype, torch.float32)
            parts.append(_part(each, each.output.to(wide) * slope.to(wide)))
        return Gradients(inputs=tuple(parts), score=found)


@dataclass(frozen=True, kw_only=True, slots=True)
class IntegratedGradients(Method):
    """Gradients along the straight line from a baseline to the input (Sundararajan, Taly, Yan 2017, equation 1).

        attribution_i = (x_i - x'_i) * integral over a in [0, 1] of dF(x' + a (x - x')) / dx_i

    All inputs move together. The attributions sum to F(x) - F(x'); `Gradients.error` says how nearly.

    Arguments:
        steps: gradients taken. `gauss-legendre` takes them at its nodes, `trapezoid` at so many evenly spaced points from a = 0
            to a = 1, both ends among them. (The paper's own rule, a Riemann sum, errs more with as many.)
        rule: how the integral is approximated.
        baseline: x', `zeros` unless given; `token(id)` for a token of an `nn.Embedding`.
        tokens_at_once: steps are computed together, where the score can be, as long as they have no more tokens than these.

    Raises:
        InputError: for fewer than 1 step (2 for the trapezoid), or an unknown rule.

    >>> _ = torch.manual_seed(0)
    >>> table = nn.Embedding(5, 3).eval()
    >>> found = IntegratedGradients(steps=4)(table, lambda: table(torch.tensor([[1, 4]])).prod(dim=1).sum(dim=1))
    >>> bool(found.error.abs() < 1e-6)  # four nodes are exact up to degree seven
    True
    """

    steps: int = 50
    rule: Rule = "gauss-legendre"
    baseline: Baseline = zeros
    tokens_at_once: int = 1024

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.rule not in get_args(Rule):
            raise InputError(f"rule is {self.rule!r}; {nearest(str(self.rule), get_args(Rule))}")
        least = 2 if self.rule == "trapezoid" else 1
        if self.steps < least:
            raise InputError(f"steps is {self.steps}; {self.rule} takes at least {least}")
        if self.tokens_at_once < 1:
            raise InputError(f"tokens_at_once is {self.tokens_at_once}; give at least 1")

    @property
    def description(self) -> str:
        """Name, steps, rule and baseline; a baseline by the name of its function."""
        baseline = getattr(self.baseline, "__name__", type(self.baseline).__name__)
        return f"integrated gradients ({self.steps} steps, {self.rule}, baseline {baseline})"

    def attributed(self, score: EmbeddedScore) -> Gradients:
        """As many passes forwards and backwards as there are steps, and two more forwards."""
        inputs, found = score.read()
        baselines = [self._baseline(each) for each in inputs]
        apart = [each.output - baseline for each, baseline in zip(inputs, baselines, strict=True)]
        sums = [torch.zeros_like(each, dtype=torch.promote_types(each.dtype, torch.float32)) for each in apart]
        places, shares = (torch.from_numpy(part) for part in nodes(self.steps, self.rule))
        tokens = sum(each.output.shape[1] for each in inputs)
        width = max(self.tokens_at_once // max(tokens, 1), 1) if score.copies else 1
        for start in range(0, self.steps, width):
            part = slice(start, start + width)
            count = len(places[part])
            points = []
            for baseline, way in zip(baselines, apart, strict=True):
                along = places[part].to(way).reshape(-1, *[1] * (way.dim() - 1))
                points.append(baseline + along * way)
            _, gradients = score.gradients(points, count)
            for total, slope in zip(sums, gradients, strict=True):
                weighing = shares[part].to(total).reshape(-1, *[1] * (total.dim() - 1))
                total += (
                    (weighing * slope.to(total.dtype)).sum(dim=0, keepdim=True) if score.copies else weighing * slope
                )
        parts = [_part(each, way.to(total.dtype) * total) for each, way, total in zip(inputs, apart, sums, strict=True)]
        return Gradients(inputs=tuple(parts), score=found, baseline_score=score.at(baselines))

    def _baseline(self, embedded: Embedded) -> Tensor:
        given = self.baseline(embedded)
        try:
            return given.detach().to(embedded.output).expand_as(embedded.output)
        except RuntimeError:
            raise InputError(
                f"{embedded.address}: the baseline is {tuple(given.shape)}, which does not broadcast to the embedding's "
                f"{tuple(embedded.output.shape)}"
            ) from None


def nodes(steps: int, rule: Rule) -> tuple[np.ndarray, np.ndarray]:
    """Places in [0, 1] and their weights, which sum to one.

    >>> [part.tolist() for part in nodes(3, "trapezoid")]
    [[0.0, 0.5, 1.0], [0.25, 0.5, 0.25]]
    """
    if rule == "trapezoid":
        weights = np.full(steps, 1 / (steps - 1))
        weights[[0, -1]] /= 2
        return np.linspace(0, 1, steps), weights
    places, weights = np.polynomial.legendre.leggauss(steps)
    return (places + 1) / 2, weights / math.fsum(weights)


def _part(embedded: Embedded, values: Tensor) -> InputGradients:
    if not bool(values.isfinite().all()):
        raise InputError(
            f"{embedded.address}: some gradients are not finite, at the input or on the way from the baseline; choose another "
            "baseline"
        )
    return InputGradients(address=embedded.address, values=values.detach(), inputs=embedded.inputs)
