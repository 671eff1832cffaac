"""`regard tag`."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.answers import USUAL_CHUNK, answer_all, by_hand
from regard.cli.console import NewFile, on_terminal, text_bar
from regard.cli.inputs import Device, Text, TextColumn, opened, read_input
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.tagging import Tagging

COLUMN_FILES = (".conll", ".conll.gz", ".iob", ".iob.gz", ".bio", ".bio.gz")
"""Names of files that hold a word in each line."""


class Form(StrEnum):
    """How an answer is written."""

    inline = "inline"
    conll = "conll"
    json = "json"


class Decoding(StrEnum):
    """How tags are chosen."""

    constrained = "constrained"
    greedy = "greedy"


@dataclass(frozen=True, slots=True)
class _Sentence(Text):
    """A text whose words are told apart."""

    words: tuple[str, ...]
    document: int


def tag(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="What to tag; else --input or standard input.", show_default=False),
    ] = None,
    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input",
            "-i",
            metavar="FILE",
            help="A text in each line; of a .conll file the first column. Perhaps gzip.",
        ),
    ] = None,
    text_column: TextColumn = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to, in the order of the texts.")
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="The texts are words already, with blanks between.")] = False,
    columns: Annotated[
        bool, typer.Option("--columns", help="The file has a word in each line, whatever its name.")
    ] = False,
    form: Annotated[
        Form, typer.Option("--format", help="A line with brackets, a word and its tag in each line, or JSON lines.")
    ] = Form.inline,
    decoding: Annotated[
        Decoding | None,
        typer.Option(help="Tags that make sense together, or the best of each word; else the model's own way."),
    ] = None,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object of all texts.")] = False,
) -> None:
    """Tag the words of texts: names of people and places, parts of speech, whatever the model was trained for.

    Usually a line out for each line in: "[PER Angela Merkel] visited [LOC Paris].", or "Paris/NNP" where tags mark no spans.
    --format conll writes a word and its tag in each line and an empty line after each text; --format json an object for each
    text, with places in characters and probabilities.

    \b
    Example:
      regard tag runs/names "Angela Merkel visited Paris."
      regard tag runs/names --input news.txt --format json --output names.jsonl
      regard tag runs/names --input test.conll --format conll --output predicted.conll
      echo "the U.S. Senate" | regard tag runs/names --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    named = input_file is not None and input_file.name.lower().endswith(COLUMN_FILES)
    if columns and input_file is None:
        raise InputError("--columns goes with --input FILE; give the file of words")
    waiting = _sentences(texts, input_file) if columns or named else read_input(texts or (), input_file, text_column)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(NewFile(output)) if output is not None else None
        from regard.data.words import words_of

        tagger = opened(model, device, "tagging")

        def answer(chunk: list[Text]) -> list[Tagging]:
            if form == Form.conll and chunk and chunk[0].row is not None:
                raise InputError(
                    "--format conll has no place for the columns of a table; leave it out, or give a file of text"
                )
            given: list[str | tuple[str, ...]] = []
            for text in chunk:
                given.append(text.words if isinstance(text, _Sentence) else text.content)
                if words and not isinstance(text, _Sentence):
                    given[-1] = tuple(text.content.split())
                elif isinstance(given[-1], str) and not words_of(given[-1]):
                    raise InputError(f"{text.where}: holds no word; there is nothing to tag")
            documents = [text.document for text in chunk if isinstance(text, _Sentence)]
            return tagger.tag_batch(
                given, documents=documents or None, decoding=None if decoding is None else decoding.value
            )

        typed = by_hand(texts, input_file)
        shown = not typed and (file is not None or not on_terminal(sys.stdout))
        stack.enter_context(text_bar(tagger, len(texts) if texts else None, shown=shown))
        # A sentence is read with those around it, which must not depend on where a chunk ends.
        whole = (columns or named) and tagger.task.context > 0
        answer_all(
            waiting,
            answer,
            name="taggings",
            line_of=_WRITTEN[form],
            object_of=_object,
            file=file,
            as_json=as_json,
            together=1 if typed else sys.maxsize if whole else USUAL_CHUNK,
        )


def _sentences(texts: list[str] | None, file: Path | None) -> Iterator[Text]:
    """The sentences of a file of columns."""
    import itertools

    from regard.data.tagged import read_tagged
    from regard.tasks.tagging import documents_of

    if texts or file is None:
        raise InputError("there are texts on the command line and a file of words; give either")
    read, other = itertools.tee(read_tagged(file, tagged=False, on_error="stop"))
    return (
        _Sentence(" ".join(sentence.words), f"{file}, line {sentence.line}", sentence.words, document)
        for sentence, document in zip(read, documents_of(other), strict=True)
    )


def _inline(answer: Tagging | None) -> str:
    if answer is None:
        return "\n"
    parts: list[str] = []
    done = 0
    if answer.entities:
        marked = [(entity.start, entity.end, f"[{entity.type} {entity.text}]") for entity in answer.entities]
    elif any(tag != "O" for tag in answer.tags):  # tags that mark no spans
        rows = zip(answer.spans, answer.words, answer.tags, strict=True)
        marked = [(start, end, f"{word}/{tag}") for (start, end), word, tag in rows]
    else:
        marked = []
    for start, end, written in marked:
        parts += [answer.text[done:start], written]
        done = end
    parts.append(answer.text[done:])
    return "".join(parts).translate(_BREAKS) + "\n"


_BREAKS = str.maketrans(dict.fromkeys("\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "))


def _columns(answer: Tagging | None) -> str:
    if answer is None:
        return "\n"
    return "".join(f"{word}\t{tag}\n" for word, tag in zip(answer.words, answer.tags, strict=True)) + "\n"


def _json_line(answer: Tagging | None) -> str:
    return json.dumps(_said(answer), ensure_ascii=False) + "\n"


_WRITTEN: dict[Form, Callable[[Tagging | None], str]] = {
    Form.inline: _inline,
    Form.conll: _columns,
    Form.json: _json_line,
}


def _object(text: Text, answer: Tagging | None) -> dict[str, Any]:
    return _said(answer) if answer is not None else {"text": text.content, "words": [], "entities": []}


def _said(answer: Tagging | None) -> dict[str, Any]:
    if answer is None:
        return {"text": "", "words": [], "entities": []}
    rows = zip(answer.words, answer.tags, answer.spans, answer.probabilities, strict=True)
    return {
        "text": answer.text,
        "words": [
            {"text": word, "tag": tag, "start": start, "end": end, "probability": probability}
            for word, tag, (start, end), probability in rows
        ],
        "entities": [
            {
                "type": entity.type,
                "text": entity.text,
                "start": entity.start,
                "end": entity.end,
                "probability": entity.probability,
            }
            for entity in answer.entities
        ],
    }
