"""Modules under names they had before: importable for one release, with a warning."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Mapping
from types import ModuleType


class _OldModule(ModuleType):
    """A module that stands under its old name, and imports the module of today when something of it is asked for."""

    def __init__(self, name: str, today: str) -> None:
        super().__init__(name, f"The old name of `{today}`, for one release.")
        self._today = today

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # asked by whoever looks through all modules
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(self._today), name)
        warnings.warn(
            f"{self.__name__} is now {self._today}; import {name} from there", DeprecationWarning, stacklevel=2
        )
        return found


def add_old_modules(package: str, moved: Mapping[str, str]) -> None:
    """Make modules of a package importable under their old names; nothing is imported before a name of one is asked for.

    Arguments:
        package: such as "regard.data"; its `__init__` calls this.
        moved: from the old name of each module within the package, such as "pair", to the full name of the module of today.
    """
    for old, today in moved.items():
        sys.modules.setdefault(f"{package}.{old}", _OldModule(f"{package}.{old}", today))
