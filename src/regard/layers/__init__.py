"""What surrounds attention: tokens, decoder state, residuals, feed-forward nets, recurrent readers, embeddings."""

from regard.layers.activations import ACTIVATIONS, Activation
from regard.layers.ancestry import Ancestry
from regard.layers.blocks import CausalBlock, DecoderBlock, EncoderBlock
from regard.layers.causal import CausalConfig, CausalState, CausalTransformer
from regard.layers.cells import ChoCell, GatedRecurrentCell, RecurrentCell, ResetAfterCell, TanhCell
from regard.layers.dropout import Dropout
from regard.layers.embeddings import PositionedEmbedding, token_embedding
from regard.layers.encoder import Encoded, EncoderConfig, TextEmbedding, TextEncoder
from regard.layers.feedforward import FeedForward
from regard.layers.heads import FIXED_OUTPUTS, POOLED, HeadKind, Pooler, build_head
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
    "CausalConfig",
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
    "GatedRecurrentCell",
    "HeadKind",
    "LSTMStack",
    "LSTMState",
    "LSTMStates",
    "LongShortTermMemoryCell",
    "NormPlacement",
    "OutputBias",
    "Pooler",
    "PositionedEmbedding",
    "Reader",
    "ReaderConfig",
    "RecurrentCell",
    "ResetAfterCell",
    "Residual",
    "TanhCell",
    "TextEmbedding",
    "TextEncoder",
    "Tokens",
    "VocabularyOutput",
    "build_head",
    "in_order",
    "maxout",
    "put_back",
    "read",
    "reading_order",
    "token_embedding",
]
