"""A map of vectors as one HTML page that needs no other file, and as a table for other programs."""

from __future__ import annotations

import base64
import csv
import io
import json
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.embeddings.vector_map import VectorMap
from regard.errors import InputError, nearest
from regard.files import replace_file
from regard.web import page

NAMES = {"pca": "PCA", "umap": "UMAP", "tsne": "t-SNE"}
EXPORTS = (".csv", ".jsonl", ".parquet")
COSINE = 32767
"""What a cosine of 1 is on a page: cosines are kept as whole numbers of two bytes, each off by at most 1.6e-5."""


def html_page(vectors: VectorMap) -> str:
    """The page of a map: points to pan, zoom and search, the neighbours of each, colours, a lasso.

    It is one file without any link to another, and opens from a disk without a network. Coordinates are in it as they are,
    float32.

    >>> from regard.embeddings.vector_map import map_vectors
    >>> page = html_page(map_vectors(np.eye(3, dtype=np.float32), ["a", "b", "</script>"], title="three"))
    >>> "<title>three</title>" in page, page.count("</script>")
    (True, 6)
    """
    data, parts = described(vectors)
    texts = [base64.b64encode(part).decode("ascii") for part in parts]
    said = {"title": vectors.title, "about": about(vectors), "footer": FOOTER, "parts": texts}
    return page("map", said, data=data, styles=("map.css",))


FOOTER = (
    "Cosines are kept on this page to 0.00002, coordinates as float32. "
    "What is chosen and what is saved stays on this computer."
)


def about(vectors: VectorMap) -> str:
    """What the image shows and what it does not, in sentences."""
    count = f"{len(vectors):,} vectors of {vectors.width:,} numbers, laid out by {NAMES[vectors.method]}"
    if vectors.shares is None:
        shown = f"{count}, which draws those together that are near; sizes of groups and distances between them mean little."
    else:
        x, y = vectors.shares
        shown = f"{count}, which shows {x + y:.1%} of their variance ({x:.1%} across, {y:.1%} up)."
    return f"{shown} Distances in the plot are not the distances in the space: neighbours are of the space, by cosine."


def described(vectors: VectorMap) -> tuple[dict[str, Any], list[bytes]]:
    """What the page's modules read of a map: a description, and deflated parts.

    Parts are the points (2 N float32: across, then up), the labels (JSON), the neighbours where there are any (rows as int32, -1
    for none; cosines as int16), then each column (categories as uint16, numbers as float32). Of numbers the first bytes of all
    come first, then the second ones, which packs better.
    """
    parts = [packed(vectors.points.T.astype("<f4")), _deflated(json.dumps(list(vectors.labels)).encode())]
    if vectors.neighbours is not None:
        rows, cosines = vectors.neighbours
        parts += [packed(rows.astype("<i4")), packed(np.rint(cosines * COSINE).astype("<i2"))]
    columns = []
    for name, values in vectors.columns.items():
        if isinstance(values, np.ndarray):
            known = values[np.isfinite(values)]
            ends = [float(known.min()), float(known.max())] if known.size else [0.0, 0.0]
            columns.append({"name": name, "kind": "number", "ends": ends, "part": len(parts)})
            parts.append(packed(values.astype("<f4")))
        else:
            counts = Counter(values)
            # The commonest first: they get the colours.
            ranked = sorted(counts, key=lambda value: (-counts[value], value))
            place = {value: min(number, 0xFFFF) for number, value in enumerate(ranked)}
            columns.append(
                {
                    "name": name,
                    "kind": "category",
                    "values": ranked[: 0xFFFF + 1],
                    "counts": [counts[value] for value in ranked[: 0xFFFF + 1]],
                    "part": len(parts),
                }
            )
            parts.append(packed(np.array([place[value] for value in values], dtype="<u2")))
    data = {
        "title": vectors.title,
        "count": len(vectors),
        "method": NAMES[vectors.method],
        "neighbours": 0 if vectors.neighbours is None else vectors.neighbours.rows.shape[1],
        "cosine": COSINE,
        "columns": columns,
    }
    return data, parts


