"""Comparisons that are no recipe's: the arms are settings of an experiment, and its numbers are what is measured."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.claims.arms import Arm, arms_of, check_together, copied
from regard.claims.catalogue import Experiment, experiment
from regard.claims.compared import Compared, Run
from regard.claims.comparison import seeds_of
from regard.claims.measure import Measure
from regard.claims.measuring import Bin, Value
from regard.errors import InputError, nearest
from regard.files import replace_file
from regard.reading import read_json_object
from regard.structure import from_mapping
from regard.training.recipe import put, read_override

EXPERIMENT = "experiment"
"""The section that stands where a comparison of trained models has `recipe`, `budget` and `measures`."""

NUMBERS = "numbers.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Computation:
    """Variants of one experiment, each computed with several seeds.

    Arguments:
        experiment: `name` and the settings that all arms share.
        arms: the variants; their settings are those of the experiment.
        seeds: each arm is computed once with each.

    Raises:
        InputError: for an experiment that does not exist, or settings it does not have, naming the arm.
    """

    experiment: Mapping[str, Any]
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...] = (1, 2, 3)
    measures: tuple[Measure, ...] = field(init=False)

    def __post_init__(self) -> None:
        check_together(self.arms)
        found = [_measures(self.experiment_of(arm)) for arm in self.arms]
        if any(each != found[0] for each in found):
            raise InputError("the arms do not measure the same; give them settings that leave the measures alone")
        object.__setattr__(self, "measures", found[0])  # frozen for everybody else

    @property
    def precision(self) -> str:
        """As measured results have it."""
        return experiment(self.experiment["name"]).precision

    def arm(self, name: str) -> Arm:
        """The arm of that name.

        Raises:
            InputError: where there is none, with the nearest.
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
        """As YAML values; `read_computation` reads them back."""
        return {
            EXPERIMENT: copied(self.experiment),
            "arms": {arm.name: arm.to_mapping() for arm in self.arms},
            "seeds": list(self.seeds),
        }


def read_computation(
    sections: Mapping[str, Any], overrides: Sequence[str] = (), *, seeds: Sequence[int] | None = None
) -> Computation:
    """A computation from its sections: `experiment`, `arms` and perhaps `seeds`.

    Arguments:
        overrides: `experiment.key=value`, for all arms.
        seeds: other ones.

    Raises:
        InputError: for what cannot be read, naming the place.
    """
    values = copied(sections)
    known = (EXPERIMENT, "arms", "seeds")
    for key in values:
        if key not in known:
            raise InputError(f"{key} is no section where there is an experiment; {nearest(key, known)}")
    if not isinstance(values[EXPERIMENT], dict):
        raise InputError(f"{EXPERIMENT} is {values[EXPERIMENT]!r}; give its name and settings")
    for override in overrides:
        key, value = read_override(override)
        if not key.startswith(f"{EXPERIMENT}."):
            raise InputError(
                f"{override!r}: an experiment stands here for the recipe; settings begin with {EXPERIMENT}."
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
    """Compute every arm with every seed; what was computed before with the same settings is taken from `output`.

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
    asked = json.loads(json.dumps(asked))  # as it will be read back
    try:
        found = read_json_object(folder / NUMBERS, "")
        if found["asked"] != asked:
            raise KeyError("asked")
    except (ValueError, KeyError, TypeError):  # none yet, of other settings, or damaged
        began = time.monotonic()
        numbers = json.loads(json.dumps(dict(experiment.run(seed))))  # likewise
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
    """A number; or those along something, as JSON has them, the last that is one being the measure's own."""
    if not isinstance(found, Mapping):
        return Value(number=found)
    bins = tuple(Bin(shortest=int(place), longest=int(place), count=1, value=number) for place, number in found.items())
    known = [number for number in found.values() if not math.isnan(number)]
    return Value(number=known[-1] if known else None, bins=bins)
