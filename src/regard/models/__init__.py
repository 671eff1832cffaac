"""One file per paper: a frozen config and the wiring. Tensors in, tensors out; no strings, no loss, no state.

`MODELS` names every family: a model joins recipes, folders and the contract battery by standing in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from torch import nn

from regard.errors import InputError
from regard.layers import EncoderConfig
from regard.models.attention_stack import AttentionStack, AttentionStackConfig
from regard.models.bahdanau import Bahdanau, BahdanauConfig
from regard.models.bert import Bert, BertConfig
from regard.models.cho import Cho, ChoConfig
from regard.models.convolutional_network import ConvolutionalNetwork, ConvolutionalNetworkConfig
from regard.models.distilbert import DistilBert, DistilBertConfig
from regard.models.elmo import ELMo, ELMoConfig
from regard.models.gnmt import GNMT, GNMTConfig
from regard.models.gpt import GPT, GPTConfig
from regard.models.gpt2 import GPT2, GPT2Config
from regard.models.gpt3 import GPT3, GPT3Config
from regard.models.gpt_classifiers import (
    GPT2Classifier,
    GPT2ClassifierConfig,
    GPT3Classifier,
    GPT3ClassifierConfig,
    GPTClassifier,
    GPTClassifierConfig,
)
from regard.models.han import HAN, HANConfig
from regard.models.infersent import InferSent, InferSentConfig
from regard.models.lambda_network import LambdaNetwork, LambdaNetworkConfig
from regard.models.lecture_network import LectureNetwork, LectureNetworkConfig
from regard.models.lstm_language_model import LSTMLanguageModel, LSTMLanguageModelConfig
from regard.models.lstm_transducer import LSTMTransducer, LSTMTransducerConfig
from regard.models.lstmn import LSTMN, LSTMNConfig
from regard.models.luong import Luong, LuongConfig
from regard.models.music_transformer import MusicTransformer, MusicTransformerConfig
from regard.models.ntm import NTM, NTMConfig
from regard.models.reformer import Reformer, ReformerConfig
from regard.models.show_and_tell import ShowAndTell, ShowAndTellConfig
from regard.models.show_attend_and_tell import ShowAttendAndTell, ShowAttendAndTellConfig
from regard.models.snail import SNAIL, SNAILConfig
from regard.models.sutskever import Sutskever, SutskeverConfig
from regard.models.t5 import T5, T5Config
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.universal_sentence_encoder import (
    USEAveraging,
    USEAveragingConfig,
    USETransformer,
    USETransformerConfig,
)
from regard.models.vit import ViT, ViTConfig
from regard.parts import Part, WithOwn

__all__ = [
    "GNMT",
    "GPT",
    "GPT2",
    "GPT3",
    "HAN",
    "LSTMN",
    "MODELS",
    "NTM",
    "SNAIL",
    "T5",
    "AttentionStack",
    "AttentionStackConfig",
    "Bahdanau",
    "BahdanauConfig",
    "Bert",
    "BertConfig",
    "Cho",
    "ChoConfig",
    "ConvolutionalNetwork",
    "ConvolutionalNetworkConfig",
    "DistilBert",
    "DistilBertConfig",
    "ELMo",
    "ELMoConfig",
    "Family",
    "GNMTConfig",
    "GPT2Classifier",
    "GPT2ClassifierConfig",
    "GPT2Config",
    "GPT3Classifier",
    "GPT3ClassifierConfig",
    "GPT3Config",
    "GPTClassifier",
    "GPTClassifierConfig",
    "GPTConfig",
    "HANConfig",
    "InferSent",
    "InferSentConfig",
    "Interface",
    "LSTMLanguageModel",
    "LSTMLanguageModelConfig",
    "LSTMNConfig",
    "LSTMTransducer",
    "LSTMTransducerConfig",
    "LambdaNetwork",
    "LambdaNetworkConfig",
    "LectureNetwork",
    "LectureNetworkConfig",
    "Luong",
    "LuongConfig",
    "MusicTransformer",
    "MusicTransformerConfig",
    "NTMConfig",
    "Reformer",
    "ReformerConfig",
    "SNAILConfig",
    "ShowAndTell",
    "ShowAndTellConfig",
    "ShowAttendAndTell",
    "ShowAttendAndTellConfig",
    "Sutskever",
    "SutskeverConfig",
    "T5Config",
    "Transformer",
    "TransformerConfig",
    "USEAveraging",
    "USEAveragingConfig",
    "USETransformer",
    "USETransformerConfig",
    "ViT",
    "ViTConfig",
]


Interface = Literal[
    "encoder_decoder",
    "language_model",
    "encoder",
    "whole_text",
    "text_vectors",
    "bidirectional_language_model",
    "captioner",
    "transducer",
    "few_shot",
    "picture_classifier",
]
"""What a model is called with: a source and a target (`regard.layers.Decoder`), one text from its beginning
(`regard.layers.Reader`), one or two texts seen as a whole (`regard.layers.TextEncoder`), these for a class or a number alone
(`regard.layers.WholeTextReader`), which an encoder gives too; or one text for one vector (`regard.layers.VectorReader`), which an
encoder gives too, and which with a head tells a class or a number; or an encoder that also tells every word from those before it,
and from those after it; or pictures to write about (`regard.models.captioning.PictureDecoder`); or vectors
one after another, for one at each step (`regard.layers.Transducer`); or a few labelled pictures and one more
(`regard.layers.FewShotLearner`); or pictures to tell the class of (`regard.layers.PictureClassifier`)."""


ALSO_SERVES: Mapping[Interface, tuple[Interface, ...]] = MappingProxyType(
    {
        "encoder": ("whole_text", "text_vectors"),
        "text_vectors": ("whole_text",),
        "bidirectional_language_model": ("encoder", "whole_text", "text_vectors"),
    }
)
"""What else a model of an interface can be called with."""


@dataclass(frozen=True, slots=True)
class Family:
    """A model's config class, the class it configures, and what that is called with.

    Arguments:
        with_head: the family of the same model with a head in place of its own output; empty for one that has heads itself, or
            can have none.
        spelling: whether it reads words by their letters, for which there is one tokenizer alone.
        sentences: whether it reads a text sentence by sentence, with a token between two of them.
        input_tokens: whether it reads its inputs between tokens of their own, learnt with the task: GPT's start, delimiter and
            extract.
    """

    config: type[Any]
    model: type[nn.Module]
    interface: Interface = "encoder_decoder"
    with_head: str = ""
    input_tokens: bool = False
    sentences: bool = False
    spelling: bool = False

    def serves(self, interface: Interface) -> bool:
        """Whether a model of this family can be called so."""
        return interface in (self.interface, *ALSO_SERVES.get(self.interface, ()))


def _own_family(part: Part) -> Family:
    """The family of a model of the user's own.

    Raises:
        InputError: where the config of a model of whole texts lacks what tasks fill in or ask for.
    """
    config = part.settings["config"]
    if part.settings["interface"] in ("whole_text", "encoder"):
        asked = [name for name in vars(EncoderConfig) if not name.startswith("_")]
        lacking = [name for name in asked if not hasattr(config, name) and name not in config.__dataclass_fields__]
        if lacking:
            raise InputError(
                f"the model {part.name!r} of {part.origin}: {config.__name__} has no {', '.join(lacking)}; a model of whole "
                "texts has them, as fields or properties (regard.layers.EncoderConfig says what each is)"
            )
    return Family(model=part.value, **part.settings)


MODELS: WithOwn[Family] = WithOwn(
    "model",
    {
        AttentionStackConfig.model_type: Family(AttentionStackConfig, AttentionStack, interface="encoder"),
        BahdanauConfig.model_type: Family(BahdanauConfig, Bahdanau),
        BertConfig.model_type: Family(BertConfig, Bert, interface="encoder"),
        DistilBertConfig.model_type: Family(DistilBertConfig, DistilBert, interface="encoder"),
        ChoConfig.model_type: Family(ChoConfig, Cho),
        ConvolutionalNetworkConfig.model_type: Family(
            ConvolutionalNetworkConfig, ConvolutionalNetwork, interface="picture_classifier"
        ),
        ELMoConfig.model_type: Family(ELMoConfig, ELMo, interface="bidirectional_language_model", spelling=True),
        LSTMLanguageModelConfig.model_type: Family(
            LSTMLanguageModelConfig, LSTMLanguageModel, interface="language_model"
        ),
        GPTConfig.model_type: Family(
            GPTConfig, GPT, interface="language_model", with_head=GPTClassifierConfig.model_type
        ),
        GPTClassifierConfig.model_type: Family(
            GPTClassifierConfig, GPTClassifier, interface="whole_text", input_tokens=True
        ),
        GPT2Config.model_type: Family(
            GPT2Config, GPT2, interface="language_model", with_head=GPT2ClassifierConfig.model_type
        ),
        GPT2ClassifierConfig.model_type: Family(
            GPT2ClassifierConfig, GPT2Classifier, interface="whole_text", input_tokens=True
        ),
        GPT3Config.model_type: Family(
            GPT3Config, GPT3, interface="language_model", with_head=GPT3ClassifierConfig.model_type
        ),
        GPT3ClassifierConfig.model_type: Family(
            GPT3ClassifierConfig, GPT3Classifier, interface="whole_text", input_tokens=True
        ),
        LSTMNConfig.model_type: Family(LSTMNConfig, LSTMN, interface="language_model"),
        LSTMTransducerConfig.model_type: Family(LSTMTransducerConfig, LSTMTransducer, interface="transducer"),
        MusicTransformerConfig.model_type: Family(MusicTransformerConfig, MusicTransformer, interface="language_model"),
        NTMConfig.model_type: Family(NTMConfig, NTM, interface="transducer"),
        HANConfig.model_type: Family(HANConfig, HAN, interface="text_vectors", sentences=True),
        InferSentConfig.model_type: Family(InferSentConfig, InferSent, interface="text_vectors"),
        LambdaNetworkConfig.model_type: Family(LambdaNetworkConfig, LambdaNetwork, interface="picture_classifier"),
        LectureNetworkConfig.model_type: Family(LectureNetworkConfig, LectureNetwork, interface="picture_classifier"),
        USETransformerConfig.model_type: Family(USETransformerConfig, USETransformer, interface="text_vectors"),
        USEAveragingConfig.model_type: Family(USEAveragingConfig, USEAveraging, interface="text_vectors"),
        LuongConfig.model_type: Family(LuongConfig, Luong),
        GNMTConfig.model_type: Family(GNMTConfig, GNMT),
        ShowAndTellConfig.model_type: Family(ShowAndTellConfig, ShowAndTell, interface="captioner"),
        ShowAttendAndTellConfig.model_type: Family(ShowAttendAndTellConfig, ShowAttendAndTell, interface="captioner"),
        ReformerConfig.model_type: Family(ReformerConfig, Reformer, interface="language_model"),
        SNAILConfig.model_type: Family(SNAILConfig, SNAIL, interface="few_shot"),
        SutskeverConfig.model_type: Family(SutskeverConfig, Sutskever),
        T5Config.model_type: Family(T5Config, T5),
        TransformerConfig.model_type: Family(TransformerConfig, Transformer),
        ViTConfig.model_type: Family(ViTConfig, ViT, interface="picture_classifier"),
    },
    _own_family,
)
"""By name: the package's, and after them those of the user's own (`regard.parts.model`)."""
