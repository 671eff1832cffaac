"""The contract that every model of an interface must satisfy.

`check_model(config)` runs all checks; `model_checks(config)` returns them by name, so that a test framework can run each
separately:

    @pytest.mark.parametrize("name", model_checks(CONFIG))
    def test_my_model(name):
        model_checks(CONFIG)[name]()
"""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Attention, Score, ScoredAttention
from regard.checkpoints import parameters_of, read_model, write_model
from regard.errors import InputError
from regard.inspection import look
from regard.models import MODELS
from regard.models.config import config_from_json, config_to_json
from regard.testing.decoding import (
    OF_DECODERS,
    OF_LANGUAGE_MODELS,
    OF_PADDED,
    OF_STEPS,
    logits_alone,
)
from regard.testing.inputs import (
    CheckFailed,
    ModelCase,
    Outputs,
    PaddedInputs,
    StepInputs,
    close,
    ensure,
    moved,
    real,
    run_checks,
)


def check_model(config: Any, *, without: Collection[str] = (), idle: Collection[str] = ("key.bias",)) -> list[str]:
    """Check a model against the contract of its interface: build it from its config with random parameters and run every check.

    The config should be small (widths of 4 to 20, 2 layers, a vocabulary of 11 or more, dropout above 0), so that all checks
    together take a second or two; most run in float64. The model's family must be in `regard.models.MODELS`: one of the
    package's own, or one registered with `regard.parts.model`.

    Arguments:
        config: of the model; `config.model_type` names its family.
        without: names of checks to leave out, from `model_checks`.
        idle: parts of the names of parameters that may have no effect on the outputs, such as the bias of the keys, which adds
            the same number to all scores of a query.

    Returns:
        The names of the checks that ran.

    Raises:
        CheckFailed: with the check's name and why it failed.
        InputError: for an unknown family, or an unknown name in `without`.

    >>> from regard.models import GPT2Config
    >>> config = GPT2Config(vocabulary=11, width=8, heads=2, feedforward_width=6, layers=1, maximum_positions=8, dropout=0.3)
    >>> "stepping_equals_reading" in check_model(config)
    True
    """
    return run_checks(config.model_type, model_checks(config, idle=idle), without)


def model_checks(config: Any, *, idle: Collection[str] = ("key.bias",)) -> dict[str, Callable[[], None]]:
    """The checks of a model's contract by name; each raises an AssertionError where the model violates it.

    Arguments:
        config, idle: as for `check_model`.
    """
    if config.model_type not in MODELS:
        raise InputError(f"there is no model {config.model_type!r}; name its class with regard.parts.model")
    case = ModelCase(config, tuple(idle))
    checks: list[Callable[[ModelCase], None]] = [*OF_ALL]
    if isinstance(case.inputs, PaddedInputs):
        checks += OF_PADDED
    if isinstance(case.inputs, StepInputs):
        checks += OF_STEPS
    if case.interface == "language_model":
        checks += OF_LANGUAGE_MODELS
    if case.interface == "encoder_decoder":
        checks += OF_DECODERS
    return {check.__name__: partial(_isolated_check, check, case) for check in checks}


def _isolated_check(check: Callable[[ModelCase], None], case: ModelCase) -> None:
    with torch.random.fork_rng(devices=[]):  # restores the caller's random state
        check(case)


# Of every model.


def outputs_are_finite(case: ModelCase) -> None:
    """A batch of rows of different lengths has finite outputs."""
    found = case.outputs(case.model(), case.inputs.batch())
    ensure(len(found) == len(case.inputs.lengths), "a batch has a different number of rows in its outputs")
    for row, values in enumerate(found):
        ensure(bool(values), f"row {row} has no outputs")
        width = case.inputs.vocabulary
        ensure(
            width is None or values["logits"].shape[-1] == width,
            f"the logits are not over the {width} tokens of the vocabulary",
        )
        for name, value in values.items():
            ensure(value.isfinite().all(), f"{name} of row {row} is not finite")


