"""Metrics of predicted classes: accuracy, precision, recall, F1, Matthews correlation; and of typed spans of words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from regard.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassScore:
    """Precision, recall and F1 of one class.

    Arguments:
        precision: correct over predicted; 0 where none was predicted.
        recall: correct over gold; 0 where there is none.
        f1: harmonic mean of the two; 0 where both are 0.
        gold, predicted, correct: the number of examples of the class, predicted as the class, and both.
    """

    precision: float
    recall: float
    f1: float
    gold: int
    predicted: int
    correct: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassificationScores:
    """What `classification_scores` found.

    Arguments:
        accuracy: the fraction of examples whose class is right.
        macro_f1: mean of the classes' F1.
        micro_f1: F1 of all decisions pooled; with one class per example it equals accuracy, unless classes were left out.
        weighted_f1: mean of the classes' F1, weighted by their number of gold examples.
        matthews_correlation: over all classes, in [-1, 1].
        classes: the scores of each class by its name.
        count: number of examples.
    """

    accuracy: float
    macro_f1: float
    micro_f1: float
    weighted_f1: float
    matthews_correlation: float
    classes: dict[str, ClassScore]
    count: int


def class_score(gold: int, predicted: int, correct: int) -> ClassScore:
    """Precision, recall and F1 = 2PR / (P + R) from three counts.

    >>> class_score(gold=4, predicted=2, correct=1).f1
    0.3333333333333333
    """
    precision = correct / predicted if predicted else 0.0
    recall = correct / gold if gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
    return ClassScore(precision=precision, recall=recall, f1=f1, gold=gold, predicted=predicted, correct=correct)


def accuracy(gold: Sequence[Hashable], predicted: Sequence[Hashable]) -> float:
    """The fraction of examples whose prediction is right.

    Raises:
        InputError: without examples, and for different numbers of examples and predictions.

    >>> accuracy(["spam", "ham", "ham"], ["spam", "ham", "spam"])
    0.6666666666666666
    """
    check_alike(gold, predicted)
    return sum(right == answer for right, answer in zip(gold, predicted, strict=True)) / len(gold)


def f1(gold: Sequence[Hashable], predicted: Sequence[Hashable], *, positive: Hashable) -> float:
    """F1 of one class, the `positive` one, as reported for MRPC and QQP; 0 where no prediction of it is right.

    Raises:
        InputError: as `accuracy`.

    >>> f1(["spam", "ham", "ham"], ["spam", "ham", "spam"], positive="spam")
    0.6666666666666666
    """
    check_alike(gold, predicted)
    return _score_of(positive, *_counts(gold, predicted)).f1


def matthews_correlation(gold: Sequence[Hashable], predicted: Sequence[Hashable]) -> float:
    """Matthews correlation of two classes, or of more (Gorodkin 2004), as reported for CoLA.

    With c of s examples right, and class k gold t_k times and predicted p_k times:
    (c s - Σ p_k t_k) / sqrt((s² - Σ p_k²) (s² - Σ t_k²)). It is 0 where all gold classes or all predictions are the same, as in
    scikit-learn.

    Raises:
        InputError: as `accuracy`.

    >>> matthews_correlation([1, 1, 0, 0], [1, 0, 0, 0])
    0.5773502691896258
    """
    check_alike(gold, predicted)
    golds, guesses, right = _counts(gold, predicted)
    total, correct = len(gold), right.total()
    covariance = correct * total - sum(count * guesses[label] for label, count in golds.items())
    variances = [total**2 - sum(count**2 for count in counts.values()) for counts in (golds, guesses)]
    return covariance / math.sqrt(variances[0] * variances[1]) if all(variances) else 0.0


def classification_scores(
    gold: Sequence[Hashable], predicted: Sequence[Hashable], labels: Sequence[Hashable] | None = None
) -> ClassificationScores:
    """All metrics of predicted classes.

    Arguments:
        gold: the right class of each example.
        predicted: the predicted one.
        labels: the classes to average over, in their order; None for all that occur, sorted by name.

    Raises:
        InputError: as `accuracy`.

    >>> scores = classification_scores(["spam", "ham", "ham"], ["spam", "ham", "spam"])
    >>> round(scores.macro_f1, 3), scores.classes["ham"].recall
    (0.667, 0.5)
    """
    check_alike(gold, predicted)
    golds, guesses, right = _counts(gold, predicted)
    names = sorted(golds.keys() | guesses.keys(), key=str) if labels is None else list(labels)
    classes = {str(label): _score_of(label, golds, guesses, right) for label in names}
    found = list(classes.values())
    weight = sum(score.gold for score in found)
    pooled = class_score(weight, sum(score.predicted for score in found), sum(score.correct for score in found))
    return ClassificationScores(
        accuracy=right.total() / len(gold),
        macro_f1=sum(score.f1 for score in found) / len(found) if found else 0.0,
        micro_f1=pooled.f1,
        weighted_f1=sum(score.f1 * score.gold for score in found) / weight if weight else 0.0,
        matthews_correlation=matthews_correlation(gold, predicted),
        classes=classes,
        count=len(gold),
    )


OF_EACH_CLASS = ("precision", "recall", "f1", "examples")
"""The metrics that `by_class` returns for each class."""


def by_class(classes: Mapping[str, ClassScore]) -> dict[str, float]:
    """The scores of each class as named metrics such as `f1.spam`; `examples.spam` is the number of gold examples.

    >>> list(by_class({"spam": class_score(gold=4, predicted=2, correct=1)}).items())[1:]
    [('recall.spam', 0.25), ('f1.spam', 0.3333333333333333), ('examples.spam', 4.0)]
    """
    return {
        f"{metric}.{name}": value
        for name, of in classes.items()
        for metric, value in zip(OF_EACH_CLASS, (of.precision, of.recall, of.f1, float(of.gold)), strict=True)
    }


def judged_class(classes: Sequence[str], positive: str | None) -> str | None:
    """The class whose F1 is reported: the positive one, else the second of two; None for more, where F1 is the mean.

    >>> judged_class(["ham", "spam"], None), judged_class(["ham", "spam"], "ham"), judged_class(["a", "b", "c"], None)
    ('spam', 'ham', None)
    """
    return positive if positive is not None else classes[-1] if len(classes) == 2 else None


def f1_in_words(classes: Sequence[str], positive: str | None) -> str:
    """The name of F1 with its class.

    >>> f1_in_words(["ham", "spam"], None), f1_in_words(["a", "b", "c"], None)
    ('F1 of spam', 'F1 (mean of 3 classes)')
    """
    of = judged_class(classes, positive)
    return f"F1 of {of}" if of is not None else f"F1 (mean of {len(classes)} classes)"


@dataclass(frozen=True, kw_only=True, slots=True)
class MultiLabelScores:
    """The scores of `multi_label_scores`.

    Arguments:
        exact_match: the fraction of examples for which exactly the right labels are predicted.
        micro_f1: F1 of the decisions about all labels, pooled.
        macro_f1: mean of the labels' F1.
        classes: the scores of each label by its name.
        count: number of examples.
    """

    exact_match: float
    micro_f1: float
    macro_f1: float
    classes: dict[str, ClassScore]
    count: int


def multi_label_scores(
    gold: Sequence[Iterable[Hashable]], predicted: Sequence[Iterable[Hashable]], labels: Sequence[Hashable]
) -> MultiLabelScores:
    """All metrics of predicted sets of labels, computed as in scikit-learn with `zero_division=0`.

    Arguments:
        gold: the right labels of each example; may be empty.
        predicted: the predicted ones.
        labels: all labels, in order; others are not counted.

    Raises:
        InputError: as `accuracy`.

    >>> scores = multi_label_scores([{"red", "old"}, {"red"}, set()], [{"red"}, {"red", "old"}, set()], ["old", "red"])
    >>> round(scores.exact_match, 3), round(scores.micro_f1, 3), scores.macro_f1
    (0.333, 0.667, 0.5)
    """
    check_alike(gold, predicted)
    golds, guesses = [frozenset(each) for each in gold], [frozenset(each) for each in predicted]
    pairs = list(zip(golds, guesses, strict=True))
    classes = {
        str(label): class_score(
            sum(label in each for each in golds),
            sum(label in each for each in guesses),
            sum(label in right and label in answer for right, answer in pairs),
        )
        for label in labels
    }
    found = list(classes.values())
    pooled = class_score(*(sum(getattr(each, name) for each in found) for name in ("gold", "predicted", "correct")))
    return MultiLabelScores(
        exact_match=sum(right == answer for right, answer in pairs) / len(pairs),
        micro_f1=pooled.f1,
        macro_f1=sum(each.f1 for each in found) / len(found) if found else 0.0,
        classes=classes,
        count=len(pairs),
    )


def check_alike(gold: Sequence, predicted: Sequence) -> None:
    """Refuse examples and predictions that cannot be compared one by one.

    Raises:
        InputError: without examples, and for different numbers of examples and predictions.
    """
    if len(gold) != len(predicted):
        raise InputError(
            f"{len(gold):,} examples and {len(predicted):,} predictions; give one prediction for each example"
        )
    if not len(gold):
        raise InputError("there is nothing to compare; give at least one example")


def _counts(gold: Sequence[Hashable], predicted: Sequence[Hashable]) -> tuple[Counter, Counter, Counter]:
    """The numbers of times that each class is gold, is predicted, and is predicted rightly."""
    right = Counter(label for label, guess in zip(gold, predicted, strict=True) if label == guess)
    return Counter(gold), Counter(predicted), right


def _score_of(label: Hashable, golds: Counter, guesses: Counter, right: Counter) -> ClassScore:
    return class_score(golds[label], guesses[label], right[label])


# Typed spans of words, such as named entities: precision, recall and F1 as in `conlleval`.


Chunk = tuple[str, int, int]
"""Type, index of the first word, index after the last word; `regard.data.tags.Span` is one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkScores:
    """The scores of `chunk_scores`.

    Arguments:
        overall: over all spans; `gold`, `predicted` and `correct` count spans.
        types: for each type, over its spans, in alphabetical order.
    """

    overall: ClassScore
    types: dict[str, ClassScore]

    def table(self) -> str:
        """The output of `conlleval`, to the last digit, without its counts of words and of right tags."""
        whole = self.overall
        lines = [f"{whole.gold} phrases; found: {whole.predicted} phrases; correct: {whole.correct}."]
        for name, score in (("overall", whole), *self.types.items()):
            lines.append(f"{name:>17}: {_percentages(score)}  {score.predicted}")
        return "\n".join(lines)


