"""The Reformer beyond one chunk, where its order is hashed: what stays exact, every length, and what training keeps in memory."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from regard.attention import AxialPositions
from regard.errors import InputError
from regard.inspection import look
from regard.layers import Tokens
from regard.models import Reformer, ReformerConfig

CONFIG = ReformerConfig(
    vocabulary=11,
    width=12,
    heads=3,
    head_width=4,
    feedforward_width=20,
    layers=("local", "lsh", "lsh"),
    maximum_positions=72,
    axial_shape=(8, 9),
    axial_widths=(4, 8),
    chunk=4,
    local_chunk=4,
    rounds=2,
    buckets=(4,),
    sets="bucket",
    dropout=0.0,
    local_attention_dropout=0.0,
    feedforward_chunk=7,
)
EXACT = {"rtol": 1e-9, "atol": 1e-10}


@pytest.fixture
def model(seeded, randomize):
    def make(**changes):
        return randomize(Reformer(dataclasses.replace(CONFIG, **changes)), scale=0.8).double()

    return make


def texts(rows: int, length: int) -> Tokens:
    ids = torch.randint(1, 11, (rows, length), generator=torch.Generator().manual_seed(length))
    return Tokens(ids, torch.ones_like(ids, dtype=torch.bool), "nowhere")


@pytest.mark.parametrize("sets", ["bucket", "chunk"])
def test_training_by_reversing_is_training_by_keeping(sets, model):
    network, tokens = model(sets=sets).train(), texts(2, 37)
    upstream = torch.randn(2, 37, 11, dtype=torch.float64)
    found = []
    for reversible in (True, False):
        torch.manual_seed(1)
        logits = network(tokens) if reversible else network.logits(network.hidden(tokens, network.start(2))[0])
        found.append((logits, *torch.autograd.grad(logits, list(network.parameters()), upstream)))
    for mine, kept in zip(*found, strict=True):
        torch.testing.assert_close(mine, kept, **EXACT)


@pytest.mark.parametrize("length", [*range(1, 30), 71, 72])
def test_any_length_trains(length, model):
    network = model().train()
    network(texts(2, length)).square().mean().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in network.parameters())
    assert network.output.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_and_company_change_nothing_where_keys_are_those_of_a_bucket(side, model):
    network = model().eval()
    rows = [texts(1, length).ids[0].tolist() for length in (29, 17, 5)]
    batch = Tokens.pad(rows, side=side)
    together = network(batch)
    for row, ids in enumerate(rows):
        alone = network(Tokens.pad([ids]))
        torch.testing.assert_close(together[row][batch.valid[row]], alone[0], **EXACT)


def test_evaluation_is_the_same_every_time_and_training_hashes_anew(model):
    network, tokens = model(), texts(2, 40)
    network.eval()
    assert torch.equal(network(tokens), network(tokens))
    network.train()
    assert not torch.equal(network(tokens), network(tokens))
    other = model(hash_seed=5).eval()
    other.load_state_dict(network.state_dict())
    assert not torch.equal(other(tokens), network.eval()(tokens))


def test_more_rounds_after_training_come_nearer_to_full_attention(model):
    network, tokens = model(layers=("lsh",)).eval(), texts(4, 64)
    far = []
    full = Reformer(dataclasses.replace(network.config, chunk=72)).double().eval()
    full.load_state_dict(network.state_dict())
    for rounds in (1, 4, 16):
        hashed = Reformer(dataclasses.replace(network.config, rounds=rounds)).double().eval()
        hashed.load_state_dict(network.state_dict())
        far.append((hashed(tokens) - full(tokens)).square().mean().item())
    assert far[0] > far[1] > far[2]


def test_one_layer_steps_as_it_reads_the_text_so_far(model):
    """Sets are those of the text so far: a step tells what reading that much at once tells of its last token."""
    network, tokens = model(layers=("lsh",)).eval(), texts(1, 23)
    state = network.start(1)
    for place, token in enumerate(tokens.ids.unbind(dim=1), start=1):
        logits, state = network.step(token, state)
        whole = network(Tokens(tokens.ids[:, :place], tokens.valid[:, :place], "nowhere"))
        torch.testing.assert_close(logits, whole[:, -1], **EXACT)


def test_it_writes_on_past_a_chunk(model):
    network = model().eval()
    state = network.prefill(texts(2, 9), network.start(2))
    for _ in range(20):
        logits, state = network.step(torch.tensor([3, 4]), state)
        assert logits.isfinite().all()
    assert state.length == 29


def test_looking_sees_every_layer_and_the_hashes(model):
    network, tokens = model().eval(), texts(1, 21)
    plain = network(tokens)
    with look(network) as seen:
        assert torch.equal(network(tokens), plain)
    weights = seen.weights("layers.1.attention")
    assert weights.shape == (1, 3, 21, 21)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(1, 3, 21, dtype=torch.float64))
    assert (weights > 0).float().mean() < 0.4


def test_axial_positions_are_a_row_beside_a_column():
    positions = AxialPositions((3, 4), (2, 5))
    table = positions(torch.arange(12).unsqueeze(0))[0]
    assert table.shape == (12, 7)
    assert torch.equal(table[7, :2], positions.row[1])
    assert torch.equal(table[7, 2:], positions.column[3])
    assert sum(parameter.numel() for parameter in positions.parameters()) == 3 * 2 + 4 * 5


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"axial_shape": (8, 8)}, "product is maximum_positions"),
        ({"axial_widths": (4, 4)}, "sum is width"),
        ({"buckets": (3,)}, "even numbers"),
        ({"layers": ()}, "at least one of lsh and local"),
        ({"layers": ("lhs",)}, "layers"),
        ({"rounds": 0}, "rounds"),
        ({"chunks_before": -1}, "chunks_before"),
        ({"dropout": 1.0}, "dropout"),
        ({"end_id": 11}, "end_id"),
    ],
)
def test_sizes_that_cannot_be_are_refused_by_name(changes, told):
    with pytest.raises(InputError, match=told):
        dataclasses.replace(CONFIG, **changes)


def test_a_text_longer_than_the_positions_is_refused(model):
    with pytest.raises(InputError, match="73 tokens"):
        model()(texts(1, 73))
