"""Metrics of spans of words with a type, such as named entities: precision, recall and F1 as `conlleval` counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from regard.errors import InputError
from regard.metrics.classification import ClassScore, class_score

Chunk = tuple[str, int, int]
"""Type, first word, word after the last; `regard.data.tags.Span` is one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkScores:
    """What `chunk_scores` found.

    Arguments:
        overall: of all spans together; `gold`, `predicted` and `correct` count spans.
        types: of the spans of each type, by its name, in alphabetical order.
    """

    overall: ClassScore
    types: dict[str, ClassScore]

    def table(self) -> str:
        """What `conlleval` prints of it, in its form and to its last digit; not the counts of words and of right tags."""
        whole = self.overall
        lines = [f"{whole.gold} phrases; found: {whole.predicted} phrases; correct: {whole.correct}."]
        for name, score in (("overall", whole), *self.types.items()):
            lines.append(f"{name:>17}: {_percentages(score)}  {score.predicted}")
        return "\n".join(lines)


def _percentages(score: ClassScore) -> str:
    # From the counts and in the script's order, since 100 * (1/3) may round otherwise than 100 * 1 / 3.
    precision = 100 * score.correct / score.predicted if score.predicted else 0.0
    recall = 100 * score.correct / score.gold if score.gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if score.correct else 0.0
    return f"precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}"


def chunk_scores(gold: Sequence[Iterable[Chunk]], predicted: Sequence[Iterable[Chunk]]) -> ChunkScores:
    """Precision, recall and F1 of spans; a span is right when its type and both its ends are.

    Spans come from tags by `regard.data.tags.spans_of`, which reads broken sequences as `conlleval` does; the figures are then
    that script's for BIO and IOB1, and for BIOES and BILOU what it says of the same spans in BIO. The tags' own accuracy, which
    it prints too, is `regard.metrics.classification.accuracy` of all tags in a row.

    Arguments:
        gold: the right spans of each sentence.
        predicted: the predicted ones.

    Raises:
        InputError: nothing to compare, or different numbers of sentences.

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
    right, said, both = Counter[str](), Counter[str](), Counter[str]()
    for sentence, guess in zip(gold, predicted, strict=True):
        one, other = {tuple(chunk) for chunk in sentence}, {tuple(chunk) for chunk in guess}
        for counts, chunks in ((right, one), (said, other), (both, one & other)):
            counts.update(str(chunk[0]) for chunk in chunks)
    types = {name: class_score(right[name], said[name], both[name]) for name in sorted(right.keys() | said.keys())}
    return ChunkScores(overall=class_score(right.total(), said.total(), both.total()), types=types)
