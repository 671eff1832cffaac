"""The steps of each mechanism, from its inputs to the vector it gathers, and of each alignment, from scores to weights.

What is registered here for a mechanism walks through its `weights`; weighing and summing the values are the same for all.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import torch
from torch import Tensor

from regard.attention import Alignment, Attention, Local, ScoredAttention, Soft
from regard.attention.kernels import fused
from regard.inspection.walk.score_steps import score_steps
from regard.inspection.walk.steps import (
    Scene,
    Shown,
    SourceLine,
    Step,
    body,
    defining_class,
    quoted,
    shape_of,
    statement,
    walked_as,
    written,
)

Weighted = tuple[list[Step], Tensor]
"""Steps, and the weights (B, H, L, S) they end in."""


@singledispatch
def weight_steps(mechanism: Attention, scene: Scene) -> Weighted:
    """The weights as the mechanism itself computes them, for one that has no steps of its own."""
    weights = mechanism.weights(scene.inputs)
    step = Step(
        title="Weights",
        sentence="How much this query takes of each value, by the mechanism's own equation.",
        equation="a = weights(inputs)",
        lines=body(type(mechanism).weights),
        shown=(scene.per_key("weight", scene.mine(weights), of=shape_of("weights", "B, H, L, S", weights)),),
        notes=(f"The weights of this query sum to {float(scene.mine(weights).sum()):.6f}.",),
    )
    return [step], weights


@weight_steps.register
def _scored(mechanism: ScoredAttention, scene: Scene) -> Weighted:
    scored, scores = walked_as(score_steps, mechanism.score, "forward")(mechanism.score, scene)
    aligned, weights = walked_as(alignment_steps, mechanism.alignment, "forward")(mechanism.alignment, scene, scores)
    calls = (
        *((step, statement(ScoredAttention.aligned, "self.score(")) for step in scored),
        *((step, statement(ScoredAttention.aligned, "return alignment(")) for step in aligned),
    )
    return [replace(step, lines=(*call, *step.lines)) for step, call in calls], weights


def gathering_steps(scene: Scene, weights: Tensor) -> tuple[list[Step], Tensor]:
    """Weigh and sum, and what the mechanism adds of its own: steps, and the vector (Ev) they end in."""
    own = scene.mine(weights)
    weighted = own.unsqueeze(-1) * scene.values
    total = weighted.sum(dim=0)
    scale = float(scene.values.abs().max()) if scene.values.numel() else None
    lines = _product(scene)
    weigh = Step(
        title="Weigh",
        sentence="Each value is multiplied by its weight: what has a small weight fades.",
        equation="a_j v_j",
        lines=lines,
        shown=(
            scene.per_key("weight", own),
            scene.per_key("a v", weighted, letter="Ev", note="coloured on the scale of v", scale=scale),
        ),
    )
    add = Step(
        title="Sum",
        sentence=f"The weighted values are added up. This one vector is what {quoted(scene.query_token)} gathers.",
        equation="o = Σ_j a_j v_j",
        lines=lines,
        shown=(scene.vector("o", total, letter="Ev", note="on the same scale", scale=scale),),
        notes=(_strongest(scene, own),),
    )
    added = scene.mechanism.extra_output(scene.inputs, weights)
    if added is None:
        return [weigh, add], total
    more = scene.mine(added.to(scene.exact))
    further = Step(
        title="What the mechanism adds",
        sentence="This mechanism declares a term of its output besides the weighted values.",
        equation="o + added",
        lines=body(type(scene.mechanism).extra_output),
        shown=(scene.vector("added", more, letter="Ev"), scene.vector("o + added", total + more, letter="Ev")),
    )
    return [weigh, add, further], total + more


def check_step(scene: Scene, weights: Tensor, walked: Tensor, given: Tensor) -> Step:
    """The vector of the walk compared with what the model computed by its own, faster path.

    Arguments:
        weights: (B, H, L, S), the weights walked to.
        walked: (Ev), the vector walked to.
        given: (B, H, L, Ev), the mechanism's output in the model's own run.
    """
    defined = scene.mechanism.weights(scene.inputs)
    model = scene.mine(given).to(scene.exact)
    apart = float((scene.mine(weights) - scene.mine(defined)).abs().max())
    difference = float((walked - model).abs().max())
    path, lines = _path(scene)
    rounded = given.dtype != scene.exact
    dtype = str(given.dtype).removeprefix("torch.")
    return Step(
        title="The same by the model's own path",
        sentence=f"In the model's own run this vector came {path}. The model ran as it does without a walk.",
        equation="max |o - model's o|",
        lines=lines,
        shown=(
            scene.vector("o, walked", walked, letter="Ev"),
            scene.vector("o, of the model", model, letter="Ev"),
            scene.number("largest difference", difference, note="between the two vectors"),
            scene.number("largest difference of a weight", apart, note="from what weights(inputs) gives, all in one"),
        ),
        notes=(f"The model computes in {dtype}; the difference is that of its rounding.",) if rounded else (),
        kind="aside",
    )


def _path(scene: Scene) -> tuple[str, tuple[SourceLine, ...]]:
    """How the mechanism's `forward` gets to its output, in words and lines."""
    mechanism = scene.mechanism
    own = type(mechanism).forward
    if not isinstance(mechanism, ScoredAttention) or defining_class(mechanism, "forward") is not ScoredAttention:
        return "from the mechanism's own forward", body(own)
    by_kernel = mechanism.alignment.plain_softmax and mechanism.score.product_and_term(scene.inputs) is not None
    if by_kernel:
        return (
            "from PyTorch's fused kernel, which never lays the weights out",
            statement(fused, "scaled_dot_product_attention("),
        )
    return "from the weights laid out and multiplied with the values, as here", statement(Attention.forward, "@ value")


