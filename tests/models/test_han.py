"""The hierarchical attention network beside its equations, written out for one document at a time."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import regard
from regard.layers import SentencesOf, Tokens
from regard.models import HAN, HANConfig

BOUNDARIES = (1, 2)
DOCUMENTS = [[1, 4, 5, 6, 2, 7, 8, 2, 9, 2], [1, 5, 2], [1, 10, 4, 2, 3, 3, 9, 8, 2]]


def config(**changes) -> HANConfig:
    sizes = {"embedding_width": 4, "hidden_width": 3, "attention_width": 5}
    return HANConfig(
        **(sizes | {"vocabulary": 11, "boundary_ids": BOUNDARIES, "head": "sequence", "outputs": 2} | changes)
    )


@pytest.fixture
def build(seeded, randomize):
    return lambda **changes: randomize(HAN(config(**changes)), scale=1.3).double().eval()


def sentences_of(ids: list[int]) -> list[list[int]]:
    found: list[list[int]] = [[]]
    for index in ids:
        if index in BOUNDARIES:
            found.append([])
        else:
            found[-1].append(index)
    return [sentence for sentence in found if sentence]


def gru(weights: dict[str, Tensor], name: str, xs: list[Tensor]) -> list[Tensor]:
    """Yang et al.'s equations 1 to 4: z is the share of the NEW state, reset after the product."""
    n = weights[f"{name}.weight_hh_l0"].shape[1]
    (Wr, Wz, W), (Ur, Uz, U) = (weights[f"{name}.weight_{part}_l0"].split(n) for part in ("ih", "hh"))
    (br, bz, b), (cr, cz, c) = (weights[f"{name}.bias_{part}_l0"].split(n) for part in ("ih", "hh"))
    h, states = torch.zeros(n, dtype=torch.float64), []
    for x in xs:
        r = torch.sigmoid(Wr @ x + Ur @ h + br + cr)
        z = torch.sigmoid(-(Wz @ x + Uz @ h + bz + cz))  # the same net, its signs turned
        new = torch.tanh(W @ x + b + r * (U @ h + c))
        h = (1 - z) * h + z * new
        states.append(h)
    return states


def level(weights: dict[str, Tensor], name: str, xs: list[Tensor], gathering: str) -> tuple[Tensor, list[float]]:
    ahead = gru(weights, f"{name}.reader.forwards", xs)
    behind = gru(weights, f"{name}.reader.backwards", xs[::-1])[::-1]
    hs = [torch.cat(pair) for pair in zip(ahead, behind, strict=True)]
    if gathering == "average":
        return torch.stack(hs).mean(dim=0), []
    if gathering == "maximum":
        return torch.stack(hs).max(dim=0).values, []
    W, b = weights[f"{name}.attention.key.0.weight"], weights[f"{name}.attention.key.0.bias"]
    scores = [math.exp(float(torch.tanh(W @ h + b) @ weights[f"{name}.context"])) for h in hs]
    shares = [score / sum(scores) for score in scores]
    return sum((share * h for share, h in zip(shares, hs, strict=True)), torch.zeros_like(hs[0])), shares


def document(model: HAN, ids: list[int]) -> tuple[Tensor, list[list[float]], list[float]]:
    weights = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    gathering = model.config.gathering
    vectors, words = [], []
    for sentence in sentences_of(ids):
        vector, shares = level(weights, "words", [weights["embedding.weight"][index] for index in sentence], gathering)
        vectors.append(vector)
        words.append(shares)
    v, sentences = level(weights, "sentences", vectors, gathering)
    return v, words, sentences


@pytest.mark.parametrize("gathering", ["attention", "average", "maximum"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_every_document_of_a_padded_batch_is_the_equations(gathering, side, build):
    model = build(gathering=gathering)
    found = model(Tokens.pad(DOCUMENTS, side=side))
    for row, ids in enumerate(DOCUMENTS):
        v, _, _ = document(model, ids)
        torch.testing.assert_close(found.pooled[row], v, rtol=1e-10, atol=1e-12)
        logits = model.head.output.weight @ v + model.head.output.bias
        torch.testing.assert_close(found.logits[row], logits, rtol=1e-10, atol=1e-12)


def test_both_attentions_are_recorded_over_the_text(build):
    """Of words one row for each sentence, over all tokens; nothing on what parts sentences, nothing on another's words."""
    model = build()
    with regard.look(model) as seen:
        model(Tokens.pad(DOCUMENTS))
    words, sentences = seen.weights("words.attention")[:, 0], seen.weights("sentences.attention")[:, 0, 0]
    assert words.shape == (3, 3, 10)
    assert sentences.shape == (3, 3)
    for row, ids in enumerate(DOCUMENTS):
        _, of_words, of_sentences = document(model, ids)
        assert sentences[row, : len(of_sentences)].tolist() == pytest.approx(of_sentences, rel=1e-5)
        assert not sentences[row, len(of_sentences) :].any()
        places = [place for place, index in enumerate(ids) if index not in BOUNDARIES]
        expected = torch.zeros(3, 10)
        for number, shares in enumerate(of_words):
            for share in shares:
                expected[number, places.pop(0)] = share
        torch.testing.assert_close(words[row].float(), expected, rtol=1e-5, atol=1e-6)


def test_the_order_of_words_and_of_sentences_counts(build):
    model = build()
    plain, swapped_words, swapped_sentences = model(
        Tokens.pad([[1, 4, 5, 2, 6, 7, 2], [1, 5, 4, 2, 6, 7, 2], [1, 6, 7, 2, 4, 5, 2]])
    ).pooled
    assert not torch.allclose(plain, swapped_words)
    assert not torch.allclose(plain, swapped_sentences)


def test_the_document_is_the_same_however_its_sentences_are_parted(build):
    """Two boundaries side by side make no empty sentence."""
    model = build()
    one, other = model(Tokens.pad([[1, 4, 5, 2, 6, 2], [4, 5, 2, 1, 2, 6]])).pooled
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


def test_the_defaults_are_the_papers_sizes():
    made = HANConfig(vocabulary=9)
    assert (made.embedding_width, made.hidden_width, made.attention_width, made.width) == (200, 50, 100, 100)


rows = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=40), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(rows, st.sampled_from(["left", "right"]))
def test_every_sentence_is_read_by_itself(ids, side):
    """Against the list of sentences that splitting by hand gives."""
    tokens = Tokens.pad(ids, side=side, padding_id=4)
    found = SentencesOf.tokens(tokens, BOUNDARIES)
    expected = [sentences_of(row) for row in ids]
    assert found.counts.tolist() == [len(row) for row in expected]
    told: list[list[int]] = []

    def reader(apart: Tensor, valid: Tensor) -> Tensor:
        told.extend(row[real].squeeze(-1).long().tolist() for row, real in zip(apart, valid, strict=True))
        return 2 * apart

    twice = found.read(tokens.ids.unsqueeze(-1).double(), reader).squeeze(-1).long()
    assert sorted(told) == sorted(sentence for row in expected for sentence in row)
    assert torch.equal(twice, 2 * tokens.ids.where(found.words, 0))
    members = found.members()
    assert torch.equal(members.any(dim=1), found.words)
    assert members.sum(dim=1).max() <= 1
