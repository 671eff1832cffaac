"""Multiple choice: a context with several choices, one of them correct (Zellers et al. 2018; Devlin et al. 2019, section 4.4)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.choices import FORMATS, ChoiceQuestion, read_choices
from regard.data.rows import parts_of
from regard.data.token_store import TokenStore
from regard.errors import InputError, nearest
from regard.layers import HeadKind, Tokens
from regard.models.config import check
from regard.old_names import old_attributes
from regard.tasks.encoders import (
    PLACES,
    SECOND,
    TEXT,
    EncoderPredictor,
    Joined,
    WholeTextTask,
    join,
    padded,
    tokenizer_from_hf,
)
from regard.tasks.examples import Examples, Place, Splits, check_amount
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.predictor import Evaluation
from regard.tasks.preparation import (
    TRAIN,
    VALIDATION,
    EncoderTokenizerSettings,
    Places,
    Prepared,
    Row,
    prepare,
    whole_text_tokenizer,
    write_store,
)
from regard.tasks.spec import OF_SENTENCE_ENCODERS, TaskSpec, encoder_config
from regard.tasks.task import LossSum
from regard.text import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceData:
    """The `data` section of a recipe.

    Arguments:
        train: a file of SWAG's CSV, RACE's JSON or a JSONL file, or several; gzip is recognised.
        validation: other files; if null, contexts are held out from the training data with all their questions.
        validation_share: the share of training questions to hold out.
        validation_size: the number of questions to hold out instead, at most a tenth of all.
        format: `swag`, `race`, `jsonl`, or `auto` to recognise it from the file.
        maximum_length: the maximum number of tokens of a context and one choice, special ones included; longer ones are
            truncated.
        question: where to put the question of an example: before each `choice`, as for BERT, or after the `context`, as for GPT.
        auxiliary: the weight of a language model's loss on the texts, added to the task's loss, for decoders such as `gpt2`; 0.5
            as published, 0 for none.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.1
    validation_size: int | None = None
    format: str = "auto"
    maximum_length: int = 128
    question: QuestionPlace = "choice"
    auxiliary: float = 0.0

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InputError(f"data.format is {self.format!r}; {nearest(self.format, FORMATS)}")
        check(self.auxiliary >= 0, "data.auxiliary", self.auxiliary, "0 or more", "0.5 is usual, 0 turns it off")
        check_amount(self)
        check(self.maximum_length >= 5, "data.maximum_length", self.maximum_length, "at least 5", "128 is usual")


QuestionPlace = Literal["choice", "context"]
"""Where the question of an example is put: before each choice, or after the context."""


def check_question(context: Any, choices: Any, where: str) -> None:
    """Check that an example has a context and at least two choices.

    Raises:
        InputError: naming what is wrong.
    """
    if isinstance(choices, str) or not isinstance(choices, Sequence):
        raise InputError(f"{where}: its choices are {choices!r:.80}; give a list of texts")
    if len(choices) < 2:
        raise InputError(f"{where} has {len(choices)} choices; give two or more")
    for what, text in (("context", context), *(("choice", choice) for choice in choices)):
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{where}: a {what} is {text!r:.80}; give a text")


def right_of(question: ChoiceQuestion) -> int:
    """The number of the correct choice.

    Raises:
        InputError: if the question has none.
    """
    if question.answer is None:
        raise InputError(
            f"{question.file}, question {question.number}: has no correct choice; give questions with answers"
        )
    return question.answer


WANTED = "(context, choices, answer)"


def _row(row: Any, called: str, number: int, data: Any) -> ChoiceQuestion:
    del data
    context, choices, answer = parts_of(row, called, [["context"], ["choices"], ["answer", "label"]], WANTED)
    question = row.get("question") or "" if isinstance(row, Mapping) else ""
    check_question(context, choices, called)
    if type(answer) is not int or not 0 <= answer < len(choices):
        raise InputError(
            f"{called}: its answer is {answer!r}; give the number of one of its {len(choices)} choices, from 0"
        )
    return ChoiceQuestion(
        context=context, question=str(question), choices=tuple(choices), answer=answer, file="questions", number=number
    )


QUESTIONS = Examples(
    type=ChoiceQuestion,
    rows="questions",
    wanted=WANTED,
    file="file of multiple-choice questions",
    row=_row,
    read=lambda data, path, malformed: read_choices(path, format=data.format, malformed=malformed),
)


