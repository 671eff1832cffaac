"""A survey of people about several tables of vectors: the questions and their page, the answers, and what these say.

The page does not say which word is of which table (Schnabel et al. 2015).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.data.lines import is_utf_8, read_lines
from regard.data.malformed import MalformedRow, MalformedRows
from regard.errors import InputError
from regard.metrics.classification import check_alike
from regard.metrics.regression import Interval, bootstrap_interval
from regard.reading import json_value, read_json
from regard.structure import from_mapping
from regard.web import page
from regard.word_embeddings.evaluation.battery import in_common
from regard.word_embeddings.evaluation.categories import intruder_items
from regard.word_embeddings.neighbours import neighbours
from regard.word_embeddings.store import WordVectors

Kind = Literal["neighbour", "intruder"]
RANKS = (1, 5, 50)
FORMAT = "regard judging key 1"

SHORTEST = 3
"""Letters of a query; shorter words are mostly abbreviations."""
COMMONEST = 100
"""Words at the top of a table, most of which have a function and no meaning."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One question: words to choose from.

    Arguments:
        name: opaque.
        kind: `neighbour`: which word is nearest in meaning to the query; `intruder`: which does not belong to the others.
        query: the word asked about; None where none is shown.
        options: the words, in the order they are shown.
        owners: of each option the tables for which it speaks when it is chosen.
        tables: which the item is about.
        rank: of the neighbours; None for intruders.
    """

    name: str
    kind: Kind
    query: str | None
    options: tuple[str, ...]
    owners: tuple[tuple[str, ...], ...]
    tables: tuple[str, ...]
    rank: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Questionnaire:
    """Items and the tables they are about; what a key file holds.

    Arguments:
        tables: their names.
        items: in the order they are asked.
        seed: that drew them.
    """

    tables: tuple[str, ...]
    items: tuple[Item, ...]
    seed: int

    @property
    def page(self) -> str:
        """What page and answers call this questionnaire: a digest of all of it."""
        return hashlib.sha256(json.dumps(asdict(self), ensure_ascii=False).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """As the key file has it; `read_key` reads it back."""
        return {"format": FORMAT, "page": self.page, **asdict(self)}

    def shown(self) -> dict[str, Any]:
        """As the page has it: nothing says which word is whose."""
        items = [
            {"name": item.name, "kind": item.kind, "query": item.query, "options": item.options} for item in self.items
        ]
        return {"page": self.page, "items": items}


def make_questionnaire(
    tables: Sequence[WordVectors],
    *,
    queries: int = 30,
    intruders: int = 15,
    ranks: Sequence[int] = RANKS,
    words: Sequence[str] | None = None,
    seed: int = 0,
) -> Questionnaire:
    """Questions on the nearest neighbours of words in several tables (Schnabel et al. 2015, sections 3.2 and 4).

    All tables are reduced to the words that they have in common. Of a query the words at one rank among its neighbours are shown,
    one of each table, in an order that is sampled; a word that two tables have there is shown once and speaks for both, and
    where all have the same nothing is asked. Intruders are asked about one table at a time: a word, its two nearest neighbours,
    and a stranger.

    Arguments:
        tables: two or more, with names of their own.
        queries: words whose neighbours are shown, sampled so that about as many are of each order of magnitude in frequency, by
            their place in the first table; the hundred commonest, mostly function words, are left out (of small tables a tenth).
        intruders: words of these whose neighbours get an intruder, in each table; 0 for none.
        ranks: of the neighbours, from 1.
        words: to take instead of sampled queries.
        seed: of all that is sampled.

    Raises:
        InputError: for fewer than two tables, two of one name, no word in common, or words that are not in all tables.

    >>> draw = np.random.default_rng(0)
    >>> words = tuple(f"word{number}" for number in range(90))
    >>> one, other = (WordVectors(words=words, name=name, matrix=draw.normal(size=(90, 5)).astype(np.float32)) for name in "ab")
    >>> made = make_questionnaire([one, other], queries=4, intruders=2)
    >>> [item.kind for item in made.items].count("intruder"), made.items[0].rank in (1, 5, 50)
    (4, True)
    """
    names = tuple(table.name for table in tables)
    if len(names) < 2 or len(set(names)) < len(names):
        raise InputError("people compare two or more vectors, each with a different name; give others too")
    if not ranks or min(ranks) < 1:
        raise InputError(f"ranks are {tuple(ranks)}; give one at least, from 1")
    fair = in_common(tables)
    draw = np.random.default_rng([seed, 0x1D6E])
    asked = _checked(fair[0], words) if words is not None else _drawn(fair[0], queries, draw)
    comparing = [item for query in asked for item in _comparing(fair, query, sorted(set(ranks)), draw)]
    finding = [item for table in fair for item in _finding(table, asked[:intruders], draw, seed)] if intruders else []
    ordered = [part[row] for part in (comparing, finding) for row in draw.permutation(len(part)).tolist()]
    if not ordered:
        raise InputError("there is nothing to ask: the vectors have the same neighbours; give others, or more words")
    numbers = draw.choice(16**6, size=len(ordered), replace=False).tolist()
    items = (Item(name=f"{number:06x}", **item) for number, item in zip(numbers, ordered, strict=True))
    return Questionnaire(tables=names, items=tuple(items), seed=seed)


def read_key(path: Path | str) -> Questionnaire:
    """A questionnaire from its key file.

    Raises:
        InputError: for a file that cannot be read, or is no key, or was changed.
    """
    values = read_json(path, "give the key that was written with the page")
    if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
        raise InputError(f"{path}: is no key of a judging page; give the .key.json that was written with the page")
    page = values.pop("page", None)
    values["items"] = values.get("items") or []
    found = from_mapping(Questionnaire, values, str(path))
    if any(len(item.owners) != len(item.options) for item in found.items) or found.page != page:
        raise InputError(f"{path}: was changed after it was written; take the original key")
    return found


def _drawn(table: WordVectors, count: int, draw: np.random.Generator) -> list[str]:
    first = min(COMMONEST, len(table) // 10)
    fit = [(row, word) for row, word in enumerate(table.words) if row >= first and _fits(word)]
    if not fit:
        raise InputError(
            "none of the words in common is in small letters and three letters long; name words to ask about"
        )
    weights = 1 / (1 + np.array([row for row, _ in fit]))  # as many from 100 to 1000 as from 1000 to 10,000
    chosen = draw.choice(len(fit), size=min(count, len(fit)), replace=False, p=weights / weights.sum())
    return [fit[place][1] for place in chosen.tolist()]


def _fits(word: str) -> bool:
    return len(word) >= SHORTEST and word[0].isalpha() and word.isalnum() and word == word.lower()


def _checked(table: WordVectors, words: Sequence[str]) -> list[str]:
    missing = [word for word in words if word not in table]
    if missing:
        raise InputError(f"{missing[0]!r} is not in all vectors; leave it out")
    return list(dict.fromkeys(words))


def _comparing(
    tables: Sequence[WordVectors], query: str, ranks: Sequence[int], draw: np.random.Generator
) -> Iterator[dict[str, Any]]:
    found = [neighbours(table, query, ranks[-1]) for table in tables]
    for rank in ranks:
        owners: dict[str, list[str]] = {}
        for table, near in zip(tables, found, strict=True):
            if rank <= len(near):
                owners.setdefault(near[rank - 1].word, []).append(table.name)
        if len(owners) > 1:
            options = [list(owners)[place] for place in draw.permutation(len(owners)).tolist()]
            yield {
                "kind": "neighbour",
                "query": query,
                "rank": rank,
                "options": tuple(options),
                "owners": tuple(tuple(owners[word]) for word in options),
                "tables": tuple(table.name for table in tables),
            }


def _finding(
    table: WordVectors, queries: Sequence[str], draw: np.random.Generator, seed: int
) -> Iterator[dict[str, Any]]:
    for item in intruder_items(table, queries, seed=seed):
        options = [item.words[place] for place in draw.permutation(len(item.words)).tolist()]
        yield {
            "kind": "intruder",
            "query": None,
            "options": tuple(options),
            "owners": tuple((table.name,) if word == item.intruder else () for word in options),
            "tables": (table.name,),
        }


# The answers that people saved from a judging page.


@dataclass(frozen=True, slots=True)
class Answer:
    """What a judge chose.

    Arguments:
        judge: who.
        item: which question.
        choice: the place of the option, from 0; None where the judge did not know the words.
    """

    judge: str
    item: Item
    choice: int | None


def read_answers(
    questionnaire: Questionnaire, paths: Iterable[Path | str], malformed: MalformedRows | None = None
) -> list[Answer]:
    """The answers in JSONL files; of several by one judge to one question the last.

    Arguments:
        questionnaire: that they answer.
        paths: one or more files, each of one judge or several.
        malformed: where to count lines that are no answers, or answers to something else.

    Raises:
        InputError: for a file that cannot be read.
    """
    malformed = MalformedRows() if malformed is None else malformed
    items, page = {item.name: item for item in questionnaire.items}, questionnaire.page
    found: dict[tuple[str, str], Answer] = {}
    for path in paths:
        for line in read_lines(path):
            if not line.content.strip():
                continue
            answer = _answer(line.content, items, page) if is_utf_8(line) and not line.too_long else "no JSON object"
            if isinstance(answer, str):
                malformed.record(MalformedRow(file=str(path), line=line.number, reason=answer))
            else:
                key = (answer.judge, answer.item.name)
                found.pop(key, None)
                found[key] = answer
    return list(found.values())


def _answer(content: bytes, items: dict[str, Item], page: str) -> Answer | str:
    """The answer on a line, or why it is none."""
    try:
        values = json_value(content)
    except ValueError:
        return "no JSON object"
    if not isinstance(values, dict):
        return "no JSON object"
    if values.get("page") != page:
        return "answers another page"
    judge, name, choice = values.get("judge"), values.get("item"), values.get("choice")
    item = items.get(name) if isinstance(name, str) else None
    if item is None or not isinstance(judge, str) or not judge.strip():
        return "no such question" if item is None else "no judge"
    if choice is None:
        return Answer(judge.strip(), item, None)
    if isinstance(choice, bool) or not isinstance(choice, int) or not 0 <= choice < len(item.options):
        return "no such choice"
    if values.get("word") not in (None, item.options[choice]):
        return "choice and word differ"
    return Answer(judge.strip(), item, choice)


# The page.


def html_page(questionnaire: Questionnaire) -> str:
    """The page that asks people: one question at a time, answered with the pointer or the number keys.

    One file without any link to another; the browser is told so by a content security policy. It does not hold which word is of
    which table, keeps answers in the browser, and saves them as JSONL.

    >>> owners = (("x",), ("y",))
    >>> item = Item(name="1a", kind="neighbour", query="</script>", options=("b", "c"), owners=owners, tables=("x", "y"))
    >>> page = html_page(Questionnaire(tables=("x", "y"), items=(item,), seed=0))
    >>> page.count("</script>"), "u003c/script" in page
    (2, True)
    """
    parts = {"title": "Words and their neighbours", "count": f"{len(questionnaire.items):,}"}
    return page("questionnaire", parts, data=questionnaire.shown(), styles=("questionnaire.css",))


# What the answers say.


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
        interval: of the share, questions being sampled again, each with all its answers; None likewise.
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
        kappa: of the places that were chosen; the order of the words was sampled, so that chance is guessing. None where it is
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
