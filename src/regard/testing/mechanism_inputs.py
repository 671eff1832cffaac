"""The inputs that the checks give to an attention mechanism: cases with masks, and the blocks of small models."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Attention, AttentionInputs, AttentionLayer, Causal, Dense, Document, Mask, Padding, Window
from regard.layers import Tokens
from regard.models import GPT2, Bert, BertConfig, GPT2Config, Transformer, TransformerConfig

HEADS = 6
"""Number of query heads in every check."""
WIDTH = 4
"""Width of queries and keys in every check, the first argument of a factory."""
VALUE_WIDTH = 8
"""Width of values, different from that of keys."""
LONGEST = 1100
"""Number of keys in the longest check."""
WAYS = ("right padding", "left padding", "step by step", "step by step after left padding")
"""How the blocks of a model read texts; the outputs are compared with those of each text alone."""
BLOCKS = ("encoder", "decoder", "causal")
"""The models whose blocks a mechanism is tried in: a BERT, a Transformer and a GPT-2."""
BATCH, GROUPS, QUERIES, KEYS = 2, 3, 5, 7
BLIND = 2  # a query for which some masks hide every key
SEED = 20170612

Factory = Callable[[int, float], Attention]
"""A function from the width of queries and keys, and the dropout, to a mechanism."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MechanismTraits:
    """How a mechanism differs from most, beyond what it declares.

    Arguments:
        record: makes the parts of the record that the mechanism reads, from (B, H, L) standard normal numbers in float64 and the
            number of keys.
        reach: the keys that a query can attend to by the mechanism's own rule, (B, H, L, S) bool, True = within reach; None for
            all.
        blind_to_keys: the weights depend only on queries and positions.
        one_key: each query attends to a single sampled key; the sample depends on the order of the keys.
        own_slots: the queries are the tokens of the last keys, so keys cannot be moved without them; in a model, only
            self-attention can have the mechanism.
        without_gradient: no gradient comes through the weights, because they are sampled.
        beside_weights: prefixes of the names of parameters that change the output but not the weights.
        fixed_value_width: the mechanism only accepts values of `VALUE_WIDTH`; the layers of test models are then adapted.
        ways: those of `WAYS` in which a text's output in a model's blocks equals that of the text alone.
    """

    record: Callable[[Tensor, int], Mapping[str, Tensor]] = field(default=lambda random, keys: {})
    reach: Callable[[AttentionInputs], Tensor] | None = None
    blind_to_keys: bool = False
    one_key: bool = False
    own_slots: bool = False
    without_gradient: bool = False
    beside_weights: tuple[str, ...] = ("values.",)
    fixed_value_width: bool = False
    ways: tuple[str, ...] = WAYS


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within the block, dropout samples from the global generators with a seed; afterwards their state is restored."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


@dataclass(frozen=True, slots=True)
class Case:
    """A mechanism with random parameters, and inputs and values that require gradients."""

    mechanism: Attention
    inputs: AttentionInputs
    value: Tensor


