"""GloVe against its own program written plainly: a loop in float64 over one entry after another; in batches without a kernel."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.kernels import Kernels
from regard.word_embeddings.training import VectorSettings, train_vectors
from regard.word_embeddings.training import glove as module
from regard.word_embeddings.training.counting import ENTRY
from regard.word_embeddings.training.glove import train_glove, weights


def plainly(tables, squares, entries, given):
    """glove.c for some entries: w, w~ (N, W) and b, b~ (N,) are changed in place, and their squares."""
    w, v, b, c = tables
    sw, sv, sb, sc = squares
    cost = 0.0
    for i, j, x in entries.tolist():
        wrong = w[i] @ v[j] + b[i] + c[j] - math.log(x)
        f = 1.0 if x > given.largest_count else (x / given.largest_count) ** given.power
        cost += 0.5 * f * wrong * wrong
        gw = np.clip(f * wrong * v[j], -given.clip, given.clip) * given.learning_rate
        gv = np.clip(f * wrong * w[i], -given.clip, given.clip) * given.learning_rate
        gb = np.clip(f * wrong, -given.clip, given.clip) * given.learning_rate
        w[i] -= gw / np.sqrt(sw[i])
        v[j] -= gv / np.sqrt(sv[j])
        sw[i] += gw * gw
        sv[j] += gv * gv
        b[i] -= gb / math.sqrt(sb[i])
        c[j] -= gb / math.sqrt(sc[j])
        sb[i] += gb * gb
        sc[j] += gb * gb
    return cost / len(entries)


def entries_of(words, count, seed):
    draw = np.random.default_rng(seed)
    places = draw.choice(words * words, size=count, replace=False)
    found = np.empty(count, dtype=ENTRY)
    found["row"], found["column"] = np.divmod(places, words)
    found["count"] = np.exp(draw.normal(0, 2, size=count))
    return found


def pieces(tables):
    return [tables.words, tables.contexts, tables.word_biases, tables.context_biases]


def started(words, given, monkeypatch):
    """The tables as they are drawn: those of a training in which nothing is updated."""
    with monkeypatch.context() as patch:
        patch.setattr(module, "_updater", lambda _: lambda *_: 0.0)
        return [part.astype(np.float64) for part in pieces(train_glove(entries_of(words, 5, 0), words, given))]


@pytest.fixture
def without_kernel(monkeypatch):
    monkeypatch.setattr(module, "kernels", lambda: Kernels(None, "there is no C++ compiler (g++ or clang++)"))


@pytest.mark.parametrize("width", [1, 14, 15, 40])
@pytest.mark.parametrize("clip", [100.0, 0.2])
def test_the_kernel_is_the_program(monkeypatch, clip, width):
    """Twenty entries of a batch one after another, in float32."""
    given = VectorSettings(method="glove", width=width, epochs=3, batch=20, largest_count=2.0, clip=clip)
    monkeypatch.setattr(module, "FEWEST_BATCHES", 1)
    entries = entries_of(12, 60, 1)
    tables = started(12, given, monkeypatch)
    squares = [np.ones_like(part) for part in tables]
    order = np.random.Generator(np.random.Philox(key=[given.seed, 0x610E]))
    for _ in range(2):  # what the tables are drawn from, before the order
        order.random((12, width + 1), dtype=np.float32)
    costs = []
    for _ in range(3):
        batches = [entries[start : start + 20] for start in order.permutation(np.arange(0, 60, 20)).tolist()]
        costs.append(plainly(tables, squares, np.concatenate(batches), given))
    found = train_glove(entries, 12, given)
    for mine, theirs in zip(pieces(found), tables, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5, rtol=0)
    np.testing.assert_allclose(found.costs, costs, rtol=1e-5)


@pytest.mark.usefixtures("without_kernel")
@pytest.mark.filterwarnings("ignore:there is no C")
@pytest.mark.parametrize("clip", [100.0, 0.2])
def test_one_entry_at_a_time_is_the_program(monkeypatch, clip):
    given = VectorSettings(method="glove", width=5, epochs=3, batch=1, largest_count=2.0, clip=clip, learning_rate=0.1)
    entries = entries_of(12, 60, 1)
    tables = started(12, given, monkeypatch)
    squares = [np.ones_like(part) for part in tables]
    order = np.random.Generator(np.random.Philox(key=[given.seed, 0x610E]))
    for _ in range(2):  # what the tables are drawn from, before the order
        order.random((12, 6), dtype=np.float32)
    costs = [plainly(tables, squares, entries[order.permutation(np.arange(60))], given) for _ in range(3)]
    found = train_glove(entries, 12, given, dtype=torch.float64)
    for mine, theirs in zip(pieces(found), tables, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6, rtol=0)
    np.testing.assert_allclose(found.costs, costs, rtol=1e-6)
    single = train_glove(entries, 12, given)  # in float32
    for mine, theirs in zip(pieces(single), tables, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5, rtol=0)


@pytest.mark.usefixtures("without_kernel")
def test_a_batch_of_entries_that_share_no_row_is_the_program(monkeypatch):
    """Whatever the order: no entry sees what another did."""
    given = VectorSettings(method="glove", width=4, epochs=1, largest_count=2.0)
    entries = entries_of(10, 10, 2)
    entries["row"], entries["column"] = np.arange(10), np.roll(np.arange(10), 3)
    monkeypatch.setattr(module, "FEWEST_BATCHES", 1)
    tables = started(10, given, monkeypatch)
    cost = plainly(tables, [np.ones_like(part) for part in tables], entries, given)
    with pytest.warns(UserWarning, match=r"no C\+\+ compiler.*several times as long"):
        found = train_glove(entries, 10, given)
    for mine, theirs in zip(pieces(found), tables, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6, rtol=0)
    assert found.costs[0] == pytest.approx(cost, rel=1e-5)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(1, 40), st.integers(0, 100))
def test_sums_over_a_batch_are_those_of_a_loop(words, size, seed):
    """The gradients of a row are those of its entries at one place; it moves by their sum over the mean accumulator's root."""
    draw = np.random.default_rng(seed)
    batch = np.empty(size, dtype=ENTRY)
    batch["row"], batch["column"] = draw.integers(words, size=(2, size))
    batch["count"] = draw.uniform(0.2, 9, size)
    for clip in (100.0, 0.3):
        given = VectorSettings(method="glove", width=3, largest_count=4.0, clip=clip)
        left, right = (module._table(words, 3, draw, bias, torch.float64) for bias in (0, 1))
        w, v = left.rows.numpy().copy(), right.rows.numpy().copy()
        module._update(left, right, batch, given)
        for mine, theirs, key, other, table in ((w, v, "row", "column", left), (v, w, "column", "row", right)):
            for row in range(words):
                steps = np.zeros((0, len(mine[row])))
                for entry in batch[batch[key] == row]:
                    wrong = mine[row] @ theirs[entry[other]] - math.log(entry["count"])
                    f = min(1.0, entry["count"] / 4.0) ** 0.75
                    step = 0.05 * np.clip(f * wrong * theirs[entry[other]], -clip, clip)
                    steps = np.concatenate([steps, step[None]])
                met = 1 + (steps**2).sum(axis=0) * (len(steps) - 1) / (2 * max(1, len(steps)))
                wanted = mine[row] - steps.sum(axis=0) / np.sqrt(met)
                wanted[4 if table is left else 3] = 1.0
                wanted[5:] = 0.0
                np.testing.assert_allclose(table.rows[row].numpy(), wanted, atol=1e-6)


