"""The most probable tokens at each place of texts that were written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from regard.layers import Tokens
from regard.layers.output import check_finite
from regard.text import Tokenizer

STRETCH = 128
"""Tokens read at once; of a long text with a large vocabulary no more logits are held than these have."""

Place = tuple[tuple[str, float], ...]
"""Tokens and their log-probabilities, the most probable first."""


@torch.no_grad()
def most_probable(
    model: Any, tokenizer: Tokenizer, texts: Sequence[tuple[Sequence[int], Sequence[int]]], count: int
) -> list[tuple[Place, ...]]:
    """What a language model holds most probable at each place of a text, given all that stands before it.

    Arguments:
        model: a `Reader`.
        texts: for each the ids that were read before, one at least, and those that were written.
        count: tokens to tell of each place; all where the vocabulary is no larger.

    Returns:
        For each text as many places as were written.
    """
    device = next(model.parameters()).device
    read = Tokens.pad(
        [[*before, *written][:-1] if written else list(before) for before, written in texts],
        padding_id=tokenizer.padding_id,
        device=device,
    )
    values: list[torch.Tensor] = []
    ids: list[torch.Tensor] = []
    state = model.start(len(texts))
    for start in range(0, read.ids.shape[1], STRETCH):
        part = slice(start, start + STRETCH)
        logits, state = model.read(Tokens(read.ids[:, part], read.valid[:, part]), state)
        check_finite(logits, "these texts", where=read.valid[:, part])
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
        top = wide.topk(min(count, wide.shape[-1]), dim=-1)
        values.append(top.values)
        ids.append(top.indices)
    numbers, tokens = torch.cat(values, dim=1).tolist(), torch.cat(ids, dim=1).tolist()
    found = []
    for row, (before, written) in enumerate(texts):
        first = len(before) - 1  # the last token before tells of the first that was written
        places = range(first, first + len(written))
        found.append(tuple(tuple(zip(tokenizer.tokens(tokens[row][t]), numbers[row][t], strict=True)) for t in places))
    return found
