"""Neural machine translation by jointly learning to align and translate (Bahdanau, Cho, Bengio 2015), RNNsearch.

The names in the comments are the paper's: annotations h_j (section 3.2), decoder state s_i, alignment e_ij, context c_i
(section 3.1), the maxout output t_i (appendix A.2.2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.attention import (
    Additive,
    AttentionInputs,
    AttentionLayer,
    Dot,
    KeysValues,
    Mask,
    Padding,
    ScaledDot,
    positions_of,
)
from regard.attention.kernels import as_autocast
from regard.layers import (
    TARGET,
    BidirectionalReader,
    Dropout,
    GatedRecurrentCell,
    Tokens,
    maxout,
)
from regard.layers.gated_steps import Attended, gated_steps
from regard.layers.step_kernels import are_plain, attends_by, fits, steps_shown
from regard.layers.tokens import chosen
from regard.models.config import check_shares, check_sizes, check_tokens, check_types
from regard.models.encoder_decoder import AttendingState, RecurrentEncoderDecoder, last_alignment
from regard.models.own_attention import attention_named, check_attention
from regard.parts import Choice


@dataclass(frozen=True, kw_only=True, slots=True)
class BahdanauConfig:
    """The sizes of an RNNsearch model; the defaults are the paper's (appendix B).

    Arguments:
        source_vocabulary, target_vocabulary: numbers of tokens.
        embedding_width: m, the size of a token embedding.
        hidden_width: n, size of each recurrent state; annotations are 2n wide.
        attention_width: n', size of the alignment network's hidden layer.
        maxout_width: l, outputs of the maxout layer.
        score: how a state matches an annotation: `additive`, as in the paper, one of the other scores for comparison, or your own
            score or mechanism, between projections of width n'.
        alignment: how scores become weights: `softmax`, or your own alignment.
        dropout: probability of dropping an entry of embeddings and of the maxout layer in training; 0 in the paper.
        initialization: `paper` initialises weights N(0, 0.01^2) and the alignment network's N(0, 0.001^2) as published, which
            barely trains in a short run; `standard` initialises linear layers as PyTorch does. Recurrent matrices are
            orthogonal in both.
        padding_id, start_id, end_id: special tokens of the target.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "bahdanau"

    source_vocabulary: int
    target_vocabulary: int
    embedding_width: int = 620
    hidden_width: int = 1000
    attention_width: int = 1000
    maxout_width: int = 500
    score: Annotated[str, Choice(("additive", "general", "dot", "scaled_dot"), ("score", "mechanism"))] = "additive"
    alignment: Annotated[str, Choice(("softmax",), ("alignment",))] = "softmax"
    dropout: float = 0.0
    initialization: Literal["standard", "paper"] = "standard"
    padding_id: int = 0
    start_id: int = 1
    end_id: int = 2

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(
            self,
            "source_vocabulary",
            "target_vocabulary",
            "embedding_width",
            "hidden_width",
            "attention_width",
            "maxout_width",
        )
        check_shares(self, "dropout", usual="0.1 to 0.3 is usual")
        check_attention(self.score, self.alignment)
        check_tokens(self, "padding_id", "start_id", "end_id", of="target_vocabulary")


@dataclass(frozen=True, kw_only=True, eq=False)
class BahdanauState(AttendingState):
    """The decoder's state: s_{i-1}, and the source that it attends to.

    Arguments:
        hidden: (N, n), the decoder's state.
        memory: keys Ua h_j of width n', and values h_j of width 2n.
    """

    hidden: Tensor = field(metadata=TARGET)


class BahdanauEncoder(nn.Module):
    """Words to annotations (section 3.2)."""

    def __init__(self, config: BahdanauConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.source_vocabulary, config.embedding_width)
        self.reader = BidirectionalReader(config.embedding_width, config.hidden_width)
        self.dropout = Dropout(config.dropout)

    def forward(self, source: Tokens) -> tuple[Tensor, Tensor]:
        """Source (B, S) to annotations h (B, S, 2n) and the backward state at the first word (B, n)."""
        annotations, _, first = self.reader(self.dropout(self.embedding(source.ids)), source.valid)
        return annotations, first


