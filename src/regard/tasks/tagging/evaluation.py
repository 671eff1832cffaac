"""How good a tagger is on sentences it has not seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from regard.data.malformed import MalformedRows
from regard.data.tagged import TaggedSentence
from regard.data.tags import convert, scheme_of, types_of
from regard.errors import InputError
from regard.metrics.chunks import ChunkScores, chunk_scores
from regard.metrics.classification import ClassScore, accuracy, classification_scores
from regard.tasks.tagging.data import TaggedData
from regard.tasks.tagging.decoding import Decoding
from regard.tasks.tagging.preparation import Given, documents_of, in_memory, reader
from regard.tasks.tagging.tagger import Tagger, Tagging
from regard.tasks.tagging.task import TaggingTask


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggingEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: `precision`, `recall` and `f1` of spans as conlleval counts them, and `accuracy`, the share of words whose tag is
            right; only this where tags are no spans.
        count: sentences.
        words: of all of them.
        classes: the same of the spans of each type; of each tag where tags are no spans.
        note: what a reader of the figures has to know; empty where there is nothing.
        predictions: one for each sentence.
    """

    metrics: dict[str, float]
    count: int
    words: int
    classes: dict[str, ClassScore]
    note: str = ""
    predictions: tuple[Tagging, ...] = field(repr=False, default=())


def evaluate_tags(model: Tagger, sentences: Given, *, decoding: Decoding | None = None) -> TaggingEvaluation:
    """Compare the tags of sentences with those that a model tells.

    The scheme of the given tags is found from them, and need not be the model's. Spans of a type that the model does not have
    count as missed.

    Arguments:
        sentences: `TaggedSentence`s, or (words, tags).
        decoding: as `Tagger.tag`.

    Raises:
        InputError: for an empty list, tags that do not fit the words, or tags of which the model has none.
    """
    if isinstance(sentences, str) or not sentences:
        raise InputError("there is nothing to evaluate; give a list with at least one sentence")
    given = in_memory(sentences) or []
    right, unknown = _right(model, given)
    predictions = model.tag_batch(
        [sentence.words for sentence in given], documents=list(documents_of(given)), decoding=decoding
    )
    predicted = [prediction.tags for prediction in predictions]
    flat = [list(chain.from_iterable(tags)) for tags in (right, predicted)]
    metrics: dict[str, float] = {}
    if model.task.scheme is None:
        classes = classification_scores(flat[0], flat[1]).classes
    else:
        spans = [[model.task.spans(sentence) for sentence in tags] for tags in (right, predicted)]
        scores: ChunkScores = chunk_scores(spans[0], spans[1])
        classes, whole = scores.types, scores.overall
        metrics = {"f1": whole.f1, "precision": whole.precision, "recall": whole.recall}
    what = "tags" if model.task.scheme is None else "types"
    return TaggingEvaluation(
        metrics=metrics | {"accuracy": accuracy(flat[0], flat[1])},
        count=len(given),
        words=len(flat[0]),
        classes=classes,
        note=f"The model does not have the {what} {', '.join(unknown)}, which the data has; they count as missed."
        if unknown
        else "",
        predictions=tuple(predictions),
    )


def _right(model: Tagger, sentences: Sequence[TaggedSentence]) -> tuple[list[tuple[str, ...]], list[str]]:
    """The tags of sentences in the model's scheme, and which types, or tags, the model does not have."""
    scheme, tags = model.task.scheme, [sentence.tags for sentence in sentences]
    if scheme is None:
        theirs, own = set(chain.from_iterable(tags)), set(model.task.tags)
    else:
        source = scheme_of(tags)
        theirs, own = set(types_of(tags, source)), set(types_of([model.task.tags], scheme))
        tags = [convert(each, source, scheme) for each in tags]
    if theirs and not theirs & own:
        raise InputError(
            f"{sentences[0].file}: the model has none of the tags there, such as {min(theirs)!r}; it has {', '.join(sorted(own))}"
        )
    return tags, sorted(theirs - own)


def tags_beside(task: TaggingTask, sentence: TaggedSentence, said: Tagging) -> dict[str, Any]:
    """A sentence, its tags and those that were told, by name."""
    del task
    right = {"words": list(sentence.words), "tags": list(sentence.tags)}
    return right | {"predicted": list(said.tags), "probabilities": list(said.probabilities)}


def read_tags(data: TaggedData, malformed: MalformedRows) -> Iterator[TaggedSentence]:
    """The sentences that `data.train` names."""
    read = reader(data, data.train)
    if read is None:
        raise InputError("no file of tagged words is named; name one")
    return iter(read(malformed))
