from __future__ import annotations

from typing import Any

import pytest
import torch

import regard
from regard.errors import InputError
from regard.generation import CoveragePenalty, GnmtLength
from regard.layers import Tokens
from regard.models import GNMT, GNMTConfig


def tiny(**changes: Any) -> GNMTConfig:
    sizes: dict[str, Any] = {
        "source_vocabulary": 11,
        "target_vocabulary": 9,
        "embedding_width": 4,
        "hidden_width": 5,
        "attention_width": 7,
        "layers": 4,
    }
    return GNMTConfig(**(sizes | changes))


@pytest.fixture
def model(seeded, randomize):
    return randomize(GNMT(tiny())).double().eval()


SOURCE = Tokens.pad([[3, 4, 5, 6], [7, 8]])
STARTS = torch.tensor([1, 1])


def test_the_defaults_are_the_papers():
    config = GNMTConfig(source_vocabulary=32_000, target_vocabulary=32_000)
    assert (config.layers, config.hidden_width, config.attention_width) == (8, 1024, 1024)
    assert config.residual


def test_the_first_encoder_layer_reads_from_both_ends(model):
    """Two halves side by side into the second layer; seven more of them in the paper's stack of eight."""
    assert model.encoder.upper.layers[0].input.in_features == 10
    assert len(model.encoder.upper.layers) == len(model.decoder.upper.layers) == 3
    caught = []
    model.encoder.dropout.register_forward_hook(lambda module, inputs, output: caught.append(output))
    model.start(SOURCE)
    embedded, both = caught
    ahead, _ = model.encoder.forwards.read(embedded, SOURCE.valid)
    behind, _ = model.encoder.backwards.read(embedded, SOURCE.valid, backwards=True)
    torch.testing.assert_close(both, torch.cat((ahead, behind), dim=-1), rtol=0, atol=0)


def test_residuals_start_at_the_third_layer_of_both_stacks(model):
    """Layer 2 hands up its output alone: in the encoder its input would not even fit."""
    assert model.encoder.upper.residual_from == model.decoder.upper.residual_from == 1
    plain = GNMT(tiny(residual=False))
    assert plain.encoder.upper.residual_from == plain.decoder.upper.residual_from == 3


def test_with_its_lstms_silenced_a_residual_stack_hands_up_the_second_layer(model):
    """m = 0 for the third and fourth layer: what reaches the output is x^2 = m^2, through the residuals."""
    with torch.no_grad():
        for cell in model.decoder.upper.layers[1:]:
            cell.input.bias[15:] = -1e9  # the output gate
    logits, state = model.step(STARTS, model.start(SOURCE))
    torch.testing.assert_close(logits, model.decoder.output(state.upper[0][0]), rtol=1e-10, atol=1e-12)
    assert not state.upper[1][0].any(), "the state itself is not residual"


def test_the_query_is_the_bottom_layers_output_of_the_previous_step(model):
    state = model.start(SOURCE)
    for token in (1, 3, 4):
        before = state.bottom[0]
        _, state = model.step(torch.full((2,), token), state)
        torch.testing.assert_close(state.query[:, 0], model.decoder.attention.query(before), rtol=1e-12, atol=1e-14)


def test_the_word_just_fed_does_not_move_the_alignment_of_its_own_step(model):
    """The query is of the step before; one step later the word does."""
    state = model.start(SOURCE)
    states = [model.step(torch.full((2,), token), state)[1] for token in (3, 4)]
    assert torch.equal(model.alignment(states[0]), model.alignment(states[1]))
    later = [model.alignment(model.step(STARTS, each)[1]) for each in states]
    assert not torch.allclose(later[0], later[1])


def test_the_context_reaches_every_decoder_layer(model):
    target = Tokens.pad([[1, 3, 4], [1, 5]])
    plain = model(SOURCE, target)
    cells = [model.decoder.bottom, *model.decoder.upper.layers]
    assert len(cells) == 4
    for cell in cells:
        kept = cell.context.weight.detach().clone()
        with torch.no_grad():
            cell.context.weight.zero_()
        assert not torch.allclose(model(SOURCE, target)[target.valid], plain[target.valid])
        with torch.no_grad():
            cell.context.weight.copy_(kept)


def test_every_decoder_layer_starts_from_the_encoder(model):
    """The bottom one from the backward half, which has read down to the first word; the others from their like."""
    state = model.start(SOURCE)
    embedded = model.encoder.embedding(SOURCE.ids)
    _, (backward,) = model.encoder.backwards.read(embedded, SOURCE.valid, backwards=True)
    torch.testing.assert_close(state.bottom, backward, rtol=0, atol=0)
    _, states = model.encoder(SOURCE)
    torch.testing.assert_close(state.upper, states[1:], rtol=0, atol=0)


def test_keys_are_projected_once_per_sentence(model):
    projected = []
    model.decoder.attention.key.register_forward_hook(lambda *_: projected.append(1))
    model(SOURCE, Tokens.pad([[1, 3, 4], [1, 5]]))
    state = model.start(SOURCE)
    for _ in range(3):
        _, state = model.step(STARTS, state)
    assert len(projected) == 2


def test_looking_sees_every_step(model):
    with regard.look(model) as seen:
        model(SOURCE, Tokens.pad([[1, 3, 4], [1, 5]]))
    assert seen.addresses == ["decoder.attention"]
    assert seen.weights("decoder.attention").shape == (2, 1, 3, 4)


@pytest.mark.parametrize("start", ["paper", "standard"])
def test_first_weights(start, seeded):
    model = GNMT(tiny(initialization=start, hidden_width=40, embedding_width=30, attention_width=50))
    everything = torch.cat([parameter.flatten() for parameter in model.parameters()])
    if start == "paper":
        assert everything.abs().max() <= 0.04
        assert everything.std().item() == pytest.approx(0.04 / 3**0.5, rel=0.02)
    else:
        assert model.decoder.attention.attention.score.weight.std().item() == pytest.approx(50**-0.5, rel=0.3)
        assert (model.decoder.bottom.input.bias[40:80] == 1).all()


def test_the_length_term_divides_a_negative_number():
    """lp is at least 1, so a larger alpha raises a score that is below zero, and the longer the output the more."""
    for length in (2, 10, 40):
        scores = [-8.0 / GnmtLength(alpha)(length) for alpha in (0.0, 0.2, 0.6, 1.0)]
        assert scores == sorted(scores)
        assert scores[0] == -8.0, "alpha 0 is plain beam search"
        assert scores[-1] == pytest.approx(-8.0 * 6 / (5 + length))
    assert GnmtLength(0.6)(1) == 1.0


def test_the_coverage_term_sums_over_the_target_first():
    """beta * sum_i log(min(sum_j p_ij, 1)): a word covered twice over earns nothing more, one left out costs."""
    attention = torch.tensor([[[0.9, 0.1, 0.0], [0.8, 0.2, 0.0]]])  # (N, L, S)
    valid = torch.tensor([[True, True, False]])
    penalty = CoveragePenalty(0.2)(attention.sum(dim=1), valid)
    torch.testing.assert_close(penalty, 0.2 * torch.tensor([0.3]).log())


def test_a_single_layer_is_refused():
    with pytest.raises(InputError, match="layers is 1 but must be at least 2"):
        tiny(layers=1)
