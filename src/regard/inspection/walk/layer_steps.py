"""The steps of the layer around a mechanism: queries, keys and values before it, the output projection after.

And, for a first layer, the score split into what tokens and what positions bring to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import AttentionLayer, ScoredAttention
from regard.inspection.walk.steps import Scene, Shown, Step, array, shape_of, statement
from regard.inspection.walk.watching import Seen, Summed


def given_step(scene: Scene) -> Step:
    """Queries, keys and values of a mechanism alone, as it was given them."""
    return Step(
        title="Queries, keys, values",
        sentence="What the mechanism is given: a query that asks, and for each token a key to compare with and a value to take.",
        equation="q, k_j, v_j",
        shown=_projected(scene),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Unrotated:
    """A query and its head's keys before rotary positions turned them.

    Arguments:
        query: (E,), projected.
        keys: (S, E), projected.
        normed_query, normed_keys: the same under the norms of queries and keys; None where the layer has none.
    """

    query: Tensor
    keys: Tensor
    normed_query: Tensor | None
    normed_keys: Tensor | None

    @classmethod
    def of(cls, layer: AttentionLayer, scene: Scene, seen: Seen, call: int) -> Unrotated | None:
        """What the projections gave; None for a layer that turns nothing, or whose keys were not all projected in this call."""
        if layer.rotary is None or seen.keys is None or seen.keys.shape[1] != scene.inputs.shape[3]:
            return None
        read = seen.queries[call][scene.row, scene.place]
        group = scene.head * layer.key_heads // layer.heads
        query = layer.query(read).unflatten(-1, (layer.heads, -1))[scene.head]
        keys = layer.key(seen.keys[scene.row]).unflatten(-1, (layer.key_heads, -1))[:, group]
        norms = (layer.query_norm, layer.key_norm)
        normed = [
            None if norm is None else norm(x).to(scene.exact) for norm, x in zip(norms, (query, keys), strict=True)
        ]
        return cls(query.to(scene.exact), keys.to(scene.exact), *normed)


def rotation_step(layer: AttentionLayer, scene: Scene, unrotated: Unrotated) -> Step:
    """The query and the keys turned by their positions (Su et al. 2021, section 3.2.2), before and after.

    Arguments:
        layer: one with a rotary embedding.
        scene: the call.
        unrotated: the same query and keys before.
    """
    rotary = layer.rotary
    if rotary is None:
        raise ValueError("the layer has no rotary embedding")
    positions = scene.inputs.positions
    queries, keys = (each.expand(scene.inputs.shape[0], -1)[scene.row] for each in (positions.queries, positions.keys))
    place = int(queries[scene.place])
    asks_at, held_at = rotary.angles(queries[scene.place][None])[0], rotary.angles(keys)
    asks = unrotated.query if unrotated.normed_query is None else unrotated.normed_query
    held = unrotated.keys if unrotated.normed_keys is None else unrotated.normed_keys
    rotated = rotary(asks[None, None, None], queries[scene.place][None, None])[0, 0, 0]
    turned = rotary(held[None, None], keys[None])[0, 0]
    after, keys_after = scene.mine(scene.query), scene.heads(scene.key)
    difference = max(float((rotated - after).abs().max()), float((turned - keys_after).abs().max()))
    width = rotary.width
    pairs = "2k and 2k + 1" if rotary.neighbours else f"k and k + {width // 2}"
    notes = [
        f"The query stands at position {place}. Channels {pairs} make pair k, which turns by the position times w_k radians: the "
        "first pair fastest, the last slowest.",
        "The product of a query at i and a key at j turned so depends on their vectors and on i - j, on no other place.",
    ]
    if width < len(after):
        notes.append(f"Only the first {width} of {len(after)} channels are turned; the others stay as they are.")
    scaling = rotary.scaling
    if scaling is None:
        notes.append(f"The frequencies are w_k = {rotary.base:g}^(-2k / {width}). Lengths stay as they are.")
    else:
        times = "" if scaling.magnitude == 1 else f", and what is turned is multiplied by {scaling.magnitude:.4g}"
        notes.append(
            f"The frequencies w_k are scaled for longer texts: {scaling.kind}, factor {scaling.factor:g}{times}."
        )
    normed = []
    if unrotated.normed_query is not None:
        normed.append(scene.vector("q normalised", unrotated.normed_query, note="under the norm of queries"))
    if unrotated.normed_keys is not None:
        normed.append(scene.per_key("k normalised", unrotated.normed_keys, note="under the norm of keys"))
    if layer.key_heads != layer.heads:
        group = scene.head * layer.key_heads // layer.heads
        notes.append(
            f"Head {scene.head} shares key head {group}, so these are the keys of {layer.heads // layer.key_heads} heads."
        )
    return Step(
        title="Rotation",
        sentence="Query and keys are turned by their positions: each pair of channels is a point in a plane that turns by an "
        "angle, the position times the pair's own frequency.",
        equation="(a, b) → (a cos p w_k − b sin p w_k,  b cos p w_k + a sin p w_k)",
        lines=(*statement(AttentionLayer.queries, "self.rotary("), *statement(type(rotary).forward, "turned = (")),
        shown=(
            *normed,
            scene.vector("p w", asks_at, letter="E/2", note=f"the query's angles, p = {place}, in radians"),
            scene.vector("q before", asks),
            scene.vector("q after", after, of=shape_of("query", "B, H, L, E", scene.inputs.query)),
            scene.per_key("p w of keys", held_at, letter="E/2", note="the keys' angles, in radians"),
            scene.per_key("k before", held),
            scene.per_key("k after", keys_after, of=shape_of("key", "B, G, S, E", scene.inputs.key)),
            scene.number(
                "largest difference", difference, note="between these turned here and what the mechanism was given"
            ),
        ),
        notes=tuple(notes),
    )


def projection_step(
    layer: AttentionLayer, scene: Scene, asks: str, read: Tensor, unrotated: Unrotated | None = None
) -> Step:
    """Queries, keys and values as a layer projects them.

    Arguments:
        layer: the layer.
        scene: the call.
        asks: what the vector that asks is, in words.
        read: (D,) that vector.
        unrotated: query and keys as projected, where a rotary embedding turns them afterwards.
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
    biased = [f"b{name}" for name in projected if _bias(parts[name]) is not None]
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
        shown=(*asking, *_projected(scene, unrotated)),
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
        sentence="The vectors of all heads are concatenated and projected together. The product of a matrix with "
        "concatenated vectors is a sum of products, so every head has its own share of the output.",
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


