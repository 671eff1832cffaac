"""Losses over a vocabulary: of logits, of a projection (in blocks, without all logits in memory), and of sampled words."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from regard.kernels import kernels
from regard.kernels.interface import LossStruct
from regard.layers.embeddings import check_number

IN_CACHE = 1_000_000
"""The number of logits in one block of the computation."""


def smoothed_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    valid: Tensor | None = None,
    smoothing: float = 0.0,
    never: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The cross-entropy of each row against a smoothed target, summed over rows (Szegedy et al. 2016; Vaswani 2017, 5.4).

        loss = - sum_v t_v log softmax(z)_v,   t = (1 - eps) onehot(y) + eps / V

    The smoothing mass is spread over all V entries, the correct one included, as in `torch.nn.functional.cross_entropy`, to which
    this is equal. With `never`, an entry that is never correct, such as padding, the others get eps / (V - 1) each. Unlike in
    PyTorch it is computed row by row, so that the logits of a row stay in the processor's cache, in float32 (float64 for float64
    logits): by a compiled kernel on a processor, else in blocks of rows together with the gradient.

    Arguments:
        logits: (N, V), any floating dtype.
        labels: (N,) int64 in [0, V); values where `valid` is False are ignored.
        valid: (N,) bool, True = the row counts, False = it is ignored; None = all count.
        smoothing: eps, in [0, 1).
        never: the index of an entry without smoothing mass; None = all have some.

    Returns:
        A scalar (float32; float64 for float64 logits), the sum over the valid rows; and an int64 scalar, the number of valid rows
        in which the label's logit is larger than every other. A row of equal logits is not counted as correct.

    >>> total, correct = smoothed_cross_entropy(torch.zeros(2, 4), torch.tensor([1, 3]))
    >>> total.item()  # 2 log 4
    2.7725887298583984
    """
    if valid is None:
        valid = torch.ones_like(labels, dtype=torch.bool)
    total, correct = _SmoothedCrossEntropy.apply(logits, labels, valid, smoothing, never)  # type: ignore[misc]
    return total, correct


def stands_out(logits: Tensor, labels: Tensor) -> Tensor:
    """Whether the label's logit is larger than every other.

    Arguments:
        logits: (..., V).
        labels: (...) int64, in [0, V).

    Returns:
        (...) bool.

    >>> stands_out(torch.tensor([[0.0, 1.0], [1.0, 1.0]]), torch.tensor([1, 1]))
    tensor([ True, False])
    """
    at = labels.unsqueeze(-1)
    return logits.gather(-1, at).squeeze(-1) > logits.scatter(-1, at, -torch.inf).amax(dim=-1)


