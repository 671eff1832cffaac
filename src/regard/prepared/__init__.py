"""Models prepared for use: weights of fewer bits, laid out for the processor at hand."""

from regard.prepared.decoder import PreparedDecoder, decoder_obstacle
from regard.prepared.for_use import ForUse
from regard.prepared.precision import BITS, QuantisedPrecision
from regard.prepared.quantised import QuantisedWeights
from regard.prepared.transformer import PreparedTransformer, transformer_obstacle

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
