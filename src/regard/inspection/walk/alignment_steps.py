"""The steps of each alignment, from scores to weights; registered as the scores' steps are."""

from __future__ import annotations

from functools import singledispatch

import torch
from torch import Tensor

from regard.attention import Alignment, Local, Soft
from regard.inspection.walk.scene import Scene, shape_of
from regard.inspection.walk.source import body, statement
from regard.inspection.walk.steps import Shown, Step

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
    """Where the query looks, and a sentence that says who decided it."""
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
