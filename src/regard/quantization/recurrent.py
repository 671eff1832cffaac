"""Recurrent translators for inference on a CPU: a decoder with int8 or int4 weights, in which most of the time is spent."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.kernels import Kernels, kernels
from regard.kernels.building import has_bfloat16_products
from regard.layers import Tokens
from regard.models.encoder_decoder import RecurrentEncoderDecoder
from regard.quantization.linear import BITS, Precision, check_precision, inference_copy
from regard.quantization.stack import unsupported_place

R = TypeVar("R", bound=RecurrentEncoderDecoder[Any, Any, Any, Any])


class RoundedEncoder(nn.Module):
    """A recurrent encoder for inference: it computes in bfloat16 where the processor does, and its states are float32.

    Arguments:
        encoder: it is copied.
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        dtype = torch.bfloat16 if has_bfloat16_products() else torch.float32
        self.encoder = copy.deepcopy(encoder).requires_grad_(False).to(dtype).eval()

    def forward(self, source: Tokens) -> Any:
        """As the encoder, with all numbers in float32."""
        return _widened(self.encoder(source))


def _widened(found: Any) -> Any:
    """A tensor, or tuples of tensors in tuples, in float32."""
    return found.float() if isinstance(found, Tensor) else tuple(map(_widened, found))


def quantized_recurrent(model: R, precision: Precision, *, compiled: Kernels | None = None) -> R:
    """A copy of a recurrent encoder-decoder, of the same class, whose decoder has int8 or int4 weights.

    The decoder, which reads its weights again for every token, has linear layers of the precision and computes everything else in
    float32. The encoder is a `RoundedEncoder`.

    Arguments:
        model: on the CPU; it does not change.
        precision: `int8` or `int4`.
        compiled: the kernels; None to build them.

    Raises:
        InputError: for another precision, a model on another device, and a model with hooks.

    >>> from regard.models import Luong, LuongConfig
    >>> model = Luong(LuongConfig(source_vocabulary=9, target_vocabulary=7, embedding_width=4, hidden_width=8)).eval()
    >>> source, start = Tokens.pad([[3, 4, 5, 2]]), torch.tensor([1])
    >>> found, wanted = (each.step(start, each.start(source))[0] for each in (quantized_recurrent(model, "int8"), model))
    >>> (found - wanted).abs().max().item() < 0.1
    True
    """
    precision = check_precision(precision)
    why = "" if precision in BITS else f"a recurrent decoder is quantized to {' or '.join(BITS)}"
    why = why or unsupported_place(model)
    if why:
        raise InputError(f"{precision}: the model cannot be prepared: {why}; use float32 or bfloat16")
    built = kernels() if compiled is None else compiled
    # deepcopy takes a module's entry in the memo as its copy.
    memo: dict[int, Any] = {
        id(model.encoder): RoundedEncoder(model.encoder),
        id(model.decoder): inference_copy(model.decoder, precision, built),
    }
    return copy.deepcopy(model, memo).eval()
