"""One file per paper: a frozen config and the wiring. Tensors in, tensors out; no strings, no loss, no state.

`MODELS` names every family: a model joins recipes, folders and the contract battery by standing in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from torch import nn

from regard.models.bahdanau import Bahdanau, BahdanauConfig
from regard.models.bert import Bert, BertConfig
from regard.models.cho import Cho, ChoConfig
from regard.models.distilbert import DistilBert, DistilBertConfig
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
from regard.models.lstm_language_model import LSTMLanguageModel, LSTMLanguageModelConfig
from regard.models.luong import Luong, LuongConfig
from regard.models.sutskever import Sutskever, SutskeverConfig
from regard.models.t5 import T5, T5Config
from regard.models.transformer import Transformer, TransformerConfig

__all__ = [
    "GNMT",
    "GPT",
    "GPT2",
    "GPT3",
    "MODELS",
    "T5",
    "Bahdanau",
    "BahdanauConfig",
    "Bert",
    "BertConfig",
    "Cho",
    "ChoConfig",
    "DistilBert",
    "DistilBertConfig",
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
    "Interface",
    "LSTMLanguageModel",
    "LSTMLanguageModelConfig",
    "Luong",
    "LuongConfig",
    "Sutskever",
    "SutskeverConfig",
    "T5Config",
    "Transformer",
    "TransformerConfig",
]


Interface = Literal["encoder_decoder", "language_model", "encoder", "whole_text"]
"""What a model is called with: a source and a target (`regard.layers.Decoder`), one text from its beginning
(`regard.layers.Reader`), one or two texts seen as a whole (`regard.layers.TextEncoder`), or these for a class or a number alone
(`regard.layers.WholeTextReader`), which an encoder gives too."""


@dataclass(frozen=True, slots=True)
class Family:
    """A model's config class, the class it configures, and what that is called with.

    Arguments:
        with_head: the family of the same model with a head in place of its own output; empty for one that has heads itself, or
            can have none.
        input_tokens: whether it reads its inputs between tokens of their own, learnt with the task: GPT's start, delimiter and
            extract.
    """

    config: type[Any]
    model: type[nn.Module]
    interface: Interface = "encoder_decoder"
    with_head: str = ""
    input_tokens: bool = False

    def serves(self, interface: Interface) -> bool:
        """Whether a model of this family can be called so."""
        return interface == self.interface or (interface == "whole_text" and self.interface == "encoder")


MODELS: Mapping[str, Family] = MappingProxyType(
    {
        BahdanauConfig.model_type: Family(BahdanauConfig, Bahdanau),
        BertConfig.model_type: Family(BertConfig, Bert, interface="encoder"),
        DistilBertConfig.model_type: Family(DistilBertConfig, DistilBert, interface="encoder"),
        ChoConfig.model_type: Family(ChoConfig, Cho),
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
        LuongConfig.model_type: Family(LuongConfig, Luong),
        GNMTConfig.model_type: Family(GNMTConfig, GNMT),
        SutskeverConfig.model_type: Family(SutskeverConfig, Sutskever),
        T5Config.model_type: Family(T5Config, T5),
        TransformerConfig.model_type: Family(TransformerConfig, Transformer),
    }
)
