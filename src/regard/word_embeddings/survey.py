"""A survey that lets people compare several word embeddings: questions, the HTML page, answers, and their evaluation.

The survey is blind: the page does not reveal which word comes from which embeddings (Schnabel et al. 2015).
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
"""The fewest letters of a query; shorter words are mostly abbreviations."""
COMMONEST = 100
"""The number of most frequent words that are not used as queries, since most are function words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One question with several words to choose from.

    Arguments:
        name: an id without meaning.
        kind: `neighbour`: which word is closest in meaning to the query? `intruder`: which word does not belong to the others?
        query: the query word; None for intruders.
        options: the words, in display order.
        owners: for each option the names of the embeddings that score when it is chosen.
        tables: the names of the embeddings that the question compares.
        rank: the rank of the neighbours; None for intruders.
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
    """The questions of a survey; the content of a key file.

    Arguments:
        tables: the names of the embeddings.
        items: the questions, in display order.
        seed: the seed that the questions were sampled with.
    """

    tables: tuple[str, ...]
    items: tuple[Item, ...]
    seed: int

    @property
    def page(self) -> str:
        """The id of this questionnaire in page and answers: a hash of its content."""
        return hashlib.sha256(json.dumps(asdict(self), ensure_ascii=False).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """The content of the key file, which `read_key` reads."""
        return {"format": FORMAT, "page": self.page, **asdict(self)}

    def shown(self) -> dict[str, Any]:
        """The data in the page, which does not reveal the source of the words."""
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
    """Sample questions on the nearest neighbours of words in several embeddings (Schnabel et al. 2015, sections 3.2 and 4).

    All embeddings are reduced to their common words. A neighbour question shows a query and, in random order, the word at one
    rank among its neighbours in each of the embeddings. A word that has this rank in two embeddings is shown once and counts
    for both; if all have the same word, there is no question. An intruder question is about one of the embeddings: it shows a
    word, its two nearest neighbours, and an unrelated word.

    Arguments:
        tables: two or more word embeddings with different names.
        queries: the number of query words. They are sampled so that each order of magnitude of frequency rank, by the order in
            the first embeddings, has about the same number. The hundred most frequent words (in small vocabularies the first
            tenth), which are mostly function words, are left out.
        intruders: the number of these queries that also get an intruder question for each of the embeddings; 0 for none.
        ranks: the ranks of the neighbours to ask about, from 1.
        words: query words to use instead of sampled ones.
        seed: random seed.

    Raises:
        InputError: for fewer than two embeddings, equal names, no common word, or query words that are not in all embeddings.

    >>> rng = np.random.default_rng(0)
    >>> words = tuple(f"word{number}" for number in range(90))
    >>> one, other = (WordVectors(words=words, name=name, matrix=rng.normal(size=(90, 5)).astype(np.float32)) for name in "ab")
    >>> made = make_questionnaire([one, other], queries=4, intruders=2)
    >>> [item.kind for item in made.items].count("intruder"), made.items[0].rank in (1, 5, 50)
    (4, True)
    """
    names = tuple(table.name for table in tables)
    if len(names) < 2 or len(set(names)) < len(names):
        raise InputError("a survey compares two or more word embeddings with different names; give more")
    if not ranks or min(ranks) < 1:
        raise InputError(f"ranks are {tuple(ranks)}; give at least one, from 1")
    common = in_common(tables)
    rng = np.random.default_rng([seed, 0x1D6E])
    asked = _checked(common[0], words) if words is not None else _sampled_queries(common[0], queries, rng)
    comparing = [item for query in asked for item in _neighbour_items(common, query, sorted(set(ranks)), rng)]
    finding = (
        [item for table in common for item in _intruder_items(table, asked[:intruders], rng, seed)] if intruders else []
    )
    ordered = [part[row] for part in (comparing, finding) for row in rng.permutation(len(part)).tolist()]
    if not ordered:
        raise InputError("there are no questions: the vectors have the same neighbours; give others, or more words")
    numbers = rng.choice(16**6, size=len(ordered), replace=False).tolist()
    items = (Item(name=f"{number:06x}", **item) for number, item in zip(numbers, ordered, strict=True))
    return Questionnaire(tables=names, items=tuple(items), seed=seed)


def read_key(path: Path | str) -> Questionnaire:
    """A questionnaire from its key file.

    Raises:
        InputError: if the file cannot be read, is not a key file, or was changed.
    """
    values = read_json(path, "give the key that was written with the page")
    if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
        raise InputError(f"{path}: is not the key of a survey page; give the .key.json that was written with the page")
    page = values.pop("page", None)
    values["items"] = values.get("items") or []
    found = from_mapping(Questionnaire, values, str(path))
    if any(len(item.owners) != len(item.options) for item in found.items) or found.page != page:
        raise InputError(f"{path}: was changed after it was written; take the original key")
    return found


def _sampled_queries(table: WordVectors, count: int, rng: np.random.Generator) -> list[str]:
    first = min(COMMONEST, len(table) // 10)
    fit = [(row, word) for row, word in enumerate(table.words) if row >= first and _fits(word)]
    if not fit:
        raise InputError(
            "none of the common words is in lower case and has at least three letters; name the query words"
        )
    weights = 1 / (1 + np.array([row for row, _ in fit]))  # as many from ranks 100 to 1,000 as from 1,000 to 10,000
    chosen = rng.choice(len(fit), size=min(count, len(fit)), replace=False, p=weights / weights.sum())
    return [fit[place][1] for place in chosen.tolist()]


def _fits(word: str) -> bool:
    return len(word) >= SHORTEST and word[0].isalpha() and word.isalnum() and word == word.lower()


def _checked(table: WordVectors, words: Sequence[str]) -> list[str]:
    missing = [word for word in words if word not in table]
    if missing:
        raise InputError(f"{missing[0]!r} is not in all word embeddings; leave it out")
    return list(dict.fromkeys(words))


def _neighbour_items(
    tables: Sequence[WordVectors], query: str, ranks: Sequence[int], rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    found = [neighbours(table, query, ranks[-1]) for table in tables]
    for rank in ranks:
        owners: dict[str, list[str]] = {}
        for table, near in zip(tables, found, strict=True):
            if rank <= len(near):
                owners.setdefault(near[rank - 1].word, []).append(table.name)
        if len(owners) > 1:
            options = [list(owners)[place] for place in rng.permutation(len(owners)).tolist()]
            yield {
                "kind": "neighbour",
                "query": query,
                "rank": rank,
                "options": tuple(options),
                "owners": tuple(tuple(owners[word]) for word in options),
                "tables": tuple(table.name for table in tables),
            }


def _intruder_items(
    table: WordVectors, queries: Sequence[str], rng: np.random.Generator, seed: int
) -> Iterator[dict[str, Any]]:
    for item in intruder_items(table, queries, seed=seed):
        options = [item.words[place] for place in rng.permutation(len(item.words)).tolist()]
        yield {
            "kind": "intruder",
            "query": None,
            "options": tuple(options),
            "owners": tuple((table.name,) if word == item.intruder else () for word in options),
            "tables": (table.name,),
        }


# The answers that people saved from the survey page.


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a judge.

    Arguments:
        judge: the name of the judge.
        item: the question.
        choice: the index of the chosen option, from 0; None if the judge did not know the words.
    """

    judge: str
    item: Item
    choice: int | None


def read_answers(
    questionnaire: Questionnaire, paths: Iterable[Path | str], malformed: MalformedRows | None = None
) -> list[Answer]:
    """Read the answers in JSONL files. If a judge answered a question several times, the last answer is used.

    Arguments:
        questionnaire: the questionnaire that was answered.
        paths: one or more files, each with the answers of one or more judges.
        malformed: where lines are recorded that are not answers to this questionnaire.

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
    """The answer on a line, or the reason why it is malformed."""
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
    """The survey page: one question at a time, answered with the pointer or the number keys.

    The page is one self-contained file; a content security policy forbids loading anything else. It does not contain the source
    of the words, keeps answers in the browser, and saves them as JSONL.

    >>> owners = (("x",), ("y",))
    >>> item = Item(name="1a", kind="neighbour", query="</script>", options=("b", "c"), owners=owners, tables=("x", "y"))
    >>> page = html_page(Questionnaire(tables=("x", "y"), items=(item,), seed=0))
    >>> page.count("</script>"), "u003c/script" in page
    (2, True)
    """
    parts = {"title": "Words and their neighbours", "count": f"{len(questionnaire.items):,}"}
    return page("questionnaire", parts, data=questionnaire.shown(), styles=("questionnaire.css",))


# Evaluation of the answers.


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """The share of answers in favour of one of the embeddings.

    Arguments:
        table: the name of the embeddings.
        kind: the kind of questions.
        rank: the rank of the neighbours; None for all ranks together, and for intruders.
        won: the number of answers that chose its word; for intruders, that found the intruder.
        answered: the number of answers to questions about it, without those where the judge did not know the words.
        share: won / answered; None without answers.
        interval: bootstrap interval of the share over questions, each with all its answers; None without answers.
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
    """The agreement of the judges.

    Arguments:
        kind: the kind of questions.
        judges: the names of the judges.
        items: the number of questions for which all judges chose a word.
        agreed: the share of these questions on which two judges agree, averaged over pairs of judges; None without questions.
        statistic: "Cohen's kappa" for two judges, "Fleiss' kappa" for more.
        kappa: kappa of the chosen display positions. Their order is random, so chance agreement is that of guessing. None if
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
    """The result of `judge`.

    Arguments:
        answers: the number of answers of each judge.
        unknown: the number of these in which the judge did not know the words.
        shares: for each kind and rank of questions, the share of each of the embeddings.
        agreement: one for each kind of questions; empty with fewer than two judges.
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
    """How often each embedding's neighbours were preferred, how many intruders were found, and how much the judges agree.

    The chance level is 1 / number of options: 1/2 when comparing two embeddings, 1/4 for intruders. A word of two embeddings
    counts for both, so the shares may sum to more than 1.

    Arguments:
        questionnaire: the questionnaire.
        answers: the answers of all judges.
        resamples: the number of bootstrap resamples for the intervals; 0 for none.
        seed: seed of the bootstrap.

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
            rows, lambda sample: float(sample[:, 0].sum() / sample[:, 1].sum()), resamples=resamples, seed=seed
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


# Agreement beyond chance: Cohen's kappa for two judges, Fleiss' kappa for more.


def cohen_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """Cohen's kappa of two judges: (p - e) / (1 - e), where p is the share of items on which they agree (Cohen 1960).

    e is the expected agreement of two judges who choose at random with the same frequencies. The result is nan if both judges
    always choose the same single option.

    Raises:
        InputError: for no items, or different numbers of items.

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
    """Fleiss' kappa of several judges who all judged every item (Fleiss 1971).

    (P - e) / (1 - e), where P is the mean share of pairs of judges that agree on an item, and e is the sum of the squared
    relative frequencies of the choices over all items. The result is nan if only one choice occurs.

    Arguments:
        items: for each item the choices of all judges.

    Raises:
        InputError: for no items, fewer than two judges, or items with different numbers of judges.

    >>> round(fleiss_kappa([["a", "a", "a"], ["b", "b", "a"], ["b", "b", "b"]]), 3)
    0.55
    """
    judges = {len(item) for item in items}
    if len(judges) != 1 or min(judges) < 2:
        raise InputError("agreement needs items that were all judged by the same judges, at least two; give such items")
    count = judges.pop()
    pairs = count * (count - 1)
    agreed = sum(sum(n * (n - 1) for n in Counter(item).values()) / pairs for item in items) / len(items)
    shares = Counter(choice for item in items for choice in item)
    chance = sum((n / (count * len(items))) ** 2 for n in shares.values())
    return (agreed - chance) / (1 - chance) if chance < 1 else float("nan")
