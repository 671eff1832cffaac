"""BART is our Transformer with learned positions and normed embeddings: forwards and backwards, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import regard
from regard.checkpoints import parameters_of, read_card
from regard.errors import InputError
from regard.layers import Tokens
from regard.models import Transformer
from regard.quantization import quantized

transformers = pytest.importorskip("transformers")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
SIZES: dict[str, Any] = {
    "d_model": 12,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 10,
    "decoder_ffn_dim": 10,
    "max_position_embeddings": 40,
}

odd = pytest.mark.parametrize(
    "changes",
    [
        {},
        {"scale_embedding": True},
        {"activation_function": "relu", "encoder_layers": 1, "decoder_layers": 4},
        {"activation_function": "silu", "d_model": 15, "encoder_attention_heads": 5, "decoder_attention_heads": 5},
        {"encoder_ffn_dim": 7, "decoder_ffn_dim": 7, "d_model": 9, "encoder_layers": 2, "decoder_layers": 2},
        {"d_model": 8, "encoder_attention_heads": 1, "decoder_attention_heads": 1, "max_position_embeddings": 17},
    ],
    ids=["usual", "scaled", "relu", "silu, odd width", "odd sizes", "one head"],
)


def made(tokenizer, generator, folder: Path, bias: float = 0.0, **changes: Any) -> Any:
    """A folder of theirs, everything drawn anew, norms, biases and the rows before position 0 too."""
    config = transformers.BartConfig(
        vocab_size=tokenizer.size,
        pad_token_id=tokenizer.padding_id,
        bos_token_id=tokenizer.start_id,
        eos_token_id=tokenizer.end_id,
        decoder_start_token_id=tokenizer.start_id,  # the published have the end token, which no tokenizer here starts with
        forced_eos_token_id=None,
        **(SIZES | changes),
    )
    model = transformers.BartForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / parameter.shape[-1] ** 0.5)
        model.final_logits_bias.copy_(bias * torch.randn(model.final_logits_bias.shape, generator=generator))
    model.save_pretrained(folder)
    tokenizer.save(folder)
    return model


def logits(model: Any, source: Tokens, target: Tokens) -> Tensor:
    with torch.no_grad():
        return model(
            input_ids=source.ids,
            attention_mask=source.valid.long(),
            decoder_input_ids=target.ids,
            decoder_attention_mask=target.valid.long(),
        ).logits


def left(tokens: Tokens) -> Tokens:
    """The same sentences, padded on the left."""
    rows = [ids[valid].tolist() for ids, valid in zip(tokens.ids, tokens.valid, strict=True)]
    return Tokens.pad(rows, side="left")


@odd
@pytest.mark.parametrize("bias", [0.0, 1.0], ids=["no bias", "bias"])
def test_a_folder_of_theirs_computes_what_theirs_does(changes, bias, tokenizer, generator, batch, tmp_path):
    model = made(tokenizer, generator, tmp_path / "theirs", bias, **changes)
    ours = regard.load(tmp_path / "theirs")
    assert type(ours.model) is Transformer
    source, target = batch
    wanted = logits(model, source, target)[target.valid]
    with torch.no_grad():
        torch.testing.assert_close(ours.model(source, target)[target.valid], wanted, **CLOSE)
        # Ours may be padded on the left too, where Hugging Face would count other positions.
        moved = ours.model(left(source), left(target))[left(target).valid]
    torch.testing.assert_close(moved, wanted, **CLOSE)


@odd
@pytest.mark.parametrize("bias", [0.0, 1.0], ids=["no bias", "bias"])
def test_it_is_saved_with_the_same_tensors_and_comes_back(changes, bias, tokenizer, generator, tmp_path):
    made(tokenizer, generator, tmp_path / "theirs", bias, **changes)
    ours = regard.load(tmp_path / "theirs")
    ours.save(tmp_path / "ours")
    assert read_card(tmp_path / "ours").layout["name"] == "bart"
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("theirs", "ours"))
    assert all(torch.equal(two[name], tensor) for name, tensor in one.items() if name in two)
    assert one.keys() - two.keys() <= {
        "lm_head.weight",
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
    }
    again = regard.load(tmp_path / "ours")
    assert again.model.config == ours.model.config
    own = parameters_of(ours.model)
    assert all(torch.equal(tensor, own[name]) for name, tensor in parameters_of(again.model).items())
    _, report = transformers.BartForConditionalGeneration.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))


def test_a_step_at_a_time_is_the_whole(tokenizer, generator, batch, tmp_path):
    made(tokenizer, generator, tmp_path / "theirs")
    model = regard.load(tmp_path / "theirs").model
    source, target = batch
    with torch.no_grad():
        whole = model(source, target)
        state = model.start(source)
        for place in range(int(target.valid.sum(dim=1).min())):
            found, state = model.step(target.ids[:, place], state)
            torch.testing.assert_close(found, whole[:, place], **CLOSE)


def test_what_is_another_model_is_refused_by_name(tokenizer, generator, tmp_path):
    made(tokenizer, generator, tmp_path / "theirs", decoder_ffn_dim=11)
    with pytest.raises(InputError, match="decoder_ffn_dim"):
        regard.load(tmp_path / "theirs")


def test_no_embedding_is_quantized_without_its_norm(tokenizer, generator, tmp_path):
    made(tokenizer, generator, tmp_path / "theirs")
    with pytest.raises(InputError, match="embeddings are normed"):
        quantized(regard.load(tmp_path / "theirs").model, "int8")
