"""Rank collapse: residuals against plain loops, the paper's facts about them, and stacks taken apart into paths."""

from __future__ import annotations

import itertools
import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import nn

import regard
from regard.errors import InputError
from regard.inspection.analysis import (
    Collapse,
    PathLengths,
    composite_norm,
    rank_table,
    relative_residual,
    row_residual,
    stack_addresses,
)
from regard.inspection.editing import without_feedforward, without_skips
from regard.layers import Tokens
from regard.models import (
    GPT2,
    AttentionStack,
    AttentionStackConfig,
    Bert,
    BertConfig,
    GPT2Config,
    Transformer,
    TransformerConfig,
)

seeds = st.integers(0, 10_000)


def drawn(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def stack(**changes) -> AttentionStack:
    config = {"vocabulary": 11, "width": 6, "heads": 2, "layers": 3, "feedforward_width": 8, "maximum_positions": 12}
    return AttentionStack(AttentionStackConfig(**config | changes)).eval()


def norm_by_hand(rows: list[list[float]]) -> float:
    columns = max(sum(abs(row[j]) for row in rows) for j in range(len(rows[0])))
    return math.sqrt(columns * max(sum(map(abs, row)) for row in rows))


@given(seeds, st.integers(1, 7), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_the_norm_is_the_root_of_largest_column_times_largest_row(seed, rows, columns):
    x = drawn(rows, columns, seed=seed)
    assert composite_norm(x).item() == pytest.approx(norm_by_hand(x.tolist()))
    assert composite_norm(-3 * x).item() == pytest.approx(3 * norm_by_hand(x.tolist()))


@given(seeds, st.integers(1, 7), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_a_row_that_all_share_does_not_count_and_a_factor_does_not_either(seed, rows, columns):
    x = drawn(rows, columns, seed=seed)
    torch.testing.assert_close(row_residual(x + drawn(columns, seed=seed + 1)), row_residual(x))
    torch.testing.assert_close(relative_residual(-7 * x), relative_residual(x))
    assert composite_norm(row_residual(drawn(columns, seed=seed).expand(rows, columns))) < 1e-12
    left = row_residual(x)
    assert torch.linalg.matrix_rank(x - left) <= 1
    assert composite_norm(left).item() <= norm_by_hand((x - x.mean(dim=0)).tolist()) + 1e-12


@given(seeds, st.integers(2, 5), st.integers(1, 3))
@settings(max_examples=12, deadline=None)
def test_what_is_left_is_between_the_least_and_twice_it(seed, rows, columns):
    """The least is searched for from many places; no search beats half of what is found."""
    x = drawn(rows, columns, seed=seed).numpy()
    found = composite_norm(row_residual(torch.from_numpy(x))).item()

    def left(row):
        return norm_by_hand((x - row).tolist())

    least = min(minimize(left, start, method="Nelder-Mead").fun for start in (x.mean(axis=0), *x))
    assert least - 1e-6 <= found <= 2 * least + 1e-6


def test_the_composite_norm_breaks_the_triangle_inequality():
    wide, tall = torch.zeros(9, 9), torch.zeros(9, 9)
    wide[0], tall[:, 0] = 1.0, 1.0
    assert composite_norm(wide + tall) > composite_norm(wide) + composite_norm(tall)


@pytest.mark.parametrize("wrong", [torch.ones(3), torch.ones(2, 0), torch.ones(2, 2, dtype=torch.int64)])
def test_what_is_no_matrix_is_refused(wrong):
    with pytest.raises(InputError, match="a matrix is wanted, floats"):
        relative_residual(wrong)


def test_zeros_are_nothing_but_alike():
    assert relative_residual(torch.zeros(3, 2)).item() == 0
    assert relative_residual(torch.stack([torch.eye(2), torch.zeros(2, 2)])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_text_in_a_padded_batch_is_what_it_is_alone(side, seeded, sentences):
    model = stack()
    tokens = sentences([6, 1, 4], 11, side=side)
    with torch.no_grad(), regard.look(model, hidden=stack_addresses(model)) as seen:
        model(tokens)
    found = Collapse.of_record(seen)
    assert found.addresses == ("embedding", "layers.0", "layers.1", "layers.2")
    for row in range(3):
        states = model.hidden_states(Tokens.pad([tokens.ids[row][tokens.valid[row]].tolist()]))
        wanted = [relative_residual(state[0]) for state in states]
        torch.testing.assert_close(found.residuals[:, row], torch.stack(wanted), rtol=1e-4, atol=1e-6)
    assert (found.residuals[:, 1] == 0).all()
    assert found.means == pytest.approx(found.residuals.mean(dim=1).tolist())
    torch.testing.assert_close(found.after("layers.1"), found.residuals[2])
    assert json.loads(json.dumps(found.to_json()))["layers"][0]["address"] == "embedding"
    with pytest.raises(InputError, match=r"no layer 'layers\.7' here; did you mean"):
        found.after("layers.7")


def test_a_text_without_tokens_has_no_number():
    states = {"layers.0": drawn(2, 3, 4)}
    found = Collapse.of(states, valid=torch.tensor([[True, True, True], [False, False, False]]))
    assert math.isnan(found.residuals[0, 1])
    assert found.means == (pytest.approx(found.residuals[0, 0].item()),)
    assert found.to_json()["layers"][0]["residuals"][1] is None


def test_both_stacks_of_an_encoder_decoder_have_their_own_padding(seeded, sentences):
    model = Transformer(
        TransformerConfig(
            source_vocabulary=11, target_vocabulary=11, width=8, heads=2, encoder_layers=1, decoder_layers=1
        )
    ).eval()
    source, target = sentences([5, 3], 11), sentences([2, 4], 11, seed=2)
    addresses = stack_addresses(model)
    assert addresses == ["encoder.embedding", "encoder.layers.0", "decoder.embedding", "decoder.layers.0"]
    with torch.no_grad(), regard.look(model, hidden=addresses) as seen:
        model(source, target)
    found = Collapse.of_record(seen)
    (rows,) = [seen.hidden("decoder.layers.0")[0, :2]]
    assert found.after("decoder.layers.0")[0].item() == pytest.approx(relative_residual(rows).item())
    with torch.no_grad(), regard.look(model, hidden=addresses) as seen:
        model(source, sentences([4, 5], 11))
    with pytest.raises(InputError, match="equally long, so it is not known which padding is meant; give valid"):
        Collapse.of_record(seen)
    assert Collapse.of_record(seen, ["encoder.layers.0"], valid=source.valid).residuals.shape == (1, 2)


def test_what_cannot_be_read_is_refused(seeded, sentences):
    model = stack()
    with regard.look(model) as seen:
        model(sentences([3], 11))
    with pytest.raises(InputError, match="no output of a layer was kept; look with hidden=stack_addresses"):
        Collapse.of_record(seen)
    for states, valid, says in (
        ({}, None, "there are no hidden states"),
        ({"a": torch.ones(2, 3)}, None, r"a gives \(2, 3\), no vectors"),
        ({"a": torch.ones(1, 2, 3)}, torch.ones(1, 2), r"valid is torch\.float32 \(1, 2\)"),
        ({"a": torch.ones(1, 2, 3), "b": torch.ones(2, 2, 3)}, None, "b: has 2 texts, and the layers before it 1"),
    ):
        with pytest.raises(InputError, match=says):
            Collapse.of(states, valid=valid)


@pytest.mark.parametrize("skips", [True, False])
def test_a_table_has_a_column_for_each_form(skips, seeded, sentences):
    model = stack(skips=skips, feedforward=False, norm="none")
    states = dict(zip(stack_addresses(model), model.hidden_states(sentences([5], 11)), strict=True))
    found = Collapse.of(states)
    table = rank_table({"as it is": found, "again": found})
    assert [column.header for column in table.columns] == ["layer", "as it is", "again"]
    assert table.row_count == 4
    with pytest.raises(InputError, match="different layers"):
        rank_table({"one": found, "other": Collapse.of({"a": torch.ones(1, 2, 3)})})


# Without skips


def blockless(model: AttentionStack, x: torch.Tensor, *, skips: bool, feedforward: bool) -> torch.Tensor:
    """The stack's layers, written out; (N, D) to (N, D)."""
    for layer in model.layers:
        attention = layer.attention
        width = x.shape[1] // attention.heads
        heads = []
        for head in range(attention.heads):
            part = slice(head * width, (head + 1) * width)
            q, k, v = (each(x)[:, part] for each in (attention.query, attention.key, attention.value))
            heads.append((q @ k.T / math.sqrt(width)).softmax(dim=1) @ v)
        out = attention.output(torch.cat(heads, dim=1))
        x = layer.attention_residual.after(x + out if skips else out)
        if feedforward:
            out = layer.feedforward.outer(layer.feedforward.activation(layer.feedforward.inner(x)))
            x = layer.feedforward_residual.after(x + out if skips else out)
    return x


@pytest.mark.parametrize("skips", [True, False])
@pytest.mark.parametrize("feedforward", [True, False])
@pytest.mark.parametrize("norm", ["post", "none"])
def test_a_stack_is_its_equations(skips, feedforward, norm, randomize, seeded):
    model = stack(skips=skips, feedforward=feedforward, norm=norm, activation="relu")
    randomize(model, scale=1.0).double()
    states = model.hidden_states(Tokens.pad([[3, 9, 4, 4, 7]]))
    wanted = blockless(model, states[0][0], skips=skips, feedforward=feedforward)
    torch.testing.assert_close(states[-1][0], wanted)


@pytest.mark.parametrize("feedforward", [True, False])
def test_what_is_taken_out_of_a_model_is_what_one_without_never_had(feedforward, randomize, seeded):
    whole = randomize(stack(feedforward=feedforward)).double()
    bare = without_skips(whole)
    never = stack(feedforward=feedforward, skips=False).double()
    never.load_state_dict(whole.state_dict())
    tokens = Tokens.pad([[3, 9, 4], [5, 6]])
    torch.testing.assert_close(bare(tokens).hidden, never(tokens).hidden, rtol=0, atol=0)
    assert not torch.allclose(bare(tokens).hidden, whole(tokens).hidden)
    attending = without_feedforward(whole)
    unfed = stack(feedforward=False).double()
    unfed.load_state_dict(attending.state_dict())
    torch.testing.assert_close(attending(tokens).hidden, unfed(tokens).hidden, rtol=0, atol=0)


def test_skips_are_taken_out_of_any_model_of_blocks(seeded, sentences):
    tokens = sentences([6, 4], 11)
    bert = Bert(BertConfig(vocabulary=11, width=8, heads=2, feedforward_width=16, layers=4)).eval()
    gpt2 = GPT2(
        GPT2Config(vocabulary=11, width=8, heads=2, feedforward_width=16, layers=4, maximum_positions=12)
    ).eval()
    # Under a causal mask the first token attends to itself alone, and the others come nearer to it by and by.
    for model, share in ((bert, 0.01), (gpt2, 0.9)):
        bare = without_skips(model)
        found = []
        for each in (model, bare):
            with torch.no_grad(), regard.look(each, hidden=stack_addresses(each)) as seen:
                each(tokens)
            found.append(Collapse.of_record(seen))
        assert found[0].addresses == found[1].addresses
        assert found[1].means[-1] < share * found[0].means[-1]
        assert not bare.training
    with pytest.raises(InputError, match="no residual connection in a Linear"):
        without_skips(nn.Linear(2, 2))
    with pytest.raises(InputError, match="no feed-forward net in a Linear"):
        without_feedforward(nn.Linear(2, 2))


# What the paper says


@given(seeds)
@settings(max_examples=8, deadline=None)
def test_attention_without_skips_collapses_and_with_them_it_does_not(seed):
    residuals = {}
    for skips in (True, False):
        model = stack(width=16, layers=6, skips=skips, feedforward=False, norm="none").double()
        draw = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.layers.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=draw, dtype=torch.float64) / 4)
        x = torch.randn(1, 8, 16, generator=draw, dtype=torch.float64)
        for layer in model.layers:
            x = layer(x, None)
        residuals[skips] = relative_residual(x[0]).item()
    assert residuals[False] < 1e-6
    assert residuals[True] > 1e-2


@given(seeds, st.floats(0.001, 0.2))
@settings(max_examples=30, deadline=None)
def test_one_layer_cubes_what_is_left(seed, size):
    """One head, where what is left is small: ||res(SA(X))|| <= 4 ||W_QK||_1 ||W_V|| / sqrt(d_qk) ||res(X)||^3."""
    draw = torch.Generator().manual_seed(seed)
    x = size * torch.randn(6, 4, generator=draw, dtype=torch.float64) + torch.randn(4, generator=draw)
    qk, v = (torch.randn(4, 4, generator=draw, dtype=torch.float64) / 4 for _ in range(2))
    out = (x @ qk @ x.T / 2).softmax(dim=1) @ x @ v
    bound = 4 * qk.abs().sum(dim=0).max() * composite_norm(v) / 2 * composite_norm(row_residual(x)) ** 3
    assert composite_norm(row_residual(out)) <= bound


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_half_as_much_before_is_an_eighth_after(seed):
    """Cubic, whatever row is shared, where what is left is small."""
    draw = torch.Generator().manual_seed(seed)
    apart, shared = torch.randn(6, 4, generator=draw).double(), torch.randn(4, generator=draw).double()
    qk, v = (torch.randn(4, 4, generator=draw).double() for _ in range(2))
    after = []
    for size in (1e-3, 5e-4):
        x = shared + size * (apart - apart.mean(dim=0))
        x = (x @ qk @ x.T / 2).softmax(dim=1) @ x @ v
        after.append(composite_norm(x - x.mean(dim=0)).item())
    assert after[1] / after[0] == pytest.approx(1 / 8, rel=0.1)


def test_b44_the_residual_falls_doubly_exponentially_and_skips_prevent_it(seeded):
    """Not the performance, and not of every Transformer: log(-log r) rises evenly until float64 has no more."""
    x = drawn(12, 32, seed=2)
    found = {}
    for skips in (True, False):
        model = stack(width=32, layers=5, skips=skips, feedforward=False, norm="none").double()
        state, found[skips] = x.unsqueeze(0), []
        for layer in model.layers:
            state = layer(state, None)
            found[skips].append(relative_residual(state[0]).item())
    rises = [math.log(-math.log(below)) for below in found[False] if below > 1e-14]
    assert len(rises) >= 3
    assert all(later - earlier > 0.5 for earlier, later in itertools.pairwise(rises))
    assert found[False][-1] < 1e-10
    assert found[True][-1] > 0.1


# Paths


def every_path(model: AttentionStack, x: torch.Tensor) -> dict[int, torch.Tensor]:
    """Each path multiplied out by itself, summed by length; the biases left out. (N, D) each."""
    states = [x]
    for layer in model.layers:
        states.append(layer(states[-1].unsqueeze(0), None)[0])
    choices = []
    for layer, state in zip(model.layers, states, strict=False):
        attention = layer.attention
        width = x.shape[1] // attention.heads
        options: list[tuple[torch.Tensor, torch.Tensor, int]] = []
        if model.config.skips:
            options.append((torch.eye(len(x)).double(), torch.eye(x.shape[1]).double(), 0))
        for head in range(attention.heads):
            part = slice(head * width, (head + 1) * width)
            q, k = attention.query(state)[:, part], attention.key(state)[:, part]
            weights = (q @ k.T / math.sqrt(width)).softmax(dim=1)
            options.append((weights, attention.value.weight[part].T @ attention.output.weight[:, part].T, 1))
        choices.append(options)
    total: dict[int, torch.Tensor] = {}
    for path in itertools.product(*choices):
        term = x
        for weights, values, _ in path:
            term = weights @ term @ values
        length = sum(step for _, _, step in path)
        total[length] = total.get(length, torch.zeros_like(x)) + term
    return total


@pytest.mark.parametrize("skips", [True, False])
def test_the_sum_of_all_paths_is_the_output(skips, randomize, seeded):
    model = randomize(stack(skips=skips, feedforward=False, norm="none")).double()  # biases drawn too
    x = drawn(5, 6)
    found = PathLengths.of(list(model.layers), x)
    wanted = x.unsqueeze(0)
    for layer in model.layers:
        wanted = layer(wanted, None)
    torch.testing.assert_close(found.output, wanted[0])
    by_length = every_path(model, x)
    assert found.counts == ((1, 6, 12, 8) if skips else (0, 0, 0, 8))
    for length, term in enumerate(found.terms):
        torch.testing.assert_close(term, by_length.get(length, torch.zeros_like(x)))
    assert [math.isnan(each) for each in found.residuals] == [count == 0 for count in found.counts]
    assert found.sizes[-1] == pytest.approx(composite_norm(by_length[3]).item())


def test_long_paths_are_near_rank_one_and_the_empty_path_is_the_input(seeded):
    model = stack(layers=5, width=16, feedforward=False, norm="none").double()
    x = drawn(8, 16)
    found = PathLengths.of(list(model.layers), x)
    torch.testing.assert_close(found.terms[0], x)
    assert found.residuals[0] == pytest.approx(relative_residual(x).item())
    assert found.residuals[5] < 0.1 * found.residuals[1]


def test_stacks_that_are_no_sum_of_paths_are_refused(seeded):
    x = drawn(4, 6)
    for wrong, says in (
        (stack().double(), "block 0 has a norm or a feed-forward net"),
        (stack(feedforward=False).double(), "block 0 has a norm"),
        (stack(norm="none").double(), "block 0 has a norm or a feed-forward net"),
        (stack(feedforward=False, norm="none").double().train(), "block 0 is in training mode"),
    ):
        with pytest.raises(InputError, match=says):
            PathLengths.of(list(wrong.layers), x)
    with pytest.raises(InputError, match="block 0 is a Linear"):
        PathLengths.of([nn.Linear(6, 6)], x)
    with pytest.raises(InputError, match=r"x is \(1, 4, 6\)"):
        PathLengths.of([], x.unsqueeze(0))


def test_the_old_name_of_the_table_works_with_a_warning():
    with pytest.warns(DeprecationWarning, match="depth_table is called rank_table"):
        from regard.inspection.analysis import depth_table
    assert depth_table is rank_table