class _SmoothedCrossEntropy(torch.autograd.Function):
    """`smoothed_cross_entropy` with its gradient, softmax(z) - t, computed block by block."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, logits: Tensor, labels: Tensor, valid: Tensor, smoothing: float, never: int | None
    ) -> tuple[Tensor, Tensor]:
        compiled = CompiledLoss.of(logits, labels, valid, smoothing, never)
        if compiled is not None:
            total, correct = compiled.found()
            kept: tuple[Tensor, ...] = (logits, compiled.labels, compiled.valid, compiled.found_of_rows)
            ctx.settings = (smoothing, never, compiled.library)  # type: ignore[attr-defined]
        else:
            kept = (torch.empty_like(logits),) if ctx.needs_input_grad[0] else ()  # type: ignore[attr-defined]
            total, correct = walked(logits, labels, valid, smoothing, never, kept[0] if kept else None)
        ctx.save_for_backward(*kept)  # type: ignore[attr-defined]
        ctx.mark_non_differentiable(correct)  # type: ignore[attr-defined]
        return total, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *upstreams: Tensor) -> tuple[Tensor, None, None, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        kept = ctx.saved_tensors  # type: ignore[attr-defined]
        if len(kept) > 1:
            compiled = CompiledLoss(*kept, *ctx.settings)  # type: ignore[attr-defined]
            gradient = compiled.gradient(upstreams[0].item(), torch.empty_like(kept[0]))
        else:  # in place: a second tensor of this size would take more time than the multiplication
            gradient = kept[0].mul_(upstreams[0].to(kept[0].dtype))
        return gradient, None, None, None, None


@dataclass(frozen=True, slots=True, eq=False)
class CompiledLoss:
    """`smoothed_cross_entropy` of some rows by the compiled kernel, in float32, for logits in float32 or bfloat16 on a processor.

    Arguments:
        logits: (N, V), contiguous.
        labels: (N,) int64, contiguous, in [0, V) where a row counts.
        valid: (N,) bool, contiguous.
        found_of_rows: (3, N) float32, filled in by `found`: the loss, the largest logit m and log sum_v exp(z_v - m) of each row.
        smoothing, never: as for `smoothed_cross_entropy`.
        library: the kernels.
    """

    logits: Tensor
    labels: Tensor
    valid: Tensor
    found_of_rows: Tensor
    smoothing: float
    never: int | None
    library: ctypes.CDLL

    @classmethod
    def of(
        cls, logits: Tensor, labels: Tensor, valid: Tensor, smoothing: float, never: int | None
    ) -> CompiledLoss | None:
        """The loss of these logits; None if the kernel does not support them, or there is none.

        Raises:
            IndexError: for a label outside the vocabulary in a row that counts.
        """
        if logits.device.type != "cpu" or logits.dtype not in (torch.float32, torch.bfloat16):
            return None
        if torch.compiler.is_compiling() or (library := kernels().library) is None or not logits.is_contiguous():
            return None
        low, high = (int(each) for each in labels.where(valid, 0).aminmax()) if len(labels) else (0, 0)
        if low < 0 or high >= logits.shape[1]:
            raise IndexError(f"a label is {low if low < 0 else high}, outside the vocabulary of {logits.shape[1]}")
        found = torch.empty(3, len(labels))
        return cls(logits, labels.contiguous(), valid.contiguous(), found, smoothing, never, library)

    def found(self) -> tuple[Tensor, Tensor]:
        """The sum of the losses and the number of correct rows, as `smoothed_cross_entropy` returns them."""
        losses, highest, logarithms = self.found_of_rows
        right = torch.empty(len(losses), dtype=torch.bool)
        places = (each.data_ptr() for each in (losses, highest, logarithms, right))
        self.library.regard_loss(self._struct(), *places, torch.get_num_threads())
        return losses.sum(), right.sum()

    def gradient(self, scale: float, to: Tensor) -> Tensor:
        """`scale` times the gradient of the sum, written into `to`, which may be the logits; only after `found`."""
        _, highest, logarithms = (each.data_ptr() for each in self.found_of_rows)
        self.library.regard_loss_gradient(
            self._struct(), highest, logarithms, scale, to.data_ptr(), torch.get_num_threads()
        )
        return to

    def _struct(self) -> LossStruct:
        rows, vocabulary = self.logits.shape
        return LossStruct(
            *(self.logits.data_ptr(), self.labels.data_ptr(), self.valid.data_ptr(), rows, vocabulary),
            *(-1 if self.never is None else self.never, self.smoothing, self.share, self.logits.element_size() * 8),
        )

    @property
    def share(self) -> float:
        """The smoothing mass of each entry."""
        return self.smoothing / (self.logits.shape[1] - (self.never is not None)) if self.smoothing else 0.0


def loss_of_rows(
    logits: Tensor, labels: Tensor, valid: Tensor, smoothing: float, never: int | None, gradient: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The sum and the count of `smoothed_cross_entropy`; the gradient, if there is one, may overwrite the logits."""
    compiled = CompiledLoss.of(logits, labels, valid, smoothing, never)
    if compiled is None:
        return walked(logits, labels, valid, smoothing, never, gradient)
    found = compiled.found()
    if gradient is not None:
        compiled.gradient(1.0, gradient)
    return found


