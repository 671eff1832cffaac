"""The experiments of claims 1.8, 4.4 and 4.5, small: they run, repeat, and measure what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard.claims.claim import claim
from regard.errors import InputError
from regard_claims.max_pooling.pooled_entailment import PooledEntailment, _told_linearly
from regard_claims.max_pooling.pooled_ratings import PooledRatings
from regard_claims.two_level_attention.planted_cue import PlantedCue
from regard_claims.word_order.word_order import WordOrder, order_accuracy

CUES = {"width": 16, "sentences": 3, "words": 4, "size": 600, "test_size": 60, "batch": 16, "learning_rate": 1e-2}


@pytest.mark.slow
def test_attention_learns_where_the_planted_words_are_and_a_seed_repeats():
    experiment = PlantedCue(steps=120, **CUES)
    found = experiment.run(1)
    assert set(found) == set(experiment.measures)
    assert found["accuracy"] > 90
    assert found["sentence weight"] > 0.6
    assert found["word weight"] > 0.5  # of four words two
    assert found["opinion weight"] <= found["word weight"]
    brief = PlantedCue(steps=3, **CUES)
    assert brief.run(2) == brief.run(2)


def test_averages_weigh_all_alike_and_maxima_weigh_nothing():
    average = PlantedCue(steps=1, gathering="average", **CUES).run(1)
    assert average["sentence weight"] == pytest.approx(1 / 3)
    assert (average["word weight"], average["opinion weight"]) == (0.5, 0.25)
    assert math.isnan(PlantedCue(steps=1, gathering="maximum", **CUES).run(1)["word weight"])


@pytest.mark.parametrize("encoder", ["max", "words"])
def test_pooled_entailment_is_measured(encoder):
    sizes = {"width": 8, "classifier_width": 8, "size": 200, "test_size": 30, "transfer_size": 20, "epochs": 1}
    found = PooledEntailment(encoder=encoder, **sizes).run(1)
    assert set(found) == {"accuracy", "transfer"}
    assert all(0 <= value <= 100 for value in found.values())


@pytest.mark.parametrize("encoder", ["last", "words"])
def test_poolings_are_measured_on_rated_pairs(encoder, tmp_path):
    for name, size in (("sts-train.csv", 60), ("sts-dev.csv", 12)):
        rows = (f"g\tf\t2012\t{n}\t{n % 6}.0\tA man has {n % 5} dogs.\tA man has {n % 3} cats." for n in range(size))
        (tmp_path / name).write_text("\n".join(rows) + "\n")
    found = PooledRatings(path=str(tmp_path), encoder=encoder, width=8, pairs=50, epochs=1).run(1)
    assert set(found) == {"correlation"}
    assert -1 <= found["correlation"] <= 1
    with pytest.raises(InputError, match="rated pairs for train"):
        PooledRatings(path=str(tmp_path.parent), encoder=encoder).run(1)


def test_a_linear_map_tells_what_is_linear(generator):
    vectors = np.random.Generator(np.random.Philox(3)).normal(size=(300, 4)).astype(np.float32)
    labels = (vectors[:, 1] > 0).astype(np.int64)
    assert _told_linearly(vectors, labels, 200) > 0.95
    assert _told_linearly(vectors[:, [0, 2, 3]], labels, 200) < 0.65


@pytest.mark.parametrize("encoder", ["transformer", "averaging", "bigrams"])
def test_word_order_is_measured(encoder):
    sizes = {
        "width": 16,
        "layers": 1,
        "bigrams": 500,
        "size": 200,
        "test_size": 40,
        "steps": 2,
        "texts": 1,
        "repeats": 1,
    }
    found = WordOrder(encoder=encoder, **sizes).run(1)
    assert 0 <= found["accuracy"] <= 100
    assert math.isfinite(found["time exponent"])
    if encoder == "averaging":
        assert found["accuracy"] == 50


def test_ties_are_worth_half():
    class Encoder:
        def embed(self, texts):
            return np.array([{"a": [1.0, 0.0], "b": [0.0, 1.0]}[text] for text in texts], dtype=np.float32)

    triples = [("a", "a", "b"), ("a", "b", "a"), ("a", "b", "b")]
    assert order_accuracy(Encoder(), triples) == pytest.approx(0.5)  # type: ignore[arg-type]
    assert order_accuracy(Encoder(), triples[::2]) == pytest.approx(0.75)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "change", "named"),
    [
        (PlantedCue, {"size": 10}, "experiment.size"),
        (PlantedCue, {"steps": 0}, "experiment.steps"),
        (PooledEntailment, {"transfer_size": 1}, "experiment.transfer_size"),
        (WordOrder, {"repeats": 0}, "experiment.repeats"),
    ],
)
def test_sizes_that_are_none_are_refused(kind, change, named):
    with pytest.raises(InputError, match=named):
        kind(**change)


@pytest.mark.parametrize(
    ("row", "name"), [("1.8", "two-level-attention"), ("4.4", "max-pooling"), ("4.5", "word-order")]
)
def test_the_claims_are_in_the_catalogue_with_three_seeds(row, name):
    found = claim(row)
    assert found.name == name
    assert len(found.seeds) == 3
    assert not found.needs_data
