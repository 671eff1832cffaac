"""From labelled texts to token stores that a classifier, or a model that rates texts, is trained on."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from regard.data.labelled import LabelledText, labelled_in_memory, read_labelled
from regard.data.labelled_formats import LABELLED_FORMATS
from regard.data.malformed import MalformedRows
from regard.errors import InputError, nearest
from regard.files import replace_file
from regard.metrics.classification import judged_class
from regard.parts import own
from regard.tasks.classification.data import LabelledData, MultiLabelData, MultiOutputData, Place, refuse_classes
from regard.tasks.classification.regression import MultiOutputTask, RegressionTask, stored
from regard.tasks.classification.task import LABEL, ClassificationTask, LabelledTask, MultiLabelTask, Orders
from regard.tasks.encoders import Joined, columns_of, join, tokens_of
from regard.tasks.examples import Reader, Splits, given_or
from regard.tasks.preparation import (
    SETTINGS,
    TRAIN,
    VALIDATION,
    EncoderTokenizerSettings,
    Prepared,
    cleared,
    finish,
    is_prepared,
    opened,
    settings_of,
    whole_text_tokenizer,
    write_store,
)
from regard.text import Tokenizer

Given = (
    Sequence[LabelledText]
    | Sequence[tuple[str, str | float]]
    | Sequence[tuple[tuple[str, str], str | float]]
    | Sequence[tuple[str | tuple[str, str], Sequence[str] | Sequence[float]]]
    | Sequence[Mapping[str, object]]
)
"""What preparation decided of the task, beside the stores."""

MANY = 1_000
"""More classes than this are taken for a mistake: texts, or numbers."""


def prepare_classes(
    data: LabelledData,
    tokenizer: EncoderTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Given | None = None,
    given_validation: Given | None = None,
) -> Prepared[ClassificationTask]:
    """Read the data for the tokenizer and the classes, then for the tokens, and leave all in `folder`.

    Arguments:
        folder: where to put them; taken as they are if they are there already (a resumed run).
        seed: of the choice of held-out examples.
        given, given_validation: examples in memory instead of what `data` names: `LabelledText`, (text, label), where text may be
            a pair, or mappings such as rows of the library `datasets`.

    Raises:
        InputError: for data that cannot be read, too little of it, or a label that the training data has not.
    """
    if not is_prepared(folder):
        splits = _splits(data, seed, given, given_validation, number=False)
        read, pairs = _begin(folder, splits, tokenizer, data.orders)
        classes = _classes(data, splits)
        if data.positive is not None and data.positive not in classes:
            raise InputError(
                f"data.positive is {data.positive!r}, which is no class; {nearest(data.positive, classes)}"
            )
        if data.threshold is not None and judged_class(classes, data.positive) is None:
            raise InputError(
                f"data.threshold is given, and of {len(classes)} classes it is not said which it decides on; name one as "
                "data.positive"
            )
        counts = Counter(label_of(text) for text in splits.train())
        task = ClassificationTask(
            tokenizer=read,
            maximum_length=data.maximum_length,
            auxiliary=data.auxiliary,
            classes=classes,
            class_weights=_class_weights(data, classes, counts),
            positive=data.positive,
            threshold=data.threshold,
            pairs=pairs,
            orders=data.orders,
            sentences=tokenizer.sentences,
        )
        cut = _write(
            folder, task, splits, len(task.classes), lambda text: [task.number_of(label_of(text), _where(text))]
        )
        _finish(folder, task, splits, cut, _few_examples(classes, counts))
    return opened(ClassificationTask.load(folder, settings_of(folder)), folder)


def prepare_ratings(
    data: LabelledData,
    tokenizer: EncoderTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Given | None = None,
    given_validation: Given | None = None,
) -> Prepared[RegressionTask]:
    """As `prepare_classes`, for labels that are numbers.

    Raises:
        InputError: for data that cannot be read, too little of it, or a label that is no number.
    """
    if data.labels is not None:
        raise InputError("data.labels names classes, and task regression has numbers; leave it out")
    refuse_classes(data, "class_weights", "positive", "threshold", task="regression", has="numbers")
    if not is_prepared(folder):
        splits = _splits(data, seed, given, given_validation, number=True)
        read, pairs = _begin(folder, splits, tokenizer, data.orders)
        mean, spread = _moments([rating_of(text) for text in splits.train()])
        task = RegressionTask(
            tokenizer=read,
            maximum_length=data.maximum_length,
            auxiliary=data.auxiliary,
            mean=mean,
            spread=spread,
            pairs=pairs,
            orders=data.orders,
            sentences=tokenizer.sentences,
        )
        cut = _write(folder, task, splits, 1 << 32, lambda text: [stored(rating_of(text))])
        _finish(folder, task, splits, cut)
    return opened(RegressionTask.load(folder, settings_of(folder)), folder)


def prepare_labels(
    data: MultiLabelData,
    tokenizer: EncoderTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Given | None = None,
    given_validation: Given | None = None,
) -> Prepared[MultiLabelTask]:
    """As `prepare_classes`, for texts with any number of labels.

    Raises:
        InputError: for data that cannot be read, too little of it, or a label that the training data has not.
    """
    if not is_prepared(folder):
        splits = _splits(data, seed, given, given_validation, number=False, several=True)
        read, pairs = _begin(folder, splits, tokenizer, data.orders)
        classes = data.labels or _labels(data, splits)
        counts, total = Counter[str](), 0
        for text in splits.train():
            counts.update(labels_of(text, data.separator))
            total += 1
        task = MultiLabelTask(
            tokenizer=read,
            maximum_length=data.maximum_length,
            auxiliary=data.auxiliary,
            classes=classes,
            class_weights=_label_weights(data, classes, counts, total),
            pairs=pairs,
            orders=data.orders,
            sentences=tokenizer.sentences,
            threshold=data.threshold,
            separator=data.separator,
        )

        def numbers(text: LabelledText) -> list[int]:
            return [task.number_of(label, _where(text)) for label in labels_of(text, data.separator)]

        cut = _write(folder, task, splits, len(task.classes), numbers)
        _finish(folder, task, splits, cut, _few_examples(classes, counts, "label"))
    return opened(MultiLabelTask.load(folder, settings_of(folder)), folder)


def prepare_numbers(
    data: MultiOutputData,
    tokenizer: EncoderTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Given | None = None,
    given_validation: Given | None = None,
) -> Prepared[MultiOutputTask]:
    """As `prepare_ratings`, for texts with several numbers each.

    Raises:
        InputError: for data that cannot be read, too little of it, or an example with another number of numbers.
    """
    if not is_prepared(folder):
        splits = _splits(data, seed, given, given_validation, number=True, several=True)
        read, pairs = _begin(folder, splits, tokenizer, data.orders)
        names = _names(data, next(splits.everything()))
        blank = MultiOutputTask(tokenizer=read, names=names, means=(), spreads=())

        def numbers(text: LabelledText) -> list[float]:
            return blank.numbers_of(ratings_of(text), _where(text))

        columns = zip(*(numbers(text) for text in splits.train()), strict=True)
        means, spreads = zip(*(_moments(column) for column in columns), strict=True)
        task = MultiOutputTask(
            tokenizer=read,
            maximum_length=data.maximum_length,
            auxiliary=data.auxiliary,
            names=names,
            means=means,
            spreads=spreads,
            pairs=pairs,
            orders=data.orders,
            sentences=tokenizer.sentences,
        )
        cut = _write(folder, task, splits, 1 << 32, lambda text: [stored(number) for number in numbers(text)])
        _finish(folder, task, splits, cut)
    return opened(MultiOutputTask.load(folder, settings_of(folder)), folder)


def _splits(
    data: LabelledData,
    seed: int,
    given: Given | None,
    given_validation: Given | None,
    *,
    number: bool,
    several: bool = False,
) -> Splits[LabelledText]:
    train = given_or(in_memory(given, data), reader(data, data.train, number=number, several=several), "training")
    if train is None:
        raise InputError("data.train is missing; name a file of labelled texts")
    read = reader(data, data.validation, number=number, several=several)
    validation = given_or(in_memory(given_validation, data), read, "validation")
    class_of = None if number or several else label_of
    least = 2 if number else 1  # a correlation needs two ratings
    return Splits(train, validation, share=data.validation_share, seed=seed, class_of=class_of, least=least)


def reader(
    data: LabelledData, place: Place | None, *, number: bool, several: bool = False, rest: bool = False
) -> Reader[LabelledText] | None:
    """What reads the examples of a place; None where there is none.

    Arguments:
        rest: whether the other columns of files are kept.
    """
    if place is None:
        return None
    path = place if isinstance(place, str) else list(place)
    read_file = own("reader", data.format)
    if read_file is not None:
        paths = [Path(each) for each in ([path] if isinstance(path, str) else path)]
        missing = [str(each) for each in paths if not each.is_file()]
        if missing:
            raise InputError(f"{missing[0]}: no such file; give a file that data.format={data.format} reads")
        return lambda malformed: (each for one in paths for each in in_memory(list(read_file(one)), data) or ())
    known = LABELLED_FORMATS.get(data.format)
    if known is not None and known.number != number:
        what, task = ("numbers", "regression") if known.number else ("classes", "classification")
        raise InputError(f"data.format is {data.format!r}, whose labels are {what}; choose task {task}")

    if known is not None and several:
        raise InputError(
            f"data.format is {data.format!r}, whose texts have one label each; choose another task or format"
        )
    label = data.values if isinstance(data, MultiOutputData) and data.values is not None else data.label

    def read(malformed: MalformedRows) -> Iterator[LabelledText]:
        return read_labelled(
            path,
            format=data.format,
            text=data.text,
            pair=data.pair,
            label=label,
            several=several,
            number=number and known is None,  # a known format says so itself
            malformed=malformed,
            rest=rest,
        )

    return read


def in_memory(given: Given | None, data: LabelledData | None = None) -> list[LabelledText] | None:
    """Examples in memory as `LabelledText`s.

    Arguments:
        data: says under which keys of a mapping text, pair and label are; without it, or where it does not say, by their usual
            names.

    Raises:
        InputError: for a row that is no example, or has an empty text.
    """
    if given is None:
        return None
    if data is None:
        return labelled_in_memory(given)
    text, pair, label = (part if isinstance(part, str) else None for part in (data.text, data.pair, data.label))
    values = data.values if isinstance(data, MultiOutputData) else None
    named = tuple(str(key) for key in values or () if isinstance(key, str))
    return labelled_in_memory(given, text, pair, named if values and len(named) == len(values) else label)


def _begin(
    folder: Path, splits: Splits[LabelledText], settings: EncoderTokenizerSettings, orders: Orders
) -> tuple[Tokenizer, bool]:
    """The tokenizer, and whether examples are pairs."""
    cleared(folder)

    def texts() -> Iterator[str]:
        for example in splits.train():
            yield example.text
            if example.pair is not None:
                yield example.pair

    first = next(splits.everything(), None)
    if first is None:
        raise InputError("the training data has no example that can be used; give some")
    pairs = first.pair is not None
    if orders == "both" and not pairs:
        raise InputError("data.orders is 'both', and the examples are single texts, which have one order; leave it out")
    return whole_text_tokenizer(settings, texts), pairs


def _classes(data: LabelledData, splits: Splits[LabelledText]) -> tuple[str, ...]:
    """The classes: those that the recipe or the format names, else those of the training data in alphabetical order."""
    if data.labels is not None:
        return data.labels
    found = {label_of(text) for text in splits.everything()}
    if len(found) > MANY:
        raise InputError(
            f"the training data has {len(found):,} different labels, such as {sorted(found)[0]!r}; name the right column with "
            "data.label, or choose task regression where labels are numbers"
        )
    known = known_labels(data.format)
    if found <= set(known):
        return known
    if len(found) < 2:
        raise InputError(f"all training examples have the label {found.pop()!r}; give some of another class")
    return tuple(sorted(found))


def _labels(data: MultiLabelData, splits: Splits[LabelledText]) -> tuple[str, ...]:
    """The labels of the training data in alphabetical order."""
    found = {label for text in splits.everything() for label in labels_of(text, data.separator)}
    if len(found) > MANY:
        raise InputError(
            f"the training data has {len(found):,} different labels, such as {sorted(found)[0]!r}; name the right column with "
            "data.label, and what stands between labels with data.separator"
        )
    if not found:
        raise InputError("no training example has a label; give some that have")
    return tuple(sorted(found))


def _names(data: MultiOutputData, first: LabelledText) -> tuple[str, ...]:
    """What the numbers of an example are called.

    Raises:
        InputError: where the first example has one number only, or another number than there are names.
    """
    count = len(ratings_of(first))
    if count < 2:
        raise InputError(
            f"{_where(first)}: has one number; name the columns of all as data.values, give lists, or choose task regression"
        )
    columns = data.values or ()
    named = tuple(str(column) for column in columns) if any(isinstance(column, str) for column in columns) else None
    names = data.labels or named or tuple(f"value_{number}" for number in range(count))
    if len(names) != count:
        raise InputError(f"{_where(first)}: has {count} numbers, and data.labels names {len(names)}; name as many")
    return names


def labels_of(text: LabelledText, separator: str) -> tuple[str, ...]:
    """The labels of an example, each once: those of a list, or the parts of one text; perhaps none.

    Raises:
        InputError: where the example does not say, or a label is no text and no whole number.
    """
    given: Sequence[object] | None = text.labels
    if given is None and text.label is None:
        raise InputError(f"{_where(text)}: has no labels; give a list of them, which may be empty")
    if given is None:
        given = text.label.split(separator) if isinstance(text.label, str) else [text.label]
    unfit = next((each for each in given if type(each) not in (str, int)), None)
    if unfit is not None:
        raise InputError(f"{_where(text)}: has the label {unfit!r:.60}; give labels as texts, or as whole numbers")
    return tuple(dict.fromkeys(label for each in given if (label := str(each).strip())))


def ratings_of(text: LabelledText) -> list[float]:
    """The numbers of an example.

    Raises:
        InputError: where it has none, or what is no number.
    """
    given = text.labels if text.labels is not None else (text.label,)
    return [rating_of(replace(text, label=each, labels=None)) for each in given]


def label_of(text: LabelledText) -> str:
    """The class of an example.

    Raises:
        InputError: where it has none, or several.
    """
    if text.labels is not None:
        raise InputError(f"{_where(text)}: has several labels; choose task multi_label_classification")
    if text.label is None or (isinstance(text.label, str) and not text.label.strip()):
        raise InputError(f"{_where(text)}: has no label; give labelled examples")
    return str(text.label)


def rating_of(text: LabelledText) -> float:
    """The number of an example.

    Raises:
        InputError: where it has none, or several.
    """
    if text.labels is not None:
        raise InputError(f"{_where(text)}: has several numbers; choose task multi_output_regression")
    try:
        rating = float(text.label if text.label is not None else "")
    except (TypeError, ValueError):
        raise InputError(f"{_where(text)}: the label {text.label!r} is no number; choose task classification") from None
    if not math.isfinite(rating):
        raise InputError(f"{_where(text)}: the label {text.label!r} is no finite number; take the row out")
    return rating


def _where(text: LabelledText) -> str:
    return f"{text.file}, line {text.line}"


def _moments(ratings: Sequence[float]) -> tuple[float, float]:
    mean = math.fsum(ratings) / len(ratings)
    spread = math.sqrt(math.fsum((rating - mean) ** 2 for rating in ratings) / len(ratings))
    return mean, spread or 1.0


def _write(
    folder: Path,
    task: LabelledTask,
    splits: Splits[LabelledText],
    values: int,
    told: Callable[[LabelledText], Sequence[int]],
) -> int:
    """Write the stores of both splits; returns how many inputs were cut."""
    cut = 0

    def rows(examples: Iterator[LabelledText]) -> Iterator[Sequence[Sequence[int]]]:
        nonlocal cut
        while chunk := list(itertools.islice(examples, 1024)):
            for joined, example in zip(encode(task, chunk), chunk, strict=True):
                cut += joined.cut > 0
                yield joined.ids, [joined.second], told(example)

    columns = {**columns_of(task.tokenizer), LABEL: values}
    write_store(folder, TRAIN, columns, rows(splits.train()))
    write_store(folder, VALIDATION, columns, rows(splits.validation()))
    return cut


def encode(task: LabelledTask, examples: Sequence[LabelledText]) -> list[Joined]:
    """The inputs of some examples.

    Raises:
        InputError: for a pair where the model takes one text, or the other way round.
    """
    for example in examples:
        if (example.pair is not None) != task.pairs:
            wanted, got = ("two texts", "one") if task.pairs else ("one text", "two")
            raise InputError(f"{_where(example)}: {wanted} wanted and {got} given; all examples must be of one form")
    parted = partial(tokens_of, task.tokenizer, sentences=task.sentences)
    first = parted([example.text for example in examples])
    second = parted([example.pair or "" for example in examples]) if task.pairs else None
    return [
        join(task.tokenizer, ids, None if second is None else second[i], maximum=task.maximum_length)
        for i, ids in enumerate(first)
    ]


def _class_weights(data: LabelledData, classes: tuple[str, ...], counts: Mapping[str, int]) -> tuple[float, ...] | None:
    """What the loss of an example of each class counts; None where all count alike.

    Raises:
        InputError: where weights are given and do not name the classes.
    """
    given = data.class_weights
    if given == "none":
        return None
    if given == "balanced":
        total, known = sum(counts.values()), [name for name in classes if counts.get(name)]
        return tuple(total / (len(known) * counts[name]) if counts.get(name) else 1.0 for name in classes)
    unknown = sorted(set(given) - set(classes))
    if unknown:
        raise InputError(f"data.class_weights: {unknown[0]!r} is no class of the data; {nearest(unknown[0], classes)}")
    return tuple(given.get(name, 1.0) for name in classes)


def _label_weights(
    data: LabelledData, classes: tuple[str, ...], counts: Mapping[str, int], total: int
) -> tuple[float, ...] | None:
    """What the loss of each label counts in texts that have it; None where all count 1."""
    if data.class_weights == "balanced":
        return tuple((total - counts[name]) / counts[name] if 0 < counts[name] < total else 1.0 for name in classes)
    return _class_weights(data, classes, counts)


def _few_examples(classes: Sequence[str], counts: Mapping[str, int], called: str = "class") -> list[str]:
    """What to know of classes that there is next to nothing to learn from."""
    none = [name for name in classes if not counts.get(name)]
    single = [name for name in classes if counts.get(name) == 1]
    return [
        f"{_named(names, called)}: {what} to learn from; give more, or leave {'it' if len(names) == 1 else 'them'} out."
        for names, what in ((none, "no example"), (single, "one example"))
        if names
    ]


def _named(names: Sequence[str], called: str) -> str:
    shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
    several = "classes" if called == "class" else "labels"
    return f"the {called} {shown}" if len(names) == 1 else f"the {len(names)} {several} {shown}"


def _finish(
    folder: Path,
    task: LabelledTask,
    splits: Splits[LabelledText],
    cut: int,
    warnings: Sequence[str] = (),
) -> None:
    settings = task.save(folder)
    replace_file(folder / SETTINGS, json.dumps(settings))
    notes = [*splits.notes, *warnings]
    if cut:
        notes.append(
            f"{cut:,} inputs were longer than data.maximum_length = {task.maximum_length} tokens and were cut."
        )
    finish(folder, notes)


def known_labels(name: str) -> tuple[str, ...]:
    """The classes of a format, in their order; none where the format does not say."""
    return LABELLED_FORMATS[name].labels if name in LABELLED_FORMATS else ()
