"""Deep contextualized word representations (Peters et al. 2018): ELMo.

The names in the comments are the paper's (section 3): x_k the character-based vector of word k, h_{k,j} its vector in layer j
(h_{k,0} is x_k twice), and ELMo_k the mixture of all layers. The input tokens are the bytes of words, as in `regard.text.bpe`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.layers import (
    CharacterEncoder,
    Dropout,
    Encoded,
    HeadKind,
    LSTMStack,
    Reduction,
    ScalarMix,
    SpeltWords,
    Tokens,
    TwoWayLSTM,
    spelt_words,
)
from regard.layers.encoder import added
from regard.models.config import check, check_shares, check_sizes, check_types

VOCABULARY, PADDING = 259, 258
"""The tokens of the tokenizer `spelling`: 256 bytes, begin and end of a text, and padding."""

HEADS: tuple[HeadKind, ...] = ("none", "sequence", "tokens", "choice")
"""The heads of ELMo, besides its two language models."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ELMoConfig:
    """The sizes and the head of an ELMo. The defaults are those of the published model.

    Arguments:
        projection: the width of each direction's output, and of x_k; the word embeddings of the mixture are twice as wide.
        cells: the number of cells of each LSTM.
        layers: L, the number of LSTM layers in each direction.
        residual: whether a layer's input is added to its output, from the second layer on.
        cell_clip, projection_clip: the limits to which cells and outputs are clipped; null = no limit.
        character_width: the width of a character embedding.
        filters: (width, number) of the convolutions over characters.
        highways: the number of highway layers after them.
        activation: of convolutions and highway layers.
        maximum_characters: the longest word in characters, including begin and end; longer words are cut.
        dropout: probability of dropping, in training, an entry of a layer's input, and of the input of the word prediction.
        words: the number of words that both language models predict; 0 = the model predicts none. Filled in by the task.
        mix_normalise: whether the vectors of each layer are normalised to mean 0 and variance 1 before they are mixed.
        reader_width: the width of a bidirectional LSTM between the mixture and the head, as in taggers; 0 = none.
        head_dropout: of the mixture and of the input of the head.
        maximum_positions: the longest text that is read in one pass, in tokens (bytes); it only limits memory.
        vocabulary, padding_id: those of the tokenizer of kind `spelling`, no other.
        head: what the model outputs for a text from the mixture: `sequence`, `tokens` or `choice`; with `none` it gives vectors.
        outputs: the number of outputs of the heads `sequence` and `tokens`.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "elmo"

    projection: int = 512
    cells: int = 4096
    layers: int = 2
    residual: bool = True
    cell_clip: float | None = 3.0
    projection_clip: float | None = 3.0
    character_width: int = 16
    filters: tuple[tuple[int, int], ...] = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    highways: int = 2
    activation: Literal["relu", "tanh"] = "relu"
    maximum_characters: int = 50
    dropout: float = 0.1
    words: int = 0
    mix_normalise: bool = False
    reader_width: int = 0
    head_dropout: float = 0.5
    maximum_positions: int = 4096
    vocabulary: int = VOCABULARY
    padding_id: int = PADDING
    head: HeadKind = "none"
    outputs: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(self, "projection", "cells", "layers", "character_width", "maximum_positions")
        for name in ("highways", "words", "reader_width", "outputs"):
            check(getattr(self, name) >= 0, name, getattr(self, name), "0 or more", "0 is none")
        check_shares(self, "dropout", "head_dropout", usual="0.1 and 0.5 are usual")
        for name in ("cell_clip", "projection_clip"):
            value = getattr(self, name)
            check(value is None or value > 0, name, value, "above 0, or null", "3 is the published one")
        check(
            self.maximum_characters >= 3, "maximum_characters", self.maximum_characters, "at least 3", "50 is published"
        )
        longest = self.maximum_characters
        fitting = bool(self.filters) and all(1 <= width <= longest and count >= 1 for width, count in self.filters)
        check(
            fitting,
            "filters",
            self.filters,
            f"pairs of a width in [1, {longest}] and a count above 0",
            "give one or more",
        )
        if self.head not in HEADS:
            raise InputError(
                f"head is {self.head!r}, which ELMo has not; it can be fine-tuned to classify texts and to tag words"
            )
        check(
            not self.words or self.head == "none", "words", self.words, f"0 beside the head {self.head}", "leave it out"
        )
        fits = self.vocabulary in (1, VOCABULARY)  # 1 stands for a tokenizer that is not there yet
        check(fits, "vocabulary", self.vocabulary, f"{VOCABULARY}, the bytes of words", "set tokenizer.kind=spelling")

    @property
    def width(self) -> int:
        """D, the width of a word's vectors, both directions together."""
        return 2 * self.projection

    @property
    def segments(self) -> Literal[0]:
        """0: there are no segment embeddings."""
        return 0


