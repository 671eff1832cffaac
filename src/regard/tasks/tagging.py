"""Tagging of words (Devlin et al. 2019, section 5.3): names, parts of speech, and other spans."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from regard.data.tagged import Span as Extent
from regard.data.tagged import TaggedSentence, words_of
from regard.data.tags import Span, convert, scheme_of, spans_of, types_of
from regard.data.token_store import TokenStore
from regard.errors import InputError, nearest
from regard.layers import HeadKind
from regard.metrics.classification import ChunkScores, ClassScore, accuracy, chunk_scores, classification_scores
from regard.tasks.encoders import (
    PLACES,
    TEXT,
    EncoderBatch,
    EncoderPredictor,
    EncoderTask,
    columns_of,
    encoded_by,
    padded,
    tokenizer_from_hf,
)
from regard.tasks.examples import Splits
from regard.tasks.labelled import names_of
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.predictor import Evaluation, refuse_gaps
from regard.tasks.preparation import (
    TRAIN,
    VALIDATION,
    EncoderTokenizerSettings,
    Places,
    Prepared,
    encoder_tokenizer,
    prepare,
    write_store,
)
from regard.tasks.spec import TaskSpec, encoder_config
from regard.tasks.tagging_data import (
    SENTENCES,
    Decoding,
    Entity,
    TaggedData,
    Tagging,
    Transitions,
    Window,
    chunks_of,
    documents_of,
    read_sentences,
    schemes_of,
    tags_in,
    where_of,
)
from regard.tasks.task import LossSum

PLACE, TAG, GOES_ON = "place", "tag", "goes_on"
"""The columns of a store: the positions of the words' first pieces, the numbers of their tags, and 1 if a window belongs to the
same sentence as the one before it."""

NO_TAG = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggingTask(EncoderTask):
    """Turns tagged words into an encoder's tensors, and its outputs into a loss.

        p(tag | word) = softmax(W x + b),   x the last layer's vector of the word's first piece

    The other pieces of a word, and special tokens, do not count in the loss.

    Arguments:
        tokenizer: for all texts.
        maximum_length: the maximum number of tokens of a window, special ones included; longer sentences are read in overlapping
            windows.
        tags: names of the tags, in the order of the model's outputs.
        scheme: how tags mark spans, as in `regard.data.tags`; None if they mark no spans, such as parts of speech.
        context: the maximum number of tokens of the sentences before, and of those after, that are read with a sentence.
        decoding: `constrained` predicts the most probable sequence of tags that follows the scheme's rules (Viterbi), `greedy`
            the most probable tag of each word.
    """

    name: ClassVar[str] = "tagging"
    unit: ClassVar[str] = "words"
    head: ClassVar[HeadKind] = "tokens"

    tags: tuple[str, ...]
    scheme: str | None = "BIO"
    context: int = 0
    decoding: Decoding = "constrained"

    @property
    def use(self) -> tuple[str, ...]:
        """Lines for the model card."""
        if self.scheme is None:
            return ('tagging = model.tag("...")', "print(list(zip(tagging.words, tagging.tags)))")
        return (
            'for entity in model.tag("...").entities:',
            "    print(entity.type, entity.text, entity.start, entity.end)",
        )

    @property
    def outputs(self) -> int:
        """The number of the model's outputs: one for each tag."""
        return len(self.tags)

    @property
    def transitions(self) -> Transitions:
        """The rules of the scheme: which tag may follow which."""
        return Transitions(self.tags, self.scheme)

    def number_of(self, tag: str, where: str) -> int:
        """The number of a tag.

        Arguments:
            where: the name of the word in the message.

        Raises:
            InputError: for a tag that the model does not have.
        """
        if tag not in self.tags:
            raise InputError(f"{where} has the tag {tag!r}, which the model does not have; {nearest(tag, self.tags)}")
        return self.tags.index(tag)

    def spans(self, tags: Sequence[str]) -> list[Span]:
        """The spans that tags mark; if tags mark no spans, each word is a span."""
        if self.scheme is None:
            return [Span(tag, place, place + 1) for place, tag in enumerate(tags)]
        return spans_of(tags, self.scheme)

    def batch(self, windows: Sequence[Window], tags: Sequence[Sequence[int]]) -> EncoderBatch:
        """Make a batch for training of windows and the numbers of their words' tags."""
        tokens, segments = padded([window.joined for window in windows], padding_id=self.tokenizer.padding_id)
        labels = np.full(tokens.ids.shape, NO_TAG, dtype=np.int64)
        for row, (window, numbers) in enumerate(zip(windows, tags, strict=True)):
            labels[row, window.places] = numbers
        return EncoderBatch(tokens, segments, torch.from_numpy(labels))

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> EncoderBatch:
        """The windows of these rows as a batch."""
        return self.batch(read_windows(data, rows), [data.sequence(TAG, row).tolist() for row in rows])

    def labels(self, data: TokenStore) -> np.ndarray:
        """The number of words that each window tags, (N,)."""
        return data.lengths(TAG)

    def loss(self, model: nn.Module, batch: EncoderBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the tags, summed over words."""
        logits = encoded_by(model, batch.tokens, batch.segments).logits
        labels = batch.labels.flatten()
        valid = labels != NO_TAG
        total, correct = smoothed_cross_entropy(logits.flatten(0, 1), labels, valid=valid, smoothing=smoothing)
        return LossSum(total, int(valid.sum()), correct)

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The loss alone; accuracy is computed in `validate`."""
        del right
        return {"loss": loss}

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """The numbers of words and tags and the size of the vocabulary, as one line."""
        counts = [int((data.lengths(TAG)).sum()) for data in (train, validation)]
        return (
            f"{counts[0]:,} words to learn from, {counts[1]:,} to validate on; {len(self.tags)} tags "
            f"({', '.join(self.tags[:6])}{', ...' if len(self.tags) > 6 else ''}); a vocabulary of {self.tokenizer.size:,}"
        )

    def hf_fields(self) -> dict[str, Any]:
        """The names of the tags, as other programs look for them in config.json."""
        return {
            "id2label": {str(number): name for number, name in enumerate(self.tags)},
            "label2id": {name: number for number, name in enumerate(self.tags)},
        }


def read_windows(data: TokenStore, rows: Sequence[int]) -> list[Window]:
    """The windows of some rows of a store."""
    return [Window(data.sequence(TEXT, row).tolist(), data.sequence(PLACE, row).tolist()) for row in rows]


DECODINGS = ("constrained", "greedy")


class Tagger(EncoderPredictor[TaggingTask]):
    """A tagger ready to use: texts, or the words of sentences, in, `Tagging`s out.

    Arguments:
        model: a `TextEncoder` with one output for each tag at every token.
        task: tokenizer and tags.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    metric_names: ClassVar[tuple[str, ...]] = ("f1", "precision", "recall", "accuracy")

    def tag(self, text: str | Sequence[str], *, decoding: Decoding | None = None) -> Tagging:
        """The tags of one text, or of the words of one sentence.

        Arguments:
            text: a string, which is divided into words by `regard.data.tagged.words_of`; or a list of words.
            decoding: `constrained` or `greedy`, as for `TaggingTask`; None = the task's own.

        Raises:
            InputError: for a text without a word, or something that is not a text.
        """
        return self.tag_batch([text], decoding=decoding)[0]

    def tag_batch(
        self,
        texts: Sequence[str | Sequence[str]],
        *,
        documents: Sequence[int] | None = None,
        decoding: Decoding | None = None,
    ) -> list[Tagging]:
        """The tags of many texts, each as for `tag`, in the order of the texts.

        Arguments:
            documents: the number of each text's document; texts of one document are consecutive. A model that was trained with
                `data.context` reads each text with its neighbours in the document; without `documents` each text is read alone.

        Raises:
            InputError: as `tag`; if there are not as many documents as texts.
        """
        if isinstance(texts, str):
            raise InputError("a single string was given instead of a list of texts; put it in a list")
        if documents is not None and len(documents) != len(texts):
            raise InputError(f"{len(texts):,} texts and {len(documents):,} documents; give the document of each text")
        refuse_gaps(texts, why="there is nothing to tag")
        cut = [_cut(text, number) for number, text in enumerate(texts, start=1)]
        sentences = [[text[start:end] for start, end in spans] for text, spans in cut]
        scores = self.scores(sentences, documents=documents)
        made = [
            self._said(text, words, spans, path, np.exp(each[np.arange(len(path)), path]))
            for (text, spans), words, each, path in zip(
                cut, sentences, scores, self.decoded(scores, decoding), strict=True
            )
        ]
        self.tell(made)
        return made

    def scores(self, sentences: Sequence[Sequence[str]], *, documents: Sequence[int] | None = None) -> list[np.ndarray]:
        """The log-probabilities of all tags at each word, (words, tags) float32 for each sentence.

        Arguments:
            sentences: the words of each sentence.
            documents: as for `tag_batch`.
        """
        task = self.task
        parts = list(
            read_sentences(
                task.tokenizer, sentences, maximum=self.maximum_length, context=task.context, documents=documents
            )
        )
        found = iter(self.window_scores([window for windows in parts for window in windows]))
        return [np.concatenate(list(itertools.islice(found, len(windows)))) for windows in parts]

    def window_scores(self, windows: Sequence[Window]) -> list[np.ndarray]:
        """The log-probabilities at the words that each window tags."""
        found: list[np.ndarray] = [np.empty(0)] * len(windows)
        for rows, _, encoded in self.encoded([window.joined for window in windows]):
            if encoded.logits is None:
                continue
            chosen = [windows[row].places for row in rows]
            row = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor([len(places) for places in chosen]))
            place = torch.tensor(list(itertools.chain.from_iterable(chosen)))
            logits = encoded.logits[row.to(self.device), place.to(self.device)]
            taken = iter(logits.float().log_softmax(dim=-1).cpu().split([len(places) for places in chosen]))
            for number in rows:
                found[number] = next(taken).numpy()
        return found

    def decoded(self, scores: Sequence[np.ndarray], decoding: Decoding | None = None) -> list[np.ndarray]:
        """The numbers of the tags of each sentence, decoded from its log-probabilities."""
        decoding = self.task.decoding if decoding is None else decoding
        if decoding not in DECODINGS:
            raise InputError(f"decoding is {decoding!r}; {nearest(decoding, DECODINGS)}")
        if decoding == "greedy":
            return [each.argmax(axis=1) for each in scores]
        transitions = self.task.transitions
        return [transitions.best(each) for each in scores]

    def _said(
        self, text: str, words: Sequence[str], spans: Sequence[Extent], path: np.ndarray, probabilities: np.ndarray
    ) -> Tagging:
        tags = tuple(self.task.tags[number] for number in path.tolist())
        each = tuple(probabilities.astype(float).tolist())
        marked = self.task.spans(tags) if self.task.scheme is not None else []
        entities = []
        for type, first, last in marked:
            start, end = spans[first][0], spans[last - 1][1]
            entities.append(
                Entity(type=type, text=text[start:end], start=start, end=end, probability=math.prod(each[first:last]))
            )
        return Tagging(
            text=text,
            words=tuple(words),
            tags=tags,
            probabilities=each,
            spans=tuple(spans),
            entities=tuple(entities),
        )

    def validate(self, data: TokenStore, count: int) -> dict[str, float]:
        """Precision, recall and F1 of spans as conlleval counts them, and the share of words with the correct tag.

        If tags mark no spans, each word is a span, and all four numbers are equal.
        """
        rows = range(min(count, len(data)))
        scores = self.window_scores(read_windows(data, rows))
        right: list[list[int]] = []
        sentences: list[list[np.ndarray]] = []
        for row, each in zip(rows, scores, strict=True):
            if not right or not data.sequence(GOES_ON, row)[0]:
                right.append([])
                sentences.append([])
            right[-1] += data.sequence(TAG, row).tolist()
            sentences[-1].append(each)
        predicted = self.decoded([np.concatenate(parts) for parts in sentences])
        names = self.task.tags
        return tag_metrics(
            self.task,
            [[names[number] for number in numbers] for numbers in right],
            [[names[number] for number in path.tolist()] for path in predicted],
        )


def tag_metrics(
    task: TaggingTask, right: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """The metrics of predicted tags."""
    found = chunk_scores([task.spans(tags) for tags in right], [task.spans(tags) for tags in predicted]).overall
    flat = itertools.chain.from_iterable
    return {
        "f1": found.f1,
        "precision": found.precision,
        "recall": found.recall,
        "accuracy": accuracy(list(flat(right)), list(flat(predicted))),
    }


def _cut(text: str | Sequence[str], number: int) -> tuple[str, list[Extent]]:
    """A text and the positions of its words in it; a list of words is joined by spaces.

    Raises:
        InputError: if there is no word.
    """
    if isinstance(text, str):
        spans = words_of(text)
        if not spans:
            raise InputError(f"text {number} has no words; there is nothing to tag")
        return text, spans
    if not isinstance(text, Sequence):
        raise InputError(f"text {number} is {text!r:.80}; give a string, or a list of words")
    spans, start = [], 0
    for place, word in enumerate(text, start=1):
        if not isinstance(word, str):
            raise InputError(f"text {number}, word {place} is {word!r:.80}; give strings")
        if not word.strip():
            raise InputError(f"text {number}, word {place} is empty; leave it out")
        spans.append((start, start + len(word)))
        start += len(word) + 1
    if not spans:
        raise InputError(f"text {number} has no words; there is nothing to tag")
    return " ".join(text), spans


def prepare_tags(
    data: TaggedData,
    tokenizer: EncoderTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Any = None,
    given_validation: Any = None,
) -> Prepared[TaggingTask]:
    """Read the data for its scheme, the tags and the tokenizer, then for the tokens, and write all into `folder`.

    Arguments:
        folder: where to write them; if they exist already (a resumed run), they are reused.
        seed: the seed of the choice of held-out sentences.
        given, given_validation: sentences in memory instead of those of `data`, in a form that `SENTENCES` accepts.

    Raises:
        InputError: for data that cannot be read, too little data, or a tag that is not in the training data.
    """

    def write() -> tuple[TaggingTask, list[str]]:
        splits = SENTENCES.splits(data, seed, given, given_validation)
        source, scheme = schemes_of(data, splits.everything())
        task = TaggingTask(
            tokenizer=encoder_tokenizer(tokenizer, lambda: (" ".join(sentence.words) for sentence in splits.train())),
            maximum_length=data.maximum_length,
            tags=tags_in(data, splits.everything(), source, scheme),
            scheme=scheme,
            context=data.context,
        )
        parted = _write(folder, task, splits, source)
        notes = splits.notes
        if scheme is not None and source != scheme:
            notes.append(f"The tags of the data are {source}; they are converted to {scheme}.")
        if parted:
            notes.append(
                f"{parted:,} sentences were longer than data.maximum_length = {task.maximum_length} tokens and are read in "
                "overlapping windows."
            )
        return task, notes

    return prepare(TaggingTask, folder, write)


def numbers_of(task: TaggingTask, sentence: TaggedSentence, source: str | None) -> list[int]:
    """The numbers of a sentence's tags in the model's scheme.

    Arguments:
        source: the scheme of the given tags.

    Raises:
        InputError: for a tag that the scheme or the model does not have, naming file and line.
    """
    tags: Sequence[str] = sentence.tags
    if source is not None and task.scheme is not None:
        try:
            tags = convert(tags, source, task.scheme)
        except InputError as error:
            raise InputError(f"{where_of(sentence)}: {error}; all data must be in one scheme") from None
    return [
        task.number_of(tag, f"{where_of(sentence)}: the word {sentence.words[place]!r}")
        for place, tag in enumerate(tags)
    ]


def _write(folder: Path, task: TaggingTask, splits: Splits[TaggedSentence], source: str | None) -> int:
    """Write the stores of both splits; return the number of sentences with more than one window."""
    parted, places = 0, Places()

    def rows(sentences: Iterator[TaggedSentence]) -> Iterator[Sequence[Sequence[int]]]:
        nonlocal parted
        for chunk in chunks_of(sentences, task.context):
            tags = [numbers_of(task, sentence, source) for sentence in chunk]
            found = read_sentences(
                task.tokenizer,
                [sentence.words for sentence in chunk],
                maximum=task.maximum_length,
                context=task.context,
                documents=list(documents_of(chunk)),
            )
            for sentence, windows, numbers in zip(chunk, found, tags, strict=True):
                parted += len(windows) > 1
                waiting = iter(numbers)
                for place, window in enumerate(windows):
                    own = list(itertools.islice(waiting, len(window.places)))
                    places.note(sentence.file, sentence.line)
                    yield window.ids, [0], window.places, own, [int(place > 0)]

    columns = {**columns_of(task.tokenizer), PLACE: PLACES, TAG: len(task.tags), GOES_ON: 2}
    write_store(folder, TRAIN, columns, rows(splits.train()), places)
    write_store(folder, VALIDATION, columns, rows(splits.validation()))
    return parted


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggingEvaluation(Evaluation):
    """The results of an evaluation: `predictions` are `Tagging`s.

    Its metrics are `precision`, `recall` and `f1` of spans as conlleval counts them, and `accuracy`, the share of words with the
    correct tag; only `accuracy` if tags mark no spans.

    Arguments:
        words: the number of words in all sentences.
        classes: the same metrics for the spans of each type; for each tag if tags mark no spans.
        note: a remark about the metrics; may be empty.
    """

    words: int
    classes: dict[str, ClassScore]
    note: str = ""


def evaluate_tags(model: Tagger, sentences: Any, *, decoding: Decoding | None = None) -> TaggingEvaluation:
    """Compare the tags of sentences with those that a model predicts.

    The scheme of the given tags is detected, and may differ from the model's. Spans of a type that the model does not have
    count as missed.

    Arguments:
        sentences: `TaggedSentence`s, or (words, tags).
        decoding: as for `Tagger.tag`.

    Raises:
        InputError: for an empty list, a number of tags that differs from the number of words, or if the model has none of the
            tags.
    """
    given = SENTENCES.to_measure(sentences)
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
    """The tags of sentences in the model's scheme, and the types, or tags, that the model does not have."""
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


def tags_record(task: TaggingTask, sentence: TaggedSentence, said: Tagging) -> dict[str, Any]:
    """A sentence, its tags and the predicted ones, by name."""
    del task
    right = {"words": list(sentence.words), "tags": list(sentence.tags)}
    return right | {"predicted": list(said.tags), "probabilities": list(said.probabilities)}


def tagger_from_hf(folder: Path, config: Any) -> TaggingTask:
    """The task of a tagger's folder: its tokenizer, and its tags as config.json names them.

    Names with only B- and I- do not distinguish BIO from IOB1, whose rules differ, so no rules are applied to them, and spans are
    read as conlleval reads them. The names of BIOES and BILOU identify their schemes.

    Raises:
        InputError: if there is not one name for each output, or there is no tokenizer.
    """
    tags = names_of(folder, config.outputs)
    scheme = _scheme(tags)
    return TaggingTask(
        tokenizer=tokenizer_from_hf(folder, config),
        maximum_length=config.maximum_positions,
        tags=tags,
        scheme=scheme,
        decoding="constrained" if scheme in ("BIOES", "BILOU") else "greedy",
    )


def _scheme(tags: Sequence[str]) -> str | None:
    try:
        return scheme_of([tag] for tag in tags)
    except InputError:
        return None


TAGGING = TaskSpec(
    task=TaggingTask,
    predictor=Tagger,
    interface="encoder",
    sections={"data": TaggedData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_tags,
    evaluate=evaluate_tags,
    examples=SENTENCES,
    record=tags_record,
    derived_config=encoder_config("tokens", 2),
    from_hf=tagger_from_hf,
)
