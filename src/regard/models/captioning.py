"""The interface of captioners, their outputs, and checks of their configs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from torch import Tensor, nn

from regard.layers import DecoderState, ImageEncoder, Images, Tokens
from regard.models.config import check, check_shares, check_sizes, check_tokens, check_types

S = TypeVar("S", bound=DecoderState)


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """The positions that hard attention sampled.

    Arguments:
        places: (B, L) int64, the image position that each word attended to.
        valid: (B, L) bool, True = it was sampled; a word that used the mean of all positions has no sample.
        baseline: a scalar buffer of the model, updated in place with the loss; see `regard.tasks.caption_data`.
    """

    places: Tensor
    valid: Tensor
    baseline: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Captioned:
    """The output of a captioner for given captions.

    Arguments:
        logits: (B, L, V); row l predicts word l + 1.
        weights: (B, L, S) float32, alpha_ti: the probability of each image position for each word, before sampling, with a
            gradient; None if they were not requested, or there is no attention.
        places: (B, S) bool, True = a position of a real frame; None without weights.
        sampled: the samples of hard attention in training.
    """

    logits: Tensor
    weights: Tensor | None = None
    places: Tensor | None = None
    sampled: Sampled | None = None


class ImageDecoder(nn.Module, ABC, Generic[S]):
    """A model that predicts captions of images: a `Decoder` whose source is `Images`.

    Arguments:
        config: the model's sizes.
        encoder: the network that reads the images.
    """

    has_alignment: bool = False
    maximum_target_length: int | None = None  # a recurrent net has no positions to run out of
    length_setting: str = "model.frames"

    def __init__(self, config: Any, encoder: ImageEncoder) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder

    @property
    def maximum_source_length(self) -> int:
        """The most frames of a sequence."""
        return self.encoder.frames

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of positions in one frame."""
        return self.encoder.grid

    @abstractmethod
    def forward(self, images: Images, target: Tokens, *, attended: bool = False) -> Captioned:
        """Logits of every next word, given the true previous words (teacher forcing).

        Arguments:
            images: B images or sequences of frames.
            target: (B, L) tokens, shifted right: the start token first.
            attended: whether to return the weights too, with a gradient.
        """

    @abstractmethod
    def start(self, source: Images) -> S:
        """Read the images."""

    @abstractmethod
    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:
        """Consume tokens (N,); return the logits (N, V) of the next and the state after."""

    def alignment(self, state: S) -> Tensor:
        """The attention weights of the last step, (N, S) float32; zeros before the first step, and without attention."""
        return state.no_alignment()


def encoder_of(config: Any) -> ImageEncoder:
    """The encoder that a config describes."""
    return ImageEncoder(
        config.image_channels,
        config.convolutions,
        config.feature_width,
        height=config.image_height,
        image_width=config.image_width,
        frames=config.frames,
        dropout=config.dropout,
    )


def check_captioner(config: Any, *sizes: str) -> None:
    """Refuse settings that are not allowed for a captioner.

    Arguments:
        sizes: further settings that are at least 1.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """
    check_types(config)
    common = ("target_vocabulary", "image_height", "image_width", "image_channels", "frames", "feature_width")
    check_sizes(config, *common, *sizes)
    check(
        bool(config.convolutions) and min(config.convolutions) > 0,
        "convolutions",
        config.convolutions,
        "one number of channels or more, each at least 1",
        "such as [16, 32, 64]",
    )
    halved = 2 ** len(config.convolutions)
    for name in ("image_height", "image_width"):
        value = getattr(config, name)
        check(
            value % halved == 0,
            name,
            value,
            f"a multiple of {halved}, for {len(config.convolutions)} convolutions each halve it",
            "change the size of the images (data.height, data.width), or model.convolutions",
        )
    check_shares(config, "dropout", usual="0.1 to 0.5 is usual")
    check_tokens(config, "padding_id", "start_id", "end_id", of="target_vocabulary")
