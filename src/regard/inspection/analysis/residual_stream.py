"""The residual stream of a stack: what each part adds to it, and the way from it to logits.

A stack of residual connections adds what each part computes to one vector for each token, the residual stream. At its end a norm
and a linear map make logits of it. `logit_lens` reads the stream after each block through that end, `logit_attribution` takes a
logit apart into what each part added.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.inspection.hooks import around_forward
from regard.layers import CausalStack, NoSkip, PositionedEmbedding, Residual, TextEmbedding, TextEncoder
from regard.layers.blocks import LowRankLinear
from regard.layers.heads import MaskedHead, PretrainingHead
from regard.layers.reversible import ReversibleBlock
from regard.models.encoder_decoder import AttentionEncoderDecoder
from regard.quantization.inference import InferenceEmbedding
from regard.quantization.linear import QuantizedLinear

Sublayer = Literal["attention", "cross_attention", "feedforward"]

SUBLAYERS: dict[str, Sublayer] = {
    "attention_residual": "attention",
    "cross_residual": "cross_attention",
    "feedforward_residual": "feedforward",
}
"""By the name of a block's residual connection, the part whose output it adds."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Ending:
    """A stack and what makes logits of its residual stream.

    Arguments:
        embedding: what the first block reads comes from it.
        blocks: by address, from the bottom up.
        norm: after the last block; `nn.Identity()` for none.
        head: the prediction head of a masked language model, which is between the stream and its output; None for none.
        output: the last map, (outputs, inputs) and its bias (outputs,) or None, in the dtype that it is kept in.
        scale: what the output's input is multiplied by (T5).
        logits: vectors (..., D) after the last norm to (..., V), as the model itself computes them.
    """

    embedding: nn.Module
    blocks: dict[str, nn.Module]
    norm: nn.Module
    head: MaskedHead | None
    output: nn.Module | tuple[Tensor, Tensor | None]
    scale: float
    logits: Callable[[Tensor], Tensor]

    @classmethod
    def of(cls, module: nn.Module) -> Ending:
        """The stack of a model whose residual stream ends in logits over a vocabulary.

        Raises:
            InputError: for a model without one.
        """
        if isinstance(module, CausalStack):
            _no_two_streams(module.layers)
            own = getattr(module, "output", None)
            return cls(
                embedding=module.embedding,
                blocks={f"layers.{number}": block for number, block in enumerate(module.layers)},
                norm=module.norm,
                head=None,
                output=own if isinstance(own, nn.Module) else module.output_map(),
                scale=1.0,
                logits=module.logits,
            )
        if isinstance(module, AttentionEncoderDecoder):
            decoder: Any = module.decoder
            return cls(
                embedding=decoder.embedding,
                blocks={f"decoder.layers.{number}": block for number, block in enumerate(decoder.layers)},
                norm=decoder.norm,
                head=None,
                output=module.output,  # type: ignore[arg-type]
                scale=float(getattr(module, "scale", 1.0)),
                logits=module.logits,
            )
        if isinstance(module, TextEncoder):
            head = module.head.masked if isinstance(module.head, PretrainingHead) else module.head
            if not isinstance(head, MaskedHead):
                raise InputError(
                    f"the model's head is a {type(head).__name__}, which gives no logits over a vocabulary; take a model with "
                    "the head 'masked' or 'pretraining'"
                )
            return cls(
                embedding=module.embedding,
                blocks={f"layers.{number}": block for number, block in enumerate(module.layers)},
                norm=nn.Identity(),
                head=head,
                output=head.output,
                scale=1.0,
                logits=lambda x: head(x[None], None, None).logits[0],  # type: ignore[index]
            )
        raise InputError(
            f"a {type(module).__name__} has no residual stream that ends in logits over a vocabulary; take a decoder, an "
            "encoder-decoder of attention blocks, or an encoder with the head 'masked'"
        )

    def rows(self, tokens: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The output's rows of these tokens, (T, D) float64, the scale in them, and their biases, (T,)."""
        weight, bias = linear_map(self.output) if isinstance(self.output, nn.Module) else self.output
        chosen = torch.as_tensor(list(tokens), device=weight.device)
        rows = weight.detach()[chosen].double() * self.scale
        return rows, torch.zeros_like(rows[:, 0]) if bias is None else bias.detach()[chosen].double()


def _no_two_streams(blocks: Sequence[nn.Module] | nn.ModuleList) -> None:
    if any(isinstance(block, ReversibleBlock) for block in blocks):
        raise InputError("reversible blocks have two residual streams, which are joined at the end; take another model")


def linear_map(module: nn.Module) -> tuple[Tensor, Tensor | None]:
    """Weight (outputs, inputs) and bias (outputs,) of a linear layer: plain, with an adapter, or of 8 or 4 bits.

    Raises:
        InputError: for a module that is none.
    """
    if isinstance(module, LowRankLinear):
        module = module.merged()
    if isinstance(module, nn.Linear | QuantizedLinear):
        ruled_out = getattr(module, "ruled_out", None)
        return module.weight.detach(), module.bias if ruled_out is None else ruled_out
    raise InputError(f"a {type(module).__name__} is no linear layer, so what goes into it cannot be taken apart")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Added:
    """One residual sum.

    Arguments:
        address: of the block.
        sublayer: which part of it.
        residual: the module that adds.
        attention: the attention layer, where it is one.
        before: (B, L, D), the stream.
        added: (B, L, D), what the part gives.
        after: (B, L, D), the stream after, under the norm that follows the sum where there is one.
        heads: (B, L, H*E), the heads' outputs one after another, before the output projection.
    """

    address: str
    sublayer: Sublayer
    residual: Residual
    attention: Any
    before: Tensor
    added: Tensor
    after: Tensor
    heads: Tensor | None


@dataclass(kw_only=True, slots=True, eq=False)
class Stream:
    """The residual stream of one pass.

    Arguments:
        ending: the stack.
        entered: (B, L, D), what the first block reads.
        after: by block, (B, L, D), the stream after it.
        sums: every residual sum in its order.
        embedded: the outputs of the embedding's tables, by `tokens`, `positions` and `segments`.
    """

    ending: Ending
    entered: Tensor = field(init=False)
    after: dict[str, Tensor] = field(default_factory=dict)
    sums: list[Added] = field(default_factory=list)
    embedded: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, module: nn.Module, run: Callable[[], Any], *, sums: bool = False) -> Stream:
        """Run a model once, in evaluation and without gradients, and keep its residual stream.

        The model computes what it computes without being looked at.

        Arguments:
            module: the model.
            run: calls it once.
            sums: whether to keep what each part adds, not only the stream after each block.

        Raises:
            InputError: for a model in training mode, one without a residual stream, and where `run` does not go through all
                blocks once.
        """
        if module.training:
            raise InputError("the model is in training mode, where dropout changes the stream; call eval() first")
        stream = cls(ending=Ending.of(module))
        with contextlib.ExitStack() as stack, torch.no_grad():
            enter = stack.enter_context
            for place, (address, block) in enumerate(stream.ending.blocks.items()):
                enter(around_forward(block, stream._around_block(address, first=place == 0)))
                if sums:
                    for around, part in stream._inside(address, block):
                        enter(around_forward(part, around))
            if sums:
                enter(around_forward(stream.ending.embedding, stream._around_embedding(enter)))
            run()
        if list(stream.after) != list(stream.ending.blocks):
            raise InputError("the model did not run all its blocks; give it a text, all of it at once")
        return stream

    def _around_block(self, address: str, *, first: bool) -> Any:
        def around(forward: Any, arguments: Any, named: Any) -> Any:
            output = forward(*arguments, **named)
            if address in self.after:
                raise InputError("the model ran its blocks more than once; give `run` that calls it once")
            if first:
                self.entered = arguments[0].detach()
            self.after[address] = (output[0] if isinstance(output, tuple) else output).detach()
            return output

        return around

    def _inside(self, address: str, block: nn.Module) -> list[tuple[Any, nn.Module]]:
        found: list[tuple[Any, nn.Module]] = []
        for name, sublayer in SUBLAYERS.items():
            residual = getattr(block, name, None)
            if residual is None or _passes(residual, getattr(block, sublayer)):
                continue
            if type(residual) not in (Residual, NoSkip):
                raise InputError(
                    f"{address}.{name} is a {type(residual).__name__}, which is not known to be a sum; take a model whose blocks "
                    "add their parts' outputs to their input"
                )
            attention = None if sublayer == "feedforward" else getattr(block, sublayer)
            heads: list[Tensor] = []
            if attention is not None:
                found.append((_keeping_input(heads), attention.output))
            found.append((self._around_residual(address, sublayer, residual, attention, heads), residual))
        if not found:
            raise InputError(
                f"{address} is a {type(block).__name__}, whose residual connections are not known; take a model of "
                "EncoderBlock, CausalBlock or DecoderBlock"
            )
        return found

    def _around_residual(
        self, address: str, sublayer: Sublayer, residual: Residual, attention: Any, heads: list[Tensor]
    ) -> Any:
        def around(forward: Any, arguments: Any, named: Any) -> Any:
            x, run = arguments
            given: list[Tensor] = []

            def keeping(y: Tensor) -> Tensor:
                given.append(run(y))
                return given[-1]

            heads.clear()
            output = forward(x, keeping, **named)
            self.sums.append(
                Added(
                    address=address,
                    sublayer=sublayer,
                    residual=residual,
                    attention=attention,
                    before=x.detach(),
                    added=given[-1].detach(),
                    after=output.detach(),
                    heads=heads[-1] if heads else None,
                )
            )
            return output

        return around

    def _around_embedding(self, enter: Any) -> Any:
        """Keeps the last outputs of the tables within this embedding: a table may be that of the source's embedding too."""
        seen: dict[str, Tensor] = {}
        embedding = self.ending.embedding
        for name in ("tokens", "positions", "segments"):
            table = getattr(embedding, name, None)
            if isinstance(table, nn.Module):
                enter(around_forward(table, _keeping_output(seen, name)))

        def around(forward: Any, arguments: Any, named: Any) -> Any:
            seen.clear()
            output = forward(*arguments, **named)
            self.embedded = dict(seen)
            return output

        return around

    def entered_parts(self, row: int, place: int) -> dict[str, Tensor]:
        """What the embedding adds up for one token, (D,) float64 each: before the norm and projection of a `TextEmbedding`."""
        embedding = self.ending.embedding
        known = isinstance(embedding, PositionedEmbedding | TextEmbedding | InferenceEmbedding)
        if not known or "tokens" not in self.embedded:
            return {"tokens": self.entered[row, place].double()}
        scale, width = float(getattr(embedding, "scale", 1.0)), self.embedded["tokens"].shape[-1]
        found: dict[str, Tensor] = {}
        for name, value in self.embedded.items():
            if value.shape[-1] != width:  # a model without positions adds a zero
                continue
            each = value.expand(len(self.entered), *value.shape[1:])[row, place].detach().double()
            found[name] = each * scale if name == "tokens" else each
        return found


def _passes(residual: nn.Module, part: nn.Module) -> bool:
    """Whether nothing is computed: a block without a feed-forward net has an identity, with neither a skip nor a norm."""
    norms = (getattr(residual, "before", None), getattr(residual, "after", None))
    return type(residual) is NoSkip and all(isinstance(each, nn.Identity) for each in (part, *norms))


def _keeping_input(kept: list[Tensor]) -> Any:
    def around(forward: Any, arguments: Any, named: Any) -> Any:
        kept.append(arguments[0].detach())
        return forward(*arguments, **named)

    return around


def _keeping_output(kept: dict[str, Tensor], name: str) -> Any:
    def around(forward: Any, arguments: Any, named: Any) -> Any:
        output = forward(*arguments, **named)
        kept[name] = output.detach()
        return output

    return around
