"""`regard map`: embeddings of words or texts as points, on one page."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from regard.cli.console import envelope, print_json, progress_bar, say, text_bar
from regard.cli.embedding import open_encoder
from regard.cli.inputs import Text, read_input
from regard.cli.settings import Device, Json, Seed, VectorDType
from regard.errors import InputError, nearest
from regard.reading import check_regular

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from regard.embeddings.vector_map import Method
    from regard.word_embeddings.store import WordVectors

TABLES = (".jsonl", ".parquet")
"""File types in which `regard embed` writes texts together with their embeddings."""


def map(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="VECTORS",
            help="Word embeddings in any format, a file from `regard embed`, or an encoder's folder, for TEXTS.",
            show_default=False,
        ),
    ],
    texts: Annotated[
        Path | None,
        typer.Argument(
            metavar="TEXTS",
            help="Texts to embed, or labels of the rows of an .npy file: one text per line, CSV, TSV or JSONL.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The page to write.", show_default=False)
    ] = Path("map.html"),
    method: Annotated[
        str, typer.Option(metavar="NAME", help="pca, umap or tsne; the last two need pip install 'regard[map]'.")
    ] = "pca",
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Only the first N vectors.")] = 100_000,
    neighbours: Annotated[
        int, typer.Option(metavar="K", min=0, help="Neighbours of each point on the page; 0 for none.")
    ] = 10,
    colour: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="A column of TEXTS to colour the points by; or a file with one value per line, or, for words, a word, a tab "
            "and its value per line. May be repeated.",
            show_default=False,
        ),
    ] = None,
    text_column: Annotated[
        str | None,
        typer.Option("--text", metavar="COLUMN", help="For TEXTS in CSV, TSV or JSONL: the column with the text."),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write the points as .csv, .jsonl or .parquet for embedding-atlas; the last two include the "
            "neighbours.",
            show_default=False,
        ),
    ] = None,
    device: Device = "auto",
    dtype: VectorDType = "auto",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Plot embeddings in 2-D on an interactive page, with the nearest neighbours of each point.

    Without TEXTS, VECTORS are word embeddings, or a .jsonl or .parquet file from `regard embed`. With TEXTS, they are
    embedded by a sentence model, or they label the rows of an .npy file. Neighbours are computed in the full space, not in
    the plot. PCA is exact and fast, and reports the variance it explains. The page is one file and needs no network.

    \b
    Example:
      regard map glove.6B.300d.txt -o words.html
      regard map path/to/minilm messages.csv --text message --colour label -o messages.html
      regard map vectors.npy sentences.txt --method umap --export points.parquet
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.embeddings.map_page import check_export, column_of, html_page, write_points
    from regard.embeddings.vector_map import check_method, map_vectors
    from regard.files import write_file

    # Refuse wrong options before an encoder reads for minutes.
    check_method(method)
    if export is not None:
        check_export(export)
    labels, rows, vectors = _read(source, texts, limit, text_column, device, dtype)
    columns = {}
    for name in colour or ():
        title, values = _values(name, labels, rows, words=texts is None)
        columns[title] = column_of(values)
    made = vectors()
    with progress_bar("vectors") as show:
        found = map_vectors(
            made,
            labels,
            method=cast("Method", method),
            neighbours=neighbours,
            columns=columns,
            title=(source if texts is None else texts).name,
            seed=seed,
            progress=show,
        )
    write_file(output, html_page(found).encode())
    if export is not None:
        write_points(found, export)
        if found.neighbours is not None and export.suffix.lower() == ".csv":
            say(f"{export}: a CSV file cannot hold neighbours; .jsonl and .parquet can")
    if as_json:
        kept = 0 if found.neighbours is None else found.neighbours.rows.shape[1]
        values = {"output": str(output), "points": len(found), "dim": found.width, "method": method, "neighbours": kept}
        print_json(
            envelope("map") | values | {"shares": found.shares, "export": None if export is None else str(export)}
        )
        return
    share = "" if found.shares is None else f", {sum(found.shares):.1%} of the variance shown"
    say(f"{output}: {len(found):,} points{share}")
    if export is not None:
        say(f"{export}: the same points, for other programs")


def _read(
    source: Path, texts: Path | None, limit: int, column: str | None, device: str, dtype: str
) -> tuple[list[str], list[Text] | None, Callable[[], NDArray[np.float32]]]:
    """The texts or words, their rows where they have any, and a function that returns their embeddings."""
    suffix = source.suffix.lower()
    if texts is None:
        if column is not None:
            raise InputError("--text is a column of TEXTS; give that file after VECTORS, or leave it out")
        if suffix == ".npy":
            raise InputError(f"{source}: has embeddings without texts; give the file of texts after it")
        if source.is_dir() and (source / "config.json").exists():
            raise InputError(
                f"{source}: is a model; give a file of texts after it, or first write the embeddings of its word "
                "pieces, "
                "with regard vectors extract"
            )
        if suffix in TABLES and source.is_file():
            held, labels = _table(source, limit)
            return labels, None, lambda: held
        table = _words(source, limit)
        return list(table.words), None, lambda: table.matrix
    rows = list(itertools.islice(read_input((), texts, column), limit + 1))
    if not rows:
        raise InputError(f"{texts}: has no text")
    if suffix == ".npy":
        vectors = _array(source)
        if len(vectors) != len(rows) and not (len(vectors) > limit < len(rows)):
            more = "or more " if len(rows) > limit else ""
            raise InputError(
                f"{source}: has {len(vectors):,} embeddings for {len(rows):,} {more}texts in {texts}; give one for each"
            )
        rows = _cut(rows, limit)
        return [row.content for row in rows], rows, lambda: vectors[: len(rows)]
    rows = _cut(rows, limit)
    labels = [row.content for row in rows]

    def read() -> NDArray[np.float32]:
        encoder, chosen = open_encoder(source, device, None, None, dtype)
        with text_bar(encoder, len(labels)):
            return encoder.embed(labels, precision=chosen)

    return labels, rows, read


def _cut(rows: list[Text], limit: int) -> list[Text]:
    if len(rows) > limit:
        _say_cut(limit)
    return rows[:limit]


def _say_cut(limit: int) -> None:
    say(f"only the first {limit:,} are on the map; use --limit N for more")


def _words(source: Path, limit: int) -> WordVectors:
    from regard.word_embeddings.files import read_vectors

    table = read_vectors(source, limit=limit + 1, say=say)
    if len(table) > limit:
        _say_cut(limit)
    return table.first(limit)


def _array(source: Path) -> NDArray[np.float32]:
    import numpy as np

    check_regular(source, "give a file written by regard embed")
    try:
        found = np.load(source, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy parses the header as Python, so a damaged one may raise any error
        reason = " ".join(str(error).split())
        raise InputError(
            f"{source}: is no array that can be read ({reason:.300}); give a file written by regard embed"
        ) from None
    if not isinstance(found, np.ndarray):
        raise InputError(f"{source}: has several arrays; give a single one of (N, W) floats")
    if found.ndim != 2 or found.dtype.kind != "f":
        raise InputError(f"{source}: is {found.dtype} of the shape {found.shape}; give (N, W) floats")
    return found if found.dtype == np.float32 else found.astype(np.float32)


def _table(source: Path, limit: int) -> tuple[NDArray[np.float32], list[str]]:
    """Texts and embeddings from a .jsonl or .parquet file written by `regard embed`."""
    rows: Any = _jsonl(source, limit + 1) if source.suffix.lower() == ".jsonl" else _parquet(source, limit + 1)
    if not rows:
        raise InputError(f"{source}: has no embeddings")
    if len(rows) > limit:
        _say_cut(limit)
        rows = rows[:limit]
    import numpy as np

    labels, vectors = zip(*rows, strict=True)
    try:
        found = np.array(vectors, dtype=np.float32)
    except (ValueError, TypeError, OverflowError):
        found = np.empty(0, dtype=np.float32)
    if found.ndim != 2 or not np.isfinite(found).all():  # null becomes NaN
        raise InputError(
            f"{source}: its embeddings have different widths, or entries that are no numbers; write them again"
        )
    return found, list(labels)


def _jsonl(source: Path, limit: int) -> list[tuple[str, Any]]:
    from regard.data.lines import read_lines
    from regard.data.malformed import MalformedRow
    from regard.data.objects import objects_of_jsonl

    rows = []
    for line in itertools.islice(objects_of_jsonl(str(source), read_lines(source)), limit):
        if isinstance(line, MalformedRow):
            raise InputError(str(line))
        number, content = line
        text, vector = content.get("text"), content.get("vector")
        if not isinstance(text, str) or not isinstance(vector, list):
            raise InputError(f"{source}, line {number}: has no text and vector; give a file written by regard embed")
        rows.append((text, vector))
    return rows


def _parquet(source: Path, limit: int) -> list[tuple[str, Any]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"{source}: reading .parquet needs pyarrow: pip install 'regard[parquet]'") from None
    check_regular(source, "give a file written by regard embed")
    try:
        rows: list[tuple[str, Any]] = []
        with pyarrow.parquet.ParquetFile(source) as file:
            for batch in file.iter_batches(1024, columns=["text", "vector"]):
                rows += zip(batch["text"].to_pylist(), batch["vector"].to_pylist(), strict=True)
                if len(rows) >= limit:
                    break
        return rows[:limit]
    except (OSError, ValueError, KeyError, pyarrow.ArrowException) as error:
        raise InputError(f"{source}: has no text and vector ({error}); give a file written by regard embed") from None


def _values(name: str, labels: list[str], rows: list[Text] | None, *, words: bool) -> tuple[str, list[str]]:
    """The name of a colour column, and its value for each point; empty where there is none."""
    known = list(dict.fromkeys(key for row in rows or () for key in (row.row or {})))
    if name in known:
        return name, ["" if (value := (row.row or {}).get(name)) is None else str(value) for row in rows or ()]
    path = Path(name)
    if not path.is_file():
        hint = nearest(name, known) if known else "give a file with one value per line, or TEXTS with columns"
        raise InputError(f"--colour {name!r}: is no column and no file; {hint}")
    lines = _lines(path)
    if words and lines and all("\t" in line for line in lines if line.strip()):
        held = dict(line.split("\t", 1) for line in lines if line.strip())
        values = [held.get(label, "") for label in labels]
        if not any(label in held for label in labels):
            raise InputError(
                f"--colour {path}: none of its words is on the map; give a word, a tab and its value on each line"
            )
        return path.stem, values
    if len(lines) < len(labels):
        raise InputError(
            f"--colour {path}: has {len(lines):,} lines for {len(labels):,} points; give one value per line"
        )
    return path.stem, [line.strip() for line in lines[: len(labels)]]


def _lines(path: Path) -> list[str]:
    from regard.data.lines import read_lines
    from regard.data.malformed import MalformedRow, decoded

    lines = []
    for line in read_lines(path):
        text = decoded(str(path), line)
        if isinstance(text, MalformedRow):
            raise InputError(str(text))
        lines.append(text)
    return lines
