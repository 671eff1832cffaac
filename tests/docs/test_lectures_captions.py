"""The proofs behind the rows on captions of docs/lectures.md, named after them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from regard.layers import Images, Tokens
from regard.models import ShowAndTell, ShowAndTellConfig, ShowAttendAndTell, ShowAttendAndTellConfig

SIZES = {
    "target_vocabulary": 9,
    "image_height": 8,
    "image_width": 8,
    "convolutions": (4,),
    "feature_width": 5,
    "embedding_width": 4,
    "hidden_width": 6,
    "dropout": 0.0,
}


def image() -> Images:
    return Images.of([np.random.default_rng(3).integers(0, 256, (1, 8, 8, 3), dtype=np.uint8)])


def test_b15_the_neural_image_caption_generator_has_no_attention():
    """NIC, Vinyals et al. 2015, is told of the image once; it is Xu et al. 2015 that attends."""
    nic = ShowAndTell(ShowAndTellConfig(**SIZES))
    assert not nic.has_alignment
    with pytest.raises(regard.InputError, match="no attention"), regard.look(nic):
        pass
    assert ShowAttendAndTell(ShowAttendAndTellConfig(**SIZES)).has_alignment


def test_b16_the_decoder_looks_at_the_image_and_not_the_image_at_itself(randomize):
    """Queries are states of the decoder, so other words look elsewhere in the same image; the keys are the image's places."""
    model = randomize(ShowAttendAndTell(ShowAttendAndTellConfig(**SIZES, attention_width=7))).eval()
    with regard.look(model) as seen:
        for words in ([1, 3, 4], [1, 7, 4]):
            model(image(), Tokens.pad([words]))
    first, second = (seen.weights("attention", run=run) for run in (0, 1))
    assert first.shape == (1, 1, 3, 16)  # words over places; self-attention would have places over places
    torch.testing.assert_close(first[:, :, 0], second[:, :, 0])
    assert not torch.allclose(first[:, :, 2], second[:, :, 2])
    assert model.attention.sequences == ("target", "source")
