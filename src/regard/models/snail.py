"""A simple neural attentive meta-learner (Mishra, Rohaninejad, Chen, Abbeel 2018), SNAIL: alternating convolutions and attention.

The names in the comments are the paper's (section 3): a sequence x of T vectors of C channels; D the filters of a block of
convolutions over time, R the dilation of one of them; K and V the widths of keys and values of an attention block. Every block
concatenates its input and its output, so the number of channels grows from block to block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import AttentionLayer, Causal, ScaledDot, ScoredAttention
from regard.models.config import check, check_sizes, check_types


@dataclass(frozen=True, kw_only=True, slots=True)
class SNAILConfig:
    """The sizes of a SNAIL; the defaults are those for Omniglot, as recalled.

    Arguments:
        ways: N, the classes of an episode.
        shots: K, the labelled images of each class. A sequence has T = N K + 1 images: these and one without a label.
        side: rows and columns of an image, in pixels.
        embedding_channels: of the convolutions of the image embedding, each of which halves rows and columns.
        embedding_width: the width of the image embedding.
        blocks: the blocks, in order.
        filters: D of each block of convolutions, one number for each.
        key_widths, value_widths: K and V of each attention block, one number for each.
        first_dilation: the dilation of the first convolution of a block; each further one has twice the dilation of the previous
            one. With 1 all earlier positions are reached; with 2, as in the paper's formula, only those at an even distance.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "snail"

    ways: int
    shots: int
    side: int
    embedding_channels: tuple[int, ...] = (64, 64, 64, 64)
    embedding_width: int = 64
    blocks: tuple[Literal["attention", "convolutions"], ...] = (
        "attention",
        "convolutions",
        "attention",
        "convolutions",
        "attention",
    )
    filters: tuple[int, ...] = (128, 128)
    key_widths: tuple[int, ...] = (64, 256, 512)
    value_widths: tuple[int, ...] = (32, 128, 256)
    first_dilation: int = 1

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(self, "shots", "embedding_width", "first_dilation")
        check(self.ways >= 2, "ways", self.ways, "at least 2", "5 and 20 are the paper's")
        least = 1 << len(self.embedding_channels)
        check(self.side >= least, "side", self.side, f"at least {least}", "leave out some of embedding_channels")
        check(
            len(self.embedding_channels) > 0, "embedding_channels", self.embedding_channels, "one or more", "give some"
        )
        wanted = {"filters": "convolutions", "key_widths": "attention", "value_widths": "attention"}
        for name, kind in wanted.items():
            count, value = self.blocks.count(kind), getattr(self, name)
            fits = len(value) == count and all(width > 0 for width in value)
            check(fits, name, value, f"{count} sizes, one for each block of {kind}", "make them as many")
        channels = all(width > 0 for width in self.embedding_channels)
        check(channels, "embedding_channels", self.embedding_channels, "all above 0", "give sizes")

    @property
    def length(self) -> int:
        """T, the number of images in a sequence."""
        return self.ways * self.shots + 1


