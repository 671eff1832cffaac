"""Models with weights of 8 and 4 bits for use: linear maps, blocks, stacks, and the kernels built for the processor at hand."""

from regard.quantization.linear import BITS, QuantisedPrecision, QuantisedWeights
from regard.quantization.models import (
    ForUse,
    PreparedDecoder,
    PreparedTransformer,
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
