from __future__ import annotations

import pytest
import torch

from regard.attention import Additive, Hard, Local, Location, RelativeBias, RelativeDot, ScoredAttention
from regard.layers import GatedRecurrentCell
from regard.models import Bahdanau, BahdanauConfig


def test_the_defaults_are_the_papers_sizes():
    config = BahdanauConfig(source_vocabulary=30_000, target_vocabulary=30_000)
    assert (config.embedding_width, config.hidden_width, config.attention_width, config.maxout_width) == (
        620,
        1000,
        1000,
        500,
    )
    assert config.score == "additive"


@pytest.mark.parametrize("start", ["paper", "standard"])
def test_recurrent_matrices_start_orthogonal(start, tiny_bahdanau, seeded):
    model = Bahdanau(tiny_bahdanau(initialization=start))
    cells = [module for module in model.modules() if isinstance(module, GatedRecurrentCell)]
    assert len(cells) == 3
    for cell in cells:
        for matrix in (*cell.gates.weight.split(5), cell.candidate.weight):
            torch.testing.assert_close(matrix @ matrix.T, torch.eye(5))


def test_the_papers_first_weights(tiny_bahdanau, seeded):
    model = Bahdanau(tiny_bahdanau(initialization="paper", hidden_width=60, attention_width=50, embedding_width=40))
    aligner = model.decoder.attention
    for matrix, deviation in (
        (aligner.query.weight, 0.001),
        (aligner.key.weight, 0.001),
        (model.decoder.readout.weight, 0.01),
        (model.decoder.context.weight, 0.01),
        (model.decoder.cell.input.weight, 0.01),
        (model.decoder.embedding.weight, 0.01),
        (model.encoder.reader.backwards.input.weight, 0.01),
    ):
        assert matrix.std().item() == pytest.approx(deviation, rel=0.1)
    assert not aligner.attention.score.weight.any(), "va starts at zero"
    assert not any(p.any() for name, p in model.named_parameters() if name.endswith("bias"))


def test_the_papers_first_attention_is_uniform(tiny_bahdanau, seeded, sentences):
    model = Bahdanau(tiny_bahdanau(initialization="paper")).eval()
    source = sentences([6, 3], 11)
    _, state = model.step(torch.tensor([1, 1]), model.start(source))
    expected = source.valid / source.lengths.unsqueeze(1)
    torch.testing.assert_close(model.alignment(state), expected)


def test_the_standard_start_teaches_the_aligner_at_once(tiny_bahdanau, seeded, sentences):
    """With va = 0 no gradient reaches Wa and Ua in the first step."""
    reached = {}
    for start in ("paper", "standard"):
        model = Bahdanau(tiny_bahdanau(initialization=start))
        model(sentences([6, 3], 11), sentences([4, 4], 9)).square().sum().backward()
        reached[start] = bool(model.decoder.attention.query.weight.grad.any())
        assert model.decoder.attention.attention.score.weight.grad.any()
    assert reached == {"paper": False, "standard": True}


def test_the_first_state_reads_the_backward_half_at_the_first_word(tiny_bahdanau, seeded, sentences):
    model = Bahdanau(tiny_bahdanau()).eval()
    source = sentences([6, 3], 11, side="left")
    annotations, _ = model.encoder(source)
    firsts = annotations[torch.arange(2), source.valid.int().argmax(dim=1), 5:]
    state = model.start(source)
    torch.testing.assert_close(state.hidden, torch.tanh(model.decoder.initial(firsts)))


def test_annotations_are_projected_once_per_sentence(tiny_bahdanau, seeded, sentences):
    model = Bahdanau(tiny_bahdanau()).eval()
    projected = []
    model.decoder.attention.key.register_forward_hook(lambda *_: projected.append(1))
    model(sentences([6, 3], 11), sentences([4, 4], 9))
    state = model.start(sentences([6, 3], 11))
    for _ in range(3):
        _, state = model.step(torch.tensor([3, 3]), state)
    assert len(projected) == 2


def test_targets_have_no_longest_length(tiny_bahdanau, seeded):
    assert Bahdanau(tiny_bahdanau()).maximum_target_length is None


@pytest.mark.parametrize(
    ("score", "names"),
    [
        ("additive", {"query.weight": (7, 5), "key.weight": (7, 10), "attention.score.weight": (7,)}),
        ("general", {"query.weight": (10, 5)}),
        ("dot", {"key.weight": (5, 10)}),
        ("scaled_dot", {"key.weight": (5, 10)}),
    ],
)
def test_each_score_has_its_own_matrices(score, names, tiny_bahdanau, seeded):
    layer = Bahdanau(tiny_bahdanau(score=score)).decoder.attention
    assert {name: tuple(tensor.shape) for name, tensor in layer.state_dict().items()} == names
    assert isinstance(layer.attention.score, Additive) == (score == "additive")


def test_hard_attention_draws_in_training_and_learns_from_the_mean(tiny_bahdanau, seeded, sentences):
    """Queries that take the mean pass gradients back; in evaluation each looks at the most probable word."""
    model = Bahdanau(tiny_bahdanau())
    aligner = model.decoder.attention
    aligner.attention.alignment = Hard(0.5)
    source, target = sentences([6, 3], 11), sentences([5, 4], 9, start=1)
    told = [model(source, target) for _ in range(2)]
    assert not torch.equal(*told), "each pass draws anew"
    torch.manual_seed(4)
    model(source, target).logsumexp(dim=-1).sum().backward()
    assert aligner.query.weight.grad.abs().max() > 0
    assert aligner.key.weight.grad.abs().max() > 0
    model.eval()
    assert torch.equal(model(source, target), model(source, target))


@pytest.mark.parametrize("mechanism", ["location", "local", "buckets"])
def test_places_of_words_count_from_the_first_real_one(mechanism, tiny_bahdanau, seeded, sentences, randomize):
    """Left padding, right padding and steps give one answer, whatever attention looks at places."""
    model = Bahdanau(tiny_bahdanau())
    model.decoder.attention.attention = {
        "location": lambda: ScoredAttention(Location(7, maximum=20)),
        "local": lambda: ScoredAttention(Additive(7), Local(1)),
        "buckets": lambda: ScoredAttention(RelativeDot(RelativeBias(1, buckets=8, maximum_distance=6))),
    }[mechanism]()
    randomize(model.double()).eval()
    right, left = (
        (sentences([6, 3], 11, side=side), sentences([5, 4], 9, side=side, start=1)) for side in ("right", "left")
    )
    wanted, padded = model(*right), model(*left)
    for row, length in enumerate((5, 4)):
        torch.testing.assert_close(padded[row, 5 - length :], wanted[row, :length])
    state = model.start(left[0]).reorder(torch.tensor([0, 0, 1, 1]))
    for place in range(4):
        logits, state = model.step(right[1].ids[:, place].repeat_interleave(2), state)
        torch.testing.assert_close(logits, wanted[:, place].repeat_interleave(2, dim=0))
    weights = model.alignment(state)[::2]
    assert not weights[~left[0].valid].any()
    if mechanism == "local":  # word 3 looks around place 3, which the second sentence of 3 words has not
        assert (weights > 0).tolist() == [[False, False, True, True, True, False], [False] * 5 + [True]]
