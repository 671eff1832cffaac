"""Many texts through an encoder, in batches of like length: by the model as it is, or by a copy prepared for inference.

`Readers` says which: the copy is made once where it can be, and again where the model has changed.
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
"""Tokens read together by one core: enough for its matrix products, and few enough to stay in its cache."""


class Reader(Protocol):
    """What reads texts given as token ids."""

    @property
    def parallel(self) -> bool:
        """Whether several threads may read at once, each on one core."""
        ...

    def read(self, texts: Sequence[Sequence[int]], layers: Sequence[int]) -> Iterator[Group]:
        """What chosen layers make of some texts; every text is in one group.

        Arguments:
            texts: special tokens included, none empty.
            layers: 0 is the embedding, then the blocks from 1.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PlainReader:
    """The model itself, on a padded batch: whoever looks at it sees it run.

    Arguments:
        model: in evaluation mode.
        padding_id: what fills padding.
    """

    model: TextEncoder | SentenceEncoderModel
    padding_id: int = 0

    @property
    def parallel(self) -> bool:
        """No: a look records what its own thread runs."""
        return False

    def read(self, texts: Sequence[Sequence[int]], layers: Sequence[int]) -> Iterator[Group]:
        """As `Reader`; all texts are one group."""
        device = next(self.model.parameters()).device
        tokens = Tokens.pad(texts, padding_id=self.padding_id, device=device)
        pooled = None
        with torch.no_grad():
            if list(layers) == [len(self.model.layers)]:
                # The forward pass is what a look sees as a run; no logits of a head over the vocabulary are wanted.
                nowhere = torch.zeros(0, dtype=torch.int64, device=device)
                found = self.model(tokens, at=nowhere)
                states, pooled = (found.hidden,), found.pooled
            else:
                every = self.model.hidden_states(tokens)
                states = tuple(every[number] for number in layers)
        counted = counted_of(self.model, tokens)
        yield Group(list(range(len(texts))), states, None if bool(counted.all()) else counted, pooled)


def counted_of(model: nn.Module, tokens: Tokens) -> Tensor:
    """(B, L) bool: the tokens whose vectors a mean is of. All real ones, unless the model's tokens are the letters of words."""
    counted = getattr(getattr(model, "module", model), "counted", None)  # behind `module` where many workers train it
    return tokens.valid if counted is None else counted(tokens)


def batches(lengths: Sequence[int], maximum_tokens: int) -> list[list[int]]:
    """Rows of like length in batches of so many tokens, padding not counted; the longest first, so that none is left till last.

    Within a batch the rows are in their order.

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
    """Read all texts, batch by batch, and hand on what was found.

    On a processor a reader that allows it works in as many threads as PyTorch computes with, each on a core of its own: cores
    that share every operation of a small model wait for each other most of the time. The batches are the same for any number
    of threads, and so is what is found.

    Arguments:
        layers: 0 is the embedding, then the blocks from 1.
        use: gets every group, with rows that count among `texts`; from several threads, but no row twice.
        batch_tokens: tokens read together. It changes memory and speed.
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
        torch.set_num_threads(threads)  # a thread's number is also what later threads begin with


class Readers:
    """The readers of one model.

    Arguments:
        model: in evaluation mode while it is read.
        padding_id: what fills padding.
    """

    def __init__(self, model: TextEncoder | SentenceEncoderModel, padding_id: int) -> None:
        self.model = model
        self._padding_id = padding_id
        self._prepared: dict[Precision, PackedEncoder] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Readers], tuple[TextEncoder | SentenceEncoderModel, int]]:
        """A copy, or one in another process, prepares its own."""
        return (Readers, (self.model, self._padding_id))

    @property
    def plain(self) -> Reader:
        """The model itself."""
        return PlainReader(self.model, self._padding_id)

    def reader(self, precision: str | None = None) -> Reader:
        """What reads texts: a prepared copy of the model, or the model itself where none can be made.

        A model that is looked at, or changed from outside, is read itself, in its own precision: a copy would show nothing, and
        would not be changed.

        Arguments:
            precision: `float32`, `bfloat16`, `int8` or `int4`; the model's own where None.

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
