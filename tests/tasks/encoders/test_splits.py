"""Training and validation examples."""

from __future__ import annotations

import pytest

from regard.errors import InputError
from regard.tasks.encoders import Splits
from regard.tasks.encoders.splits import given_or


def test_what_is_held_out_is_a_share_chosen_by_the_seed_and_in_one_split_only():
    def splits(seed: int) -> Splits[int]:
        return Splits(lambda _: range(50), None, share=0.2, seed=seed)

    one = splits(1)
    train, validation = list(one.train()), list(one.validation())
    assert sorted(train + validation) == list(range(50))
    assert len(validation) == 10
    assert train == sorted(train)
    assert list(splits(1).validation()) == validation
    assert list(splits(2).validation()) != validation


def test_a_validation_set_of_its_own_leaves_the_training_data_whole():
    splits = Splits(lambda _: range(5), lambda _: range(7, 9), share=0.5, seed=0)
    assert list(splits.train()) == list(range(5))
    assert list(splits.validation()) == [7, 8]


def test_two_examples_are_the_fewest_and_an_empty_list_is_refused():
    assert len(list(Splits(lambda _: [1, 2], None, share=0.01, seed=0).validation())) == 1
    with pytest.raises(InputError, match="1 training example is too few"):
        list(Splits(lambda _: [1], None, share=0.5, seed=0).train())
    for wrong in ([], "text"):
        with pytest.raises(InputError, match="the training examples are"):
            given_or(wrong, None, "training")


def test_what_belongs_together_is_held_out_together():
    for seed in range(5):
        splits = Splits(lambda _: range(40), None, share=0.2, seed=seed, together=lambda number: number % 10)
        train, validation = list(splits.train()), list(splits.validation())
        assert sorted(train + validation) == list(range(40))
        assert len(validation) == 8
        assert not {number % 10 for number in train} & {number % 10 for number in validation}
    with pytest.raises(InputError, match="all training examples belong together"):
        list(Splits(lambda _: range(9), None, share=0.2, seed=0, together=lambda _: 0).train())
