"""Models whose weights have 8 or 4 bits, for use: they are not trained, saved or moved.

`PreparedDecoder` is made of a language model of GPT's family, `PreparedTransformer` of an encoder-decoder Transformer.
"""

from __future__ import annotations

import copy
from typing import Any, NoReturn, Self, cast

import torch
from torch import Tensor, nn

from regard.attention import KeysValues, LearnedPositions, NoPositions, Padding, SinusoidalPositions, positions_of
from regard.attention.positions import check_length
from regard.errors import InputError
from regard.layers import CausalTransformer, PositionedEmbedding, Reduction, Tokens, VocabularyOutput
from regard.layers.causal import Entered
from regard.models.transformer import Transformer, TransformerDecoder
from regard.quantization.blocks import (
    PreparedBlock,
    PreparedSourceBlock,
    RoundedEmbedding,
    obstacle_in,
    obstacle_outside,
)
from regard.quantization.linear import BITS, QuantisedPrecision, quantised_linear
from regard.quantization.native import Kernels, kernels
from regard.quantization.stacks import CACHE_DTYPE, PreparedSourceStack, PreparedStack, PreparedState

FOR_USE = "its weights are rounded to {bits} bits, which is for use, not for training or saving; take the model it was made of"


class ForUse(nn.Module):
    """A model whose weights are rounded to whole numbers; it refuses what would need the numbers that they were rounded from."""

    bits: int
    """Of each weight."""

    slow: str
    """Why it is no faster than bfloat16, as a sentence; empty where it is."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # Another process has kernels of its own, or none.
        self.slow = self.slow or kernels().slowness(self.bits)

    def state_dict(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: the numbers that the weights were rounded from are gone.

        Raises:
            InputError: always.
        """
        self._refuse()

    def train(self, mode: bool = True) -> Self:
        """Refused but for `train(False)`.

        Raises:
            InputError: where `mode` is true.
        """
        if mode:
            self._refuse()
        return super().train(False)

    def _apply(self, fn: Any, recurse: bool = True) -> NoReturn:
        raise InputError("a model with quantised weights stays as it is, on the processor it was made for")

    def _refuse(self) -> NoReturn:
        raise InputError(FOR_USE.format(bits=self.bits))


COMPUTED = ("forward", "hidden", "read", "prefill", "step", "logits", "_entered", "_through", "_mask", "_rule")
"""What `PreparedDecoder` computes itself or as a `CausalTransformer` does: all but `output_map`, which it takes over."""


class PreparedDecoder(ForUse, CausalTransformer):
    """A decoder with weights of 8 or 4 bits: it reads, goes on and steps as the model it was made of, up to their rounding.

    Weights are rounded as `QuantisedWeights` says, activations to bytes in groups of 32 before each product, keys and values to
    bfloat16. A row's numbers do not depend on the other rows of a batch. Where the machine has a C++ compiler, kernels are built
    for its processor at the first use (`regard.quantization.native`); where it has none, `slow` says so, and PyTorch computes the
    same in bfloat16 without being any faster for it.

    Arguments:
        model: of GPT's family, on a processor; it is not kept.
        precision: `int8` or `int4`.
        compiled: the kernels; built where None.

    Raises:
        InputError: for a model that `decoder_obstacle` has a word about.

    >>> from regard.models import GPT2, GPT2Config
    >>> model = GPT2(GPT2Config(vocabulary=9, width=32, heads=1, feedforward_width=64, layers=1, maximum_positions=6)).eval()
    >>> prepared = PreparedDecoder(model, "int8")
    >>> (prepared(Tokens.pad([[0, 4, 5]])) - model(Tokens.pad([[0, 4, 5]]))).abs().max().item() < 0.05
    True
    """

    def __init__(
        self, model: CausalTransformer, precision: QuantisedPrecision, *, compiled: Kernels | None = None
    ) -> None:
        why = decoder_obstacle(model)
        if why:
            raise InputError(f"{precision}: the model cannot be prepared: {why}; take float32 or bfloat16")
        built = kernels() if compiled is None else compiled
        bits = BITS[precision]
        super().__init__(
            model.config,
            embedding=RoundedEmbedding(model.embedding),  # type: ignore[arg-type]
            layers=[PreparedBlock(block, bits, built) for block in model.layers],  # type: ignore[arg-type, misc]
            norm=copy.deepcopy(model.norm).float(),
            bands=model.bands,
        )
        self.bits = bits
        self.stack = PreparedStack(list(self.layers), built)  # type: ignore[arg-type]
        self.output = quantised_linear(*model.output_map(), bits, built)
        self.slow = built.slowness(bits)
        self.eval()

    def forward(self, tokens: Tokens, *, reduce: Reduction | None = None) -> Any:
        """As `CausalTransformer`, but without `reduce`, which is training's.

        Raises:
            InputError: where training calls it, and where a text is longer than the model has positions for.
        """
        if reduce is not None:
            self._refuse()
        with torch.no_grad():
            return super().forward(tokens)

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., D) to (..., V) float32."""
        return self.output(hidden.flatten(0, -2)).unflatten(0, hidden.shape[:-1])

    def _through(self, entered: Entered, past: tuple[KeysValues, ...] | None) -> tuple[Tensor, tuple[KeysValues, ...]]:
        """As `CausalStack`, the keys and values of all blocks together."""
        x, present = self.stack(entered.x, entered.masks, None if past is None else past[0], width=entered.after.width)
        return x, (present,)


def decoder_obstacle(model: nn.Module) -> str:
    """Why a model cannot be prepared, as half a sentence; empty where it can.

    What is looked at or changed from outside runs through the model itself, where whoever looks sees it.
    """
    if not isinstance(model, CausalTransformer) or isinstance(model, PreparedDecoder):
        return f"a {type(model).__name__} is no decoder of GPT's family"
    own = next((name for name in COMPUTED if getattr(type(model), name) is not getattr(CausalTransformer, name)), None)
    if own is not None:
        return f"a {type(model).__name__} has a `{own}` of its own"
    if type(model.embedding) is not PositionedEmbedding or type(model.embedding.positions) is not LearnedPositions:
        return "its positions are not learnt"
    return obstacle_outside(model) or next(filter(None, map(obstacle_in, model.layers)), "")


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
            shapes = ((rows, block.heads, keys, block.head_width) for keys in (0, length))
            nothing, own = (torch.empty(shape, dtype=CACHE_DTYPE) for shape in shapes)  # type: ignore[arg-type]
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
