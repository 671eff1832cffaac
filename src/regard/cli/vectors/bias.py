"""`regard vectors bias` measures the bias of word embeddings; `debias` removes it and measures again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.commands import renamed
from regard.cli.console import envelope, one_line, print_json, print_table, say, say_malformed
from regard.cli.settings import Device, Format, Json, Limit, Seed, Tests, Vectors
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.word_embeddings.bias import (
        Association,
        AssociationChange,
        Audit,
        Change,
        DebiasingEffects,
        DirectionAudit,
    )
    from regard.word_embeddings.bias.lists import AssociationTest


SHOWN = 8
"""How many words from either end, and pairs of words, are printed; --json has all."""

PAIRS_FORM = 'a line such as woman man for each, or JSON such as [["woman", "man"], ["she", "he"]].'
WORDS_FORM = 'one per line, or JSON such as ["nurse", "actress"].'
"""The formats of lists of pairs and words, for --help."""
Occupations = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help=f"Words that should be neutral: {WORDS_FORM} A few by default."),
]
Specific = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Words that need not be neutral, such as actress, in the same format."),
]

P_IS = (
    "d above 0: the first targets are nearer to the first attributes, the second to the second; below 0 the other way "
    "round.\n"
    "p: of a one-sided permutation test for d above 0, over all partitions of the target words (exact) or some (sampled)."
)
"""The note below a table of association tests."""


def bias(
    vectors: Annotated[
        list[Path],
        typer.Argument(
            metavar="VECTORS...", help="Files of word embeddings, or folders of encoders.", show_default=False
        ),
    ],
    weat: Tests = None,
    seat: Annotated[
        list[Path] | None,
        typer.Option("--seat", metavar="FILE", help="The same with sentences; may be repeated."),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Pairs that define the direction: {PAIRS_FORM} Eight by default."),
    ] = None,
    occupations: Occupations = None,
    specific: Specific = None,
    ddof: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=1,
            help="For effect sizes: 0 (population standard deviation) or 1 (sample standard deviation).",
        ),
    ] = 0,
    case: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Letter case of the words of --weat: lower (as written, else in lower case), exact, or ignore.",
        ),
    ] = "lower",
    limit: Limit = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Audit embeddings for bias: association tests (WEAT, SEAT) and the gender direction.

    For an encoder's folder only the tests run, on embedded texts. The output also says what the numbers do not show.

    \b
    Example:
      regard vectors bias glove.txt --weat weat7.jsonl --occupations professions.json
      regard vectors bias cbow.vec skipgram.vec --weat weat/ --pairs definitional_pairs.json --json
      regard vectors bias path/to/minilm --seat sent-weat7.jsonl --ddof 1
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.word_embeddings.bias import GENDER_PAIRS, OCCUPATIONS, audit, audit_of_texts, read_word_sets, read_words
    from regard.word_embeddings.evaluation.similarity import known_case

    chosen: Literal[0, 1] = 1 if ddof else 0
    word_tests, sentence_tests = read_tests(weat or ()), read_tests(seat or ())
    sets = GENDER_PAIRS if pairs is None else read_word_sets(pairs, say=say)
    jobs = OCCUPATIONS if occupations is None else read_words(occupations)
    apart = () if specific is None else read_words(specific)
    audits = []
    for path in vectors:
        if is_model(path):
            if not (word_tests or sentence_tests):
                raise InputError(f"{path}: is a text encoder; give tests with --seat or --weat")
            from regard.cli.inputs import opened

            encoder = opened(path, device, "sentence_embedding")
            tests = [*word_tests, *sentence_tests]
            audits.append(audit_of_texts(path.name, encoder.embed, tests, ddof=chosen, seed=seed))
        else:
            from regard.word_embeddings.files import read_vectors

            audits.append(
                audit(
                    read_vectors(path, limit=limit, say=say),
                    pairs=sets,
                    occupations=jobs,
                    specific=apart,
                    word_tests=word_tests,
                    sentence_tests=sentence_tests,
                    ddof=chosen,
                    case=known_case(case),
                    seed=seed,
                )
            )
    for found in audits:
        for sentence in found.skipped:
            say(f"left out: {sentence}")
    if as_json:
        print_json(envelope("vectors bias") | {"audits": [found.to_json() for found in audits]})
        return
    for found in audits:
        _print(found)


def is_model(path: Path) -> bool:
    """Whether a folder has an encoder, or a run of one, rather than word embeddings."""
    return any((path / name).is_file() for name in ("config.json", "checkpoints.json"))


def read_tests(paths: Sequence[Path]) -> list[AssociationTest]:
    """Association tests from files, and from all .json and .jsonl files of folders; duplicates are left out."""
    from regard.word_embeddings.bias import read_association_tests

    files = [file for path in paths for file in (_in_folder(path) if path.is_dir() else [path])]
    first: dict[object, str] = {}
    found, again = [], []
    for file in files:
        for test in read_association_tests(file):
            words = tuple(frozenset(each.words) for each in (*test.targets, *test.attributes))
            here = f"{test.name} of {file.name}"
            if words in first:
                again.append(f"{here} is {first[words]}")
            else:
                first[words] = here
                found.append(test)
    if again:
        say(f"{len(again)} tests with the same words as others are left out: {', '.join(again)}")
    return found


def _in_folder(folder: Path) -> list[Path]:
    found = [path for path in folder.iterdir() if path.suffix in (".json", ".jsonl") and path.is_file()]
    if not found:
        raise InputError(f"{folder}: has no .json or .jsonl file; give a file of tests, or a folder of such files")
    return sorted(found, key=lambda path: (len(path.stem), path.name))  # weat2 before weat10


def _print(found: Audit) -> None:
    print(one_line(found.name))
    if found.direction is not None:
        print_table(_direction_rows(found.direction))
    if found.tests:
        print()
        print_columns(_test_rows(found.tests))
        print(P_IS)
    dropped = found.dropped_words()
    if dropped:
        print("\nWords that are left out:")
        print("\n".join(f"- {one_line(sentence)}" for sentence in dropped))
    print("\nWhat this does not show:")
    print("\n".join(f"- {one_line(sentence)}" for sentence in found.cautions) + "\n")


def _direction_rows(found: DirectionAudit) -> list[tuple[str, str]]:
    subspace = found.subspace
    positive, negative = map(one_line, subspace.ends)
    shares = ", ".join(f"{100 * share:.0f} %" for share in subspace.explained[:3])
    rows = [
        ("direction", f"{positive} - {negative}, of {len(subspace.sets)} pairs; components explain {shares}"),
        ("direct bias", f"{found.direct_bias:.3f} of {found.judged} occupations ({_against(found)})"),
        (f"towards {positive}", _listed(found, 1)),
        (f"towards {negative}", _listed(found, -1)),
    ]
    if {each.word for sign in (1, -1) for each in found.side(sign)[:SHOWN]} & {*found.specific}:
        rows.append(("*", "a specific word, which the direct bias leaves out"))
    answers = [f"{each.word}: {each.answer.word} ({each.with_given.word})" for each in found.answers]
    if answers:
        shown = f"{_first(answers, 'the first')}; in brackets the answer if {negative}, x and {positive} are allowed"
        rows.append((f"{negative} : x = {positive} : ?", one_line(shown)))
    if found.pairs:
        alike = [f"{each.first}-{each.second} {each.score:.2f}" for each in found.pairs]
        rows.append((f"{positive} : x = {negative} : y", one_line(_first(alike, "the best"))))
    return rows


def _against(found: DirectionAudit) -> str:
    return f"{found.random_direct_bias:.3f} along random directions"


def _listed(found: DirectionAudit, sign: int) -> str:
    marked = {*found.specific}
    words = [f"{each.word}{'*' if each.word in marked else ''} {each.cosine:+.2f}" for each in found.side(sign)]
    return one_line(_first(words, "the farthest")) or "no occupation"


def _first(words: Sequence[str], which: str) -> str:
    """The first words of a list, with the number of all."""
    cut = f"{which} {SHOWN} of {len(words)}: " if len(words) > SHOWN else ""
    return cut + ", ".join(words[:SHOWN])


def _test_rows(tests: Sequence[Association]) -> list[tuple[str, ...]]:
    rows = [("test", "targets", "attributes", "words", f"d (ddof {tests[0].ddof})", "p", "permutations", "no vector")]
    for each in tests:
        rows.append(
            (
                *(each.test, " / ".join(each.targets), " / ".join(each.attributes), "+".join(map(str, each.sizes))),
                *(f"{each.effect_size:.2f}", each.permutation.p_text, each.permutation.extent),
                str(len(each.missing) or ""),
            )
        )
    return rows


def print_columns(rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows of text in columns; the first row has the names of the columns."""
    rows = [tuple(map(one_line, row)) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


# `regard vectors debias`: the same tests before and after.


@renamed(kind="format")
def debias(
    vectors: Vectors,
    output: Annotated[
        Path,
        typer.Argument(
            metavar="OUTPUT",
            help="Output: .vec, .txt or .bin, or a folder if it has no ending. See --format.",
            show_default=False,
        ),
    ],
    pairs: Annotated[
        Path,
        typer.Option(metavar="FILE", help=f"Pairs that define the direction: {PAIRS_FORM}", show_default=False),
    ],
    equalize: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Pairs to equalize, in the same format."),
    ] = None,
    specific: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"Words that keep the direction: {WORDS_FORM} By default the words of --pairs and --equalize.",
        ),
    ] = None,
    occupations: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Words whose bias is measured, in the same format; a few by default."),
    ] = None,
    weat: Tests = None,
    ddof: Annotated[int, typer.Option(metavar="N", min=0, max=1, help="For effect sizes, as in `bias`.")] = 0,
    case: Annotated[str, typer.Option(metavar="NAME", help="Letter case of their words, as in `bias`.")] = "lower",
    components: Annotated[int, typer.Option(metavar="K", min=1, help="Directions to remove.")] = 1,
    similarity: Annotated[
        list[Path] | None,
        typer.Option("--similarity", metavar="FILE", help="Two words and a score per line; may be repeated."),
    ] = None,
    analogies: Annotated[
        list[Path] | None,
        typer.Option("--analogies", metavar="FILE", help="In the format of questions-words.txt; may be repeated."),
    ] = None,
    limit: Limit = None,
    seed: Seed = 0,
    format: Format = None,
    as_json: Json = False,
) -> None:
    """Remove a direction, such as gender, from word embeddings (Bolukbasi et al. 2016) and measure the effect.

    The direction is removed from all words that are not specific; equalized pairs become equidistant from them. Words that
    were close because of the direction stay close; the cluster measure says how much.

    \b
    Example:
      regard vectors debias glove.txt debiased.txt --pairs definitional_pairs.json --equalize equalize_pairs.json --weat weat/
      regard vectors debias cbow.vec out.vec --pairs pairs.json --specific gender_specific.json --similarity EN-WS-353-ALL.txt
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.data.malformed import MalformedRows
    from regard.word_embeddings.bias import (
        OCCUPATIONS,
        bias_subspace,
        debiasing_effects,
        hard_debiased,
        read_word_sets,
        read_words,
    )
    from regard.word_embeddings.bias.lists import Presence, missing_words_note
    from regard.word_embeddings.evaluation import read_analogies, read_similarity
    from regard.word_embeddings.evaluation.similarity import known_case
    from regard.word_embeddings.files import checked_kind, kind_like, read_vectors, write_vectors

    if output.exists() and output.resolve() == vectors.resolve():
        raise InputError(f"{output}: is the input; give another path for the output")
    checked_kind(output, format)
    sets = read_word_sets(pairs, say=say)
    equal = () if equalize is None else read_word_sets(equalize, say=say)
    kept = [word for words in (*sets, *equal) for word in words] if specific is None else read_words(specific)
    jobs = OCCUPATIONS if occupations is None else read_words(occupations)
    malformed = MalformedRows()
    tests = read_tests(weat or ())
    rated = [read_similarity(path, malformed) for path in similarity or ()]
    asked = [read_analogies(path, malformed) for path in analogies or ()]
    say_malformed(malformed)
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
        similarity=rated,
        analogies=asked,
        tests=tests,
        ddof=1 if ddof else 0,
        case=known_case(case),
        seed=seed,
    )
    chosen = kind_like(output, format, before)
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
        read = {"output": str(output), "format": chosen, "debiased": about, "missing": missing}
        print_json(envelope("vectors debias") | read | effects.to_json())
        return
    sentences = [
        each
        for name, words in lists.items()
        for each in missing_words_note(f"words of --{name}", missing[name], len({*words}))
    ]
    _print_effects(effects, sentences)


def _print_effects(effects: DebiasingEffects, missing: Sequence[str]) -> None:
    clusters = [] if effects.clusters is None else [effects.clusters]
    print_columns([("", "before -> after", "of"), *_change_rows([*effects.bias, *clusters, *effects.utility])])
    if effects.tests:
        print()
        print_columns(_changed_test_rows(effects.tests))
        print(P_IS)
    dropped = [f"{each.test}: no vector for {', '.join(each.missing)}" for _, each in effects.tests if each.missing]
    if missing or dropped:
        print("\nWords that are left out:")
        print("\n".join(f"- {one_line(sentence)}" for sentence in (*missing, *dropped)))
    print("\nWhat this does not show:")
    print("\n".join(f"- {one_line(sentence)}" for sentence in effects.cautions))


def _change_rows(changes: Sequence[Change]) -> list[tuple[str, ...]]:
    return [
        (each.name, f"{_number(each.before)} -> {_number(each.after)}", f"{each.count:,} {each.unit}{_equalised(each)}")
        for each in changes
    ]


def _equalised(change: Change) -> str:
    return f", {change.equalised:,} with equalised words" if change.equalised else ""


def _changed_test_rows(tests: Sequence[AssociationChange]) -> list[tuple[str, ...]]:
    rows = [("test", "targets", "attributes", "words", f"d (ddof {tests[0].after.ddof})", "p", "permutations")]
    for before, after in tests:
        rows.append(
            (
                *(after.test, " / ".join(after.targets), " / ".join(after.attributes), "+".join(map(str, after.sizes))),
                f"{before.effect_size:.2f} -> {after.effect_size:.2f}",
                f"{before.permutation.p_text} -> {after.permutation.p_text}",
                after.permutation.extent,
            )
        )
    return rows


def _number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:.3f}"
