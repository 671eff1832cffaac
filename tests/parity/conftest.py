"""Hugging Face's Marian and Pegasus beside our Transformer."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from regard.layers import Tokens
from regard.models import Transformer, TransformerConfig
from regard.tasks.translation import TranslationTask, Translator
from regard.text import Tokenizer

LINES = ["The dog barks at the  cat.", "Où est-il? 12 €", "a <b> c </d>", "never mind", "été, déjà (vu)!"] * 3


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES, kind="bpe", size=90)


@pytest.fixture
def exported(tokenizer, seeded, randomize) -> Callable[..., Translator]:
    """A translator with every parameter drawn anew, but for the row of padding: first parameters hide swapped names."""

    def make(norm: str, **changes: Any) -> Translator:
        task = TranslationTask(tokenizer, tokenizer)
        sizes: dict[str, Any] = {
            "width": 12,
            "heads": 3,
            "feedforward_width": 10,
            "encoder_layers": 2,
            "decoder_layers": 3,
            "maximum_positions": 40,
            "norm": norm,
        }
        model = randomize(Transformer(TransformerConfig(**(sizes | task.model_settings() | changes))))
        with torch.no_grad():
            model.output.weight[task.target_tokenizer.padding_id].zero_()
        return Translator(model, task)

    return make


@pytest.fixture
def made_elsewhere(tokenizer, generator, tmp_path) -> Callable[..., tuple[Path, nn.Module]]:
    """A folder as `save_pretrained` writes it, every parameter drawn anew, with a tokenizer.json put beside."""
    transformers = pytest.importorskip("transformers")

    def make(family: str, **changes: Any) -> tuple[Path, nn.Module]:
        settings: dict[str, Any] = {
            "vocab_size": tokenizer.size,
            "d_model": 12,
            "encoder_layers": 3,
            "decoder_layers": 2,
            "encoder_attention_heads": 3,
            "decoder_attention_heads": 3,
            "encoder_ffn_dim": 10,
            "decoder_ffn_dim": 10,
            "max_position_embeddings": 40,
            "activation_function": "relu",
            "scale_embedding": True,
            "pad_token_id": tokenizer.padding_id,
            "decoder_start_token_id": tokenizer.start_id,
            "eos_token_id": tokenizer.end_id,
            "forced_eos_token_id": None,
        }
        config = {"marian": transformers.MarianConfig, "pegasus": transformers.PegasusConfig}[family]
        model = transformers.AutoModelForSeq2SeqLM.from_config(config(**(settings | changes))).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.copy_(torch.randn(parameter.shape, generator=generator) / parameter.shape[-1] ** 0.5)
        folder = tmp_path / "elsewhere"
        model.save_pretrained(folder)
        tokenizer.save(folder)
        return folder, model

    return make


@pytest.fixture
def batch(tokenizer, sentences) -> tuple[Tokens, Tokens]:
    """Padded on the right, where Hugging Face counts positions as we do."""
    source = sentences([6, 3, 5], tokenizer.size - 1, seed=1)
    return source, sentences([4, 5, 2], tokenizer.size - 1, seed=2, start=tokenizer.start_id)


def nasty_texts(count: int) -> list[str]:
    """Strings of every plane, of white space, marks that combine, digits, code, and the spellings of special tokens apart."""
    draw = random.Random(7)
    parts = [
        *(
            "a",
            "The",
            " the",
            "'s",
            "'LL",
            "\n",
            "\r\n",
            "\t",
            "  ",
            " ",
            " ",
            "é",
            "é",
            "ﬁ",
            "ß",
            "İ",
            "🙂",
            "👩‍👧",
            "日本",
        ),
        *(
            "12",
            "1234567",
            "٣٤",
            "½",
            "--",
            "...",
            "$x_1$",
            "{}",
            "▁",
            "Ġ",
            "<",
            "|>",
            "\u200b",
            "\ufeff",
            "\x00",
            "\x7f",
        ),
    ]
    found = []
    for _ in range(count):
        text = ""
        for _ in range(draw.randint(0, 12)):
            if draw.random() < 0.7:
                text += draw.choice(parts)
            else:
                place = draw.randrange(0x20000)
                text += "?" if unicodedata.category(chr(place)) == "Cs" else chr(place)
        found.append(text)
    return found


@pytest.fixture
def nasty():
    """So many strings that tokenizers get wrong, always the same."""
    return nasty_texts
