"""The common part of tasks that predict classes or numbers of texts: `data` section, rows, task, predictor, preparation."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import torch
from torch import Tensor

from regard.data.labelled import LABELLED_FORMATS, ROW, LabelledText, labelled_row, read_labelled
from regard.data.malformed import MalformedRows
from regard.data.tables import FORMATS
from regard.data.token_store import TokenStore
from regard.errors import InputError, nearest
from regard.layers import HeadKind
from regard.models.config import check
from regard.parts import own, own_hint, own_names
from regard.reading import read_json_object, spoken_kind
from regard.tasks.encoders import (
    EncoderBatch,
    EncoderPredictor,
    Joined,
    WholeTextTask,
    columns_of,
    join,
    padded,
    read_inputs,
    tokenizer_from_hf,
    tokens_of,
)
from regard.tasks.examples import Examples, Place, Splits, check_amount
from regard.tasks.predictor import refuse_gaps
from regard.tasks.preparation import (
    TRAIN,
    VALIDATION,
    EncoderTokenizerSettings,
    Places,
    Prepared,
    prepare,
    whole_text_tokenizer,
    write_store,
)
from regard.text.warnings import warn_of_cut, warn_of_unknown

Orders = Literal["one", "both"]
"""The orders in which the two texts of a pair are read."""


LABEL = "label"
"""The column of a store with the label of each example."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledTask(WholeTextTask):
    """The common part of tasks that predict a class or numbers for a text or a pair of texts.

    Arguments:
        tokenizer: for all texts.
        maximum_length: the maximum number of tokens of one input, special ones included; longer inputs are truncated.
        pairs: whether an example is a pair of texts; None if it is not known, and both are accepted.
        orders: whether a pair is read in `one` order or in `both`.
        sentences: whether to put a separator between the sentences of a text, for models that distinguish sentences.
        auxiliary: as for `WholeTextTask`.
    """

    head: ClassVar[HeadKind] = "sequence"

    pairs: bool | None = False
    orders: Orders = "one"
    sentences: bool = False

    @property
    def texts(self) -> int:
        """2 if an example is a pair, else 1."""
        return 2 if self.pairs else 1

    @property
    def readings(self) -> int:
        """2 if pairs are read in both orders, else 1."""
        return 2 if self.orders == "both" else 1

    @property
    def asked(self) -> str:
        """A placeholder of a text or a pair in Python, for the model card."""
        return '("...", "...")' if self.pairs else '"..."'

    @abstractmethod
    def targets(self, labels: Sequence[Any]) -> Tensor:
        """The labels of some examples as the tensor of the loss, (B, ...)."""

    @abstractmethod
    def stored(self, data: TokenStore, row: int) -> Any:
        """The label of a row of a store."""

    def batch(self, inputs: Sequence[Joined], labels: Sequence[Any]) -> EncoderBatch:
        """A batch for training of inputs and their labels."""
        tokens, segments = padded(inputs, padding_id=self.tokenizer.padding_id, readings=self.readings)
        return EncoderBatch(tokens, segments, self.targets(labels))

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> EncoderBatch:
        """The examples of these rows as a batch."""
        return self.batch(read_inputs(data, rows), [self.stored(data, row) for row in rows])

    def described(self, train: TokenStore, validation: TokenStore, labels: str) -> str:
        """The numbers of examples, the labels and the size of the vocabulary, as one line."""
        return (
            f"{len(train):,} examples to learn from, {len(validation):,} to validate on{labels}; "
            f"a vocabulary of {self.tokenizer.size:,}"
        )

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The mean loss; `validate` computes the other metrics from predictions."""
        del right
        return {"loss": loss}


def hf_label_fields(names: Sequence[str], problem: str) -> dict[str, Any]:
    """The fields of config.json with the names of outputs and the type of problem, for other programs."""
    return {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
        "problem_type": problem,
    }


def few(names: Sequence[str]) -> str:
    """The first six names, for messages."""
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledData:
    """The `data` section of a recipe.

    Arguments:
        train: the training examples: a TSV, CSV, JSONL or Parquet file, or several; gzip is recognised.
        validation: the validation examples, as for `train`; if null, they are held out from the training data.
        validation_share: the share of the training data to hold out, the same of each class, sampled with the seed.
        validation_size: the number of examples to hold out instead, at most a tenth of all.
        format: `auto` depends on the file's extension; or a public data set with known columns, such as `sst2`, `mrpc`, `stsb` or
            `sms-spam`; or a reader of your own.
        text, pair, label: the columns of the text, of the second text of a pair, and of the label: a name in the first line, a
            number from 0, or a JSON key; null for the columns of the format, or the usual names.
        labels: the classes in their order; null to find them in the training data.
        class_weights: the weight of each class in the loss: `none`, 1 for all; `balanced`, N / (C n_c) for a class with n_c of N
            examples and C classes, so that rare classes count as much as frequent ones; or weights by name, such as {spam: 5},
            where classes without a weight have 1.
        positive: the class that F1 is computed for and that `threshold` applies to; null is the last of two classes. With more
            than two classes null means no positive class, and F1 is the mean over classes.
        threshold: the minimum probability for predicting the positive class, below which the most probable other class is
            predicted; null predicts the most probable class.
        maximum_length: the maximum number of tokens of an input, special ones included; longer texts are truncated.
        orders: the orders in which a pair is read: `one`, the first text before the second; or `both`, where the model reads the
            pair twice and its outputs are added, for pairs without an order, such as those of `mrpc` and `stsb`.
        auxiliary: the weight of a language model's loss on the texts, added to the task's loss, for decoders such as `gpt2`; 0.5
            as published, 0 for none.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.1
    validation_size: int | None = None
    format: str = "auto"
    text: int | str | None = None
    pair: int | str | None = None
    label: int | str | None = None
    labels: tuple[str, ...] | None = None
    class_weights: Literal["none", "balanced"] | dict[str, float] = "none"
    positive: str | None = None
    threshold: float | None = None
    maximum_length: int = 128
    orders: Orders = "one"
    auxiliary: float = 0.0

    def __post_init__(self) -> None:
        names = (*FORMATS, *LABELLED_FORMATS, *own_names("reader"))
        if self.format not in names:
            raise InputError(f"data.format is {self.format!r}; {nearest(self.format, names)}{own_hint('reader')}")
        check_amount(self)
        check(self.maximum_length >= 5, "data.maximum_length", self.maximum_length, "at least 5", "128 is usual")
        check(self.auxiliary >= 0, "data.auxiliary", self.auxiliary, "0 or more", "0.5 is usual, 0 turns it off")
        weights = self.class_weights
        check(
            isinstance(weights, str) or all(weight > 0 for weight in weights.values()),
            "data.class_weights",
            weights,
            "numbers above 0",
            "balanced is usual if classes have different sizes",
        )
        labels = self.labels
        check(
            labels is None or (len(labels) >= 2 and len(set(labels)) == len(labels)),
            "data.labels",
            labels,
            "two different names or more",
            "leave it out to find them in the data",
        )
        positive, threshold = self.positive, self.threshold
        check(
            positive is None or labels is None or positive in labels,
            "data.positive",
            positive,
            f"one of data.labels ({', '.join(labels or ())})",
            "name one of these",
        )
        check(
            threshold is None or 0 < threshold < 1, "data.threshold", threshold, "above 0 and below 1", "0.5 is usual"
        )


