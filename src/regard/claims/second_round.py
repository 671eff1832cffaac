"""The second round of a claim: its parts, each a contrast of paired seeds with its own verdict, and the verdict of the claim.

| kind of a part | question | effect on the claim |
|---|---|---|
| `direction` | which arm is better, as the paper says | it decides the claim |
| `size` | by how much, compared with a number fixed beforehand | none, it has its own verdict |
| `condition` | whether the experiment can show anything | the claim is inconclusive if the median does not meet it |

A condition is, for example, that both arms have learned, or that the task is neither solved nor impossible for the weaker one.
With k bounds among the directions each one is judged at the level 0.05 / k. The claim is *supported* if every direction is, which
is wrong with a probability of at most 0.05 / k; *contradicted* if one is, wrong with at most k * 0.05 / k; else *inconclusive*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from regard.claims.comparison import seeds_of
from regard.claims.evidence import LEVEL, Bound, Evidence, evidence, fewest, outcome_of
from regard.claims.expression import Contrast, Expression, NoNumber, Numbers
from regard.claims.own_data import OwnData
from regard.errors import InputError
from regard.structure import finite

Outcome = Literal["supported", "contradicted", "inconclusive", "not tested at this scale"]
NOT_TESTED: Outcome = "not tested at this scale"
Met = Literal["met", "not met"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperNumber:
    """The number that the paper reports for a part.

    Arguments:
        value: the number, in the units of the contrast.
        place: its place in the paper, such as `table 2`, and the data.
    """

    value: float
    place: str


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of a claim.

    Arguments:
        says: its statement, a sentence.
        kind: `direction`, `size` or `condition`; see the module.
        contrast: an expression with a number for each seed: `value("arm", "measure")` or `value("arm", "measure", length)`,
            arithmetic, `min`, `max`, `abs`. Null if the part is not tested.
        above, below: bounds; a number beyond them supports the part, an equal one counts for neither side.
        at_least, at_most: bounds; an equal number supports the part too.
        paper: the paper's number, which is displayed but not used for the verdict.
        not_tested: why it cannot be tested at this scale.

    Raises:
        InputError: for a part without a bound, two bounds on one side, or a contrast that cannot be read.
    """

    says: str
    kind: Literal["direction", "size", "condition"]
    contrast: str | None = None
    above: float | None = None
    below: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    paper: PaperNumber | None = None
    not_tested: str | None = None

    def __post_init__(self) -> None:
        where = f"part {self.says!r}"
        if self.not_tested is not None:
            if self.contrast is not None or self.bounds:
                raise InputError(f"{where}: is not tested and has a contrast or a bound; leave one of them out")
            return
        if self.contrast is None:
            raise InputError(f"{where}: has no contrast; give one, or not_tested with the reason")
        if not self.bounds:
            raise InputError(f"{where}: has no bound; give above, below, at_least or at_most")
        if len({bound.lower for bound in self.bounds}) < len(self.bounds):
            raise InputError(f"{where}: has two bounds on one side; give one")
        lower, upper = (next((b.value for b in self.bounds if b.lower == side), None) for side in (True, False))
        if lower is not None and upper is not None and lower > upper:
            raise InputError(f"{where}: no number is above {lower:g} and below {upper:g}; swap them")
        _ = self.expression

    @cached_property
    def expression(self) -> Contrast | None:
        """The parsed contrast; None if the part is not tested."""
        return None if self.contrast is None else Contrast(self.contrast, f"part {self.says!r}: contrast")

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The predicted bounds of the contrast, the lower one first."""
        found = (
            (self.above, True, True),
            (self.at_least, True, False),
            (self.below, False, True),
            (self.at_most, False, False),
        )
        return tuple(Bound(value, lower=lower, strict=strict) for value, lower, strict in found if value is not None)

    @property
    def predicted(self) -> str:
        """The bounds in words.

        >>> Part(says="s", kind="size", contrast="1", at_least=0.2, below=1).predicted
        'at least 0.2 and below 1'
        """
        named = (("above", self.above), ("at least", self.at_least), ("below", self.below), ("at most", self.at_most))
        return " and ".join(f"{name} {value:g}" for name, value in named if value is not None)


@dataclass(frozen=True, kw_only=True)
class SecondRound:
    """The second round of a claim.

    Arguments:
        predicted: the expected result and why; committed before the first run of the round and not changed after it.
        parts: the parts to judge.
        minutes: the approximate duration on two cores.
        seeds: the number of seeds, or the seeds.
        changes: dotted keys of the claim's sections and their values in this round: `recipe.data.sequences.longest`,
            `budget.steps`, `arms`, `measures`, `experiment.steps`.
        own_data: how this round runs on the user's data; null = as in the claim.

    Raises:
        InputError: for a round without a direction, or with too few seeds for any verdict.
    """

    predicted: str
    parts: tuple[Part, ...]
    minutes: float
    seeds: int | tuple[int, ...] = 5
    changes: dict[str, Any] = field(default_factory=dict)
    own_data: OwnData | str | None = None

    def __post_init__(self) -> None:
        if not any(part.kind == "direction" for part in self.parts):
            raise InputError("second_round: has no part of kind direction, which decides the claim; add one")
        for part in self.parts:
            if part.kind != "condition" and part.bounds and len(self.numbers) < fewest(self.level_of(part)):
                raise InputError(
                    f"second_round: {len(self.numbers)} seeds are too few to judge part {part.says!r}; give at least "
                    f"{fewest(self.level_of(part))}"
                )

    @property
    def numbers(self) -> tuple[int, ...]:
        """The seeds."""
        return seeds_of(self.seeds if isinstance(self.seeds, int) else list(self.seeds))

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The contrasts of all tested parts."""
        return tuple(part.expression for part in self.parts if part.expression is not None)

    def level_of(self, part: Part) -> float:
        """The level of a part: 0.05 divided by the number of bounds of all directions, or of the part itself."""
        if part.kind == "direction":
            return LEVEL / max(1, sum(len(each.bounds) for each in self.parts if each.kind == "direction"))
        return LEVEL / max(1, len(part.bounds))


