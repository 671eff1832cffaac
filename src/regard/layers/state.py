"""The decoding state, and the interfaces of models that generate: decoders and language models.

A decoder has `start(source) -> state`, `step(tokens, state) -> (logits, state)`, and `alignment(state)`, the last step's weights
over the source. Greedy search, sampling and beam search are written once for this interface, for recurrent networks and
Transformers. The state is an argument and a return value, so two searches with one model do not affect each other. A language
model (`CausalLM`) has no source; `LeftToRight` is the base class of those that map a state and tokens to vectors.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import KeysValues, KVCache
from regard.layers.embeddings import Reduction
from regard.layers.tokens import Tokens

SOURCE: Mapping[str, Any] = MappingProxyType({"side": "source"})
"""Marks a field of the state as part of the source: R rows, stored once for all hypotheses of a source."""
SOURCE_TOKENS: Mapping[str, Any] = MappingProxyType({"side": "source", "tokens": True})
"""Marks a source field that has an entry for each source token on the second axis."""
TARGET: Mapping[str, Any] = MappingProxyType({"side": "target"})
"""Marks a field of the state as part of the target so far: N rows, one for each hypothesis."""
LAST_STEP: Mapping[str, Any] = MappingProxyType({"side": "target", "last_step": True})
"""Marks a target field about the last step only; cropping removes it."""
CACHE: Mapping[str, Any] = MappingProxyType({"side": "cache"})
"""Marks a `KVCache` of the state: stored once for each source, with a table of the columns of each hypothesis."""

T = TypeVar("T")
D = TypeVar("D", bound="DecoderState")


def _changed(value: T, change: Callable[[Any], Any]) -> T:
    """`value` with `change` applied to every part; a state consists of tensors, tuples, `KeysValues` and `KVCache`."""
    if value is None:
        return value
    if isinstance(value, tuple):
        return tuple(_changed(part, change) for part in value)  # type: ignore[return-value]
    return change(value)


@dataclass(frozen=True, kw_only=True, eq=False)
class DecoderState:
    """The state of decoding between two steps: N hypotheses for R sources.

    The state of a model adds fields, each marked `SOURCE` (tensors with R rows on the first axis), `TARGET` (N rows) or
    `CACHE`. The `width` hypotheses of a source are next to each other, so N = R * width. A model whose step reads the source
    uses `by_source` or `for_each_row` to combine the two: hypotheses of one sentence are queries over the same keys.

    Arguments:
        length: the number of slots so far, the same for every row; each step adds one, for a token or padding. It is stored,
            not inferred from contents.
        width: the number of hypotheses per source; 1 at the start.
        source_valid: (R, S) bool, True = a real source token.
        lengths: (R,) int64, the number of tokens that the hypotheses of each source have consumed; None = `length` for all.
    """

    length: int = 0
    width: int = 1
    source_valid: Tensor = field(metadata=SOURCE_TOKENS)
    lengths: Tensor | None = field(default=None, metadata=SOURCE)

    @property
    def rows(self) -> int:
        """N, the number of hypotheses."""
        return self.source_valid.shape[0] * self.width

    @property
    def longest(self) -> int:
        """The largest number of tokens that a row has consumed."""
        return self.length if self.lengths is None else int(self.lengths.max())

    def places(self, back: int = 0) -> Tensor:
        """(R, width) int64, the position of the next token of each hypothesis, minus `back`."""
        sources = len(self.source_valid)
        if self.lengths is None:
            return self.source_valid.new_full((sources, self.width), self.length - back, dtype=torch.long)
        return (self.lengths - back)[:, None].expand(-1, self.width)

    def by_source(self, x: Tensor) -> Tensor:
        """(N, ...) to (R, width, ...): the hypotheses of each source; `flatten(0, 1)` is the inverse."""
        return x.unflatten(0, (-1, self.width))

    def for_each_row(self, x: Tensor) -> Tensor:
        """(R, ...) to (N, ...): source values, repeated for every hypothesis of the source."""
        return x if self.width == 1 else x.repeat_interleave(self.width, dim=0)

    def no_alignment(self) -> Tensor:
        """(N, S) float32 zeros: the alignment without attention."""
        return self.for_each_row(torch.zeros_like(self.source_valid, dtype=torch.float32))

    def select(self, rows: Tensor) -> Self:
        """The state of these rows, each with its own copy of the source. Rows may be dropped, repeated or reordered.

        Arguments:
            rows: (M,) int64, the old row that each new row continues.
        """
        sources = rows if self.width == 1 else rows // self.width
        return self._moved(rows, sources, 1)

    def apart(self) -> Self:
        """The state with a copy of the source for every row."""
        if self.width == 1:
            return self
        return self.select(torch.arange(self.rows, device=self.source_valid.device))

    def reserved(self, columns: int) -> Self:
        """The same state with memory for this many more columns of keys and values, if it has a cache."""
        return self._apply("cache", lambda part: part.reserved(columns))

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> Self:
        """New row i continues the past of row `rows[i]`, which must be a hypothesis of the same source.

        Source fields are not copied, so a beam search that branches or reorders hypotheses of a sentence does not copy the
        sentence.

        Arguments:
            rows: (M,) int64, in groups of equal size, one group per source.
            sources: (Q,) int64, the sources to keep, in order; None = all.

        Raises:
            ValueError: if the number of rows is not a multiple of the number of sources.
        """
        count = len(self.source_valid if sources is None else sources)
        if not count or len(rows) % count:
            raise ValueError(f"{len(rows)} rows cannot be divided equally among {count} sources; give a multiple")
        return self._moved(rows, sources, len(rows) // count)

    def crop(self, length: int) -> Self:
        """The state as it was after `length` tokens.

        Raises:
            ValueError: for a recurrent state, which does not store earlier states, or a length that it has not reached.
        """
        return self._cut(length, lambda part, slots: part.crop(slots))

    def rewound(self, length: int) -> Self:
        """As `crop`, but the memory of the longer state is reused, and overwritten by the next tokens.

        Raises:
            ValueError: as `crop`.
        """
        return self._cut(
            length, lambda part, slots: part.rewound(slots) if hasattr(part, "rewound") else part.crop(slots)
        )

    def _cut(self, length: int, cut: Callable[[Any, int], Any]) -> Self:
        """The state after `length` tokens; `cut` shortens caches to a number of slots: `crop` or `rewound`."""
        if length == self.length:
            return self
        if not 0 <= length < self.length:
            raise ValueError(f"the state holds {self.length} tokens and cannot be cropped to {length}")
        forgotten = {part.name: None for part in fields(self) if part.metadata.get("last_step")}
        kept = replace(self, **forgotten)._apply("target", lambda part: _cropped(part, length, cut))
        shorter = replace(kept._apply("cache", lambda part: cut(part, length)), length=length)
        return shorter if self.lengths is None else replace(shorter, lengths=shorter._counted())

    def _counted(self) -> Tensor | None:
        """The number of tokens that the hypotheses of each source have consumed, counted in the cache."""
        caches = (part for each in fields(self) if isinstance(part := getattr(self, each.name), KVCache))
        return next((cache.lengths(len(self.source_valid)) for cache in caches), None)

    def read(self, tokens: Tokens, **changes: Any) -> Self:
        """The state after tokens (N, L), without counting padding, with the fields in `changes` replaced."""
        lengths, count = self.lengths, tokens.ids.shape[1]
        if tokens.padding_side != "nowhere" or lengths is not None:
            here = tokens.valid.sum(dim=1)[:: self.width]
            lengths = here + (self.length if lengths is None else lengths)
        return replace(self, **({"length": self.length + count, "lengths": lengths} | changes))

    def advanced(self, *, steps: int = 1, **changes: Any) -> Self:
        """The state one token later, or several, with the fields in `changes` replaced. Called once per step, by the model."""
        lengths = None if self.lengths is None else self.lengths + steps
        return self._with(**({"length": self.length + steps, "lengths": lengths} | changes))

    @classmethod
    def _joined(cls, states: Sequence[Any]) -> Self:
        """As `join`, for states with a copy of the source for every row."""
        first = states[0]
        counts = [len(state.source_valid) for state in states]
        made: dict[str, Any] = {"length": max(state.length for state in states), "width": 1}
        longest = max(state.source_valid.shape[1] for state in states)
        for part in fields(cls):
            side, values = part.metadata.get("side"), [getattr(state, part.name) for state in states]
            if part.name == "lengths" or side is None:
                continue
            if part.metadata.get("last_step") and any(value is None for value in values):
                made[part.name] = None
            elif part.metadata.get("tokens"):
                made[part.name] = _of_tokens(values, [state.source_valid for state in states], longest)
            else:
                made[part.name] = _together(part.name, values, counts, longest if side == "source" else None)
        lengths = torch.cat([state.places()[:, 0] for state in states])
        caches = [made[name] for name in made if isinstance(made[name], KVCache)]
        if caches:
            made["length"] = len(caches[0].widths)
        made["lengths"] = lengths if bool((lengths != made["length"]).any()) else None
        return replace(first, **made)

    def _moved(self, rows: Tensor, sources: Tensor | None, width: int) -> Self:
        stays = _in_place(rows, self.rows)
        if stays and sources is None and width == self.width:
            return self
        moved = self if stays else self._apply("target", lambda part: _pick(part, rows))
        moved = moved._apply("cache", lambda part: part.reorder(rows, sources))
        moved = moved if sources is None else moved._apply("source", lambda part: _pick(part, sources))
        return moved._with(width=width)

    def _apply(self, side: str, change: Callable[[Any], Any]) -> Self:
        changes = {
            part.name: _changed(getattr(self, part.name), change)
            for part in fields(self)
            if part.metadata.get("side") == side
        }
        return self._with(**changes)

    def _with(self, **changes: Any) -> Self:
        """As `replace`, which asks for every field: a step of a small model would take noticeably longer."""
        changed = object.__new__(type(self))
        changed.__dict__.update(self.__dict__, **changes)
        return changed


def _in_place(rows: Tensor, count: int) -> bool:
    """Whether every row continues itself, so that nothing has to be copied; False on a GPU, where the test would synchronise."""
    return rows.device.type == "cpu" and len(rows) == count and torch.equal(rows, torch.arange(count))


def _pick(part: Any, rows: Tensor) -> Any:
    return part.index_select(0, rows) if isinstance(part, Tensor) else part.select(rows)


def _cropped(part: Any, length: int, cut: Callable[[Any, int], Any]) -> Any:
    if isinstance(part, KeysValues | KVCache):
        return cut(part, length)
    raise ValueError(
        "a recurrent state does not store earlier steps and cannot be cropped; decode again from the start"
    )


@torch.no_grad()
def join(states: Sequence[D]) -> D:
    """One state with the rows of several states, which can have different lengths; each row continues as it would alone.

    There is no gradient through it. Rows join a batch with `join`, and leave it with `DecoderState.select`. Each hypothesis gets
    its own copy of the source.

    Arguments:
        states: of one model.

    Raises:
        ValueError: if only some of the states have read their prompts completely, or a cache has no table of columns.
    """
    return type(states[0])._joined([state.apart() for state in states])


def _together(name: str, values: Sequence[Any], counts: Sequence[int], source: int | None) -> Any:
    """A field of several states, joined along the rows.

    Arguments:
        counts: the number of rows of each state.
        source: S of the longest source, for source fields; None for other fields.
    """
    like = next((value for value in values if value is not None), None)
    if like is None:
        return None
    if any(value is None for value in values):
        raise ValueError(f"one of the states has no {name} yet; let it take a step before it is joined to others")
    if isinstance(like, tuple):
        return tuple(_together(name, parts, counts, source) for parts in zip(*values, strict=True))
    if isinstance(like, KVCache):
        return KVCache.joined(values, counts)
    if isinstance(like, KeysValues):
        columns = {value.key.shape[2] for value in values}
        if source is None and len(columns) > 1:
            raise ValueError(f"{name} has keys and values of different lengths; keep them in a KVCache")
        return side_by_side(values)
    return torch.cat(list(values))


def side_by_side(values: Sequence[KeysValues]) -> KeysValues:
    """Keys and values of several batches of sources, joined, with zeros after those of shorter sources."""
    columns = max(value.key.shape[2] for value in values)

    def of(parts: Sequence[Tensor]) -> Tensor:
        return torch.cat([F.pad(part, (0, 0, 0, columns - part.shape[2])) for part in parts])

    return KeysValues(of([value.key for value in values]), of([value.value for value in values]))


def _of_tokens(values: Sequence[Tensor | None], valid: Sequence[Tensor], columns: int) -> Tensor | None:
    """(R, S) of all rows, with zeros after shorter ones; None if all positions are the columns."""
    if all(value is None for value in values):
        return None
    explicit = [
        torch.arange(there.shape[1], device=there.device).expand(there.shape) if value is None else value
        for value, there in zip(values, valid, strict=True)
    ]
    return torch.cat([F.pad(part, (0, columns - part.shape[1])) for part in explicit])


class DecoderConfig(Protocol):
    """The special tokens of a model that a search needs."""

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
    """The interface of a model that generates tokens for a source, for all decoding methods."""

    @property
    def config(self) -> DecoderConfig:
        """The vocabulary size and the special tokens."""
        ...

    @property
    def has_alignment(self) -> bool:
        """Whether the model has attention; if not, `alignment` is always zero."""
        ...

    @property
    def maximum_source_length(self) -> int | None:
        """The longest source in tokens, with the end token; None = no limit."""
        ...

    @property
    def maximum_target_length(self) -> int | None:
        """The longest target in tokens, with the end token; None = no limit."""
        ...

    @property
    def length_setting(self) -> str:
        """The recipe setting that raises these limits, for messages, such as `model.maximum_positions`; empty without a limit."""
        ...

    def start(self, source: Any) -> S:
        """Read a batch of B sources, `Tokens` or `Images`; return a state of B rows."""
        ...

    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:
        """Consume one token per row, (N,) int64; return the logits of the next, (N, V), and the new state."""
        ...

    def alignment(self, state: S) -> Tensor:
        """The last step's attention weights over the source, (N, S) float32; zeros before a step, and without attention."""
        ...


