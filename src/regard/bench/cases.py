"""What is timed against what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
        peers: settings of the peers; all stand in every row.
        best: add a row with our best setting beside the best of each peer.
        higher_is_better: whether more of the unit is faster.
        measures: further figures to give rows to, smaller ones being better, by name and unit, such as `file, MB`.
    """

    name: str
    about: str
    unit: str
    ours: tuple[Contestant, ...]
    peers: tuple[Contestant, ...]
    best: bool = False
    higher_is_better: bool = True
    measures: tuple[str, ...] = ()