def refuse_classes(data: LabelledData, *names: str, task: str, has: str) -> None:
    """Refuse settings of classes for a task without classes.

    Raises:
        InputError: naming the first setting that is given.
    """
    for name in names:
        if getattr(data, name) not in (None, "none"):
            raise InputError(f"data.{name} is for classes, and task {task} has {has}; leave it out")


def labelled(*, number: bool, several: bool = False, rest: bool = False) -> Examples[LabelledText]:
    """The source of labelled texts: (text, label), where text may be a pair; mappings; or files.

    Arguments:
        number: whether labels are numbers.
        several: whether a text may have several labels.
        rest: whether to keep the other columns of files.
    """
    read = partial(_read, number=number, several=several, rest=rest)
    return Examples(
        type=LabelledText,
        rows="labelled texts",
        one="example",
        wanted=ROW,
        file="file of labelled texts",
        row=_row,
        read=read,
        check=_check,
    )


def _row(row: Any, called: str, number: int, data: LabelledData | None) -> LabelledText:
    if data is None:
        return labelled_row(row, called, number)
    text, pair, label = (part if isinstance(part, str) else None for part in (data.text, data.pair, data.label))
    values = getattr(data, "values", None)
    named = tuple(str(key) for key in values or () if isinstance(key, str))
    return labelled_row(row, called, number, text, pair, named if values and len(named) == len(values) else label)


