"""Windows in a token store, with all that judging a model's answers needs: spans, contexts, right answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.token_store import TokenStore
from regard.reading import parse_json
from regard.tasks.encoders import PLACES, columns_of, read_inputs
from regard.tasks.preparation import Row
from regard.tasks.question_answering.windows import Window
from regard.text import Tokenizer

ANSWER, QUESTION, PIECE, SPANS, RECORD, CONTEXT = "answer", "question", "piece", "spans", "record", "context"
"""The columns beside those of every encoder's input. `answer`: the places of its first and last token, none where the window is
not learnt from. `question`: its number. The others are there to validate only. `piece`: `begin` and `owned` of a `Window`, and
`spans`. `record`: the question's id and right answers, in JSON, in its first window. `context`: in UTF-8, in the first window of
several questions that share it."""

LARGE, BYTES = 1 << 32, 1 << 8


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that is judged.

    Arguments:
        id: told apart by.
        context: what the answer is a passage of.
        answers: the right ones; none where there is none.
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
    """A window to learn from as a row of a store."""
    return [window.joined.ids, [window.joined.second], answer, [number], [], [], [], []]


def validation_row(window: Window, answer: Sequence[int], number: int, *, asked: Asked | None, context: bool) -> Row:
    """A window to validate on as a row of a store.

    Arguments:
        asked: the question; None in all windows but its first.
        context: whether the question's context is another than that of the question before.
    """
    record, text = b"", b""
    if asked is not None:
        record = json.dumps({"id": asked.id, "answers": asked.answers}).encode()
        text = asked.context.encode() if context else b""
    judging = [[window.begin, *window.owned], window.spans.reshape(-1), _numbers(record), _numbers(text)]
    return [*training_row(window, answer, number)[:4], *judging]


def stored_windows(data: TokenStore) -> Iterator[tuple[Asked, Window]]:
    """The windows that a store holds to validate on, with their questions, read one by one."""
    context, asked = "", None
    for row in range(len(data)):
        if text := _bytes(data, CONTEXT, row):
            context = text.decode()
        if record := _bytes(data, RECORD, row):
            said = parse_json(record, "the store", "write it again")
            asked = Asked(said["id"], context, tuple(said["answers"]))
        if asked is None:
            raise RuntimeError("the store has no question in its first row, so it is none to validate on")
        begin, first, end = data.sequence(PIECE, row).tolist()
        spans = data.sequence(SPANS, row).astype(np.int64).reshape(-1, 2)
        yield asked, Window(read_inputs(data, [row])[0], begin, spans, (first, end))


def _numbers(content: bytes) -> np.ndarray:
    return np.frombuffer(content, dtype=np.uint8)


def _bytes(data: TokenStore, column: str, row: int) -> bytes:
    return data.sequence(column, row).astype(np.uint8).tobytes()
