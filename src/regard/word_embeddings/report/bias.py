"""The bias section of the report: the bias along a direction, association tests, and cautions."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

from regard.errors import InputError
from regard.word_embeddings.bias import Association, Audit, BiasSubspace, DirectionAudit, bias_subspace, cluster_test
from regard.word_embeddings.bias.debiasing import CANDIDATES
from regard.word_embeddings.bias.lists import unit64
from regard.word_embeddings.report.figures import NOTHING, Cell, Row, Subject, Table, figure, table_html
from regard.word_embeddings.report.maps import Bar, bars_svg
from regard.word_embeddings.store import WordVectors

ENDS = 10
"""The number of occupations shown from each end."""

LEAST_REACH = 0.05
"""The smallest cosine at the end of the bars' scale."""

ANSWERS = 12

COMMON = 10_000
"""The number of words whose mean cosine shows an overall lean to one side of a direction."""

ROUNDING = 1e-3
"""A smaller projection on a direction is a rounding error."""

SPECIFIC = "*"
"""The mark of specific words, which legitimately have the direction."""


def direction(subjects: Sequence[Subject]) -> str:
    """The direct bias as a table, and for each embedding the occupations at both ends as bars."""
    found = [(subject, subject.audit.direction) for subject in subjects if subject.audit is not None]
    there = [(subject, audit) for subject, audit in found if audit is not None]
    if not there:
        return ""
    # One scale for all embeddings, so that they can be compared; rounding errors after debiasing are hardly visible.
    reach = max([LEAST_REACH, *(abs(each.cosine) for _, audit in there for each in audit.occupations)])
    return (
        "<p>The direction in which the pairs differ, computed separately for each of the embeddings, and the cosines of "
        "occupations with it. The direct bias is the mean absolute cosine, without the specific words. Zero is not a neutral "
        "point: a word with cosine 0 is orthogonal to the direction, but all words together may lean to one side of it, so "
        "compare words with each other.</p>"
        + table_html(_direct(there))
        + f'<div class="side">{"".join(_occupations(subject, audit, reach) for subject, audit in there)}</div>'
        + table_html(_answers(there))
        + _clusters(there)
    )


def associations(subjects: Sequence[Subject]) -> str:
    """The effect sizes of the tests as bars for each of the embeddings, with p-values."""
    tests = [_tests(subject.name, subject.audit) for subject in subjects if subject.audit is not None]
    explanation = (
        "<p>d above 0: the first targets are closer to the first attributes, and the second targets to the second attributes; "
        "d below 0: the opposite. p is from a one-sided permutation test for d above 0, over all partitions of the target words "
        "(exact) or a sample of them (sampled). Words: the numbers of words of both targets and both attributes.</p>"
    )
    return f'{explanation}<div class="side">{"".join(tests)}</div>' if any(tests) else ""


def cautions(subjects: Sequence[Subject]) -> str:
    """The cautions of all audits, each once."""
    audits = [subject.audit for subject in subjects if subject.audit is not None]
    sentences = dict.fromkeys(sentence for audit in audits for sentence in audit.cautions)
    if not sentences:
        return ""
    lines = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
    return f'<div class="cautions"><h3>What this does not show</h3><ul>{lines}</ul></div>'


def _direct(found: Sequence[tuple[Subject, DirectionAudit]]) -> Table:
    def cells(value: str) -> tuple[Cell, ...]:
        return tuple(figure(getattr(audit, value), f"{audit.judged} occupations") for _, audit in found)

    first = tuple(
        figure(100 * audit.subspace.explained[0], f"of {len(audit.subspace.sets)} pairs", digits=0)
        for _, audit in found
    )
    lean = tuple(
        figure(float(np.mean(unit64(subject.vectors.matrix[:COMMON]) @ audit.subspace.direction)))
        for subject, audit in found
    )
    return Table(
        columns=tuple(subject.name for subject, _ in found),
        rows=(
            Row(name="direct bias DB₁", cells=cells("direct_bias")),
            Row(name="DB₁ along random directions", cells=cells("random_direct_bias")),
            Row(name=f"mean cosine of the first {COMMON:,} words with the direction", cells=lean),
            Row(name="variance of the pairs along the direction, per cent", cells=first),
        ),
    )


def _clusters(found: Sequence[tuple[Subject, DirectionAudit]]) -> str:
    """The cluster test before and after debiasing, if the original vectors are in the report too."""
    rows, alone = [], []
    for subject, _ in found:
        about = subject.vectors.metadata.get("debiased")
        if not isinstance(about, dict):
            continue
        original = next((each.vectors for each, _ in found if _is_before(each.vectors, subject.vectors)), None)
        if original is None:
            alone.append(f"{subject.name}: unknown without the vectors before debiasing; include both in the report")
            continue
        try:
            subspace = bias_subspace(original, about.get("pairs", ()), about.get("components", 1))
            kept = _with_direction(subject.vectors, subspace)
            first, second = (
                cluster_test(each, original, subspace, leave_out=kept) for each in (original, subject.vectors)
            )
        except InputError as error:
            alone.append(f"{subject.name}: {error}")
            continue
        cells = (
            figure(first.accuracy, f"{2 * first.count} words"),
            figure(second.accuracy, f"{2 * second.count} words"),
        )
        rows.append(Row(name=f"{original.name}, {subject.name}", cells=cells))
    if not rows and not alone:
        return ""
    explanation = (
        "<h3>Clusters after debiasing</h3><p>The words with the largest and the smallest cosines before debiasing are grouped "
        "into two clusters: the share of words in the cluster of their side (Gonen and Goldberg 2019). Guessing gives about "
        "0.5; near 1 the two sides can still be separated, although the direction was removed.</p>"
    )
    table = table_html(Table(columns=("before", "after"), rows=tuple(rows), corner="")) if rows else ""
    return explanation + table + _listed(alone)


