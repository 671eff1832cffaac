"""Export of encoders as ONNX graphs for other runtimes; the result is compared with the model by onnxruntime.

The names are those of Hugging Face's optimum and sentence-transformers:

    inputs    input_ids, attention_mask, and token_type_ids if the model distinguishes texts   (B, L) int64
    outputs   last_hidden_state (B, L, D) and pooler_output (B, D), or the output of the head: logits; start_logits and
              end_logits; prediction_logits and seq_relationship_logits

B and L are variable, up to the model's maximum length. attention_mask is 1 at real tokens; padding can be on either side.
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
"""The maximum number of bytes of weights in the ONNX file; larger weights are written to a file next to it."""
TOLERANCE = 1e-4
"""The maximum difference between onnxruntime and the model, relative to the largest output, in float32."""


def write_onnx(model: nn.Module, path: Path) -> float:
    """Write an encoder as ONNX, and compare what onnxruntime computes with the model itself.

    Texts of 1, 2, 3 and 7 tokens and of the longest length (129 at most) are compared, alone and in batches, with padding.

    Arguments:
        model: a model of BERT's, RoBERTa's, ELECTRA's, DistilBERT's or ModernBERT's family, or another `TextEncoder`; with any
            head.

    Returns:
        The largest difference at real tokens, relative to the largest output.

    Raises:
        InputError: for another model; if onnx, onnxscript or onnxruntime is not installed; for a graph with other results.
    """
    if not isinstance(model, TextEncoder):
        raise InputError(
            f"a {type(model).__name__} cannot be written as ONNX, only text encoders can (BERT, RoBERTa, ELECTRA, DistilBERT, "
            "ModernBERT and similar ones); leave --format onnx out"
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
    if not worst <= TOLERANCE:  # also true for NaN
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
"""The outputs by the head of the model, and whether each is per token (True) or per text (False)."""


class _Graph(nn.Module):
    """An encoder whose inputs and outputs are tensors only.

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
        """The outputs that `outputs` names, from inputs (B, L) int64."""
        found: Encoded = self.model(Tokens(ids, mask.bool()), segments)
        if self.model.config.head == "spans" and found.logits is not None:
            return found.logits.unbind(dim=-1)
        logits = tuple(each for each in (found.logits, found.next_sentence) if each is not None)
        return logits or tuple(each for each in (found.hidden, found.pooled) if each is not None)

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
    """The largest difference between a graph and onnxruntime, at real tokens and relative to the largest output."""
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
                raise InputError(
                    f"ONNX: the graph returns the shape {tuple(other.shape)}, the model {tuple(one.shape)}"
                )
            apart = (one - other).abs()
            apart = apart[real] if of_tokens else apart
            worst = max(worst, float(apart.max() / one.abs().max().clamp(min=1.0)))
    return worst


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """A context in which the exporter prints no warnings about missing optional packages."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
