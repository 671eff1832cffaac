"""The experiments on training word vectors: what they plant is there, what they withhold is gone, what they need is asked for."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import numpy as np
import pytest

from regard.claims.claim import claims
from regard.errors import InputError
from regard.word_embeddings.training.corpus import count_words
from regard_claims.count_weighting.count_weighting import CountWeighting
from regard_claims.shared import training_text
from regard_claims.shifted_pmi.planted_statistics import PlantedStatistics
from regard_claims.subsampling.subsampled_text import SubsampledText
from regard_claims.unseen_forms.unseen_forms import UnseenForms, inflected, withheld_forms


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sentences of made-up verbs in all their forms, each with its own company; judged pairs; analogies."""
    place = tmp_path_factory.mktemp("text")
    draw = random.Random(1)
    verbs = [f"{a}{b}" for a in ("wal", "tal", "jum", "kic") for b in ("kar", "pom", "tun")]
    lines = []
    for _ in range(2500):
        verb = draw.choice(verbs)
        form = draw.choice([verb, verb, verb + "s", verb + "ed", verb + "ing"])
        lines.append(f"{form} {verb[::-1]} {verb[::-1]}x the {draw.choice('abcdefgh')} of {draw.choice('abcdefgh')}")
    (place / "train.txt").write_text("\n".join(lines) + "\n")
    pairs = [f"{verbs[i]}\t{verbs[i + 1]}\t{i}" for i in range(10)]
    (place / "EN-WS-353-ALL.txt").write_text("\n".join(pairs) + "\n")
    questions = [f"{one} {one}ed {other} {other}ed" for one, other in itertools.pairwise(verbs)]
    about = ["a b c d", "b c d e"]
    (place / "questions-words.txt").write_text("\n".join([": family", *about, ": gram7-past-tense", *questions]) + "\n")
    return place


def test_the_planted_text_has_the_statistics_that_it_is_drawn_from():
    """Two places of a sentence hold each pair as often as is said."""
    planted = PlantedStatistics(words=6, topics=3, sentences=60_000, length=2)
    generator = np.random.default_rng(1)
    shares = planted.shares(generator)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    counts = Counter(tuple(sentence) for sentence in planted.text(shares, generator))
    joint = sum(np.outer(topic, topic) for topic in shares) / 3
    found = np.array([[counts[str(w), str(c)] for c in range(6)] for w in range(6)]) / 60_000
    np.testing.assert_allclose(found, joint, atol=4 * math.sqrt(0.25 / 60_000))


def test_skip_gram_finds_them_again():
    numbers = PlantedStatistics(words=30, topics=4, sentences=12_000, width=10, epochs=3, learning_rate=0.05).run(1)
    assert numbers["correlation"] > 0.5
    assert set(numbers) == set(PlantedStatistics().measures)
    untrained = PlantedStatistics(words=30, topics=4, sentences=12_000, width=10, epochs=1, learning_rate=1e-9).run(1)
    assert abs(untrained["correlation"]) < 0.3


def test_forms_are_taken_from_the_most_frequent_words_that_have_them(folder):
    vocabulary = count_words(training_text(str(folder), "whitespace"), 5)
    forms = withheld_forms(vocabulary, 10, seed=1)
    words = {form.word for form in forms}
    assert len(words) == 10
    for form in forms:
        if form.kind == "typo":
            assert form.form not in vocabulary.words
            assert sum(a != b for a, b in zip(form.form, form.word, strict=True)) == 1
        else:
            assert form.form in vocabulary.words
            assert form in inflected(form.word)
    assert not words & {form.form for form in forms}
    assert withheld_forms(vocabulary, 10, seed=1) == forms
    with pytest.raises(
        InputError, match=r"12 words of the text have such forms; give more text, or lower experiment\.words"
    ):
        withheld_forms(vocabulary, 13, seed=1)


def test_withheld_forms_are_found_by_their_parts_and_never_by_whole_words(folder):
    given = {"path": str(folder), "words": 8, "width": 12, "epochs": 5, "subsample": 1e-2, "buckets": 2000}
    parts = UnseenForms(method="fasttext", **given).run(1)
    whole = UnseenForms(method="skipgram", **given).run(1)
    assert parts["word found"] > 0.5
    assert [whole[name] for name in whole if name.startswith("word found")] == [0.0] * 5
    assert set(parts) == set(UnseenForms().measures)


def test_subsampling_is_counted_and_compared(folder):
    given = {"path": str(folder), "width": 8, "epochs": 2}
    whole, less = (SubsampledText(subsample=t, **given).run(1) for t in (0.0, 1e-3))
    assert whole["words trained on"] == 2 * 2500 * 7
    assert less["words trained on"] < 0.8 * whole["words trained on"]
    assert -1 <= less["similarity"] <= 1


def test_one_training_gives_the_sum_and_the_single_vectors(folder):
    given = {"path": str(folder), "width": 8, "epochs": 3}
    weighted, unweighted = (CountWeighting(weighting=each, **given).run(1) for each in ("power", "none"))
    assert weighted["similarity"] != weighted["similarity of w alone"]
    assert weighted != unweighted
    assert CountWeighting(weighting="power", **given).run(1) == weighted


def test_what_is_missing_is_asked_for(folder, tmp_path):
    with pytest.raises(InputError, match=r"experiment\.path is missing"):
        SubsampledText().run(1)
    with pytest.raises(InputError, match=r"holds no train\.txt"):
        UnseenForms(path=str(tmp_path)).run(1)
    with pytest.raises(InputError, match=r"nothing\.txt"):
        CountWeighting(path=str(folder), pairs="nothing.txt").run(1)
    with pytest.raises(InputError, match=r"experiment\.method is 'glove'"):
        SubsampledText(method="glove")


def test_the_claims_of_the_catalogue():
    names = ["subsampling", "shifted-pmi", "count-weighting", "unseen-forms", "subword-analogies"]
    found = {each.row: each for each in claims()}
    chosen = [found[row] for row in ("4.1a", "4.1b", "4.2", "4.3a", "4.3b")]
    assert [each.name for each in chosen] == names
    assert [each.needs_data for each in chosen] == [True, False, True, True, True]
    *_, weighted, one, other = (each.resolved for each in chosen)
    assert [one.experiment_of(arm) for arm in one.arms] == [other.experiment_of(arm) for arm in other.arms]
    assert [weighted.experiment_of(arm).weighting for arm in weighted.arms] == ["power", "none", "step"]
