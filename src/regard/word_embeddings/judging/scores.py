"""What people's answers say: how often each table was preferred, whose intruders were found, and how far the judges agree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from regard.errors import InputError
from regard.metrics.classification import check_alike
from regard.metrics.regression import Interval, bootstrap_interval
from regard.word_embeddings.judging.questionnaire import Answer, Kind, Questionnaire


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """How often answers spoke for a table.

    Arguments:
        table: its name.
        kind: of the questions.
        rank: of the neighbours; None for all ranks together, and for intruders.
        won: answers that chose its word; for intruders, that found the intruder.
        answered: answers to questions about it, without those that did not know the words.
        share: won over answered; None where there is none.
        interval: of the share, questions being drawn again, each with all its answers; None likewise.
    """

    table: str
    kind: Kind
    rank: int | None
    won: int
    answered: int
    share: float | None
    interval: Interval | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """How far judges agree.

    Arguments:
        kind: of the questions.
        judges: who agree or not.
        items: questions that all of them answered, with a word.
        agreed: the share of these on which two judges chose the same, a mean over pairs of judges; None without such questions.
        statistic: Cohen's kappa for two judges, Fleiss' for more.
        kappa: of the places that were chosen; the order of the words was drawn, so that chance is guessing. None where it is
            undefined.
    """

    kind: Kind
    judges: tuple[str, ...]
    items: int
    agreed: float | None
    statistic: str
    kappa: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What `judge` found.

    Arguments:
        answers: how many each judge gave.
        unknown: of these, to which the judge did not know the words.
        shares: by kind and rank, for each table.
        agreement: by kind; none where fewer than two people judged.
    """

    answers: dict[str, int]
    unknown: dict[str, int]
    shares: tuple[Share, ...]
    agreement: tuple[Agreement, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def judge(
    questionnaire: Questionnaire, answers: Sequence[Answer], *, resamples: int = 1000, seed: int = 0
) -> Judgement:
    """How often each table's neighbours were preferred, how many of its intruders were found, and how far the judges agree.

    Chance is one over the options shown: for two tables one half, for intruders one quarter. A word of two tables counts for
    both, so that shares may add up to more than one.

    Arguments:
        resamples: for the intervals.
        seed: of these.

    Raises:
        InputError: for no answers.
    """
    if not answers:
        raise InputError("there are no answers to this page's questions; give the files that were saved from it")
    names = list(dict.fromkeys(answer.judge for answer in answers))
    ranks = sorted({item.rank for item in questionnaire.items if item.rank is not None})
    asked: list[tuple[Kind, int | None]] = [("neighbour", None), *(("neighbour", rank) for rank in ranks)]
    asked.append(("intruder", None))
    shares = [
        _share(answers, table, kind, rank, resamples, seed)
        for kind, rank in asked
        for table in questionnaire.tables
        if any(item.kind == kind for item in questionnaire.items)
    ]
    kinds: tuple[Kind, ...] = ("neighbour", "intruder")
    agreement = [_agreement(answers, kind) for kind in kinds if len(names) > 1]
    return Judgement(
        answers={name: sum(each.judge == name for each in answers) for name in names},
        unknown={name: sum(each.judge == name and each.choice is None for each in answers) for name in names},
        shares=tuple(shares),
        agreement=tuple(each for each in agreement if each is not None),
    )


def _share(answers: Iterable[Answer], table: str, kind: Kind, rank: int | None, resamples: int, seed: int) -> Share:
    counts: dict[str, list[int]] = {}
    for answer in answers:
        item = answer.item
        if item.kind != kind or table not in item.tables or answer.choice is None or rank not in (None, item.rank):
            continue
        of_item = counts.setdefault(item.name, [0, 0])
        of_item[0] += table in item.owners[answer.choice]
        of_item[1] += 1
    rows = np.array(list(counts.values()), dtype=np.int64).reshape(-1, 2)
    won, answered = (int(each) for each in rows.sum(axis=0))
    interval = None
    if answered and resamples:
        interval = bootstrap_interval(
            rows, lambda drawn: float(drawn[:, 0].sum() / drawn[:, 1].sum()), resamples=resamples, seed=seed
        )
    return Share(
        table=table,
        kind=kind,
        rank=rank,
        won=won,
        answered=answered,
        share=won / answered if answered else None,
        interval=interval,
    )


def _agreement(answers: Iterable[Answer], kind: Kind) -> Agreement | None:
    chosen: dict[str, dict[str, int]] = {}
    for answer in answers:
        if answer.item.kind == kind and answer.choice is not None:
            chosen.setdefault(answer.item.name, {})[answer.judge] = answer.choice
    judges = tuple(sorted({name for each in chosen.values() for name in each}))
    if len(judges) < 2:
        return None
    rows = [[each[name] for name in judges] for each in chosen.values() if len(each) == len(judges)]
    two = len(judges) == 2
    kappa = float("nan")
    if rows:
        kappa = cohen_kappa(*zip(*rows, strict=True)) if two else fleiss_kappa(rows)
    pairs = [one == other for row in rows for one, other in combinations(row, 2)]
    return Agreement(
        kind=kind,
        judges=judges,
        items=len(rows),
        agreed=sum(pairs) / len(pairs) if pairs else None,
        statistic="Cohen's kappa" if two else "Fleiss' kappa",
        kappa=None if math.isnan(kappa) else kappa,
    )


# Agreement beyond what chance would give: Cohen's kappa of two judges, Fleiss' of more.


def cohen_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """Cohen's kappa of two judges: (p - e) / (1 - e), p the share of items on which they agree (Cohen 1960).

    e is what two who choose by chance, each as often as they do, would agree on. It is nan where both choose one thing always.

    Raises:
        InputError: nothing to compare, or different numbers of items.

    >>> cohen_kappa(["a", "a", "b", "b"], ["a", "a", "b", "a"])
    0.5
    """
    check_alike(first, second)
    size = len(first)
    agreed = sum(one == other for one, other in zip(first, second, strict=True)) / size
    one, other = Counter(first), Counter(second)
    chance = sum(count * other[choice] for choice, count in one.items()) / size**2
    return (agreed - chance) / (1 - chance) if chance < 1 else float("nan")


def fleiss_kappa(items: Sequence[Sequence[Hashable]]) -> float:
    """Fleiss' kappa of several judges, all of whom judged every item (Fleiss 1971).

    (P - e) / (1 - e) with P the mean share of pairs of judges that agree on an item, and e the sum of the squared shares of the
    choices over all items. It is nan where only one choice occurs.

    Arguments:
        items: of each the judges' choices, as many for all.

    Raises:
        InputError: no items, fewer than two judges, or not as many everywhere.

    >>> round(fleiss_kappa([["a", "a", "a"], ["b", "b", "a"], ["b", "b", "b"]]), 3)
    0.55
    """
    judges = {len(item) for item in items}
    if len(judges) != 1 or min(judges) < 2:
        raise InputError("agreement is of items that the same judges judged, two at least; give others")
    count = judges.pop()
    pairs = count * (count - 1)
    agreed = sum(sum(n * (n - 1) for n in Counter(item).values()) / pairs for item in items) / len(items)
    shares = Counter(choice for item in items for choice in item)
    chance = sum((n / (count * len(items))) ** 2 for n in shares.values())
    return (agreed - chance) / (1 - chance) if chance < 1 else float("nan")
