from __future__ import annotations

import io

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.inspection.patches import Patches, png
from regard.inspection.view import AttentionView


def test_an_array_becomes_the_image_it_is():
    reader = pytest.importorskip("PIL.Image")
    array = np.random.default_rng(0).integers(0, 256, (7, 5, 3), dtype=np.uint8)
    with reader.open(io.BytesIO(png(array))) as image:
        np.testing.assert_array_equal(np.asarray(image.convert("RGB")), array)
    assert png(png(array)) == png(array)
    assert png(torch.from_numpy(array)) == png(array)
    assert png(array[::-1, ::-1]) != png(array)  # views that are not contiguous too


@pytest.mark.parametrize(
    "image", [b"GIF89a", b"", np.zeros((3, 3), np.uint8), np.zeros((3, 3, 3)), np.zeros((0, 3, 3), np.uint8), "x", None]
)
def test_what_is_no_image_is_refused(image):
    with pytest.raises(InputError, match=r"\(Y, X, 3\)"):
        png(image)


@pytest.mark.parametrize("fields", [{"rows": 0}, {"columns": -1}, {"first": -1}, {"rows": 2.0}, {"first": True}])
def test_a_grid_without_patches_is_refused(fields):
    with pytest.raises(InputError, match=next(iter(fields))):
        Patches(**({"rows": 2, "columns": 2} | fields))


def test_patches_have_to_be_among_the_tokens():
    with pytest.raises(InputError, match="key_patches end at token 4, but there are 4 key tokens"):
        AttentionView.of(np.ones((1, 4)), ["a"], list("pppp"), key_patches=Patches(rows=2, columns=2, first=1))
    with pytest.raises(InputError, match="query_patches"):
        AttentionView.of(np.ones((1, 4)), ["a"], list("pppp"), query_patches=(2, 2))  # type: ignore[arg-type]
