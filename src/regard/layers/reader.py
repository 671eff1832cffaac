"""What a language model is asked: to read a text from the left, and to say at each place what comes next."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from torch import Tensor

from regard.layers.output import Reduction
from regard.layers.state import DecoderState
from regard.layers.tokens import Tokens

S = TypeVar("S", bound=DecoderState)


class ReaderConfig(Protocol):
    """What the task needs to know of a model's vocabulary."""

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
        """The id that ends a text, and stands before the first token of one."""
        ...


class Reader(Protocol[S]):
    """A language model: p(x_t | x_1 .. x_{t-1}) for every place t of a text.

    `forward` reads whole texts, `read` goes on from a state and hands the next one back, `prefill` hands back that alone, `step`
    reads one token; all are the same function.
    """

    @property
    def config(self) -> ReaderConfig:
        """The ids that matter."""
        ...

    @property
    def maximum_length(self) -> int | None:
        """The most tokens a text can have; None where there is no limit."""
        ...

    @property
    def length_setting(self) -> str:
        """What raises this limit in a recipe, for messages; empty without a limit."""
        ...

    def __call__(self, tokens: Tokens, *, reduce: Reduction | None = None) -> Any:
        """Logits (B, L, V): place t tells of the token after x_t; what `reduce` makes of them, where it is given."""
        ...

    def start(self, rows: int) -> S:
        """The state before the first token of so many texts."""
        ...

    def read(self, tokens: Tokens, state: S) -> tuple[Tensor, S]:
        """`forward` from a state on: logits (B, L, V) and the state after the last token."""
        ...

    def prefill(self, tokens: Tokens, state: S) -> S:
        """The state that `read` gives, where nobody asks what the model expected: no logits are computed."""
        ...

    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:
        """Consume one token per row, (N,) int64; return the logits of the next, (N, V), and the new state."""
        ...
