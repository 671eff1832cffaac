"""Logit lens and direct logit attribution: against the model's own logits, and plain loops."""

from __future__ import annotations

import io
import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.errors import InputError
from regard.inspection.analysis import LogitAttribution, LogitLens
from regard.layers import Residual, Tokens
from regard.layers.blocks import adapt
from regard.models import (
    GPT,
    GPT2,
    GPT3,
    T5,
    AttentionStack,
    AttentionStackConfig,
    Bert,
    BertConfig,
    DistilBert,
    DistilBertConfig,
    GPT2Config,
    GPT3Config,
    GPTConfig,
    GPTNeoX,
    GPTNeoXConfig,
    Llama,
    LlamaConfig,
    MusicTransformer,
    MusicTransformerConfig,
    Reformer,
    ReformerConfig,
    T5Config,
    Transformer,
    TransformerConfig,
)
from regard.quantization import InferenceDecoder, InferenceTransformer

TEXT = Tokens.pad([[0, 4, 5, 3, 8, 1], [0, 7, 2, 6]])
SIZES = {"width": 12, "heads": 3, "feedforward_width": 20}
CAUSAL = {"vocabulary": 11, **SIZES, "layers": 2, "maximum_positions": 9}
BOTH = {"source_vocabulary": 11, "target_vocabulary": 11, **SIZES, "encoder_layers": 2, "decoder_layers": 2}


FAMILIES = {
    "gpt": lambda: GPT(GPTConfig(**CAUSAL)),
    "gpt2": lambda: GPT2(GPT2Config(**CAUSAL)),
    "gpt3": lambda: GPT3(GPT3Config(**CAUSAL, band=2)),
    "music_transformer": lambda: MusicTransformer(MusicTransformerConfig(**CAUSAL)),
    "gpt_neox": lambda: GPTNeoX(GPTNeoXConfig(**CAUSAL, rotary_share=0.5)),
    "gpt_neox one after another": lambda: GPTNeoX(GPTNeoXConfig(**CAUSAL, rotary_share=1.0, parallel=False)),
    "llama": lambda: Llama(LlamaConfig(**CAUSAL, key_heads=1, feedforward_bias=True)),
    "llama qwen3": lambda: Llama(
        LlamaConfig(
            **CAUSAL | {"heads": 2}, key_heads=1, query_key_norm=True, tied_output=False, attention_output_bias=True
        )
    ),
    "transformer post": lambda: Transformer(TransformerConfig(**BOTH)),
    "transformer pre": lambda: Transformer(
        TransformerConfig(**BOTH, norm="pre", output_bias="trained", sharing="none")
    ),
    "transformer biased": lambda: Transformer(TransformerConfig(**BOTH, attention_bias=True, positions="learned")),
    "t5": lambda: T5(T5Config(**BOTH, head_width=3)),
    "t5 1.1": lambda: T5(T5Config(**BOTH, head_width=5, gated=True, sharing="inputs", scaled_output=False)),
    "bert": lambda: Bert(BertConfig(**CAUSAL, head="masked")),
    "bert pretraining": lambda: Bert(BertConfig(**CAUSAL, head="pretraining", outputs=2)),
    "bert pruned": lambda: Bert(BertConfig(**CAUSAL, head="masked", pruned_heads=((0, 1),))),
    "distilbert": lambda: DistilBert(DistilBertConfig(**CAUSAL, head="masked")),
    "attention alone": lambda: AttentionStack(AttentionStackConfig(**CAUSAL, head="masked", skips=False, norm="none")),
    "no feed-forward": lambda: AttentionStack(AttentionStackConfig(**CAUSAL, head="masked", feedforward=False)),
}


