"""The steps of each score, mechanism and alignment: from queries and keys to scores, to weights, to the gathered vector.

What is registered for a mechanism walks through its `weights`; weighing and summing the values are the same for all. A score of
your own gets steps of its own by a function registered for its class (`@score_steps.register`); else its scores are shown as
it computes them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import torch
from torch import Tensor

from regard.attention import (
    Additive,
    Alignment,
    Attention,
    Cosine,
    Dot,
    General,
    Hard,
    Local,
    Location,
    RelativeDot,
    RelativeKeys,
    ScaledDot,
    Score,
    ScoredAttention,
    Soft,
)
from regard.attention.alignments import LOT
from regard.attention.kernels import fused
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
    three,
    walked_as,
    written,
)

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
    scores = torch.tanh(scene.query.unsqueeze(-2) + scene.key.unsqueeze(-3)) @ va
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
    drawn = "the one that was drawn" if scene.inputs.record.get(LOT) is not None else "the most probable"
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
    last = Shown(
        name=name,
        letters="S",
        values=own.detach().cpu().numpy(),
        labels=scene.key_tokens,
        of=shape_of("weights", "B, H, L, S", weights) if weights.dim() == 4 else "",
    )
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
        shown=(scene.per_key("score", mine), scene.per_key("exp(score - largest)", exponentials), last),
        notes=tuple(notes),
    )


def weights_shown(scene: Scene, weights: Tensor) -> Shown:
    """The weights of this query, and the whole tensor that they are of."""
    return scene.per_key("weight", scene.mine(weights), of=shape_of("weights", "B, H, L, S", weights))


def total_note(scene: Scene, weights: Tensor) -> str:
    """What the weights of this query sum to."""
    return f"The weights of this query sum to {float(scene.mine(weights).sum()):.6f}."
