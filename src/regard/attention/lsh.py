"""Reformer's attention: local attention in chunks, and LSH attention (Kitaev et al. 2020).

In `ChunkedAttention` each chunk of a text attends to itself and to the chunks before it. In `LSHAttention` each query attends to
the keys in its hash bucket. The hash functions are at the end; `regard.attention.hashed` computes the attention by chunks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.alignments import Soft
from regard.attention.dropping import sample_seed
from regard.attention.hashed import ALONE, HashedMask, HashedOrder, Sets, attend_in_rounds, plainly_causal
from regard.attention.inputs import AttentionInputs, Reads
from regard.attention.kernels import as_autocast
from regard.attention.mechanism import Attention, Declaration


def filled_length(length: int, chunks: Sequence[int]) -> int:
    """The length of a text after padding on the right, as in Hugging Face's code.

    A text longer than the shortest chunk is padded to a multiple of all chunk lengths.

    >>> [filled_length(length, (4, 6)) for length in (4, 5, 13)]
    [4, 12, 24]
    """
    multiple = math.lcm(*chunks)
    return length if length <= min(chunks) else -(-length // multiple) * multiple


class ChunkedAttention(Attention):
    """Scaled dot-product attention to the query's chunk and a number of chunks before it (local layers in Reformer's code).

        s_ij = q_i . k_j / sqrt(E),   c(j) = floor(j / m)
        weights = softmax of s over the visible j with c(i) - before <= c(j) <= c(i)

    With `filled` a text is padded to n chunks, as in Hugging Face's code. There the chunks are a ring: before the first chunk
    comes the last one, which a causal mask hides, and n chunks before a chunk comes the same chunk again. So with
    before >= n > 1 each key of the query's chunk counts before - n + 2 times: the logarithm of this number is added to s_ij.

    Time and memory grow linearly with the length. If positions are given, for example with padding on the left, the whole
    matrix of weights is computed.

    Arguments:
        chunk: m, in tokens.
        before: the number of chunks before the query's chunk that it attends to.
        dropout: probability of dropping a weight in training.
        filled: the chunk lengths of all layers of a model, see `filled_length`; empty = the text is not padded.

    Raises:
        ValueError: for a chunk below 1 or a negative number of chunks.

    >>> inputs = AttentionInputs(query=torch.zeros(1, 1, 6, 2), key=torch.zeros(1, 1, 6, 2))
    >>> ChunkedAttention(chunk=2).weights(inputs)[0, 0, 5].tolist()
    [0.0, 0.0, 0.25, 0.25, 0.25, 0.25]
    """

    def __init__(self, *, chunk: int, before: int = 1, dropout: float = 0.0, filled: Sequence[int] = ()) -> None:
        super().__init__(dropout=dropout)
        if chunk < 1 or before < 0:
            raise ValueError(f"chunk is {chunk} and before is {before}; they must be at least 1 and 0")
        self.chunk = chunk
        self.before = before
        self.filled = tuple(filled)

    @property
    def declaration(self) -> Declaration:
        """No distribution over all visible keys: keys outside the chunks have weight 0."""
        return Declaration(distribution=False)

    def weights(self, inputs: AttentionInputs) -> Tensor:
        """(B, H, L, S): the equation above, computed for every pair of query and key."""
        exact = inputs.exact
        with torch.autocast(inputs.query.device.type, enabled=False):
            scores = inputs.query.to(exact) @ inputs.key_per_query_head.to(exact).transpose(-1, -2)
            seen = inputs.visible()
            back = self._back(inputs)
            near = (back >= 0) & (back <= self.before)
            scores = scores / math.sqrt(inputs.query.shape[-1])
            times = self._times(inputs.shape[3])
            if times > 1:
                scores = scores + (back == 0) * math.log(times)
            return Soft()(scores, near if seen is None else near & seen, inputs)

    def forward(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        """Value (B, G, S, Ev) to output (B, H, L, Ev)."""
        queries, keys = inputs.shape[2:]
        whole = keys <= self.chunk or self._times(keys) > 1
        if whole or queries != keys or not inputs.in_order:
            return super().forward(inputs, value)
        inputs.check_value(value)
        query = self._cut(inputs.query, 0)
        key, value = (self._cut(inputs.per_query_head(x), self.before) for x in (inputs.key, value))
        seen = self._seen(inputs)
        batch, heads, count = query.shape[:3]
        output = F.scaled_dot_product_attention(
            query.flatten(0, 2),
            key.flatten(0, 2),
            value.flatten(0, 2),
            attn_mask=seen.expand(batch, heads, *seen.shape[2:]).flatten(0, 2),
            dropout_p=self.dropout if self.training else 0.0,
        )
        output = output.unflatten(0, (batch, heads, count))
        # A query without a visible key has uniform weights.
        output = output * seen.any(dim=-1, keepdim=True)
        return output.flatten(2, 3)[:, :, :queries]

    def extra_repr(self) -> str:
        """Its sizes."""
        return ", ".join(part for part in (f"chunk={self.chunk}, before={self.before}", super().extra_repr()) if part)

    def _times(self, keys: int) -> int:
        """How often a key of the query's chunk counts."""
        count = -(-filled_length(keys, self.filled or (self.chunk,)) // self.chunk)
        return max(1, self.before - count + 2) if self.filled and count > 1 else 1

    def _back(self, inputs: AttentionInputs) -> Tensor:
        """(B or 1, 1, L, S), the chunk number of the query minus that of the key."""
        query, key = inputs.query_positions // self.chunk, inputs.key_positions // self.chunk
        return (query.unsqueeze(-1) - key.unsqueeze(-2)).unsqueeze(1)

    def _cut(self, x: Tensor, before: int) -> Tensor:
        """X (B, H, S, E) to windows of chunks (B, H, n, (before + 1) m, E), with zeros before the first and after the last."""
        count = -(-x.shape[2] // self.chunk)
        x = F.pad(x, (0, 0, before * self.chunk, count * self.chunk - x.shape[2])).unflatten(2, (-1, self.chunk))
        return torch.cat([x[:, :, step : step + count] for step in range(before + 1)], dim=3)

    def _seen(self, inputs: AttentionInputs) -> Tensor:
        """(B or 1, H or 1, n, m, w) bool, which keys of its window a query may see."""
        keys, device = inputs.shape[3], inputs.query.device
        count = -(-keys // self.chunk)
        first = torch.arange(count, device=device).view(1, 1, -1, 1, 1) * self.chunk
        query = first + torch.arange(self.chunk, device=device).view(-1, 1)
        key = first + torch.arange(-self.before * self.chunk, self.chunk, device=device)
        there = (key >= 0) & (key < keys)
        if inputs.mask is None:
            return there.expand(-1, -1, -1, self.chunk, -1)
        batch, heads = inputs.shape[:2]
        row = torch.arange(batch, device=device).view(-1, 1, 1, 1, 1)
        head = torch.arange(heads, device=device).view(1, -1, 1, 1, 1)
        return there & inputs.mask(row, head, query.clamp_max(keys - 1), key.clamp(0, keys - 1))


ROTATIONS, BUCKETS = "rotations", "buckets"
"""What `LSHAttention` reads in the record: the rotations of `sample`, (B, H, E, N, sum(buckets) / 2), or the buckets computed
with them, (B, H, N, S) integers."""


READS: Reads = MappingProxyType({ROTATIONS: "bHEnr", BUCKETS: "BHnS"})


class LSHAttention(Attention):
    """Attention to the keys in the same hash bucket as the query (Kitaev et al. 2020, section 2).

        k_j = q_j / |q_j|,   s_ij = q_i . k_j,   s_ii = -10000             a token attends to itself only if it sees no other
        round r:  sort the tokens by (h_r(k_j), j), cut the order in chunks of m;  c_r(j): the chunk of j
                  P_i^r = {j : h_r(j) = h_r(i), c_r(i) - before <= c_r(j) <= c_r(i)}
        o_i = sum_j exp(s_ij - z_i) v_j,   z_i = log sum_j exp(s_ij),   j in the union of P_i^1 .. P_i^N and visible

    This merges the rounds as the paper does: log N_ij, where N_ij is the number of rounds with j in P_i^r, is subtracted from the
    scores, so that every key counts once. `sets="chunk"` follows the authors' released code instead: P_i^r holds all keys of the
    chunks, whatever their bucket; before the first chunk of a round comes the last chunk of the previous round (for the first
    round, of the last round); and a key in several rounds counts in each of them, which adds log N_ij to its score. If `before`
    exceeds the number of all chunks, the query's chunk counts again, as in Hugging Face's code.

    The L queries belong to the last L of the S slots. Slots that may not attend to themselves, such as padding, are sorted last.
    Scores are not divided by sqrt(E): keys have length 1, and the learned length of queries sets the temperature, as in the
    released code.

    With `filled` the order of each round can end with chunks of padding, as in Hugging Face's code.

    With at most m keys there is one chunk, and every visible key is in P_i: full attention with shared queries and keys. With
    fewer queries than keys, as in decoding with a cache, the sets are those of the text so far. A longer text can have other
    chunks.

    In training the layer samples new rotations for every call (`sample`). If the record has none, they are sampled with `seed`.

    Arguments:
        chunk: m, in tokens.
        rounds: N, the number of hash rounds. More rounds in evaluation than in training take more time and are more accurate.
        buckets: b, even; several factors for a large number, see `buckets_by_rotation`.
        before: the number of chunks before the query's chunk that it attends to.
        sets: how P_i^r is defined, see above.
        seed: of the rotations, if the record has none.
        dropout: probability of dropping a weight in training, in each round.
        filled: the chunk lengths of all layers of a model, see `filled_length`; empty = the text is padded to these chunks only.

    Raises:
        ValueError: for a chunk length, a number of rounds or numbers of buckets that are not allowed.

    >>> from regard.attention import Causal
    >>> attention = LSHAttention(chunk=4, rounds=2, buckets=(4,))
    >>> shared = torch.randn(1, 2, 12, 8)
    >>> inputs = AttentionInputs(query=shared, key=shared, mask=Causal())
    >>> value = torch.randn(1, 2, 12, 8)
    >>> torch.allclose(attention(inputs, value), attention.weights(inputs) @ value, atol=1e-5)
    True
    """

    def __init__(
        self,
        *,
        chunk: int,
        rounds: int,
        buckets: Sequence[int],
        before: int = 1,
        sets: Sets = "bucket",
        seed: int = 0,
        dropout: float = 0.0,
        filled: Sequence[int] = (),
    ) -> None:
        super().__init__(dropout=dropout)
        odd = not buckets or any(count < 2 or count % 2 for count in buckets)
        if chunk < 1 or rounds < 1 or before < 0 or odd:
            raise ValueError(
                f"chunk is {chunk}, rounds {rounds}, buckets {tuple(buckets)}, before {before}; give at least 1 for chunk and "
                "rounds, even numbers of buckets, and 0 or more for before"
            )
        self.chunk = chunk
        self.rounds = rounds
        self.buckets = tuple(buckets)
        self.before = before
        self.sets: Sets = sets
        self.seed = seed
        self.filled = tuple(filled) or (chunk,)

    @property
    def declaration(self) -> Declaration:
        """Random, and no distribution: a query may see none of the keys in its sets.

        Padding counts, because it would take places in the chunks.
        """
        return Declaration(distribution=False, sampled=True, counts_padding=True, reads=READS)

    def full(self, keys: int) -> bool:
        """Whether this number of keys fits in one chunk, so that no hash is needed."""
        return filled_length(keys, self.filled) <= self.chunk

    def sample(self, inputs: AttentionInputs, generator: torch.Generator | None = None) -> AttentionInputs:
        """The same inputs with sampled rotations in their record, the same for every row."""
        sampled = self._rotations(inputs, generator).to(inputs.query.device).expand(inputs.shape[0], -1, -1, -1, -1)
        return replace(inputs, record={ROTATIONS: sampled, **inputs.record})

    def replay_state(self, inputs: AttentionInputs) -> Mapping[str, Tensor]:
        """The buckets of all keys, (B, H, N, S) int32, if keys are hashed."""
        return {} if self.full(inputs.shape[3]) else {BUCKETS: self._buckets(inputs).int()}

    def weights(self, inputs: AttentionInputs) -> Tensor:
        """(B, H, L, S): the equations above, computed for every pair of query and key."""
        exact = inputs.exact
        queries, keys = inputs.shape[2:]
        with torch.autocast(inputs.query.device.type, enabled=False):
            key = unit(inputs.key_per_query_head.to(exact))
            scores = inputs.query.to(exact) @ key.transpose(-1, -2)
            slots = torch.arange(keys, device=scores.device)
            own = slots[keys - queries :, None] == slots
            scores = scores.masked_fill(own, ALONE)
            seen = inputs.visible()
            if not self.full(keys):
                rounds = self._rounds_that_hold(inputs)
                if self.sets == "chunk":
                    scores = scores + rounds.clamp_min(1).to(exact).log()
                seen = rounds > 0 if seen is None else seen & (rounds > 0)
            return Soft()(scores, seen, inputs)

    def forward(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        """Value (B, G, S, Ev) to output (B, H, L, Ev)."""
        queries, keys = inputs.shape[2:]
        # If chunks count more than once, the text is shorter than a window.
        if self.full(keys) or queries < keys or self._times(keys) > 1:
            return super().forward(inputs, value)
        inputs.check_value(value)
        orders = self._orders(inputs)
        dropout = self.dropout if self.training else 0.0
        return attend_in_rounds(
            as_autocast(inputs.query),
            as_autocast(unit(inputs.key_per_query_head)),
            as_autocast(inputs.per_query_head(value)),
            orders=orders,
            hide=HashedMask(inputs, orders, sets=self.sets, buckets=math.prod(self.buckets)),
            dropout=dropout,
            seed=sample_seed() if dropout else 0,
        ).to(value.dtype)

    def extra_repr(self) -> str:
        """Its sizes."""
        settings = f"chunk={self.chunk}, rounds={self.rounds}, buckets={self.buckets}, before={self.before}, sets={self.sets!r}"
        return ", ".join(part for part in (settings, super().extra_repr()) if part)

    def _rotations(self, inputs: AttentionInputs, generator: torch.Generator | None) -> Tensor:
        _, heads, _, width = inputs.query.shape
        return sample_rotations(
            width, heads=heads, rounds=self.rounds, buckets=self.buckets, generator=generator
        ).unsqueeze(0)

    def _buckets(self, inputs: AttentionInputs) -> Tensor:
        """(B, H, N, S) int64."""
        buckets = inputs.part(BUCKETS, READS)
        if buckets is not None:
            return buckets.long()
        key = inputs.key_per_query_head
        rotations = inputs.part(ROTATIONS, READS)
        if rotations is None:
            rotations = self._rotations(inputs, torch.Generator().manual_seed(self.seed)).to(key.device)
        exact = torch.float64 if key.dtype == torch.float64 else torch.float32
        return buckets_by_rotation(key, rotations.to(exact), self.buckets)

    def _rounds_that_hold(self, inputs: AttentionInputs) -> Tensor:
        """(B, H, L, S) int64, the number of rounds r with j in P_i^r."""
        queries, keys = inputs.shape[2:]
        buckets = self._sorted_last(inputs, self._buckets(inputs))
        slots = torch.arange(keys, device=buckets.device)
        order = buckets.argsort(dim=-1, stable=True)
        place = torch.empty_like(order).scatter_(-1, order, slots.expand_as(order).contiguous())
        chunks = place // self.chunk  # (B, H, N, S)
        if self.sets == "chunk":  # the chunks of all rounds are one ring
            each = self._chunks(keys)
            chunks = chunks + each * torch.arange(self.rounds, device=chunks.device).view(-1, 1)
            ring = each * self.rounds
            held = torch.zeros(*inputs.shape, dtype=torch.int64, device=buckets.device)
            for own in chunks[..., keys - queries :].unbind(dim=2):
                for other in chunks.unbind(dim=2):
                    back = (own.unsqueeze(-1) - other.unsqueeze(-2)) % ring
                    held += (back <= self._reach(keys)).long() + (back == 0) * (self._times(keys) - 1)
            return held
        back = chunks[..., keys - queries :, None] - chunks[..., None, :]
        alike = buckets[..., keys - queries :, None] == buckets[..., None, :]
        return (alike & (back >= 0) & (back <= self._reach(keys))).sum(dim=2)

    def _sorted_last(self, inputs: AttentionInputs, buckets: Tensor) -> Tensor:
        """The buckets, with slots that may not attend to themselves in an extra last bucket.

        If the other slots of a row fit in one chunk, they all get one bucket, because alone they would not be hashed. The
        released code hashes them.
        """
        if inputs.mask is None or plainly_causal(inputs):
            return buckets
        batch, heads, queries, keys = inputs.shape
        slots = torch.arange(keys, device=buckets.device).view(1, 1, -1)
        rows = torch.arange(batch, device=buckets.device).view(-1, 1, 1)
        own = inputs.mask(
            rows, torch.arange(heads, device=buckets.device).view(1, -1, 1), slots - (keys - queries), slots
        )
        if self.sets == "bucket":
            few = own.expand(*own.shape[:-1], keys).sum(dim=-1, keepdim=True) <= self.chunk
            buckets = buckets.masked_fill(few.unsqueeze(2), 0)
        return buckets.where(own.unsqueeze(2), math.prod(self.buckets))

    def _orders(self, inputs: AttentionInputs) -> list[HashedOrder]:
        """Each round's order."""
        keys = inputs.shape[3]
        length = self._chunks(keys) * self.chunk
        buckets = self._sorted_last(inputs, self._buckets(inputs)).flatten(0, 1)  # (G, N, S)
        slots = torch.arange(keys, device=buckets.device)
        buckets, order = buckets.sort(dim=-1, stable=True)
        places = torch.empty_like(order).scatter_(-1, order, slots.expand_as(order).contiguous())
        order = F.pad(order, (0, length - keys), value=keys - 1)
        reach = self._reach(keys)
        # Before the first chunk of a round comes the last chunk of the previous round; the rounds are a ring.
        ring = order.flatten(1)
        slots = torch.cat((ring[:, ring.shape[1] - reach * self.chunk :], ring), dim=1)
        slots = slots.unfold(1, reach * self.chunk + length, length)
        return [
            HashedOrder(
                slots=slots[:, turn],
                places=places[:, turn],
                buckets=F.pad(buckets[:, turn], (0, length - keys), value=math.prod(self.buckets) + 1),
                chunk=self.chunk,
                reach=reach,
            )
            for turn in range(self.rounds)
        ]

    def _chunks(self, keys: int) -> int:
        """The number of chunks in the order of a round."""
        return -(-filled_length(keys, self.filled) // self.chunk)

    def _ring(self, keys: int) -> int:
        """The number of chunks in the ring: those of all rounds for `sets="chunk"`, else those of one round."""
        return self._chunks(keys) * (self.rounds if self.sets == "chunk" else 1)

    def _reach(self, keys: int) -> int:
        """The number of chunks to look back, at most all others."""
        return min(self.before, self._ring(keys) - 1)

    def _times(self, keys: int) -> int:
        """How often a key of the query's chunk counts in a round."""
        return max(1, self.before - self._ring(keys) + 2) if self.sets == "chunk" else 1


def unit(x: Tensor) -> Tensor:
    """Vectors (..., E) of length one, x / |x|, with 1e-6 added to the mean square of their entries as the released code does."""
    width = x.shape[-1]
    return x / (torch.linalg.vector_norm(x, dim=-1, keepdim=True).square() + 1e-6 * width).sqrt()


def sample_rotations(
    width: int, *, heads: int, rounds: int, buckets: Sequence[int], generator: torch.Generator | None = None
) -> Tensor:
    """The random matrices R of the hash, sampled from a standard normal distribution.

    Arguments:
        width: E, of the vectors.
        heads: H; each head has its own matrices.
        rounds: N, the number of hash rounds.
        buckets: as in `buckets_by_rotation`.
        generator: None = torch's default generator.

    Returns:
        (H, E, N, sum(buckets) / 2) float32, on the device of the generator.

    >>> sample_rotations(8, heads=2, rounds=3, buckets=(4, 6)).shape
    torch.Size([2, 8, 3, 5])
    """
    device = None if generator is None else generator.device
    return torch.randn(heads, width, rounds, sum(buckets) // 2, generator=generator, device=device)


def buckets_by_rotation(vectors: Tensor, rotations: Tensor, buckets: Sequence[int]) -> Tensor:
    """The bucket of each vector in each round (Kitaev et al. 2020, section 2, "locality-sensitive hashing").

        h(x) = argmax [x R ; -x R],   R (E, b / 2)

    With several numbers b_1, b_2, ... a vector is hashed once for each, and its bucket is h_1 + b_1 h_2 + ..., one of
    b_1 b_2 ... buckets, with few columns of R. The length of a vector does not matter.

    Arguments:
        vectors: (B, H, S, E).
        rotations: (B, H, E, N, sum(buckets) / 2), or with a B of 1.
        buckets: even numbers.

    Returns:
        (B, H, N, S) int64.

    >>> axes = torch.eye(2).view(1, 1, 2, 1, 2)
    >>> buckets_by_rotation(torch.tensor([[[[3.0, 1.0], [0.0, 0.1], [-1.0, 0.5]]]]), axes, (4,)).tolist()
    [[[[0, 1, 2]]]]
    """
    rounds = rotations.shape[3]
    with torch.no_grad(), torch.autocast(vectors.device.type, enabled=False):
        turned = vectors.to(rotations.dtype) @ rotations.flatten(3)  # (B, H, S, N * columns)
        turned = turned.unflatten(-1, (rounds, -1)).transpose(2, 3)
        found = torch.zeros(turned.shape[:-1], dtype=torch.int64, device=vectors.device)
        first, product = 0, 1
        for count in buckets:
            part = turned[..., first : first + count // 2]
            found += product * _argmax_both_signs(part)
            first += count // 2
            product *= count
    return found


def _argmax_both_signs(x: Tensor) -> Tensor:
    """Argmax [x ; -x] along the last axis: the index of the largest |x|, and its sign."""
    place = x.abs().max(dim=-1, keepdim=True).indices
    return (place + (x.gather(-1, place) < 0) * x.shape[-1]).squeeze(-1)


def usual_buckets(length: int, chunk: int) -> tuple[int, ...]:
    """The usual number of buckets for a length: 2 l / m, rounded to a power of two, so that a bucket holds about half a chunk.

    This is m = 2 l / b of the paper (section 2), solved for b. A number above 2 max(m, sqrt(l / m)) is split into two factors.

    Arguments:
        length: l, the length of the longest text, in tokens.
        chunk: m, in tokens.

    >>> usual_buckets(4096, 64), usual_buckets(65_536, 64), usual_buckets(10, 64)
    ((128,), (32, 64), (2,))
    """
    power = max((2 * (length // chunk)).bit_length() - 1, 1)
    limit = 2 * max(math.isqrt(max(length // chunk, 1)), chunk)
    return (2**power,) if 2**power <= limit else (2 ** (power // 2), 2 ** (power - power // 2))
