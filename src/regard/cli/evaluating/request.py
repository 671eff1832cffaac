"""What `regard evaluate` was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A model, data to measure it on, and how.

    Arguments:
        model: its folder.
        places: files, or builtin data by name.
        settings: what stood among them as `key=value`.
        options: those of the command line that only some kinds of models know, by name; None where not given.
        limit: the most examples; None for all.
        batch_size: texts decoded together.
        device: such as `auto`.
    """

    model: Path
    places: Sequence[str]
    settings: Mapping[str, Any]
    options: Mapping[str, Any]
    limit: int | None
    batch_size: int
    device: str

    def refuse_options(self, task: str, *, but: Sequence[str] = ()) -> None:
        """Refuse every option that was given and is not among those that models for a task know.

        Raises:
            InputError: naming the first.
        """
        for name, value in self.options.items():
            if value is not None and name not in but:
                raise InputError(f"--{name.replace('_', '-')} is no option for task {task}; leave it out")

    def settings_and(self, *options: str) -> dict[str, Any]:
        """The settings, and with them options that are other ways to give one.

        Raises:
            InputError: for one that is given both ways, with two values.
        """
        found = dict(self.settings)
        for name in options:
            value = self.options[name]
            if value is not None and found.setdefault(name, value) != value:
                raise InputError(f"{name} is both {value} and {found[name]}; give it once")
        return found
