"""The contract of attention: every mechanism is held to what it declares. A new mechanism joins by one line in `MECHANISMS`.

The checks are those of `regard.testing.check_mechanism`, which holds mechanisms of others to the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import regard.attention
from regard.attention import (
    Additive,
    Addressed,
    Alignment,
    Attention,
    AttentionInputs,
    AttentionLayer,
    ChunkedAttention,
    Cosine,
    Dot,
    General,
    Hard,
    LambdaAttention,
    Local,
    Location,
    LSHAttention,
    RelativeAttention,
    RelativeBias,
    RelativeDot,
    RelativeKeys,
    RelativeVectors,
    Rotary,
    ScaledDot,
    Score,
    ScoredAttention,
)
from regard.errors import InputError
from regard.testing import CheckFailed, MechanismTraits, check_mechanism, mechanism_checks
from regard.testing.mechanism_inputs import BLOCKS, HEADS, LONGEST, VALUE_WIDTH, WIDTH, Held, check_in_blocks
from regard.testing.mechanisms import IN_BLOCKS

# name: (width of a query and a key, dropout) -> mechanism
MECHANISMS: dict[str, Callable[[int, float], Attention]] = {
    "dot": lambda width, dropout: ScoredAttention(Dot(), dropout=dropout),
    "scaled_dot": lambda width, dropout: ScoredAttention(ScaledDot(), dropout=dropout),
    "dot over width": lambda width, dropout: ScoredAttention(ScaledDot(power=1.0), dropout=dropout),
    "general": lambda width, dropout: ScoredAttention(General(width), dropout=dropout),
    "additive": lambda width, dropout: ScoredAttention(Additive(width), dropout=dropout),
    "location": lambda width, dropout: ScoredAttention(Location(width, maximum=LONGEST), dropout=dropout),
    "cosine": lambda width, dropout: ScoredAttention(Cosine(3.0), dropout=dropout),
    "cosine of own strength": lambda width, dropout: ScoredAttention(Cosine(), dropout=dropout),
    "relative buckets": lambda width, dropout: ScoredAttention(
        RelativeDot(RelativeBias(HEADS, buckets=8, maximum_distance=6)), dropout=dropout
    ),
    "relative buckets, backwards": lambda width, dropout: ScoredAttention(
        RelativeDot(RelativeBias(HEADS, buckets=4, maximum_distance=5, both_ways=False)), dropout=dropout
    ),
    "relative vectors": lambda width, dropout: ScoredAttention(
        RelativeKeys(RelativeVectors(width, 2, heads=HEADS)), dropout=dropout
    ),
    "relative vectors, backwards": lambda width, dropout: ScoredAttention(
        RelativeKeys(RelativeVectors(width, 3, both_ways=False, beyond="nothing")), dropout=dropout
    ),
    "relative vectors, of values too": lambda width, dropout: RelativeAttention(
        RelativeVectors(width, 3), RelativeVectors(VALUE_WIDTH, 2), dropout=dropout
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
    "hashed, short": lambda width, dropout: LSHAttention(chunk=2 * LONGEST, rounds=1, buckets=(2,), dropout=dropout),
    "addressed": lambda width, dropout: ScoredAttention(Cosine(), Addressed(), dropout=dropout),
    "lambdas": lambda width, dropout: LambdaAttention(width, rows=1, columns=LONGEST, dropout=dropout),
    "lambdas of content": lambda width, dropout: LambdaAttention(
        width, rows=1, columns=LONGEST, lambdas="content", dropout=dropout
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


def within_chunks(inputs: AttentionInputs) -> Tensor:
    """The keys of the query's own chunk up to the one before it, of three tokens each."""
    query, key = (places // 3 for places in (inputs.query_positions, inputs.key_positions))
    back = (query.unsqueeze(-1) - key.unsqueeze(-2)).unsqueeze(1)
    return (back >= 0) & (back <= 1)


def within_window(window: int) -> Callable[[AttentionInputs], Tensor]:
    """The keys at most so many places from the centre, that of the record or the query's own place."""

    def reach(inputs: AttentionInputs) -> Tensor:
        queries = inputs.query_positions[:, None, :].expand(inputs.shape[:3])
        centre = inputs.record.get("centre", queries).unsqueeze(-1)
        places = inputs.key_positions[:, None, None, :]
        return (places >= centre - window) & (places <= centre + window)

    return reach


WHOLE = ("right padding", "left padding")
TRAITS: dict[str, MechanismTraits] = {
    "location": MechanismTraits(blind_to_keys=True),  # weights by the query and the place alone
    "cosine of own strength": MechanismTraits(record=RECORDS["cosine of own strength"]),
    "relative vectors, of values too": MechanismTraits(fixed_value_width=True),
    "local, centred on the query": MechanismTraits(reach=within_window(2)),
    "local, predicted centre": MechanismTraits(record=RECORDS["local, predicted centre"], reach=within_window(3)),
    "hard": MechanismTraits(one_key=True, without_gradient=True),  # nothing comes back through a draw
    "hard, mean half of the time": MechanismTraits(one_key=True),  # some queries look at one key of those they see
    "chunked": MechanismTraits(reach=within_chunks),
    # Queries are the tokens of the last keys. The order of a longer text is cut elsewhere, so steps give other sets; and where
    # sets are whole chunks the released code joins the ends of the order, padding included.
    "hashed": MechanismTraits(own_slots=True, ways=WHOLE),
    "hashed, whole chunks": MechanismTraits(own_slots=True, ways=()),
    "hashed, short": MechanismTraits(own_slots=True),
    "addressed": MechanismTraits(record=RECORDS["addressed"]),
}
RECORD_OF_ITS_OWN = {"addressed"}  # what a memory's head has in the record no block makes
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
OF_BLOCKS = dict(zip(BLOCKS, (check.__name__ for check in IN_BLOCKS), strict=True))


def held(name: str) -> Held:
    return Held(MECHANISMS[name], TRAITS.get(name, MechanismTraits()), torch.device("cpu"))


def checks_of(name: str, device: str = "cpu") -> dict[str, Callable[[], None]]:
    return mechanism_checks(MECHANISMS[name], TRAITS.get(name), device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("name", "check"),
    [(name, check) for name in MECHANISMS for check in checks_of(name) if check not in OF_BLOCKS.values()],
)
def test_every_mechanism_does_what_it_declares(name, check, device):
    checks_of(name, device)[check]()


ROTARY = "rotary"  # no mechanism, but of a layer: queries and keys turned by their positions


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("name", [*(name for name in MECHANISMS if name not in RECORD_OF_ITS_OWN), ROTARY])
def test_in_every_block_padding_and_steps_change_no_answer(name, kind, seeded):
    """Places are counted from a row's first real token, whichever way it is read."""

    def turned(layer: AttentionLayer) -> None:
        layer.rotary = Rotary(WIDTH, 20)

    if name == ROTARY:
        check_in_blocks(kind, turned)
    else:
        checks_of(name)[OF_BLOCKS[kind]]()


def test_every_mechanism_score_and_alignment_of_the_package_is_in_the_contract():
    """A new one is not forgotten: whatever the package exports, and is no base class, stands in `MECHANISMS`."""
    kinds = (Attention, Score, Alignment)
    exported = {
        thing for thing in vars(regard.attention).values() if isinstance(thing, type) and issubclass(thing, kinds)
    }
    held = {type(part) for make in MECHANISMS.values() for part in make(WIDTH, 0.0).modules()}
    assert {thing.__name__ for thing in exported - held - set(kinds)} == set()


BROKEN: dict[str, type[ScoredAttention]] = {}  # by the check that has to see it


def sees(check: str) -> Callable[[type[ScoredAttention]], type[ScoredAttention]]:
    def kept(broken: type[ScoredAttention]) -> type[ScoredAttention]:
        BROKEN[check] = broken
        return broken

    return kept


@sees("output_is_weights_times_value")
class Careless(ScoredAttention):
    """Weights before the mask is applied."""

    def weights(self, inputs: AttentionInputs) -> Tensor:
        return super().weights(replace(inputs, mask=None))


@sees("weights_are_float32")
class Narrow(ScoredAttention):
    """Weights in the dtype of the inputs."""

    def weights(self, inputs: AttentionInputs) -> Tensor:
        return super().weights(inputs).to(inputs.query.dtype)


@sees("training_changes_no_weights")
class Dropping(ScoredAttention):
    """Weights after dropout."""

    def weights(self, inputs: AttentionInputs) -> Tensor:
        return torch.nn.functional.dropout(super().weights(inputs), self.dropout, self.training)


@sees("padding_and_batch_change_nothing")
class Counting(ScoredAttention):
    """Weights that hang on how many keys there are, padding included."""

    def weights(self, inputs: AttentionInputs) -> Tensor:
        return super().weights(inputs) / inputs.key.shape[2]

    def forward(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        return Attention.forward(self, inputs, value)


@pytest.mark.parametrize("check", BROKEN)
def test_the_contract_catches_a_mechanism_that_breaks_its_word(check):
    """The contract itself can fail, and says which check did."""

    def make(width: int, dropout: float) -> Attention:
        return BROKEN[check](Dot(), dropout=dropout)

    others = [name for name in mechanism_checks(make) if name != check]
    with pytest.raises(CheckFailed, match=f"{BROKEN[check].__name__}, {check}: "):
        check_mechanism(make, without=others)


def test_a_check_that_is_none_is_refused_by_name():
    with pytest.raises(InputError, match="no check 'permuting'"):
        check_mechanism(MECHANISMS["dot"], without=["permuting"])


def test_checking_draws_none_of_the_callers_random_numbers():
    before = torch.get_rng_state()
    assert check_mechanism(MECHANISMS["dot"], without=list(OF_BLOCKS.values()))
    assert torch.equal(torch.get_rng_state(), before)
