"""A model that answers questions with passages of a context, ready to use."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.tasks.encoders import EncoderPredictor
from regard.tasks.question_answering.findings import N_BEST, Answer, Findings
from regard.tasks.question_answering.scoring import THRESHOLD, judged
from regard.tasks.question_answering.spans import BestSpans, best_spans
from regard.tasks.question_answering.store import Asked, stored_windows
from regard.tasks.question_answering.task import QuestionAnsweringTask
from regard.tasks.question_answering.windows import Window, encoded_contexts, windows

TOGETHER = 256
"""Windows that are sorted by length before they are read, so that batches hold little padding."""

QUESTIONS_TOGETHER = 32
"""Questions whose contexts are held as tokens at once."""


class Answerer(EncoderPredictor[QuestionAnsweringTask]):
    """A model that finds answers in texts: a question and a context in, an `Answer` out.

    A context may have any length: what is longer than the model reads at once is read in overlapping windows.

    Arguments:
        model: a `TextEncoder` with two outputs for each token.
        task: tokenizer, and the sizes of windows and answers.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    judged: ClassVar[tuple[str, ...]] = ("exact_match", "f1", THRESHOLD)

    def __init__(
        self,
        model: Any,
        task: QuestionAnsweringTask,
        *,
        recipe: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(model, task, recipe=recipe, metrics=metrics)
        if not task.unanswerable:  # training writes down every metric it knows of
            self.metrics.pop(THRESHOLD, None)

    @property
    def threshold(self) -> float | None:
        """The lead of "no answer" above which it is believed, as chosen in training; None for a model that always answers."""
        return self.metrics.get(THRESHOLD, 0.0) if self.task.unanswerable else None

    def answer(self, question: str, context: str, *, n_best: int = 1, threshold: float | None = None) -> Answer:
        """The answer to one question.

        Arguments:
            n_best: passages wanted, the answer the first of them.
            threshold: the lead of "no answer" above which it is believed; None = the model's own.

        Raises:
            InputError: for an empty question or context, a question that is too long, or a threshold for a model that was not
                trained to say that there is no answer.
        """
        return self.answer_batch([(question, context)], n_best=n_best, threshold=threshold)[0]

    def answer_batch(
        self, questions: Sequence[tuple[str, str]], *, n_best: int = 1, threshold: float | None = None
    ) -> list[Answer]:
        """The answers to many questions, each with its context; they come in the order of the questions.

        Raises:
            InputError: as `answer`.
        """
        _check_asked(questions)
        if n_best < 1:
            raise InputError(f"n_best is {n_best}; give at least 1")
        names = [f"question {number}" for number in range(1, len(questions) + 1)]
        return list(self.answered(questions, n_best=n_best, threshold=threshold, names=names))

    def answered(
        self,
        questions: Sequence[tuple[str, str]],
        *,
        n_best: int,
        threshold: float | None,
        names: Sequence[str] | None,
    ) -> Iterator[Answer]:
        """The same one by one, as they are found.

        Arguments:
            names: what messages call the questions. None = nothing is wrong with one: a question that is too long is cut, and a
                context of which no token is left has no answer.

        Raises:
            InputError: as `answer`, but for empty texts.
        """
        limit = self._limit(threshold)
        keep = max(N_BEST, n_best)
        for first in range(0, len(questions), QUESTIONS_TOGETHER):
            chunk = questions[first : first + QUESTIONS_TOGETHER]
            found = [Findings(context, keep) for _, context in chunk]
            self._read(self._windows(chunk, found, names and names[first : first + QUESTIONS_TOGETHER]))
            answers = [
                findings.answer(question, n_best=n_best, threshold=limit)
                for findings, (question, _) in zip(found, chunk, strict=True)
            ]
            self.tell(answers)
            yield from answers

    def cut(self, questions: Sequence[str]) -> list[bool]:
        """Whether each question is longer than the model reads."""
        maximum = self._maximum_question
        return [len(ids) > maximum for ids in self.task.tokenizer.encode_batch(questions)]

    @property
    def _maximum_question(self) -> int:
        return max(1, min(self.task.maximum_question, self.maximum_length - 4))

    def _limit(self, threshold: float | None) -> float | None:
        """The threshold that holds; a model of which it is not known whether it knows of no answer takes one, but has none."""
        if threshold is not None and self.task.unanswerable is False:
            raise InputError(
                f"a threshold of {threshold:g} for no answer is given, and the model was trained on questions that all have one; "
                "leave it out"
            )
        return self.threshold if threshold is None else threshold

    def _windows(
        self, questions: Sequence[tuple[str, str]], found: Sequence[Findings], names: Sequence[str] | None
    ) -> Iterator[tuple[Findings, Window]]:
        """The windows of some questions, each context tokenized once."""
        tokenizer, maximum = self.task.tokenizer, self._maximum_question
        texts = list(dict.fromkeys(context for _, context in questions))
        contexts = dict(zip(texts, encoded_contexts(tokenizer, texts), strict=True))
        asked = tokenizer.encode_batch([question for question, _ in questions])
        for number, ((_, context), ids, findings) in enumerate(zip(questions, asked, found, strict=True)):
            if names is not None and len(ids) > maximum:
                raise InputError(f"{names[number]} has {len(ids)} tokens and the model reads {maximum}; shorten it")
            if names is not None and not len(contexts[context].ids):
                raise InputError(
                    f"{names[number]}: its context holds nothing that the tokenizer can read; give another text"
                )
            for window in windows(
                tokenizer,
                ids[:maximum],
                contexts[context],
                maximum_length=self.maximum_length,
                stride=self.task.stride,
            ):
                yield findings, window

    def _read(self, waiting: Iterator[tuple[Findings, Window]]) -> None:
        """Read windows, some at a time, and gather what is found."""
        while group := list(itertools.islice(waiting, TOGETHER)):
            for rows, _, encoded in self.encoded([window.joined for _, window in group]):
                if encoded.logits is not None:
                    _gather([group[row] for row in rows], encoded.logits.float().cpu(), self.task.maximum_answer)

    def judge(self, data: TokenStore, count: int) -> dict[str, float]:
        """Exact match and F1 in [0, 1]; where a context may hold no answer, with the threshold that gives the best F1."""
        found: list[tuple[Asked, Findings]] = []

        def waiting() -> Iterator[tuple[Findings, Window]]:
            for asked, window in itertools.islice(stored_windows(data), count):
                if not found or found[-1][0] is not asked:
                    found.append((asked, Findings(asked.context, keep=1)))
                yield found[-1][1], window

        self._read(waiting())
        limit = 0.0 if self.task.unanswerable else None
        said = [findings.answer("", n_best=1, threshold=limit) for _, findings in found]
        return judged([asked.answers for asked, _ in found], said, threshold=None)


def _gather(group: Sequence[tuple[Findings, Window]], logits: Tensor, maximum: int) -> None:
    """Hand the best passages of a batch of windows to the questions they are of.

    Arguments:
        logits: (B, L, 2) float32, of starts and ends.
        maximum: the most tokens of a passage.
    """
    length = logits.shape[1]
    may_start, may_end = np.zeros((2, len(group), length), dtype=bool)
    for row, (_, window) in enumerate(group):
        begin = window.joined.second
        may_start[row, begin + window.owned[0] : begin + window.owned[1]] = True
        may_end[row, begin : begin + len(window.spans)] = True
    allowed = {"may_start": torch.from_numpy(may_start), "may_end": torch.from_numpy(may_end)}
    start, end = logits.unbind(dim=2)
    count = 2 * max(findings.keep for findings, _ in group)
    while True:
        found = best_spans(start, end, **allowed, maximum=maximum, count=count)
        for row, (findings, window) in enumerate(group):
            findings.add(_passages(found, row, start[row], end[row], window), float(start[row, 0] + end[row, 0]))
        # Where many passages have the same text, those of other texts stand further down.
        last = found.scores[:, -1].tolist()
        if found.scores.shape[1] < count or not any(
            score > -math.inf and findings.wants(score) for score, (findings, _) in zip(last, group, strict=True)
        ):
            return
        count *= 4


def _passages(
    found: BestSpans, row: int, start: Tensor, end: Tensor, window: Window
) -> list[tuple[float, float, int, int]]:
    """The best passages of one window: the logits of both ends, and where it stands in the context, in characters."""
    kept = int(torch.isfinite(found.scores[row]).sum())
    first, last = found.starts[row, :kept], found.ends[row, :kept]
    begin = window.joined.second
    places = window.spans[first.numpy() - begin, 0].tolist(), window.spans[last.numpy() - begin, 1].tolist()
    return list(zip(start[first].tolist(), end[last].tolist(), *places, strict=True))


def _check_asked(questions: Iterable[Any]) -> None:
    """Refuse what is no question with a context.

    Raises:
        InputError: naming the first.
    """
    if isinstance(questions, str):
        raise InputError("one string given where a list of (question, context) is wanted; put both into a list")
    for number, asked in enumerate(questions, start=1):
        try:
            question, context = asked
        except (TypeError, ValueError):
            raise InputError(f"question {number} is {asked!r:.80}; give (question, context)") from None
        for what, text in (("question", question), ("context", context)):
            if not isinstance(text, str):
                raise InputError(f"question {number}: its {what} is {text!r:.80}; give a text")
            if not text.strip():
                raise InputError(f"question {number}: its {what} is empty; there is nothing to read")
