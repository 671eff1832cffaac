"""How a model is trained, as data: YAML with `key=value` overrides, or the same from Python."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from regard import reading
from regard.checkpoints import located, read_config
from regard.checkpoints.renamed import renamed_recipe
from regard.embeddings.pooling import POOLER
from regard.errors import InputError, nearest
from regard.files import recipe_folder
from regard.models import MODELS, Family, Interface
from regard.models.config import check
from regard.parts import own_hint
from regard.structure import coerced, from_mapping
from regard.tasks.card import SEEN
from regard.tasks.loading import model_folder
from regard.tasks.spec import TaskSpec, spec_of
from regard.text import INPUT_TOKENS
from regard.training.settings import AdapterSettings, TrainingSettings

SECTIONS = ("data", "tokenizer", "generation")
"""The sections whose settings depend on the task, besides model and training."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """A complete run.

    Arguments:
        task: what the model is for: a name in `regard.tasks.TASKS`.
        seed: of everything random: initial weights, dropout, the order of batches, held-out rows, builtin data.
        model: `name` (a family of `regard.models.MODELS`) and the fields of its config, without those that the task fills in,
            such as the sizes of vocabularies. Or `pretrained`, the folder of a model to start from, with the fields to change;
            `pretrained_layers` takes some of its layers.
        data: the training data. The type of this section, and of all others except model and training, depends on the task.
        training: how to train.
        tokenizer: how text becomes tokens.
        generation: how to decode, now and by default later.
        adapters: train low-rank adapters of `model.pretrained`, whose parameters are frozen.

    Raises:
        InputError: for an unknown task, model or key, naming the nearest, or a section that the task does not have.
    """

    model: dict[str, Any]
    data: Any
    training: TrainingSettings
    task: str = "translation"
    seed: int = 0
    tokenizer: Any = None
    generation: Any = None
    adapters: AdapterSettings | None = None

    def __post_init__(self) -> None:
        kind = spec_of(self.task)
        object.__setattr__(self, "model", resolved(self.model, kind.interface))
        for name in SECTIONS:
            object.__setattr__(self, name, _section(kind, self.task, name, getattr(self, name), name))
        start = self.model.get("pretrained")
        if start is not None and self.tokenizer is not None and self.tokenizer.path is None:
            object.__setattr__(self, "tokenizer", dataclasses.replace(self.tokenizer, path=start))
        check_section(self.model, self.task, kind)
        if self.adapters is not None and start is None:
            raise InputError("adapters are given without model.pretrained; name the folder of a model to adapt")
        if self.tokenizer is not None and MODELS[self.model["name"]].input_tokens:
            object.__setattr__(self, "tokenizer", dataclasses.replace(self.tokenizer, input_tokens=True))
        if self.tokenizer is not None and MODELS[self.model["name"]].spelling:
            one = dataclasses.replace(self.tokenizer, kind="spelling", lowercase=False, path=None)
            object.__setattr__(self, "tokenizer", one)
        self._fill_in_reading(MODELS[self.model["name"]])
        self._check_judged(kind)
        check(0 <= self.seed < 2**63, "seed", self.seed, "at least 0 and below 2**63", "choose another")

    def _fill_in_reading(self, family: Family) -> None:
        """Fill in the settings that the model decides: its own pooling, and reading sentence by sentence."""
        if family.interface == "text_vectors" and getattr(self.data, "pooling", POOLER) is None:
            object.__setattr__(self, "data", dataclasses.replace(self.data, pooling=POOLER))
        if family.sentences and self.tokenizer is not None:
            object.__setattr__(self, "tokenizer", dataclasses.replace(self.tokenizer, sentences=True))

    def _check_judged(self, kind: TaskSpec) -> None:
        judged, settings = kind.metric_names, self.training
        metric, _, name = settings.best.partition(".")
        of_one = bool(name) and metric in kind.predictor.metrics_of_each and metric != "examples"
        if settings.best not in ("loss", *judged) and not of_one:
            raise InputError(
                f"training.best is {settings.best!r}, which no model for task {self.task} is judged by; "
                f"{nearest(settings.best, ['loss', *judged])}{own_hint('metric') if kind.predictor.takes_own_metrics else ''}"
            )
        if settings.evaluate_generated and (not judged or kind.predictor.validates_all):
            raise InputError(
                f"training.evaluate_generated is {settings.evaluate_generated}, and nothing is generated for task "
                f"{self.task}; leave it out"
            )
        check(
            settings.best == "loss" or settings.evaluate_generated > 0 or kind.predictor.validates_all,
            "training.best",
            settings.best,
            "'loss' where nothing is decoded",
            "set training.evaluate_generated to a number of examples",
        )
        check(
            settings.best == "loss" or settings.parallel == "ddp",
            "training.best",
            settings.best,
            "'loss' with training.parallel=fsdp",
            "judge sharded runs by loss, and evaluate afterwards with regard evaluate",
        )

    @property
    def sections(self) -> dict[str, Any]:
        """The sections that the task has, by name."""
        return {name: getattr(self, name) for name in spec_of(self.task).sections}

    def to_mapping(self) -> dict[str, Any]:
        """The recipe as plain YAML and JSON values, every default written out."""
        values = _plain(dataclasses.asdict(self))
        own = ("adapters",) if self.adapters is not None else ()
        return {name: values[name] for name in ("task", "seed", "model", *own, *self.sections, "training")}

    def model_config(self, derived_config: Mapping[str, Any], of_some: Mapping[str, Any] | None = None) -> Any:
        """The config of the model, with the fields that the task decides.

        Arguments:
            derived_config: the fields that the task decides for every model.
            of_some: the fields that it decides for models that have them.
        """
        return config_of(self.model, derived_config, of_some)


def read_recipe(recipe: Recipe | Mapping[str, Any] | str | os.PathLike[str], overrides: Sequence[str] = ()) -> Recipe:
    """A recipe from a YAML file, a mapping, or another recipe, with `key=value` overrides on top.

    Arguments:
        recipe: the path of a YAML file, the name of a recipe of the package, such as `dates`, or the values themselves. The
            number of examples, which the recipe in a model's folder has too, is ignored.
        overrides: such as `training.steps=500` or `data.train=[a.en, a.de]`; values are read as YAML.

    Raises:
        InputError: for a file that is missing or not YAML, an override without `=`, an unknown key (naming the nearest), or a
            value of the wrong type.
    """
    where = "recipe"
    if isinstance(recipe, Recipe):
        values: Any = recipe.to_mapping()
    elif isinstance(recipe, Mapping):
        values = {name: value for name, value in recipe.items() if name != SEEN}
    else:
        where = str(recipe)
        values = read_yaml(recipe_file(recipe))
    values = renamed_recipe(_copied(values))
    for override in overrides:
        put(values, *read_override(override))
    task = values.get("task", "translation")
    if isinstance(task, str):
        kind = spec_of(task, f"{where}.task")
        for name in SECTIONS:
            if name in values:
                values[name] = _section(kind, task, name, values[name], f"{where}.{name}")
    return from_mapping(Recipe, values, where)


def _section(kind: TaskSpec, task: str, name: str, value: Any, where: str) -> Any:
    """A section in the task's type for it; None if the task has no such section.

    Raises:
        InputError: for unknown settings, or a section that the task does not have.
    """
    if name in kind.sections:
        return coerced({} if value is None else value, kind.sections[name], where)
    if value is not None:
        raise InputError(f"{where}: task {task} has no such section; leave it out")
    return None


def read_override(override: str) -> tuple[str, Any]:
    """Key and value of a `key=value` override, the value read as YAML.

    Raises:
        InputError: if there is no `=`, or the value is not YAML.

    >>> read_override("data.train=[a.en, a.de]")
    ('data.train', ['a.en', 'a.de'])
    """
    key, separator, text = override.partition("=")
    if not separator or not key:
        raise InputError(f"{override!r} is no override; write key=value, such as training.steps=500")
    return key, reading.parse_yaml(text, f"{override[:200]!r}", "quote it")


def put(values: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key in nested mappings, in place; missing sections are created.

    Raises:
        InputError: if a part of the key is not a section.

    >>> values = {"training": {"steps": 5}}
    >>> put(values, "training.warmup", 2)
    >>> values
    {'training': {'steps': 5, 'warmup': 2}}
    """
    *sections, last = key.split(".")
    for section in sections:
        inner = values.get(section)
        if inner is None:
            inner = values[section] = {}
        if not isinstance(inner, dict):
            raise InputError(f"{key}: {section} holds no settings of its own; leave out what follows it")
        values = inner
    values[last] = value


