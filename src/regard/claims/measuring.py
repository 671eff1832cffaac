"""Measuring a finished run from the log and the model in its folder; each number is computed once.

The functions that run the model, by the kind of measure:

| kind | function |
|---|---|
| `teacher_forced`, `decoded` | `judged`: all metrics at once, over all pairs and by length of the source |
| `evaluated` | `evaluated`: the metrics of `regard evaluate`, on other examples than those in training |
| `in_context` | `accuracy_by_shots`: how well a language model learns a map from the pairs before |
| `repeated` | `accuracy_of_repeats`: how well it repeats a sequence, optionally with its attention `changed` after training |
| `at_length` | `loss_at_length`: its loss on stretches of another length than in training |
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from regard.checkpoints import read_card
from regard.claims.measure import FALLING, JUDGING, Measure, wanted
from regard.data.malformed import MalformedRows
from regard.data.pairs import read_pairs
from regard.data.sequences import Maps, Repeats
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.files import replace_file
from regard.generation import GenerationSettings
from regard.models.config import config_from_json, config_to_json
from regard.reading import parse_json, read_json_object, read_text
from regard.structure import from_mapping
from regard.tasks.language_modelling import LanguageModel
from regard.tasks.language_task import COLUMN, LanguageModellingTask
from regard.tasks.loading import load
from regard.tasks.spec import spec_of
from regard.tasks.translation import Translator
from regard.tasks.translation_data import TranslationData, builtin_pairs
from regard.tasks.translation_evaluation import evaluate, teacher_forced
from regard.training.recipe import Recipe

Pairs = Sequence[tuple[str, str]]

TOKENS_AT_ONCE = 16_384
"""The maximum number of tokens in one batch of stretches."""


def check_scored(measure: Measure, recipe: Recipe, where: str) -> None:
    """Refuse a measure of examples or of a language model that is not possible for the runs of a recipe, before training.

    Raises:
        InputError: for `evaluated`, a task without such an evaluation, or invalid data; for `in_context`, a recipe without maps,
            or with fewer pairs than `shots`; for `repeated`, a recipe without repeats; for `at_length`, another task than
            language modelling.
    """
    modelling = recipe.task == LanguageModellingTask.name
    if measure.kind == "evaluated":
        _section_of(measure, recipe, where)
    elif measure.kind == "in_context":
        maps = recipe.data.maps if modelling else None
        if maps is None:
            raise InputError(f"{where}: in_context needs data.maps, and the recipe has none; choose another kind")
        if measure.shots >= maps.pairs:
            raise InputError(
                f"{where}: {measure.shots} shots and the pair to predict are more than the {maps.pairs} pairs of data.maps.pairs"
            )
    elif measure.kind == "repeated" and (not modelling or recipe.data.repeats is None):
        raise InputError(f"{where}: repeated needs data.repeats, and the recipe has none; choose another kind")
    elif measure.kind == "at_length" and not modelling:
        raise InputError(
            f"{where}: at_length is for language models, and the task is {recipe.task}; choose another kind"
        )


def judged(translator: Translator, pairs: Pairs, measure: Measure, generation: GenerationSettings) -> dict[str, Any]:
    """All metrics of a measure's kind as JSON values: `metrics`, those of `bins` if requested, `count` and a `note`.

    Raises:
        InputError: for an empty list, or texts that the model cannot read.
    """
    if measure.kind == "decoded":
        found = evaluate(translator, pairs, generation, to=measure.to, bins=measure.bins)
        bins = [dataclasses.asdict(part) for part in found.bins]
        return {"metrics": found.metrics, "bins": bins, "note": found.note, "count": found.count}
    metrics = dataclasses.asdict(teacher_forced(translator, pairs, to=measure.to))
    bins = []
    for shortest, longest in bounds(measure.bins) if measure.bins else ():
        inside = [pair for pair in pairs if shortest <= len(pair[0].split()) <= (longest or math.inf)]
        part = dataclasses.asdict(teacher_forced(translator, inside, to=measure.to)) if inside else {}
        bins.append({"shortest": shortest, "longest": longest, "count": len(inside), "metrics": part})
    return {"metrics": metrics, "bins": bins, "note": "", "count": len(pairs)}


def bounds(bins: Sequence[int]) -> list[tuple[int, int | None]]:
    """The ranges between edges, as in `regard.evaluate`.

    >>> bounds((10, 20))
    [(1, 10), (11, 20), (21, None)]
    """
    starts = [1, *(edge + 1 for edge in bins)]
    return list(zip(starts, [*bins, None], strict=True))


def evaluated(measure: Measure, recipe: Recipe, predictor: Any) -> dict[str, float]:
    """The metrics of a predictor on the examples of a measure.

    Raises:
        InputError: for data that cannot be read, or a metric that the task does not have.
    """
    kind, where = spec_of(recipe.task), f"measure {measure.name!r}"
    read, section = _section_of(measure, recipe, where)
    examples = list(itertools.islice(read(section, MalformedRows()), measure.size))
    metrics = dict(kind.evaluate(predictor, examples).metrics)
    if measure.metric not in metrics:
        raise InputError(f"{where}: task {recipe.task} has no metric {measure.metric!r}; it has {', '.join(metrics)}")
    return metrics


def _section_of(measure: Measure, recipe: Recipe, where: str) -> tuple[Callable[..., Any], Any]:
    """The reader of the task's examples, and the run's data section with the measure's changes, without held-out examples."""
    read = spec_of(recipe.task).read
    if read is None:
        raise InputError(
            f"{where}: evaluated is for tasks with examples, and {recipe.task} has none; choose another kind"
        )
    own = dataclasses.asdict(recipe.data)
    own = {name: value for name, value in own.items() if not name.startswith("validation")}
    return read, from_mapping(type(recipe.data), {**own, **(measure.data or {})}, f"{where}: data")


