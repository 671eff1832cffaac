"""What a user may say of a measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regard.bench.peers import PEERS
from regard.errors import InputError, nearest


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What to measure, on what, and how often.

    Arguments:
        pairs: texts to train on and to translate; made by the package where None.
        model: the folder of a trained model; one with random weights where None.
        to: the language wanted, of a model of several.
        threads: that every contestant computes with.
        rounds: how often each works; the median counts.
        cases: which cases of the suite.
        peers: which peers to compare with.
        interpreters: the Python that has a peer, where it is not this one.
        quick: tiny sizes, to see that everything runs; the figures say nothing.

    Raises:
        InputError: for an unknown peer, or numbers below 1.
    """

    pairs: Sequence[tuple[str, str]] | None = None
    model: Path | None = None
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
