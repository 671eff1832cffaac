"""Uses of an encoder's embeddings: features of words, text embeddings, semantic search."""

from regard.embeddings.features import LAYER_NAMES, Features, WordFeatures, features, layer_choice
from regard.embeddings.pooling import Nearest, PoolingMode, nearest, normalised, pool, unit
from regard.embeddings.reading import PlainReader, Reader, Readers, read_all
from regard.embeddings.sentence_transformers import packaged
from regard.layers import LayerChoice, ScalarMix
from regard.quantization.encoder import Group, PackedEncoder
from regard.quantization.linear import PRECISIONS, Precision

__all__ = [
    "LAYER_NAMES",
    "PRECISIONS",
    "Features",
    "Group",
    "LayerChoice",
    "Nearest",
    "PackedEncoder",
    "PlainReader",
    "PoolingMode",
    "Precision",
    "Reader",
    "Readers",
    "ScalarMix",
    "WordFeatures",
    "features",
    "layer_choice",
    "nearest",
    "normalised",
    "packaged",
    "pool",
    "read_all",
    "unit",
]
