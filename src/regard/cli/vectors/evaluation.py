"""Querying and evaluating: `regard vectors neighbours`, `analogy`, `doesnt-match`, `evaluate`, `survey`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from regard.cli.commands import renamed
from regard.cli.console import (
    PIPE_WIDTH,
    envelope,
    on_terminal,
    one_line,
    print_json,
    print_rich,
    print_table,
    say,
    say_malformed,
)
from regard.cli.settings import Json, Limit, Seed, SeveralVectors, Tests, Vectors
from regard.cli.vectors.bias import PAIRS_FORM, Occupations, Specific, read_tests
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.word_embeddings.evaluation.battery import Report
    from regard.word_embeddings.store import WordVectors
    from regard.word_embeddings.survey import Judgement


@renamed(count="n_best")
def neighbours(
    vectors: Vectors,
    words: Annotated[
        list[str], typer.Argument(metavar="WORD", help="The words whose neighbours to find.", show_default=False)
    ],
    n_best: Annotated[int, typer.Option(metavar="N", min=1, help="Neighbours of each word.")] = 10,
    among: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Search only the first N words of the file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find a word's nearest neighbours, by cosine similarity.

    \b
    Example:
      regard vectors neighbours glove.6B.300d.txt king
      regard vectors neighbours cc.en.300.bin unkingly kings --n-best 5 --among 50000 --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.word_embeddings.files import read_vectors
    from regard.word_embeddings.neighbours import neighbours as nearest_words

    table = read_vectors(vectors, say=say)
    found = {word: nearest_words(table, word, n_best, among=among) for word in words}
    if as_json:
        print_json(
            envelope("vectors neighbours")
            | {"words": [{"word": w, "neighbours": [each._asdict() for each in near]} for w, near in found.items()]}
        )
        return
    for place, (word, near) in enumerate(found.items()):
        if len(found) > 1:
            print(("\n" if place else "") + one_line(word))
        for each in near:
            print(f"{each.score:6.3f}  {one_line(each.word)}")


@renamed(count="n_best")
def analogy(
    vectors: Vectors,
    a: Annotated[str, typer.Argument(metavar="A", help="A word,", show_default=False)],
    b: Annotated[str, typer.Argument(metavar="B", help="a word related to A,", show_default=False)],
    c: Annotated[
        str, typer.Argument(metavar="C", help="and the word to complete the analogy for.", show_default=False)
    ],
    method: Annotated[
        str, typer.Option(metavar="NAME", help="add (3CosAdd) or multiply (3CosMul) the cosines.")
    ] = "add",
    with_given: Annotated[bool, typer.Option("--with-given", help="Allow A, B and C as answers.")] = False,
    n_best: Annotated[int, typer.Option(metavar="N", min=1, help="Answers.")] = 10,
    as_json: Json = False,
) -> None:
    """Complete an analogy: find the word that is to C as B is to A.

    \b
    Example:
      regard vectors analogy glove.6B.300d.txt man king woman
      regard vectors analogy vectors.bin France Paris Italy --method multiply --n-best 3 --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.errors import InputError, nearest
    from regard.word_embeddings.files import read_vectors
    from regard.word_embeddings.neighbours import METHODS, Method
    from regard.word_embeddings.neighbours import analogy as answers

    if method not in METHODS:
        raise InputError(f"--method: there is no method {method!r}; {nearest(method, METHODS)}")
    table = read_vectors(vectors, say=say)
    found = answers(table, a, b, c, n_best, method=cast(Method, method), with_given=with_given)
    if as_json:
        print_json(
            envelope("vectors analogy")
            | {"a": a, "b": b, "c": c, "method": method, "answers": [each._asdict() for each in found]}
        )
        return
    for each in found:
        print(f"{each.score:6.3f}  {one_line(each.word)}")


