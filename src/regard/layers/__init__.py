"""What surrounds attention: tokens, decoder state, residuals, feed-forward nets, recurrent readers, embeddings."""

from regard.layers.activations import ACTIVATIONS, Activation
from regard.layers.ancestry import Ancestry
from regard.layers.blocks import CausalBlock, DecoderBlock, EncoderBlock
from regard.layers.causal import CausalConfig, CausalReader, CausalStack, CausalState, CausalTransformer
from regard.layers.causal_classifier import CausalClassifier
from regard.layers.cells import ChoCell, GatedRecurrentCell, RecurrentCell, ResetAfterCell, TanhCell
from regard.layers.character_encoder import CharacterEncoder, Highway
from regard.layers.dropout import Dropout
from regard.layers.embeddings import PositionedEmbedding, token_embedding
from regard.layers.encoder import Encoded, EncoderConfig, TextEmbedding, TextEncoder
from regard.layers.feedforward import ChunkedFeedForward, FeedForward, GatedFeedForward
from regard.layers.few_shot import FewShotConfig, FewShotLearner
from regard.layers.gru import BidirectionalGRU
from regard.layers.heads import FIXED_OUTPUTS, POOLED, HeadKind, PooledHead, Pooler, build_head
from regard.layers.layer_choice import Combination, LayerChoice
from regard.layers.left_to_right import LeftToRight, valid_after
from regard.layers.lstm import LongShortTermMemoryCell, LSTMStack, LSTMState, LSTMStates
from regard.layers.maxout import maxout
from regard.layers.order import in_order, put_back, reading_order
from regard.layers.output import NEVER, OutputBias, Reduction, VocabularyOutput
from regard.layers.patches import PatchEmbedding
from regard.layers.picture_classifier import PictureClassifier, PictureClassifierConfig, Pixels
from regard.layers.picture_encoder import PictureEncoder, halving_blocks, mean_annotation
from regard.layers.pictures import Pictures
from regard.layers.projected_lstm import TwoWayLSTM
from regard.layers.reader import Reader, ReaderConfig
from regard.layers.recurrent import BidirectionalReader, read
from regard.layers.residual import NormPlacement, Residual, Straight
from regard.layers.reversible import Randomness, ReversibleBlock, Seen, through_reversibly
from regard.layers.scalar_mix import ScalarMix
from regard.layers.sentences import SentencesOf
from regard.layers.source import Source
from regard.layers.spelt_words import SpeltWords, spelt_words
from regard.layers.state import LAST_STEP, SOURCE, TARGET, Decoder, DecoderConfig, DecoderState
from regard.layers.tokens import Tokens
from regard.layers.transducer import Transducer, TransducerConfig
from regard.layers.vector_reader import LayeredHead, VectorHead, VectorReader, VectorReaderConfig
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
    "BidirectionalGRU",
    "BidirectionalReader",
    "CausalBlock",
    "CausalClassifier",
    "CausalConfig",
    "CausalReader",
    "CausalStack",
    "CausalState",
    "CausalTransformer",
    "CharacterEncoder",
    "ChoCell",
    "ChunkedFeedForward",
    "Combination",
    "Decoder",
    "DecoderBlock",
    "DecoderConfig",
    "DecoderState",
    "Dropout",
    "Encoded",
    "EncoderBlock",
    "EncoderConfig",
    "FeedForward",
    "FewShotConfig",
    "FewShotLearner",
    "GatedFeedForward",
    "GatedRecurrentCell",
    "HeadKind",
    "Highway",
    "LSTMStack",
    "LSTMState",
    "LSTMStates",
    "LayerChoice",
    "LayeredHead",
    "LeftToRight",
    "LongShortTermMemoryCell",
    "NormPlacement",
    "OutputBias",
    "PatchEmbedding",
    "PictureClassifier",
    "PictureClassifierConfig",
    "PictureEncoder",
    "Pictures",
    "Pixels",
    "PooledHead",
    "Pooler",
    "PositionedEmbedding",
    "Randomness",
    "Reader",
    "ReaderConfig",
    "RecurrentCell",
    "Reduction",
    "ResetAfterCell",
    "Residual",
    "ReversibleBlock",
    "ScalarMix",
    "Seen",
    "SentencesOf",
    "Source",
    "SpeltWords",
    "Straight",
    "TanhCell",
    "TextEmbedding",
    "TextEncoder",
    "Tokens",
    "Transducer",
    "TransducerConfig",
    "TwoWayLSTM",
    "VectorHead",
    "VectorReader",
    "VectorReaderConfig",
    "VocabularyOutput",
    "WholeTextReader",
    "build_head",
    "halving_blocks",
    "in_order",
    "maxout",
    "mean_annotation",
    "put_back",
    "read",
    "reading_order",
    "spelt_words",
    "through_reversibly",
    "token_embedding",
    "valid_after",
]
