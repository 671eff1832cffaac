"""A paper's claim: a comparison, what it was predicted to find, and the expression that judges it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.claims.catalogue import claim_files
from regard.claims.comparison import SECTIONS, Comparison, read_comparison, seeds_of
from regard.claims.computation import EXPERIMENT, Computation, read_computation
from regard.claims.expression import Expression, references
from regard.claims.own_data import OwnData
from regard.errors import InputError, nearest
from regard.structure import from_mapping
from regard.training.recipe import read_yaml


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim; the catalogue's are files of these fields.

    Arguments:
        name: in commands, and of its files.
        row: its number among the claims of the project.
        source: the paper and place.
        statement: what it says, in a sentence.
        predicted: what would confirm it, with the thresholds; written before the first run and not changed after.
        comparison: the sections of a comparison.
        judge: the expression that confirms it.
        refutes: the expression that refutes it; where null, all that does not confirm it does.
        own_data: what it means on the user's pairs, or a sentence why it means nothing there.
        minutes: about how long it takes on two cores.

    The file has the sections of the comparison (`recipe`, `arms`, `seeds`, `budget`, `measures`) beside the other fields; those
    of one that trains no model are `experiment`, `arms` and `seeds`.

    The comparison is read, and the expressions are held against it, when one of them is first asked for (`resolved`).
    """

    name: str
    row: str
    source: str
    statement: str
    predicted: str
    comparison: dict[str, Any]
    judge: str
    own_data: OwnData | str
    minutes: float
    refutes: str | None = None

    @cached_property
    def expressions(self) -> tuple[Expression, Expression | None]:
        """`judge`, and `refutes` where there is one."""
        where = f"claim {self.name!r}"
        return (
            Expression(self.judge, f"{where}: judge"),
            None if self.refutes is None else Expression(self.refutes, f"{where}: refutes"),
        )

    @cached_property
    def resolved(self) -> Comparison | Computation:
        """The comparison as the catalogue has it; a computation where an experiment stands for the recipe, imported now.

        Raises:
            InputError: for a comparison that cannot be, or expressions that ask for arms or measures it does not have.
        """
        try:
            comparison = (
                read_computation(self.comparison) if EXPERIMENT in self.comparison else read_comparison(self.comparison)
            )
        except InputError as error:
            raise InputError(f"claim {self.name!r}: {error}") from error
        measures = {measure.name: measure for measure in comparison.measures}
        for asked in references(*self.expressions):
            where = f"claim {self.name!r}"
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

    @property
    def needs_data(self) -> bool:
        """Whether there is no builtin data for it."""
        return isinstance(self.own_data, OwnData) and self.own_data.needed

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds it is judged by."""
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
        return claim_of(read_yaml(Path(name)), name)
    files = claim_files()
    if name not in files:
        name = next((each.name for each in claims() if each.row == name), name)
    if name not in files:
        raise InputError(f"there is no claim {name!r}; {nearest(name, list(files))}")
    return _checked(_of_catalogue(name, files[name]))


def claim_of(values: Mapping[str, Any], where: str) -> Claim:
    """A claim from YAML values: its own fields, and beside them the sections of the comparison.

    Raises:
        InputError: for what is missing, unknown or of another type, naming the place; for a comparison that cannot be, or
            expressions that ask for what it does not have.
    """
    return _checked(_read(values, where))


def order_of(row: str) -> list[tuple[int, str]]:
    """1.3b after 1.3a, and 1.10 after 1.9."""
    return [(int(number or 0), letters) for number, letters in re.findall(r"(\d*)([a-z]*)", row) if number or letters]


def _read(values: Mapping[str, Any], where: str) -> Claim:
    own = {key: value for key, value in values.items() if key not in (*SECTIONS, EXPERIMENT)}
    sections = {key: value for key, value in values.items() if key in (*SECTIONS, EXPERIMENT)}
    return from_mapping(Claim, own | {"comparison": sections}, where)


def _checked(claim: Claim) -> Claim:
    """The claim, whose comparison can be read."""
    _ = claim.resolved
    return claim


def _of_catalogue(name: str, file: Path) -> Claim:
    where = f"{file.parent.name}/{file.name}"
    found = _read(read_yaml(file), where)
    if found.name != name:
        raise InputError(f"{where}: the claim is called {found.name!r}; call it {name!r}, as its folder")
    return found
