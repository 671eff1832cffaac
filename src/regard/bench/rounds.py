"""Contestants in turns, and what remains of it: medians, and how far the rounds were apart."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from regard.bench.cases import OURS, Contest, Contestant
from regard.bench.driver import ContestantFailed
from regard.bench.schema import Row, rounded

REST = 0.3
"""Seconds between two turns: OpenMP's threads go on spinning for 0.2 s after their work, on cores the next one needs."""


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
    peers = {peer.name: tally.median(peer) for peer in contest.peers if tally.takes_part(peer)}
    rows = [_row(contest, contestant.name, tally.median(contestant), peers) for contestant in ours]
    if contest.best and rows:
        best = [_best(contest, tally, library) for library in dict.fromkeys(peer.library for peer in contest.peers)]
        values = {peer.name: tally.median(peer) for peer in best if peer is not None}
        own = _best(contest, tally, OURS)
        if own is not None:
            rows.append(_row(contest, "best precision of each", tally.median(own), values))
    for measure in contest.measures:
        name, _, unit = measure.rpartition(", ")
        theirs = {peer.name: tally.measured(peer, measure) for peer in contest.peers if tally.takes_part(peer)}
        for contestant in ours:
            case = f"{contest.name}, {contestant.name}, {name}: {contest.about}"
            value = tally.measured(contestant, measure)
            rows.append(Row(case=case, unit=unit, ours=value, peers=theirs, higher_is_better=False))
    return rows


def _row(contest: Contest, name: str, ours: float | None, peers: Mapping[str, float | None]) -> Row:
    return Row(
        case=f"{contest.name}, {name}: {contest.about}",
        unit=contest.unit,
        ours=ours,
        peers=peers,
        higher_is_better=contest.higher_is_better,
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
    """What stands behind the rows: every round, the spread, what each contestant said, and how far answers agree."""
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
