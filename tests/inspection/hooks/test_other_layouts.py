"""Models of `transformers` that lay attention out in other ways: heads in rows, sinks, bands, blocks, landmarks, caches."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard

transformers: Any = pytest.importorskip(
    "transformers", reason="looks at models of transformers, which is not installed"
)

VOCABULARY = 60
TEXT = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SMALL = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 40}
SIDES = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
SIDES |= {"encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "d_model": 32, "decoder_start_token_id": 1}
LONG = torch.randint(5, VOCABULARY, (3, 32), generator=torch.Generator().manual_seed(1))
IDS = LONG[:, :9]
PAIR = {"input_ids": IDS, "decoder_input_ids": IDS[:, :5]}
BART = {"encoder_attentions": "encoder.*", "decoder_attentions": "decoder.*.self_attn"}
BART |= {"cross_attentions": "decoder.*.encoder_attn"}
ONE = {"attentions": "*"}


def build(name: str, settings: dict[str, Any]) -> Any:
    """A small model, every parameter drawn anew."""
    torch.manual_seed(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(transformers, name)(
            getattr(transformers, re.sub("ForCausalLM$|(?<=Marian)MTModel$|Model$", "", name) + "Config")(**settings)
        )
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


FAMILIES: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, str]]] = {
    # Heads are folded into rows.
    "mvp": ("MvpModel", {**SIDES, **TEXT}, PAIR, BART),
    "fsmt": (
        "FSMTModel",
        {**SIDES, **TEXT, "src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY, "langs": ["a", "b"]},
        PAIR,
        BART,
    ),
    "xglm": (
        "XGLMModel",
        {**TEXT, "num_layers": 2, "attention_heads": 4, "ffn_dim": 40, "d_model": 32},
        {"input_ids": IDS},
        ONE,
    ),
    "groupvit": ("GroupViTTextModel", {**SMALL, **TEXT}, {"input_ids": IDS}, ONE),
    # A sink is part of the softmax and cut off behind it.
    "gpt-oss": (
        "GptOssModel",
        {**SMALL, **TEXT, "num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1},
        {"input_ids": IDS},
        ONE,
    ),
    # A band about the diagonal, and in the decoder heads folded into rows.
    "led": (
        "LEDModel",
        {**SIDES, **TEXT, "attention_window": [4, 4], "max_encoder_position_embeddings": 40},
        {"input_ids": LONG[:, :16], "decoder_input_ids": LONG[:, :5]},
        BART,
    ),
    "longformer": (
        "LongformerModel",
        {**SMALL, **TEXT, "attention_window": [4, 4], "max_position_embeddings": 64},
        {"input_ids": LONG[:, :16]},
        ONE,
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_heads_and_bands_are_laid_out_as_the_model_itself_gives_them(family):
    name, settings, given, patterns = FAMILIES[family]
    model = build(name, settings)
    with torch.no_grad():
        alone = model(**given)[0]
        with regard.look(model) as seen:
            looked_at = model(**given)[0]
        asked = model(**given, output_attentions=True)
    assert torch.equal(alone, looked_at)
    for output, pattern in patterns.items():
        got = seen.attentions(pattern)
        assert len(got) == len(asked[output]) == 2
        for ours, theirs in zip(got, asked[output], strict=True):
            assert ours.shape == theirs.shape
            assert torch.equal(ours, theirs)


def test_what_a_band_and_a_sink_are_is_said():
    name, settings, given, _ = FAMILIES["longformer"]
    model = build(name, settings)
    with torch.no_grad(), regard.look(model) as seen:
        model(**given)
    note = seen.note("encoder.layer.0.attention.self")
    assert note is not None
    assert "(3, 4, 16, 5)" in note
    assert "columns are not places: each query has 5 of its own" in note
    assert note in seen.view(0).note
    name, settings, given, _ = FAMILIES["gpt-oss"]
    model = build(name, settings)
    with torch.no_grad(), regard.look(model) as seen:
        model(**given)
    assert seen.note("layers.0.self_attn") == (
        "9 of the 10 keys of one softmax, from number 0 on: the rows of this part need not add up to 1"
    )
    name, settings, given, _ = FAMILIES["mvp"]
    model = build(name, settings)
    with torch.no_grad(), regard.look(model) as seen:
        model(**given)
    assert [seen.note(address) for address in seen.addresses] == [None] * 6


def test_landmarks_are_put_together_to_the_map_of_all_places():
    settings = {**SMALL, **TEXT, "num_landmarks": 4, "segment_means_seq_len": 32, "max_position_embeddings": 64}
    model = build("NystromformerModel", settings)
    # Without the convolution beside it, what a head gathers is linear in the values: one at a time, they are the map.
    attention = model.encoder.layer[0].attention.self
    attention.conv_kernel_size = None
    with torch.no_grad(), regard.look(model, values=True, hidden=["encoder.layer.0.attention.self"]) as seen:
        model(LONG)
        asked = model(LONG, output_attentions=True).attentions
    address = "encoder.layer.0.attention.self"
    landmarks, whole = seen.weights(address, run=0), seen.weights(f"{address}:2", run=0)
    assert tuple(landmarks.shape) == (3, 4, 4, 32)
    assert tuple(whole.shape) == (3, 4, 32, 32)
    torch.testing.assert_close(whole, asked[0] @ landmarks, atol=1e-6, rtol=1e-5)
    assert seen.note(f"{address}:2", run=0) == (
        "the product of two steps: 32 queries weigh 4 intermediate places, which weigh 32 keys"
    )
    assert seen.note(address, run=0) == f"one of 2 parts that {address} computes: 4 queries, 32 keys"
    with torch.no_grad():
        states = model.embeddings(LONG)
        values = attention.value(states).unflatten(-1, (4, 8)).transpose(1, 2)
    torch.testing.assert_close(
        (whole @ values).transpose(1, 2).flatten(2), seen.hidden(address, run=0), atol=1e-5, rtol=1e-4
    )


def test_blocks_of_queries_are_named_parts_of_the_whole_map():
    settings = {**SMALL, **TEXT, "block_size": 4, "num_random_blocks": 1, "max_position_embeddings": 64}
    settings |= {"sep_token_id": 3}
    model = build("BigBirdModel", settings)
    ids = torch.cat((LONG, LONG), dim=1)
    with torch.no_grad(), regard.look(model) as seen:
        asked = model(ids, output_attentions=True).attentions[0]
    address = "encoder.layer.0.attention.self"
    parts = [name for name in seen.addresses if name.startswith(address)]
    first, last = seen.weights(parts[0]), seen.weights(parts[-1])
    assert torch.equal(first, asked[:, :, :4])
    assert torch.equal(last, asked[:, :, -4:])
    assert seen.note(parts[0]) == f"one of 8 parts that {address} computes: 4 queries, 64 keys"
    # The middle blocks see themselves and their neighbours, one random block, the first block and the last.
    band = seen.weights(parts[2])
    assert tuple(band.shape) == (3, 4, 48, 12)
    assert seen.note(parts[2]) == (
        "12 blocks of 4 queries, one after another; columns are the 12 keys of a query's block, not places; 12 of the 24 keys "
        "of one softmax, from number 4 on: the rows of this part need not add up to 1"
    )
    for block in range(12):
        rows = slice(4 * block, 4 * block + 4)
        want = asked[:, :, 8:-8][:, :, rows, 4 * block + 4 : 4 * block + 16]
        torch.testing.assert_close(band[:, :, rows], want, atol=1e-6, rtol=1e-5)


def test_an_exponential_less_the_logarithm_of_a_sum_is_a_softmax():
    settings = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_attention_heads": 4, "attention_head_size": 8}
    settings |= {"axial_pos_shape": [4, 8], "axial_pos_embds_dim": [16, 16], "feed_forward_size": 40, "num_buckets": 2}
    settings |= {"local_attn_chunk_length": 8, "lsh_attn_chunk_length": 8, "num_hashes": 1, "hash_seed": 3}
    settings |= {"attn_layers": ["local", "lsh"], "is_decoder": True, "max_position_embeddings": 32}
    model = build("ReformerModel", settings)
    with torch.no_grad(), regard.look(model) as seen:
        asked = model(LONG, output_attentions=True).attentions
    for layer, theirs in enumerate(asked):
        address = f"encoder.layers.{layer}.attention.self_attention"
        assert torch.equal(seen.weights(address), theirs.flatten(2, 3))
        assert seen.note(address) == (
            "4 blocks of 8 queries, one after another; columns are the 16 keys of a query's block, not places"
        )


class Talking(nn.Module):
    """Talking heads (Shazeer et al. 2020): heads are mixed before the softmax and after it."""

    def __init__(self, way: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.way = way
        self.mix = nn.Linear(3, 3, bias=False)
        self.convolution = nn.Conv2d(3, 3, 1, bias=False)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        weights = F.dropout((q @ k.mT).softmax(dim=-1), 0.5, self.training)
        if self.way == "linear":
            weights = self.mix(weights.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        elif self.way == "convolution":
            weights = self.convolution(weights)
        else:
            weights = torch.einsum("bhij,gh->bgij", weights, self.mix.weight)
        return weights @ v, weights


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("way", ["linear", "convolution", "einsum"])
def test_talking_heads_are_seen_after_they_were_mixed(way, training):
    q, k, v = torch.randn(3, 2, 3, 5, 4, generator=torch.Generator().manual_seed(1)).unbind()
    model = Talking(way).train(training)
    with torch.no_grad(), regard.look(model) as seen:
        model(q, k[:, :, :4], v[:, :, :4])
    with torch.no_grad():
        want = model.eval()(q, k[:, :, :4], v[:, :, :4])[1]  # before dropout
    torch.testing.assert_close(seen.weights("Talking"), want, atol=1e-6, rtol=1e-5)
    assert seen.note("Talking") == (
        "heads are mixed after the softmax: these are the weights that the values get, which need not add up to 1"
    )


WAYS = ("folded", "heads first", "fairseq", "queries first", "manual", "over queries", "pooled")


class Written(nn.Module):
    """Attention of three heads as people write it."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        (batch, _, width), way = q.shape, self.way
        if way == "pooled":
            return q.sum(dim=-1, keepdim=True).softmax(dim=1).mT @ q
        if way == "over queries":
            return (k @ q.mT).softmax(dim=-2).mT @ k
        if way == "queries first":
            weights = torch.einsum("bihd,bjhd->bihj", q.unflatten(2, (3, -1)), k.unflatten(2, (3, -1))).softmax(dim=-1)
            return torch.einsum("bihj,bjhd->bihd", weights, k.unflatten(2, (3, -1)))
        if way == "fairseq":
            q, k = (x.transpose(0, 1).contiguous().view(-1, batch * 3, width // 3).transpose(0, 1) for x in (q, k))
        elif way == "heads first":
            q, k = (x.unflatten(2, (3, -1)).permute(2, 0, 1, 3).reshape(3 * batch, -1, width // 3) for x in (q, k))
        else:
            q, k = (x.unflatten(2, (3, -1)).transpose(1, 2).reshape(batch * 3, -1, width // 3) for x in (q, k))
        scores = torch.bmm(q, k.mT)
        if way != "manual":
            return torch.bmm(scores.softmax(dim=-1), k)
        exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        return torch.bmm(exponentials / exponentials.sum(dim=-1, keepdim=True), k)


@pytest.mark.parametrize("way", WAYS)
def test_heads_folded_into_rows_by_hand_are_told_from_rows(way):
    generator = torch.Generator().manual_seed(2)
    q, k = torch.randn(2, 5, 12, generator=generator), torch.randn(2, 4, 12, generator=generator)
    with regard.look(Written(way)) as seen:
        seen.recorder.module(q, k)
    if way == "pooled":
        want = q.sum(dim=-1).softmax(dim=-1)[:, None, None]
    elif way == "over queries":
        want = (q @ k.mT).softmax(dim=-1)[:, None]
    else:
        want = torch.einsum("bihd,bjhd->bhij", q.unflatten(2, (3, -1)), k.unflatten(2, (3, -1))).softmax(dim=-1)
    torch.testing.assert_close(seen.weights("Written"), want, atol=1e-6, rtol=1e-5)
    assert seen.note("Written") is None


def test_heads_folded_into_rows_before_the_fused_kernel():
    class Folded(nn.Module):
        def forward(self, q: Tensor, mask: Tensor) -> Tensor:
            rows = q.unflatten(2, (3, -1)).transpose(1, 2).reshape(6, -1, 4)
            return F.scaled_dot_product_attention(rows, rows, rows, attn_mask=mask)

    q = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(2))
    heads = q.unflatten(2, (3, -1)).transpose(1, 2)
    for mask in (torch.randn(6, 5, 5), torch.randn(5, 5)):
        with regard.look(Folded(), values=True) as seen:
            output = seen.recorder.module(q, mask)
        bias = mask.reshape(2, 3, 5, 5) if mask.dim() == 3 else mask
        want = (heads @ heads.mT / 2 + bias).softmax(dim=-1)
        torch.testing.assert_close(seen.weights("Folded"), want, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(seen.head_outputs("Folded").flatten(0, 1), output, atol=1e-6, rtol=1e-5)


def test_why_nothing_was_seen_is_said():
    class Rolled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.roll((x @ x.mT).softmax(dim=-1), 1, dims=-1) @ x

    class Sigmoid(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x @ x.mT).sigmoid() @ x

    for model, said in (
        (Rolled(), r"a softmax of shape \(2, 5, 5\) was computed, but it goes into torch's roll"),
        (Sigmoid(), "nor a softmax over places"),
    ):
        with regard.look(model) as seen:
            model(torch.randn(2, 5, 3))
        with pytest.raises(regard.InputError, match=said):
            seen.attentions()


def mistral(**more: Any) -> Any:
    """A small Mistral whose text is longer than its window."""
    settings = {**SMALL, **TEXT, "num_key_value_heads": 2, "sliding_window": 4, "max_position_embeddings": 40, **more}
    return build("MistralForCausalLM", settings)


def build_causal(name: str) -> Any:
    """A small decoder without a window."""
    return build(name, {**SMALL, **TEXT, "num_key_value_heads": 2, "max_position_embeddings": 40})


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("prompt", [2, 9])
def test_a_cache_that_slides_is_joined_to_the_map_of_the_whole(kernel, cache, prompt):
    model = mistral()
    model.set_attn_implementation(kernel)
    settings = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
    settings |= {"cache_implementation": cache} if cache == "static" else {}
    with torch.no_grad():
        with regard.look(model) as seen:
            written = model.generate(IDS[:, :prompt], **settings)
        with regard.look(model) as whole:
            model(written[:, :-1])
    for address in whole.addresses:
        full, grown = whole.weights(address), seen.joined().weights(address)
        torch.testing.assert_close(grown[..., : full.shape[-1]], full, atol=2e-6, rtol=1e-5)
        assert not grown[..., full.shape[-1] :].any()


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_rows_of_a_beam_search_are_followed_where_it_is_said_how(kernel):
    model = build_causal("LlamaForCausalLM")
    model.set_attn_implementation(kernel)
    settings = {"max_new_tokens": 6, "num_beams": 3, "num_return_sequences": 2, "do_sample": False}
    settings |= {"return_dict_in_generate": True, "output_scores": True}
    with torch.no_grad(), regard.look(model) as seen:
        answer = model.generate(IDS[:2], **settings)
    assert any(len(set(row.tolist())) > 1 for row in answer.beam_indices)  # or nothing is shown here
    with pytest.raises(regard.InputError, match="rows changed places between passes, as in a beam search"):
        seen.joined()
    joined = seen.joined(rows=answer.beam_indices)
    for row, text in enumerate(answer.sequences):
        # The rows are padded behind their end; the last token was never read.
        length = IDS.shape[1] + int((answer.beam_indices[row] >= 0).sum()) - 1
        with torch.no_grad(), regard.look(model) as whole:
            model(text[None, :length])
        for address in whole.addresses:
            full = whole.weights(address)
            grown = joined.weights(address, rows=[row])
            torch.testing.assert_close(grown[:, :, :length, :length], full, atol=2e-6, rtol=1e-5)
            assert not grown[:, :, length:].any()
            assert torch.equal(joined.weights(address)[row : row + 1], grown)
    with pytest.raises(regard.InputError, match="does not continue as rows says"):
        seen.joined(rows=answer.beam_indices.roll(1, 0).roll(1, 1).clamp(min=0))
    with pytest.raises(regard.InputError, match="0 to 5 or -1"):
        seen.joined(rows=answer.beam_indices + 7)


def test_an_encoder_decoders_beams_are_followed_on_both_sides():
    model = build("MarianMTModel", {**SIDES, **TEXT, "max_position_embeddings": 40})
    settings = {"max_new_tokens": 6, "min_new_tokens": 6, "num_beams": 3, "do_sample": False}
    settings |= {"return_dict_in_generate": True, "output_scores": True}
    with torch.no_grad(), regard.look(model) as seen:
        answer = model.generate(IDS, **settings)
    joined = seen.joined(rows=answer.beam_indices)
    with torch.no_grad(), regard.look(model) as whole:
        model(input_ids=IDS, decoder_input_ids=answer.sequences[:, :-1])
    for address in whole.addresses:
        torch.testing.assert_close(joined.weights(address), whole.weights(address), atol=2e-6, rtol=1e-5)


def test_a_generation_without_a_cache_is_not_joined():
    model = build_causal("LlamaForCausalLM")
    with torch.no_grad(), regard.look(model) as seen:
        model.generate(IDS, max_new_tokens=3, min_new_tokens=3, do_sample=False, use_cache=False)
    with pytest.raises(regard.InputError, match="without a cache, so the last run is the whole map already"):
        seen.joined()
