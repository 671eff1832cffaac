"""Models prepared for use: weights of fewer bits, laid out for the processor at hand."""

from regard.prepared.decoder import PreparedDecoder, obstacle
from regard.prepared.precision import BITS, QuantisedPrecision
from regard.prepared.quantised import QuantisedWeights
from regard.prepared.transformer import PreparedTransformer, transformer_obstacle

__all__ = [
    "BITS",
    "PreparedDecoder",
    "PreparedTransformer",
    "QuantisedPrecision",
    "QuantisedWeights",
    "obstacle",
    "transformer_obstacle",
]
