"""The proofs behind the rows of docs/lectures.md that speak of vectors of texts."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from regard.layers import Tokens
from regard.models import ELMo, ELMoConfig, InferSent, InferSentConfig


def test_b35_infersent_is_one_encoder_with_one_vector_for_a_text(seeded):
    """One layer, one vector however long the text, nothing that tells a word, and all of it learnt from a class."""
    config = InferSentConfig(vocabulary=99, embedding_width=4, hidden_width=3, texts=2, head="sequence", outputs=3)
    infersent = InferSent(config)
    assert len(infersent.layers) == 1
    assert infersent(Tokens.pad([[1, 7, 2], [1, 7, 8, 9, 5, 2]])).pooled.shape == (2, 6)
    assert [name for name, part in infersent.named_parameters() if 99 in part.shape] == ["embedding.weight"]
    encoded = infersent(Tokens.pad([[1, 7, 2, 8, 2]]), torch.tensor([[0, 0, 0, 1, 1]]))
    F.cross_entropy(encoded.logits, torch.tensor([2])).backward()
    assert all(part.grad is not None and part.grad.any() for part in infersent.reader.parameters())

    words = Tokens.pad([[256, 32, 104, 105, 32, 121, 257]], padding_id=258)
    sizes = {"projection": 3, "cells": 5, "character_width": 4, "filters": ((1, 6),), "highways": 1}
    elmo = ELMo(ELMoConfig(maximum_characters=6, layers=2, **sizes)).eval()
    states = elmo.hidden_states(words)
    assert len(states) == 3
    assert all(state.shape == (1, 7, 6) for state in states)