def _with_direction(vectors: WordVectors, subspace: BiasSubspace) -> list[str]:
    """The words that still have a projection on the direction after debiasing: the specific and the equalised ones."""
    along = np.linalg.norm(unit64(vectors.matrix[:CANDIDATES]) @ subspace.directions.T, axis=1)
    return [str(vectors.words[row]) for row in np.flatnonzero(along > ROUNDING).tolist()]


def _is_before(vectors: WordVectors, after: WordVectors) -> bool:
    return vectors is not after and "debiased" not in vectors.metadata and tuple(vectors.words) == tuple(after.words)


def _occupations(subject: Subject, audit: DirectionAudit, reach: float) -> str:
    positive, negative = audit.subspace.ends
    half = min(ENDS, (len(audit.occupations) + 1) // 2)
    ends = [*audit.occupations[:half], *audit.occupations[max(len(audit.occupations) - half, half) :]]
    marked = {*audit.specific}
    bars = [Bar(name=each.word + (SPECIFIC if each.word in marked else ""), value=each.cosine) for each in ends]
    title = f"{subject.name}: occupations from {negative} (below 0) to {positive} (above 0), cosine"
    notes = []
    if len(ends) < len(audit.occupations):
        notes.append(f"The {half} from each end of {len(audit.occupations)}.")
    if marked & {each.word for each in ends}:
        notes.append(f"{SPECIFIC}: a specific word, which the direct bias leaves out.")
    note = f"<p>{html.escape(' '.join(notes))}</p>" if notes else ""
    listed = _listed(audit.dropped_words())
    return (
        f"<div><h3>{html.escape(title)}</h3>{note}{bars_svg(bars, low=-reach, high=reach, title=title)}{listed}</div>"
    )


def _listed(sentences: Sequence[str]) -> str:
    lines = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
    return f"<ul>{lines}</ul>" if lines else ""


def _answers(found: Sequence[tuple[Subject, DirectionAudit]]) -> Table:
    """The answers to analogies, with and without the given words allowed."""
    words = list(dict.fromkeys(each.word for _, audit in found for each in audit.answers))
    rows = []
    for word in words[:ANSWERS]:
        cells = []
        for _, audit in found:
            answer = next((each for each in audit.answers if each.word == word), None)
            cells.append(
                NOTHING
                if answer is None
                else Cell(text=answer.answer.word, note=f"given words allowed: {answer.with_given.word}")
            )
        rows.append(Row(name=word, cells=tuple(cells)))
    positive, negative = found[0][1].subspace.ends
    return Table(
        columns=tuple(subject.name for subject, _ in found),
        rows=tuple(rows),
        corner=f"{negative} : x = {positive} : ?" + (f", {ANSWERS} of {len(words)}" if len(words) > ANSWERS else ""),
    )


def _tests(name: str, audit: Audit) -> str:
    missing = [f"{each.test}: no vector for {', '.join(each.missing)}" for each in audit.tests if each.missing]
    listed = _listed([*missing, *(f"not tested: {sentence}" for sentence in audit.skipped)])
    if not audit.tests:
        return f"<div><h3>{html.escape(name)}</h3>{listed}</div>" if listed else ""
    bars = [Bar(name=_called(each), value=_finite(each.effect_size), note=_note(each)) for each in audit.tests]
    # d can exceed 2 only if the two lists of targets have different numbers of words.
    reach = max([2.0, *(abs(bar.value) for bar in bars if bar.value is not None)])
    title = f"{name}: effect size d (ddof {audit.tests[0].ddof}), from {-reach:.3g} to {reach:.3g}"
    rows = tuple(
        Row(
            name=_called(each),
            note=f"against {' / '.join(each.attributes)}",
            cells=(
                figure(_finite(each.effect_size), digits=2),
                Cell(text=each.permutation.p_text, note=each.permutation.extent),
                Cell(text=_words(each)),
            ),
        )
        for each in audit.tests
    )
    table = Table(columns=("d", "p, one-sided permutation test", "words"), rows=rows, corner="test")
    content = bars_svg(bars, low=-reach, high=reach, title=title) + table_html(table)
    return f"<div><h3>{html.escape(title)}</h3>{content}{listed}</div>"


def _called(test: Association) -> str:
    return f"{test.test}: {' / '.join(test.targets)}"


def _note(test: Association) -> str:
    return f"{' / '.join(test.targets)} against {' / '.join(test.attributes)}; p {test.permutation.p_text}"


def _words(test: Association) -> str:
    gone = len(test.missing)
    return "+".join(map(str, test.sizes)) + (f", {gone} without a vector" if gone else "")


def _finite(value: float) -> float | None:
    return value if value == value else None
