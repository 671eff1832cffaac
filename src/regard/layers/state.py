"""Decoding as three verbs over a state that is passed in and handed back.

`start(source) -> state`, `step(tokens, state) -> (logits, state)`, and `alignment(state)`, the last step's weights over the
source. Greedy search, sampling and beam search are written once over these, for recurrent nets and Transformers alike.
Nothing hangs on modules, so two searches over one model never meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Protocol, Self, TypeVar

import torch
from torch import Tensor

from regard.attention import KeysValues, KVCache

SOURCE: Mapping[str, Any] = MappingProxyType({"side": "source"})
"""Marks a state's field as belonging to the source: R rows, kept once however many hypotheses there are about each."""
TARGET: Mapping[str, Any] = MappingProxyType({"side": "target"})
"""Marks a state's field as belonging to what was decoded so far: N rows, one for each hypothesis."""
LAST_STEP: Mapping[str, Any] = MappingProxyType({"side": "target", "last_step": True})
"""Marks a target field that only speaks of the last step, so cropping forgets it."""
CACHE: Mapping[str, Any] = MappingProxyType({"side": "cache"})
"""Marks a state's `KVCache`: kept once for each source, with a table of which columns are whose."""

T = TypeVar("T")


def _changed(value: T, change: Callable[[Any], Any]) -> T:
    """`value` with every part passed through `change`; a state is made of tensors, tuples, `KeysValues` and `KVCache`."""
    if value is None:
        return value
    if isinstance(value, tuple):
        return tuple(_changed(part, change) for part in value)  # type: ignore[return-value]
    return change(value)