class DenseBlock(nn.Module):
    """A gated causal convolution of kernel 2, concatenated with its input.

        act = tanh(conv_R(x)) * sigmoid(conv'_R(x)),   conv_R(x)_t = W_1 x_t + W_0 x_{t-R} + b
        output = [x ; act]

    Arguments:
        channels: C.
        dilation: R; the input before the first position is zero.
        filters: D.
    """

    def __init__(self, channels: int, dilation: int, filters: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.convolutions = nn.Linear(2 * channels, 2 * filters)  # both convolutions, on [x_{t-R} ; x_t]

    def forward(self, x: Tensor) -> Tensor:
        """X (B, T, C) to (B, T, C + D)."""
        before = F.pad(x, (0, 0, self.dilation, 0))[:, : x.shape[1]]
        found, gate = self.convolutions(torch.cat((before, x), dim=-1)).chunk(2, dim=-1)
        return torch.cat((x, torch.tanh(found) * torch.sigmoid(gate)), dim=-1)


class ConvolutionBlock(nn.Sequential):
    """The paper's TC block: ceil(log2 T) dense blocks of growing dilation, so that the last position depends on the first.

    Arguments:
        channels: C.
        length: T.
        filters: D; the output has C + ceil(log2 T) D channels.
        first_dilation: the dilation of the first one; each further one has twice the dilation of the previous one.
    """

    def __init__(self, channels: int, length: int, filters: int, first_dilation: int = 1) -> None:
        count = math.ceil(math.log2(length))
        self.channels = channels + count * filters
        super().__init__(
            *(DenseBlock(channels + place * filters, first_dilation << place, filters) for place in range(count))
        )


class AttentionBlock(nn.Module):
    """The paper's attention block: causal attention, concatenated with its input.

        q, k, v = affine maps of x,   P = softmax(q k^T / sqrt(K)) over keys up to the query's position
        output = [x ; P v]

    Arguments:
        channels: C.
        key_width, value_width: K and V; the output has C + V channels.
    """

    def __init__(self, channels: int, key_width: int, value_width: int) -> None:
        super().__init__()
        self.channels = channels + value_width
        self.attention = AttentionLayer(
            query=nn.Linear(channels, key_width),
            key=nn.Linear(channels, key_width),
            value=nn.Linear(channels, value_width),
            output=nn.Identity(),
            attention=ScoredAttention(ScaledDot()),
        )

    def forward(self, x: Tensor) -> Tensor:
        """X (B, T, C) to (B, T, C + V)."""
        return torch.cat((x, self.attention(x, self.attention.keys_values(x), mask=Causal())), dim=-1)


class EpisodeNorm(nn.Module):
    """Batch norm over an episode: each channel has mean 0 and variance 1 over all positions of the episode's labelled images.

        y = g (x - mean) / sqrt(variance + 1e-5) + b,   mean and variance over the labelled images

    Unlike the paper's batch norm it has no running statistics, does not depend on other episodes, and is the same in training
    and in evaluation. Images without a label are normalised with the same mean and variance. With a norm of each image alone the
    vectors of Omniglot's images differ by a fifth of their length; with this norm by twice that.

    Arguments:
        channels: C.
        labelled: the number of labelled images of an episode, which come first.

    >>> norm = EpisodeNorm(2, labelled=3)
    >>> x = norm(3 + torch.randn(8, 4, 2, 5, 5))  # eight episodes of four images
    >>> x[0, :3].mean(dim=(0, 2, 3)).abs().max() < 1e-5
    tensor(True)
    """

    def __init__(self, channels: int, labelled: int) -> None:
        super().__init__()
        self.labelled = labelled
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """(B, P, C, Y, X) to the same: P images of each of B episodes."""
        exact = torch.promote_types(x.dtype, torch.float32)
        variance, mean = torch.var_mean(x[:, : self.labelled].to(exact), dim=(1, 3, 4), correction=0, keepdim=True)
        scale = self.weight.view(-1, 1, 1) * (variance + 1e-5).rsqrt()
        return ((x - mean) * scale + self.bias.view(-1, 1, 1)).to(x.dtype)


class ImageBlock(nn.Module):
    """A 3 x 3 convolution with a norm over the episode, ReLU and 2 x 2 max pooling.

    Arguments:
        before, after: channels of its input and of its output.
        labelled: the number of labelled images of an episode, which come first.
    """

    def __init__(self, before: int, after: int, labelled: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(before, after, kernel_size=3, padding=1)
        self.norm = EpisodeNorm(after, labelled)

    def forward(self, x: Tensor) -> Tensor:
        """(B, P, C, Y, X) to (B, P, C', Y / 2, X / 2)."""
        found = self.norm(self.convolution(x.flatten(0, 1)).unflatten(0, x.shape[:2]))
        return F.max_pool2d(found.flatten(0, 1).relu(), 2).unflatten(0, x.shape[:2])


class ImageEmbedding(nn.Sequential):
    """A vector of each image of an episode, (B, P, 1, Y, X) to (B, P, width): blocks of convolution, and a linear map.

    Arguments:
        channels: of each convolution.
        width: of the vector.
        side: of an image, in pixels.
        labelled: the number of labelled images of an episode, which come first.
    """

    def __init__(self, channels: tuple[int, ...], width: int, side: int, labelled: int) -> None:
        blocks = [ImageBlock(*pair, labelled) for pair in zip((1, *channels[:-1]), channels, strict=True)]
        left = side >> len(channels)
        super().__init__(*blocks, nn.Flatten(2), nn.Linear(channels[-1] * left * left, width))


class SNAIL(nn.Module):
    """A few-shot classifier that reads the labelled images of an episode in sequence, and then one without a label.

        x_t = [embedding(image_t) ; one-hot(label_t)],   the last label is zeros
        p(class of the last image) = softmax(W blocks(x)_T + b)

    Several images without a label can follow the same labelled ones. Each is classified independently of the others.

    Arguments:
        config: its sizes.

    >>> model = SNAIL(SNAILConfig(ways=3, shots=2, side=16))
    >>> model(torch.zeros(4, 7, 16, 16, dtype=torch.uint8), torch.zeros(4, 6, dtype=torch.int64)).shape
    torch.Size([4, 1, 3])
    """

    def __init__(self, config: SNAILConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = ImageEmbedding(
            config.embedding_channels, config.embedding_width, config.side, config.length - 1
        )
        channels = config.embedding_width + config.ways
        filters, widths = iter(config.filters), zip(config.key_widths, config.value_widths, strict=True)
        blocks: list[ConvolutionBlock | AttentionBlock] = []
        for kind in config.blocks:
            if kind == "convolutions":
                blocks.append(ConvolutionBlock(channels, config.length, next(filters), config.first_dilation))
            else:
                blocks.append(AttentionBlock(channels, *next(widths)))
            channels = blocks[-1].channels
        self.blocks = nn.Sequential(*blocks)
        self.output = nn.Linear(channels, config.ways)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """The class of each image without a label.

        Arguments:
            images: (B, N K + Q, Y, X) uint8, the labelled ones first.
            labels: (B, N K) int64, in [0, N), of these.

        Returns:
            (B, Q, N) logits.

        Raises:
            ValueError: for images of another size, or too few.
        """
        side, shown = self.config.side, self.config.length - 1
        if images.shape[2:] != (side, side) or images.shape[1] <= shown or labels.shape[1] != shown:
            raise ValueError(
                f"images {tuple(images.shape)} and labels {tuple(labels.shape)} are no episodes of {shown} labelled "
                f"images of {side} x {side} and at least one more"
            )
        embedded = self.embedding(images.unsqueeze(2).to(self.output.weight.dtype) / 127.5 - 1)
        told = F.one_hot(labels, self.config.ways).to(embedded.dtype)
        learnt = torch.cat((embedded[:, :shown], told), dim=-1)  # (B, N K, C)
        asked = F.pad(embedded[:, shown:], (0, self.config.ways))  # (B, Q, C)
        batch, count = asked.shape[:2]
        x = torch.cat((learnt.unsqueeze(1).expand(-1, count, -1, -1), asked.unsqueeze(2)), dim=2)
        return self.output(self.blocks(x.flatten(0, 1))[:, -1]).unflatten(0, (batch, count))
