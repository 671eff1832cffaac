"""Models of `transformers` under their default kernel: the weights that their own eager attention gives, the same outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regard
from regard.inspection.patches import Patches

transformers: Any = pytest.importorskip(
    "transformers", reason="looks at models of transformers, which is not installed"
)

VOCABULARY = 60
SMALL = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 40}
TEXT = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SIDES = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
SIDES |= {"encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "d_model": 32, "decoder_start_token_id": 1}

IDS = torch.randint(5, VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(1))
PADDED = torch.tensor([[1] * 9, [1] * 6 + [0] * 3])
READ = {"input_ids": IDS, "attention_mask": PADDED}
PAIR = {**READ, "decoder_input_ids": IDS[:, :5]}
IMAGES = {"pixel_values": torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(2))}
SOUND = {"input_features": torch.randn(2, 8, 20, generator=torch.Generator().manual_seed(3))}

ONE = {"attentions": "*"}
BART = {
    "encoder_attentions": "encoder.*",
    "decoder_attentions": "decoder.*.self_attn",
    "cross_attentions": "decoder.*.encoder_attn",
}
T5 = {
    "encoder_attentions": "encoder.*",
    "decoder_attentions": "decoder.*.SelfAttention",
    "cross_attentions": "decoder.*.EncDecAttention",
}

FAMILIES: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, str]]] = {
    "bert": ("Bert", {**SMALL, **TEXT}, READ, ONE),
    "gpt2": ("GPT2", {"n_embd": 32, "n_layer": 2, "n_head": 4, **TEXT}, READ, ONE),
    "t5": (
        "T5",
        {"d_model": 32, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 1, **TEXT},
        PAIR,
        T5,
    ),
    "vit": ("ViT", {**SMALL, "image_size": 16, "patch_size": 4}, IMAGES, ONE),
    "marian": ("Marian", {**SIDES, **TEXT, "max_position_embeddings": 20}, PAIR, BART),
    "llama": ("Llama", {**SMALL, **TEXT, "num_key_value_heads": 2}, READ, ONE),  # grouped keys, rotary positions
    "gpt_neox": ("GPTNeoX", {**SMALL, **TEXT}, READ, ONE),  # query, key and value in one map, head by head
    "qwen3": ("Qwen3", {**SMALL, **TEXT, "num_key_value_heads": 2, "head_dim": 8}, READ, ONE),
    "distilbert": (
        "DistilBert",
        {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 40, "vocab_size": VOCABULARY},
        READ,
        ONE,
    ),
    # One layer's parameters, used three times.
    "albert": ("Albert", {**SMALL, **TEXT, "num_hidden_layers": 3, "embedding_size": 16}, READ, ONE),
    "whisper": (
        "Whisper",
        {**SIDES, **TEXT, "num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 20},
        {**SOUND, "decoder_input_ids": IDS[:, :5]},
        BART,
    ),
}
EVERY = pytest.mark.parametrize("family", FAMILIES)


@pytest.fixture
def build() -> Callable[[str], nn.Module]:
    """A small model of a family, every parameter drawn anew, so that attention is far from uniform."""

    def of(family: str) -> nn.Module:
        name, settings, _, _ = FAMILIES[family]
        torch.manual_seed(7)
        model = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**settings))
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.3)
        return model.eval()

    return of


def run(model: Any, family: str, **more: Any) -> Any:
    """One forward pass of a family's model."""
    return model(**FAMILIES[family][2], **more)


