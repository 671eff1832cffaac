"""Probes of an ELMo's layers: they tell what the vectors hold, the same seed gives the same numbers, and what lacks is told."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from regard.claims.claim import claim
from regard.errors import InputError
from regard.models import ELMo, ELMoConfig
from regard.tasks.bidirectional_language_modelling import BidirectionalLanguageModel, BidirectionalLanguageModellingTask
from regard.text import Tokenizer
from regard.text.word_list import WordList
from regard_claims.layers_of_elmo.layer_probes import LayerProbes

NOUNS, VERBS = ["dog", "cat", "ox", "emu"], ["barks", "sleeps", "eats"]
SIZES: dict[str, Any] = {"sentences": 60, "examples": 40, "epochs": 25, "batch": 16, "learning_rate": 2e-2}


def _tagged(count: int, seed: int) -> str:
    draw = random.Random(seed)
    rows = [f"the DT X O\n{draw.choice(NOUNS)} NN X O\n{draw.choice(VERBS)} VB X O\n" for _ in range(count)]
    return "\n".join(rows) + "\n"


def _senses(place, count: int, seed: int) -> None:
    """A word whose sense is told by the word before it, so that no layer of letters can tell it."""
    draw = random.Random(seed)
    for split in ("train", "test"):
        senses = [draw.randrange(2) for _ in range(count)]
        rows = [f"2\tthe {'river' if sense else 'money'} bank stands" for sense in senses]
        (place / f"{split}.data.txt").write_text("\n".join(rows) + "\n")
        (place / f"{split}.gold.txt").write_text("\n".join(map(str, senses)) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("probes")
    (place / "eng.train").write_text(_tagged(60, 1))
    (place / "eng.testa").write_text(_tagged(30, 2))
    (place / "senses" / "bank").mkdir(parents=True)
    _senses(place / "senses" / "bank", 40, 3)
    words = WordList.counted([[*NOUNS, *VERBS, "the"]], size=20)
    task = BidirectionalLanguageModellingTask(tokenizer=Tokenizer.train([], kind="spelling", size=259), words=words)
    sizes: dict[str, Any] = {
        "projection": 8,
        "cells": 12,
        "character_width": 4,
        "filters": ((1, 8), (3, 16)),
        "highways": 1,
    }
    torch.manual_seed(1)
    elmo = ELMo(ELMoConfig(**sizes, maximum_characters=10, **task.model_settings()))
    with torch.no_grad():  # so that what a layer has read shows
        for name, parameter in elmo.named_parameters():
            if "layers" in name and parameter.dim() > 1:
                parameter.mul_(3)
    BidirectionalLanguageModel(elmo, task).save(place / "elmo-1")
    return place


def test_layers_tell_what_they_hold_and_a_word_alone_not_its_sense(folder):
    probes = LayerProbes(path=str(folder), senses="senses", **SIZES)
    found = probes.run(1)
    assert tuple(found) == probes.measures
    assert found["POS 0"] == 100.0
    assert found["WSD 0"] < 80
    assert found["WSD 1"] == found["WSD mix"] == 100.0
    assert probes.run(1) == found


def test_shuffled_numbers_are_another_model_and_leave_the_folder_as_it_is(folder):
    plain = LayerProbes(path=str(folder), senses="senses", **SIZES)
    shuffled = LayerProbes(path=str(folder), senses="senses", shuffled=True, **SIZES)
    weights = (folder / "elmo-1" / "model.safetensors").read_bytes()
    model = shuffled._model(1).model
    assert (folder / "elmo-1" / "model.safetensors").read_bytes() == weights
    for one, other in zip(model.parameters(), plain._model(1).model.parameters(), strict=True):
        assert torch.equal(one.flatten().sort().values, other.flatten().sort().values)
    assert not torch.equal(model.layers[0].forwards.input.weight, plain._model(1).model.layers[0].forwards.input.weight)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"path": None}, r"experiment\.path is missing"),
        ({"model": "none-{seed}"}, "none-1"),
        ({"senses": "nothing"}, "laid out as CoarseWSD-20"),
        ({"layers": 3}, r"has 2 layers, and experiment\.layers is 3"),
    ],
)
def test_what_is_not_there_is_told(folder, changes, said):
    with pytest.raises(InputError, match=said):
        LayerProbes(**{"path": str(folder), "senses": "senses", **SIZES, **changes}).run(1)


def test_senses_and_sentences_that_do_not_fit_are_told(folder, tmp_path):
    for name in ("eng.train", "eng.testa"):
        (tmp_path / name).write_text((folder / name).read_text())
    (tmp_path / "senses" / "bank").mkdir(parents=True)
    _senses(tmp_path / "senses" / "bank", 10, 3)
    (tmp_path / "senses" / "bank" / "test.gold.txt").write_text("0\n")
    with pytest.raises(InputError, match="do not fit together"):
        LayerProbes(path=str(tmp_path), model=str(folder / "elmo-1"), senses="senses", **SIZES).run(1)


@pytest.mark.parametrize("name", ["layers-of-elmo", "contextual-tagger"])
def test_the_claims_are_readable(name):
    found = claim(name)
    assert found.own_data.needed
