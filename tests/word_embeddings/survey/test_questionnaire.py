"""What people are asked: neighbours at their ranks, in an order that tells nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.errors import InputError
from regard.word_embeddings import WordVectors, neighbours
from regard.word_embeddings.survey import make_questionnaire, read_key

WORDS = tuple(f"word{number}" for number in range(300))


def tables(count: int = 2) -> list[WordVectors]:
    draw = np.random.default_rng(0)
    shared = draw.normal(size=(300, 8))
    return [
        WordVectors(words=WORDS, name=name, matrix=(shared + draw.normal(size=(300, 8))).astype(np.float32))
        for name in "abc"[:count]
    ]


@pytest.mark.parametrize("count", [2, 3])
def test_options_are_the_neighbours_at_a_rank_and_their_owners(count):
    made = tables(count)
    by_name = {table.name: table for table in made}
    asked = make_questionnaire(made, queries=20, intruders=4, seed=1)
    compared = [item for item in asked.items if item.kind == "neighbour"]
    for item in compared:
        assert len(set(item.options)) == len(item.options) > 1
        owned = dict(zip(item.options, item.owners, strict=True))
        assert sorted(name for names in item.owners for name in names) == sorted(by_name)
        for word, names in owned.items():
            for name in names:
                assert neighbours(by_name[name], item.query, item.rank)[-1].word == word
    assert {item.rank for item in compared} == {1, 5, 50}
    first = [item.owners[0][0] for item in compared]
    assert all(first.count(name) / len(first) > 0.15 for name in by_name)  # no table is always on top
    intruders = [item for item in asked.items if item.kind == "intruder"]
    assert len(intruders) == 4 * count
    for item in intruders:
        assert sum(map(bool, item.owners)) == 1
        assert len(item.options) == 4


def test_the_seed_decides():
    one, again, other = (make_questionnaire(tables(), queries=9, intruders=3, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert one.page == again.page != other.page
    assert len({item.name for item in one.items}) == len(one.items)


def test_nothing_is_asked_where_all_have_the_same_neighbour():
    one, other = tables()
    twin = WordVectors(words=WORDS, matrix=one.matrix, name="twin")
    asked = make_questionnaire([one, twin, other], queries=10, intruders=0)
    assert all(("a", "twin") in item.owners for item in asked.items)
    with pytest.raises(InputError, match="there are no questions"):
        make_questionnaire([one, twin], queries=10, intruders=0)


def test_only_words_in_common_are_shown():
    one, other = tables()
    less = other.only(range(150))
    asked = make_questionnaire([one, less], words=["word3", "word140"], intruders=1)
    assert all(option in less for item in asked.items for option in item.options)
    assert {item.query for item in asked.items if item.kind == "neighbour"} == {"word3", "word140"}
    with pytest.raises(InputError, match="'word200' is not in all"):
        make_questionnaire([one, less], words=["word200"])


def test_the_page_does_not_know_whose_words_they_are():
    shown = make_questionnaire(tables(), queries=5).shown()
    assert set(shown) == {"page", "items"}
    assert all(set(item) == {"name", "kind", "query", "options"} for item in shown["items"])


def test_a_key_is_read_back_and_a_changed_one_is_refused(tmp_path):
    made = make_questionnaire(tables(), queries=5)
    file = tmp_path / "a.key.json"
    file.write_text(json.dumps(made.to_json()))
    assert read_key(file) == made
    values = made.to_json()
    values["items"][0]["owners"] = values["items"][0]["owners"][::-1]
    file.write_text(json.dumps(values))
    with pytest.raises(InputError, match="was changed"):
        read_key(file)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "regard judging key 1"}', "{" * 3000, '{"format": 1, "items": 3}']
)
def test_a_file_that_is_no_key_is_refused(tmp_path, text):
    file = tmp_path / "a.key.json"
    file.write_text(text)
    with pytest.raises(InputError, match=r"a\.key\.json"):
        read_key(file)
    with pytest.raises(InputError, match="no such file"):
        read_key(tmp_path / "other")


def test_one_table_is_nothing_to_compare():
    one, other = tables()
    with pytest.raises(InputError, match="two or more"):
        make_questionnaire([one])
    with pytest.raises(InputError, match="two or more"):
        make_questionnaire([one, WordVectors(words=other.words, matrix=other.matrix, name=one.name)])
    with pytest.raises(InputError, match="ranks are"):
        make_questionnaire([one, other], ranks=(0,))
