"""An image is worth 16 x 16 words: Transformers for image recognition at scale (Dosovitskiy et al. 2021), the Vision Transformer.

The names in the comments are the paper's (section 3.1): E the projection of a patch, E_pos the position embeddings, z_l the
vectors after layer l.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor, nn

from regard.attention import MultiHeadAttention, Positions
from regard.layers import (
    ACTIVATIONS,
    Activation,
    Dropout,
    EncoderBlock,
    FeedForward,
    Images,
    PatchEmbedding,
    Pixels,
    Residual,
    halving_blocks,
)
from regard.layers.images import POSITION_INIT_STD, SCALE, Grid, resized_positions
from regard.models.config import check, check_channels, check_divides, check_image_classifier, check_shares
from regard.structure import renamed

NORM_EPSILON = 1e-6
"""The epsilon of the layer norms in the authors' code."""


@renamed(position_deviation="position_init_std", pixel_deviation="pixel_std")
@dataclass(frozen=True, kw_only=True, slots=True)
class ViTConfig:
    """The sizes of a Vision Transformer. The defaults are those of ViT-B/16.

    Arguments:
        image_height, image_width, image_channels: of the images, in pixels. Filled in by the task.
        outputs: the number of classes; with 0 the model returns the vector of the image. Filled in by the task.
        patch: P, the side of a square patch in pixels; with convolutions, in positions of their output.
        width: D.
        heads: H; divides the width.
        feedforward_width: the hidden width of the feed-forward networks.
        layers: number of blocks.
        convolutions: the channels of convolutional blocks before the patches, each of which halves height and width; empty in the
            plain model of the paper, not empty in its hybrid.
        pooling: the vector of the image: `token`, that of the class token; or `mean`, the mean over patches, with no class token.
        activation: of the feed-forward networks.
        query_key_value_bias: whether the projections of queries, keys and values have biases.
        dropout: probability of dropping an entry of the embedding, inside feed-forward networks and of each sub-layer's output in
            training.
        attention_dropout: of attention weights.
        position_init_std: standard deviation of the initial position embeddings. The paper's 0.02 is much smaller than the vector
            of a patch; with 1 they have about the same size, and a small model learns faster.
        norm_epsilon: added to the variance in layer norms.
        pixel_mean, pixel_std: the mean subtracted from pixels in [0, 1] and the divisor, one number or one for each channel.
        pixel_scale: the factor that maps pixels from 0 .. 255 to [0, 1]; 1 / 255, unless the folder of another library has
            another one.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "vit"

    image_height: int
    image_width: int
    image_channels: int
    outputs: int
    patch: int = 16
    width: int = 768
    heads: int = 12
    feedforward_width: int = 3072
    layers: int = 12
    convolutions: tuple[int, ...] = ()
    pooling: Literal["token", "mean"] = "token"
    activation: Activation = "gelu"
    query_key_value_bias: bool = True
    dropout: float = 0.0
    attention_dropout: float = 0.0
    position_init_std: float = POSITION_INIT_STD
    norm_epsilon: float = NORM_EPSILON
    pixel_mean: tuple[float, ...] = (0.5,)
    pixel_std: tuple[float, ...] = (0.5,)
    pixel_scale: float = SCALE

    def __post_init__(self) -> None:
        check_image_classifier(self, "patch", "width", "heads", "feedforward_width", "layers", least=0)
        check_channels("convolutions", self.convolutions, some=False)
        check(
            self.width % self.heads == 0,
            "heads",
            self.heads,
            f"a divisor of width {self.width}",
            "change one of the two",
        )
        check_divides(self, "patch", self.step, "the pixels from one patch to the next")
        check_shares(self, "attention_dropout", usual="0.1 is usual")
        for name in ("norm_epsilon", "position_init_std", "pixel_scale"):
            check(getattr(self, name) > 0, name, getattr(self, name), "above 0", "leave it out for the paper's")
        for name in ("pixel_mean", "pixel_std"):
            value = getattr(self, name)
            check(
                len(value) in (1, self.image_channels),
                name,
                value,
                "one number, or one for each channel",
                "give so many",
            )
        check(min(self.pixel_std) > 0, "pixel_std", self.pixel_std, "above 0", "0.5 is usual")

    @property
    def grid(self) -> Grid:
        """Rows and columns of patches."""
        return self.image_height // self.step, self.image_width // self.step

    @property
    def step(self) -> int:
        """Pixels from one patch to the next."""
        return self.patch << len(self.convolutions)

    @classmethod
    def base(cls, patch: int = 16, *, size: int = 224, outputs: int = 1_000) -> ViTConfig:
        """ViT-B: 86,567,656 parameters with patches of 16."""
        return cls(image_height=size, image_width=size, image_channels=3, outputs=outputs, patch=patch)

    @classmethod
    def large(cls, patch: int = 16, *, size: int = 224, outputs: int = 1_000) -> ViTConfig:
        """ViT-L: 304,326,632 parameters with patches of 16."""
        return cls._of(24, 1024, 4096, 16, patch, size, outputs)

    @classmethod
    def huge(cls, patch: int = 14, *, size: int = 224, outputs: int = 1_000) -> ViTConfig:
        """ViT-H: 632,045,800 parameters with patches of 14."""
        return cls._of(32, 1280, 5120, 16, patch, size, outputs)

    @classmethod
    def tiny(cls, patch: int = 16, *, size: int = 224, outputs: int = 1_000) -> ViTConfig:
        """ViT-Ti of the authors' repository."""
        return cls._of(12, 192, 768, 3, patch, size, outputs)

    @classmethod
    def small(cls, patch: int = 16, *, size: int = 224, outputs: int = 1_000) -> ViTConfig:
        """ViT-S of the authors' repository."""
        return cls._of(12, 384, 1536, 6, patch, size, outputs)

    @classmethod
    def _of(
        cls, layers: int, width: int, feedforward_width: int, heads: int, patch: int, size: int, outputs: int
    ) -> ViTConfig:
        return cls(
            image_height=size,
            image_width=size,
            image_channels=3,
            outputs=outputs,
            patch=patch,
            width=width,
            heads=heads,
            feedforward_width=feedforward_width,
            layers=layers,
        )


