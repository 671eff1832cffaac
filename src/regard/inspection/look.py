"""`regard.look`: see the attention of a model while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from regard.errors import InputError
from regard.inspection.record import Record
from regard.inspection.recorder import Recorder
from regard.tasks.predictor import Predictor


@contextlib.contextmanager
def look(
    model: Predictor[Any] | nn.Module,
    addresses: Sequence[str] | None = None,
    *,
    keep: int | None = None,
    values: bool = False,
    hidden: Sequence[str] = (),
) -> Iterator[Record]:
    """Record the attention of a model inside a `with` block.

    Nothing is slower by more than a few percent, and nothing changes: what is kept is the queries and keys that the model
    computes anyway, and weights are computed from them when they are read. That holds for the modules of other libraries too,
    under the kernels they run by default: whatever calls `scaled_dot_product_attention` or flex attention, torch's own
    multi-head attention, and modules that lay their weights out themselves.

    Arguments:
        model: what `regard.load` gives, or any torch module.
        addresses: which layers, as names or patterns such as `decoder.layers.*.cross_attention`; all where None.
        keep: how many forward passes or searches to keep, the latest. Queries and keys stay in memory as long as they are
            kept, so give a number when looking at a long training run. All where None.
        values: whether to keep what is weighed too, so that `Record.value_norms` can tell how long the values are.
        hidden: modules whose outputs to keep for `Record.hidden`, as names or patterns such as `encoder.layers.*`, where `*`
            stands for what has no dot in it: the layers, not their parts.

    Yields:
        The record, to be read inside the block or after it.

    Raises:
        InputError: for an address that no layer has, or one of this package's models without attention.

    >>> from regard.models import Transformer, TransformerConfig
    >>> from regard.layers import Tokens
    >>> model = Transformer(TransformerConfig(source_vocabulary=9, target_vocabulary=9, width=8, heads=2, encoder_layers=1,
    ...                                       decoder_layers=1))
    >>> with look(model) as seen:
    ...     logits = model(Tokens.pad([[3, 4, 5]]), Tokens.pad([[1, 3]]))
    >>> seen.weights("decoder.layers.0.cross_attention").shape
    torch.Size([1, 2, 2, 3])
    """
    if isinstance(model, Predictor):
        recorder = Recorder(model.model, addresses, keep, values=values, hidden=hidden)
        with model.observing(recorder), recorder.recording():
            yield Record(recorder, model.task)
    elif isinstance(model, nn.Module):
        recorder = Recorder(model, addresses, keep, values=values, hidden=hidden)
        with recorder.recording():
            yield Record(recorder)
    else:
        raise InputError(f"a {type(model).__name__} cannot be looked at; give a loaded model or a torch module")
