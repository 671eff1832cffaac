"""The steps of a neural Turing machine's heads: from a content score to an address, and from an address to the memory after.

Graves, Wayne, Danihelka 2014, equations 3 to 9. Content addressing is a score of `Cosine`; its steps are with the other
scores.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention import Addressed
from regard.inspection.walk.alignments import Weighted, alignment_steps, softmax_step, total_note, weights_shown
from regard.inspection.walk.steps import Scene, Shown, Step, array, quoted, statement
from regard.models import NTM


@alignment_steps.register
def _addressed(alignment: Addressed, scene: Scene, scores: Tensor) -> Weighted:
    inputs = scene.inputs
    content, gated, moved, weights = alignment.parts(scores, inputs.visible(), inputs)
    previous, gate, shift, sharpness = (scene.mine(inputs.record[name]).to(scene.exact) for name in alignment.reads)
    reach = shift.shape[-1] // 2
    found = softmax_step(
        scene,
        scores,
        content,
        scene.visible,
        statement(Addressed.parts, "content ="),
        title="Content",
        name="wᶜ",
    )
    between = Step(
        title="Interpolation",
        sentence="A gate between 0 and 1 mixes where the content points with where the head was at the step before: 1 is the "
        "content alone, 0 stays.",
        equation="wᵍ_i = g wᶜ_i + (1 - g) w_i of the step before",
        lines=statement(Addressed.parts, "gated ="),
        shown=(
            scene.number("g", gate),
            scene.per_key("wᶜ", scene.mine(content)),
            scene.per_key("w before", previous),
            scene.per_key("wᵍ", scene.mine(gated)),
        ),
    )
    turn = Step(
        title="Shift",
        sentence="The weights move round the ring of all slots: s says how much of them goes how far, +1 being the slot after.",
        equation="w̃_i = Σ_j wᵍ_(i - j) s_j",
        lines=statement(Addressed.parts, "moved = _shifted("),
        shown=(
            Shown(
                name="s",
                letters="R",
                values=array(shift),
                labels=tuple(f"{step:+d}" if step else "0" for step in range(-reach, reach + 1)),
                note="how much of the weights goes so many slots on; they add up to 1",
            ),
            scene.per_key("wᵍ", scene.mine(gated)),
            scene.per_key("w̃", scene.mine(moved)),
        ),
    )
    powers = scene.mine(moved) ** sharpness
    sharpen = Step(
        title="Sharpening",
        sentence="A shift that is not whole blurs the weights. Each is raised to the power γ, 1 or more, and they are made to "
        "add up to one again.",
        equation="w_i = w̃_i^γ / Σ_k w̃_k^γ",
        lines=statement(Addressed.parts, "sharpness.unsqueeze"),
        shown=(
            scene.number("γ", sharpness),
            scene.per_key("w̃", scene.mine(moved)),
            scene.per_key("w̃ to the γ", powers),
            weights_shown(scene, weights),
        ),
        notes=(total_note(scene, weights),),
    )
    return [found, between, turn, sharpen], weights


def written_step(model: NTM, scene: Scene, written: Tensor, after: Tensor | None) -> Step | None:
    """What a write head does with its weights: erase, then add.

    Arguments:
        model: whose memory it is.
        scene: the head, and the memory before as its keys.
        written: what `model.write` gave at this step, (B, 2 H W).
        after: (N, W), the memory that the next step read; None at the last step.

    Returns:
        None for a read head.
    """
    heads = model.config.heads
    if scene.head < heads:
        return None
    own = scene.head - heads
    erased, added = written[scene.row].to(scene.exact).view(heads, 2, -1).unbind(dim=1)
    erased = torch.sigmoid(erased)
    weights = scene.mechanism.weights(scene.inputs)[scene.row, heads:, scene.place]  # (H, N)
    before = scene.heads(scene.key)
    kept = before
    for head in range(heads):
        kept = kept * (1 - weights[head, :, None] * erased[head, None, :])
    memory = kept + weights.T @ added
    checked = ()
    if after is not None:
        difference = float((memory - after.to(scene.exact)).abs().max())
        checked = (scene.number("largest difference", difference, note="from the memory that the next step read"),)
    others = "" if heads == 1 else f" Here all {heads} write heads have erased, and then all added."
    scale = float(torch.cat((before, memory)).abs().max())
    return Step(
        title="Erase and add",
        sentence="The weights of a write head say where to write: there the memory is erased as far as e says, and a is added. "
        f"What the head would have read is not used.{others}",
        equation="M_i after = M_i (1 - w_i e) + w_i a",
        lines=(*statement(NTM._written, "memory = memory *"), *statement(NTM._written, "baddbmm")),
        shown=(
            scene.vector("e", erased[own], letter="W"),
            scene.vector("a", added[own], letter="W"),
            scene.per_key("M", before, letter="W", note="before", scale=scale),
            scene.per_key("M after", memory, letter="W", scale=scale),
            *checked,
        ),
        notes=(f"What {quoted(scene.query_token)} wrote can be read from the next step on.",),
    )
