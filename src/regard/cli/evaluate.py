"""`regard evaluate`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from regard.cli import generation_options as options
from regard.cli.console import NewFile, print_json, print_table
from regard.cli.evaluating.captions import evaluate_captions
from regard.cli.evaluating.examples import evaluate_examples
from regard.cli.evaluating.pairs import evaluate_pairs
from regard.cli.evaluating.request import Request
from regard.cli.evaluating.text_to_text import evaluate_text_to_text
from regard.cli.evaluating.texts import evaluate_texts
from regard.cli.inputs import Device

EVALUATIONS = {
    "translation": evaluate_pairs,
    "language_modelling": evaluate_texts,
    "captioning": evaluate_captions,
    "text_to_text": evaluate_text_to_text,
}
"""By task; of all others `evaluate_examples`."""


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA",
            help="A TSV, CSV or JSONL file, or two files (source, target), perhaps gzip; or dates, dates:typos, or "
            "sequences; for a language model files of text, or python_docs; for a classifier and the like files of examples; "
            "for a captioner captions and their pictures, or scenes. "
            "Settings may follow: beam=5 for decoding, format=sst2 for the layout of examples.",
            show_default=False,
        ),
    ],
    source: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Index from 0, name or key of the source.")
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="The same for the target.")] = None,
    to: options.To = None,
    bins: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...", help="The same by length of the source in words, such as 10,15,20.", show_default=False
        ),
    ] = None,
    beam: options.Beam = None,
    length_penalty: options.LengthPenalty = None,
    positive: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS",
            help="Of a classifier: the class that F1 is of, the last of two if not said.",
            show_default=False,
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Of a classifier: the least probability at which that class, or a label, is predicted; of a model that answers "
            "questions: the lead of no answer that is believed.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Take only so many examples, the first.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write what the model said: of models that write a line for each example; of a language model the perplexity of "
            "each text and the text; of the others each example with its right answer, the predicted one, probabilities and "
            "its other columns, as JSON lines, or as a table where FILE ends in .csv or .tsv.",
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts decoded together.")] = 64,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure a model on what it has not seen.

    A translator by exact match, BLEU and chrF, a language model by perplexity, a classifier by accuracy, F1 and Matthews'
    correlation, and so on. What a file of examples holds is as in the training data, unless settings say otherwise.

    BLEU and chrF are sacreBLEU's, printed with its signature. Of builtin data the test split is taken, 2,000 pairs unless
    --limit says otherwise; dates:typos has one typo in each text, sequences are the model's own problem, and
    sequences:longest=40 changes it.

    \b
    Example:
      regard evaluate runs/dates dates
      regard evaluate runs/en-de test.en test.de beam=5 length_penalty=1.0 --bins 10,15,20
      regard evaluate runs/one-to-many test.en test.fr --to fr
      regard evaluate runs/language-model test.txt
      regard evaluate runs/gpt test.txt stride=32
      regard evaluate runs/gpt test.txt precision=int8
      regard evaluate runs/sentiment dev.tsv format=sst2
      regard evaluate runs/spam test.csv --positive spam --threshold 0.3
      regard evaluate runs/spam test.csv --output told.csv
      regard evaluate runs/t5 dev.jsonl part=summaries beam=4
      regard evaluate runs/flickr8k captions.dev.tsv images.dev.zip beam=5
      regard evaluate runs/mine test.csv --source question --target answer --output answers.txt --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.tasks.loading import task_of

    places, settings = options.split_settings(data)
    request = Request(
        model=model,
        places=places,
        settings=settings,
        options={
            "source": source,
            "target": target,
            "to": to,
            "bins": bins,
            "beam": beam,
            "length_penalty": length_penalty,
            "positive": positive,
            "threshold": threshold,
        },
        limit=limit,
        batch_size=batch_size,
        device=device,
    )
    measure = EVALUATIONS.get(task_of(model), evaluate_examples)
    with NewFile(output) if output is not None else contextlib.nullcontext() as file:
        report = measure(request, file)
    if as_json:
        print_json({"model": str(model), "data": places, **report.values})
        return
    print_table(report.rows)
    for line in report.below:
        print(line)
