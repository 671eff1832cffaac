"""Models for prediction: decoders run in the compiled kernels where these are faster, and predict what they predicted."""

from __future__ import annotations

import pytest
import torch

import regard
from regard.generation import GenerationSettings
from regard.kernels import Kernels, kernels
from regard.models import Transformer, TransformerConfig
from regard.quantization import InferenceDecoder, InferenceTransformer, for_inference
from regard.tasks import Translator
from regard.tasks.loading import load, load_for_inference
from regard.tasks.translation import TranslationTask
from regard.text import Tokenizer

WORDS = ["abc", "bca", "cab", "acb", "bac", "cba"]
SETTINGS = GenerationSettings(beam=3, maximum_length=8)


@pytest.fixture
def translator(tmp_path):
    torch.manual_seed(5)
    tokenizer = Tokenizer.train(WORDS, kind="character", size=20)
    task = TranslationTask(tokenizer, tokenizer)
    sizes = {"width": 64, "heads": 2, "feedforward_width": 64, "encoder_layers": 1, "decoder_layers": 2}
    model = Transformer(TransformerConfig(**sizes, **task.model_settings())).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    Translator(model, task).save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_transformer_translates_as_before(translator, dtype):
    plain, fast = load(translator, dtype=dtype), load_for_inference(translator, dtype=dtype)
    quick = kernels().reads_float32 if dtype == "float32" else kernels().reads_bfloat16
    assert (type(fast.model) is InferenceTransformer) == quick
    assert type(plain.model) is Transformer
    wanted, found = (each.translate_batch(WORDS, SETTINGS) for each in (plain, fast))
    for one, other in zip(found, wanted, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-4 if dtype == "float32" else 0.1)
        if dtype == "float32":
            assert one.text == other.text


def test_a_model_is_left_as_it_is_without_kernels_and_where_they_do_not_fit(translator, monkeypatch):
    relative = Transformer(TransformerConfig(source_vocabulary=9, target_vocabulary=9, positions="relative"))
    assert for_inference(relative, "float32") is None
    monkeypatch.setattr("regard.quantization.models.kernels", lambda: Kernels(None, "there is no compiler"))
    assert type(load_for_inference(translator).model) is Transformer


def test_a_language_model_becomes_a_decoder_for_inference(seeded):
    from regard.models import GPT2, GPT2Config

    sizes = {"vocabulary": 20, "width": 64, "heads": 2, "feedforward_width": 64, "layers": 2}
    model = GPT2(GPT2Config(**sizes)).eval()
    made = for_inference(model, "float32")
    assert (type(made) is InferenceDecoder) == (kernels().library is not None)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_eight_bits_and_half_precision_are_those_of_load(translator):
    assert load_for_inference(translator, dtype="int8").model.precision == "int8"
    assert type(load_for_inference(translator, dtype="float16").model) is Transformer
    with pytest.raises(regard.InputError, match="dtype is 'float8'"):
        load_for_inference(translator, dtype="float8")
