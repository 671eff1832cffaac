"""A contestant's process: the protocol, and every way it can go wrong."""

from __future__ import annotations

import sys

import pytest
import torch

from regard.bench import PEERS, ours
from regard.bench.driver import ContestantFailed, Driver
from regard.bench.peers import pytorch, runner
from regard.errors import InputError

FAKE = """
import os, sys, time

class Work:
    def available(self):
        return True
    def versions(self):
        return {"fake": "2.0"}
    def prepare(self, job):
        self.job = job
        if job.get("refuse"):
            return {"left_out": "not here"}
        return {"note": "threads " + os.environ["OMP_NUM_THREADS"]}
    def run(self):
        do = self.job.get("do")
        if do == "raise":
            raise ValueError("bad\\nweights")
        if do == "die":
            sys.stderr.write("Segmentation fault\\n")
            sys.stderr.flush()
            os._exit(11)
        if do == "hang":
            time.sleep(60)
        print("a library that talks")
        os.system("echo and its child")
        return {"amount": 3, "seconds": 0.5}

KINDS = {"work": Work}
"""


@pytest.fixture
def fake(tmp_path):
    file = tmp_path / "fake.py"
    file.write_text(FAKE)
    return file


def prepared(driver, **job):
    assert driver.ask({"do": "hello", "kind": "work"}) == {"available": True, "versions": {"fake": "2.0"}}
    return driver.ask({"do": "prepare", "job": job})


def test_it_works_on_request_and_its_chatter_is_not_taken_for_an_answer(fake):
    with Driver(fake, threads=3) as driver:
        assert prepared(driver) == {"note": "threads 3"}
        for _ in range(2):
            assert driver.ask({"do": "run"}) == {"amount": 3, "seconds": 0.5}
        assert driver.ask({"do": "weigh"})["measures"]["peak memory, MB"] >= 0


def test_it_may_run_in_another_interpreter(fake):
    with Driver(fake, threads=1, python=sys.executable) as driver:
        assert prepared(driver, refuse=True) == {"left_out": "not here"}


@pytest.mark.parametrize("products", [True, False])
def test_bfloat16_is_left_out_where_pytorch_computes_and_has_no_products_in_it(products, monkeypatch):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: products)
    for contestant in (ours.Training(), ours.LSTMTraining(), pytorch.LSTMTraining()):
        found = runner.without_products(contestant, {"precision": "bfloat16"})
        assert (found is None) == products
        assert runner.without_products(contestant, {"precision": "float32"}) is None
    assert runner.without_products(ours.Embedding(), {"precision": "bfloat16"}) is None  # by the kernels


def test_a_failure_is_a_sentence_and_the_process_lives_on(fake):
    with Driver(fake, threads=1) as driver:
        prepared(driver, do="raise")
        with pytest.raises(ContestantFailed, match=r"^ValueError: bad weights$"):
            driver.ask({"do": "run"})
        assert prepared(driver)["note"]


def test_a_process_that_dies_is_reported_with_its_last_words(fake):
    with Driver(fake, threads=1) as driver:
        prepared(driver, do="die")
        with pytest.raises(ContestantFailed, match="ended with code 11: Segmentation fault"):
            driver.ask({"do": "run"})
        with pytest.raises(ContestantFailed, match="ended with code 11"):
            driver.ask({"do": "run"})


def test_a_process_that_hangs_is_given_up(fake):
    with Driver(fake, threads=1, patience=1.0) as driver:
        prepared(driver, do="hang")
        with pytest.raises(ContestantFailed, match="gave no answer in 1 seconds"):
            driver.ask({"do": "run"})


def test_a_driver_that_cannot_be_read_is_a_failure_too(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("import nothing_of_that_name")
    with (
        Driver(broken, threads=1) as driver,
        pytest.raises(ContestantFailed, match="ModuleNotFoundError: No module named 'nothing_of_that_name'"),
    ):
        driver.ask({"do": "hello", "kind": "work"})


def test_an_interpreter_that_is_none_is_the_users_error(fake, tmp_path):
    with pytest.raises(InputError, match="--peer NAME=PYTHON"):
        Driver(fake, threads=1, python=str(tmp_path / "python"))


@pytest.mark.parametrize("name", PEERS)
def test_peers_say_whether_they_are_there_without_regard(name, tmp_path):
    """In an interpreter without site packages nothing is installed, and the drivers import all the same."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "$@"\n')
    bare.chmod(0o755)
    kind = {
        "joeynmt": "training",
        "bertviz": "page",
        "sentence_transformers": "embedding",
        "llamacpp": "decoding",
        "pytorch": "lstm_training",
        "gensim": "skipgram",
        "glove": "glove",
        "timm": "vit_training",
        "onnxruntime": "embedding_onnxruntime",
        "openvino": "embedding_openvino",
    }.get(name, "translation")
    with Driver(PEERS[name], threads=1, python=str(bare)) as driver:
        assert driver.ask({"do": "hello", "kind": kind}) == {"available": False, "versions": {}}
