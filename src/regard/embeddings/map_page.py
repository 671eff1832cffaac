"""A map of vectors as a self-contained HTML page, and as a table for other programs."""

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
"""The integer that represents a cosine of 1 in the page: cosines are stored as int16, with an error of at most 1.6e-5."""


def html_page(vectors: VectorMap) -> str:
    """The map as an HTML page with panning, zooming, search, neighbours, colours and a lasso.

    The page is one self-contained file that works without a network. Coordinates are stored as float32, without loss.

    >>> from regard.embeddings.vector_map import map_vectors
    >>> page = html_page(map_vectors(np.eye(3, dtype=np.float32), ["a", "b", "</script>"], title="three"))
    >>> "<title>three</title>" in page, page.count("</script>")
    (True, 6)
    """
    data, parts = described(vectors)
    texts = [base64.b64encode(part).decode("ascii") for part in parts]
    values = {"title": vectors.title, "about": about(vectors), "footer": FOOTER, "parts": texts}
    return page("map", values, data=data, styles=("map.css",))


FOOTER = (
    "Cosines on this page are rounded to 0.00002; coordinates are float32. "
    "Selections and saved files stay on this computer."
)


def about(vectors: VectorMap) -> str:
    """Sentences that explain the plot and its limits."""
    count = f"{len(vectors):,} vectors of width {vectors.width:,}, projected by {NAMES[vectors.method]}"
    if vectors.shares is None:
        shown = f"{count}, which puts close vectors together; the sizes of groups and the distances between them mean little."
    else:
        x, y = vectors.shares
        shown = f"{count}, which explains {x + y:.1%} of their variance ({x:.1%} on the x axis, {y:.1%} on the y axis)."
    return (
        f"{shown} Distances in the plot differ from those in the original space; neighbours are those in the original space, "
        "by cosine."
    )


def described(vectors: VectorMap) -> tuple[dict[str, Any], list[bytes]]:
    """The data of a map for the page's scripts: a description, and compressed parts.

    The parts are the points (2 N float32: all x, then all y), the labels (JSON), the neighbours if there are any (rows as int32,
    -1 for none; cosines as int16), and each column (categories as uint16, numbers as float32). In arrays of numbers, the first
    bytes of all numbers come first, then the second bytes and so on, which compresses better.
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
            # The most frequent categories come first, because they get the colours.
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
    """Compressed numbers in byte planes: the first bytes of all numbers, then the second bytes, and so on."""
    size = numbers.dtype.itemsize
    planes = np.ascontiguousarray(numbers).reshape(-1).view(np.uint8).reshape(-1, size).T
    return _deflated(np.ascontiguousarray(planes).tobytes())


def _deflated(content: bytes) -> bytes:
    return zlib.compress(content, 6)


def column_of(values: Sequence[str], most: int = 12) -> Sequence[str] | NDArray[np.float64]:
    """The values of a column as float64 if all are numbers or empty (nan), else unchanged.

    Whole numbers with at most `most` different values are treated as classes and stay texts.

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
    """Check that points can be written to this path.

    Raises:
        InputError: for an unknown ending, or for Parquet if pyarrow is not installed.
    """
    if path.suffix.lower() not in EXPORTS:
        raise InputError(
            f"{path}: points cannot be written to a file that ends in {path.suffix!r}; {nearest(path.suffix, EXPORTS)}"
        )
    if path.suffix.lower() == ".parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise InputError(
                "writing .parquet needs pyarrow: pip install 'regard[parquet]'; or choose .csv or .jsonl"
            ) from None


def write_points(vectors: VectorMap, path: Path) -> None:
    """Write a map as a table for Apple's embedding-atlas: the columns `x`, `y`, `text`, the further columns, and `neighbors`.

    `neighbors` is `{"ids": [n1, n2, ...], "distances": [d1, d2, ...]}` with zero-based row indices; a distance is 1 - cosine.
    CSV files do not have this column, because their cells are texts, which that program does not accept for neighbours.

    Arguments:
        vectors: the map.
        path: the path of the file, ending in .csv, .jsonl or .parquet.

    Raises:
        InputError: for another ending, a further column with one of the names above, or a path that cannot be written to.
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
                f"{path}: one of your columns is called {name!r}, which the table uses already; rename your column"
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
