"""An encoder-decoder Transformer whose weights have 8 or 4 bits, for use."""

from __future__ import annotations

import copy
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention import (
    KeysValues,
    LearnedPositions,
    NoPositions,
    Padding,
    SinusoidalPositions,
    positions_of,
)
from regard.attention.positions import check_length
from regard.errors import InputError
from regard.layers import PositionedEmbedding, Tokens, VocabularyOutput
from regard.models.transformer import Transformer, TransformerDecoder
from regard.prepared.block import PreparedBlock
from regard.prepared.embedding import RoundedEmbedding
from regard.prepared.for_use import ForUse
from regard.prepared.linear import quantised_linear
from regard.prepared.native import Kernels, kernels
from regard.prepared.obstacles import obstacle_in, obstacle_outside
from regard.prepared.precision import BITS, QuantisedPrecision
from regard.prepared.source_block import PreparedSourceBlock
from regard.prepared.source_stack import PreparedSourceStack
from regard.prepared.source_state import PreparedState
from regard.prepared.stack import CACHE

POSITIONS = (SinusoidalPositions, LearnedPositions, NoPositions)


class PreparedTransformer(ForUse):
    """A `Decoder` made of a `Transformer`, with weights of 8 or 4 bits: it writes as that does, up to their rounding.

    Weights, activations, keys and values are rounded as in `PreparedDecoder`, the encoder's too, and kernels built likewise. All
    hypotheses take a step in one call, each over its own past; what belongs to a source never moves.

    Arguments:
        model: on a processor; it is not kept.
        precision: `int8` or `int4`.
        compiled: the kernels; built where None.

    Raises:
        InputError: for a model that `transformer_obstacle` has a word about.

    >>> from regard.models import TransformerConfig
    >>> sizes = {"width": 32, "heads": 1, "feedforward_width": 64, "encoder_layers": 1, "decoder_layers": 1}
    >>> model = Transformer(TransformerConfig(source_vocabulary=9, target_vocabulary=9, **sizes)).eval()
    >>> prepared = PreparedTransformer(model, "int8")
    >>> source, start = Tokens.pad([[3, 4, 5, 2]]), torch.tensor([1])
    >>> found, wanted = (each.step(start, each.start(source))[0] for each in (prepared, model))
    >>> (found - wanted).abs().max().item() < 0.1
    True
    """

    has_alignment: bool = True
    length_setting: str = "model.maximum_positions"

    def __init__(self, model: Transformer, precision: QuantisedPrecision, *, compiled: Kernels | None = None) -> None:
        super().__init__()
        why = transformer_obstacle(model)
        if why:
            raise InputError(f"{precision}: the model cannot be prepared: {why}; take float32 or bfloat16")
        built = kernels() if compiled is None else compiled
        self.bits = bits = BITS[precision]
        self.config = model.config
        decoder = cast(TransformerDecoder, model.decoder)
        self.source_embedding = RoundedEmbedding(model.encoder.embedding)
        self.encoder = nn.ModuleList(PreparedBlock(block, bits, built) for block in model.encoder.layers)  # type: ignore[arg-type]
        self.encoder_norm = copy.deepcopy(model.encoder.norm).float().requires_grad_(False)
        self.embedding = RoundedEmbedding(decoder.embedding)
        self.blocks = nn.ModuleList(PreparedSourceBlock(block, bits, built) for block in decoder.layers)  # type: ignore[arg-type]
        self.norm = copy.deepcopy(decoder.norm).float().requires_grad_(False)
        self.stack = PreparedSourceStack(list(self.blocks), built, model.config.alignment_layer)  # type: ignore[arg-type]
        self.output = quantised_linear(model.output.weight, _bias(model.output), bits, built)
        self.slow = built.slowness(bits)
        self.eval()

    @property
    def maximum_source_length(self) -> int | None:
        """The number of positions, the source's end token taking one."""
        return self.config.maximum_positions

    @property
    def maximum_target_length(self) -> int | None:
        """The number of positions: the start token takes one and the end token needs none."""
        return self.config.maximum_positions

    @torch.no_grad()
    def encoded(self, source: Tokens) -> Tensor:
        """The encoder's output (B, S, D) float32.

        Raises:
            InputError: where the source is longer than `maximum_positions`.
        """
        rows, length = source.ids.shape
        check_length(length, self.config.maximum_positions, "source")
        x = self.source_embedding(source.ids, positions_of(source.valid))
        mask = Padding(source.valid)
        for block in self.encoder:
            nothing, own = (torch.empty(rows, block.heads, keys, block.head_width, dtype=CACHE) for keys in (0, length))  # type: ignore[arg-type]
            x = block(x, mask, KeysValues(nothing, nothing), KeysValues(own, torch.empty_like(own)))
        return self.encoder_norm(x)

    @torch.no_grad()
    def start(self, source: Tokens) -> PreparedState:
        """Read the source (B, S)."""
        homes = torch.arange(len(source.ids))
        return PreparedState(source_valid=source.valid, memory=self.stack.memory(self.encoded(source)), homes=homes)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: PreparedState) -> tuple[Tensor, PreparedState]:
        """Consume tokens (N,); return the logits (N, V) float32 of the next and the state after.

        Raises:
            InputError: where no position is left.
        """
        check_length(state.longest + 1, self.config.maximum_positions, "target")
        x = self.embedding(tokens, state.places().flatten())
        cache = state.cache.extended(rows=state.rows, width=state.width, lengths=state.lengths)
        x, cache, query = self.stack(x, state, cache)
        return self.output(self.norm(x)), state.advanced(cache=cache, query=query)

    def alignment(self, state: PreparedState) -> Tensor:
        """The alignment block's last weights over the source, averaged over heads: (N, S) float32; zeros before a step."""
        if state.query is None:
            return state.no_alignment()
        block = self.stack.blocks[self.stack.asked]
        first = self.stack.asked * block.heads
        keys = state.memory.key[state.homes, first : first + block.heads]
        scores = (state.by_source(state.query).transpose(1, 2) * block.source_scale) @ keys.float().transpose(2, 3)
        hidden = ~state.source_valid[:, None, None]
        return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1).mean(dim=1).flatten(0, 1)


def transformer_obstacle(model: nn.Module) -> str:
    """Why an encoder-decoder cannot be prepared, as half a sentence; empty where it can."""
    if type(model) is not Transformer:
        return f"a {type(model).__name__} is no Transformer with encoder and decoder"
    embeddings = (model.encoder.embedding, model.decoder.embedding)
    if any(type(part) is not PositionedEmbedding or type(part.positions) not in POSITIONS for part in embeddings):
        return "its positions are not added to its tokens"
    return obstacle_outside(model) or next(
        filter(None, map(obstacle_in, (*model.encoder.layers, *model.decoder.layers))), ""
    )


def _bias(output: VocabularyOutput) -> Tensor | None:
    return output.bias if output.ruled_out is None else output.ruled_out
