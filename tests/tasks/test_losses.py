from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.kernels import Kernels
from regard.tasks.losses import smoothed_cross_entropy, stands_out


def total(logits, labels, **options):
    return smoothed_cross_entropy(logits, labels, **options)[0]


# dtype: (rtol, atol) of value and gradient
TOLERANCES = {
    torch.float64: (1e-10, 1e-12),
    torch.float32: (1e-5, 1e-6),
    torch.bfloat16: (1.6e-2, 1e-2),
}


def drawn(rows, vocabulary, generator, dtype=torch.float64):
    logits = 3 * torch.randn(rows, vocabulary, generator=generator, dtype=torch.float64)
    labels = torch.randint(vocabulary, (rows,), generator=generator)
    return logits.to(dtype).requires_grad_(), labels


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize(
    ("rows", "vocabulary", "smoothing"),
    [
        (1, 1, 0.1),
        (1, 7, 0.0),
        (6, 5, 0.1),
        (6, 5, 0.0),
        (33, 129, 0.7),
        (25, 100_000, 0.1),  # three blocks, the last not full
        (43, 50_001, 0.0),  # three blocks of 19, 19 and 5 rows
        (2, 1_100_000, 0.1),  # one row is larger than a block
    ],
)
def test_value_and_gradient_are_torchs(rows, vocabulary, smoothing, dtype, generator):
    """Against PyTorch in float64 on the same numbers; a block is 1,000,000 // V rows, at least one."""
    logits, labels = drawn(rows, vocabulary, generator, dtype)
    exact = logits.detach().double().requires_grad_()
    wanted = F.cross_entropy(exact, labels, reduction="sum", label_smoothing=smoothing)
    loss = total(logits, labels, smoothing=smoothing)
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert loss.shape == ()
    rtol, atol = TOLERANCES[dtype]
    # The value is summed in float32 even for bfloat16 logits.
    torch.testing.assert_close(loss.double(), wanted, rtol=min(rtol, 1e-5), atol=atol)
    (loss / rows).backward()
    (wanted / rows).backward()
    assert logits.grad.dtype == dtype
    torch.testing.assert_close(logits.grad.double() * rows, exact.grad * rows, rtol=rtol, atol=atol)


