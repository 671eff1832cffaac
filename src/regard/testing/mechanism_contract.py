"""The checks of the contract of attention mechanisms, in the order in which `regard.testing.mechanisms` runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import AttentionInputs, Causal, Dense, Document, Mask, Padding
from regard.testing.inputs import CheckFailed, ensure
from regard.testing.mechanism_inputs import (
    BATCH,
    BLIND,
    GROUPS,
    HEADS,
    KEYS,
    LONGEST,
    QUERIES,
    SEED,
    VALUE_WIDTH,
    WIDTH,
    Case,
    Held,
    check_in_blocks,
    fitted,
    near,
    recorded,
    seeded,
    visible,
)

TOLERANCES = {
    torch.float64: (1e-10, 1e-12),
    torch.float32: (1.3e-6, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-2),
    torch.float16: (1e-3, 1e-3),
}  # rtol and atol


# Cases, and what is compared.


@contextmanager
def _in_case(*what: Any) -> Iterator[None]:
    """Add the case to the message where a check of many cases fails."""
    try:
        yield
    except Exception as fault:
        fault.add_note(f"in the case of {', '.join(map(str, what))}")
        raise


def _with_keys(case: Case, change: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """The record, with the parts that hold a number for each key, on their last axis, changed like the keys."""
    axes = case.mechanism.declaration.reads
    return {name: change(part) if axes[name].endswith("S") else part for name, part in case.inputs.record.items()}


def defined(case: Case) -> Tensor:
    """The output by definition: weights @ value, plus the declared term."""
    weights = case.mechanism.weights(case.inputs)
    value = case.value.to(weights.dtype).repeat_interleave(HEADS // case.value.shape[1], dim=1)
    added = case.mechanism.extra_output(case.inputs, weights)
    return weights @ value if added is None else weights @ value + added


def _gradient(leaf: Tensor) -> Tensor:
    if leaf.grad is None:
        raise CheckFailed(f"there is no gradient for a tensor of shape {tuple(leaf.shape)}")
    return leaf.grad


def _refused(call: Callable[[], object], *words: str) -> None:
    """Fail unless a call raises a ValueError whose message contains all the words."""
    try:
        call()
    except ValueError as error:
        missing = [each for each in words if each not in str(error)]
        ensure(not missing, f"refused as {str(error)!r}, without {', '.join(missing)}")
    else:
        raise CheckFailed(f"wrong inputs are accepted; the error should have named {' and '.join(words)}")


# Of every mechanism.


def weights_are_float32(held: Held) -> None:
    """Weights have the announced shape, and are float32 for inputs of any dtype except float64, where they are float64."""
    for dtype in TOLERANCES:
        with _in_case(dtype):
            case = held.case(dtype=dtype)
            weights = case.mechanism.weights(case.inputs)
            shape = (BATCH, HEADS, QUERIES, KEYS)
            ensure(
                weights.shape == case.inputs.shape == shape,
                f"weights of shape {tuple(weights.shape)}, and {shape} expected",
            )
            wanted = torch.float64 if dtype == torch.float64 else torch.float32
            ensure(weights.dtype == wanted, f"weights are {weights.dtype}")


def weights_stay_float32_under_autocast(held: Held) -> None:
    """Under autocast the weights are bit for bit the same."""
    case = held.case()
    with torch.autocast(held.device.type, dtype=torch.bfloat16):
        inside = case.mechanism.weights(case.inputs)
    ensure(inside.dtype == torch.float32, f"weights under autocast are {inside.dtype}")
    ensure(torch.equal(inside, case.mechanism.weights(case.inputs)), "weights under autocast differ")


def output_is_weights_times_value(held: Held) -> None:
    """In every dtype, under every mask and with grouped keys; with and without gradients, which may select different kernels."""
    for dtype, (rtol, atol) in TOLERANCES.items():
        for (called, mask), key_heads in product(held.masks().items(), [HEADS, GROUPS, 1]):
            with _in_case(dtype, called, f"{key_heads} heads of keys"):
                case = held.case(dtype=dtype, heads=(HEADS, key_heads), mask=mask)
                expected = defined(case)
                output = case.mechanism(case.inputs, case.value)
                ensure(output.dtype == dtype, f"the output is {output.dtype}")
                near(output.to(expected.dtype), expected, "weights times value", rtol, atol)
                with torch.no_grad():
                    silent = case.mechanism(case.inputs, case.value)
                near(silent.to(expected.dtype), expected, "weights times value, without gradients", rtol, atol)


def gradients_are_those_of_the_definition(held: Held) -> None:
    """Gradients of the output are those of `weights @ value`, in float64."""
    for called, mask in held.masks().items():
        with _in_case(called):
            generator = torch.Generator().manual_seed(SEED)
            case = held.case(dtype=torch.float64, heads=(HEADS, GROUPS), mask=mask, generator=generator)
            upstream = torch.randn(BATCH, HEADS, QUERIES, VALUE_WIDTH, generator=generator, dtype=torch.float64).to(
                held.device
            )
            leaves = held.leaves(case)
            fast = torch.autograd.grad(case.mechanism(case.inputs, case.value), leaves, upstream)
            plain = torch.autograd.grad(defined(case), leaves, upstream)
            torch.testing.assert_close(fast, plain, rtol=1e-10, atol=1e-12)


def queries_without_keys_get_zeros(held: Held) -> None:
    """A query that may attend to nothing has an output of exact zeros and zero gradients, in training and in evaluation."""
    blinding = {called: held.masks()[called] for called in ("blind query", "row without tokens", "composed")}
    for dtype, (called, mask), key_heads, training in product(
        TOLERANCES, blinding.items(), [HEADS, GROUPS], [False, True]
    ):
        with (
            seeded(SEED),
            _in_case(dtype, called, f"{key_heads} heads of keys", "training" if training else "evaluation"),
        ):
            case = held.case(dtype=dtype, dropout=0.4, heads=(HEADS, key_heads), mask=mask)
            case.mechanism.train(training)
            blind = ~visible(case.inputs).any(dim=-1)
            ensure(blind.any(), "the mask leaves every query a key, so nothing is tested")
            ensure(
                (case.mechanism.weights(case.inputs)[blind] == 0).all(),
                "the weights of a query that may attend to nothing are not zero",
            )
            output = case.mechanism(case.inputs, case.value)
            ensure((output[blind] == 0).all(), "the output of a query that may attend to nothing is not zero")
            output.float().square().sum().backward()
            for leaf in held.leaves(case):
                ensure(_gradient(leaf).isfinite().all(), "a gradient is not finite")
            for leaf in () if held.traits.without_gradient else (case.inputs.query, *recorded(case)):
                ensure((_gradient(leaf)[blind] == 0).all(), "a query that may attend to nothing has a gradient")
            ensure(bool(output[~blind].abs().sum() > 0) or training, "queries that may attend to keys have zeros too")


def masked_keys_never_influence(held: Held) -> None:
    """Masked keys and values change no bit of the output and get no gradient; visible ones do."""
    traits, valid = held.traits, held.padding(slice(0, 3))
    for training in (False, True):
        with _in_case("training" if training else "evaluation"):
            case = held.case(dropout=0.4, heads=(HEADS, GROUPS), mask=Padding(valid))
            case.mechanism.train(training)

            def output(key: Tensor, value: Tensor, case: Case = case) -> Tensor:
                with seeded(3):
                    return case.mechanism(replace(case.inputs, key=key), value)

            first = output(case.inputs.key, case.value)
            first.sum().backward()
            through_values = traits.blind_to_keys or traits.without_gradient
            for leaf in (case.value,) if through_values else (case.inputs.key, case.value):
                ensure((_gradient(leaf)[0, :, :3] == 0).all(), "a masked key or value gets a gradient")
                ensure((_gradient(leaf)[1, :, :3] != 0).any(), "a visible key or value gets no gradient")
            hidden = ~valid[:, None, :, None]
            other_key = torch.where(hidden, -7.0, case.inputs.key.detach())
            other_value = torch.where(hidden, 1e6, case.value.detach())
            near(output(other_key, other_value), first, "other masked keys and values")
            changed = replace(case.inputs, key=other_key)
            ensure(
                torch.equal(case.mechanism.weights(changed), case.mechanism.weights(case.inputs)),
                "masked keys change weights",
            )
            seen_key = torch.where(hidden, case.inputs.key.detach(), -case.inputs.key.detach())
            influenced = not torch.allclose(output(seen_key, case.value), first)
            ensure(
                influenced != traits.blind_to_keys,
                "visible keys must influence the output unless blind_to_keys, and must not if blind_to_keys",
            )


def grouped_keys_are_keys_repeated(held: Held) -> None:
    """Query heads h*H/G and following share key head h."""
    case = held.case(heads=(HEADS, GROUPS))
    repeated = replace(case.inputs, key=case.inputs.key.repeat_interleave(HEADS // GROUPS, dim=1))
    ensure(
        torch.equal(case.mechanism.weights(case.inputs), case.mechanism.weights(repeated)),
        "weights over grouped keys differ from those over repeated keys",
    )
    values = case.value.repeat_interleave(HEADS // GROUPS, dim=1)
    near(case.mechanism(case.inputs, case.value), case.mechanism(repeated, values), "grouped keys and values")


def training_changes_no_weights(held: Held) -> None:
    """Weights are computed before dropout, and use no random number."""
    case = held.case(dropout=0.5)
    on_gpu = held.device.type == "cuda"
    quiet = case.mechanism.weights(case.inputs)
    before = torch.get_rng_state(), torch.cuda.get_rng_state(held.device) if on_gpu else None
    training = case.mechanism.train().weights(case.inputs)
    ensure(torch.equal(training, quiet), "weights in training differ")
    ensure(torch.equal(torch.get_rng_state(), before[0]), "weights use a random number")
    if before[1] is not None:
        ensure(torch.equal(torch.cuda.get_rng_state(held.device), before[1]), "weights use a random number")


def dropout_acts_in_training_only(held: Held) -> None:
    """In evaluation the output is the same each time; in training it differs."""
    case = held.case(dropout=0.5)
    quiet = case.mechanism(case.inputs, case.value)
    ensure(torch.equal(case.mechanism(case.inputs, case.value), quiet), "in evaluation the output changes")
    case.mechanism.train()
    ensure(not torch.allclose(case.mechanism(case.inputs, case.value), quiet), "in training nothing is dropped")


def dropout_keeps_the_output_on_average(held: Held) -> None:
    """The mean over many samples equals the output without dropout."""
    case = held.case(dropout=0.3, mask=held.masks()["composed"])
    quiet = case.mechanism(case.inputs, case.value)
    case.mechanism.train()

    def many(part: Tensor) -> Tensor:
        return part.detach().repeat(600, *[1] * (part.dim() - 1))

    side_by_side = AttentionInputs(  # each row 600 times in one batch, each with its own dropout
        query=many(case.inputs.query),
        key=many(case.inputs.key),
        mask=held.masks(600)["composed"],
        query_positions=many(case.inputs.query_positions),
        key_positions=many(case.inputs.key_positions),
        record={part: many(values) for part, values in case.inputs.record.items()},
    )
    with torch.no_grad():
        samples = case.mechanism(side_by_side, many(case.value)).unflatten(0, (600, BATCH))
    # Six standard deviations of a mean of 600 samples; an unbounded weight may make the deviation of an output large.
    apart = (samples.mean(dim=0) - quiet.detach()).abs()
    ensure((apart <= 6 * samples.std(dim=0) / 600**0.5 + 1e-4).all(), f"the mean is off by {float(apart.max()):.3g}")


def long_sequences_with_masked_blocks(held: Held) -> None:
    """Fused kernels process keys in blocks; a block that is masked completely must not affect the others."""
    for side, dtype in product(("left", "right"), (torch.float32, torch.bfloat16)):
        with _in_case(f"the {side} masked", dtype):
            valid = torch.ones(1, LONGEST, dtype=torch.bool, device=held.device)
            valid[:, slice(0, 700) if side == "left" else slice(400, None)] = False
            case = held.case(dtype=dtype, sizes=(1, 3, LONGEST, VALUE_WIDTH), mask=Padding(valid))
            expected = defined(case)
            output = case.mechanism(case.inputs, case.value)
            rtol, atol = TOLERANCES[dtype]
            # Rounding grows with the sum of absolute weights, which is 1 for a distribution.
            added_up = case.mechanism.weights(case.inputs).detach().abs().sum(dim=-1).max().item()
            near(output.to(expected.dtype), expected, "weights times value", rtol, atol * max(1.0, added_up))
            output.float().sum().backward()
            ensure((_gradient(case.value)[:, :, ~valid[0]] == 0).all(), "a masked value gets a gradient")
            ensure(_gradient(case.inputs.query).isfinite().all(), "the gradient of a query is not finite")


def masks_of_another_shape_are_refused(held: Held) -> None:
    """Whatever the mask's kind, the message has both shapes."""
    b, h, queries, keys, device = BATCH, HEADS, QUERIES, KEYS, held.device

    def ones(*shape: int) -> Tensor:
        return torch.ones(shape, dtype=torch.bool, device=device)

    wrong: list[tuple[Mask, tuple[int, ...], tuple[int, ...]]] = [
        (Dense(ones(b, h, queries, keys + 1)), (b, h, queries, keys + 1), (b, h, queries, keys)),
        (Dense(ones(b + 1, 1, 1, keys)), (b + 1, 1, 1, keys), (b, h, queries, keys)),
        (Causal() & Dense(ones(1, 1, queries + 1, keys)), (1, 1, queries + 1, keys), (b, h, queries, keys)),
        (Padding(ones(b, keys + 2)), (b, keys + 2), (b, keys)),
        (Padding(ones(b - 1, keys)), (b - 1, keys), (b, keys)),
        (~Padding(ones(b, keys - 1)) | Causal(), (b, keys - 1), (b, keys)),
        (Document(torch.zeros(b, keys, dtype=torch.long, device=device)), (b, keys), (b, queries)),
    ]
    for mask, shape, wanted in wrong:
        with _in_case(mask):
            case = held.case(mask=mask)
            for call in (
                partial(case.mechanism, case.inputs, case.value),
                partial(case.mechanism.weights, case.inputs),
            ):
                _refused(call, "shape", str(shape), str(wanted))