def _product(scene: Scene) -> tuple[SourceLine, ...]:
    """The line that weighs and sums, where the mechanism's `forward` is the package's own; none for another's."""
    if defining_class(scene.mechanism, "forward") in (Attention, ScoredAttention):
        return statement(Attention.forward, "@ value")
    return ()


def _strongest(scene: Scene, weights: Tensor) -> str:
    order = torch.argsort(weights.abs(), descending=True, stable=True)[:3].tolist()
    parts = [f"{quoted(scene.key_texts[key])} {written(float(weights[key]), 4)}" for key in order]
    return "The largest weights: " + ", ".join(parts) + "."


# From scores to weights: the steps of each alignment, registered as the scores' steps are.


@singledispatch
def alignment_steps(alignment: Alignment, scene: Scene, scores: Tensor) -> Weighted:
    """The weights as the alignment itself computes them, for one that has no steps of its own."""
    weights = alignment(scores, scene.inputs.visible(), scene.inputs)
    step = Step(
        title="Weights",
        sentence="Scores become weights by the alignment's own rule.",
        equation="a = alignment(score)",
        lines=body(type(alignment).forward),
        shown=(scene.per_key("score", scene.mine(scores)), _weights(scene, weights)),
        notes=(_total(scene, weights),),
    )
    return [step], weights


@alignment_steps.register
def _soft(alignment: Soft, scene: Scene, scores: Tensor) -> Weighted:
    visible = scene.inputs.visible()
    weights = alignment(scores, visible, scene.inputs)
    lines = statement(Soft.forward, "return scores.softmax" if visible is None else "masked_fill(~visible, lowest)")
    return [_softmax(scene, scores, weights, scene.visible, lines)], weights


