"""`regard vectors judge`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import print_json, print_table, say
from regard.cli.vectors.evaluate import read_tables
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.vectors.judging.scores import Judgement

KEY = ".key.json"

judge = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="""Let people judge vectors: make a page that asks them, and score what they answered.

    \b
    Example:
      regard vectors judge make skipgram.vec glove.txt --queries 30 -o page.html
      regard vectors judge score page.key.json answers-*.jsonl
    """,
)


@judge.command()
def make(
    vectors: Annotated[
        list[Path],
        typer.Argument(metavar="VECTORS...", help="Files or folders of vectors, two or more.", show_default=False),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.html", help="The page.", show_default=False)],
    queries: Annotated[int, typer.Option(metavar="N", min=1, help="Words whose neighbours are shown.")] = 30,
    intruders: Annotated[
        int, typer.Option(metavar="N", min=0, help="Of these, how many get an intruder, in each of the vectors.")
    ] = 15,
    words: Annotated[
        list[str] | None,
        typer.Option("--word", metavar="WORD", help="Ask about this word, not about drawn ones; may be repeated."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only the first N vectors of each, mostly the commonest.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="Of all that is drawn.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write a page that asks people whose neighbours are better, without saying whose they are.

    Each word is shown with its neighbours at ranks 1, 5 and 50, one of each of the vectors, and the nearest in meaning is to be
    chosen; then intruders are to be found. The page works without a network; answers are saved from it as JSONL. Beside it
    stands the key, FILE.key.json, which says whose word is whose: keep it from the judges.

    \b
    Example:
      regard vectors judge make skipgram.vec glove.txt --queries 30 --seed 1 -o page.html
      regard vectors judge make a.vec b.vec c.vec --word coffee --word bank --intruders 0 -o page.html
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.files import replace_file
    from regard.vectors.judging import html_page, make_questionnaire

    if output.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{output}: is no page; give a name that ends in .html")
    key = output.with_suffix(KEY)
    if key.exists():
        raise InputError(f"{key}: exists, and the answers to its page need it; give another name, or remove it")
    tables = read_tables(vectors, limit)
    made = make_questionnaire(tables, queries=queries, intruders=intruders, words=words or None, seed=seed)
    replace_file(output, html_page(made))
    replace_file(key, json.dumps(made.to_json(), ensure_ascii=False, indent=1) + "\n")
    compared = sum(item.kind == "neighbour" for item in made.items)
    say(
        f"{output}: {compared} questions on neighbours, {len(made.items) - compared} on intruders; {key} says whose they are"
    )
    if as_json:
        print_json(
            {"page": str(output), "key": str(key), "id": made.page, "tables": made.tables, "items": len(made.items)}
        )


@judge.command()
def score(
    key: Annotated[Path, typer.Argument(metavar="KEY", help="The .key.json beside the page.", show_default=False)],
    answers: Annotated[
        list[Path], typer.Argument(metavar="ANSWERS...", help="Files saved from the page.", show_default=False)
    ],
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="Of the intervals.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say which vectors people preferred, whose intruders they found, and how far they agree.

    Square brackets hold 95 % intervals over questions. Agreement is Cohen's kappa of two judges, or Fleiss' of more.

    \b
    Example:
      regard vectors judge score page.key.json answers-anna.jsonl answers-ben.jsonl --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.data.malformed import MalformedRows
    from regard.vectors.judging import judge as judging
    from regard.vectors.judging import read_answers, read_key

    questionnaire = read_key(key)
    malformed = MalformedRows()
    given = read_answers(questionnaire, answers, malformed)
    if malformed.total:
        say(malformed.summary())
    found = judging(questionnaire, given, seed=seed)
    if as_json:
        print_json(found.to_json() | {"left_out": malformed.by_reason})
    else:
        print_table(_rows(found))


def _rows(found: Judgement) -> Iterator[tuple[str, str]]:
    for name, count in found.answers.items():
        yield f"judge {name}", f"{count} answers, {found.unknown[name]} of them that the words are not known"
    for each in found.shares:
        what = "intruders found" if each.kind == "intruder" else "preferred"
        rank = f" at rank {each.rank}" if each.rank is not None else ""
        if each.share is not None and each.interval is not None:
            interval = f"[{100 * each.interval.low:.1f}, {100 * each.interval.high:.1f}]"
            yield f"{each.table} {what}{rank}", f"{100 * each.share:.1f} % {interval} {each.won}/{each.answered}"
    for each in found.agreement:
        kappa = "undefined" if each.kappa is None else f"{each.kappa:.3f}"
        agreed = "" if each.agreed is None else f", the same word in {100 * each.agreed:.1f} %"
        yield f"agreement on {each.kind}s", f"{each.statistic} {kappa} of {each.items} questions{agreed}"
