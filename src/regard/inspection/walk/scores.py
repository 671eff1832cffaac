"""The steps of each score: from queries and keys to scores.

A score of your own gets steps of its own by a function registered for its class (`@score_steps.register`); else its scores are
shown as it computes them.
"""

from __future__ import annotations

from functools import singledispatch

import torch
from torch import Tensor

from regard.attention import Additive, Cosine, Dot, General, Location, RelativeDot, RelativeKeys, ScaledDot, Score
from regard.inspection.walk.steps import Scene, Shown, Step, body, quoted, shape_of, statement, three

PRODUCT = "q · k"
"""What a product is called that is not yet the score: the softmax takes the exponential of what is called score."""
Scored = tuple[list[Step], Tensor]
"""Steps, and the scores (B, H, L, S) they end in."""


@singledispatch
def score_steps(score: Score, scene: Scene) -> Scored:
    """The scores as the score itself computes them, for one that has no steps of its own."""
    scores = score(scene.query, scene.key, scene.inputs)
    step = Step(
        title="Scores",
        sentence="How well the query matches each key, by the score's own rule.",
        equation="score_j = score(q, k_j)",
        lines=body(type(score).forward),
        shown=(_scores(scene, scores),),
    )
    return [step], scores


@score_steps.register
def _dot(score: Dot, scene: Scene) -> Scored:
    scores = scene.query @ scene.key.transpose(-2, -1)
    return [_products(scene, scores, statement(Dot.forward, "query @ key"))], scores


@score_steps.register
def _scaled_dot(score: ScaledDot, scene: Scene) -> Scored:
    lines = statement(ScaledDot.forward, "query @ key")
    raw = scene.query @ scene.key.transpose(-2, -1)
    width = scene.query.shape[-1]
    divisor = width**score.power
    scores = raw / divisor
    spread = [_spread(scene.mine(each)[scene.visible]) for each in (raw, scores)]
    rule, equation = _divisor(score.power, width, divisor)
    scale = Step(
        title="Scale",
        sentence=f"{rule} A sum of more products spreads wider; divided by the root of their number, scores are about as far "
        "apart at every width, and the softmax that follows stays gentle.",
        equation=equation,
        lines=lines,
        shown=(
            scene.per_key(PRODUCT, scene.mine(raw)),
            _scores(scene, scores),
        ),
        notes=(
            f"The spread of the scores (standard deviation over the keys) is {three(spread[0])} before and "
            f"{three(spread[1])} after.",
            *_without_scale(scene, raw, scores),
        ),
    )
    return [_products(scene, raw, lines, name=PRODUCT), scale], scores


@score_steps.register
def _relative(score: RelativeDot, scene: Scene) -> Scored:
    raw = scene.query @ scene.key.transpose(-2, -1)
    bias = score.term(scene.inputs).to(scene.exact).expand_as(raw)
    scores = raw + bias
    added = Step(
        title="Bias by distance",
        sentence="A learned number is added to each score. It depends on the head and on the distance of the key "
        "from the query: near distances have one each, far ones share one. This is the only information on order, "
        "and scores are not scaled.",
        equation="score_j = q · k_j + b_h(j - i)",
        lines=statement(RelativeDot.forward, "self.term"),
        shown=(
            scene.per_key(PRODUCT, scene.mine(raw)),
            scene.per_key("b", scene.mine(bias)),
            _scores(scene, scores),
        ),
    )
    return [_products(scene, raw, statement(RelativeDot.forward, "query @ key"), name=PRODUCT), added], scores


@score_steps.register
def _relative_keys(score: RelativeKeys, scene: Scene) -> Scored:
    raw = scene.query @ scene.key.transpose(-2, -1)
    apart = score.by_distance(scene.query, scene.inputs)
    root = scene.query.shape[-1] ** 0.5
    scores = (raw + apart) / root
    added = Step(
        title="A vector for the distance",
        sentence="The distance of the key from the query has a learned vector, and the query is multiplied with "
        "that too: what it "
        "looks for may lie in what a key holds, in how far away it is, or in both.",
        equation="score_j = (q · k_j + q · a_(j - i)) / √E",
        lines=statement(RelativeKeys.forward, "by_distance = "),
        shown=(
            scene.per_key(PRODUCT, scene.mine(raw)),
            scene.per_key("q · a", scene.mine(apart)),
            _scores(scene, scores),
        ),
        notes=(f"Both products are divided by √{scene.query.shape[-1]} = {three(root)}.",),
    )
    return [_products(scene, raw, statement(RelativeKeys.forward, "query @ key"), name=PRODUCT), added], scores


