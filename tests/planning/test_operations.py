"""Operations counted by formula against those that PyTorch counts while they are computed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from regard.layers import TextEncoder, Tokens
from regard.models import (
    GPT,
    GPT2,
    GPT3,
    MODELS,
    T5,
    AttentionStack,
    AttentionStackConfig,
    Bert,
    BertConfig,
    Decoder,
    DecoderConfig,
    DistilBert,
    DistilBertConfig,
    Electra,
    ElectraConfig,
    GPT2Config,
    GPT3Config,
    GPTConfig,
    GPTNeoX,
    GPTNeoXConfig,
    Llama,
    LlamaConfig,
    ModernBert,
    ModernBertConfig,
    MusicTransformer,
    MusicTransformerConfig,
    Roberta,
    RobertaConfig,
    T5Config,
    Transformer,
    TransformerConfig,
)
from regard.planning.counting import Shape, count_operations, outline

TWO_HEADS: dict[str, Any] = {"width": 12, "heads": 2, "feedforward_width": 20, "attention_dropout": 0.1}
SIZES: dict[str, Any] = {"width": 12, "heads": 3, "feedforward_width": 20}
DROPS: dict[str, Any] = {"dropout": 0.1, "attention_dropout": 0.1}
BOTH: dict[str, Any] = {"source_vocabulary": 17, "target_vocabulary": 17, "encoder_layers": 2, "decoder_layers": 3}
ROWS, LENGTH, TARGET = 2, 7, 5
TEXT = Shape(rows=ROWS, length=LENGTH)
PAIR = Shape(rows=ROWS, length=LENGTH, target=TARGET)

CASES: dict[str, tuple[nn.Module, Shape]] = {
    "gpt": (GPT(GPTConfig(vocabulary=17, layers=2, **SIZES, **DROPS)), TEXT),
    "gpt2": (GPT2(GPT2Config(vocabulary=17, layers=3, **SIZES, **DROPS)), TEXT),
    "gpt3": (GPT3(GPT3Config(vocabulary=17, layers=2, band=3, **SIZES, **DROPS)), TEXT),
    "bert": (Bert(BertConfig(vocabulary=17, layers=2, head="masked", **SIZES, **DROPS)), TEXT),
    "bert-pretraining": (
        Bert(BertConfig(vocabulary=17, layers=2, head="pretraining", outputs=2, **SIZES, **DROPS)),
        Shape(rows=ROWS, length=LENGTH, predicted=3),
    ),
    "bert-sequence": (Bert(BertConfig(vocabulary=17, layers=2, head="sequence", outputs=4, **SIZES, **DROPS)), TEXT),
    "bert-tokens": (Bert(BertConfig(vocabulary=17, layers=2, head="tokens", outputs=4, **SIZES, **DROPS)), TEXT),
    "distilbert": (DistilBert(DistilBertConfig(vocabulary=17, layers=2, head="masked", **SIZES, **DROPS)), TEXT),
    "roberta": (Roberta(RobertaConfig(vocabulary=17, layers=2, head="sequence", outputs=2, **SIZES, **DROPS)), TEXT),
    "electra": (
        Electra(ElectraConfig(vocabulary=17, layers=2, head="masked", embedding_width=7, **SIZES, **DROPS)),
        TEXT,
    ),
    "modernbert": (
        ModernBert(ModernBertConfig(vocabulary=17, layers=3, head="masked", window=4, **TWO_HEADS)),
        TEXT,
    ),
    "modernbert-sequence": (
        ModernBert(ModernBertConfig(vocabulary=17, layers=2, head="sequence", outputs=3, **TWO_HEADS)),
        TEXT,
    ),
    "electra-replaced": (
        Electra(ElectraConfig(vocabulary=17, layers=2, head="replaced", outputs=1, **SIZES, **DROPS)),
        TEXT,
    ),
    "attention-stack": (
        AttentionStack(AttentionStackConfig(vocabulary=17, layers=2, head="masked", **SIZES, **DROPS)),
        TEXT,
    ),
    "attention-alone": (
        AttentionStack(
            AttentionStackConfig(
                vocabulary=17, layers=2, head="tokens", outputs=3, skips=False, feedforward=False, **SIZES, **DROPS
            )
        ),
        TEXT,
    ),
    "transformer": (Transformer(TransformerConfig(norm="pre", **BOTH, **SIZES, **DROPS)), PAIR),
    "transformer-relative": (
        Transformer(TransformerConfig(positions="relative", relative_distance=4, **BOTH, **SIZES, **DROPS)),
        PAIR,
    ),
    "decoder": (Decoder(DecoderConfig(vocabulary=17, layers=2, positions="relative", **SIZES, **DROPS)), TEXT),
    "gpt-neox": (
        GPTNeoX(GPTNeoXConfig(vocabulary=17, layers=2, rotary_share=0.5, **SIZES, **DROPS)),
        TEXT,
    ),
    "llama": (Llama(LlamaConfig(vocabulary=17, layers=2, key_heads=1, **SIZES, **DROPS)), TEXT),
    "decoder-llama": (
        Decoder(
            DecoderConfig(
                vocabulary=17,
                layers=2,
                positions="rotary",
                norm="rms",
                gated=True,
                key_heads=1,
                bias=False,
                **SIZES,
                **DROPS,
            )
        ),
        TEXT,
    ),
    "music": (MusicTransformer(MusicTransformerConfig(vocabulary=17, layers=2, **SIZES, **DROPS)), TEXT),
    "music-near": (
        MusicTransformer(MusicTransformerConfig(vocabulary=17, layers=2, maximum_distance=3, **SIZES, **DROPS)),
        TEXT,
    ),
    "t5": (T5(T5Config(head_width=5, dropout=0.1, **BOTH, **SIZES)), PAIR),
    "t5-gated": (T5(T5Config(head_width=5, dropout=0.1, gated=True, sharing="inputs", **BOTH, **SIZES)), PAIR),
}
EVERY = pytest.mark.parametrize("name", CASES)


def tokens(length: int) -> Tokens:
    return Tokens.pad([[3 + (i + row) % 9 for i in range(length)] for row in range(ROWS)])


def output_of(model: nn.Module, shape: Shape) -> torch.Tensor:
    source = tokens(LENGTH)
    if shape.target:
        return model(source, tokens(TARGET)).sum()
    if isinstance(model, TextEncoder):
        found = model(source, at=None if shape.predicted is None else torch.arange(int(shape.predicted)))
        return sum(part.sum() for part in (found.logits, found.next_sentence) if part is not None)
    return model(source).sum()


@EVERY
def test_forward_is_what_pytorch_counts(name):
    model, shape = CASES[name]
    model.train()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        output_of(model, shape)
    found = count_operations(model, [shape])
    assert found.exact
    assert found.forward == counter.get_total_flops()


@EVERY
def test_forward_and_backward_is_three_times_as_much(name):
    model, shape = CASES[name]
    model.train()
    with FlopCounterMode(display=False) as counter:
        output_of(model, shape).backward()
    assert count_operations(model, [shape]).training == counter.get_total_flops()


@pytest.mark.parametrize("name", ["gpt2", "bert", "transformer"])
def test_recomputed_blocks_are_what_pytorch_counts(name):
    from regard.training.precision import recompute_blocks

    family = MODELS[CASES[name][0].config.model_type]
    model, shape = family.model(CASES[name][0].config).train(), CASES[name][1]
    recompute_blocks(model)
    with FlopCounterMode(display=False) as counter:
        output_of(model, shape).backward()
    # A block's last product is not needed again, and PyTorch stops before it; the formula counts whole blocks.
    last = sum(
        2 * (shape.target if ".decoder" in f".{place}" else shape.length) * ROWS * module.outer.weight.numel()
        for place, module in model.named_modules()
        if place.endswith(".feedforward")
    )
    found = count_operations(model, [shape])
    assert counter.get_total_flops() in (found.recomputed, found.recomputed - last)


def test_an_outline_counts_as_the_model_does():
    model, shape = CASES["gpt2"]
    assert count_operations(outline(model.config), [shape]) == count_operations(model, [shape])


def test_shapes_add_up_and_times_multiply():
    model, _ = CASES["transformer"]
    one = count_operations(model, [PAIR]).forward
    two = count_operations(model, [Shape(rows=ROWS, length=LENGTH, target=TARGET, times=2), PAIR]).forward
    assert two == 3 * one


def test_the_formula_written_out():
    """2 L (4 n D^2 + 2 n D F + D V) + 4 n L^2 D for a GPT-2, as it stands in the docstring."""
    n, d, f, v, length = 3, 12, 20, 17, 7
    model, _ = CASES["gpt2"]
    expected = 2 * length * (4 * n * d * d + 2 * n * d * f + d * v) + 4 * n * length**2 * d
    assert count_operations(model, [Shape(rows=1, length=length)]).forward == expected


def test_a_recurrent_model_is_estimated_by_its_matrices_and_says_so():
    """PyTorch's counter cannot judge here: it does not see into fused LSTMs."""
    family = MODELS["luong"]
    config = family.config(source_vocabulary=17, target_vocabulary=19, embedding_width=6, hidden_width=8, layers=1)
    found = count_operations(family.model(config), [PAIR])
    gates = 4 * 8
    encoder = gates * (6 + 8)
    decoder = gates * (6 + 8 + 8) + 8 * 8 + 8 * 16 + 19 * 8  # input feeding; general score, combination, output
    assert not found.exact
    assert found.forward == 2 * ROWS * (LENGTH * encoder + TARGET * decoder)
