"""Predicted answers in the official files of SQuAD: an answer, the best few, and how likely it is that there is none."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from regard.data.documents import read_document
from regard.data.pair import short
from regard.errors import InputError
from regard.files import write_file

AnyPath = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One of the best answers to a question.

    Arguments:
        text: the answer; empty for "there is none".
        probability: among the candidates.
        start_logit, end_logit: the scores of its first and its last token.
    """

    text: str
    probability: float
    start_logit: float
    end_logit: float


def write_predictions(path: AnyPath, predictions: Mapping[str, str]) -> None:
    """Write answers as the evaluation scripts of SQuAD read them: a JSON object from ids to texts, "" for no answer.

    Raises:
        InputError: a full disk or a place that cannot be written to.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "predictions.json"
    >>> write_predictions(file, {"5733be28": "Paris"})
    >>> read_predictions(file)
    {'5733be28': 'Paris'}
    """
    _write(path, dict(predictions))


def read_predictions(path: AnyPath) -> dict[str, str]:
    """The answers in a file of predictions, by id.

    Raises:
        InputError: a file that cannot be used, or is not an object from ids to texts.
    """
    values = _read(path)
    for id, text in values.items():
        if not isinstance(text, str):
            raise InputError(
                f"{os.fspath(path)}: the answer to {id!r} is {short(text)}; it must be a text, empty for no answer"
            )
    return values


def write_no_answer(path: AnyPath, probabilities: Mapping[str, float]) -> None:
    """Write how likely each question is to have no answer, as the SQuAD 2.0 script reads it (`--na-prob-file`).

    Raises:
        InputError: a full disk or a place that cannot be written to.
    """
    _write(path, {id: float(probability) for id, probability in probabilities.items()})


def read_no_answer(path: AnyPath) -> dict[str, float]:
    """How likely each question is to have no answer, by id.

    Raises:
        InputError: a file that cannot be used, or is not an object from ids to numbers.
    """
    values = _read(path)
    for id, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            raise InputError(f"{os.fspath(path)}: the value of {id!r} is {short(value)}; it must be a number")
    return values


def write_candidates(path: AnyPath, candidates: Mapping[str, Sequence[Candidate]]) -> None:
    """Write the best few answers to each question, the best first, in the n-best form that BERT's own script writes.

    Raises:
        InputError: a full disk or a place that cannot be written to.
    """
    _write(path, {id: [asdict(candidate) for candidate in best] for id, best in candidates.items()})


def _write(path: AnyPath, values: dict) -> None:
    # ASCII, because the official scripts open their files in whatever encoding the machine has.
    write_file(path, json.dumps(values, indent=2) + "\n")


def _read(path: AnyPath) -> dict:
    values = read_document(path)
    if not isinstance(values, dict):
        raise InputError(
            f"{os.fspath(path)}: is not a JSON object from the questions' ids to what is predicted of them"
        )
    return values
