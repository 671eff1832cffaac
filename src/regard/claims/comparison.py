"""A comparison as data: a recipe, arms with changed settings, seeds, a budget, measures."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from regard.claims.measure import JUDGING, Measure, read_measures, wanted
from regard.claims.measuring import check_scored
from regard.errors import InputError, nearest
from regard.reading import yaml_value
from regard.structure import coerced, from_mapping
from regard.tasks.spec import spec_of
from regard.tasks.translation import TranslationTask
from regard.tasks.translation_data import TranslationData
from regard.training.recipe import Recipe, put, read_override, read_recipe, read_yaml, recipe_file
from regard.training.settings import LIMITS

TRAINS = "trains"
"""The key of an arm with the name of another arm whose trained runs it uses."""

RUN = "run:"
"""The prefix of a setting that is replaced by the folder of another arm's run with the same seed: `run:teacher`."""

_NAME = re.compile(r"\w[\w .,+=-]*")
_LONGEST_NAME = 80


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One variant.

    Arguments:
        name: its name, also of its folder.
        settings: dotted keys of the recipe and their values; `model` alone replaces the whole section. `run:teacher` is replaced
            by the folder of the arm `teacher` with the same seed, as in `model.pretrained` and `data.teacher.folder`.
        trains: another arm whose trained runs this arm uses; it can then only change `generation`.

    Raises:
        InputError: for a name that is not possible for a folder.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    trains: str | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > _LONGEST_NAME:
            raise InputError(
                f"an arm cannot have the name {self.name!r}, which is also a folder's; use letters, digits, spaces and .,+=-_"
            )
        trained = [key for key in self.settings if key.split(".")[0] != "generation"]
        if self.trains is not None and trained:
            raise InputError(
                f"arm {self.name!r} uses the runs of {self.trains!r} and changes {', '.join(trained)}; without "
                f"new training it can only change generation"
            )

    @property
    def needs(self) -> tuple[str, ...]:
        """The arms whose runs its settings refer to."""
        return tuple(dict.fromkeys(name for _, name in _named_runs(self.settings)))

    @property
    def referring(self) -> frozenset[str]:
        """The dotted keys of the recipe that refer to a run; with `model.pretrained` also the tokenizer's path."""
        keys = {key for key, _ in _named_runs(self.settings)}
        return frozenset(keys | ({"tokenizer.path"} if "model.pretrained" in keys else set()))

    def to_mapping(self) -> dict[str, Any]:
        """The arm as YAML values, which `arms_of` reads."""
        return dict(self.settings) | ({TRAINS: self.trains} if self.trains is not None else {})

    def applied(self, recipe: Mapping[str, Any], runs: Mapping[str, str] | None = None) -> dict[str, Any]:
        """A copy of a recipe's values with this arm's settings.

        Arguments:
            runs: the folders of the runs that it needs, by arm; None = `run:...` is not replaced.
        """
        values = copied(recipe)
        for key, value in self.settings.items():
            put(values, key, _found(value, runs or {}))
        return values


