"""What a walk is about: one call of a mechanism, one head and one query of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.attention import Attention, AttentionInputs
from regard.inspection.view import visible
from regard.inspection.walk.steps import Shown
from regard.inspection.words import shown_tokens


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Scene:
    """One call of a mechanism, and which query of it is followed.

    Arguments:
        mechanism: what was called.
        inputs: with what.
        value: (B, G, S, Ev), the values weighed.
        row, head, place: the batch row, the query head and the query that are followed.
        query_token: the token that asks, as it is shown.
        key_tokens: S tokens that are looked at.
    """

    mechanism: Attention
    inputs: AttentionInputs
    value: Tensor
    row: int
    head: int
    place: int
    query_token: str
    key_tokens: tuple[str, ...]

    @property
    def key_texts(self) -> tuple[str, ...]:
        """The keys as they are shown."""
        return shown_tokens(self.key_tokens)

    @property
    def exact(self) -> torch.dtype:
        """The precision of the equation: that of `weights`."""
        return self.inputs.exact

    @property
    def query(self) -> Tensor:
        """(B, H, L, E), as the equation takes it."""
        return self.inputs.query.to(self.exact)

    @property
    def key(self) -> Tensor:
        """(B, H, S, E), repeated where several query heads share one key head."""
        return self.inputs.key_per_query_head.to(self.exact)

    @property
    def values(self) -> Tensor:
        """(S, Ev), those of this head."""
        group = self.inputs.query.shape[1] // self.value.shape[1]
        return self.value[self.row, self.head // group].to(self.exact)

    @property
    def visible(self) -> Tensor:
        """(S,) bool, the keys that this query may attend to."""
        shape = self.inputs.shape
        visible = self.inputs.visible()
        if visible is None:
            return torch.ones(shape[3], dtype=torch.bool, device=self.inputs.query.device)
        return self.mine(visible.expand(shape))

    def mine(self, whole: Tensor) -> Tensor:
        """Of (B, H, L, ...) what belongs to this query: (...)."""
        return whole[self.row, self.head, self.place]

    def heads(self, whole: Tensor) -> Tensor:
        """Of (B, H, S, ...) what belongs to this head: (S, ...)."""
        return whole[self.row, self.head]

    def vector(
        self, name: str, values: Tensor, *, letter: str = "E", of: str = "", note: str = "", scale: float | None = None
    ) -> Shown:
        """A vector over features."""
        return Shown(name=name, letters=letter, values=array(values), of=of, note=note, scale=scale)

    def number(self, name: str, value: Tensor | float, *, note: str = "") -> Shown:
        """A single number."""
        tensor = value if isinstance(value, Tensor) else torch.tensor(value, dtype=self.exact)
        return Shown(name=name, letters="", values=array(tensor), note=note)

    def per_key(
        self, name: str, values: Tensor, *, letter: str = "E", of: str = "", note: str = "", scale: float | None = None
    ) -> Shown:
        """A number (S,) or a vector (S, ...) for each key."""
        letters = "S" if values.dim() == 1 else f"S, {letter}"
        return Shown(
            name=name, letters=letters, values=array(values), labels=self.key_tokens, of=of, note=note, scale=scale
        )


def array(tensor: Tensor) -> Any:
    """A tensor as a numpy array."""
    return tensor.detach().cpu().numpy()


def shape_of(name: str, letters: str, tensor: Tensor) -> str:
    """A tensor's name, letters and sizes: `query (B, H, L, E) = (1, 4, 9, 64)`."""
    return f"{name} ({letters}) = ({', '.join(map(str, tensor.shape))})"


def quoted(token: str) -> str:
    """A token in a sentence, without the mark of a space before it and with nothing that would act on what is around it.

    Arguments:
        token: as `regard.inspection.words.shown_tokens` gives it, or a word of the user's.

    >>> quoted("␣Hund"), quoted("␣")
    ('“Hund”', '“␣”')
    """
    text = visible(token)
    return f"“{text.removeprefix('␣') or text}”"


def defining_class(part: object, method: str) -> type:
    """The class whose `method` a part runs: its own, or the one it inherits it from."""
    return next(owner for owner in type(part).__mro__ if method in vars(owner))


def walked_as(steps: Any, part: object, method: str) -> Callable[..., Any]:
    """The steps registered for what a part computes, or the general ones.

    They describe a method, so they are looked for up to the class that defines it and no further: a subclass with a method of its
    own does not pass for its parent.

    Arguments:
        steps: a `functools.singledispatch` function.
        part: a mechanism, score or alignment.
        method: the method the steps describe.
    """
    last = defining_class(part, method)
    for owner in type(part).__mro__:
        if owner in steps.registry:
            return steps.registry[owner]
        if owner is last:
            break
    return steps.registry[object]