def eager_weights(model: Any, family: str) -> dict[str, tuple[Tensor, ...]]:
    """What the model itself gives once it is switched to its eager attention."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = run(model, family, output_attentions=True)
    return {name: output[name] for name in FAMILIES[family][3]}


@EVERY
def test_weights_are_those_of_eager_attention_and_the_output_is_untouched(family, build):
    model = build(family)
    with torch.no_grad():
        alone = run(model, family)[0]
        with regard.look(model) as seen:
            looked_at = run(model, family)[0]
    assert model.config._attn_implementation == "sdpa"
    assert torch.equal(alone, looked_at)
    for name, want in eager_weights(model, family).items():
        got = seen.attentions(FAMILIES[family][3][name])
        assert len(got) == len(want) > 0
        for ours, theirs in zip(got, want, strict=True):
            assert ours.shape == theirs.shape
            torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=2e-5)


@EVERY
def test_an_eager_model_is_looked_at_too(family, build):
    model = build(family)
    want = eager_weights(model, family)
    with torch.no_grad(), regard.look(model) as seen:
        run(model, family)
    for name, weights in want.items():
        for ours, theirs in zip(seen.attentions(FAMILIES[family][3][name]), weights, strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("family", ["bert", "llama", "t5"])
def test_bfloat16_is_read_in_float32(family, build):
    model = build(family).bfloat16()
    with torch.no_grad():
        alone = run(model, family)[0]
        with regard.look(model) as seen:
            looked_at = run(model, family)[0]
    assert torch.equal(alone, looked_at)
    for name, want in eager_weights(model, family).items():
        for ours, theirs in zip(seen.attentions(FAMILIES[family][3][name]), want, strict=True):
            assert ours.dtype == torch.float32
            torch.testing.assert_close(ours, theirs.float(), atol=0.06, rtol=0.1)
            own = ours.sum(dim=-1)
            torch.testing.assert_close(own, torch.ones_like(own), atol=1e-5, rtol=0)  # exact of what was recorded


@pytest.mark.parametrize("family", ["bert", "gpt2", "marian"])
def test_training_is_seen_before_dropout_and_not_changed(family, build):
    model = build(family).train()

    def step(look: bool) -> tuple[Tensor, Any]:
        model.zero_grad()
        torch.manual_seed(3)
        if not look:
            run(model, family)[0].square().mean().backward()
            return torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None]), None
        with regard.look(model) as seen:
            run(model, family)[0].square().mean().backward()
        return torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None]), seen

    alone, _ = step(False)
    looked_at, seen = step(True)
    assert torch.equal(alone, looked_at)
    for weights in seen.attentions():
        total = weights.sum(dim=-1)
        torch.testing.assert_close(total, torch.ones_like(total), atol=1e-5, rtol=0)
        assert not weights.requires_grad


def test_checkpointed_layers_are_recorded_once(build):
    model: Any = build("bert").train()
    model.gradient_checkpointing_enable()
    with regard.look(model) as seen:
        run(model, "bert")[0].sum().backward()
    assert [len(calls) for calls in seen.runs[-1].calls.values()] == [1, 1]
    assert seen.addresses == ["encoder.layer.0.attention.self", "encoder.layer.1.attention.self"]


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generation_is_a_run_for_each_step_and_a_written_cache_is_not_misread(cache, build):
    model: Any = build("llama")
    generator: Any = transformers.LlamaForCausalLM(model.config)
    generator.model.load_state_dict(model.state_dict())
    generator.eval()
    settings = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "cache_implementation": cache}
    settings = {name: value for name, value in settings.items() if value != "dynamic"}
    with torch.no_grad():
        alone = generator.generate(IDS[:1], **settings)
        with regard.look(generator) as seen:
            written = generator.generate(IDS[:1], **settings)
    assert torch.equal(alone, written)
    assert len(seen.runs) == 4
    # What each step saw is a row of the map of the whole.
    with torch.no_grad(), regard.look(generator) as whole:
        generator(written[:, :-1])
    for address in whole.addresses:
        full = whole.weights(address)
        for step in range(4):
            last = seen.weights(address, run=step)[:, :, -1]
            place = IDS.shape[1] + step - 1
            torch.testing.assert_close(last[..., : place + 1], full[:, :, place, : place + 1], atol=2e-6, rtol=1e-5)
            assert not last[..., place + 1 :].any()
        # All together they are that map.
        grown = seen.joined().weights(address)
        torch.testing.assert_close(grown[..., : full.shape[-1]], full, atol=2e-6, rtol=1e-5)
        assert not grown[..., full.shape[-1] :].any()
    shown = seen.joined().view(0, tokens=[f"t{place}" for place in range(grown.shape[-1])])
    assert shown.map("model.layers.0.self_attn").query_tokens == tuple(f"t{place}" for place in range(12))


def test_queries_keys_value_norms_and_hidden_states(build):
    model: Any = build("llama")
    with torch.no_grad(), regard.look(model, values=True, hidden=["layers.*.mlp", "layers.1"]) as seen:
        output = run(model, "llama", output_hidden_states=True)
    address = "layers.1.self_attn"
    queries, keys = seen.queries(address), seen.keys(address)
    assert queries.shape == (2, 4, 9, 8)
    assert keys.shape == (2, 4, 9, 8)  # two key heads for four of queries, each repeated before the kernel
    scores = queries @ keys.mT / 8**0.5
    scores = scores.masked_fill(torch.ones(9, 9).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(seen.weights(address)[0], scores.softmax(dim=-1)[0], atol=1e-6, rtol=1e-5)
    layer = model.layers[1]
    read = layer.input_layernorm(output.hidden_states[1])
    values = layer.self_attn.v_proj(read).unflatten(-1, (2, 8)).transpose(1, 2)
    torch.testing.assert_close(seen.value_norms(address), values.norm(dim=-1).repeat_interleave(2, dim=1))
    torch.testing.assert_close(model.norm(seen.hidden("layers.1")), output.hidden_states[2])
    assert seen.hidden("layers.0.mlp").shape == (2, 9, 32)


def test_tokens_stand_beside_the_weights_and_padding_is_left_out(build):
    model = build("bert")
    with torch.no_grad(), regard.look(model) as seen:
        run(model, "bert")
    tokens = [f"t{place}" for place in range(6)] + ["[PAD]"] * 3
    view = seen.view(1, tokens=tokens)
    first = view.map("encoder.layer.0.attention.self")
    assert first.kind == "self"
    assert first.query_tokens == first.key_tokens == tuple(tokens[:6])
    assert first.weights.shape == (4, 6, 6)
    numbered = seen.view(0).map("encoder.layer.0.attention.self")
    assert numbered.key_tokens == tuple(map(str, range(9)))


def test_an_encoder_decoders_sides_are_told_apart(build):
    model = build("marian")
    with torch.no_grad(), regard.look(model) as seen:
        run(model, "marian")
    source, target = [f"s{place}" for place in range(9)], [f"t{place}" for place in range(5)]
    view = seen.view(0, tokens=source, target_tokens=target)
    cross = view.map("decoder.layers.0.encoder_attn")
    assert (cross.kind, cross.query_tokens, cross.key_tokens) == ("cross", tuple(target), tuple(source))
    own = view.map("decoder.layers.0.self_attn")
    assert (own.kind, own.query_tokens) == ("self", tuple(target))
    assert view.map("encoder.layers.0.self_attn").key_tokens == tuple(source)
    same = seen.view(0, tokens=source, target_tokens=target, addresses=["decoder.layers.1.encoder_attn"])
    assert same.addresses == ("decoder.layers.1.encoder_attn",)


def test_chosen_layers_only(build):
    model = build("bert")
    with torch.no_grad(), regard.look(model, ["encoder.layer.1.*"]) as seen:
        run(model, "bert")
    assert seen.addresses == ["encoder.layer.1.attention.self"]
    with pytest.raises(regard.InputError, match="no attention layer is called"), regard.look(model, ["decoder.*"]):
        pass


def test_weights_lie_over_the_image_that_was_read(build, tmp_path):
    model = build("vit")
    with torch.no_grad(), regard.look(model) as seen:
        run(model, "vit")
    image = torch.randint(256, (16, 16, 3), dtype=torch.uint8).numpy()
    view = seen.view(0, image=image, patches=Patches(rows=4, columns=4, first=1))
    shown = view.map("layers.0.attention")
    assert shown.key_patches == shown.query_patches == Patches(rows=4, columns=4, first=1)
    assert len(view.images) == 1
    seen.show(tmp_path / "vit.html", image=image, patches=Patches(rows=4, columns=4, first=1))
    with pytest.raises(regard.InputError, match="belong together"):
        seen.view(0, image=image)
    with pytest.raises(regard.InputError, match="patches end at token 25"):
        seen.view(0, image=image, patches=Patches(rows=5, columns=5, first=1))