def redrawn(model: nn.Module, seed: int = 0) -> nn.Module:
    """All weights drawn, those of norms and biases too, so that none is 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            spread = 0.5 if parameter.dim() == 1 else 0.4
            parameter.copy_(spread * torch.randn(parameter.shape, generator=generator) + (parameter.dim() == 1) * 0.7)
    return model.eval()


def logits_of(model: nn.Module, text: Tokens = TEXT) -> torch.Tensor:
    with torch.no_grad():
        two = isinstance(model, Transformer | T5)
        found = model(Tokens.pad([[3, 4, 5, 2], [6, 7]]), text) if two else model(text)
    return found if isinstance(found, torch.Tensor) else found.logits


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("row", [0, 1])
def test_the_parts_sum_to_the_logit(family, row):
    """Of all tokens but padding, 0, whose logit of -10,000 float32 rounds to 1e-3."""
    model = redrawn(FAMILIES[family](), seed=row)
    wanted = logits_of(model)
    for place in (0, 3):
        found = LogitAttribution.of_run(model, lambda: logits_of(model), range(1, 11), row=row, place=place)
        assert torch.tensor(found.logits).float().allclose(wanted[row, place, 1:], atol=1e-4, rtol=1e-5)
        assert found.error < 1e-4
    heads = [part for part in found.parts if part.kind == "head"]
    assert len({part.name for part in found.parts}) == len(found.parts)
    assert all(part.layer in (0, 1) for part in heads)
    assert found.gated is isinstance(model, Bert | DistilBert | AttentionStack)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_lens_after_the_last_block_says_what_the_model_says(family):
    model = redrawn(FAMILIES[family]())
    shares = logits_of(model)[0].softmax(dim=-1)
    found = LogitLens.of_run(model, lambda: logits_of(model), top=11)
    assert len(found.addresses) == 3
    assert found.addresses[0] == "embedding"
    again = torch.zeros(6, 11).scatter(1, torch.tensor(found.ids[-1]), torch.tensor(found.probabilities[-1]))
    assert again.allclose(shares, atol=1e-5)
    assert found.rank[-1].tolist() == [0] * 6
    assert found.predicted.tolist() == shares.argmax(dim=-1).tolist()
    entropy = -(shares * shares.log()).where(shares > 0, 0.0).sum(dim=-1)
    assert torch.tensor(found.entropy[-1]).allclose(entropy, atol=1e-4)


def test_the_lens_below_is_the_end_applied_to_the_stream():
    model = redrawn(GPT2(GPT2Config(**CAUSAL)))
    found = LogitLens.of_run(model, lambda: logits_of(model), top=1)
    with torch.no_grad():
        x = model.embedding(TEXT.ids[:1], torch.arange(6)[None])
        logs = (model.norm(x)[0] @ model.embedding.tokens.weight.T).log_softmax(dim=-1)
    assert found.ids[0, :, 0].tolist() == logs.argmax(dim=-1).tolist()
    for place, token in enumerate(found.predicted.tolist()):
        assert found.rank[0, place] == int((logs[place] > logs[place, token]).sum())
        assert found.predicted_probability[0, place] == pytest.approx(float(logs[place, token].exp()), rel=1e-4)


@given(st.integers(0, 1000), st.sampled_from(["gpt", "gpt2", "gpt_neox", "llama", "bert", "no feed-forward"]))
@settings(max_examples=12, deadline=None)
def test_a_difference_of_logits_is_the_sum_of_the_differences(seed, family):
    model = redrawn(FAMILIES[family](), seed)
    wanted = logits_of(model)[0, 5]
    found = LogitAttribution.of_run(model, lambda: logits_of(model), [4, 7], place=5)
    assert found.difference().sum() == pytest.approx(float(wanted[4] - wanted[7]), abs=2e-4)


def test_a_head_of_the_last_layer_contributes_what_is_lost_without_it_under_the_same_scale():
    """Under the final norm's scale as it was, by hand: u . (g * centred(Wo_h z_h)) / sigma."""
    model = redrawn(GPT2(GPT2Config(**CAUSAL)))
    found = LogitAttribution.of_run(model, lambda: logits_of(model), [4], place=5)
    number = next(n for n, part in enumerate(found.parts) if part.name == "layers.1.attention.head 2")
    kept = []
    hook = model.layers[1].attention.output.register_forward_pre_hook(lambda _, given: kept.append(given[0]))
    logits_of(model)
    hook.remove()
    with torch.no_grad():
        added = model.layers[1].attention.output.weight[:, 8:12] @ kept[0][0, 5, 8:12]
        carried = (added - added.mean()) * found.scales["norm"] * model.norm.weight
        wanted = float(carried @ model.embedding.tokens.weight[4])
    assert found.values[number, 0] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("precision", ["int8", "int4", "bfloat16"])
