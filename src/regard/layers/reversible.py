"""Reversible residual blocks: what went in is computed from what came out, so nothing between has to be kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.attention import AttentionLayer, KeysValues, Mask, Positions
from regard.layers.blocks import Dropout


class ReversibleBlock(nn.Module):
    """Self-attention and a feed-forward net between two streams (Kitaev et al. 2020, section 3; Gomez et al. 2017).

        Y1 = X1 + Attention(norm(X2)),   Y2 = X2 + FeedForward(norm(Y1))
        X2 = Y2 - FeedForward(norm(Y1)),   X1 = Y1 - Attention(norm(X2))

    Arguments:
        attention: self-attention.
        feedforward: maps (B, L, D) to (B, L, D), position by position.
        width: D, of either stream.
        dropout: probability of dropping an entry of what is added, in training.
        epsilon: added to the variance in the layer norms.
    """

    def __init__(
        self,
        *,
        attention: AttentionLayer,
        feedforward: nn.Module,
        width: int,
        dropout: float = 0.0,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, eps=epsilon)
        self.attention = attention
        self.feedforward_norm = nn.LayerNorm(width, eps=epsilon)
        self.feedforward = feedforward
        self.dropout = Dropout(dropout)

    def forward(
        self,
        first: Tensor,
        second: Tensor,
        mask: Mask | None,
        past: KeysValues | None = None,
        *,
        positions: Positions | None = None,
    ) -> tuple[Tensor, Tensor, KeysValues]:
        """One block, over a whole text or over the tokens that follow a cached past.

        Arguments:
            first, second: X1 and X2, (B, L, D).
            mask: over (B, H, L, past + L), True = may attend.
            past: keys and values of the tokens before.
            positions: where the L tokens and the past + L keys are in their texts; None for the last of 0, 1, 2 and so on.

        Returns:
            Y1 and Y2, (B, L, D); keys and values of past and present tokens.
        """
        seen = Seen(mask, positions)
        added, present, _ = self.attend(second, seen, past)
        first = first + added
        return first, second + self.feed(first), present

    def attend(
        self, x: Tensor, seen: Seen, past: KeysValues | None = None, decided: Mapping[str, Tensor] | None = None
    ) -> tuple[Tensor, KeysValues, Mapping[str, Tensor]]:
        """What attention adds, (B, L, D); the keys and values; and what the mechanism decided, to be given when it runs again."""
        y = self.attention_norm(x)
        slots = x.shape[1] + (0 if past is None else past.key.shape[2])
        positions = Positions(x.shape[1], slots, device=x.device) if seen.positions is None else seen.positions
        new = self.attention.keys_values(y, positions.queries)
        present = new if past is None else past.extended(new)
        inputs = self.attention.inputs(
            y,
            present.key,
            mask=seen.mask,
            positions=positions,
            record=decided,
        )
        if self.training and not decided:
            decided = self.attention.attention.replay_state(inputs)
            inputs = replace(inputs, record={**inputs.record, **decided})
        return self.dropout(self.attention.attend(inputs, present.value)), present, decided or {}

    def feed(self, x: Tensor) -> Tensor:
        """What the feed-forward net adds, (B, L, D)."""
        return self.dropout(self.feedforward(self.feedforward_norm(x)))


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What a token may look at, and where tokens stand.

    Arguments:
        mask: over (B, H, L, S), True = may attend.
        positions: of all tokens; None for 0, 1, 2 and so on.
    """

    mask: Mask | None
    positions: Positions | None = None


def through_reversibly(blocks: Sequence[ReversibleBlock], x: Tensor, seen: Seen) -> tuple[Tensor, Tensor]:
    """Both streams, begun alike, through all blocks: memory for the backward pass does not grow with their number.

    The backward pass computes each block's input from its output, sampling again what was random from the same state of the
    generators, with what attention decided between near numbers as it was, and autocast as it was.

    Arguments:
        x: (B, L, D), X1 and X2 of the first block.

    Returns:
        Y1 and Y2 of the last.
    """
    parameters = [parameter for block in blocks for parameter in block.parameters() if parameter.requires_grad]
    return _Reversible.apply(x, tuple(blocks), seen, *parameters)


@dataclass(frozen=True, slots=True, eq=False)
class _Pass:
    """What a block needs to run again: the states of the generators before either half, and what attention decided."""

    attention: Randomness
    decided: Mapping[str, Tensor]
    feedforward: Randomness


class _Reversible(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, blocks: Sequence[ReversibleBlock], seen: Seen, *parameters: Tensor) -> Any:
        first, second, passes = x, x, []
        for block in blocks:
            before = Randomness.now(x.device)
            added, _, decided = block.attend(second, seen)
            first = first + added
            between = Randomness.now(x.device)
            second = second + block.feed(first)
            passes.append(_Pass(before, decided, between))
        context.save_for_backward(first, second)
        context.blocks, context.seen, context.passes, context.parameters = blocks, seen, passes, parameters
        kind = x.device.type
        context.autocast = kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)
        return first, second

    @staticmethod
    @once_differentiable
    def backward(context: Any, *gradients: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        first, second = context.saved_tensors
        of_first, of_second = gradients
        found = _Gradients(context.parameters)
        kind, dtype, enabled = context.autocast
        for block, done in zip(reversed(context.blocks), reversed(context.passes), strict=True):
            with torch.autocast(kind, dtype=dtype, enabled=enabled):
                with done.feedforward.again(), torch.enable_grad():
                    given = first.detach().requires_grad_()
                    added = block.feed(given)
                second = second - added.detach()
                of_first = of_first + found.through(added, given, of_second)
                with done.attention.again(), torch.enable_grad():
                    given = second.detach().requires_grad_()
                    added, _, _ = block.attend(given, context.seen, decided=done.decided)
                first = first - added.detach()
                of_second = of_second + found.through(added, given, of_first)
            del added, given
        return of_first + of_second, None, None, *found.all()


class _Gradients:
    """Gradients of parameters, added up block by block.

    Arguments:
        parameters: those that are asked for.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = parameters
        self._found: dict[int, Tensor] = {}

    def through(self, output: Tensor, given: Tensor, upstream: Tensor) -> Tensor:
        """The gradient of what was given, from that of the output; those of the parameters between are added to the others."""
        gradients = torch.autograd.grad(
            output, (given, *self._parameters), upstream.to(output.dtype), allow_unused=True, materialize_grads=False
        )
        for parameter, gradient in zip(self._parameters, gradients[1:], strict=True):
            if gradient is not None:
                before = self._found.get(id(parameter))
                self._found[id(parameter)] = gradient if before is None else before + gradient
        return gradients[0].to(given.dtype)

    def all(self) -> Iterator[Tensor | None]:
        """One for each parameter, in their order; None where it took no part."""
        return (self._found.get(id(parameter)) for parameter in self._parameters)


@dataclass(frozen=True, slots=True, eq=False)
class Randomness:
    """The state of torch's generators, of the processor and of one device."""

    processor: Tensor
    device: torch.device
    on_device: Tensor | None

    @classmethod
    def now(cls, device: torch.device) -> Randomness:
        """As they are."""
        return cls(torch.get_rng_state(), device, torch.cuda.get_rng_state(device) if device.type == "cuda" else None)

    @contextmanager
    def again(self) -> Iterator[None]:
        """Inside the block, as they were; afterwards as they are."""
        with torch.random.fork_rng(devices=[] if self.on_device is None else [self.device]):
            torch.set_rng_state(self.processor)
            if self.on_device is not None:
                torch.cuda.set_rng_state(self.on_device, self.device)
            yield
