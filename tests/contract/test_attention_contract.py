"""The contract of attention: every mechanism is held to what it declares. A new mechanism joins by one line in `MECHANISMS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regard.attention
from regard.attention import (
    Additive,
    Addressed,
    Alignment,
    Attention,
    AttentionInputs,
    AttentionLayer,
    Causal,
    ChunkedAttention,
    Cosine,
    Dense,
    Document,
    Dot,
    General,
    Hard,
    LambdaAttention,
    Local,
    Location,
    LSHAttention,
    Mask,
    Padding,
    RelativeAttention,
    RelativeBias,
    RelativeDot,
    RelativeKeys,
    RelativeVectors,
    Rotary,
    ScaledDot,
    Score,
    ScoredAttention,
    Window,
)
from regard.layers import Tokens
from regard.models import GPT2, Bert, BertConfig, GPT2Config, Transformer, TransformerConfig

B, H, G, L, S, E, EV = 2, 6, 3, 5, 7, 4, 8
LONG = 1100  # keys of the longest test

# name: (width of a query and a key, dropout) -> mechanism
MECHANISMS: dict[str, Callable[[int, float], Attention]] = {
    "dot": lambda width, dropout: ScoredAttention(Dot(), dropout=dropout),
    "scaled_dot": lambda width, dropout: ScoredAttention(ScaledDot(), dropout=dropout),
    "dot over width": lambda width, dropout: ScoredAttention(ScaledDot(power=1.0), dropout=dropout),
    "general": lambda width, dropout: ScoredAttention(General(width), dropout=dropout),
    "additive": lambda width, dropout: ScoredAttention(Additive(width), dropout=dropout),
    "location": lambda width, dropout: ScoredAttention(Location(width, maximum=LONG), dropout=dropout),
    "cosine": lambda width, dropout: ScoredAttention(Cosine(3.0), dropout=dropout),
    "cosine of own strength": lambda width, dropout: ScoredAttention(Cosine(), dropout=dropout),
    "relative buckets": lambda width, dropout: ScoredAttention(
        RelativeDot(RelativeBias(H, buckets=8, maximum_distance=6)), dropout=dropout
    ),
    "relative buckets, backwards": lambda width, dropout: ScoredAttention(
        RelativeDot(RelativeBias(H, buckets=4, maximum_distance=5, both_ways=False)), dropout=dropout
    ),
    "relative vectors": lambda width, dropout: ScoredAttention(
        RelativeKeys(RelativeVectors(width, 2, heads=H)), dropout=dropout
    ),
    "relative vectors, backwards": lambda width, dropout: ScoredAttention(
        RelativeKeys(RelativeVectors(width, 3, both_ways=False, beyond="nothing")), dropout=dropout
    ),
    "relative vectors, of values too": lambda width, dropout: RelativeAttention(
        RelativeVectors(width, 3), RelativeVectors(EV, 2), dropout=dropout
    ),
    "local, centred on the query": lambda width, dropout: ScoredAttention(ScaledDot(), Local(2), dropout=dropout),
    "local, predicted centre": lambda width, dropout: ScoredAttention(Dot(), Local(3, gaussian=True), dropout=dropout),
    "hard": lambda width, dropout: ScoredAttention(Additive(width), Hard(), dropout=dropout),
    "hard, mean half of the time": lambda width, dropout: ScoredAttention(ScaledDot(), Hard(0.5), dropout=dropout),
    "chunked": lambda width, dropout: ChunkedAttention(chunk=3, before=1, dropout=dropout),
    "hashed": lambda width, dropout: LSHAttention(chunk=3, rounds=2, buckets=(2,), sets="bucket", dropout=dropout),
    "hashed, whole chunks": lambda width, dropout: LSHAttention(
        chunk=2, rounds=2, buckets=(2,), sets="chunk", dropout=dropout
    ),
    "hashed, short": lambda width, dropout: LSHAttention(chunk=2 * LONG, rounds=1, buckets=(2,), dropout=dropout),
    "addressed": lambda width, dropout: ScoredAttention(Cosine(), Addressed(), dropout=dropout),
    "lambdas": lambda width, dropout: LambdaAttention(width, rows=1, columns=LONG, dropout=dropout),
    "lambdas of content": lambda width, dropout: LambdaAttention(
        width, rows=1, columns=LONG, lambdas="content", dropout=dropout
    ),
    "lambdas on a grid": lambda width, dropout: LambdaAttention(width, rows=50, columns=22, dropout=dropout),
}
# What a mechanism reads in the record: (B, H, L) from a standard normal and the number of keys.
RECORDS: dict[str, Callable[[Tensor, int], dict[str, Tensor]]] = {
    "cosine of own strength": lambda drawn, keys: {"strength": drawn.exp()},
    "local, predicted centre": lambda drawn, keys: {"centre": keys * torch.sigmoid(drawn)},
    "addressed": lambda drawn, keys: {
        "strength": drawn.exp(),
        "previous": (drawn.unsqueeze(-1) * torch.linspace(-1, 1, keys)).softmax(dim=-1),
        "gate": torch.sigmoid(drawn),
        "shift": (drawn.unsqueeze(-1) * torch.tensor([1.0, -0.5, -1.0])).softmax(dim=-1),
        "sharpness": 1 + drawn.square(),
    },
}
BLIND_TO_KEYS = {"location"}  # weights by the query and the place alone
ONE_KEY = {"hard", "hard, mean half of the time"}  # some queries look at one key of those they see
OWN_SLOTS = {
    "hashed",
    "hashed, whole chunks",
    "hashed, short",
}  # queries are the tokens of the last keys, and go along with them
WITHOUT_GRADIENT = {"hard"}  # nothing comes back through a draw

DISTRIBUTIONS = [name for name, make in MECHANISMS.items() if make(4, 0.0).declaration.distribution]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
# dtype: (rtol, atol) of one operation against its oracle
TOLERANCES = {
    torch.float64: (1e-10, 1e-12),
    torch.float32: (1.3e-6, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-2),
    torch.float16: (1e-3, 1e-3),
}
BLIND = 2  # a query that some masks leave without any key

every_mechanism = pytest.mark.parametrize("name", MECHANISMS)
every_free_mechanism = pytest.mark.parametrize("name", [name for name in MECHANISMS if name not in OWN_SLOTS])
every_dtype = pytest.mark.parametrize("dtype", TOLERANCES, ids=lambda dtype: str(dtype).removeprefix("torch."))
every_device = pytest.mark.parametrize("device", DEVICES)


def masks(device: str, times: int = 1) -> dict[str, Mask | None]:
    """Every kind of mask for B rows, L queries and S keys; the queries are the last L slots where a mask compares slots.

    The B rows come `times` times, one after another.
    """
    offset = S - L
    right = torch.tensor([[True] * 4 + [False] * 3, [True] * S], device=device).repeat(times, 1)
    documents = torch.tensor([[0, 0, 1, 1, 1, 2, 2], [0, 1, 1, 1, 3, 3, 3]], device=device).repeat(times, 1)
    per_head = torch.rand(B, H, L, S, generator=torch.Generator().manual_seed(1)) < 0.6
    per_head[..., 0] = True
    per_head = per_head.repeat(times, 1, 1, 1)
    without_tokens = torch.tensor([[True], [False]], device=device).repeat(times, 1)
    sighted = Dense((torch.arange(L, device=device) != BLIND).view(1, 1, L, 1))
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


@contextmanager
def told(generator: torch.Generator, *what: Any) -> Iterator[None]:
    """One case of a test that goes through many: drawn as if it came first, and named where it fails."""
    generator.manual_seed(generator.initial_seed())
    try:
        yield
    except Exception as fault:
        fault.add_note(f"in the case of {', '.join(map(str, what))}")
        raise


@dataclass(frozen=True)
class Case:
    mechanism: Attention
    inputs: AttentionInputs
    value: Tensor


def built(
    name: str,
    generator: torch.Generator,
    *,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    dropout: float = 0.0,
    heads: tuple[int, int] = (H, H),
    sizes: tuple[int, int, int, int] = (B, L, S, EV),
    mask: Mask | None = None,
) -> Case:
    """A mechanism whose parameters are all random, with inputs and values, ready to be differentiated."""
    batch, queries, keys, value_width = sizes
    mechanism = MECHANISMS[name](E, dropout)
    with torch.no_grad():
        for parameter in mechanism.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    mechanism = mechanism.to(device, dtype).eval()

    def random(*shape: int) -> Tensor:
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
        return drawn.to(device, dtype).requires_grad_()

    positions = torch.arange(keys, device=device).expand(batch, -1)
    record = RECORDS.get(name, lambda drawn, keys: {})(
        torch.randn(batch, heads[0], queries, generator=generator, dtype=torch.float64), keys
    )
    inputs = AttentionInputs(
        query=random(batch, heads[0], queries, E),
        key=random(batch, heads[1], keys, E),
        mask=mask,
        query_positions=positions[:, :queries] + max(keys - queries, 0),
        key_positions=positions,
        record={part: drawn.to(device, dtype).requires_grad_() for part, drawn in record.items()},
    )
    inputs = mechanism.draw(inputs, generator)
    return Case(mechanism, inputs, random(batch, heads[1], keys, value_width))


def visible(inputs: AttentionInputs) -> Tensor:
    """(B, H, L, S) bool, the mask at full size."""
    seen = inputs.visible()
    if seen is None:
        return torch.ones(inputs.shape, dtype=torch.bool, device=inputs.query.device)
    return seen.expand(inputs.shape)


def reached(case: Case) -> Tensor:
    """(B, H, L, S) bool, what is visible and inside the windows of a local alignment."""
    seen = visible(case.inputs)
    if isinstance(case.mechanism, ChunkedAttention):
        query, key = (x // case.mechanism.chunk for x in (case.inputs.query_positions, case.inputs.key_positions))
        back = (query.unsqueeze(-1) - key.unsqueeze(-2)).unsqueeze(1)
        return seen & (back >= 0) & (back <= case.mechanism.before)
    alignment = case.mechanism.alignment if isinstance(case.mechanism, ScoredAttention) else None
    if not isinstance(alignment, Local):
        return seen
    queries = case.inputs.query_positions[:, None, :].expand(case.inputs.shape[:3])
    centre = case.inputs.record.get("centre", queries).unsqueeze(-1)
    places = case.inputs.key_positions[:, None, None, :]
    return seen & (places >= centre - alignment.window) & (places <= centre + alignment.window)


def with_keys(case: Case, change: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """The record where what it holds of each key, on its last axis, goes along with the keys."""
    axes = case.mechanism.declaration.reads
    return {name: change(part) if axes[name].endswith("S") else part for name, part in case.inputs.record.items()}


def leaves(name: str, case: Case) -> list[Tensor]:
    """Everything whose change is to change the output, and be felt in a gradient."""
    if name in WITHOUT_GRADIENT:
        return [case.value]
    keys = [] if name in BLIND_TO_KEYS else [case.inputs.key]
    return [case.inputs.query, *keys, case.value, *recorded(case), *case.mechanism.parameters()]


def recorded(case: Case) -> list[Tensor]:
    """What of the record is a leaf; what the mechanism drew is none."""
    return [tensor for tensor in case.inputs.record.values() if tensor.requires_grad]


def defined(case: Case) -> Tensor:
    """What the output is by definition: weights @ value, plus the declared term."""
    weights = case.mechanism.weights(case.inputs)
    value = case.value.to(weights.dtype).repeat_interleave(H // case.value.shape[1], dim=1)
    added = case.mechanism.added(case.inputs, weights)
    return weights @ value if added is None else weights @ value + added


@every_mechanism
@every_device
@every_dtype
def test_weights_are_float32_of_the_announced_shape(name, device, dtype, generator):
    case = built(name, generator, device=device, dtype=dtype)
    weights = case.mechanism.weights(case.inputs)
    assert weights.shape == case.inputs.shape == (B, H, L, S)
    assert weights.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@every_mechanism
@every_device
def test_weights_stay_float32_under_autocast(name, device, generator):
    case = built(name, generator, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        inside = case.mechanism.weights(case.inputs)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, case.mechanism.weights(case.inputs))


@every_mechanism
@every_device
@every_dtype
def test_forward_is_weights_times_value(name, device, dtype, generator):
    rtol, atol = TOLERANCES[dtype]
    for (called, mask), key_heads in product(masks(device).items(), [H, G, 1]):
        with told(generator, called, key_heads):
            case = built(name, generator, device=device, dtype=dtype, heads=(H, key_heads), mask=mask)
            expected = defined(case)
            output = case.mechanism(case.inputs, case.value)
            assert output.dtype == dtype
            torch.testing.assert_close(output.to(expected.dtype), expected, rtol=rtol, atol=atol)
            with torch.no_grad():  # kernels may be chosen by whether a gradient is wanted
                silent = case.mechanism(case.inputs, case.value)
            torch.testing.assert_close(silent.to(expected.dtype), expected, rtol=rtol, atol=atol)


@every_mechanism
@every_device
def test_gradients_are_those_of_the_definition(name, device, generator):
    for called, mask in masks(device).items():
        with told(generator, called):
            case = built(name, generator, device=device, dtype=torch.float64, heads=(H, G), mask=mask)
            upstream = torch.randn(B, H, L, EV, generator=generator, dtype=torch.float64).to(device)
            fast = torch.autograd.grad(case.mechanism(case.inputs, case.value), leaves(name, case), upstream)
            plain = torch.autograd.grad(defined(case), leaves(name, case), upstream)
            torch.testing.assert_close(fast, plain, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@every_device
def test_declared_distributions_sum_to_one_over_what_is_seen(name, device, generator):
    for called, mask in masks(device).items():
        with told(generator, called):
            case = built(name, generator, device=device, mask=mask)
            weights = case.mechanism.weights(case.inputs)
            seen = visible(case.inputs)
            assert (weights >= 0).all()
            assert (weights[~seen] == 0).all()
            torch.testing.assert_close(weights.sum(dim=-1), seen.any(dim=-1).float())


@every_mechanism
@every_device
@every_dtype
def test_a_query_that_sees_nothing_gets_exact_zeros(name, device, dtype, generator, seeded):
    blinding = {called: masks(device)[called] for called in ("blind query", "row without tokens", "composed")}
    for (called, mask), key_heads, training in product(blinding.items(), [H, G], [False, True]):
        with told(generator, called, key_heads, "training" if training else "evaluation"):
            case = built(name, generator, device=device, dtype=dtype, dropout=0.4, heads=(H, key_heads), mask=mask)
            check_blind_queries(name, case, training)


def check_blind_queries(name: str, case: Case, training: bool) -> None:
    case.mechanism.train(training)
    blind = ~visible(case.inputs).any(dim=-1)
    assert blind.any(), "the mask leaves no query without a key, so this would test nothing"
    assert (case.mechanism.weights(case.inputs)[blind] == 0).all()
    output = case.mechanism(case.inputs, case.value)
    assert (output[blind] == 0).all()
    output.float().square().sum().backward()
    for leaf in leaves(name, case):
        assert leaf.grad is not None
        assert leaf.grad.isfinite().all()
    for leaf in () if name in WITHOUT_GRADIENT else (case.inputs.query, *recorded(case)):
        assert (leaf.grad[blind] == 0).all()
    assert output[~blind].abs().sum() > 0 or training


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name not in WITHOUT_GRADIENT])
@every_device
def test_the_weights_of_a_blind_query_pass_back_zero(name, device, generator):
    case = built(name, generator, device=device, mask=masks(device)["blind query"])
    case.mechanism.weights(case.inputs).square().sum().backward()
    of_values = {id(case.value)} | {
        id(parameter) for part, parameter in case.mechanism.named_parameters() if part.startswith("values.")
    }
    assert all(leaf.grad.isfinite().all() for leaf in leaves(name, case) if id(leaf) not in of_values)
    assert (case.inputs.query.grad[:, :, BLIND] == 0).all()
    assert (case.inputs.query.grad[:, :, BLIND + 1] != 0).any()


@every_free_mechanism
@every_device
def test_true_in_a_mask_means_may_attend(name, device, generator):
    """One padded row: the real keys within reach share all the weight, the padded ones get none."""
    valid = torch.ones(B, S, dtype=torch.bool, device=device)
    valid[0, 4:] = False
    case = built(name, generator, device=device, mask=Padding(valid))
    weights = case.mechanism.weights(case.inputs)
    assert (weights[0, :, :, 4:] == 0).all()
    looked_at, within = weights != 0, reached(case)
    if name in ONE_KEY:
        assert not looked_at[~within].any()
        assert (looked_at.any(dim=-1) == within.any(dim=-1)).all()
    else:
        assert (looked_at == within).all()
    assert looked_at[0, :, :, :4].any()


@every_mechanism
@every_device
@pytest.mark.parametrize("training", [False, True])
def test_masked_keys_never_influence(name, device, training, generator, seeded):
    valid = torch.ones(B, S, dtype=torch.bool, device=device)
    valid[0, :3] = False
    case = built(name, generator, device=device, dropout=0.4, heads=(H, G), mask=Padding(valid))
    case.mechanism.train(training)

    def output(key: Tensor, value: Tensor) -> Tensor:
        torch.manual_seed(3)
        return case.mechanism(replace(case.inputs, key=key), value)

    first = output(case.inputs.key, case.value)
    first.sum().backward()
    for leaf in (case.value,) if name in BLIND_TO_KEYS | WITHOUT_GRADIENT else (case.inputs.key, case.value):
        assert (leaf.grad[0, :, :3] == 0).all()
        assert (leaf.grad[1, :, :3] != 0).any()
    hidden = ~valid[:, None, :, None]
    other_key = torch.where(hidden, -7.0, case.inputs.key.detach())
    other_value = torch.where(hidden, 1e6, case.value.detach())
    torch.testing.assert_close(output(other_key, other_value), first)
    changed = replace(case.inputs, key=other_key)
    assert torch.equal(case.mechanism.weights(changed), case.mechanism.weights(case.inputs))
    seen_key = torch.where(hidden, case.inputs.key.detach(), -case.inputs.key.detach())
    influenced = not torch.allclose(output(seen_key, case.value), first)
    assert influenced != (name in BLIND_TO_KEYS), "a visible key must influence, unless the mechanism looks at none"


@every_free_mechanism
@every_device
def test_padding_and_batch_do_not_matter(name, device, generator):
    """Keys added on either side and masked away change nothing; a row alone equals the row in a batch."""
    case = built(name, generator, device=device, mask=Padding(torch.ones(B, S, dtype=torch.bool, device=device)))
    plain = case.mechanism(case.inputs, case.value)
    extra = 3
    for side in ("left", "right"):
        pad = (0, 0, extra, 0) if side == "left" else (0, 0, 0, extra)
        key, value = (torch.nn.functional.pad(x, pad, value=2.5) for x in (case.inputs.key, case.value))
        valid = torch.ones(B, S + extra, dtype=torch.bool, device=device)
        valid[:, slice(0, extra) if side == "left" else slice(S, None)] = False
        positions = case.inputs.key_positions
        places = torch.nn.functional.pad(positions, pad[2:])
        record = with_keys(case, partial(torch.nn.functional.pad, pad=pad[2:], value=0.5))
        padded = replace(case.inputs, key=key, key_positions=places, mask=Padding(valid), record=record)
        torch.testing.assert_close(case.mechanism(padded, value), plain)
    alone = AttentionInputs(
        query=case.inputs.query[1:],
        key=case.inputs.key[1:],
        query_positions=case.inputs.query_positions[1:],
        key_positions=case.inputs.key_positions[1:],
        record={part: tensor[1:] for part, tensor in case.inputs.record.items()},
    )
    torch.testing.assert_close(case.mechanism(alone, case.value[1:]), plain[1:])


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@every_device
@every_dtype
def test_one_key_gets_weight_one(name, device, dtype, generator):
    case = built(name, generator, device=device, dtype=dtype, sizes=(B, 1, 1, EV), mask=Causal())
    weights = case.mechanism.weights(case.inputs)
    assert (weights == 1.0).all()
    if not case.mechanism.declaration.added:
        assert torch.equal(case.mechanism(case.inputs, case.value), case.value)


@every_mechanism
@every_device
def test_grouped_keys_are_keys_repeated(name, device, generator):
    """Query heads h*H/G and after share key head h."""
    case = built(name, generator, device=device, heads=(H, G))
    repeated = replace(case.inputs, key=case.inputs.key.repeat_interleave(H // G, dim=1))
    assert torch.equal(case.mechanism.weights(case.inputs), case.mechanism.weights(repeated))
    values = case.value.repeat_interleave(H // G, dim=1)
    torch.testing.assert_close(case.mechanism(case.inputs, case.value), case.mechanism(repeated, values))


@every_mechanism
@every_device
def test_weights_are_the_same_in_training_and_draw_nothing(name, device, generator, seeded):
    case = built(name, generator, device=device, dropout=0.5)
    quiet = case.mechanism.weights(case.inputs)
    before = torch.get_rng_state(), torch.cuda.get_rng_state() if device == "cuda" else None
    training = case.mechanism.train().weights(case.inputs)
    assert torch.equal(training, quiet)
    assert torch.equal(torch.get_rng_state(), before[0])
    if before[1] is not None:
        assert torch.equal(torch.cuda.get_rng_state(), before[1])


@every_mechanism
@every_device
def test_dropout_acts_in_training_only(name, device, generator, seeded):
    case = built(name, generator, device=device, dropout=0.5)
    quiet = case.mechanism(case.inputs, case.value)
    assert torch.equal(case.mechanism(case.inputs, case.value), quiet)
    case.mechanism.train()
    assert not torch.allclose(case.mechanism(case.inputs, case.value), quiet)


@every_mechanism
@every_device
def test_dropout_keeps_the_output_on_average(name, device, generator, seeded):
    case = built(name, generator, device=device, dropout=0.3, mask=masks(device)["composed"])
    quiet = case.mechanism(case.inputs, case.value)
    case.mechanism.train()

    def many(part: Tensor) -> Tensor:
        return part.detach().repeat(600, *[1] * (part.dim() - 1))

    side_by_side = AttentionInputs(  # each row 600 times in one batch: dropout is drawn for each anew
        query=many(case.inputs.query),
        key=many(case.inputs.key),
        mask=masks(device, 600)["composed"],
        query_positions=many(case.inputs.query_positions),
        key_positions=many(case.inputs.key_positions),
        record={part: many(drawn) for part, drawn in case.inputs.record.items()},
    )
    with torch.no_grad():
        draws = case.mechanism(side_by_side, many(case.value)).unflatten(0, (600, B))
    # Six standard deviations of a mean of 600 draws, of which one weight without bound may make an output's large.
    assert ((draws.mean(dim=0) - quiet).abs() <= 6 * draws.std(dim=0) / 600**0.5 + 1e-4).all()


@every_free_mechanism
@every_device
def test_permuting_keys_permutes_weights(name, device, generator):
    valid = torch.ones(B, S, dtype=torch.bool, device=device)
    valid[0, 5:] = False
    case = built(name, generator, device=device, mask=Padding(valid))
    if (
        name in ONE_KEY
    ):  # a lot falls on the keys in their order: what is permuted is the probability, and the most probable key
        case = replace(case, inputs=replace(case.inputs, record={}))
    order = torch.randperm(S, generator=generator).to(device)
    permuted = replace(
        case.inputs,
        key=case.inputs.key[:, :, order],
        key_positions=case.inputs.key_positions[:, order],
        mask=Padding(valid[:, order]),
        record=with_keys(case, lambda part: part[..., order]),
    )
    weights = case.mechanism.weights(case.inputs)
    torch.testing.assert_close(case.mechanism.weights(permuted), weights[..., order])
    output = case.mechanism(case.inputs, case.value)
    torch.testing.assert_close(case.mechanism(permuted, case.value[:, :, order]), output)


@every_mechanism
@every_device
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_long_sequences_whose_first_or_last_block_is_masked(name, device, side, dtype, generator):
    """Fused kernels walk the keys in blocks; a block with nothing visible must not poison the others."""
    keys = LONG
    valid = torch.ones(1, keys, dtype=torch.bool, device=device)
    valid[:, slice(0, 700) if side == "left" else slice(400, None)] = False
    case = built(name, generator, device=device, dtype=dtype, sizes=(1, 3, keys, EV), mask=Padding(valid))
    expected = defined(case)
    output = case.mechanism(case.inputs, case.value)
    rtol, atol = TOLERANCES[dtype]
    # Rounding grows with what is added up: one, of a distribution.
    added_up = case.mechanism.weights(case.inputs).detach().abs().sum(dim=-1).max().item()
    torch.testing.assert_close(output.to(expected.dtype), expected, rtol=rtol, atol=atol * max(1.0, added_up))
    output.float().sum().backward()
    assert (case.value.grad[:, :, ~valid[0]] == 0).all()
    assert case.inputs.query.grad.isfinite().all()


@every_mechanism
def test_a_mask_of_another_shape_is_refused_by_both_shapes(name, generator):
    wrong = [
        (Dense(torch.ones(B, H, L, S + 1, dtype=torch.bool)), (B, H, L, S + 1), (B, H, L, S)),
        (Dense(torch.ones(B + 1, 1, 1, S, dtype=torch.bool)), (B + 1, 1, 1, S), (B, H, L, S)),
        (Causal() & Dense(torch.ones(1, 1, L + 1, S, dtype=torch.bool)), (1, 1, L + 1, S), (B, H, L, S)),
        (Padding(torch.ones(B, S + 2, dtype=torch.bool)), (B, S + 2), (B, S)),
        (Padding(torch.ones(B - 1, S, dtype=torch.bool)), (B - 1, S), (B, S)),
        (~Padding(torch.ones(B, S - 1, dtype=torch.bool)) | Causal(), (B, S - 1), (B, S)),
        (Document(torch.zeros(B, S, dtype=torch.long)), (B, S), (B, L)),
    ]
    for mask, shape, wanted in wrong:
        with told(generator, mask):
            case = built(name, generator, mask=mask)
            for call in (
                partial(case.mechanism, case.inputs, case.value),
                partial(case.mechanism.weights, case.inputs),
            ):
                with pytest.raises(ValueError, match="shape") as caught:
                    call()
                assert str(shape) in str(caught.value)
                assert str(wanted) in str(caught.value)


@every_mechanism
def test_a_value_that_does_not_fit_the_keys_is_refused_by_both_shapes(name, generator):
    case = built(name, generator)
    for shape in [(B, H, S + 1, EV), (B + 1, H, S, EV), (B, H - 1, S, EV), (H, S, EV), (1, H, S, EV)]:
        with pytest.raises(ValueError, match="value") as caught:
            case.mechanism(case.inputs, torch.zeros(shape))
        assert str(shape) in str(caught.value)
        assert str((B, H, S, E)) in str(caught.value)


@every_mechanism
def test_nothing_more_happens_than_is_declared(name, generator):
    case = built(name, generator)
    declared = case.mechanism.declaration
    weights = case.mechanism.weights(case.inputs)
    assert (case.mechanism.added(case.inputs, weights) is not None) == declared.added
    assert (case.mechanism.draw(case.inputs, generator) is not case.inputs) == declared.drawn


class Watched(dict[str, Tensor]):
    """A record that notes what it is asked for."""

    def __init__(self, record: Mapping[str, Tensor]) -> None:
        super().__init__(record)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.asked.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)


@every_mechanism
def test_no_more_of_the_record_is_read_than_is_declared(name, generator):
    case = built(name, generator)
    declared = case.mechanism.declaration.reads
    assert set(case.inputs.record) <= set(declared), "what is drawn is declared"
    record = Watched(case.inputs.record)
    inputs = replace(case.inputs, record=record)
    weights = case.mechanism.weights(inputs)
    case.mechanism(inputs, case.value)
    case.mechanism.added(inputs, weights)
    assert record.asked <= set(declared)
    for part in sorted(record.asked & set(record)):
        tensor = case.inputs.record[part]
        wrong = replace(case.inputs, record={**case.inputs.record, part: torch.cat((tensor, tensor), dim=1)})
        with pytest.raises(ValueError, match=f"the record's {part} has shape") as caught:
            case.mechanism.weights(wrong)
        assert str(tuple(wrong.record[part].shape)) in str(caught.value)


def test_every_mechanism_score_and_alignment_of_the_package_is_in_the_contract():
    """A new one is not forgotten: whatever the package exports, and is no base class, stands in `MECHANISMS`."""
    kinds = (Attention, Score, Alignment)
    exported = {
        thing for thing in vars(regard.attention).values() if isinstance(thing, type) and issubclass(thing, kinds)
    }
    held = {type(part) for make in MECHANISMS.values() for part in make(E, 0.0).modules()}
    assert {thing.__name__ for thing in exported - held - set(kinds)} == set()


def test_the_contract_catches_a_mechanism_that_breaks_its_word(generator):
    """The contract itself can fail: weights before the mask is applied are no distribution over what is seen."""

    class Careless(ScoredAttention):
        def weights(self, inputs: AttentionInputs) -> Tensor:
            return super().weights(replace(inputs, mask=None))

    valid = torch.tensor([[True] * 4 + [False] * 3] * B)
    case = built("dot", generator, mask=Padding(valid))
    careless = Case(Careless(Dot()).eval(), case.inputs, case.value)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(careless.mechanism(careless.inputs, careless.value), defined(careless))


BLOCKS = ("encoder", "decoder", "causal")
ROTARY = "rotary"  # no mechanism, but of a layer: queries and keys turned by their positions
LENGTHS = (9, 5, 7)  # of three texts side by side; more than two chunks, a window and every distance that is told apart
SOURCES = (6, 8, 3)
RECORD_OF_ITS_OWN = {"addressed"}  # what a memory's head has in the record no block makes
WHOLE_ALONE = {"hashed", "hashed, whole chunks"}  # the order of a longer text is cut elsewhere
UNPADDED_ALONE = {"hashed, whole chunks"}  # the released code joins the ends of the order, padding included
WAYS = ("right padding", "left padding", "step by step", "step by step after left padding")


def stacked(name: str, kind: str, generator: torch.Generator) -> nn.Module:
    """A small model of two blocks whose attentions have the mechanism, all parameters drawn anew."""
    sizes: dict[str, Any] = {"width": H * E, "heads": H, "feedforward_width": 5, "maximum_positions": 20}
    if kind == "encoder":
        model: nn.Module = Bert(BertConfig(vocabulary=11, layers=2, head="none", **sizes))
    elif kind == "decoder":
        layers = {"encoder_layers": 1, "decoder_layers": 2}
        model = Transformer(TransformerConfig(source_vocabulary=11, target_vocabulary=11, **layers, **sizes))
    else:
        model = GPT2(GPT2Config(vocabulary=11, layers=2, **sizes))
    for layer in model.modules():
        if name == ROTARY and isinstance(layer, AttentionLayer):
            layer.rotary = Rotary(E, 20)
        elif isinstance(layer, AttentionLayer) and (name not in OWN_SLOTS or layer.between[0] == layer.between[1]):
            layer.attention = MECHANISMS[name](E, 0.0)
            if isinstance(layer.attention, RelativeAttention):  # its values are wider
                layer.value, layer.output = nn.Linear(H * E, H * EV), nn.Linear(H * EV, H * E)
    with torch.no_grad():
        for parameter in model.parameters():
            fan = parameter.shape[-1] if parameter.dim() > 1 else 4
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / fan**0.5)
    return model.double().eval()


def texts(lengths: Sequence[int], seed: int) -> list[list[int]]:
    drawn = torch.Generator().manual_seed(seed)
    return [torch.randint(3, 11, (length,), generator=drawn).tolist() for length in lengths]


def answered(model: Any, kind: str, way: str, rows: list[list[int]], sources: list[list[int]]) -> list[Tensor]:
    """What is said at the real tokens of each row, (its length, D or V)."""
    if way == "alone":
        apart = [
            answered(model, kind, "right padding", [row], [source]) for row, source in zip(rows, sources, strict=True)
        ]
        return [found for (found,) in apart]
    side: Any = "left" if "left" in way else "right"
    tokens, source = Tokens.pad(rows, side=side), Tokens.pad(sources, side=side)
    if "step" not in way:
        given = (source, tokens) if kind == "decoder" else (tokens,)
        found = model(*given)
        found = found.hidden if kind == "encoder" else found
        return [each[valid] for each, valid in zip(found, tokens.valid, strict=True)]
    # Each row twice, as in a beam; and texts without a source after a beginning of different lengths.
    longest, begun, steps = max(map(len, rows)), [0] * len(rows), []
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
        torch.testing.assert_close(logits[::2], logits[1::2], rtol=1e-9, atol=1e-9)
        steps.append(logits[::2])
    together = torch.stack(steps, dim=1)
    found = [each[: len(row) - many] for each, row, many in zip(together, rows, begun, strict=True)]
    return found if not max(begun) else [torch.cat(parts) for parts in zip(begins, found, strict=True)]


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("name", [*(name for name in MECHANISMS if name not in RECORD_OF_ITS_OWN), ROTARY])
def test_in_every_block_padding_and_steps_change_no_answer(name, kind, generator, seeded):
    """Places are counted from a row's first real token, whichever way it is read."""
    model = stacked(name, kind, generator)
    rows, sources = texts(LENGTHS, 1), texts(SOURCES, 2)
    with torch.no_grad():
        wanted = answered(model, kind, "alone", rows, sources)
        for way in WAYS:
            if "step" in way and (kind == "encoder" or name in WHOLE_ALONE):
                continue
            if "step" not in way and name in UNPADDED_ALONE:
                continue
            found = answered(model, kind, way, rows, sources)
            for place, (ours, alone) in enumerate(zip(found, wanted, strict=True)):
                torch.testing.assert_close(
                    ours, alone, rtol=1e-9, atol=1e-9, msg=lambda m, w=f"{way}, row {place}": f"{w}: {m}"
                )