def accuracy_by_shots(model: LanguageModel, texts: Maps) -> list[float]:
    """The share of f(x) that were the most probable token after x, by the number of pairs before: item k is after k pairs.

    Each text is read once; the prediction at each x, given the pairs before it, is a prediction with that many examples.

    Arguments:
        model: a model that reads each symbol as one token.
        texts: texts of a split that was not used in training.
    """
    scores = model.score_batch(list(texts), batch_size=64)
    right = [score.right[1 : 2 * texts.pairs : 2] for score in scores]  # x, f(x), x, f(x), ..., end
    return [sum(column) / len(right) for column in zip(*right, strict=True)]


def changed(model: LanguageModel, settings: Mapping[str, Any]) -> LanguageModel:
    """The same weights in a model with some other settings in its config.

    Arguments:
        settings: the settings by name; those that determine the sizes of weights cannot be changed.

    Raises:
        InputError: naming an unknown setting, or one that does not fit the weights.
    """
    if not settings:
        return model
    old = model.model
    config = config_from_json(type(old.config), {**config_to_json(old.config), **settings}, "measure: model")
    new = type(old)(config).to(model.device)
    sizes = {name: tensor.shape for name, tensor in old.state_dict().items()}
    if {name: tensor.shape for name, tensor in new.state_dict().items()} != sizes:
        raise InputError(f"measure: model: {', '.join(settings)} changes the weights; use settings that do not")
    new.load_state_dict(old.state_dict())
    return LanguageModel(new.eval(), model.task, recipe=model.recipe, metrics=model.metrics)


def accuracy_of_repeats(model: LanguageModel, texts: Repeats) -> float:
    """The share of tokens of the second w that were the most probable ones.

    Arguments:
        model: a model that reads each symbol as one token.
        texts: texts of a split that was not used in training.
    """
    scores = model.score_batch(list(texts), batch_size=64)
    again = [score.right[texts.length + 2 : 2 * texts.length + 2] for score in scores]  # 0 w 0 w, end
    return sum(sum(part) for part in again) / sum(len(part) for part in again)


