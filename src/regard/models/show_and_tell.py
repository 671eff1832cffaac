"""Show and tell: a neural image caption generator (Vinyals, Toshev, Bengio, Erhan 2015), NIC.

The names in the comments are the paper's: the image I, words S_t, word embeddings We S_t, inputs x_t and outputs m_t of the LSTM
(section 3.1).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.layers import (
    TARGET,
    DecoderState,
    Dropout,
    Images,
    LSTMStack,
    LSTMStates,
    Tokens,
    mean_annotation,
)
from regard.models.captioning import Captioned, ImageDecoder, check_captioner, encoder_of


@dataclass(frozen=True, kw_only=True, slots=True)
class ShowAndTellConfig:
    """The sizes of a NIC model. Those of embedding and LSTM are the paper's (section 4.3.1).

    Arguments:
        target_vocabulary: number of tokens.
        image_height, image_width, image_channels: of the images, in pixels.
        frames: the largest number of frames in a sequence; 1 for images.
        convolutions: channels of each block of the convolutional network, which halves height and width.
        feature_width: D, the size of the vector of one position; the vector of the image is their mean.
        embedding_width: the size of a word embedding, and of the image's vector.
        hidden_width: the size of the LSTM's state.
        dropout: probability of dropping an entry of features, embeddings and outputs in training.
        padding_id, start_id, end_id: special tokens.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "show_and_tell"

    target_vocabulary: int
    image_height: int = 224
    image_width: int = 224
    image_channels: int = 3
    frames: int = 1
    convolutions: tuple[int, ...] = (32, 64, 128, 256)
    feature_width: int = 512
    embedding_width: int = 512
    hidden_width: int = 512
    dropout: float = 0.3
    padding_id: int = 0
    start_id: int = 1
    end_id: int = 2

    def __post_init__(self) -> None:
        check_captioner(self, "embedding_width", "hidden_width")


@dataclass(frozen=True, kw_only=True, eq=False)
class ShowAndTellState(DecoderState):
    """The decoder's state. Only the LSTM's state contains information about the image.

    Arguments:
        recurrent: h and c, (N, n) each.
    """

    recurrent: LSTMStates = field(metadata=TARGET)


class ShowAndTell(ImageDecoder[ShowAndTellState]):
    """NIC: the image is the first input of the LSTM, in the place of a word (Vinyals et al. 2015, section 3.1).

        x_{-1} = CNN(I),   x_t = We S_t,   m_t = LSTM(x_t),   p(S_{t+1}) = softmax(Wp m_t)

    The output at t = -1 is not used. The paper reports that giving the image at every step leads to overfitting. The image is
    one vector: here the mean over its positions, projected to the width of a word embedding.

    Arguments:
        config: its sizes.

    >>> config = ShowAndTellConfig(target_vocabulary=7, image_height=8, image_width=8, convolutions=(8, 8), feature_width=6,
    ...                            embedding_width=4, hidden_width=5)
    >>> images = Images(torch.zeros(2, 1, 3, 8, 8, dtype=torch.uint8), torch.ones(2, 1, dtype=torch.bool))
    >>> ShowAndTell(config)(images, Tokens.pad([[1, 3], [1, 4]])).logits.shape
    torch.Size([2, 2, 7])
    """

    def __init__(self, config: ShowAndTellConfig) -> None:
        super().__init__(config, encoder_of(config))
        self.image = nn.Linear(config.feature_width, config.embedding_width)
        self.embedding = nn.Embedding(config.target_vocabulary, config.embedding_width)  # We
        self.lstm = LSTMStack(config.embedding_width, config.hidden_width, 1)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.hidden_width, config.target_vocabulary)  # Wp
        nn.init.normal_(self.embedding.weight, std=0.1)

    def forward(self, images: Images, target: Tokens, *, attended: bool = False) -> Captioned:
        """Teacher forcing: the true previous words (B, L) to logits (B, L, V); it has no attention weights."""
        image = self.image(mean_annotation(*self.encoder(images)))
        words = self.dropout(self.embedding(target.ids))
        shown = torch.ones_like(target.valid[:, :1])
        outputs, _ = self.lstm.read(
            torch.cat((image.unsqueeze(1), words), dim=1), torch.cat((shown, target.valid), dim=1)
        )
        return Captioned(self.output(self.dropout(outputs[:, 1:])))

    def start(self, source: Images) -> ShowAndTellState:
        """Read the images."""
        annotations, valid = self.encoder(source)
        image = self.image(mean_annotation(annotations, valid))
        _, recurrent = self.lstm.step(image, self.lstm.zeros(image))
        return ShowAndTellState(source_valid=valid, recurrent=recurrent)

    def step(self, tokens: Tensor, state: ShowAndTellState) -> tuple[Tensor, ShowAndTellState]:
        """Consume tokens (N,); return the logits (N, V) of the next and the state after."""
        output, recurrent = self.lstm.step(self.embedding(tokens), state.recurrent)
        return self.output(output), state.advanced(recurrent=recurrent)
