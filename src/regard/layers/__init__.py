"""What surrounds attention: tokens, decoder state, residuals, feed-forward nets, recurrent readers, embeddings."""

from regard.layers.dropout import Dropout
from regard.layers.embeddings import PositionedEmbedding, token_embedding
from regard.layers.feedforward import FeedForward
from regard.layers.maxout import maxout
from regard.layers.recurrent import BidirectionalReader, GatedRecurrentCell
from regard.layers.residual import NormPlacement, Residual
from regard.layers.state import LAST_STEP, SOURCE, TARGET, Decoder, DecoderConfig, DecoderState
from regard.layers.tokens import Tokens

__all__ = [
    "LAST_STEP",
    "SOURCE",
    "TARGET",
    "BidirectionalReader",
    "Decoder",
    "DecoderConfig",
    "DecoderState",
    "Dropout",
    "FeedForward",
    "GatedRecurrentCell",
    "NormPlacement",
    "PositionedEmbedding",
    "Residual",
    "Tokens",
    "maxout",
    "token_embedding",
]
