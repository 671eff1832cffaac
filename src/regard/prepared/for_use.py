"""What has weights of 8 or 4 bits is for use: it is not trained, saved or moved."""

from __future__ import annotations

from typing import Any, NoReturn, Self

from torch import nn

from regard.errors import InputError
from regard.prepared.native import kernels

FOR_USE = "its weights are rounded to {bits} bits, which is for use, not for training or saving; take the model it was made of"


class ForUse(nn.Module):
    """A model whose weights are rounded to whole numbers; it refuses what would need the numbers that they were rounded from."""

    bits: int
    """Of each weight."""

    slow: str
    """Why it is no faster than bfloat16, as a sentence; empty where it is."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.slow = self.slow or kernels().slowness(
            self.bits
        )  # in another process, which has kernels of its own, or none

    def state_dict(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: the numbers that the weights were rounded from are gone.

        Raises:
            InputError: always.
        """
        self._refuse()

    def train(self, mode: bool = True) -> Self:
        """Refused but for `train(False)`.

        Raises:
            InputError: where `mode` is true.
        """
        if mode:
            self._refuse()
        return super().train(False)

    def _apply(self, fn: Any, recurse: bool = True) -> NoReturn:
        raise InputError("a model with quantised weights stays as it is, on the processor it was made for")

    def _refuse(self) -> NoReturn:
        raise InputError(FOR_USE.format(bits=self.bits))
