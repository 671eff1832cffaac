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

from torch import Tensor

from regard.attention import KeysValues
from regard.layers.tokens import Tokens

SOURCE: Mapping[str, Any] = MappingProxyType({"side": "source"})
"""Marks a state's field as belonging to the source: the same for every hypothesis about one sentence."""
TARGET: Mapping[str, Any] = MappingProxyType({"side": "target"})
"""Marks a state's field as belonging to what was decoded so far."""
LAST_STEP: Mapping[str, Any] = MappingProxyType({"side": "target", "last_step": True})
"""Marks a target field that only speaks of the last step, so cropping forgets it."""

T = TypeVar("T")


def _moved(value: T, move: Callable[[Any], Any]) -> T:
    """`value` with every tensor inside passed through `move`; a state is made of tensors, tuples and `KeysValues`."""
    if value is None:
        return value
    if isinstance(value, tuple):
        return tuple(_moved(part, move) for part in value)  # type: ignore[return-value]
    return move(value)


@dataclass(frozen=True, kw_only=True, eq=False)
class DecoderState:
    """All that decoding carries from one step to the next, N rows of it.

    A model's own state adds its fields, each marked `SOURCE` or `TARGET`. Every tensor has the N rows on its first axis.

    Arguments:
        length: tokens consumed so far, the same for every row. A stored number, never inferred from contents.
        source_valid: (N, S) bool, True = a real source token.
    """

    length: int = 0
    source_valid: Tensor = field(metadata=SOURCE)

    @property
    def rows(self) -> int:
        """N, the number of hypotheses."""
        return self.source_valid.shape[0]

    def select(self, rows: Tensor) -> Self:
        """The state of these rows: rows may leave, repeat or change places.

        Arguments:
            rows: (M,) int64, the row each new row continues.
        """
        return self._apply(("source", "target"), lambda part: _pick(part, rows))

    def reorder(self, rows: Tensor) -> Self:
        """Each row continues the past of row `rows[i]`, which must be about the same source.

        What belongs to the source stays where it is, so a beam search that shuffles hypotheses of one sentence does not
        copy the sentence.

        Arguments:
            rows: (N,) int64.
        """
        return self._apply(("target",), lambda part: _pick(part, rows))

    def crop(self, length: int) -> Self:
        """The state as it was after `length` tokens.

        Raises:
            ValueError: for a recurrent state, which does not remember, or a length it has not reached.
        """
        if length == self.length:
            return self
        if not 0 <= length < self.length:
            raise ValueError(f"the state holds {self.length} tokens and cannot be cropped to {length}")
        forgotten = {part.name: None for part in fields(self) if part.metadata.get("last_step")}
        kept = replace(self, **forgotten)
        return replace(kept._apply(("target",), lambda part: _cropped(part, length)), length=length)

    def advanced(self, **changes: Any) -> Self:
        """The state one token later, with the fields in `changes` replaced. Called once per step, by the model."""
        return replace(self, length=self.length + 1, **changes)

    def _apply(self, sides: tuple[str, ...], move: Callable[[Any], Any]) -> Self:
        changes = {
            part.name: _moved(getattr(self, part.name), move)
            for part in fields(self)
            if part.metadata.get("side") in sides
        }
        return replace(self, **changes)


def _pick(part: Any, rows: Tensor) -> Any:
    return part.select(rows) if isinstance(part, KeysValues) else part.index_select(0, rows)


def _cropped(part: Any, length: int) -> Any:
    if isinstance(part, KeysValues):
        return part.crop(length)
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
    def maximum_target_length(self) -> int | None:
        """The most tokens a target can have, end token included; None where there is no limit."""
        ...

    def start(self, source: Tokens) -> S:
        """Read the source: B sentences to a state of B rows."""
        ...

    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:
        """Consume one token per row, (N,) int64; return the logits of the next, (N, V), and the new state."""
        ...

    def alignment(self, state: S) -> Tensor:
        """(N, S) float32: the last step's attention weights over the source; zeros before the first step."""
        ...
