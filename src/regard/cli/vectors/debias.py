"""`regard vectors debias`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import print_json, print_table, say
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.vectors.bias import Change, DebiasingEffects


def debias(
    vectors: Annotated[
        Path, typer.Argument(metavar="VECTORS", help="A file or folder of vectors.", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Argument(metavar="OUTPUT", help="Where to: .vec, .txt, .bin, or a folder.", show_default=False),
    ],
    pairs: Annotated[
        Path,
        typer.Option(metavar="FILE", help="JSON or text: pairs such as woman, man, that differ in what is removed."),
    ],
    equalize: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON or text: pairs to make alike but for what is removed.")
    ] = None,
    specific: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="JSON or text: words that keep it; those of both kinds of pairs if not given."
        ),
    ] = None,
    occupations: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON or text: words whose bias is told; a few if not given.")
    ] = None,
    components: Annotated[int, typer.Option(metavar="K", min=1, help="Directions to remove.")] = 1,
    similarity: Annotated[
        list[Path] | None,
        typer.Option("--similarity", metavar="FILE", help="Two words and a score a line; may be repeated."),
    ] = None,
    analogies: Annotated[
        list[Path] | None, typer.Option("--analogies", metavar="FILE", help="As questions-words.txt; may be repeated.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only the first N vectors, mostly the commonest words.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="Of the clusters.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Take a direction, such as that of gender, out of vectors (Bolukbasi et al. 2016), and tell what that changed.

    Words that are not specific lose the direction; pairs to equalise become equally near to all of them. What was near to each
    other because of it stays near: the clusters tell how far.

    \b
    Example:
      regard vectors debias glove.txt debiased.txt --pairs definitional_pairs.json --equalize equalize_pairs.json
      regard vectors debias cbow.vec out.vec --pairs pairs.json --specific gender_specific.json --similarity EN-WS-353-ALL.txt
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.data.malformed import MalformedRows
    from regard.vectors.bias import (
        OCCUPATIONS,
        bias_subspace,
        debiasing_effects,
        hard_debiased,
        read_word_sets,
        read_words,
    )
    from regard.vectors.evaluation import read_analogies, read_similarity
    from regard.vectors.reading import read_vectors
    from regard.vectors.writing import write_vectors

    if output.exists() and output.resolve() == vectors.resolve():
        raise InputError(f"{output}: is what is read; give another place for what is written")
    sets = read_word_sets(pairs)
    equal = () if equalize is None else read_word_sets(equalize)
    kept = [word for words in (*sets, *equal) for word in words] if specific is None else read_words(specific)
    jobs = OCCUPATIONS if occupations is None else read_words(occupations)
    malformed = MalformedRows()
    judged = [read_similarity(path, malformed) for path in similarity or ()]
    asked = [read_analogies(path, malformed) for path in analogies or ()]
    if malformed.total:
        say(malformed.summary())
    before = read_vectors(vectors, limit=limit, say=say)
    subspace = bias_subspace(before, sets, components)
    after = hard_debiased(before, subspace, specific=kept, equalize=equal)
    about = after.metadata["debiased"]
    effects = debiasing_effects(
        before,
        after,
        subspace,
        occupations=jobs,
        leave_out=[*kept, *(word for words in about["equalised"] for word in words)],
        similarity=judged,
        analogies=asked,
        seed=seed,
    )
    write_vectors(after, output)
    say(
        f"{output}: {len(after):,} vectors; {about['neutralised']:,} neutralised, {len(about['equalised'])} sets equalised"
    )
    if as_json:
        print_json({"output": str(output), "debiased": about, **effects.to_json()})
    else:
        _print(effects)


def _print(effects: DebiasingEffects) -> None:
    clusters = [] if effects.clusters is None else [effects.clusters]
    print_table(_rows([*effects.bias, *clusters, *effects.utility]))
    print("\nWhat this does not show:")
    print("\n".join(f"- {sentence}" for sentence in effects.cautions))


def _rows(changes: Sequence[Change]) -> list[tuple[str, str]]:
    return [
        (each.name, f"{_number(each.before):>10} -> {_number(each.after):<10} ({each.count:,})") for each in changes
    ]


def _number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:.3f}"
