"""How far a student's distributions are from its teacher's."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

BLOCK = 250_000
"""Logits that are computed with at once: few enough to stay in a processor's cache."""


def divergence(student: Tensor, teacher: Tensor, *, temperature: float = 1.0) -> Tensor:
    """The Kullback-Leibler divergence of a student's distributions from its teacher's, summed over rows (Hinton et al. 2015).

        KL(p || q) = sum_v p_v (log p_v - log q_v),   p = softmax(z_teacher / T),   q = softmax(z_student / T)

    Its gradient by the student's logits is (q - p) / T, so it is usual to weigh it by T^2. Rows are walked in blocks, in float32
    whatever the logits are, and the gradient is formed in the same walk.

    Arguments:
        student, teacher: (N, V), any floating dtype; the teacher's pass back no gradient.
        temperature: T.

    Returns:
        A scalar, the sum; float32, float64 for float64 logits.

    >>> logits = torch.tensor([[1.0, 2.0, 3.0]])
    >>> divergence(logits, logits + 5, temperature=2.0).item()
    0.0
    """
    return _Divergence.apply(student, teacher.detach(), temperature)  # type: ignore[no-any-return]


class _Divergence(torch.autograd.Function):
    """The sum above with its gradient, computed block by block."""

    @staticmethod
    def forward(ctx: FunctionCtx, student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        wide = torch.float64 if student.dtype == torch.float64 else torch.float32
        total = student.new_zeros((), dtype=wide)
        wanted = ctx.needs_input_grad[0]  # type: ignore[attr-defined]
        gradient = torch.empty_like(student) if wanted else None
        rows = max(1, BLOCK // student.shape[1])
        for start in range(0, student.shape[0], rows):
            block = slice(start, start + rows)
            # In place, and each number looked at as seldom as can be: the vocabulary is large.
            own, right = (z[block].to(wide, copy=True).div_(temperature) for z in (student, teacher))
            for z in (own, right):
                z.sub_(z.amax(dim=1, keepdim=True))
            apart = right - own
            own_sum, right_sum = own.exp_().sum(dim=1, keepdim=True), right.exp_().sum(dim=1, keepdim=True)
            p = right.div_(right_sum)
            total += apart.mul_(p).sum() + (own_sum.log() - right_sum.log()).sum()
            if gradient is not None:
                gradient[block] = own.div_(own_sum).sub_(p).div_(temperature)
        if gradient is not None:
            ctx.save_for_backward(gradient)  # type: ignore[attr-defined]
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, upstream: Tensor) -> tuple[Tensor, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (gradient,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return gradient.mul_(upstream.to(gradient.dtype)), None, None