def batch_changes_nothing(case: ModelCase) -> None:
    """A row alone, without padding, has the outputs that it has in a batch padded on either side."""
    model = case.model()
    for side in case.inputs.sides:
        together = case.outputs(model, case.inputs.batch(side))
        for row in range(len(case.inputs.lengths)):
            alone = case.outputs(model, case.inputs.alone(row))
            close(
                alone, [together[row]], f"alone, and in a batch padded on the {side}", tolerance=case.inputs.tolerance
            )


def row_order_changes_nothing(case: ModelCase) -> None:
    """Rows in another order have the same outputs."""
    model, read = case.model(), case.inputs.batch()
    order = [2, 0, 1]
    close(
        case.outputs(model, case.inputs.select(read, torch.tensor(order))),
        case.outputs(model, read, order),
        "rows in another order",
        tolerance=case.inputs.tolerance,
    )


def inputs_matter(case: ModelCase) -> None:
    """Another token or pixel changes the outputs of its row, and of no other row."""
    model = case.model()
    plain = case.outputs(model, case.inputs.batch())
    for row, changed in case.inputs.changes():
        found = case.outputs(model, changed)
        ensure(moved(found[row], plain[row]) > 1e-7, f"another input in row {row} changes nothing")
        for other in range(len(plain)):
            if other != row:
                close([found[other]], [plain[other]], "another row's inputs", tolerance=case.inputs.tolerance)


def evaluation_uses_no_random_numbers(case: ModelCase) -> None:
    """In evaluation, outputs are bit for bit repeatable and no random number is used; in training, dropout has an effect."""
    model, read = case.model(), case.inputs.batch()
    before = torch.get_rng_state()
    close(case.outputs(model, read), case.outputs(model, read), "the same input twice", exactly=True)
    ensure(torch.equal(torch.get_rng_state(), before), "evaluation used torch's random numbers")
    rates = [part.name for part in dataclasses.fields(case.config) if part.name.endswith("dropout")]
    if any(getattr(case.config, name) for name in rates):
        model.train()
        first, second = (case.outputs(model, read) for _ in range(2))
        ensure(
            any(not torch.equal(one[name], two[name]) for one, two in zip(first, second, strict=True) for name in one),
            f"dropout is above 0 ({', '.join(rates)}), and training gives the same numbers twice",
        )


def every_parameter_learns(case: ModelCase) -> None:
    """Every parameter has a finite gradient, above 0 unless it is named idle; a small gradient step lowers the loss."""
    model, read = case.model(), case.inputs.batch()
    loss = _loss(case, model, read)
    loss.backward()
    trainable = {name: each for name, each in model.named_parameters() if each.requires_grad}
    for name, parameter in trainable.items():
        idle = any(part in name for part in case.idle)
        if parameter.grad is None:
            ensure(idle, f"{name} has no gradient")
            parameter.grad = torch.zeros_like(parameter)
        ensure(parameter.grad.isfinite().all(), f"the gradient of {name} is not finite")
        if not idle:
            ensure(parameter.grad.abs().max() > 1e-9, f"the gradient of {name} is 0")
    squared = sum(float(each.grad.square().sum()) for each in trainable.values())
    with torch.no_grad():
        for parameter in trainable.values():
            parameter -= 1e-4 * float(loss) / max(squared, 1e-12) * parameter.grad
    ensure(_loss(case, model, read) < loss, "a small step against the gradient does not lower the loss")


def _loss(case: ModelCase, model: Any, read: Any) -> Tensor:
    """The mean squared distance of all outputs from random targets."""
    parts = []
    for row, values in enumerate(case.outputs(model, read)):
        for value in values.values():
            draw = torch.Generator().manual_seed(row)
            aim = torch.randn(value.shape, generator=draw, dtype=torch.float64)
            parts.append((real(value).double() - aim).square().mean())
    return torch.stack(parts).sum()


def saving_is_the_identity(case: ModelCase) -> None:
    """A model saved to a folder and loaded has bit for bit the same outputs, the same config and the same tied parameters."""
    for dtype in (torch.float32, torch.float64):
        model, read = case.model(dtype), case.inputs.batch()
        with tempfile.TemporaryDirectory() as place:
            write_model(Path(place), case.config, parameters_of(model), task={}, recipe={}, metrics={})
            loaded = read_model(Path(place))
        ensure(loaded.config == case.config, "the loaded config differs")
        ensure(not loaded.training, "a loaded model is in training mode")
        ensure(ties(loaded) == ties(model), f"other parameters are tied: {ties(loaded)} for {ties(model)}")
        close(case.outputs(loaded.to(dtype), read), case.outputs(model, read), f"read again in {dtype}", exactly=True)


