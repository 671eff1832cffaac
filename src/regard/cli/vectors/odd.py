"""`regard vectors odd`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import one_line, print_json, say


def odd(
    vectors: Annotated[
        Path, typer.Argument(metavar="VECTORS", help="A file or folder of word vectors.", show_default=False)
    ],
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="Three or more.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Which of some words belongs least to the others: each with its cosine to the mean of all, the odd one first.

    \b
    Example:
      regard vectors odd glove.6B.300d.txt breakfast lunch dinner car
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.vectors.neighbours import odd_one_out
    from regard.vectors.reading import read_vectors

    found = odd_one_out(read_vectors(vectors, say=say), words)
    if as_json:
        print_json({"odd": found[0].word, "words": [each._asdict() for each in found]})
        return
    for each in found:
        print(f"{each.score:6.3f}  {one_line(each.word)}")
