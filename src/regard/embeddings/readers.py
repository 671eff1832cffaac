"""Which reader a model is read by: prepared once where it can be, and anew where the model has changed."""

from __future__ import annotations

import threading

from regard.embeddings.reading import PlainReader, Reader
from regard.layers import SentenceEncoderModel, TextEncoder
from regard.quantization import PackedEncoder, unsupported_encoder
from regard.quantization.encoder import own_precision
from regard.quantization.linear import Precision, check_precision


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