@dataclass(frozen=True, slots=True)
class Held:
    """A mechanism under test."""

    factory: Factory
    traits: MechanismTraits
    device: torch.device

    def case(
        self,
        *,
        dtype: torch.dtype = torch.float32,
        dropout: float = 0.0,
        heads: tuple[int, int] = (HEADS, HEADS),
        sizes: tuple[int, int, int, int] = (BATCH, QUERIES, KEYS, VALUE_WIDTH),
        mask: Mask | None = None,
        generator: torch.Generator | None = None,
    ) -> Case:
        """A case; for the same sizes always the same numbers, unless a generator is given."""
        generator = generator or torch.Generator().manual_seed(SEED)
        batch, queries, keys, value_width = sizes
        mechanism = self.factory(WIDTH, dropout)
        with torch.no_grad():
            for parameter in mechanism.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
        mechanism = mechanism.to(self.device, dtype).eval()

        def random(*shape: int) -> Tensor:
            values = torch.randn(shape, generator=generator, dtype=torch.float64)
            return values.to(self.device, dtype).requires_grad_()

        positions = torch.arange(keys, device=self.device).expand(batch, -1)
        record = self.traits.record(
            torch.randn(batch, heads[0], queries, generator=generator, dtype=torch.float64), keys
        )
        inputs = AttentionInputs(
            query=random(batch, heads[0], queries, WIDTH),
            key=random(batch, heads[1], keys, WIDTH),
            mask=mask,
            query_positions=positions[:, :queries] + max(keys - queries, 0),
            key_positions=positions,
            record={part: values.to(self.device, dtype).requires_grad_() for part, values in record.items()},
        )
        inputs = mechanism.sample(inputs, generator)
        return Case(mechanism, inputs, random(batch, heads[1], keys, value_width))

    def masks(self, times: int = 1) -> dict[str, Mask | None]:
        """Every kind of mask. The queries are the last positions where a mask compares positions.

        The rows are repeated `times` times.
        """
        offset, device = KEYS - QUERIES, self.device
        right = torch.tensor([[True] * 4 + [False] * 3, [True] * KEYS], device=device).repeat(times, 1)
        documents = torch.tensor([[0, 0, 1, 1, 1, 2, 2], [0, 1, 1, 1, 3, 3, 3]], device=device).repeat(times, 1)
        per_head = torch.rand(BATCH, HEADS, QUERIES, KEYS, generator=torch.Generator().manual_seed(1)) < 0.6
        per_head[..., 0] = True
        per_head = per_head.repeat(times, 1, 1, 1)
        without_tokens = torch.tensor([[True], [False]], device=device).repeat(times, 1)
        sighted = Dense((torch.arange(QUERIES, device=device) != BLIND).view(1, 1, QUERIES, 1))
        document = Document(documents, documents[:, offset:])
        return {
            "none": None,
            "right padding": Padding(right),
            "left padding": Padding(right.flip(1)),
            "causal": Causal(offset=offset),
            "causal, top left": Causal(),
            "window": Window(before=2, after=1, offset=offset),
            "documents": document,
            "per head": Dense(per_head.to(device)),
            "blind query": sighted,
            "row without tokens": Padding(right & without_tokens),
            "composed": (Causal(offset=offset) & Padding(right))
            & (document | Window(before=1, after=0, offset=offset))
            & sighted,
            "inverted": ~Window(before=1, after=1, offset=offset),
        }

    def padding(self, hidden: slice) -> Tensor:
        """(B, S) bool, True = a real token: the first row is padded at `hidden`."""
        valid = torch.ones(BATCH, KEYS, dtype=torch.bool, device=self.device)
        valid[0, hidden] = False
        return valid

    def leaves(self, case: Case) -> list[Tensor]:
        """All tensors on which the output must depend, and which must get a gradient."""
        if self.traits.without_gradient:
            return [case.value]
        keys = [] if self.traits.blind_to_keys else [case.inputs.key]
        return [case.inputs.query, *keys, case.value, *recorded(case), *case.mechanism.parameters()]


def recorded(case: Case) -> list[Tensor]:
    """The tensors of the record that require gradients; those that the mechanism sampled do not."""
    return [tensor for tensor in case.inputs.record.values() if tensor.requires_grad]


def visible(inputs: AttentionInputs) -> Tensor:
    """The mask at full size, (B, H, L, S) bool, True = may be attended to."""
    seen = inputs.visible()
    if seen is None:
        return torch.ones(inputs.shape, dtype=torch.bool, device=inputs.query.device)
    return seen.expand(inputs.shape)


def near(found: Tensor, expected: Tensor, what: str, rtol: float | None = None, atol: float | None = None) -> None:
    """Fail, with `what` in the message, unless two tensors are equal up to rounding."""
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol, msg=lambda message: f"{what}: {message}")


LENGTHS = (
    9,
    5,
    7,
)  # of three texts in a batch; longer than two chunks, than a window and than every distance with its own vector
SOURCES = (6, 8, 3)


def check_in_blocks(kind: str, fit: Callable[[AttentionLayer], None], ways: Collection[str] = WAYS) -> None:
    """In a small model of two blocks, padding and decoding steps change no output: positions count from a row's first real token.

    Arguments:
        kind: one of `BLOCKS`.
        fit: changes an attention layer in place, such as its mechanism.
        ways: those of `WAYS` to check; an encoder takes no steps.

    Raises:
        AssertionError: where an output differs from that of a text alone.
    """
    model, rows, sources = _stacked(kind, fit), _texts(LENGTHS, 1), _texts(SOURCES, 2)
    with torch.no_grad():
        wanted = _answers(model, kind, "alone", rows, sources)
        for way in ways:
            if "step" in way and kind == "encoder":
                continue
            found = _answers(model, kind, way, rows, sources)
            for place, (ours, alone) in enumerate(zip(found, wanted, strict=True)):
                near(ours, alone, f"{way}, row {place}", 1e-9, 1e-9)