class BahdanauDecoder(nn.Module):
    """Previous words and annotations to the next word (section 3.1, appendix A)."""

    def __init__(self, config: BahdanauConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.target_vocabulary, config.embedding_width)
        self.initial = nn.Linear(config.hidden_width, config.hidden_width)
        self.attention = alignment_layer(config)
        context_width = 2 * config.hidden_width
        self.cell = GatedRecurrentCell(config.embedding_width, config.hidden_width)
        self.context = nn.Linear(context_width, 3 * config.hidden_width, bias=False)  # Cr, Cz, C of appendix A.1.1
        self.readout = nn.Linear(config.hidden_width + config.embedding_width + context_width, 2 * config.maxout_width)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.maxout_width, config.target_vocabulary)

    def begin(self, annotations: Tensor, first: Tensor, source: Tokens) -> BahdanauState:
        """s_0 = tanh(Ws backward_1), and the part of the alignment network that does not depend on the decoder."""
        return BahdanauState(
            source_valid=source.valid,
            source_places=source.places,
            hidden=torch.tanh(self.initial(first)),
            memory=self.attention.keys_values(as_autocast(annotations)),  # once, not at every step
        )

    def advance(
        self,
        projected: Tensor,
        hidden: Tensor,
        memory: KeysValues,
        mask: Mask,
        real: Tensor | None = None,
        *,
        target_places: Tensor,
        source_places: Tensor | None,
    ) -> tuple[Tensor, Tensor, AttentionInputs]:
        """One step: y_{i-1}, projected by the cell (N, 3n), and s_{i-1} (N, n) to s_i, c_i (N, 2n) and the query.

        The states of one sentence, which are next to each other, are queries over its annotations, at the positions
        `target_places` (R, N / R).
        """
        inputs = self.attention.inputs(
            hidden.unflatten(0, (len(memory.key), -1)),
            memory.key,
            mask=mask,
            query_positions=target_places,
            key_positions=source_places,
        )
        context = self.attention.attend(inputs, memory.value).flatten(0, 1)
        return self.cell.advance(projected + self.context(context), hidden, real), context, inputs

    def logits(self, hidden: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        """s_{i-1}, E y_{i-1} and c_i, each (..., its width), to logits of y_i (..., V): the state BEFORE the step."""
        return self.output(self.dropout(maxout(self.readout(torch.cat((hidden, embedded, context), dim=-1)))))

    def forward(self, state: BahdanauState, target: Tokens, at: Tensor | None = None) -> Tensor:
        """Teacher forcing: the true previous words (B, L) to logits (B, L, V), or (M, V) at the positions `at`."""
        embedded = self.dropout(self.embedding(target.ids))
        found = self.by_kernel(state, embedded, target)
        before, context = self.by_steps(state, embedded, target) if found is None else found
        return self.logits(*(chosen(part, at) for part in (before, embedded, context)))

    def by_kernel(self, state: BahdanauState, embedded: Tensor, target: Tokens) -> tuple[Tensor, Tensor] | None:
        """As `by_steps`, by the compiled kernel; None where it does not compute this, such as another score, or is not wanted."""
        cell, layer = self.cell, self.attention
        matrices: Any = (cell.gates, cell.candidate, self.context, layer.query)
        if (
            not fits(self, embedded)
            or not attends_by(layer, Additive)
            or not are_plain(*matrices)
            or not state.memory.key.numel()
        ):
            return None
        gates, candidate, context, query = (matrix.weight for matrix in matrices)
        mechanism: Any = layer.attention
        attended = Attended(
            query=query,
            weight=mechanism.score.weight,
            context=context,
            keys=state.memory.key.squeeze(1),
            values=state.memory.value.squeeze(1),
            visible=state.source_valid,
        )
        show = steps_shown(self, lambda: self.by_steps(state, embedded, target))
        states, contexts = gated_steps(cell.input(embedded), target.valid, state.hidden, gates, candidate, attended)
        show()
        before = torch.cat((state.hidden.to(states.dtype).unsqueeze(1), states[:, :-1]), dim=1)
        return None if contexts is None else (before, contexts)

    def by_steps(self, state: BahdanauState, embedded: Tensor, target: Tokens) -> tuple[Tensor, Tensor]:
        """Of the embedded true previous words (B, L, m), s_{i-1} (B, L, n) and c_i (B, L, 2n), step by step."""
        batch, length = state.source_valid.shape
        mask = Padding(state.source_valid).materialize(batch=batch, queries=1, keys=length, device=embedded.device)
        hidden, before, contexts = state.hidden, [], []
        steps = self.cell.input(embedded).unbind(dim=1)
        reals = target.valid.unsqueeze(-1).to(embedded.dtype).unbind(dim=1)
        places = positions_of(target.valid).split(1, dim=1)
        for projected, real, place in zip(steps, reals, places, strict=True):
            before.append(hidden)
            hidden, context, _ = self.advance(
                projected, hidden, state.memory, mask, real, target_places=place, source_places=state.source_places
            )
            contexts.append(context)
        return torch.stack(before, dim=1), torch.stack(contexts, dim=1)


class Bahdanau(RecurrentEncoderDecoder[BahdanauConfig, BahdanauEncoder, BahdanauDecoder, BahdanauState]):
    """RNNsearch: a bidirectional encoder, additive attention, and a decoder with maxout output (Bahdanau et al. 2015).

        h_j  = [forward_j ; backward_j]                          annotations
        e_ij = va^T tanh(Wa s_{i-1} + Ua h_j)                    with the state BEFORE the step
        a_ij = softmax_j(e_ij),   c_i = sum_j a_ij h_j
        s_i  = f(s_{i-1}, y_{i-1}, c_i),   s_0 = tanh(Ws backward_1)
        p(y_i) ~ exp(Wo maxout(Uo s_{i-1} + Vo E y_{i-1} + Co c_i))

    Arguments:
        config: its sizes.

    >>> model = Bahdanau(BahdanauConfig(source_vocabulary=9, target_vocabulary=7, embedding_width=4, hidden_width=5,
    ...                                 attention_width=6, maxout_width=3))
    >>> model(Tokens.pad([[3, 4, 5], [6, 7]]), Tokens.pad([[1, 3], [1, 4]])).shape
    torch.Size([2, 2, 7])
    """

    has_alignment: bool = True

    def __init__(self, config: BahdanauConfig) -> None:
        super().__init__(config, BahdanauEncoder(config), BahdanauDecoder(config))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the weights by `config.initialization`; recurrent matrices and va keep that of their layers."""
        for module in (self.encoder.embedding, self.decoder.embedding):
            nn.init.normal_(module.weight, std=0.01 if self.config.initialization == "paper" else 0.1)
        if self.config.initialization != "paper":
            # A va of exactly zero passes no gradient to Wa and Ua in the first step; a small one starts to learn at once.
            for module in self.modules():
                if isinstance(module, Additive):
                    nn.init.normal_(module.weight, std=module.weight.numel() ** -0.5)
            return
        aligners = {self.decoder.attention.query, self.decoder.attention.key}
        for module in self.modules():
            if isinstance(module, nn.Linear) and module.weight.shape[0] and not _is_recurrent(self, module):
                nn.init.normal_(module.weight, std=0.001 if module in aligners else 0.01)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def start(self, source: Tokens) -> BahdanauState:
        """Read the source (B, S)."""
        annotations, first = self.encoder(source)
        return self.decoder.begin(annotations, first, source)

    def step(self, tokens: Tensor, state: BahdanauState) -> tuple[Tensor, BahdanauState]:
        """Consume tokens (N,); return the logits (N, V) of the next and the state after."""
        embedded = self.decoder.embedding(tokens)
        mask = Padding(state.source_valid)
        projected = self.decoder.cell.input(embedded)
        hidden, context, inputs = self.decoder.advance(
            projected,
            state.hidden,
            state.memory,
            mask,
            target_places=state.places(),
            source_places=state.source_places,
        )
        logits = self.decoder.logits(state.hidden, embedded, context)
        return logits, state.advanced(hidden=hidden, query=inputs.query.transpose(1, 2).flatten(0, 1))

    def alignment(self, state: BahdanauState) -> Tensor:
        """a_ij of the last step, (N, S) float32; zeros before the first."""
        return last_alignment(self.decoder.attention, state)


def alignment_layer(config: BahdanauConfig) -> AttentionLayer:
    """The layer that computes e_ij and c_i: projections of the state and of the annotations, and the configured score.

    `general` projects the state to the width of the annotations, and takes the inner product (Luong et al. 2015). `dot` and
    `scaled_dot` need equal widths, so the annotations of width 2n are projected to n.
    """
    state, annotation = config.hidden_width, 2 * config.hidden_width
    if config.score == "additive":
        query = nn.Linear(state, config.attention_width, bias=False)
        key = nn.Linear(annotation, config.attention_width, bias=False)
        score = Additive(config.attention_width)
    elif config.score == "general":
        query, key, score = nn.Linear(state, annotation, bias=False), nn.Identity(), Dot()
    elif config.score in ("dot", "scaled_dot"):
        query, key = nn.Identity(), nn.Linear(annotation, state, bias=False)
        score = Dot() if config.score == "dot" else ScaledDot()
    else:
        query = nn.Linear(state, config.attention_width, bias=False)
        key = nn.Linear(annotation, config.attention_width, bias=False)
        score = None
    return AttentionLayer(
        query=query,
        key=key,
        value=nn.Identity(),
        output=nn.Identity(),
        attention=attention_named(config.score, config.alignment, score, width=config.attention_width),
        sequences=("target", "source"),
    )


def _is_recurrent(model: Bahdanau, module: nn.Linear) -> bool:
    cells = (cell for cell in model.modules() if isinstance(cell, GatedRecurrentCell))
    return any(module is cell.gates or module is cell.candidate for cell in cells)
