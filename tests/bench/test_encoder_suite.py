"""The suite `encoder` at tiny sizes: what is asked of whom, and our own side from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.bench import Options, bench
from regard.bench.encoder import FULL, contests, sentences
from regard.bench.peers import graphs, sentence_transformers
from regard.errors import InputError
from regard.training.precision import better_precision


def options(**changes):
    return Options(
        **({"cases": ("embedding", "training", "fine-tuning"), "quick": True, "rounds": 1, "peers": ()} | changes)
    )


def test_ours_from_end_to_end(in_process):
    report = bench("encoder", options(), start=in_process, rest=0.0)
    assert report.failed == {}
    cases = {row.case.partition(":")[0]: row.unit for row in report.rows}
    better = better_precision("int8", torch.device("cpu"))
    for precision in ("bfloat16", "float32", *(() if better else ("int8",))):
        assert cases[f"embedding, {precision}"] == "sentences/s"
        assert cases[f"embedding, {precision}, peak memory"] == "MB"
    assert cases["training, bfloat16"] == "tokens/s"
    measures = next(details for name, details in report.details["contests"].items() if name.startswith("embedding"))
    cosines = {label: found["least cosine with float32"] for label, found in measures["measures"].items()}
    assert cosines["regard float32"] > 0.99999
    assert cosines["regard bfloat16"] > 0.999
    assert measures["left_out"].get("regard int8", "") == better
    assert better or cosines["regard int8"] > 0.99


def test_peers_are_given_the_same_folder_and_sentences(tmp_path):
    chosen = options(peers=("sentence_transformers", "huggingface"))
    embedding, training, tuning = contests(chosen, tmp_path)
    assert [peer.name for peer in embedding.peers] == [
        "sentence_transformers float32",
        "sentence_transformers bfloat16",
    ]
    assert [peer.name for peer in training.peers] == ["huggingface float32", "huggingface bfloat16"]
    assert [peer.name for peer in tuning.peers] == ["huggingface float32", "huggingface bfloat16"]
    for contest in (embedding, training, tuning):
        first = {key: value for key, value in contest.ours[0].job.items() if key != "precision"}
        for contestant in (*contest.ours, *contest.peers):
            assert {key: value for key, value in contestant.job.items() if key != "precision"} == first
            json.dumps(contestant.job)
    job = embedding.ours[0].job
    assert (Path(job["folder"]) / "modules.json").is_file(), "which sentence-transformers opens"
    assert np.load(job["vectors"], allow_pickle=False).shape == (12, 16)
    batch = training.ours[0].job["batches"][0]
    flat = [index for row in batch["ids"] for index in row]
    assert [flat[place] for place in batch["places"]] == batch["labels"]
    assert len(batch["places"]) == round(0.15 * len(flat))


def test_the_sentences_are_pythons_own():
    found = [sentence for sentence, _ in zip(sentences(), range(FULL.sentences), strict=False)]
    assert len(set(found)) == 2_000
    assert all(len(sentence.split()) >= 8 for sentence in found)


def test_a_model_of_the_users_own(tmp_path):
    embedding = contests(options(cases=("embedding",)), tmp_path)[0]
    own = contests(options(cases=("embedding",), model=Path(embedding.ours[0].job["folder"])), tmp_path / "..")
    assert own[0].about.startswith("model, 2 layers of width 16, 2 heads; 12 sentences")
    with pytest.raises(InputError):
        contests(options(cases=("embedding",), model=tmp_path / "none"), tmp_path)


def test_a_model_that_peers_cannot_open_is_refused(tmp_path):
    folder = Path(__file__).parents[1] / "golden" / "folders" / "han"
    with pytest.raises(InputError, match="han: a han, and the encoders are compared on a BERT or DistilBERT"):
        contests(options(cases=("embedding",), model=folder), tmp_path)


def test_the_peers_driver_does_the_same_work(tmp_path):
    pytest.importorskip("sentence_transformers")
    embedding = contests(options(cases=("embedding",)), tmp_path)[0]
    driver = sentence_transformers.Embedding()
    assert driver.available()
    driver.prepare(dict(embedding.ours[0].job) | {"precision": "float32"})
    answer = driver.run()
    assert answer["amount"] == 12
    assert answer["measures"]["least cosine with float32"] > 0.99999
    encoder = regard.load(embedding.ours[0].job["folder"])
    assert encoder.embed(embedding.ours[0].job["sentences"]).shape == (12, 16)


def test_transformers_trains_on_the_same_batches(tmp_path):
    pytest.importorskip("transformers")
    from regard.bench.peers import huggingface

    training = contests(options(cases=("training",)), tmp_path)[0]
    driver = huggingface.MaskedTraining()
    driver.prepare(dict(training.ours[0].job) | {"precision": "float32"})
    assert driver.run()["amount"] == 2 * 16


@pytest.mark.parametrize("graph", ["onnxruntime", "openvino"])
def test_runtimes_of_graphs_embed_the_same_sentences(tmp_path, graph):
    driver = graphs.KINDS[f"embedding_{graph}"]()
    if not driver.available():
        pytest.skip("not installed")
    (embedding,) = contests(options(cases=("embedding",), peers=(graph,)), tmp_path)
    for peer in embedding.peers:
        job = dict(peer.job)
        if "left_out" in driver.prepare(job):
            continue
        answer = driver.run()
        assert answer["amount"] == 12
        assert answer["measures"]["least cosine with float32"] > (0.99999 if job["precision"] == "float32" else 0.98)