def walked(
    logits: Tensor, labels: Tensor, valid: Tensor, smoothing: float, never: int | None, gradient: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`loss_of_rows` without the kernel."""
    wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
    vocabulary = logits.shape[1]
    # The logit of the `never` entry can be so low that its sum with the others loses precision, so the sum leaves it out.
    pieces = [slice(0, never), slice(never + 1, None)] if never is not None else [slice(None)]
    share_of_smoothing = smoothing / (vocabulary if never is None else vocabulary - 1)
    rows = max(1, IN_CACHE // vocabulary)
    total = logits.new_zeros((), dtype=wide)
    correct = labels.new_zeros(())
    for start in range(0, logits.shape[0], rows):
        block = logits[start : start + rows].to(wide)
        counts = valid[start : start + rows].unsqueeze(1)
        answers = labels[start : start + rows].unsqueeze(1).where(counts, 0)
        highest = block.amax(dim=1, keepdim=True)
        answered = block.gather(1, answers)
        share = (block - highest).exp_()
        own = share.gather(1, answers)
        others = share.scatter_(1, answers, 0.0).amax(dim=1, keepdim=True)  # the logits may not be overwritten here
        correct += ((own > others) & counts).sum()
        share.scatter_(1, answers, own)
        sums = share.sum(dim=1, keepdim=True)
        losses = highest + sums.log() - (1 - smoothing) * answered
        if smoothing:
            for piece in pieces:
                losses -= share_of_smoothing * block[:, piece].sum(dim=1, keepdim=True)
        total += losses.where(counts, 0.0).sum()
        if gradient is not None:
            share /= sums
            if smoothing:
                for piece in pieces:
                    share[:, piece] -= share_of_smoothing
            share.scatter_add_(1, answers, share.new_full(answers.shape, smoothing - 1))
            gradient[start : start + rows] = share.masked_fill_(~counts, 0.0)
    return total, correct


# The loss of a projection, without all logits in memory.


AT_A_TIME = 25_000_000
"""The number of logits in memory at once: 512 rows for GPT-2's vocabulary. With fewer, reading the table for each block would
take longer than the arithmetic."""


def projected_cross_entropy(
    labels: Tensor, *, valid: Tensor | None = None, smoothing: float = 0.0, never: int | None = None
) -> Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]:
    """`smoothed_cross_entropy` of z = W h + b, as a function of h, W and b that a model can apply instead of the projection.

    It is computed in blocks of rows: the logits of a block, its part of the loss and of the three gradients; then the logits are
    freed. With GPT-2's vocabulary and 2,048 tokens all logits and their gradient would need 0.8 GB in float32. The arithmetic is
    the same, so it takes no more time. The gradient of W is summed in W's dtype; with autocast, products use its dtype.

    Arguments:
        labels: (...) int64.
        valid, smoothing, never: as for `smoothed_cross_entropy`; `valid` has the shape of the labels.

    Returns:
        A function of h (..., D), W (V, D) and b (V,) or None that returns the sum and the count of `smoothed_cross_entropy`.

    >>> loss = projected_cross_entropy(torch.tensor([[1, 3]]))
    >>> total, _ = loss(torch.zeros(1, 2, 5), torch.ones(4, 5), None)
    >>> total.item()  # 2 log 4
    2.7725887298583984
    """
    real = torch.ones_like(labels, dtype=torch.bool) if valid is None else valid
    # Only if something was compiled, because the import of `torch.compiler.disable` takes a second.
    apply = _uncompiled() if "torch._dynamo" in sys.modules else _with_gradients

    def loss(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        return apply(hidden.flatten(0, -2), weight, bias, labels.flatten(), real.flatten(), smoothing, never)

    return loss


def _with_gradients(*given: Any) -> tuple[Tensor, Tensor]:
    total, correct = _ProjectedCrossEntropy.apply(*given)  # type: ignore[misc]
    return total, correct


@cache
def _uncompiled() -> Callable[..., tuple[Tensor, Tensor]]:
    """One function for all steps, not compiled: the loop over blocks would be unrolled, and a block has nothing to fuse."""
    return torch.compiler.disable(_with_gradients)  # type: ignore[return-value]


class _ProjectedCrossEntropy(torch.autograd.Function):
    """The loss with its gradients, block by block."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        valid: Tensor,
        smoothing: float,
        never: int | None,
    ) -> tuple[Tensor, Tensor]:
        kind = hidden.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
        to_hidden, to_weight, to_bias = ctx.needs_input_grad[:3]  # type: ignore[attr-defined]
        d_hidden = torch.empty_like(hidden) if to_hidden else None
        d_weight = torch.zeros_like(weight) if to_weight else None
        d_bias = torch.zeros_like(bias) if bias is not None and to_bias else None
        total = hidden.new_zeros((), dtype=torch.promote_types(hidden.dtype, torch.float32))
        correct = labels.new_zeros(())
        with torch.autocast(kind, enabled=False):
            table = weight.to(dtype)
            offset = None if bias is None else bias.to(dtype)
            size = max(1, AT_A_TIME // weight.shape[0])
            for start in range(0, hidden.shape[0], size):
                part = slice(start, start + size)
                x = hidden[part].to(dtype)
                logits = F.linear(x, table, offset)
                # The gradient overwrites the logits.
                gradient = logits if to_hidden or to_weight or to_bias else None
                found, right = loss_of_rows(logits, labels[part], valid[part], smoothing, never, gradient)
                total, correct = total + found, correct + right
                if d_hidden is not None:
                    d_hidden[part] = logits @ table
                if d_weight is not None:
                    d_weight += logits.t() @ x
                if d_bias is not None:
                    d_bias += logits.sum(dim=0, dtype=d_bias.dtype)
        ctx.save_for_backward(d_hidden, d_weight, d_bias)  # type: ignore[attr-defined]
        ctx.mark_non_differentiable(correct)  # type: ignore[attr-defined]
        return total, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *upstreams: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        found = ctx.saved_tensors  # type: ignore[attr-defined]
        # In place: nothing else uses them, and the gradient of a table is as large as the table.
        scaled = [None if part is None else part.mul_(upstreams[0].to(part.dtype)) for part in found]
        return (*scaled, None, None, None, None)


# The sampled softmax, for training only; evaluations use all words.


def sampled_words(vocabulary: int, tries: int, *, key: tuple[int, int]) -> np.ndarray:
    """The distinct words among T samples from a distribution like Zipf's law.

        P(word v) = log((v + 2) / (v + 1)) / log(V + 1),   v = 0 the most frequent word

    Arguments:
        vocabulary: V; words are numbered from the most to the least frequent.
        tries: T, the number of samples.
        key: two integers that determine the samples.

    Returns:
        (S,) int64, ascending, S at most T.
    """
    uniform = np.random.Generator(np.random.Philox(key=list(key))).random(tries)
    samples = np.exp(uniform * np.log(vocabulary + 1)).astype(np.int64) - 1
    return np.unique(samples.clip(0, vocabulary - 1))


def sampling_probability(words: Tensor, vocabulary: int, tries: int) -> Tensor:
    """Q(v) = 1 - (1 - P(v))^T, the probability that word v is among T samples of `sampled_words`; any shape, float32."""
    v = words.double()
    once = torch.log((v + 2) / (v + 1)) / np.log(vocabulary + 1)
    return -torch.expm1(tries * torch.log1p(-once)).float()


def sampled_cross_entropy(
    labels: Tensor, words: Tensor, *, valid: Tensor, tries: int
) -> Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]:
    """Cross-entropy over the correct word and sampled negative words, as a function of h, W and b (Jean et al. 2015, section 3).

        z_v = w_v h + b_v - log Q(v),   loss = - log( exp z_y / (exp z_y + sum over sampled v other than y of exp z_v) )

    Q(v), the probability that v is sampled, corrects for frequent words being sampled more often.

    Arguments:
        labels: (...) int64, y.
        words: (S,) int64, the negative words, from `sampled_words`.
        valid: (...) bool, True = the label counts, False = it is ignored.
        tries: T, the number of samples.

    Returns:
        A function of h (..., D), W (V, D) and b (V,) or None, as `projected_cross_entropy` returns it: it returns the sum over
        labels, and the number of labels whose logit is larger than that of every negative word.
    """

    def loss(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        kept = valid.flatten()
        h, y = hidden.flatten(0, -2)[kept], labels.flatten()[kept]
        size = weight.shape[0]
        offset = weight.new_zeros(size) if bias is None else bias
        others = F.linear(h, weight[words], offset[words]).float()
        others = others - sampling_probability(words, size, tries).log()
        others = others.masked_fill(words == y.unsqueeze(1), -torch.inf)
        right = ((h * weight[y]).sum(dim=-1) + offset[y]).float() - sampling_probability(y, size, tries).log()
        both = torch.cat((right.unsqueeze(1), others), dim=1)
        total = (both.logsumexp(dim=1) - right).sum()
        return total, (right > others.amax(dim=1)).sum() if len(words) else torch.tensor(len(y))

    return loss


@torch.no_grad()
def summed_losses(
    loss: Callable[[Any, Any], Any], model: Any, batches: Iterable[Any], what: str
) -> dict[str, tuple[float, int, int]]:
    """The sums of loss, labels and correct predictions over batches, by name: "" for the main loss, then the auxiliary losses.

    Arguments:
        loss: a function such as `Task.loss`.
        batches: batches on the model's device.
        what: the name of the data in messages, such as `these texts`.

    Raises:
        InputError: if a loss is not finite.
    """
    sums: dict[str, tuple[float, int, int]] = {}
    for batch in batches:
        found = loss(model, batch)
        for name, part in {"": found, **found.auxiliary}.items():
            total, labels, right = sums.get(name, (0.0, 0, 0))
            value = check_number(part.total.item(), what)
            sums[name] = (total + value, labels + part.tokens, right + int(part.correct))
    return sums


# Losses of text embeddings.


def ranking_loss(first: Tensor, others: Tensor, *, scale: float, same: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Cross-entropy of finding each text's partner among the texts of the batch (Henderson et al. 2017, section 4.4).

        loss = - sum_i log softmax_j(scale cos(u_i, v_j))_i

    All other texts of the batch are negatives, so the loss depends on the batch size; larger batches are harder and usually learn
    better.

    Arguments:
        first: u, (B, D).
        others: v, (C, D); v_i is the partner of u_i for i < B, the rest are additional negatives.
        scale: the factor of the cosines.
        same: (B, C) bool, True = not a negative, because the text equals the partner or the first text.

    Returns:
        The sum over rows, and the number of rows whose partner has the largest cosine.

    >>> loss, right = ranking_loss(torch.eye(2), torch.eye(2), scale=1.0)
    >>> round(loss.item(), 4), right.item()  # 2 log(1 + 1/e)
    (0.6265, 2)
    """
    scores = scale * (F.normalize(first, dim=-1) @ F.normalize(others, dim=-1).T)
    labels = torch.arange(len(first), device=first.device)
    if same is not None:
        partner = F.one_hot(labels, scores.shape[1]).bool()
        scores = scores.masked_fill(same & ~partner, float("-inf"))
    right = (scores.argmax(dim=1) == labels).sum()
    return F.cross_entropy(scores, labels, reduction="sum"), right


def cosine_loss(first: Tensor, second: Tensor, wanted: Tensor) -> Tensor:
    """The squared difference between the cosine of each pair and its target, summed (Reimers, Gurevych 2019, section 3).

    Arguments:
        first, second: (B, D).
        wanted: (B,), the target cosines.

    >>> cosine_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]]), torch.tensor([0.5])).item()
    0.25
    """
    return (F.cosine_similarity(first, second, dim=-1) - wanted).square().sum()


def triplet_loss(first: Tensor, second: Tensor, third: Tensor, *, margin: float) -> tuple[Tensor, Tensor]:
    """The triplet loss: the second text should be nearer than the third by a margin (Reimers, Gurevych 2019, section 3).

        loss = sum_i max(0, |u_i - v_i| - |u_i - w_i| + margin)

    Arguments:
        first, second, third: u, v and w, (B, D).

    Returns:
        The sum over rows, and the number of rows in which the second is nearer than the third.

    >>> u, v, w = torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 2.0]])
    >>> [value.item() for value in triplet_loss(u, v, w, margin=1.0)]
    [4.0, 0]
    """
    near, far = (first - second).norm(dim=-1), (first - third).norm(dim=-1)
    return (near - far + margin).clamp_min(0.0).sum(), (near < far).sum()
