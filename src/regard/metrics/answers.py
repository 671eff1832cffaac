"""Metrics of texts against references: exact match and F1 as in SQuAD 1.1 and 2.0, and ROUGE."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.errors import InputError

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

Answers = Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerScores:
    """Exact match and F1, both in [0, 100], and the number of questions."""

    exact_match: float
    f1: float
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Threshold:
    """The best score over thresholds on the no-answer probability, in [0, 100], and the lowest such threshold."""

    score: float
    threshold: float


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerableScores:
    """The scores of `squad2_scores`.

    Arguments:
        overall: over all questions.
        has_answer, no_answer: over the questions with an answer, and over those without; None where there are none of them.
        best_exact_match, best_f1: at the best threshold; None without no-answer probabilities.
    """

    overall: AnswerScores
    has_answer: AnswerScores | None
    no_answer: AnswerScores | None
    best_exact_match: Threshold | None = None
    best_f1: Threshold | None = None


def normalized(text: str) -> str:
    """Normalize an answer for comparison: lower case, no ASCII punctuation, no English articles, single spaces.

    >>> normalized("The  cat's (big) Hat!")
    'cats big hat'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(answers: Sequence[str], prediction: str) -> float:
    """1 where the prediction is one of the answers, all normalized, else 0.

    >>> exact_match(["Eiffel Tower", "Paris"], "the Eiffel Tower")
    1.0
    """
    return float(normalized(prediction) in map(normalized, answers))


def token_f1(answers: Sequence[str], prediction: str) -> float:
    """F1 of the prediction's words and an answer's, all normalized; the best over the answers.

    >>> token_f1(["Eiffel Tower", "Paris"], "the tall Eiffel Tower")
    0.8
    """
    predicted = normalized(prediction).split()
    return max((_overlap(predicted, normalized(answer).split()) for answer in answers), default=0.0)


def _overlap(predicted: list[str], right: list[str]) -> float:
    same = (Counter(predicted) & Counter(right)).total()
    if same == 0:
        return 0.0
    precision, recall = same / len(predicted), same / len(right)
    return (2 * precision * recall) / (precision + recall)


def squad_scores(answers: Answers, predictions: Mapping[str, str]) -> AnswerScores:
    """Exact match and F1 as `evaluate-v1.1.py` computes them: a question without a prediction has score 0.

    Arguments:
        answers: the correct answers of each question, one at least, by its id.
        predictions: one for each question, by id; other ids are ignored.

    Raises:
        InputError: without a question, and for a question without an answer.

    >>> squad_scores({"1": ["Paris"], "2": ["in May", "May"]}, {"1": "Paris", "2": "early May"})
    AnswerScores(exact_match=50.0, f1=83.33333333333333, count=2)
    """
    without = next((id for id, texts in answers.items() if not texts), None)
    if without is not None:
        raise InputError(
            f"question {without!r} has no answer; questions without one are of SQuAD 2.0, so use its metric"
        )
    exact, f1 = squad_values(answers, predictions)
    return _mean(list(exact.values()), list(f1.values()))


def squad_values(answers: Answers, predictions: Mapping[str, str]) -> tuple[dict[str, float], dict[str, float]]:
    """Exact match and F1 of each question by its id, in [0, 1]; 0 without a prediction.

    >>> squad_values({"1": ["Paris"]}, {"1": "Paris, France"})
    ({'1': 0.0}, {'1': 0.6666666666666666})
    """
    found = {id: predictions[id] for id in answers if id in predictions}
    exact = {id: exact_match(texts, found[id]) if id in found else 0.0 for id, texts in answers.items()}
    f1 = {id: token_f1(texts, found[id]) if id in found else 0.0 for id, texts in answers.items()}
    return exact, f1


