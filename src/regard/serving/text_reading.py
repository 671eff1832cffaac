"""A language model reads a text and returns its attention, between the generation steps of other requests.

Generation does not record attention; the complete text is read once more afterwards, in the same chunks, so that the weights are
those of `regard.look` on the text. The studio asks for the next tokens after a text and for its attention: both come from one
reading in short chunks, of which those that the previous text begins with too are not read again.
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
"""Tokens per chunk of a text that is being typed. Larger chunks are faster for a whole text; but after a keystroke at the end
only the last chunk is read, and a GPT-2 of the small size reads 16 tokens in a fifth of the time of 64."""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """The result of reading a text with a language model.

    Arguments:
        hidden: (D,), the last hidden state, from which the next token is predicted.
        seen: the attention that was asked for; None without.
    """

    hidden: Tensor
    seen: Seen | None


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """A part of a text that has been read.

    Arguments:
        ids: its tokens.
        state: the model's KV cache after it.
        hidden: (D,), the last hidden state, from which the next token is predicted.
        weights: for each layer that was asked for, float32 (heads, queries of this chunk, keys up to its end).
    """

    ids: tuple[int, ...]
    state: Any
    hidden: Tensor
    weights: dict[str, np.ndarray]


@dataclass(slots=True)
class LastText:
    """The chunks of the text that was read last, with all rows of its attention.

    A chunk with the same tokens after the same chunks gives bit for bit the same result, so it is not read again; and a text's
    result does not depend on what was read before.
    """

    asked: Attention | None = None
    chunks: list[Chunk] = field(default_factory=list)

    def shared(self, asked: Attention | None, ids: Sequence[int], chunk: int) -> list[Chunk]:
        """The leading chunks that a text shares with the last one, where the same attention is asked for."""
        if asked != self.asked:
            return []
        count = 0
        for known in self.chunks:
            if known.ids != tuple(ids[count * chunk : (count + 1) * chunk]):
                break
            count += 1
        return self.chunks[:count]


def check_written(predictor: LanguageModel, asked: Attention, prompt: int, most: int, texts: int) -> None:
    """Refuse more weights than an answer may hold, before anything is generated.

    Arguments:
        predictor: the language model.
        asked: the attention that is asked for.
        prompt: the number of tokens in the prompt.
        most: the most tokens to generate.
        texts: the number of texts to generate.

    Raises:
        InputError: with the number of weights.
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
    """Read a text chunk by chunk and record its attention: yields None after each chunk but the last, then a `Reading`.

    Row i holds the weights of query i on keys 0 to i, from which token i + 1 is predicted.

    Arguments:
        predictor: the language model.
        asked: which weights; None for none.
        ids: the tokens to read: the prompt, and the generated tokens without the last.
        prompt: how many of them are the prompt.
        chunk: tokens per chunk.
        changes: interventions to read under.
        last: the last text, whose chunks may be reused; it is replaced by this text. Only without interventions, and where all
            rows or none are asked for.
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
    """Read one chunk, and keep the attention weights of the given queries."""
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
    """The rows that were asked for, in their order, over the whole text; `size` is the number of tokens per chunk."""
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
            # With a sliding window, a later chunk's keys are the last ones so far; those of the first chunk begin with key 0.
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
    """The positions of the rows that are asked for, of `count`."""
    if isinstance(asked.rows, list):
        return places_asked(asked.rows, count, "attention.rows: row {}")
    return list(range(count)) if asked.rows == "all" else list(range(prompt - 1, count))
