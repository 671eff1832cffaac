"""What the captioners share: their interface, their outputs, and checks of their configs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from torch import Tensor, nn

from regard.layers import DecoderState, PictureEncoder, Pictures, Tokens
from regard.models.config import check, check_shares, check_sizes, check_tokens, check_types

S = TypeVar("S", bound=DecoderState)


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """What hard attention drew.

    Arguments:
        places: (B, L) int64, the place each word looked at.
        valid: (B, L) bool, True = it was sampled; a word that took the mean of all places drew none.
        baseline: a scalar of the model's, moved in place by whoever knows the loss; see `regard.tasks.caption_data`.
    """

    places: Tensor
    valid: Tensor
    baseline: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Captioned:
    """What a captioner outputs for given captions.

    Arguments:
        logits: (B, L, V); row l predicts word l + 1.
        weights: (B, L, S) float32, alpha_ti: how probable each place is for each word, before anything is sampled, with a
            gradient; None where they were not asked for, or there is no attention.
        places: (B, S) bool, True = a place of a real frame; where there are weights.
        drawn: what was sampled, by hard attention in training.
    """

    logits: Tensor
    weights: Tensor | None = None
    places: Tensor | None = None
    drawn: Drawn | None = None


class PictureDecoder(nn.Module, ABC, Generic[S]):
    """A model that reads images and writes: a `Decoder` whose source is `Pictures`.

    Arguments:
        config: the model's sizes.
        encoder: what reads the images.
    """

    has_alignment: bool = False
    maximum_target_length: int | None = None  # a recurrent net has no positions to run out of
    length_setting: str = "model.frames"

    def __init__(self, config: Any, encoder: PictureEncoder) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder

    @property
    def maximum_source_length(self) -> int:
        """The most frames of a sequence."""
        return self.encoder.frames

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of places in one frame."""
        return self.encoder.grid

    @abstractmethod
    def forward(self, pictures: Pictures, target: Tokens, *, attended: bool = False) -> Captioned:
        """Logits of every next word, given the true ones before it.

        Arguments:
            pictures: B of them.
            target: (B, L) tokens, shifted right: the start token first.
            attended: whether to give the weights too, with a gradient.
        """

    @abstractmethod
    def start(self, source: Pictures) -> S:
        """Read the images."""

    @abstractmethod
    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:
        """Consume tokens (N,); return the logits (N, V) of the next and the state after."""

    def alignment(self, state: S) -> Tensor:
        """(N, S) float32: how much the last step looked at each place; zeros before the first, and without attention."""
        return state.no_alignment()


def encoder_of(config: Any) -> PictureEncoder:
    """The encoder that a config describes."""
    return PictureEncoder(
        config.picture_channels,
        config.convolutions,
        config.feature_width,
        height=config.picture_height,
        picture_width=config.picture_width,
        frames=config.frames,
        dropout=config.dropout,
    )


def check_captioner(config: Any, *sizes: str) -> None:
    """Refuse what no captioner can be.

    Arguments:
        sizes: further settings that are at least 1.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """
    check_types(config)
    common = ("target_vocabulary", "picture_height", "picture_width", "picture_channels", "frames", "feature_width")
    check_sizes(config, *common, *sizes)
    check(
        bool(config.convolutions) and min(config.convolutions) > 0,
        "convolutions",
        config.convolutions,
        "one number of channels or more, each at least 1",
        "such as [16, 32, 64]",
    )
    halved = 2 ** len(config.convolutions)
    for name in ("picture_height", "picture_width"):
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
