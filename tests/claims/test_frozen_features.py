"""Taggers on a frozen encoder's vectors: they learn what the vectors tell, and the same seed gives the same number."""

from __future__ import annotations

import gzip
import random

import pytest
import torch

from regard.claims.catalogue import compute
from regard.claims.claim import claim
from regard.errors import InputError
from regard.models import Bert, BertConfig
from regard.tasks.sentence_embedding import SentenceEncoder
from regard.tasks.sentence_task import SentenceEmbeddingTask
from regard.text import Tokenizer
from regard_claims.contextual_tagger.frozen_features import FrozenFeatures

NAMES, PLACES, OTHERS = ["Ann", "Bob", "Cid"], ["Rome", "Oslo"], ["went", "to", "saw", "the", "and", "slept"]


def _sentences(count: int, seed: int) -> str:
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        for _ in range(draw.randint(3, 8)):
            word = draw.choice([*NAMES, *PLACES, *OTHERS, *OTHERS])
            tag = "I-PER" if word in NAMES else "I-LOC" if word in PLACES else "O"
            lines += [f"{word} {tag}", f"{draw.choice(OTHERS)} O"]
        lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("conll")
    (place / "eng.train.gz").write_bytes(gzip.compress(_sentences(120, 1).encode(), mtime=0))
    (place / "eng.testa").write_text(_sentences(40, 2))
    tokenizer = Tokenizer.train([" ".join([*NAMES, *PLACES, *OTHERS])] * 3, kind="bert", size=120)
    task = SentenceEmbeddingTask(tokenizer=tokenizer, maximum_length=32)
    sizes = {"width": 32, "heads": 2, "feedforward_width": 24, "layers": 4, "maximum_positions": 32, "init_std": 0.3}
    for seed in (1, 2):
        torch.manual_seed(seed)
        SentenceEncoder(Bert(BertConfig(**sizes, **task.model_settings())), task).save(place / f"bert-{seed}")
    return place


@pytest.mark.parametrize("tagger", ["bilstm", "linear"])
def test_a_tagger_learns_from_the_vectors(folder, tagger):
    sizes = {"width": 16, "epochs": 8, "batch": 8, "learning_rate": 5e-2}
    settings = FrozenFeatures(path=str(folder), layers="embeddings", tagger=tagger, **sizes)
    found = settings.run(1)
    assert found["F1"] > 90
    assert settings.run(1) == found


def test_arms_are_layers_and_models(folder, tmp_path):
    sections = {
        "experiment": {
            "name": "frozen_features",
            "path": str(folder),
            "tagger": "linear",
            "epochs": 1,
            "sentences": 20,
        },
        "arms": {"a": {"layers": "embeddings"}, "b": {"layers": "concatenate_last_four"}, "c": {"model": "bert-1"}},
        "seeds": [1, 2],
    }
    compared = compute(sections, output=tmp_path)
    assert {(run.arm, run.seed) for run in compared.runs} == {(arm, seed) for arm in "abc" for seed in (1, 2)}
    assert all(0 <= run.values["F1"].number <= 100 for run in compared.runs)


@pytest.mark.parametrize("name", ["layer-choice", "always-masked"])
def test_the_claims_ask_for_it(name):
    found = claim(name)
    assert found.needs_data
    experiments = [found.resolved.experiment_of(arm) for arm in found.resolved.arms]
    assert all(isinstance(each, FrozenFeatures) for each in experiments)
    differing = {(each.layers, each.model) for each in experiments}
    assert len(differing) == len(experiments)


def test_what_is_missing_is_named(folder, tmp_path):
    with pytest.raises(InputError, match=r"experiment\.path"):
        FrozenFeatures().run(1)
    with pytest.raises(InputError, match="holds no file of tagged words for train"):
        FrozenFeatures(path=str(tmp_path)).run(1)
    with pytest.raises(InputError, match="bert-7"):
        FrozenFeatures(path=str(folder)).run(7)
    with pytest.raises(InputError, match="did you mean 'last'"):
        FrozenFeatures(path=str(folder), layers="lst").run(1)
    with pytest.raises(InputError, match=r"experiment\.epochs"):
        FrozenFeatures(epochs=0)