def values_that_do_not_fit_are_refused(held: Held) -> None:
    """A value with other rows, heads or keys is refused, with both shapes."""
    case, (b, h, s, e) = held.case(), (BATCH, HEADS, KEYS, VALUE_WIDTH)
    for shape in [(b, h, s + 1, e), (b + 1, h, s, e), (b, h - 1, s, e), (h, s, e), (1, h, s, e)]:
        with _in_case(f"a value of shape {shape}"):
            value = torch.zeros(shape, device=held.device)
            _refused(partial(case.mechanism, case.inputs, value), "value", str(shape), str((b, h, s, WIDTH)))


def nothing_undeclared_happens(held: Held) -> None:
    """An additional output term and sampling exist exactly where they are declared."""
    case = held.case()
    declared = case.mechanism.declaration
    weights = case.mechanism.weights(case.inputs)
    added = case.mechanism.extra_output(case.inputs, weights) is not None
    ensure(added == declared.extra_output, f"the declaration says extra_output={declared.extra_output}")
    sampled = case.mechanism.sample(case.inputs, torch.Generator().manual_seed(SEED)) is not case.inputs
    ensure(sampled == declared.sampled, f"the declaration says sampled={declared.sampled}")


class _Watched(dict[str, Tensor]):
    """A record that notes which parts are read."""

    def __init__(self, record: Mapping[str, Tensor]) -> None:
        super().__init__(record)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.asked.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)


