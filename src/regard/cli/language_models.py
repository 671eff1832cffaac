"""Language models: `regard generate` continues texts, `regard prompt` evaluates models by prompting."""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.commands import renamed
from regard.cli.console import NewFile, envelope, on_terminal, print_json, print_table, say, say_malformed
from regard.cli.inputs import Text, opened
from regard.cli.run import Answers, Texts, verb
from regard.cli.settings import DECODING, NOTHING, BatchSize, Device, DTypeOrAuto, Given, Json, Model, with_options
from regard.errors import InputError
from regard.reading import parse_json
from regard.rendering import metric_text

if TYPE_CHECKING:
    from regard.prompting import Example, Prompted, PromptedAnswer
    from regard.tasks.language_writing import Written


BATCHES_AT_ONCE = 16

NGRAM = Path("ngram")
"""The value of --draft for `NGramDraft`, unless there is a folder of this name."""


@renamed(precision="dtype")
@verb(
    *("language_modelling", "text_to_text"),
    texts="Prompts; by default --input or standard input.",
    input_file="One prompt per line; UTF-8, optionally gzipped.",
    output="Output file, one line per prompt.",
    batch_size="Prompts per batch.",
    as_json="Print one JSON object, with tokens and scores.",
)
def generate(
    run: Texts,
    stop: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Stop at this text and leave it out; may be repeated.", show_default=False),
    ] = None,
    chat: Annotated[
        bool,
        typer.Option(
            "--chat",
            help="Each text is a user message, or a conversation in JSON; the model's chat template is applied.",
        ),
    ] = False,
    system: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="With --chat: the system message.", show_default=False),
    ] = None,
    decoding: Annotated[Given, DECODING.without("coverage_penalty", maximum_length=100)] = NOTHING,
    top_log_probabilities: Annotated[
        int, typer.Option(metavar="N", min=0, help="With --json: list the N most probable tokens at each position.")
    ] = 0,
    draft: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL",
            help="For speculative decoding: a smaller model with the same vocabulary, or ngram, which guesses that the text "
            "repeats itself.",
            show_default=False,
        ),
    ] = None,
    ahead: Annotated[int, typer.Option(metavar="N", min=1, help="Tokens that --draft proposes at a time.")] = 4,
    dtype: DTypeOrAuto = "float32",
    batch_size: BatchSize = 16,
) -> None:
    """Generate text from prompts with a language model: one output line per prompt.

    A text-to-text model (T5) reads each text and generates another; if it was trained on several tasks, the prefix of the
    text selects one.

    On a terminal, the text after a single prompt is streamed, with its line breaks; otherwise line breaks become spaces. With
    --n-best, the texts of a prompt are on one line, separated by tabs. --json keeps line breaks and adds each token's
    log-probability, which is the model's own, before temperature, penalties and biases.

    \b
    Example:
      regard generate runs/gpt "The history of"
      regard generate runs/gpt "The history of" --sample --temperature 0.8 --top-p 0.95 --seed 3
      regard generate runs/gpt "The history of" --repetition-penalty 1.2 --json --top-log-probabilities 5
      regard generate path/to/smollm2-instruct "Name three rivers." --chat
      regard generate runs/t5 "translate English to German: The house is small."
      regard generate runs/gpt "The history of" --dtype int8 --draft runs/gpt-tiny
      regard generate runs/gpt "The history of" --draft ngram
      regard generate runs/gpt --input prompts.txt --output texts.txt --stop "." --maximum-length 40
    """  # noqa: D301  # \b keeps the lines of the example apart
    if top_log_probabilities and not run.as_json:
        raise InputError("--top-log-probabilities is only printed with --json; give both")
    if system is not None and not chat:
        raise InputError("--system is a message of a conversation; give --chat too")
    waiting = run.read()
    with run.file() as file:
        from regard.generation import NGramDraft
        from regard.tasks.loading import task_of

        after = task_of(run.model) != "text_to_text"
        writer = run.load("language_modelling" if after else None, dtype=dtype)
        asked = {"--top-log-probabilities": top_log_probabilities, "--draft": draft, "--chat": chat}
        for option, given in asked.items():
            if given and not after:
                raise InputError(f"{option} is for language models, and {run.model} is no language model; leave it out")
        guessing: Any = None
        if draft is not None:
            by_ngrams = draft == NGRAM and not draft.exists()
            guessing = NGramDraft() if by_ngrams else opened(draft, run.device, "language_modelling", dtype=dtype)
        settings = with_options(writer.usual, decoding)
        alone = after and run.count == 1 and settings.beam == settings.n_best == 1
        if alone and guessing is None and file is None and not run.as_json and on_terminal(sys.stdout):
            text: str = run.texts[0]  # type: ignore[index]
            prompt = writer.prompt_of(_conversation(text, system)) if chat else text
            for piece in writer.stream(prompt, settings, stop=stop or ()):
                print(piece, end="", flush=True)
            print()
            return
        done = 0

        def answer(chunk: list[Text]) -> list[Written]:
            nonlocal done
            texts: list[Any] = [text.content for text in chunk]
            if chat:
                texts = [writer.prompt_of(_conversation(text, system)) for text in texts]
            own = {"first": done, "top": top_log_probabilities, "draft": guessing, "ahead": ahead} if after else {}
            written = writer.generate(texts, settings, stop=stop or (), batch_size=batch_size, **own)
            done += len(chunk)
            return written

        together = 1 if batch_size == 1 else BATCHES_AT_ONCE * batch_size
        run.write(TEXTS, waiting, answer, file=file, watched=writer, together=together)


