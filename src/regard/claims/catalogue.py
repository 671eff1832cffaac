"""The installed catalogues of claims: packages with one folder for each claim, found by their entry points.

A package adds claims by an entry point in the group `regard.claims` that names the package (or a package inside it):

```toml
[project.entry-points."regard.claims"]
mine = "my_claims"
```

It has a folder for each claim, with the name of the claim and `_` for `-`. The folder has the claim's `claim.yaml`, and if the
claim does not train models with a recipe, its experiment in Python: `experiment: {name: sampled_pairs}` is the dataclass with a
method `run` in `sampled_pairs.py` in one of the folders. Finding claims only reads folders; a package of claims is imported when
one of its experiments is needed.

A `Computation` is the comparison of such an experiment: its arms are settings, and the measures are the numbers it computes.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from regard.claims.compared import Compared, Run
from regard.claims.comparison import Arm, arms_of, check_together, copied, seeds_of
from regard.claims.measure import Measure
from regard.claims.measuring import Bin, Value
from regard.errors import InputError, nearest
from regard.files import replace_file
from regard.reading import read_json_object
from regard.structure import from_mapping
from regard.training.recipe import put, read_override

if TYPE_CHECKING:
    from regard.claims.measure import Measure

V = TypeVar("V")

GROUP = "regard.claims"
BUILTIN = "regard_claims"
"""The catalogue next to this package, which is also found without an entry point, as in a checkout."""

FILE = "claim.yaml"


class Experiment(Protocol):
    """The interface of experiments: a dataclass whose fields are the settings of a computation.

    Arguments:
        precision: the precision of its computation, as in measured results.
    """

    precision: ClassVar[str]

    @property
    def measures(self) -> tuple[str | Measure, ...]:
        """The names of its numbers, or measures along an axis; they must be the same for all settings."""
        ...

    def run(self, seed: int) -> Mapping[str, float | Mapping[int, float]]:
        """Compute the numbers by name; for a measure along an axis a mapping from positions, ascending, to numbers."""
        ...


@dataclass(frozen=True, slots=True)
class Catalogue:
    """A package of claims.

    Arguments:
        module: the name by which it is imported.
        folder: the folder with the claims' folders.
    """

    module: str
    folder: Path

    def claims(self) -> dict[str, Path]:
        """The files of the claims, by name."""
        return {file.parent.name.replace("_", "-"): file for file in sorted(self.folder.glob(f"*/{FILE}"))}

    def experiments(self) -> dict[str, str]:
        """The modules in the claims' folders, by the name of the experiment."""
        folders = [file.parent for file in self.claims().values()]
        files = [file for folder in folders for file in sorted(folder.glob("*.py")) if not file.stem.startswith("_")]
        return {file.stem: f"{self.module}.{file.parent.name}.{file.stem}" for file in files}


def catalogues() -> tuple[Catalogue, ...]:
    """The catalogue next to this package, and those of entry points.

    Raises:
        InputError: for an entry point that does not name a package.
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
                f"{points[module]} names a catalogue of claims, {module}, which is not a package; uninstall it"
            )
    return tuple(found)


def claim_files() -> dict[str, Path]:
    """The file of every installed claim, by name.

    Raises:
        InputError: if two catalogues have a claim of the same name.
    """
    return _together("claim", ((each.module, each.claims()) for each in catalogues()))


def experiment_modules() -> dict[str, str]:
    """The module of every installed experiment, by name.

    Raises:
        InputError: if two catalogues have an experiment of the same name.
    """
    return _together("experiment", ((each.module, each.experiments()) for each in catalogues()))


def experiment(name: str) -> type[Experiment]:
    """Import the experiment of that name: the only dataclass with a method `run` that its module defines.

    Raises:
        InputError: for an unknown name, with the nearest one, or if it cannot be imported.

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
            f"the experiment {name!r} ({modules[name]}) cannot be imported: {error}; repair or uninstall its package"
        ) from error
    found: list[type[Experiment]] = [
        each  # type: ignore[misc]  # isinstance does not check protocols
        for each in vars(module).values()
        if isinstance(each, type)
        and each.__module__ == module.__name__
        and dataclasses.is_dataclass(each)
        and hasattr(each, "run")
    ]
    if len(found) != 1:
        raise InputError(
            f"{modules[name]} defines {len(found)} dataclasses with a method run; it must define exactly one"
        )
    return found[0]


def _folder_of(module: str) -> Path | None:
    """The folder of a package, without importing it (its parent packages are imported)."""
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


EXPERIMENT = "experiment"
"""The section that replaces `recipe`, `budget` and `measures` of a comparison of trained models."""