class CausalLMConfig(Protocol):
    """The vocabulary size and special tokens of a language model."""

    @property
    def vocabulary(self) -> int:
        """V, the number of tokens."""
        ...

    @property
    def padding_id(self) -> int:
        """The id that fills padding."""
        ...

    @property
    def end_id(self) -> int:
        """The id that ends a text; it is also before the first token of a text."""
        ...


class CausalLM(Protocol[S]):
    """A language model: p(x_t | x_1 .. x_{t-1}) for every position t of a text.

    `forward` reads whole texts, `read` continues from a state and also returns the next state, `prefill` returns only the next
    state, and `step` reads one token. All compute the same function.
    """

    @property
    def config(self) -> CausalLMConfig:
        """The vocabulary size and the special tokens."""
        ...

    @property
    def maximum_length(self) -> int | None:
        """The longest text in tokens; None = no limit."""
        ...

    @property
    def length_setting(self) -> str:
        """The recipe setting that raises this limit, for messages; empty without a limit."""
        ...

    def __call__(self, tokens: Tokens, *, reduce: Reduction | None = None) -> Any:
        """Logits (B, L, V), at position t for the token after x_t; or the result of `reduce`, if it is given."""
        ...

    def start(self, rows: int) -> S:
        """The state before the first token of so many texts."""
        ...

    def hidden(self, tokens: Tokens, state: S) -> tuple[Tensor, S]:
        """`read` without the output layer: vectors (B, L, D), and the state after the last token."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """The output layer: vectors (..., D) to logits (..., V)."""
        ...

    def read(self, tokens: Tokens, state: S) -> tuple[Tensor, S]:
        """`forward` from a state: logits (B, L, V) and the state after the last token."""
        ...

    def prefill(self, tokens: Tokens, state: S) -> S:
        """The next state of `read`, without computing logits."""
        ...

    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:
        """Consume one token per row, (N,) int64; return the logits of the next, (N, V), and the new state."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class GreedySteps(Generic[S]):
    """Several steps of greedy search that a model made in one call.

    Arguments:
        tokens: (T, N) int64, those of each step.
        logits: (T, N, V) float32, from which each was chosen.
        state: after them; the last tokens are not read yet.
    """

    tokens: Tensor
    logits: Tensor
    state: S


