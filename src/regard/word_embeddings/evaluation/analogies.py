"""Evaluation by analogies (man is to king as woman is to queen), by section of their file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.metrics.regression import Interval, bootstrap_interval
from regard.word_embeddings.evaluation.similarity import (
    Case,
    Lookup,
    Unknown,
    check_unknown,
    record_line,
    set_name,
    text_lines,
)
from regard.word_embeddings.neighbours import Method, analogy_scores
from regard.word_embeddings.store import WordVectors

SYNTACTIC = "gram"
"""The prefix of the names of syntactic sections."""

SCORES = 1 << 23
"""The number of scores that are in memory at a time."""


class Question(NamedTuple):
    """An analogy: `a` is to `b` as `c` is to `d`."""

    a: str
    b: str
    c: str
    d: str


class Answer(NamedTuple):
    """The answer to a question: a word (None if a word of the question has no vector), and whether it is right."""

    section: str
    question: Question
    word: str | None
    right: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class AnalogySet:
    """A named set of questions, grouped by section.

    Arguments:
        name: the name of the set.
        sections: (section name, questions) in order.

    Raises:
        InputError: for no questions.
    """

    name: str
    sections: Sequence[tuple[str, Sequence[Question]]]

    def __post_init__(self) -> None:
        if not any(questions for _, questions in self.sections):
            raise InputError(f"{self.name}: has no questions; give lines of four words, as in questions-words.txt")


@dataclass(frozen=True, kw_only=True, slots=True)
class SectionScore:
    """The accuracy on one section, or on several together.

    Arguments:
        name: the name of the section.
        correct: the number of right answers.
        asked: the number of questions that count.
        unknown: the number of questions with a word that has no vector.
        accuracy: correct / asked; None without questions.
    """

    name: str
    correct: int
    asked: int
    unknown: int
    accuracy: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AnalogyResult:
    """The result of `evaluate_analogies`.

    Arguments:
        name: the name of the set.
        method, with_given: the settings.
        sections: the score of each section, in the order of the file.
        semantic, syntactic: the scores over all semantic and all syntactic sections; the names of syntactic sections begin with
            "gram". None without such sections.
        total: the score over all questions.
        interval: bootstrap interval of the total accuracy over questions. Questions of a section share words, so the accuracy
            on other words varies more than the interval shows.
        answers: all answers, in the order of the file; not in the JSON.
    """

    name: str
    method: Method
    with_given: bool
    sections: tuple[SectionScore, ...]
    semantic: SectionScore | None
    syntactic: SectionScore | None
    total: SectionScore
    interval: Interval | None
    answers: tuple[Answer, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        names = ("name", "method", "with_given")
        parts = {"sections": [asdict(each) for each in self.sections]}
        scores = {name: getattr(self, name) for name in ("semantic", "syntactic", "total", "interval")}
        totals = {name: None if each is None else asdict(each) for name, each in scores.items()}
        return {name: getattr(self, name) for name in names} | parts | totals


def read_analogies(path: Path | str, malformed: MalformedRows | None = None) -> AnalogySet:
    r"""Read questions in the format of word2vec's questions-words.txt: ": NAME" begins a section, then four words per line.

    Arguments:
        path: the path of the file, plain or gzip; its name without ending becomes the name of the set.
        malformed: where lines without four words are recorded.

    Raises:
        InputError: if the file cannot be read, or has no question.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "small.txt"
    >>> _ = file.write_text(": family\nboy girl king queen\n")
    >>> read_analogies(file).sections
    (('family', [Question(a='boy', b='girl', c='king', d='queen')]),)
    """
    path, malformed = Path(path), MalformedRows() if malformed is None else malformed
    sections: list[tuple[str, list[Question]]] = []
    for number, line in text_lines(path, malformed):
        words = line.split()
        if words[0].startswith(":"):
            sections.append((line.strip().lstrip(":").strip(), []))
            continue
        if len(words) != 4:
            record_line(malformed, path, number, line, "not four words")
            continue
        if not sections:
            sections.append((set_name(path), []))
        sections[-1][1].append(Question(*words))
    if not any(questions for _, questions in sections):
        raise InputError(f"{path}: no line has four words; give analogies in the format of questions-words.txt")
    return AnalogySet(name=set_name(path), sections=tuple(sections))


def evaluate_analogies(
    vectors: WordVectors,
    analogies: AnalogySet,
    *,
    method: Method = "add",
    unknown: Unknown = "skip",
    case: Case = "ignore",
    among: int | None = None,
    with_given: bool = False,
    resamples: int = 1000,
    seed: int = 0,
) -> AnalogyResult:
    """The accuracy of the best answer to analogies, by section (Mikolov et al. 2013; Levy and Goldberg 2014).

    Answers are words of the table without the three words of the question (if case is ignored, without all their spellings).
    With the defaults the figures equal those of gensim's `evaluate_word_analogies`, except that gensim considers only the five
    best words, which differs if all five are spellings of the three words.

    Arguments:
        vectors: the word embeddings.
        analogies: the questions.
        method: 3CosAdd (`add`) or 3CosMul (`multiply`), see `regard.word_embeddings.analogy`.
        unknown: how a question with a word that is not in the table is treated, see `UNKNOWN`.
        case, among: how words are looked up, and the number of words that can be answers; see `Lookup`.
        with_given: also allow the three words of the question as answers. Accuracy then drops to almost zero, because the best
            word is usually b or c (Linzen 2016); this shows how much of the accuracy is due to their exclusion.
        resamples: the number of bootstrap resamples for the interval; 0 for none.
        seed: seed of the bootstrap.

    Raises:
        InputError: for an unknown value of `method`, `unknown` or `case`.

    >>> table = WordVectors(words=("man", "king", "woman", "queen"), matrix=np.array(
    ...     [[1, 0, 0], [1, 0, 1], [0, 1, 0], [0, 1, 1]], dtype=np.float32))
    >>> asked = AnalogySet(name="one", sections=[("family", [Question("man", "king", "woman", "queen")])])
    >>> evaluate_analogies(table, asked).total.correct
    1
    """
    check_unknown(unknown)
    lookup = Lookup(vectors=vectors, case=case, among=among)
    asked = [(section, question) for section, questions in analogies.sections for question in questions]
    rows = [[lookup.row(word) for word in question] for _, question in asked]
    known = [place for place, found in enumerate(rows) if None not in found]
    numbers = np.array([rows[place] for place in known], dtype=np.int64).reshape(-1, 4)
    best = np.concatenate([np.empty(0, np.int64), *_best(lookup, numbers[:, :3], method, with_given)])
    right = lookup.groups[best] == lookup.groups[numbers[:, 3]]
    answered = {place: (int(row), bool(ok)) for place, row, ok in zip(known, best, right, strict=True)}
    answers = tuple(
        Answer(section, question, vectors.words[answered[place][0]], answered[place][1])
        if place in answered
        else Answer(section, question, None, False)
        for place, (section, question) in enumerate(asked)
    )
    counted = [answer.right for answer in answers if unknown == "zero" or answer.word is not None]
    interval = bootstrap_interval(counted, resamples=resamples, seed=seed) if resamples and counted else None
    return _result(analogies, answers, unknown, method=method, with_given=with_given, interval=interval)


def _best(lookup: Lookup, triples: np.ndarray, method: Method, with_given: bool) -> Iterator[np.ndarray]:
    """The row of the best answer to each question, in batches."""
    vectors = lookup.vectors if lookup.size == len(lookup.vectors) else lookup.vectors.first(lookup.size)
    together = max(1, SCORES // len(vectors)) if len(vectors) else 1
    for start in range(0, len(triples), together):
        here = triples[start : start + together]
        scores = analogy_scores(vectors, np.asarray(vectors.matrix[here]), method)
        if not with_given:
            np.put_along_axis(scores, here, -np.inf, axis=1)
            for place, group in zip(*_with_forms(lookup, here), strict=True):
                scores[place, lookup.members[group]] = -np.inf
        yield scores.argmax(axis=1)


def _with_forms(lookup: Lookup, triples: np.ndarray) -> tuple[list[int], list[int]]:
    """The question numbers and group numbers for all words of questions that have other spellings in the table."""
    if not lookup.members:
        return [], []
    groups = lookup.groups[triples]
    places, columns = np.nonzero(np.isin(groups, list(lookup.members)))
    return places.tolist(), groups[places, columns].tolist()


def _result(analogies: AnalogySet, answers: tuple[Answer, ...], unknown: Unknown, **settings: Any) -> AnalogyResult:
    sections, start = [], 0
    for name, questions in analogies.sections:
        sections.append(_score(name, answers[start : start + len(questions)], unknown))
        start += len(questions)
    forms = [answer for answer in answers if answer.section.startswith(SYNTACTIC)]
    rest = [answer for answer in answers if not answer.section.startswith(SYNTACTIC)]
    return AnalogyResult(
        name=analogies.name,
        sections=tuple(sections),
        semantic=_score("semantic", rest, unknown) if forms and rest else None,
        syntactic=_score("syntactic", forms, unknown) if forms else None,
        total=_score("total", answers, unknown),
        answers=answers,
        **settings,
    )


def _score(name: str, answers: Sequence[Answer], unknown: Unknown) -> SectionScore:
    without = sum(answer.word is None for answer in answers)
    asked = len(answers) - (without if unknown == "skip" else 0)
    correct = sum(answer.right for answer in answers)
    return SectionScore(
        name=name, correct=correct, asked=asked, unknown=without, accuracy=correct / asked if asked else None
    )