def loss_at_length(model: LanguageModel, store: TokenStore, *, length: int, size: int) -> float:
    """The mean of -log p over the tokens of stretches of `length` tokens, each read separately.

    Arguments:
        store: the store of a run: one stream of tokens, cut into stretches of the training's length. It is cut again.
        size: the maximum number of stretches.

    Raises:
        InputError: for a stream shorter than one stretch, or a model with fewer positions.
    """
    limit = model.model.maximum_length
    if limit is not None and length > limit:
        raise InputError(
            f"stretches of {length} tokens do not fit in {limit} positions; raise {model.model.length_setting}"
        )
    stretches = recut(store, length, size)
    if not stretches:
        raise InputError(f"the validation texts have fewer than {length} tokens; give more, or a smaller length")
    at_once = max(1, TOKENS_AT_ONCE // length)
    total, tokens = 0.0, 0
    with torch.no_grad():
        for start in range(0, len(stretches), at_once):
            batch = model.task.batch(stretches[start : start + at_once]).to(model.device)
            found = model.task.loss(model.model, batch)
            total += float(found.total)
            tokens += found.tokens
    return total / tokens


def recut(store: TokenStore, length: int, size: int) -> list[list[int]]:
    """Up to `size` stretches of `length` tokens to predict, each with one token before them, from a stream cut into others."""
    found: list[list[int]] = []
    stream: list[int] = []
    for row in range(len(store)):
        # Adjacent stretches share a token: the last predicted one is the first input of the next.
        stream += store.sequence(COLUMN, row).tolist()[1 if stream else 0 :]
        while len(stream) > length:
            found.append(stream[: length + 1])
            stream = stream[length:]
            if len(found) == size:
                return found
    return found


CACHE = "measures.json"
FINISHED = "finished.json"
LOG = "log.jsonl"
AGAIN = "remove the folder and run again"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bin:
    """A measure on pairs with some lengths.

    Arguments:
        shortest, longest: the range of the number of words of sources; `longest` is None for no limit.
        count: the number of pairs.
        value: the value; None without pairs.
    """

    shortest: int
    longest: int | None
    count: int
    value: float | None

    @property
    def label(self) -> str:
        """Its name in tables and plots."""
        if self.longest is None:
            return f"{self.shortest}+"
        return f"{self.shortest}-{self.longest}" if self.longest > self.shortest else str(self.shortest)


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """The value of a measure for one run.

    Arguments:
        number: the number; infinity for a threshold that was not reached, None for a metric that cannot be computed here.
        bins: the numbers for ranges of lengths or along an axis; empty for a measure without them.
    """

    number: float | None
    bins: tuple[Bin, ...] = ()


class RunMeasures:
    """The measures of one run.

    Arguments:
        trained: the folder of the trained run.
        cache: the folder of the cache of results; the arm's own, also if it uses another's runs.
        recipe: the recipe of this arm and seed, with its decoding settings.
        device: the device of the computation.
    """

    def __init__(self, trained: Path, cache: Path, recipe: Recipe, device: str = "cpu") -> None:
        self.trained, self.recipe, self.device = trained, recipe, device
        self.finished = read_json_object(trained / FINISHED, AGAIN)
        self.seconds = 0.0
        self._cache = cache / CACHE
        lines = read_text(trained / LOG, AGAIN).split("\n")
        self._log = [parse_json(line, f"{trained / LOG}, line {n}", AGAIN) for n, line in enumerate(lines, 1) if line]
        self._translator: Translator | None = None

    def value(self, measure: Measure) -> Value:
        """The value of a measure for this run; results that need the model are cached.

        Raises:
            InputError: for pairs that cannot be read, or a metric that needs a missing library.
        """
        kind, metric = measure.kind, measure.metric or ""
        if kind in JUDGING:
            return self._judged(measure)
        if kind == "validation":
            return Value(number=self.finished["metrics"].get(metric))
        if kind == "in_context":
            return Value(number=self._entry(measure)["by_shots"][measure.shots])
        if kind == "repeated":
            return Value(number=self._entry(measure)["accuracy"])
        if kind == "at_length":
            return Value(number=self._entry(measure)["loss"])
        if kind == "evaluated":
            return Value(number=self._entry(measure)["metrics"][metric])
        if kind == "steps_to":
            return Value(number=self._steps_to(measure))
        if kind == "training_loss":
            losses = [event["loss"] for event in self._log if event["event"] == "train"][-measure.last :]
            return Value(number=statistics.fmean(losses) if losses else None)
        if kind == "tokens_per_second":
            return Value(number=self._tokens_per_second())
        if kind == "seconds_per_epoch":
            speed = self._tokens_per_second()
            return Value(number=None if speed is None else self._tokens_per_epoch() / speed)
        return Value(number=float(self.finished[kind]))

    def curve(self, metric: str) -> list[tuple[int, float]]:
        """(step, value) of every evaluation during training."""
        return [(e["step"], e[metric]) for e in self._log if e["event"] == "validation" and metric in e]

    def _steps_to(self, measure: Measure) -> float:
        threshold = measure.threshold if measure.threshold is not None else math.nan
        for step, value in self.curve(measure.metric or ""):
            if value <= threshold if measure.metric in FALLING else value >= threshold:
                return float(step)
        return math.inf

    def _tokens_per_second(self) -> float | None:
        """The median over intervals of the log between two training lines, without evaluations."""
        speeds = []
        for before, after in zip(self._log, self._log[1:], strict=False):
            seconds = after["seconds"] - before["seconds"] if before["event"] == after["event"] == "train" else 0
            if seconds > 0:
                speeds.append((after["tokens"] - before["tokens"]) / seconds)
        if not speeds:  # the run is too short: use all of it, including the first evaluation
            last = [event for event in self._log if event["event"] == "train"][-1:]
            speeds = [event["tokens"] / event["seconds"] for event in last if event["seconds"] > 0]
        return statistics.median(speeds) if speeds else None

    def _tokens_per_epoch(self) -> int:
        task = spec_of(self.recipe.task).task.load(self.trained, read_card(self.trained).task)
        return int(task.labels(TokenStore.open(self.trained / "data" / "train")).sum())

    def _judged(self, measure: Measure) -> Value:
        entry = self._entry(measure)
        metric = measure.metric or ""
        if metric not in entry["metrics"]:
            raise InputError(
                f"measure {measure.name!r}: {metric} cannot be computed; {entry['note'] or 'choose another'}"
            )
        bins = tuple(
            Bin(
                shortest=part["shortest"],
                longest=part["longest"],
                count=part["count"],
                value=part["metrics"].get(metric),
            )
            for part in entry["bins"]
        )
        return Value(number=entry["metrics"][metric], bins=bins)

    def _entry(self, measure: Measure) -> dict[str, Any]:
        """The result of running the model for a measure, from the cache if it has one; its seconds count for this run."""
        generation = asdict(self._generation(measure)) if measure.kind == "decoded" else None
        asked = measure.judged | {
            "data": measure.data if measure.data is not None else self.recipe.to_mapping()["data"],
            "seed": self._seed(measure),
            "generation": generation,
            "weights": dict(read_card(self.trained).digests),
        }
        if measure.kind == "at_length":
            asked["length"] = measure.length
        asked = json.loads(json.dumps(asked))  # in the form in which it will be read back
        entries = self._cached()
        found = next((entry for entry in entries if entry["asked"] == asked), None)
        if found is None:
            began = time.monotonic()
            found = self._judge(measure)
            found |= {"asked": asked, "seconds": round(time.monotonic() - began, 3)}
            replace_file(self._cache, json.dumps({"format_version": 1, "entries": [*entries, found]}))
        self.seconds += found["seconds"]
        return found

    def _cached(self) -> list[dict[str, Any]]:
        try:
            values = read_json_object(self._cache, "")
            return list(values["entries"]) if values["format_version"] == 1 else []
        except (ValueError, KeyError, TypeError):  # missing or damaged: it can be computed again
            return []

    def _judge(self, measure: Measure) -> dict[str, Any]:
        if measure.kind == "evaluated":
            return {"metrics": evaluated(measure, self.recipe, load(self.trained, device=self.device))}
        if measure.kind in JUDGING:
            return judged(self._model(), self.pairs(measure), measure, self._generation(measure))
        model = load(self.trained, task="language_modelling", device=self.device)
        if measure.kind == "at_length":
            store = TokenStore.open(self.trained / "data" / "validation")
            return {"loss": loss_at_length(model, store, length=measure.length, size=measure.size)}
        data = self.recipe.data.maps if measure.kind == "in_context" else self.recipe.data.repeats
        texts = data.texts(measure.split, measure.size, self._seed(measure))
        if measure.kind == "in_context":
            return {"by_shots": accuracy_by_shots(model, texts)}
        return {"accuracy": accuracy_of_repeats(changed(model, measure.model), texts)}

    def _seed(self, measure: Measure) -> int:
        """The seed of the builtin data of a measure."""
        return self.recipe.seed if measure.seed is None else measure.seed

    def _generation(self, measure: Measure) -> GenerationSettings:
        values = {**asdict(self.recipe.generation), **measure.generation}
        return from_mapping(GenerationSettings, values, f"measure {measure.name!r}: generation")

    def _model(self) -> Translator:
        if self._translator is None:
            self._translator = load(self.trained, task="translation", device=self.device)
        return self._translator

    def pairs(self, measure: Measure) -> list[tuple[str, str]]:
        """The pairs of a measure.

        Raises:
            InputError: if there are none of its split.
        """
        where = f"measure {measure.name!r}"
        own = measure.data is None
        data = self.recipe.data if own else from_mapping(TranslationData, measure.data or {}, f"{where}: data")
        if own and measure.to is not None and data.targets is not None:
            data = data.targets[measure.to]
        if data.builtin is not None:
            return builtin_pairs(data, measure.split, wanted(measure, data), self._seed(measure))
        if measure.split == "test":
            raise InputError(
                f"{where}: files have no test split; name the test file, such as data: {{validation: test.tsv}}, "
                "and leave split out"
            )
        if data.validation is not None:
            path = data.validation if isinstance(data.validation, str) else list(data.validation)
            found = read_pairs(path, format=data.format, source=data.source, target=data.target)
            return [(pair.source, pair.target) for pair in itertools.islice(found, measure.size)]
        if own:
            store, task = TokenStore.open(self.trained / "data" / "validation"), self._model().task
            rows = task.groups(store)[measure.to] if measure.to is not None else range(len(store))
            return task.texts(store, rows[: measure.size])
        raise InputError(f"{where}: data names no pairs to measure on; give data.validation, or builtin data")
