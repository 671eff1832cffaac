"""`regard vectors debias`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import one_line, print_json, say
from regard.cli.vectors.bias import P_IS, PAIRS_FORM, WORDS_FORM, print_columns, read_tests
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.vectors.bias import AssociationChange, Change, DebiasingEffects


def debias(
    vectors: Annotated[
        Path, typer.Argument(metavar="VECTORS", help="A file or folder of vectors.", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Argument(
            metavar="OUTPUT",
            help="Where to: .vec, .txt or .bin, or a folder if it has no ending. See --kind.",
            show_default=False,
        ),
    ],
    pairs: Annotated[
        Path,
        typer.Option(metavar="FILE", help=f"Pairs that differ in what is removed: {PAIRS_FORM}", show_default=False),
    ],
    equalize: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Pairs that shall differ in what is removed alone, in the same form."),
    ] = None,
    specific: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"Words that keep it: {WORDS_FORM} The words of --pairs and --equalize if not given.",
        ),
    ] = None,
    occupations: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Words whose bias is told, in the same form; a few if not given."),
    ] = None,
    weat: Annotated[
        list[Path] | None,
        typer.Option(
            "--weat", metavar="FILE", help="Association tests to make before and after, as for bias; may be repeated."
        ),
    ] = None,
    ddof: Annotated[int, typer.Option(metavar="N", min=0, max=1, help="Of their effect sizes, as for bias.")] = 0,
    case: Annotated[str, typer.Option(metavar="NAME", help="Of their words, as for bias.")] = "lower",
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
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="Of all that is drawn.")] = 0,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="folder, word2vec, word2vec-binary, glove or fasttext; if none, what OUTPUT ends in says, and a .txt is "
            "glove (no header) where VECTORS is, else word2vec.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Take a direction, such as that of gender, out of vectors (Bolukbasi et al. 2016), and tell what that changed.

    Words that are not specific lose the direction; pairs to equalise become equally near to all of them. What was near to each
    other because of it stays near: the clusters tell how far.

    \b
    Example:
      regard vectors debias glove.txt debiased.txt --pairs definitional_pairs.json --equalize equalize_pairs.json --weat weat/
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
    from regard.vectors.bias.lists import Presence, said_missing
    from regard.vectors.evaluation import read_analogies, read_similarity
    from regard.vectors.evaluation.lookup import known_case
    from regard.vectors.reading import read_vectors
    from regard.vectors.writing import checked_kind, kind_like, write_vectors

    if output.exists() and output.resolve() == vectors.resolve():
        raise InputError(f"{output}: is what is read; give another place for what is written")
    checked_kind(output, kind)
    sets = read_word_sets(pairs, say=say)
    equal = () if equalize is None else read_word_sets(equalize, say=say)
    kept = [word for words in (*sets, *equal) for word in words] if specific is None else read_words(specific)
    jobs = OCCUPATIONS if occupations is None else read_words(occupations)
    malformed = MalformedRows()
    tests = read_tests(weat or ())
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
        tests=tests,
        ddof=1 if ddof else 0,
        case=known_case(case),
        seed=seed,
    )
    chosen = kind_like(output, kind, before)
    write_vectors(after, output, chosen)
    say(
        f"{output} ({chosen}): {len(after):,} vectors; {about['neutralised']:,} neutralised, {about['specific']:,} specific "
        f"words kept, {len(about['equalised'])} sets equalised"
    )
    for sentence in effects.skipped:
        say(f"left out: {one_line(sentence)}")
    lists = {
        "pairs": [word for words in sets for word in words],
        "equalize": [word for words in equal for word in words],
        "specific": kept,
        "occupations": jobs,
    }
    here = Presence(before)
    missing = {name: list(here.missing(dict.fromkeys(words))) for name, words in lists.items()}
    if as_json:
        read = {"output": str(output), "kind": chosen, "debiased": about, "missing": missing}
        print_json(read | effects.to_json())
        return
    sentences = [
        each
        for name, words in lists.items()
        for each in said_missing(f"words of --{name}", missing[name], len({*words}))
    ]
    _print(effects, sentences)


def _print(effects: DebiasingEffects, missing: Sequence[str]) -> None:
    clusters = [] if effects.clusters is None else [effects.clusters]
    print_columns([("", "before -> after", "of"), *_rows([*effects.bias, *clusters, *effects.utility])])
    if effects.tests:
        print()
        print_columns(_test_rows(effects.tests))
        print(P_IS)
    dropped = [f"{each.test}: no vector for {', '.join(each.missing)}" for _, each in effects.tests if each.missing]
    if missing or dropped:
        print("\nWords that are left out:")
        print("\n".join(f"- {one_line(sentence)}" for sentence in (*missing, *dropped)))
    print("\nWhat this does not show:")
    print("\n".join(f"- {one_line(sentence)}" for sentence in effects.cautions))


def _rows(changes: Sequence[Change]) -> list[tuple[str, ...]]:
    return [
        (each.name, f"{_number(each.before)} -> {_number(each.after)}", f"{each.count:,} {each.unit}{_equalised(each)}")
        for each in changes
    ]


def _equalised(change: Change) -> str:
    return f", {change.equalised:,} with equalised words" if change.equalised else ""


def _test_rows(tests: Sequence[AssociationChange]) -> list[tuple[str, ...]]:
    rows = [("test", "targets", "attributes", "words", f"d (ddof {tests[0].after.ddof})", "p", "permutations")]
    for before, after in tests:
        rows.append(
            (
                *(after.test, " / ".join(after.targets), " / ".join(after.attributes), "+".join(map(str, after.sizes))),
                f"{before.effect_size:.2f} -> {after.effect_size:.2f}",
                f"{before.permutation.said} -> {after.permutation.said}",
                after.permutation.extent,
            )
        )
    return rows


def _number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:.3f}"
