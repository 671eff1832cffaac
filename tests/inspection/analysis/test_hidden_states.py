"""Hidden states by address: what is kept, in which order, from which parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from regard.errors import InputError
from regard.inspection.analysis import hidden_states
from regard.layers import Tokens


@pytest.fixture
def model(translator):
    return translator("transformer").model


BATCHES = [Tokens.pad([[3, 4, 5], [6, 7]]), Tokens.pad([[8, 4], [5, 9, 3]], side="left")]


def test_rows_are_the_real_tokens_in_reading_order_batch_after_batch(model):
    read = []

    def encode(tokens: Tokens) -> torch.Tensor:
        read.append(model.encoder(tokens))
        return tokens.valid

    found = hidden_states(model, ["encoder.embedding", "encoder.layers.*", "encoder.norm"], BATCHES, encode)
    assert list(found) == ["encoder.embedding", "encoder.layers.0", "encoder.layers.1", "encoder.norm"]
    wanted = [read[0][0, :3], read[0][1, :2], read[1][0, 1:], read[1][1, :]]
    np.testing.assert_array_equal(found["encoder.norm"], torch.cat(wanted).detach().numpy())
    assert {states.shape for states in found.values()} == {(10, 12)}
    assert not np.array_equal(found["encoder.layers.0"], found["encoder.layers.1"])


def test_how_texts_are_put_in_batches_changes_nothing(model):
    def encode(tokens: Tokens) -> torch.Tensor:
        model.encoder(tokens)
        return tokens.valid

    one_by_one = [Tokens.pad([ids]) for ids in ([3, 4, 5], [6, 7], [8, 4], [5, 9, 3])]
    together = hidden_states(model, ["encoder.layers.1"], BATCHES, encode)
    apart = hidden_states(model, ["encoder.layers.1"], one_by_one, encode)
    np.testing.assert_allclose(together["encoder.layers.1"], apart["encoder.layers.1"], atol=1e-5)


def test_of_a_part_that_gives_several_things_the_first_is_taken(model):
    def translate(tokens: Tokens) -> torch.Tensor:
        model(tokens, tokens)
        return tokens.valid

    found = hidden_states(model, ["decoder.layers.*"], BATCHES, translate)
    assert {states.shape for states in found.values()} == {(10, 12)}


def test_nothing_is_left_behind(model):
    with pytest.raises(RuntimeError, match="on purpose"):
        hidden_states(model, ["encoder.layers.*"], BATCHES, fail)
    assert all(not part._forward_hooks for part in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def fail(tokens: Tokens) -> torch.Tensor:
    raise RuntimeError("on purpose")


def test_what_cannot_be_collected_is_refused(model):
    def encode(tokens: Tokens) -> torch.Tensor:
        model.encoder(tokens)
        return tokens.valid

    for addresses, read, message in (
        (["encoder.layer.*"], encode, r"no module is called 'encoder\.layer\.\*'"),
        ([], encode, "addresses is empty"),
        (["decoder.layers.0"], encode, "ran 0 times for one batch"),
        (["encoder.layers.0"], lambda tokens: [encode(tokens), encode(tokens)][0], "ran 2 times"),
        (["encoder.layers.0"], lambda tokens: encode(tokens)[:1], "True where a place counts"),
        (["encoder.layers.0"], lambda tokens: encode(tokens).long(), "True where a place counts"),
    ):
        with pytest.raises(InputError, match=message):
            hidden_states(model, addresses, BATCHES, read)
    with pytest.raises(InputError, match="no batches"):
        hidden_states(model, ["encoder.layers.0"], [], encode)
    with pytest.raises(InputError, match="training mode"):
        hidden_states(model.train(), ["encoder.layers.0"], BATCHES, encode)
    flat = nn.Sequential(nn.Flatten()).eval()
    with pytest.raises(InputError, match=r"0 gives \(2, 6\), no hidden states"):
        hidden_states(flat, ["0"], [torch.ones(2, 3, 2)], lambda x: flat(x) is None or None)
