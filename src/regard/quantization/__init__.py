"""Weights of 8 and 4 bits, and models laid out for use: decoders, Transformers, and encoders that read without padding."""

from regard.quantization.encoder import PackedEncoder, encoder_obstacle
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
    "PackedEncoder",
    "PreparedDecoder",
    "PreparedTransformer",
    "QuantisedPrecision",
    "QuantisedWeights",
    "decoder_obstacle",
    "encoder_obstacle",
    "transformer_obstacle",
]
