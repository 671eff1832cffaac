"""The catalogues of claims that are installed: packages with one folder a claim, found by their entry points.

A package adds claims by an entry point in the group `regard.claims` that names the package (or a package inside it):

```toml
[project.entry-points."regard.claims"]
mine = "my_claims"
```

It holds a folder for each claim, called like the claim with `_` for `-`: its `claim.yaml`, and its experiment in Python where the
claim trains no model by a recipe. `experiment: {name: drawn_pairs}` is the dataclass with a method `run` in `drawn_pairs.py`, in
one of the folders. Finding claims reads folders alone; a package of claims is imported when one of its experiments is asked for.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from regard.errors import InputError, nearest

if TYPE_CHECKING:
    from regard.claims.measure import Measure

V = TypeVar("V")

GROUP = "regard.claims"
BUILTIN = "regard_claims"
"""The catalogue beside this package, which is found without an entry point too: in a checkout there is none."""

FILE = "claim.yaml"


class Experiment(Protocol):
    """What is computed from settings and a seed: a dataclass whose fields are the settings.

    Arguments:
        precision: of what it trains or computes, as measured results have it.
    """

    precision: ClassVar[str]

    @property
    def measures(self) -> tuple[str | Measure, ...]:
        """The names of its numbers, or measures along something; the same whatever the arm."""
        ...

    def run(self, seed: int) -> Mapping[str, float | Mapping[int, float]]:
        """Its numbers; of a measure along something one for each place, rising."""
        ...


@dataclass(frozen=True, slots=True)
class Catalogue:
    """A package of claims.

    Arguments:
        module: as it is imported.
        folder: of the claims' folders.
    """

    module: str
    folder: Path

    def claims(self) -> dict[str, Path]:
        """The files of the claims, by name."""
        return {file.parent.name.replace("_", "-"): file for file in sorted(self.folder.glob(f"*/{FILE}"))}

    def experiments(self) -> dict[str, str]:
        """The modules beside the claims' files, by the name of the experiment."""
        folders = [file.parent for file in self.claims().values()]
        files = [file for folder in folders for file in sorted(folder.glob("*.py")) if not file.stem.startswith("_")]
        return {file.stem: f"{self.module}.{file.parent.name}.{file.stem}" for file in files}


def catalogues() -> tuple[Catalogue, ...]:
    """The catalogue beside this package, and those that entry points name.

    Raises:
        InputError: for an entry point that names no package.
    """
    points = {
        point.value: f"the package {point.dist.name}" if point.dist is not None else f"the entry point {point.name!r}"
        for point in importlib.metadata.entry_points(group=GROUP)
    }
    found = []
    for module in dict.fromkeys([BUILTIN, *sorted(points)]):
        folder = _folder_of(module)
        if folder is not None:
            found.append(Catalogue(module, folder))
        elif module in points and module != BUILTIN:
            raise InputError(
                f"{points[module]} names a catalogue of claims, {module}, that is no package; uninstall it"
            )
    return tuple(found)


def claim_files() -> dict[str, Path]:
    """The file of every claim that is installed, by name.

    Raises:
        InputError: where two catalogues have a claim of the same name.
    """
    return _together("claim", ((each.module, each.claims()) for each in catalogues()))


def experiment_modules() -> dict[str, str]:
    """The module of every experiment that is installed, by name.

    Raises:
        InputError: where two catalogues have an experiment of the same name.
    """
    return _together("experiment", ((each.module, each.experiments()) for each in catalogues()))


def experiment(name: str) -> type[Experiment]:
    """The experiment of that name: the one dataclass with a method `run` that its module defines, imported now.

    Raises:
        InputError: where there is none, with the nearest, or it cannot be imported.

    >>> experiment("random_stacks")(layers=2).layers
    2
    """
    modules = experiment_modules()
    if name not in modules:
        raise InputError(f"there is no experiment {name!r}; {nearest(name, list(modules))}")
    try:
        module = importlib.import_module(modules[name])
    except ImportError as error:
        raise InputError(
            f"the experiment {name!r} ({modules[name]}) cannot be imported: {error}; mend or uninstall its package"
        ) from error
    found: list[type[Experiment]] = [
        each  # type: ignore[misc]  # a protocol is not told by isinstance
        for each in vars(module).values()
        if isinstance(each, type)
        and each.__module__ == module.__name__
        and dataclasses.is_dataclass(each)
        and hasattr(each, "run")
    ]
    if len(found) != 1:
        raise InputError(f"{modules[name]} defines {len(found)} dataclasses with a method run; let it define one")
    return found[0]


def _folder_of(module: str) -> Path | None:
    """Of a package, which is not imported for it; those that it stands in are."""
    try:
        spec = importlib.util.find_spec(module)
    except ImportError:
        return None
    places = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(places))) if places else None


def _together(what: str, parts: Iterator[tuple[str, dict[str, V]]]) -> dict[str, V]:
    """The entries of all catalogues."""
    found: dict[str, V] = {}
    homes: dict[str, str] = {}
    for module, entries in parts:
        for name, value in entries.items():
            if name in found:
                raise InputError(f"{homes[name]} and {module} both have the {what} {name!r}; uninstall one of them")
            found[name], homes[name] = value, module
    return found
