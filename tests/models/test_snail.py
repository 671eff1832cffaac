"""SNAIL: blocks against PyTorch's convolution and the equations written out, what reaches what, and nothing out of order."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import regard
from regard.checkpoints import parameters_of, read_model, write_model
from regard.errors import InputError
from regard.models import SNAIL, SNAILConfig
from regard.models.config import config_from_json, config_to_json
from regard.models.snail import AttentionBlock, ConvolutionBlock, DenseBlock, EpisodeNorm, ImageEmbedding


def tiny(**changes: Any) -> SNAILConfig:
    sizes: dict[str, Any] = {
        "ways": 3,
        "shots": 2,
        "side": 9,
        "embedding_channels": (4, 8),
        "embedding_width": 5,
        "filters": (4, 3),
        "key_widths": (4, 5, 6),
        "value_widths": (3, 4, 5),
    }
    return SNAILConfig(**(sizes | changes))


@pytest.fixture
def model(seeded, randomize):
    return randomize(SNAIL(tiny())).double().eval()


def drawn(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    images = torch.randint(256, (2, 7, 9, 9), generator=generator, dtype=torch.uint8)
    return images, torch.randint(3, (2, 6), generator=generator)


def test_a_dense_block_is_two_causal_convolutions_of_kernel_two(generator, randomize):
    block = randomize(DenseBlock(3, 2, 4)).double()
    x = torch.randn(2, 7, 3, generator=generator, dtype=torch.float64)
    kernels = block.convolutions.weight.view(2, 4, 2, 3).transpose(2, 3)  # both convolutions: filters, channels, taps
    found = [
        F.conv1d(F.pad(x.transpose(1, 2), (2, 0)), kernel, bias, dilation=2).transpose(1, 2)
        for kernel, bias in zip(kernels, block.convolutions.bias.view(2, 4), strict=True)
    ]
    expected = torch.cat((x, torch.tanh(found[0]) * torch.sigmoid(found[1])), dim=-1)
    torch.testing.assert_close(block(x), expected, rtol=1e-10, atol=1e-12)


def test_an_attention_block_is_a_softmax_over_the_places_up_to_its_own(generator, randomize):
    block = randomize(AttentionBlock(4, 3, 2)).double()
    x = torch.randn(1, 5, 4, generator=generator, dtype=torch.float64)
    query, key, value = (getattr(block.attention, name)(x)[0] for name in ("query", "key", "value"))
    for t in range(5):
        weights = (key[: t + 1] @ query[t] / 3**0.5).softmax(dim=0)
        torch.testing.assert_close(
            block(x)[0, t], torch.cat((x[0, t], weights @ value[: t + 1])), rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize("length", [2, 3, 6, 7, 8, 9, 26])
def test_the_last_place_of_a_block_of_convolutions_depends_on_every_place_and_none_on_a_later_one(length, randomize):
    block = randomize(ConvolutionBlock(3, length, 2)).double()
    x = torch.randn(1, length, 3, dtype=torch.float64, requires_grad=True)
    output = block(x)
    assert output.shape == (1, length, block.channels)
    for t in range(length):
        (gradient,) = torch.autograd.grad(output[0, t].square().sum(), x, retain_graph=True)
        assert (gradient[0, t + 1 :] == 0).all()
        assert (gradient[0, : t + 1] != 0).any(dim=-1).all()


def test_dilations_from_two_on_never_meet_a_place_at_an_odd_distance(randomize):
    """The formula as it is printed: 2^i with i from 1."""
    block = randomize(ConvolutionBlock(3, 8, 2, first_dilation=2)).double()
    x = torch.randn(1, 8, 3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(block(x)[0, 7].square().sum(), x)
    assert (gradient[0, 0::2] == 0).all()
    assert (gradient[0, 1::2] != 0).any(dim=-1).all()


def test_channels_grow_as_in_the_paper():
    """C + ceil(log2 T) D, and C + V: the defaults for 5 classes and 1 image each."""
    model = SNAIL(SNAILConfig(ways=5, shots=1, side=28))
    channels = [block.channels for block in model.blocks]
    assert channels == [69 + 32, 101 + 3 * 128, 485 + 128, 613 + 3 * 128, 997 + 256]
    assert [len(block) for block in model.blocks if isinstance(block, ConvolutionBlock)] == [3, 3]


def test_the_label_of_the_last_image_is_zeros_and_all_others_are_told(model, generator):
    images, labels = drawn(generator)
    caught = []
    model.blocks.register_forward_pre_hook(lambda module, inputs: caught.append(inputs[0]))
    model(images, labels)
    told = caught[0][..., 5:]
    assert (told[:, -1] == 0).all()
    assert torch.equal(told[:, :-1].argmax(dim=-1), labels)
    assert (told[:, :-1].sum(dim=-1) == 1).all()


def test_an_episode_alone_is_the_episode_in_a_batch_and_labels_count(model, generator):
    images, labels = drawn(generator)
    logits = model(images, labels)
    assert logits.shape == (2, 1, 3)
    torch.testing.assert_close(model(images[1:], labels[1:]), logits[1:], rtol=1e-10, atol=1e-12)
    assert not torch.allclose(model(images, (labels + 1) % 3), logits)


def test_each_of_several_images_is_read_as_if_it_were_the_only_one(model, generator):
    images, labels = drawn(generator)
    more = torch.randint(256, (2, 3, 9, 9), generator=generator, dtype=torch.uint8)
    logits = model(torch.cat((images, more), dim=1), labels)
    assert logits.shape == (2, 4, 3)
    for place in range(4):
        one = torch.cat((images, more), dim=1)[:, [*range(6), 6 + place]]
        torch.testing.assert_close(model(one, labels), logits[:, [place]], rtol=1e-10, atol=1e-12)


def test_the_norm_is_over_the_labelled_images_of_one_episode(generator):
    norm = EpisodeNorm(3, labelled=3)
    x = 5 + 2 * torch.randn(2, 5, 3, 6, 6, generator=generator)
    found = norm(x)
    labelled = found[:, :3]
    assert labelled.mean(dim=(1, 3, 4)).abs().max() < 1e-5
    torch.testing.assert_close(labelled.var(dim=(1, 3, 4), correction=0), torch.ones(2, 3), rtol=1e-4, atol=1e-4)
    # Neither the other episode nor what is asked about changes the labelled ones.
    other = x.clone()
    other[1], other[0, 3:] = torch.randn(2, 5, 3, 6, 6, generator=generator)[1], 0.0
    torch.testing.assert_close(norm(other)[0, :3], found[0, :3])


def test_drawn_vectors_of_strokes_differ_more_than_under_a_norm_of_each_image_alone(generator, seeded):
    """Where they hardly differ, no query is nearer to one image than to another, and nothing is learnt for long."""
    images = -torch.ones(60, 1, 16, 16)
    for image in images:
        row, column = torch.randint(2, 14, (2,), generator=generator).tolist()
        image[0, row, 2:14], image[0, 2:14, column] = 1.0, 1.0
    embedding = ImageEmbedding((16, 16), 32, side=16, labelled=5)
    episodes = images.unflatten(0, (10, 6))
    spread = [deviation_of(embedding(episodes).flatten(0, 1))]
    for block in list(embedding)[:2]:
        block.norm = OfEachImage(2, 16)
    spread.append(deviation_of(embedding(episodes).flatten(0, 1)))
    assert spread[0] > 1.2 * spread[1]


class OfEachImage(torch.nn.GroupNorm):
    """A norm that knows nothing of episodes."""

    def forward(self, input):
        return super().forward(input.flatten(0, 1)).unflatten(0, input.shape[:2])


def deviation_of(vectors):
    """How far vectors (N, D) are from their mean, beside their length."""
    return ((vectors - vectors.mean(dim=0)).norm(dim=1).mean() / vectors.norm(dim=1).mean()).item()


def test_attention_is_seen_and_folders_give_the_model_back(generator, seeded, tmp_path):
    config, (images, labels) = tiny(), drawn(generator)
    model = SNAIL(config).eval()
    write_model(tmp_path, config, parameters_of(model), task={}, recipe={}, metrics={})
    again = read_model(tmp_path)
    with regard.look(again) as seen:
        assert torch.equal(again(images, labels), model(images, labels))
    assert seen.addresses == ["blocks.0.attention", "blocks.2.attention", "blocks.4.attention"]
    weights = seen.weights("blocks.4.attention")
    assert weights.shape == (2, 1, 7, 7)
    assert (weights.triu(1) == 0).all()
    assert config_from_json(SNAILConfig, config_to_json(config), "config") == config


def test_every_parameter_learns(generator, seeded):
    model = SNAIL(tiny())
    F.cross_entropy(model(*drawn(generator))[:, 0], torch.tensor([0, 2])).backward()
    keys = "attention.key.bias"  # adds the same to all scores of a query
    assert all((p.grad != 0).any() for name, p in model.named_parameters() if not name.endswith(keys))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"filters": (4,)}, "filters is .* but must be 2 sizes"),
        ({"key_widths": (4, 5, 0)}, "key_widths"),
        ({"blocks": ("attention", "convolution")}, "convolutions"),
        ({"side": 3}, "side is 3 but must be at least 4"),
        ({"ways": 1}, "ways"),
        ({"embedding_channels": ()}, "embedding_channels"),
    ],
)
def test_sizes_that_cannot_be_are_refused(changes, said):
    with pytest.raises(InputError, match=said):
        tiny(**changes)


def test_images_that_are_no_episode_are_refused(model):
    with pytest.raises(ValueError, match="no episodes of 6 labelled images of 9 x 9"):
        model(torch.zeros(2, 6, 9, 9, dtype=torch.uint8), torch.zeros(2, 5, dtype=torch.int64))
