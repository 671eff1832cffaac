"""Weights over images: which patch each place is, with frames side by side and padding left out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from regard.inspection.patches import Patches, places_named, shown
from regard.layers import Images, Tokens
from regard.models import ShowAndTell, ShowAndTellConfig, ShowAttendAndTell, ShowAttendAndTellConfig

SIZES = {
    "target_vocabulary": 9,
    "image_height": 8,
    "image_width": 8,
    "frames": 2,
    "convolutions": (4,),
    "feature_width": 5,
    "embedding_width": 4,
    "hidden_width": 6,
    "dropout": 0.0,
}


def images() -> Images:
    frames = [np.full((1, 8, 8, 3), 50, np.uint8), np.full((2, 8, 8, 3), 90, np.uint8)]
    frames[1][1] = 200
    return Images.of(frames)


def test_places_are_numbered_through_the_strip_and_padding_has_none():
    one, two = places_named(images(), 0, (2, 2)), places_named(images(), 1, (2, 2))
    assert one == [(0, "patch 1:1,1"), (1, "patch 1:1,2"), (4, "patch 1:2,1"), (5, "patch 1:2,2")]
    assert [place for place, _ in two] == list(range(8))
    assert two[2] == (2, "patch 2:1,1")


def test_the_image_is_shown_as_it_was_read_and_large_enough():
    image, patches = shown(images(), 1, (4, 4))
    assert patches == Patches(rows=4, columns=8)
    assert max(image.shape) >= 240
    assert (image[0, 0, 0], image[0, -1, 0]) == (90, 200)


def test_a_view_has_each_image_and_its_patches(randomize, tmp_path):
    model = randomize(ShowAttendAndTell(ShowAttendAndTellConfig(**SIZES, attention_width=5))).eval()
    target = Tokens.pad([[1, 3, 4], [1, 5]])
    with regard.look(model) as seen:
        told = model(images(), target, attended=True)
    view = seen.view()
    assert [image is not None for image in view.images] == [True, True]
    first = view.map("attention", 0)
    assert first.key_patches == Patches(rows=4, columns=4)
    places = [place for place, _ in places_named(images(), 0, (4, 4))]
    np.testing.assert_allclose(first.weights[0], told.weights[0][:, places].detach(), atol=1e-6)
    seen.show(tmp_path / "page.html", row=1)
    assert (tmp_path / "page.html").stat().st_size > 1000


def test_there_is_nothing_to_see_in_a_model_without_attention():
    with pytest.raises(regard.InputError, match="no attention"), regard.look(ShowAndTell(ShowAndTellConfig(**SIZES))):
        pass


def test_a_search_is_followed(randomize):
    from regard.generation import GenerationSettings, search

    model = randomize(ShowAttendAndTell(ShowAttendAndTellConfig(**SIZES, attention_width=5))).eval()
    from regard.inspection.recorder import Recorder

    recorder = Recorder(model)
    with recorder.recording(), torch.no_grad():
        found = search(model, images(), GenerationSettings(beam=2, maximum_length=4), recorder)
    from regard.inspection.record import Record

    weights = Record(recorder).weights("attention")
    assert weights.shape[2] == max(len(each[0].rows) for each in found)
    torch.testing.assert_close(weights[1, 0, 0].sum(), torch.tensor(1.0))
