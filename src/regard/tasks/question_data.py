"""Questions about contexts: the `data` section, rows and files, overlapping windows, and their columns in token stores."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from regard.data.questions import FORMATS, Answer, Question, read_questions
from regard.data.rows import parts_of
from regard.data.token_store import TokenStore
from regard.errors import InputError, nearest
from regard.models.config import check
from regard.reading import parse_json
from regard.tasks.encoders import PLACES, Joined, columns_of, join, read_inputs
from regard.tasks.examples import Examples, Place, check_amount
from regard.tasks.preparation import Row
from regard.text import Tokenizer
from regard.text.spans import grouped, parts


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionData:
    """The `data` section of a recipe.

    Arguments:
        train: a file of SQuAD's JSON (1.1 or 2.0) or a JSONL file, or several; gzip is recognised.
        validation: other files; if null, articles are held out from the training data with all their questions.
        validation_share: the share of training questions to hold out.
        validation_size: the number of questions to hold out instead, at most a tenth of all.
        format: `squad`, `jsonl`, or `auto` to recognise it from the file.
        unanswerable: whether a context may have no answer, as in SQuAD 2.0; null = true if some training question has none.
        maximum_length: the maximum number of tokens of a window: question, a piece of the context, and special tokens.
        stride: the number of tokens of the context between the beginnings of two successive windows.
        maximum_question: the maximum number of tokens of a question; longer ones are truncated.
        maximum_answer: the maximum number of tokens of a predicted answer.
        other_windows: what to do with windows of an answered question that do not contain the answer: `keep` them, so that the
            model learns to predict no answer there, or `drop` them. null = `keep` if a context may have no answer, else `drop`.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.1
    validation_size: int | None = None
    format: str = "auto"
    unanswerable: bool | None = None
    maximum_length: int = 384
    stride: int = 128
    maximum_question: int = 64
    maximum_answer: int = 30
    other_windows: Literal["keep", "drop"] | None = None

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InputError(f"data.format is {self.format!r}; {nearest(self.format, FORMATS)}")
        check_amount(self)
        check_windows("data.", self.maximum_length, self.stride, self.maximum_question, self.maximum_answer)


def check_windows(where: str, maximum_length: int, stride: int, maximum_question: int, maximum_answer: int) -> None:
    """Refuse windows that would leave out a part of the context, or have no room for one.

    Arguments:
        where: the prefix of the names of the settings in messages.

    Raises:
        InputError: naming the setting, its value and what is allowed.
    """
    check(maximum_question >= 1, f"{where}maximum_question", maximum_question, "at least 1", "64 is usual")
    check(maximum_answer >= 1, f"{where}maximum_answer", maximum_answer, "at least 1", "30 is usual")
    room = maximum_length - maximum_question - 3
    check(
        room >= 1,
        f"{where}maximum_length",
        maximum_length,
        f"at least {maximum_question + 4}, room for a question of {maximum_question} tokens, three special ones and a "
        "context",
        "384 is usual",
    )
    check(
        1 <= stride <= room,
        f"{where}stride",
        stride,
        f"at least 1 and at most {room}, the space for context in a window with a question of {maximum_question} tokens",
        "a larger stride would leave out parts of the context",
    )


WANTED = "(question, context, answer)"


def _row(row: Any, called: str, number: int, data: Any) -> Question:
    """(question, context, answer), or a mapping with these, such as SQuAD's rows in the library `datasets`.

    The answer is a text that occurs in the context, whose first occurrence is used; or (text, start in characters); or None if
    the context has no answer.
    """
    del data
    question, context, answer = parts_of(row, called, [["question"], ["context"], ["answer", "answers"]], WANTED)
    if isinstance(row, Mapping) and isinstance(answer, Mapping):  # as SQuAD's in the library `datasets`
        texts, starts = parts_of(answer, f"the answers of {called}", [["text"], ["answer_start"]], "(texts, places)")
        found = tuple(Answer(text=text, start=start) for text, start in zip(texts, starts, strict=True))
        return _question(number, question, context, found)
    answer = (answer, row["answer_start"]) if isinstance(row, Mapping) and "answer_start" in row else answer
    text, start = (
        parts_of(answer, f"the answer of {called}", [["text"], ["start"]], "(text, place)")
        if isinstance(answer, tuple | list)
        else (answer, None)
    )
    for what, part in (("question", question), ("context", context)):
        if not isinstance(part, str) or not part.strip():
            raise InputError(f"{called}: its {what} is {part!r:.80}; give a text")
    if text is None:
        return _question(number, question, context, ())
    if not isinstance(text, str) or not (start is None or type(start) is int):
        raise InputError(f"{called}: its answer is {answer!r:.80}; give a text, (text, place), or None for no answer")
    start = context.find(text) if start is None else start
    return _question(number, question, context, (Answer(text=text, start=start),))


