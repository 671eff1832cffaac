"""A score as a function of what embeddings give: read, replaced and differentiated by a hook on their outputs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError, nearest
from regard.inspection.foreign import is_compiled


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Embedded:
    """One call of an embedding.

    Arguments:
        address: the embedding's name in the module.
        module: the embedding.
        inputs: its first argument where that is a tensor, such as token ids (B, S).
        output: (B, S, D), detached.
    """

    address: str
    module: nn.Module
    inputs: Tensor | None
    output: Tensor


class EmbeddedScore:
    """A score as a function of embedded inputs.

    Arguments:
        module: what the embeddings are in.
        score: runs the module on so many copies of the input, one row each; gives (copies,) scores. A score of the user's own
            is one of its rows as they are, and is only asked for one copy.
        embeddings: modules by address.
        copies: whether the score can be had for several copies at once.
        wanted: which calls of the embeddings are inputs, told by their first argument; all where None.

    Raises:
        InputError: for a module in training mode, or a compiled one.
    """

    def __init__(
        self,
        module: nn.Module,
        score: Callable[[int], Tensor],
        embeddings: Mapping[str, nn.Module],
        *,
        copies: bool,
        wanted: Callable[[Any], bool] | None = None,
    ) -> None:
        self.copies = copies
        self._score = score
        self._embeddings = embeddings
        self._wanted = wanted
        self._thread = threading.get_ident()  # what other threads do with the same module is theirs
        self._calls: list[Embedded] = []
        self._points: Sequence[Tensor] | None = None
        if any(part.training for part in module.modules()):
            raise InputError(
                "the module is in training mode, where dropout changes the score each time; call eval() first"
            )
        if any(map(is_compiled, module.modules())):
            raise InputError("the module runs through torch.compile, where hooks are not called; build it without")

    @classmethod
    def of(cls, module: nn.Module, score: Callable[[], Tensor], addresses: Sequence[str] | None) -> EmbeddedScore:
        """A user's score of any module.

        Raises:
            InputError: where no embedding is found.
        """
        return cls(module, lambda copies: score(), find_embeddings(module, addresses), copies=False)

    def read(self) -> tuple[list[Embedded], Tensor]:
        """What the embeddings give, and the score, without gradients.

        Raises:
            InputError: where no embedding is called.
        """
        with torch.no_grad():
            found = self._evaluated(1)
        if not self._calls:
            raise InputError(f"the score does not call {' or '.join(self._embeddings)}; name other embeddings")
        return list(self._calls), found

    def at(self, points: Sequence[Tensor]) -> Tensor:
        """The score with these outputs in place of the embeddings' own, without gradients."""
        with torch.no_grad():
            return self._evaluated(1, points)

    def gradients(self, points: Sequence[Tensor], copies: int) -> tuple[Tensor, list[Tensor]]:
        """The score at these outputs, detached, and its gradient with respect to each.

        Raises:
            InputError: where the score has no gradient.
        """
        with torch.inference_mode(False), torch.enable_grad():
            leaves = [point.detach().clone().requires_grad_() for point in points]
            found = self._evaluated(copies, leaves)
            if not found.requires_grad:
                raise InputError(
                    "the score has no gradient; compute it from the module's output inside the function, without "
                    "torch.no_grad or detach"
                )
            slopes = torch.autograd.grad(found.sum(), leaves, allow_unused=True)
        unused = [
            torch.zeros_like(leaf) if slope is None else slope for leaf, slope in zip(leaves, slopes, strict=True)
        ]
        return found.detach(), unused

    def _evaluated(self, copies: int, points: Sequence[Tensor] | None = None) -> Tensor:
        self._calls, self._points = [], points
        with self._hooks():
            found = self._score(copies)
        if not isinstance(found, Tensor) or found.dim() > 1 or not found.is_floating_point():
            shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(f"the score is {shape}; give one number for each row, (batch,), or a scalar")
        if points is not None and len(self._calls) != len(points):
            raise InputError("the score called the embeddings another number of times than before; it must not vary")
        return found if torch.is_grad_enabled() else found.detach()

    @contextlib.contextmanager
    def _hooks(self) -> Iterator[None]:
        # One module may have several addresses; its hook stands once.
        unique = {id(module): (address, module) for address, module in reversed(list(self._embeddings.items()))}
        handles = [
            module.register_forward_hook(partial(self._called, address), with_kwargs=True)
            for address, module in unique.values()
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _called(
        self, address: str, module: nn.Module, arguments: tuple[Any, ...], named: Mapping[str, Any], output: Any
    ) -> Tensor | None:
        if threading.get_ident() != self._thread:
            return None
        first = next((value for value in (*arguments, *named.values()) if isinstance(value, Tensor)), None)
        if self._wanted is not None and not self._wanted(first):
            return None
        if not isinstance(output, Tensor) or output.dim() < 2 or not output.is_floating_point():
            raise InputError(f"{address} does not give a tensor (batch, places, width), so it is no embedding")
        number = len(self._calls)
        self._calls.append(Embedded(address=address, module=module, inputs=first, output=output.detach()))
        if self._points is None or number >= len(self._points):
            return None
        return self._points[number]


def find_embeddings(module: nn.Module, addresses: Sequence[str] | None) -> dict[str, nn.Module]:
    """The modules at these addresses; where None, the one `nn.Embedding` there is, or what the module says is its own.

    Raises:
        InputError: for an address that is not there, and where there is none or a choice.
    """
    if addresses is not None:
        known = dict(module.named_modules(remove_duplicate=False))
        for address in addresses:
            if address not in known:
                raise InputError(f"no module is called {address!r}; {nearest(address, list(known))}")
        return {address: known[address] for address in addresses}
    found = None
    with contextlib.suppress(NotImplementedError):  # how transformers' models say which, and that they have none
        found = getattr(module, "get_input_embeddings", lambda: None)()
    if isinstance(found, nn.Module):
        return {next((name for name, part in module.named_modules() if part is found), "embedding"): found}
    # The first name of each; a table that is shared has several.
    tables: dict[str, nn.Module] = {n: part for n, part in module.named_modules() if isinstance(part, nn.Embedding)}
    if not tables:
        raise InputError("there is no nn.Embedding in this module; name the module whose output is to be attributed to")
    if len(tables) > 1:
        raise InputError(f"there are several embeddings in this module; choose from {', '.join(tables)}")
    return tables