def ties(model: nn.Module) -> set[frozenset[str]]:
    """Groups of names of parameters that are the same tensor."""
    names: dict[int, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter.data_ptr(), set()).add(name)
    return {frozenset(group) for group in names.values() if len(group) > 1}


def copies_are_independent(case: ModelCase) -> None:
    """A deep copy has the same outputs, keeps tied parameters, and is independent of the original."""
    model, read = case.model(), case.inputs.batch()
    expected = case.outputs(model, read)
    copied = copy.deepcopy(model)
    ensure(ties(copied) == ties(model) == ties(copy.deepcopy(model).bfloat16()), "a copy ties other parameters")
    close(case.outputs(copied, read), expected, "a copy", exactly=True)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(0.1)
    close(case.outputs(model, read), expected, "the model after its copy was changed", exactly=True)


def other_dtypes_are_near(case: ModelCase) -> None:
    """float32, bfloat16 and bfloat16 autocast give outputs close to those in float64, in the right dtype; autocast trains."""
    exact = case.outputs(case.model(), case.inputs.batch())
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 0.15)):
        if dtype == torch.bfloat16 and not case.inputs.low_precision:
            continue
        model = case.model(dtype)
        with torch.no_grad():
            found = case.outputs(model, case.inputs.batch())
            _near(found, exact, tolerance, str(dtype))
            others = {
                name for row in found for name, value in row.items() if value.dtype != dtype and name != "weights"
            }
            ensure(not others, f"in {dtype} {', '.join(others)} have another dtype")
            if isinstance(case.inputs, StepInputs):
                logits, _ = case.inputs.stepped(model, case.inputs.batch())
                ensure(logits.dtype == dtype, f"in {dtype} a step gives {logits.dtype}")
                _near(
                    case.inputs.by_row(logits, case.inputs.batch()),
                    logits_alone(exact),
                    tolerance,
                    f"{dtype}, step by step",
                )
    model = case.model(torch.float32)
    _loss(case, model, case.inputs.batch()).backward()
    trainable = {name: each for name, each in model.named_parameters() if each.grad is not None}
    wanted = torch.cat([each.grad.flatten() for each in trainable.values()])
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = case.outputs(model, case.inputs.batch())
        _near(found, exact, 0.15, "bfloat16 autocast")
        _loss(case, model, case.inputs.batch()).backward()
    for name, parameter in trainable.items():
        ensure(parameter.grad is not None, f"{name} has no gradient under autocast")
        ensure(parameter.grad.isfinite().all(), f"the gradient of {name} under autocast is not finite")
        ensure(parameter.grad.dtype == torch.float32, f"the gradient of {name} under autocast is not float32")
    gradient = torch.cat([each.grad.flatten() for each in trainable.values()])
    near = float(torch.cosine_similarity(gradient, wanted, dim=0))
    ensure(near > 0.95, f"the gradient under autocast differs: its cosine with that in float32 is {near:.3f}")


def _near(found: Outputs, exact: Outputs, tolerance: float, what: str) -> None:
    """Compare all rows by the relative norm of the difference, since single numbers near 0 may be far off."""
    for name in found[0]:
        one = torch.cat([real(row[name]).double().flatten() for row in found])
        other = torch.cat([real(row[name]).flatten() for row in exact])
        ensure(one.isfinite().all(), f"{name} in {what} is not finite")
        off = float(((one - other).norm() / other.norm().clamp_min(1e-6)).detach())
        ensure(off < tolerance, f"{name} in {what} is {off:.1%} off")


