"""The verdicts that come with the catalogues of claims: `verdicts.json` beside the folders of the claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.claims.catalogue import catalogues
from regard.errors import InputError
from regard.reading import read_json_object
from regard.structure import from_mapping

FILE = "verdicts.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shipped:
    """A verdict as it was recorded.

    Arguments:
        claim, row: which.
        round: the first or the second; the second too of a claim that is judged by parts alone.
        verdict: what came out.
        reading: what it comes to in a few words; empty where that is not written.
        seeds: of the runs.
        minutes: they took.
        parts: of the second round, each with says, kind, verdict, estimate and interval.
        commit: of the prediction; null where it was not recorded.
    """

    claim: str
    row: str
    round: int
    verdict: str
    reading: str
    seeds: str
    minutes: float
    parts: tuple[dict[str, Any], ...] = ()
    commit: str | None = None


def shipped_verdicts() -> dict[str, tuple[Shipped, ...]]:
    """By the claim's name, the last round first. Catalogues without the file have none.

    Raises:
        InputError: for a file that is damaged.
    """
    found: dict[str, tuple[Shipped, ...]] = {}
    for catalogue in catalogues():
        path = catalogue.folder / FILE
        if not path.is_file():
            continue
        entries = read_json_object(path, "install its package anew").get("verdicts")
        if not isinstance(entries, list):
            raise InputError(f"{path}: holds no verdicts; install its package anew")
        for entry in entries:
            each = from_mapping(Shipped, entry, str(path))
            found[each.claim] = tuple(sorted((*found.get(each.claim, ()), each), key=lambda one: -one.round))
    return found
