"""The score of a first layer, split into what the tokens bring to it and what their positions bring.

    q · k = (Wq c_i + Wq p_i + bq) · (Wk c_j + Wk p_j + bk),    c = token vector, p = position vector

Multiplied out these are four products of content and position, and three with a bias. Only where nothing but the projection
stands between the sum c + p and the score: a norm divides by a number that depends on c and p together.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import AttentionLayer, ScoredAttention
from regard.inspection.walk.capture import Seen, Summed
from regard.inspection.walk.scene import Scene
from regard.inspection.walk.steps import Step

TITLE = "Content and position"
PARTS = ("content · content", "content · position", "position · content", "position · position")


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """One side of the product: its two terms through the projection's matrix, and the bias."""

    content: Tensor
    position: Tensor
    bias: Tensor


def split_step(layer: AttentionLayer, scene: Scene, seen: Seen, call: int) -> Step | None:
    """The score in its parts, or why it cannot be split; None for a model that adds no positions, and between two sequences.

    Arguments:
        layer: the layer.
        scene: the call that is walked through.
        seen: what went through the layer, the embeddings and the norms.
        call: which of `seen.calls` the scene is.
    """
    if not seen.embeddings or seen.keys is None or layer.between[0] != layer.between[1]:
        return None
    queried, keyed = _source(seen, seen.queries[call]), _source(seen, seen.keys)
    scale = None
    if isinstance(scene.mechanism, ScoredAttention):
        scale = scene.mechanism.score.product_scale(scene.query.shape[-1])
    if queried is None or keyed is None:
        return _refused(_between(seen, seen.queries[call], seen.keys))
    if scale is None or not isinstance(layer.query, nn.Linear) or not isinstance(layer.key, nn.Linear):
        return _refused(
            "the score is not a plain inner product of linear projections, so it does not multiply out into these parts"
        )
    query = _through(layer.query, layer.heads, scene, queried, scene.head)
    key = _through(layer.key, layer.key_heads, scene, keyed, scene.head * layer.key_heads // layer.heads)
    asks = _Side(query.content[scene.place], query.position[scene.place], query.bias)
    parts = [
        scale * (key.content @ asks.content),
        scale * (key.position @ asks.content),
        scale * (key.content @ asks.position),
        scale * (key.position @ asks.position),
    ]
    biased = layer.query.bias is not None or layer.key.bias is not None
    if biased:
        own = key.content + key.position + key.bias
        parts.append(scale * (own @ asks.bias + (asks.content + asks.position) @ key.bias))
    score = scale * (scene.heads(scene.key) @ scene.mine(scene.query))
    total = torch.stack(parts).sum(dim=0)
    difference = float((total - score).abs().max())
    names = (*PARTS, "with a bias") if biased else PARTS
    visible = scene.visible
    spreads = [float(part[visible].std(correction=0)) if visible.any() else 0.0 for part in parts]
    biases = "The projections have no biases, so the four are all there is."
    if biased:
        biases = (
            "Products with a bias belong to no pair of content and position; they are the fifth part. Of them, the products "
            "of the query with bk are the same for every key, and the softmax does not see them."
        )
    told = ", ".join(f"{name} {spread:.3g}" for name, spread in zip(names, spreads, strict=True))
    return Step(
        title=TITLE,
        sentence="This layer reads token vectors with position vectors added to them, and nothing stands between that sum and "
        "the projections. So the score multiplies out: the query's token and its place, each with the key's token and its place.",
        equation=(
            "(Wq c_i + Wq p_i + bq) · (Wk c_j + Wk p_j + bk)" if biased else "(Wq c_i + Wq p_i) · (Wk c_j + Wk p_j)"
        )
        + (" / √E" if abs(scale - scene.query.shape[-1] ** -0.5) < 1e-12 else ""),
        shown=(
            *(scene.per_key(name, part) for name, part in zip(names, parts, strict=True)),
            scene.per_key("their sum", total),
            scene.per_key("score", score),
            scene.number("largest difference", difference, note="between their sum and the score"),
        ),
        notes=(
            biases,
            f"What differs from key to key decides. Spread over the keys: {told}.",
        ),
        kind="aside",
    )


def _source(seen: Seen, read: Tensor) -> Summed | None:
    """The embedding whose sum the projection read as it is, bit for bit."""
    return next(
        (
            each
            for each in seen.embeddings
            if each.total.shape == read.shape
            and torch.equal(each.total, read)
            and torch.equal(each.content + each.position, read)
        ),
        None,
    )


def _between(seen: Seen, query: Tensor, key: Tensor) -> str:
    """Why what a layer reads is not the sum of its embeddings."""
    for read in (query, key):
        for address, (before, after) in seen.norms.items():
            if after.shape == read.shape and torch.equal(after, read) and _source(seen, before) is not None:
                return (
                    f"a layer norm ({address}) stands between the sum of token and position and the projections. It subtracts "
                    "the mean and divides by the standard deviation of the sum, one number in which both are mixed, so token and "
                    "position no longer enter the score as terms that could be told apart"
                )
    return (
        "this is not the first layer: what it reads has been through others, which mixed tokens and positions. The score of a "
        "first layer without a norm before it can be split"
    )


def _refused(reason: str) -> Step:
    return Step(
        title=TITLE,
        sentence=f"The score of this layer cannot be split into parts of tokens and positions: {reason}.",
        kind="aside",
    )


def _through(projection: nn.Linear, heads: int, scene: Scene, summed: Summed, head: int) -> _Side:
    """Content and position (L, D) through the rows of the matrix that are one head's."""
    matrix = projection.weight.to(scene.exact).chunk(heads, dim=0)[head]
    bias = torch.zeros(len(matrix), dtype=scene.exact, device=matrix.device)
    if projection.bias is not None:
        bias = projection.bias.to(scene.exact).chunk(heads)[head]
    content, position = (each[scene.row].to(scene.exact) @ matrix.T for each in (summed.content, summed.position))
    return _Side(content, position, bias)
