"""The stack of blocks that the GPT family shares: a text read from the left, what it passed kept as keys and values.

`CausalTransformer` is the stack as a language model, `CausalClassifier` the stack with a head on the last token, for fine-tuning.
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
"""Tokens that a prompt is read in at a time, and of short ones so many together."""


class CausalConfig(Protocol):
    """What the stack needs to know of its model."""

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
        """The id that ends a text, and is before the first token of one."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class CausalState(DecoderState):
    """All that a decoder without a source carries: keys and values of the tokens it passed.

    Its sources are the texts themselves: hypotheses that branched from one text share the memory of what it passed.

    Arguments:
        cache: keys and values of the tokens passed, and which columns are real tokens of which row.
    """

    cache: KVCache = field(default_factory=KVCache, metadata=CACHE)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Entered:
    """What the blocks of a stack are given.

    Arguments:
        x: (B, L, D), the embedded tokens; (R, W, D) where each of W hypotheses about R texts takes one.
        masks: one for each block, True = may attend.
        positions: where the L tokens and all C + L columns are in their texts, the same for all blocks.
        after: the state after, its cache still to be filled.
    """

    x: Tensor
    masks: Sequence[Mask | None]
    positions: Positions
    after: CausalState


@renamed(bands="sliding_windows")
class CausalStack(nn.Module):
    """Embedding and blocks that look back, from a state to the next: what models of GPT's family have in common.

        hidden = norm(block_n(... block_1(E[x] + P))),   logits = hidden E^T

    Arguments:
        config: its sizes.
        embedding: tokens to vectors.
        layers: the blocks, called as `CausalBlock`s are, or as `_through` of a stack of other blocks calls them.
        norm: after the last of them; `nn.Identity()` for none.
        sliding_windows: how many tokens back each block looks, itself included; None = all the way. One for each block.
        output: the last map, from D to V; the embedding table where None.
    """

    length_setting: str = "model.maximum_positions"
    parts_documents: bool = True

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
        """Whether masks have to tell the blocks of padding that only follows, which no token sees."""
        parts = (part for layer in self.layers for part in layer.children() if isinstance(part, AttentionLayer))
        return any(part.attention.declaration.counts_padding for part in parts)

    @property
    def batch_invariant_steps(self) -> bool:
        """Whether a step's logits have the same bits alone and in any batch without the mode `BatchInvariant`."""
        return False

    @property
    def maximum_length(self) -> int | None:
        """The most tokens a text can have, the end token before it included; None where there is no limit."""
        return self.config.maximum_positions

    def start(self, rows: int) -> CausalState:
        """The state before the first token of so many texts: no source to look at, and nothing passed."""
        nothing = torch.empty(rows, 0, dtype=torch.bool, device=self.embedding.tokens.weight.device)
        return CausalState(source_valid=nothing)

    def hidden(self, tokens: Tokens, state: CausalState) -> tuple[Tensor, CausalState]:
        """The last block's vectors (B, L, D), normalised where the model does so, and the state after.

        Where the tokens are of several documents, each sees its own alone, from position 0 on: as if each were read by itself.
        The state after is that of the last one. Hypotheses about one text take one token each as so many queries over its memory.

        Raises:
            InputError: where a text is longer than the model has positions for.
            ValueError: for several documents after the first token.
        """
        if state.width > 1 and (tokens.ids.shape[1] != 1 or tokens.padding_side != "nowhere"):
            state = state.apart()
        entered = self._entered(tokens, state)
        after = entered.after
        x, layers = self._through(entered, state.cache.layers or None)
        x = self.norm(x)
        return x if state.width == 1 else x.flatten(0, 1)[:, None], replace(after, cache=after.cache.filled(layers))

    @property
    def packs_texts(self) -> bool:
        """Whether several texts in one row are read as each by itself, bit for bit: where attention runs the fused kernel."""
        layers = [[part for part in layer.children() if isinstance(part, AttentionLayer)] for layer in self.layers]
        return all(parts and all(part.attention.fuses_plainly for part in parts) for parts in layers)

    def read_texts(self, texts: Sequence[Tensor], before: CausalState | None = None) -> CausalState:
        """The state after texts of different lengths, without padding: each is read as if it were alone.

        Short texts are read one after another in one row, long ones in chunks of `CHUNK` tokens. No gradient passes through it.

        Arguments:
            texts: of each row (n,) int64.
            before: the state, of one row, after what is before every text; none where None.

        Raises:
            InputError: where a text is longer than the model has positions for.
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
        """The state after each of some texts that are in one row."""
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
        """What the first block gets, and the state after, all but its keys and values."""
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
        # Where padding only follows, a token's place is its column.
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
        if limit is not None and slots > limit:  # of which padding takes none
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
        """What entered through all blocks, each with its mask: (B, L, D), and keys and values of past and present tokens."""
        x, present = entered.x, []
        for index, (layer, mask) in enumerate(zip(self.layers, entered.masks, strict=True)):
            before = None if past is None else past[index]
            x, own = layer(x, mask, before, positions=entered.positions)
            present.append(own)
        return x, tuple(present)

    def output_map(self) -> tuple[Tensor, Tensor | None]:
        """The last map (V, D) and its bias (V,), or None for no bias."""
        return (self.embedding.tokens.weight, None) if self.output is None else (self.output.weight, self.output.bias)

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., D) to (..., V), by the last map."""
        return F.linear(hidden, *self.output_map())

    def _mask(self, tokens: Tokens, state: CausalState, after: KVCache, window: int | None) -> Mask | None:
        """What each new token may look at, laid out where it is more than the past; None = everything."""
        mask = self._rule(tokens, state, after, window)
        if mask is None or type(mask) in (Causal, Dense):
            return mask
        queries = state.width if state.width > 1 else tokens.ids.shape[1]
        texts, device = len(state.source_valid), tokens.ids.device
        return mask.materialize(batch=texts, queries=queries, keys=after.columns, device=device)

    def _rule(self, tokens: Tokens, state: CausalState, after: KVCache, window: int | None) -> Mask | None:
        """What each new token may look at; None = everything, where it is the only one and no padding came before."""
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
            # Padding that only follows is never seen; the kernel knows this mask without its being laid out.
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
    """A language model of blocks with the embedding table once more at its end: GPT, and whatever differs from it in a part.

    Its arguments are `CausalStack`'s.
    """


