"""`regard generate`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import generation_options as options
from regard.cli.answers import answer_all, by_hand
from regard.cli.console import NewFile, on_terminal, text_bar
from regard.cli.inputs import Device, Precision, Text, TextColumn, opened, read_input
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.language_writing import Written

BATCHES_AT_ONCE = 16


@options.decoding_options("coverage_penalty", maximum_length=100)
def generate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    prompts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT", help="What to write on after; else --input or standard input.", show_default=False
        ),
    ] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", "-i", metavar="FILE", help="A prompt in each line; UTF-8, perhaps gzip.")
    ] = None,
    text_column: TextColumn = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to, a line for each prompt.")
    ] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Ends the text, and is not part of it; may be repeated.", show_default=False),
    ] = None,
    decoding: options.Decoding = options.NOTHING,
    top_log_probabilities: Annotated[
        int, typer.Option(min=0, help="With --json: the most probable tokens of each place, so many.")
    ] = 0,
    draft: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL", help="A smaller model of the same vocabulary that guesses ahead.", show_default=False
        ),
    ] = None,
    ahead: Annotated[int, typer.Option(min=1, help="Tokens that --draft guesses at a time.")] = 4,
    device: Device = "auto",
    precision: Precision = "float32",
    batch_size: Annotated[int, typer.Option(min=1, help="Prompts written on together.")] = 16,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, with tokens and scores.")] = False,
) -> None:
    """Write on after prompts, with a language model: one line out for each prompt, line breaks in it as spaces.

    A text-to-text model (T5) reads each text and writes another; where it was trained on several tasks, what stands in front of
    the text says which one is wanted.

    A single prompt on a terminal is written on piece by piece, as it comes and with its line breaks. Several answers (--n-best)
    stand in one line with tabs between them. --json has all as they are, with each token's log-probability.
    Log-probabilities are the model's own, whatever temperature, penalties and biases were asked for.

    \b
    Example:
      regard generate runs/gpt "The history of"
      regard generate runs/gpt "The history of" --sample --temperature 0.8 --top-p 0.95 --seed 3
      regard generate runs/gpt "The history of" --repetition-penalty 1.2 --json --top-log-probabilities 5
      regard generate runs/t5 "translate English to German: The house is small."
      regard generate runs/gpt "The history of" --precision int8 --draft runs/gpt-tiny
      regard generate runs/gpt --input prompts.txt --output texts.txt --stop "." --maximum-length 40
    """  # noqa: D301  # \b keeps the lines of the example apart
    if top_log_probabilities and not as_json:
        raise InputError("--top-log-probabilities are only told with --json; give both")
    waiting = read_input(prompts or (), input_file, text_column)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(NewFile(output)) if output is not None else None
        from regard.tasks.loading import task_of

        after = task_of(model) != "text_to_text"
        writer = opened(model, device, "language_modelling" if after else None, precision=precision)
        if top_log_probabilities and not after:
            raise InputError(f"--top-log-probabilities are told by language models, and {model} is none; leave it out")
        guessing = None
        if draft is not None:
            if not after:
                raise InputError(f"--draft guesses for a language model, and {model} is none; leave it out")
            guessing = opened(draft, device, "language_modelling", precision=precision)
        settings = options.with_options(writer.usual, decoding)
        alone = after and prompts is not None and len(prompts) == 1 and settings.beam == settings.n_best == 1
        if alone and guessing is None and file is None and not as_json and on_terminal(sys.stdout):
            for piece in writer.stream(prompts[0], settings, stop=stop or ()):  # type: ignore[index]
                print(piece, end="", flush=True)
            print()
            return
        typed = by_hand(prompts, input_file)
        shown = not typed and (file is not None or not on_terminal(sys.stdout))
        stack.enter_context(text_bar(writer, len(prompts) if prompts else None, shown=shown))

        done = 0

        def answer(chunk: list[Text]) -> list[Written]:
            nonlocal done
            texts = [text.content for text in chunk]
            own = {"first": done, "top": top_log_probabilities, "draft": guessing, "ahead": ahead} if after else {}
            written = writer.generate(texts, settings, stop=stop or (), batch_size=batch_size, **own)
            done += len(chunk)
            return written

        answer_all(
            waiting,
            answer,
            name="texts",
            line_of=_line,
            object_of=lambda text, written: _object(text.content, written),
            file=file,
            as_json=as_json,
            together=1 if typed or batch_size == 1 else BATCHES_AT_ONCE * batch_size,
        )


def _line(written: Written | None) -> str:
    if written is None:
        return "\n"
    return "\t".join(" ".join(text.split()) for text in (written.text, *written.alternatives)) + "\n"


def _object(prompt: str, written: Written | None) -> dict[str, Any]:
    if written is None:
        return {
            "prompt": prompt,
            "text": "",
            "tokens": [],
            "log_probabilities": [],
            "finished": None,
            "alternatives": [],
        }
    values: dict[str, Any] = {
        "prompt": prompt,
        "text": written.text,
        "tokens": list(written.tokens),
        "log_probabilities": list(written.log_probabilities),
        "finished": written.finished,
        "alternatives": list(written.alternatives),
    }
    if written.top:
        values["top"] = [
            [{"token": token, "log_probability": number} for token, number in place] for place in written.top
        ]
    return values