def _check(example: LabelledText, called: str) -> None:
    del called
    labelled_row(example, "the example", example.line)


def _read(
    data: LabelledData, path: str | list[str], malformed: MalformedRows, *, number: bool, several: bool, rest: bool
) -> Iterable[LabelledText]:
    read_file = own("reader", data.format)
    if read_file is not None:
        paths = [Path(each) for each in ([path] if isinstance(path, str) else path)]
        missing = [str(each) for each in paths if not each.is_file()]
        if missing:
            raise InputError(f"{missing[0]}: no such file; give a file that data.format={data.format} reads")
        return (each for one in paths for each in LABELLED.in_memory(list(read_file(one)), data))
    known = LABELLED_FORMATS.get(data.format)
    if known is not None and known.number != number:
        what, task = ("numbers", "regression") if known.number else ("classes", "classification")
        raise InputError(f"data.format is {data.format!r}, whose labels are {what}; choose task {task}")
    if known is not None and several:
        raise InputError(
            f"data.format is {data.format!r}, whose texts have one label each; choose another task or format"
        )
    return read_labelled(
        path,
        format=data.format,
        text=data.text,
        pair=data.pair,
        label=data.label if (values := getattr(data, "values", None)) is None else values,
        several=several,
        number=number and known is None,  # a known format defines the type of its labels
        malformed=malformed,
        rest=rest,
    )


LABELLED = labelled(number=False)
"""The source for rows in memory, with labels of any type."""


Text = str | tuple[str, str]


def joined(task: LabelledTask, texts: Sequence[Text], *, pairs: bool | None, maximum: int) -> list[Joined]:
    """The model's input for each text or pair of texts; warns of unknown characters and of truncated texts.

    Arguments:
        pairs: whether the model reads pairs; None if it reads texts and pairs.
        maximum: the maximum number of tokens of one input.

    Raises:
        InputError: for an empty text, a text that is not a string, or a pair instead of a text or a text instead of a pair.
    """
    if isinstance(texts, str):
        raise InputError("a single string was given instead of a list of texts; put it in a list")
    firsts: list[str] = []
    seconds: list[str | None] = []
    for number, text in enumerate(texts, start=1):
        parts = tuple(text) if isinstance(text, tuple | list) else (text,)
        if len(parts) not in ((1, 2) if pairs is None else (2,) if pairs else (1,)):
            wanted = "two texts, as (first, second)" if pairs else "one text" if pairs is False else "one text or two"
            raise InputError(f"text {number} is {text!r:.80}; the model reads {wanted}")
        for part in parts:
            if not isinstance(part, str):
                raise InputError(f"text {number} is {text!r:.80}; give strings")
        firsts.append(parts[0])
        seconds.append(parts[1] if len(parts) == 2 else None)
    refuse_gaps(list(zip(firsts, (text if text is not None else "-" for text in seconds), strict=True)))
    first = tokens_of(task.tokenizer, firsts, sentences=task.sentences)
    others = [text for text in seconds if text is not None]
    warn_of_unknown(task.tokenizer, firsts, first)
    second = iter(tokens_of(task.tokenizer, others, sentences=task.sentences))
    found = [
        join(task.tokenizer, ids, None if other is None else next(second), maximum=maximum)
        for ids, other in zip(first, seconds, strict=True)
    ]
    warn_of_cut([each.cut for each in found], maximum)
    return found


L = TypeVar("L", bound=LabelledTask)
A = TypeVar("A")


class LabelledPredictor(EncoderPredictor[L]):
    """A model that predicts classes or numbers of texts or of pairs of texts, ready to use.

    Arguments:
        model: a `TextEncoder` with the task's outputs.
        task: the tokenizer and the names of the outputs.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    takes_own_metrics: ClassVar[bool] = True

    @abstractmethod
    def from_logits(self, logits: Tensor) -> Tensor:
        """The model's float32 outputs (B, outputs) as probabilities or numbers."""

    def values(self, inputs: Sequence[Joined]) -> Tensor:
        """Probabilities or numbers, (N, outputs) float32, for tokenized inputs."""
        values = torch.zeros(len(inputs), self.task.outputs)
        for rows, found in self._batches(inputs):
            values[rows] = found
        return values

    def answers(self, texts: Sequence[Text], answer: Callable[[Text, list[float]], A]) -> list[A]:
        """The predictions for texts, in their order; observers are notified after each batch.

        Arguments:
            answer: makes a prediction from a text and its values.

        Raises:
            InputError: for an empty text, a pair instead of a text, or a text instead of a pair.
        """
        found: dict[int, A] = {}
        for rows, values in self._batches(joined(self.task, texts, pairs=self.task.pairs, maximum=self.maximum_length)):
            made = [answer(texts[row], numbers) for row, numbers in zip(rows, values.tolist(), strict=True)]
            self.tell(made)
            found.update(zip(rows, made, strict=True))
        return [found[row] for row in range(len(texts))]

    def stored_labels(self, data: TokenStore, count: int) -> list[Any]:
        """The labels of the first `count` examples of a store."""
        return [self.task.stored(data, row) for row in range(min(count, len(data)))]

    def _batches(self, inputs: Sequence[Joined]) -> Iterator[tuple[list[int], Tensor]]:
        for rows, _, encoded in self.encoded(inputs):
            if encoded.logits is not None:
                yield rows, self.from_logits(encoded.logits.float()).cpu()


