"""Positions of tokens in their sequences, and absolute and rotary position embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError


def positions_of(valid: Tensor) -> Tensor:
    """The position of each token, counted from 0 at the first real token, so that the side of padding does not matter.

    Arguments:
        valid: (B, S) bool, True = real token.

    Returns:
        (B, S) int64; padding before the first real token gets 0.

    >>> positions_of(torch.tensor([[False, True, True], [True, True, False]])).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    return (valid.long().cumsum(dim=1) - 1).clamp_min(0)


def positions_in_documents(documents: Tensor, valid: Tensor) -> Tensor:
    """The position of each token in its document, if a row holds several documents; counted from 0 at the first token of each.

    Arguments:
        documents: (B, S) integers, the document of each token.
        valid: (B, S) bool, True = real token.

    Returns:
        (B, S) int64.

    >>> positions_in_documents(torch.tensor([[0, 0, 1, 1, 1, 2]]), torch.ones(1, 6, dtype=torch.bool)).tolist()
    [[0, 1, 0, 1, 2, 0]]
    """
    places = positions_of(valid)
    begins = torch.ones_like(valid)
    begins[:, 1:] = (documents[:, 1:] != documents[:, :-1]) | (valid[:, 1:] & ~valid[:, :-1])
    return places - places.where(begins, 0).cummax(dim=1).values


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Sine and cosine of each position at geometrically spaced frequencies (Vaswani et al. 2017, section 3.5).

        PE[p, 2k] = sin(p / 10000^(2k/D)),   PE[p, 2k+1] = cos(p / 10000^(2k/D)),   k = 0 .. D/2 - 1

    k starts at 0, so the first pair has frequency 1. The code of tensor2tensor has all sines first and slightly different
    frequencies; this is the formula of the paper.

    Arguments:
        positions: integers or floats, any shape (...).
        width: D, even.

    Returns:
        (..., D) float32.

    Raises:
        ValueError: for an odd width.

    >>> sinusoids(torch.tensor([1]), 512)[0, :3].tolist()
    [0.8414709568023682, 0.5403022766113281, 0.8218562006950378]
    """
    if width % 2:
        raise ValueError(f"sinusoidal positions need an even width, not {width}: each frequency fills two channels")
    # In float64 first: at p = 10000 float32 angles would already be off by 1e-3.
    frequencies = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64, device=positions.device) / width)
    angles = positions.double().unsqueeze(-1) * frequencies
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).float()


class SinusoidalPositions(nn.Module):
    """Fixed sinusoidal positions from a table (Vaswani et al. 2017, section 3.5). The table is neither trained nor saved.

    Arguments:
        width: D, even.
        maximum: number of positions tabulated.
    """

    table: Tensor

    def __init__(self, width: int, maximum: int) -> None:
        super().__init__()
        self.width = width
        self.maximum = maximum
        self.register_buffer("table", torch.empty(maximum, width), persistent=False)
        if not self.table.is_meta:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Compute the table again, for a module that was created on the meta device."""
        self.table = sinusoids(torch.arange(self.maximum, device=self.table.device), self.width)

    def forward(self, positions: Tensor) -> Tensor:
        """(B, L) integers below `maximum` to (B, L, D)."""
        return F.embedding(positions, self.table)


