"""`regard claims`: claims of the papers as comparisons with a verdict."""

from __future__ import annotations

import dataclasses
import shlex
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.console import Interruption, print_json, print_table, say
from regard.cli.training import bars, print_tables
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.claims.claim import Claim
    from regard.claims.expression import Expression
    from regard.claims.second_round import Part
    from regard.claims.shipped import Shipped
    from regard.claims.verdict import Verdict


Output = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The folder of the runs of all claims.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RUNS = Path("runs/claims")

claims = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="""Test claims of the papers: list them, show one, run it.

    Each claim is a comparison with a criterion fixed in advance. Running it trains the variants with several seeds and prints
    the prediction, the measurement and the verdict: confirmed, refuted or undecided in the first round; supported,
    contradicted, inconclusive or not tested at this scale in the second, which judges parts by paired seeds. Newer claims
    are judged by parts alone.

    \b
    Example:
      regard claims list --json
      regard claims show scaled-scores
      regard claims run scaled-scores --json
      regard claims run length-penalty data.path=multi30k --seeds 3 --output runs/claims --record docs/results
    """,
)


@claims.command("list")
def listed(output: Output = RUNS, as_json: AsJson = False) -> None:
    """List the claims, with the shipped verdicts and those of your own runs in --output.

    \b
    Example:
      regard claims list
      regard claims list --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.claims.claim import claims as catalogue
    from regard.claims.shipped import shipped_verdicts
    from regard.claims.verdict import last_verdict

    verdicts = [last_verdict(claim, output) for claim in catalogue()]
    shipped = shipped_verdicts()
    if as_json:
        print_json([verdict.to_json() | {"shipped": _shipped_json(shipped, verdict.claim)} for verdict in verdicts])
        return
    width = max(len(verdict.claim.name) for verdict in verdicts)
    print(f"{'row':<5} {'claim':<{width}}  {'shipped':<13}  {'yours':<13}  minutes  statement")
    for verdict in verdicts:
        claim = verdict.claim.in_round(verdict.round)
        given = shipped[claim.name][0].verdict if claim.name in shipped else "-"
        yours = (verdict.outcome or "not run") + (" *" if verdict.changes else "")
        print(
            f"{claim.row:<5} {claim.name:<{width}}  {given:<13}  {yours:<13}  {claim.minutes:>7.0f}  {claim.statement}"
        )
    if any(verdict.changes for verdict in verdicts):
        print("* with changed settings; regard claims show NAME lists them")


@claims.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name or row of a claim.", show_default=False)],
    output: Output = RUNS,
    as_json: AsJson = False,
) -> None:
    """Show a claim: its statement, criterion, variants and last verdict.

    \b
    Example:
      regard claims show scaled-scores
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.claims.claim import claim as find
    from regard.claims.shipped import shipped_verdicts
    from regard.claims.verdict import last_verdict

    claim = find(name)
    verdict = last_verdict(claim, output)
    shipped = shipped_verdicts()
    if as_json:
        asked = claim.in_round(verdict.round)
        own = asked.own_data
        judge, refutes = (None if each is None else each.text for each in _judging(claim))
        print_json(
            verdict.to_json()
            | {
                "statement": claim.statement,
                "judge": judge,
                "refutes": refutes,
                "own_data": own if isinstance(own, str) else own.says,
                "needs_data": asked.needs_data,
                "minutes": asked.minutes,
                "comparison": claim.resolved_in(verdict.round).to_mapping(),
                "second_round": [] if claim.second_round is None else list(map(_part_json, claim.second_round.parts)),
                "changes": list(verdict.changes),
                "shipped": _shipped_json(shipped, claim),
            }
        )
        return
    rows = _rows(claim, verdict)
    given = [("shipped", _folded(_shipped_text(each, claim), 12)) for each in shipped.get(claim.name, ())]
    print_table([*rows[:-1], *given, rows[-1]])


