"""The causal stack of blocks that the GPT family shares, with its KV cache.

`CausalTransformer` is the stack as a language model; `CausalClassifier` is the stack with a head on the last token, for
fine-tuning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import (
    AttentionLayer,
    Causal,
    Dense,
    Document,
    KeysValues,
    KVCache,
    Mask,
    Packed,
    Padding,
    Positions,
    Window,
    positions_of,
)
from regard.attention.positions import check_length, positions_in_documents
from regard.layers.blocks import CausalBlock
from regard.layers.embeddings import PositionedEmbedding
from regard.layers.encoder import Encoded, EncoderConfig, added
from regard.layers.state import CACHE, DecoderState, LeftToRight, join
from regard.layers.tokens import Tokens
from regard.structure import renamed

CHUNK = 512
"""Tokens of a prompt that are read in one pass; short prompts are grouped up to this number."""


class CausalConfig(Protocol):
    """The settings of a model that the stack needs."""

    @property
    def vocabulary(self) -> int:
        """V, the number of tokens."""
        ...

    @property
    def maximum_positions(self) -> int:
        """The longest text, in tokens."""
        ...

    @property
    def padding_id(self) -> int:
        """The id that fills padding."""
        ...

    @property
    def end_id(self) -> int:
        """The id that ends a text; it is also before the first token of a text."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class CausalState(DecoderState):
    """The state of a decoder without a source: the keys and values of past tokens.

    The sources of this state are the texts themselves: hypotheses that branched from one text share its cache.

    Arguments:
        cache: keys and values of past tokens, and the columns of each row.
    """

    cache: KVCache = field(default_factory=KVCache, metadata=CACHE)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Entered:
    """The inputs of the blocks of a stack.

    Arguments:
        x: (B, L, D), the embedded tokens; (R, W, D) if each of W hypotheses of R texts takes one token.
        masks: one for each block, True = may attend.
        positions: the positions of the L tokens and of all C + L columns in their texts, the same for all blocks.
        after: the next state, whose cache is not filled yet.
    """

    x: Tensor
    masks: Sequence[Mask | None]
    positions: Positions
    after: CausalState


