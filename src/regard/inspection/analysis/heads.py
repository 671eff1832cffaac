"""What attention heads look at, in numbers: entropy, distance, shares by place; and names for heads that do one thing."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from torch import Tensor

from regard.errors import InputError, nearest
from regard.inspection.analysis.head_sums import PLACES, HeadSums, Place, as_maps
from regard.inspection.view import AttentionMap, AttentionView, Kind
from regard.rendering import Fitted

if TYPE_CHECKING:
    from rich.table import Table

    from regard.inspection.record import Record


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

    A head is named after a place where the mean weight there is at least `attention`, or where the largest weight is there for
    at least `largest` of the queries. It is called `sink` by the mean weight alone, and broad where its entropy is at least
    `relative_entropy` of the largest that is possible; a broad head is no sink.

    Arguments:
        attention: Clark et al. 2019, section 3.1, name heads with over half of their attention at one place, on average.
        largest: Voita et al. 2019, section 5.1, call a head positional where its largest weight is at one relative place for
            at least 90 % of queries.
        relative_entropy: our own; Clark et al., section 3.3, show broad heads without a threshold.
        sink: of the mean weight on the first token and special tokens together. Gu et al. 2025, "When attention sink emerges in
            language models", take 0.3 of the first token; that tokens of no meaning draw weight that has nowhere else to go is
            Xiao et al. 2024, "Efficient streaming language models with attention sinks".

    Raises:
        InputError: for a number outside 0 to 1.
    """

    attention: float = 0.5
    largest: float = 0.9
    relative_entropy: float = 0.9
    sink: float = 0.3

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("attention", "largest", "relative_entropy", "sink"):
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
        broad = self.relative_entropy >= criteria.relative_entropy
        found: list[str] = []
        for place, share in self.shares.items():
            if place == "sink":  # in a short text an even share of weight would pass too
                named = share.attention >= criteria.sink and not broad
            else:
                named = share.attention >= criteria.attention or share.largest >= criteria.largest
            if named:
                found.append(place)
        return (*found, "broad") if broad else tuple(found)

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


DELIMITERS = frozenset({"[SEP]", "[CLS]", "</s>", "<s>", ".", ","})

