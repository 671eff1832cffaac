"""A paper's claim: a comparison, what it was predicted to find, and how it is judged, by one expression or by parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.claims.catalogue import EXPERIMENT, Computation, claim_files, read_computation
from regard.claims.comparison import SECTIONS, Comparison, copied, read_comparison, seeds_of
from regard.claims.expression import Expression, references
from regard.claims.own_data import OwnData
from regard.claims.second_round import SecondRound
from regard.errors import InputError, nearest
from regard.structure import from_mapping
from regard.training.recipe import put, read_yaml

FIRST, SECOND = 1, 2
"""The rounds: one expression over medians that confirms or refutes, and parts that are each judged by paired seeds."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim; the catalogue's are files of these fields.

    Arguments:
        name: in commands, and of its files.
        row: its number among the claims of the project.
        source: the paper and place.
        statement: what it says, in a sentence.
        predicted: what would confirm it, with the thresholds; written before the first run and not changed after. That of
            `second_round` where there is no `judge`.
        comparison: the sections of a comparison.
        judge: the expression that confirms it, in the first round; null where it is asked by parts alone, which are a second
            round without a first.
        refutes: the expression that refutes it; where null, all that does not confirm it does.
        second_round: how it is asked the second time, by parts; null where it is not.
        own_data: what it means on the user's pairs, or a sentence why it means nothing there.
        minutes: about how long it takes on two cores; that of `second_round` where there is no `judge`.

    The file has the sections of the comparison (`recipe`, `arms`, `seeds`, `budget`, `measures`) besides the other fields; those
    of one that trains no model are `experiment`, `arms` and `seeds`.

    `file` is where it was read from, None for one that was made otherwise. The comparison is read, and the expressions are held
    against it, when one of them is first asked for (`resolved`).
    """

    name: str
    row: str
    source: str
    statement: str
    predicted: str
    comparison: dict[str, Any]
    own_data: OwnData | str
    minutes: float
    judge: str | None = None
    refutes: str | None = None
    second_round: SecondRound | None = None
    file: Path | None = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        if self.judge is None and (self.second_round is None or self.refutes is not None):
            raise InputError(
                f"claim {self.name!r} has no judge; give one, or parts alone: second_round, and no refutes"
            )

    @cached_property
    def expressions(self) -> tuple[Expression, Expression | None]:
        """`judge`, and `refutes` where there is one.

        Raises:
            InputError: where the claim is judged by parts alone, or an expression cannot be read.
        """
        where = f"claim {self.name!r}"
        if self.judge is None:
            raise InputError(f"{where} is judged by parts alone; it has no judge")
        return (
            Expression(self.judge, f"{where}: judge"),
            None if self.refutes is None else Expression(self.refutes, f"{where}: refutes"),
        )

    @property
    def rounds(self) -> tuple[int, ...]:
        """Those there are; the second alone where it is judged by parts from the beginning."""
        first = () if self.judge is None else (FIRST,)
        return first if self.second_round is None else (*first, SECOND)

    @property
    def latest(self) -> int:
        """The last round there is."""
        return self.rounds[-1]

    def second(self, number: int) -> SecondRound | None:
        """The second round where that is asked for, None for the first.

        Raises:
            InputError: where the claim does not have it.
        """
        if number not in self.rounds:
            known = f"the last is {self.latest}" if self.judge is not None else "it is judged by parts alone"
            raise InputError(f"claim {self.name!r} has no round {number}; {known}")
        return None if number == FIRST else self.second_round

    def in_round(self, number: int) -> Claim:
        """The claim whose `predicted`, `minutes`, `own_data` and comparison are those of a round.

        Raises:
            InputError: where the claim does not have it, or changes what is no section.
        """
        second = self.second(number)
        if second is None:
            return self
        sections = copied(self.comparison)
        for key, value in second.changes.items():
            if key.split(".")[0] not in (*SECTIONS, EXPERIMENT):
                raise InputError(
                    f"claim {self.name!r}: second_round.changes: {key} is in no section of the comparison; "
                    f"{nearest(key, [*SECTIONS, EXPERIMENT])}"
                )
            put(sections, key, copied(value))
        sections["seeds"] = list(second.numbers)
        own_data = self.own_data if second.own_data is None else second.own_data
        return replace(self, predicted=second.predicted, minutes=second.minutes, comparison=sections, own_data=own_data)

    def asked(self, number: int) -> tuple[Expression, ...]:
        """The expressions that judge a round."""
        second = self.second(number)
        if second is not None:
            return second.expressions
        return tuple(each for each in self.expressions if each is not None)

    @cached_property
    def resolved(self) -> Comparison | Computation:
        """The comparison of the first round there is; a computation where an experiment stands for the recipe, imported now.

        Raises:
            InputError: for a comparison that cannot be, or expressions that ask for arms or measures it does not have.
        """
        return self.resolved_in(self.rounds[0])

    def resolved_in(self, number: int) -> Comparison | Computation:
        """The same of a round.

        Raises:
            InputError: as `resolved`, and where there is no such round.
        """
        return self.in_round(number)._resolved(self.asked(number))

    def _resolved(self, expressions: tuple[Expression, ...]) -> Comparison | Computation:
        where = f"claim {self.name!r}"
        try:
            comparison = (
                read_computation(self.comparison) if EXPERIMENT in self.comparison else read_comparison(self.comparison)
            )
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        measures = {measure.name: measure for measure in comparison.measures}
        for asked in references(*expressions):
            comparison.arm(asked.arm)
            if asked.measure not in measures:
                raise InputError(
                    f"{where}: there is no measure {asked.measure!r}; {nearest(asked.measure, [*measures])}"
                )
            if asked.length is not None and not measures[asked.measure].parted:
                raise InputError(
                    f"{where}: measure {asked.measure!r} has no bins for length {asked.length}; give it some"
                )
        return comparison

    def checked(self) -> Claim:
        """The claim, whose comparison can be read in every round.

        Raises:
            InputError: as `resolved`.
        """
        _ = self.resolved
        for number in self.rounds[1:]:
            self.resolved_in(number)
        return self

    @property
    def needs_data(self) -> bool:
        """Whether there is no builtin data for it."""
        return isinstance(self.own_data, OwnData) and self.own_data.needed

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds it is judged by, in its first round where it has one."""
        if self.judge is None and self.second_round is not None:
            return self.second_round.numbers
        return seeds_of(self.comparison.get("seeds", 3))

    @property
    def command(self) -> str:
        """How to run it."""
        return f"regard claims run {self.name}" + (" data.path=FOLDER" if self.needs_data else "")