def config_goes_through_json(case: ModelCase) -> None:
    """The config is frozen, survives JSON, and an unknown key is refused, with the nearest name."""
    config = case.config
    values = config_to_json(config)
    ensure(config_from_json(type(config), values, "config.json") == config, "the config differs after JSON")
    name = max((part.name for part in dataclasses.fields(config)), key=len)
    try:
        setattr(config, name, getattr(config, name))
    except dataclasses.FrozenInstanceError:
        pass
    else:
        raise CheckFailed("the config is not frozen")
    try:
        config_from_json(type(config), {**values, name + "x": 1}, "recipe.yaml")
    except InputError as error:
        ensure(f"recipe.yaml: unknown key '{name}x'" in str(error), f"an unknown key is refused as {str(error)!r}")
    else:
        raise CheckFailed("an unknown key of the config is ignored")


def a_call_changes_no_module(case: ModelCase) -> None:
    """Reading leaves every module unchanged: no new attribute, no changed tensor."""
    model = case.model()
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    case.outputs(model, case.inputs.batch())
    if isinstance(case.inputs, StepInputs):
        case.inputs.stepped(model, case.inputs.batch())
    for name, module in model.named_modules():
        more = set(vars(module)) ^ before[name]
        ensure(not more, f"{name or 'the model'} has other attributes after a call: {', '.join(sorted(more))}")
    for name, tensor in model.state_dict().items():
        ensure(torch.equal(tensor, tensors[name]), f"{name} was changed by reading")


def recording_changes_nothing(case: ModelCase) -> None:
    """Recording changes no bit of the outputs; recorded weights are distributions where the mechanism declares it."""
    model = case.model(torch.float32)
    for side in case.inputs.sides:
        read = case.inputs.batch(side)
        plain = case.outputs(model, read)
        try:
            with look(model) as seen:
                watched = case.outputs(model, read)
        except InputError as error:
            ensure("no attention" in str(error), f"recording is refused: {error}")
            ensure(not _mechanisms(model), "a model with attention is refused as one without")
            return
        close(watched, plain, "while recorded", exactly=True)
        modules = dict(model.named_modules())
        for address in seen.addresses:
            weights = seen.weights(address)
            ensure(weights.dtype == torch.float32, f"weights of {address} are {weights.dtype}")
            mechanism = modules.get(f"{address}.attention", modules.get(address))
            if isinstance(mechanism, Attention) and mechanism.declaration.distribution:
                sums = weights.sum(dim=-1)
                ensure((weights >= 0).all(), f"weights of {address} are below 0")
                ensure((((sums - 1).abs() < 1e-4) | (sums == 0)).all(), f"weights of {address} do not sum to 1")
                ensure((sums > 0).any(), f"no query of {address} attends to anything")


def _mechanisms(model: nn.Module) -> list[Attention]:
    return [module for module in model.modules() if isinstance(module, Attention)]


class _Undeclared(Score):
    """The same score with its product scale hidden, so that no fused kernel is used."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score

    def forward(self, query: Tensor, key: Tensor, inputs: Any = None) -> Tensor:
        return self.score(query, key, inputs)


def equation_equals_kernel(case: ModelCase) -> None:
    """Outputs and gradients of the whole model are the same with `weights @ value` in place of every fused attention call."""
    model = case.model()
    plain = copy.deepcopy(model)
    for attention in _mechanisms(plain):
        if isinstance(attention, ScoredAttention):
            attention.score = _Undeclared(attention.score)
    for side in case.inputs.sides:
        read = case.inputs.batch(side)
        close(case.outputs(model, read), case.outputs(plain, read), "the plain equation", tolerance=1e-9)
        gradients = []
        for either in (model, plain):
            either.zero_grad()
            _loss(case, either, read).backward()
            gradients.append([parameter.grad for parameter in either.parameters() if parameter.requires_grad])
        torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-11, msg=lambda message: f"gradients: {message}")


OF_ALL = (
    outputs_are_finite,
    batch_changes_nothing,
    row_order_changes_nothing,
    inputs_matter,
    evaluation_uses_no_random_numbers,
    every_parameter_learns,
    saving_is_the_identity,
    copies_are_independent,
    other_dtypes_are_near,
    config_goes_through_json,
    a_call_changes_no_module,
    recording_changes_nothing,
    equation_equals_kernel,
)
