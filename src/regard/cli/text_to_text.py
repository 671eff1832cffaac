"""From text to text: `regard translate` and `regard summarize`."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import generation_options as options
from regard.cli.answers import answer_all, by_hand, line_of, object_of
from regard.cli.console import NewFile, on_terminal, text_bar
from regard.cli.inputs import Device, Precision, Text, TextColumn, opened, read_input, read_texts, refuse_too_long
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks import Translation
    from regard.tasks.language_writing import Written
    from regard.tasks.text_to_text import TextToText


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
            command="translate",
            name="translations",
            line_of=line_of,
            object_of=lambda text, translation: object_of(text.content, translation),
            file=file,
            as_json=as_json,
            together=1 if typed or batch_size == 1 else BATCHES_AT_ONCE * batch_size,
        )


# `regard summarize`.


TOGETHER = 16
"""Documents read before they are answered."""

STANDARD_INPUT = "-"


class Long(StrEnum):
    """What becomes of a document that is longer than the model reads."""

    refuse = "refuse"
    cut = "cut"
    pieces = "pieces"


Summary = list["Written"]
"""What was written for each piece of a document."""


@options.decoding_options("n_best")
def summarize(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Documents, one in each file; UTF-8, perhaps gzip. - or none is standard input.",
            show_default=False,
        ),
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Each line of a file is a document.")] = False,
    long: Annotated[
        Long,
        typer.Option(
            help="A document longer than the model reads is refused, cut (its beginning is summarized), or summarized in pieces "
            "of whole sentences, one after another."
        ),
    ] = Long.refuse,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="What stands in front of a document.")] = "summarize: ",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to, a line for each document.")
    ] = None,
    decoding: options.Decoding = options.NOTHING,
    device: Device = "auto",
    batch_size: Annotated[int, typer.Option(min=1, help="Documents decoded together.")] = 16,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, with log-probabilities.")] = False,
) -> None:
    """Summarize documents with a text-to-text model: one line out for each document, line breaks in it as spaces.

    \b
    Example:
      regard summarize runs/t5 article.txt
      regard summarize runs/t5 report.txt --long pieces --beam 4 --maximum-length 80
      regard summarize runs/t5 articles.txt.gz --lines --output summaries.txt
      cat article.txt | regard summarize runs/t5 - --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    waiting = _documents(files or [STANDARD_INPUT], lines)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(NewFile(output)) if output is not None else None
        writer: TextToText = opened(model, device, "text_to_text")
        _check_prefix(writer, prefix, model)
        settings = options.with_options(writer.task.generation, decoding)
        shown = file is not None or not on_terminal(sys.stdout)
        stack.enter_context(text_bar(writer, None if lines or long == Long.pieces else len(files or "-"), shown=shown))

        def answer(chunk: list[Text]) -> list[Summary]:
            pieces = [_pieces(writer, text, prefix, long) for text in chunk]
            flat = list(itertools.chain.from_iterable(pieces))
            written = iter(writer.generate(flat, settings, prefix=prefix, batch_size=batch_size, cut=long == Long.cut))
            return [list(itertools.islice(written, len(each))) for each in pieces]

        answer_all(
            waiting,
            answer,
            command="summarize",
            name="summaries",
            line_of=_line,
            object_of=_object,
            file=file,
            as_json=as_json,
            together=TOGETHER,
        )


def _documents(files: Sequence[str], lines: bool) -> Iterator[Text]:
    """The documents, one by one; every file is opened, and its beginning judged, by the call itself.

    Raises:
        InputError: for a file that cannot be read, or standard input beside others.
    """
    if STANDARD_INPUT in files and len(files) > 1:
        raise InputError("standard input (-) is given beside files; give either")
    opened_files = [(name, read_texts((), None if name == STANDARD_INPUT else Path(name))) for name in files]
    if lines:
        return itertools.chain.from_iterable(texts for _, texts in opened_files)
    return (_whole(name, texts) for name, texts in opened_files)


def _whole(name: str, texts: Iterator[Text]) -> Text:
    """A file's lines as one document."""
    where = "standard input" if name == STANDARD_INPUT else name
    content = "\n".join(text.content for text in texts)
    if not content.strip():
        raise InputError(f"{where}: is empty; there is nothing to summarize")
    return Text(content, where)


def _check_prefix(writer: TextToText, prefix: str, model: Path) -> None:
    """Refuse what the model was never asked, where it is known what it was.

    Raises:
        InputError: naming the prefixes it knows.
    """
    known = [each for each in writer.task.prefixes.values() if each]
    if known and prefix not in known:
        names = ", ".join(map(repr, known))
        raise InputError(
            f"{model}: was trained with the prefixes {names}, and not with {prefix!r}; name one with --prefix"
        )


def _pieces(writer: TextToText, text: Text, prefix: str, long: Long) -> list[str]:
    """A document in the pieces that are summarized.

    Raises:
        InputError: for a document that is too long, where those are refused.
    """
    limit = writer.longest
    if long != Long.refuse:
        return writer.pieces_of(text.content, prefix=prefix) if long == Long.pieces else [text.content]
    length = len(writer.task.tokenizer.encode(prefix + text.content)) + 1
    if limit is not None and length > limit:
        raise InputError(
            f"{text.where}: has {length} tokens and the model reads {limit}; summarize it in pieces with --long pieces, or its "
            "beginning with --long cut"
        )
    return [text.content]


def _line(summary: Summary | None) -> str:
    return " ".join(" ".join(piece.text.split()) for piece in summary or ()) + "\n"


def _object(text: Text, summary: Summary | None) -> dict[str, Any]:
    pieces = summary or []
    return {
        "document": text.where,
        "summary": " ".join(piece.text for piece in pieces),
        "pieces": [
            {
                "text": piece.prompt,
                "summary": piece.text,
                "log_probability": piece.log_probability,
                "finished": piece.finished,
            }
            for piece in pieces
        ],
    }