def only_declared_parts_of_the_record_are_read(held: Held) -> None:
    """Only declared parts of the record are read, and a part of a wrong shape is refused."""
    case = held.case()
    declared = case.mechanism.declaration.reads
    ensure(set(case.inputs.record) <= set(declared), "the record has parts that are not declared")
    record = _Watched(case.inputs.record)
    inputs = replace(case.inputs, record=record)
    weights = case.mechanism.weights(inputs)
    case.mechanism(inputs, case.value)
    case.mechanism.extra_output(inputs, weights)
    ensure(record.asked <= set(declared), f"{', '.join(record.asked - set(declared))} is read and not declared")
    for part in sorted(record.asked & set(record)):
        tensor = case.inputs.record[part]
        wrong = torch.cat((tensor, tensor), dim=1)
        other = replace(case.inputs, record={**case.inputs.record, part: wrong})
        shape = str(tuple(wrong.shape))
        _refused(partial(case.mechanism.weights, other), f"the record's {part} has shape", shape)


OF_ALL = (
    weights_are_float32,
    weights_stay_float32_under_autocast,
    output_is_weights_times_value,
    gradients_are_those_of_the_definition,
    queries_without_keys_get_zeros,
    masked_keys_never_influence,
    grouped_keys_are_keys_repeated,
    training_changes_no_weights,
    dropout_acts_in_training_only,
    dropout_keeps_the_output_on_average,
    long_sequences_with_masked_blocks,
    masks_of_another_shape_are_refused,
    values_that_do_not_fit_are_refused,
    nothing_undeclared_happens,
    only_declared_parts_of_the_record_are_read,
)


