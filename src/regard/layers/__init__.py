"""What surrounds attention: tokens, decoder state, residuals, feed-forward nets, recurrent readers, embeddings."""

from regard.layers.ancestry import Ancestry
from regard.layers.cells import ChoCell, GatedRecurrentCell, RecurrentCell, ResetAfterCell, TanhCell
from regard.layers.dropout import Dropout
from regard.layers.embeddings import PositionedEmbedding, token_embedding
from regard.layers.feedforward import FeedForward
from regard.layers.lstm import LongShortTermMemoryCell, LSTMStack, LSTMState, LSTMStates
from regard.layers.maxout import maxout
from regard.layers.order import in_order, put_back, reading_order
from regard.layers.output import NEVER, OutputBias, VocabularyOutput
from regard.layers.reader import Reader, ReaderConfig
from regard.layers.recurrent import BidirectionalReader, read
from regard.layers.residual import NormPlacement, Residual
from regard.layers.state import LAST_STEP, SOURCE, TARGET, Decoder, DecoderConfig, DecoderState
from regard.layers.tokens import Tokens

__all__ = [
    "LAST_STEP",
    "NEVER",
    "SOURCE",
    "TARGET",
    "Ancestry",
    "BidirectionalReader",
    "ChoCell",
    "Decoder",
    "DecoderConfig",
    "DecoderState",
    "Dropout",
    "FeedForward",
    "GatedRecurrentCell",
    "LSTMStack",
    "LSTMState",
    "LSTMStates",
    "LongShortTermMemoryCell",
    "NormPlacement",
    "OutputBias",
    "PositionedEmbedding",
    "Reader",
    "ReaderConfig",
    "RecurrentCell",
    "ResetAfterCell",
    "Residual",
    "TanhCell",
    "Tokens",
    "VocabularyOutput",
    "in_order",
    "maxout",
    "put_back",
    "read",
    "reading_order",
    "token_embedding",
]
