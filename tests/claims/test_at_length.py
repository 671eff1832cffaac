"""The loss at another length: beside the stream cut by hand, and as a measure of comparisons."""

from __future__ import annotations

import pytest
import torch

import regard
from regard.claims.claim import claim
from regard.claims.comparing import compare
from regard.claims.comparison import read_comparison
from regard.claims.measuring import loss_at_length, recut
from regard.claims.own_data import files_of, on_own_data
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.layers import Tokens

RECIPE = {
    "task": "language_modelling",
    "model": {
        "name": "music_transformer",
        "width": 16,
        "heads": 2,
        "feedforward_width": 24,
        "layers": 1,
        "maximum_distance": None,
        "positions": "learned",
        "maximum_positions": 32,
        "dropout": 0.0,
        "embedding_dropout": 0.0,
    },
    "data": {"motifs": {"notes": 31, "size": 40, "validation_size": 5}, "length": 8},
    "tokenizer": {"kind": "grid"},
    "training": {"steps": 10, "batch_tokens": 256, "precision": "float32", "learning_rate": 1e-2, "warmup": 5},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return regard.train(RECIPE, output=tmp_path_factory.mktemp("runs") / "motifs")


def test_the_stream_is_cut_anew_and_the_loss_is_the_mean_over_its_tokens(trained):
    model, store = trained.load(), TokenStore.open(trained.folder / "data" / "validation")
    melodies = model.recipe["data"]["motifs"]
    assert melodies["notes"] == 31
    tokenizer = model.task.tokenizer
    stream = [store.sequence("text", 0).tolist()[0]]
    for row in range(len(store)):
        stream += store.sequence("text", row).tolist()[1:]
    assert stream[::32] == [tokenizer.end_id] * 6
    for length in (8, 24, 32):
        cut = [stream[first : first + length + 1] for first in range(0, 5 * 32 - length + 1, length)]
        assert recut(store, length, 100) == cut
        total = 0.0
        for ids in cut:
            logits = model.model(Tokens.pad([ids[:-1]]))[0].detach().log_softmax(dim=-1)
            total -= float(logits[torch.arange(length), torch.tensor(ids[1:])].sum())
        expected = total / (length * len(cut))
        assert loss_at_length(model, store, length=length, size=100) == pytest.approx(expected, rel=1e-5)
    assert len(recut(store, 8, 3)) == 3


def test_what_is_too_long_is_told(trained):
    model, store = trained.load(), TokenStore.open(trained.folder / "data" / "validation")
    with pytest.raises(InputError, match=r"33 tokens do not fit in 32 positions; raise model\.maximum_positions"):
        loss_at_length(model, store, length=33, size=9)


def test_it_is_a_measure_of_comparisons(tmp_path):
    found = compare(
        {**RECIPE, "training": {**RECIPE["training"], "steps": 2}},
        arms={"one": ["model.layers=1"], "two": ["model.layers=2"]},
        seeds=1,
        measures=[{"name": str(length), "kind": "at_length", "length": length, "size": 9} for length in (8, 16)],
        output=tmp_path / "c",
    )
    for arm in ("one", "two"):
        losses = [found.values(arm, str(length))[1] for length in (8, 16)]
        assert all(loss > 0 for loss in losses)
        assert losses[0] != losses[1]


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        ({"name": "a", "kind": "at_length"}, "length is 0"),
        ({"name": "a", "kind": "parameters", "length": 3}, "only for kind at_length"),
    ],
)
def test_measures_that_mean_nothing_are_refused(measure, message):
    with pytest.raises(InputError, match=message):
        read_comparison({"recipe": RECIPE, "arms": {"one": {}}, "seeds": [1], "measures": [measure]})


def test_the_claim_is_the_papers_and_runs_on_chorales_too(tmp_path):
    found = claim("2.3")
    assert (found.name, len(found.seeds), found.needs_data) == ("relative-attention", 3, False)
    own = found.own_data
    files = files_of("chorales.json", own, tmp_path)
    values = on_own_data(found.comparison, own, files)
    assert values["recipe"]["data"] == {
        "length": 64,
        "train": "chorales.json",
        "validation": None,
        "music": {"events": "grid"},
    }
