"""`regard vectors train`, `extract` (from a model) and `convert` (to another format)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from regard.cli.commands import renamed
from regard.cli.console import Interruption, envelope, print_json, print_table, progress_bar, say, say_malformed
from regard.cli.inputs import opened
from regard.cli.settings import NOTHING, Device, Format, Given, Json, Limit, Model, Settings, grouped
from regard.errors import InputError, nearest

if TYPE_CHECKING:
    from regard.word_embeddings.contextual import Sentence
    from regard.word_embeddings.store import WordVectors
    from regard.word_embeddings.training.corpus import Method, Progress


VECTORS = Settings(
    place="regard.word_embeddings.training.corpus:VectorSettings",
    names=(
        *("method", "width", "window", "minimum_count", "epochs", "learning_rate", "seed"),
        *("negative", "subsample", "workers", "buckets", "largest_count", "vectors", "memory"),
    ),
    called={"width": "dim", "largest_count": "x_max"},
    metavar={"memory": "MIB"},
    defaults=True,
)
"""The options of training, which are fields of `regard.word_embeddings.training.VectorSettings`."""


@renamed(min_count="minimum_count", width="dim", kind="format")
@grouped()
def train(
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT...",
            help="Text files, optionally gzipped; folders of *.txt files; python_docs for the text that comes with Python.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PATH", help="Output file or folder.", show_default=False)
    ],
    settings: Annotated[Given, VECTORS] = NOTHING,
    ngrams: Annotated[
        str | None,
        typer.Option(
            metavar="N-M",
            help="For fastText: lengths of character n-grams.  [default: 3-6]",
            show_default=False,
        ),
    ] = None,
    tokens: Annotated[
        str,
        typer.Option(metavar="NAME", help="words for raw text; whitespace for text that is already tokenised."),
    ] = "words",
    sentences: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="line or split; by default line for --tokens whitespace, else split.",
            show_default=False,
        ),
    ] = None,
    cleaning: Annotated[str, typer.Option(metavar="NAME", help="none or wikitext.")] = "none",
    keep_case: Annotated[bool, typer.Option("--keep-case", help="Keep capital letters.")] = False,
    format: Format = None,
    scratch: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for temporary files; by default the system's.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train word embeddings: skip-gram, CBOW, fastText or GloVe.

    Defaults are those of the published method. The text may be larger than memory. With one worker, the same seed gives the
    same vectors.

    \b
    Example:
      regard vectors train python_docs -o docs-vectors --dim 50
      regard vectors train books/ -o books.vec --method fasttext --ngrams 3-5 --buckets 200000
      regard vectors train wiki.train.tokens -o wiki --method glove --x-max 10 --tokens whitespace --cleaning wikitext
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.word_embeddings.files import checked_kind, write_vectors
    from regard.word_embeddings.training import sentences as read
    from regard.word_embeddings.training import settings_of, train_vectors
    from regard.word_embeddings.training.corpus import METHODS

    chosen = checked_kind(output, format)
    _check_place(output)
    method = settings["method"] or "skipgram"
    if method not in METHODS:
        raise InputError(f"there is no method {method!r}; {nearest(method, METHODS)}")
    shortest, longest = _lengths(ngrams)
    own = {**settings, "minimum_ngram": shortest, "maximum_ngram": longest}
    chosen_settings = settings_of(cast("Method", own.pop("method") or method), **own)
    corpus = read(texts, tokenisation=tokens, sentences=sentences, lowercase=not keep_case, cleaning=cleaning)  # type: ignore[arg-type]
    try:
        with progress_bar("words") as show:

            def report(now: Progress) -> None:
                show(now.done, now.total, f"{now.stage},{now.unit}")

            found = train_vectors(corpus, chosen_settings, name=output.name, scratch=scratch, report=report)
    except KeyboardInterrupt:
        raise Interruption("interrupted; nothing was written, and existing files are unchanged") from None
    say_malformed(corpus.malformed)
    write_vectors(found, output, chosen)
    if as_json:
        print_json(
            envelope("vectors train")
            | {"output": str(output), "format": chosen, "words": len(found), "dim": found.width, **found.metadata}
        )
    else:
        print_table(_rows(found, output, chosen))


def _check_place(output: Path) -> None:
    """Refuse before training a place that could not be written to after it."""
    parent = output.parent
    while not parent.exists() and parent != parent.parent:
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(
            f"{output}: cannot be written, because {parent} is no folder that you may write to; choose another place"
        )


def _lengths(ngrams: str | None) -> tuple[int | None, int | None]:
    """The smallest and the largest length in a range such as `3-6`.

    >>> _lengths("3-6"), _lengths("4"), _lengths(None)
    ((3, 6), (4, 4), (None, None))
    """
    if ngrams is None:
        return None, None
    parts = [part.strip() for part in ngrams.split("-")]
    if len(parts) > 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise InputError(f"--ngrams is {ngrams!r}; give two lengths, such as 3-6")
    return int(parts[0]), int(parts[-1])


def _rows(vectors: WordVectors, output: Path, kind: str) -> list[tuple[str, str]]:
    facts: Any = vectors.metadata
    text = facts["text"]
    rows = [
        ("method", facts["method"]),
        ("words", f"{len(vectors):,}, seen {int(vectors.counts.sum()) if vectors.counts is not None else 0:,} times"),
        ("dim", f"{vectors.width:,}"),
        ("text", f"{text['words']:,} words in {text['sentences']:,} sentences"),
        ("took", f"{facts['seconds']:,.1f} seconds"),
    ]
    if "counts" in facts:
        rows.append(("counted", f"{facts['words_per_second']:,.0f} words a second"))
        rows.append(("trained", f"{facts['counts']:,} counts, {facts['counts_per_second']:,.0f} a second"))
    else:
        rows.append(("trained", f"{facts['words_per_second']:,.0f} words a second"))
    return [*rows, ("written", f"{output} ({kind})")]


# `regard vectors extract`: from a model that reads words in context.


HOW = ("contexts", "alone", "pieces")


@renamed(precision="dtype")
def extract(
    model: Model,
    texts: Annotated[
        list[Path] | None,
        typer.Argument(metavar="TEXT", help="Text files; UTF-8, optionally gzipped.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Output, in the formats of `regard vectors convert`."),
    ] = None,
    how: Annotated[
        str,
        typer.Option(metavar="NAME", help="contexts: the mean over sentences; alone: each word by itself; or pieces."),
    ] = "contexts",
    layers: Annotated[
        str, typer.Option(metavar="LAYERS", help="last, second-to-last, sum-last-four, embeddings, or numbers.")
    ] = "last",
    contexts: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of sentences per word.")] = 50,
    minimum_count: Annotated[int, typer.Option(metavar="N", min=1, help="Leave out words seen less often.")] = 5,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Lowercase the text.")] = False,
    spaces: Annotated[
        bool,
        typer.Option("--spaces", help="Split words at spaces; by default as the model's tokenizer does."),
    ] = False,
    lines: Annotated[
        bool, typer.Option("--lines", help="Each line is a sentence; by default the text is split into sentences.")
    ] = False,
    device: Device = "auto",
    dtype: Annotated[str, typer.Option(metavar="NAME", help="float32, bfloat16 or int8.")] = "float32",
    as_json: Json = False,
) -> None:
    """Extract one vector per word from a contextual model.

    With `contexts`, a word's vector is its mean over up to --contexts sentences, spread evenly over the text. With `alone`,
    each word of the text is encoded by itself. With `pieces`, no text is needed: the vectors are the model's input
    embeddings.

    \b
    Example:
      regard vectors extract path/to/minilm wiki.txt.gz -o vectors/minilm --lowercase
      regard vectors extract runs/bert a.txt b.txt -o vectors/bert --layers second-to-last --contexts 20
      regard vectors extract runs/bert -o vectors/pieces --how pieces
    """  # noqa: D301  # \b keeps the lines of the example apart
    if output is None:
        raise InputError("-o is missing; give a folder for the embeddings")
    if how not in HOW:
        raise InputError(f"--how is {how!r}; {nearest(how, HOW)}")
    if how != "pieces" and not texts:
        raise InputError("no text file is given; give at least one, or use --how pieces")
    from regard.embeddings.vector_file import digest_of
    from regard.quantization.linear import check_precision
    from regard.tasks.loading import model_folder
    from regard.word_embeddings.files import write_vectors

    check_precision(dtype)
    sentences = None if how == "pieces" else _Sentences(list(texts or ()), lines=lines, spaces=spaces)
    encoder = opened(model, device, "sentence_embedding")
    try:
        with progress_bar("sentences") as show:

            def progress(done: int, total: int) -> None:
                show(done, total, "reading")

            if sentences is None:
                from regard.word_embeddings.contextual import piece_vectors

                found = piece_vectors(encoder)
            elif how == "alone":
                from regard.word_embeddings.contextual import counted, vectors_alone

                counts = counted(encoder.task.tokenizer, sentences, lowercase=lowercase)
                words, numbers = counts.frequent(minimum_count)
                found = vectors_alone(encoder, words, layers=layers, counts=numbers, precision=dtype, progress=progress)
            else:
                from regard.word_embeddings.contextual import averaged_vectors

                found = averaged_vectors(
                    encoder,
                    sentences,
                    layers=layers,
                    contexts=contexts,
                    minimum_count=minimum_count,
                    lowercase=lowercase,
                    precision=dtype,
                    progress=progress,
                )
    except KeyboardInterrupt:
        raise Interruption("interrupted; nothing was written") from None
    metadata = {**found.metadata, "model": digest_of(model_folder(model))}
    found = replace(found, metadata=metadata, name=output.name, subwords=None)  # the tokenizer is not part of the table
    write_vectors(found, output)
    if as_json:
        print_json(
            envelope("vectors extract")
            | {"output": str(output), "words": len(found), "dim": found.width, **found.metadata}
        )
    else:
        say(f"{output}: {len(found):,} words, vectors of {found.width:,} numbers")


class _Sentences:
    """The sentences of some files, which are read again at each iteration."""

    def __init__(self, files: list[Path], *, lines: bool, spaces: bool) -> None:
        self._files, self._lines, self._spaces = files, lines, spaces
        for file in files:
            next(self._read([file]), None)  # refuses unreadable files before a model is loaded

    def __iter__(self) -> Iterator[Sentence]:
        return self._read(self._files)

    def _read(self, files: list[Path]) -> Iterator[Sentence]:
        from regard.data.running_text import read_documents

        for document in read_documents(files, sentences="line" if self._lines else "split"):
            for sentence in document:
                yield sentence.split() if self._spaces else sentence


# `regard vectors convert`: from one format to another.


@renamed(first="limit", kind="format")
def convert(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A file or folder of word embeddings.", show_default=False)
    ],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Output file or folder.", show_default=False)],
    format: Format = None,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Convert word embeddings to another format.

    The format of SOURCE is detected from its content: Regard's folder, word2vec text or binary, GloVe text, or fastText .vec
    or .bin, gzipped or not. A folder of any size opens at once; text is parsed each time.

    \b
    Example:
      regard vectors convert glove.6B.300d.txt glove
      regard vectors convert GoogleNews-vectors-negative300.bin.gz news --limit 500000
      regard vectors convert news news.vec.gz
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.word_embeddings.files import checked_kind, read_vectors, write_vectors

    chosen = checked_kind(target, format)
    vectors = read_vectors(source, limit=limit, say=say)
    write_vectors(vectors, target, chosen)
    read = {
        "source": str(source),
        "format": vectors.metadata["format"],
        "words": len(vectors),
        "dim": vectors.width,
        "counts": vectors.counts is not None,
        "subwords": vectors.subwords is not None,
    }
    if as_json:
        print_json(envelope("vectors convert") | {"read": read, "written": {"target": str(target), "format": chosen}})
        return
    known = [name for name in ("counts", "subwords") if read[name]]
    print_table(
        [
            ("read", f"{source} ({read['format']})"),
            ("words", f"{len(vectors):,}"),
            ("dim", f"{vectors.width:,}"),
            *([("with", ", ".join(known))] if known else []),
            ("written", f"{target} ({chosen})"),
        ]
    )
