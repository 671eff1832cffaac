"""A measurement as data: what is timed against what, each in a process of its own, in turns, and the rows that come out."""

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
    """What to measure, on what, and how often.

    Arguments:
        pairs: texts to train on and to translate; made by the package where None.
        text: a file of text for the suites that read one; Python's reference where None.
        similarity: judged pairs of words, by which word embeddings are judged.
        model: the folder of a trained model; one with random weights where None.
        shape: of a decoder with random weights, by the name of the published model that has it.
        to: the language wanted, of a model of several.
        threads: that every contestant computes with.
        rounds: how often each works; the median counts.
        cases: which cases of the suite.
        peers: which peers to compare with.
        interpreters: the Python that has a peer, where it is not this one.
        quick: small sizes: to see that everything runs, and what got slower; no figures to publish.

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
    """One library in one setting, timed in a process of its own.

    Arguments:
        name: how a row calls it, such as `ctranslate2 int8`; of ours the setting alone, such as `int8`.
        library: the file that drives it: `regard`, or a name of `regard.bench.peers.PEERS`.
        job: what it is to do, as JSON values; `kind` says which of the file's classes does it.
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
    """What takes part in the same rounds, and so can be compared.

    Arguments:
        name: of the case, such as `translation`.
        about: everything else that decides the figure: sizes, data, batches.
        unit: what `amount` over seconds is.
        ours: settings of ours; one row each.
        peers: settings of the peers; all are in every row.
        best: add a row with our best setting next to the best of each peer.
        higher_is_better: whether more of the unit is faster.
        measures: further figures to give rows to, smaller ones being better, by name and unit, such as `file, MB`.
        judge: figures of what a contestant made in its last round, by name, which stand among the details.
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


# Contestants in turns, and what is kept of it: medians, and how far the rounds were apart.


REST = 0.3
"""Seconds between two turns: OpenMP's threads continue spinning for 0.2 s after their work, on cores the next one needs."""


class Process(Protocol):
    """What a contestant runs in."""

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Its answer to a request."""
        ...

    def close(self) -> None:
        """End it."""
        ...


@dataclass(kw_only=True, slots=True)
class Tally:
    """What the rounds of one contest gave, by the contestants' labels.

    Arguments:
        values: amount over seconds of each round.
        amounts: of the work of the last round, so that a reader sees that all did the same.
        answers: of the last round, where a contestant gives any.
        measures: further figures, of a run that is not timed, by name.
        notes: what each said of itself.
        failed, left_out: why a contestant has no values.
        absent: libraries that are not installed.
        versions: of each library that is.
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
        """The median of its rounds; None where it failed."""
        label = contestant.label
        return None if label in self.failed else statistics.median(self.values[label])

    def measured(self, contestant: Contestant, name: str) -> float | None:
        """A further figure; None where there is none."""
        return None if contestant.label in self.failed else self.measures.get(contestant.label, {}).get(name)

    def takes_part(self, contestant: Contestant) -> bool:
        """Whether it has a place in a row: a figure, or a failure."""
        return contestant.library not in self.absent and contestant.label not in self.left_out


def compete(
    contest: Contest,
    start: Callable[[Contestant], Process],
    *,
    rounds: int,
    say: Callable[[str], None],
    rest: float = REST,
) -> Tally:
    """Let all contestants do their work in turns, `rounds` times, after one round that does not count.

    They wait in processes of their own while another works. The order changes from round to round, so that none always follows
    the same one. Who fails is out, with the sentence that says why.

    Arguments:
        start: the process of a contestant.
        rounds: how often each works.
        say: receives sentences for the user.
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
    """Whether a contestant is ready to work; if not, the tally says why."""
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
    """The labels in another order each round: each begins once, and every other round goes backwards."""
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
    """Whoever fails inside the block is out, with the sentence that says why."""
    try:
        yield
    except ContestantFailed as error:
        tally.failed[label] = str(error)
        say(f"{label} failed: {error}")
        ready.pop(label).close()


def rows_of(contest: Contest, tally: Tally) -> list[Row]:
    """The rows of a contest: one for each setting of ours, and where asked for the best of each."""
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
    """What was timed of ours, next to these peers; both had a turn in each round, so a round has a ratio of its own."""
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
    """What is behind the rows: every round, the spread, what each contestant said, and how far answers agree."""
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


# What a measurement says: one row for each thing of ours that was timed, next to the same of every peer.


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One thing of ours next to its peers.

    Arguments:
        case: what was timed, with everything that decides the figure.
        unit: of `ours` and `peers`.
        ours: the median over the rounds; None where it failed.
        peers: the same for each peer, by name.
        higher_is_better: whether more of the unit is faster (tokens per second) or slower (milliseconds).
        spread: the least and the largest ratio of a round, for each peer; none of what is measured once, such as memory.

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
        """Ours over each peer, turned so that above 1 is better for us; None where either failed."""
        return {name: self._ratio(value) for name, value in self.peers.items()}

    def _ratio(self, theirs: float | None) -> float | None:
        if not self.ours or not theirs:
            return None
        return self.ours / theirs if self.higher_is_better else theirs / self.ours

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values, figures to four digits."""
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
    """A finished measurement.

    Arguments:
        suite: its name.
        machine: what decides how fast it is.
        versions: of Regard, of what it runs on, and of every peer.
        threads: that each of them computed with.
        rows: the figures.
        absent: peers that are not installed.
        failed: what failed, by name, and the sentence that says why.
        details: what is behind the figures: the rounds, their spread, settings, what was left out.
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
        """The report with everything that is behind it."""
        return {**self.to_json(), "failed": dict(self.failed), "details": dict(self.details)}


def rounded(value: float | None) -> float | None:
    """Four digits that count: more would say what a measurement does not know.

    >>> rounded(1234.567), rounded(0.123456), rounded(None)
    (1235.0, 0.1235, None)
    """
    return None if value is None else float(f"{value:.4g}")
