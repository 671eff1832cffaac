"""The measures of a run, as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from regard.errors import InputError, nearest
from regard.parts import own_names
from regard.reading import parse_yaml
from regard.structure import from_mapping
from regard.tasks.spec import TASKS
from regard.tasks.translation_data import TranslationData

Kind = Literal[
    "validation",
    "teacher_forced",
    "decoded",
    "steps_to",
    "training_loss",
    "steps",
    "seconds",
    "parameters",
    "seconds_per_epoch",
    "tokens_per_second",
    "in_context",
    "repeated",
    "at_length",
    "evaluated",
    "computed",
]

MASKED = ("masked_loss", "masked_accuracy", "next_sentence_loss", "next_sentence_accuracy")
"""The validation metrics of pre-training besides loss and perplexity."""

_LOGGED = ("loss", "perplexity", "token_accuracy", "exact_match", "bleu", *MASKED)
_METRICS: Mapping[str, tuple[str, ...]] = {
    "validation": _LOGGED,
    "teacher_forced": ("loss", "perplexity", "token_accuracy"),
    "decoded": ("exact_match", "position_accuracy", "bleu", "chrf", "length_ratio"),
    "steps_to": _LOGGED,
    "evaluated": (),
}
"""The metrics that a measure of each kind can have, without those of tasks; the other kinds have no metric."""

FALLING = ("loss", "perplexity", "masked_loss", "next_sentence_loss", "bit_error")
"""Metrics for which lower is better."""

JUDGING = ("teacher_forced", "decoded")
"""The kinds that run the trained model on pairs."""

_PLAIN = tuple(kind for kind in Kind.__args__ if kind not in (*_METRICS, "computed"))  # type: ignore[attr-defined]


def metrics_of(kind: str) -> tuple[str, ...]:
    """The metrics that a measure of a kind can have; empty for a kind without metric."""
    judged = ()
    if kind in ("validation", "evaluated"):
        judged = (name for task in TASKS.packaged.values() for name in task.predictor.metric_names)
    return tuple(dict.fromkeys((*_METRICS.get(kind, ()), *judged)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """One number of each run, or one for each range of lengths, or for each layer.

    | kind | the number |
    |---|---|
    | `validation` | `metric` on the run's own validation pairs, for the selected checkpoint |
    | `teacher_forced` | `metric` on `size` pairs of `split`, with teacher forcing |
    | `decoded` | `metric` of the texts that the model generates for `size` pairs of `split` |
    | `steps_to` | the updates until the first evaluation during training at which `metric` had reached `threshold` |
    | `training_loss` | the mean of the last `last` losses in the training log |
    | `steps`, `seconds` | the number of updates, and the seconds of training |
    | `parameters` | the number of the model's parameters |
    | `seconds_per_epoch`, `tokens_per_second` | the speed of training in target tokens, without evaluations |
    | `in_context` | for `data.maps`: the share of correct f(x) on `size` texts of `split`, each after `shots` pairs |
    | `repeated` | for `data.repeats`: the share of correct tokens in the second w, on `size` texts of `split`, with `model` |
    | `at_length` | for a language model: the loss on `size` stretches of `length` tokens of its validation data |
    | `evaluated` | `metric` of `regard evaluate` on `size` examples of the run's data, changed by `data` |
    | `computed` | the number that an experiment without training returns under this name; not for recipes |

    Arguments:
        name: its name in the table and in judging expressions.
        kind: see the table.
        metric: the metric of the first four kinds, and of `evaluated`.
        threshold: the threshold of `steps_to`.
        last: for `training_loss`, the number of lines of the log.
        data: the `data` section of a recipe with the pairs; null for the run's own. For `evaluated` changes of the run's own.
        split: the part of that data.
        size: the maximum number of pairs or texts.
        seed: the seed of builtin data; null for the run's own.
        generation: decoding settings that replace the run's own.
        to: the target language, for a model with several.
        bins: lengths of the source in words at which ranges end: [10, 20] makes 1 to 10, 11 to 20, and from 21.
        shots: for `in_context`, the number of pairs before.
        length: for `at_length`, the number of tokens of a stretch.
        model: for `repeated`, changes of the model's config, such as `{rounds: 8}`, which must not change its weights.
        along: for `computed`, the axis along which an experiment returns numbers, such as `layer`; the measure's own number is
            the last one that is not NaN.

    Raises:
        InputError: for settings that contradict each other.
    """

    name: str
    kind: Kind
    metric: str | None = None
    threshold: float | None = None
    last: int = 10
    data: dict[str, Any] | None = None
    split: Literal["validation", "test"] = "validation"
    size: int = 500
    seed: int | None = None
    generation: dict[str, Any] = field(default_factory=dict)
    to: str | None = None
    bins: tuple[int, ...] = ()
    shots: int = 0
    length: int = 0
    model: dict[str, Any] = field(default_factory=dict)
    along: str = ""

    def __post_init__(self) -> None:
        where = f"measure {self.name!r}"
        if not self.name.strip():
            raise InputError("a measure has an empty name; give it one")
        metrics = metrics_of(self.kind)
        metrics = (*metrics, *own_names("metric")) if self.kind in ("validation", "evaluated", "decoded") else metrics
        if metrics and self.metric not in metrics:
            raise InputError(f"{where}: metric is {self.metric!r}; {nearest(str(self.metric), metrics)}")
        if not metrics and self.metric is not None:
            raise InputError(f"{where}: {self.kind} has no metric; leave metric out")
        if (self.threshold is None) == (self.kind == "steps_to"):
            raise InputError(f"{where}: kind steps_to needs a threshold, and no other kind has one")
        if self.kind not in (*JUDGING, "evaluated") and self.data is not None:
            raise InputError(f"{where}: {self.kind} has no data setting; leave data out")
        if self.kind not in JUDGING and (self.generation or self.to or self.bins):
            raise InputError(f"{where}: {self.kind} does not read pairs; leave generation, to and bins out")
        if self.shots < 0 or (self.shots and self.kind != "in_context"):
            raise InputError(f"{where}: shots is {self.shots}; give 0 or more, only for kind in_context")
        if self.model and self.kind != "repeated":
            raise InputError(f"{where}: {self.kind} cannot change the model; leave model out")
        if self.along and self.kind != "computed":
            raise InputError(f"{where}: {self.kind} is one number; leave along out")
        if (self.length > 0) != (self.kind == "at_length"):
            raise InputError(f"{where}: length is {self.length}; give 1 or more, only for kind at_length")
        if self.kind == "teacher_forced" and self.generation:
            raise InputError(f"{where}: teacher_forced does not decode; leave generation out")
        if self.size < 1 or self.last < 1:
            raise InputError(f"{where}: size and last must be at least 1; raise them")
        if list(self.bins) != sorted(set(self.bins)) or (self.bins and self.bins[0] < 1):
            raise InputError(f"{where}: bins are {list(self.bins)}; give rising lengths from 1 on")

    @property
    def falls(self) -> bool:
        """Whether lower is better."""
        return self.metric in FALLING or self.kind in (
            "steps_to",
            "training_loss",
            "seconds",
            "seconds_per_epoch",
            "at_length",
        )

    @property
    def parted(self) -> bool:
        """Whether there are several numbers for a run, by length or along an axis."""
        return bool(self.bins or self.along)

    @property
    def judged(self) -> dict[str, Any]:
        """The settings that determine how a model is run on pairs; measures with equal settings share the result."""
        return {
            key: getattr(self, key)
            for key in ("kind", "data", "split", "size", "seed", "generation", "to", "bins", "model")
        }

    def to_mapping(self) -> dict[str, Any]:
        """The measure as YAML values, without settings at their defaults."""
        plain = {part.name: getattr(self, part.name) for part in dataclasses.fields(self)}
        kept = {name: value for name, value in plain.items() if name in ("name", "kind") or value != _default(name)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}


def _default(name: str) -> Any:
    part = next(each for each in dataclasses.fields(Measure) if each.name == name)
    return part.default_factory() if part.default_factory is not dataclasses.MISSING else part.default


def read_measures(values: Sequence[Any], where: str = "measures") -> tuple[Measure, ...]:
    """Measures from recipes and command lines: mappings, their YAML, or short names.

    | short name | measure |
    |---|---|
    | `loss`, `perplexity`, `token_accuracy`; `masked_loss`, `accuracy`, ... | the metric on the run's validation data |
    | `exact_match`, `bleu`, `chrf`, ... | the metric of generated texts for 500 of the run's validation pairs |
    | `steps_to:token_accuracy=0.9` | the updates until a validation metric reached a threshold |
    | `parameters`, `steps`, `seconds`, `training_loss`, ... | the kind of that name |

    Raises:
        InputError: naming the place; for two measures with one name.

    >>> [measure.kind for measure in read_measures(["loss", "bleu", "steps_to:loss=0.5", "parameters"])]
    ['validation', 'decoded', 'steps_to', 'parameters']
    """
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InputError(f"{where}: must be a list of measures, such as [loss, bleu]")
    found: list[Measure] = []
    for number, value in enumerate(values, start=1):
        place = f"{where}[{number}]"
        if isinstance(value, str) and value.lstrip().startswith("{"):
            value = parse_yaml(value, f"{value[:200]!r}", "quote it")
        if isinstance(value, Measure):
            found.append(value)
        elif isinstance(value, str):
            found.append(_short(value))
        elif isinstance(value, Mapping):
            found.append(from_mapping(Measure, _named(value), place))
        else:
            raise InputError(f"{place} is {value!r}; give a name such as bleu, or a mapping with name, kind and metric")
    names = [measure.name for measure in found]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{where}: two measures have the name {name!r}; give each its own name")
    return tuple(found)


def wanted(measure: Measure, data: TranslationData) -> int:
    """The number of builtin pairs to measure on; of a run's own validation data at most those used in training."""
    if data.builtin is None or measure.split != "validation":
        return measure.size
    return min(measure.size, data.builtin.validation_size)