def claims() -> list[Claim]:
    """Every claim that is installed, in the order of their rows; only their YAML is read.

    Raises:
        InputError: for a claim that is not one, naming its file.
    """
    found = [_of_catalogue(name, file) for name, file in claim_files().items()]
    return sorted(found, key=lambda claim: order_of(claim.row))


def claim(name: str) -> Claim:
    """A claim of the catalogue by name or row, or of a file of the user's own; its experiment is imported, where it has one.

    Raises:
        InputError: where there is none, with the nearest; as `claim_of`.
    """
    if name.endswith((".yaml", ".yml")):
        return _from(Path(name), claim_of(read_yaml(Path(name)), name))
    files = claim_files()
    if name not in files:
        name = next((each.name for each in claims() if each.row == name), name)
    if name not in files:
        raise InputError(f"there is no claim {name!r}; {nearest(name, list(files))}")
    return _of_catalogue(name, files[name]).checked()


def claim_of(values: Mapping[str, Any], where: str) -> Claim:
    """A claim from YAML values: its own fields, and the sections of the comparison.

    Raises:
        InputError: for what is missing, unknown or of another type, naming the place; for a comparison that cannot be, or
            expressions that ask for what it does not have.
    """
    return _read(values, where).checked()


def order_of(row: str) -> list[tuple[int, str]]:
    """1.3b after 1.3a, and 1.10 after 1.9."""
    return [(int(number or 0), letters) for number, letters in re.findall(r"(\d*)([a-z]*)", row) if number or letters]


def _read(values: Mapping[str, Any], where: str) -> Claim:
    if not isinstance(values, Mapping):
        raise InputError(f"{where}: holds no claim, which is a mapping; see docs/claims.md")
    own = {key: value for key, value in values.items() if key not in (*SECTIONS, EXPERIMENT)}
    sections = {key: value for key, value in values.items() if key in (*SECTIONS, EXPERIMENT)}
    parts = own.get("second_round")
    if own.get("judge") is None and isinstance(parts, Mapping):  # what is said of the parts is said of the claim
        own = {key: parts[key] for key in ("predicted", "minutes") if key in parts} | own
    return from_mapping(Claim, own | {"comparison": sections}, where)


def _of_catalogue(name: str, file: Path) -> Claim:
    where = f"{file.parent.name}/{file.name}"
    found = _read(read_yaml(file), where)
    if found.name != name:
        raise InputError(f"{where}: the claim is called {found.name!r}; call it {name!r}, as its folder")
    return _from(file, found)


def _from(file: Path, claim: Claim) -> Claim:
    """The claim, which knows its file."""
    object.__setattr__(claim, "file", file)  # frozen for everybody else
    return claim