def doesnt_match(
    vectors: Vectors,
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="Three or more.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Find the word that does not match the others: the one with the lowest cosine to their mean.

    \b
    Example:
      regard vectors doesnt-match glove.6B.300d.txt breakfast lunch dinner car
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.word_embeddings.files import read_vectors
    from regard.word_embeddings.neighbours import odd_one_out

    found = odd_one_out(read_vectors(vectors, say=say), words)
    if as_json:
        print_json(
            envelope("vectors doesnt-match")
            | {"doesnt_match": found[0].word, "words": [each._asdict() for each in found]}
        )
        return
    for each in found:
        print(f"{each.score:6.3f}  {one_line(each.word)}")


# `regard vectors evaluate`.


def evaluate(
    vectors: SeveralVectors,
    similarity: Annotated[
        list[Path] | None,
        typer.Option(
            "--similarity",
            metavar="FILE",
            help="Two words and a score per line, or a folder of such files; may be repeated.",
        ),
    ] = None,
    analogies: Annotated[
        list[Path] | None,
        typer.Option(
            "--analogies",
            metavar="FILE",
            help="In the format of questions-words.txt, or a folder of such files; may be repeated.",
        ),
    ] = None,
    categories: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A word, a tab and its category per line; by default ten built-in categories."
        ),
    ] = None,
    probes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="YAML or JSON: {first: [tea, milk], second: [tea, iron], expected: first}."),
    ] = None,
    common: Annotated[bool, typer.Option("--common", help="Use only words that all vectors have.")] = False,
    limit: Limit = None,
    unknown: Annotated[
        str, typer.Option(metavar="NAME", help="Words without a vector: skip, or zero (counted as wrong).")
    ] = "skip",
    case: Annotated[
        str, typer.Option(metavar="NAME", help="Letter case: ignore it; exact; or lower (exact, else in lower case).")
    ] = "ignore",
    method: Annotated[
        str, typer.Option(metavar="NAME", help="For analogies: add (3CosAdd) or multiply (3CosMul).")
    ] = "add",
    with_given: Annotated[
        bool, typer.Option("--with-given", help="Allow the three words of an analogy as answers.")
    ] = False,
    weat: Tests = None,
    pairs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Pairs for the bias section of the page: {PAIRS_FORM} Eight by default."),
    ] = None,
    occupations: Occupations = None,
    specific: Specific = None,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE.html", help="Write a page with tables, neighbours, maps and bias."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Evaluate word embeddings intrinsically: similarity, analogies, categories, coherence, robustness and frequency.

    Tests that need no file always run: k-means on built-in categories, intruders among neighbours (found by the vectors
    themselves and by each of the others), variants of common nouns, pairs such as driver-car and king-queen, and how well
    a vector predicts word frequency. Square brackets hold 95 % intervals; a/b counts the items covered.

    \b
    Example:
      regard vectors evaluate skipgram.vec --similarity sets/ --analogies questions-words.txt
      regard vectors evaluate skipgram.vec cbow.vec glove.txt --similarity EN-WS-353-ALL.txt --common --json
      regard vectors evaluate skipgram.vec glove.txt --weat weat/ --occupations professions.json -o report.html
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.data.malformed import MalformedRows
    from regard.word_embeddings.evaluation.battery import evaluate as run
    from regard.word_embeddings.evaluation.battery import in_common, read_battery, table
    from regard.word_embeddings.evaluation.probes import PROBES, read_probes

    if output is not None and output.suffix not in (".html", ".htm"):
        raise InputError(f"{output}: the report is a page; give a name that ends in .html")
    for_page = {"weat": weat, "pairs": pairs, "occupations": occupations, "specific": specific}
    alone = next((name for name, given in for_page.items() if given), None)
    if alone is not None and output is None:
        raise InputError(
            f"--{alone} is for the page; give --output FILE.html, or use: regard vectors bias VECTORS --{alone} FILE"
        )
    from regard.word_embeddings.bias import GENDER_PAIRS, OCCUPATIONS, read_word_sets, read_words

    about_bias: dict[str, Any] = {
        "word_tests": read_tests(weat or ()),
        "pairs": GENDER_PAIRS if pairs is None else read_word_sets(pairs, say=say),
        "occupations": OCCUPATIONS if occupations is None else read_words(occupations),
        "specific": () if specific is None else read_words(specific),
        # Letter case is never ignored completely here: the name Will must not be taken for the word will.
        "case": "exact" if case == "exact" else "lower",
        "seed": seed,
    }
    malformed = MalformedRows()
    battery = read_battery(
        similarity or (),
        analogies or (),
        categories,
        malformed,
        probes=read_probes(probes) if probes is not None else PROBES,
        unknown=unknown,
        case=case,
        method=method,
        with_given=with_given,
        seed=seed,
    )
    say_malformed(malformed)
    tables = read_tables(vectors, limit)
    if common:
        tables = in_common(tables)
        say(f"{len(tables[0]):,} words are in all files")
    reports = []
    for each in tables:
        if len(tables) > 1 and on_terminal(sys.stderr):
            say(f"{each.name} ...")
        reports.append(run(each, battery, [other for other in tables if other is not each]))
    if output is not None:
        _write(output, tables, reports, about_bias)
    if as_json:
        print_json(
            envelope("vectors evaluate") | {"common": common, "vectors": [report.to_json() for report in reports]}
        )
        return
    from regard.rendering import Fitted

    print_rich(Fitted(table(reports)), pipe_width=PIPE_WIDTH)


def _write(
    output: Path, tables: Sequence[WordVectors], reports: Sequence[Report], about_bias: Mapping[str, Any]
) -> None:
    """Write the page, with an audit of bias for each table where one is possible."""
    from regard.files import write_file
    from regard.word_embeddings.bias import Audit, audit
    from regard.word_embeddings.report import Subject, html_page

    subjects, notes = [], {}
    for vectors, report in zip(tables, reports, strict=True):
        try:
            found = audit(vectors, **about_bias)
        except InputError as error:
            found = Audit(name=vectors.name, direction=None, tests=(), skipped=(str(error),))
        for sentence in (*(f"not tested: {each}" for each in found.skipped), *found.dropped_words()):
            notes.setdefault(sentence, []).append(vectors.name)
        subjects.append(Subject(vectors=vectors, report=report, audit=found))
    for sentence, names in notes.items():  # tables with the same words lack the same ones, which is reported once
        say(one_line(f"{', '.join(names)}: {sentence}"))
    write_file(output, html_page(subjects))
    say(f"{output} written")