def squad2_scores(
    answers: Answers,
    predictions: Mapping[str, str],
    no_answer: Mapping[str, float] | None = None,
    *,
    threshold: float = 1.0,
) -> AnswerableScores:
    """Exact match and F1 as `evaluate-v2.0.py` computes them, over all questions and over those with and without answers.

    An empty prediction means "no answer". Answers that are empty when normalized are ignored.

    Arguments:
        answers: the correct answers of each question by its id; empty for a question without an answer.
        predictions: one for each question, by id.
        no_answer: the probability, or another increasing score, that a question has no answer, by id; None where not known.
        threshold: a question whose `no_answer` is above it counts as predicted to have no answer.

    Raises:
        InputError: without a question; for a question without a prediction, or without a `no_answer` where these are given.

    >>> scores = squad2_scores({"1": ["Paris"], "2": []}, {"1": "Paris", "2": "May"}, {"1": 0.1, "2": 0.9})
    >>> scores.overall.exact_match, scores.best_exact_match
    (50.0, Threshold(score=100.0, threshold=0.1))
    """
    for what, given in (("prediction", predictions), ("no-answer probability", no_answer)):
        missing = [] if given is None else [id for id in answers if id not in given]
        if missing:
            shown = ", ".join(map(repr, missing[:3])) + (", ..." if len(missing) > 3 else "")
            raise InputError(
                f"{len(missing):,} of {len(answers):,} questions have no {what} ({shown}); give one for each"
            )
    exact, f1 = _answerable_values(answers, predictions)
    answerable = {id: bool(texts) for id, texts in answers.items()}
    kept_exact, kept_f1 = exact, f1
    if no_answer is not None:
        silent = {id: no_answer[id] > threshold for id in answers}
        kept_exact = {id: float(not answerable[id]) if silent[id] else value for id, value in exact.items()}
        kept_f1 = {id: float(not answerable[id]) if silent[id] else value for id, value in f1.items()}

    def over(ids: list[str]) -> AnswerScores | None:
        return _mean([kept_exact[id] for id in ids], [kept_f1[id] for id in ids]) if ids else None

    return AnswerableScores(
        overall=_mean(list(kept_exact.values()), list(kept_f1.values())),
        has_answer=over([id for id in answers if answerable[id]]),
        no_answer=over([id for id in answers if not answerable[id]]),
        best_exact_match=None if no_answer is None else best_threshold(exact, predictions, no_answer, answerable),
        best_f1=None if no_answer is None else best_threshold(f1, predictions, no_answer, answerable),
    )


def best_threshold(
    values: Mapping[str, float],
    predictions: Mapping[str, str],
    no_answer: Mapping[str, float],
    answerable: Mapping[str, bool],
) -> Threshold:
    """The threshold on no-answer probabilities with the best mean score, searched as in `evaluate-v2.0.py`.

    The search starts with every question predicted as unanswerable, and accepts predictions in ascending order of probability;
    equal ones in the order of `no_answer`.

    Arguments:
        values: the score of each prediction in [0, 1], by the question's id.
        predictions: the predicted texts.
        no_answer: the probability that a question has no answer.
        answerable: whether it has an answer.
    """
    score = best = float(sum(not has for has in answerable.values()))
    threshold = 0.0
    for id in sorted(no_answer, key=lambda id: no_answer[id]):
        if id not in values:
            continue
        score += values[id] if answerable[id] else -1.0 if predictions[id] else 0.0
        if score > best:
            best, threshold = score, no_answer[id]
    return Threshold(score=100.0 * best / len(values), threshold=threshold)


def _answerable_values(answers: Answers, predictions: Mapping[str, str]) -> tuple[dict[str, float], dict[str, float]]:
    exact: dict[str, float] = {}
    f1: dict[str, float] = {}
    for id, texts in answers.items():
        right = [text for text in texts if normalized(text)] or [""]
        exact[id] = exact_match(right, predictions[id])
        # For a question without an answer, F1 is 1 if the prediction is empty and 0 if not.
        f1[id] = exact[id] if right == [""] else token_f1(right, predictions[id])
    return exact, f1


def _mean(exact: list[float], f1: list[float]) -> AnswerScores:
    if not exact:
        raise InputError("there is no question to score; give at least one")
    count = len(exact)
    return AnswerScores(exact_match=100.0 * sum(exact) / count, f1=100.0 * sum(f1) / count, count=count)


# ROUGE, as Google's own package computes it.


NAMES = ("rouge1", "rouge2", "rougeL")


def rouge_scores(texts: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """The mean F of ROUGE-1, ROUGE-2 and ROUGE-L over texts, in [0, 100] (Lin 2004).

        F = 2 P R / (P + R),   P and R the overlap in words, bigrams or the longest common subsequence, divided by
                               their number in the text (P) and in the reference (R)

    Computed by the package `rouge_score`: lower case, Porter stemming, only words of ASCII letters and digits, so it is
    meaningless for languages in other scripts. Of several references, the one with the best F counts, for each measure
    separately.

    Arguments:
        texts: the summaries.
        references: the reference summaries of each, one at least.

    Raises:
        InputError: without texts.
        ImportError: where `rouge_score` is not installed.

    >>> {name: round(value, 1) for name, value in rouge_scores(["a cat sat"], [["the cat sat"]]).items()}
    {'rouge1': 66.7, 'rouge2': 50.0, 'rougeL': 66.7}
    """
    from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-not-found]

    if not texts:
        raise InputError("there is no text to score; give at least one")
    scorer = RougeScorer(NAMES, use_stemmer=True)
    sums = dict.fromkeys(NAMES, 0.0)
    for text, right in zip(texts, references, strict=True):
        for name, score in scorer.score_multi(list(right), text).items():
            sums[name] += score.fmeasure
    return {name: 100 * total / len(texts) for name, total in sums.items()}