@claims.command()
def run(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME... [KEY=VALUE...]",
            help="Claims, by name or row, and settings for all of them, such as data.path=FOLDER.",
            show_default=False,
        ),
    ],
    on: Annotated[
        str | None, typer.Option("--on", metavar="PATH", help="Your own data: the same as data.path=PATH.")
    ] = None,
    number: Annotated[
        int | None, typer.Option("--round", min=1, max=2, help="Which round; the last there is by default.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, max=1000, help="Seeds 1 to N instead of the claim's own.")] = None,
    output: Output = RUNS,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="DIR", help="Also write the verdict and plot to this folder of results."),
    ] = None,
    reuse: Annotated[
        list[Path] | None,
        typer.Option(
            "--reuse", metavar="DIR", help="Reuse finished runs of the same recipe from another claim's folder."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train the variants of a claim, measure them, and print the verdict.

    The same command continues an interrupted run. The commit of the prediction is recorded before the first run. Settings that
    differ from the claim's own are printed with the verdict. --on, or data.path=, takes your own pairs: a TSV, CSV or JSONL
    file, two parallel files [a.en,a.de], or a folder with train, val and test files.

    \b
    Example:
      regard claims run scaled-scores
      regard claims run content-scores data.path=multi30k --json
      regard claims run reversed-source --on my.tsv --seeds 2
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.claims.claim import claim as find
    from regard.claims.verdict import record as write
    from regard.claims.verdict import run_claim
    from regard.machine import keep_freed_memory

    keep_freed_memory()
    names = [word for word in words if "=" not in word]
    overrides = [word for word in words if "=" in word] + ([] if on is None else [f"data.path={on}"])
    if not names:
        raise InputError("no claim is named; regard claims list shows their names")
    found: list[dict[str, Any]] = []
    chosen = [find(name) for name in names]
    try:
        for claim in chosen:
            verdict = run_claim(
                claim,
                overrides,
                output=output,
                round_=number,
                seeds=seeds,
                reuse=reuse or (),
                callbacks=bars(),
                say=say,
            )
            if verdict.compared is not None:
                _write_page(verdict, verdict.compared.folder.parent)
            if record is not None:
                for path in write(verdict, record):
                    say(f"{path} written")
            found.append(verdict.to_json())
            if not as_json:
                _print(verdict)
    except KeyboardInterrupt:
        raise Interruption(f"interrupted; to continue: {shlex.join(['regard', *sys.argv[1:]])}") from None
    if as_json:
        print_json(found[0] if len(found) == 1 else found)


def _judging(claim: Claim) -> tuple[Expression | None, Expression | None]:
    """The expressions that confirm and refute a claim in its first round; None for both where it is judged by parts alone."""
    return (None, None) if claim.judge is None else claim.expressions


def _part_json(part: Part) -> dict[str, Any]:
    contrast = None if part.expression is None else part.expression.text
    return {"says": part.says, "kind": part.kind, "contrast": contrast, "predicted": part.predicted}


def _shipped_json(shipped: Mapping[str, Sequence[Shipped]], claim: Claim) -> list[dict[str, Any]]:
    return [dataclasses.asdict(each) for each in shipped.get(claim.name, ())]


def _shipped_text(given: Shipped, claim: Claim) -> str:
    """A recorded verdict on one line."""
    text = given.verdict + (f", {given.reading}" if given.reading else "")
    if claim.judge is not None:
        text = f"round {given.round}: {text}"
    return f"{text} (seeds {given.seeds}, {given.minutes:.0f} minutes)"


def _write_page(verdict: Verdict, folder: Path) -> None:
    """Write `claim.md` with its plot, `claim.png`; without matplotlib, report that and write the page without the plot."""
    from regard.claims.compared import why_no_curves
    from regard.claims.page import claim_page
    from regard.claims.verdict import recorded, save_verdict_plot
    from regard.files import replace_file

    place = folder / "claim.png"
    values = recorded(verdict, place.name)
    try:
        save_verdict_plot(verdict, place)
        if verdict.round == 1 and verdict.compared is not None and (why := why_no_curves(verdict.compared)):
            say(f"{place}: {why}")
    except InputError as error:
        if "matplotlib" not in str(error):
            raise
        say(str(error))
        values.pop("plot")
    replace_file(folder / "claim.md", claim_page([values]))


def _print(verdict: Verdict) -> None:
    if verdict.compared is not None:
        print_tables(verdict.compared)
    print_table(_rows(verdict.claim, verdict)[3:])


def _rows(claim: Claim, verdict: Verdict) -> list[tuple[str, str]]:
    """The rows of a claim's table, name and text."""
    from regard.claims.provenance import spoken

    second = claim.second(verdict.round)
    claim = claim.in_round(verdict.round)
    own = claim.own_data
    rows = [
        ("claim", f"{claim.name} (row {claim.row}), about {claim.minutes:.0f} minutes on two cores"),
        ("source", claim.source),
        ("says", claim.statement),
        ("predicted", claim.predicted),
    ]
    if second is not None:
        rows += [(part.kind, f"{part.says} {_asked(part)}") for part in second.parts]
    else:
        rows.append(("judge", claim.expressions[0].text))
        if claim.expressions[1] is not None:
            rows.append(("refutes", claim.expressions[1].text))
    rows.append(("own data", own if isinstance(own, str) else own.says))
    if verdict.measured is not None:
        rows += [("measured", text) for text in _measured(verdict.measured)]
    rows += [("part", _part_text(part)) for part in verdict.parts]
    rows.append(("verdict", (verdict.outcome or "not run yet") + (f": {verdict.reason}" if verdict.reason else "")))
    if verdict.changes:
        rows.append(("changed", f"{', '.join(verdict.changes)}; the verdict is for the claim with these changes"))
    if verdict.seconds is not None:
        seeds = ", ".join(map(str, verdict.seeds))
        rows.append(("took", f"{verdict.seconds:,.0f} seconds, seeds {seeds}"))
    if verdict.provenance is not None:
        rows.append(("recorded", spoken(verdict.provenance)))
    rows.append(("command", verdict.command or claim.command))
    return [(name, _folded(text, 12)) for name, text in rows]


def _measured(measured: dict[str, Any]) -> list[str]:
    lines = []
    for arm, measures in measured.items():
        for name, numbers in measures.items():
            seeds = ", ".join("-" if value is None else f"{value:.4g}" for value in numbers["seeds"].values())
            middle = "-" if numbers["median"] is None else f"{numbers['median']:.4g}"
            note = f" ({numbers['note'].replace('null', '-')})" if "note" in numbers else ""
            lines.append(f"{arm}, {name}: {middle} (seeds {seeds}){note}")
    return lines


def _asked(part: Part) -> str:
    if part.expression is None:
        return f"(not tested at this scale: {part.not_tested})"
    return f"({part.expression.text}: {part.predicted})"


def _part_text(part: dict[str, Any]) -> str:
    """A part's verdict with the numbers behind it."""
    text = f"{part['verdict']}: {part['says']}"
    if part["estimate"] is not None:
        text += f" {part['estimate']:.4g} where {part['predicted']} was predicted"
        if part["kind"] != "condition" and part["interval"] is not None:
            low, high = ("?" if end is None else f"{end:.4g}" for end in part["interval"])
            text += f"; interval {low} to {high}"
        if part["kind"] != "condition" and part["smallest_visible"] is not None:
            text += f"; smallest visible effect {part['smallest_visible']:.3g}"
    return f"{text} ({part['reason']})" if part["reason"] else text


def _folded(text: str, indent: int) -> str:
    return ("\n" + " " * indent).join(textwrap.wrap(text, 108, break_on_hyphens=False) or [""])