Decided = tuple[L, Callable[[LabelledText], Sequence[int]], Sequence[str]]
"""The task, a function from an example to the numbers of its label in a store, and messages for the user."""


def prepare_labelled(
    task: type[L],
    data: LabelledData,
    tokenizer: EncoderTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Any = None,
    given_validation: Any = None,
    decide: Callable[[Splits[LabelledText], dict[str, Any]], Decided[L]],
    number: bool,
    several: bool = False,
    **held_out: Any,
) -> Prepared[L]:
    """Read the data for the tokenizer and the labels, then for the tokens, and write all into `folder`.

    Arguments:
        folder: where to write them; if they exist already (a resumed run), they are reused.
        seed: the seed of the choice of held-out examples.
        given, given_validation: examples in memory instead of those of `data`: `LabelledText`, (text, label), where text may be
            a pair, or mappings such as rows of the library `datasets`.
        decide: makes the task from the examples and the settings that all of these tasks have.
        number, several: as for `labelled`.
        held_out: further arguments of `Splits`.

    Raises:
        InputError: for data that cannot be read, or too little data.
    """

    def write() -> tuple[L, list[str]]:
        splits = labelled(number=number, several=several).splits(data, seed, given, given_validation, **held_out)
        first = next(splits.everything(), None)
        if first is None:
            raise InputError("the training data has no example that can be used; give some")
        pairs = first.pair is not None
        if data.orders == "both" and not pairs:
            raise InputError(
                "data.orders is 'both', and the examples are single texts, which have one order; leave it out"
            )
        made, target_of, notes = decide(
            splits,
            {
                "tokenizer": whole_text_tokenizer(tokenizer, lambda: _texts(splits)),
                "maximum_length": data.maximum_length,
                "auxiliary": data.auxiliary,
                "pairs": pairs,
                "orders": data.orders,
                "sentences": tokenizer.sentences,
            },
        )
        columns = {**columns_of(made.tokenizer), LABEL: made.outputs if not number else 1 << 32}
        cut = 0

        places = Places()

        def rows(examples: Iterator[LabelledText]) -> Iterator[Sequence[Sequence[int]]]:
            nonlocal cut
            while chunk := list(itertools.islice(examples, 1024)):
                for each, example in zip(encode(made, chunk), chunk, strict=True):
                    cut += each.cut > 0
                    places.note(example.file, example.line)
                    yield each.ids, [each.second], target_of(example)

        write_store(folder, TRAIN, columns, rows(splits.train()), places)
        write_store(folder, VALIDATION, columns, rows(splits.validation()))
        found = [*splits.notes, *notes]
        if cut:
            found.append(
                f"{cut:,} inputs were longer than data.maximum_length = {made.maximum_length} tokens and were cut."
            )
        return made, found

    return prepare(task, folder, write)


def _texts(splits: Splits[LabelledText]) -> Iterator[str]:
    for example in splits.train():
        yield example.text
        if example.pair is not None:
            yield example.pair


def labels_of(text: LabelledText, separator: str) -> tuple[str, ...]:
    """The distinct labels of an example: the items of a list, or the parts of one string; may be empty.

    Raises:
        InputError: if the example has no labels field, or a label is neither a string nor an integer.
    """
    given: Sequence[object] | None = text.labels
    if given is None and text.label is None:
        raise InputError(f"{where_of(text)}: has no labels; give a list of them, which may be empty")
    if given is None:
        given = text.label.split(separator) if isinstance(text.label, str) else [text.label]
    unfit = next((each for each in given if type(each) not in (str, int)), None)
    if unfit is not None:
        raise InputError(f"{where_of(text)}: has the label {unfit!r:.60}; give labels as texts, or as whole numbers")
    return tuple(dict.fromkeys(label for each in given if (label := str(each).strip())))


