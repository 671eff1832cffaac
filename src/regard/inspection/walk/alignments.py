"""The steps of each alignment: from scores to weights.

Registered as the steps of scores are: `@alignment_steps.register`.
"""

from __future__ import annotations

from functools import singledispatch

import torch
from torch import Tensor

from regard.attention import Alignment, Hard, Local, Soft
from regard.attention.alignments import LOT
from regard.inspection.walk.steps import Scene, Shown, Step, body, shape_of, statement, three

Weighted = tuple[list[Step], Tensor]
"""Steps, and the weights (B, H, L, S) they end in."""


@singledispatch
def alignment_steps(alignment: Alignment, scene: Scene, scores: Tensor) -> Weighted:
    """The weights as the alignment itself computes them, for one that has no steps of its own."""
    weights = alignment(scores, scene.inputs.visible(), scene.inputs)
    step = Step(
        title="Weights",
        sentence="Scores become weights by the alignment's own rule.",
        equation="a = alignment(score)",
        lines=body(type(alignment).forward),
        shown=(scene.per_key("score", scene.mine(scores)), weights_shown(scene, weights)),
        notes=(total_note(scene, weights),),
    )
    return [step], weights


@alignment_steps.register
def _soft(alignment: Soft, scene: Scene, scores: Tensor) -> Weighted:
    visible = scene.inputs.visible()
    weights = alignment(scores, visible, scene.inputs)
    lines = statement(Soft.forward, "return scores.softmax" if visible is None else "masked_fill(~visible, lowest)")
    return [softmax_step(scene, scores, weights, scene.visible, lines)], weights


@alignment_steps.register
def _hard(alignment: Hard, scene: Scene, scores: Tensor) -> Weighted:
    visible = scene.inputs.visible()
    alpha = Soft()(scores, visible, scene.inputs)
    weights = alignment(scores, visible, scene.inputs)
    soft = softmax_step(scene, scores, alpha, scene.visible, statement(Hard.forward, "alpha = Soft"), name="alpha")
    drawn = "the one that was sampled" if scene.inputs.record.get(LOT) is not None else "the most probable"
    one = Step(
        title="One place",
        sentence=f"Hard attention looks at one place alone, here {drawn}: it has all of the weight.",
        equation="a_j = 1 at the place s, else 0",
        lines=statement(Hard.forward, "weights = F.one_hot"),
        shown=(scene.per_key("alpha", scene.mine(alpha)), weights_shown(scene, weights)),
        notes=(total_note(scene, weights),),
    )
    return [soft, one], weights


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
        equation=f"inside_j = |j - p| ≤ D,   p = {three(float(centre))},   D = {alignment.window}",
        lines=statement(Local.forward, "within ="),
        shown=(
            scene.number("p", centre),
            scene.per_key("distance", distance),
            scene.per_key("inside", inside.to(mine.dtype), note="1 inside the window, 0 outside it"),
        ),
        notes=(f"{int(inside.sum())} of {len(mine)} keys lie inside.",),
    )
    softened = _masked_softmax(mine, inside)
    softmax = softmax_step(
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
            weights_shown(scene, weights),
        ),
        notes=(total_note(scene, weights),),
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


def softmax_step(
    scene: Scene,
    scores: Tensor,
    weights: Tensor,
    seen: Tensor,
    lines: tuple,
    *,
    title: str = "Softmax",
    name: str = "weight",
) -> Step:
    """Exponentials over their sum, for the keys that are seen; `weights` is (B, H, L, S) or of this query alone."""
    mine = scene.mine(scores)
    own = weights if weights.dim() == 1 else scene.mine(weights)
    largest = mine[seen].max() if seen.any() else mine.new_zeros(())
    exponentials = torch.exp(mine - largest).masked_fill(~seen, 0.0)
    total = exponentials.sum()
    of = shape_of("weights", "B, H, L, S", weights) if weights.dim() == 4 else ""
    notes = [
        f"The largest score, {three(float(largest))}, is subtracted first: the weights are the same, and no exponential is too "
        f"large. The exponentials add up to {three(float(total))}, and the weights to {float(own.sum()):.6f}."
    ]
    if not seen.any():
        notes = ["This query may attend nowhere: its weights are exactly zero."]
    elif not seen.all():
        unseen = int((~seen).sum())
        named, gets = ("key", "it gets") if unseen == 1 else ("keys", "they get")
        notes.append(f"{unseen} {named} may not be seen from here; {gets} exactly zero.")
    return Step(
        title=title,
        sentence="The exponential makes every score positive, and dividing by the sum over the keys makes them weights: shares "
        "that add up to one.",
        equation="a_j = exp(score_j) / Σ_k exp(score_k)",
        lines=lines,
        shown=(
            scene.per_key("score", mine),
            scene.per_key("exp(score - largest)", exponentials),
            scene.per_key(name, own, of=of),
        ),
        notes=tuple(notes),
    )


def weights_shown(scene: Scene, weights: Tensor) -> Shown:
    """The weights of this query, and the whole tensor that they are of."""
    return scene.per_key("weight", scene.mine(weights), of=shape_of("weights", "B, H, L, S", weights))


def total_note(scene: Scene, weights: Tensor) -> str:
    """What the weights of this query sum to."""
    return f"The weights of this query sum to {float(scene.mine(weights).sum()):.6f}."
