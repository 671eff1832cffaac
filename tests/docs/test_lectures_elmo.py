"""What the lectures say of ELMo, and what is right: the rows of docs/lectures.md on it."""

from __future__ import annotations

import torch

from regard.layers import ScalarMix, Tokens
from regard.models import ELMo, ELMoConfig

TEXT = Tokens.pad([[256, 32, 104, 105, 32, 121, 257]], padding_id=258)


def _model() -> ELMo:
    torch.manual_seed(3)
    config = ELMoConfig(projection=3, cells=5, character_width=4, filters=((1, 6),), highways=1, maximum_characters=6)
    return ELMo(config).eval()


def test_b24_layers_are_weighed_by_a_softmax_and_scaled_and_stay_as_wide_as_one(seeded):
    """Concatenated they would be L + 1 times as wide; free weights would need no gamma, and could have any sign."""
    states = _model().hidden_states(TEXT)
    mix = ScalarMix(len(states))
    with torch.no_grad():
        mix.weights.copy_(torch.tensor([1.0, -2.0, 0.5]))
        mix.gamma.fill_(1.7)
    shares = mix.weights.exp() / mix.weights.exp().sum()
    expected = 1.7 * (shares[0] * states[0] + shares[1] * states[1] + shares[2] * states[2])
    found = mix(states)
    torch.testing.assert_close(found, expected)
    assert found.shape == states[0].shape
    assert (shares > 0).all()
    assert torch.allclose(
        mix(states), 1.7 * torch.stack([s * h for s, h in zip(shares, states, strict=True)]).sum(dim=0)
    )


def test_b24_the_layer_of_letters_is_one_of_the_terms(seeded):
    model = _model()
    states = model.hidden_states(TEXT)
    assert len(states) == len(model.layers) + 1
    assert torch.equal(states[0][..., :3], states[0][..., 3:])


def test_b39_one_layers_two_directions_are_not_yet_elmo(seeded):
    """[backward, forward] of the top is h_{k,L}, the other way round: one term of three. A mixture that weighs it alone is it."""
    states = _model().hidden_states(TEXT)
    mix = ScalarMix(3)
    assert not torch.allclose(mix(states), states[-1])
    with torch.no_grad():
        mix.weights.copy_(torch.tensor([-40.0, -40.0, 40.0]))
    torch.testing.assert_close(mix(states), states[-1])


def test_b35_elmos_directions_do_not_see_each_other_as_a_pooled_bilstm_trained_on_a_label_does(seeded):
    """Each half of every layer hangs on the words of one side alone; nothing is pooled over the text."""
    model = _model()
    other = Tokens(TEXT.ids.clone(), TEXT.valid)
    other.ids[0, 5] = 122  # the last word is another
    before, after = model.hidden_states(TEXT)[-1][0], model.hidden_states(other)[-1][0]
    assert torch.equal(before[1, :3], after[1, :3])  # the forward net has not read it yet
    assert not torch.allclose(before[1, 3:], after[1, 3:])
