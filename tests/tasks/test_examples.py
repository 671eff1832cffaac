"""Training and validation examples."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.tasks.examples import Examples, Splits, amount_of, check_amount, hold_out

NUMBERS = Examples(
    type=int,
    rows="training examples",
    wanted="a number",
    file="file of numbers",
    row=lambda row, where, number, data: int(row),
    read=lambda data, path, malformed: map(int, path),
)


@dataclass(frozen=True, kw_only=True)
class Section:
    train: str | None = None
    validation: str | None = None
    validation_share: float | None = 0.1
    validation_size: int | None = None


@dataclass(frozen=True, kw_only=True)
class Sized(Section):
    validation_share: float | None = None
    validation_size: int | None = 1000


def test_a_share_and_a_size_mean_the_same_in_every_task():
    assert amount_of(Section()) == {"share": 0.1, "size": None}
    assert amount_of(Sized()) == {"share": None, "size": 1000}
    for section in (Section(validation_size=7), Sized(validation_size=7)):
        check_amount(section)
        assert amount_of(section) == {"share": None, "size": 7}
    for section in (Section(validation_share=0.25), Sized(validation_share=0.25)):
        check_amount(section)
        assert amount_of(section) == {"share": 0.25, "size": None}
    assert len(hold_out(100, size=7, seed=0)) == 7
    assert len(hold_out(100, size=70, seed=0)) == 10
    assert hold_out(100, size=7, seed=0) == hold_out(100, share=0.07, seed=0)
    for wrong in (Section(validation_share=0.2, validation_size=3), Sized(validation_share=0.2, validation_size=3)):
        with pytest.raises(InputError, match="give the one or the other"):
            check_amount(wrong)
    with pytest.raises(
        InputError, match=r"9 pairs are too few to hold some out for validation; give at least 10, or data\.validation"
    ):
        hold_out(9, size=5, seed=0, what="pairs")


def test_examples_are_read_from_files_or_rows_in_memory():
    section = Section(train="12", validation="345")
    assert list(NUMBERS.named(section, MalformedRows())) == [1, 2]
    assert list(NUMBERS.splits(section, 0, None, None).validation()) == [3, 4, 5]
    assert list(NUMBERS.splits(section, 0, (row for row in ("7", 8)), [9]).train()) == [7, 8]
    with pytest.raises(InputError, match=r"data\.train is missing; name a file of numbers"):
        NUMBERS.splits(Section(), 0, None, None)
    with pytest.raises(InputError, match="no file of numbers is named"):
        NUMBERS.named(Section(), MalformedRows())
    with pytest.raises(
        InputError, match="there is nothing to evaluate; give a list with at least one training example"
    ):
        NUMBERS.to_measure([])


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
            NUMBERS.reader(None, None, wrong)


def test_what_belongs_together_is_held_out_together():
    for seed in range(5):
        splits = Splits(lambda _: range(40), None, share=0.2, seed=seed, together=lambda number: number % 10)
        train, validation = list(splits.train()), list(splits.validation())
        assert sorted(train + validation) == list(range(40))
        assert len(validation) == 8
        assert not {number % 10 for number in train} & {number % 10 for number in validation}
    with pytest.raises(InputError, match="all training examples belong together"):
        list(Splits(lambda _: range(9), None, share=0.2, seed=0, together=lambda _: 0).train())
