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
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Attention, Score, ScoredAttention
from regard.checkpoints import parameters_of, read_model, write_model
from regard.errors import InputError
from regard.inspection import look
from regard.layers import NEVER, Tokens
from regard.models import MODELS
from regard.models.config import config_from_json, config_to_json
from regard.testing.inputs import Inputs, Outputs, inputs_of

EXACT = 1e-10
"""Relative tolerance in float64, and the hundredth of it absolute: another order of additions and no more."""
SEED = 20150519


class CheckFailed(AssertionError):
    """A model does not do what its interface promises."""


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
    checks = model_checks(config, idle=idle)
    unknown = [name for name in without if name not in checks]
    if unknown:
        raise InputError(f"there is no check {unknown[0]!r} of a {config.model_type}; choose from {', '.join(checks)}")
    chosen = {name: check for name, check in checks.items() if name not in without}
    for name, check in chosen.items():
        try:
            check()
        except AssertionError as error:
            raise CheckFailed(f"{config.model_type}, {name}: {error}") from error
    return list(chosen)


def model_checks(config: Any, *, idle: Collection[str] = ("key.bias",)) -> dict[str, Callable[[], None]]:
    """The checks of a model's contract by name; each raises an AssertionError where the model fails it.

    Arguments:
        config, idle: as `check_model` takes them.
    """
    if config.model_type not in MODELS:
        raise InputError(f"there is no model {config.model_type!r}; name its class with regard.parts.model")
    case = _Case(config, tuple(idle))
    checks: list[Callable[[_Case], None]] = [*OF_ALL]
    if case.inputs.padded:
        checks += OF_PADDED
    if case.inputs.causal:
        checks += OF_CAUSAL
    if case.inputs.steps:
        checks += OF_STEPS
    if case.interface == "language_model":
        checks += OF_LANGUAGE_MODELS
    if case.interface == "encoder_decoder":
        checks += OF_DECODERS
    return {check.__name__: partial(_aside, check, case) for check in checks}


def _aside(check: Callable[[_Case], None], case: _Case) -> None:
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they are
        check(case)


class _Case:
    """A config, what its interface reads, and models of it with parameters drawn so that none stands at zero or one."""

    def __init__(self, config: Any, idle: tuple[str, ...]) -> None:
        self.config, self.idle = config, idle
        self.family = MODELS[config.model_type]
        self.interface = self.family.interface
        self.inputs: Inputs = inputs_of(self.family, config)

    def model(self, dtype: torch.dtype = torch.float64) -> Any:
        model = self.family.model(self.config)
        draw = torch.Generator().manual_seed(SEED)
        with torch.no_grad():
            for parameter in model.parameters():
                fan = parameter.shape[-1] if parameter.dim() > 1 else 4
                drawn = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
                parameter.copy_(0.8 * drawn / fan**0.5)
        return model.to(dtype).eval()

    def outputs(self, model: Any, read: Any, rows: Sequence[int] | None = None) -> Outputs:
        """What the model gives of a batch, row by row, of real tokens alone."""
        found = self.inputs.outputs(model, read)
        return found if rows is None else [found[row] for row in rows]


def ensure(condition: bool | Tensor, sentence: str) -> None:
    """Fail with a sentence unless a condition holds."""
    if not bool(condition):
        raise CheckFailed(sentence)


def close(found: Outputs, expected: Outputs, what: str, *, exactly: bool = False, tolerance: float = EXACT) -> None:
    """Fail unless two batches' outputs are the same: bit for bit, or beside rounding."""
    ensure(len(found) == len(expected), f"{what}: {len(found)} rows for {len(expected)}")
    for row, (one, other) in enumerate(zip(found, expected, strict=True)):
        ensure(one.keys() == other.keys(), f"{what}: row {row} gives {', '.join(one)}, and {', '.join(other)} expected")
        for name in one:
            same(one[name], other[name], f"{what}: {name} of row {row}", exactly=exactly, tolerance=tolerance)


