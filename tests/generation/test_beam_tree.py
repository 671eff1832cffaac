"""What a beam search tried: it is all there, and what it found is among it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.serving.test_tasks import translator

from regard.generation import BeamTree, GenerationSettings


@pytest.mark.parametrize("beam", [2, 3, 5])
def test_every_hypothesis_is_a_path_of_the_tree_and_what_was_dropped_is_there(beam: int, randomize: Any) -> None:
    predictor, tree = translator(randomize), BeamTree()
    settings = GenerationSettings(beam=beam, n_best=beam, maximum_length=7)
    plain = predictor.translate("abc def", settings)
    with predictor.observing(tree):
        assert predictor.translate("abc def", settings) == plain
    end = predictor.model.config.end_id
    for hypothesis in tree.hypotheses:
        place = tree.place_of(hypothesis)
        assert place is not None
        assert tree.path(place) == (*hypothesis.tokens, end)[: hypothesis.length]
        assert tree.tried[place].log_probability == hypothesis.log_probability
    for step in range(max(each.step for each in tree.tried)):
        here = [each for each in tree.tried if each.step == step]
        assert sum(each.fate == "kept" for each in here) <= beam < len(here) <= 2 * beam
        assert [each.log_probability for each in here] == sorted((each.log_probability for each in here), reverse=True)
    parents = [each.parent for each in tree.tried if each.parent is not None]
    assert all(tree.tried[place].fate == "kept" for place in parents)


def test_other_rows_of_a_batch_are_not_in_it_and_greedy_search_keeps_hypotheses_alone(randomize: Any) -> None:
    predictor = translator(randomize)
    settings = GenerationSettings(beam=3, maximum_length=7)
    trees = []
    for texts, source in ((["abc def"], 0), (["gh", "abc def"], 1)):
        tree = BeamTree(source)
        with predictor.observing(tree):
            predictor.translate_batch(texts, settings)
        trees.append([(each.step, each.parent, each.token, each.fate) for each in tree.tried])
    assert trees[0] == trees[1]
    tree = BeamTree()
    with predictor.observing(tree):
        predictor.translate("abc def", GenerationSettings(maximum_length=7))
    assert tree.tried == []
    assert len(tree.hypotheses) == 1
