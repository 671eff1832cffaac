"""The model families by name, and the inputs of each. The module of a family is imported when its classes are first used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from torch import nn

from regard.errors import InputError
from regard.layers import EncoderConfig
from regard.parts import Part, WithOwn

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
    "image_classifier",
]
"""The interfaces of models, that is the inputs and outputs of each kind:

- `encoder_decoder`: a source and a target (`regard.layers.Decoder`);
- `language_model`: one text from its beginning (`regard.layers.CausalLM`);
- `encoder`: one or two texts, each token with its context on both sides (`regard.layers.TextEncoder`);
- `whole_text`: one or two texts in, a class or a number out (`regard.layers.SequenceClassifier`); an encoder has this one too;
- `text_vectors`: one text in, one vector out, or with a head a class or a number (`regard.layers.SentenceEncoderModel`); an
  encoder has this one too;
- `bidirectional_language_model`: an encoder that also predicts every word from the words before it, and from those after it;
- `captioner`: images in, captions out (`regard.models.captioning.ImageDecoder`);
- `transducer`: a sequence of vectors in, one vector out for each step (`regard.layers.Transducer`);
- `few_shot`: a few labelled images and one without label in, its class out (`regard.layers.FewShotLearner`);
- `image_classifier`: images in, classes out (`regard.layers.ImageClassifier`)."""


ALSO_SERVES: Mapping[Interface, tuple[Interface, ...]] = MappingProxyType(
    {
        "encoder": ("whole_text", "text_vectors"),
        "text_vectors": ("whole_text",),
        "bidirectional_language_model": ("encoder", "whole_text", "text_vectors"),
    }
)
"""The further interfaces that a model of an interface has."""


@dataclass(frozen=True, slots=True)
class Family:
    """The two classes of a family, the model and its config, and the interface of the model.

    Arguments:
        home: "module:Class" of the model, imported on first use; the config class is `ClassConfig` in the same module. Or the two
            classes themselves, the model first.
        with_head: the family of the same model with a task head in place of its output; empty if the family has heads itself or
            can have none.
        spelling: whether it reads words as characters; then only the tokenizer `spelling` fits.
        sentences: whether it reads a text sentence by sentence, with a separator token between two sentences.
        input_tokens: whether its inputs have special tokens that are learned with the task: GPT's start, delimiter and extract.
    """

    home: str | tuple[type[nn.Module], type[Any]]
    interface: Interface = "encoder_decoder"
    with_head: str = ""
    input_tokens: bool = False
    sentences: bool = False
    spelling: bool = False

    @property
    def model(self) -> type[Any]:
        """The class of the model."""
        return self._class("") if isinstance(self.home, str) else self.home[0]

    @property
    def config(self) -> type[Any]:
        """The class of the config, a frozen dataclass."""
        return self._class("Config") if isinstance(self.home, str) else self.home[1]

    def _class(self, suffix: str) -> type[Any]:
        module, _, name = str(self.home).partition(":")
        return getattr(importlib.import_module(module), name + suffix)

    def serves(self, interface: Interface) -> bool:
        """Whether a model of this family has the given interface."""
        return interface in (self.interface, *ALSO_SERVES.get(self.interface, ()))


def _own_family(part: Part) -> Family:
    """The family of a model that the user defined.

    Raises:
        InputError: if the config of a model of whole texts lacks fields that tasks fill in or read.
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
    return Family((part.value, config), **{name: said for name, said in part.settings.items() if name != "config"})


