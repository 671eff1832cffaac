"""Modules and names as they were called before: importable for one release, with a warning."""

from __future__ import annotations

import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")


class _OldModule(ModuleType):
    """A module that is under its old name, and imports the module of today when something of it is asked for."""

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


def old_attributes(module: str, renamed: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a module some of whose names were changed: an old name gives the object of today, with a warning.

    Arguments:
        module: such as "regard.layers"; its `__init__` says `__getattr__ = old_attributes(__name__, {...})`.
        renamed: from the old name of each object to its name of today in the same module.
    """

    def old_attribute(name: str) -> object:
        if name not in renamed:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        today = renamed[name]
        warnings.warn(f"{module}.{name} is called {today}; use that name", DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], today)

    return old_attribute


def old_keywords(**renamed: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator for a function some of whose keywords had other names, given as old="new": an old one works, with a warning.

    >>> @old_keywords(enough="early_stopping")
    ... def search(early_stopping=None):
    ...     return early_stopping
    >>> with warnings.catch_warnings(action="ignore"):
    ...     search(enough=3)
    3
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def accepting(*args: P.args, **settings: P.kwargs) -> R:
            for old in renamed.keys() & settings.keys():
                today = renamed[old]
                if today in settings:
                    raise TypeError(
                        f"{function.__name__}: {old} is the old name of {today}, which is given too; give one"
                    )
                message = f"{old} of {function.__name__} is called {today}; use that name"
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                settings[today] = settings.pop(old)
            return function(*args, **settings)

        return accepting

    return decorate


def old_members(**renamed: str) -> Callable[[type[C]], type[C]]:
    """A decorator for a base class some of whose methods and attributes had other names, given as old="new".

    A subclass that defines an old name defines the one of today by it, and an old name that is read gives what the one of today
    is, both with a warning.

    >>> @old_members(judge="validate")
    ... class Base:
    ...     def validate(self):
    ...         return 0
    >>> with warnings.catch_warnings(action="ignore"):
    ...     class Own(Base):
    ...         def judge(self):
    ...             return 1
    >>> Own().validate()
    1
    """

    def decorate(kind: type[C]) -> type[C]:

        def defined(cls: type[C], **named: Any) -> None:
            super(kind, cls).__init_subclass__(**named)
            for old, today in renamed.items():
                if old in vars(cls):
                    warnings.warn(
                        f"{cls.__name__}.{old} is called {today}; use that name", DeprecationWarning, stacklevel=2
                    )
                    setattr(cls, today, vars(cls)[old])
                    delattr(cls, old)

        def read(self: object, name: str) -> object:
            if name not in renamed:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            warnings.warn(
                f"{kind.__name__}.{name} is called {renamed[name]}; use that name", DeprecationWarning, stacklevel=2
            )
            return getattr(self, renamed[name])

        kind.__init_subclass__ = classmethod(defined)  # type: ignore[assignment]
        kind.__getattr__ = read  # type: ignore[attr-defined]
        return kind

    return decorate
