"""Words to try vectors on where the user has no test set: common ones, so that vectors of little text have them too."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


CATEGORIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "animals": _words("dog cat horse cow bird fish sheep lion bear wolf"),
        "body": _words("head hand arm leg foot eye nose mouth ear heart"),
        "buildings": _words("house church school hospital castle tower palace hotel prison temple"),
        "colours": _words("red blue green yellow black white brown grey orange purple"),
        "countries": _words("France Germany Italy Spain China Japan India Canada Brazil Egypt"),
        "family": _words("mother father brother sister son daughter uncle aunt husband wife"),
        "food": _words("bread meat cheese rice soup fruit sugar milk butter egg"),
        "music": _words("piano guitar violin drum flute trumpet song singer album orchestra"),
        "professions": _words("teacher doctor lawyer writer painter actor engineer farmer soldier judge"),
        "vehicles": _words("car train ship boat bus truck plane bicycle helicopter submarine"),
    }
)
"""Ten categories of ten words."""

NOUNS: tuple[str, ...] = (
    *(word for name, words in CATEGORIES.items() if name not in ("colours", "countries") for word in words),
    *_words("king city river book game story child woman man war village company army bridge country"),
)
"""Nouns whose variants are looked for."""

IRREGULAR_PLURALS: Mapping[str, str] = MappingProxyType(
    {
        "foot": "feet",
        "fish": "fishes",
        "sheep": "sheep",
        "wolf": "wolves",
        "wife": "wives",
        "child": "children",
        "woman": "women",
        "man": "men",
    }
)

SPELLINGS: Mapping[str, str] = MappingProxyType(
    dict(
        pair.split("/")  # type: ignore[misc]
        for pair in _words(
            """color/colour center/centre theater/theatre favorite/favourite honor/honour harbor/harbour labor/labour
            neighbor/neighbour defense/defence offense/offence organization/organisation organized/organised
            recognized/recognised realized/realised gray/grey meter/metre liter/litre fiber/fibre program/programme
            catalog/catalogue dialog/dialogue traveled/travelled canceled/cancelled jewelry/jewellery plow/plough armor/armour
            behavior/behaviour flavor/flavour rumor/rumour humor/humour analyze/analyse license/licence aluminum/aluminium
            airplane/aeroplane"""
        )
    )
)
"""The same word as it is spelt in America, and in Britain."""
