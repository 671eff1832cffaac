"""`regard answer`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.answers import answer_all, by_hand
from regard.cli.commands import renamed
from regard.cli.console import NewFile, on_terminal, text_bar
from regard.cli.inputs import Device, Text, opened, read_texts
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.answer_spans import Answer

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
            name="answers",
            line_of=_lines,
            object_of=_object,
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


def _lines(answer: Answer | None) -> str:
    if answer is None:
        return "\n"
    rest = [] if answer.start is None else list(answer.alternatives)
    said = [(answer.text, answer.probability), *((passage.text, passage.probability) for passage in rest)]
    return "".join(f"{' '.join(text.split())}\t{probability:.4f}\n" for text, probability in said)


def _object(text: Text, answer: Answer | None) -> dict[str, Any]:
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