class LearnedPositions(nn.Module):
    """One trained vector per position (Vaswani et al. 2017, table 3 row E; the choice of BERT and GPT).

    Arguments:
        width: D.
        maximum: number of positions.
        first: the row of position 0; rows before it are not used. RoBERTa's table begins after its padding id.
    """

    def __init__(self, width: int, maximum: int, *, first: int = 0) -> None:
        super().__init__()
        self.maximum = maximum
        self.first = first
        self.weight = nn.Parameter(torch.empty(first + maximum, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the vectors with the variance of the sinusoids that they replace, one half."""
        nn.init.normal_(self.weight, std=0.5**0.5)

    def forward(self, positions: Tensor) -> Tensor:
        """(B, L) integers below `maximum` to (B, L, D)."""
        return self.weight[positions + self.first if self.first else positions]


class NoPositions(nn.Module):
    """Zero at every position: without a causal mask, attention then does not depend on the order of the keys.

    Arguments:
        width: D.
        maximum: number of positions.
    """

    def __init__(self, width: int, maximum: int) -> None:
        super().__init__()
        self.width = width
        self.maximum = maximum

    def forward(self, positions: Tensor) -> Tensor:
        """(B, L) integers below `maximum` to integer zeros (B, L, 1), so that a sum has the dtype of the other term."""
        return torch.zeros_like(positions).unsqueeze(-1)


RotaryKind = Literal["linear", "dynamic", "llama3", "yarn"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RotaryScaling:
    """A change of the frequencies of rotary positions, so that a model can read longer texts than in training.

    With w_k the original frequencies, s the factor, P the number of positions in training and l_k = 2 pi / w_k a wavelength:

    - `linear` (Chen et al. 2023, equation 4): w_k / s.
    - `dynamic` (NTK-aware, by the length so far): the frequencies of the larger base
      base (s n / P - (s - 1))^(E / (E - 2)) at position n - 1, for n > P, and the original ones up to P. A token keeps its
      frequencies when the text grows, so reading a whole text gives the same result as reading it token by token.
    - `llama3` (the released code of Llama 3.1): w_k if l_k < P / high_frequency, w_k / s if l_k > P / low_frequency, and
      between them (1 - t) w_k / s + t w_k with t = (P / l_k - low_frequency) / (high_frequency - low_frequency).
    - `yarn` (Peng et al. 2023, equations 17 to 25): (1 - r_k) w_k + r_k w_k / s with a ramp r_k from 0 to 1 between the channels
      that turn `beta_fast` and `beta_slow` times within P; cosines and sines are multiplied with `attention_factor`.

    Arguments:
        kind: one of these four.
        factor: s, the factor by which texts are longer than in training, at least 1.
        trained_positions: P; all kinds except `linear` need it.
        low_frequency, high_frequency: for `llama3`.
        beta_fast, beta_slow: numbers of turns within P, for `yarn`.
        attention_factor: for `yarn`; None = 0.1 ln s + 1.
        truncated: for `yarn`: whether the ramp begins and ends at whole channels.

    Raises:
        InputError: for a setting that is not allowed; the message names it and its value.
    """

    kind: RotaryKind
    factor: float
    trained_positions: int | None = None
    low_frequency: float = 1.0
    high_frequency: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    truncated: bool = True

    def __post_init__(self) -> None:
        wrong = ""
        if self.kind not in get_args(RotaryKind):
            wrong = f"kind is {self.kind!r}; choose one of {', '.join(get_args(RotaryKind))}"
        elif not (math.isfinite(self.factor) and self.factor >= 1):
            wrong = f"factor is {self.factor}; it must be at least 1"
        elif self.kind != "linear" and (self.trained_positions is None or self.trained_positions < 1):
            wrong = (
                f"trained_positions is {self.trained_positions}; {self.kind} needs the number of positions trained on"
            )
        elif self.kind == "llama3" and not 0 < self.low_frequency < self.high_frequency:
            wrong = f"low_frequency is {self.low_frequency}; it must be above 0 and below high_frequency {self.high_frequency}"
        elif self.kind == "yarn" and not 0 < self.beta_slow <= self.beta_fast:
            wrong = f"beta_slow is {self.beta_slow}; it must be above 0 and at most beta_fast {self.beta_fast}"
        elif self.attention_factor is not None and not self.attention_factor > 0:
            wrong = f"attention_factor is {self.attention_factor}; it must be above 0"
        if wrong:
            raise InputError(f"rotary scaling: {wrong}")

    @property
    def magnitude(self) -> float:
        """The factor of cosines and sines."""
        if self.kind != "yarn":
            return 1.0
        return 0.1 * math.log(self.factor) + 1 if self.attention_factor is None else self.attention_factor

    def frequencies(self, published: Tensor, base: float, positions: Tensor) -> Tensor:
        """The frequencies at each position.

        Arguments:
            published: (E/2,) float64, w_k = base^(-2k / E).
            base: of the published frequencies.
            positions: (P,) float64.

        Returns:
            (E/2,) float64, or (P, E/2) if the frequencies depend on the position.
        """
        slower = published / self.factor
        if self.kind == "linear":
            return slower
        trained = float(self.trained_positions or 0)
        if self.kind == "dynamic":
            width = 2 * len(published)
            grown = (self.factor * (positions + 1).clamp_min(trained) / trained - (self.factor - 1)) ** (
                width / (width - 2) if width > 2 else 1.0
            )
            exponents = torch.arange(0, width, 2, dtype=torch.float64, device=published.device) / width
            return (base * grown).unsqueeze(-1) ** -exponents
        if self.kind == "llama3":
            turns = trained * published / (2 * math.pi)
            share = (turns - self.low_frequency) / (self.high_frequency - self.low_frequency)
            return torch.lerp(slower, published, share.clamp(0, 1))
        return torch.lerp(published, slower, self._ramp(len(published), base, trained).to(published.device))

    def _ramp(self, pairs: int, base: float, trained: float) -> Tensor:
        """(E/2,) float64: 0 for a channel that keeps its frequency, 1 for one whose frequency is divided by the factor."""

        def channel(turns: float) -> float:
            return 2 * pairs * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

        first, last = channel(self.beta_fast), channel(self.beta_slow)
        if self.truncated:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, 2 * pairs - 1)
        span = last - first or 0.001  # if both are the same channel, the ramp is a step
        return ((torch.arange(pairs, dtype=torch.float64) - first) / span).clamp(0, 1)


class Rotary(nn.Module):
    """Rotary positions: pairs of channels of a query or key are rotated by an angle p w_k at position p (Su et al. 2021, 3.2.2).

        (x_k, x_{k + E/2}) -> (x_k cos p w_k - x_{k + E/2} sin p w_k,  x_{k + E/2} cos p w_k + x_k sin p w_k)
        w_k = base^(-2k / E),   k = 0 .. E/2 - 1

    So the inner product of a query at i and a key at j depends on the position only through j - i, and the lengths of the vectors
    do not change. Channel k is paired with k + E/2, as in the code of GPT-NeoX and LLaMA; with `neighbours` channel 2k is paired
    with 2k + 1, as in the paper. The two differ by a permutation of channels. If queries and keys are wider than E, only the
    first E channels are rotated, as in GPT-NeoX. It has no trained or saved tensors; the layers of a model can share one.

    Arguments:
        width: E, the number of rotated channels, even.
        maximum: number of positions tabulated.
        base: of the geometrically spaced frequencies.
        neighbours: whether neighbouring channels are pairs.
        scaling: how the frequencies are changed for longer texts; None = not changed.

    Raises:
        ValueError: for an odd width.

    >>> rotary = Rotary(2, 8)
    >>> rotary(torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([[0]])).tolist()
    [[[[1.0, 0.0]]]]
    """

    cosines: Tensor
    sines: Tensor

    def __init__(
        self,
        width: int,
        maximum: int,
        *,
        base: float = 10000.0,
        neighbours: bool = False,
        scaling: RotaryScaling | None = None,
    ) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"rotary positions rotate pairs of channels; the width {width} is odd, give an even one")
        self.width = width
        self.maximum = maximum
        self.base = base
        self.neighbours = neighbours
        self.scaling = scaling
        self.register_buffer("cosines", torch.empty(maximum, width // 2), persistent=False)
        self.register_buffer("sines", torch.empty(maximum, width // 2), persistent=False)
        if not self.cosines.is_meta:
            self.reset_parameters()

    def angles(self, positions: Tensor) -> Tensor:
        """(P,) positions to the angles (P, E/2) in float64, p w_k."""
        device = positions.device
        # In float64 first: at a position of 10000 float32 angles would already be off by 1e-3.
        frequencies = self.base ** (-torch.arange(0, self.width, 2, dtype=torch.float64, device=device) / self.width)
        if self.scaling is not None:
            frequencies = self.scaling.frequencies(frequencies, self.base, positions.double())
        return positions.double().unsqueeze(-1) * frequencies

    def reset_parameters(self) -> None:
        """Compute the tables again, for a module that was created on the meta device."""
        angles = self.angles(torch.arange(self.maximum, device=self.cosines.device))
        magnitude = 1.0 if self.scaling is None else self.scaling.magnitude
        self.cosines = (angles.cos() * magnitude).to(self.cosines.dtype)
        self.sines = (angles.sin() * magnitude).to(self.sines.dtype)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """(B, H, L, E or more) at positions (B or 1, L) below `maximum` to the same shape and dtype."""
        if x.shape[-1] > self.width:
            turned, rest = x.split((self.width, x.shape[-1] - self.width), dim=-1)
            return torch.cat((self._turned(turned, positions), rest), dim=-1)
        return self._turned(x, positions)

    def _turned(self, x: Tensor, positions: Tensor) -> Tensor:
        cosine, sine = (table[positions].unsqueeze(1) for table in (self.cosines, self.sines))
        first, second = x.unflatten(-1, (-1, 2)).unbind(-1) if self.neighbours else x.chunk(2, dim=-1)
        turned = (first * cosine - second * sine, second * cosine + first * sine)
        found = torch.stack(turned, dim=-1).flatten(-2) if self.neighbours else torch.cat(turned, dim=-1)
        return found.to(x.dtype)

    def extra_repr(self) -> str:
        """Its sizes."""
        scaling = "" if self.scaling is None else f", scaling={self.scaling}"
        return f"width={self.width}, maximum={self.maximum}, base={self.base}, neighbours={self.neighbours}{scaling}"


def check_length(length: int, maximum: int, what: str, setting: str = "model.maximum_positions") -> None:
    """Refuse a sequence longer than the model has positions.

    Arguments:
        length, maximum: in tokens.
        what: the sequence, for the message.
        setting: the setting that must be larger, for the message.

    Raises:
        InputError: if it is too long; the message names both lengths and the setting.

    >>> check_length(5, 8, "source")
    """
    if length > maximum:
        raise InputError(
            f"the {what} has {length} tokens and the model has positions for {maximum}; shorten it, or train with a larger "
            f"{setting}"
        )


class AxialPositions(nn.Module):
    """Axial positions: vectors of the position's row and of its column, concatenated (released code of Kitaev et al. 2020).

        P[p] = [ R[floor(p / n2)] ; C[p mod n2] ]

    n1 n2 positions need n1 D1 + n2 D2 parameters.

    Arguments:
        shape: (n1, n2).
        widths: (D1, D2); D1 + D2 is the width of the model.

    >>> positions = AxialPositions((3, 4), (2, 6))
    >>> positions(torch.tensor([[0, 5, 11]])).shape, sum(part.numel() for part in positions.parameters())
    (torch.Size([1, 3, 8]), 30)
    """

    def __init__(self, shape: Sequence[int], widths: Sequence[int]) -> None:
        super().__init__()
        (self.rows, self.columns), (wide, other) = shape, widths
        self.maximum = math.prod(shape)
        self.row = nn.Parameter(torch.empty(self.rows, wide))
        self.column = nn.Parameter(torch.empty(self.columns, other))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sample from a standard normal distribution, as the released code does."""
        nn.init.normal_(self.row)
        nn.init.normal_(self.column)

    def forward(self, positions: Tensor) -> Tensor:
        """(B, L) integers below `maximum` to (B, L, D)."""
        return torch.cat((self.row[positions // self.columns], self.column[positions % self.columns]), dim=-1)