@renamed(bands="sliding_windows")
class CausalStack(nn.Module):
    """Embedding and causal blocks, from one state to the next: the common part of models of the GPT family.

        hidden = norm(block_n(... block_1(E[x] + P))),   logits = hidden E^T

    Arguments:
        config: its sizes.
        embedding: tokens to vectors.
        layers: the blocks, with the interface of `CausalBlock`, or of the subclass's `_through`.
        norm: after the last block; `nn.Identity()` = none.
        sliding_windows: for each block the number of tokens that a query sees, itself included; None = all earlier tokens.
        output: the output layer, from D to V; None = the embedding table.
    """

    length_setting: str = "model.maximum_positions"
    separates_documents: bool = True

    def __init__(
        self,
        config: CausalConfig,
        *,
        embedding: PositionedEmbedding,
        layers: Sequence[nn.Module],
        norm: nn.Module,
        sliding_windows: Sequence[int | None] = (),
        output: nn.Linear | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.output = output
        self.sliding_windows = tuple(sliding_windows) or (None,) * len(layers)

    @property
    def counts_padding(self) -> bool:
        """Whether masks must hide padding on the right too, which no token sees."""
        parts = (part for layer in self.layers for part in layer.children() if isinstance(part, AttentionLayer))
        return any(part.attention.declaration.counts_padding for part in parts)

    @property
    def batch_invariant_steps(self) -> bool:
        """Whether the logits of a step have the same bits alone and in any batch without `BatchInvariant`."""
        return False

    @property
    def maximum_length(self) -> int | None:
        """The longest text in tokens, with the end token before it; None = no limit."""
        return self.config.maximum_positions

    def start(self, rows: int) -> CausalState:
        """The state before the first token of this many texts: no source, and an empty cache."""
        nothing = torch.empty(rows, 0, dtype=torch.bool, device=self.embedding.tokens.weight.device)
        return CausalState(source_valid=nothing)

    def hidden(self, tokens: Tokens, state: CausalState) -> tuple[Tensor, CausalState]:
        """The vectors of the last block, (B, L, D), after the norm if there is one, and the next state.

        If a row holds several documents, tokens see only their own document, with positions from 0, as if each were read alone.
        The next state is that of the last document. Hypotheses of one text each take one token, as queries over its cache.

        Raises:
            InputError: if a text is longer than the model's positions.
            ValueError: for several documents after the first token.
        """
        if state.width > 1 and (tokens.ids.shape[1] != 1 or tokens.padding_side != "nowhere"):
            state = state.apart()
        entered = self._entered(tokens, state)
        after = entered.after
        x, layers = self._through(entered, state.cache.layers or None)
        x = self._normed(x)
        return x if state.width == 1 else x.flatten(0, 1)[:, None], replace(after, cache=after.cache.filled(layers))

    def _normed(self, x: Tensor) -> Tensor:
        """The vectors of the last block after the norm."""
        return self.norm(x)

    @property
    def packs_texts(self) -> bool:
        """Whether texts packed in one row give the same bits as each alone, which needs fused attention."""
        layers = [[part for part in layer.children() if isinstance(part, AttentionLayer)] for layer in self.layers]
        return all(parts and all(part.attention.fuses_plainly for part in parts) for parts in layers)

    def read_texts(self, texts: Sequence[Tensor], before: CausalState | None = None) -> CausalState:
        """The state after texts of different lengths, without padding; each is read as if it were alone.

        Short texts are packed in one row, long ones are read in chunks of `CHUNK` tokens. There is no gradient through it.

        Arguments:
            texts: the ids (n,) int64 of each row.
            before: the state, of one row, after a common prefix of all texts; None = no prefix.

        Raises:
            InputError: if a text is longer than the model's positions.
        """
        packed = self.packs_texts and before is None
        states: list[CausalState] = []
        with torch.no_grad():
            for group in _grouped([len(text) for text in texts], CHUNK if packed else 0):
                if len(texts[group[0]]) > CHUNK or not packed:
                    states += [
                        self._read_chunks(texts[row], self.start(1) if before is None else before) for row in group
                    ]
                else:
                    states += self._read_packed([texts[row] for row in group])
        return join(states) if states else self.start(0)

    def _read_chunks(self, text: Tensor, state: CausalState) -> CausalState:
        for chunk in text.split(CHUNK) if len(text) else ():
            tokens = Tokens(chunk[None], torch.ones_like(chunk[None], dtype=torch.bool), "nowhere")
            state = self.hidden(tokens, state)[1]
        return state

    def _read_packed(self, texts: Sequence[Tensor]) -> list[CausalState]:
        """The state after each of several texts packed in one row."""
        lengths, nothing = [len(text) for text in texts], self.start(1)
        if self.maximum_length is not None:
            check_length(max(lengths), self.maximum_length, "text")
        ids = torch.cat(list(texts))
        if not len(ids):
            return [nothing] * len(texts)
        places = torch.cat([torch.arange(length, device=ids.device) for length in lengths])[None]
        entered = Entered(
            x=self.embedding(ids[None], places),
            masks=[Packed(tuple(lengths), window) for window in self.sliding_windows],
            positions=Positions(len(ids), len(ids), of_queries=places, of_keys=places),
            after=nothing,
        )
        layers, states, end = self._through(entered, None)[1], [], 0
        for length in lengths:
            own = slice(end, end + length)
            end += length
            parts = tuple(KeysValues(layer.key[:, :, own], layer.value[:, :, own]) for layer in layers)
            cache = KVCache(parts, (1,) * length) if length else KVCache()
            states.append(replace(nothing, length=length, cache=cache))
        return states

    def _entered(self, tokens: Tokens, state: CausalState) -> Entered:
        """The input of the first block, and the next state without its keys and values."""
        rows, length = tokens.ids.shape
        cache, passed, limit = state.cache, state.cache.columns, self.maximum_length
        valid = None if cache.seen is None and tokens.padding_side == "nowhere" else tokens.valid
        after = cache.extended(
            rows=rows,
            width=state.width,
            slots=length,
            valid=valid if state.width == 1 else None,
            lengths=state.lengths,
            device=tokens.ids.device,
        )
        slots = state.length + length
        # With padding only on the right, a token's position is its column.
        follows = tokens.padding_side == "right" and state.length == 0 and (limit is None or slots <= limit)
        places = None if follows else after.places
        if tokens.documents is not None:
            if state.length:
                raise ValueError("several documents in a row are read from its beginning, not from a state after it")
            places = positions_in_documents(tokens.documents, tokens.valid)
        lengths = state.lengths
        if state.width == 1 and after.seen is not None:
            lengths = tokens.valid.sum(dim=1) + (state.length if lengths is None else lengths)
        elif lengths is not None:
            lengths = lengths + 1
        if limit is not None and slots > limit:  # padding does not count
            check_length(slots if lengths is None else int(lengths.max()), limit, "text")
        if state.width > 1:
            standing = state.places()
        elif places is None:
            standing = torch.arange(state.length, slots, device=tokens.ids.device).expand(rows, -1)
        else:
            standing = places[:, passed:]
        masks = {window: self._mask(tokens, state, after, window) for window in dict.fromkeys(self.sliding_windows)}
        if tokens.documents is not None:
            last = tokens.documents.where(tokens.valid, -1).amax(dim=1, keepdim=True)
            of_last = tokens.valid & (tokens.documents == last)
            after, lengths = replace(after, seen=of_last, places=positions_of(of_last)), of_last.sum(dim=1)
        return Entered(
            x=self.embedding(tokens.ids if state.width == 1 else state.by_source(tokens.ids[:, 0]), standing),
            masks=[masks[window] for window in self.sliding_windows],
            positions=Positions(
                standing.shape[1],
                after.columns,
                of_queries=None if places is None and state.length == 0 else standing,
                of_keys=places,
                device=standing.device,
            ),
            after=replace(state, length=slots, lengths=lengths, cache=after),
        )

    def _through(self, entered: Entered, past: tuple[KeysValues, ...] | None) -> tuple[Tensor, tuple[KeysValues, ...]]:
        """Apply all blocks, each with its mask: (B, L, D), and keys and values of past and present tokens."""
        x, present = entered.x, []
        for index, (layer, mask) in enumerate(zip(self.layers, entered.masks, strict=True)):
            before = None if past is None else past[index]
            x, own = layer(x, mask, before, positions=entered.positions)
            present.append(own)
        return x, tuple(present)

    def output_map(self) -> tuple[Tensor, Tensor | None]:
        """The matrix (V, D) of the output layer, and its bias (V,) or None."""
        return (self.embedding.tokens.weight, None) if self.output is None else (self.output.weight, self.output.bias)

    def logits(self, hidden: Tensor) -> Tensor:
        """The output layer: (..., D) to (..., V)."""
        return F.linear(hidden, *self.output_map())

    def _mask(self, tokens: Tokens, state: CausalState, after: KVCache, window: int | None) -> Mask | None:
        """The mask of the new tokens, as a tensor if it is more than causal; None = all to all."""
        mask = self._rule(tokens, state, after, window)
        if mask is None or type(mask) in (Causal, Dense):
            return mask
        queries = state.width if state.width > 1 else tokens.ids.shape[1]
        texts, device = len(state.source_valid), tokens.ids.device
        return mask.materialize(batch=texts, queries=queries, keys=after.columns, device=device)

    def _rule(self, tokens: Tokens, state: CausalState, after: KVCache, window: int | None) -> Mask | None:
        """The mask of the new tokens; None = all to all, for a single new token without earlier padding."""
        length, passed = tokens.ids.shape[1], state.cache.columns
        windowed = window is not None and state.length + length > window
        if state.width > 1:
            own = after.mask(state.width)
            return (
                own & _window(window, passed, after.places)
                if own is not None and windowed and window is not None
                else own
            )
        first = state.length == 0
        plain = not windowed and tokens.documents is None
        if plain and (length == 1 and after.seen is None):
            return None
        follows = tokens.padding_side == "nowhere" or (tokens.padding_side == "right" and not self.counts_padding)
        if plain and first and follows:
            # Padding on the right is never seen by a token; the kernel supports this mask without a tensor.
            return Causal()
        mask: Mask = Causal(offset=passed)
        if windowed and window is not None:
            mask = mask & _window(window, passed, after.places)
        if tokens.documents is not None:
            mask = mask & Document(tokens.documents)
        if after.seen is not None:
            mask = mask & Padding(after.seen)
        return mask


class CausalTransformer(CausalStack, LeftToRight[CausalState]):
    """A causal stack as a language model: GPT, and models that differ from it in some parts.

    It has the arguments of `CausalStack`.
    """


def _grouped(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Consecutive rows in groups of at most this many tokens; a longer row is a group of its own.

    >>> _grouped([0, 3, 4, 9, 1], 8)
    [[0, 1, 2], [3], [4]]
    """
    groups: list[list[int]] = []
    full = 0
    for row, length in enumerate(lengths):
        if not groups or not most or full + length > most:
            groups.append([])
            full = 0
        groups[-1].append(row)
        full += length
    return groups


def _window(window: int, passed: int, places: Tensor | None) -> Mask:
    """A mask of this many tokens back, itself included; padding between two tokens does not count.

    Arguments:
        passed: the number of columns before those of the new tokens.
        places: (R, C), the position of the token of each column; None = the column.
    """
    if places is None:
        return Window(before=window - 1, after=0, offset=passed)
    return Dense((places[:, passed:, None] - places[:, None, :] < window).unsqueeze(1))


class CausalClassifierConfig(CausalConfig, EncoderConfig, Protocol):
    """The settings of the model that the stack and the tasks need."""


@renamed(bands="sliding_windows")
class CausalClassifier(CausalStack):
    """The stack with a head on the last token of a text, which has seen all others (Radford et al. 2018, section 3.2).

        p(class | x_1 .. x_m) = softmax(W h_m),   h the last block's vectors, x_m the last token (`extract`)

    It can also predict the next token at any position, for the auxiliary loss.

    Arguments:
        config: its sizes.
        embedding: tokens to vectors.
        layers: the blocks.
        norm: after the last block; `nn.Identity()` = none.
        head: such as `layers.heads.PooledHead`.
        sliding_windows: as in `CausalStack`.
    """

    tells_next: bool = True

    def __init__(
        self,
        config: CausalClassifierConfig,
        *,
        embedding: PositionedEmbedding,
        layers: Sequence[CausalBlock],
        norm: nn.Module,
        head: nn.Module,
        sliding_windows: Sequence[int | None] = (),
    ) -> None:
        super().__init__(config, embedding=embedding, layers=layers, norm=norm, sliding_windows=sliding_windows)
        self.head = head

    def forward(
        self, tokens: Tokens, segments: Tensor | None = None, *, at: Tensor | None = None, readings: int = 1
    ) -> Encoded:
        """Vectors and logits of a batch of texts.

        Arguments:
            tokens: (B x readings, L), special tokens included; padding can be on either side.
            segments: ignored: a delimiter token separates two texts.
            at: (M,) int64, the positions, as indices into rows x L, whose next token is predicted; None = none.
            readings: the number of consecutive rows that are the same example, such as a pair in both orders; the vectors of
                their last tokens are added (section 3.3).

        Returns:
            `logits` (B, outputs) and, with `at`, `next_token` (M, V).

        Raises:
            InputError: if a text is longer than the model's positions.
        """
        del segments
        hidden, _ = self.hidden(tokens, self.start(len(tokens)))
        pooled = added(hidden[torch.arange(len(hidden), device=hidden.device), _last(tokens.valid)], readings)
        next_token = None if at is None else self.logits(hidden.flatten(0, 1).index_select(0, at))
        return Encoded(hidden, pooled, self.head(hidden, pooled, None).logits, None, next_token)


def _last(valid: Tensor) -> Tensor:
    """The column of the last real token of each row, (B, L) bool to (B,), with padding on either side."""
    return valid.shape[1] - 1 - valid.flip(1).long().argmax(dim=1)
