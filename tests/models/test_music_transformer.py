from __future__ import annotations

import math

import pytest
import torch

from regard.errors import InputError
from regard.layers import Tokens
from regard.models import MusicTransformer, MusicTransformerConfig

SIZES = {"vocabulary": 9, "width": 8, "heads": 2, "feedforward_width": 12, "layers": 2}
EXACT = {"rtol": 1e-9, "atol": 1e-11}


def written_out(model: MusicTransformer, ids: list[int]) -> torch.Tensor:
    """The equations of the paper, one query and one key at a time."""
    config, width = model.config, model.config.width // model.config.heads
    x = [math.sqrt(config.width) * model.embedding.tokens.weight[index] for index in ids]
    norm = torch.nn.functional.layer_norm

    def normed(vector, module):
        return norm(vector, (config.width,), module.weight, module.bias, config.norm_epsilon)

    for block in model.layers:
        attention, table = block.attention, block.attention.attention.score.vectors
        y = [normed(vector, block.attention_residual.before) for vector in x]
        q, k, v = ([part(vector) for vector in y] for part in (attention.query, attention.key, attention.value))
        for i in range(len(ids)):
            heads = []
            for h in range(config.heads):
                own = slice(h * width, (h + 1) * width)
                scores = []
                for j in range(i + 1):
                    back = i - j
                    if back <= config.maximum_distance:
                        e = table.weight[h, config.maximum_distance - back]
                    else:
                        e = table.weight[h, 0] if config.beyond == "last" else torch.zeros(width)
                    scores.append(q[i][own] @ (k[j][own] + e) / math.sqrt(width))
                weights = torch.stack(scores).softmax(dim=0)
                heads.append(sum(weights[j] * v[j][own] for j in range(i + 1)))
            x[i] = x[i] + attention.output(torch.cat(heads))
        x = [vector + block.feedforward(normed(vector, block.feedforward_residual.before)) for vector in x]
    return torch.stack([normed(vector, model.norm) @ model.embedding.tokens.weight.T for vector in x])


@pytest.mark.parametrize("beyond", ["last", "nothing"])
@pytest.mark.parametrize("maximum_distance", [0, 2, 20])
def test_the_equations(beyond, maximum_distance, randomize):
    config = MusicTransformerConfig(**SIZES, maximum_distance=maximum_distance, beyond=beyond)
    model = randomize(MusicTransformer(config)).double().eval()
    ids = [0, 4, 5, 4, 8, 1, 2]
    torch.set_default_dtype(torch.float64)
    try:
        torch.testing.assert_close(model(Tokens.pad([ids]))[0], written_out(model, ids), **EXACT)
    finally:
        torch.set_default_dtype(torch.float32)


def test_without_absolute_positions_there_is_no_longest_piece_and_with_them_there_is(randomize):
    free = randomize(MusicTransformer(MusicTransformerConfig(**SIZES, maximum_distance=3, maximum_positions=4))).eval()
    assert free.maximum_length is None
    assert free(Tokens.pad([[1] * 50])).isfinite().all()
    for positions in ("learned", "sinusoidal"):
        bound = MusicTransformer(MusicTransformerConfig(**SIZES, positions=positions, maximum_positions=4))
        assert bound.maximum_length == 4
        with pytest.raises(InputError, match="positions for 4"):
            bound(Tokens.pad([[1] * 5]))


def test_a_motif_is_the_same_wherever_it_stands(randomize):
    """What it sees within reach decides: far from the beginning, moving all along by a place changes nothing."""
    config = MusicTransformerConfig(**SIZES | {"layers": 1}, maximum_distance=3)
    model = randomize(MusicTransformer(config)).double().eval()
    once = model(Tokens.pad([[2, 3, 4] * 8]))[0]
    torch.testing.assert_close(once[:3], model(Tokens.pad([[2, 3, 4] * 3]))[0, :3], **EXACT)
    absolute = (
        randomize(MusicTransformer(MusicTransformerConfig(**SIZES, maximum_distance=None, positions="learned")))
        .double()
        .eval()
    )
    ids = [[5, 2, 3, 4], [2, 3, 4, 5]]
    assert not torch.allclose(absolute(Tokens.pad(ids))[0, 3], absolute(Tokens.pad(ids))[1, 2])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"heads": 3}, "heads"),
        ({"maximum_distance": -1}, "maximum_distance"),
        ({"width": 9, "heads": 3, "positions": "sinusoidal"}, "width"),
        ({"beyond": "zero"}, "beyond"),
        ({"dropout": 1.0}, "dropout"),
        ({"end_id": 9}, "end_id"),
    ],
)
def test_sizes_that_cannot_be_are_refused_by_name(change, named):
    with pytest.raises(InputError, match=named):
        MusicTransformerConfig(**SIZES | change)
