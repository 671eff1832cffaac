"""`regard.compare`: train and measure every arm with every seed; an interrupted comparison continues where it was."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.claims.compared import Compared, Run
from regard.claims.comparison import Arm, Comparison, read_comparison
from regard.claims.measuring import FINISHED, RunMeasures
from regard.errors import InputError
from regard.files import clear_partial, new_folder, replace_file
from regard.parts import Code, load_code
from regard.tasks.preparation import is_prepared
from regard.training.callbacks import Callback
from regard.training.recipe import Recipe, differences, read_recipe, write_recipe
from regard.training.run import RECIPE, train

SAVED = "comparison.yaml"
Place = str | os.PathLike[str]


def compare(
    recipe: Comparison | Recipe | Mapping[str, Any] | Place,
    overrides: Sequence[str] = (),
    *,
    output: Place,
    grid: Mapping[str, Sequence[Any]] | None = None,
    arms: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] | None = None,
    budget: str | Mapping[str, float] | None = None,
    measures: Sequence[Any] | None = None,
    reuse: Sequence[Place] = (),
    callbacks: Sequence[Callback] = (),
    say: Callable[[str], None] | None = None,
    code: Code | None = None,
) -> Compared:
    """Train variants of a recipe with several seeds on an equal budget, and measure them.

    Each run is a run of `regard.train` in `output`/arm/seed. If the function is called again with the same arguments, finished
    runs are reused and a killed run continues, with the same results. Measures are computed again only if their settings have
    changed. Seeds, measures and further arms can be added; another comparison in the same folder is refused.

    Arguments:
        recipe: a recipe (file, mapping, `Recipe`), or a file or mapping of a whole comparison.
        overrides: `key=value` for all arms.
        output: the comparison's folder: a new one, or one with this comparison.
        grid: keys with values to compare, `{"model.score": ["dot", "general"]}`; every combination is an arm.
        arms: or named arms: `{"small": ["model.width=32"], "large": {"model.width": 128}}`.
        seeds: a number N for seeds 1 to N (default 3), or the seeds.
        budget: where every run ends: `steps=500`, `tokens=2e6`, `seconds=60`; by default the limits of the recipe.
        measures: names such as `loss`, `bleu`, `steps_to:token_accuracy=0.9`, or mappings; by default the validation metrics.
        reuse: folders of other comparisons; their finished runs with the same recipe are reused.
        callbacks: called at every step of every run.
        say: receives messages for the user; None = no messages.
        code: your own Python file, or files, with parts that the recipes name (`regard.parts`).

    Returns:
        The results: `.table()`, `.to_json()`, `.save_plot(path)`.

    Raises:
        InputError: for an invalid comparison, or a folder with another one.
    """
    load_code(code)
    comparison = read_comparison(recipe, overrides, grid=grid, arms=arms, seeds=seeds, budget=budget, measures=measures)
    if "RANK" in os.environ:
        raise InputError("a comparison runs in one process; start it without torchrun")
    folder = Path(output)
    _claim(folder, comparison)
    runs = _Runs(comparison, folder, [Path(place) for place in reuse], callbacks, _Once(say)).finish()
    compared = Compared(comparison=comparison, folder=folder, runs=tuple(runs))
    replace_file(folder / "comparison.json", json.dumps(compared.to_json(), indent=2, ensure_ascii=False) + "\n")
    return compared


class _Once:
    """Passes each message on only once, because some messages are the same for every run."""

    def __init__(self, say: Callable[[str], None] | None) -> None:
        self._say, self._said = say, set[str]()

    def __call__(self, sentence: str) -> None:
        if self._say is not None and sentence not in self._said:
            self._said.add(sentence)
            self._say(sentence)


@dataclass(slots=True)
class _Runs:
    """All runs of a comparison."""

    comparison: Comparison
    folder: Path
    reuse: Sequence[Path]
    callbacks: Sequence[Callback]
    say: _Once

    def finish(self) -> list[Run]:
        """Train the remaining runs, seed by seed, so that all arms have one run early; then measure."""
        comparison = self.comparison
        trained = [arm for arm in comparison.arms if arm.trains is None]
        places: dict[tuple[str, int], Path] = {}
        count, number = len(trained) * len(comparison.seeds), 0
        for seed in comparison.seeds:
            for arm in trained:
                number += 1
                places[arm.name, seed] = self._trained(arm, seed, f"{number} of {count}", places)
        return [self._measured(arm, seed, places) for arm in comparison.arms for seed in comparison.seeds]

    def _trained(self, arm: Arm, seed: int, number: str, places: Mapping[tuple[str, int], Path]) -> Path:
        """Train a run if it is not finished; return its folder."""
        recipe = self.comparison.recipe_of(arm, seed, self._needed(arm, seed, places))
        place = self.folder / arm.name / str(seed)
        if (place / FINISHED).is_file():
            changed = set(differences(read_recipe(place / RECIPE), recipe)) - arm.referring  # the folder may have moved
            if changed:  # another arm had this name before
                raise InputError(
                    f"{place}: has a finished run that differs in {', '.join(sorted(changed))}; "
                    "rename the arm, or choose another folder"
                )
            return place
        found = self._elsewhere(recipe)
        if found is not None:
            self.say(f"{arm.name}, seed {seed} ({number}): taken from {found}.")
            return found
        self.say(f"{arm.name}, seed {seed} ({number}) ...")
        self._share_data(recipe, place)
        result = train(recipe, output=place, resume=True, callbacks=self.callbacks, say=self._note)
        parameters = sum(parameter.numel() for parameter in result.load().model.parameters())
        finished = {
            "steps": result.steps,
            "best_step": result.best_step,
            "seconds": round(result.seconds, 3),
            "reason": result.reason,
            "parameters": parameters,
            "metrics": result.metrics,
        }
        replace_file(place / FINISHED, json.dumps(finished, indent=2) + "\n")
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in result.metrics.items())
        self.say(
            f"{arm.name}, seed {seed}: {parameters:,} parameters, {result.reason}, {result.seconds:.1f} s; {metrics}"
        )
        return place

    def _needed(self, arm: Arm, seed: int, places: Mapping[tuple[str, int], Path]) -> dict[str, str]:
        """The folders of the runs from which an arm starts."""
        return {name: str(places[name, seed].resolve()) for name in self.comparison.needs(arm)}

    def _note(self, sentence: str) -> None:
        """Pass on messages of training about precision and data, but not those about sizes and export."""
        if " parameters; " not in sentence and "`regard export" not in sentence:
            self.say(sentence)

    def _elsewhere(self, recipe: Recipe) -> Path | None:
        """A finished run with the same recipe in the folders to reuse."""
        for other in self.reuse:
            for path in sorted(other.glob(f"*/*/{FINISHED}")):
                if not differences(read_recipe(path.parent / RECIPE), recipe):
                    return path.parent
        return None

    def _share_data(self, recipe: Recipe, place: Path) -> None:
        """Copy tokenizers and token stores from a run with the same data settings and seed."""
        if is_prepared(place / "data"):
            return
        for path in sorted(self.folder.glob(f"*/*/{RECIPE}")):
            other = path.parent / "data"
            if path.parent == place or not is_prepared(other):
                continue
            changed = differences(read_recipe(path), recipe)
            if any(key.split(".")[0] in ("data", "tokenizer", "seed", "task") for key in changed):
                continue
            replace_file(place / RECIPE, write_recipe(recipe))
            with new_folder(place / "data") as partial:
                shutil.copytree(other, partial, dirs_exist_ok=True)
            return

    def _measured(self, arm: Arm, seed: int, places: Mapping[tuple[str, int], Path]) -> Run:
        trained = places[arm.trains or arm.name, seed]
        own = self.folder / arm.name / str(seed)
        recipe = self.comparison.recipe_of(arm, seed, self._needed(arm, seed, places))
        device = "cuda" if recipe.training.device != "cpu" and torch.cuda.is_available() else "cpu"
        measuring = RunMeasures(trained, own, recipe, device)
        values = {measure.name: measuring.value(measure) for measure in self.comparison.measures}
        metrics = sorted({measure.metric for measure in self.comparison.measures if measure.metric} | {"loss"})
        return Run(
            arm=arm.name,
            seed=seed,
            folder=trained,
            parameters=measuring.finished["parameters"],
            steps=measuring.finished["steps"],
            reason=measuring.finished["reason"],
            training_seconds=0.0 if arm.trains is not None else measuring.finished["seconds"],
            measuring_seconds=measuring.seconds,
            values=values,
            curves={metric: tuple(curve) for metric in metrics if (curve := measuring.curve(metric))},
        )


def _claim(folder: Path, comparison: Comparison) -> None:
    """Write the comparison into its folder, or check that it is the same one; measures, seeds and further arms may differ.

    Raises:
        InputError: for a folder with another comparison, naming the differences, or with other files.
    """
    path = folder / SAVED
    if path.is_file():
        changed = _changes(read_comparison(path), comparison)
        if changed:
            raise InputError(
                f"{folder}: has another comparison, which differs in {', '.join(changed)}; "
                "use the same settings, or choose another folder"
            )
    elif folder.is_dir() and any(not each.name.startswith(".partial-") for each in folder.iterdir()):
        raise InputError(f"{folder}: is not empty and has no comparison; choose another folder")
    replace_file(path, comparison.to_yaml())
    clear_partial(folder)


def _changes(old: Comparison, new: Comparison) -> list[str]:
    """The differences that would change finished runs."""
    known = {arm.name: arm for arm in old.arms}
    found: list[str] = []
    for arm in new.arms:
        before = known.get(arm.name)
        if before is None:
            continue
        if before.trains != arm.trains:
            found.append(f"arms.{arm.name}.trains")
        seed = new.seeds[0]
        if old.needs(before) or new.needs(arm):  # their recipes cannot be read before the runs that they need
            same = before.applied(old.recipe) == arm.applied(new.recipe)
            found += [] if same else [f"settings of arm {arm.name!r}"]
            continue
        found += [
            f"{key} of arm {arm.name!r}"
            for key in differences(old.recipe_of(before, seed), new.recipe_of(arm, seed))
            if arm.trains is None or not key.startswith("generation")
        ]
    return _grouped(found, len(new.arms))


def _grouped(found: Sequence[str], arms: int) -> list[str]:
    """The differences, with a key that differs in every arm only once."""
    keys = [key.partition(" of arm ")[0] for key in found]
    every = [key for key in dict.fromkeys(keys) if keys.count(key) == arms > 1]
    return [*every, *(text for text, key in zip(found, keys, strict=True) if key not in every)]
