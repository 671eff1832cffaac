"""`regard vectors neighbours`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.commands import renamed
from regard.cli.console import one_line, print_json, say


@renamed(count="n_best")
def neighbours(
    vectors: Annotated[
        Path, typer.Argument(metavar="VECTORS", help="A file or folder of word vectors.", show_default=False)
    ],
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="Whose neighbours.", show_default=False)],
    n_best: Annotated[int, typer.Option(metavar="N", min=1, help="Neighbours of each word.")] = 10,
    among: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only among so many words from the top of the file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """The words whose vectors are nearest to a word's, by cosine.

    \b
    Example:
      regard vectors neighbours glove.6B.300d.txt king
      regard vectors neighbours cc.en.300.bin unkingly kings --n-best 5 --among 50000 --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.vectors.neighbours import neighbours as nearest_words
    from regard.vectors.reading import read_vectors

    table = read_vectors(vectors, say=say)
    found = {word: nearest_words(table, word, n_best, among=among) for word in words}
    if as_json:
        print_json(
            {"words": [{"word": w, "neighbours": [each._asdict() for each in near]} for w, near in found.items()]}
        )
        return
    for place, (word, near) in enumerate(found.items()):
        if len(found) > 1:
            print(("\n" if place else "") + one_line(word))
        for each in near:
            print(f"{each.score:6.3f}  {one_line(each.word)}")
