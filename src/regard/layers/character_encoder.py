"""A word's vector from its letters: convolutions, the maximum over places, highway layers (Kim et al. 2016)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from regard.layers.spelt_words import SYMBOLS

AT_ONCE = 1024
"""Words whose convolutions stand in memory together."""


class Highway(nn.Module):
    """A layer that may let its input pass (Srivastava et al. 2015).

        g = sigmoid(Wg x + bg),   y = g * f(W x + b) + (1 - g) * x

    Arguments:
        width: of x and y.
        activation: f.
    """

    def __init__(self, width: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.transform = nn.Linear(width, width)
        self.activation = activation
        for part in (self.gate, self.transform):
            nn.init.normal_(part.weight, std=width**-0.5)
        nn.init.constant_(self.gate.bias, -2.0)  # the input passes, mostly, before anything is learnt
        nn.init.zeros_(self.transform.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) to the same."""
        gate = torch.sigmoid(self.gate(x))
        return gate * self.activation(self.transform(x)) + (1 - gate) * x


class CharacterEncoder(nn.Module):
    """Letters to one vector of each word (Peters et al. 2018, section 3.1, after Kim et al. 2016).

        c_w = max over places t of f(K_w * [e_t .. e_{t+w-1}] + b_w)          for each width w of the filters
        x = P highway(... highway([c_1 ; c_2 ; ...])) + p

    Blanks take part in the convolutions, as in the authors' code, so a word's vector hangs on how long its row is.

    Arguments:
        width: of x.
        character_width: of e.
        filters: (w, how many) for each width; at least one place of a row has to fit it.
        highways: how many highway layers.
        activation: f.

    >>> CharacterEncoder(6, character_width=4, filters=((1, 3), (2, 5)), highways=1)(torch.zeros(2, 7, dtype=torch.int64)).shape
    torch.Size([2, 6])
    """

    def __init__(
        self,
        width: int,
        *,
        character_width: int,
        filters: Sequence[tuple[int, int]],
        highways: int,
        activation: Callable[[Tensor], Tensor] = torch.relu,
    ) -> None:
        super().__init__()
        total = sum(count for _, count in filters)
        self.characters = nn.Embedding(SYMBOLS, character_width)
        convolutions = [nn.Conv1d(character_width, count, size) for size, count in filters]
        self.convolutions = nn.ModuleList(convolutions)
        self.highways = nn.ModuleList(Highway(total, activation) for _ in range(highways))
        self.projection = nn.Linear(total, width)
        self.activation = activation
        nn.init.uniform_(self.characters.weight, -1.0, 1.0)
        for convolution in convolutions:
            nn.init.normal_(convolution.weight, std=math.sqrt(1 / convolution.weight[0].numel()))
            if convolution.bias is not None:
                nn.init.zeros_(convolution.bias)
        nn.init.normal_(self.projection.weight, std=total**-0.5)
        nn.init.zeros_(self.projection.bias)

    def forward(self, letters: Tensor) -> Tensor:
        """(U, C) int64 to (U, width)."""
        if len(letters) <= AT_ONCE:
            return self._vectors(letters)
        return torch.cat([self._vectors(part) for part in letters.split(AT_ONCE)])

    def _vectors(self, letters: Tensor) -> Tensor:
        embedded = self.characters(letters).transpose(1, 2)
        x = torch.cat([self.activation(each(embedded).amax(dim=-1)) for each in self.convolutions], dim=-1)
        for highway in self.highways:
            x = highway(x)
        return self.projection(x)
