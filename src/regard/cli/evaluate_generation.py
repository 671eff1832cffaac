"""Requests and reports of `regard evaluate`, and the evaluation of translators, text-to-text models and captioners."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from regard.cli.console import NewFile, say, say_malformed, text_bar
from regard.cli.inputs import Text, opened, refuse_too_long, scenes_to_test
from regard.cli.settings import check_known, with_options
from regard.cli.text_to_text import translation_line
from regard.errors import InputError, nearest
from regard.rendering import metric_text

if TYPE_CHECKING:
    from regard.data.malformed import MalformedRows
    from regard.data.pairs import Pair
    from regard.tasks.caption_data import CaptionExample
    from regard.tasks.text_to_text import TextToTextData
    from regard.tasks.translation_evaluation import LengthBin


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A model, data to evaluate it on, and settings.

    Arguments:
        model: its folder.
        places: files, or names of builtin data.
        settings: the `key=value` arguments.
        options: options that only some kinds of models have, by name; None where not given.
        limit: the most examples; None for all.
        batch_size: texts decoded together.
        device: such as `auto`.
    """

    model: Path
    places: Sequence[str]
    settings: Mapping[str, Any]
    options: Mapping[str, Any]
    limit: int | None
    batch_size: int
    device: str

    def refuse_options(self, task: str, *, but: Sequence[str] = ()) -> None:
        """Refuse given options that do not apply to models for a task.

        Raises:
            InputError: with the name of the first.
        """
        for name, value in self.options.items():
            if value is not None and name not in but:
                raise InputError(f"--{name.replace('_', '-')} is no option for task {task}; leave it out")

    def settings_and(self, *options: str) -> dict[str, Any]:
        """The settings, together with options that set the same values.

        Raises:
            InputError: for one that is given in both ways, with two values.
        """
        found = dict(self.settings)
        for name in options:
            value = self.options[name]
            if value is not None and found.setdefault(name, value) != value:
                raise InputError(f"{name} is both {value} and {found[name]}; give it once")
        return found


# Reports: values for programs, a table for people.


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Report:
    """The result of an evaluation.

    Arguments:
        values: of the JSON object, after the model and the data.
        rows: of the table.
        below: lines after the table.
    """

    values: Mapping[str, Any]
    rows: Sequence[tuple[str, str]]
    below: Sequence[str] = ()


def timed(measure: Callable[[], T]) -> tuple[T, float]:
    """The result of a function, and the seconds it took."""
    started = time.monotonic()
    found = measure()
    return found, round(time.monotonic() - started, 3)


def counted(name: str, count: int, seconds: float) -> tuple[str, str]:
    """The first row of a table.

    >>> counted("pairs", 2000, 1.25)
    ('pairs', '2,000 in 1.2 seconds')
    """
    return name, f"{count:,} in {seconds:.1f} seconds"


def metric_rows(metrics: Mapping[str, float], signatures: Mapping[str, str]) -> list[tuple[str, str]]:
    """A row for each metric, with the signature of the tool that computed it, where there is one."""
    rows = []
    for name, value in metrics.items():
        words, number = metric_text(name, value)
        rows.append((words, f"{number}  {signatures.get(name, '')}".rstrip()))
    return rows


# Translators.


USUAL_PAIRS = 2_000


def evaluate_pairs(request: Request, file: NewFile | None) -> Report:
    """Evaluate a translator on pairs: a file of them, two parallel files, or builtin ones.

    Arguments:
        request: its settings are for decoding, and `dtype`.
        file: for the translations, one per line; None for no file.

    Raises:
        InputError: for settings that are unknown or contradict each other, pairs that cannot be read, and a source that is too
            long for the model.
    """
    from regard.data.malformed import MalformedRows
    from regard.tasks.evaluation import evaluate

    settings = request.settings_and("beam", "length_penalty")
    dtype = str(settings.pop("dtype", "float32"))
    check_known(settings)
    source, target, to = (request.options[name] for name in ("source", "target", "to"))
    bins = _numbers(request.options["bins"])
    malformed = MalformedRows()
    builtin = is_builtin(request.places, source, target)
    found = None if builtin else read_files(request.places, source, target, malformed)
    translator = opened(request.model, request.device, "translation", dtype=dtype)
    translator.task.check_language(to)
    generation = with_options(translator.task.generation, settings)
    if found is None:
        found = builtin_test(request.places[0], translator.recipe, to, request.limit or USUAL_PAIRS)
    pairs = list(itertools.islice(found, request.limit))
    say_malformed(malformed)
    refuse_too_long(translator, [Text(pair.source, f"{pair.file}, line {pair.line}") for pair in pairs], to)
    texts = [(pair.source, pair.target) for pair in pairs]
    with text_bar(translator, len(pairs)):
        result, seconds = timed(
            lambda: evaluate(translator, texts, generation, to=to, bins=bins, batch_size=request.batch_size)
        )
    if file is not None:
        for translation in result.predictions:
            file.write(translation_line(translation))
    if result.note:
        say(result.note)
    return Report(
        {
            "to": to,
            "dtype": dtype,
            "count": result.count,
            "malformed": malformed.total,
            "metrics": result.metrics,
            "bins": [dataclasses.asdict(found) for found in result.bins],
            "signatures": result.signatures,
            "generation": dataclasses.asdict(generation),
            "seconds": seconds,
        },
        [counted("pairs", result.count, seconds), *metric_rows(result.metrics, result.signatures)],
        _bin_lines(result.bins),
    )