def read_tables(paths: Sequence[Path], limit: int | None = None) -> list[WordVectors]:
    """Several files of word embeddings, each with a different name: that of its file, or its path where names are equal."""
    from dataclasses import replace

    from regard.word_embeddings.files import read_vectors

    found = [read_vectors(path, limit=limit, say=say) for path in paths]
    names = [each.name for each in found]
    own = [name if names.count(name) == 1 else str(path) for name, path in zip(names, paths, strict=True)]
    return [replace(each, name=name) for each, name in zip(found, own, strict=True)]


# `regard vectors survey`: a page of questions to people, and their answers.


KEY = ".key.json"

survey = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="""Human evaluation: create a page of questions on several embeddings, and score the answers.

    \b
    Example:
      regard vectors survey create skipgram.vec glove.txt --queries 30 -o page.html
      regard vectors survey score page.key.json answers-*.jsonl
    """,
)


@survey.command()
def create(
    vectors: Annotated[
        list[Path],
        typer.Argument(
            metavar="VECTORS...", help="Files or folders of word embeddings, two or more.", show_default=False
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.html", help="The page.", show_default=False)],
    queries: Annotated[int, typer.Option(metavar="N", min=1, help="Number of words whose neighbours are shown.")] = 30,
    intruders: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Number of these words with an intruder question, for each of the vectors."
        ),
    ] = 15,
    words: Annotated[
        list[str] | None,
        typer.Option("--word", metavar="WORD", help="Ask about this word instead of random ones; may be repeated."),
    ] = None,
    limit: Limit = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Create a page for blind human ratings of nearest neighbours.

    For each word, one neighbour from each of the vectors is shown, at ranks 1, 5 and 50, and people choose the nearest in
    meaning; then they find intruders. The page works without a network and saves answers as JSONL. The key, FILE.key.json in
    the same folder, says which neighbour is from which vectors: do not show it to the raters.

    \b
    Example:
      regard vectors survey create skipgram.vec glove.txt --queries 30 --seed 1 -o page.html
      regard vectors survey create a.vec b.vec c.vec --word coffee --word bank --intruders 0 -o page.html
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.files import replace_file
    from regard.word_embeddings.survey import html_page, make_questionnaire

    if output.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{output}: is no page; give a name that ends in .html")
    key = output.with_suffix(KEY)
    if key.exists():
        raise InputError(f"{key}: exists, and is needed for the answers to its page; give another name, or remove it")
    tables = read_tables(vectors, limit)
    made = make_questionnaire(tables, queries=queries, intruders=intruders, words=words or None, seed=seed)
    replace_file(output, html_page(made))
    replace_file(key, json.dumps(made.to_json(), ensure_ascii=False, indent=1) + "\n")
    compared = sum(item.kind == "neighbour" for item in made.items)
    say(f"{output}: {compared} questions on neighbours, {len(made.items) - compared} on intruders; the key is {key}")
    if as_json:
        print_json(
            envelope("vectors survey create")
            | {"page": str(output), "key": str(key), "id": made.page, "tables": made.tables, "items": len(made.items)}
        )


@survey.command()
def score(
    key: Annotated[Path, typer.Argument(metavar="KEY", help="The .key.json of the page.", show_default=False)],
    answers: Annotated[
        list[Path], typer.Argument(metavar="ANSWERS...", help="Answer files saved from the page.", show_default=False)
    ],
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Report which vectors people preferred, whose intruders they found, and how far they agree.

    Square brackets hold 95 % intervals over questions. Agreement is Cohen's kappa for two people, Fleiss' kappa for more.

    \b
    Example:
      regard vectors survey score page.key.json answers-anna.jsonl answers-ben.jsonl --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.data.malformed import MalformedRows
    from regard.word_embeddings.survey import judge as judging
    from regard.word_embeddings.survey import read_answers, read_key

    questionnaire = read_key(key)
    malformed = MalformedRows()
    given = read_answers(questionnaire, answers, malformed)
    say_malformed(malformed)
    found = judging(questionnaire, given, seed=seed)
    if as_json:
        print_json(envelope("vectors survey score") | found.to_json() | {"left_out": malformed.by_reason})
    else:
        print_table(_rows(found))


def _rows(found: Judgement) -> Iterator[tuple[str, str]]:
    for name, count in found.answers.items():
        yield f"judge {name}", f"{count} answers, {found.unknown[name]} of them that words are unknown"
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