def ratings_of(text: LabelledText) -> list[float]:
    """The numbers of an example.

    Raises:
        InputError: if it has none, or one of them is not a number.
    """
    given = text.labels if text.labels is not None else (text.label,)
    return [rating_of(replace(text, label=each, labels=None)) for each in given]


def label_of(text: LabelledText) -> str:
    """The class of an example.

    Raises:
        InputError: if it has none, or several.
    """
    if text.labels is not None:
        raise InputError(f"{where_of(text)}: has several labels; choose task multi_label_classification")
    if text.label is None or (isinstance(text.label, str) and not text.label.strip()):
        raise InputError(f"{where_of(text)}: has no label; give labelled examples")
    return str(text.label)


def rating_of(text: LabelledText) -> float:
    """The number that is the label of an example.

    Raises:
        InputError: if it has none, or several.
    """
    if text.labels is not None:
        raise InputError(f"{where_of(text)}: has several numbers; choose task multi_output_regression")
    try:
        rating = float(text.label if text.label is not None else "")
    except (TypeError, ValueError):
        raise InputError(
            f"{where_of(text)}: the label {text.label!r} is not a number; choose task classification"
        ) from None
    if not math.isfinite(rating):
        raise InputError(f"{where_of(text)}: the label {text.label!r} is not a finite number; remove the row")
    return rating


def where_of(text: LabelledText) -> str:
    """The file and line of an example, for messages."""
    return f"{text.file}, line {text.line}"


def encode(task: LabelledTask, examples: Sequence[LabelledText]) -> list[Joined]:
    """The inputs of some examples.

    Raises:
        InputError: for a pair instead of a text, or a text instead of a pair.
    """
    for example in examples:
        if (example.pair is not None) != task.pairs:
            wanted, got = ("two texts", "one") if task.pairs else ("one text", "two")
            raise InputError(f"{where_of(example)}: {wanted} expected and {got} given; all examples must have one form")
    parted = partial(tokens_of, task.tokenizer, sentences=task.sentences)
    first = parted([example.text for example in examples])
    second = parted([example.pair or "" for example in examples]) if task.pairs else None
    return [
        join(task.tokenizer, ids, None if second is None else second[i], maximum=task.maximum_length)
        for i, ids in enumerate(first)
    ]


def record_of(example: LabelledText, found: dict[str, Any]) -> dict[str, Any]:
    """A record of the texts, the values of `found` and the other columns; a column whose name is taken becomes `other_NAME`."""
    texts = {"text": example.text} if example.pair is None else {"text": example.text, "pair": example.pair}
    own = texts | found
    return own | {f"other_{name}" if name in own else name: value for name, value in (example.rest or {}).items()}


def content_of(text: LabelledText) -> Text:
    """The text, or the pair, of an example."""
    return text.text if text.pair is None else (text.text, text.pair)


def names_of(folder: Path, outputs: int) -> tuple[str, ...]:
    """The names of a model's outputs in config.json (`id2label`), or LABEL_0 and so on if it has none.

    Raises:
        InputError: if there is not one name for each output, or names are not distinct.
    """
    path = folder / "config.json"
    named = read_json_object(path, "copy the file again").get("id2label")
    if named is None:
        return tuple(f"LABEL_{number}" for number in range(outputs))
    if not isinstance(named, dict):
        raise InputError(f"{path}.id2label holds {spoken_kind(named)}, not an object of names by number; mend the file")
    try:
        names = tuple(str(named[str(number)]) for number in range(outputs))
    except (KeyError, TypeError):
        raise InputError(
            f"{path}.id2label does not name each of the model's {outputs} outputs; mend the file"
        ) from None
    if len(named) != outputs or len(set(names)) != outputs:
        raise InputError(f"{path}.id2label names {len(named)} classes where the model has {outputs}; mend the file")
    return names


def settings_from_hf(folder: Path, config: Any) -> dict[str, Any]:
    """The settings that all of these tasks read from a folder."""
    tokenizer = tokenizer_from_hf(folder, config)
    return {"tokenizer": tokenizer, "maximum_length": config.maximum_positions, "pairs": None}
