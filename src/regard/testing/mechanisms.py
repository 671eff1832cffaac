"""The contract of attention mechanisms: what every mechanism has to do, whoever wrote it.

`check_mechanism(factory)` runs all of it; `mechanism_checks(factory)` names the checks, so that a test framework can run each by
itself:

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
    """Hold an attention mechanism to its declaration: build it with random parameters and run every check.

    The output is compared with `weights(inputs) @ value` in four dtypes and under every kind of mask, its gradients in float64;
    padding and batch, grouped keys, dropout, the random state and what is refused are checked; and, in the blocks of an encoder,
    a decoder and a language model, that padding on either side and going step by step change no answer. It takes some seconds.

    Arguments:
        factory: from the width of a query and a key, and the dropout, to a new mechanism. Queries have `HEADS` heads, values
            are `VALUE_WIDTH` wide, there are at most `LONGEST` keys.
        traits: in what the mechanism is another than most.
        without: names of checks to leave out, which `mechanism_checks` lists.
        device: where to compute.

    Returns:
        The names of the checks that ran.

    Raises:
        CheckFailed: naming the check and what it saw.
        InputError: for a check in `without` that does not exist.

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
    """The checks of a mechanism's contract by name; each raises an AssertionError where the mechanism fails it.

    Arguments:
        factory, traits, device: as `check_mechanism` takes them.
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
    return {check.__name__: partial(_aside, check, held) for check in checks}


def _aside(check: Callable[[Held], None], held: Held) -> None:
    with seeded(SEED):
        check(held)
