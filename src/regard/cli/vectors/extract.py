"""`regard vectors extract`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import on_terminal, print_json, say
from regard.cli.interruption import Interruption
from regard.cli.opening import Device, opened
from regard.errors import InputError, nearest

if TYPE_CHECKING:
    from regard.vectors.contextual import Sentence

HOW = ("contexts", "alone", "pieces")


def extract(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    texts: Annotated[
        list[Path] | None,
        typer.Argument(metavar="TEXT", help="Files of running text; UTF-8, perhaps gzip.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Where the vectors go; as `regard vectors convert`."),
    ] = None,
    how: Annotated[
        str,
        typer.Option(metavar="NAME", help="contexts: the mean over sentences; alone: each word by itself; or pieces."),
    ] = "contexts",
    layers: Annotated[
        str, typer.Option(metavar="LAYERS", help="last, second-to-last, sum-last-four, embeddings, or numbers.")
    ] = "last",
    contexts: Annotated[int, typer.Option(metavar="N", min=1, help="The most sentences for each word.")] = 50,
    minimum_count: Annotated[int, typer.Option(metavar="N", min=1, help="Rarer words are left out.")] = 5,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="A word and the same in capitals are one.")] = False,
    spaces: Annotated[
        bool,
        typer.Option("--spaces", help="Words are what stands between spaces; else as the model's tokenizer parts."),
    ] = False,
    lines: Annotated[bool, typer.Option("--lines", help="Each line is a sentence; else text is split.")] = False,
    precision: Annotated[str, typer.Option(metavar="NAME", help="float32, bfloat16 or int8.")] = "float32",
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Take one vector for each word out of a model that reads words in context.

    With `contexts` a word's vector is the mean of those it has in up to --contexts sentences, spread evenly over the text. With
    `alone` the words of the text are read one at a time. With `pieces` no text is needed: it is the table of the model's input
    embeddings.

    \b
    Example:
      regard vectors extract path/to/minilm wiki.txt.gz -o vectors/minilm --lowercase
      regard vectors extract runs/bert a.txt b.txt -o vectors/bert --layers second-to-last --contexts 20
      regard vectors extract runs/bert -o vectors/pieces --how pieces
    """  # noqa: D301  # \b keeps the lines of the example apart
    if output is None:
        raise InputError("-o is missing; name a folder for the vectors")
    if how not in HOW:
        raise InputError(f"--how is {how!r}; {nearest(how, HOW)}")
    if how != "pieces" and not texts:
        raise InputError("no file of text is given; name one at least, or take --how pieces")
    from regard.embeddings.linear import check_precision
    from regard.embeddings.vector_file import digest_of
    from regard.tasks.loading import model_folder
    from regard.vectors.writing import write_vectors

    check_precision(precision)
    sentences = None if how == "pieces" else _Sentences(list(texts or ()), lines=lines, spaces=spaces)
    encoder = opened(model, device, "sentence_embedding")
    try:
        with _bar() as progress:
            if sentences is None:
                from regard.vectors.contextual import piece_vectors

                found = piece_vectors(encoder)
            elif how == "alone":
                from regard.vectors.contextual import counted, vectors_alone

                counts = counted(encoder.task.tokenizer, sentences, lowercase=lowercase)
                words, numbers = counts.frequent(minimum_count)
                found = vectors_alone(
                    encoder, words, layers=layers, counts=numbers, precision=precision, progress=progress
                )
            else:
                from regard.vectors.contextual import averaged_vectors

                found = averaged_vectors(
                    encoder,
                    sentences,
                    layers=layers,
                    contexts=contexts,
                    minimum_count=minimum_count,
                    lowercase=lowercase,
                    precision=precision,
                    progress=progress,
                )
    except KeyboardInterrupt:
        raise Interruption("interrupted; nothing was written") from None
    metadata = {**found.metadata, "model": digest_of(model_folder(model))}
    found = replace(found, metadata=metadata, name=output.name, subwords=None)  # the tokenizer stays with the model
    write_vectors(found, output)
    if as_json:
        print_json({"output": str(output), "words": len(found), "width": found.width, **found.metadata})
    else:
        say(f"{output}: {len(found):,} words, vectors of {found.width:,} numbers")


class _Sentences:
    """The sentences of some files, read anew each time they are gone through."""

    def __init__(self, files: list[Path], *, lines: bool, spaces: bool) -> None:
        self._files, self._lines, self._spaces = files, lines, spaces
        for file in files:
            next(self._read([file]), None)  # what cannot be read is to be told before a model is loaded

    def __iter__(self) -> Iterator[Sentence]:
        return self._read(self._files)

    def _read(self, files: list[Path]) -> Iterator[Sentence]:
        from regard.data.running_text import read_documents

        for document in read_documents(files, sentences="line" if self._lines else "split"):
            for sentence in document:
                yield sentence.split() if self._spaces else sentence


@contextlib.contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """What is told how far reading has come, and shows it on standard error where that is a terminal."""
    if not on_terminal(sys.stderr):
        yield lambda done, of: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), redirect_stdout=False) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)
