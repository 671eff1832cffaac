"""Text to text: `regard translate` and `regard summarize`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.commands import renamed
from regard.cli.inputs import Text, read_texts, refuse_too_long
from regard.cli.run import Answers, Run, Texts, verb
from regard.cli.settings import NOTHING, BatchSize, Decoding, DTypeOrAuto, To, with_options
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks import Translation
    from regard.tasks.language_writing import Written
    from regard.tasks.text_to_text import TextToText


BATCHES_AT_ONCE = 16  # read and sorted by length together, so that batches have little padding


@renamed(precision="dtype")
@verb(
    "translation",
    texts="Texts to translate; by default --input or standard input.",
    batch_size="Texts per batch; with 1, each line is answered at once.",
    as_json="Print one JSON object, with scores.",
)
def translate(
    run: Texts, to: To = None, decoding: Decoding = NOTHING, dtype: DTypeOrAuto = "float32", batch_size: BatchSize = 64
) -> None:
    """Translate texts: one output line per input line; an empty line stays empty.

    With --n-best, the translations of a text are on one line, separated by tabs, best first. Line breaks in a translation
    become spaces, except with --json. Defaults are the model's own settings.

    \b
    Example:
      regard translate runs/dates "Tuesday, 9 May 2017" "mardi 9 mai 2017"
      regard translate runs/one-to-many "A dog runs." --to fr
      regard translate runs/en-de --input news.en.gz --output news.de --beam 5 --dtype int8
      echo "9. Mai 2017" | regard translate runs/dates --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    waiting = run.read()
    with run.file() as file:
        translator = run.load("translation", dtype=dtype)
        translator.task.check_language(to)
        settings = with_options(translator.task.generation, decoding)

        def answer(chunk: list[Text]) -> list[Translation]:
            refuse_too_long(translator, chunk, to)
            return translator.translate_batch([text.content for text in chunk], settings, to=to, batch_size=batch_size)

        together = 1 if batch_size == 1 else BATCHES_AT_ONCE * batch_size
        run.write(TRANSLATIONS, waiting, answer, file=file, watched=translator, together=together)


def translation_line(translation: Translation | None) -> str:
    """A translation as a line of text with its line end; alternatives follow, separated by tabs."""
    if translation is None:
        return "\n"
    answers = [translation.text, *(text for text, _ in translation.alternatives)]
    breaks = "\r\n\t" if len(answers) > 1 else "\r\n"
    table = str.maketrans(dict.fromkeys(breaks, " "))
    return "\t".join(answer.translate(table) for answer in answers) + "\n"


def translation_values(source: str, translation: Translation | None) -> dict[str, Any]:
    """A translation by name; without scores for an empty text."""
    if translation is None:
        return {"source": source, "text": "", "score": None, "log_probability": None, "alternatives": []}
    return {
        "source": source,
        "text": translation.text,
        "score": translation.score,
        "log_probability": translation.log_probability,
        "alternatives": [{"text": answer, "score": score} for answer, score in translation.alternatives],
    }


TRANSLATIONS = Answers(
    command="translate",
    name="translations",
    line=lambda text, translation: translation_line(translation),
    values=lambda text, translation: translation_values(text.content, translation),
)


# `regard summarize`.


TOGETHER = 16
"""Documents that are read before they are summarized."""

STANDARD_INPUT = "-"


class Long(StrEnum):
    """What is done with a document longer than the model's maximum."""

    refuse = "refuse"
    cut = "cut"
    pieces = "pieces"


