from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.layers import NEVER, VocabularyOutput, token_embedding


def test_what_is_ruled_out_has_no_probability_and_its_row_no_gradient(seeded, generator):
    """Exactly, in value and gradient: the others are as if it did not exist."""
    output = VocabularyOutput(6, 5, bias="padding", padding=4)
    x = torch.randn(7, 6, generator=generator)
    logits = output(x)
    assert (logits[:, 4] == NEVER).all()
    torch.testing.assert_close(logits.softmax(dim=1)[:, :4], F.linear(x, output.weight[:4]).softmax(dim=1))
    F.cross_entropy(logits, torch.tensor([0, 1, 2, 3, 0, 1, 2])).backward()
    assert (output.weight.grad[4] == 0).all()
    assert output.weight.grad[:4].all()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop])
def test_its_row_stays_at_zero_in_training(tied, optimizer, seeded, generator):
    output, table = VocabularyOutput(6, 5, bias="padding", padding=4), token_embedding(5, 6, padding=4)
    if tied:
        output.weight = table.weight
    steps = optimizer([*{*output.parameters(), *table.parameters()}], lr=0.1, weight_decay=0.1)
    ids = torch.tensor([[4, 0, 1], [4, 2, 3]])
    before = output.weight.detach().clone()
    for _ in range(3):
        steps.zero_grad()
        F.cross_entropy(output(table(ids)).flatten(0, 1), ids.roll(-1, dims=1).clamp_max(3).flatten()).backward()
        steps.step()
    assert not output.weight[4].any()
    assert not table.weight[4].any()
    assert (output.weight[:4] != before[:4]).any(dim=1).all()


def test_a_trained_bias_starts_at_zero_and_none_is_none(seeded):
    trained = VocabularyOutput(6, 5, bias="trained")
    assert not trained.bias.any()
    assert trained.bias.requires_grad
    plain = VocabularyOutput(6, 5)
    assert plain.bias is None
    torch.testing.assert_close(plain(torch.eye(6)), plain.weight.T)


def test_the_constant_is_not_saved_and_survives_the_meta_device_and_a_change_of_dtype():
    output = VocabularyOutput(6, 5, bias="padding", padding=2)
    assert set(output.state_dict()) == {"weight"}
    assert output.bfloat16()(torch.zeros(1, 6, dtype=torch.bfloat16))[0, 2] == torch.tensor(NEVER).bfloat16()
    with torch.device("meta"):
        empty = VocabularyOutput(6, 5, bias="padding", padding=2)
    empty.to_empty(device="cpu")
    empty.reset_parameters()
    assert empty(torch.zeros(1, 6)).tolist() == [[0.0, 0.0, NEVER, 0.0, 0.0]]