def _named(value: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping of a measure with a name, which is by default its metric or its kind."""
    name = value.get("name", value.get("metric", value.get("kind")))
    return dict(value) | ({} if name is None else {"name": name})


def _short(text: str) -> Measure:
    if text.startswith("steps_to:"):
        metric, _, threshold = text.removeprefix("steps_to:").partition("=")
        try:
            return Measure(
                name=f"steps to {metric} {threshold}", kind="steps_to", metric=metric, threshold=float(threshold)
            )
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{text!r}: write steps_to:METRIC=NUMBER, such as steps_to:token_accuracy=0.9") from error
    if text in metrics_of("teacher_forced"):
        return Measure(name=text, kind="validation", metric=text)
    if text in metrics_of("decoded"):
        return Measure(name=text, kind="decoded", metric=text)
    if text in (*metrics_of("validation"), *own_names("metric")):
        return Measure(name=text, kind="validation", metric=text)
    if text in _PLAIN:
        return from_mapping(Measure, {"name": text, "kind": text}, "measure")
    known = [
        *metrics_of("teacher_forced"),
        *metrics_of("decoded"),
        *metrics_of("validation"),
        *_PLAIN,
        "steps_to:METRIC=NUMBER",
    ]
    raise InputError(f"there is no measure {text!r}; {nearest(text, list(dict.fromkeys(known)))}")
