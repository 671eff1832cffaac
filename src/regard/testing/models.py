"""The contract of models: what every model of an interface has to do, whoever wrote it.

`check_model(config)` runs all of it; `model_checks(config)` names the checks, so that a test framework can run each by itself:

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
    """Hold a model to the contract of its interface: build it from its config with random parameters and run every check.

    The config should be small (widths of 4 to 20, 2 layers, a vocabulary of 11 or more, dropout above 0), so that all checks
    take a second or two; most run in float64. The model's family has to be in `regard.models.MODELS`, as one of the package's own
    or by `regard.parts.model`.

    Arguments:
        config: of the model; `config.model_type` names its family.
        without: names of checks to leave out, which `model_checks` lists.
        idle: parts of the names of parameters that may have no effect on what the model gives, such as the bias of the keys,
            which moves all scores of a query alike.

    Returns:
        The names of the checks that ran.

    Raises:
        CheckFailed: naming the check and what it saw.
        InputError: for a family, or a check in `without`, that does not exist.

    >>> from regard.models import GPT2Config
    >>> config = GPT2Config(vocabulary=11, width=8, heads=2, feedforward_width=6, layers=1, maximum_positions=8, dropout=0.3)
    >>> "stepping_equals_reading" in check_model(config)
    True
    """
    return run_checks(config.model_type, model_checks(config, idle=idle), without)


def model_checks(config: Any, *, idle: Collection[str] = ("key.bias",)) -> dict[str, Callable[[], None]]:
    """The checks of a model's contract by name; each raises an AssertionError where the model fails it.

    Arguments:
        config, idle: as `check_model` takes them.
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
    return {check.__name__: partial(_aside, check, case) for check in checks}


def _aside(check: Callable[[ModelCase], None], case: ModelCase) -> None:
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they are
        check(case)


# Of every model.


def outputs_are_finite(case: ModelCase) -> None:
    """A batch of rows of different lengths gives finite numbers."""
    found = case.outputs(case.model(), case.inputs.batch())
    ensure(len(found) == len(case.inputs.lengths), "a batch gives another number of rows")
    for row, values in enumerate(found):
        ensure(bool(values), f"row {row} gives nothing")
        width = case.inputs.vocabulary
        ensure(
            width is None or values["logits"].shape[-1] == width,
            f"the logits are not over the {width} tokens of the vocabulary",
        )
        for name, value in values.items():
            ensure(value.isfinite().all(), f"{name} of row {row} is not finite")


def batch_changes_nothing(case: ModelCase) -> None:
    """A row alone, without padding, gives what it gives in a batch that is padded on either side."""
    model = case.model()
    for side in case.inputs.sides:
        together = case.outputs(model, case.inputs.batch(side))
        for row in range(len(case.inputs.lengths)):
            alone = case.outputs(model, case.inputs.alone(row))
            close(
                alone, [together[row]], f"alone, and in a batch padded on the {side}", tolerance=case.inputs.tolerance
            )


def row_order_changes_nothing(case: ModelCase) -> None:
    """Rows in another order give the same."""
    model, read = case.model(), case.inputs.batch()
    order = [2, 0, 1]
    close(
        case.outputs(model, case.inputs.select(read, torch.tensor(order))),
        case.outputs(model, read, order),
        "rows in another order",
        tolerance=case.inputs.tolerance,
    )


def inputs_matter(case: ModelCase) -> None:
    """Another token, or pixel, moves what its own row gives, and nothing of the other rows."""
    model = case.model()
    plain = case.outputs(model, case.inputs.batch())
    for row, changed in case.inputs.changes():
        found = case.outputs(model, changed)
        ensure(moved(found[row], plain[row]) > 1e-7, f"another input in row {row} moves nothing")
        for other in range(len(plain)):
            if other != row:
                close([found[other]], [plain[other]], "another row's inputs", tolerance=case.inputs.tolerance)


def evaluation_draws_nothing(case: ModelCase) -> None:
    """In evaluation the same input gives the same bits and no random number is sampled; in training dropout is at work."""
    model, read = case.model(), case.inputs.batch()
    before = torch.get_rng_state()
    close(case.outputs(model, read), case.outputs(model, read), "the same input twice", exactly=True)
    ensure(torch.equal(torch.get_rng_state(), before), "evaluation drew from torch's random numbers")
    rates = [part.name for part in dataclasses.fields(case.config) if part.name.endswith("dropout")]
    if any(getattr(case.config, name) for name in rates):
        model.train()
        first, second = (case.outputs(model, read) for _ in range(2))
        ensure(
            any(not torch.equal(one[name], two[name]) for one, two in zip(first, second, strict=True) for name in one),
            f"dropout is above 0 ({', '.join(rates)}), and training gives the same numbers twice",
        )


def every_parameter_learns(case: ModelCase) -> None:
    """Every parameter has a finite gradient, and one above 0 unless it is named idle; a small step lowers the loss."""
    model, read = case.model(), case.inputs.batch()
    loss = _loss(case, model, read)
    loss.backward()
    learnt = {name: each for name, each in model.named_parameters() if each.requires_grad}
    for name, parameter in learnt.items():
        idle = any(part in name for part in case.idle)
        if parameter.grad is None:
            ensure(idle, f"{name} has no gradient")
            parameter.grad = torch.zeros_like(parameter)
        ensure(parameter.grad.isfinite().all(), f"the gradient of {name} is not finite")
        if not idle:
            ensure(parameter.grad.abs().max() > 1e-9, f"the gradient of {name} is 0")
    squared = sum(float(each.grad.square().sum()) for each in learnt.values())
    with torch.no_grad():
        for parameter in learnt.values():
            parameter -= 1e-4 * float(loss) / max(squared, 1e-12) * parameter.grad
    ensure(_loss(case, model, read) < loss, "a small step against the gradient does not lower the loss")


