"""The suite `decoder` at tiny sizes: what is asked of whom, our own side from end to end, and the peers that are installed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from regard.bench import Options, bench
from regard.bench.decoder import contests
from regard.bench.peers import ctranslate2, huggingface, llamacpp
from regard.errors import InputError
from regard.quantization.native import kernels


def options(**changes):
    return Options(**({"cases": ("alone", "batch", "training"), "quick": True, "rounds": 1, "peers": ()} | changes))


def test_ours_from_end_to_end(in_process):
    report = bench("decoder", options(), start=in_process, rest=0.0)
    assert report.failed == {}
    cases = [row.case.partition(":")[0] for row in report.rows]
    precisions = ["bfloat16", "float32"] + (["int8", "int4"] if kernels().library is not None else [])
    for case in ("alone", "batch"):
        assert {f"{case}, {precision}" for precision in precisions} <= set(cases)
    assert {"training, bfloat16", "training, float32"} <= set(cases)


def test_everyone_is_given_the_same_folder_and_prompts(tmp_path):
    alone, batch, training = contests(options(peers=("huggingface", "ctranslate2", "llamacpp")), tmp_path)
    assert {peer.library for peer in alone.peers} == {"huggingface", "ctranslate2", "llamacpp"}
    assert {peer.library for peer in training.peers} == {"huggingface"}
    for contest in (alone, batch, training):
        first = {key: value for key, value in contest.ours[0].job.items() if key != "precision"}
        for contestant in (*contest.ours, *contest.peers):
            assert {key: value for key, value in contestant.job.items() if key != "precision"} == first
            json.dumps(contestant.job)
    assert (Path(alone.ours[0].job["folder"]) / "config.json").is_file()
    assert [len(contest.ours[0].job["prompts"]) for contest in (alone, batch)] == [1, 2]


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
    assert found["amount"] == 8


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
    assert told["left_out"] == "its file is written of a GPT-2 or a Llama alone, not of a gpt_neox"


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
    from regard.checkpoints import parameters_of, write_model
    from regard.models import LSTMLanguageModel, LSTMLanguageModelConfig

    model = LSTMLanguageModel(LSTMLanguageModelConfig(vocabulary=9, embedding_width=4, hidden_width=5))
    folder = tmp_path / "lstm"
    folder.mkdir()
    write_model(folder, model.config, parameters_of(model), task={"name": "language_modelling"}, recipe={}, metrics={})
    return folder