def _grouped(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Rows in their order, in groups of at most so many tokens; a longer one has a group to itself.

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
    """So many tokens back, its own included; padding between two tokens does not count.

    Arguments:
        passed: columns before those of the new tokens.
        places: (R, C), where the token of each column stands; None where that is its column.
    """
    if places is None:
        return Window(before=window - 1, after=0, offset=passed)
    return Dense((places[:, passed:, None] - places[:, None, :] < window).unsqueeze(1))


class CausalClassifierConfig(CausalConfig, EncoderConfig, Protocol):
    """What the stack and the tasks need to know of the model."""


@renamed(bands="sliding_windows")
class CausalClassifier(CausalStack):
    """The stack with a head on the last token of a text, the only one that has seen all of it (Radford et al. 2018, section 3.2).

        p(class | x_1 .. x_m) = softmax(W h_m),   h the last block's vectors, x_m the token that asks for the class

    In addition to the class it can predict the next token at any place, for the auxiliary loss.

    Arguments:
        config: its sizes.
        embedding: tokens to vectors.
        layers: the blocks.
        norm: after the last of them; `nn.Identity()` for none.
        head: what it tells of the text, such as `layers.encoder.PooledHead`.
        sliding_windows: how many tokens back each block looks; as in `CausalStack`.
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
            tokens: (B x readings, L), special tokens included; padding may be on either side.
            segments: not looked at: a token between two texts parts them.
            at: (M,) int64, the places, as indices into rows x L, whose next token is predicted; None = none.
            readings: how many rows, one after another, are the same example read in different ways, such as a pair in both
                orders: the vectors at their ends are added (section 3.3).

        Returns:
            `logits` (B, outputs) and, where asked for, `next_token` (M, V).

        Raises:
            InputError: where a text is longer than the model has positions for.
        """
        del segments
        hidden, _ = self.hidden(tokens, self.start(len(tokens)))
        pooled = added(hidden[torch.arange(len(hidden), device=hidden.device), _last(tokens.valid)], readings)
        next_token = None if at is None else self.logits(hidden.flatten(0, 1).index_select(0, at))
        return Encoded(hidden, pooled, self.head(hidden, pooled, None).logits, None, next_token)


def _last(valid: Tensor) -> Tensor:
    """The place of the last real token of each row, (B, L) bool to (B,), on whichever side padding stands."""
    return valid.shape[1] - 1 - valid.flip(1).long().argmax(dim=1)