def _conversation(text: str, system: str | None) -> list[Any]:
    """The messages of a conversation: a text by the user, or messages given in JSON."""
    before = [] if system is None else [{"role": "system", "content": system}]
    if text.lstrip().startswith("[{"):
        messages = parse_json(text, "a conversation", "give a list of messages, each with a role and a content")
        return [*before, *messages]
    return [*before, {"role": "user", "content": text}]


def _line(text: Text, written: Written | None) -> str:
    if written is None:
        return "\n"
    return "\t".join(" ".join(each.split()) for each in (written.text, *written.alternatives)) + "\n"


def _values(text: Text, written: Written | None) -> dict[str, Any]:
    values: dict[str, Any] = {
        "prompt": text.content,
        "text": "" if written is None else written.text,
        "tokens": [] if written is None else list(written.tokens),
        "log_probabilities": [] if written is None else list(written.log_probabilities),
        "finished": None if written is None else written.finished,
        "alternatives": [] if written is None else list(written.alternatives),
    }
    if written is not None and written.top:
        values["top"] = [
            [{"token": token, "log_probability": number} for token, number in place] for place in written.top
        ]
    return values


TEXTS = Answers(command="generate", name="texts", line=_line, values=_values)


# `regard prompt`.


@renamed(draw="sample")
def prompt(
    model: Model,
    data: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Questions with their answers: JSONL, TSV or CSV, optionally gzipped.",
            show_default=False,
        ),
    ],
    template: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="A builtin template, or a YAML file of yours.", show_default=False)
    ],
    shots: Annotated[int, typer.Option(min=0, help="Examples before each question.")] = 0,
    train: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to sample the --shots examples from.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for sampling the examples.")] = 0,
    sample: Annotated[
        str, typer.Option(metavar="once|each", help="Sample examples once for all questions, or for each question.")
    ] = "once",
    score: Annotated[
        str, typer.Option(metavar="NAME", help="Score for choices: sum, token, character, byte or unconditional.")
    ] = "sum",
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...", help="Column names, for a table without a header line.", show_default=False
        ),
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="NAME", help="auto, jsonl, tsv, csv, lines or childrens_books.")
    ] = "auto",
    limit: Annotated[int | None, typer.Option(min=1, help="Use only the first N questions.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the answers, one per line.")
    ] = None,
    device: Device = "auto",
    batch_size: BatchSize = 16,
    as_json: Json = False,
) -> None:
    """Evaluate a language model on a task by prompting, zero-shot or few-shot, without training.

    A template turns an example into a prompt and defines the task: choose among continuations by likelihood, predict a word,
    generate an answer, or translate. With --shots, solved examples precede the question.

    Builtin templates:  answer, childrens-books, choice, last-word, question-choice, reading, sentiment, translation.

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
        from regard.prompting import Shots, evaluate_prompts, read_template
        from regard.prompting.evaluation import Score
        from regard.prompting.examples import Sampling
        from regard.structure import coerced

        how: Score = coerced(score, Score, "--score")
        sampling: Sampling = coerced(sample, Sampling, "--sample")
        put = read_template(template)
        names = tuple(name.strip() for name in columns.split(",")) if columns else ()
        if shots and train is None:
            raise InputError(f"--shots {shots} are sampled from training examples; name their file with --train")
        asked, malformed = _read(data, format, names, limit)
        shown = None
        if shots and train is not None:
            shown = Shots(train=_read(train, format, names, None)[0], count=shots, seed=seed, sample=sampling)
        language_model = opened(model, device, "language_modelling")
        started = time.monotonic()
        found = evaluate_prompts(language_model, put, asked, shots=shown, score=how, batch_size=batch_size)
        seconds = time.monotonic() - started
        if file is not None:
            for each in found.answers:
                file.write(" ".join(each.answer.split()) + "\n")
    if as_json:
        values = {"model": str(model), "data": str(data), "template": template, "task": put.task}
        if shown is not None:
            values |= {"train": str(train), "seed": seed, "sample": sampling}
        if put.task == "choice":
            values["score"] = how
        print_json(
            envelope("prompt")
            | values
            | _prompted_object(found)
            | {"malformed": malformed, "seconds": round(seconds, 3)}
        )
        return
    if found.note:
        say(found.note)
    rows = [("questions", f"{found.count:,} in {seconds:.1f} seconds"), ("shots", str(found.shots))]
    print_table([*rows, *(metric_text(name, value) for name, value in found.metrics.items())])


def _read(path: Path, format: str, columns: tuple[str, ...], limit: int | None) -> tuple[list[Example], int]:
    """The examples of a file, and the number of lines that could not be used."""
    from regard.data.malformed import MalformedRows
    from regard.prompting import read_examples

    malformed = MalformedRows()
    found = read_examples(path, format=format, columns=columns, malformed=malformed)
    say_malformed(malformed)
    return list(itertools.islice(found, limit)), malformed.total


def _prompted_object(found: Prompted) -> dict[str, Any]:
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
