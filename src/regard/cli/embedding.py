"""Sentence embeddings: `regard embed` computes them, `regard search` searches texts with them."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.commands import renamed
from regard.cli.console import Interruption, envelope, json_opening, on_terminal, one_line, print_json, say, text_bar
from regard.cli.inputs import Text, opened, read_texts
from regard.cli.run import Texts, verb
from regard.cli.settings import Device, Json, Model, VectorDType, grouped
from regard.errors import InputError, nearest

if TYPE_CHECKING:
    from regard.embeddings.search import Found, Index
    from regard.embeddings.vector_file import VectorFile
    from regard.tasks.sentence_embedding import SentenceEncoder


TOGETHER = 4096
"""Texts that are sorted by length and embedded together, and written before the next ones are read."""

CHARACTERS = 1 << 22
"""The most characters of these texts together."""


@renamed(layer="layers", precision="dtype")
@verb(
    "sentence_embedding",
    texts="Texts to embed; by default --input or standard input.",
    output="Output file: .npy, .parquet or .jsonl.",
)
def embed(
    run: Texts,
    pooling: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="mean, cls, max, or several such as mean,max; by default the model's own."),
    ] = None,
    layers: Annotated[
        str,
        typer.Option(
            metavar="LAYERS", help="last, second-to-last, sum-last-four, concatenate-last-four, embeddings, or numbers."
        ),
    ] = "last",
    normalise: Annotated[
        bool | None,
        typer.Option("--normalise/--raw", help="Normalise embeddings to length 1; default: as the model does."),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which of the model's prompts to prepend to each text.")
    ] = None,
    dtype: VectorDType = "auto",
) -> None:
    """Compute embeddings of texts: one vector per input line.

    The model can be any BERT, DistilBERT, RoBERTa, XLM-RoBERTa, ELECTRA or ModernBERT, or a sentence-transformers folder.
    Without --output, one JSON object is printed per text.

    A file of any size is read in chunks. The same command continues an interrupted run and writes the same file.

    \b
    Example:
      regard embed path/to/minilm "How do I read a file?" "Open it and loop over it."
      regard embed path/to/minilm --input sentences.txt --output vectors.npy
      regard embed runs/bert --input sentences.txt.gz --output vectors.parquet --pooling cls,mean --layers second-to-last
    """  # noqa: D301  # \b keeps the lines of the example apart
    waiting = run.read()
    encoder, chosen = open_encoder(run.model, run.device, pooling, normalise, dtype)
    dim = encoder.width_of(layers)  # refuses an unknown layer before anything is read

    def vectors(chunk: Sequence[Text]) -> Any:
        return encoder.embed([text.content for text in chunk], layers=layers, prompt=prompt, precision=chosen)

    if run.output is None:
        _print_vectors(waiting, vectors, at_once=run.typed or on_terminal(sys.stdout), as_json=run.as_json)
        return
    from regard.embeddings.vector_file import VectorFile

    origin = None if run.input_file is None else _vectors_origin(run, run.input_file, encoder, layers, prompt, chosen)
    growing = VectorFile(run.output, width=dim, origin=origin)
    with _resumable(growing), growing, text_bar(encoder, run.count):
        if growing.rows:
            say(f"continuing after {growing.rows:,} texts")
        for chunk in _chunks(itertools.islice(waiting, growing.rows, None), TOGETHER):
            growing.append([text.content for text in chunk], vectors(chunk))
    if run.as_json:
        print_json(envelope("embed") | {"output": str(run.output), "rows": growing.rows, "dim": dim, "dtype": chosen})
    else:
        say(f"{run.output}: {growing.rows:,} vectors of {dim:,} numbers")


def open_encoder(
    model: Path, device: str, pooling: str | None, normalise: bool | None, dtype: str
) -> tuple[SentenceEncoder, str]:
    """The encoder with the command's settings, and the dtype to compute in."""
    from regard.quantization.linear import PRECISIONS, check_precision
    from regard.training.precision import better_precision, resolve

    if dtype not in ("auto", *PRECISIONS):
        raise InputError(f"--dtype is {dtype!r}; {nearest(dtype, ['auto', *PRECISIONS])}")
    modes = None if pooling is None else [name.strip() for name in pooling.split(",") if name.strip()]
    encoder = opened(model, device, "sentence_embedding").pooled(modes, normalise=normalise)
    if dtype == "auto":
        found, sentence = resolve("auto", encoder.device)
        say(f"dtype: {sentence}")
        dtype = str(found).removeprefix("torch.")
    better = better_precision(dtype, encoder.device)
    if better:
        say(f"dtype: {better}")
    return encoder, check_precision(dtype)