def write_recipe(recipe: Recipe) -> str:
    """The resolved recipe as YAML."""
    values = recipe.to_mapping()
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    # A few characters, such as U+0085, are written plainly but read as the end of a line.
    return text if reading.yaml_value(text) == values else yaml.safe_dump(values, sort_keys=False)


def packaged_recipe(name: str | os.PathLike[str]) -> Path | None:
    """The file of a recipe of the package: `dates`, `dates.yaml` and `recipes/dates.yaml` are the same; None for other names.

    >>> packaged_recipe("dates").name, packaged_recipe("recipes/dates.yaml").name, packaged_recipe("runs/dates")
    ('dates.yaml', 'dates.yaml', None)
    """
    asked = Path(name)
    if asked.is_absolute() or ".." in asked.parts:
        return None
    parts = asked.parts[1:] if asked.parts[:1] == ("recipes",) else asked.parts
    if not parts:
        return None
    found = recipe_folder().joinpath(*parts)
    found = found if found.suffix == ".yaml" else found.with_name(found.name + ".yaml")
    return found if found.is_file() else None


def packaged_recipes() -> list[str]:
    """The names of the recipes that come with the package."""
    return sorted(path.stem for path in recipe_folder().glob("*.yaml"))


def recipe_file(recipe: str | os.PathLike[str]) -> Path:
    """A recipe's file: the one at the path, or else the packaged one of that name.

    Raises:
        InputError: if there is neither; the message has the nearest name.
    """
    path = Path(recipe)
    found = path if path.exists() else packaged_recipe(recipe)
    if found is None:
        hint = nearest(path.stem, packaged_recipes())
        raise InputError(f"{recipe}: no such recipe; give the path of a YAML file, or a recipe of the package: {hint}")
    return found


