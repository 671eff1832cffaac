"""The judge of the second round: parts, conditions, levels, and what they come to."""

from __future__ import annotations

import math

import pytest

import regard
from regard.claims.evidence import Bound, evidence, fewest, needed, outcome_of
from regard.claims.second_round import Part, SecondRound, judged_parts
from regard.structure import from_mapping

DIFFERENCE = 'value("a", "x") - value("b", "x")'


class Given:
    """Numbers of arms, one a seed."""

    def __init__(self, **arms):
        self.arms = arms

    def values(self, arm, measure, length=None):
        return dict(enumerate(self.arms[arm], start=1))


def round_of(*parts, seeds=5):
    return from_mapping(
        SecondRound, {"predicted": "p", "minutes": 1, "seeds": seeds, "parts": list(parts)}, "second_round"
    )


AHEAD = {"says": "a is ahead", "kind": "direction", "contrast": DIFFERENCE, "above": 0}
FAR = {"says": "by a half", "kind": "size", "contrast": DIFFERENCE, "at_least": 0.5}
LEARNT = {"says": "b learns", "kind": "condition", "contrast": 'value("b", "x")', "at_least": 0.2, "below": 0.9}


def test_the_fewest_seeds_that_must_agree_are_those_of_the_binomial():
    assert {count: needed(count) for count in range(3, 11)} == {
        3: None, 4: None, 5: 5, 6: 6, 7: 7, 8: 7, 9: 8, 10: 9,
    }  # fmt: skip
    for count in range(5, 40):
        tail = sum(math.comb(count, k) for k in range(needed(count), count + 1)) / 2**count
        assert tail <= 0.05 < tail + math.comb(count, needed(count) - 1) / 2**count
    assert [fewest(0.05 / k) for k in (1, 2, 3, 4)] == [5, 6, 6, 7]


def test_the_interval_and_the_verdict_agree():
    numbers = [0.1, -0.2, 0.4, 0.3, 0.2, 0.6, 0.5, 0.7]
    shown = evidence(numbers)
    assert (shown.lower, shown.upper) == (0.1, 0.6)  # the second smallest and the second largest of eight
    for threshold in (-0.3, 0.05, 0.15, 0.55, 0.65, 0.75):
        at_least = outcome_of(numbers, [Bound(threshold, lower=True)])
        assert (at_least == "supported") == (shown.lower >= threshold)
        assert (at_least == "contradicted") == (shown.upper < threshold)


@pytest.mark.parametrize(
    ("a", "b", "outcome", "size"),
    [
        ([0.9] * 5, [0.3] * 5, "supported", "supported"),
        ([0.6] * 5, [0.3] * 5, "supported", "contradicted"),  # a size alone decides nothing
        ([0.1] * 5, [0.3] * 5, "contradicted", "contradicted"),
        ([0.9, 0.9, 0.9, 0.9, 0.2], [0.3] * 5, "inconclusive", "inconclusive"),
        ([0.3] * 5, [0.3] * 5, "inconclusive", "contradicted"),  # equal is for neither
    ],
)
def test_directions_decide(a, b, outcome, size):
    found, _, parts = judged_parts(round_of(AHEAD, FAR), Given(a=a, b=b), range(1, 6))
    assert found == outcome
    assert parts[1].outcome == size


@pytest.mark.parametrize("b", [[0.95] * 5, [0.1] * 5])
@pytest.mark.parametrize("a", [[0.99] * 5, [0.0] * 5])
def test_a_condition_that_fails_is_never_a_contradiction(a, b):
    outcome, reason, parts = judged_parts(round_of(AHEAD, FAR, LEARNT), Given(a=a, b=b), range(1, 6))
    assert outcome == "inconclusive"
    assert reason == "condition not met: b learns"
    assert [part.outcome for part in parts] == ["inconclusive", "inconclusive", "not met"]
    assert parts[0].numbers  # still shown


def test_one_of_two_directions_contradicts_at_half_the_level():
    second = AHEAD | {"says": "b is", "contrast": 'value("b", "x")'}
    with pytest.raises(regard.InputError, match="5 seeds are too few to judge part 'a is ahead'; give at least 6"):
        round_of(AHEAD, second)
    judge = round_of(AHEAD, second, seeds=6)
    assert judge.level_of(judge.parts[0]) == 0.025
    outcome, _, _ = judged_parts(judge, Given(a=[0.1] * 6, b=[0.2] * 6), range(1, 7))
    assert outcome == "contradicted"


def test_what_cannot_be_judged_says_why():
    few = judged_parts(round_of(AHEAD), Given(a=[1.0] * 3, b=[0.0] * 3), (1, 2, 3))
    assert few[:2] == ("inconclusive", "3 seeds are fewer than the 5 that a verdict needs")
    missing = judged_parts(round_of(AHEAD), Given(a=[1, None, 1, 1, 1], b=[0.0] * 5), range(1, 6))
    assert missing[:2] == ("inconclusive", "there is no number for 'x' of 'a'")
    never = judged_parts(round_of(AHEAD), Given(a=[math.inf] * 5, b=[math.inf] * 5), range(1, 6))
    assert never[0] == "inconclusive"
    scale = {"says": "on ImageNet", "kind": "direction", "not_tested": "a thousand times the pictures"}
    assert judged_parts(round_of(scale), Given(), range(1, 6))[:2] == (
        "not tested at this scale",
        "a thousand times the pictures",
    )
    outcome, _, parts = judged_parts(round_of(AHEAD, scale), Given(a=[1.0] * 5, b=[0.0] * 5), range(1, 6))
    assert (outcome, parts[1].outcome) == ("supported", "not tested at this scale")


def test_json_has_the_interval_the_threshold_and_every_seed():
    part = AHEAD | {"paper": {"value": 0.3, "place": "table 2"}}
    a = [0.31, 0.28, 0.35, 0.30, 0.27]
    (found,) = judged_parts(round_of(part), Given(a=a, b=[0.0] * 5), range(1, 6))[2]
    values = found.to_json()
    assert (values["estimate"], values["interval"], values["bounds"]) == (0.3, [0.27, 0.35], {"above": 0.0})
    assert values["seeds"] == {str(seed): number for seed, number in enumerate(a, start=1)}
    assert values["smallest_visible"] == pytest.approx(0.0533, abs=1e-3)
    assert values["paper"] == {"value": 0.3, "place": "table 2"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"above": None}, "has no bound"),
        ({"at_least": 1}, "two bounds on one side"),
        ({"below": -1}, "no number is above 0 and below -1"),
        ({"contrast": None}, "has no contrast"),
        ({"contrast": "1 <"}, "not an expression"),
        ({"contrast": 'median("a", "x")'}, "is not known"),
        ({"contrast": 'value("a", "x") > 1'}, "is a condition instead of a number"),
        ({"not_tested": "no"}, "is not tested and has a contrast or a bound"),
        ({"kind": "sise"}, "choose 'direction' or 'size' or 'condition'"),
        ({"abvoe": 1}, "did you mean 'above'"),
    ],
)
def test_parts_that_cannot_be_are_refused(change, says):
    with pytest.raises(regard.InputError, match=says):
        round_of(AHEAD | change)
    with pytest.raises(regard.InputError, match="no part of kind direction"):
        round_of(FAR)
    assert Part(**AHEAD).predicted == "above 0"
