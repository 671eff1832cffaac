"""The contract that every attention mechanism must satisfy.

`check_mechanism(factory)` runs all checks; `mechanism_checks(factory)` returns them by name, so that a test framework can run
each separately:

    @pytest.mark.parametrize("name", mechanism_checks(make))
    def test_my_mechanism(name):
        mechanism_checks(make)[name]()
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

import torch

from regard.testing.inputs import run_checks
from regard.testing.mechanism_contract import IN_BLOCKS, OF_ALL, OF_DIFFERENTIABLE, OF_DISTRIBUTIONS, OF_FREE_KEYS
from regard.testing.mechanism_inputs import SEED, WIDTH, Factory, Held, MechanismTraits, seeded


def check_mechanism(
    factory: Factory,
    traits: MechanismTraits | None = None,
    *,
    without: Collection[str] = (),
    device: str | torch.device = "cpu",
) -> list[str]:
    """Check an attention mechanism against its declaration: build it with random parameters and run every check.

    The output is compared with `weights(inputs) @ value` in four dtypes and under every kind of mask, its gradients in float64.
    Padding, batching, grouped keys, dropout, random state and refused inputs are checked; and, in the blocks of an encoder, a
    decoder and a language model, that padding on either side and decoding step by step change no output. It takes some seconds.

    Arguments:
        factory: a function from the width of queries and keys, and the dropout, to a new mechanism. Queries have `HEADS` heads,
            values the width `VALUE_WIDTH`, and there are at most `LONGEST` keys.
        traits: how the mechanism differs from most.
        without: names of checks to leave out, from `mechanism_checks`.
        device: where to compute.

    Returns:
        The names of the checks that ran.

    Raises:
        CheckFailed: with the check's name and why it failed.
        InputError: for an unknown name in `without`.

    >>> from regard.attention import ScaledDot, ScoredAttention
    >>> blocks = ["consistent_in_an_encoder", "consistent_in_a_decoder", "consistent_in_a_language_model"]
    >>> checks = check_mechanism(lambda width, dropout: ScoredAttention(ScaledDot(), dropout=dropout), without=blocks)
    >>> "output_is_weights_times_value" in checks
    True
    """
    checks = mechanism_checks(factory, traits, device=device)
    return run_checks(type(factory(WIDTH, 0.0)).__name__, checks, without)


def mechanism_checks(
    factory: Factory, traits: MechanismTraits | None = None, *, device: str | torch.device = "cpu"
) -> dict[str, Callable[[], None]]:
    """The checks of a mechanism's contract by name; each raises an AssertionError where the mechanism violates it.

    Arguments:
        factory, traits, device: as for `check_mechanism`.
    """
    held = Held(factory, traits or MechanismTraits(), torch.device(device))
    checks: list[Callable[[Held], None]] = [*OF_ALL]
    if factory(WIDTH, 0.0).declaration.distribution:
        checks += OF_DISTRIBUTIONS
    if not held.traits.own_slots:
        checks += OF_FREE_KEYS
    if not held.traits.without_gradient:
        checks += OF_DIFFERENTIABLE
    checks += IN_BLOCKS
    return {check.__name__: partial(_seeded_check, check, held) for check in checks}


def _seeded_check(check: Callable[[Held], None], held: Held) -> None:
    with seeded(SEED):
        check(held)