class ELMo(nn.Module):
    """A forward and a backward language model over the words of a text, and the mixture of their layers (Peters et al. 2018).

        h_{k,0} = [x_k ; x_k],   h_{k,j} = [forward_{k,j} ; backward_{k,j}],   j = 1 .. L
        log p(t_k | t_1 .. t_{k-1}) from forward_{k-1,L},   log p(t_k | t_{k+1} .. t_N) from backward_{k+1,L}
        ELMo_k = gamma sum_j s_j h_{k,j},   s = softmax(w)

    Tokens are bytes. Each token has the vector of its word, so heads for an encoder's token vectors work here too: a tagger reads
    the first token of a word, and the mean over the tokens of a word is the word's vector. No state is kept between texts: the
    same text always gives the same vectors, bit for bit.

    Arguments:
        config: its sizes.

    >>> config = ELMoConfig(projection=3, cells=5, character_width=4, filters=((1, 6), (2, 8)), maximum_characters=9)
    >>> ELMo(config)(Tokens.pad([[256, 32, 72, 105, 257], [256, 257]], padding_id=258)).hidden.shape
    torch.Size([2, 5, 6])
    """

    length_setting: str = "model.maximum_positions"
    tells_next: bool = False
    pooler: None = None

    def __init__(self, config: ELMoConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = CharacterEncoder(
            config.projection,
            character_width=config.character_width,
            filters=config.filters,
            highways=config.highways,
            activation=torch.relu if config.activation == "relu" else torch.tanh,
        )
        self.layers = nn.ModuleList(
            TwoWayLSTM(
                config.projection,
                config.cells,
                residual=config.residual and layer > 0,
                cell_clip=config.cell_clip,
                projection_clip=config.projection_clip,
                dropout=config.dropout,
            )
            for layer in range(config.layers)
        )
        self.head: WordsHead | MixtureHead | None = None
        if config.words:
            self.head = WordsHead(config.projection, config.words, dropout=config.dropout)
        elif config.head != "none":
            self.head = MixtureHead(config)

    @property
    def maximum_length(self) -> int:
        """The longest text in tokens, special tokens included."""
        return self.config.maximum_positions

    def forward(
        self,
        tokens: Tokens,
        segments: Tensor | None = None,
        *,
        at: Tensor | None = None,
        readings: int = 1,
        reduce: Reduction | None = None,
    ) -> Any:
        """Vectors and logits of a batch of texts.

        Arguments:
            tokens: (B, L), the bytes of words.
            segments, at: ignored; other encoders use them.
            readings: the number of consecutive rows that are the same example; their pooled vectors are added.
            reduce: for a model that predicts words: a function that computes a result from the predicting vectors (B, 2, W - 1,
                P), the matrix (V, P) and the bias (V,) instead of logits. [:, 0, k] is the forward vector of word k, which
                predicts word k + 1; [:, 1, k] is the backward vector of word k + 1, which predicts word k.

        Returns:
            `Encoded`, whose `hidden` is (B, L, D) of the top layer; or the result of `reduce`, if it is given.
        """
        del segments, at
        words = self.words_of(tokens)
        states = self.word_states(words)
        if reduce is not None:
            if not isinstance(self.head, WordsHead):
                raise InputError("the model predicts no words; train one for task bidirectional_language_modelling")
            return self.head(states[-1], reduce)
        hidden = words.to_tokens(states[-1])
        if not isinstance(self.head, MixtureHead):
            return Encoded(hidden, None, None, None)
        pooled, logits = self.head(states, words.valid, readings)
        return Encoded(hidden, pooled, words.to_tokens(logits) if pooled is None else logits, None)

    def words_of(self, tokens: Tokens) -> SpeltWords:
        """The words of the tokens, each with its characters."""
        return spelt_words(tokens, self.config.maximum_characters)

    def word_states(self, words: SpeltWords) -> tuple[Tensor, ...]:
        """h_{k,j} for j = 0 .. L, (B, W, D) each; without meaning at padding."""
        different = self.embedding(words.letters)
        x = (
            different[words.which]
            if len(different)
            else different.new_zeros(*words.which.shape, self.config.projection)
        )
        states = [torch.cat((x, x), dim=-1)]
        for layer in self.layers:
            states.append(layer(states[-1], words.valid))
        return tuple(states)

    def hidden_states(self, tokens: Tokens, segments: Tensor | None = None) -> tuple[Tensor, ...]:
        """The same for every token: L + 1 tensors (B, L, D)."""
        del segments
        words = self.words_of(tokens)
        return tuple(words.to_tokens(state) for state in self.word_states(words))

    def counted(self, tokens: Tokens) -> Tensor:
        """(B, L) bool, True for one token of each word, so that in a mean over a text every word counts once."""
        return self.words_of(tokens).begins


class WordsHead(nn.Module):
    """The output layer of both language models, with one shared matrix (section 3.1).

    Arguments:
        width: P.
        words: V.
        dropout: probability of dropping an entry of the predicting vectors in training.
    """

    def __init__(self, width: int, words: int, *, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.words = nn.Linear(width, words)
        nn.init.normal_(self.words.weight, std=width**-0.5)
        nn.init.zeros_(self.words.bias)

    def forward(self, top: Tensor, reduce: Reduction) -> Any:
        """The top layer (B, W, 2P) to the result of `reduce` on the predicting vectors (B, 2, W - 1, P)."""
        ahead, behind = top.chunk(2, dim=-1)
        telling = torch.stack((ahead[:, :-1], behind[:, 1:]), dim=1)
        return reduce(self.dropout(telling), self.words.weight, self.words.bias)


class MixtureHead(nn.Module):
    """ELMo_k, optionally a bidirectional LSTM, and a linear map to the outputs of the task (section 3.2).

    Arguments:
        config: its sizes.
    """

    def __init__(self, config: ELMoConfig) -> None:
        super().__init__()
        self.of_words = config.head == "tokens"
        self.mix = ScalarMix(config.layers + 1, normalise=config.mix_normalise)
        self.dropout = Dropout(config.head_dropout)
        inner = config.reader_width
        self.forwards = LSTMStack(config.width, inner, 1) if inner else None
        self.backwards = LSTMStack(config.width, inner, 1) if inner else None
        self.output = nn.Linear(2 * inner or config.width, config.outputs)

    def forward(self, states: tuple[Tensor, ...], valid: Tensor, readings: int) -> tuple[Tensor | None, Tensor]:
        """The word vectors of every layer, (B, W, D), to the vector of the text (the mean over words) and logits.

        Returns:
            None and (B, W, outputs) with a head for words; (B, D') and (B, outputs) with a head for texts.
        """
        x = self.dropout(self.mix(states, valid))
        if self.forwards is not None and self.backwards is not None:
            x = torch.cat((self.forwards.read(x, valid)[0], self.backwards.read(x, valid, backwards=True)[0]), dim=-1)
            x = self.dropout(x)
        if self.of_words:
            return None, self.output(x)
        real = valid.unsqueeze(-1)
        mean = x.masked_fill(~real, 0.0).sum(dim=1) / real.sum(dim=1).clamp_min(1)
        pooled = added(mean, readings)
        return pooled, self.output(pooled)
