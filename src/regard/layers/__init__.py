"""What surrounds attention: tokens, decoder state, residuals, feed-forward nets, recurrent readers, embeddings."""

from regard.layers.activations import ACTIVATIONS, Activation
from regard.layers.ancestry import Ancestry
from regard.layers.blocks import CausalBlock, DecoderBlock, EncoderBlock
from regard.layers.causal import CausalConfig, CausalStack, CausalState, CausalTransformer
from regard.layers.causal_classifier import CausalClassifier
from regard.layers.cells import ChoCell, GatedRecurrentCell, RecurrentCell, ResetAfterCell, TanhCell
from regard.layers.dropout import Dropout
from regard.layers.embeddings import PositionedEmbedding, token_embedding
from regard.layers.encoder import Encoded, EncoderConfig, TextEmbedding, TextEncoder
from regard.layers.feedforward import FeedForward, GatedFeedForward
from regard.layers.heads import FIXED_OUTPUTS, POOLED, HeadKind, PooledHead, Pooler, build_head
from regard.layers.lstm import LongShortTermMemoryCell, LSTMStack, LSTMState, LSTMStates
from regard.layers.maxout import maxout
from regard.layers.order import in_order, put_back, reading_order
from regard.layers.output import NEVER, OutputBias, Reduction, VocabularyOutput
from regard.layers.reader import Reader, ReaderConfig
from regard.layers.recurrent import BidirectionalReader, read
from regard.layers.residual import NormPlacement, Residual
from regard.layers.state import LAST_STEP, SOURCE, TARGET, Decoder, DecoderConfig, DecoderState
from regard.layers.tokens import Tokens
from regard.layers.whole_text import WholeTextReader

__all__ = [
    "ACTIVATIONS",
    "FIXED_OUTPUTS",
    "LAST_STEP",
    "NEVER",
    "POOLED",
    "SOURCE",
    "TARGET",
    "Activation",
    "Ancestry",
    "BidirectionalReader",
    "CausalBlock",
    "CausalClassifier",
    "CausalConfig",
    "CausalStack",
    "CausalState",
    "CausalTransformer",
    "ChoCell",
    "Decoder",
    "DecoderBlock",
    "DecoderConfig",
    "DecoderState",
    "Dropout",
    "Encoded",
    "EncoderBlock",
    "EncoderConfig",
    "FeedForward",
    "GatedFeedForward",
    "GatedRecurrentCell",
    "HeadKind",
    "LSTMStack",
    "LSTMState",
    "LSTMStates",
    "LongShortTermMemoryCell",
    "NormPlacement",
    "OutputBias",
    "PooledHead",
    "Pooler",
    "PositionedEmbedding",
    "Reader",
    "ReaderConfig",
    "RecurrentCell",
    "Reduction",
    "ResetAfterCell",
    "Residual",
    "TanhCell",
    "TextEmbedding",
    "TextEncoder",
    "Tokens",
    "VocabularyOutput",
    "WholeTextReader",
    "build_head",
    "in_order",
    "maxout",
    "put_back",
    "read",
    "reading_order",
    "token_embedding",
]