@score_steps.register
def _general(score: General, scene: Scene) -> Scored:
    lines = statement(General.forward, "self.weight")
    turned = scene.query @ score.weight.to(scene.exact)
    scores = turned @ scene.key.transpose(-2, -1)
    first = Step(
        title="The query through Wa",
        sentence="A learned matrix maps the query to the space of the keys.",
        equation="u = q Wa",
        lines=lines,
        shown=(
            scene.vector("q", scene.mine(scene.query), of=shape_of("query", "B, H, L, E", scene.query)),
            scene.vector("u", scene.mine(turned), note=f"Wa is {tuple(score.weight.shape)}"),
        ),
    )
    return [first, _products(scene, scores, lines, query="u", against=turned)], scores


@score_steps.register
def _additive(score: Additive, scene: Scene) -> Scored:
    lines = statement(Additive.forward, "torch.tanh")
    va = score.weight.to(scene.exact)
    query, key = scene.mine(scene.query), scene.heads(scene.key)
    hidden = torch.tanh(query + key)
    # Of the whole call, as the code does it: the hidden layer of one query is a small part of it.
    scores = score(scene.query, scene.key)
    best = _strongest(scene, scene.mine(scores))
    meet = Step(
        title="Query and key meet",
        sentence="The projected query is added to each projected key, and the tanh of the sum is the hidden layer of a small "
        "network: one hidden vector for each key.",
        equation="t_j = tanh(q + k_j)",
        lines=lines,
        shown=(
            scene.vector("q", query),
            scene.per_key("t", hidden, note="one row for each key, all between -1 and 1"),
        ),
    )
    count = Step(
        title="Scores",
        sentence="A learned vector va (a vector, not a matrix) weighs the hidden layer: one number for each key.",
        equation="score_j = vaᵀ t_j = Σ_e va_e t_je",
        lines=lines,
        shown=(
            scene.vector("va", va),
            _example(scene, "va * t", va * hidden[best], best),
            _scores(scene, scores),
        ),
        notes=(_sum_of_example(scene, va * hidden[best], best),),
    )
    return [meet, count], scores


@score_steps.register
def _location(score: Location, scene: Scene) -> Scored:
    lines = body(Location.forward)
    scores = score(scene.query, scene.key, scene.inputs)
    step = Step(
        title="Scores",
        sentence="Each position in the source has a row in a learned table, and the query is multiplied with that "
        "row. The token there does not matter: the keys are not used.",
        equation="score_j = (Wa q)_j",
        lines=lines,
        shown=(
            scene.vector("q", scene.mine(scene.query), of=shape_of("query", "B, H, L, E", scene.query)),
            _scores(scene, scores),
        ),
        notes=(f"Wa is {tuple(score.weight.shape)}: {score.maximum} places of {score.weight.shape[1]} numbers.",),
    )
    return [step], scores


