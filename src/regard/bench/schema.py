"""What a measurement says: one row for each thing of ours that was timed, beside the same of every peer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One thing of ours beside its peers.

    Arguments:
        case: what was timed, with everything that decides the figure.
        unit: of `ours` and `peers`.
        ours: the median over the rounds; None where it failed.
        peers: the same for each peer, by name.
        higher_is_better: whether more of the unit is faster (tokens per second) or slower (milliseconds).

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
        details: what stands behind the figures: the rounds, their spread, settings, what was left out.
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
        """The report with everything that stands behind it."""
        return {**self.to_json(), "failed": dict(self.failed), "details": dict(self.details)}


def rounded(value: float | None) -> float | None:
    """Four digits that count: more would say what a measurement does not know.

    >>> rounded(1234.567), rounded(0.123456), rounded(None)
    (1235.0, 0.1235, None)
    """
    return None if value is None else float(f"{value:.4g}")