def _loss(case: ModelCase, model: Any, read: Any) -> Tensor:
    """The mean square of all outputs' distances from numbers that are as good as any."""
    parts = []
    for row, values in enumerate(case.outputs(model, read)):
        for value in values.values():
            draw = torch.Generator().manual_seed(row)
            aim = torch.randn(value.shape, generator=draw, dtype=torch.float64)
            parts.append((real(value).double() - aim).square().mean())
    return torch.stack(parts).sum()


def saving_is_the_identity(case: ModelCase) -> None:
    """A model written to a folder and read again gives the same bits, has the same config, and the same tied parameters."""
    for dtype in (torch.float32, torch.float64):
        model, read = case.model(dtype), case.inputs.batch()
        with tempfile.TemporaryDirectory() as place:
            write_model(Path(place), case.config, parameters_of(model), task={}, recipe={}, metrics={})
            loaded = read_model(Path(place))
        ensure(loaded.config == case.config, "the config that was read is another")
        ensure(not loaded.training, "a model that was read is in training mode")
        ensure(ties(loaded) == ties(model), f"other parameters are tied: {ties(loaded)} for {ties(model)}")
        close(case.outputs(loaded.to(dtype), read), case.outputs(model, read), f"read again in {dtype}", exactly=True)


def ties(model: nn.Module) -> set[frozenset[str]]:
    """Names of parameters that are one and the same tensor."""
    names: dict[int, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter.data_ptr(), set()).add(name)
    return {frozenset(group) for group in names.values() if len(group) > 1}


def copies_are_models_of_their_own(case: ModelCase) -> None:
    """A deep copy gives the same, keeps what is tied, and is changed alone."""
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
    """float32, bfloat16 and bfloat16 autocast give nearly what float64 gives, in their own dtype, and autocast trains."""
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
            ensure(not others, f"in {dtype} the dtype of {', '.join(others)} is another")
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
    learnt = {name: each for name, each in model.named_parameters() if each.grad is not None}
    wanted = torch.cat([each.grad.flatten() for each in learnt.values()])
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = case.outputs(model, case.inputs.batch())
        _near(found, exact, 0.15, "bfloat16 autocast")
        _loss(case, model, case.inputs.batch()).backward()
    for name, parameter in learnt.items():
        ensure(parameter.grad is not None, f"{name} has no gradient under autocast")
        ensure(parameter.grad.isfinite().all(), f"the gradient of {name} under autocast is not finite")
        ensure(parameter.grad.dtype == torch.float32, f"the gradient of {name} under autocast is not float32")
    gradient = torch.cat([each.grad.flatten() for each in learnt.values()])
    near = float(torch.cosine_similarity(gradient, wanted, dim=0))
    ensure(near > 0.95, f"the gradient under autocast points elsewhere: the cosine with that in float32 is {near:.3f}")


def _near(found: Outputs, exact: Outputs, tolerance: float, what: str) -> None:
    """All rows together, by the norm of the difference: one number near 0 may be far off by itself."""
    for name in found[0]:
        one = torch.cat([real(row[name]).double().flatten() for row in found])
        other = torch.cat([real(row[name]).flatten() for row in exact])
        ensure(one.isfinite().all(), f"{name} in {what} is not finite")
        off = float(((one - other).norm() / other.norm().clamp_min(1e-6)).detach())
        ensure(off < tolerance, f"{name} in {what} is {off:.1%} off")


def config_goes_through_json(case: ModelCase) -> None:
    """The config is frozen, JSON gives it back, and a key that it does not know is refused with the nearest name."""
    config = case.config
    values = config_to_json(config)
    ensure(config_from_json(type(config), values, "config.json") == config, "JSON gives another config back")
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
        raise CheckFailed("a key that the config does not know is read over")


def nothing_hangs_on_the_model(case: ModelCase) -> None:
    """Reading leaves every module as it was: no attribute more, no tensor changed."""
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


def looking_changes_nothing(case: ModelCase) -> None:
    """Recorded, the model gives the same bits; recorded weights are distributions where the mechanism declares so."""
    model = case.model(torch.float32)
    for side in case.inputs.sides:
        read = case.inputs.batch(side)
        plain = case.outputs(model, read)
        try:
            with look(model) as seen:
                watched = case.outputs(model, read)
        except InputError as error:
            ensure("no attention" in str(error), f"looking is refused: {error}")
            ensure(not _mechanisms(model), "a model with attention is refused for having none")
            return
        close(watched, plain, "while it is recorded", exactly=True)
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
    """The same score, keeping its product scale to itself, so that no fused kernel is used."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score

    def forward(self, query: Tensor, key: Tensor, inputs: Any = None) -> Tensor:
        return self.score(query, key, inputs)


def equation_equals_kernel(case: ModelCase) -> None:
    """The whole model, outputs and gradients, with `weights @ value` in the place of every fused attention call."""
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
        torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-11, msg=lambda said: f"gradients: {said}")


OF_ALL = (
    outputs_are_finite,
    batch_changes_nothing,
    row_order_changes_nothing,
    inputs_matter,
    evaluation_draws_nothing,
    every_parameter_learns,
    saving_is_the_identity,
    copies_are_models_of_their_own,
    other_dtypes_are_near,
    config_goes_through_json,
    nothing_hangs_on_the_model,
    looking_changes_nothing,
    equation_equals_kernel,
)


# Of models that read padded batches of tokens.


# Of models that give logits of each next token.
