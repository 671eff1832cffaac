"""`regard vectors analogy`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from regard.cli.commands import renamed
from regard.cli.console import one_line, print_json, say


@renamed(count="n_best")
def analogy(
    vectors: Annotated[
        Path, typer.Argument(metavar="VECTORS", help="A file or folder of word vectors.", show_default=False)
    ],
    a: Annotated[str, typer.Argument(metavar="A", help="A word,", show_default=False)],
    b: Annotated[str, typer.Argument(metavar="B", help="what stands to it in some relation,", show_default=False)],
    c: Annotated[
        str, typer.Argument(metavar="C", help="and the word for which the same is wanted.", show_default=False)
    ],
    method: Annotated[
        str, typer.Option(metavar="NAME", help="add (3CosAdd) or multiply (3CosMul) the cosines.")
    ] = "add",
    with_given: Annotated[bool, typer.Option("--with-given", help="Let A, B and C be answers too.")] = False,
    n_best: Annotated[int, typer.Option(metavar="N", min=1, help="Answers.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """What is to C as B is to A.

    \b
    Example:
      regard vectors analogy glove.6B.300d.txt man king woman
      regard vectors analogy vectors.bin France Paris Italy --method multiply --n-best 3 --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.errors import InputError, nearest
    from regard.vectors.neighbours import METHODS, Method
    from regard.vectors.neighbours import analogy as answers
    from regard.vectors.reading import read_vectors

    if method not in METHODS:
        raise InputError(f"--method: there is no method {method!r}; {nearest(method, METHODS)}")
    table = read_vectors(vectors, say=say)
    found = answers(table, a, b, c, n_best, method=cast(Method, method), with_given=with_given)
    if as_json:
        print_json({"a": a, "b": b, "c": c, "method": method, "answers": [each._asdict() for each in found]})
        return
    for each in found:
        print(f"{each.score:6.3f}  {one_line(each.word)}")
