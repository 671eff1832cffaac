"""Extractive question answering (Devlin et al. 2019, sections 4.2 and 4.3): answers that are passages of a context."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.questions import Candidate, Question
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.layers import HeadKind
from regard.old_names import old_attributes
from regard.tasks.answer_spans import N_BEST, THRESHOLD, Answer, BestSpans, Findings, answer_metrics, best_spans
from regard.tasks.encoders import (
    EncoderBatch,
    EncoderPredictor,
    EncoderTask,
    Joined,
    encoded_by,
    padded,
    read_inputs,
    tokenizer_from_hf,
)
from regard.tasks.losses import stands_out
from regard.tasks.predictor import Evaluation
from regard.tasks.preparation import (
    TRAIN,
    VALIDATION,
    EncoderTokenizerSettings,
    Prepared,
    encoder_tokenizer,
    prepare,
    write_store,
)
from regard.tasks.question_data import (
    ANSWER,
    QUESTION,
    QUESTIONS,
    Asked,
    QuestionData,
    Window,
    check_windows,
    columns,
    encoded_contexts,
    stored_windows,
    together,
    windows,
)
from regard.tasks.question_preparation import QuestionRows, has_unanswerable, texts_of
from regard.tasks.spec import TaskSpec, encoder_config
from regard.tasks.task import LossSum

NOWHERE = -1
"""The label of a window that is not used in training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnsweringTask(EncoderTask):
    """Turns questions about contexts into an encoder's tensors, and its outputs into a loss.

        p(start = i) = softmax_i(s . T_i),   p(end = i) = softmax_i(e . T_i),   T_i the last layer's vector of token i
        loss = -(log p(start) + log p(end)) / 2

    Both softmaxes are over the positions of a window at which the answer may be: those of the context, and `[CLS]`, which means
    that there is no answer. (In the authors' code the softmax is over the question too, where no answer can be.)

    Arguments:
        tokenizer: for questions and contexts.
        maximum_length: the maximum number of tokens of a window, special ones included.
        stride: the number of tokens between the beginnings of two successive windows.
        maximum_question: the maximum number of tokens of a question.
        maximum_answer: the maximum number of tokens of a predicted answer.
        unanswerable: whether a context may have no answer; None = unknown: then an answer is always predicted unless a threshold
            is given.
    """

    name: ClassVar[str] = "question_answering"
    head: ClassVar[HeadKind] = "spans"

    maximum_length: int = 384
    stride: int = 128
    maximum_question: int = 64
    maximum_answer: int = 30
    unanswerable: bool | None = False

    def __post_init__(self) -> None:
        check_windows("", self.maximum_length, self.stride, self.maximum_question, self.maximum_answer)

    @property
    def use(self) -> tuple[str, ...]:
        """A line for the model card."""
        return ('print(model.answer("Where does she live?", "She lives in Paris.").text)',)

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> EncoderBatch:
        """The windows of these rows as a batch."""
        answers = [data.sequence(ANSWER, row) for row in rows]
        return self.batch(read_inputs(data, rows), [(int(a[0]), int(a[1])) if len(a) else None for a in answers])

    def batch(self, inputs: Sequence[Joined], answers: Sequence[tuple[int, int] | None]) -> EncoderBatch:
        """Make a batch for training of windows and the positions of their answers.

        Arguments:
            answers: the positions of the first and the last token of each answer; None for a window that is not used in training.
        """
        tokens, segments = padded(inputs, padding_id=self.tokenizer.padding_id)
        labels = [(NOWHERE, NOWHERE) if answer is None else answer for answer in answers]
        # The positions of the context are stored with the labels, because not all models have segments.
        places = np.array([(joined.second, len(joined.ids) - 1) for joined in inputs], dtype=np.int64)
        return EncoderBatch(tokens, segments, torch.from_numpy(np.hstack([np.array(labels, dtype=np.int64), places])))

    def loss(self, model: nn.Module, batch: EncoderBatch, *, smoothing: float = 0.0) -> LossSum:
        """The mean of the two cross-entropies, summed over windows.

        Label smoothing is spread over the positions at which the answer may be.
        """
        logits = encoded_by(model, batch.tokens, batch.segments).logits.float()
        labels, places = batch.labels[:, :2], batch.labels[:, 2:]
        counts = (labels != NOWHERE).all(dim=1)
        allowed = _allowed(logits.shape[1], places)
        log_p = logits.masked_fill(~allowed.unsqueeze(2), -torch.inf).log_softmax(dim=1)  # (B, L, 2)
        right = log_p.gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1)
        losses = -(1 - smoothing) * right
        if smoothing:
            spread = log_p.masked_fill(~allowed.unsqueeze(2), 0.0).sum(dim=1)
            losses = losses - smoothing * spread / allowed.sum(dim=1, keepdim=True)
        total = losses.mean(dim=1).masked_fill(~counts, 0.0).sum()
        correct = stands_out(log_p.transpose(1, 2), labels.clamp_min(0)).all(dim=1) & counts
        return LossSum(total, int(counts.sum()), correct.sum())

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The loss alone; exact match and F1 are computed in `validate`."""
        del right
        return {"loss": loss}

    def check(self, model: nn.Module, train: TokenStore, validation: TokenStore) -> None:
        """Refuse windows longer than the model's positions, and validation data without any answer to compute a loss.

        Raises:
            InputError: naming the settings.
        """
        super(QuestionAnsweringTask, self).check(model, train, validation)
        if not validation.lengths(ANSWER).any():
            raise InputError("no validation question has an answer in its context; give some with answers")

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """The numbers of questions and windows and the size of the vocabulary, as one line."""
        return (
            f"{questions_in(train):,} questions in {len(train):,} windows to learn from, {questions_in(validation):,} in "
            f"{len(validation):,} to validate on"
            + (", some without an answer" if self.unanswerable else "")
            + f"; a vocabulary of {self.tokenizer.size:,}"
        )


def _allowed(length: int, places: Tensor) -> Tensor:
    """(B, L) bool, True = an answer may be here: in the context, or at [CLS].

    Arguments:
        places: (B, 2), the positions where the context begins and ends, the end excluded.
    """
    at = torch.arange(length, device=places.device)
    return ((at >= places[:, :1]) & (at < places[:, 1:])) | (at == 0)


def questions_in(data: TokenStore) -> int:
    """The number of questions of a store."""
    return len(np.unique(data.numbers(QUESTION)))


WINDOWS_TOGETHER = 256
"""The number of windows that are sorted by length before they are read, so that batches have little padding."""

QUESTIONS_TOGETHER = 32
"""The number of questions whose tokenized contexts are in memory at once."""


class QuestionAnswerer(EncoderPredictor[QuestionAnsweringTask]):
    """A model that finds answers in texts: a question and a context in, an `Answer` out.

    A context may have any length: one that is longer than the model's input is read in overlapping windows.

    Arguments:
        model: a `TextEncoder` with two outputs for each token.
        task: the tokenizer and the sizes of windows and answers.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    metric_names: ClassVar[tuple[str, ...]] = ("exact_match", "f1", THRESHOLD)

    def __init__(
        self,
        model: Any,
        task: QuestionAnsweringTask,
        *,
        recipe: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(model, task, recipe=recipe, metrics=metrics)
        if not task.unanswerable:  # training records every metric in `metric_names`
            self.metrics.pop(THRESHOLD, None)

    @property
    def threshold(self) -> float | None:
        """The threshold of `no_answer_score` for "no answer", as chosen in training; None for a model that always answers."""
        return self.metrics.get(THRESHOLD, 0.0) if self.task.unanswerable else None

    def answer(self, question: str, context: str, *, n_best: int = 1, threshold: float | None = None) -> Answer:
        """The answer to one question.

        Arguments:
            n_best: the number of passages to return; the first of them is the answer.
            threshold: "no answer" is predicted if its score minus that of the best passage is above this; None = the model's own.

        Raises:
            InputError: for an empty question or context, a question that is too long, or a threshold for a model that was not
                trained to say that there is no answer.
        """
        return self.answer_batch([(question, context)], n_best=n_best, threshold=threshold)[0]

    def answer_batch(
        self, questions: Sequence[tuple[str, str]], *, n_best: int = 1, threshold: float | None = None
    ) -> list[Answer]:
        """The answers to many questions, each with its context, in the order of the questions.

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
        """The answers one by one, as they are found.

        Arguments:
            names: the names of the questions in messages. None = no errors: a question that is too long is truncated, and a
                context without a token has no answer.

        Raises:
            InputError: as `answer`, except for empty texts.
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
        """Whether each question is longer than the maximum and is truncated."""
        maximum = self._maximum_question
        return [len(ids) > maximum for ids in self.task.tokenizer.encode_batch(questions)]

    @property
    def _maximum_question(self) -> int:
        return max(1, min(self.task.maximum_question, self.maximum_length - 4))

    def _limit(self, threshold: float | None) -> float | None:
        """The threshold to use; a model whose `unanswerable` is None accepts a threshold, but has none of its own."""
        if threshold is not None and self.task.unanswerable is False:
            raise InputError(
                f"a threshold of {threshold:g} for no answer is given, but the model was trained only on questions with "
                "answers; leave it out"
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
                    f"{names[number]}: its context has no token that the tokenizer knows; give another text"
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
        """Read windows in batches, and add their best passages to their questions."""
        while group := list(itertools.islice(waiting, WINDOWS_TOGETHER)):
            for rows, _, encoded in self.encoded([window.joined for _, window in group]):
                if encoded.logits is not None:
                    _gather([group[row] for row in rows], encoded.logits.float().cpu(), self.task.maximum_answer)

    def validate(self, data: TokenStore, count: int) -> dict[str, float]:
        """Exact match and F1 in [0, 1]; if a context may have no answer, with the threshold that gives the best F1."""
        found: list[tuple[Asked, Findings]] = []

        def waiting() -> Iterator[tuple[Findings, Window]]:
            for asked, window in itertools.islice(stored_windows(data), count):
                if not found or found[-1][0] is not asked:
                    found.append((asked, Findings(asked.context, keep=1)))
                yield found[-1][1], window

        self._read(waiting())
        limit = 0.0 if self.task.unanswerable else None
        said = [findings.answer("", n_best=1, threshold=limit) for _, findings in found]
        return answer_metrics([asked.answers for asked, _ in found], said, threshold=None)


def _gather(group: Sequence[tuple[Findings, Window]], logits: Tensor, maximum: int) -> None:
    """Add the best passages of a batch of windows to their questions.

    Arguments:
        logits: (B, L, 2) float32, the logits of starts and ends.
        maximum: the maximum number of tokens of a passage.
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
        # If many passages have the same text, passages with other texts have lower ranks, so more of them are needed.
        last = found.scores[:, -1].tolist()
        if found.scores.shape[1] < count or not any(
            score > -math.inf and findings.wants(score) for score, (findings, _) in zip(last, group, strict=True)
        ):
            return
        count *= 4


def _passages(
    found: BestSpans, row: int, start: Tensor, end: Tensor, window: Window
) -> list[tuple[float, float, int, int]]:
    """The best passages of one window: (start logit, end logit, start, end), the positions in characters of the context."""
    kept = int(torch.isfinite(found.scores[row]).sum())
    first, last = found.starts[row, :kept], found.ends[row, :kept]
    begin = window.joined.second
    places = window.spans[first.numpy() - begin, 0].tolist(), window.spans[last.numpy() - begin, 1].tolist()
    return list(zip(start[first].tolist(), end[last].tolist(), *places, strict=True))


def _check_asked(questions: Iterable[Any]) -> None:
    """Refuse items that are not (question, context).

    Raises:
        InputError: naming the first one.
    """
    if isinstance(questions, str):
        raise InputError("a single string was given instead of a list of (question, context); put both into a list")
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


def prepare_questions(
    data: QuestionData,
    tokenizer: EncoderTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Any = None,
    given_validation: Any = None,
) -> Prepared[QuestionAnsweringTask]:
    """Read the data for the tokenizer, then for the tokens, and write all into `folder`.

    Arguments:
        folder: where to write them; if they exist already (a resumed run), they are reused.
        seed: the seed of the choice of held-out articles.
        given, given_validation: questions in memory instead of those of `data`, in a form that `QUESTIONS` accepts.

    Raises:
        InputError: for data that cannot be read, too little data, or questions without an answer although all must have one.
    """

    def write() -> tuple[QuestionAnsweringTask, list[str]]:
        splits = QUESTIONS.splits(data, seed, given, given_validation, together=together)
        task = QuestionAnsweringTask(
            tokenizer=encoder_tokenizer(tokenizer, lambda: texts_of(splits)),
            maximum_length=data.maximum_length,
            stride=data.stride,
            maximum_question=data.maximum_question,
            maximum_answer=data.maximum_answer,
            unanswerable=has_unanswerable(data, splits),
        )
        kept = data.other_windows == "keep" or (data.other_windows is None and bool(task.unanswerable))
        maker = QuestionRows(task, keeps=kept)
        write_store(folder, TRAIN, columns(task.tokenizer), maker.training(splits.train()))
        write_store(folder, VALIDATION, columns(task.tokenizer), maker.validation(splits.validation()))
        return task, [*splits.notes, *maker.notes]

    return prepare(QuestionAnsweringTask, folder, write)


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionEvaluation(Evaluation):
    """The results of an evaluation: `predictions` are `Answer`s with the questions' ids.

    Its metrics are `exact_match` and `f1` of SQuAD's official scripts, in [0, 1]. If there are questions without an answer, also
    `f1.has_answer` and `f1.no_answer`; if the model predicts whether there is an answer, also the threshold used, and `f1.best`
    with the best threshold.

    Arguments:
        cut: the number of questions that were longer than `maximum_question` and were truncated.
    """

    cut: int

    @property
    def texts(self) -> dict[str, str]:
        """The answers by question id, for `regard.data.questions.write_predictions`."""
        return {answer.id: answer.text for answer in self.predictions}

    @property
    def no_answer(self) -> dict[str, float]:
        """The `no_answer_score` by question id, for `write_no_answer`; empty if the model has none."""
        return {answer.id: answer.no_answer_score for answer in self.predictions if answer.no_answer_score is not None}

    @property
    def candidates(self) -> dict[str, list[Candidate]]:
        """The best passages by question id, for `write_candidates`."""
        return {answer.id: _candidates(answer) for answer in self.predictions}


def evaluate_questions(
    model: QuestionAnswerer, questions: Any, *, threshold: float | None = None, n_best: int = 1
) -> QuestionEvaluation:
    """Compare a model's answers with the correct ones.

    Arguments:
        questions: `Question`s, or (question, context, answer).
        threshold: "no answer" is predicted if its score minus that of the best passage is above this; None = the model's own, or
            0 as published if it is unknown and some question has no answer.
        n_best: the number of passages in each prediction.

    Raises:
        InputError: for an empty list, two questions with one id, or a threshold for a model that always answers.
    """
    asked = QUESTIONS.to_measure(questions)
    _check_ids(asked)
    if threshold is None and model.task.unanswerable is None and any(question.impossible for question in asked):
        threshold = 0.0
    said = list(
        model.answered(
            [(question.question, question.context) for question in asked],
            n_best=n_best,
            threshold=threshold,
            names=None,
        )
    )
    right = [tuple(answer.text for answer in question.answers) for question in asked]
    return QuestionEvaluation(
        metrics=answer_metrics(right, said, threshold=model.threshold if threshold is None else threshold),
        count=len(asked),
        cut=sum(model.cut([question.question for question in asked])),
        predictions=tuple(replace(answer, id=question.id) for answer, question in zip(said, asked, strict=True)),
    )


def answer_record(task: QuestionAnsweringTask, question: Question, said: Answer) -> dict[str, Any]:
    """A question, its answers (may be empty) and the predicted one, by name."""
    del task
    found = asdict(said)
    del found["question"], found["id"]
    return {
        "id": question.id,
        "question": question.question,
        "answers": [answer.text for answer in question.answers],
        "predicted": found.pop("text"),
        **found,
    }


def _check_ids(questions: list[Question]) -> None:
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise InputError(
                f"two questions have the id {question.id!r:.80}; predictions are identified by it, so make them unique"
            )
        seen.add(question.id)


def _candidates(answer: Answer) -> list[Candidate]:
    return [
        Candidate(
            text=passage.text,
            probability=passage.probability,
            start_logit=passage.start_logit,
            end_logit=passage.end_logit,
        )
        for passage in answer.passages
    ]


LENGTH, STRIDE, LONGEST_QUESTION = 384, 128, 64
"""The published length and stride of windows and maximum length of questions, in tokens; reduced for a smaller model."""


def answerer_from_hf(folder: Path, config: Any) -> QuestionAnsweringTask:
    """The task of a folder with a question-answering model; `unanswerable` is not recorded there, so it is None.

    Raises:
        InputError: if there is no tokenizer.
    """
    length = min(LENGTH, config.maximum_positions)
    question = max(1, min(LONGEST_QUESTION, length // 4))
    return QuestionAnsweringTask(
        tokenizer=tokenizer_from_hf(folder, config),
        maximum_length=length,
        stride=max(1, min(STRIDE, length - question - 3)),
        maximum_question=question,
        unanswerable=None,
    )


QUESTION_ANSWERING = TaskSpec(
    task=QuestionAnsweringTask,
    predictor=QuestionAnswerer,
    interface="encoder",
    sections={"data": QuestionData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_questions,
    evaluate=evaluate_questions,
    examples=QUESTIONS,
    record=answer_record,
    derived_config=encoder_config("spans", 2),
    from_hf=answerer_from_hf,
)

if not TYPE_CHECKING:
    __getattr__ = old_attributes(__name__, {"Answerer": "QuestionAnswerer"})
