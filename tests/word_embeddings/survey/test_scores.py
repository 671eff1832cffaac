"""From files of answers, whole or broken, to what they say."""

from __future__ import annotations

import json
import random

import pytest

from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.word_embeddings.survey import Item, Questionnaire, judge, read_answers


def questionnaire(count: int = 20) -> Questionnaire:
    draw = random.Random(1)
    items = []
    for number in range(count):
        owners = draw.sample([("one",), ("two",)], 2)
        rank = (1, 5)[number % 2]
        items.append(
            Item(
                name=f"n{number}",
                kind="neighbour",
                query="q",
                options=("x", "y"),
                owners=tuple(owners),
                tables=("one", "two"),
                rank=rank,
            )
        )
    for number in range(count):
        name = ("one", "two")[number % 2]
        owners = tuple((name,) if place == number % 4 else () for place in range(4))
        items.append(
            Item(name=f"i{number}", kind="intruder", query=None, options=tuple("abcd"), owners=owners, tables=(name,))
        )
    return Questionnaire(tables=("one", "two"), items=tuple(items), seed=0)


def line(asked: Questionnaire, name: str, item: Item, choice: int | None, /, **changes) -> str:
    word = None if choice is None else item.options[choice]
    values = {"page": asked.page, "judge": name, "item": item.name, "choice": choice, "word": word}
    return json.dumps(values | changes) + "\n"


def prefers(item: Item, table: str) -> int:
    return next((place for place, names in enumerate(item.owners) if table in names), 0)


def found(asked, *files):
    return judge(asked, read_answers(asked, files))


def test_wins_are_counted_by_owner_and_rank(tmp_path):
    asked = questionnaire()
    one, two = (tmp_path / name for name in ("anna.jsonl", "ben.jsonl"))
    one.write_text("".join(line(asked, "anna", item, prefers(item, "one")) for item in asked.items))
    # Ben prefers the other table at rank 5, and does not know the words of four intruders.
    two.write_text(
        "".join(
            line(
                asked,
                "ben",
                item,
                None if item.name in ("i0", "i1", "i2", "i3") else prefers(item, "two" if item.rank == 5 else "one"),
            )
            for item in asked.items
        )
    )
    result = found(asked, one, two)
    share = {(each.table, each.kind, each.rank): each for each in result.shares}
    assert (share["one", "neighbour", 1].won, share["one", "neighbour", 1].answered) == (20, 20)
    assert (share["one", "neighbour", 5].won, share["two", "neighbour", 5].won) == (10, 10)
    assert share["one", "neighbour", None].share == 0.75
    assert share["one", "neighbour", None].interval.low < 0.75 < share["one", "neighbour", None].interval.high
    assert (result.answers, result.unknown) == ({"anna": 40, "ben": 40}, {"anna": 0, "ben": 4})
    assert share["one", "intruder", None].answered == 10 + 8
    agreement = {each.kind: each for each in result.agreement}
    assert agreement["neighbour"].agreed == 0.5
    assert agreement["neighbour"].statistic == "Cohen's kappa"
    assert agreement["intruder"].items == 16


def test_intruders_that_are_found_and_not_found(tmp_path):
    asked = questionnaire()
    file = tmp_path / "a.jsonl"
    intruders = [item for item in asked.items if item.kind == "intruder"]
    file.write_text("".join(line(asked, "a", item, prefers(item, "one")) for item in intruders))
    share = {each.table: each for each in found(asked, file).shares if each.kind == "intruder"}
    assert share["one"].share == 1.0
    assert share["two"].won == sum(item.tables == ("two",) and item.owners[0] == ("two",) for item in intruders)
    assert found(asked, file).agreement == ()


def test_three_judges_have_fleiss_kappa(tmp_path):
    asked = questionnaire()
    files = []
    for name in "abc":
        files.append(tmp_path / name)
        files[-1].write_text("".join(line(asked, name, item, prefers(item, "one")) for item in asked.items))
    result = found(asked, *files)
    assert [(each.statistic, each.kappa, each.items) for each in result.agreement] == [("Fleiss' kappa", 1.0, 20)] * 2


def test_the_last_answer_counts(tmp_path):
    asked = questionnaire()
    item = asked.items[0]
    file, later = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    file.write_text(line(asked, "a", item, 0) + line(asked, "a", item, 1))
    later.write_text(line(asked, " a ", item, None))
    assert [answer.choice for answer in read_answers(asked, [file])] == [1]
    assert [answer.choice for answer in read_answers(asked, [file, later])] == [None]


def test_broken_lines_are_counted_and_the_rest_is_taken(tmp_path):
    asked = questionnaire()
    item = asked.items[0]
    file = tmp_path / "a.jsonl"
    good = line(asked, "a", item, 1)
    bad = [
        good[:20] + "\n",
        "[1]\n",
        "null\n",
        "\n",
        line(asked, "a", item, 0, page="other"),
        line(asked, "a", item, 0, item="n999"),
        line(asked, "a", item, 0, item=["n0"]),
        line(asked, "", item, 0),
        line(asked, "a", item, 0, judge=7),
        line(asked, "a", item, 0, choice=2),
        line(asked, "a", item, 0, choice=-1),
        line(asked, "a", item, 0, choice=True),
        line(asked, "a", item, 0, choice="x"),
        line(asked, "a", item, 0, word="z"),
        "[" * 3000 + "\n",
    ]
    file.write_bytes("".join([*bad[:7], good, *bad[7:]]).encode() + b"\xff\xfe\n" + good[:-9].encode())
    malformed = MalformedRows()
    answers = read_answers(asked, [file], malformed)
    assert [(answer.judge, answer.item, answer.choice) for answer in answers] == [("a", item, 1)]
    assert malformed.by_reason == {
        "no JSON object": 6,
        "no such choice": 4,
        "no such question": 2,
        "no judge": 2,
        "answers another page": 1,
        "choice and word differ": 1,
    }


def test_no_answers_are_no_judgement(tmp_path):
    asked = questionnaire()
    with pytest.raises(InputError, match="no answers"):
        judge(asked, [])
    with pytest.raises(InputError, match="no such file"):
        read_answers(asked, [tmp_path / "none.jsonl"])


def test_judges_who_answered_different_questions_have_no_kappa(tmp_path):
    asked = questionnaire()
    file = tmp_path / "a.jsonl"
    file.write_text(line(asked, "a", asked.items[0], 0) + line(asked, "b", asked.items[1], 0))
    (agreement,) = found(asked, file).agreement
    assert (agreement.items, agreement.kappa, agreement.agreed) == (0, None, None)