@dataclass(frozen=True, kw_only=True, eq=False)
class DecoderState:
    """All that decoding carries from one step to the next: N hypotheses about R sources.

    A model's own state adds its fields, each marked `SOURCE` (tensors with R rows on the first axis), `TARGET` (with N)
    or `CACHE`. The hypotheses about one source stand next to one another, `width` of them, so N = R * width. A model whose
    step reads the source brings the two together with `by_source` or `for_each_row`: hypotheses about one sentence are so
    many queries over one and the same memory.

    Arguments:
        length: slots so far, the same for every row: each step takes one, for a token or padding. A stored number, never
            inferred from contents.
        width: hypotheses about each source; 1 at the start.
        source_valid: (R, S) bool, True = a real source token.
        lengths: (R,) int64, the tokens that each source's hypotheses have consumed; None where that is `length` for all.
    """

    length: int = 0
    width: int = 1
    source_valid: Tensor = field(metadata=SOURCE)
    lengths: Tensor | None = field(default=None, metadata=SOURCE)

    @property
    def rows(self) -> int:
        """N, the number of hypotheses."""
        return self.source_valid.shape[0] * self.width

    @property
    def longest(self) -> int:
        """The most tokens that a row has consumed."""
        return self.length if self.lengths is None else int(self.lengths.max())

    def places(self, back: int = 0) -> Tensor:
        """(R, width) int64: where the next token of each hypothesis stands, or the one so many `back` from there."""
        sources = len(self.source_valid)
        if self.lengths is None:
            return self.source_valid.new_full((sources, self.width), self.length - back, dtype=torch.long)
        return (self.lengths - back)[:, None].expand(-1, self.width)

    def by_source(self, x: Tensor) -> Tensor:
        """(N, ...) to (R, width, ...): the hypotheses about each source; `flatten(0, 1)` is the way back."""
        return x.unflatten(0, (-1, self.width))

    def for_each_row(self, x: Tensor) -> Tensor:
        """(R, ...) to (N, ...): what belongs to a source, repeated for every hypothesis about it."""
        return x if self.width == 1 else x.repeat_interleave(self.width, dim=0)

    def no_alignment(self) -> Tensor:
        """(N, S) float32 zeros: the alignment where nothing was looked at."""
        return self.for_each_row(torch.zeros_like(self.source_valid, dtype=torch.float32))

    def select(self, rows: Tensor) -> Self:
        """The state of these rows: rows may leave, repeat or change places. Each new row has its source to itself.

        Arguments:
            rows: (M,) int64, the row each new row continues.
        """
        sources = rows if self.width == 1 else rows // self.width
        return self._moved(rows, sources, 1)

    def apart(self) -> Self:
        """The state in which every row has its source to itself."""
        if self.width == 1:
            return self
        return self.select(torch.arange(self.rows, device=self.source_valid.device))

    def reserved(self, columns: int) -> Self:
        """The same state with room for so many columns of keys and values more, where it keeps any."""
        return self._apply("cache", lambda part: part.reserved(columns))

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> Self:
        """Each new row continues the past of row `rows[i]`, which must stand among those about its own source.

        What belongs to the source stays where it is, so a beam search that branches, or shuffles hypotheses of one sentence,
        does not copy the sentence.

        Arguments:
            rows: (M,) int64, in groups of equal size, one group for each source.
            sources: (Q,) int64, the sources that stay, in their order; all where None.

        Raises:
            ValueError: where the rows do not divide by the sources.
        """
        count = len(self.source_valid if sources is None else sources)
        if not count or len(rows) % count:
            raise ValueError(f"{len(rows)} rows cannot be dealt out to {count} sources; give so many for each")
        return self._moved(rows, sources, len(rows) // count)

    def crop(self, length: int) -> Self:
        """The state as it was after `length` tokens.

        Raises:
            ValueError: for a recurrent state, which does not remember, or a length it has not reached.
        """
        return self._cut(length, lambda part, slots: part.crop(slots))

    def rewound(self, length: int) -> Self:
        """As `crop`, and the longer state is given up: what it holds may be written over by what is read next.

        Raises:
            ValueError: as `crop`.
        """
        return self._cut(
            length, lambda part, slots: part.rewound(slots) if hasattr(part, "rewound") else part.crop(slots)
        )

    def _cut(self, length: int, cut: Callable[[Any, int], Any]) -> Self:
        """As it was after `length` tokens, `cut` shortening what it is given to so many slots: `crop` or `rewound`."""
        if length == self.length:
            return self
        if not 0 <= length < self.length:
            raise ValueError(f"the state holds {self.length} tokens and cannot be cropped to {length}")
        forgotten = {part.name: None for part in fields(self) if part.metadata.get("last_step")}
        kept = replace(self, **forgotten)._apply("target", lambda part: _cropped(part, length, cut))
        shorter = replace(kept._apply("cache", lambda part: cut(part, length)), length=length)
        return shorter if self.lengths is None else replace(shorter, lengths=shorter._counted())

    def _counted(self) -> Tensor | None:
        """How many tokens each source's hypotheses have consumed, counted in the cache."""
        caches = (part for each in fields(self) if isinstance(part := getattr(self, each.name), KVCache))
        return next((cache.lengths(len(self.source_valid)) for cache in caches), None)

    def advanced(self, **changes: Any) -> Self:
        """The state one token later, with the fields in `changes` replaced. Called once per step, by the model."""
        lengths = None if self.lengths is None else self.lengths + 1
        return replace(self, **({"length": self.length + 1, "lengths": lengths} | changes))

    def _moved(self, rows: Tensor, sources: Tensor | None, width: int) -> Self:
        moved = self._apply("target", lambda part: _pick(part, rows))
        moved = moved._apply("cache", lambda part: part.reorder(rows, sources))
        moved = moved if sources is None else moved._apply("source", lambda part: _pick(part, sources))
        return replace(moved, width=width)

    def _apply(self, side: str, change: Callable[[Any], Any]) -> Self:
        changes = {
            part.name: _changed(getattr(self, part.name), change)
            for part in fields(self)
            if part.metadata.get("side") == side
        }
        return replace(self, **changes)


def _pick(part: Any, rows: Tensor) -> Any:
    return part.index_select(0, rows) if isinstance(part, Tensor) else part.select(rows)


def _cropped(part: Any, length: int, cut: Callable[[Any, int], Any]) -> Any:
    if isinstance(part, KeysValues | KVCache):
        return cut(part, length)
    raise ValueError(
        "a recurrent state does not remember earlier steps and cannot be cropped; decode again from the start"
    )


class DecoderConfig(Protocol):
    """What search needs to know of a model's vocabulary."""

    @property
    def target_vocabulary(self) -> int:
        """V, the number of target tokens."""
        ...

    @property
    def padding_id(self) -> int:
        """The id that fills padding; never emitted."""
        ...

    @property
    def start_id(self) -> int:
        """The id decoding starts from; never emitted."""
        ...

    @property
    def end_id(self) -> int:
        """The id that ends a sequence."""
        ...


S = TypeVar("S", bound=DecoderState)


class Decoder(Protocol[S]):
    """What search asks of a model that generates tokens given a source."""

    @property
    def config(self) -> DecoderConfig:
        """The ids that matter."""
        ...

    @property
    def has_alignment(self) -> bool:
        """Whether `alignment` says anything: false for a model without attention, whose alignment is zero throughout."""
        ...

    @property
    def maximum_source_length(self) -> int | None:
        """The most tokens a source can have, end token included; None where there is no limit."""
        ...

    @property
    def maximum_target_length(self) -> int | None:
        """The most tokens a target can have, end token included; None where there is no limit."""
        ...

    @property
    def length_setting(self) -> str:
        """What raises these limits in a recipe, for messages, such as `model.maximum_positions`; empty without a limit."""
        ...

    def start(self, source: Any) -> S:
        """Read the source, `Tokens` or whatever else the model is about: B of them to a state of B rows."""
        ...

    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:
        """Consume one token per row, (N,) int64; return the logits of the next, (N, V), and the new state."""
        ...

    def alignment(self, state: S) -> Tensor:
        """(N, S) float32: the last step's attention weights over the source; zeros before the first, and without attention."""
        ...
