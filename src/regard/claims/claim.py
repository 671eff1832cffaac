"""A paper's claim: a comparison, its predicted result, and how it is judged, by one expression or by parts."""

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
"""The rounds: 1, an expression over medians that confirms or refutes; 2, parts that are each judged by paired seeds."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim; a file of the catalogue has these fields.

    Arguments:
        name: its name in commands and of its folder.
        row: its number among the claims of the project.
        source: the paper and the place in it.
        statement: the claim in one sentence.
        predicted: the result that would confirm it, with thresholds; written before the first run and not changed after it.
            Without `judge` that of `second_round`.
        comparison: the sections of a comparison.
        judge: the expression that confirms it, in the first round; null if it is only judged by parts (a second round without a
            first).
        refutes: the expression that refutes it; null = it is refuted if it is not confirmed.
        second_round: how it is judged in the second round, by parts; null if there is none.
        own_data: how it runs on the user's pairs, or a sentence why it does not.
        minutes: the approximate duration on two cores; without `judge` that of `second_round`.

    The file has the sections of the comparison (`recipe`, `arms`, `seeds`, `budget`, `measures`) next to these fields, or
    `experiment`, `arms` and `seeds` if it trains no model.

    `file` is the path from which it was read, or None. The comparison is read, and the expressions are checked against it, when
    it is first needed (`resolved`).
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
            raise InputError(f"claim {self.name!r} has no judge; give one, or only parts: second_round, and no refutes")

    @cached_property
    def expressions(self) -> tuple[Expression, Expression | None]:
        """`judge`, and `refutes` or None.

        Raises:
            InputError: if the claim is only judged by parts, or an expression cannot be read.
        """
        where = f"claim {self.name!r}"
        if self.judge is None:
            raise InputError(f"{where} is only judged by parts; it has no judge")
        return (
            Expression(self.judge, f"{where}: judge"),
            None if self.refutes is None else Expression(self.refutes, f"{where}: refutes"),
        )

    @property
    def rounds(self) -> tuple[int, ...]:
        """The rounds of this claim; only the second if it is only judged by parts."""
        first = () if self.judge is None else (FIRST,)
        return first if self.second_round is None else (*first, SECOND)

    @property
    def latest(self) -> int:
        """The last round of this claim."""
        return self.rounds[-1]

    def second(self, number: int) -> SecondRound | None:
        """The second round if `number` is 2, None if it is 1.

        Raises:
            InputError: if the claim does not have this round.
        """
        if number not in self.rounds:
            known = f"the last is {self.latest}" if self.judge is not None else "it is only judged by parts"
            raise InputError(f"claim {self.name!r} has no round {number}; {known}")
        return None if number == FIRST else self.second_round

    def in_round(self, number: int) -> Claim:
        """The claim with `predicted`, `minutes`, `own_data` and the comparison of a round.

        Raises:
            InputError: if the claim does not have this round, or the round changes an unknown section.
        """
        second = self.second(number)
        if second is None:
            return self
        sections = copied(self.comparison)
        for key, value in second.changes.items():
            if key.split(".")[0] not in (*SECTIONS, EXPERIMENT):
                raise InputError(
                    f"claim {self.name!r}: second_round.changes: {key} is not in a section of the comparison; "
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
        """The comparison of the first round of this claim, or the computation of its experiment, which is imported now.

        Raises:
            InputError: for an invalid comparison, or expressions with arms or measures that it does not have.
        """
        return self.resolved_in(self.rounds[0])

    def resolved_in(self, number: int) -> Comparison | Computation:
        """The comparison or computation of a round.

        Raises:
            InputError: as `resolved`, and for a round that the claim does not have.
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
        """Check that the comparison can be read in every round; return the claim.

        Raises:
            InputError: as `resolved`.
        """
        _ = self.resolved
        for number in self.rounds[1:]:
            self.resolved_in(number)
        return self

    @property
    def needs_data(self) -> bool:
        """Whether it needs data of the user, because there is no builtin data for it."""
        return isinstance(self.own_data, OwnData) and self.own_data.needed

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds with which it is judged, in its first round if it has one."""
        if self.judge is None and self.second_round is not None:
            return self.second_round.numbers
        return seeds_of(self.comparison.get("seeds", 3))

    @property
    def command(self) -> str:
        """The command that runs it."""
        return f"regard claims run {self.name}" + (" data.path=FOLDER" if self.needs_data else "")


def claims() -> list[Claim]:
    """All installed claims, in the order of their rows; only their YAML is read.

    Raises:
        InputError: for an invalid claim, naming its file.
    """
    found = [_of_catalogue(name, file) for name, file in claim_files().items()]
    return sorted(found, key=lambda claim: order_of(claim.row))


def claim(name: str) -> Claim:
    """A claim of the catalogue by name or row, or of a file of the user; its experiment, if it has one, is imported.

    Raises:
        InputError: for an unknown name, with the nearest one; as `claim_of`.
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
    """A claim from YAML values: its fields, and the sections of the comparison.

    Raises:
        InputError: for values that are missing, unknown or of another type, naming their place; for an invalid comparison, or
            expressions with arms or measures that it does not have.
    """
    return _read(values, where).checked()


def order_of(row: str) -> list[tuple[int, str]]:
    """A sort key for rows: 1.3b is after 1.3a, and 1.10 after 1.9."""
    return [(int(number or 0), letters) for number, letters in re.findall(r"(\d*)([a-z]*)", row) if number or letters]


def _read(values: Mapping[str, Any], where: str) -> Claim:
    if not isinstance(values, Mapping):
        raise InputError(f"{where}: is not a claim, which is a mapping; see docs/claims.md")
    own = {key: value for key, value in values.items() if key not in (*SECTIONS, EXPERIMENT)}
    sections = {key: value for key, value in values.items() if key in (*SECTIONS, EXPERIMENT)}
    parts = own.get("second_round")
    if own.get("judge") is None and isinstance(parts, Mapping):  # these fields of the parts are also those of the claim
        own = {key: parts[key] for key in ("predicted", "minutes") if key in parts} | own
    return from_mapping(Claim, own | {"comparison": sections}, where)


def _of_catalogue(name: str, file: Path) -> Claim:
    where = f"{file.parent.name}/{file.name}"
    found = _read(read_yaml(file), where)
    if found.name != name:
        raise InputError(f"{where}: the claim has the name {found.name!r}; name it {name!r}, like its folder")
    return _from(file, found)


def _from(file: Path, claim: Claim) -> Claim:
    """Set the claim's `file`; return the claim."""
    object.__setattr__(claim, "file", file)  # the dataclass is frozen
    return claim