@alignment_steps.register
def _local(alignment: Local, scene: Scene, scores: Tensor) -> Weighted:
    mine = scene.mine(scores)
    places = scene.inputs.key_positions.expand(scene.inputs.shape[0], -1)[scene.row].to(mine.dtype)
    centre, whence = _centre(scene)
    distance = places - centre
    within = distance.abs() <= alignment.window
    inside = within & scene.visible
    weights = alignment(scores, scene.inputs.visible(), scene.inputs)
    window = Step(
        title="Window",
        sentence=f"Only keys at most {alignment.window} places from the centre p are looked at. {whence}",
        equation=f"inside_j = |j - p| ≤ D,   p = {float(centre):.6g},   D = {alignment.window}",
        lines=statement(Local.forward, "within ="),
        shown=(
            scene.number("p", centre),
            scene.per_key("distance", distance),
            scene.per_key("inside", inside.to(mine.dtype), note="1 inside the window, 0 outside it"),
        ),
        notes=(f"{int(inside.sum())} of {len(mine)} keys lie inside.",),
    )
    softened = _masked_softmax(mine, inside)
    softmax = _softmax(
        scene,
        scores,
        softened,
        inside,
        statement(Local.forward, "self.inside(scores"),
        title="Softmax inside the window",
    )
    if not alignment.gaussian:
        return [window, softmax], weights
    deviation = alignment.window / 2
    bell = torch.exp(-distance.square() / (2 * deviation**2))
    gaussian = Step(
        title="Gaussian",
        sentence="Weights fall off with the distance from the centre. The product is not normalised again, so the weights sum to "
        "less than one.",
        equation=f"a_j = softmax_j · exp(-(j - p)² / (2 σ²)),   σ = D/2 = {deviation:g}",
        lines=statement(Local.forward, "return weights * torch.exp"),
        shown=(
            scene.per_key("softmax", softened),
            scene.per_key("Gaussian", bell),
            _weights(scene, weights),
        ),
        notes=(_total(scene, weights),),
    )
    return [window, softmax, gaussian], weights


def _centre(scene: Scene) -> tuple[Tensor, str]:
    """Where the query looks, and a sentence that says where that comes from."""
    centre = scene.inputs.record.get("centre")
    if centre is not None:
        whence = (
            "Here p is predicted from the decoder's state before the scores are known (local-p); it is a real number."
        )
        return scene.mine(centre).to(scene.exact), whence
    whence = "Here p is the query's own place (local-m): token t looks around place t."
    places = scene.inputs.query_positions.expand(scene.inputs.shape[0], -1)
    return places[scene.row, scene.place].to(scene.exact), whence


def _masked_softmax(scores: Tensor, seen: Tensor) -> Tensor:
    if not seen.any():
        return torch.zeros_like(scores)
    return scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)


def _softmax(
    scene: Scene, scores: Tensor, weights: Tensor, seen: Tensor, lines: tuple, *, title: str = "Softmax"
) -> Step:
    """Exponentials over their sum, for the keys that are seen; `weights` is (B, H, L, S) or of this query alone."""
    mine = scene.mine(scores)
    own = weights if weights.dim() == 1 else scene.mine(weights)
    largest = mine[seen].max() if seen.any() else mine.new_zeros(())
    exponentials = torch.exp(mine - largest).masked_fill(~seen, 0.0)
    total = exponentials.sum()
    last = Shown(
        name="weight",
        letters="S",
        values=own.detach().cpu().numpy(),
        labels=scene.key_tokens,
        of=shape_of("weights", "B, H, L, S", weights) if weights.dim() == 4 else "",
    )
    notes = [
        f"The largest score, {float(largest):.6g}, is subtracted first: the weights are the same, and no exponential is too "
        f"large. The exponentials add up to {float(total):.6g}, and the weights to {float(own.sum()):.6f}."
    ]
    if not seen.any():
        notes = ["This query may attend nowhere: its weights are exactly zero."]
    elif not seen.all():
        notes.append(f"{int((~seen).sum())} keys may not be seen from here; they get exactly zero.")
    return Step(
        title=title,
        sentence="The exponential makes every score positive, and dividing by the sum over the keys makes them weights: shares "
        "that add up to one.",
        equation="a_j = exp(score_j) / Σ_k exp(score_k)",
        lines=lines,
        shown=(scene.per_key("score", mine), scene.per_key("exp(score - largest)", exponentials), last),
        notes=tuple(notes),
    )


def _weights(scene: Scene, weights: Tensor) -> Shown:
    return scene.per_key("weight", scene.mine(weights), of=shape_of("weights", "B, H, L, S", weights))


def _total(scene: Scene, weights: Tensor) -> str:
    return f"The weights of this query sum to {float(scene.mine(weights).sum()):.6f}."
