"""The loss without the logits: the same numbers and gradients as with them, and never all of them in memory."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from regard.layers import Tokens
from regard.models import GPT2, GPT2Config, LSTMLanguageModel, LSTMLanguageModelConfig
from regard.tasks import losses as projected_loss
from regard.tasks.losses import projected_cross_entropy, smoothed_cross_entropy


def drawn(generator, rows=23, width=8, vocabulary=11, dtype=torch.float64):
    hidden = torch.randn(rows, width, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    weight = torch.randn(vocabulary, width, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    bias = torch.randn(vocabulary, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    labels = torch.randint(vocabulary, (rows,), generator=generator)
    return hidden, weight, bias, labels


@pytest.mark.parametrize("at_a_time", [1, 5 * 11, 10**9])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("with_bias", [False, True])
def test_value_count_and_gradients_are_those_of_the_logits(generator, monkeypatch, at_a_time, smoothing, with_bias):
    monkeypatch.setattr(projected_loss, "AT_A_TIME", at_a_time)
    hidden, weight, bias, labels = drawn(generator)
    valid = torch.rand(23, generator=generator) < 0.7
    given = bias if with_bias else None
    wanted, right = smoothed_cross_entropy(
        F.linear(hidden, weight, given), labels, valid=valid, smoothing=smoothing, never=3
    )
    parts = (hidden, weight, bias) if with_bias else (hidden, weight)
    gradients = torch.autograd.grad(wanted / 7, parts)
    total, correct = projected_cross_entropy(labels, valid=valid, smoothing=smoothing, never=3)(hidden, weight, given)
    torch.testing.assert_close(total, wanted)
    assert correct == right
    torch.testing.assert_close(torch.autograd.grad(total / 7, parts), gradients)


def test_what_needs_no_gradient_gets_none(generator):
    hidden, weight, bias, labels = drawn(generator)
    total, _ = projected_cross_entropy(labels)(hidden, weight.detach(), bias.detach())
    total.backward()
    assert hidden.grad is not None
    assert weight.grad is None
    with torch.no_grad():
        again, _ = projected_cross_entropy(labels)(hidden, weight, bias)
    assert not again.requires_grad
    torch.testing.assert_close(again, total.detach())


def test_under_autocast_it_is_as_exact_as_the_logits(generator):
    hidden, weight, _, labels = drawn(generator, rows=64, width=32, vocabulary=40, dtype=torch.float32)
    exact = torch.autograd.grad(F.cross_entropy(hidden @ weight.t(), labels, reduction="sum"), (hidden, weight))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total, _ = projected_cross_entropy(labels)(hidden, weight, None)
        found = torch.autograd.grad(total, (hidden, weight))
        plain = torch.autograd.grad(smoothed_cross_entropy(F.linear(hidden, weight), labels)[0], (hidden, weight))
    for ours, theirs, right in zip(found, plain, exact, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - right).norm() <= 1.1 * (theirs - right).norm()


def test_the_logits_of_all_rows_never_stand_together(generator, monkeypatch):
    rows, vocabulary = 64, 1000
    monkeypatch.setattr(projected_loss, "AT_A_TIME", 8 * vocabulary)
    hidden, weight, bias, labels = drawn(generator, rows=rows, vocabulary=vocabulary, dtype=torch.float32)
    largest = 0

    class Watching(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            found = func(*args, **(kwargs or {}))
            if isinstance(found, torch.Tensor):
                largest = max(largest, found.numel())
            return found

    with Watching():
        projected_cross_entropy(labels)(hidden, weight, bias)[0].backward()
    assert largest == 8 * vocabulary


@pytest.mark.parametrize("name", ["gpt2", "lstm"])
def test_a_model_gives_the_loss_of_its_logits_tied_tables_included(generator, name):
    if name == "gpt2":
        model = GPT2(GPT2Config(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=2, maximum_positions=6))
    else:
        model = LSTMLanguageModel(LSTMLanguageModelConfig(vocabulary=9, embedding_width=4, hidden_width=5))
    model = model.double().eval()
    other = copy.deepcopy(model)
    tokens = Tokens.pad([[0, 4, 5], [0, 7]])
    labels = Tokens.pad([[4, 5, 0], [7, 0]]).ids
    valid = tokens.valid
    total, _ = model(tokens, reduce=projected_cross_entropy(labels, valid=valid))
    total.backward()
    wanted = F.cross_entropy(other(tokens)[valid], labels[valid], reduction="sum")
    wanted.backward()
    torch.testing.assert_close(total, wanted)
    for (place, ours), theirs in zip(model.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, msg=place)


@pytest.mark.slow
def test_a_compiled_model_gives_the_same():
    model = GPT2(GPT2Config(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=2, maximum_positions=6)).eval()
    tokens, labels = Tokens.pad([[0, 4, 5], [0, 7]]), Tokens.pad([[4, 5, 0], [7, 0]]).ids
    loss = projected_cross_entropy(labels, valid=tokens.valid)
    wanted, _ = model(tokens, reduce=loss)
    model.compile(dynamic=True)
    total, _ = model(tokens, reduce=loss)
    total.backward()
    torch.testing.assert_close(total, wanted)
