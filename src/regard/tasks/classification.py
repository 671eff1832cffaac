"""Classification of texts and of pairs of texts (Devlin et al. 2019, section 4.1): one class for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.data.labelled import LABELLED_FORMATS, LabelledText
from regard.data.token_store import TokenStore
from regard.errors import InputError, nearest
from regard.metrics.classification import (
    OF_EACH_CLASS,
    ClassScore,
    by_class,
    classification_scores,
    f1_in_words,
    judged_class,
)
from regard.parts import own_scores
from regard.rendering import class_text
from regard.tasks.encoders import EncoderBatch, EncoderTask, Joined
from regard.tasks.examples import Splits
from regard.tasks.labelled import (
    LABEL,
    LABELLED,
    Decided,
    LabelledData,
    LabelledPredictor,
    LabelledTask,
    Text,
    content_of,
    few,
    hf_label_fields,
    label_of,
    labelled,
    names_of,
    prepare_labelled,
    record_of,
    settings_from_hf,
    where_of,
)
from regard.tasks.losses import smoothed_cross_entropy, stands_out
from regard.tasks.predictor import Evaluation
from regard.tasks.preparation import EncoderTokenizerSettings, Prepared
from regard.tasks.spec import OF_SENTENCE_ENCODERS, TaskSpec, encoder_config
from regard.tasks.task import LossSum


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationTask(LabelledTask):
    """Turns labelled texts into a model's tensors, and its outputs into a loss.

        p(class | text) = softmax(W pooled + b)

    Arguments:
        tokenizer, maximum_length, pairs, orders, sentences, auxiliary: as for `LabelledTask`.
        classes: names of the classes, in the order of the model's outputs.
        class_weights: the weight of each class in the loss, in the order of the classes; None = 1 for all.
        positive: the class that F1 is computed for and that the threshold applies to; None = the last class where there are two,
            and no positive class where there are more.
        threshold: the least probability at which the positive class is predicted; None = the most probable class is predicted.
    """

    name: ClassVar[str] = "classification"

    classes: tuple[str, ...]
    class_weights: tuple[float, ...] | None = None
    positive: str | None = None
    threshold: float | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """The classes."""
        return self.classes

    def counts(self, data: TokenStore) -> dict[str, int]:
        """The number of examples of each class, or with each label."""
        found = Counter(int(number) for row in range(len(data)) for number in data.sequence(LABEL, row))
        return {name: found[number] for number, name in enumerate(self.classes)}

    def metric_words(self) -> dict[str, str]:
        """F1 with the class that it is of."""
        return {"f1": f1_in_words(self.classes, self.positive)}

    def positive_class(self, positive: str | None = None, threshold: float | None = None) -> str | None:
        """The class that F1 is computed for and a threshold applies to; None where F1 is the mean over classes.

        Arguments:
            positive, threshold: values to use instead of the task's own.

        Raises:
            InputError: for an unknown class, or a threshold that is not between 0 and 1 or has no class to apply to.
        """
        if positive is not None and positive not in self.classes:
            raise InputError(f"positive is {positive!r}, which is no class; {nearest(positive, self.classes)}")
        if threshold is not None and not 0 < threshold < 1:
            raise InputError(f"threshold is {threshold}; it must be above 0 and below 1, 0.5 is usual")
        found = judged_class(self.classes, positive if positive is not None else self.positive)
        if found is None and threshold is not None:
            raise InputError(
                f"threshold is {threshold}, and with {len(self.classes)} classes it needs a positive class; name one as positive "
                f"({few(self.classes)})"
            )
        return found

    def predicted(self, probabilities: Sequence[float], positive: str | None, threshold: float | None) -> int:
        """The number of the predicted class: the positive one at or above the threshold, else the most probable other class.

        Arguments:
            probabilities: one for each class.
            positive: the positive class, from `positive_class`.
            threshold: the least probability at which it is predicted; None = the most probable class is predicted.
        """
        places = list(range(len(probabilities)))
        if threshold is not None and positive is not None:
            number = self.classes.index(positive)
            if probabilities[number] >= threshold:
                return number
            places.remove(number)
        return max(places, key=probabilities.__getitem__)

    @property
    def use(self) -> tuple[str, ...]:
        """A line for the model card."""
        return (f"print(model.classify({self.asked}).label)",)

    @property
    def outputs(self) -> int:
        """The number of the model's outputs: one for each class."""
        return len(self.classes)

    def number_of(self, label: str, where: str) -> int:
        """The number of a class.

        Raises:
            InputError: for a label that is not one of the classes.
        """
        if label not in self.classes:
            raise InputError(f"{where}: the label {label!r} is none of the model's; {nearest(label, self.classes)}")
        return self.classes.index(label)

    def targets(self, labels: Sequence[Any]) -> Tensor:
        """The numbers of classes, (B,)."""
        return torch.tensor(labels, dtype=torch.int64)

    def stored(self, data: TokenStore, row: int) -> Any:
        """The number of the class of a row of a store."""
        return int(data.sequence(LABEL, row)[0])

    def loss(self, model: nn.Module, batch: EncoderBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the classes, summed over examples, each multiplied by the weight of its class."""
        encoded, auxiliary = self.read(model, batch.tokens, batch.segments)
        if self.class_weights is not None and encoded.logits is not None:
            logits = encoded.logits.float()
            weights = torch.tensor(self.class_weights, device=logits.device)
            total = nn.functional.cross_entropy(
                logits, batch.labels, weight=weights, reduction="sum", label_smoothing=smoothing
            )
            return LossSum(total, len(batch.labels), stands_out(logits, batch.labels).sum(), auxiliary)
        total, correct = smoothed_cross_entropy(encoded.logits, batch.labels, smoothing=smoothing)  # type: ignore[arg-type]
        return LossSum(total, len(batch.labels), correct, auxiliary)

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Examples, classes and vocabulary in a few words."""
        return self.described(train, validation, f"; {len(self.classes)} classes ({few(self.classes)})")

    def hf_fields(self) -> dict[str, Any]:
        """The names of the classes, as other programs look for them in config.json."""
        return hf_label_fields(self.classes, "single_label_classification")

    def settings(self) -> dict[str, Any]:
        """The settings for regard.json; newer ones are written only if they are set, so that earlier versions can read them."""
        later = ("class_weights", "positive", "threshold")
        settings = EncoderTask.settings(self)
        return {name: value for name, value in settings.items() if name not in later or value is not None}


MOST_SHOWN = 20
"""The most classes whose scores each evaluation reports; with more, the largest are reported after training."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Classification:
    """The prediction of a classifier for one text.

    Arguments:
        text: the text; two texts if the model reads pairs.
        label: the most probable class. With a threshold: the positive class at or above it, else the most probable other class.
        probability: the probability of that class.
        probabilities: the probability of every class, in the model's order.
    """

    text: Text
    label: str
    probability: float
    probabilities: dict[str, float]


class Classifier(LabelledPredictor[ClassificationTask]):
    """A classifier ready to use: texts in, `Classification`s out.

    Arguments:
        model: a `TextEncoder` with one output for each class.
        task: tokenizer and classes.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    metric_names: ClassVar[tuple[str, ...]] = ("accuracy", "f1", "matthews_correlation")
    metrics_of_each: ClassVar[tuple[str, ...]] = OF_EACH_CLASS

    def classify(self, text: Text, *, positive: str | None = None, threshold: float | None = None) -> Classification:
        """The class of one text, or of a pair of texts.

        Arguments:
            positive: the class that the threshold applies to; None = the task's, by default the last of two classes.
            threshold: the least probability at which the positive class is predicted; below it the most probable other class is.
                None = the task's threshold; where it has none, the most probable class is predicted.

        Raises:
            InputError: for an empty text, a pair where the model takes one text, or one text where it takes a pair; for an
                unknown class, or a threshold that is not between 0 and 1.
        """
        return self.classify_batch([text], positive=positive, threshold=threshold)[0]

    def classify_batch(
        self, texts: Sequence[Text], *, positive: str | None = None, threshold: float | None = None
    ) -> list[Classification]:
        """The classes of many texts, in the order of the texts.

        Raises:
            InputError: as `classify`.
        """
        least = self.task.threshold if threshold is None else threshold
        decided = self.task.positive_class(positive, least)
        return self.answers(texts, lambda text, probabilities: self._said(text, probabilities, decided, least))

    def from_logits(self, logits: Tensor) -> Tensor:
        """The probability of every class."""
        return logits.softmax(dim=-1)

    def probabilities(self, inputs: Sequence[Joined]) -> Tensor:
        """The probability of every class, (N, classes) float32, for tokenized inputs."""
        return self.values(inputs)

    def _said(
        self, text: Text, probabilities: Sequence[float], positive: str | None, threshold: float | None
    ) -> Classification:
        best = self.task.predicted(probabilities, positive, threshold)
        return Classification(
            text=text,
            label=self.task.classes[best],
            probability=probabilities[best],
            probabilities=dict(zip(self.task.classes, probabilities, strict=True)),
        )

    def validate(self, data: TokenStore, count: int) -> dict[str, float]:
        """Accuracy, F1 (of the positive class, else the mean over classes), Matthews' coefficient, and metrics of each class."""
        predicted = self._predicted(self.stored(data, count))
        return class_metrics(self.task, self.stored_labels(data, count), predicted, each=True)

    def _predicted(self, inputs: Sequence[Joined]) -> list[int]:
        """The numbers of the predicted classes, for tokenized inputs."""
        task = self.task
        positive = task.positive_class()
        return [task.predicted(row, positive, task.threshold) for row in self.probabilities(inputs).tolist()]

    def remarks(self, data: TokenStore) -> list[str]:
        """A warning for classes that are never predicted; with many classes also the scores of the largest."""
        classes = self.task.classes
        predicted = [classes[number] for number in self._predicted(self.stored(data, len(data)))]
        right = [classes[number] for number in self.stored_labels(data, len(data))]
        return remarks_of(classification_scores(right, predicted, classes).classes, "class")


def remarks_of(scores: Mapping[str, ClassScore], what: str) -> list[str]:
    """A warning for classes that are never predicted; with many classes, which the run does not show, scores of the largest."""
    named = {name: of for name, of in scores.items() if of.gold}
    lines: list[str] = []
    if len(scores) > MOST_SHOWN:
        shown = sorted(named.items(), key=lambda each: -each[1].gold)[:MOST_SHOWN]
        width = max((len(name) for name, _ in shown), default=0)
        lines += ["on the validation data:"]
        lines += [f"  {name:<{width}}  {class_text(of.precision, of.recall, of.f1, of.gold)}" for name, of in shown]
        if len(named) > len(shown):
            smaller = f"{what}es" if what == "class" else f"{what}s"
            lines.append(f"  ... and {len(named) - len(shown)} smaller {smaller}; regard evaluate shows all")
    missed = [name for name, of in named.items() if not of.predicted]
    lines += [
        f"warning: the {what} {name!r} is never predicted, but {named[name].gold:,} validation examples have it; train longer, "
        "give more examples of it, or set data.class_weights=balanced"
        for name in missed[:5]
    ]
    return lines


def class_metrics(
    task: ClassificationTask,
    right: Sequence[int],
    predicted: Sequence[int],
    *,
    positive: str | None = None,
    each: bool = False,
) -> dict[str, float]:
    """The metrics of predictions; labels and predictions are numbers of classes.

    Arguments:
        positive: the class that F1 is computed for; None = the task's.
        each: whether to include the metrics of each class.
    """
    names = task.classes
    gold, said = ([names[number] for number in numbers] for numbers in (right, predicted))
    scores = classification_scores(gold, said, names)
    of = task.positive_class(positive)
    found = own_scores(task.name, said, gold) | {
        "accuracy": scores.accuracy,
        "f1": scores.macro_f1 if of is None else scores.classes[of].f1,
        "matthews_correlation": scores.matthews_correlation,
    }
    return found | (by_class(scores.classes) if each else {})


def prepare_classes(
    data: LabelledData, tokenizer: EncoderTokenizerSettings, folder: Path, *, seed: int, **given: Any
) -> Prepared[ClassificationTask]:
    """As `prepare_labelled`, for one class of each text.

    Raises:
        InputError: for data that cannot be read, too little data, or a label that is not in the training data.
    """

    def decide(splits: Splits[LabelledText], shared: dict[str, Any]) -> Decided[ClassificationTask]:
        classes = _classes(data, splits)
        if data.positive is not None and data.positive not in classes:
            raise InputError(
                f"data.positive is {data.positive!r}, which is no class; {nearest(data.positive, classes)}"
            )
        if data.threshold is not None and judged_class(classes, data.positive) is None:
            raise InputError(
                f"data.threshold is given, and with {len(classes)} classes it needs a positive class; name one as data.positive"
            )
        counts = Counter(label_of(text) for text in splits.train())
        task = ClassificationTask(
            **shared,
            classes=classes,
            class_weights=weights_of(data, classes, counts),
            positive=data.positive,
            threshold=data.threshold,
        )

        def numbers(text: LabelledText) -> list[int]:
            return [task.number_of(label_of(text), where_of(text))]

        return task, numbers, too_few_notes(classes, counts)

    return prepare_labelled(
        ClassificationTask,
        data,
        tokenizer,
        folder,
        seed=seed,
        decide=decide,
        number=False,
        class_of=label_of,
        **given,
    )


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


def weights_of(data: LabelledData, classes: tuple[str, ...], counts: Mapping[str, int]) -> tuple[float, ...] | None:
    """The weight of each class in the loss; None where all weights are equal.

    Raises:
        InputError: where the given weights do not name exactly the classes.
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


def too_few_notes(classes: Sequence[str], counts: Mapping[str, int], called: str = "class") -> list[str]:
    """Notes on classes with very few training examples."""
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


MANY = 1_000
"""The maximum number of classes; with more, the labels are probably texts or numbers, which is an error."""


def known_labels(name: str) -> tuple[str, ...]:
    """The classes of a format, in their order; empty if the format does not define them."""
    return LABELLED_FORMATS[name].labels if name in LABELLED_FORMATS else ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassificationEvaluation(Evaluation):
    """The results of an evaluation: `predictions` are `Classification`s.

    Its metrics are `accuracy`; `f1`, of the positive class, or the mean over classes where there is none; `matthews_correlation`.

    Arguments:
        classes: precision, recall and F1 of each class by name.
        positive: the class that `f1` is computed for; None where it is the mean over classes.
        threshold: the least probability at which that class was predicted; None where the most probable class was predicted.
    """

    classes: dict[str, ClassScore]
    positive: str | None = None
    threshold: float | None = None


def evaluate_classes(
    model: Classifier, examples: Any, *, positive: str | None = None, threshold: float | None = None
) -> ClassificationEvaluation:
    """Compare the classes of examples with those that a model predicts.

    Arguments:
        examples: `LabelledText`s, or (text, label), where text may be a pair.
        positive: the class that F1 is computed for and the threshold applies to; None = the task's.
        threshold: the least probability at which it is predicted; None = the task's.

    Raises:
        InputError: for an empty list, or a label that the model does not have; for an unknown class, or a threshold that is not
            between 0 and 1.
    """
    least = model.task.threshold if threshold is None else threshold
    of = model.task.positive_class(positive, least)
    texts = LABELLED.to_measure(examples)
    right = [model.task.number_of(label_of(text), where_of(text)) for text in texts]
    predictions = model.classify_batch([content_of(text) for text in texts], positive=of, threshold=least)
    predicted = [model.task.classes.index(prediction.label) for prediction in predictions]
    names = model.task.classes
    scores = classification_scores([names[i] for i in right], [names[i] for i in predicted], names)
    return ClassificationEvaluation(
        metrics=class_metrics(model.task, right, predicted, positive=of),
        count=len(texts),
        classes=scores.classes,
        positive=of,
        threshold=least,
        predictions=tuple(predictions),
    )


def class_record(task: ClassificationTask, example: LabelledText, said: Classification) -> dict[str, Any]:
    """An example, its class and the predicted class, by name."""
    del task
    found = {"label": label_of(example), "predicted": said.label, "probability": said.probability}
    return record_of(example, found | {"probabilities": said.probabilities})


def classifier_from_hf(folder: Path, config: Any) -> ClassificationTask:
    """The task of a classifier's folder: its tokenizer, and its classes as config.json names them.

    Whether it reads texts or pairs is not recorded there, so both are accepted.

    Raises:
        InputError: where there is not one name for each output, or there is no tokenizer.
    """
    return ClassificationTask(**settings_from_hf(folder, config), classes=names_of(folder, config.outputs))


CLASSIFICATION = TaskSpec(
    task=ClassificationTask,
    predictor=Classifier,
    interface="whole_text",
    sections={"data": LabelledData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_classes,
    examples=LABELLED,
    evaluate=evaluate_classes,
    read=labelled(number=False, rest=True).named,
    record=class_record,
    derived_config=encoder_config("sequence", 2),
    derived_if_present=OF_SENTENCE_ENCODERS,
    from_hf=classifier_from_hf,
)