@given(rows=st.integers(1, 6), vocabulary=st.integers(2, 9), smoothing=st.floats(0, 0.99), seed=st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_it_is_the_formula(rows, vocabulary, smoothing, seed):
    """- sum_v t_v log softmax(z)_v with t = (1 - eps) onehot(y) + eps / V."""
    logits, labels = drawn(rows, vocabulary, torch.Generator().manual_seed(seed))
    target = (1 - smoothing) * F.one_hot(labels, vocabulary).double() + smoothing / vocabulary
    wanted = -(target * logits.log_softmax(dim=1)).sum()
    torch.testing.assert_close(total(logits, labels, smoothing=smoothing), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("never", [0, 3, 6])
def test_what_is_never_right_gets_no_smoothing_mass(never, generator):
    """t = (1 - eps) onehot(y) + eps / (V - 1) over the others, in value and gradient."""
    logits, _ = drawn(5, 7, generator)
    labels = torch.tensor([1, 2, 4, 5, 1])
    target = 0.9 * F.one_hot(labels, 7).double() + 0.1 / 6
    target[:, never] = 0
    wanted = -(target * logits.log_softmax(dim=1)).sum()
    (slope,) = torch.autograd.grad(wanted, logits)
    loss = total(logits, labels, smoothing=0.1, never=never)
    torch.testing.assert_close(loss, wanted, rtol=1e-10, atol=1e-12)
    loss.backward()
    torch.testing.assert_close(logits.grad, slope, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_a_logit_that_rules_a_token_out_counts_nothing(dtype, generator):
    """Its gradient is exactly zero, and the others' are as if it did not exist, however low it is."""
    logits, labels = drawn(6, 7, generator, dtype)
    without = logits.detach().clone().requires_grad_()
    with_it = torch.cat((logits.detach(), logits.new_full((6, 1), -1e4)), dim=1).requires_grad_()
    wanted, found = total(without, labels, smoothing=0.1), total(with_it, labels, smoothing=0.1, never=7)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    wanted.backward()
    found.backward()
    assert (with_it.grad[:, 7] == 0).all()
    torch.testing.assert_close(with_it.grad[:, :7], without.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_gradient_is_the_slope(smoothing, generator):
    """Central differences in float64, entry by entry. (`gradcheck` would ask twice for a gradient that is given once.)"""
    logits, labels = drawn(4, 6, generator)
    (2.5 * total(logits, labels, smoothing=smoothing)).backward()
    step = 1e-5
    with torch.no_grad():
        for row in range(4):
            for entry in range(6):
                nudge = torch.zeros(4, 6, dtype=torch.float64)
                nudge[row, entry] = step
                up, down = (2.5 * total(logits + sign * nudge, labels, smoothing=smoothing) for sign in (1, -1))
                assert logits.grad[row, entry].item() == pytest.approx(((up - down) / (2 * step)).item(), abs=1e-8)


def test_a_gradient_asked_for_twice_is_refused_not_wrong(generator):
    """Its memory is reused in the first walk back; a second walk must not return it multiplied twice."""
    logits, labels = drawn(4, 6, generator)
    loss = 3 * total(logits, labels)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_gradients_of_two_losses_add_up(generator):
    """Accumulation: the gradient of one batch must not be spoilt by the next."""
    logits, labels = drawn(5, 6, generator)
    (2 * total(logits, labels)).backward()
    first = logits.grad.clone()
    (4 * total(logits, labels)).backward()
    torch.testing.assert_close(logits.grad, 3 * first)


def test_rows_only_add_up(generator):
    """The sum of a batch is the sum over its rows, so leaving padding out changes nothing for the others."""
    logits, labels = drawn(7, 5, generator)
    whole = total(logits, labels, smoothing=0.1)
    parts = [total(logits[i : i + 1], labels[i : i + 1], smoothing=0.1) for i in range(7)]
    torch.testing.assert_close(whole, torch.stack(parts).sum(), rtol=1e-12, atol=1e-12)


def test_rows_that_do_not_count_cost_nothing_whatever_stands_there(generator):
    """Padding may hold any label, even one out of range, and any logits: value, hits and gradients of the rest are as without."""
    logits, labels = drawn(7, 5, generator)
    valid = torch.tensor([True, False, True, True, False, False, True])
    kept = logits.detach()[valid].requires_grad_()
    wanted, hits = smoothed_cross_entropy(kept, labels[valid], smoothing=0.1)
    found, correct = smoothed_cross_entropy(logits, labels.where(valid, -100), valid=valid, smoothing=0.1)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    assert correct.item() == hits.item()
    (found / 3).backward()
    (wanted / 3).backward()
    torch.testing.assert_close(logits.grad[valid], kept.grad, rtol=1e-12, atol=1e-14)
    assert not logits.grad[~valid].any()


def test_hits_are_counted_over_blocks(generator):
    """Rows where the label's logit is the largest, over more rows than one block holds."""
    logits, labels = drawn(45, 50_000, generator, torch.float32)
    with torch.no_grad():
        logits[::2].scatter_(1, labels[::2, None], 50.0)
    valid = torch.arange(45) % 3 != 0
    _, correct = smoothed_cross_entropy(logits, labels, valid=valid)
    assert correct.dtype == torch.int64
    assert correct.item() == ((logits.argmax(dim=1) == labels) & valid).sum().item() > 10


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_tie_is_no_hit(dtype):
    """A model that says the same of everything tells nothing, however coarse its numbers."""
    logits = torch.tensor([[2.0, 2, 2, 2], [1, 3, 0, 3], [0, 1, 9, 1], [5, 1, 1, 1]], dtype=dtype)
    labels = torch.tensor([0, 3, 2, 0])
    _, correct = smoothed_cross_entropy(logits, labels)
    assert correct.item() == 2
    assert stands_out(logits, labels).tolist() == [False, False, True, True]


def test_no_row_costs_nothing():
    logits = torch.zeros(0, 5, requires_grad=True)
    loss = total(logits, torch.zeros(0, dtype=torch.long), smoothing=0.1)
    assert loss.item() == 0
    loss.backward()
    assert logits.grad.shape == (0, 5)


def test_extreme_logits_stay_finite():
    logits = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    loss = total(logits, torch.tensor([1]))
    loss.backward()
    assert loss.item() == pytest.approx(2e4)
    assert logits.grad.tolist() == [[1.0, -1.0, 0.0]]


def test_evaluation_needs_no_gradient(generator):
    logits, labels = drawn(4, 6, generator)
    with torch.no_grad():
        loss = total(logits, labels)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, total(logits, labels))


@pytest.fixture(params=["float32", "bfloat16"])
def narrow(request):
    return getattr(torch, request.param)


def without_kernels(monkeypatch):
    monkeypatch.setattr("regard.tasks.losses.kernels", lambda: Kernels(None, "there is no compiler"))


@pytest.mark.parametrize("never", [None, 0, 4])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_with_and_without_the_kernel_it_is_the_same(narrow, smoothing, never, generator, monkeypatch):
    logits, labels = drawn(40, 777, generator, narrow)
    again = logits.detach().clone().requires_grad_()
    valid = torch.rand(40, generator=generator) < 0.8
    labels[~valid] = -100
    found = smoothed_cross_entropy(logits, labels, valid=valid, smoothing=smoothing, never=never)
    (found[0] / 7).backward()
    without_kernels(monkeypatch)
    wanted = smoothed_cross_entropy(again, labels, valid=valid, smoothing=smoothing, never=never)
    (wanted[0] / 7).backward()
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-5, atol=1e-5)
    assert found[1] == wanted[1]
    rtol, atol = (1e-5, 1e-7) if narrow == torch.float32 else (1.6e-2, 1e-5)
    torch.testing.assert_close(logits.grad, again.grad, rtol=rtol, atol=atol)


@pytest.mark.parametrize("rows", [(1, 7), (6, 5), (25, 100_000)])
def test_without_the_kernel_value_and_gradient_are_torchs(rows, narrow, generator, monkeypatch):
    without_kernels(monkeypatch)
    test_value_and_gradient_are_torchs(*rows, 0.1, narrow, generator)


def test_threads_and_batches_change_no_bit(narrow, generator):
    logits, labels = drawn(9, 3_001, generator, narrow)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(torch.autograd.grad(total(logits, labels, smoothing=0.1), logits)[0])
    finally:
        torch.set_num_threads(before)
    alone = torch.autograd.grad(total(logits[4:5], labels[4:5], smoothing=0.1), logits)[0]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0][4], alone[4])


