"""The lectures' network for MNIST: its attention is inactive, and over patches it is not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.errors import InputError
from regard.inspection import look
from regard.models import LectureNetwork, LectureNetworkConfig
from regard.models.lecture_network import without_queries_and_keys
from regard.tasks.image_classification import batch_of

MNIST = {"image_height": 28, "image_width": 28, "image_channels": 1, "outputs": 10}


def images(count: int = 6):
    return batch_of(np.random.default_rng(3).integers(0, 256, (count, 28, 28, 1), dtype=np.uint8))


@pytest.fixture
def given(randomize) -> LectureNetwork:
    return randomize(LectureNetwork(LectureNetworkConfig(**MNIST)))


def test_it_has_the_lectures_parameters_and_a_quarter_of_them_is_dead(given):
    sizes = {name: parameter.numel() for name, parameter in given.named_parameters()}
    assert sum(sizes.values()) == 171_402
    dead = sum(size for name, size in sizes.items() if ".query." in name or ".key." in name)
    assert (dead, round(100 * dead / 171_402, 1)) == (41_344, 24.1)


def test_queries_and_keys_get_a_gradient_of_exactly_zero(given):
    F.cross_entropy(given(images()), torch.arange(6)).backward()
    for name, parameter in given.named_parameters():
        dead = ".query." in name or ".key." in name
        assert bool(parameter.grad.any()) != dead, name


def test_deleting_queries_and_keys_changes_nothing(given):
    read = images()
    torch.testing.assert_close(without_queries_and_keys(given)(read), given(read), rtol=0, atol=1e-6)


def test_attention_gives_its_map_of_values_whatever_queries_and_keys_are(given, randomize):
    read, layer = images(), given.attentions[0]
    x = torch.randn(4, 1, 128)
    expected = x @ layer.value.weight.T + layer.value.bias
    torch.testing.assert_close(layer(x, layer.keys_values(x)), expected, rtol=0, atol=1e-6)
    before = given(read)
    with torch.no_grad():
        layer.query.weight.mul_(-50)
        layer.key.weight.normal_()
    assert torch.equal(given(read), before)
    with look(given) as seen:
        given(read)
    assert (seen.weights("attentions.0") == 1).all()


def test_over_patches_the_same_layers_attend_and_queries_and_keys_learn(randomize):
    model = randomize(LectureNetwork(LectureNetworkConfig(**MNIST, patch=7)))
    F.cross_entropy(model(images()), torch.arange(6)).backward()
    weights = [name for name, parameter in model.named_parameters() if not name.endswith("key.bias")]
    assert [name for name in weights if not model.get_parameter(name).grad.any()] == []
    with pytest.raises(InputError, match="the queries and keys of several patches matter"):
        without_queries_and_keys(model)


def test_without_positions_patches_are_a_set(randomize):
    read = batch_of(np.random.default_rng(1).integers(0, 256, (2, 28, 28, 1), dtype=np.uint8))
    turned = batch_of(np.roll(read.pixels[:, 0].permute(0, 2, 3, 1).numpy(), 7, axis=1))
    for positions in (False, True):
        model = randomize(LectureNetwork(LectureNetworkConfig(**MNIST, patch=7, positions=positions))).eval()
        assert torch.allclose(model(read), model(turned), atol=1e-4) != positions


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"patch": 5}, "a multiple of 5"),
        ({"widths": ()}, "widths"),
        ({"patch": 7, "query_and_key": False}, "query_and_key"),
    ],
)
def test_what_cannot_be_is_refused(change, said):
    with pytest.raises(InputError, match=said):
        LectureNetworkConfig(**MNIST, **change)
