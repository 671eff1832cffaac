"""Language models: what one is asked, and what all of them do that go from a state over tokens to vectors.

`CausalLM` is the interface: a text is read from the left, and each place says what comes next. `LeftToRight` is the base class.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from regard.layers.output import Reduction
from regard.layers.state import DecoderState
from regard.layers.tokens import Tokens

S = TypeVar("S", bound=DecoderState)


class CausalLMConfig(Protocol):
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


class CausalLM(Protocol[S]):
    """A language model: p(x_t | x_1 .. x_{t-1}) for every place t of a text.

    `forward` reads whole texts, `read` goes on from a state and hands the next one back, `prefill` hands back that alone, `step`
    reads one token; all are the same function.
    """

    @property
    def config(self) -> CausalLMConfig:
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


class LeftToRight(nn.Module, Generic[S]):
    """All that a language model does once it goes from a state over tokens to vectors and the state after.

    h, state' = hidden(tokens, state),   p(x_{t+1} | x_1 .. x_t) = softmax(logits(h_t))
    """

    @abstractmethod
    def start(self, rows: int) -> S:
        """The state before the first token of so many texts."""

    @abstractmethod
    def hidden(self, tokens: Tokens, state: S) -> tuple[Tensor, S]:
        """Go on reading from a state: vectors (B, L, D) from which the next tokens are told, and the state after, L longer.

        Raises:
            InputError: where a text is longer than the model has positions for.
        """

    @abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """(..., D) to (..., V), by the last map."""

    @abstractmethod
    def output_map(self) -> tuple[Tensor, Tensor | None]:
        """The last map, from D to V, (V, D), and its bias, (V); None for none."""

    def forward(self, tokens: Tokens, *, reduce: Reduction | None = None) -> Any:
        """Logits of every next token, or what becomes of them.

        Arguments:
            tokens: (B, L), the end token of the text before first; padding may stand on either side.
            reduce: applied in place of the last projection, so that the logits need not stand in memory.

        Returns:
            (B, L, V); place t tells of token t + 1. Where `reduce` is given, what it returns.

        Raises:
            InputError: where a text is longer than the model has positions for.
        """
        hidden, _ = self.hidden(tokens, self.start(len(tokens)))
        return self.logits(hidden) if reduce is None else reduce(hidden, *self.output_map())

    def read(self, tokens: Tokens, state: S) -> tuple[Tensor, S]:
        """Go on reading from a state: logits (B, L, V), and the state after, L tokens longer.

        Raises:
            InputError: as `forward`.
        """
        hidden, after = self.hidden(tokens, state)
        return self.logits(hidden), after

    def prefill(self, tokens: Tokens, state: S) -> S:
        """Go on reading from a state: the state after, L tokens longer, without logits.

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
