"""The suite `decoder` at tiny sizes: what is asked of whom, our own side from end to end, and the peers that are installed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.attention import RotaryScaling
from regard.bench import Options, bench, decoder
from regard.bench.decoder import contests
from regard.bench.peers import ctranslate2, huggingface, llamacpp
from regard.checkpoints import parameters_of, read_model, write_model
from regard.errors import InputError
from regard.kernels import kernels
from regard.layers import Tokens
from regard.models import Llama, LlamaConfig


def options(**changes):
    return Options(
        **({"cases": ("alone", "batch", "prompt", "training"), "quick": True, "rounds": 1, "peers": ()} | changes)
    )


def test_ours_from_end_to_end(in_process):
    report = bench("decoder", options(), start=in_process, rest=0.0)
    assert report.failed == {}
    cases = [row.case.partition(":")[0] for row in report.rows]
    precisions = ["bfloat16", "float32"] + (["int8", "int4"] if kernels().library is not None else [])
    for case in ("alone", "batch", "prompt"):
        assert {f"{case}, {precision}" for precision in precisions} <= set(cases)
    assert {"training, bfloat16", "training, float32"} <= set(cases)


def test_everyone_is_given_the_same_folder_and_prompts(tmp_path):
    alone, batch, prompt, training = contests(options(peers=("huggingface", "ctranslate2", "llamacpp")), tmp_path)
    assert {peer.library for peer in alone.peers} == {"huggingface", "ctranslate2", "llamacpp"}
    assert {peer.library for peer in training.peers} == {"huggingface"}
    for contest in (alone, batch, prompt, training):
        first = {key: value for key, value in contest.ours[0].job.items() if key != "precision"}
        for contestant in (*contest.ours, *contest.peers):
            assert {key: value for key, value in contestant.job.items() if key != "precision"} == first
            json.dumps(contestant.job)
    assert (Path(alone.ours[0].job["folder"]) / "config.json").is_file()
    assert [len(contest.ours[0].job["prompts"]) for contest in (alone, batch, prompt)] == [1, decoder.QUICK.together, 1]
    assert len(prompt.ours[0].job["prompts"][0]) == decoder.QUICK.reading


@pytest.mark.parametrize("peer", [huggingface, ctranslate2], ids=["huggingface", "ctranslate2"])
def test_peers_write_what_we_write(tmp_path, peer, in_process):
    driver = peer.KINDS["decoding"]()
    if not driver.available():
        pytest.skip("not installed")
    contest = contests(options(cases=("batch",)), tmp_path)[0]
    job = dict(contest.ours[0].job) | {"precision": "float32"}
    driver.prepare(job)
    ours = in_process(contest.ours[0])
    ours.ask({"do": "hello", "kind": "decoding"})
    ours.ask({"do": "prepare", "job": job})
    found, wanted = driver.run(), ours.ask({"do": "run"})
    assert found["answers"] == wanted["answers"]
    assert found["amount"] == decoder.QUICK.together * decoder.QUICK.tokens


built = pytest.mark.skipif(kernels().library is None, reason=f"no compiled kernels: {kernels().why}")


@built
@pytest.mark.parametrize("shape", ["gpt2-small", "smollm2-135m"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_plain_weights_are_measured_by_the_kernel_too(precision, shape, tmp_path, in_process):
    llama = {"width": 64, "heads": 2}  # heads of 32 channels, which the kernel takes
    quick = decoder.QUICK
    sizes = replace(quick, llama=quick.llama | llama)
    place, what = decoder._model(options(shape=shape), sizes, tmp_path)
    contest = decoder._decoding("alone", (1, sizes.prompt, sizes.tokens), options(), place, what)
    ours = in_process(contest.ours[0])
    ours.ask({"do": "hello", "kind": "decoding"})
    note = ours.ask({"do": "prepare", "job": dict(contest.ours[0].job) | {"precision": precision}})["note"]
    assert note == f"InferenceDecoder in {precision}"
    assert ours.ask({"do": "run"})["amount"] == decoder.QUICK.tokens


HEADS = {"width": 64, "heads": 4, "key_heads": 2}
LLAMAS = {
    "heads of their own width": {"head_width": 32},
    "linear scaling": {"rotary_scaling": RotaryScaling(kind="linear", factor=2.5)},
    "llama3 scaling": {"rotary_scaling": RotaryScaling(kind="llama3", factor=8.0, trained_positions=64)},
    "yarn scaling": {"rotary_scaling": RotaryScaling(kind="yarn", factor=4.0, trained_positions=16), "head_width": 24},
    "biases": {"attention_bias": True, "attention_output_bias": True, "feedforward_bias": True},
    "an output of its own": {"tied_output": False, "rotary_base": 500.0},
}


def llama_job(settings, folder):
    """A job of a user's Llama, whose weights are all drawn, wide enough that positions count."""
    sizes = {"vocabulary": 60, "feedforward_width": 96, "layers": 3, "maximum_positions": 128}
    model = Llama(LlamaConfig(**sizes | HEADS | settings))
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator) * 0.2
            parameter.copy_(1 + drawn if "norm" in name or "before" in name else drawn)
    (folder / "made").mkdir()
    task: dict = {"name": "language_modelling"}
    write_model(folder / "made", model.config, parameters_of(model), task=task, recipe={}, metrics={})
    wide = replace(decoder.QUICK, prompt=20, tokens=30, together=3)
    given = options(model=folder / "made")
    place, what = decoder._model(given, wide, folder)
    return decoder._decoding("batch", (3, wide.prompt, wide.tokens), given, place, what)


