"""`regard search`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.commands import renamed
from regard.cli.console import Interruption, on_terminal, one_line, say, text_bar
from regard.cli.embed import open_encoder
from regard.cli.inputs import Device, read_texts
from regard.errors import InputError, nearest

if TYPE_CHECKING:
    from regard.embeddings.search import Found, Index
    from regard.tasks.sentence_embedding import SentenceEncoder

INDEX = ".regard-index.safetensors"
SHOWN = 240
"""Characters of a passage that are printed."""

ASKING, ANSWERING = ("query",), ("document", "passage", "corpus")
"""Prompts, where a model has such, for what is looked for and for what is searched."""


@renamed(top="n_best")
def search(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Of text files; or a file: text, CSV, TSV, JSONL.", show_default=False),
    ],
    queries: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUERY", help="What to look for; else standard input.", show_default=False),
    ] = None,
    n_best: Annotated[int, typer.Option(metavar="N", min=1, help="Passages for each query.")] = 5,
    files: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="Names of the files to search, such as '*.py'; *.txt, *.md and *.rst if none."
        ),
    ] = None,
    unit: Annotated[
        str,
        typer.Option(metavar="NAME", help="What a passage of a text is: paragraph or line. Rows of tables always are."),
    ] = "paragraph",
    text_column: Annotated[
        str, typer.Option("--text", metavar="COLUMN", help="Of CSV, TSV and JSONL: the column with the text.")
    ] = "text",
    index_file: Annotated[
        Path | None,
        typer.Option(
            "--index", metavar="FILE", help=f"Where the vectors are kept; {INDEX} in the folder if not given."
        ),
    ] = None,
    precision: Annotated[
        str,
        typer.Option(metavar="NAME", help="auto, float32, bfloat16 or int8; auto is bfloat16 where that is native."),
    ] = "auto",
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, with the whole passages.")] = False,
) -> None:
    """Search a folder of text files by meaning: the passages whose vectors are nearest to the query's, with file and line.

    A passage is a paragraph, a heading together with the paragraph below it; long ones are cut. With --unit line it is a
    line; of CSV, TSV and JSONL files it is a row. The vectors are kept in an index file: the next search reads only what
    is new or has changed.

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
    files_of(folder, patterns)  # before a model is loaded
    encoder, chosen = open_encoder(model, device, None, None, precision)
    beside = folder.with_name(f".{folder.name}{INDEX}") if folder.is_file() else folder / INDEX
    place = index_file if index_file is not None else beside
    index = Index.load(place, folder, _origin(model, encoder, chosen), unit, text_column)
    for sentence in described(_updated(index, place, encoder, chosen, patterns)):
        say(sentence)
    separator = '{"queries": [\n'
    prompt = _prompt(encoder, ASKING)
    for query in asked:
        if not query.content.strip():
            raise InputError(f"{query.where}: is empty; say what to look for")
        vector = encoder.embed([query.content], prompt=prompt, precision=chosen)
        try:
            found = index.search(vector, n_best)[0]
        except ChangedFile:  # while queries were typed
            for sentence in described(_updated(index, place, encoder, chosen, patterns)):
                say(sentence)
            found = index.search(vector, n_best)[0]
        if as_json:
            _print_json(separator, query.content, found)
            separator = ",\n"
        else:
            _print(query.content, found, named=len(queries or ()) != 1)
        sys.stdout.flush()
    if as_json:
        print("\n]}" if separator == ",\n" else '{"queries": []}')


def _updated(index: Index, place: Path, encoder: SentenceEncoder, precision: str, patterns: tuple[str, ...]) -> Any:
    """Bring the index up to date and write it where anything changed; what is done by a Ctrl-C is written too."""
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
            f"interrupted after {len(index.vectors):,} passages; give the same command again to go on"
        ) from None
    if changed():
        index.save(place)
    return update


def _origin(model: Path, encoder: SentenceEncoder, precision: str) -> dict[str, Any]:
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


def _print(query: str, found: list[Found], *, named: bool) -> None:
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