def _projected(scene: Scene, unrotated: Unrotated | None = None) -> tuple[Shown, ...]:
    inputs = scene.inputs
    if unrotated is not None:
        own = scene.vector("q", unrotated.query), scene.per_key("k", unrotated.keys)
    else:
        own = (
            scene.vector("q", scene.mine(scene.query), of=shape_of("query", "B, H, L, E", inputs.query)),
            scene.per_key("k", scene.heads(scene.key), of=shape_of("key", "B, G, S, E", inputs.key)),
        )
    return (
        *own,
        scene.per_key("v", scene.values, letter="Ev", of=shape_of("value", "B, G, S, Ev", scene.value)),
    )


def _projection(name: str, part: nn.Module, read: str) -> str:
    if isinstance(part, nn.Identity):
        return read
    bias = f" + b{name}" if _bias(part) is not None else ""
    linear = f"W{name} {read}{bias}"
    # A Linear under a Tanh, as a HAN projects its keys.
    return f"tanh({linear})" if isinstance(part, nn.Sequential) and isinstance(part[-1], nn.Tanh) else linear


def _bias(part: nn.Module) -> Tensor | None:
    """Of a projection, or of the first layer of one that has several."""
    return getattr(part[0] if isinstance(part, nn.Sequential) else part, "bias", None)


def _and(words: list[str]) -> str:
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"


# The score of a first layer, split into what the tokens bring to it and what their positions bring.
#
#     q · k = (Wq c_i + Wq p_i + bq) · (Wk c_j + Wk p_j + bk),    c = token vector, p = position vector
#
# Multiplied out these are four products of content and position, and three with a bias. Only where nothing but the projection
# is between the sum c + p and the score: a norm divides by a number that depends on c and p together.


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
    if not seen.embeddings or seen.keys is None or layer.sequences[0] != layer.sequences[1]:
        return None
    if layer.rotary is not None:
        return None  # positions are not added but turn queries and keys, which has a step of its own
    if layer.query_norm is not None or layer.key_norm is not None:
        return _refused(
            "queries and keys are normalised before their product, each divided by a number of all its parts"
        )
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
    listed = ", ".join(f"{name} {spread:.3g}" for name, spread in zip(names, spreads, strict=True))
    return Step(
        title=TITLE,
        sentence="This layer reads the sum of token vectors and position vectors, and its projections are applied "
        "directly to this sum. So the score multiplies out: the query's token and its place, each with the key's "
        "token and its place.",
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
            f"What differs from key to key decides. Spread over the keys: {listed}.",
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
