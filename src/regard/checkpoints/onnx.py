"""Encoders as ONNX: a graph that other runtimes compute, checked by onnxruntime before it is kept.

The names are those that Hugging Face's optimum and sentence-transformers look for:

    inputs    input_ids, attention_mask, and token_type_ids where the model distinguishes texts   (B, L) int64
    outputs   last_hidden_state (B, L, D) and pooler_output (B, D), or what the head tells: logits; start_logits and end_logits;
              prediction_logits and seq_relationship_logits

B and L are free, up to the model's longest text. attention_mask is 1 at real tokens; padding may be on either side.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.layers import Encoded, TextEncoder, Tokens

FILE = "model.onnx"
LARGEST = 1_900_000_000
"""Bytes of weights that a file of ONNX holds itself; more go into a file next to it."""
TOLERANCE = 1e-4
"""How far onnxruntime may be from the model, relative to the largest number that comes out, in float32."""


def write_onnx(model: nn.Module, path: Path) -> float:
    """Write an encoder as ONNX, and compare what onnxruntime computes with the model itself.

    Texts of 1, 2, 3 and 7 tokens and of the longest length (129 at most) are compared, alone and in batches, with padding.

    Arguments:
        model: of BERT's, RoBERTa's, ELECTRA's, DistilBERT's or ModernBERT's family, or another `TextEncoder`; with any head.

    Returns:
        The largest difference at real tokens, relative to the largest number.

    Raises:
        InputError: for another model; where onnx, onnxscript or onnxruntime is not installed; for a graph that comes to
            something else.
    """
    if not isinstance(model, TextEncoder):
        raise InputError(
            f"a {type(model).__name__} is not written as ONNX: encoders of texts are (BERT, RoBERTa, ELECTRA, DistilBERT, "
            "ModernBERT and the like); leave --format onnx out"
        )
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise InputError(f"writing ONNX needs {error.name}: pip install 'regard[onnx]'") from None
    trained, graph = model.training, _Graph(model)
    graph.eval()
    try:
        given = graph.example(2, min(7, model.config.maximum_positions))
        longest = torch.export.Dim("length", max=model.config.maximum_positions)
        with _quiet():
            torch.onnx.export(
                graph,
                given,
                str(path),
                input_names=graph.inputs,
                output_names=list(graph.outputs),
                dynamic_shapes=({0: torch.export.Dim("batch"), 1: longest},) * len(given),
                dynamo=True,
                external_data=sum(part.numel() * part.element_size() for part in model.parameters()) > LARGEST,
                verbose=False,
            )
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        worst = _difference(graph, session)
    finally:
        model.train(trained)
    if not worst <= TOLERANCE:  # a NaN is no small difference
        raise InputError(
            f"ONNX: onnxruntime differs from the model by {worst:.1e}, more than {TOLERANCE:g}; nothing is kept. Try another "
            "version of onnxruntime or PyTorch"
        )
    return worst


NAMES = {
    "none": {"last_hidden_state": True},
    "masked": {"logits": True},
    "tokens": {"logits": True},
    "replaced": {"logits": True},
    "spans": {"start_logits": True, "end_logits": True},
    "pretraining": {"prediction_logits": True, "seq_relationship_logits": False},
    "next_sentence": {"logits": False},
    "sequence": {"logits": False},
    "choice": {"logits": False},
}
"""What comes out by the head of the model, and whether each is of every token or of the text as a whole."""


class _Graph(nn.Module):
    """An encoder that takes and gives tensors alone.

    Arguments:
        model: the encoder.
    """

    def __init__(self, model: TextEncoder) -> None:
        super().__init__()
        self.model = model
        self.inputs = ["input_ids", "attention_mask", *(["token_type_ids"] if model.config.segments > 1 else [])]
        pooled = {"pooler_output": False} if model.config.head == "none" and model.pooler is not None else {}
        self.outputs: dict[str, bool] = NAMES[model.config.head] | pooled

    def forward(self, ids: Tensor, mask: Tensor, segments: Tensor | None = None) -> tuple[Tensor, ...]:
        """(B, L) int64 each, to what `outputs` names."""
        found: Encoded = self.model(Tokens(ids, mask.bool()), segments)
        if self.model.config.head == "spans" and found.logits is not None:
            return found.logits.unbind(dim=-1)
        told = tuple(each for each in (found.logits, found.next_sentence) if each is not None)
        return told or tuple(each for each in (found.hidden, found.pooled) if each is not None)

    def example(self, batch: int, length: int) -> tuple[Tensor, ...]:
        """Texts of `length` tokens; every second is shorter, padded alternately on the left and the right, in two segments."""
        draw = torch.Generator().manual_seed(length)
        ids = torch.randint(self.model.config.vocabulary, (batch, length), generator=draw)
        mask = torch.ones(batch, length, dtype=torch.int64)
        for row in range(1, batch, 2):
            cut = length // 3
            mask[row, : cut if row % 4 == 1 else 0] = 0
            mask[row, length - cut if row % 4 == 3 else length :] = 0
        given = (ids, mask, (torch.arange(length) >= length // 2).long().expand(batch, length).contiguous())
        return given[: len(self.inputs)]


def _difference(graph: _Graph, session: Any) -> float:
    """Between a graph and what onnxruntime computes, at real tokens and relative to the largest number."""
    longest = min(129, graph.model.config.maximum_positions)
    worst = 0.0
    for batch, length in ((1, 1), (1, longest), (3, 2), (2, 3), (5, 7)):
        given = graph.example(batch, min(length, longest))
        real = given[1].bool()
        found = session.run(None, {name: value.numpy() for name, value in zip(graph.inputs, given, strict=True)})
        with torch.no_grad():
            wanted = graph(*given)
        for one, other, of_tokens in zip(wanted, map(torch.from_numpy, found), graph.outputs.values(), strict=True):
            if one.shape != other.shape:
                raise InputError(f"ONNX: the graph gives {tuple(other.shape)} where the model gives {tuple(one.shape)}")
            apart = (one - other).abs()
            apart = apart[real] if of_tokens else apart
            worst = max(worst, float(apart.max() / one.abs().max().clamp(min=1.0)))
    return worst


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Inside, the exporter does not tell of packages that it does without."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
