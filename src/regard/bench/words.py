"""The suite `words`: training word embeddings, from a text file to a file of embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.bench.rounds import OURS, Contest, Contestant, Options

SEED = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """The amount of work.

    Arguments:
        words: the most words of the text; None for all.
        epochs: passes over the text; for GloVe, over the counts.
        width: of skip-gram's and CBoW's embeddings; GloVe's have half of it.
        minimum_count: words that occur less often have no embedding.
    """

    words: int | None = None
    epochs: int = 3
    width: int = 100
    minimum_count: int = 5


QUICK = Sizes(words=20_000, epochs=1, width=16, minimum_count=2)

PEERS_OF = {"skipgram": "gensim", "cbow": "gensim", "glove": "glove"}
"""The peer of each method."""


def contests(options: Options, folder: Path) -> list[Contest]:
    """The contests asked for; the text is written into `folder`, one sentence per line, words separated by spaces.

    Raises:
        InputError: for a text or a similarity set that cannot be read.
    """
    sizes = QUICK if options.quick else Sizes()
    text = folder / "text"
    tokens = _written(lines_of(options.text), text, sizes.words)
    return [_contest(case, options, sizes, text, tokens, folder) for case in options.cases]


def _contest(case: str, options: Options, sizes: Sizes, text: Path, tokens: int, folder: Path) -> Contest:
    glove = case == "glove"
    width, window = (sizes.width // 2, 10) if glove else (sizes.width, 5)
    job = {
        "kind": case,
        "text": str(text),
        "tokens": tokens,
        "width": width,
        "window": window,
        "minimum_count": sizes.minimum_count,
        "epochs": sizes.epochs,
        "negative": 5,
        "largest_count": 10.0,
        "threads": options.threads,
        "seed": SEED,
    }

    def contestant(name: str, library: str, **more: str) -> Contestant:
        place = folder / f"{'-'.join((case, library, *more.values()))}.txt"
        return Contestant(name=name, library=library, job={**job, **more, "vectors": str(place)})

    ours, peers = contestant(case, OURS), ()
    peer = PEERS_OF[case]
    if peer in options.peers:
        ways = ("sentences", "file") if peer == "gensim" else ("",)
        peers = tuple(contestant(f"{peer} {way}".strip(), peer, reading=way) for way in ways)
    return Contest(
        name=case,
        about=f"{tokens:,} words of text, width {width}, window {window}, {sizes.epochs} epochs, "
        + ("counts up to 10 weighted" if glove else "5 negatives, subsampling 0.001")
        + f", words seen {sizes.minimum_count} times or more; from the file to the vectors",
        unit="words/s",
        ours=(ours,),
        peers=peers,
        judge=_judge(options.similarity),
    )


def _judge(files: Sequence[Path]) -> Callable[[Contestant], dict[str, float]] | None:
    """Spearman's correlation on each similarity set, for the embeddings that a contestant wrote."""
    from regard.word_embeddings.evaluation import evaluate_similarity, read_similarity
    from regard.word_embeddings.files import read_vectors

    sets = [read_similarity(file) for file in files]

    def judge(contestant: Contestant) -> dict[str, float]:
        table = read_vectors(Path(contestant.job["vectors"]))
        return {
            f"Spearman, {judged.name}": float(evaluate_similarity(table, judged, resamples=0).spearman)
            for judged in sets
        }

    return judge if sets else None


def lines_of(text: Path | None) -> Iterable[Sequence[str]]:
    """The words of each line of a tokenized text, plain or gzip; None for Python's reference."""
    from regard.word_embeddings.training import sentences
    from regard.word_embeddings.training.corpus import PYTHON_DOCS

    if text is None:
        return sentences(PYTHON_DOCS)
    return sentences(text, tokenisation="whitespace", cleaning="wikitext")


def _written(lines: Iterable[Sequence[str]], path: Path, most: int | None) -> int:
    tokens = 0
    with path.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(" ".join(line) + "\n")
            tokens += len(line)
            if most is not None and tokens >= most:
                break
    return tokens
