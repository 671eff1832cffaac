"""The divergence of a student from its teacher, against torch's own, value and gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.tasks import distillation as module
from regard.tasks.distillation import divergence


def logits(
    rows: int, vocabulary: int, seed: int, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    student, teacher = (3 * torch.randn(rows, vocabulary, generator=generator, dtype=torch.float64) for _ in range(2))
    return student.to(dtype).requires_grad_(), teacher.to(dtype)


def plainly(student: torch.Tensor, teacher: torch.Tensor, temperature: float) -> torch.Tensor:
    return F.kl_div(
        (student / temperature).log_softmax(dim=-1), (teacher / temperature).softmax(dim=-1), reduction="sum"
    )


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 9), vocabulary=st.integers(2, 30), temperature=st.sampled_from([0.5, 1.0, 2.0, 7.0]))
def test_value_and_gradient_are_torchs(rows, vocabulary, temperature):
    student, teacher = logits(rows, vocabulary, seed=rows * 31 + vocabulary)
    total = divergence(student, teacher, temperature=temperature)
    (1.7 * total).backward()
    plain = student.detach().clone().requires_grad_()
    right = plainly(plain, teacher, temperature)
    (1.7 * right).backward()
    torch.testing.assert_close(total, right)
    torch.testing.assert_close(student.grad, plain.grad)
    assert total >= -1e-12


def test_blocks_do_not_change_the_answer(monkeypatch):
    student, teacher = logits(7, 11, seed=1)
    whole = divergence(student, teacher, temperature=2.0)
    monkeypatch.setattr(module, "BLOCK", 25)
    parts = divergence(student, teacher, temperature=2.0)
    torch.testing.assert_close(parts, whole)


def test_the_teacher_gets_no_gradient_and_low_precision_is_summed_in_float32():
    student, teacher = logits(40, 300, seed=3, dtype=torch.bfloat16)
    teacher.requires_grad_()
    total = divergence(student, teacher, temperature=2.0)
    total.backward()
    assert total.dtype == torch.float32
    assert teacher.grad is None
    assert student.grad.dtype == torch.bfloat16
    assert total.item() == pytest.approx(plainly(student.double(), teacher.double(), 2.0).item(), rel=1e-4)


def test_far_apart_is_finite():
    student = torch.tensor([[0.0, 400.0]], requires_grad=True)
    total = divergence(student, torch.tensor([[400.0, 0.0]]))
    total.backward()
    assert total.item() == pytest.approx(400)
    assert student.grad.isfinite().all()
