"""The heart: scores, alignments, masks, positions, and the layers built of them.

An attention *mechanism* (`Attention`) turns queries and keys into weights and weighs values with them. An attention *layer*
(`AttentionLayer`, `MultiHeadAttention`) is linear projections around a mechanism.
"""

from regard.attention.addressing import Addressed
from regard.attention.alignments import Alignment, Soft
from regard.attention.axial import AxialPositions
from regard.attention.chunked import ChunkedAttention
from regard.attention.cosine import Cosine
from regard.attention.hard import Hard
from regard.attention.inputs import AttentionInputs
from regard.attention.keys_values import KeysValues, Room
from regard.attention.lambdas import LambdaAttention, Lambdas, RelativeEmbeddings
from regard.attention.layer import AttentionLayer
from regard.attention.local import Local
from regard.attention.location import Location
from regard.attention.lsh import LSHAttention
from regard.attention.masks import Causal, Dense, Document, Mask, Padding, Window
from regard.attention.mechanism import Attention, Declaration, ScoredAttention
from regard.attention.multi_head import MultiHeadAttention
from regard.attention.positions import LearnedPositions, NoPositions, SinusoidalPositions, positions_of, sinusoids
from regard.attention.relative_buckets import RelativeBias, RelativeDot, buckets_of
from regard.attention.relative_vectors import RelativeAttention, RelativeKeys, RelativeVectors
from regard.attention.scores import Additive, Dot, General, ScaledDot, Score
from regard.attention.shared import SharedAttention

__all__ = [
    "Additive",
    "Addressed",
    "Alignment",
    "Attention",
    "AttentionInputs",
    "AttentionLayer",
    "AxialPositions",
    "Causal",
    "ChunkedAttention",
    "Cosine",
    "Declaration",
    "Dense",
    "Document",
    "Dot",
    "General",
    "Hard",
    "KeysValues",
    "LSHAttention",
    "LambdaAttention",
    "Lambdas",
    "LearnedPositions",
    "Local",
    "Location",
    "Mask",
    "MultiHeadAttention",
    "NoPositions",
    "Padding",
    "RelativeAttention",
    "RelativeBias",
    "RelativeDot",
    "RelativeEmbeddings",
    "RelativeKeys",
    "RelativeVectors",
    "Room",
    "ScaledDot",
    "Score",
    "ScoredAttention",
    "SharedAttention",
    "SinusoidalPositions",
    "Soft",
    "Window",
    "buckets_of",
    "positions_of",
    "sinusoids",
]
