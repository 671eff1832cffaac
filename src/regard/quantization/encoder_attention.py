"""Attention of a packed encoder, whose texts follow each other in one row of tokens: by a kernel, or padded by PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels import Kernels
from regard.kernels.building import has_matrix_tiles

ALIKE = 16
"""Texts of 1 to 16 tokens are padded to one length, those of 17 to 32 to another, and so on."""

SHORT = 512
"""Up to so many tokens of the longest text the kernel is used, which is faster in bfloat16 and as fast in float32."""

SHORT_BESIDE_TILES = 64
"""The same in bfloat16 where PyTorch multiplies longer texts by matrix tiles (AMX), which the kernel does not use."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Part:
    """Texts of similar length, adjacent in the row of all tokens, that are padded together.

    Arguments:
        start, end: of their tokens in the row.
        count: B.
        places: (B x L,) int64, for each padded position the index of its token within the part; None where nothing is padded.
        kept: for each of their tokens its padded position; None likewise.
        valid: (B, L) bool, True = a real token; None likewise.
        mask: (B, 1, 1, L), added to the scores: 0 or -inf; None likewise.
    """

    start: int
    end: int
    count: int
    places: Tensor | None = None
    kept: Tensor | None = None
    valid: Tensor | None = None
    mask: Tensor | None = None

    def padded(self, rows: Tensor) -> Tensor:
        """(T, D) to (B, L, D)."""
        own = rows[self.start : self.end]
        if self.places is not None:
            own = own.index_select(0, self.places)
        return own.view(self.count, -1, rows.shape[1])

    def put(self, found: Tensor, rows: Tensor) -> None:
        """Write (B, L, D) into (T, D)."""
        own, found = rows[self.start : self.end], found.flatten(0, 1)
        if self.kept is None:
            own.copy_(found)
        else:
            torch.index_select(found, 0, self.kept, out=own)


def _parts(lengths: Sequence[int], like: Tensor) -> list[Part]:
    """Texts grouped by length; `lengths` are in ascending order. Masks have the dtype and device of `like`.

    >>> [(part.start, part.end, part.count) for part in _parts([2, 2, 5, 17], torch.zeros(0))]
    [(0, 9, 3), (9, 26, 1)]
    """
    parts, start = [], 0
    for _, equal in groupby(lengths, lambda length: (length - 1) // ALIKE):
        own = torch.tensor(list(equal))
        end, longest = start + int(own.sum()), int(own[-1])
        if own[0] == longest:
            parts.append(Part(start=start, end=end, count=len(own)))
        else:
            valid = torch.arange(longest) < own[:, None]
            places = valid.flatten().cumsum(0) - 1
            mask = torch.zeros(valid.shape, dtype=like.dtype).masked_fill(~valid, float("-inf"))[:, None, None]
            moved = (each.to(like.device) for each in (places, valid.flatten().nonzero()[:, 0], valid, mask))
            names = ("places", "kept", "valid", "mask")
            parts.append(Part(start=start, end=end, count=len(own), **dict(zip(names, moved, strict=True))))
        start = end
    return parts


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Texts:
    """Where the texts of a batch are in the row of all their tokens.

    Arguments:
        ends: (B,) int32, where each text ends, on the CPU.
        longest: the tokens of the longest.
        spans: (T, 2) int32, for each token where its text begins and ends, on the CPU.
        parts: the texts again, in groups of similar length.
    """

    ends: Tensor
    longest: int
    spans: Tensor
    parts: list[Part]

    @classmethod
    def of(cls, lengths: Sequence[int], like: Tensor) -> Texts:
        """Of texts in ascending order of their lengths; masks have the dtype and device of `like`."""
        own = torch.tensor(lengths)
        ends = own.cumsum(0)
        spans = torch.stack([ends - own, ends], dim=1).repeat_interleave(own, dim=0).int()
        return cls(ends=ends.int(), longest=lengths[-1], spans=spans, parts=_parts(lengths, like))


def attention(projected: Tensor, texts: Texts, heads: int, scale: float, compiled: Kernels) -> Tensor:
    """What each token gathers from its own text, softmax(scale Q K^T) V for each head.

    By the kernel on a CPU, with scores and sums in float32; for texts beyond `SHORT`, and where there is no kernel, by PyTorch.

    Arguments:
        projected: (T, 3 inner), queries, keys and values, contiguous; in float32, or bfloat16.
        texts: their tokens are the first rows; those after them are zeros in the result.
        heads: H.
        scale: of the scores.
        compiled: the kernels.

    Returns:
        (T, inner), of the same dtype.
    """
    gathered = projected.new_empty(projected.shape[0], projected.shape[1] // 3)
    tiles = projected.dtype == torch.bfloat16 and has_matrix_tiles()
    if compiled.library is None or texts.longest > (SHORT_BESIDE_TILES if tiles else SHORT):
        _padded(projected, texts.parts, heads, scale, gathered)
    else:
        width, threads, bits = gathered.shape[1] // heads, torch.get_num_threads(), projected.element_size() * 8
        room = compiled.library.regard_texts_scratch(texts.longest, width)
        scratch = torch.empty(threads * room)
        compiled.library.regard_texts(
            *(projected.data_ptr(), texts.ends.data_ptr(), len(texts.ends), heads, width, bits, scale),
            *(threads, scratch.data_ptr(), room, gathered.data_ptr()),
        )
    gathered[texts.parts[-1].end :] = 0
    return gathered


def _padded(projected: Tensor, parts: Sequence[Part], heads: int, scale: float, gathered: Tensor) -> None:
    for part in parts:
        given = part.padded(projected).unflatten(-1, (3, heads, -1))
        query, key, value = given.permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(query, key, value, attn_mask=part.mask, scale=scale)
        part.put(found.transpose(1, 2).flatten(2), gathered)