def test_models_of_few_bits_are_taken_apart_with_their_rounding_as_a_part(precision):
    sizes = {"width": 32, "heads": 2, "feedforward_width": 64, "layers": 2, "maximum_positions": 9}
    model = InferenceDecoder(redrawn(GPT2(GPT2Config(vocabulary=11, **sizes))), precision)
    found = LogitAttribution.of_run(model, lambda: model(TEXT), range(11), place=3)
    assert torch.tensor(found.logits).float().allclose(model(TEXT)[0, 3], atol=1e-4)
    assert found.error < 1e-4
    rounding = sum(
        abs(row).max() for part, row in zip(found.parts, found.values, strict=True) if part.kind == "rounding"
    )
    assert 0 < rounding < 0.2 * abs(found.values).sum()
    assert LogitLens.of_run(model, lambda: model(TEXT)).rank[-1].tolist() == [0] * 6


def test_a_translator_of_few_bits_is_taken_apart():
    sizes = {"width": 32, "heads": 2, "feedforward_width": 64, "encoder_layers": 1, "decoder_layers": 2}
    config = TransformerConfig(source_vocabulary=11, target_vocabulary=11, **sizes)
    model = InferenceTransformer(redrawn(Transformer(config)), "int8")
    assert LogitAttribution.of_run(model, lambda: logits_of(model), [3, 4], place=2).error < 1e-4


def test_adapters_are_part_of_their_heads():
    model = GPT2(GPT2Config(**CAUSAL))
    adapt(model, ["output", "query"], rank=2, alpha=4)
    model = redrawn(model)
    found = LogitAttribution.of_run(model, lambda: logits_of(model), range(11), place=3)
    assert found.error < 1e-4
    assert sum(part.kind == "head" for part in found.parts) == 6


def test_looking_changes_nothing_and_leaves_nothing_behind():
    model = redrawn(GPT2(GPT2Config(**CAUSAL)))
    before, seen = logits_of(model), []
    LogitAttribution.of_run(model, lambda: seen.append(logits_of(model)))
    LogitLens.of_run(model, lambda: seen.append(logits_of(model)))
    assert all(torch.equal(each, before) for each in seen)
    assert all("forward" not in part.__dict__ for part in model.modules())


def test_what_has_no_stream_or_is_misused_is_refused_by_a_sentence():
    model = redrawn(GPT2(GPT2Config(**CAUSAL)))

    def run():
        return logits_of(model)

    config = ReformerConfig(
        vocabulary=11, width=8, heads=2, head_width=4, feedforward_width=16, layers=("lsh",), chunk=4
    )
    for wrong, of, said in (
        (lambda: LogitLens.of_run(model.train(), run), None, "training mode"),
        (lambda: LogitLens.of_run(model.eval(), run, row=2), None, "row 2 of 2"),
        (lambda: LogitLens.of_run(model, run, top=12), None, "size of the vocabulary"),
        (lambda: LogitLens.of_run(model, lambda: None), None, "all its blocks"),
        (lambda: LogitLens.of_run(model, lambda: (run(), run())), None, "more than once"),
        (lambda: LogitAttribution.of_run(model, run, [11]), None, "ids from 0 to 10"),
        (lambda: LogitAttribution.of_run(model, run, place=6), None, "6 tokens are read"),
        (lambda: LogitLens.of_run(nn.Linear(2, 2).eval(), run), None, "no residual stream"),
        (lambda: LogitLens.of_run(Reformer(config).eval(), run), None, "two residual streams"),
        (
            lambda: LogitLens.of_run(Bert(BertConfig(**CAUSAL, head="none")).eval(), run),
            None,
            "no logits over a vocabulary",
        ),
    ):
        del of
        with pytest.raises(InputError, match=said):
            wrong()


def test_a_stream_that_something_else_changes_is_refused():
    model = redrawn(GPT2(GPT2Config(**CAUSAL)))
    own = type("Own", (Residual,), {})
    model.layers[1].attention_residual.__class__ = own
    with pytest.raises(InputError, match="not known to be a sum"):
        LogitAttribution.of_run(model, lambda: logits_of(model))


def test_everything_can_be_saved_as_json_and_printed():
    from rich.console import Console

    model = redrawn(GPT(GPTConfig(**CAUSAL)))
    lens = LogitLens.of_run(model, lambda: logits_of(model), top=2)
    parts = LogitAttribution.of_run(model, lambda: logits_of(model), [1, 2], place=3)
    for each in (lens, parts):
        assert json.loads(json.dumps(each.to_json()))["format_version"] == 1
        Console(width=200, file=io.StringIO()).print(each)
    assert len(lens.to_json()["layers"]) == 3
    assert sum(part["values"][0] for part in parts.to_json()["parts"]) == pytest.approx(parts.logits[0], abs=1e-4)