class ViT(nn.Module):
    """A Transformer encoder over the patches of an image (Dosovitskiy et al. 2021, section 3.1).

        z_0 = [x_class; x_1 E; ...; x_N E] + E_pos                        (1)
        z'_l = MSA(LN(z_{l-1})) + z_{l-1}                                 (2)
        z_l = MLP(LN(z'_l)) + z'_l                                        (3)
        y = LN(z_L)_0,   logits = W y + b                                 (4)

    The model has no built-in locality or translation equivariance: it learns which patches are neighbours. With `convolutions`
    patches are taken from the output of the convolutions, as in the paper's hybrid. With `pooling: mean` y is the mean over
    patches.

    Arguments:
        config: its sizes.

    >>> import torch
    >>> config = ViTConfig(image_height=8, image_width=8, image_channels=1, outputs=3, patch=4, width=8, heads=2,
    ...                    feedforward_width=16, layers=1)
    >>> images = Images(torch.zeros(2, 1, 1, 8, 8, dtype=torch.uint8), torch.ones(2, 1, dtype=torch.bool))
    >>> ViT(config)(images).shape
    torch.Size([2, 3])
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        self.pixels = Pixels(
            (config.image_channels, config.image_height, config.image_width),
            mean=config.pixel_mean,
            std=config.pixel_std,
            scale=config.pixel_scale,
        )
        self.stem = halving_blocks(config.image_channels, config.convolutions)
        self.embedding = PatchEmbedding(
            (config.image_channels, *config.convolutions)[-1],
            config.width,
            patch=config.patch,
            grid=config.grid,
            token=config.pooling == "token",
            init_std=config.position_init_std,
        )
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(_block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width, eps=config.norm_epsilon)
        self.head = nn.Linear(config.width, config.outputs) if config.outputs else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise as the authors' code: Xavier uniform matrices, tiny biases in feed-forward networks, a head of zeros."""
        for module in self.layers.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for module in self.layers.modules():
            if isinstance(module, FeedForward):
                nn.init.normal_(module.inner.bias, std=1e-6)
                nn.init.normal_(module.outer.bias, std=1e-6)
        if self.head is not None:
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)

    @property
    def grid(self) -> Grid:
        """Rows and columns of patches."""
        return self.config.grid

    @property
    def leading(self) -> int:
        """The number of vectors before those of the patches: 1 with a class token, else 0."""
        return int(self.config.pooling == "token")

    def hidden(self, images: Images) -> Tensor:
        """LN(z_L), (B, N + 1, D) with the class token first, or (B, N, D) without one."""
        x = self.stem(self.pixels(images, self.norm.weight.dtype))
        x = self.dropout(self.embedding(x))
        positions = Positions.of_text(x.shape[1], device=x.device)
        for layer in self.layers:
            x = layer(x, None, positions=positions)
        return self.norm(x)

    def forward(self, images: Images) -> Tensor:
        """Images to logits (B, outputs), or to y (B, D) without classes."""
        hidden = self.hidden(images)
        pooled = hidden[:, 0] if self.config.pooling == "token" else hidden.mean(dim=1)
        return pooled if self.head is None else self.head(pooled)


def at_size(tensors: dict[str, Tensor], before: ViTConfig, after: ViTConfig) -> dict[str, Tensor]:
    """The parameters of a ViT for images of another size: position embeddings are interpolated, all others are kept.

    A ViT is often fine-tuned at a higher resolution than in pre-training (section 3.2).

    Arguments:
        tensors: the parameters by name.
        before, after: the config of these parameters, and the config of the new ones.
    """
    name = "embedding.positions"
    if name not in tensors or before.grid == after.grid:
        return tensors
    return {**tensors, name: resized_positions(tensors[name], before.grid, after.grid)}


def _block(config: ViTConfig) -> EncoderBlock:
    attention = MultiHeadAttention(config.width, config.heads, dropout=config.attention_dropout)
    if not config.query_key_value_bias:
        for projection in (attention.query, attention.key, attention.value):
            projection.register_parameter("bias", None)
    return EncoderBlock(
        attention=attention,
        feedforward=FeedForward(
            config.width, config.feedforward_width, activation=ACTIVATIONS[config.activation], dropout=config.dropout
        ),
        residual=lambda: Residual.with_norm("pre", config.width, dropout=config.dropout, epsilon=config.norm_epsilon),
    )