def same(found: Tensor, expected: Tensor, what: str, *, exactly: bool = False, tolerance: float = EXACT) -> None:
    """Fail unless two tensors are the same: bit for bit, or beside rounding."""
    rtol, atol = (0.0, 0.0) if exactly else (tolerance, tolerance / 100)
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol, msg=lambda said: f"{what}: {said}")


def moved(found: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference of two rows' outputs."""
    return max(float((found[name] - other[name]).detach().abs().max()) for name in found)


def real(logits: Tensor) -> Tensor:
    """Logits with 0 where a huge negative number rules a token out, which would hide the others."""
    return logits.masked_fill(logits <= 0.9 * NEVER, 0.0)


# Of every model.


def outputs_are_finite(case: _Case) -> None:
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


def batch_changes_nothing(case: _Case) -> None:
    """A row alone, without padding, gives what it gives in a batch that is padded on either side."""
    model = case.model()
    for side in case.inputs.sides:
        together = case.outputs(model, case.inputs.batch(side))
        for row in range(len(case.inputs.lengths)):
            alone = case.outputs(model, case.inputs.alone(row))
            close(
                alone, [together[row]], f"alone, and in a batch padded on the {side}", tolerance=case.inputs.tolerance
            )


def row_order_changes_nothing(case: _Case) -> None:
    """Rows in another order give the same."""
    model, read = case.model(), case.inputs.batch()
    order = [2, 0, 1]
    close(
        case.outputs(model, case.inputs.select(read, torch.tensor(order))),
        case.outputs(model, read, order),
        "rows in another order",
        tolerance=case.inputs.tolerance,
    )


def inputs_matter(case: _Case) -> None:
    """Another token, or pixel, moves what its own row gives, and nothing of the other rows."""
    model = case.model()
    plain = case.outputs(model, case.inputs.batch())
    for row, changed in case.inputs.changes():
        found = case.outputs(model, changed)
        ensure(moved(found[row], plain[row]) > 1e-7, f"another input in row {row} moves nothing")
        for other in range(len(plain)):
            if other != row:
                close([found[other]], [plain[other]], "another row's inputs", tolerance=case.inputs.tolerance)


def evaluation_draws_nothing(case: _Case) -> None:
    """In evaluation the same input gives the same bits and no random number is drawn; in training dropout is at work."""
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


def every_parameter_learns(case: _Case) -> None:
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


def _loss(case: _Case, model: Any, read: Any) -> Tensor:
    """The mean square of all outputs' distances from numbers that are as good as any."""
    parts = []
    for row, values in enumerate(case.outputs(model, read)):
        for value in values.values():
            draw = torch.Generator().manual_seed(row)
            aim = torch.randn(value.shape, generator=draw, dtype=torch.float64)
            parts.append((real(value).double() - aim).square().mean())
    return torch.stack(parts).sum()


def saving_is_the_identity(case: _Case) -> None:
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


def copies_are_models_of_their_own(case: _Case) -> None:
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


def other_dtypes_are_near(case: _Case) -> None:
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
            if case.inputs.steps:
                logits, _ = case.inputs.stepped(model, case.inputs.batch())
                ensure(logits.dtype == dtype, f"in {dtype} a step gives {logits.dtype}")
                _near(
                    case.inputs.by_row(logits, case.inputs.batch()), _logits(exact), tolerance, f"{dtype}, step by step"
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


def config_goes_through_json(case: _Case) -> None:
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


def nothing_hangs_on_the_model(case: _Case) -> None:
    """Reading leaves every module as it was: no attribute more, no tensor changed."""
    model = case.model()
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    case.outputs(model, case.inputs.batch())
    if case.inputs.steps:
        case.inputs.stepped(model, case.inputs.batch())
    for name, module in model.named_modules():
        more = set(vars(module)) ^ before[name]
        ensure(not more, f"{name or 'the model'} has other attributes after a call: {', '.join(sorted(more))}")
    for name, tensor in model.state_dict().items():
        ensure(torch.equal(tensor, tensors[name]), f"{name} was changed by reading")


def looking_changes_nothing(case: _Case) -> None:
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


def equation_equals_kernel(case: _Case) -> None:
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


def padding_is_never_looked_at(case: _Case) -> None:
    """Other ids at padding move nothing."""
    model = case.model()
    for side in case.inputs.sides:
        read = case.inputs.batch(side)
        found = case.outputs(model, case.inputs.filled(read))
        close(found, case.outputs(model, read), f"other ids at padding on the {side}", exactly=True)


def rows_without_tokens_stay_to_themselves(case: _Case) -> None:
    """A row of padding alone gives finite numbers and gradients, and moves nothing of the other rows."""
    model, read = case.model(), case.inputs.batch()
    found = case.outputs(model, case.inputs.emptied(read, 1))
    for name, value in found[1].items():
        ensure(value.isfinite().all(), f"{name} of a row without tokens is not finite")
    close([found[0], found[2]], case.outputs(model, read, [0, 2]), "beside a row without tokens")
    torch.stack([value.square().sum() for row in found for value in row.values()]).sum().backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            ensure(parameter.grad.isfinite().all(), f"the gradient of {name} beside a row without tokens is not finite")


def the_longest_is_read_and_a_longer_one_refused(case: _Case) -> None:
    """An input as long as the model announces is read; one token more is refused with the setting that raises the limit."""
    model = case.model()
    limit: int | None = model.maximum_source_length if case.interface == "encoder_decoder" else model.maximum_length
    fields = {part.name for part in dataclasses.fields(case.config)}
    # A limit that no setting raises is a bound of memory, far above what is read here.
    if limit is None or model.length_setting.removeprefix("model.") not in fields:
        longest, limit = 40, None
    else:
        longest = limit
    found = case.outputs(model, case.inputs.of_length(longest))
    ensure(
        all(value.isfinite().all() for value in found[0].values()),
        "the longest input gives numbers that are not finite",
    )
    if limit is None:
        return
    try:
        case.outputs(model, case.inputs.of_length(limit + 1))
    except InputError as error:
        ensure(str(limit) in str(error) and model.length_setting in str(error), f"refused as {str(error)!r}")
    else:
        raise CheckFailed(f"an input of {limit + 1} tokens is read, where the limit is {limit}")


OF_PADDED = (
    padding_is_never_looked_at,
    rows_without_tokens_stay_to_themselves,
    the_longest_is_read_and_a_longer_one_refused,
)


# Of models that give logits of each next token.


def later_tokens_change_nothing(case: _Case) -> None:
    """Logits at t depend on every token up to t and on none after."""
    model = case.model()
    plain = case.outputs(model, case.inputs.batch())
    for row, place, changed in case.inputs.later_changes():
        found = case.outputs(model, changed)
        before, after = plain[row]["logits"], found[row]["logits"]
        same(after[:place], before[:place], f"logits before token {place} of row {row}, which was changed")
        off = (real(after[place:]) - real(before[place:])).detach().abs().amax(dim=-1)
        ensure((off > 0).all(), f"token {place} of row {row} moves not all logits from its own on")


OF_CAUSAL = (later_tokens_change_nothing,)


def stepping_equals_reading(case: _Case) -> None:
    """One token at a time, from a state to the next, gives what the whole sequence gives at once; a state counts its tokens."""
    model = case.model()
    for side in case.inputs.step_sides:
        read = case.inputs.batch(side)
        logits, states = case.inputs.stepped(model, read)
        close(
            case.inputs.by_row(logits, read), _logits(case.outputs(model, read)), f"step by step, padded on the {side}"
        )
        lengths = [state.length for state in states]
        ensure(lengths == list(range(1, len(states) + 1)), f"the states' lengths are {lengths}")


def _logits(outputs: Outputs) -> Outputs:
    return [{"logits": row["logits"]} for row in outputs]


def states_are_values(case: _Case) -> None:
    """A later step does not write into an earlier state, and two decodings side by side do not meet."""
    model, read = case.model(), case.inputs.batch()
    ids = case.inputs.written(read)
    first, states = case.inputs.stepped(model, read)
    again, _ = model.step(ids[:, 2], states[1])
    same(again, first[:, 2], "a step from an old state", exactly=True)
    one, other = (
        case.inputs.start(model, read),
        case.inputs.start(model, case.inputs.select(read, torch.tensor([1, 2, 0]))),
    )
    for t in range(ids.shape[1]):
        logits, one = model.step(ids[:, t], one)
        _, other = model.step(ids[:, t], other)
        same(logits, first[:, t], "beside another decoding", exactly=True)


def states_can_be_selected(case: _Case) -> None:
    """Rows of a state may leave, repeat and change places; each goes on as before."""
    model, read = case.model(), case.inputs.batch()
    ids = case.inputs.written(read)
    logits, states = case.inputs.stepped(model, read)
    rows = torch.tensor([2, 0, 0, 1])
    chosen = states[1].select(rows)
    ensure(chosen.rows == 4, f"a state of 4 rows says it has {chosen.rows}")
    same(model.step(ids[rows, 2], chosen)[0], logits[rows, 2], "rows of a state")
    if hasattr(model, "alignment"):
        same(model.alignment(chosen), model.alignment(states[1])[rows], "the alignment of rows of a state")


def hypotheses_can_be_reordered(case: _Case) -> None:
    """A state that branches, shuffles and loses sources gives what one gives in which each row has its source to itself."""
    model, read = case.model(), case.inputs.batch()
    ids = case.inputs.written(read)
    _, states = case.inputs.stepped(model, read)
    branched, apart = states[1], states[1]
    later = ids[:, 2:].flatten()
    moves: tuple[tuple[list[int], list[int] | None], ...] = (
        ([0, 0, 1, 1, 2, 2], None),  # two about each
        ([1, 0, 1, 3, 3, 2, 5, 5, 4], None),  # three, out of order
        ([8, 6, 0, 2], [2, 0]),  # the middle one leaves, the others change places
    )
    for number, (rows, sources) in enumerate(moves):
        branched = branched.reorder(torch.tensor(rows), None if sources is None else torch.tensor(sources))
        apart = apart.select(torch.tensor(rows))
        ensure(
            branched.rows == apart.rows == len(rows), f"a state of {len(rows)} hypotheses says it has {branched.rows}"
        )
        tokens = later[torch.arange(len(rows)) % len(later)] if number else later[: len(rows)]
        logits, branched = model.step(tokens, branched)
        expected, apart = model.step(tokens, apart)
        same(logits, expected, f"{len(rows)} hypotheses about {3 if sources is None else len(sources)} sources")
    expected, _ = model.step(later[:2], apart.select(torch.tensor([3, 0])))
    same(model.step(later[:2], branched.select(torch.tensor([3, 0])))[0], expected, "two of the hypotheses")
    if hasattr(model, "alignment"):
        same(model.alignment(branched), model.alignment(apart), "the alignment of hypotheses", tolerance=1e-4)


def states_can_be_cropped(case: _Case) -> None:
    """A state cropped to fewer tokens goes on from there; a recurrent one refuses."""
    model, read = case.model(), case.inputs.batch()
    ids = case.inputs.written(read)
    logits, states = case.inputs.stepped(model, read)
    try:
        cropped = states[3].crop(2)
    except ValueError as error:
        ensure("does not remember" in str(error), f"cropping is refused as {str(error)!r}")
        return
    for shorter in (cropped, states[3].rewound(2)):
        ensure(shorter.length == 2, f"a state cropped to 2 tokens says {shorter.length}")
        same(model.step(ids[:, 2], shorter)[0], logits[:, 2], "a step from a cropped state")


OF_STEPS = (
    stepping_equals_reading,
    states_are_values,
    states_can_be_selected,
    hypotheses_can_be_reordered,
    states_can_be_cropped,
)


def reading_goes_on_where_it_stopped(case: _Case) -> None:
    """A text read in two parts, cut anywhere, equals the text read at once; prefilling is reading without the logits."""
    model, tokens = case.model(), case.inputs.batch()
    whole = model(tokens)
    rows, length = tokens.ids.shape
    for cut in range(length + 1):
        head = Tokens(tokens.ids[:, :cut], tokens.valid[:, :cut])
        first, state = model.read(head, model.start(rows))
        second, after = model.read(Tokens(tokens.ids[:, cut:], tokens.valid[:, cut:]), state)
        parts = torch.cat([first, second], dim=1)
        same(parts[tokens.valid], whole[tokens.valid], f"read in two parts, cut at {cut}")
        ensure(
            (state.length, after.length) == (cut, length), f"the lengths of states are {state.length}, {after.length}"
        )
        if 0 < cut < length:
            silent = model.prefill(head, model.start(rows))
            ensure(silent.length == cut, f"a state after {cut} prefilled tokens says {silent.length}")
            same(
                model.step(tokens.ids[:, cut], silent)[0],
                model.step(tokens.ids[:, cut], state)[0],
                "prefilled, and read",
                exactly=True,
            )


def continuations_share_a_prompt(case: _Case) -> None:
    """After a prompt, rows that branch, shuffle and lose texts, and read on, give what rows with a text each to itself give."""
    model = case.model()
    for side, part in (("right", slice(1, 3)), ("left", slice(3, 5))):
        tokens = case.inputs.batch(side)
        prompts = Tokens(tokens.ids[:, part], tokens.valid[:, part])
        with torch.no_grad():
            branched = apart = model.prefill(prompts, model.start(3))
            for rows, texts in (
                ([0, 0, 1, 1, 2, 2], None),
                ([1, 0, 1, 3, 3, 2, 5, 5, 4], None),
                ([8, 6, 0, 2], [2, 0]),
            ):
                branched = branched.reorder(torch.tensor(rows), None if texts is None else torch.tensor(texts))
                apart = apart.select(torch.tensor(rows))
                ids = torch.arange(3, 3 + len(rows)) % 8
                logits, branched = model.step(ids, branched)
                expected, apart = model.step(ids, apart)
                same(logits, expected, f"{len(rows)} continuations of prompts padded on the {side}")
            further = Tokens(torch.full((4, 1), 4), torch.ones(4, 1, dtype=torch.bool))
            found, after = model.read(further, branched)
            same(found, model.read(further, apart)[0], "continuations that read on")
            ensure(after.rows == 4, f"a state of 4 continuations says it has {after.rows}")
            try:
                shorter = (after.crop(5), branched.rewound(4))
            except ValueError:
                continue
            for state in shorter:
                expected, _ = model.step(ids, apart.crop(state.length))
                same(model.step(ids, state)[0], expected, "continuations that were cropped")


OF_LANGUAGE_MODELS = (reading_goes_on_where_it_stopped, continuations_share_a_prompt)


def alignment_is_over_real_tokens(case: _Case) -> None:
    """The last step's weights: float32, of the source's shape, 0 at padding and before the first step, at most 1 in sum."""
    model = case.model(torch.float32)
    for side in case.inputs.step_sides:
        read = case.inputs.batch(side)
        source = read[0]
        ensure(
            not model.alignment(case.inputs.start(model, read)).any(), "before the first step something was looked at"
        )
        _, states = case.inputs.stepped(model, read)
        for state in states:
            found = model.alignment(state)
            ensure(found.dtype == torch.float32, f"the alignment is {found.dtype}")
            ensure(
                found.shape == source.ids.shape, f"the alignment is {tuple(found.shape)} for {tuple(source.ids.shape)}"
            )
            ensure((found >= 0).all(), "an alignment is below 0")
            ensure((found[~source.valid] == 0).all(), "padding of the source is aligned to")
            ensure((found.sum(dim=1) < 1 + 1e-4).all(), "an alignment sums to more than 1")
            ensure(bool(found.any()) == model.has_alignment, "has_alignment says otherwise than the alignment")
        try:
            forgetful = states[3].crop(2)
        except ValueError:
            continue
        ensure(not model.alignment(forgetful).any(), "a cropped state still has the last step's alignment")


OF_DECODERS = (alignment_is_over_real_tokens,)