def _numbers(bins: str | None) -> list[int] | None:
    """The upper limits of bins of lengths.

    Raises:
        InputError: where they are no integers.
    """
    if bins is None:
        return None
    try:
        return [int(end) for end in bins.split(",")]
    except ValueError:
        raise InputError(f"--bins is {bins!r}; give ascending numbers of words, such as 10,15,20") from None


def _bin_lines(bins: Sequence[LengthBin]) -> list[str]:
    """A header line and one line per bin; a bin without pairs has no numbers."""
    if not bins:
        return []
    names = list(dict.fromkeys(name for found in bins for name in found.metrics))
    lines = [["source words", "pairs", *(metric_text(name, 0)[0] for name in names)]]
    for found in bins:
        numbers = [metric_text(name, found.metrics[name])[1] if found.metrics else "-" for name in names]
        lines.append([found.name, f"{found.count:,}", *numbers])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "",
        *("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines),
    ]


# The pairs that a translator is evaluated on: files, or builtin data by name.


DATES, TYPOS, SEQUENCES = "dates", "dates:typos", "sequences"


def is_builtin(places: Sequence[str], source: str | None, target: str | None) -> bool:
    """Whether the places name builtin data.

    Raises:
        InputError: for a wrong number of places, and for unknown builtin data.
    """
    if not 1 <= len(places) <= 2:
        raise InputError(
            f"{len(places)} files of data given; give one file of pairs, two parallel files, or {DATES} or {SEQUENCES}"
        )
    name = places[0].partition(":")[0]
    if len(places) == 2 or name not in (DATES, SEQUENCES):
        return False
    if name == DATES and places[0] not in (DATES, TYPOS):
        raise InputError(f"there is no builtin data {places[0]!r}; {nearest(places[0], [DATES, TYPOS])}")
    if source is not None or target is not None:
        raise InputError(f"builtin {places[0]} have no columns; leave out --source and --target")
    return True


def read_files(
    places: Sequence[str], source: str | None, target: str | None, malformed: MalformedRows
) -> Iterator[Pair]:
    """The pairs of one file, or of two parallel ones.

    Raises:
        InputError: for files that cannot be used.
    """
    from regard.data.pairs import read_pairs

    def column(name: str | None) -> int | str | None:
        return int(name) if name is not None and name.isascii() and name.isdigit() else name

    path = places[0] if len(places) == 1 else places
    return read_pairs(path, source=column(source), target=column(target), malformed=malformed)


def builtin_test(place: str, recipe: Mapping[str, Any], to: str | None, size: int) -> Iterator[Pair]:
    """Pairs of the test split, which are never used in training.

    Arguments:
        place: `dates`, in the languages that the model was trained on; `dates:typos`, the same with one typo in each;
            `sequences`, the problem that the model was trained on; `sequences:longest=40,shortest=40`, with changes to it.
        recipe: of the model.
        to: the target language, whose section of the recipe is used.
        size: number of pairs.

    Raises:
        InputError: for settings that are unknown or out of range, and where there are fewer different sources than `size`.
    """
    from regard.data.pairs import Pair
    from regard.tasks.translation_data import builtin_pairs

    data = recipe.get("data") or {}
    data = (data.get("targets") or {}).get(to) or data
    name, _, text = place.partition(":")
    if name == DATES:
        languages = (data.get(DATES) or {}).get("languages")
        settings = {"languages": languages, "typo_rate": 1.0 if place == TYPOS else 0.0}
    else:
        settings = (data.get(SEQUENCES) or {}) | _settings(text)
    pairs = builtin_pairs({name: settings}, "test", size)
    return (
        Pair(source=source, target=target, file=place, line=number)
        for number, (source, target) in enumerate(pairs, start=1)
    )


def _settings(text: str) -> dict[str, Any]:
    """The settings after `sequences:`, with values parsed as YAML."""
    from regard.reading import parse_yaml

    settings: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, separator, value = part.partition("=")
        if not separator or not key:
            raise InputError(f"{SEQUENCES}:{text}: {part!r} is no setting; write {SEQUENCES}:kind=reversal,longest=40")
        if key.endswith("size"):
            raise InputError(f"{SEQUENCES}:{text}: the number of pairs is set with --limit; leave {key} out")
        settings[key] = parse_yaml(value, f"{SEQUENCES}:{text[:200]}: {key}", "correct its value")
    return settings