def _question(number: int, question: str, context: str, answers: tuple[Answer, ...]) -> Question:
    return Question(
        id=str(number),
        question=question,
        context=context,
        answers=answers,
        impossible=not answers,
        file="questions",
        number=number,
    )


def _check_answer(where: str, context: str, text: str, start: int) -> None:
    if not text.strip():
        raise InputError(f"{where}: its answer is empty; give None if the context has no answer")
    if start < 0 or start + len(text) > len(context) or not context.startswith(text, start):
        place = f"at {start} of the context's {len(context)} characters" if start >= 0 else "in the context"
        raise InputError(f"{where}: its answer {text!r:.60} is not {place}; correct the text or the start")


def _check(question: Question, called: str) -> None:
    for answer in question.answers:
        _check_answer(called, question.context, answer.text, answer.start)


QUESTIONS = Examples(
    type=Question,
    rows="questions",
    wanted=WANTED,
    file="file of questions",
    formats=", in SQuAD's JSON or JSONL",
    row=_row,
    read=lambda data, path, malformed: read_questions(path, format=data.format, malformed=malformed),
    check=_check,
)


def together(question: Question) -> str:
    """The group of a question that must not be in both training and validation data: its article, else its context."""
    return question.title or question.context


def answer_of(question: Question) -> Answer | None:
    """The answer to train on: the most frequent of several, the first of equally frequent ones; None if there is none."""
    counts = Counter(question.answers)
    return max(counts, key=counts.__getitem__) if counts else None


def check_answered(unanswerable: bool, question: Question) -> None:
    """Refuse a question without an answer unless `unanswerable`.

    Raises:
        InputError: naming the question.
    """
    if question.answers or (question.impossible and unanswerable):
        return
    where = f"{question.file}, question {question.number}"
    if question.impossible:
        raise InputError(
            f"{where}: has no answer, and every training question needs one; set data.unanswerable=true, or leave it out"
        )
    raise InputError(f"{where}: has no answer and is not marked as impossible; give an answer, or impossible=True")


