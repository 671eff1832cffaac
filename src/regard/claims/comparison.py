"""A comparison as data: a recipe, arms, seeds, a budget, measures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from regard.claims.arms import Arm, arms_of, check_together, copied, grid_arms
from regard.claims.measure import JUDGING, Measure, read_measures, wanted
from regard.claims.scoring import check_scored
from regard.errors import InputError, nearest
from regard.reading import yaml_value
from regard.structure import coerced, from_mapping
from regard.tasks.spec import spec_of
from regard.tasks.translation import TranslationTask
from regard.tasks.translation_data import TranslationData
from regard.training.recipe import Recipe, put, read_override, read_recipe, read_yaml, recipe_file
from regard.training.settings import LIMITS

SECTIONS = ("recipe", "arms", "seeds", "budget", "measures")
Budget = Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Variants of one recipe, trained with several seeds on an equal budget.

    Arguments:
        recipe: what all arms share, as YAML values, the budget filled in.
        arms: the variants.
        seeds: each arm is trained once with each; a seed is the recipe's `seed`.
        measures: of every run.

    Raises:
        InputError: for an arm whose recipe cannot be one, naming the arm; a seed given twice; no arm.
    """

    recipe: Mapping[str, Any]
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...] = (1, 2, 3)
    measures: tuple[Measure, ...] = field(default=())

    def __post_init__(self) -> None:
        if not self.arms:
            raise InputError(
                "there is nothing to compare; give a key with several values, such as model.score=dot,general"
            )
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"seeds are {list(self.seeds)}; give at least one, none twice")
        check_together(self.arms)
        # What needs another arm's run can be read only once that is there.
        recipes = [(arm, self.recipe_of(arm, self.seeds[0])) for arm in self.arms if not self.needs(arm)]
        if not self.measures:
            decodes = all(recipe.training.evaluate_generated > 0 for _, recipe in recipes)
            names = ("loss", "perplexity", "token_accuracy", *(("exact_match", "bleu") if decodes else ()))
            kinds = [spec_of(recipe.task) for _, recipe in recipes]
            if all(kind.interface in ("encoder", "whole_text", "text_vectors", "picture_classifier") for kind in kinds):
                judged = [kind.judged or ("masked_loss", "masked_accuracy") for kind in kinds]
                names = ("loss", *dict.fromkeys(name for each in judged for name in each))
            usual = tuple(Measure(name=name, kind="validation", metric=name) for name in names)
            object.__setattr__(self, "measures", usual)  # frozen for everybody else
        for measure in self.measures:
            self._check(measure, recipes)

    def _check(self, measure: Measure, recipes: Sequence[tuple[Arm, Recipe]]) -> None:
        """Refuse now what would fail after hours of training."""
        given = None
        if measure.data is not None and measure.kind in JUDGING:
            given = from_mapping(TranslationData, measure.data, f"measure {measure.name!r}: data")
        for arm, recipe in recipes:
            where = f"measure {measure.name!r}, arm {arm.name!r}"
            if measure.kind == "computed":
                raise InputError(f"{where}: a trained model computes nothing of that name; choose another kind")
            check_scored(measure, recipe, where)
            if measure.kind in JUDGING and recipe.task != TranslationTask.name:
                raise InputError(
                    f"{where}: {measure.kind} reads pairs, and the task is {recipe.task}; measure what training logs, such as "
                    "loss, perplexity or training_loss"
                )
            if measure.kind in JUDGING and measure.to not in (recipe.data.languages or (None,)):
                languages = recipe.data.languages or ("leave it out",)
                raise InputError(f"{where}: to is {measure.to!r}; {nearest(str(measure.to), languages)}")
            if measure.kind in JUDGING:
                data = given or recipe.data
                if data.builtin is not None:  # nothing is drawn yet, but too few are told
                    data.builtin.pairs(measure.split, wanted(measure, data), 0)
                from_mapping(
                    type(recipe.generation), {**recipe.to_mapping()["generation"], **measure.generation}, where
                )
            elif measure.metric in ("exact_match", "bleu") and recipe.training.evaluate_generated == 0:
                raise InputError(
                    f"{where}: {measure.metric} is not among what training validates; "
                    "set training.evaluate_generated to a number of examples, or choose kind decoded"
                )

    def arm(self, name: str) -> Arm:
        """The arm of that name.

        Raises:
            InputError: where there is none, with the nearest.
        """
        names = [arm.name for arm in self.arms]
        if name not in names:
            raise InputError(f"there is no arm {name!r}; {nearest(name, names)}")
        return self.arms[names.index(name)]

    def needs(self, arm: Arm) -> tuple[str, ...]:
        """The arms whose runs an arm starts from, itself or that whose runs it takes."""
        return arm.needs + (self.arm(arm.trains).needs if arm.trains is not None else ())

    def recipe_of(self, arm: Arm, seed: int, runs: Mapping[str, str] | None = None) -> Recipe:
        """The complete recipe of one run; of an arm that takes another's runs, with that one's settings below its own.

        Arguments:
            runs: the folders of the runs with this seed that the arm needs, by arm.

        Raises:
            InputError: naming the arm.
        """
        values = self.arm(arm.trains).applied(self.recipe, runs) if arm.trains is not None else self.recipe
        try:
            return read_recipe(arm.applied(values, runs) | {"seed": seed})
        except InputError as error:
            raise InputError(f"arm {arm.name!r}: {error}") from error

    @property
    def precision(self) -> str:
        """What the first arm is trained in, as measured results have it."""
        return self.recipe_of(self.arms[0], self.seeds[0]).training.precision

    def to_mapping(self) -> dict[str, Any]:
        """As YAML values; `read_comparison` reads them back."""
        return {
            "recipe": copied(self.recipe),
            "arms": {arm.name: arm.to_mapping() for arm in self.arms},
            "seeds": list(self.seeds),
            "measures": [measure.to_mapping() for measure in self.measures],
        }

    def to_yaml(self) -> str:
        """The same as text."""
        values = self.to_mapping()
        text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=120)
        return text if yaml_value(text) == values else yaml.safe_dump(values, sort_keys=False)


