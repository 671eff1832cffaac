"""The steps of each mechanism: from queries and keys to weights, and from weights to the gathered vector.

What is registered for a mechanism walks through its `weights`; weighing and summing the values are the same for all.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import torch
from torch import Tensor

from regard.attention import Attention, ScoredAttention
from regard.attention.kernels import fused
from regard.inspection.walk.alignments import Weighted, alignment_steps, total_note, weights_shown
from regard.inspection.walk.scores import score_steps
from regard.inspection.walk.steps import (
    Scene,
    SourceLine,
    Step,
    body,
    defining_class,
    quoted,
    statement,
    walked_as,
    written,
)


@singledispatch
def weight_steps(mechanism: Attention, scene: Scene) -> Weighted:
    """The weights as the mechanism itself computes them, for one that has no steps of its own."""
    weights = mechanism.weights(scene.inputs)
    step = Step(
        title="Weights",
        sentence="How much this query takes of each value, by the mechanism's own equation.",
        equation="a = weights(inputs)",
        lines=body(type(mechanism).weights),
        shown=(weights_shown(scene, weights),),
        notes=(total_note(scene, weights),),
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
        notes=(_strongest_keys(scene, own),),
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


def _strongest_keys(scene: Scene, weights: Tensor) -> str:
    order = torch.argsort(weights.abs(), descending=True, stable=True)[:3].tolist()
    parts = [f"{quoted(scene.key_texts[key])} {written(float(weights[key]), 4)}" for key in order]
    return "The largest weights: " + ", ".join(parts) + "."
