"""A language model reads a text and says what it looks at, between the steps of others.

A language model writes by steps that nobody looks at; afterwards it reads its text again, in the same chunks: the weights are
those of `regard.look` on the text. The studio asks what comes after a text, and what the text looks at: that is one reading, in
short chunks, of which those that the text before had too are not read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.attention import BatchInvariant
from regard.inspection import look
from regard.layers import Tokens
from regard.serving.attention import Attention, Map, Seen
from regard.serving.looking import Changes, check_size, heads_asked, layers_asked, places_asked

if TYPE_CHECKING:
    from regard.tasks.language_modelling import LanguageModel

TYPED = 16
"""Tokens of a chunk of a text that is being typed. More are read sooner at once; but a key at the end of a text reads the last
chunk alone, and a GPT-2 of the small size reads 16 tokens in a fifth of the time of 64."""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What came of a text that a language model read.

    Arguments:
        hidden: (D,), the vector from which the token after it is predicted.
        seen: the attention that was asked for; None where none was.
    """

    hidden: Tensor
    seen: Seen | None


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """A part of a text that was read.

    Arguments:
        ids: its tokens.
        state: the model's, after it.
        hidden: (D,), the vector from which the token after it is predicted.
        weights: of each layer that was asked for, float32 (heads, queries of this chunk, keys to its end).
    """

    ids: tuple[int, ...]
    state: Any
    hidden: Tensor
    weights: dict[str, np.ndarray]


@dataclass(slots=True)
class LastText:
    """The chunks of the text that was read last, whole rows of attention and all.

    A chunk that is the same after the same chunks gives the same bits: it is not read again. So what a text gives does not hang
    on what was read before it.
    """

    asked: Attention | None = None
    chunks: list[Chunk] = field(default_factory=list)

    def shared(self, asked: Attention | None, ids: Sequence[int], chunk: int) -> list[Chunk]:
        """The chunks that a text begins with, where the same attention is asked for."""
        if asked != self.asked:
            return []
        count = 0
        for known in self.chunks:
            if known.ids != tuple(ids[count * chunk : (count + 1) * chunk]):
                break
            count += 1
        return self.chunks[:count]


def check_written(predictor: LanguageModel, asked: Attention, prompt: int, most: int, texts: int) -> None:
    """Refuse more weights than an answer holds before anything is written.

    Arguments:
        predictor: the language model.
        asked: what is asked for.
        prompt: its tokens.
        most: tokens that may be written.
        texts: how many texts are written after it.

    Raises:
        InputError: saying how many.
    """
    addresses = layers_asked(predictor.model, asked)
    keys = prompt + max(most - 1, 0)
    rows = keys if asked.rows == "all" else keys - prompt + 1
    if isinstance(asked.rows, list):
        rows = len(asked.rows)
    heads = getattr(predictor.model.config, "heads", 1) if asked.heads is None else len(asked.heads)
    check_size(asked, texts * len(addresses) * heads * rows * keys)


def read_again(
    predictor: LanguageModel,
    asked: Attention | None,
    ids: Sequence[int],
    prompt: int,
    chunk: int,
    changes: Changes | None,
    last: LastText | None = None,
) -> Iterator[Reading | None]:
    """Read a text, a chunk of it at a time, and look: None after each chunk but the last.

    Row i is where the token after token i is chosen: token i asks, and looks at those up to itself.

    Arguments:
        predictor: the language model.
        asked: which weights; none where None.
        ids: the tokens that it reads: the prompt's, and all written but the last.
        prompt: how many of them are the prompt's.
        chunk: tokens read at once.
        changes: interventions, under which it reads.
        last: the text before, if its chunks may be used; this one is there afterwards. Only without interventions, and
            where all rows are asked for or none.
    """
    model, addresses = predictor.model, [] if asked is None else layers_asked(predictor.model, asked)
    count = len(ids)
    rows = [] if asked is None else _rows(asked, count, prompt)
    chunks = [] if last is None else last.shared(asked, ids, chunk)
    for first in range(len(chunks) * chunk, count, chunk):
        part = ids[first : first + chunk]
        queries = [row - first for row in rows if first <= row < first + len(part)]
        if changes is not None:
            changes.first = first
        chunks.append(
            _read(model, part, chunks[-1].state if chunks else model.start(1), asked, addresses, queries, changes)
        )
        if first + chunk < count:
            yield None
    if last is not None:
        last.asked, last.chunks = asked, chunks
    hidden = chunks[-1].hidden if chunks else torch.empty(0)
    yield Reading(hidden, None if asked is None else _seen(predictor, asked, ids, rows, chunk, chunks))


def _read(
    model: Any,
    part: Sequence[int],
    state: Any,
    asked: Attention | None,
    addresses: Sequence[str],
    queries: Sequence[int],
    changes: Changes | None,
) -> Chunk:
    """Read one chunk, and keep what these of its queries look at."""
    read = torch.tensor([list(part)])
    with (
        torch.no_grad(),
        BatchInvariant(),
        nullcontext() if changes is None else changes(),
        look(model, addresses) if addresses else nullcontext() as seen,
    ):
        hidden, state = model.hidden(Tokens(read, torch.ones_like(read, dtype=torch.bool), "nowhere"), state)
    weights = {}
    if asked is not None and seen is not None and queries:
        for address in addresses:
            heads = seen.runs[-1].calls[address][0].shape[1]
            wanted = None if asked.heads is None else heads_asked(asked, heads, address)
            weights[address] = seen.weights(address, heads=wanted, queries=queries)[0].numpy()
    return Chunk(tuple(part), state, hidden[0, -1], weights)


def _seen(
    predictor: LanguageModel,
    asked: Attention,
    ids: Sequence[int],
    rows: Sequence[int],
    size: int,
    chunks: Sequence[Chunk],
) -> Seen:
    """The rows that were asked for, in their order, over the whole text; of chunks of so many tokens."""
    tokenizer, count = predictor.task.tokenizer, len(ids)
    names = [tokenizer.tokens([each])[0] if each < tokenizer.size else f"<{each}>" for each in ids]
    order = np.argsort(sorted(range(len(rows)), key=lambda place: rows[place] // size))
    maps = []
    for address in layers_asked(predictor.model, asked):
        parts, ends = [], 0
        for chunk in chunks:
            ends += len(chunk.ids)
            if address not in chunk.weights:
                continue
            part = chunk.weights[address]
            whole = np.zeros((*part.shape[:2], count), dtype="<f4")
            # A window's keys are the last of those so far; those of a text that is read at once begin with the first.
            end = ends if ends > len(chunk.ids) else part.shape[2]
            whole[..., max(end - part.shape[2], 0) : end] = part[..., -end:]
            parts.append(whole)
        weights = np.concatenate(parts, axis=1)[:, order]
        heads = list(range(weights.shape[0])) if asked.heads is None else asked.heads
        maps.append(
            Map(
                address=address,
                kind="self",
                example=0,
                heads=heads,
                rows=list(rows),
                query_tokens=[names[row] for row in rows],
                key_tokens=list(names),
                weights=np.ascontiguousarray(weights).tobytes(),
            )
        )
    check_size(asked, sum(len(each.weights) // 4 for each in maps))
    return Seen(maps, [tokenizer.decode([each for each in ids if each < tokenizer.size])], [], "")


def _rows(asked: Attention, count: int, prompt: int) -> list[int]:
    """The rows that are asked for, of so many."""
    if isinstance(asked.rows, list):
        return places_asked(asked.rows, count, "attention.rows: row {}")
    return list(range(count)) if asked.rows == "all" else list(range(prompt - 1, count))