@pytest.mark.filterwarnings("ignore:there is no C")
def test_batches_without_a_kernel_end_where_single_entries_do(monkeypatch):
    monkeypatch.setattr(module, "FEWEST_BATCHES", 10)
    entries = entries_of(20, 200, 3)
    given = VectorSettings(method="glove", width=8, epochs=10, largest_count=5.0)
    single = train_glove(entries, 20, given)
    monkeypatch.setattr(module, "kernels", lambda: Kernels(None, "there is no C++ compiler"))
    many = train_glove(entries, 20, given)
    assert many.costs[-1] == pytest.approx(single.costs[-1], rel=0.05)
    assert many.costs[-1] < 0.5 * many.costs[0]


def test_the_products_become_the_logarithms_of_the_counts(monkeypatch):
    monkeypatch.setattr(module, "FEWEST_BATCHES", 4)
    draw = np.random.default_rng(4)
    logs = draw.normal(size=(8, 2)) @ draw.normal(size=(2, 8))
    entries = np.empty(64, dtype=ENTRY)
    entries["row"], entries["column"] = np.divmod(np.arange(64), 8)
    entries["count"] = np.exp(logs).ravel()
    given = VectorSettings(method="glove", width=6, epochs=250, weighting="none", learning_rate=0.3)
    found = train_glove(entries, 8, given)
    learnt = found.words @ found.contexts.T + found.word_biases[:, None] + found.context_biases
    assert np.abs(learnt - logs).max() < 0.05


def test_how_much_counts_matter():
    counts = torch.tensor([0.5, 9.0, 10.0, 1000.0])
    power = weights(counts, VectorSettings(method="glove", largest_count=10.0))
    assert power.tolist() == pytest.approx([0.05**0.75, 0.9**0.75, 1, 1])
    assert weights(counts, VectorSettings(method="glove", weighting="none")).tolist() == [1, 1, 1, 1]
    step = VectorSettings(method="glove", largest_count=10.0, weighting="step")
    assert weights(counts, step).tolist() == [0, 0, 1, 1]


TEXT = [["the", animal, "sat", "on", "the", place] for animal in ("cat", "dog", "cow") for place in ("mat", "log")] * 20


def test_the_same_seed_gives_the_same_vectors():
    def trained(**changes):
        return train_vectors(TEXT, VectorSettings(method="glove", width=6, epochs=3, minimum_count=1, **changes))

    first, again, other, alone = trained(), trained(), trained(seed=2), trained(vectors="word")
    np.testing.assert_array_equal(first.matrix, again.matrix)
    assert not np.array_equal(first.matrix, other.matrix)
    assert not np.array_equal(first.matrix, alone.matrix)
    assert first.words[0] == "the"
    assert first.counts is not None
    assert first.counts[0] == 240
    assert first.metadata["counts_per_second"] > 0


def test_what_cannot_be_trained_is_said():
    with pytest.raises(InputError, match="no two words are near each other"):
        train_vectors([["a"], ["b"]], VectorSettings(method="glove", minimum_count=1))
    with pytest.raises(InputError, match=r"overflow in epoch \d+; lower learning_rate, which is 1e\+30"):
        train_vectors(TEXT, VectorSettings(method="glove", learning_rate=1e30))
