"""`regard prompt`."""

from __future__ import annotations

import contextlib
import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.console import NewFile, print_json, print_table, say
from regard.cli.inputs import Device, opened
from regard.errors import InputError
from regard.rendering import metric_text

if TYPE_CHECKING:
    from regard.prompting import Example, Prompted, PromptedAnswer


def prompt(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Questions with their answers: JSONL, TSV or CSV; perhaps gzip.", show_default=False
        ),
    ],
    template: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="One that ships, or a YAML file of your own.", show_default=False)
    ],
    shots: Annotated[int, typer.Option(min=0, help="Examples shown before each question.")] = 0,
    train: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What these are drawn from.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw.")] = 0,
    draw: Annotated[
        str, typer.Option(metavar="once|each", help="The same for all questions, or anew for each.")
    ] = "once",
    score: Annotated[
        str, typer.Option(metavar="NAME", help="Of choices: sum, token, character, byte or unconditional.")
    ] = "sum",
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME,...", help="Of a table without a first line of names.", show_default=False),
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="NAME", help="auto, jsonl, tsv, csv, lines or childrens_books.")
    ] = "auto",
    limit: Annotated[int | None, typer.Option(min=1, help="Take only so many questions, the first.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the answers, one in each line.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts read or written together.")] = 16,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, with every answer.")] = False,
) -> None:
    """Put a task to a language model as text, and judge its answers; nothing is trained.

    A template says how an example becomes a question, and what the model does: choose among continuations by their
    likelihood, tell a word, write an answer, or translate. With --shots, examples with their answers stand before it.

    Templates that ship: answer, childrens-books, choice, last-word, question-choice, reading, sentiment, translation.

    \b
    Example:
      regard prompt runs/gpt questions.jsonl --template choice --score byte
      regard prompt runs/gpt dev.tsv --template sentiment --columns text,label --shots 4 --train train.tsv --seed 1
      regard prompt runs/gpt lambada.txt --template last-word --format lines
      regard prompt runs/gpt test.tsv --template translation --columns source,target --shots 5 --train train.tsv --json
      regard prompt runs/gpt mine.jsonl --template mine.yaml --output answers.txt
    """  # noqa: D301  # \b keeps the lines of the example apart
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(NewFile(output)) if output is not None else None
        from regard.prompting import Shots, ask, read_template
        from regard.prompting.examples import Draw
        from regard.prompting.likelihood import Score
        from regard.structure import coerced

        how: Score = coerced(score, Score, "--score")
        drawn: Draw = coerced(draw, Draw, "--draw")
        put = read_template(template)
        names = tuple(name.strip() for name in columns.split(",")) if columns else ()
        if shots and train is None:
            raise InputError(f"--shots {shots} are drawn from training examples; name their file with --train")
        asked, malformed = _read(data, format, names, limit)
        shown = None
        if shots and train is not None:
            shown = Shots(train=_read(train, format, names, None)[0], count=shots, seed=seed, draw=drawn)
        language_model = opened(model, device, "language_modelling")
        started = time.monotonic()
        found = ask(language_model, put, asked, shots=shown, score=how, batch_size=batch_size)
        seconds = time.monotonic() - started
        if file is not None:
            for each in found.answers:
                file.write(" ".join(each.answer.split()) + "\n")
    if as_json:
        values = {"model": str(model), "data": str(data), "template": template, "task": put.task}
        if shown is not None:
            values |= {"train": str(train), "seed": seed, "draw": drawn}
        if put.task == "choice":
            values["score"] = how
        print_json(values | _object(found) | {"malformed": malformed, "seconds": round(seconds, 3)})
        return
    if found.note:
        say(found.note)
    rows = [("questions", f"{found.count:,} in {seconds:.1f} seconds"), ("shots", str(found.shots))]
    print_table([*rows, *(metric_text(name, value) for name, value in found.metrics.items())])


def _read(path: Path, format: str, columns: tuple[str, ...], limit: int | None) -> tuple[list[Example], int]:
    """The examples of a file, and how many of its lines could not be used."""
    from regard.data.malformed import MalformedRows
    from regard.prompting import read_examples

    malformed = MalformedRows()
    found = read_examples(path, format=format, columns=columns, malformed=malformed)
    if malformed.total:
        say(malformed.summary())
    return list(itertools.islice(found, limit)), malformed.total


def _object(found: Prompted) -> dict[str, Any]:
    return {
        "count": found.count,
        "shots": found.shots,
        "metrics": found.metrics,
        "signatures": dict(found.signatures),
        "prompt": found.prompt,
        "answers": [_answer(each) for each in found.answers],
    }


def _answer(each: PromptedAnswer) -> dict[str, Any]:
    scores = {"scores": list(each.scores)} if each.scores else {}
    return {"where": each.where, "answer": each.answer, "right": list(each.right), "correct": each.correct, **scores}