@dataclass(frozen=True, kw_only=True, slots=True)
class PartVerdict:
    """The verdict of a part.

    Arguments:
        part: the part.
        outcome: the verdict; for a condition `met` or `not met`.
        reason: why it is inconclusive or not tested, if this does not follow from the numbers.
        numbers: the contrast of each seed; may be empty.
        shown: the statistics of the contrast; None without numbers.
    """

    part: Part
    outcome: Outcome | Met
    reason: str = ""
    numbers: dict[int, float] = field(default_factory=dict)
    shown: Evidence | None = None

    def to_json(self) -> dict[str, Any]:
        """The verdict as JSON values, as in `regard claims run --json`; infinity is null."""
        part, shown = self.part, self.shown
        values: dict[str, Any] = {
            "says": part.says,
            "kind": part.kind,
            "contrast": None if part.expression is None else part.expression.text,
            "predicted": part.predicted,
            "bounds": {
                name: value
                for name in ("above", "at_least", "below", "at_most")
                if (value := getattr(part, name)) is not None
            },
            "verdict": self.outcome,
            "reason": self.reason,
            "estimate": None if shown is None else shown.estimate,
            "interval": None if shown is None else [shown.lower, shown.upper],
            "level": None if shown is None else shown.level,
            "smallest_visible": None if shown is None else shown.visible,
            "seeds": {str(seed): number for seed, number in self.numbers.items()},
            "paper": None if part.paper is None else {"value": part.paper.value, "place": part.paper.place},
        }
        return finite(values)


def judged_parts(
    round_: SecondRound, numbers: Numbers, seeds: Sequence[int]
) -> tuple[Outcome, str, tuple[PartVerdict, ...]]:
    """The verdict of the claim, the reason if it is inconclusive or not tested, and the verdict of each part.

    Arguments:
        numbers: the numbers of the arms.
        seeds: the seeds that were run, those of the round or others.
    """
    found = [_judged(part, round_.level_of(part), numbers, seeds) for part in round_.parts]
    failed = [each for each in found if each.part.kind == "condition" and each.outcome != "met"]
    if failed:
        reason = "; ".join(f"condition not met: {each.part.says.rstrip('.')}" for each in failed)
        kept = [
            each
            if each.part.kind == "condition" or each.outcome == NOT_TESTED
            else PartVerdict(
                part=each.part, outcome="inconclusive", reason=reason, numbers=each.numbers, shown=each.shown
            )
            for each in found
        ]
        return "inconclusive", reason, tuple(kept)
    directions = [each for each in found if each.part.kind == "direction"]
    tested = [each for each in directions if each.outcome != NOT_TESTED]
    if not tested:
        return NOT_TESTED, "; ".join(each.reason for each in directions), tuple(found)
    if any(each.outcome == "contradicted" for each in tested):
        return "contradicted", "", tuple(found)
    if all(each.outcome == "supported" for each in tested):
        return "supported", "", tuple(found)
    open_ = [each for each in tested if each.outcome == "inconclusive"]
    return "inconclusive", "; ".join(dict.fromkeys(each.reason for each in open_ if each.reason)), tuple(found)


def _judged(part: Part, level: float, numbers: Numbers, seeds: Sequence[int]) -> PartVerdict:
    if part.expression is None:
        return PartVerdict(part=part, outcome=NOT_TESTED, reason=part.not_tested or "")
    try:
        by_seed = part.expression.by_seed(numbers, seeds)
    except NoNumber as error:
        return PartVerdict(
            part=part, outcome="not met" if part.kind == "condition" else "inconclusive", reason=str(error)
        )
    shown = evidence([*by_seed.values()], level)
    if part.kind == "condition":
        holds = all(bound.agrees(shown.estimate) for bound in part.bounds)
        return PartVerdict(part=part, outcome="met" if holds else "not met", numbers=by_seed, shown=shown)
    few = len(seeds) < fewest(level)
    return PartVerdict(
        part=part,
        outcome=outcome_of([*by_seed.values()], part.bounds, level),
        reason=f"{_counted(len(seeds))} fewer than the {fewest(level)} that a verdict needs" if few else "",
        numbers=by_seed,
        shown=shown,
    )


def _counted(seeds: int) -> str:
    return "1 seed is" if seeds == 1 else f"{seeds} seeds are"
