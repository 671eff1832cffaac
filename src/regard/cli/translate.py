"""`regard translate`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli import generation_options as options
from regard.cli.answers import answer_all, by_hand, line_of, object_of
from regard.cli.console import NewFile, on_terminal, text_bar
from regard.cli.inputs import Device, Precision, Text, TextColumn, opened, read_input, refuse_too_long

if TYPE_CHECKING:
    from regard.tasks import Translation

BATCHES_AT_ONCE = 16  # read together and sorted by length, so that batches hold little padding


@options.decoding_options()
def translate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="What to translate; else --input or standard input.", show_default=False),
    ] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", "-i", metavar="FILE", help="A text in each line; UTF-8, perhaps gzip.")
    ] = None,
    text_column: TextColumn = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to, a line for each text.")
    ] = None,
    to: options.To = None,
    decoding: options.Decoding = options.NOTHING,
    device: Device = "auto",
    precision: Precision = "float32",
    batch_size: Annotated[
        int, typer.Option(min=1, help="Texts decoded together; with 1 each line is answered as it comes.")
    ] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, with scores.")] = False,
) -> None:
    """Translate texts: one line out for each line in, an empty one for an empty one.

    Several answers to a text (--n-best) stand in one line with tabs between them, the best first; line breaks inside an answer
    become spaces. --json has them as they are. Settings that are not given are the model's own.

    \b
    Example:
      regard translate runs/dates "Tuesday, 9 May 2017" "mardi 9 mai 2017"
      regard translate runs/one-to-many "A dog runs." --to fr
      regard translate runs/en-de --input news.en.gz --output news.de --beam 5 --precision int8
      echo "9. Mai 2017" | regard translate runs/dates --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    waiting = read_input(texts or (), input_file, text_column)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(NewFile(output)) if output is not None else None
        translator = opened(model, device, "translation", precision=precision)
        translator.task.check_language(to)
        settings = options.with_options(translator.task.generation, decoding)
        typed = by_hand(texts, input_file)
        shown = not typed and (file is not None or not on_terminal(sys.stdout))
        stack.enter_context(text_bar(translator, len(texts) if texts else None, shown=shown))

        def answer(chunk: list[Text]) -> list[Translation]:
            refuse_too_long(translator, chunk, to)
            return translator.translate_batch([text.content for text in chunk], settings, to=to, batch_size=batch_size)

        answer_all(
            waiting,
            answer,
            name="translations",
            line_of=line_of,
            object_of=lambda text, translation: object_of(text.content, translation),
            file=file,
            as_json=as_json,
            together=1 if typed or batch_size == 1 else BATCHES_AT_ONCE * batch_size,
        )
