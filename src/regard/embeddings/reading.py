"""Encoding many texts in batches of similar length, by the model itself or by a copy prepared for faster inference.

`Readers` chooses between both: the copy is made once if it is supported, and again if the model has changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from regard.layers import SentenceEncoderModel, TextEncoder, Tokens
from regard.quantization import PackedEncoder, unsupported_encoder
from regard.quantization.encoder import Group, own_precision
from regard.quantization.linear import Precision, check_precision

BATCH_TOKENS = 2048
"""Tokens per batch and core: enough for efficient matrix products, and few enough to stay in the core's cache."""


class Reader(Protocol):
    """Computes the vectors of texts given as token ids."""

    @property
    def parallel(self) -> bool:
        """Whether several threads may read at the same time, each on one core."""
        ...

    def read(self, texts: Sequence[Sequence[int]], layers: Sequence[int]) -> Iterator[Group]:
        """The vectors of some texts at the chosen layers; every text is in one group.

        Arguments:
            texts: the token ids of each text, special tokens included; none is empty.
            layers: 0 is the embedding, 1 the first block.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PlainReader:
    """Runs the model itself on a padded batch, so that hooks on the model see the computation.

    Arguments:
        model: the model, in evaluation mode.
        padding_id: the id that fills padding.
    """

    model: TextEncoder | SentenceEncoderModel
    padding_id: int = 0

    @property
    def parallel(self) -> bool:
        """False, because inspection records only the computation in its own thread."""
        return False

    def read(self, texts: Sequence[Sequence[int]], layers: Sequence[int]) -> Iterator[Group]:
        """As `Reader.read`, with all texts in one group."""
        device = next(self.model.parameters()).device
        tokens = Tokens.pad(texts, padding_id=self.padding_id, device=device)
        pooled = None
        with torch.no_grad():
            if list(layers) == [len(self.model.layers)]:
                # Inspection records a forward pass as a run. An empty `at` avoids computing logits over the vocabulary.
                nowhere = torch.zeros(0, dtype=torch.int64, device=device)
                found = self.model(tokens, at=nowhere)
                states, pooled = (found.hidden,), found.pooled
            else:
                every = self.model.hidden_states(tokens)
                states = tuple(every[number] for number in layers)
        counted = counted_of(self.model, tokens)
        yield Group(list(range(len(texts))), states, None if bool(counted.all()) else counted, pooled)


def counted_of(model: nn.Module, tokens: Tokens) -> Tensor:
    """(B, L) bool, True = the token counts in a mean: all real tokens, unless the model's tokens are the letters of words."""
    counted = getattr(getattr(model, "module", model), "counted", None)  # distributed training wraps it in `module`
    return tokens.valid if counted is None else counted(tokens)


def batches(lengths: Sequence[int], maximum_tokens: int) -> list[list[int]]:
    """Batches of rows of similar length, with at most `maximum_tokens` tokens each, not counting padding.

    Batches with long rows come first, which balances work between threads. Within a batch rows keep their order.

    >>> batches([3, 9, 2, 4], maximum_tokens=7)
    [[1], [0, 3], [2]]
    """
    found: list[list[int]] = []
    held = maximum_tokens
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if held + lengths[row] > maximum_tokens:
            found.append([])
            held = 0
        found[-1].append(row)
        held += lengths[row]
    return [sorted(rows) for rows in found]


def read_all(
    reader: Reader,
    texts: Sequence[Sequence[int]],
    layers: Sequence[int],
    use: Callable[[Group], None],
    *,
    batch_tokens: int = BATCH_TOKENS,
) -> None:
    """Read all texts in batches, and pass each result to a function.

    A parallel reader runs in as many threads as PyTorch uses, each on its own core. This is faster than sharing every operation
    of a small model between cores, which would mostly wait for each other. Batches and results do not depend on the number of
    threads.

    Arguments:
        reader: computes the vectors.
        texts: the token ids of each text, special tokens included.
        layers: 0 is the embedding, 1 the first block.
        use: is called with every group, whose rows are indices into `texts`; from several threads, with each row once.
        batch_tokens: tokens per batch, which affects memory and speed.
    """
    chosen = batches([len(text) for text in texts], batch_tokens)

    def one(rows: list[int]) -> None:
        for group in reader.read([texts[row] for row in rows], layers):
            use(Group([rows[place] for place in group.rows], group.states, group.valid, group.pooled))

    threads = torch.get_num_threads()
    if not reader.parallel or threads == 1 or len(chosen) < 2:
        for rows in chosen:
            one(rows)
        return
    try:
        with ThreadPoolExecutor(min(threads, len(chosen)), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for _ in pool.map(one, chosen):
                pass
    finally:
        torch.set_num_threads(threads)  # setting it in one thread also changes the default of later threads


class Readers:
    """The readers of one model.

    Arguments:
        model: the model, in evaluation mode while it is read.
        padding_id: the id that fills padding.
    """

    def __init__(self, model: TextEncoder | SentenceEncoderModel, padding_id: int) -> None:
        self.model = model
        self._padding_id = padding_id
        self._prepared: dict[Precision, PackedEncoder] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Readers], tuple[TextEncoder | SentenceEncoderModel, int]]:
        """Pickle only the model; a copy in another process prepares its own readers."""
        return (Readers, (self.model, self._padding_id))

    @property
    def plain(self) -> Reader:
        """A reader that runs the model itself."""
        return PlainReader(self.model, self._padding_id)

    def reader(self, precision: str | None = None) -> Reader:
        """A reader that runs a prepared copy of the model, or the model itself if a copy is not supported.

        If the model is being inspected or patched, the model itself is used, in its own precision, because hooks and patches
        would not apply to a copy.

        Arguments:
            precision: `float32`, `bfloat16`, `int8` or `int4`; None for the model's own.

        Raises:
            InputError: for an unknown precision.
        """
        wanted = None if precision is None else check_precision(precision)
        if wanted is None:
            wanted = own_precision(self.model)
        if wanted is None or not isinstance(self.model, TextEncoder) or unsupported_encoder(self.model):
            return self.plain
        with self._lock:
            found = self._prepared.get(wanted)
            if found is None or not found.is_of(self.model):
                found = PackedEncoder.of(self.model, wanted)
                self._prepared = {wanted: found}  # one copy of the weights is enough
            return found
