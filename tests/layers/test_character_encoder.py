"""A word's vector from its letters, against the convolutions and highway layers written out."""

from __future__ import annotations

import pytest
import torch

from regard.layers import CharacterEncoder


@pytest.mark.parametrize("activation", [torch.relu, torch.tanh])
def test_the_equations_written_out(seeded, randomize, activation):
    encoder = CharacterEncoder(5, character_width=3, filters=((1, 2), (3, 4)), highways=2, activation=activation)
    randomize(encoder, scale=1.5).double()
    letters = torch.randint(261, (3, 7))
    found = encoder(letters)
    for row in range(3):
        e = encoder.characters.weight[letters[row]]
        parts = []
        for convolution in encoder.convolutions:
            width = convolution.weight.shape[-1]
            windows = [e[t : t + width].T.flatten() for t in range(7 - width + 1)]
            at = torch.stack([convolution.weight.flatten(1) @ window + convolution.bias for window in windows])
            parts.append(activation(at).max(dim=0).values)
        x = torch.cat(parts)
        for highway in encoder.highways:
            g = torch.sigmoid(highway.gate.weight @ x + highway.gate.bias)
            x = g * activation(highway.transform.weight @ x + highway.transform.bias) + (1 - g) * x
        expected = encoder.projection.weight @ x + encoder.projection.bias
        torch.testing.assert_close(found[row], expected, rtol=1e-11, atol=1e-12)


def test_many_words_are_what_few_are(seeded, monkeypatch):
    encoder = CharacterEncoder(4, character_width=2, filters=((2, 3),), highways=1)
    letters = torch.randint(261, (11, 6))
    whole = encoder(letters)
    monkeypatch.setattr("regard.layers.embeddings.AT_ONCE", 4)
    torch.testing.assert_close(encoder(letters), whole, rtol=1e-5, atol=1e-6)