def differences(one: Recipe, other: Recipe) -> list[str]:
    """The dotted keys in which two recipes differ."""
    return _differing(one.to_mapping(), other.to_mapping(), "")


def _differing(one: Any, other: Any, path: str) -> list[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted(one.keys() | other.keys())
        return [
            found for key in keys for found in _differing(one.get(key), other.get(key), f"{path}.{key}".lstrip("."))
        ]
    return [] if one == other else [path]


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        InputError: for a file that is missing, or does not hold a mapping.
    """
    values = reading.read_yaml(path, "give a YAML file")
    if not isinstance(values, dict):
        raise InputError(f"{path}: holds no mapping of settings; the recipes that come with the package are examples")
    return values


def _plain(value: Any) -> Any:
    """Plain YAML and JSON values. `validation_share` and `validation_size` are left out if they are not set."""
    if isinstance(value, dict):
        unset = [name for name in ("validation_share", "validation_size") if value.get(name, 0) is None]
        return {key: _plain(part) for key, part in value.items() if key not in unset}
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value


def _copied(values: Any) -> dict[str, Any]:
    return coerced(_plain(values), dict[str, Any], "recipe")


# The `model` section: a family and its sizes, or a trained model to start from.


OWN = ("name", "pretrained", "pretrained_layers")
"""The keys of this section that are not fields of a config."""


def resolved(model: Mapping[str, Any], interface: Interface) -> dict[str, Any]:
    """The section with the name of a family; with `pretrained` the default is that of the trained model.

    If the task needs a head, the family of a language model is replaced by that of the same model with a head.

    Arguments:
        interface: the interface that the task needs.

    Raises:
        InputError: for a folder without a model, or `pretrained_layers` without a folder.
    """
    values = dict(model)
    start = values.get("pretrained")
    if start is None:
        if values.get("pretrained_layers") is not None:
            raise InputError("model.pretrained_layers is given without model.pretrained; name the folder of a model")
        return _with_head(values, interface)
    if not isinstance(start, str):
        raise InputError(f"model.pretrained is {start!r}; give the folder of a model")
    if values.get("name") is None:
        values = {**values, "name": read_config(folder_of(start)).model_type}
    return _with_head(values, interface)


def _with_head(values: dict[str, Any], interface: Interface) -> dict[str, Any]:
    family = MODELS.get(str(values.get("name")))
    if family is None or family.serves(interface) or not family.with_head:
        return values
    return {**values, "name": family.with_head} if MODELS[family.with_head].serves(interface) else values


def folder_of(start: str) -> Path:
    """The folder of the model to start from; for a run, that of its best checkpoint."""
    return model_folder(located(start))


def check_section(model: Mapping[str, Any], task: str, kind: TaskSpec) -> None:
    """Refuse an unknown family, one that does not fit the task, and unknown settings.

    Raises:
        InputError: naming the nearest.
    """
    if model.get("name") is None:
        names = ", ".join(each for each, family in MODELS.items() if family.serves(kind.interface))
        raise InputError(
            "model says neither name nor pretrained; give the folder of a model to start from (model.pretrained=FOLDER), or a "
            f"family to train from nothing, with its sizes (model.name=..., one of {names})"
        )
    name = str(model["name"])
    if name not in MODELS:
        raise InputError(f"model.name is {name!r}; {nearest(name, list(MODELS))}{own_hint('model')}")
    fitting = [each for each, family in MODELS.items() if family.serves(kind.interface)]
    if name not in fitting:
        raise InputError(f"model.name is {name!r}, which is no model for task {task}; {nearest(name, fitting)}")
    known = {part.name for part in dataclasses.fields(MODELS[name].config)}
    choices = sorted(known - set(kind.derived_config) - set(kind.derived_if_present))
    for key in model:
        if key not in OWN and key not in choices:
            raise InputError(f"model: unknown key {key!r}; {nearest(key, [*choices, *OWN])}")
    config_of(model, kind.derived_config)  # a wrong size is to be refused before the data is read, not after


def config_of(
    model: Mapping[str, Any], derived_config: Mapping[str, Any], of_some: Mapping[str, Any] | None = None
) -> Any:
    """The config of the model: the settings of the section, and the rest from the trained model, if it starts from one.

    Arguments:
        derived_config: the fields that the task decides. A table of the trained model with more rows than the vocabulary is kept;
            rows for the special input tokens of a decoder are added.
        of_some: the fields that the task decides for models that have them.

    Raises:
        InputError: for a value that is not allowed, or a vocabulary that is not that of the trained model.
    """
    family = MODELS[model["name"]].config
    values = {key: value for key, value in model.items() if key not in OWN}
    had = {part.name for part in dataclasses.fields(family)}
    derived_config = {**derived_config, **{key: value for key, value in (of_some or {}).items() if key in had}}
    if model.get("pretrained") is None:
        return from_mapping(family, {**values, **derived_config}, "model")
    start = read_config(folder_of(model["pretrained"]))
    fields = {part.name for part in dataclasses.fields(family)}
    base = {
        part.name: getattr(start, part.name)
        for part in dataclasses.fields(start)
        if part.name in fields and part.name not in ("head", "outputs", "head_dropout", "pooler", "words")
    }
    layers = model.get("pretrained_layers")
    if layers is not None:
        base["layers"] = len(layers)
        if base.get("pruned_heads"):
            base["pruned_heads"] = [
                (index, head)
                for index, layer in enumerate(layers)
                for old, head in base["pruned_heads"]
                if old == layer
            ]
    derived = dict(derived_config)
    new = len(INPUT_TOKENS) if MODELS[model["name"]].input_tokens else 0
    for table in ("vocabulary", "source_vocabulary", "target_vocabulary"):
        size = derived.get(table)
        if size is not None and table in base:
            if size > base[table] + new:
                raise InputError(
                    f"model.pretrained: {model['pretrained']} has {base[table]:,} tokens and the tokenizer {size:,}; take "
                    "the folder's own, by leaving tokenizer.path out"
                )
            derived[table] = max(size, base[table])
    return from_mapping(family, {**base, **values, **derived}, "model")