MODELS: WithOwn[Family] = WithOwn(
    "model",
    {
        "attention_stack": Family("regard.models.attention_stack:AttentionStack", interface="encoder"),
        "bahdanau": Family("regard.models.bahdanau:Bahdanau"),
        "bert": Family("regard.models.bert:Bert", interface="encoder"),
        "decoder": Family("regard.models.decoder:Decoder", interface="language_model"),
        "distilbert": Family("regard.models.bert:DistilBert", interface="encoder"),
        "roberta": Family("regard.models.roberta:Roberta", interface="encoder"),
        "xlm_roberta": Family("regard.models.roberta:XLMRoberta", interface="encoder"),
        "electra": Family("regard.models.electra:Electra", interface="encoder"),
        "modernbert": Family("regard.models.modernbert:ModernBert", interface="encoder"),
        "cho": Family("regard.models.cho:Cho"),
        "convolutional_network": Family(
            "regard.models.lambda_network:ConvolutionalNetwork", interface="image_classifier"
        ),
        "elmo": Family("regard.models.elmo:ELMo", interface="bidirectional_language_model", spelling=True),
        "lstm_language_model": Family(
            "regard.models.lstm_language_model:LSTMLanguageModel", interface="language_model"
        ),
        "gpt": Family("regard.models.gpt:GPT", interface="language_model", with_head="gpt_classifier"),
        "gpt_classifier": Family(
            "regard.models.gpt_classifiers:GPTClassifier", interface="whole_text", input_tokens=True
        ),
        "gpt2": Family("regard.models.gpt:GPT2", interface="language_model", with_head="gpt2_classifier"),
        "gpt2_classifier": Family(
            "regard.models.gpt_classifiers:GPT2Classifier", interface="whole_text", input_tokens=True
        ),
        "gpt3": Family("regard.models.gpt:GPT3", interface="language_model", with_head="gpt3_classifier"),
        "gpt3_classifier": Family(
            "regard.models.gpt_classifiers:GPT3Classifier", interface="whole_text", input_tokens=True
        ),
        "gpt_neox": Family("regard.models.gpt_neox:GPTNeoX", interface="language_model"),
        "llama": Family("regard.models.llama:Llama", interface="language_model", with_head="llama_classifier"),
        "llama_classifier": Family(
            "regard.models.llama_classifier:LlamaClassifier", interface="whole_text", input_tokens=True
        ),
        "lstmn": Family("regard.models.lstmn:LSTMN", interface="language_model"),
        "lstm_transducer": Family("regard.models.ntm:LSTMTransducer", interface="transducer"),
        "music_transformer": Family("regard.models.music_transformer:MusicTransformer", interface="language_model"),
        "ntm": Family("regard.models.ntm:NTM", interface="transducer"),
        "han": Family("regard.models.han:HAN", interface="text_vectors", sentences=True),
        "infersent": Family("regard.models.infersent:InferSent", interface="text_vectors"),
        "lambda_network": Family("regard.models.lambda_network:LambdaNetwork", interface="image_classifier"),
        "lecture_network": Family("regard.models.lecture_network:LectureNetwork", interface="image_classifier"),
        "use_transformer": Family("regard.models.universal_sentence_encoder:USETransformer", interface="text_vectors"),
        "use_averaging": Family("regard.models.universal_sentence_encoder:USEAveraging", interface="text_vectors"),
        "luong": Family("regard.models.luong:Luong"),
        "gnmt": Family("regard.models.gnmt:GNMT"),
        "show_and_tell": Family("regard.models.show_and_tell:ShowAndTell", interface="captioner"),
        "show_attend_and_tell": Family("regard.models.show_attend_and_tell:ShowAttendAndTell", interface="captioner"),
        "reformer": Family("regard.models.reformer:Reformer", interface="language_model"),
        "snail": Family("regard.models.snail:SNAIL", interface="few_shot"),
        "sutskever": Family("regard.models.sutskever:Sutskever"),
        "t5": Family("regard.models.t5:T5"),
        "transformer": Family("regard.models.transformer:Transformer"),
        "vit": Family("regard.models.vit:ViT", interface="image_classifier"),
    },
    _own_family,
)
"""By name: the package's, and after them those of the user's own (`regard.parts.model`)."""


def is_packaged(model: nn.Module) -> bool:
    """Whether a module is a model of one of the package's families, whose attention is all in `AttentionLayer`s.

    Models for inference that were made from such a model (`regard.quantization`) count too.
    """
    family = MODELS.packaged.get(getattr(getattr(model, "config", None), "model_type", ""))
    return family is not None and (
        type(model) is family.model or getattr(type(model), "all_attention_in_layers", False)
    )