SIZES, ANSWER = "sizes", "answer"
"""The additional columns of a store: the number of tokens of each choice, and the number of the correct one. The other columns
have the choices of a question one after another."""


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceBatch:
    """A batch of B questions with all their choices, C in total.

    Arguments:
        tokens: (C, L), each context with one choice.
        segments: (C, L) int64, 0 in the context, 1 from the choice on.
        counts: (B,) int64, the number of choices of each question; they sum to C.
        labels: (B,) int64, the number of the correct choice of each question.
    """

    tokens: Tokens
    segments: Tensor
    counts: Tensor
    labels: Tensor

    def to(self, device: torch.device) -> ChoiceBatch:
        """The same batch on another device."""
        return ChoiceBatch(
            self.tokens.to(device), self.segments.to(device), self.counts.to(device), self.labels.to(device)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MultipleChoiceTask(WholeTextTask):
    """Turns questions with choices into a model's tensors, and its outputs into a loss.

        score(choice) = w . pooled([CLS] context [SEP] choice [SEP]),   p(choice | question) = softmax over its choices

    Arguments:
        tokenizer: for all texts.
        maximum_length: the maximum number of tokens of a context and one choice, special ones included; longer ones are
            truncated.
        auxiliary: as for `WholeTextTask`; the tokens of all choices are predicted.
        question: where to put the question of an example: before each `choice` (Devlin et al. 2019), or after the `context`, so
            that only a choice follows the delimiter (Radford et al. 2018, section 3.3).
    """

    name: ClassVar[str] = "multiple_choice"
    head: ClassVar[HeadKind] = "choice"

    question: QuestionPlace = "choice"

    @property
    def texts(self) -> int:
        """2: context and choice."""
        return 2

    @property
    def use(self) -> tuple[str, ...]:
        """A line for the model card."""
        return ('print(model.choose("It rains.", ["She opens her umbrella.", "She closes the fridge."]).text)',)

    def parts(self, question: ChoiceQuestion) -> tuple[str, list[str]]:
        """The first text of an example, and the second text for each choice."""
        asked = question.question
        if not asked:
            return question.context, list(question.choices)
        if self.question == "context":
            return f"{question.context} {asked}", list(question.choices)
        return question.context, [f"{asked} {choice}" for choice in question.choices]

    def encode(self, contexts: Sequence[str], choices: Sequence[Sequence[str]], *, maximum: int) -> list[list[Joined]]:
        """The model's inputs for each choice of each question.

        Arguments:
            maximum: the maximum number of tokens of one input.
        """
        first = self.tokenizer.encode_batch(contexts)
        second = iter(self.tokenizer.encode_batch([choice for several in choices for choice in several]))
        return [
            [join(self.tokenizer, ids, next(second), maximum=maximum) for _ in several]
            for ids, several in zip(first, choices, strict=True)
        ]

    def lengths(self, data: TokenStore) -> np.ndarray:
        """The number of positions of each question in a batch, (N, 1): the length of its longest choice times its choices."""
        sizes = (data.sequence(SIZES, row) for row in range(len(data)))
        return np.array([[len(each) * int(each.max())] for each in sizes], dtype=np.int64)

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> ChoiceBatch:
        """The questions of these rows as a batch."""
        return self.batch(read_questions(data, rows), [int(data.sequence(ANSWER, row)[0]) for row in rows])

    def batch(self, questions: Sequence[Sequence[Joined]], labels: Sequence[int]) -> ChoiceBatch:
        """A batch for training of questions and the numbers of their correct choices."""
        every = [joined for choices in questions for joined in choices]
        tokens, segments = padded(every, padding_id=self.tokenizer.padding_id)
        counts = torch.tensor([len(choices) for choices in questions], dtype=torch.int64)
        return ChoiceBatch(tokens, segments, counts, torch.tensor(labels, dtype=torch.int64))

    def loss(self, model: nn.Module, batch: ChoiceBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the choices of each question, summed over questions.

        Smoothing is spread over the choices of the question.
        """
        encoded, auxiliary = self.read(model, batch.tokens, batch.segments)
        scores = encoded.logits.squeeze(-1).float()  # type: ignore[union-attr]
        total, correct = scores.new_zeros(()), batch.labels.new_zeros(())
        for count in batch.counts.unique().tolist():
            rows = batch.counts == count
            own = scores[rows.repeat_interleave(batch.counts)].view(-1, count)
            loss, right = smoothed_cross_entropy(own, batch.labels[rows], smoothing=smoothing)
            total, correct = total + loss, correct + right
        return LossSum(total, len(batch.labels), correct, auxiliary)

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The mean loss; `validate` computes the accuracy."""
        del right
        return {"loss": loss}

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """The numbers of questions and the size of the vocabulary, as one line."""
        return (
            f"{len(train):,} questions to learn from, {len(validation):,} to validate on; "
            f"a vocabulary of {self.tokenizer.size:,}"
        )


def columns(tokenizer: Tokenizer) -> dict[str, int]:
    """The columns of a store of questions with choices."""
    return {TEXT: tokenizer.size, SECOND: PLACES, SIZES: PLACES, ANSWER: PLACES}


def row_of(choices: Sequence[Joined], answer: int) -> list[list[int]]:
    """A question as a row of a store."""
    return [
        [index for joined in choices for index in joined.ids],
        [joined.second for joined in choices],
        [len(joined.ids) for joined in choices],
        [answer],
    ]


def read_questions(data: TokenStore, rows: Sequence[int]) -> list[list[Joined]]:
    """The choices of the questions in some rows of a store."""
    found = []
    for row in rows:
        ends = np.cumsum(data.sequence(SIZES, row), dtype=np.int64)
        pieces = np.split(data.sequence(TEXT, row), ends[:-1])
        seconds = data.sequence(SECOND, row).tolist()
        found.append([Joined(piece.tolist(), second) for piece, second in zip(pieces, seconds, strict=True)])
    return found


TOGETHER = 256
"""The number of questions that are sorted by length together before they are read in batches."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The prediction of a model for one question.

    Arguments:
        context: the context.
        choices: the choices.
        index: the number of the predicted choice, from 0.
        text: the predicted choice.
        probability: its probability.
        probabilities: the probability of each choice, in their order.
    """

    context: str
    choices: tuple[str, ...]
    index: int
    text: str
    probability: float
    probabilities: tuple[float, ...]


class MultipleChoice(EncoderPredictor[MultipleChoiceTask]):
    """A multiple-choice model ready to use: a context and several choices in, a `Choice` out.

    Arguments:
        model: a `TextEncoder` with one output.
        task: the tokenizer.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    metric_names: ClassVar[tuple[str, ...]] = ("accuracy",)

    def choose(self, context: str, choices: Sequence[str]) -> Choice:
        """The most probable of several choices.

        Raises:
            InputError: for an empty text, or fewer than two choices.
        """
        return self.choose_batch([(context, choices)])[0]

    def choose_batch(self, questions: Sequence[tuple[str, Sequence[str]]]) -> list[Choice]:
        """The most probable choice of each question (context, choices), in the order of the questions.

        Raises:
            InputError: as `choose`.
        """
        if isinstance(questions, str):
            raise InputError("a single string was given instead of a list of (context, choices); put both into a list")
        for number, question in enumerate(questions, start=1):
            try:
                context, choices = question
            except (TypeError, ValueError):
                raise InputError(f"question {number} is {question!r:.80}; give (context, choices)") from None
            check_question(context, choices, f"question {number}")
        found: list[Choice] = []
        for first in range(0, len(questions), TOGETHER):
            chunk = questions[first : first + TOGETHER]
            encoded = self.task.encode(
                [context for context, _ in chunk],
                [list(choices) for _, choices in chunk],
                maximum=self.maximum_length,
            )
            made = [
                _said(context, choices, probabilities)
                for (context, choices), probabilities in zip(chunk, self.probabilities(encoded), strict=True)
            ]
            self.tell(made)
            found += made
        return found

    def probabilities(self, questions: Sequence[Sequence[Joined]]) -> list[list[float]]:
        """The probability of each choice of each question, for tokenized choices."""
        every = [joined for choices in questions for joined in choices]
        scores = torch.zeros(len(every))
        for rows, _, encoded in self.encoded(every):
            if encoded.logits is not None:
                scores[rows] = encoded.logits.float().squeeze(-1).cpu()
        ends = list(itertools.accumulate(len(choices) for choices in questions))
        return [
            scores[end - len(choices) : end].softmax(dim=0).tolist()
            for choices, end in zip(questions, ends, strict=True)
        ]

    def validate(self, data: TokenStore, count: int) -> dict[str, float]:
        """`accuracy`, the share of questions whose correct choice is predicted."""
        right, count = 0, min(count, len(data))
        for first in range(0, count, TOGETHER):
            rows = range(first, min(first + TOGETHER, count))
            for row, shares in zip(rows, self.probabilities(read_questions(data, rows)), strict=True):
                right += _best(shares) == int(data.sequence(ANSWER, row)[0])
        return {"accuracy": right / count}


def _said(context: str, choices: Sequence[str], probabilities: Sequence[float]) -> Choice:
    best = _best(probabilities)
    return Choice(
        context=context,
        choices=tuple(choices),
        index=best,
        text=choices[best],
        probability=probabilities[best],
        probabilities=tuple(probabilities),
    )


def _best(probabilities: Sequence[float]) -> int:
    return max(range(len(probabilities)), key=probabilities.__getitem__)


def prepare_choices(
    data: ChoiceData,
    tokenizer: EncoderTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Any = None,
    given_validation: Any = None,
) -> Prepared[MultipleChoiceTask]:
    """Read the data for the tokenizer, then for the tokens, and write all into `folder`.

    Arguments:
        folder: where to write them; if they exist already (a resumed run), they are reused.
        seed: the seed of the choice of held-out questions.
        given, given_validation: questions in memory instead of those of `data`, in a form that `QUESTIONS` accepts.

    Raises:
        InputError: for data that cannot be read, too little data, or a question without a correct choice.
    """

    def write() -> tuple[MultipleChoiceTask, list[str]]:
        splits = QUESTIONS.splits(data, seed, given, given_validation, together=lambda question: question.context)
        task = MultipleChoiceTask(
            tokenizer=whole_text_tokenizer(tokenizer, lambda: _texts(splits)),
            maximum_length=data.maximum_length,
            auxiliary=data.auxiliary,
            question=data.question,
        )
        cut, places = 0, Places()

        def rows(questions: Iterator[ChoiceQuestion]) -> Iterator[Row]:
            nonlocal cut
            while chunk := list(itertools.islice(questions, TOGETHER)):
                contexts, choices = zip(*(task.parts(question) for question in chunk), strict=True)
                encoded = task.encode(contexts, choices, maximum=task.maximum_length)
                for question, each in zip(chunk, encoded, strict=True):
                    cut += sum(joined.cut > 0 for joined in each)
                    places.note(question.file, question.number)
                    yield row_of(each, right_of(question))

        write_store(folder, TRAIN, columns(task.tokenizer), rows(splits.train()), places)
        write_store(folder, VALIDATION, columns(task.tokenizer), rows(splits.validation()))
        notes = splits.notes
        if cut:
            notes.append(
                f"{cut:,} choices with their contexts were longer than data.maximum_length = {task.maximum_length} tokens and "
                "were cut."
            )
        return task, notes

    return prepare(MultipleChoiceTask, folder, write)


def _texts(splits: Splits[ChoiceQuestion]) -> Iterator[str]:
    for question in splits.train():
        yield question.context
        yield from (f"{question.question} {choice}" if question.question else choice for choice in question.choices)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceEvaluation(Evaluation):
    """The results of an evaluation: `accuracy`, the share of questions whose correct choice is predicted.

    `predictions` are `Choice`s, whose choices are the texts that were read after the context.
    """


def evaluate_choices(model: MultipleChoice, questions: Any) -> ChoiceEvaluation:
    """Compare the predicted choices of a model with the correct ones.

    Arguments:
        questions: `ChoiceQuestion`s, or (context, choices, number of the correct one, from 0).

    Raises:
        InputError: for an empty list, or a question without a correct choice.
    """
    asked = QUESTIONS.to_measure(questions)
    right = [right_of(question) for question in asked]
    said = model.choose_batch([model.task.parts(question) for question in asked])
    correct = sum(choice.index == answer for choice, answer in zip(said, right, strict=True))
    return ChoiceEvaluation(metrics={"accuracy": correct / len(asked)}, count=len(asked), predictions=tuple(said))


def choice_record(task: MultipleChoiceTask, question: ChoiceQuestion, said: Choice) -> dict[str, Any]:
    """A question, its correct choice and the predicted one, by name."""
    del task
    return {
        "context": question.context,
        "question": question.question,
        "choices": list(question.choices),
        "answer": question.choices[right_of(question)],
        "predicted": said.text,
        "probability": said.probability,
        "probabilities": list(said.probabilities),
    }


def chooser_from_hf(folder: Path, config: Any) -> MultipleChoiceTask:
    """The task of a folder with a multiple-choice model.

    Raises:
        InputError: if there is no tokenizer.
    """
    return MultipleChoiceTask(tokenizer=tokenizer_from_hf(folder, config), maximum_length=config.maximum_positions)


MULTIPLE_CHOICE = TaskSpec(
    task=MultipleChoiceTask,
    predictor=MultipleChoice,
    interface="whole_text",
    sections={"data": ChoiceData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_choices,
    evaluate=evaluate_choices,
    examples=QUESTIONS,
    record=choice_record,
    derived_config=encoder_config("choice", 1),
    derived_if_present=OF_SENTENCE_ENCODERS,
    from_hf=chooser_from_hf,
)

if not TYPE_CHECKING:
    __getattr__ = old_attributes(__name__, {"Chooser": "MultipleChoice"})
