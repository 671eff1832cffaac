"""The texts that a command is to read: from its arguments, a file, or standard input."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.console import on_terminal, say
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.data.lines import Line
    from regard.tasks import Translator

STANDARD_INPUT = "standard input"


@dataclass(frozen=True, slots=True)
class Text:
    """A text, and how a message calls it, such as "pairs.tsv, line 3"."""

    content: str
    where: str
    row: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """All columns, of a text of a table."""
    kind: str = field(default="", kw_only=True)
    """The format of that table: csv, tsv or jsonl."""


TextColumn = Annotated[
    str | None,
    typer.Option(
        "--text",
        metavar="COLUMN",
        help="Of an --input in CSV, TSV or JSONL: the column with the text, by its name in the first line, or counted from 0; "
        "else the one that the model was trained on, or one with a usual name. All columns are kept in the output.",
        show_default=False,
    ),
]


def read_input(
    arguments: Sequence[str],
    file: Path | None,
    column: str | None = None,
    *,
    pairs: bool = False,
    known: Sequence[str] = (),
) -> Iterator[Text]:
    """As `read_texts`, but of a table (CSV, JSONL, TSV with a header) the texts of one column; which it is is said.

    Arguments:
        column: its name, or number from 0; where None it is found by its name.
        known: the columns that the model was trained on, which are taken where the table has them.
        pairs: whether two columns may be read, for a model of two texts.

    Raises:
        InputError: as `read_texts`; for a column without a file; where it is not clear which column is meant.
    """
    if file is None or arguments:
        if column is not None:
            raise InputError("--text names a column of a table; give --input FILE too, or leave it out")
        return read_texts(arguments, file)
    from regard.data.table_texts import is_table, read_table

    if not is_table(file, column, known):
        return read_texts(arguments, file)
    table = read_table(file, column, pairs=pairs, known=known)
    if table.told:
        say(table.told)
    return (Text(row.text, f"{file}, line {row.line}", row=row.row, kind=table.kind) for row in table.rows)


def columns_trained_on(model: Path) -> list[str]:
    """The names of the columns of text, and perhaps pair, that a model was trained on; none where its recipe names none."""
    from regard.checkpoints import read_card
    from regard.tasks.loading import model_folder

    data = read_card(model_folder(model)).recipe.get("data")
    said = [data.get(name) for name in ("text", "pair")] if isinstance(data, dict) else []
    return [name for name in said if isinstance(name, str)] if said and isinstance(said[0], str) else []


def read_texts(arguments: Sequence[str], file: Path | None) -> Iterator[Text]:
    """The texts, one by one: the arguments, or the lines of a file (perhaps gzip), or those of standard input.

    The file is opened, and its beginning judged, by the call itself.

    Raises:
        InputError: for arguments beside a file, a file that cannot be read, or a line that is no text.
    """
    if arguments and file is not None:
        raise InputError("there are texts on the command line and a file of them; give either")
    if arguments:
        return (Text(argument, f"text {number}") for number, argument in enumerate(arguments, start=1))
    if file is None:
        return _texts(STANDARD_INPUT, _standard_input())
    from regard.data.lines import read_lines

    return _texts(str(file), read_lines(file, pipes=True))


def refuse_too_long(translator: Translator, texts: Sequence[Text], to: str | None = None) -> None:
    """Refuse texts that have more tokens than the model can read.

    Arguments:
        to: the language asked for, whose tag is a token too.

    Raises:
        InputError: naming the first one.
    """
    limit = translator.model.maximum_source_length
    if limit is None:
        return
    encoded = translator.task.encode_sources([text.content for text in texts], to)
    for text, ids in zip(texts, encoded, strict=True):
        if len(ids) + 1 > limit:  # with its end token
            raise InputError(
                f"{text.where}: the source has {len(ids) + 1} tokens and the model has positions for {limit}; shorten it, or "
                f"train with a larger {translator.model.length_setting}"
            )


def _texts(name: str, lines: Iterator[Line]) -> Iterator[Text]:
    from regard.data.malformed import MalformedRow
    from regard.data.pair import decoded

    for line in lines:
        content = decoded(name, line)
        if isinstance(content, MalformedRow):
            raise InputError(f"{content}; give UTF-8 text with one text in each line")
        yield Text(content, f"{name}, line {line.number}")


def _standard_input() -> Iterator[Line]:
    from regard.data.lines import LONGEST_LINE, Line

    if sys.stdin is None:
        raise InputError("there is no standard input; give texts, or --input FILE")
    if on_terminal(sys.stdin):
        say("reading from standard input, a text in each line; Ctrl-D ends it")
    for number in itertools.count(1):
        content = sys.stdin.buffer.readline(LONGEST_LINE + 2)
        if not content:
            return
        if number == 1:
            content = content.removeprefix(b"\xef\xbb\xbf")
        content = content.removesuffix(b"\n").removesuffix(b"\r")
        yield Line(number, content, len(content) > LONGEST_LINE)