def _named_runs(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """The dotted keys that refer to runs, with the names of their arms."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _named_runs(part, f"{key}.{name}".lstrip("."))
    elif isinstance(value, str) and value.startswith(RUN):
        yield key, value.removeprefix(RUN)


def _found(value: Any, runs: Mapping[str, str]) -> Any:
    """YAML values in which references to runs are replaced by folders."""
    if isinstance(value, Mapping):
        return {key: _found(part, runs) for key, part in value.items()}
    if isinstance(value, str) and value.startswith(RUN):
        return runs.get(value.removeprefix(RUN), value)
    return copied(value)


def copied(value: Any) -> Any:
    """A deep copy of YAML values."""
    if isinstance(value, Mapping):
        return {key: copied(part) for key, part in value.items()}
    return [copied(part) for part in value] if isinstance(value, list | tuple) else value


def arms_of(values: Any, where: str) -> tuple[Arm, ...]:
    """Arms from YAML values: names, and for each a mapping of dotted keys to values, or a list of `key=value`.

    Raises:
        InputError: naming the place.

    >>> arms_of({"small": ["model.width=8"], "large": {"model.width": 32}}, "arms")[0].settings
    {'model.width': 8}
    """
    if not isinstance(values, Mapping) or not values:
        raise InputError(f"{where}: must name at least one arm, such as {where}: {{dot: [model.score=dot]}}")
    found = []
    for name, entry in values.items():
        settings: dict[str, Any]
        if entry is None:
            settings = {}
        elif isinstance(entry, Mapping):
            settings = {str(key): copied(value) for key, value in entry.items()}
        elif isinstance(entry, list | tuple) and all(isinstance(part, str) for part in entry):
            settings = dict(read_override(part) for part in entry)
        else:
            raise InputError(f"{where}.{name}: must be a list of key=value, or a mapping of keys to values")
        trains = settings.pop(TRAINS, None)
        found.append(Arm(name=str(name), settings=settings, trains=None if trains is None else str(trains)))
    check_together(found)
    return tuple(found)


def check_together(arms: Sequence[Arm]) -> None:
    """Refuse arms with equal names, and arms that need runs of an arm without its own training or of a later arm.

    Raises:
        InputError: naming the arm.
    """
    names = [arm.name for arm in arms]
    folded = [name.casefold() for name in names]  # such names would share a folder on some file systems
    for name in names:
        if folded.count(name.casefold()) > 1:
            raise InputError(f"two arms have the name {name!r}; give each its own name")
    trained = [arm.name for arm in arms if arm.trains is None]
    for place, arm in enumerate(arms):
        for name in arm.needs:
            if name not in trained:
                raise InputError(
                    f"arm {arm.name!r} needs the run of {name!r}, which is not trained; {nearest(name, trained)}"
                )
            if name not in names[:place]:
                raise InputError(f"arm {arm.name!r} needs the run of {name!r}; name that arm before it")
        if arm.trains is not None and arm.trains not in trained:
            raise InputError(
                f"arm {arm.name!r} uses the runs of {arm.trains!r}, which is not trained; {nearest(arm.trains, trained)}"
            )


def grid_arms(grid: Mapping[str, Sequence[Any]]) -> tuple[Arm, ...]:
    """An arm for every combination of values.

    Arguments:
        grid: dotted keys, with the values to compare.

    Raises:
        InputError: for a key without values.

    >>> [arm.name for arm in grid_arms({"model.score": ["dot", "general"], "model.width": [8, 16]})]
    ['score=dot,width=8', 'score=dot,width=16', 'score=general,width=8', 'score=general,width=16']
    """
    for key, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise InputError(f"{key}: give a list of values to compare, such as {key}=a,b")
    last = [key.rpartition(".")[2] for key in grid]
    short = {key: name if last.count(name) == 1 else key for key, name in zip(grid, last, strict=True)}
    arms: list[Arm] = []
    for combination in itertools.product(*grid.values()):
        settings = dict(zip(grid, combination, strict=True))
        name = ",".join(f"{short[key]}={_spoken(value)}" for key, value in settings.items())
        arms.append(Arm(name=_unused(_for_folder(name), {arm.name.casefold() for arm in arms}), settings=settings))
    return tuple(arms)


def split_values(text: str) -> list[str]:
    """The values between commas outside brackets and quotes.

    >>> split_values("[a, b],[c],'d,e',f")
    ['[a, b]', '[c]', "'d,e'", 'f']
    """
    parts, depth, quote, start = [], 0, "", 0
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"" and not text[start:place].strip(" [{,:"):
            quote = letter  # in other positions it is an apostrophe
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and depth <= 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def read_grid(words: Iterable[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """The words of a command line as overrides with one value for all arms, and keys with several values to compare.

    Raises:
        InputError: for a word without `=`, an empty value, or a key given twice.

    >>> read_grid(["training.steps=5", "model.score=dot,general", "data.train=[a.en, a.de]"])
    (['training.steps=5', 'data.train=[a.en, a.de]'], {'model.score': ['dot', 'general']})
    """
    overrides: list[str] = []
    grid: dict[str, list[Any]] = {}
    for word in words:
        key, separator, text = word.partition("=")
        values = split_values(text)
        if not separator or len(values) == 1:
            read_override(word)
            overrides.append(word)
            continue
        if key in grid:
            raise InputError(f"{key} is given twice; write all its values in one, {key}=a,b,c")
        if not all(value.strip() for value in values):
            raise InputError(f"{word!r}: there is nothing between two commas; leave one out, or write null")
        grid[key] = [read_override(f"{key}={value}")[1] for value in values]
    return overrides, grid


def _spoken(value: Any) -> str:
    if isinstance(value, Mapping):
        name = value.get("name")
        return str(name) if name is not None else " ".join(f"{key} {_spoken(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return "+".join(map(_spoken, value))
    return {None: "null", True: "true", False: "false"}.get(value, str(value)) if _is_constant(value) else str(value)


def _is_constant(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _for_folder(name: str) -> str:
    name = re.sub(r"[^\w .,+=-]", "-", name)[: _LONGEST_NAME - 4].strip(" .-")
    return name or "arm"


def _unused(name: str, taken: set[str]) -> str:
    numbered = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
    return next(each for each in numbered if each.casefold() not in taken)


SECTIONS = ("recipe", "arms", "seeds", "budget", "measures")
Budget = Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Variants of one recipe, trained with several seeds on an equal budget.

    Arguments:
        recipe: the common recipe of all arms, as YAML values, with the budget.
        arms: the variants.
        seeds: each arm is trained once with each seed, which is the recipe's `seed`.
        measures: the measures of every run.

    Raises:
        InputError: for an arm with an invalid recipe, naming the arm; a repeated seed; no arms.
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
        # The recipe of an arm that needs another arm's run can be read only after that run.
        recipes = [(arm, self.recipe_of(arm, self.seeds[0])) for arm in self.arms if not self.needs(arm)]
        if not self.measures:
            decodes = all(recipe.training.evaluate_generated > 0 for _, recipe in recipes)
            names = ("loss", "perplexity", "token_accuracy", *(("exact_match", "bleu") if decodes else ()))
            kinds = [spec_of(recipe.task) for _, recipe in recipes]
            if all(kind.interface in ("encoder", "whole_text", "text_vectors", "image_classifier") for kind in kinds):
                judged = [kind.metric_names or ("masked_loss", "masked_accuracy") for kind in kinds]
                names = ("loss", *dict.fromkeys(name for each in judged for name in each))
            usual = tuple(Measure(name=name, kind="validation", metric=name) for name in names)
            object.__setattr__(self, "measures", usual)  # the dataclass is frozen
        for measure in self.measures:
            self._check(measure, recipes)

    def _check(self, measure: Measure, recipes: Sequence[tuple[Arm, Recipe]]) -> None:
        """Refuse a measure that would fail after the training."""
        given = None
        if measure.data is not None and measure.kind in JUDGING:
            given = from_mapping(TranslationData, measure.data, f"measure {measure.name!r}: data")
        for arm, recipe in recipes:
            where = f"measure {measure.name!r}, arm {arm.name!r}"
            if measure.kind == "computed":
                raise InputError(f"{where}: computed is for claims with an experiment; choose another kind")
            check_scored(measure, recipe, where)
            if measure.kind in JUDGING and recipe.task != TranslationTask.name:
                raise InputError(
                    f"{where}: {measure.kind} needs pairs, and the task is {recipe.task}; use a measure that training logs, such "
                    "as loss, perplexity or training_loss"
                )
            if measure.kind in JUDGING and measure.to not in (recipe.data.languages or (None,)):
                languages = recipe.data.languages or ("leave it out",)
                raise InputError(f"{where}: to is {measure.to!r}; {nearest(str(measure.to), languages)}")
            if measure.kind in JUDGING:
                data = given or recipe.data
                if data.builtin is not None:  # nothing is generated yet, but too little data is an error
                    data.builtin.pairs(measure.split, wanted(measure, data), 0)
                from_mapping(
                    type(recipe.generation), {**recipe.to_mapping()["generation"], **measure.generation}, where
                )
            elif measure.metric in ("exact_match", "bleu") and recipe.training.evaluate_generated == 0:
                raise InputError(
                    f"{where}: {measure.metric} is not computed in validation; "
                    "set training.evaluate_generated to a number of examples, or choose kind decoded"
                )

    def arm(self, name: str) -> Arm:
        """The arm of that name.

        Raises:
            InputError: for an unknown name, with the nearest one.
        """
        names = [arm.name for arm in self.arms]
        if name not in names:
            raise InputError(f"there is no arm {name!r}; {nearest(name, names)}")
        return self.arms[names.index(name)]

    def needs(self, arm: Arm) -> tuple[str, ...]:
        """The arms from whose runs an arm starts, or the arm whose runs it uses."""
        return arm.needs + (self.arm(arm.trains).needs if arm.trains is not None else ())

    def recipe_of(self, arm: Arm, seed: int, runs: Mapping[str, str] | None = None) -> Recipe:
        """The complete recipe of one run; an arm that uses another's runs has the settings of that one and its own.

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
        """The precision in which the first arm is trained, as in measured results."""
        return self.recipe_of(self.arms[0], self.seeds[0]).training.precision

    def to_mapping(self) -> dict[str, Any]:
        """The comparison as YAML values, which `read_comparison` reads."""
        return {
            "recipe": copied(self.recipe),
            "arms": {arm.name: arm.to_mapping() for arm in self.arms},
            "seeds": list(self.seeds),
            "measures": [measure.to_mapping() for measure in self.measures],
        }

    def to_yaml(self) -> str:
        """The comparison as YAML text."""
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
    """A comparison from a recipe, or from a file of a whole comparison, changed by the other arguments.

    Arguments:
        recipe: a recipe (file, mapping or `Recipe`), or a comparison: a file or mapping with `recipe` (its values, or the path of
            a file next to it), `arms`, and optionally `seeds`, `budget`, `measures`.
        overrides: `key=value`, for all arms.
        grid: keys with the values to compare; every combination is an arm. If there are arms too, each arm is combined with it.
        arms: names, with the changes of each: a list of `key=value`, or a mapping of dotted keys to values.
        seeds: a number N for seeds 1 to N, or the seeds.
        budget: a limit such as `steps=500`; see `with_budget`.
        measures: see `regard.claims.measure.read_measures`.

    Raises:
        InputError: for values that cannot be read, naming their place.
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
    """A recipe's values with this limit of training only: without other limits, and without early stopping.

    >>> with_budget({"training": {"epochs": 3, "patience": 4}}, {"steps": 10})["training"]
    {'steps': 10}
    """
    values = copied(recipe)
    training = values.get("training")
    kept = {key: value for key, value in dict(training or {}).items() if key not in (*LIMITS, "patience")}
    return values | {"training": kept | dict(budget)}


def _sections(recipe: Comparison | Recipe | Mapping[str, Any] | str | os.PathLike[str]) -> dict[str, Any]:
    """The sections of a comparison; for a recipe only the section `recipe`."""
    if isinstance(recipe, Comparison):
        return recipe.to_mapping()
    if isinstance(recipe, Recipe):
        return {"recipe": recipe.to_mapping()}
    folder = Path()
    if isinstance(recipe, Mapping):
        values, where = dict(recipe), "comparison"
    else:
        file = recipe_file(recipe)
        values, where, folder = read_yaml(file), str(recipe), file.parent
    if "recipe" not in values:
        return {"recipe": values}
    for key in values:
        if key not in SECTIONS:
            raise InputError(f"{where}: unknown key {key!r}; {nearest(str(key), SECTIONS)}")
    inner = values["recipe"]
    if isinstance(inner, str):
        inner = read_yaml(folder / inner)
    if not isinstance(inner, Mapping):
        raise InputError(f"{where}.recipe is {inner!r}; it must be a recipe's settings or the path of its file")
    return values | {"recipe": inner}


def seeds_of(seeds: Any) -> tuple[int, ...]:
    """The seeds 1 to N for a number N, or the given seeds.

    Raises:
        InputError: for another value.
    """
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        if seeds < 1:
            raise InputError(f"seeds is {seeds}; give how many, at least 1")
        return tuple(range(1, seeds + 1))
    return coerced(seeds, tuple[int, ...], "seeds")


def _crossed(arms: Sequence[Arm], grid: Sequence[Arm]) -> tuple[Arm, ...]:
    """Each arm combined with each cell of a grid; an arm that uses another's runs uses those of the same cell."""
    return tuple(
        Arm(name=f"{arm.name},{cell.name}", settings={**arm.settings, **cell.settings})
        if arm.trains is None
        else Arm(name=f"{arm.name},{cell.name}", settings=arm.settings, trains=f"{arm.trains},{cell.name}")
        for arm in arms
        for cell in grid
    )
