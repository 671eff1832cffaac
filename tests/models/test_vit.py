"""The Vision Transformer: patches, positions, published sizes, and what it starts from."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.layers import PatchEmbedding
from regard.layers.images import resized_positions
from regard.models import ConvolutionalNetwork, ConvolutionalNetworkConfig, ViT, ViTConfig
from regard.tasks.image_classification import batch_of

TINY = {
    "image_height": 12,
    "image_width": 8,
    "image_channels": 3,
    "outputs": 5,
    "patch": 4,
    "width": 16,
    "heads": 2,
    "feedforward_width": 24,
    "layers": 2,
}


def images(count: int = 3, seed: int = 0):
    return batch_of(np.random.default_rng(seed).integers(0, 256, (count, 12, 8, 3), dtype=np.uint8))


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (ViTConfig.base(), 86_567_656),
        (ViTConfig.large(), 304_326_632),
        (ViTConfig.huge(), 632_045_800),
        (ViTConfig.tiny(), 5_717_416),
        (ViTConfig.small(), 22_050_664),
    ],
)
def test_published_configurations_have_their_published_parameters(config, parameters):
    with torch.device("meta"):
        model = ViT(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert (model.grid, model.leading) == (((14, 14), 1) if config.patch == 16 else ((16, 16), 1))


def test_a_patch_laid_out_and_mapped_is_the_strided_convolution(generator):
    """The order of a patch's numbers is the kernel's: channel, row, column. Patches are numbered row by row."""
    embedding = PatchEmbedding(3, 16, patch=4, grid=(3, 2), token=False, positions=False)
    x = torch.randn(2, 3, 12, 8, generator=generator)
    matrix = embedding.projection.weight.flatten(1)  # (D, C P P)
    expected = torch.stack(
        [
            x[:, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4].flatten(1) @ matrix.T
            + embedding.projection.bias
            for row in range(3)
            for column in range(2)
        ],
        dim=1,
    )
    torch.testing.assert_close(embedding(x), expected)


@pytest.mark.parametrize("pooling", ["token", "mean"])
def test_the_model_is_its_equations(pooling, randomize):
    model = randomize(ViT(ViTConfig(**TINY, pooling=pooling))).eval()
    read = images()
    z = model.embedding.projection(read.pixels[:, 0].float() / 127.5 - 1).flatten(2).transpose(1, 2)
    if pooling == "token":
        z = torch.cat((model.embedding.token.expand(3, -1, -1), z), dim=1)
    z = z + model.embedding.positions
    for layer in model.layers:
        y, heads = layer.attention_residual.before(z), []
        q, k, v = (getattr(layer.attention, part)(y).split(8, dim=-1) for part in ("query", "key", "value"))
        for h in range(2):
            heads.append((q[h] @ k[h].transpose(1, 2) / 8**0.5).softmax(dim=-1) @ v[h])
        z = z + layer.attention.output(torch.cat(heads, dim=-1))
        z = z + layer.feedforward.outer(F.gelu(layer.feedforward.inner(layer.feedforward_residual.before(z))))
    z = model.norm(z)
    torch.testing.assert_close(model(read), model.head(z[:, 0] if pooling == "token" else z.mean(dim=1)))


def test_patches_that_change_places_with_their_positions_change_nothing(randomize, generator):
    """Only the positions know where a patch is (permutation equivariance)."""
    model = randomize(ViT(ViTConfig(**TINY))).eval()
    order = torch.randperm(6, generator=generator)
    read = images()
    cut = read.pixels[:, 0].unflatten(2, (3, 4)).unflatten(4, (2, 4)).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    mixed = cut[:, order].unflatten(1, (3, 2)).permute(0, 3, 1, 4, 2, 5).flatten(2, 3).flatten(3, 4)
    turned = batch_of(mixed.permute(0, 2, 3, 1).numpy())
    before = model(read)
    assert not torch.allclose(model(turned), before, atol=1e-3)
    with torch.no_grad():
        model.embedding.positions[:, 1:] = model.embedding.positions[:, 1:][:, order]
    torch.testing.assert_close(model(turned), before)


def test_it_starts_as_the_authors_code_does():
    model = ViT(ViTConfig(**{**TINY, "width": 64, "feedforward_width": 256}))
    assert not model.embedding.token.any()
    assert not model.head.weight.any()
    assert 0.01 < model.embedding.positions.std() < 0.03
    inner = model.layers[0].feedforward.inner
    assert 0 < inner.bias.abs().max() < 1e-5
    assert inner.weight.abs().max() <= (6 / (64 + 256)) ** 0.5  # Xavier's uniform distribution


@settings(max_examples=20, deadline=None)
@given(
    st.tuples(st.integers(1, 6), st.integers(1, 6)), st.tuples(st.integers(1, 9), st.integers(1, 9)), st.integers(0, 2)
)
def test_positions_for_another_size_keep_what_stands_before_and_what_is_constant(before, after, leading):
    positions = torch.randn(1, leading + before[0] * before[1], 3)
    positions[:, leading:] = 0.7
    found = resized_positions(positions, before, after)
    assert found.shape == (1, leading + after[0] * after[1], 3)
    assert torch.equal(found[:, :leading], positions[:, :leading])
    torch.testing.assert_close(found[:, leading:], torch.full_like(found[:, leading:], 0.7))


def test_convolutions_in_front_make_a_hybrid(randomize):
    hybrid = ViTConfig(**{**TINY, "patch": 2}, convolutions=(8,))
    model = randomize(ViT(hybrid)).eval()
    assert (model.grid, model(images()).shape) == ((3, 2), (3, 5))


def test_a_model_without_classes_gives_the_vector(randomize):
    model = randomize(ViT(ViTConfig(**{**TINY, "outputs": 0}))).eval()
    assert torch.equal(model(images()), model.hidden(images())[:, 0])


def test_the_claims_convolutional_network_has_as_many_parameters_as_its_vit():
    digits = {"image_height": 28, "image_width": 28, "image_channels": 1, "outputs": 10}
    vit = ViT(ViTConfig(**digits, patch=4, width=64, heads=4, feedforward_width=128, layers=4))
    other = ConvolutionalNetwork(ConvolutionalNetworkConfig(**digits, convolutions=(32, 64, 94)))
    one, two = (sum(parameter.numel() for parameter in model.parameters()) for model in (vit, other))
    assert abs(one - two) / one < 0.01


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"patch": 5}, "image_height is 12 but must be a multiple of 5"),
        ({"heads": 3}, "heads is 3 but must be a divisor of width 16"),
        ({"convolutions": (0,)}, "convolutions"),
        ({"pixel_mean": (0.5, 0.5)}, "pixel_mean"),
        ({"pixel_std": (0.0,)}, "pixel_std"),
        ({"attention_dropout": 1.0}, "attention_dropout"),
        ({"pooling": "max"}, "pooling"),
    ],
)
def test_what_cannot_be_is_refused(change, said):
    with pytest.raises(InputError, match=said):
        ViTConfig(**{**TINY, **change})


def test_images_of_another_size_are_refused():
    with pytest.raises(ValueError, match="for a model of one frame and"):
        ViT(ViTConfig(**TINY))(batch_of(np.zeros((1, 8, 8, 3), np.uint8)))
