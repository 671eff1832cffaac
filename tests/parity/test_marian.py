"""Marian (post-norm) and Pegasus (pre-norm) are our Transformer under other names: forwards and backwards, exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import regard
from regard.checkpoints import parameters_of, read_card
from regard.checkpoints.layouts import hf_format
from regard.checkpoints.tensors import halved
from regard.generation import GenerationSettings
from regard.layers import NEVER, Tokens
from regard.models import Transformer

transformers = pytest.importorskip("transformers")

FAMILIES = {"marian": "post", "pegasus": "pre"}
CLASSES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
both = pytest.mark.parametrize("family", FAMILIES)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def opened(folder: Path) -> Any:
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()


def theirs(model: Any, source: Tokens, target: Tokens) -> tuple[Tensor, Tensor]:
    """Encoder states and logits of Hugging Face's model."""
    with torch.no_grad():
        found = model(
            input_ids=source.ids,
            attention_mask=source.valid.long(),
            decoder_input_ids=target.ids,
            decoder_attention_mask=target.valid.long(),
        )
    return found.encoder_last_hidden_state, found.logits


def shifted(tokens: Tokens) -> Tokens:
    """The same sentences, padded on the left."""
    rows = [ids[valid].tolist() for ids, valid in zip(tokens.ids, tokens.valid, strict=True)]
    return Tokens.pad(rows, side="left")


# --- ours, opened by them ---------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"attention_bias": True, "output_bias": "none", "activation": "gelu"},
        {"attention_bias": True, "output_bias": "trained", "activation": "swish", "heads": 6},
    ],
    ids=["as trained", "biases", "trained bias"],
)
def test_their_model_computes_what_ours_does(family, changes, exported, batch, tmp_path):
    ours = exported(FAMILIES[family], **changes)
    ours.save(tmp_path / "model")
    model = opened(tmp_path / "model")
    assert type(model).__name__ == CLASSES[family]
    source, target = batch
    states, logits = theirs(model, source, target)
    with torch.no_grad():
        mine = halved(ours.model.encoder(source), axis=2)
        torch.testing.assert_close(mine[source.valid], states[source.valid], **CLOSE)
        torch.testing.assert_close(ours.model(source, target)[target.valid], logits[target.valid], **CLOSE)
        # Ours may be padded on the left too, where Hugging Face would count other positions.
        left = ours.model(shifted(source), shifted(target))[shifted(target).valid]
        torch.testing.assert_close(left, logits[target.valid], **CLOSE)


@both
def test_every_tensor_of_the_file_is_one_they_know_and_none_is_missing(family, exported, tmp_path):
    exported(FAMILIES[family]).save(tmp_path / "model")
    model, report = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    model.save_pretrained(tmp_path / "again")
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("model", "again"))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


@both
def test_a_model_comes_back_bit_for_bit(family, exported, tmp_path):
    ours = exported(FAMILIES[family])
    ours.save(tmp_path / "model")
    loaded = regard.load(tmp_path / "model")
    assert loaded.model.config == ours.model.config
    own = parameters_of(ours.model)
    for name, tensor in parameters_of(loaded.model).items():
        assert torch.equal(tensor, own[name]), name
    assert read_card(tmp_path / "model").layout["name"] == family


@both
def test_names_run_both_ways_and_every_tensor_has_one(family, exported):
    model = exported(FAMILIES[family]).model
    own = parameters_of(model)
    abroad = hf_format(family).tensors_to_hf(model.config, own)
    home = hf_format(family).tensors_from_hf(model.config, abroad, "model.safetensors")
    assert home.keys() == own.keys()
    assert all(torch.equal(home[name], own[name]) for name in own)
    rules = hf_format(family).name_table(model.config).rules
    assert len({rule.theirs for rule in rules}) == len({rule.ours for rule in rules}) == len(rules)


@both
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_kept(family, dtype, exported, tmp_path):
    ours = exported(FAMILIES[family]).to(dtype)
    ours.save(tmp_path / "model")
    assert {tensor.dtype for tensor in load_file(tmp_path / "model" / "model.safetensors").values()} == {dtype}
    loaded = regard.load(tmp_path / "model", dtype=str(dtype).removeprefix("torch."))
    own = parameters_of(ours.model)
    assert all(torch.equal(tensor, own[name]) for name, tensor in parameters_of(loaded.model).items())
    model = opened(tmp_path / "model")
    assert model.dtype == dtype
    assert model.final_logits_bias[0, -1] < -9000


