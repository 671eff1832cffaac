"""A benchmark: contestants in separate processes, timed in alternating turns, and the resulting rows."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from regard.bench.driver import ContestantFailed
from regard.bench.peers import PEERS
from regard.errors import InputError, nearest


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What to measure, with which data, and how often.

    Arguments:
        pairs: texts to train on and to translate; None for generated ones.
        text: a text file for the suites that read one; None for Python's reference.
        similarity: word similarity sets by which word embeddings are evaluated.
        model: the folder of a trained model; None for random weights.
        shape: of a decoder with random weights, by the name of a published model.
        to: the target language, for a multilingual model.
        threads: for computing, for every contestant.
        rounds: number of turns of each contestant; the median counts.
        cases: the cases of the suite to run.
        peers: the peers to compare with.
        interpreters: the Python interpreter of a peer, where it is another than this one.
        quick: small sizes, to test that everything runs and whether it became slower; no figures to publish.

    Raises:
        InputError: for an unknown peer, or numbers below 1.
    """

    pairs: Sequence[tuple[str, str]] | None = None
    text: Path | None = None
    similarity: tuple[Path, ...] = ()
    model: Path | None = None
    shape: str | None = None
    to: str | None = None
    threads: int = 1
    rounds: int = 7
    cases: tuple[str, ...]
    peers: tuple[str, ...] = tuple(PEERS)
    interpreters: Mapping[str, str] = field(default_factory=dict)
    quick: bool = False

    def __post_init__(self) -> None:
        for name in ("threads", "rounds"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: {getattr(self, name)} is too few; give at least 1")
        for name in (*self.peers, *self.interpreters):
            if name not in PEERS:
                raise InputError(f"there is no peer {name!r}; {nearest(name, list(PEERS))}")


OURS = "regard"


@dataclass(frozen=True, kw_only=True, slots=True)
class Contestant:
    """One library with one setting, timed in its own process.

    Arguments:
        name: in rows, such as `ctranslate2 int8`; for Regard the setting only, such as `int8`.
        library: `regard`, or a name in `regard.bench.peers.PEERS`, which determines the driver file.
        job: for the driver, as JSON values; `kind` selects the class in the file.
    """

    name: str
    library: str
    job: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The name among all contestants of a contest."""
        return f"{OURS} {self.name}" if self.library == OURS else self.name


@dataclass(frozen=True, kw_only=True, slots=True)
class Contest:
    """Contestants that take turns in the same rounds, and so can be compared.

    Arguments:
        name: of the case, such as `translation`.
        about: everything else that the figure depends on: sizes, data, batches.
        unit: of `amount` over seconds.
        ours: settings of Regard; one row each.
        peers: settings of the peers, which are in every row.
        best: add a row with the best setting of Regard and the best of each peer.
        higher_is_better: whether more of the unit is faster.
        measures: further figures that get rows, smaller ones being better, by name and unit, such as `file, MB`.
        judge: computes figures, by name, from what a contestant made in its last round; they are among the details.
    """

    name: str
    about: str
    unit: str
    ours: tuple[Contestant, ...]
    peers: tuple[Contestant, ...]
    best: bool = False
    higher_is_better: bool = True
    measures: tuple[str, ...] = ()
    judge: Callable[[Contestant], dict[str, float]] | None = None


# Alternating turns, and their results: medians, and the spread of the rounds.


REST = 0.3
"""Seconds between two turns: OpenMP's threads spin for 0.2 s after their work, on cores that the next contestant needs."""


class Process(Protocol):
    """The process of a contestant."""

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return the answer."""
        ...

    def close(self) -> None:
        """End the process."""
        ...


@dataclass(kw_only=True, slots=True)
class Tally:
    """The results of one contest's rounds, by the contestants' labels.

    Arguments:
        values: amount over seconds of each round.
        amounts: of the last round, to show that all did the same work.
        answers: of the last round, where a contestant returns any.
        measures: further figures by name, from a run that is not timed.
        notes: each contestant's description of itself.
        failed, left_out: why a contestant has no values.
        absent: libraries that are not installed.
        versions: of each installed library.
    """

    values: dict[str, list[float]] = field(default_factory=dict)
    amounts: dict[str, float] = field(default_factory=dict)
    answers: dict[str, list[Any]] = field(default_factory=dict)
    measures: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)

    def median(self, contestant: Contestant) -> float | None:
        """The median over its rounds; None where it failed."""
        label = contestant.label
        return None if label in self.failed else statistics.median(self.values[label])

    def measured(self, contestant: Contestant, name: str) -> float | None:
        """A further figure; None where there is none."""
        return None if contestant.label in self.failed else self.measures.get(contestant.label, {}).get(name)

    def takes_part(self, contestant: Contestant) -> bool:
        """Whether it is in the rows, with a figure or as failed."""
        return contestant.library not in self.absent and contestant.label not in self.left_out


def compete(
    contest: Contest,
    start: Callable[[Contestant], Process],
    *,
    rounds: int,
    say: Callable[[str], None],
    rest: float = REST,
) -> Tally:
    """Let all contestants work in alternating turns, for `rounds` rounds after a warm-up round.

    They wait in their processes while another one works. The order changes from round to round, so that none always follows the
    same one. A contestant that fails is out; its error is kept.

    Arguments:
        contest: what to measure.
        start: starts the process of a contestant.
        rounds: the number of rounds.
        say: called with sentences for the user.
        rest: seconds between two turns.
    """
    tally = Tally()
    with contextlib.ExitStack() as stack:
        ready: dict[str, Process] = {}
        for contestant in (*contest.ours, *contest.peers):
            process = start(contestant)
            stack.callback(process.close)
            if _prepared(contestant, process, tally, say):
                ready[contestant.label] = process
        for number in range(rounds + 1):
            say(f"{contest.name}: " + (f"round {number} of {rounds}" if number else "warming up"))
            for label in _order(list(ready), number):
                time.sleep(rest)
                _turn(label, ready, tally, counts=number > 0, say=say)
        for label in list(ready) if contest.measures else ():
            say(f"{contest.name}: weighing {label}")
            with _failing(label, ready, tally, say):
                tally.measures[label] = ready[label].ask({"do": "weigh"})["measures"]
    if contest.judge is not None:
        for contestant in (*contest.ours, *contest.peers):
            if contestant.label in ready:
                tally.measures[contestant.label] = contest.judge(contestant)
    return tally


def _prepared(contestant: Contestant, process: Process, tally: Tally, say: Callable[[str], None]) -> bool:
    """Whether a contestant is ready to work; if not, the tally has the reason."""
    label = contestant.label
    try:
        hello = process.ask({"do": "hello", "kind": contestant.job["kind"]})
        if not hello["available"]:
            tally.absent.add(contestant.library)
            return False
        if contestant.library != OURS:
            tally.versions[contestant.library] = hello["versions"]
        answer = process.ask({"do": "prepare", "job": dict(contestant.job)})
    except ContestantFailed as error:
        tally.failed[label] = str(error)
        say(f"{label} failed: {error}")
        return False
    if "left_out" in answer:
        tally.left_out[label] = answer["left_out"]
        say(f"{label} is left out: {answer['left_out']}")
        return False
    tally.notes[label] = answer.get("note", "")
    tally.values[label] = []
    return True


def _order(labels: list[str], number: int) -> list[str]:
    """The labels in another order each round: the first rotates, and every other round is reversed."""
    if not labels:
        return []
    place = (number // 2) % len(labels)
    turned = labels[place:] + labels[:place]
    return turned[::-1] if number % 2 else turned


def _turn(label: str, ready: dict[str, Process], tally: Tally, *, counts: bool, say: Callable[[str], None]) -> None:
    answer: dict[str, Any] | None = None
    with _failing(label, ready, tally, say):
        answer = ready[label].ask({"do": "run"})
        if not (answer["amount"] > 0 and answer["seconds"] > 0):
            raise ContestantFailed(f"did {answer['amount']} in {answer['seconds']} seconds, which is no figure")
    if label in tally.failed or answer is None:
        return
    if counts:
        tally.values[label].append(answer["amount"] / answer["seconds"])
    tally.amounts[label] = answer["amount"]
    if "answers" in answer:
        tally.answers[label] = answer["answers"]


@contextlib.contextmanager
def _failing(label: str, ready: dict[str, Process], tally: Tally, say: Callable[[str], None]) -> Iterator[None]:
    """A contestant that fails within the block is out; its error is kept."""
    try:
        yield
    except ContestantFailed as error:
        tally.failed[label] = str(error)
        say(f"{label} failed: {error}")
        ready.pop(label).close()


def rows_of(contest: Contest, tally: Tally) -> list[Row]:
    """The rows of a contest: one for each setting of Regard, and where asked for one with the best of each library."""
    ours = [contestant for contestant in contest.ours if tally.takes_part(contestant)]
    peers = [peer for peer in contest.peers if tally.takes_part(peer)]
    rows = [_row(contest, tally, contestant.name, contestant, peers) for contestant in ours]
    if contest.best and rows:
        best = [_best(contest, tally, library) for library in dict.fromkeys(peer.library for peer in contest.peers)]
        own = _best(contest, tally, OURS)
        if own is not None:
            rows.append(
                _row(contest, tally, "best precision of each", own, [peer for peer in best if peer is not None])
            )
    for measure in contest.measures:
        name, _, unit = measure.rpartition(", ")
        theirs = {peer.name: tally.measured(peer, measure) for peer in peers}
        for contestant in ours:
            case = f"{contest.name}, {contestant.name}, {name}: {contest.about}"
            value = tally.measured(contestant, measure)
            rows.append(Row(case=case, unit=unit, ours=value, peers=theirs, higher_is_better=False))
    return rows


def _row(contest: Contest, tally: Tally, name: str, ours: Contestant, peers: Sequence[Contestant]) -> Row:
    """A row of one setting of Regard and the given peers; both had a turn in each round, so each round has a ratio."""
    up = contest.higher_is_better
    spread = {}
    for peer in peers:
        if not {ours.label, peer.label} & tally.failed.keys():
            pairs = zip(tally.values[ours.label], tally.values[peer.label], strict=True)
            ratios = [mine / theirs if up else theirs / mine for mine, theirs in pairs]
            spread[peer.name] = (min(ratios), max(ratios))
    return Row(
        case=f"{contest.name}, {name}: {contest.about}",
        unit=contest.unit,
        ours=tally.median(ours),
        peers={peer.name: tally.median(peer) for peer in peers},
        higher_is_better=up,
        spread=spread,
    )


def _best(contest: Contest, tally: Tally, library: str) -> Contestant | None:
    """A library's fastest setting; None where it has no figure."""
    measured = [
        (value if contest.higher_is_better else -value, number, contestant)
        for number, contestant in enumerate((*contest.ours, *contest.peers))
        if contestant.library == library and tally.takes_part(contestant)
        for value in [tally.median(contestant)]
        if value is not None
    ]
    return max(measured)[2] if measured else None


def details_of(contest: Contest, tally: Tally) -> dict[str, Any]:
    """The data behind the rows: every round, the spread, the contestants' notes, and how far their answers agree."""
    first = next((tally.answers[c.label] for c in contest.ours if c.label in tally.answers), None)
    return {
        "about": contest.about,
        "unit": contest.unit,
        "rounds": {label: [rounded(value) for value in values] for label, values in tally.values.items()},
        "spread": {label: [rounded(min(v)), rounded(max(v))] for label, v in tally.values.items() if v},
        "amount of the last round": tally.amounts,
        "measures": {
            label: {name: rounded(value) for name, value in measures.items()}
            for label, measures in tally.measures.items()
        },
        "notes": tally.notes,
        "left_out": tally.left_out,
        "same answers as ours": {
            label: rounded(sum(map(list.__eq__, first, answers)) / len(first))
            for label, answers in tally.answers.items()
        }
        if first
        else {},
    }


# Rows: one for each measured setting of Regard, with the same work of every peer.


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A measured setting of Regard and its peers.

    Arguments:
        case: what was timed, with everything that the figure depends on.
        unit: of `ours` and `peers`.
        ours: the median over the rounds; None where it failed.
        peers: the same for each peer, by name.
        higher_is_better: whether more of the unit is faster (tokens per second) or slower (milliseconds).
        spread: the least and the largest ratio of a round, for each peer; empty for figures measured once, such as memory.

    >>> Row(case="training", unit="target tokens/s", ours=300.0, peers={"other": 100.0, "broken": None}).ratio
    {'other': 3.0, 'broken': None}
    >>> Row(case="a step", unit="ms", ours=5.0, peers={"other": 10.0}, higher_is_better=False).ratio
    {'other': 2.0}
    """

    case: str
    unit: str
    ours: float | None
    peers: Mapping[str, float | None]
    higher_is_better: bool = True
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def ratio(self) -> dict[str, float | None]:
        """Regard's speed over each peer's; above 1 is better for Regard in either unit; None where either failed."""
        return {name: self._ratio(value) for name, value in self.peers.items()}

    def _ratio(self, theirs: float | None) -> float | None:
        if not self.ours or not theirs:
            return None
        return self.ours / theirs if self.higher_is_better else theirs / self.ours

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values, figures with four significant digits."""
        return {
            "case": self.case,
            "unit": self.unit,
            "ours": rounded(self.ours),
            "peers": {name: rounded(value) for name, value in self.peers.items()},
            "ratio": {name: rounded(value) for name, value in self.ratio.items()},
            "spread": {name: [rounded(least), rounded(most)] for name, (least, most) in self.spread.items()},
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """A finished benchmark.

    Arguments:
        suite: its name.
        machine: the properties of the machine that determine its speed.
        versions: of Regard, its libraries, and every peer.
        threads: for computing, of each contestant.
        rows: the figures.
        absent: peers that are not installed.
        failed: the errors of contestants that failed, by name.
        details: the data behind the figures: the rounds, their spread, settings, what was left out.
    """

    suite: str
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    threads: int
    rows: tuple[Row, ...]
    absent: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values; `failed` is there only where something failed."""
        values: dict[str, Any] = {
            "suite": self.suite,
            "machine": dict(self.machine),
            "versions": dict(self.versions),
            "threads": self.threads,
            "rows": [row.to_json() for row in self.rows],
            "absent": list(self.absent),
        }
        return values | ({"failed": dict(self.failed)} if self.failed else {})

    def whole(self) -> dict[str, Any]:
        """The report with all details, as JSON values."""
        return {**self.to_json(), "failed": dict(self.failed), "details": dict(self.details)}


def rounded(value: float | None) -> float | None:
    """Rounded to four significant digits, which is the precision of a measurement.

    >>> rounded(1234.567), rounded(0.123456), rounded(None)
    (1235.0, 0.1235, None)
    """
    return None if value is None else float(f"{value:.4g}")