# Of mechanisms that declare a distribution.


def weights_are_a_distribution(held: Held) -> None:
    """Weights are non-negative, zero where masked, and sum to one over the visible keys."""
    for called, mask in held.masks().items():
        with _in_case(called):
            case = held.case(mask=mask)
            weights = case.mechanism.weights(case.inputs)
            seen = visible(case.inputs)
            ensure((weights >= 0).all(), "a weight is below 0")
            ensure((weights[~seen] == 0).all(), "a masked key has a weight")
            near(weights.sum(dim=-1), seen.any(dim=-1).float(), "the sum of weights")


def one_key_gets_weight_one(held: Held) -> None:
    """A query with a single key gives it weight 1, and has its value as output, bit for bit."""
    for dtype in TOLERANCES:
        with _in_case(dtype):
            case = held.case(dtype=dtype, sizes=(BATCH, 1, 1, VALUE_WIDTH), mask=Causal())
            ensure((case.mechanism.weights(case.inputs) == 1.0).all(), "the only key does not have weight 1")
            if not case.mechanism.declaration.extra_output:
                output = case.mechanism(case.inputs, case.value)
                ensure(torch.equal(output, case.value), "the output is not the only value")


OF_DISTRIBUTIONS = (weights_are_a_distribution, one_key_gets_weight_one)