@both
def test_padding_is_ruled_out_there_as_here(family, exported, batch, tmp_path):
    """Its probability is zero in both, so the others' are the same too."""
    ours = exported(FAMILIES[family])
    ours.save(tmp_path / "model")
    _, logits = theirs(opened(tmp_path / "model"), *batch)
    padding = ours.model.config.padding_id
    assert padding == ours.model.config.start_id == logits.shape[-1] - 1
    assert (logits[..., padding] == NEVER).all()
    assert (logits.softmax(dim=-1)[..., padding] == 0).all()
    assert not load_file(tmp_path / "model" / "model.safetensors")["model.shared.weight"][padding].any()


# --- theirs, opened by us ---------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
def test_our_model_computes_what_theirs_does(family, activation, made_elsewhere, batch):
    folder, model = made_elsewhere(family, activation_function=activation)
    loaded = regard.load(folder)
    assert isinstance(loaded.model, Transformer)
    assert loaded.model.config.norm == FAMILIES[family]
    source, target = batch
    states, logits = theirs(model, source, target)
    with torch.no_grad():
        mine = halved(loaded.model.encoder(source), axis=2)
        torch.testing.assert_close(mine[source.valid], states[source.valid], **CLOSE)
        torch.testing.assert_close(loaded.model(source, target)[target.valid], logits[target.valid], **CLOSE)


@both
@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
def test_with_weights_of_8_bits_it_computes_nearly_what_theirs_does(family, activation, made_elsewhere, batch):
    # Of a size that the compiled kernels take.
    sizes = {"d_model": 64, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    sizes |= {"encoder_ffn_dim": 96, "decoder_ffn_dim": 96}
    folder, model = made_elsewhere(family, activation_function=activation, **sizes)
    loaded = regard.load(folder, dtype="int8")
    source, target = batch
    _, logits = theirs(model, source, target)
    state, found = loaded.model.start(source), []
    for tokens in target.ids.unbind(1):
        step, state = loaded.model.step(tokens, state)
        found.append(step)
    mine = torch.stack(found, dim=1)[target.valid]
    likely = mine > NEVER / 2
    apart = (mine - logits[target.valid])[likely]
    assert apart.norm() < 0.05 * logits[target.valid][likely].norm()


@both
@pytest.mark.parametrize("bias", ["zero", "drawn"])
def test_their_folder_comes_back_byte_for_byte(family, bias, made_elsewhere, generator, batch, tmp_path):
    folder, model = made_elsewhere(family)
    if bias == "drawn":
        model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape, generator=generator))
        model.save_pretrained(folder)
    loaded = regard.load(folder)
    assert loaded.model.config.output_bias == ("trained" if bias == "drawn" else "none")
    source, target = batch
    with torch.no_grad():
        mine = loaded.model(source, target)
    torch.testing.assert_close(mine[target.valid], theirs(model, source, target)[1][target.valid], **CLOSE)
    loaded.save(tmp_path / "back")
    one, two = (load_file(place / "model.safetensors") for place in (folder, tmp_path / "back"))
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, two[name]), name
    config, back = (json.loads((place / "config.json").read_text()) for place in (folder, tmp_path / "back"))
    differing = {key for key in config.keys() & back.keys() if config[key] != back[key]}
    assert not differing
    assert regard.load(tmp_path / "back").model.config == loaded.model.config


def test_a_folder_of_theirs_translates(made_elsewhere):
    folder, model = made_elsewhere("marian")
    (folder / "generation_config.json").write_text(json.dumps({"num_beams": 3, "length_penalty": 1.0, "max_length": 9}))
    loaded = regard.load(folder)
    assert loaded.task.generation == GenerationSettings(
        beam=3, length_penalty=1.0, length_normalisation="power", search_end="estimate", maximum_length=8
    )
    assert len(loaded.translate("the dog").target_tokens) <= 8
    (folder / "generation_config.json").unlink()
    greedy = regard.load(folder).translate("the dog", GenerationSettings(maximum_length=9))
    ids = loaded.task.read([loaded.task.source_tokenizer.encode("the dog")]).ids
    padding = loaded.model.config.padding_id
    found = model.generate(ids, max_length=10, num_beams=1, do_sample=False, bad_words_ids=[[padding]])[0, 1:]
    assert tuple(loaded.task.target_tokenizer.tokens(found.tolist())) == greedy.target_tokens


def test_files_that_repeat_the_table_or_leave_constants_out_are_read_too(made_elsewhere, tmp_path):
    folder, _ = made_elsewhere("pegasus")
    whole = parameters_of(regard.load(folder).model)
    tensors = load_file(folder / "model.safetensors")
    for name in ("model.encoder.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = tensors["model.shared.weight"].clone()
    for name in ("final_logits_bias", "model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"):
        del tensors[name]
    save_file(tensors, folder / "model.safetensors")
    again = parameters_of(regard.load(folder).model)
    assert all(torch.equal(again[name], tensor) for name, tensor in whole.items())
