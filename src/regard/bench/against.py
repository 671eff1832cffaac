"""Compare a benchmark with a stored one: which rows became slower, judged by the ratio to a peer.

Machines differ, so seconds are not compared. The peer does the same work in the same rounds, so the machine's speed, and most of
its other load, cancels out of the ratio. A row is slower where its ratio in every round is below that of every round of the
stored run, and faster where all are above; else the two cannot be distinguished. Where nothing has changed, one row in 252 is
called slower by chance with five rounds in both (5! 5! / 10!), one in 20 with three.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.bench.rounds import Options, Report, rounded
from regard.errors import InputError
from regard.reading import as_object, read_json_object

ROUNDS = 3
"""The fewest rounds whose spread can be used."""

OVER = ", ours over peer"
SPREAD = f"{OVER}, least and most of a round"
ADVICE = "give what `regard bench --output` wrote, or a record of it"

Verdict = Literal["slower", "faster", "the same within the spread"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratio:
    """The speed of Regard divided by that of a peer; above 1 where Regard is faster.

    Arguments:
        median: over the rounds.
        least, most: over the rounds; both are the median where a record has no spread.
    """

    median: float
    least: float
    most: float

    def to_json(self) -> dict[str, float | None]:
        """As JSON values."""
        return {"ratio": rounded(self.median), "least": rounded(self.least), "most": rounded(self.most)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """A stored run.

    Arguments:
        file: its path.
        suite: that was measured.
        threads: of each contestant.
        processor: of the machine.
        about: for each case, a text with everything that its figure depends on; for a record, one text for all.
        ratios: by case and peer.
    """

    file: str
    suite: str
    threads: int
    processor: str
    about: Mapping[str, str] | str
    ratios: Mapping[tuple[str, str], Ratio]

    def same(self, case: str, about: str) -> bool:
        """Whether a case was the same work."""
        return about in self.about if isinstance(self.about, str) else self.about.get(case) == about

    @property
    def peers(self) -> set[str]:
        """The libraries that were measured."""
        return {peer.split()[0] for _, peer in self.ratios}

    def has(self, case: str) -> bool:
        """Whether the run has a case of the suite, such as `training`."""
        return any(name.startswith(case) for name, _ in self.ratios)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """The ratio of one row to one peer, before and now.

    >>> then, now = Ratio(median=2.0, least=1.9, most=2.2), Ratio(median=1.5, least=1.4, most=1.8)
    >>> Change(case="training, float32", peer="other", before=then, now=now).verdict
    'slower'
    """

    case: str
    peer: str
    before: Ratio
    now: Ratio

    @property
    def verdict(self) -> Verdict:
        """The verdict beyond the spread of both."""
        if self.now.most < self.before.least:
            return "slower"
        return "faster" if self.now.least > self.before.most else "the same within the spread"

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        change = {"before": self.before.to_json(), "now": self.now.to_json(), "verdict": self.verdict}
        return {"case": self.case, "peer": self.peer} | change

    def __str__(self) -> str:
        then, now = (f"{each.median:.3g} ({each.least:.3g} to {each.most:.3g})" for each in (self.before, self.now))
        return f"{self.verdict}: {then} times {self.peer} before, {now} now"


def read_stored(file: Path) -> Stored:
    """Read the output of `regard bench --output`, or a record under docs/results.

    Raises:
        InputError: for a file that is neither.
    """
    values = read_json_object(file, ADVICE)
    try:
        found = _report(file, values) if "suite" in values else _record(file, values)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise InputError(f"{file}: is no measurement of `regard bench`; {ADVICE}") from None
    if not found.ratios:
        raise InputError(f"{file}: has no row with a peer, so there are no ratios to compare; measure again with peers")
    return found


def _report(file: Path, values: Mapping[str, Any]) -> Stored:
    ratios, about = {}, {}
    for row in values["rows"]:
        case, _, about[case] = row["case"].partition(": ")
        for peer, (least, most) in row["spread"].items():
            ratios[case, peer] = _ratio(row["ratio"][peer], least, most)
    processor = str(values["machine"]["processor"])
    return Stored(
        file=str(file),
        suite=str(values["suite"]),
        threads=int(values["threads"]),
        processor=processor,
        about=about,
        ratios=ratios,
    )


def _record(file: Path, values: Mapping[str, Any]) -> Stored:
    figures = as_object(values["figures"], f"{file}: figures", ADVICE)
    ratios = {}
    for name, found in figures.items():
        case = name.removesuffix(OVER)
        if case == name or case.endswith(("peak memory", "file")):
            continue
        spread = figures.get(case + SPREAD, {})
        for peer, ratio in found.items():
            if ratio is not None:
                ratios[case, peer] = _ratio(ratio, *spread.get(peer, (ratio, ratio)))
    words = str(values["command"]).split()
    if words[:2] != ["regard", "bench"]:
        raise ValueError(words)
    processor = str(values["machine"]["processor"])
    return Stored(
        file=str(file),
        suite=words[2],
        threads=int(values["threads"]),
        processor=processor,
        about=str(values["note"]),
        ratios=ratios,
    )


def _ratio(median: Any, least: Any, most: Any) -> Ratio:
    found = Ratio(median=float(median), least=float(least), most=float(most))
    if not 0 < found.least <= found.median <= found.most or math.isinf(found.most):
        raise ValueError(found)
    return found


def check_comparable(stored: Stored, suite: str, options: Options) -> None:
    """Refuse, before anything is measured, options under which runs could not be compared.

    Raises:
        InputError: for another suite, another number of threads, or too few rounds.
    """
    if stored.suite != suite:
        raise InputError(f"{stored.file}: is of the suite {stored.suite}, not of {suite}; measure {stored.suite}")
    if stored.threads != options.threads:
        raise InputError(
            f"{stored.file}: was measured with {stored.threads} threads, and ratios depend on them; "
            f"give --threads {stored.threads}"
        )
    if options.rounds < ROUNDS:
        raise InputError(
            f"--rounds is {options.rounds}; give {ROUNDS} or more, because --against compares their spread"
        )


def changes(report: Report, stored: Stored) -> list[Change]:
    """The changes of all rows and peers that both runs have, in this run's order.

    Raises:
        InputError: where they have none in common.
    """
    found = []
    for row in report.rows:
        case, _, about = row.case.partition(": ")
        for peer, (least, most) in row.spread.items():
            before, median = stored.ratios.get((case, peer)), row.ratio[peer]
            if before is not None and median is not None and stored.same(case, about):
                now = Ratio(median=median, least=least, most=most)
                found.append(Change(case=case, peer=peer, before=before, now=now))
    if not found:
        raise InputError(
            f"{stored.file}: has no row of the same work and peer as this run; give the cases, peers and sizes it was "
            f"measured with ({'; '.join(dict.fromkeys(case for case, _ in stored.ratios))}; {', '.join(sorted(stored.peers))})"
        )
    return found