def packed(numbers: NDArray[Any]) -> bytes:
    """Numbers deflated, their bytes in planes: the first bytes of all, then the second ones."""
    size = numbers.dtype.itemsize
    planes = np.ascontiguousarray(numbers).reshape(-1).view(np.uint8).reshape(-1, size).T
    return _deflated(np.ascontiguousarray(planes).tobytes())


def _deflated(content: bytes) -> bytes:
    return zlib.compress(content, 6)


def column_of(values: Sequence[str], most: int = 12) -> Sequence[str] | NDArray[np.float64]:
    """Values of a column as numbers where all are such, but for empty ones, and as they are else.

    Whole numbers of no more than `most` kinds are names of classes and stay as they are.

    >>> column_of(["0.5", "", "2"]).tolist(), column_of(["1", "0", "1"])
    ([0.5, nan, 2.0], ['1', '0', '1'])
    """
    try:
        numbers = np.array([float(value) if value.strip() else np.nan for value in values])
    except ValueError:
        return values
    known = numbers[~np.isnan(numbers)]
    few = len(set(values)) <= most and all(
        value.strip().lstrip("-").isdecimal() or not value.strip() for value in values
    )
    return values if few or not known.size or not np.isfinite(known).all() else numbers


def check_export(path: Path) -> None:
    """Refuse a name whose end says no format, and Parquet without its library.

    Raises:
        InputError: with what to give.
    """
    if path.suffix.lower() not in EXPORTS:
        raise InputError(
            f"{path}: points are not written to a file that ends in {path.suffix!r}; {nearest(path.suffix, EXPORTS)}"
        )
    if path.suffix.lower() == ".parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise InputError(
                "writing .parquet needs pyarrow: pip install 'regard[parquet]'; or choose .csv or .jsonl"
            ) from None


def write_points(vectors: VectorMap, path: Path) -> None:
    """Write the points as a table that Apple's embedding-atlas reads: `x`, `y`, `text`, the other columns, `neighbors`.

    `neighbors` is, in its words, `{"ids": [n1, n2, ...], "distances": [d1, d2, ...]}` with zero-based row indices; a distance is
    1 less the cosine. A CSV has no such column, since a cell of it is a text, which that program takes for no neighbours at all.

    Arguments:
        vectors: what is written.
        path: ends in .csv, .jsonl or .parquet.

    Raises:
        InputError: for another ending, a column with one of the names above, or a place that cannot be written to.
    """
    check_export(path)
    columns: dict[str, list[Any]] = {
        "x": vectors.points[:, 0].tolist(),
        "y": vectors.points[:, 1].tolist(),
        "text": list(vectors.labels),
    }
    for name, values in vectors.columns.items():
        if name in (*columns, "neighbors"):
            raise InputError(
                f"{path}: a column of your own is called {name!r}, as one of the table is; give it another name"
            )
        numbers = isinstance(values, np.ndarray)
        columns[name] = (
            [None if number != number else number for number in values.tolist()] if numbers else list(values)
        )
    suffix = path.suffix.lower()
    if vectors.neighbours is not None and suffix != ".csv":
        columns["neighbors"] = [
            {
                "ids": [row for row in rows if row >= 0],
                "distances": [1 - each for row, each in zip(rows, near, strict=True) if row >= 0],
            }
            for rows, near in zip(*(each.tolist() for each in vectors.neighbours), strict=True)
        ]
    replace_file(path, {".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet}[suffix](columns))


def _csv(columns: dict[str, list[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def _jsonl(columns: dict[str, list[Any]]) -> bytes:
    rows = zip(*columns.values(), strict=True)
    return "".join(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n" for row in rows).encode()


def _parquet(columns: dict[str, list[Any]]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    target = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), target)
    return target.getvalue()