@score_steps.register
def _cosine(score: Cosine, scene: Scene) -> Scored:
    query, key = scene.mine(scene.query), scene.heads(scene.key)
    strength = scene.inputs.record.get("strength")
    beta = score.strength if strength is None else float(scene.mine(strength))
    lines = statement(Cosine.forward, "return self.strength" if strength is None else "return strength")
    scores = score(scene.query, scene.key, scene.inputs)
    lengths = torch.linalg.vector_norm(key, dim=-1)
    # Through the score: its lengths neither overflow nor vanish.
    cosines = scene.mine(scores) / beta if beta else torch.zeros_like(lengths)
    best = _strongest(scene, scene.mine(scores))
    turn = Step(
        title="Cosine",
        sentence="Query and keys are brought to length one before they are multiplied, so only their direction counts.",
        equation="cos_j = q · k_j / (|q| |k_j|)",
        lines=lines,
        shown=(
            scene.vector("q", query, of=shape_of("query", "B, H, L, E", scene.query)),
            scene.number("|q|", torch.linalg.vector_norm(query)),
            scene.per_key("q · k", key @ query),
            scene.per_key("|k|", lengths),
            scene.per_key("cosine", cosines),
        ),
        notes=(f"The nearest key by direction is {quoted(scene.key_texts[best])}.",),
    )
    insist = Step(
        title="Strength",
        sentence="A cosine lies between -1 and 1, too close together for any weight to be large. The strength says how much the "
        "query insists on the nearest key.",
        equation="score_j = β cos_j",
        lines=lines,
        shown=(
            scene.number("β", beta, note="the query's own" if strength is not None else "the same for every query"),
            _scores(scene, scores),
        ),
    )
    return [turn, insist], scores


def _products(
    scene: Scene,
    scores: Tensor,
    lines: tuple,
    *,
    name: str = "score",
    query: str = "q",
    against: Tensor | None = None,
) -> Step:
    """Inner products of the query, or of what became of it, with every key, and one of them written out.

    Arguments:
        name: of the products; `PRODUCT` where a later step makes the score of them.
    """
    vector = scene.mine(scene.query if against is None else against)
    key, mine = scene.heads(scene.key), scene.mine(scores)
    best = _strongest(scene, mine)
    return Step(
        title="Scores",
        sentence="The query is compared with every key: entry by entry multiplied, then added up. A large product says that "
        "the two point the same way.",
        equation=("" if name == PRODUCT else "score_j = ") + f"{query} · k_j = Σ_e {query}_e k_je",
        lines=lines,
        shown=(_example(scene, f"{query} * k", vector * key[best], best), _scores(scene, scores, name)),
        notes=(_sum_of_example(scene, vector * key[best], best),),
    )


def _divisor(power: float, width: int, divisor: float) -> tuple[str, str]:
    """What the scores are divided by, as a sentence and as an equation."""
    if power == 0:
        return "Here the scores are left as they are (a power of 0).", "score_j = q · k_j"
    if power == 0.5:
        root = "the square root of the width of a head"
        return f"Every score is divided by {root}, √{width} = {three(divisor)}.", "score_j = q · k_j / √E"
    return f"Every score is divided by E^{power:g} = {three(divisor)}.", f"score_j = q · k_j / E^{power:g}"


def _scores(scene: Scene, scores: Tensor, name: str = "score") -> Shown:
    return scene.per_key(name, scene.mine(scores), of=shape_of("scores", "B, H, L, S", scores))


def _example(scene: Scene, name: str, products: Tensor, key: int) -> Shown:
    return scene.vector(
        name, products, note=f"the products for key {key}, {quoted(scene.key_texts[key])}, before they are added"
    )


def _sum_of_example(scene: Scene, products: Tensor, key: int) -> str:
    return (
        f"For {quoted(scene.key_texts[key])}, the key with the largest score, the {len(products)} products add up to "
        f"{three(float(products.sum()))}."
    )


def _strongest(scene: Scene, scores: Tensor) -> int:
    """The visible key with the largest score; the first where none is visible."""
    return int(scores.masked_fill(~scene.visible, -torch.inf).argmax())


def _spread(scores: Tensor) -> float:
    return float(scores.std(correction=0)) if len(scores) else 0.0


def _without_scale(scene: Scene, raw: Tensor, scores: Tensor) -> list[str]:
    """What the largest weight would be with another divisor: for the plain softmax over what is visible."""
    visible = scene.visible
    if visible.sum() < 2:
        return []
    width = scene.query.shape[-1]
    largest = [
        float(scene.mine(each)[visible].softmax(dim=-1).max()) for each in (raw, raw / width**0.5, raw / width, scores)
    ]
    return [
        f"Largest weight after the softmax: {largest[0]:.4f} without a scale, {largest[1]:.4f} divided by √E, "
        f"{largest[2]:.4f} divided by E as some lectures print it (1/{int(visible.sum())} would be uniform)."
    ]
