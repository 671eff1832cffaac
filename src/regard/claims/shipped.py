"""The verdicts that come with the catalogues of claims, in `verdicts.json` next to the folders of the claims."""

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
    """A recorded verdict.

    Arguments:
        claim, row: the name and the row of the claim.
        round: the round, 1 or 2; 2 for a claim that is only judged by parts.
        verdict: the verdict.
        reading: a short explanation of it; may be empty.
        seeds: the seeds of the runs.
        minutes: the duration of the runs.
        parts: the parts of the second round, each with says, kind, verdict, estimate and interval.
        commit: the commit of the prediction; null if it was not recorded.
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
    """The recorded verdicts by the claim's name, the last round first. Catalogues without the file have none.

    Raises:
        InputError: for a damaged file.
    """
    found: dict[str, tuple[Shipped, ...]] = {}
    for catalogue in catalogues():
        path = catalogue.folder / FILE
        if not path.is_file():
            continue
        entries = read_json_object(path, "reinstall its package").get("verdicts")
        if not isinstance(entries, list):
            raise InputError(f"{path}: has no verdicts; reinstall its package")
        for entry in entries:
            each = from_mapping(Shipped, entry, str(path))
            found[each.claim] = tuple(sorted((*found.get(each.claim, ()), each), key=lambda one: -one.round))
    return found
