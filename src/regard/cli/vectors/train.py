"""`regard vectors train`."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from regard.cli.commands import renamed
from regard.cli.console import on_terminal, print_json, print_table, say
from regard.cli.interruption import Interruption
from regard.errors import InputError, nearest

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from regard.vectors.store import WordVectors
    from regard.vectors.training.corpus import Progress, Report
    from regard.vectors.training.settings import Method

REFRESH = 0.2
"""Seconds between two pictures of the bar."""


@renamed(min_count="minimum_count")
def train(
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT...",
            help="Files of text, perhaps gzip; folders of *.txt files; python_docs for the text that comes with Python.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PATH", help="Where to write them.", show_default=False)
    ],
    method: Annotated[str, typer.Option(metavar="NAME", help="skipgram, cbow, fasttext or glove.")] = "skipgram",
    width: Annotated[int, typer.Option(metavar="N", help="Numbers in a vector.")] = 100,
    window: Annotated[
        int | None, typer.Option(metavar="N", help="Words on each side; 5, for glove 10.", show_default=False)
    ] = None,
    minimum_count: Annotated[int, typer.Option(metavar="N", help="Words seen less often get no vector.")] = 5,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", help="Passes; 5, for glove 25.", show_default=False)
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(metavar="RATE", help="At the beginning; 0.05, for skipgram 0.025.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Decides all that is drawn.")] = 1,
    negative: Annotated[
        int | None,
        typer.Option(metavar="N", help="Words drawn against each true one; 5. Not for glove.", show_default=False),
    ] = None,
    subsample: Annotated[
        float | None,
        typer.Option(
            metavar="T",
            help="How much of common words is left out; 0.001, for fasttext 0.0001; 0: none.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Threads; with more than 1 a seed does not give the same vectors twice. Not for glove.",
            show_default=False,
        ),
    ] = None,
    ngrams: Annotated[
        str | None,
        typer.Option(metavar="N-M", help="Lengths of the parts of words; 3-6. Only for fasttext.", show_default=False),
    ] = None,
    buckets: Annotated[
        int | None,
        typer.Option(metavar="N", help="Rows for parts of words; 2000000. Only for fasttext.", show_default=False),
    ] = None,
    largest_count: Annotated[
        float | None,
        typer.Option(
            "--x-max",
            metavar="X",
            help="From which count on all matter alike; 100, small texts want 10. Only for glove.",
            show_default=False,
        ),
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="sum of a word's two vectors, or word. Only for glove.", show_default=False),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(metavar="MIB", help="For counting; 1024. Only for glove.", show_default=False),
    ] = None,
    tokens: Annotated[
        str,
        typer.Option(metavar="NAME", help="words: of raw text; whitespace: the text is tokenised."),
    ] = "words",
    sentences: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="line or split; line where tokens are between whitespace, else split.",
            show_default=False,
        ),
    ] = None,
    cleaning: Annotated[str, typer.Option(metavar="NAME", help="none or wikitext.")] = "none",
    keep_case: Annotated[bool, typer.Option("--keep-case", help="Keep capital letters.")] = False,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="folder, word2vec, word2vec-binary, glove or fasttext; if none, what PATH ends in says.",
            show_default=False,
        ),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="For what does not fit into memory; the system's own.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train vectors of words on text: skip-gram, CBoW and fastText by gensim, GloVe by ours.

    What is not given is as the method was published. The text may be larger than memory. With one worker the same seed gives the
    same vectors.

    \b
    Example:
      regard vectors train python_docs -o docs-vectors --width 50
      regard vectors train books/ -o books.vec --method fasttext --ngrams 3-5 --buckets 200000
      regard vectors train wiki.train.tokens -o wiki --method glove --x-max 10 --tokens whitespace --cleaning wikitext
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.vectors.training import sentences as read
    from regard.vectors.training import settings_of, train_vectors
    from regard.vectors.training.settings import METHODS
    from regard.vectors.writing import checked_kind, write_vectors

    chosen = checked_kind(output, kind)
    _check_place(output)
    if method not in METHODS:
        raise InputError(f"there is no method {method!r}; {nearest(method, METHODS)}")
    shortest, longest = _lengths(ngrams)
    own = {"minimum_ngram": shortest, "maximum_ngram": longest, "buckets": buckets}
    own |= {"largest_count": largest_count, "vectors": vectors, "memory": memory}
    own |= {"negative": negative, "subsample": subsample, "workers": workers}
    shared = {"width": width, "window": window, "minimum_count": minimum_count, "epochs": epochs, "seed": seed}
    settings = settings_of(cast("Method", method), learning_rate=learning_rate, **shared, **own)
    corpus = read(texts, tokenisation=tokens, sentences=sentences, lowercase=not keep_case, cleaning=cleaning)  # type: ignore[arg-type]
    try:
        with _bar() as report:
            found = train_vectors(corpus, settings, name=output.name, scratch=scratch, report=report)
    except KeyboardInterrupt:
        raise Interruption("interrupted; nothing was written, and what was there before is as it was") from None
    if corpus.malformed.total:
        say(corpus.malformed.summary())
    write_vectors(found, output, chosen)
    if as_json:
        print_json({"output": str(output), "kind": chosen, "words": len(found), "width": found.width, **found.metadata})
    else:
        print_table(_rows(found, output, chosen))


def _check_place(output: Path) -> None:
    """Refuse before the training what could not be written to after it."""
    parent = output.parent
    while not parent.exists() and parent != parent.parent:
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(
            f"{output}: cannot be written, because {parent} is no folder that you may write to; choose another place"
        )


def _lengths(ngrams: str | None) -> tuple[int | None, int | None]:
    """The smallest and the largest length that `3-6` says.

    >>> _lengths("3-6"), _lengths("4"), _lengths(None)
    ((3, 6), (4, 4), (None, None))
    """
    if ngrams is None:
        return None, None
    parts = [part.strip() for part in ngrams.split("-")]
    if len(parts) > 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise InputError(f"--ngrams is {ngrams!r}; give two lengths, as 3-6")
    return int(parts[0]), int(parts[-1])


def _rows(vectors: WordVectors, output: Path, kind: str) -> list[tuple[str, str]]:
    facts: Any = vectors.metadata
    text = facts["text"]
    rows = [
        ("method", facts["method"]),
        ("words", f"{len(vectors):,}, seen {int(vectors.counts.sum()) if vectors.counts is not None else 0:,} times"),
        ("width", f"{vectors.width:,}"),
        ("text", f"{text['words']:,} words in {text['sentences']:,} sentences"),
        ("took", f"{facts['seconds']:,.1f} seconds"),
    ]
    if "counts" in facts:
        rows.append(("counted", f"{facts['words_per_second']:,.0f} words a second"))
        rows.append(("trained", f"{facts['counts']:,} counts, {facts['counts_per_second']:,.0f} a second"))
    else:
        rows.append(("trained", f"{facts['words_per_second']:,.0f} words a second"))
    return [*rows, ("written", f"{output} ({kind})")]


@contextlib.contextmanager
def _bar() -> Iterator[Report]:
    """A bar on standard error, where that is a terminal."""
    if not on_terminal(sys.stderr):
        yield lambda progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[numbers]}"),
        TimeRemainingColumn(compact=True),
        console=Console(stderr=True),
        auto_refresh=False,
        redirect_stdout=False,  # what is written there is for whoever reads it, not for the terminal
        expand=True,
    )
    with bar:
        yield _Stages(bar).show


class _Stages:
    """Draws how far a training is; every stage begins anew."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None, numbers="")
        self._stage, self._began, self._drawn = "", 0.0, 0.0

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.stage != self._stage:
            self._stage, self._began = progress.stage, now
            self._bar.reset(self._task, total=progress.total, description=progress.stage)
        elif now - self._drawn < REFRESH and progress.done != progress.total:
            return
        self._drawn = now
        speed = progress.done / max(1e-9, now - self._began)
        numbers = f"{progress.done:,} {progress.unit}  {speed:,.0f}/s"
        self._bar.update(self._task, completed=progress.done, numbers=numbers)
        self._bar.refresh()