class Encoded(NamedTuple):
    """A context as tokens.

    Arguments:
        ids: (N,) int32, the token ids.
        spans: (N, 2) int32, the start and end (excluded) of each token in the context, in characters.
    """

    ids: np.ndarray
    spans: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A question with a piece of its context.

    Arguments:
        joined: `[CLS] question [SEP] piece [SEP]`; its `second` is the index of the piece's first token.
        begin: the index of the piece's first token among the tokens of the context.
        spans: (T, 2), the start and end (excluded) of the piece's tokens in the context, in characters.
        owned: the tokens of the piece (first, and one after the last) for which this window has the most context ("maximum
            context" of the authors). Only answers that begin at these tokens are taken from this window.
    """

    joined: Joined
    begin: int
    spans: np.ndarray = field(repr=False)
    owned: tuple[int, int]


def encoded_contexts(tokenizer: Tokenizer, contexts: Sequence[str]) -> list[Encoded]:
    """The tokens of contexts and their positions.

    >>> tokenizer = Tokenizer.train(["the cafe"] * 9, kind="bert", size=60, lowercase=True)
    >>> encoded_contexts(tokenizer, ["The Café"])[0].spans.tolist()
    [[0, 3], [4, 8]]
    """
    found: list[list[Encoded]] = [[] for _ in contexts]
    # Converted to arrays part by part, because the tokenizer's lists need many times the memory of the text.
    for group in grouped(parts(contexts, cut=tokenizer.cuts)):
        encoded = tokenizer.encode_batch_with_spans([part.text for part in group])
        for part, (ids, spans) in zip(group, encoded, strict=True):
            places = np.asarray(spans, dtype=np.int32).reshape(-1, 2) + np.int32(part.start)
            found[part.row].append(Encoded(np.asarray(ids, dtype=np.int32), places))
    return [
        pieces[0] if len(pieces) == 1 else Encoded(*(np.concatenate(several) for several in zip(*pieces, strict=True)))
        for pieces in found
    ]


def begins(count: int, room: int, stride: int) -> list[int]:
    """The indices at which windows begin in a context of `count` tokens: every `stride` tokens, until one reaches the end.

    Arguments:
        room: the number of context tokens in a window.

    >>> begins(10, 6, 3)
    [0, 3, 6]
    >>> begins(6, 6, 3)
    [0]
    """
    step = min(stride, room)
    return list(range(0, max(0, count - room) + step, step)) if count > room else [0]


def owners(count: int, room: int, starts: Sequence[int]) -> np.ndarray:
    """The window in which each token of a context has the most context around it, (N,) int32 (the authors' "maximum context").

    The context around a token is the minimum of the numbers of tokens before and after it in the window, plus 0.01 times the
    length of the window, which prefers longer windows; the first of equal windows is used.

    >>> owners(10, 6, [0, 3, 6]).tolist()
    [0, 0, 0, 0, 0, 1, 1, 1, 2, 2]
    """
    best = np.full(count, -1.0, dtype=np.float32)
    owner = np.zeros(count, dtype=np.int32)
    for number, begin in enumerate(starts):
        length = min(room, count - begin)
        places = np.arange(length)
        around = (np.minimum(places, length - 1 - places) + 0.01 * length).astype(np.float32)
        reached = best[begin : begin + length]
        better = around > reached
        reached[better] = around[better]
        owner[begin : begin + length][better] = number
    return owner


def windows(
    tokenizer: Tokenizer, question: Sequence[int], context: Encoded, *, maximum_length: int, stride: int
) -> Iterator[Window]:
    """The windows of one question, as a generator.

    Arguments:
        question: its tokens, already truncated.
        maximum_length: the maximum number of tokens of a window.
        stride: the number of tokens between the beginnings of two windows; at most the number of context tokens in a window.
    """
    room, count = maximum_length - len(question) - 2 - len(tokenizer.separators), len(context.ids)
    starts = begins(count, room, stride)
    owner = owners(count, room, starts)
    for number, begin in enumerate(starts):
        piece = slice(begin, begin + room)
        joined = join(tokenizer, question, context.ids[piece].tolist(), maximum=maximum_length)
        # Of overlapping windows each owns the tokens nearest to its middle, which are contiguous.
        own = np.flatnonzero(owner[piece] == number)
        owned = (int(own[0]), int(own[-1]) + 1) if len(own) else (0, 0)
        yield Window(joined, begin, context.spans[piece], owned)


def places_of(spans: np.ndarray, start: int, end: int) -> tuple[int, int] | None:
    """The first and the last token that overlap the characters from `start` to `end` (excluded); None if none does.

    >>> places_of(np.array([[0, 3], [4, 8], [8, 9]]), 5, 9)
    (1, 2)
    """
    inside = np.flatnonzero((spans[:, 1] > start) & (spans[:, 0] < end) & (spans[:, 1] > spans[:, 0]))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


ANSWER, QUESTION, PIECE, SPANS, RECORD, CONTEXT = "answer", "question", "piece", "spans", "record", "context"
"""The additional columns of a store. `answer`: the positions of its first and last token, empty if the window is not used in
training. `question`: its number. The others are for validation only. `piece` and `spans`: `begin` and `owned`, and `spans`, of a
`Window`. `record`: the question's id and correct answers, in JSON, in its first window. `context`: in UTF-8, in the first window
of all questions that share it."""

LARGE, BYTES = 1 << 32, 1 << 8


@dataclass(frozen=True, slots=True)
class Asked:
    """A validation question.

    Arguments:
        id: its id.
        context: its context.
        answers: the correct answers; empty if there is none.
    """

    id: str
    context: str
    answers: tuple[str, ...]


def columns(tokenizer: Tokenizer) -> dict[str, int]:
    """The columns of a store of windows."""
    return {
        **columns_of(tokenizer),
        ANSWER: PLACES,
        QUESTION: LARGE,
        PIECE: LARGE,
        SPANS: LARGE,
        RECORD: BYTES,
        CONTEXT: BYTES,
    }


def training_row(window: Window, answer: Sequence[int], number: int) -> Row:
    """A training window as a row of a store."""
    return [window.joined.ids, [window.joined.second], answer, [number], [], [], [], []]


def validation_row(window: Window, answer: Sequence[int], number: int, *, asked: Asked | None, context: bool) -> Row:
    """A validation window as a row of a store.

    Arguments:
        asked: the question; None in all windows but its first.
        context: whether the question's context differs from that of the question before.
    """
    record, text = b"", b""
    if asked is not None:
        record = json.dumps({"id": asked.id, "answers": asked.answers}).encode()
        text = asked.context.encode() if context else b""
    judging = [[window.begin, *window.owned], window.spans.reshape(-1), _numbers(record), _numbers(text)]
    return [*training_row(window, answer, number)[:4], *judging]


def stored_windows(data: TokenStore) -> Iterator[tuple[Asked, Window]]:
    """The validation windows of a store with their questions, read one by one."""
    context, asked = "", None
    for row in range(len(data)):
        if text := _bytes(data, CONTEXT, row):
            context = text.decode()
        if record := _bytes(data, RECORD, row):
            said = parse_json(record, "the store", "write it again")
            asked = Asked(said["id"], context, tuple(said["answers"]))
        if asked is None:
            raise RuntimeError("the store has no question in its first row, so it is not a store for validation")
        begin, first, end = data.sequence(PIECE, row).tolist()
        spans = data.sequence(SPANS, row).astype(np.int64).reshape(-1, 2)
        yield asked, Window(read_inputs(data, [row])[0], begin, spans, (first, end))


def _numbers(content: bytes) -> np.ndarray:
    return np.frombuffer(content, dtype=np.uint8)


def _bytes(data: TokenStore, column: str, row: int) -> bytes:
    return data.sequence(column, row).astype(np.uint8).tobytes()