SPECIALS = frozenset(
    {
        *("[CLS]", "[SEP]", "[PAD]", "[MASK]", "[BOS]", "[EOS]", "<s>", "</s>", "<pad>", "<mask>", "<bos>", "<eos>"),
        *("<|endoftext|>", "<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>"),
    }
)
"""Tokens that are no text, as tokenizers write them; weight on them counts as an attention sink's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadStatistics:
    """What every head looks at.

    Arguments:
        heads: layer by layer.
        criteria: from when on a head has a name.

    >>> import torch
    >>> before = torch.eye(5).roll(1, dims=0)  # each query looks at the token before it, the first at the last
    >>> found = HeadStatistics.of({"layers.0": torch.stack([before, torch.full((5, 5), 0.2)]).unsqueeze(0)})
    >>> [head.names() for head in found.heads]
    [('previous-token',), ('broad',)]
    >>> round(found.head("layers.0", 1).entropy, 4)  # ln 5
    1.6094
    """

    heads: tuple[Head, ...]
    criteria: Criteria = field(default_factory=Criteria)

    @classmethod
    def of(
        cls,
        layers: Mapping[str, Tensor],
        *,
        queries: Tensor | None = None,
        keys: Tensor | None = None,
        query_tokens: Sequence[Sequence[str]] | None = None,
        key_tokens: Sequence[Sequence[str]] | None = None,
        kind: Kind = "self",
        causal: bool | None = None,
        delimiters: Collection[str] = DELIMITERS,
        specials: Collection[str] = SPECIALS,
        criteria: Criteria | None = None,
    ) -> Self:
        """From plain weights of any library, one batch; `joined` puts several tables together.

        Arguments:
            layers: by address, (B, H, L, S), before dropout. Rows that do not sum to one are divided by their sum.
            queries, keys: (B, L) and (B, S) bool, True = a real token; all are where None. Padding may be on either side;
                places are counted among real tokens. In self-attention one of them serves for both.
            query_tokens, key_tokens: B rows of L and S strings, those at padding not looked at. Without them there is nothing to
                tell delimiters by. In self-attention one of them serves for both.
            kind: `cross` where queries and keys are two sequences.
            causal: whether a query sees no key after it; None looks at whether it ever does.
            delimiters: which tokens those are; a space mark (U+2581 or U+0120) around a token is not looked at.
            specials: likewise, which tokens count as attention sinks next to the first.
            criteria: from when on a head has a name.

        Raises:
            InputError: for shapes that do not fit, negative weights, or where nothing is left to count.
        """
        maps = as_maps(
            layers, queries=queries, keys=keys, query_tokens=query_tokens, key_tokens=key_tokens, kind=kind
        )  # fmt: skip
        return cls.of_maps(maps, causal=causal, delimiters=delimiters, specials=specials, criteria=criteria)

    @classmethod
    def of_record(
        cls,
        record: Record,
        *,
        delimiters: Collection[str] = DELIMITERS,
        specials: Collection[str] = SPECIALS,
        criteria: Criteria | None = None,
    ) -> Self:
        """From what `regard.look` saw, over all its runs, padding left out.

        Without the texts, as of a bare module, there are no delimiters; `of_maps(record.view(row, tokens=...))` has them.

        Raises:
            InputError: where nothing was recorded.
        """
        return cls.of_maps(_maps_of(record), delimiters=delimiters, specials=specials, criteria=criteria)

    @classmethod
    def of_maps(
        cls,
        maps: AttentionView | Iterable[AttentionMap],
        *,
        causal: bool | None = None,
        delimiters: Collection[str] = DELIMITERS,
        specials: Collection[str] = SPECIALS,
        criteria: Criteria | None = None,
    ) -> Self:
        """From maps of single sentences without padding, read one after the other.

        Arguments:
            maps: any number, any order; those of one address belong together.
            causal, delimiters, specials, criteria: as in `of`.

        Raises:
            InputError: as `of`.
        """
        wanted, special = frozenset(delimiters), frozenset(specials)
        sums: dict[str, HeadSums] = {}
        for item in maps.maps if isinstance(maps, AttentionView) else maps:
            seen = HeadSums.of(item, causal=causal, delimiters=wanted, specials=special)
            sums[item.address] = sums[item.address].added(seen) if item.address in sums else seen
        if not sums:
            raise InputError("there are no attention maps to count; record some runs first")
        heads = tuple(head for address, each in sums.items() for head in _heads(address, each))
        if not heads:
            raise InputError("no query sees more than one key, so heads have nothing to choose; give longer texts")
        return cls(heads=heads, criteria=criteria or Criteria())

    @classmethod
    def joined(cls, tables: Iterable[Self]) -> Self:
        """The table of several batches, from a table of each: as if all had been counted together.

        Raises:
            InputError: where there is no table.
        """
        found: dict[tuple[str, int], Head] = {}
        criteria = None
        for table in tables:
            criteria = criteria or table.criteria
            for head in table.heads:
                key = (head.address, head.head)
                found[key] = found[key].joined(head) if key in found else head
        if criteria is None:
            raise InputError("there is no table to join; give at least one")
        return cls(heads=tuple(found.values()), criteria=criteria)

    def __iter__(self) -> Iterator[Head]:
        return iter(self.heads)

    def head(self, address: str, head: int) -> Head:
        """One head.

        Raises:
            InputError: for an address or a head that is not there.
        """
        mine = {each.head: each for each in self.heads if each.address == address}
        if not mine:
            raise InputError(f"no layer {address!r} was counted; {nearest(address, [each.address for each in self])}")
        if head not in mine:
            raise InputError(f"{address}: no head {head}; it has heads {min(mine)} to {max(mine)}")
        return mine[head]

    def named(self, name: str) -> tuple[Head, ...]:
        """The heads that may be called so.

        Raises:
            InputError: for a name that heads are never given.
        """
        known = [*PLACES, "broad"]
        if name not in known:
            raise InputError(f"heads are never called {name!r}; {nearest(name, known)}")
        return tuple(head for head in self.heads if name in head.names(self.criteria))

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "format_version": 1,
            "criteria": {name: getattr(self.criteria, name) for name in Criteria.__dataclass_fields__},
            "heads": [head.to_json() | {"names": list(head.names(self.criteria))} for head in self.heads],
        }

    def table(self) -> Table:
        """A row for each head: names, entropy, distance, and the mean share of attention by place, in per cent."""
        from rich.table import Table

        crossed = any(head.kind == "cross" for head in self.heads)
        counted = {head.queries for head in self.heads}
        queries = f"{min(counted):,}" if len(counted) == 1 else f"{min(counted):,} to {max(counted):,}"
        table = Table(
            header_style="bold",
            caption=f"means over {queries} queries; places in per cent of attention",
            caption_justify="left",
        )
        table.add_column("layer", overflow="fold")
        for title in ("head", "entropy", "of most", "largest", "distance"):
            table.add_column(title, justify="right")
        for title in ("previous", "next", "itself", "first", "delimiter", "sink"):
            table.add_column(title, justify="right")
        if crossed:
            table.add_column("order", justify="right")
        table.add_column("name")
        last = ""
        for head in self.heads:
            shares = [head.shares.get(place) for place in PLACES]
            cells = [
                head.address if head.address != last else "",
                str(head.head),
                f"{head.entropy:.2f}",
                f"{head.relative_entropy:.2f}",
                f"{head.largest:.2f}",
                "-" if head.distance is None else f"{head.distance:.1f}",
                *("-" if share is None else f"{100 * share.attention:.0f}" for share in shares),
            ]
            if crossed:
                cells.append("-" if head.order is None else f"{head.order:.2f}")
            table.add_row(*cells, ", ".join(head.names(self.criteria)))
            last = head.address
        return table

    def __rich__(self) -> Fitted:
        """The table, for `rich.print`."""
        return Fitted(self.table())


def _maps_of(record: Record) -> Iterator[AttentionMap]:
    """The maps of all runs and rows, one layer of one run at a time in memory."""
    for number, run in enumerate(record.runs):
        for address in run.calls:
            yield from record.view(run=number, addresses=[address]).maps


def _heads(address: str, sums: HeadSums) -> Iterator[Head]:
    """Means from sums."""
    if not sums.queries:
        return
    for head in range(sums.entropy.shape[0]):
        places = zip(PLACES, sums.attention[head], sums.most[head], sums.lookers, strict=True)
        crossed = sums.kind == "cross"
        sentences = int(sums.ordered[head])
        yield Head(
            address=address,
            head=head,
            kind=sums.kind,
            queries=sums.queries,
            entropy=_mean(sums.entropy[head], sums.queries),
            relative_entropy=_mean(sums.relative_entropy[head], sums.queries),
            largest=_mean(sums.largest[head], sums.queries),
            distance=None if crossed else _mean(sums.distance[head], sums.queries),
            shares={
                place: Share(attention=_mean(total, count), largest=_mean(hits, count), queries=int(count))
                for place, total, hits, count in places
                if count
            },
            order=_mean(sums.order[head], sentences) if sentences else None,
            sentences=sentences,
        )


def _mean(total: np.floating[Any] | float, count: int) -> float:
    return float(total) / int(count)