# Text-to-text models.


OF_READING = ("source", "target", "format", "on_error")
"""Fields that describe how a part's files are read."""


def evaluate_text_to_text(request: Request, file: NewFile | None) -> Report:
    """Evaluate a text-to-text model on held-out pairs.

    Arguments:
        request: its places are a file of pairs or of questions, or two parallel files. Its settings are `part`, the part of a
            mixture that the pairs belong to; fields that describe how the files are read, such as `format`, which replace those
            of training; and settings for decoding.
        file: for the generated texts, one per line; None for no file.

    Raises:
        InputError: for an option that does not apply, an unknown part, and pairs that cannot be read.
    """
    from regard.data.malformed import MalformedRows
    from regard.tasks.evaluation import evaluate
    from regard.tasks.text_to_text import EXAMPLES

    known = ("beam", "length_penalty", "source", "target")
    request.refuse_options("text_to_text", but=known)
    settings = request.settings_and(*known)
    part = settings.pop("part", None)
    reading = {name: settings.pop(name) for name in OF_READING if name in settings}
    writer = opened(request.model, request.device, "text_to_text")
    writer.task.prefix_of(part)
    generation = with_options(writer.task.generation, settings)
    places = request.places[0] if len(request.places) == 1 else tuple(request.places)
    malformed = MalformedRows()
    read = EXAMPLES.reader(_reading(writer.recipe.get("data") or {}, part, reading), places)
    if read is None or not places:
        raise InputError("no file of pairs is given; name one")
    examples = list(itertools.islice(read(malformed), request.limit))
    say_malformed(malformed)
    with text_bar(writer, len(examples)):
        found, seconds = timed(lambda: evaluate(writer, examples, generation, part=part, batch_size=request.batch_size))
    if file is not None:
        for written in found.predictions:
            file.write(" ".join(written.text.split()) + "\n")
    if found.note:
        say(found.note)
    cut = [("cut", f"{found.cut:,} sources were truncated")] if found.cut else []
    return Report(
        {
            "part": part,
            "count": found.count,
            "cut": found.cut,
            "malformed": malformed.total,
            "metrics": found.metrics,
            "signatures": found.signatures,
            "generation": dataclasses.asdict(generation),
            "seconds": seconds,
        },
        [counted("pairs", found.count, seconds), *cut, *metric_rows(found.metrics, found.signatures)],
    )


def _reading(trained: Mapping[str, Any], part: str | None, given: Mapping[str, Any]) -> TextToTextData:
    """How files are read: like those of the part in training, except for the given fields."""
    from regard.structure import from_mapping
    from regard.tasks.text_to_text import TextToTextData

    own = (trained.get("parts") or {}).get(part) or trained
    fields = {**{key: own.get(key) for key in OF_READING}, **given}
    return from_mapping(TextToTextData, {key: value for key, value in fields.items() if value is not None}, "data")


# Captioners.


USUAL_SCENES = 1_000


def evaluate_captions(request: Request, file: NewFile | None) -> Report:
    """Evaluate a captioner on a file of captions and its images, or on builtin scenes.

    Arguments:
        request: its places are a file of captions and a folder or zip archive of images, or `scenes`; its settings are for
            decoding.
        file: for the captions, one per line; None for no file.

    Raises:
        InputError: for other places or options, and for files that cannot be read.
    """
    from regard.tasks.captioning import evaluate

    request.refuse_options("captioning", but=("beam", "length_penalty"))
    places, limit = request.places, request.limit
    scenes = list(places) == ["scenes"]
    if not scenes and len(places) != 2:
        raise InputError("a captioner is evaluated on a file of captions and its images; give both, or scenes")
    captioner = opened(request.model, request.device, "captioning")
    generation = with_options(captioner.task.generation, request.settings_and("beam", "length_penalty"))
    examples: Sequence[Any] = (
        list(scenes_to_test(captioner, limit or USUAL_SCENES)) if scenes else _read_captions(places, captioner, limit)
    )
    result, seconds = timed(lambda: evaluate(captioner, examples, generation, batch_size=request.batch_size))
    if file is not None:
        for found in result.predictions:
            file.write(" ".join(found.text.split()) + "\n")
    return Report(
        {
            "count": result.count,
            "metrics": result.metrics,
            "signatures": result.signatures,
            "generation": asdict(generation),
            "seconds": seconds,
        },
        [counted("images", result.count, seconds), *metric_rows(result.metrics, result.signatures)],
    )


def _read_captions(places: Sequence[str], captioner: Any, limit: int | None) -> list[CaptionExample]:
    from regard.tasks.caption_data import examples_in

    notes: list[str] = []
    colour = captioner.task.size.channels == 3
    examples = examples_in(places[0], places[1], colour=colour, on_error="skip", notes=notes)
    for note in notes:
        say(note)
    return list(islice(examples, limit))
