"""The contract of models of padded tokens that decode token by token: padding, causality, steps, states, alignment."""

from __future__ import annotations

import dataclasses

import torch

from regard.errors import InputError
from regard.layers import Tokens
from regard.testing.inputs import CheckFailed, ModelCase, Outputs, close, ensure, real, same


def padding_is_never_attended(case: ModelCase) -> None:
    """Other ids at padding change no output."""
    model = case.model()
    for side in case.inputs.sides:
        read = case.inputs.batch(side)
        found = case.outputs(model, case.inputs.filled(read))
        close(found, case.outputs(model, read), f"other ids at padding on the {side}", exactly=True)


def rows_without_tokens_stay_to_themselves(case: ModelCase) -> None:
    """A row of padding alone has finite outputs and gradients, and does not change the outputs of other rows."""
    model, read = case.model(), case.inputs.batch()
    found = case.outputs(model, case.inputs.emptied(read, 1))
    for name, value in found[1].items():
        ensure(value.isfinite().all(), f"{name} of a row without tokens is not finite")
    close([found[0], found[2]], case.outputs(model, read, [0, 2]), "next to a row without tokens")
    torch.stack([value.square().sum() for row in found for value in row.values()]).sum().backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            ensure(
                parameter.grad.isfinite().all(), f"the gradient of {name} next to a row without tokens is not finite"
            )


def the_longest_is_read_and_a_longer_one_refused(case: ModelCase) -> None:
    """An input of the announced maximum length is read; one token more is refused, naming the setting of the limit."""
    model = case.model()
    limit: int | None = model.maximum_source_length if case.interface == "encoder_decoder" else model.maximum_length
    fields = {part.name for part in dataclasses.fields(case.config)}
    # A limit that no setting raises is a bound of memory, far above the lengths used here.
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
        raise CheckFailed(f"an input of {limit + 1} tokens is accepted, where the limit is {limit}")


OF_PADDED = (
    padding_is_never_attended,
    rows_without_tokens_stay_to_themselves,
    the_longest_is_read_and_a_longer_one_refused,
)


def later_tokens_change_nothing(case: ModelCase) -> None:
    """Logits at t depend on every token up to t and on none after it."""
    model = case.model()
    plain = case.outputs(model, case.inputs.batch())
    for row, place, changed in case.inputs.later_changes():
        found = case.outputs(model, changed)
        before, after = plain[row]["logits"], found[row]["logits"]
        same(after[:place], before[:place], f"logits before token {place} of row {row}, which was changed")
        off = (real(after[place:]) - real(before[place:])).detach().abs().amax(dim=-1)
        ensure((off > 0).all(), f"token {place} of row {row} does not change all logits from its own on")


def stepping_equals_reading(case: ModelCase) -> None:
    """Decoding step by step gives the outputs of the whole sequence at once; a state counts its tokens."""
    model = case.model()
    for side in case.inputs.step_sides:
        read = case.inputs.batch(side)
        logits, states = case.inputs.stepped(model, read)
        close(
            case.inputs.by_row(logits, read),
            logits_alone(case.outputs(model, read)),
            f"step by step, padded on the {side}",
        )
        lengths = [state.length for state in states]
        ensure(lengths == list(range(1, len(states) + 1)), f"the states' lengths are {lengths}")


def logits_alone(outputs: Outputs) -> Outputs:
    """The outputs reduced to logits."""
    return [{"logits": row["logits"]} for row in outputs]


def states_are_values(case: ModelCase) -> None:
    """A later step does not change an earlier state, and two decodings in parallel do not affect each other."""
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
        same(logits, first[:, t], "next to another decoding", exactly=True)


def states_can_be_selected(case: ModelCase) -> None:
    """Rows of a state may be removed, repeated and reordered; each continues as before."""
    model, read = case.model(), case.inputs.batch()
    ids = case.inputs.written(read)
    logits, states = case.inputs.stepped(model, read)
    rows = torch.tensor([2, 0, 0, 1])
    chosen = states[1].select(rows)
    ensure(chosen.rows == 4, f"a state of 4 rows says it has {chosen.rows}")
    same(model.step(ids[rows, 2], chosen)[0], logits[rows, 2], "rows of a state")
    if hasattr(model, "alignment"):
        same(model.alignment(chosen), model.alignment(states[1])[rows], "the alignment of rows of a state")


def hypotheses_can_be_reordered(case: ModelCase) -> None:
    """A state whose hypotheses branch and are reordered gives the outputs of one in which each row has its own source."""
    model, read = case.model(), case.inputs.batch()
    ids = case.inputs.written(read)
    _, states = case.inputs.stepped(model, read)
    branched, apart = states[1], states[1]
    later = ids[:, 2:].flatten()
    moves: tuple[tuple[list[int], list[int] | None], ...] = (
        ([0, 0, 1, 1, 2, 2], None),  # two hypotheses per source
        ([1, 0, 1, 3, 3, 2, 5, 5, 4], None),  # three per source, out of order
        ([8, 6, 0, 2], [2, 0]),  # the middle source is removed, the others swap
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
        same(logits, expected, f"{len(rows)} hypotheses for {3 if sources is None else len(sources)} sources")
    expected, _ = model.step(later[:2], apart.select(torch.tensor([3, 0])))
    same(model.step(later[:2], branched.select(torch.tensor([3, 0])))[0], expected, "two of the hypotheses")
    if hasattr(model, "alignment"):
        same(model.alignment(branched), model.alignment(apart), "the alignment of hypotheses", tolerance=1e-4)


def states_can_be_cropped(case: ModelCase) -> None:
    """A state cropped to fewer tokens continues from there; a recurrent model refuses to crop."""
    model, read = case.model(), case.inputs.batch()
    ids = case.inputs.written(read)
    logits, states = case.inputs.stepped(model, read)
    try:
        cropped = states[3].crop(2)
    except ValueError as error:
        ensure("does not store" in str(error), f"cropping is refused as {str(error)!r}")
        return
    for shorter in (cropped, states[3].rewound(2)):
        ensure(shorter.length == 2, f"a state cropped to 2 tokens says {shorter.length}")
        same(model.step(ids[:, 2], shorter)[0], logits[:, 2], "a step from a cropped state")


OF_STEPS = (
    later_tokens_change_nothing,
    stepping_equals_reading,
    states_are_values,
    states_can_be_selected,
    hypotheses_can_be_reordered,
    states_can_be_cropped,
)


def reading_continues_where_it_stopped(case: ModelCase) -> None:
    """A text read in two parts, split anywhere, gives the outputs of reading it at once; prefilling is reading without logits."""
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


def continuations_share_a_prompt(case: ModelCase) -> None:
    """After a prompt, rows that branch, are reordered and read on give the outputs of rows with their own prompts."""
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


OF_LANGUAGE_MODELS = (reading_continues_where_it_stopped, continuations_share_a_prompt)


def alignment_is_over_real_tokens(case: ModelCase) -> None:
    """The last step's alignment: float32, of the source's shape, 0 at padding and before the first step, at most 1 in sum."""
    model = case.model(torch.float32)
    for side in case.inputs.step_sides:
        read = case.inputs.batch(side)
        source = read[0]
        ensure(
            not model.alignment(case.inputs.start(model, read)).any(), "the alignment before the first step is not zero"
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
            ensure(bool(found.any()) == model.has_alignment, "has_alignment contradicts the alignment")
        try:
            forgetful = states[3].crop(2)
        except ValueError:
            continue
        ensure(not model.alignment(forgetful).any(), "a cropped state still has the last step's alignment")


OF_DECODERS = (alignment_is_over_real_tokens,)
