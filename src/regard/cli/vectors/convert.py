"""`regard vectors convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.commands import renamed
from regard.cli.console import print_json, print_table, say


@renamed(first="limit")
def convert(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A file or folder of word vectors.", show_default=False)
    ],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Where to write them.", show_default=False)],
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="folder, word2vec, word2vec-binary, glove or fasttext; if none, what TARGET ends in says: .txt or .vec "
            "word2vec, .bin word2vec-binary (.gz after it packs), nothing folder.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only so many words from the top.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write word vectors in another format.

    What SOURCE is follows from its content: regard's own folder, word2vec's text or binary, GloVe's text, or fastText's .vec
    or .bin, packed with gzip or not. A folder opens at once, however large; text is read number by number each time.

    \b
    Example:
      regard vectors convert glove.6B.300d.txt glove
      regard vectors convert GoogleNews-vectors-negative300.bin.gz news --limit 500000
      regard vectors convert news news.vec.gz
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.vectors.reading import read_vectors
    from regard.vectors.writing import checked_kind, write_vectors

    chosen = checked_kind(target, kind)
    vectors = read_vectors(source, limit=limit, say=say)
    write_vectors(vectors, target, chosen)
    read = {
        "source": str(source),
        "format": vectors.metadata["format"],
        "words": len(vectors),
        "width": vectors.width,
        "counts": vectors.counts is not None,
        "subwords": vectors.subwords is not None,
    }
    if as_json:
        print_json({"read": read, "written": {"target": str(target), "kind": chosen}})
        return
    known = [name for name in ("counts", "subwords") if read[name]]
    print_table(
        [
            ("read", f"{source} ({read['format']})"),
            ("words", f"{len(vectors):,}"),
            ("width", f"{vectors.width:,}"),
            *([("with", ", ".join(known))] if known else []),
            ("written", f"{target} ({chosen})"),
        ]
    )
