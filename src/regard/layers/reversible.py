"""Reversible residual blocks: inputs are recomputed from outputs, so intermediate activations need not be stored."""

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
    """Self-attention and a feed-forward network between two streams (Kitaev et al. 2020, section 3; Gomez et al. 2017).

        Y1 = X1 + Attention(norm(X2)),   Y2 = X2 + FeedForward(norm(Y1))
        X2 = Y2 - FeedForward(norm(Y1)),   X1 = Y1 - Attention(norm(X2))

    Arguments:
        attention: self-attention.
        feedforward: maps (B, L, D) to (B, L, D), position by position.
        width: D, the width of each stream.
        dropout: probability of dropping an entry of the outputs of attention and feed-forward network in training.
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
        """One block, over a whole text or over tokens after a cached past.

        Arguments:
            first, second: X1 and X2, (B, L, D).
            mask: over (B, H, L, past + L), True = may attend.
            past: keys and values of the past tokens.
            positions: the positions of the L tokens and of the past + L keys in their texts; None = 0, 1, 2, ... for the keys,
                and the last L of them for the tokens.

        Returns:
            Y1 and Y2, (B, L, D); keys and values of past and present tokens.
        """
        seen = Seen(mask, positions)
        added, present, _ = self.attend(second, seen, past)
        first = first + added
        return first, second + self.feed(first), present

    def attend(
        self, x: Tensor, seen: Seen, past: KeysValues | None = None, replay: Mapping[str, Tensor] | None = None
    ) -> tuple[Tensor, KeysValues, Mapping[str, Tensor]]:
        """The output of attention, (B, L, D); the keys and values; and the mechanism's replay state.

        Arguments:
            x: (B, L, D), the input before the norm.
            seen: the mask and the positions.
            past: keys and values of the past tokens.
            replay: the replay state of an earlier run, to make the same discrete choices (such as hash buckets); None for a
                first run.
        """
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
            record=replay,
        )
        if self.training and not replay:
            replay = self.attention.attention.replay_state(inputs)
            inputs = replace(inputs, record={**inputs.record, **replay})
        return self.dropout(self.attention.attend(inputs, present.value)), present, replay or {}

    def feed(self, x: Tensor) -> Tensor:
        """The output of the feed-forward network, (B, L, D)."""
        return self.dropout(self.feedforward(self.feedforward_norm(x)))


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The mask and the positions of the tokens.

    Arguments:
        mask: over (B, H, L, S), True = may attend.
        positions: the positions of all tokens; None = 0, 1, 2, ...
    """

    mask: Mask | None
    positions: Positions | None = None


def through_reversibly(blocks: Sequence[ReversibleBlock], x: Tensor, seen: Seen) -> tuple[Tensor, Tensor]:
    """Apply all blocks to both streams; memory for the backward pass does not grow with the number of blocks.

    The backward pass recomputes each block's input from its output, with the same random numbers (from the stored states of the
    generators), the same discrete choices of attention, and the same autocast settings.

    Arguments:
        blocks: the blocks, from the first to the last.
        x: (B, L, D), both X1 and X2 of the first block.
        seen: the mask and the positions.

    Returns:
        Y1 and Y2 of the last block, (B, L, D) each.
    """
    parameters = [parameter for block in blocks for parameter in block.parameters() if parameter.requires_grad]
    return _Reversible.apply(x, tuple(blocks), seen, *parameters)


@dataclass(frozen=True, slots=True, eq=False)
class _Pass:
    """The data for running a block again: the states of the generators before each half, and the replay state of attention."""

    attention: Randomness
    replay: Mapping[str, Tensor]
    feedforward: Randomness


class _Reversible(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, blocks: Sequence[ReversibleBlock], seen: Seen, *parameters: Tensor) -> Any:
        first, second, passes = x, x, []
        for block in blocks:
            before = Randomness.now(x.device)
            added, _, replay = block.attend(second, seen)
            first = first + added
            between = Randomness.now(x.device)
            second = second + block.feed(first)
            passes.append(_Pass(before, replay, between))
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
                    added, _, _ = block.attend(given, context.seen, replay=done.replay)
                first = first - added.detach()
                of_second = of_second + found.through(added, given, of_first)
            del added, given
        return of_first + of_second, None, None, *found.all()


class _Gradients:
    """Accumulates the gradients of parameters over blocks.

    Arguments:
        parameters: the parameters.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = parameters
        self._found: dict[int, Tensor] = {}

    def through(self, output: Tensor, given: Tensor, upstream: Tensor) -> Tensor:
        """The gradient of the input `given`, from that of the output; gradients of parameters are accumulated."""
        gradients = torch.autograd.grad(
            output, (given, *self._parameters), upstream.to(output.dtype), allow_unused=True, materialize_grads=False
        )
        for parameter, gradient in zip(self._parameters, gradients[1:], strict=True):
            if gradient is not None:
                before = self._found.get(id(parameter))
                self._found[id(parameter)] = gradient if before is None else before + gradient
        return gradients[0].to(given.dtype)

    def all(self) -> Iterator[Tensor | None]:
        """The gradient of each parameter, in order; None for parameters that were not used."""
        return (self._found.get(id(parameter)) for parameter in self._parameters)


@dataclass(frozen=True, slots=True, eq=False)
class Randomness:
    """The states of PyTorch's random number generators, of the CPU and of one device."""

    processor: Tensor
    device: torch.device
    on_device: Tensor | None

    @classmethod
    def now(cls, device: torch.device) -> Randomness:
        """The current states."""
        return cls(torch.get_rng_state(), device, torch.cuda.get_rng_state(device) if device.type == "cuda" else None)

    @contextmanager
    def again(self) -> Iterator[None]:
        """A context manager that restores these states inside the block, and the current states afterwards."""
        with torch.random.fork_rng(devices=[] if self.on_device is None else [self.device]):
            torch.set_rng_state(self.processor)
            if self.on_device is not None:
                torch.cuda.set_rng_state(self.on_device, self.device)
            yield