def read_comparison(
    recipe: Comparison | Recipe | Mapping[str, Any] | str | os.PathLike[str],
    overrides: Sequence[str] = (),
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    arms: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] | None = None,
    budget: str | Mapping[str, float] | None = None,
    measures: Sequence[Any] | None = None,
) -> Comparison:
    """A comparison from a recipe, or from a file that holds a whole one, with what is given here on top.

    Arguments:
        recipe: a recipe (file, mapping or `Recipe`), or a comparison: a file or mapping with `recipe` (its values, or the path of
            a file beside it), `arms`, and perhaps `seeds`, `budget`, `measures`.
        overrides: `key=value`, for all arms.
        grid: keys with the values to compare; every combination is an arm. Beside arms, each arm is crossed with it.
        arms: names, and what each changes: a list of `key=value`, or a mapping of dotted keys to values.
        seeds: a number N for seeds 1 to N, or the seeds.
        budget: such as `steps=500`; see `with_budget`.
        measures: see `regard.claims.measure.read_measures`.

    Raises:
        InputError: for what cannot be read, naming the place.
    """
    values = _sections(recipe)
    base = copied(values["recipe"])
    budget = values.get("budget") if budget is None else budget
    if budget is not None:
        base = with_budget(base, read_budget(budget))
    for override in overrides:
        put(base, *read_override(override))
    named = arms_of(values["arms"] if arms is None else arms, "arms") if arms or values.get("arms") else ()
    if grid:
        named = _crossed(named, grid_arms(grid)) if named else grid_arms(grid)
    chosen = values.get("seeds", 3) if seeds is None else seeds
    wanted = values.get("measures", ()) if measures is None else measures
    return Comparison(recipe=base, arms=named, seeds=seeds_of(chosen), measures=read_measures(wanted))


def read_budget(budget: str | Mapping[str, Any]) -> dict[str, float]:
    """One limit of training, as a mapping or as `steps=500`, `epochs=3`, `tokens=2e6` or `seconds=60`.

    Raises:
        InputError: for anything else.

    >>> read_budget("tokens=2e6")
    {'tokens': 2000000.0}
    """
    values = dict([read_override(budget)]) if isinstance(budget, str) else dict(budget)
    if len(values) != 1:
        raise InputError(f"a budget is one limit for all arms, not {len(values)}; give steps=, tokens= or seconds=")
    ((key, value),) = values.items()
    if key not in LIMITS:
        raise InputError(f"budget: there is no limit {key!r}; {nearest(str(key), LIMITS)}")
    number = coerced(value, float, f"budget.{key}")
    if key == "steps" and number != int(number):
        raise InputError(f"budget.steps is {value!r}; it must be a whole number")
    return {key: int(number) if key == "steps" else number}


def with_budget(recipe: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
    """A recipe's values whose training ends by this limit alone: no other one, and no early stop.

    >>> with_budget({"training": {"epochs": 3, "patience": 4}}, {"steps": 10})["training"]
    {'steps': 10}
    """
    values = copied(recipe)
    training = values.get("training")
    kept = {key: value for key, value in dict(training or {}).items() if key not in (*LIMITS, "patience")}
    return values | {"training": kept | dict(budget)}


def _sections(recipe: Comparison | Recipe | Mapping[str, Any] | str | os.PathLike[str]) -> dict[str, Any]:
    """The sections of a comparison; a recipe alone is one of them."""
    if isinstance(recipe, Comparison):
        return recipe.to_mapping()
    if isinstance(recipe, Recipe):
        return {"recipe": recipe.to_mapping()}
    beside = Path()
    if isinstance(recipe, Mapping):
        values, where = dict(recipe), "comparison"
    else:
        file = recipe_file(recipe)
        values, where, beside = read_yaml(file), str(recipe), file.parent
    if "recipe" not in values:
        return {"recipe": values}
    for key in values:
        if key not in SECTIONS:
            raise InputError(f"{where}: unknown key {key!r}; {nearest(str(key), SECTIONS)}")
    inner = values["recipe"]
    if isinstance(inner, str):
        inner = read_yaml(beside / inner)
    if not isinstance(inner, Mapping):
        raise InputError(f"{where}.recipe is {inner!r}; it must be a recipe's settings or the path of its file")
    return values | {"recipe": inner}


def seeds_of(seeds: Any) -> tuple[int, ...]:
    """The seeds that a number N stands for, 1 to N, or the seeds as they are given.

    Raises:
        InputError: for neither.
    """
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        if seeds < 1:
            raise InputError(f"seeds is {seeds}; give how many, at least 1")
        return tuple(range(1, seeds + 1))
    return coerced(seeds, tuple[int, ...], "seeds")


def _crossed(arms: Sequence[Arm], grid: Sequence[Arm]) -> tuple[Arm, ...]:
    """Each arm with each cell; one that takes another's runs takes them of the same cell, which has the cell's settings."""
    return tuple(
        Arm(name=f"{arm.name},{cell.name}", settings={**arm.settings, **cell.settings})
        if arm.trains is None
        else Arm(name=f"{arm.name},{cell.name}", settings=arm.settings, trains=f"{arm.trains},{cell.name}")
        for arm in arms
        for cell in grid
    )
