"""Spans of a text: `regard tag` finds and names them, `regard answer` finds the one that answers a question."""

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
from regard.cli.commands import renamed
from regard.cli.console import NewFile, on_terminal, text_bar
from regard.cli.inputs import Device, Text, TextColumn, opened, read_input, read_texts
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.answer_spans import Answer
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
        from regard.data.tagged import words_of

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
            command="tag",
            name="taggings",
            line_of=_WRITTEN[form],
            object_of=_tagging_object,
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


def _tagging_object(text: Text, answer: Tagging | None) -> dict[str, Any]:
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


# `regard answer`.


TOGETHER = 32
"""Questions read from a file before they are answered; contexts may be long."""


@dataclass(frozen=True, slots=True)
class _Question(Text):
    """A question with its context."""

    context: str
    id: str | None = None


@renamed(no_answer_threshold="threshold")
def answer(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    questions: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUESTION", help="What to ask of the context; else standard input.", show_default=False),
    ] = None,
    context: Annotated[str | None, typer.Option(metavar="TEXT", help="Where the answer stands.")] = None,
    context_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The same in a file of any length; perhaps gzip.")
    ] = None,
    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input",
            "-i",
            metavar="FILE",
            help="Questions with their contexts instead: SQuAD's JSON, or JSONL; perhaps gzip.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to, a line for each question.")
    ] = None,
    n_best: Annotated[int, typer.Option(min=1, help="Answers to one question, the best first.")] = 1,
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="How far the score of no answer has to lead to be believed; the model's own unless given.",
        ),
    ] = None,
    device: Device = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object, with places in the context and alternatives.")
    ] = False,
) -> None:
    """Answer questions with passages of a context: one line out for each question, the answer and its probability.

    The context may have any length. Where a model was trained to say that there is no answer, the line may have none.

    \b
    Example:
      regard answer runs/squad "Where does she live?" --context "She has lived in Paris since 1999."
      regard answer runs/squad "Who wrote it?" "When?" --context-file book.txt
      regard answer runs/squad "Who wrote it?" --context-file book.txt --n-best 5
      regard answer runs/squad --input questions.jsonl --output answers.tsv
      regard answer runs/squad --input dev-v2.0.json --threshold -1.5 --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    if n_best > 1 and not as_json and (input_file is not None or len(questions or ()) != 1):
        raise InputError("--n-best gives several lines for one QUESTION; for more of them say --json as well")
    waiting = _questions(questions or [], context, context_file, input_file)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(NewFile(output)) if output is not None else None
        answerer = opened(model, device, "question_answering")

        def ask(chunk: list[Text]) -> list[Answer]:
            asked = [text for text in chunk if isinstance(text, _Question)]
            return list(
                answerer.answered(
                    [(question.content, question.context) for question in asked],
                    n_best=n_best,
                    threshold=threshold,
                    names=[question.where for question in asked],
                )
            )

        typed = input_file is None and by_hand(questions, None)
        shown = not typed and (file is not None or not on_terminal(sys.stdout))
        stack.enter_context(text_bar(answerer, len(questions) if questions else None, shown=shown))
        answer_all(
            waiting,
            ask,
            command="answer",
            name="answers",
            line_of=_answer_lines,
            object_of=_answer_object,
            file=file,
            as_json=as_json,
            together=1 if typed else TOGETHER,
        )


def _questions(
    questions: list[str], context: str | None, context_file: Path | None, input_file: Path | None
) -> Iterator[Text]:
    """The questions with their contexts, one by one.

    Raises:
        InputError: where it is not clear what is asked of what, or a file cannot be read.
    """
    given = [name for name, value in (("--context", context), ("--context-file", context_file)) if value is not None]
    if input_file is not None:
        if given or questions:
            other = given[0] if given else "a QUESTION"
            raise InputError(f"--input has questions and their contexts, and {other} is given too; give either")
        return _from_file(input_file)
    if len(given) != 1:
        raise InputError(
            "give the context by either --context TEXT or --context-file FILE" + ("" if given else ", or use --input")
        )
    text = _context(context_file) if context_file is not None else str(context)
    if not text.strip():
        raise InputError(
            f"the context{f' in {context_file}' if context_file else ''} is empty; there is no answer in it"
        )
    if questions:
        return (_Question(asked, f"question {number}", text) for number, asked in enumerate(questions, start=1))
    return (_Question(asked.content, asked.where, text) for asked in read_texts((), None))


def _from_file(file: Path) -> Iterator[Text]:
    from regard.data.questions import read_questions

    return (
        _Question(question.question, f"{file}, question {question.number}", question.context, question.id)
        for question in read_questions(file, answered=False, on_error="stop")
    )


def _context(file: Path) -> str:
    """The whole text of a file.

    Raises:
        InputError: where it cannot be read, or is no UTF-8 text.
    """
    from regard.data.lines import BYTE_ORDER_MARK, open_file, read_lines, reading_errors, wrong_encoding

    name = str(file)
    read_lines(name)  # opens it and judges its beginning: a missing file, a folder, binary data
    with open_file(name) as stream, reading_errors(name, lambda: "its text"):
        content = stream.read()
    try:
        return content.removeprefix(BYTE_ORDER_MARK).decode()
    except UnicodeDecodeError:
        raise wrong_encoding(name, None) from None


def _answer_lines(answer: Answer | None) -> str:
    if answer is None:
        return "\n"
    rest = [] if answer.start is None else list(answer.alternatives)
    said = [(answer.text, answer.probability), *((passage.text, passage.probability) for passage in rest)]
    return "".join(f"{' '.join(text.split())}\t{probability:.4f}\n" for text, probability in said)


def _answer_object(text: Text, answer: Answer | None) -> dict[str, Any]:
    named = {"id": text.id} if isinstance(text, _Question) and text.id is not None else {}
    if answer is None:
        return {**named, "question": text.content}
    said: dict[str, Any] = {
        **named,
        "question": answer.question,
        "answer": answer.text,
        "start": answer.start,
        "end": answer.end,
        "probability": answer.probability,
        "alternatives": [
            {
                "answer": passage.text,
                "start": passage.start,
                "end": passage.end,
                "probability": passage.probability,
            }
            for passage in answer.alternatives
        ],
    }
    if answer.no_answer_probability is not None:
        said |= {"no_answer_probability": answer.no_answer_probability, "no_answer_score": answer.no_answer_score}
    return said