# Of mechanisms whose keys can be moved independently of the queries.


def true_means_may_attend(held: Held) -> None:
    """In a padded row, the real keys within reach have all the weight, and padded ones none."""
    case = held.case(mask=Padding(held.padding(slice(4, None))))
    weights = case.mechanism.weights(case.inputs)
    ensure((weights[0, :, :, 4:] == 0).all(), "a key whose mask is False has a weight")
    looked_at, within = weights != 0, visible(case.inputs)
    if held.traits.reach is not None:
        within = within & held.traits.reach(case.inputs)
    if held.traits.one_key:
        ensure(not looked_at[~within].any(), "a key out of reach has a weight")
        ensure((looked_at.any(dim=-1) == within.any(dim=-1)).all(), "a query attends to none of its visible keys")
    else:
        ensure((looked_at == within).all(), "weights are not exactly where a key is visible and within reach")
    ensure(looked_at[0, :, :, :4].any(), "no key whose mask is True has a weight")


def padding_and_batch_change_nothing(held: Held) -> None:
    """Masked keys added on either side change nothing; a row alone equals the row in a batch."""
    case, extra = held.case(mask=Padding(held.padding(slice(0, 0)))), 3
    plain = case.mechanism(case.inputs, case.value)
    for side in ("left", "right"):
        pad = (0, 0, extra, 0) if side == "left" else (0, 0, 0, extra)
        key, value = (F.pad(x, pad, value=2.5) for x in (case.inputs.key, case.value))
        valid = torch.ones(BATCH, KEYS + extra, dtype=torch.bool, device=held.device)
        valid[:, slice(0, extra) if side == "left" else slice(KEYS, None)] = False
        places = F.pad(case.inputs.key_positions, pad[2:])
        record = _with_keys(case, partial(F.pad, pad=pad[2:], value=0.5))
        padded = replace(case.inputs, key=key, key_positions=places, mask=Padding(valid), record=record)
        near(case.mechanism(padded, value), plain, f"padded on the {side}")
    alone = AttentionInputs(
        query=case.inputs.query[1:],
        key=case.inputs.key[1:],
        query_positions=case.inputs.query_positions[1:],
        key_positions=case.inputs.key_positions[1:],
        record={part: tensor[1:] for part, tensor in case.inputs.record.items()},
    )
    near(case.mechanism(alone, case.value[1:]), plain[1:], "a row alone")