@pytest.mark.parametrize("case", LLAMAS)
def test_llama_cpp_writes_what_a_users_llama_writes(case, tmp_path):
    """Each token that it writes is our most probable one after the same text, or as good as that: it keeps keys in 16 bits."""
    driver = llamacpp.Decoding()
    if not driver.available():
        pytest.skip("not installed")
    job = dict(llama_job(LLAMAS[case], tmp_path).ours[0].job)
    assert "note" in driver.prepare(job | {"precision": "f32"})
    written = torch.tensor(driver.run()["answers"])
    texts = torch.cat([torch.tensor(job["prompts"]), written], dim=1)
    with torch.no_grad():
        logits = read_model(job["folder"])(Tokens.pad(texts.tolist()))[:, -len(written[0]) - 1 : -1]
    short = logits.amax(dim=-1) - logits.gather(2, written[..., None])[..., 0]
    assert short.max() < 0.02 * logits.std()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"activation": "gelu"}, "hidden_act is 'gelu', and llama.cpp's llama computes silu"),
        (
            {"rotary_scaling": RotaryScaling(kind="dynamic", factor=2.0, trained_positions=16)},
            "rope_type is 'dynamic', and files are written for default, linear, llama3, yarn",
        ),
        (
            {"rotary_scaling": RotaryScaling(kind="yarn", factor=2.0, trained_positions=16, beta_fast=8.0)},
            "beta_fast of yarn is 8.0, and files are written for 32.0",
        ),
    ],
)
def test_llama_cpp_is_left_out_by_the_name_of_what_it_does_not_compute(settings, reason, tmp_path):
    contest = llama_job(settings, tmp_path)
    assert llamacpp.Decoding().prepare(dict(contest.ours[0].job) | {"precision": "f32"})["left_out"] == reason


def test_the_row_of_4_bits_alone_has_a_file_of_4_bits_alone(tmp_path):
    """All matrices that our rows of 4 bits read at a step; the usual file keeps the table of tokens in more."""
    driver = llamacpp.Decoding()
    if not driver.available():
        pytest.skip("not installed")
    import gguf

    contest = contests(options(cases=("alone",), peers=("llamacpp",), shape="smollm2-135m"), tmp_path)[0]
    names = [peer.name for peer in contest.peers]
    assert names[-2:] == ["llamacpp q4_0", "llamacpp q4_0 pure"]
    for precision, pure in (("q4_0", False), ("q4_0 pure", True)):
        driver.prepare(dict(contest.ours[0].job) | {"precision": precision})
        tensors = gguf.GGUFReader(Path(driver._folder.name) / "rounded.gguf").tensors
        kinds = {tensor.tensor_type.name for tensor in tensors if len(tensor.shape) > 1}
        assert (kinds == {"Q4_0"}) == pure
        assert driver.run()["amount"] == 4


@pytest.mark.parametrize("shape", ["gpt2-small", "smollm2-135m"])
def test_llama_cpp_writes_what_we_write(shape, tmp_path, in_process):
    driver = llamacpp.Decoding()
    if not driver.available():
        pytest.skip("not installed")
    contest = contests(options(cases=("batch",), shape=shape), tmp_path)[0]
    driver.prepare(dict(contest.ours[0].job) | {"precision": "f32"})
    ours = in_process(contest.ours[0])
    ours.ask({"do": "hello", "kind": "decoding"})
    ours.ask({"do": "prepare", "job": dict(contest.ours[0].job) | {"precision": "float32"}})
    assert driver.run()["answers"] == ours.ask({"do": "run"})["answers"]


def test_llama_cpp_is_left_out_of_what_its_file_is_not_written_of(tmp_path):
    contest = contests(options(cases=("batch",)), tmp_path)[0]
    file = Path(contest.ours[0].job["folder"]) / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model_type": "gpt_neox"}))
    told = llamacpp.Decoding().prepare(dict(contest.ours[0].job) | {"precision": "f32"})
    assert told["left_out"] == "files are written for a GPT-2 or a Llama only, not for a gpt_neox"


def test_channels_that_are_turned_together_stand_next_to_each_other():
    rows = np.arange(2 * 6, dtype=np.float32)  # two heads of six channels, halves turned together
    assert llamacpp._neighbours(rows, 2).tolist() == [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]


def test_a_llama_is_measured_by_its_shape(tmp_path, in_process):
    contest = contests(options(cases=("alone",), shape="smollm2-135m"), tmp_path)[0]
    assert "4 heads, 2 key heads" in contest.about
    report = bench("decoder", options(cases=("alone",), shape="smollm2-135m"), start=in_process, rest=0.0)
    assert report.failed == {}
    with pytest.raises(InputError, match="--shape is 'smollm'; did you mean"):
        contests(options(cases=("alone",), shape="smollm"), tmp_path)
    with pytest.raises(InputError, match="leave one of them out"):
        contests(options(cases=("alone",), shape="gpt2-small", model=tmp_path), tmp_path / "decoder")


def test_a_model_of_another_family_is_refused(tmp_path, untrained_lstm):
    with pytest.raises(InputError, match="compared on a GPT-2 or a Llama"):
        contests(options(cases=("alone",), model=untrained_lstm), tmp_path)


@pytest.fixture
def untrained_lstm(tmp_path):
    from regard.models import LSTMLanguageModel, LSTMLanguageModelConfig

    model = LSTMLanguageModel(LSTMLanguageModelConfig(vocabulary=9, embedding_width=4, hidden_width=5))
    folder = tmp_path / "lstm"
    folder.mkdir()
    write_model(folder, model.config, parameters_of(model), task={"name": "language_modelling"}, recipe={}, metrics={})
    return folder
