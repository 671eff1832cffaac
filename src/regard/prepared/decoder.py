"""A language model of GPT's family whose weights have 8 or 4 bits, for use."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import KeysValues, LearnedPositions
from regard.errors import InputError
from regard.layers import CausalTransformer, PositionedEmbedding, Reduction, Tokens
from regard.layers.causal import Entered
from regard.prepared.block import PreparedBlock
from regard.prepared.embedding import RoundedEmbedding
from regard.prepared.for_use import ForUse
from regard.prepared.linear import quantised_linear
from regard.prepared.native import Kernels, kernels
from regard.prepared.obstacles import obstacle_in, obstacle_outside
from regard.prepared.precision import BITS, QuantisedPrecision
from regard.prepared.stack import PreparedStack

COMPUTED = ("forward", "hidden", "read", "prefill", "step", "logits", "_entered", "_through", "_mask", "_rule")
"""What `PreparedDecoder` computes itself or as a `CausalTransformer` does: all but `output_map`, which it takes over."""


class PreparedDecoder(ForUse, CausalTransformer):
    """A decoder with weights of 8 or 4 bits: it reads, goes on and steps as the model it was made of, up to their rounding.

    Weights are rounded as `QuantisedWeights` says, activations to bytes in groups of 32 before each product, keys and values to
    bfloat16. A row's numbers do not depend on the other rows of a batch. Where the machine has a C++ compiler, kernels are built
    for its processor at the first use (`regard.prepared.native`); where it has none, `slow` says so, and PyTorch computes the
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
