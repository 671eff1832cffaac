"""The core of the package: scores, alignments, masks, positions, and the attention layers built from them.

An attention *mechanism* (`Attention`) computes weights from queries and keys, and the weighted sum of values. An attention
*layer* (`AttentionLayer`, `MultiHeadAttention`) adds linear projections to a mechanism.
"""

from typing import TYPE_CHECKING

from regard.attention.alignments import Addressed, Alignment, Hard, Local, Soft
from regard.attention.cache import KeysValues, KVBuffer, KVCache
from regard.attention.inputs import AttentionInputs, Positions
from regard.attention.kernels import BatchInvariant
from regard.attention.lambdas import LambdaAttention, Lambdas, RelativeEmbeddings
from regard.attention.layer import AttentionLayer, MultiHeadAttention, SharedAttention
from regard.attention.lsh import ChunkedAttention, LSHAttention
from regard.attention.masks import Causal, Dense, Document, Mask, Near, Packed, Padding, Rows, Unpadded, Window
from regard.attention.mechanism import Attention, Declaration, ScoredAttention
from regard.attention.positions import (
    AxialPositions,
    LearnedPositions,
    NoPositions,
    Rotary,
    RotaryScaling,
    SinusoidalPositions,
    positions_of,
    sinusoids,
)
from regard.attention.relative import (
    RelativeAttention,
    RelativeBias,
    RelativeDot,
    RelativeKeys,
    RelativeVectors,
    buckets_of,
)
from regard.attention.scores import Additive, Cosine, Dot, General, Location, ScaledDot, Score
from regard.old_names import old_attributes

__all__ = [
    "Additive",
    "Addressed",
    "Alignment",
    "Attention",
    "AttentionInputs",
    "AttentionLayer",
    "AxialPositions",
    "BatchInvariant",
    "Causal",
    "ChunkedAttention",
    "Cosine",
    "Declaration",
    "Dense",
    "Document",
    "Dot",
    "General",
    "Hard",
    "KVBuffer",
    "KVCache",
    "KeysValues",
    "LSHAttention",
    "LambdaAttention",
    "Lambdas",
    "LearnedPositions",
    "Local",
    "Location",
    "Mask",
    "MultiHeadAttention",
    "Near",
    "NoPositions",
    "Packed",
    "Padding",
    "Positions",
    "RelativeAttention",
    "RelativeBias",
    "RelativeDot",
    "RelativeEmbeddings",
    "RelativeKeys",
    "RelativeVectors",
    "Rotary",
    "RotaryScaling",
    "Rows",
    "ScaledDot",
    "Score",
    "ScoredAttention",
    "SharedAttention",
    "SinusoidalPositions",
    "Soft",
    "Unpadded",
    "Window",
    "buckets_of",
    "positions_of",
    "sinusoids",
]

if not TYPE_CHECKING:
    __getattr__ = old_attributes(__name__, {"Room": "KVBuffer"})
