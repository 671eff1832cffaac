"""Greedy search by a compiled kernel: several tokens in one call, so that nothing is asked of Python between them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.attention import KeysValues
from regard.kernels.interface import EmbeddingStruct, Pointer
from regard.quantization.inference import InferenceEmbedding
from regard.quantization.stack import SharedRows, StackKernel

STEPS = 16
"""The most steps in one call of the kernel."""

READ = 8 << 30
"""The most bytes of weights that one call reads: some tenths of a second, for which an interruption waits."""

LOGITS = 4 << 20
"""The most logits that one call returns."""


def most_steps(kernel: StackKernel, rows: int) -> int:
    """How many steps of so many rows one call makes at most."""
    weights = sum(tensor.nbytes for tensor in kernel.untouched.kept)
    vocabulary = 1 if kernel.head is None else kernel.head.real
    return max(1, min(STEPS, READ // max(1, weights), LOGITS // max(1, rows * vocabulary)))


def greedy(
    kernel: StackKernel,
    tokens: Tensor,
    present: KeysValues,
    table: InferenceEmbedding,
    steps: int,
    *,
    forbidden: Sequence[int],
    ends: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """Tokens (T, N), each of the largest logit, and the logits (T, N, V) that each was chosen from.

    The last of at most `steps` is the first in which a row chooses one of `ends`. A step in which a row has no token to choose is
    left out, and all after it. The keys and values of T tokens are written into `present`.

    Arguments:
        kernel: of a decoder with an output layer.
        tokens: (N,) int64, tokens of the embedding, which are consumed first; each attends to all before it in its text.
        present: keys and values of earlier tokens, with `steps` columns for these.
        table: the embedding.
        forbidden: tokens that are not chosen.
        ends: tokens after which the search stops.
    """
    if kernel.head is None:
        raise RuntimeError("greedy search was asked of a kernel without an output layer")
    rows, columns = len(tokens), present.key.shape[2]
    places = torch.arange(columns - steps, columns)
    positions = places.repeat_interleave(rows)
    width = kernel.structs[0].width
    vectors = table.positions(places[None])[0].float().expand(steps, width).contiguous()
    values = table.tokens.weight
    embedding = EmbeddingStruct(values.data_ptr(), vectors.data_ptr(), table.scale, 8 * values.element_size())
    made = torch.empty(steps + 1, rows, dtype=torch.long)
    made[0] = tokens
    logits = torch.empty(steps, rows, kernel.head.real)
    never, last = (torch.tensor(tuple(ids), dtype=torch.long) for ids in (forbidden, ends))
    x = torch.empty(rows, width)
    threads = torch.get_num_threads()
    scratch = torch.empty(
        kernel.library.regard_blocks_scratch(kernel.structs, rows, columns, threads), dtype=torch.uint8
    )
    done = kernel.library.regard_greedy(
        *(kernel.structs, len(kernel.structs), embedding, made.data_ptr(), steps, rows, positions.data_ptr()),
        *(SharedRows(present.crop(columns - steps + 1)).struct(), (Pointer * len(kernel.structs))(), kernel.head),
        *(
            logits.data_ptr(),
            never.data_ptr(),
            len(never),
            last.data_ptr(),
            len(last),
            x.data_ptr(),
            threads,
            scratch.data_ptr(),
        ),
    )
    return made[1 : done + 1], logits[:done]
