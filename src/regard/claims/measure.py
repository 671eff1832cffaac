"""What is measured of a run, as data."""

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
"""What pre-training finds on its validation data besides loss and perplexity."""

_LOGGED = ("loss", "perplexity", "token_accuracy", "exact_match", "bleu", *MASKED)
_METRICS: Mapping[str, tuple[str, ...]] = {
    "validation": _LOGGED,
    "teacher_forced": ("loss", "perplexity", "token_accuracy"),
    "decoded": ("exact_match", "position_accuracy", "bleu", "chrf", "length_ratio"),
    "steps_to": _LOGGED,
    "evaluated": (),
}
"""The metrics that a measure of each kind may ask for, without those of tasks; the other kinds are numbers in themselves."""

FALLING = ("loss", "perplexity", "masked_loss", "next_sentence_loss", "bit_error")
"""Metrics that are better the lower they are."""

JUDGING = ("teacher_forced", "decoded")
"""Kinds that run the trained model on pairs."""

_PLAIN = tuple(kind for kind in Kind.__args__ if kind not in (*_METRICS, "computed"))  # type: ignore[attr-defined]


def metrics_of(kind: str) -> tuple[str, ...]:
    """The metrics that a measure of a kind may ask for; none for a kind that is a number in itself."""
    judged = ()
    if kind in ("validation", "evaluated"):
        judged = (name for task in TASKS.packaged.values() for name in task.predictor.metric_names)
    return tuple(dict.fromkeys((*_METRICS.get(kind, ()), *judged)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """One number of each run, or one for each range of lengths, or for each layer.

    | kind | the number |
    |---|---|
    | `validation` | `metric` on the run's own validation pairs, of the checkpoint that was kept |
    | `teacher_forced` | `metric` on `size` pairs of `split`, the right prefix given at each token |
    | `decoded` | `metric` of the model's own answers to `size` pairs of `split` |
    | `steps_to` | the first evaluation during training, in updates, at which `metric` had reached `threshold` |
    | `training_loss` | the mean of the last `last` losses that were logged in training |
    | `steps`, `seconds` | updates made and seconds of training |
    | `parameters` | how many the model has |
    | `seconds_per_epoch`, `tokens_per_second` | of training, evaluations left out; target tokens |
    | `in_context` | for `data.maps`: the share of right images on `size` texts of `split`, each after `shots` pairs |
    | `repeated` | for `data.repeats`: the share of right tokens where w comes again, on `size` texts of `split`, by `model` |
    | `at_length` | of a language model: the loss on `size` stretches of `length` tokens of its validation data |
    | `evaluated` | `metric` on `size` examples, as `regard evaluate` finds it, of the run's data changed as `data` says |
    | `computed` | what an experiment without training gives under this name; not for recipes |

    Arguments:
        name: of the table's column, and in judging expressions.
        kind: see the table.
        metric: of the first four kinds, and of `evaluated`.
        threshold: of `steps_to`.
        last: of `training_loss`: how many lines of the log.
        data: the `data` section of a recipe to draw the pairs from; the run's own where null. Of `evaluated` what differs in it.
        split: which part of that data.
        size: the most pairs, or texts.
        seed: of builtin data; the run's own where null.
        generation: settings for decoding on top of the run's own.
        to: the language, of a model that translates into several.
        bins: lengths of the source in words at which one range ends and the next begins: [10, 20] makes 1 to 10, 11 to 20, and
            from 21.
        shots: of `in_context`: how many pairs are before.
        length: of `at_length`: tokens of a stretch.
        model: of `repeated`: what differs in the model's config, such as `{rounds: 8}`; nothing that changes its weights.
        along: of `computed`: what an experiment gives a number for each of, such as `layer`; the measure's own is the last that
            there is.

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
            raise InputError(f"{where}: {self.kind} is a number in itself; leave metric out")
        if (self.threshold is None) == (self.kind == "steps_to"):
            raise InputError(f"{where}: a threshold belongs to kind steps_to, and to that alone")
        if self.kind not in (*JUDGING, "evaluated") and self.data is not None:
            raise InputError(f"{where}: {self.kind} reads no data of its own; leave data out")
        if self.kind not in JUDGING and (self.generation or self.to or self.bins):
            raise InputError(f"{where}: {self.kind} reads no pairs; leave generation, to and bins out")
        if self.shots < 0 or (self.shots and self.kind != "in_context"):
            raise InputError(f"{where}: shots is {self.shots}; give 0 or more, to kind in_context alone")
        if self.model and self.kind != "repeated":
            raise InputError(f"{where}: {self.kind} takes the model as it is; leave model out")
        if self.along and self.kind != "computed":
            raise InputError(f"{where}: {self.kind} is one number; leave along out")
        if (self.length > 0) != (self.kind == "at_length"):
            raise InputError(f"{where}: length is {self.length}; give 1 or more, to kind at_length alone")
        if self.kind == "teacher_forced" and self.generation:
            raise InputError(f"{where}: teacher_forced decodes nothing; leave generation out")
        if self.size < 1 or self.last < 1:
            raise InputError(f"{where}: size and last must be at least 1; raise them")
        if list(self.bins) != sorted(set(self.bins)) or (self.bins and self.bins[0] < 1):
            raise InputError(f"{where}: bins are {list(self.bins)}; give rising lengths from 1 on")

    @property
    def falls(self) -> bool:
        """Whether lower is better of what is measured."""
        return self.metric in FALLING or self.kind in (
            "steps_to",
            "training_loss",
            "seconds",
            "seconds_per_epoch",
            "at_length",
        )

    @property
    def parted(self) -> bool:
        """Whether there are several numbers of a run, distinguished by a length or whatever it is measured along."""
        return bool(self.bins or self.along)

    @property
    def judged(self) -> dict[str, Any]:
        """What decides the judging of a model on pairs; measures that agree in it share one."""
        return {
            key: getattr(self, key)
            for key in ("kind", "data", "split", "size", "seed", "generation", "to", "bins", "model")
        }

    def to_mapping(self) -> dict[str, Any]:
        """As YAML values, what is at its default left out."""
        plain = {part.name: getattr(self, part.name) for part in dataclasses.fields(self)}
        kept = {name: value for name, value in plain.items() if name in ("name", "kind") or value != _default(name)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}


def _default(name: str) -> Any:
    part = next(each for each in dataclasses.fields(Measure) if each.name == name)
    return part.default_factory() if part.default_factory is not dataclasses.MISSING else part.default


def read_measures(values: Sequence[Any], where: str = "measures") -> tuple[Measure, ...]:
    """Measures as recipes and command lines have them: mappings, their YAML, or short names.

    | short | stands for |
    |---|---|
    | `loss`, `perplexity`, `token_accuracy`; `masked_loss`, `accuracy`, ... | the metric on the run's validation data |
    | `exact_match`, `bleu`, `chrf`, ... | the metric of the answers to 500 of the run's validation pairs |
    | `steps_to:token_accuracy=0.9` | updates until a validation metric reached a threshold |
    | `parameters`, `steps`, `seconds`, `training_loss`, ... | the kind of that name |

    Raises:
        InputError: naming the place; for two measures of one name.

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
            raise InputError(f"{where}: two measures are called {name!r}; give each its own name")
    return tuple(found)


def wanted(measure: Measure, data: TranslationData) -> int:
    """How many pairs of builtin data to judge on: of a run's own validation no more than training validates on."""
    if data.builtin is None or measure.split != "validation":
        return measure.size
    return min(measure.size, data.builtin.validation_size)


def _named(value: Mapping[str, Any]) -> dict[str, Any]:
    """A measure without a name is called by its metric, or its kind."""
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