def test_logits_that_are_no_row_after_another_are_read_as_they_stand(narrow, generator):
    wide, labels = drawn(9, 64, generator, narrow)
    apart = wide.detach()[:, ::2].requires_grad_()
    together = apart.detach().contiguous().requires_grad_()
    labels = labels // 2
    one, other = (total(logits, labels, smoothing=0.1) for logits in (apart, together))
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(torch.autograd.grad(one, apart)[0], torch.autograd.grad(other, together)[0])


@pytest.mark.parametrize("label", [-1, 5])
def test_a_label_outside_the_vocabulary_is_refused(label, narrow, monkeypatch):
    given = torch.zeros(2, 5, dtype=narrow), torch.tensor([0, label])
    with pytest.raises(IndexError, match=f"a label is {label}, outside the vocabulary of 5"):
        smoothed_cross_entropy(*given)
    counted = smoothed_cross_entropy(*given, valid=torch.tensor([True, False]))[0]
    assert counted.item() == pytest.approx(torch.tensor(5.0).log().item())
    without_kernels(monkeypatch)
    with pytest.raises((IndexError, RuntimeError)):
        smoothed_cross_entropy(*given)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_none_makes_the_loss_none(number, narrow):
    logits = torch.zeros(3, 300, dtype=narrow)
    logits[1, 270] = number
    logits.requires_grad_()
    loss = total(logits, torch.tensor([1, 2, 3]), smoothing=0.1)
    loss.backward()
    assert not loss.isfinite()
    assert not logits.grad[1].isfinite().any()
    assert logits.grad[0].isfinite().all()