NUMBERS = "numbers.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Computation:
    """Variants of one experiment, each computed with several seeds.

    Arguments:
        experiment: `name`, and the settings that all arms share.
        arms: the variants, with settings of the experiment.
        seeds: each arm is computed once with each seed.

    Raises:
        InputError: for an unknown experiment, or settings that it does not have, naming the arm.
    """

    experiment: Mapping[str, Any]
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...] = (1, 2, 3)
    measures: tuple[Measure, ...] = field(init=False)

    def __post_init__(self) -> None:
        check_together(self.arms)
        found = [_measures(self.experiment_of(arm)) for arm in self.arms]
        if any(each != found[0] for each in found):
            raise InputError("the arms have different measures; use settings that do not change the measures")
        object.__setattr__(self, "measures", found[0])  # the dataclass is frozen

    @property
    def precision(self) -> str:
        """The precision of the computation, as in measured results."""
        return experiment(self.experiment["name"]).precision

    def arm(self, name: str) -> Arm:
        """The arm of that name.

        Raises:
            InputError: for an unknown name, with the nearest one.
        """
        names = [arm.name for arm in self.arms]
        if name not in names:
            raise InputError(f"there is no arm {name!r}; {nearest(name, names)}")
        return self.arms[names.index(name)]

    def experiment_of(self, arm: Arm) -> Experiment:
        """The experiment with an arm's settings.

        Raises:
            InputError: naming the arm.
        """
        values = arm.applied(self.experiment)
        name = str(values.pop("name", None))
        kind = experiment(name)
        try:
            return from_mapping(kind, values, EXPERIMENT)
        except InputError as error:
            raise InputError(f"arm {arm.name!r}: {error}") from error

    def to_mapping(self) -> dict[str, Any]:
        """The computation as YAML values, which `read_computation` reads."""
        return {
            EXPERIMENT: copied(self.experiment),
            "arms": {arm.name: arm.to_mapping() for arm in self.arms},
            "seeds": list(self.seeds),
        }


def read_computation(
    sections: Mapping[str, Any], overrides: Sequence[str] = (), *, seeds: Sequence[int] | None = None
) -> Computation:
    """A computation from its sections: `experiment`, `arms` and optionally `seeds`.

    Arguments:
        overrides: `experiment.key=value`, for all arms.
        seeds: seeds instead of those in the section.

    Raises:
        InputError: for values that cannot be read, naming their place.
    """
    values = copied(sections)
    known = (EXPERIMENT, "arms", "seeds")
    for key in values:
        if key not in known:
            raise InputError(f"{key} is not a section of a claim with an experiment; {nearest(key, known)}")
    if not isinstance(values[EXPERIMENT], dict):
        raise InputError(f"{EXPERIMENT} is {values[EXPERIMENT]!r}; give its name and settings")
    for override in overrides:
        key, value = read_override(override)
        if not key.startswith(f"{EXPERIMENT}."):
            raise InputError(
                f"{override!r}: this claim has an experiment instead of a recipe; settings begin with {EXPERIMENT}."
            )
        put(values, key, value)
    return Computation(
        experiment=values[EXPERIMENT],
        arms=arms_of(values.get("arms"), "arms"),
        seeds=seeds_of(values.get("seeds", 3) if seeds is None else seeds),
    )


def compute(
    sections: Mapping[str, Any],
    overrides: Sequence[str] = (),
    *,
    output: Path,
    seeds: Sequence[int] | None = None,
    say: Callable[[str], None] | None = None,
) -> Compared:
    """Compute every arm with every seed; earlier results with the same settings are read from `output`.

    Raises:
        InputError: for settings or data that cannot be used.
    """
    computation = read_computation(sections, overrides, seeds=seeds)
    runs: dict[tuple[str, int], Run] = {}
    count = len(computation.arms) * len(computation.seeds)
    for seed in computation.seeds:
        for arm in computation.arms:
            if say is not None:
                say(f"{arm.name}, seed {seed} ({len(runs) + 1} of {count}) ...")
            runs[arm.name, seed] = _run(computation, arm, seed, output / arm.name / str(seed))
    ordered = tuple(runs[arm.name, seed] for arm in computation.arms for seed in computation.seeds)
    compared = Compared(comparison=computation, folder=output, runs=ordered)
    replace_file(output / "comparison.json", json.dumps(compared.to_json(), indent=2, ensure_ascii=False) + "\n")
    return compared


def _run(computation: Computation, arm: Arm, seed: int, folder: Path) -> Run:
    experiment = computation.experiment_of(arm)
    asked = {"name": computation.experiment["name"], "seed": seed, **dataclasses.asdict(experiment)}  # type: ignore[call-overload]
    asked = json.loads(json.dumps(asked))  # in the form in which it will be read back
    try:
        found = read_json_object(folder / NUMBERS, "")
        if found["asked"] != asked or not {measure.name for measure in computation.measures} <= set(found["numbers"]):
            raise KeyError("asked")
    except (ValueError, KeyError, TypeError):  # missing, damaged, or of other settings or measures
        began = time.monotonic()
        numbers = json.loads(json.dumps(dict(experiment.run(seed))))  # in the form in which they will be read back
        found = {"asked": asked, "numbers": numbers, "seconds": round(time.monotonic() - began, 3)}
        replace_file(folder / NUMBERS, json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    return Run(
        arm=arm.name,
        seed=seed,
        folder=folder,
        parameters=0,
        steps=0,
        reason="computed",
        training_seconds=0.0,
        measuring_seconds=found["seconds"],
        values={measure.name: _value(found["numbers"][measure.name]) for measure in computation.measures},
    )


def _measures(experiment: Experiment) -> tuple[Measure, ...]:
    return tuple(Measure(name=each, kind="computed") if isinstance(each, str) else each for each in experiment.measures)


def _value(found: float | Mapping[str, float]) -> Value:
    """The value of a measure from JSON; along an axis it has all numbers, and its own number is the last one that is not NaN."""
    if not isinstance(found, Mapping):
        return Value(number=found)
    bins = tuple(Bin(shortest=int(place), longest=int(place), count=1, value=number) for place, number in found.items())
    known = [number for number in found.values() if not math.isnan(number)]
    return Value(number=known[-1] if known else None, bins=bins)
