"""Show, attend and tell: neural image caption generation with visual attention (Xu et al. 2015).

The names in the comments are the paper's: annotations a_i of L image positions, states h_t and c_t of the LSTM, alignment e_ti
and alpha_ti, context z_t, the gate beta_t (sections 3.1 and 4.2), the position s_t that hard attention samples (section 4.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from regard.attention import (
    Additive,
    AttentionInputs,
    AttentionLayer,
    Hard,
    KeysValues,
    Mask,
    Padding,
    ScoredAttention,
    Soft,
)
from regard.attention.alignments import LOT, MEAN, chosen
from regard.layers import (
    TARGET,
    Dropout,
    Images,
    LongShortTermMemoryCell,
    LSTMState,
    Tokens,
    mean_annotation,
)
from regard.models.captioning import Captioned, ImageDecoder, Sampled, check_captioner, encoder_of
from regard.models.config import check
from regard.models.encoder_decoder import AttendingState, last_alignment


@dataclass(frozen=True, kw_only=True, slots=True)
class ShowAttendAndTellConfig:
    """The sizes of a model. Those of annotations, words and LSTM are from the authors' code.

    Arguments:
        target_vocabulary: number of tokens.
        image_height, image_width, image_channels: of the images, in pixels.
        frames: the largest number of frames in a sequence; 1 for images.
        convolutions: channels of each block of the convolutional network, which halves height and width: four blocks give 14 x 14
            positions for 224 x 224 pixels.
        feature_width: D, of an annotation.
        embedding_width: m, the size of a word embedding.
        hidden_width: n, the size of the LSTM's state.
        attention_width: the size of the alignment network's hidden layer.
        attention: `soft` weighs all positions; `hard` attends to one, which is sampled in training and the most probable one in
            evaluation.
        mean_share: for hard attention in training: the probability that the words of a caption use the mean of all positions
            instead of a sample.
        dropout: probability of dropping an entry of annotations, embeddings and of the output layer in training.
        padding_id, start_id, end_id: special tokens.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "show_attend_and_tell"

    target_vocabulary: int
    image_height: int = 224
    image_width: int = 224
    image_channels: int = 3
    frames: int = 1
    convolutions: tuple[int, ...] = (32, 64, 128, 256)
    feature_width: int = 512
    embedding_width: int = 512
    hidden_width: int = 1000
    attention_width: int = 512
    attention: Literal["soft", "hard"] = "soft"
    mean_share: float = 0.5
    dropout: float = 0.3
    padding_id: int = 0
    start_id: int = 1
    end_id: int = 2

    def __post_init__(self) -> None:
        check_captioner(self, "embedding_width", "hidden_width", "attention_width")
        check(0 <= self.mean_share <= 1, "mean_share", self.mean_share, "in [0, 1]", "the paper has 0.5")


@dataclass(frozen=True, kw_only=True, eq=False)
class ShowAttendAndTellState(AttendingState):
    """The decoder's state, and the image that it attends to.

    Arguments:
        recurrent: h and c, (N, n) each.
        memory: keys (R, 1, L, n') and values a_i (R, 1, L, D) of the image.
    """

    recurrent: LSTMState = field(metadata=TARGET)


