"""Lambda layers: the double sum written out, the scope as a convolution, and how much is ever laid out."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.attention import AttentionInputs, LambdaAttention, RelativeEmbeddings

B, H, K, V, ROWS, COLUMNS = 2, 3, 4, 5, 3, 4
N = ROWS * COLUMNS


def drawn(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def case(generator: torch.Generator, **settings):
    attention = LambdaAttention(K, rows=ROWS, columns=COLUMNS, **settings).double().eval()
    for parameter in attention.parameters():
        parameter.data.copy_(drawn(generator, *parameter.shape))
    inputs = AttentionInputs(query=drawn(generator, B, H, N, K), key=drawn(generator, B, 1, N, K))
    return attention, inputs, drawn(generator, B, 1, N, V)


@pytest.mark.parametrize("lambdas", ["content", "position", "both"])
@pytest.mark.parametrize("scope", [None, 3])
def test_the_layer_is_the_papers_double_sum(lambdas, scope, generator):
    attention, inputs, value = case(generator, lambdas=lambdas, scope=scope)
    expected = torch.zeros(B, H, N, V, dtype=torch.float64)
    for b in range(B):
        shares = inputs.key[b, 0].softmax(dim=0)  # over the places of the context, not over features
        for n in range(N):
            matrix = torch.zeros(K, V, dtype=torch.float64)
            for m in range(N):
                down, right = m // COLUMNS - n // COLUMNS, m % COLUMNS - n % COLUMNS
                if lambdas != "position":
                    matrix += torch.outer(shares[m], value[b, 0, m])
                if lambdas != "content" and (scope is None or max(abs(down), abs(right)) <= scope // 2):
                    reach = (ROWS - 1, COLUMNS - 1) if scope is None else (scope // 2, scope // 2)
                    embedding = attention.positions.weight[down + reach[0], right + reach[1]]
                    matrix += torch.outer(embedding, value[b, 0, m])
            for h in range(H):  # every head of queries is put through the same map
                expected[b, h, n] = matrix.T @ inputs.query[b, h, n]
    torch.testing.assert_close(attention(inputs, value), expected)
    torch.testing.assert_close(attention.weights(inputs) @ value, expected)


def test_position_lambdas_move_with_the_image(generator):
    """Relative embeddings: what is the same image a column further on is the same output a column further on."""
    attention, inputs, value = case(generator, lambdas="position", scope=3)
    grid = lambda x: x.unflatten(2, (ROWS, COLUMNS))  # noqa: E731
    moved = lambda x: grid(x).roll(1, dims=3).flatten(2, 3)  # noqa: E731
    inner = value.clone().unflatten(2, (ROWS, COLUMNS))
    inner[:, :, :, -2:] = 0  # nothing comes in at the edge
    inner[:, :, :, :1] = 0
    value = inner.flatten(2, 3)
    shifted = AttentionInputs(query=moved(inputs.query), key=moved(inputs.key))
    before, after = grid(attention(inputs, value)), grid(attention(shifted, moved(value)))
    torch.testing.assert_close(after[:, :, :, 2:], before[:, :, :, 1:-1])


class Largest(TorchDispatchMode):
    """The numbers in the largest tensor that is made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(made) if isinstance(leaf, torch.Tensor)]
        self.numbers = max([self.numbers, *sizes])
        return made


def largest(lambdas: str, batch: int, heads: int, places: int) -> int:
    attention = LambdaAttention(K, rows=1, columns=places, lambdas=lambdas).eval()  # type: ignore[arg-type]
    inputs = AttentionInputs(query=torch.zeros(batch, heads, places, K), key=torch.zeros(batch, 1, places, K))
    with Largest() as made:
        attention(inputs, torch.zeros(batch, 1, places, V))
    return made.numbers


def test_no_example_and_no_head_has_a_number_for_every_pair_of_places():
    places = 64
    assert largest("content", 8, 6, places) == 8 * 6 * places * max(K, V)  # queries, and what comes out
    # n m k embeddings for all examples and heads together, then n k v lambdas for each example (section 3.2).
    pairs, maps = places * places * K, 8 * places * K * V
    assert largest("both", 8, 6, places) <= max(pairs, maps, 8 * 6 * places * V)
    assert largest("both", 8, 6, places) < 8 * 6 * places * places
    assert largest("position", 1, 1, places) == largest("position", 4, 1, places) == pairs


def test_what_does_not_fit_is_refused(generator):
    with pytest.raises(ValueError, match="scope is 4; it must be odd"):
        RelativeEmbeddings(K, rows=2, columns=2, scope=4)
    attention = LambdaAttention(K, rows=1, columns=3)
    inputs = AttentionInputs(query=torch.zeros(1, 1, 4, K), key=torch.zeros(1, 1, 4, K))
    with pytest.raises(ValueError, match="more than the 3 positions of the grid"):
        attention(inputs, torch.zeros(1, 1, 4, V))


def test_places_of_queries_alone_count(generator):
    attention = LambdaAttention(4, rows=1, columns=6, lambdas="position").double()
    torch.nn.init.normal_(attention.positions.weight, generator=generator)
    query, key = (torch.randn(2, 1, size, 4, generator=generator, dtype=torch.float64) for size in (6, 6))
    whole = attention.weights(AttentionInputs(query=query, key=key))
    places = torch.tensor([[4], [1]])
    picked = torch.stack([query[row, :, [place]] for row, place in enumerate((4, 1))])
    found = attention.weights(AttentionInputs(query=picked, key=key, query_positions=places))
    expected = torch.stack([whole[row, :, [place]] for row, place in enumerate((4, 1))])
    torch.testing.assert_close(found, expected)
