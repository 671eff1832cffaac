"""The pairs that a translator is measured on: files, or builtin data by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from regard.errors import InputError, nearest

if TYPE_CHECKING:
    from regard.data.malformed import MalformedRows
    from regard.data.pair import Pair

DATES, TYPOS, SEQUENCES = "dates", "dates:typos", "sequences"


def is_builtin(places: Sequence[str], source: str | None, target: str | None) -> bool:
    """Whether builtin data is meant.

    Raises:
        InputError: for a number of places that no data has, or builtin data of an unknown name.
    """
    if not 1 <= len(places) <= 2:
        raise InputError(
            f"{len(places)} files of data given; give one file of pairs, two parallel files, or {DATES} or {SEQUENCES}"
        )
    name = places[0].partition(":")[0]
    if len(places) == 2 or name not in (DATES, SEQUENCES):
        return False
    if name == DATES and places[0] not in (DATES, TYPOS):
        raise InputError(f"there is no builtin data {places[0]!r}; {nearest(places[0], [DATES, TYPOS])}")
    if source is not None or target is not None:
        raise InputError(f"builtin {places[0]} have no columns; leave out --source and --target")
    return True


def read_files(
    places: Sequence[str], source: str | None, target: str | None, malformed: MalformedRows
) -> Iterator[Pair]:
    """The pairs of one file, or of two parallel ones.

    Raises:
        InputError: for files that cannot be used.
    """
    from regard.data.pairs import read_pairs

    def column(name: str | None) -> int | str | None:
        return int(name) if name is not None and name.isascii() and name.isdigit() else name

    path = places[0] if len(places) == 1 else places
    return read_pairs(path, source=column(source), target=column(target), malformed=malformed)


def builtin_test(place: str, recipe: Mapping[str, Any], to: str | None, size: int) -> Iterator[Pair]:
    """Pairs of the test split, which no training has seen.

    Arguments:
        place: `dates`, in the languages that the model was trained on; `dates:typos`, the same with a typo in each;
            `sequences`, the problem that the model was trained on; `sequences:longest=40,shortest=40`, with changes to it.
        recipe: the model's.
        to: the language asked for; its section of the recipe counts.
        size: how many.

    Raises:
        InputError: for settings that are unknown or out of range, or fewer different sources than `size`.
    """
    from regard.data.pair import Pair
    from regard.tasks.translation_data import builtin_pairs

    data = recipe.get("data") or {}
    data = (data.get("targets") or {}).get(to) or data
    name, _, text = place.partition(":")
    if name == DATES:
        languages = (data.get(DATES) or {}).get("languages")
        settings = {"languages": languages, "typo_rate": 1.0 if place == TYPOS else 0.0}
    else:
        settings = (data.get(SEQUENCES) or {}) | _settings(text)
    pairs = builtin_pairs({name: settings}, "test", size)
    return (
        Pair(source=source, target=target, file=place, line=number)
        for number, (source, target) in enumerate(pairs, start=1)
    )


def _settings(text: str) -> dict[str, Any]:
    """What follows `sequences:`, values read as YAML."""
    from regard.reading import parse_yaml

    settings: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, separator, value = part.partition("=")
        if not separator or not key:
            raise InputError(f"{SEQUENCES}:{text}: {part!r} is no setting; write {SEQUENCES}:kind=reversal,longest=40")
        if key.endswith("size"):
            raise InputError(f"{SEQUENCES}:{text}: how many pairs to take is for --limit to say; leave {key} out")
        settings[key] = parse_yaml(value, f"{SEQUENCES}:{text[:200]}: {key}", "mend its value")
    return settings
