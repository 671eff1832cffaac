"""Analogies by the sections of their file: man is to king as woman is to what."""

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
"""How the names of sections begin that are about forms of words."""

SCORES = 1 << 23
"""Scores that are in memory together."""


class Question(NamedTuple):
    """`a` is to `b` as `c` is to `d`."""

    a: str
    b: str
    c: str
    d: str


class Answer(NamedTuple):
    """What was answered: a word, or None where a word of the question has no vector; and whether it is right."""

    section: str
    question: Question
    word: str | None
    right: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class AnalogySet:
    """Questions by section, under a name.

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
    """How many questions of a section, or of several, were answered rightly.

    Arguments:
        name: of the section.
        correct: right answers.
        asked: questions that count.
        unknown: questions with a word that has no vector.
        accuracy: correct over asked; None where nothing was asked.
    """

    name: str
    correct: int
    asked: int
    unknown: int
    accuracy: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AnalogyResult:
    """What `evaluate_analogies` found.

    Arguments:
        name: of the set.
        method, with_given: how it was asked.
        sections: in the order of the file.
        semantic, syntactic: sections together; those whose name begins with "gram" are syntactic. None where there are none such.
        total: all.
        interval: of the accuracy over questions sampled again. Questions of one section share their words, so that with other
            words it would move further.
        answers: each, in the order of the file; not in the JSON.
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
        told = {name: None if each is None else asdict(each) for name, each in scores.items()}
        return {name: getattr(self, name) for name in names} | parts | told


def read_analogies(path: Path | str, malformed: MalformedRows | None = None) -> AnalogySet:
    r"""Questions in the format of word2vec's questions-words.txt: ": NAME" begins a section, then four words on each line.

    Arguments:
        path: the file, gzip or not; its name without ending is the set's.
        malformed: where to count lines without four words.

    Raises:
        InputError: for a file that cannot be read, or has no question.

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
    """The share of analogies whose fourth word is the first answer, by section (Mikolov et al. 2013; Levy and Goldberg 2014).

    Answers are words of the table, the three of the question left out; where the case of letters is ignored, in all their forms.
    With the defaults the figures are those of gensim's `evaluate_word_analogies` (which looks at the five best answers only: it
    differs where all five are forms of the three words).

    Arguments:
        method: 3CosAdd (`add`) or 3CosMul (`multiply`), see `regard.word_embeddings.analogy`.
        unknown: what becomes of a question with a word that the table does not have.
        case, among: how words are found, and among how many answers are looked for; see `Lookup`.
        with_given: let the three words be answers too. Accuracy then falls to almost nothing, since the nearest is mostly b or c
            (Linzen 2016): so much of it is owed to the exclusion.
        resamples: how often questions are sampled again for the interval; 0 for none.
        seed: of this sampling.

    Raises:
        InputError: for a way that does not exist.

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
    """The row of the best answer to each question, by pieces."""
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
    """Where the words of questions have other forms in the table: which question, and which group of rows."""
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