def _stacked(kind: str, fit: Callable[[AttentionLayer], None]) -> nn.Module:
    """A small model of two blocks with changed attention layers and random parameters."""
    sizes: dict[str, Any] = {"width": HEADS * WIDTH, "heads": HEADS, "feedforward_width": 5, "maximum_positions": 20}
    if kind == "encoder":
        model: nn.Module = Bert(BertConfig(vocabulary=11, layers=2, head="none", **sizes))
    elif kind == "decoder":
        layers = {"encoder_layers": 1, "decoder_layers": 2}
        model = Transformer(TransformerConfig(source_vocabulary=11, target_vocabulary=11, **layers, **sizes))
    else:
        model = GPT2(GPT2Config(vocabulary=11, layers=2, **sizes))
    for layer in [module for module in model.modules() if isinstance(module, AttentionLayer)]:
        fit(layer)
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for parameter in model.parameters():
            fan = parameter.shape[-1] if parameter.dim() > 1 else 4
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / fan**0.5)
    return model.double().eval()


def _texts(lengths: Sequence[int], seed: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(3, 11, (length,), generator=generator).tolist() for length in lengths]


def _answers(model: Any, kind: str, way: str, rows: list[list[int]], sources: list[list[int]]) -> list[Tensor]:
    """The outputs at the real tokens of each row, (its length, D or V)."""
    if way == "alone":
        apart = [
            _answers(model, kind, "right padding", [row], [source]) for row, source in zip(rows, sources, strict=True)
        ]
        return [found for (found,) in apart]
    side: Any = "left" if "left" in way else "right"
    tokens, source = Tokens.pad(rows, side=side), Tokens.pad(sources, side=side)
    if "step" not in way:
        given = (source, tokens) if kind == "decoder" else (tokens,)
        found = model(*given)
        found = found.hidden if kind == "encoder" else found
        return [each[valid] for each, valid in zip(found, tokens.valid, strict=True)]
    # Each row twice, as in a beam; without a source, after prompts of different lengths.
    longest, begun, begins, steps = max(map(len, rows)), [0] * len(rows), list[Tensor](), list[Tensor]()
    if kind == "decoder":
        state = model.start(source)
        state = state.reorder(torch.arange(len(rows)).repeat_interleave(2))
    else:
        begun = [0, 0, 0] if side == "right" else [3, 1, 2]
        state = model.start(len(rows))
        if max(begun):
            first = Tokens.pad([row[:many] for row, many in zip(rows, begun, strict=True)], side="left")
            logits, state = model.read(first, state)
            begins = [each[valid] for each, valid in zip(logits, first.valid, strict=True)]
        state = state.select(torch.arange(len(rows)).repeat_interleave(2))
    for place in range(longest):
        fed = [row[min(place + many, len(row) - 1)] for row, many in zip(rows, begun, strict=True)]
        logits, state = model.step(torch.tensor(fed).repeat_interleave(2), state)
        near(logits[::2], logits[1::2], "two copies of a row", 1e-9, 1e-9)
        steps.append(logits[::2])
    together = torch.stack(steps, dim=1)
    found = [each[: len(row) - many] for each, row, many in zip(together, rows, begun, strict=True)]
    return found if not max(begun) else [torch.cat(parts) for parts in zip(begins, found, strict=True)]


def fitted(held: Held, layer: AttentionLayer) -> None:
    """Put the mechanism into an attention layer, except cross-attention where it does not support that."""
    if held.traits.own_slots and layer.sequences[0] != layer.sequences[1]:
        return
    layer.attention = held.factory(WIDTH, 0.0)
    if held.traits.fixed_value_width:
        layer.value, layer.output = (
            nn.Linear(HEADS * WIDTH, HEADS * VALUE_WIDTH),
            nn.Linear(HEADS * VALUE_WIDTH, HEADS * WIDTH),
        )
