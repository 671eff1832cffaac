"""Answers to texts, one after another: a line, an object or a row out for each text in, or one JSON object of all."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from regard.cli.console import on_terminal
from regard.cli.new_file import NewFile
from regard.cli.texts import Text
from regard.cli.written import Written

A = TypeVar("A")

USUAL_CHUNK = 1024
"""Texts read together and sorted by length, so that batches hold little padding."""


def by_hand(texts: Sequence[str] | None, input_file: Path | None) -> bool:
    """Whether somebody types the texts and waits for each answer."""
    return not texts and input_file is None and on_terminal(sys.stdin)


def _blank(text: Text) -> bool:
    return not text.content.strip()


def answer_all(
    texts: Iterator[Text],
    answer: Callable[[list[Text]], Sequence[A]],
    *,
    name: str,
    line_of: Callable[[A | None], str],
    object_of: Callable[[Text, A | None], dict[str, Any]],
    file: NewFile | None,
    as_json: bool,
    together: int = USUAL_CHUNK,
    empty: Callable[[Text], bool] = _blank,
) -> None:
    """Answer texts as they come and write the answers in their order; an empty text has none, and an empty line.

    Arguments:
        answer: to some texts, none empty.
        name: of the list of answers in the JSON object.
        line_of, object_of: an answer as a line with its end, and as a JSON object; None for an empty text.
        file: where they go instead of standard output.
        as_json: whether one object of all is written.
        together: how many texts are read before they are answered.
        empty: tells the texts that have no answer.
    """
    from regard.tasks.gaps import with_gaps
    from regard.text.unknown import CutTexts

    written = Written(name, file, as_json=as_json)
    cuts: list[CutTexts] = []

    def answered(chunk: list[Text]) -> list[A | None]:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", CutTexts)
            found = with_gaps(answer, chunk, empty=empty)
        for warning in warned:
            if isinstance(warning.message, CutTexts) and together > 1:
                cuts.append(warning.message)
            else:
                warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)
        return found

    count = 0
    while chunk := list(itertools.islice(texts, together)):
        for text, one in zip(chunk, answered(chunk), strict=True):
            written.add(text, partial(line_of, one), partial(object_of, text, one), one is not None)
            count += one is not None
        sys.stdout.flush()
    written.end()
    if cuts:  # once for all chunks
        warnings.warn(CutTexts(sum(each.count for each in cuts), count, cuts[0].maximum), stacklevel=2)