Summary = list["Written"]
"""The generated texts for each piece of a document."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Documents(Run):
    """The options of `regard summarize`."""

    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Documents, one per file; UTF-8, optionally gzipped. Standard input if - or none is given.",
            show_default=False,
        ),
    ] = None
    lines: Annotated[bool, typer.Option("--lines", help="Read each line of a file as a document.")] = False
    long: Annotated[
        Long,
        typer.Option(
            help="A document longer than the model's context is refused, cut (its beginning is summarized), or summarized in "
            "pieces of whole sentences."
        ),
    ] = Long.refuse

    @property
    def count(self) -> int | None:
        """The number of documents; None where unknown."""
        return None if self.lines or self.long == Long.pieces else len(self.files or "-")


@verb(
    without=("n_best",),
    batch_size="Documents per batch.",
    output="Output file, one line per document.",
    as_json="Print one JSON object, with log-probabilities.",
)
def summarize(
    run: Documents,
    decoding: Decoding = NOTHING,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Prefix for each document.")] = "summarize: ",
    batch_size: BatchSize = 16,
) -> None:
    """Summarize documents with a text-to-text model: one output line per document.

    \b
    Example:
      regard summarize runs/t5 article.txt
      regard summarize runs/t5 report.txt --long pieces --beam 4 --maximum-length 80
      regard summarize runs/t5 articles.txt.gz --lines --output summaries.txt
      cat article.txt | regard summarize runs/t5 - --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    waiting = _documents(run.files or [STANDARD_INPUT], run.lines)
    with run.file() as file:
        writer: TextToText = run.load("text_to_text")
        _check_prefix(writer, prefix, run.model)
        settings = with_options(writer.task.generation, decoding)

        def answer(chunk: list[Text]) -> list[Summary]:
            pieces = [_pieces(writer, text, prefix, run.long) for text in chunk]
            flat = list(itertools.chain.from_iterable(pieces))
            cut = run.long == Long.cut
            written = iter(writer.generate(flat, settings, prefix=prefix, batch_size=batch_size, cut=cut))
            return [list(itertools.islice(written, len(each))) for each in pieces]

        run.write(SUMMARIES, waiting, answer, file=file, watched=writer, together=TOGETHER)


def _documents(files: Sequence[str], lines: bool) -> Iterator[Text]:
    """The documents one by one; the call itself opens every file and checks its beginning.

    Raises:
        InputError: for a file that cannot be read, and for standard input together with files.
    """
    if STANDARD_INPUT in files and len(files) > 1:
        raise InputError("standard input (-) is given together with files; give one of them")
    opened_files = [(name, read_texts((), None if name == STANDARD_INPUT else Path(name))) for name in files]
    if lines:
        return itertools.chain.from_iterable(texts for _, texts in opened_files)
    return (_whole(name, texts) for name, texts in opened_files)


def _whole(name: str, texts: Iterator[Text]) -> Text:
    """A file's lines as one document."""
    where = "standard input" if name == STANDARD_INPUT else name
    content = "\n".join(text.content for text in texts)
    if not content.strip():
        raise InputError(f"{where}: is empty; give a text")
    return Text(content, where)


def _check_prefix(writer: TextToText, prefix: str, model: Path) -> None:
    """Refuse a prefix that the model was not trained with, where its prefixes are known.

    Raises:
        InputError: with the known prefixes.
    """
    known = [each for each in writer.task.prefixes.values() if each]
    if known and prefix not in known:
        names = ", ".join(map(repr, known))
        raise InputError(
            f"{model}: was trained with the prefixes {names}, and not with {prefix!r}; give one with --prefix"
        )


def _pieces(writer: TextToText, text: Text, prefix: str, long: Long) -> list[str]:
    """A document in the pieces that are summarized.

    Raises:
        InputError: for a document that is too long, with `--long refuse`.
    """
    limit = writer.longest
    if long != Long.refuse:
        return writer.pieces_of(text.content, prefix=prefix) if long == Long.pieces else [text.content]
    length = len(writer.task.tokenizer.encode(prefix + text.content)) + 1
    if limit is not None and length > limit:
        raise InputError(
            f"{text.where}: has {length} tokens and the model reads {limit}; summarize it in pieces with --long pieces, or "
            "its "
            "beginning with --long cut"
        )
    return [text.content]


def _line(text: Text, summary: Summary | None) -> str:
    return " ".join(" ".join(piece.text.split()) for piece in summary or ()) + "\n"


def _values(text: Text, summary: Summary | None) -> dict[str, Any]:
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


SUMMARIES = Answers(command="summarize", name="summaries", line=_line, values=_values)