class LeftToRight(nn.Module, Generic[S]):
    """A language model defined by `hidden`, which maps a state and tokens to vectors and the next state.

    h, state' = hidden(tokens, state),   p(x_{t+1} | x_1 .. x_t) = softmax(logits(h_t))
    """

    @abstractmethod
    def start(self, rows: int) -> S:
        """The state before the first token of so many texts."""

    @abstractmethod
    def hidden(self, tokens: Tokens, state: S) -> tuple[Tensor, S]:
        """Continue from a state: vectors (B, L, D) that predict the next tokens, and the state after these L tokens.

        Raises:
            InputError: if a text is longer than the model's positions.
        """

    @abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """The output layer: (..., D) to (..., V)."""

    @abstractmethod
    def output_map(self) -> tuple[Tensor, Tensor | None]:
        """The matrix (V, D) of the output layer, and its bias (V,) or None."""

    def forward(self, tokens: Tokens, *, reduce: Reduction | None = None) -> Any:
        """Logits of every next token, or the result of `reduce`.

        Arguments:
            tokens: (B, L), starting with the end token; padding can be on either side.
            reduce: called instead of the output layer, so that the logits need not be in memory.

        Returns:
            (B, L, V), at position t for token t + 1; or the result of `reduce`, if it is given.

        Raises:
            InputError: if a text is longer than the model's positions.
        """
        hidden, _ = self.hidden(tokens, self.start(len(tokens)))
        return self.logits(hidden) if reduce is None else reduce(hidden, *self.output_map())

    def read(self, tokens: Tokens, state: S) -> tuple[Tensor, S]:
        """Continue from a state: logits (B, L, V), and the state after these L tokens.

        Raises:
            InputError: as `forward`.
        """
        hidden, after = self.hidden(tokens, state)
        return self.logits(hidden), after

    def prefill(self, tokens: Tokens, state: S) -> S:
        """Continue from a state: the state after these L tokens, without logits.

        Raises:
            InputError: as `forward`.
        """
        return self.hidden(tokens, state)[1]

    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:
        """Consume tokens (N,); return the logits (N, V) of the next and the state after.

        Raises:
            InputError: as `forward`.
        """
        ids = tokens.unsqueeze(1)
        hidden, after = self.hidden(Tokens(ids, torch.ones_like(ids, dtype=torch.bool), "nowhere"), state)
        return self.logits(hidden[:, 0]), after

    def step_through(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:
        """Consume a few given tokens (N, L); return the logits (N, L, V) after each, as `step` gives them, and the state after.

        Raises:
            InputError: as `forward`.
        """
        return self.read(Tokens(tokens, torch.ones_like(tokens, dtype=torch.bool), "nowhere"), state)

    def undisturbed(self) -> Callable[[Tensor, S], tuple[Tensor, S]]:
        """`step`, for a caller between whose calls nothing changes the model; only hooks may be registered or removed.

        A model that examines itself at each step can do so once, when this is called.
        """
        return self.step

    def greedy_steps(
        self, tokens: Tensor, state: S, *, most: int, forbidden: Sequence[int], ends: Sequence[int]
    ) -> GreedySteps[S] | None:
        """Several steps of greedy search at once, where the model can make them faster than one by one; else None.

        The last step is the first in which a row chooses one of `ends`; and a step is not made in which a row has no token to
        choose, so that there may be no step at all.

        Arguments:
            tokens: (N,) int64, to consume first.
            state: before them.
            most: the largest number of steps.
            forbidden: tokens that are not chosen.
            ends: tokens after which the caller goes on by itself.
        """
        return None
