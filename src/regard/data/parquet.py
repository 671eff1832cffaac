"""Rows of Parquet files, as objects by the names of their columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from regard.errors import InputError
from regard.reading import check_regular

TOGETHER = 1024
"""Rows that are in memory at a time."""


def parquet_rows(name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a Parquet file in a stream, numbered from 1; the file is opened by the call itself.

    Raises:
        InputError: where there is no such file, it is none, or pyarrow is missing.
    """
    try:
        import pyarrow.parquet as parquet
        from pyarrow import ArrowException
    except ImportError:
        raise InputError(
            f"{name}: reading Parquet needs pyarrow: pip install 'regard[parquet]'; or give CSV or JSONL"
        ) from None
    check_regular(name, "check the path")
    try:
        file = parquet.ParquetFile(name)
    except (ArrowException, OSError) as error:
        raise InputError(
            f"{name}: is no Parquet file that can be read ({_first_line(error)}); write it again"
        ) from None

    def rows() -> Iterator[tuple[int, dict[str, Any]]]:
        number = 0
        try:
            for batch in file.iter_batches(batch_size=TOGETHER):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
        except (ArrowException, OSError) as error:
            raise InputError(
                f"{name}: reading stopped after row {number} ({_first_line(error)}); write it again"
            ) from None
        finally:
            file.close()

    return rows()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
