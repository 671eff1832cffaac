"""`regard fill`: what stands in the gaps of a text."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.answers import USUAL_CHUNK, answer_all, by_hand
from regard.cli.commands import renamed
from regard.cli.console import NewFile, on_terminal, text_bar
from regard.cli.inputs import Device, Text, TextColumn, opened, read_input
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.masked_language_modelling import Filled
    from regard.tasks.span_corruption import FilledSpans, SpanFiller


USUAL_TOP = 5

WITH_SENTINELS = ("span_corruption", "text_to_text")
"""The tasks of models that may have been pre-trained to fill gaps; a T5 that another program wrote is for either."""


@renamed(top="n_best")
def fill(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="Texts with [MASK] in them, or <extra_id_0>; else --input or standard input.",
            show_default=False,
        ),
    ] = None,
    n_best: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Candidates for each mask; 5 unless given.", show_default=False),
    ] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", "-i", metavar="FILE", help="A text in each line; UTF-8, perhaps gzip.")
    ] = None,
    text_column: TextColumn = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to, a line for each text.")
    ] = None,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, with each candidate's whole text.")] = False,
) -> None:
    """Tell which words may stand where a text has [MASK]: one line out for each line in.

    First the text with the most probable word at every mask; then, for each mask after a tab, the candidates and their
    probabilities. Several masks are filled each for itself. A candidate that begins with ## goes on with the word before it.

    A model that was pre-trained by span corruption (T5) writes any number of words for each <extra_id_0>, <extra_id_1> and so on
    of a text: first the whole text, then after a tab what it wrote for each.

    \b
    Example:
      regard fill runs/bert "Paris is the [MASK] of France."
      regard fill runs/bert "The [MASK] sat on the [MASK]." --n-best 3
      regard fill runs/bert --input gaps.txt --output filled.txt
      regard fill runs/bert "Paris is the [MASK] of France." --json
      regard fill runs/t5-pretrained "Thank you <extra_id_0> me to your party <extra_id_1> week."
    """  # noqa: D301  # \b keeps the lines of the example apart
    waiting = read_input(texts or (), input_file, text_column)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(NewFile(output)) if output is not None else None
        from regard.tasks.loading import task_of
        from regard.tasks.masked_language_modelling import mask_of

        spans = task_of(model) in WITH_SENTINELS
        predictor = opened(model, device, "span_corruption" if spans else "masked_language_modelling")
        if spans and n_best is not None:
            raise InputError("--n-best is for models that tell one word for each [MASK]; leave it out")
        mask = "" if spans else mask_of(predictor.task.tokenizer)

        def answer(chunk: list[Text]) -> Sequence[Any]:
            if spans:
                return fill_spans(predictor, chunk)
            for text in chunk:
                if mask not in text.content:
                    raise InputError(f"{text.where}: there is no {mask} in it; write {mask} where a word is to be told")
            return predictor.fill_batch([text.content for text in chunk], USUAL_TOP if n_best is None else n_best)

        typed = by_hand(texts, input_file)
        shown = not typed and (file is not None or not on_terminal(sys.stdout))
        stack.enter_context(text_bar(predictor, len(texts) if texts else None, shown=shown))
        answer_all(
            waiting,
            answer,
            command="fill",
            name="filled",
            line_of=spans_line if spans else _line,
            object_of=spans_object if spans else _object,
            file=file,
            as_json=as_json,
            together=1 if typed else USUAL_CHUNK,
        )


def _line(filled: Filled | None) -> str:
    if filled is None:
        return "\n"
    masks = [", ".join(f"{each.token} {each.probability:.4f}" for each in candidates) for candidates in filled.masks]
    return "\t".join([" ".join(filled.best.split()), *masks]) + "\n"


def _object(text: Text, filled: Filled | None) -> dict[str, Any]:
    if filled is None:
        return {"text": text.content, "best": text.content, "masks": []}
    masks = [
        [{"token": each.token, "probability": each.probability, "text": each.text} for each in candidates]
        for candidates in filled.masks
    ]
    return {"text": filled.text, "best": filled.best, "masks": masks}


# Models that were pre-trained by span corruption.


def fill_spans(model: SpanFiller, chunk: list[Text]) -> list[FilledSpans]:
    """What is missing in some texts.

    Raises:
        InputError: for one without <extra_id_0>, naming where it stands.
    """
    for text in chunk:
        if "<extra_id_0>" not in text.content:
            raise InputError(
                f"{text.where}: there is no <extra_id_0> in it; write <extra_id_0>, <extra_id_1> and so on where something is "
                "missing"
            )
    return model.fill_batch([text.content for text in chunk])


def spans_line(filled: FilledSpans | None) -> str:
    """The whole text, then what was written for each gap, after a tab each."""
    if filled is None:
        return "\n"
    return "\t".join(" ".join((span or "").split()) for span in (filled.best, *filled.spans)) + "\n"


def spans_object(text: Text, filled: FilledSpans | None) -> dict[str, Any]:
    """The same as a JSON object; null for a gap that the model left out."""
    if filled is None:
        return {"text": text.content, "best": text.content, "spans": [], "log_probability": None}
    return {
        "text": filled.text,
        "best": filled.best,
        "spans": list(filled.spans),
        "log_probability": filled.log_probability,
    }
