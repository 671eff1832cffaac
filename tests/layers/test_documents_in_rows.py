"""Several documents in one row: each is read as if it were alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.positions import positions_in_documents
from regard.layers import Tokens
from regard.models import GPT, GPT2, GPT3, GPT2Config, GPT3Config, GPTConfig

END = 2
SIZES = {"vocabulary": 12, "width": 8, "heads": 2, "feedforward_width": 12, "layers": 2, "maximum_positions": 24}
DOCUMENTS = [[END, 4, 5, 6], [END, 7], [END, 8, 9, 10, 11, 3]]


def model_of(name: str) -> torch.nn.Module:
    return {
        "gpt": lambda: GPT(GPTConfig(**SIZES)),
        "gpt2": lambda: GPT2(GPT2Config(**SIZES)),
        "gpt3": lambda: GPT3(GPT3Config(band=2, **SIZES)),
    }[name]()


EVERY = pytest.mark.parametrize("name", ["gpt", "gpt2", "gpt3"])


@EVERY
@pytest.mark.parametrize("side", ["left", "right"])
def test_each_document_is_read_as_if_alone(name, side, seeded, randomize):
    model = randomize(model_of(name)).eval()
    rows = [[*DOCUMENTS[0], *DOCUMENTS[1], *DOCUMENTS[2]], [*DOCUMENTS[2], *DOCUMENTS[0]]]
    found = model(Tokens.pad(rows, side=side).with_documents(END))
    for row, order in enumerate(([0, 1, 2], [2, 0])):
        place = found.shape[1] - len(rows[row]) if side == "left" else 0
        for document in order:
            length = len(DOCUMENTS[document])
            alone = model(Tokens.pad([DOCUMENTS[document]]))[0]
            assert torch.allclose(found[row, place : place + length], alone, atol=1e-5)
            place += length


@EVERY
def test_gradients_are_those_of_the_documents_alone(name, seeded, randomize):
    model = randomize(model_of(name)).eval().double()
    model(Tokens.pad([[*DOCUMENTS[0], *DOCUMENTS[1], *DOCUMENTS[2]]]).with_documents(END)).square().sum().backward()
    packed = {key: parameter.grad.clone() for key, parameter in model.named_parameters() if parameter.grad is not None}
    model.zero_grad()
    for document in DOCUMENTS:
        model(Tokens.pad([document])).square().sum().backward()
    for key, parameter in model.named_parameters():
        if key in packed:
            assert torch.allclose(packed[key], parameter.grad, atol=1e-9), key


def test_without_documents_the_one_before_is_seen(seeded, randomize):
    model = randomize(model_of("gpt2")).eval()
    row = [*DOCUMENTS[0], *DOCUMENTS[1]]
    alone = model(Tokens.pad([DOCUMENTS[1]]))[0]
    assert not torch.allclose(model(Tokens.pad([row]))[0, -2:], alone, atol=1e-2)


@EVERY
def test_reading_goes_on_in_the_last_document(name, seeded, randomize):
    model = randomize(model_of(name)).eval()
    tokens = Tokens.pad([[*DOCUMENTS[0], *DOCUMENTS[1]], DOCUMENTS[2]]).with_documents(END)
    _, state = model.read(tokens, model.start(2))
    found, _ = model.step(torch.tensor([6, 7]), state)
    for row, document in enumerate(([*DOCUMENTS[1], 6], [*DOCUMENTS[2], 7])):
        assert torch.allclose(found[row], model(Tokens.pad([document]))[0, -1], atol=1e-5)


def test_documents_after_the_first_token_are_refused(seeded):
    model = model_of("gpt2")
    tokens = Tokens.pad([DOCUMENTS[0]]).with_documents(END)
    _, state = model.read(tokens, model.start(1))
    with pytest.raises(ValueError, match="from its beginning"):
        model.read(tokens, state)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(0, 4), st.integers(0, 4))
def test_positions_start_anew_wherever_padding_stands(lengths, before, after):
    documents = [0] * before + [i for i, length in enumerate(lengths) for _ in range(length)] + [9] * after
    valid = [False] * before + [True] * sum(lengths) + [False] * after
    found = positions_in_documents(torch.tensor([documents]), torch.tensor([valid]))[0].tolist()
    assert found[before : before + sum(lengths)] == [place for length in lengths for place in range(length)]


def test_documents_travel_with_their_tokens():
    tokens = Tokens.pad([[5, END, 6], [END, 7]]).with_documents(END)
    assert tokens.documents.tolist() == [[0, 1, 1], [1, 1, 1]]
    assert tokens.select(torch.tensor([1])).documents.tolist() == [[1, 1, 1]]
    assert tokens.to("cpu").documents is not None


def test_the_earlier_name_of_with_documents_works_and_warns():
    tokens = Tokens.pad([DOCUMENTS[0]])
    with pytest.warns(DeprecationWarning, match="Tokens.parted is called with_documents"):
        earlier = tokens.parted
    assert torch.equal(earlier(END).documents, tokens.with_documents(END).documents)
