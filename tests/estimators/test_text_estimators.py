"""Estimators of texts: scikit-learn's own checks as far as they apply to texts, and its pipelines and searches."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks as checks

from regard.errors import InputError
from regard.estimators import TextClassifier, TextEmbedder, TextRegressor, TextTagger
from regard.tasks.loading import load

TINY = {
    "layers": 1,
    "width": 16,
    "heads": 2,
    "feedforward_width": 32,
    "maximum_positions": 24,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "init_std": 0.2,
}
SETTINGS = {
    "model": TINY,
    "epochs": None,
    "steps": 40,
    "learning_rate": 1e-2,
    "maximum_length": 12,
    "overrides": {"training.precision": "float32", "tokenizer.size": 100},
}
TEXTS = ["a fine film", "a poor film", "fine work", "poor work", "so fine", "so poor"] * 8
LABELS = ["yes", "no"] * 24
ESTIMATORS = [TextClassifier(**SETTINGS), TextRegressor(**SETTINGS), TextTagger(**SETTINGS), TextEmbedder()]

APPLICABLE = [
    checks.check_estimator_cloneable,
    checks.check_estimator_tags_renamed,
    checks.check_valid_tag_types,
    checks.check_estimator_repr,
    checks.check_no_attributes_set_in_init,
    checks.check_do_not_raise_errors_in_init_or_set_params,
    checks.check_mixin_order,
    checks.check_parameters_default_constructible,
    checks.check_get_params_invariance,
    checks.check_set_params,
]
"""Those that hand the estimator no table of numbers."""


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("check", APPLICABLE, ids=lambda check: check.__name__)
def test_scikit_learns_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        check(type(estimator).__name__, clone(estimator))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_texts_are_declared_so_that_the_other_checks_are_skipped(estimator):
    with pytest.warns(Warning, match="Can't test estimator"):
        checks.check_estimator(clone(estimator), on_fail="raise")
    tags = estimator.__sklearn_tags__()
    assert tags.input_tags.string
    assert not tags.input_tags.two_d_array


def test_a_classifier_predicts_the_labels_it_was_given_whatever_their_type():
    for labels in (LABELS, [1, 0] * 24, np.array([True, False] * 24)):
        found = TextClassifier(**SETTINGS).fit(TEXTS, labels)
        assert found.classes_.tolist() == sorted(set(np.asarray(labels).tolist()))
        said = found.predict(["a fine fine film", "a poor film"])
        assert said.dtype == np.asarray(labels).dtype
        assert said.tolist() == [np.asarray(labels)[0], np.asarray(labels)[1]]
    probabilities = found.predict_proba(TEXTS)
    assert np.allclose(probabilities.sum(axis=1), 1.0, atol=1e-6)
    assert found.score(TEXTS, labels) == 1.0


def test_fitting_twice_gives_the_same_and_leaves_the_settings_alone():
    estimator = TextClassifier(**SETTINGS)
    before = estimator.get_params()
    assert estimator.fit(TEXTS, LABELS) is estimator
    one = estimator.predict_proba(TEXTS)
    assert np.array_equal(estimator.fit(TEXTS, LABELS).predict_proba(TEXTS), one)
    assert estimator.get_params() == before
    assert not np.array_equal(clone(estimator).set_params(random_state=3).fit(TEXTS, LABELS).predict_proba(TEXTS), one)
    again = pickle.loads(pickle.dumps(estimator))  # scikit-learn's users keep estimators so
    assert np.array_equal(again.predict_proba(TEXTS), one)


def test_in_a_pipeline_in_cross_validation_and_in_a_search():
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = make_pipeline(lower, TextClassifier(**SETTINGS)).fit([text.upper() for text in TEXTS], LABELS)
    assert pipeline.score(TEXTS, LABELS) == 1.0
    estimator = TextClassifier(**{**SETTINGS, "steps": 5})
    assert cross_val_score(estimator, np.array(TEXTS), np.array(LABELS), cv=2).shape == (2,)
    search = GridSearchCV(estimator, {"learning_rate": [1e-7, 2e-2], "steps": [30]}, cv=2)
    assert search.fit(TEXTS, LABELS).best_params_["learning_rate"] == 2e-2


def test_pairs_are_tuples_or_two_columns():
    pairs = [("ape", "ape"), ("ape", "bee"), ("bee", "bee"), ("bee", "ape")] * 6
    values = [4.0, 1.0] * 12
    found = TextRegressor(**SETTINGS).fit(pairs, values)
    one = found.predict(pairs[:4])
    assert np.allclose(found.predict(np.array(pairs[:4], dtype=object)), one)
    assert one.shape == (4,)


def test_what_cannot_be_used_is_a_value_error():
    estimator = TextClassifier(**SETTINGS)
    with pytest.raises(NotFittedError):
        estimator.predict(["a"])
    for X, y in ((["a", "b"], ["x"]), ("a text", ["x"]), ([1.0, 2.0], [0, 1]), ([], []), (["a", "b"], ["x", "x"])):
        with pytest.raises(ValueError, match=r"X|y"):
            estimator.fit(X, y)
    with pytest.raises(InputError, match="requires y to be passed"):
        estimator.fit(["a"], None)


def test_a_tagger_tells_the_tags_of_words():
    sentences = [["Ada", "sleeps", "well"], ["now", "Ben", "eats"], ["Ada", "eats"], ["well", "Ben"]] * 8
    tags = [["B-PER", "O", "O"], ["O", "B-PER", "O"], ["B-PER", "O"], ["O", "B-PER"]] * 8
    found = TextTagger(**SETTINGS).fit(sentences, tags)
    assert found.predict([["Ben", "sleeps"]]) == [["B-PER", "O"]]
    assert found.score(sentences, tags) == 1.0
    assert cross_val_score(clone(found), sentences, tags, cv=2).shape == (2,)
    for X, y in ((["a b"], [["O"]]), ([["a", "b"]], [["O"]]), ([["a"]] * 2, [["O"]]), ([[1]], [["O"]])):
        with pytest.raises(ValueError, match=r"X|y|words"):
            clone(found).fit(X, y)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    place = tmp_path_factory.mktemp("reader") / "model"
    TextClassifier(**SETTINGS).fit(TEXTS, LABELS).model_.save(place)
    return str(place)


def test_an_embedder_gives_the_models_vectors_to_what_stands_behind_it(reader):
    embedder = TextEmbedder(reader)
    found = embedder.fit_transform(TEXTS)
    assert np.array_equal(found, load(reader, task="sentence_embedding").embed(TEXTS))
    assert embedder.get_feature_names_out().tolist() == [f"textembedder{i}" for i in range(16)]
    assert np.array_equal(pickle.loads(pickle.dumps(embedder)).transform(TEXTS), found)
    pipeline = make_pipeline(TextEmbedder(reader), LogisticRegression())
    assert pipeline.fit(TEXTS, LABELS).score(TEXTS, LABELS) == 1.0
    search = GridSearchCV(pipeline, {"textembedder__layers": ["embeddings", "last"]}, cv=2).fit(TEXTS, LABELS)
    assert set(search.best_params_) == {"textembedder__layers"}


def test_an_embedder_pools_and_chooses_layers_as_said(reader):
    chosen = TextEmbedder(reader, layers="concatenate_last_four", pooling=["cls", "max"], normalise=False)
    with pytest.raises(ValueError, match="layer -4"):
        chosen.fit(TEXTS)
    wide = chosen.set_params(layers=[0, 1]).fit_transform(["fine", "so fine"])
    assert wide.shape == (2, 32)
    assert not np.allclose(np.linalg.norm(wide, axis=1), 1.0)
    ones = TextEmbedder(reader, normalise=True, precision="bfloat16").fit_transform(["fine", "so fine"])
    assert np.allclose(np.linalg.norm(ones, axis=1), 1.0, atol=1e-2)


def test_what_an_embedder_cannot_use_is_a_value_error(reader, tmp_path):
    with pytest.raises(NotFittedError):
        TextEmbedder(reader).transform(["a"])
    for settings, X, said in (
        ({}, [("a", "b")], "not of pairs"),
        ({}, "a text", "one string"),
        ({"pooling": "mean"}, ["a"], "give a list"),
        ({"pooling": ["men"]}, ["a"], "mean"),
        ({"precision": "float8"}, ["a"], "float32"),
        ({"model": str(tmp_path)}, ["a"], tmp_path.name),
    ):
        with pytest.raises(ValueError, match=said):
            TextEmbedder(**({"model": reader} | settings)).fit_transform(X)


@pytest.mark.parametrize("random_state", [None, -1, 1.5, True, np.random.RandomState(0)])
def test_a_random_state_that_is_no_seed_is_one_sentence(random_state):
    with pytest.raises(InputError, match=r"random_state is .*; give a whole number of 0 or more"):
        TextClassifier(random_state=random_state).fit(["a", "b"], [0, 1])
