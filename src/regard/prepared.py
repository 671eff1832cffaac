"""The old name of `regard.quantization`, for one release."""

from __future__ import annotations

import warnings

from regard.quantization import (
    BITS,
    ForUse,
    PreparedDecoder,
    PreparedTransformer,
    QuantisedPrecision,
    QuantisedWeights,
    decoder_obstacle,
    transformer_obstacle,
)

__all__ = [
    "BITS",
    "ForUse",
    "PreparedDecoder",
    "PreparedTransformer",
    "QuantisedPrecision",
    "QuantisedWeights",
    "decoder_obstacle",
    "transformer_obstacle",
]

warnings.warn("regard.prepared is called regard.quantization; use that name", DeprecationWarning, stacklevel=2)