def _percentages(score: ClassScore) -> str:
    # From the counts and in the script's order, since 100 * (1/3) and 100 * 1 / 3 may round differently.
    precision = 100 * score.correct / score.predicted if score.predicted else 0.0
    recall = 100 * score.correct / score.gold if score.gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if score.correct else 0.0
    return f"precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}"


def chunk_scores(gold: Sequence[Iterable[Chunk]], predicted: Sequence[Iterable[Chunk]]) -> ChunkScores:
    """Precision, recall and F1 of spans; a span is right when its type and both its ends are.

    Spans come from tags by `regard.data.tags.spans_of`, which handles invalid tag sequences as `conlleval` does. The scores are
    that script's for BIO and IOB1, and for BIOES and BILOU its scores for the same spans in BIO. The accuracy of tags, which it
    prints too, is `regard.metrics.classification.accuracy` of the concatenated tags.

    Arguments:
        gold: the right spans of each sentence.
        predicted: the predicted ones.

    Raises:
        InputError: without sentences, and for different numbers of sentences and predictions.

    >>> scores = chunk_scores([[("PER", 0, 2), ("LOC", 4, 5)]], [[("PER", 0, 2), ("LOC", 3, 5)]])
    >>> scores.overall.f1, scores.types["PER"].f1
    (0.5, 1.0)
    """
    if len(gold) != len(predicted):
        raise InputError(
            f"{len(gold):,} sentences and {len(predicted):,} predictions; give one prediction for each sentence"
        )
    if not gold:
        raise InputError("there is nothing to compare; give at least one sentence")
    right, guesses, both = Counter[str](), Counter[str](), Counter[str]()
    for sentence, guess in zip(gold, predicted, strict=True):
        one, other = {tuple(chunk) for chunk in sentence}, {tuple(chunk) for chunk in guess}
        for counts, chunks in ((right, one), (guesses, other), (both, one & other)):
            counts.update(str(chunk[0]) for chunk in chunks)
    types = {
        name: class_score(right[name], guesses[name], both[name]) for name in sorted(right.keys() | guesses.keys())
    }
    return ChunkScores(overall=class_score(right.total(), guesses.total(), both.total()), types=types)
