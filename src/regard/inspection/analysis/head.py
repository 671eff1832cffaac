"""One attention head in numbers, and what it may be called."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from regard.errors import InputError
from regard.inspection.view import Kind

Place = Literal["previous-token", "next-token", "diagonal", "first-token", "delimiter"]
"""Where a query may look: at the token before it, after it, at itself; at the first of all, or a mark that parts others, where
that is not itself."""

PLACES: tuple[Place, ...] = get_args(Place)


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """How much of a head's attention goes to one place.

    Arguments:
        attention: the mean weight there, over the queries that can look there.
        largest: the share of these queries whose largest weight is there; where several weights are the largest, each
            counts as its part.
        queries: how many queries can look there.
    """

    attention: float
    largest: float
    queries: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Criteria:
    """From when on a head has a name.

    A head is named after a place where the mean weight there is at least `attention`, or where the largest weight is there
    for at least `largest` of the queries. It is called broad where its entropy is at least `relative_entropy` of the largest
    that is possible.

    Arguments:
        attention: Clark et al. 2019, section 3.1, name heads with over half of their attention at one place, on average.
        largest: Voita et al. 2019, section 5.1, call a head positional where its largest weight is at one relative place for
            at least 90 % of queries.
        relative_entropy: our own; Clark et al., section 3.3, show broad heads without a threshold.

    Raises:
        InputError: for a number outside 0 to 1.
    """

    attention: float = 0.5
    largest: float = 0.9
    relative_entropy: float = 0.9

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("attention", "largest", "relative_entropy"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise InputError(f"criteria.{name} is {value}; give a share above 0, at most 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """One head over all that it was seen to do. Means are over queries, each counting as one.

    Arguments:
        address: its layer.
        head: its number there, from 0.
        kind: `self` or `cross`.
        queries: how many queries were counted. Those that can see one key only are left out: their weights say nothing.
        entropy: -sum_j a_j ln a_j, in nats.
        relative_entropy: the entropy of each query over ln of the number of keys it can see: 0 = one key, 1 = all alike.
        largest: the largest weight ("confidence" in Voita et al. 2019, section 4, but with the end token).
        distance: sum_j a_j |i - j|, in tokens; None in cross-attention, whose places have no distance.
        shares: by place; without those that no query can look at, such as the next token in a causal layer.
        order: in cross-attention, over pairs of outputs: how much more often the later one looks further right than further
            left, in [-1, 1] (Goodman and Kruskal's gamma of the most attended places, the mean over sentences): 1 =
            monotone, -1 = reversed; None elsewhere, and where there is no such pair.
        sentences: over how many sentences `order` is a mean.
    """

    address: str
    head: int
    kind: Kind
    queries: int
    entropy: float
    relative_entropy: float
    largest: float
    distance: float | None
    shares: Mapping[Place, Share]
    order: float | None = None
    sentences: int = 0

    def names(self, criteria: Criteria | None = None) -> tuple[str, ...]:
        """What it may be called: places, `broad`, or nothing."""
        criteria = criteria or Criteria()
        found: list[str] = [
            place
            for place, share in self.shares.items()
            if share.attention >= criteria.attention or share.largest >= criteria.largest
        ]
        return (*found, "broad") if self.relative_entropy >= criteria.relative_entropy else tuple(found)

    def joined(self, other: Head) -> Head:
        """Both together, means as the mean of all their queries.

        Raises:
            InputError: where one looks at its own sequence and the other does not.
        """
        if self.kind != other.kind:
            raise InputError(
                f"{self.address} is self-attention in one table and cross-attention in another; rename one"
            )

        def mean(a: float, b: float, counts: tuple[int, int]) -> float:
            return math.fsum((a * counts[0], b * counts[1])) / sum(counts)

        counts = (self.queries, other.queries)
        shares: dict[Place, Share] = {}
        for place in PLACES:
            a, b = self.shares.get(place), other.shares.get(place)
            if a is not None and b is not None:
                lookers = (a.queries, b.queries)
                shares[place] = Share(
                    attention=mean(a.attention, b.attention, lookers),
                    largest=mean(a.largest, b.largest, lookers),
                    queries=sum(lookers),
                )
            elif (only := a or b) is not None:
                shares[place] = only
        orders = [each for each in (self, other) if each.order is not None]
        sentences = sum(each.sentences for each in orders)
        return replace(
            self,
            queries=sum(counts),
            entropy=mean(self.entropy, other.entropy, counts),
            relative_entropy=mean(self.relative_entropy, other.relative_entropy, counts),
            largest=mean(self.largest, other.largest, counts),
            distance=None
            if self.distance is None or other.distance is None
            else mean(self.distance, other.distance, counts),
            shares=shares,
            order=math.fsum((each.order or 0.0) * each.sentences for each in orders) / sentences if sentences else None,
            sentences=sentences,
        )

    def to_json(self) -> dict[str, Any]:
        """Everything but its names as JSON values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "shares"} | {
            "shares": {
                place: {"attention": share.attention, "largest": share.largest, "queries": share.queries}
                for place, share in self.shares.items()
            }
        }
