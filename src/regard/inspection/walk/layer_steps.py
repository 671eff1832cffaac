"""The steps of the layer around a mechanism: queries, keys and values before it, the output projection after."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention import AttentionLayer
from regard.inspection.walk.scene import Scene, array, shape_of
from regard.inspection.walk.source import statement
from regard.inspection.walk.steps import Shown, Step


def given_step(scene: Scene) -> Step:
    """Queries, keys and values of a mechanism alone, as it was given them."""
    return Step(
        title="Queries, keys, values",
        sentence="What the mechanism is given: a query that asks, and for each token a key to compare with and a value to take.",
        equation="q, k_j, v_j",
        shown=_projected(scene),
    )


def projection_step(layer: AttentionLayer, scene: Scene, asks: str, read: Tensor) -> Step:
    """Queries, keys and values as a layer projects them.

    Arguments:
        layer: the layer.
        scene: the call.
        asks: what the vector that asks is, in words.
        read: (D,) that vector.
    """
    parts = {"q": layer.query, "k": layer.key, "v": layer.value}
    projected = [name for name, part in parts.items() if not isinstance(part, nn.Identity)]
    equations = ",   ".join(
        f"{name} = {_projection(name, parts[name], 'x' if name == 'q' else 'y')}" for name in ("q", "k", "v")
    )
    sentence = f"{asks} is projected to a query; every vector that can be looked at is projected to a key, by which it is found, "
    sentence += "and to a value, which is what is taken from it."
    if len(projected) < 3:
        names = {"q": "the query", "k": "the keys", "v": "the values"}
        plain = [names[name] for name in parts if name not in projected]
        sentence = f"{asks} asks. Here {_and(plain)} {'are' if plain != ['the query'] else 'is'} taken as they are"
        sentence += f", and {_and([names[name] for name in projected])} projected." if projected else "."
    notes = []
    if layer.heads > 1:
        width = scene.inputs.query.shape[-1]
        shared = "" if layer.key_heads == layer.heads else f"; {layer.key_heads} heads of keys are shared"
        start = scene.head * width
        notes.append(
            f"The {layer.heads} heads are cut out of one projection: head {scene.head} has rows {start} to "
            f"{start + width - 1} of Wq{shared}."
        )
    asking = (
        () if "q" not in projected else (Shown(name="x", letters="D", values=array(read), note="the vector that asks"),)
    )
    biased = [f"b{name}" for name in projected if getattr(parts[name], "bias", None) is not None]
    if projected:
        notes.append(
            f"The projections have biases: {', '.join(biased)}." if biased else "The projections have no biases."
        )
    return Step(
        title="Queries, keys, values",
        sentence=sentence,
        equation=equations,
        lines=(
            *statement(type(layer).queries, "split_heads(self.query"),
            *statement(AttentionLayer.keys_values, "split_heads(self.key("),
        ),
        shown=(*asking, *_projected(scene)),
        notes=tuple(notes),
    )


def output_step(layer: AttentionLayer, scene: Scene, gathered: Tensor, given: Tensor, output: Tensor) -> Step | None:
    """What becomes of the vector: heads side by side, the output projection, and this head's share of it.

    Arguments:
        layer: the layer.
        scene: the call.
        gathered: (Ev,), the vector walked to.
        given: (B, H, L, Ev), what the mechanism gave for all heads.
        output: (B, L, D), what the layer gave.

    Returns:
        None where a single head is handed on as it is.
    """
    whole = output[scene.row, scene.place].to(scene.exact)
    if not isinstance(layer.output, nn.Linear):
        return None
    matrix = layer.output.weight.to(scene.exact)
    heads = given[scene.row, :, scene.place].to(scene.exact).clone()  # the model's own is compared with afterwards
    heads[scene.head] = gathered
    shares = torch.stack([part @ each.T for part, each in zip(heads, matrix.chunk(layer.heads, dim=1), strict=True)])
    names = [f"head {number}" for number in range(layer.heads)]
    if layer.output.bias is not None:
        shares = torch.cat((shares, layer.output.bias.to(scene.exact).unsqueeze(0)))
        names.append("bias")
    total = shares.sum(dim=0)
    along = shares @ total / total.square().sum().clamp_min(torch.finfo(total.dtype).tiny)
    own = float(along[scene.head])
    return Step(
        title="The output projection",
        sentence="The vectors of all heads stand side by side and are projected together. A product with parts side by side is a "
        "sum of products, so every head has a share of its own in the output.",
        equation="output = Wo [o_1; …; o_H] = Σ_h Wo_h o_h" + (" + bo" if layer.output.bias is not None else ""),
        lines=statement(AttentionLayer.attend, "self.output(merge_heads"),
        shown=(
            Shown(
                name="Wo_h o_h", letters="D", values=array(shares[scene.head]), note=f"the share of head {scene.head}"
            ),
            Shown(name="output", letters="D", values=array(total), note="all shares together"),
            Shown(
                name="share",
                letters="H",
                values=array(along),
                labels=tuple(names),
                note="how far each goes along the output, as a part of its length; they add up to 1",
            ),
            scene.number("largest difference", float((total - whole).abs().max()), note="from what the layer gave"),
        ),
        notes=(
            f"Along the direction of the output, head {scene.head} brings {100 * own:.1f} % of its length. A share below zero "
            "pulls the other way.",
        ),
        kind="aside",
    )


def _projected(scene: Scene) -> tuple[Shown, ...]:
    inputs = scene.inputs
    return (
        scene.vector("q", scene.mine(scene.query), of=shape_of("query", "B, H, L, E", inputs.query)),
        scene.per_key("k", scene.heads(scene.key), of=shape_of("key", "B, G, S, E", inputs.key)),
        scene.per_key("v", scene.values, letter="Ev", of=shape_of("value", "B, G, S, Ev", scene.value)),
    )


def _projection(name: str, part: nn.Module, read: str) -> str:
    if isinstance(part, nn.Identity):
        return read
    bias = f" + b{name}" if getattr(part, "bias", None) is not None else ""
    return f"W{name} {read}{bias}"


def _and(words: list[str]) -> str:
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"
