"""A tagger of words on their vectors and those of their neighbours."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from regard.data.tagged import TaggedSentence
from regard.data.tags import Scheme, convert, scheme_of, spans_of
from regard.errors import InputError
from regard.metrics.bootstrap import Interval, bootstrap_interval
from regard.vectors.evaluation.extrinsic.pairs import count_f1
from regard.vectors.evaluation.extrinsic.result import ExtrinsicResult
from regard.vectors.evaluation.extrinsic.task_words import TaskWords, Unknown, gathered
from regard.vectors.evaluation.extrinsic.window_model import fit_windows, windows_around
from regard.vectors.evaluation.lookup import Case
from regard.vectors.store import WordVectors

Tags = Sequence[str]


def evaluate_tagging(
    vectors: WordVectors,
    train: Sequence[TaggedSentence],
    test: Sequence[TaggedSentence],
    *,
    reach: int = 2,
    c: float = 0.1,
    unknown: Unknown = "subwords",
    case: Case = "lower",
    resamples: int = 1000,
    seed: int = 0,
) -> ExtrinsicResult:
    """The F1 of spans of logistic regression on a word's vector beside its neighbours'.

    An extrinsic task as those of Schnabel et al. (2015). The vectors are frozen, and brought to mean 0 and variance 1 over the
    training words that have one; words that have none, and places beyond the ends of a sentence, are zeros. Every word is tagged
    by itself. F1 is conlleval's, where the tags mark spans; else, as of parts of speech, the accuracy is all there is. Floors:
    vectors drawn at random for the same words, and the tag that each word has most often in training, for an unseen one the
    commonest.

    Arguments:
        train, test: as `regard.data.tagged.read_tagged` gives them.
        reach: neighbours on each side.
        c: one over the weight of the penalty.
        unknown, case, resamples, seed: as for `evaluate_classification`; the bootstrap draws sentences.

    Raises:
        InputError: for data without sentences or a second tag; spans in `test` that are not in the scheme of `train`; where no
            word has a vector; and where scipy is missing.
    """
    if reach < 0:
        raise InputError(f"reach is {reach}; give 0 or more neighbours")
    data = _Tagged.of(train, test)
    task = gathered(vectors, [each.words for each in (*train, *test)], unknown=unknown, case=case)

    def scores(task: TaskWords) -> tuple[dict[str, Interval], int]:
        said, steps = _predicted(task, train, data.train, test, reach, c)
        return data.scores(said, resamples, seed), steps

    found, steps = scores(task)
    return ExtrinsicResult(
        task="tagging",
        vectors=vectors.name,
        scores=found,
        floors={
            "random vectors": scores(task.redrawn(seed))[0],
            "commonest tag of the word": data.scores(_commonest(train, data.train, test), resamples, seed),
        },
        coverage=task.coverage(each.words for each in test),
        train=len(train),
        test=len(test),
        unknown=unknown,
        settings={
            "model": "logistic regression on a window",
            "reach": reach,
            "c": c,
            "case": case,
            "seed": seed,
            "steps": steps,
        },
    )


@dataclass(frozen=True, slots=True)
class _Tagged:
    """The tags of the sentences: in BIO where they mark spans, else as they stand."""

    train: list[Tags]
    test: list[Tags]
    scheme: Scheme | None

    @classmethod
    def of(cls, train: Sequence[TaggedSentence], test: Sequence[TaggedSentence]) -> _Tagged:
        for name, part in (("train", train), ("test", test)):
            if not part:
                raise InputError(f"{name}: holds no sentences; give one at least")
            bare = next((each for each in part if len(each.tags) != len(each.words)), None)
            if bare is not None:
                raise InputError(
                    f"{bare.file}, line {bare.line}: has no tag for each word; read the file with its tags"
                )
        if len({tag for each in train for tag in each.tags}) < 2:
            raise InputError("train: all words have one tag; give two tags at least")
        try:
            scheme = scheme_of(each.tags for each in train)
        except InputError:  # parts of speech, say
            return cls([each.tags for each in train], [each.tags for each in test], None)
        whole = [[convert(each.tags, scheme, "BIO") for each in part] for part in (train, test)]
        return cls(list(whole[0]), list(whole[1]), scheme)

    def scores(self, said: Sequence[Tags], resamples: int, seed: int) -> dict[str, Interval]:
        """Of predicted tags, in the same form."""
        pairs = list(zip(self.test, said, strict=True))
        words = np.array([[sum(a == b for a, b in zip(*pair, strict=True)), len(pair[0])] for pair in pairs])
        found: dict[str, Interval] = {}
        if self.scheme is not None:
            rows = np.array([_counts(*pair) for pair in pairs])
            found["f1"] = bootstrap_interval(rows, count_f1, resamples=resamples, seed=seed)
        found["accuracy"] = bootstrap_interval(words, _share, resamples=resamples, seed=seed)
        return found


def _counts(gold: Tags, said: Tags) -> tuple[int, int, int]:
    """Spans that are gold, predicted, and both."""
    right, told = set(spans_of(gold)), set(spans_of(said))
    return len(right), len(told), len(right & told)


def _share(rows: NDArray) -> float:
    right, all_ = rows.sum(axis=0)
    return float(right / all_)


def _predicted(
    task: TaskWords,
    train: Sequence[TaggedSentence],
    tags: Sequence[Tags],
    test: Sequence[TaggedSentence],
    reach: int,
    c: float,
) -> tuple[list[Tags], int]:
    """The tags of each test sentence, and the steps of training."""
    names = sorted({tag for sentence in tags for tag in sentence})
    numbers = {tag: number for number, tag in enumerate(names)}
    rows = [task.numbers(each.words) for each in train]
    matrix = scaled(task, np.concatenate(rows))
    classes = np.array([numbers[tag] for sentence in tags for tag in sentence], dtype=np.int64)
    padding = len(matrix) - 1
    model = fit_windows(matrix, windows_around(rows, reach, padding), classes, len(names), c=c)
    windows = windows_around([task.numbers(each.words) for each in test], reach, padding)
    best = model.logits(matrix, windows).argmax(axis=1).tolist()
    ends = np.cumsum([0, *(len(each.words) for each in test)]).tolist()
    said: list[Tags] = [tuple(names[number] for number in best[start:end]) for start, end in pairwise(ends)]
    return said, model.steps


def scaled(task: TaskWords, seen: NDArray[np.int64]) -> NDArray[np.float64]:
    """The vectors with mean 0 and variance 1 over the words seen that have one, and a row of zeros for no word, (V + 1, W)."""
    counts = np.bincount(seen, minlength=len(task.words)) * task.known
    matrix = task.matrix.astype(np.float64)
    mean = counts @ matrix / max(counts.sum(), 1)
    deviation = np.sqrt(counts @ (matrix - mean) ** 2 / max(counts.sum(), 1))
    matrix = (matrix - mean) / np.where(deviation > 0, deviation, 1.0)
    matrix[~task.known] = 0.0
    return np.concatenate([matrix, np.zeros((1, matrix.shape[1]))])


def _commonest(
    train: Sequence[TaggedSentence], tags: Sequence[Tags], test: Sequence[TaggedSentence]
) -> list[Sequence[str]]:
    """Each word with the tag it has most often in training; of those alike the first by name."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    overall = Counter[str]()
    for sentence, right in zip(train, tags, strict=True):
        for word, tag in zip(sentence.words, right, strict=True):
            counts[word][tag] += 1
            overall[tag] += 1

    def best(found: Counter[str]) -> str:
        return min(found, key=lambda tag: (-found[tag], tag))

    usual = best(overall)
    known = {word: best(found) for word, found in counts.items()}
    return [tuple(known.get(word, usual) for word in each.words) for each in test]