def permuting_keys_permutes_weights(held: Held) -> None:
    """Keys in another order, with their positions, have the same weights, and the output stays the same."""
    generator = torch.Generator().manual_seed(SEED)
    valid = held.padding(slice(5, None))
    case = held.case(mask=Padding(valid), generator=generator)
    if held.traits.one_key:
        # The sampled key depends on the order: the probabilities and the most probable key are compared.
        case = replace(case, inputs=replace(case.inputs, record={}))
    order = torch.randperm(KEYS, generator=generator).to(held.device)
    permuted = replace(
        case.inputs,
        key=case.inputs.key[:, :, order],
        key_positions=case.inputs.key_positions[:, order],
        mask=Padding(valid[:, order]),
        record=_with_keys(case, lambda part: part[..., order]),
    )
    weights = case.mechanism.weights(case.inputs)
    near(case.mechanism.weights(permuted), weights[..., order], "the weights of keys in another order")
    output = case.mechanism(case.inputs, case.value)
    near(case.mechanism(permuted, case.value[:, :, order]), output, "the output of keys in another order")


OF_FREE_KEYS = (true_means_may_attend, padding_and_batch_change_nothing, permuting_keys_permutes_weights)


# Of mechanisms whose weights have gradients.


def weights_without_keys_pass_back_zeros(held: Held) -> None:
    """The weights of a query that may attend to nothing have zero gradients; those of other queries do not."""
    case = held.case(mask=held.masks()["blind query"])
    case.mechanism.weights(case.inputs).square().sum().backward()
    apart = {
        id(parameter)
        for name, parameter in case.mechanism.named_parameters()
        if name.startswith(held.traits.beside_weights)
    }
    for leaf in held.leaves(case):
        if leaf is not case.value and id(leaf) not in apart:
            ensure(_gradient(leaf).isfinite().all(), "a gradient is not finite")
    gradient = _gradient(case.inputs.query)
    ensure((gradient[:, :, BLIND] == 0).all(), "the weights of a query that may attend to nothing have a gradient")
    ensure((gradient[:, :, BLIND + 1] != 0).any(), "the weights of a query with visible keys have no gradient")


OF_DIFFERENTIABLE = (weights_without_keys_pass_back_zeros,)


# In the blocks of models.


def consistent_in_an_encoder(held: Held) -> None:
    """In a BERT's blocks, padding changes no output."""
    check_in_blocks("encoder", partial(fitted, held), held.traits.ways)


def consistent_in_a_decoder(held: Held) -> None:
    """In a Transformer's blocks, neither padding nor decoding step by step, in a beam, changes an output."""
    check_in_blocks("decoder", partial(fitted, held), held.traits.ways)


def consistent_in_a_language_model(held: Held) -> None:
    """In a GPT-2's blocks, neither padding nor decoding step by step, after a prompt, changes an output."""
    check_in_blocks("causal", partial(fitted, held), held.traits.ways)


IN_BLOCKS = (consistent_in_an_encoder, consistent_in_a_decoder, consistent_in_a_language_model)
