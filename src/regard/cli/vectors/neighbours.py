"""What lies near what: `regard vectors neighbours`, `analogy` and `doesnt-match`."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from regard.cli.commands import renamed
from regard.cli.console import envelope, one_line, print_json, say
from regard.cli.settings import Json, Vectors


@renamed(count="n_best")
def neighbours(
    vectors: Vectors,
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="Whose neighbours.", show_default=False)],
    n_best: Annotated[int, typer.Option(metavar="N", min=1, help="Neighbours of each word.")] = 10,
    among: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only among so many words from the top of the file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find the words whose vectors are nearest to a word's, by cosine.

    \b
    Example:
      regard vectors neighbours glove.6B.300d.txt king
      regard vectors neighbours cc.en.300.bin unkingly kings --n-best 5 --among 50000 --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.word_embeddings.neighbours import neighbours as nearest_words
    from regard.word_embeddings.reading import read_vectors

    table = read_vectors(vectors, say=say)
    found = {word: nearest_words(table, word, n_best, among=among) for word in words}
    if as_json:
        print_json(
            envelope("vectors neighbours")
            | {"words": [{"word": w, "neighbours": [each._asdict() for each in near]} for w, near in found.items()]}
        )
        return
    for place, (word, near) in enumerate(found.items()):
        if len(found) > 1:
            print(("\n" if place else "") + one_line(word))
        for each in near:
            print(f"{each.score:6.3f}  {one_line(each.word)}")


@renamed(count="n_best")
def analogy(
    vectors: Vectors,
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
    as_json: Json = False,
) -> None:
    """Complete an analogy: which word is to C as B is to A.

    \b
    Example:
      regard vectors analogy glove.6B.300d.txt man king woman
      regard vectors analogy vectors.bin France Paris Italy --method multiply --n-best 3 --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.errors import InputError, nearest
    from regard.word_embeddings.neighbours import METHODS, Method
    from regard.word_embeddings.neighbours import analogy as answers
    from regard.word_embeddings.reading import read_vectors

    if method not in METHODS:
        raise InputError(f"--method: there is no method {method!r}; {nearest(method, METHODS)}")
    table = read_vectors(vectors, say=say)
    found = answers(table, a, b, c, n_best, method=cast(Method, method), with_given=with_given)
    if as_json:
        print_json(
            envelope("vectors analogy")
            | {"a": a, "b": b, "c": c, "method": method, "answers": [each._asdict() for each in found]}
        )
        return
    for each in found:
        print(f"{each.score:6.3f}  {one_line(each.word)}")


def doesnt_match(
    vectors: Vectors,
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="Three or more.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Find the word that does not match the others: each with its cosine to the mean of all, the least first.

    \b
    Example:
      regard vectors doesnt-match glove.6B.300d.txt breakfast lunch dinner car
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.word_embeddings.neighbours import odd_one_out
    from regard.word_embeddings.reading import read_vectors

    found = odd_one_out(read_vectors(vectors, say=say), words)
    if as_json:
        print_json(
            envelope("vectors doesnt-match")
            | {"doesnt_match": found[0].word, "words": [each._asdict() for each in found]}
        )
        return
    for each in found:
        print(f"{each.score:6.3f}  {one_line(each.word)}")