class ShowAttendAndTell(ImageDecoder[ShowAttendAndTellState]):
    """A captioner that attends to positions of the image for every word (Xu et al. 2015, section 3).

        a = CNN(I)                                                      L annotations
        c_0 = f_c(mean_i a_i),   h_0 = f_h(mean_i a_i)
        e_ti = f_att(a_i, h_{t-1}),   alpha_t = softmax(e_t)            with the state BEFORE the step
        soft: z_t = beta_t sum_i alpha_ti a_i,   hard: z_t = beta_t a_{s_t}, s_t ~ alpha_t,   beta_t = sigmoid(f_beta(h_{t-1}))
        h_t, c_t = LSTM([E y_{t-1} ; z_t], h_{t-1}, c_{t-1})
        p(y_t) ~ exp(Lo (E y_{t-1} + Lh h_t + Lz z_t))

    f_c and f_h are linear layers with tanh; f_att is additive attention (Bahdanau et al. 2015).

    Arguments:
        config: its sizes and choices.

    >>> config = ShowAttendAndTellConfig(target_vocabulary=7, image_height=8, image_width=8, convolutions=(8, 8),
    ...                                  feature_width=6, embedding_width=4, hidden_width=5, attention_width=3)
    >>> images = Images(torch.zeros(2, 1, 3, 8, 8, dtype=torch.uint8), torch.ones(2, 1, dtype=torch.bool))
    >>> captioned = ShowAttendAndTell(config)(images, Tokens.pad([[1, 3], [1, 4]]), attended=True)
    >>> captioned.logits.shape, captioned.weights.shape
    (torch.Size([2, 2, 7]), torch.Size([2, 2, 4]))
    """

    has_alignment: bool = True

    def __init__(self, config: ShowAttendAndTellConfig) -> None:
        super().__init__(config, encoder_of(config))
        features, words, width = config.feature_width, config.embedding_width, config.hidden_width
        self.hard = config.attention == "hard"
        self.initial_hidden = nn.Linear(features, width)
        self.initial_memory = nn.Linear(features, width)
        self.embedding = nn.Embedding(config.target_vocabulary, words)  # E
        self.attention = AttentionLayer(
            query=nn.Linear(width, config.attention_width, bias=False),
            key=nn.Linear(features, config.attention_width),
            value=nn.Identity(),
            output=nn.Identity(),
            attention=ScoredAttention(
                Additive(config.attention_width), Hard(config.mean_share) if self.hard else Soft()
            ),
            sequences=("target", "source"),
        )
        self.gate = nn.Linear(width, 1)  # f_beta
        self.cell = LongShortTermMemoryCell(words, width, context_width=features)
        self.from_hidden = nn.Linear(width, words, bias=False)  # Lh
        self.from_context = nn.Linear(features, words, bias=False)  # Lz
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(words, config.target_vocabulary)  # Lo
        if self.hard:
            # The b of section 4.1: a running mean of log-likelihoods, of which the model itself knows nothing. A parameter, for
            # it is kept with them; no gradient moves it.
            self.baseline = nn.Parameter(torch.zeros(()), requires_grad=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise embeddings N(0, 0.1^2), and v of the alignment small but not zero, so that it learns from the first step."""
        nn.init.normal_(self.embedding.weight, std=0.1)
        for module in self.modules():
            if isinstance(module, Additive):
                nn.init.normal_(module.weight, std=module.weight.numel() ** -0.5)

    def start(self, source: Images) -> ShowAttendAndTellState:
        """Read the images."""
        annotations, valid = self.encoder(source)
        mean = mean_annotation(annotations, valid)
        return ShowAttendAndTellState(
            source_valid=valid,
            recurrent=(torch.tanh(self.initial_hidden(mean)), torch.tanh(self.initial_memory(mean))),
            memory=self.attention.keys_values(annotations),
        )

    def forward(self, images: Images, target: Tokens, *, attended: bool = False) -> Captioned:
        """Teacher forcing: the true previous words (B, L) to logits (B, L, V), and with `attended` the attention weights."""
        state = self.start(images)
        embedded = self.dropout(self.embedding(target.ids))
        mask = _padding(state.source_valid)
        recurrent, hidden, contexts, seen = state.recurrent, [], [], []
        record = self.means(len(images), embedded.device)
        reals = target.valid.unsqueeze(-1).to(embedded.dtype).unbind(dim=1)
        for projected, real in zip(self.cell.input(embedded).unbind(dim=1), reals, strict=True):
            recurrent, context, inputs = self.advance(projected, recurrent, state.memory, mask, real, record)
            hidden.append(recurrent[0])
            contexts.append(context)
            seen.append(inputs)
        logits = self.logits(embedded, torch.stack(hidden, dim=1), torch.stack(contexts, dim=1))
        return self.captioned(logits, seen, state.source_valid) if attended else Captioned(logits)

    def advance(
        self,
        projected: Tensor,
        recurrent: LSTMState,
        memory: KeysValues,
        mask: Mask | None,
        real: Tensor | None = None,
        record: Mapping[str, Tensor] | None = None,
    ) -> tuple[LSTMState, Tensor, AttentionInputs]:
        """One step: E y_{t-1}, projected by the cell (N, 4n), h_{t-1} and c_{t-1} to h_t, c_t, z_t (N, D) and the query.

        The states of one image, which are next to each other, are queries over its positions.
        """
        before = recurrent[0]
        target = before.unflatten(0, (len(memory.key), -1))
        inputs = self.attention.inputs(target, memory.key, mask=mask, record=record)
        gathered = self.attention.attend(inputs, memory.value).flatten(0, 1)
        context = torch.sigmoid(self.gate(before)) * gathered
        return self.cell.advance(self.cell.with_context(projected, context), recurrent, real), context, inputs

    def means(self, rows: int, device: torch.device) -> dict[str, Tensor]:
        """The captions that use the mean at every word, for the record of hard attention in training."""
        if not (self.hard and self.training):
            return {}
        return {MEAN: torch.rand((rows, 1, 1), device=device) < self.config.mean_share}

    def logits(self, embedded: Tensor, hidden: Tensor, context: Tensor) -> Tensor:
        """E y_{t-1}, h_t and z_t, each (..., its width), to logits of y_t (..., V): the state AFTER the step."""
        return self.output(self.dropout(embedded + self.from_hidden(hidden) + self.from_context(context)))

    def captioned(self, logits: Tensor, seen: list[AttentionInputs], valid: Tensor) -> Captioned:
        """The weights of all steps, and the positions that were sampled."""
        query = torch.cat([inputs.query for inputs in seen], dim=2)
        record = {name: torch.cat([inputs.record[name] for inputs in seen], dim=2) for name in seen[0].record}
        inputs = AttentionInputs(query=query, key=seen[0].key, mask=Padding(valid), record=record)
        alpha = cast(ScoredAttention, self.attention.attention).aligned(inputs, Soft())
        if LOT not in record:
            return Captioned(logits, alpha.squeeze(1), valid)
        sampled = Sampled(chosen(alpha, record).squeeze(1), ~record[MEAN].squeeze(1), self.baseline)
        return Captioned(logits, alpha.squeeze(1), valid, sampled)

    def step(self, tokens: Tensor, state: ShowAttendAndTellState) -> tuple[Tensor, ShowAttendAndTellState]:
        """Consume tokens (N,); return the logits (N, V) of the next and the state after."""
        embedded = self.embedding(tokens)
        projected, mask = self.cell.input(embedded), _padding(state.source_valid)
        recurrent, context, inputs = self.advance(projected, state.recurrent, state.memory, mask)
        query = inputs.query.transpose(1, 2).flatten(0, 1)
        return self.logits(embedded, recurrent[0], context), state.advanced(recurrent=recurrent, query=query)

    def alignment(self, state: ShowAttendAndTellState) -> Tensor:
        """alpha_t of the last step, or its one position, (N, L) float32; zeros before the first step."""
        return last_alignment(self.attention, state)


def _padding(valid: Tensor) -> Mask:
    """The mask of real positions, computed once for all steps."""
    batch, places = valid.shape
    return Padding(valid).materialize(batch=batch, queries=1, keys=places, device=valid.device)
