"""Long short-term memory whose output is a projection of its cells (Sak et al. 2014), read from both ends."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.layers.dropout import Dropout
from regard.layers.order import in_order, put_back, reading_order


class ProjectedLSTMCell(nn.Module):
    """The weights of one direction; what they compute is in `TwoWayLSTM`.

    Arguments:
        width: P, of inputs and outputs.
        cells: n, of the memory.
    """

    def __init__(self, width: int, cells: int) -> None:
        super().__init__()
        self.cells = cells
        self.input = nn.Linear(width, 4 * cells)
        self.recurrent = nn.Linear(width, 4 * cells, bias=False)
        self.projection = nn.Linear(cells, width, bias=False)
        for part in (self.input, self.recurrent):
            nn.init.uniform_(part.weight, -(cells**-0.5), cells**-0.5)
        nn.init.zeros_(self.input.bias)
        nn.init.constant_(self.input.bias.data[cells : 2 * cells], 1.0)


class TwoWayLSTM(nn.Module):
    """Two nets that do not see each other's words, one from each end (Peters et al. 2018, section 3.1).

        i, f, g, o = parts of W x_t + U h_{t-1} + b          i, f and o through the logistic function, g through tanh
        c_t = clip(f * c_{t-1} + i * g)
        h_t = clip(P (o * tanh(c_t)))                        (Sak et al. 2014)
        output_t = h_t + x_t  where residual

    The first half of a word's vector is read by the forward net and written by it, the second half by the backward one. Both run
    side by side, as a batch of two. Each text begins from zeros, so the same text always gives the same vectors.

    Arguments:
        width: P, of each half.
        cells: n.
        residual: whether the input is added to the output; h itself, which goes on to the next word, is not residual.
        cell_clip, projection_clip: c and h are kept in [-clip, clip]; None = as they are.
        dropout: probability of dropping an entry of the input in training, also of what is added to the output, as in the
            authors' code.

    >>> layer = TwoWayLSTM(3, 5)
    >>> layer(torch.randn(2, 4, 6), torch.ones(2, 4, dtype=torch.bool)).shape
    torch.Size([2, 4, 6])
    """

    def __init__(
        self,
        width: int,
        cells: int,
        *,
        residual: bool = False,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.width = width
        self.residual = residual
        self.cell_clip, self.projection_clip = cell_clip, projection_clip
        self.forwards = ProjectedLSTMCell(width, cells)
        self.backwards = ProjectedLSTMCell(width, cells)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """Read a batch.

        Arguments:
            x: (B, S, 2P).
            valid: (B, S) bool, True = a word. Padding may stand on either side.

        Returns:
            (B, S, 2P), of no meaning at padding.
        """
        if not x.shape[0] or not x.shape[1]:
            return x
        x = self.dropout(x)
        ahead, behind = reading_order(valid), reading_order(valid, backwards=True)
        first, second = x.split(self.width, dim=-1)
        read = torch.stack((in_order(first, ahead), in_order(second, behind)))
        there, back = self._read(read).unbind(0)
        found = torch.cat((put_back(there, ahead), put_back(back, behind)), dim=-1)
        return found + x if self.residual else found

    def _read(self, x: Tensor) -> Tensor:
        """What both nets make of their own sequences, (2, B, S, P) to the same, from the first word to the last."""
        dtype = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
        nets = (self.forwards, self.backwards)
        into, again, out = (
            torch.stack([part.weight.t() for part in parts]).to(dtype)
            for parts in zip(*((net.input, net.recurrent, net.projection) for net in nets), strict=True)
        )
        bias = torch.stack([net.input.bias for net in nets]).unsqueeze(1).to(dtype)
        rows = x.shape[1]
        by_step = x.transpose(1, 2).flatten(1, 2).to(dtype)
        steps = torch.baddbmm(bias, by_step, into).unflatten(1, (-1, rows)).unbind(1)
        hidden = x.new_zeros(2, rows, self.width, dtype=dtype)
        memory = x.new_zeros(2, rows, self.forwards.cells, dtype=torch.promote_types(dtype, torch.float32))
        found = []
        for step in steps:
            keep_in, forget, new, give_out = torch.baddbmm(step, hidden, again).chunk(4, dim=-1)
            memory = torch.sigmoid(forget) * memory + torch.sigmoid(keep_in) * torch.tanh(new)
            memory = _clipped(memory, self.cell_clip)
            hidden = _clipped(
                torch.bmm((torch.sigmoid(give_out) * torch.tanh(memory)).to(dtype), out), self.projection_clip
            )
            found.append(hidden)
        return torch.stack(found, dim=2).to(x.dtype)


def _clipped(x: Tensor, limit: float | None) -> Tensor:
    return x if limit is None else x.clamp(-limit, limit)
