"""Models prepared for use: weights of fewer bits, laid out for the processor at hand."""

from regard.prepared.decoder import PreparedDecoder, obstacle
from regard.prepared.precision import BITS, QuantisedPrecision
from regard.prepared.quantised import QuantisedWeights

__all__ = ["BITS", "PreparedDecoder", "QuantisedPrecision", "QuantisedWeights", "obstacle"]