def _vectors_origin(
    run: Texts, file: Path, encoder: SentenceEncoder, layer: str, prompt: str | None, dtype: str
) -> dict[str, Any]:
    from regard import __version__
    from regard.embeddings.vector_file import digest_of, input_of
    from regard.tasks.loading import model_folder

    return {
        "model": digest_of(model_folder(run.model)),
        "input": input_of(file),
        "pooling": list(encoder.task.pooling),
        "normalise": encoder.task.normalise,
        "layer": layer,
        "prompt": prompt,
        "precision": dtype,
        "version": __version__,
    }


@contextlib.contextmanager
def _resumable(growing: VectorFile) -> Iterator[None]:
    """Report, when a run is interrupted, what is done and how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        if not growing.resumable:
            raise Interruption("interrupted; nothing was written") from None
        raise Interruption(
            f"interrupted after {growing.rows:,} texts; give the same command again to continue to {growing.path}"
        ) from None


def _print_vectors(
    waiting: Iterator[Text], vectors: Callable[[Sequence[Text]], Any], *, at_once: bool, as_json: bool
) -> None:
    """Print a JSON object for each text, or one for all."""
    from regard.embeddings.vector_file import line_of

    opening = json_opening("embed", "embeddings")
    separator = opening + "\n"
    for chunk in _chunks(waiting, 1 if at_once else TOGETHER):
        for text, vector in zip(chunk, vectors(chunk), strict=True):
            line = line_of(text.content, vector)
            sys.stdout.write(separator + line if as_json else line + "\n")
            separator = ",\n"
        sys.stdout.flush()
    if as_json:
        print("\n]}" if separator == ",\n" else opening + "]}")


def _chunks(texts: Iterator[Text], together: int) -> Iterator[list[Text]]:
    """Split texts into chunks that depend only on the texts, so that a continued run has the chunks of an uninterrupted one."""
    chunk: list[Text] = []
    characters = 0
    for text in texts:
        if chunk and (len(chunk) == together or characters + len(text.content) > CHARACTERS):
            yield chunk
            chunk, characters = [], 0
        chunk.append(text)
        characters += len(text.content)
    if chunk:
        yield chunk


# `regard search`.


INDEX = ".regard-index.safetensors"
SHOWN = 240
"""The most characters of a passage that are printed."""

ASKING, ANSWERING = ("query",), ("document", "passage", "corpus")
"""Names of prompts, where a model has them, for queries and for the texts that are searched."""


@renamed(top="n_best", precision="dtype")
@grouped()
def search(
    model: Model,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="A folder of text files, or one file: text, CSV, TSV or JSONL.", show_default=False
        ),
    ],
    queries: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUERY", help="Queries; by default standard input.", show_default=False),
    ] = None,
    n_best: Annotated[int, typer.Option(metavar="N", min=1, help="Passages per query.")] = 5,
    files: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Files to search, such as '*.py'; by default *.txt, *.md and *.rst."),
    ] = None,
    unit: Annotated[
        str,
        typer.Option(metavar="NAME", help="A passage of a text file: paragraph or line. In tables it is always a row."),
    ] = "paragraph",
    text_column: Annotated[
        str, typer.Option("--text", metavar="COLUMN", help="For CSV, TSV and JSONL: the column with the text.")
    ] = "text",
    index_file: Annotated[
        Path | None,
        typer.Option("--index", metavar="FILE", help=f"The index file; by default {INDEX} in the folder."),
    ] = None,
    device: Device = "auto",
    dtype: VectorDType = "auto",
    as_json: Json = False,
) -> None:
    """Search text files by meaning: finds the passages whose embeddings are nearest to the query's.

    Each result has its file and line. A passage is a paragraph, with the heading above it if there is one; long passages are
    split. With --unit line it is a line; in CSV, TSV and JSONL files it is a row. Embeddings are kept in an index file, so
    the next search reads only new and changed files.

    \b
    Example:
      regard search path/to/minilm docs "how do I resume a run"
      regard search path/to/minilm notes "that restaurant in Lisbon" --n-best 3 --index notes.index
      regard search path/to/minilm src "reading gzip files" --files '*.py' --json
      regard search path/to/minilm faq.csv "I forgot my password" --text question
    """  # noqa: D301  # \b keeps the lines of the example apart
    asked = read_texts(queries or (), None)
    from regard.embeddings.search import PATTERNS, UNITS, ChangedFile, Index, described, files_of

    if unit not in UNITS:
        raise InputError(f"--unit is {unit!r}; {nearest(unit, UNITS)}")
    patterns = tuple(files or PATTERNS)
    files_of(folder, patterns)  # checks the folder before a model is loaded
    encoder, chosen = open_encoder(model, device, None, None, dtype)
    usual = folder.with_name(f".{folder.name}{INDEX}") if folder.is_file() else folder / INDEX
    place = index_file if index_file is not None else usual
    index = Index.load(place, folder, _index_origin(model, encoder, chosen), unit, text_column)
    for sentence in described(_updated(index, place, encoder, chosen, patterns)):
        say(sentence)
    opening = json_opening("search", "queries")
    separator = opening + "\n"
    prompt = _prompt(encoder, ASKING)
    for query in asked:
        if not query.content.strip():
            raise InputError(f"{query.where}: is empty; give a query")
        vector = encoder.embed([query.content], prompt=prompt, precision=chosen)
        try:
            found = index.search(vector, n_best)[0]
        except ChangedFile:  # a file changed since the index was updated
            for sentence in described(_updated(index, place, encoder, chosen, patterns)):
                say(sentence)
            found = index.search(vector, n_best)[0]
        if as_json:
            _print_json(separator, query.content, found)
            separator = ",\n"
        else:
            _print_found(query.content, found, named=len(queries or ()) != 1)
        sys.stdout.flush()
    if as_json:
        print("\n]}" if separator == ",\n" else opening + "]}")


def _updated(index: Index, place: Path, encoder: SentenceEncoder, precision: str, patterns: tuple[str, ...]) -> Any:
    """Update the index, and save it where anything changed, also after Ctrl-C."""
    before = {name: (file.size, file.written) for name, file in index.files.items()}
    prompt = _prompt(encoder, ANSWERING)

    def changed() -> bool:
        return before != {name: (file.size, file.written) for name, file in index.files.items()}

    try:
        with text_bar(encoder, None, shown=on_terminal(sys.stderr)):
            update = index.update(lambda texts: encoder.embed(texts, prompt=prompt, precision=precision), patterns)
    except KeyboardInterrupt:
        if changed():
            index.save(place)
        raise Interruption(
            f"interrupted after {len(index.vectors):,} passages; give the same command again to continue"
        ) from None
    if changed():
        index.save(place)
    return update


def _index_origin(model: Path, encoder: SentenceEncoder, precision: str) -> dict[str, Any]:
    from regard.embeddings.vector_file import digest_of
    from regard.tasks.loading import model_folder

    return {
        "model": digest_of(model_folder(model)),
        "precision": precision,
        "pooling": list(encoder.task.pooling),
        "prompt": _prompt(encoder, ANSWERING),
    }


def _prompt(encoder: SentenceEncoder, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in encoder.task.prompts), None)


def _print_found(query: str, found: list[Found], *, named: bool) -> None:
    if named:
        print(one_line(query))
    for each in found:
        text = " ".join(each.text.split())
        shown = text if len(text) <= SHOWN else text[: SHOWN - 4].rsplit(" ", 1)[0] + " ..."
        print(f"{each.cosine:.3f}  {each.file}:{each.line}\n       {one_line(shown)}")
    if named:
        print()


def _print_json(separator: str, query: str, found: list[Found]) -> None:
    import dataclasses
    import json

    results = [dataclasses.asdict(each) for each in found]
    sys.stdout.write(separator + json.dumps({"query": query, "passages": results}, ensure_ascii=False))
