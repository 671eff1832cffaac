"""Word vectors of one text by every method, compared: what they know, what they are worth, what they are biased by.

python benchmarks/word_vectors.py DATA VECTORS [--encoder NAME=MODEL] [--sample FILE] [--output FOLDER]

DATA is a folder with the public sets in folders of their own: wikitext-2, sst2, conll2003, stsb, mrpc, word-similarity,
word-analogy, word-bias. VECTORS is where the trained vectors are kept, and the full results of each; what is there already is
not made again. CBoW, skip-gram, fastText and GloVe are trained on WikiText-2 and Python's reference text; of an encoder the
vectors of words are averaged over sentences of the same text. --sample names vectors from elsewhere.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import regard
from measured import record
from regard.data.labelled import read_labelled
from regard.data.tagged import read_tagged
from regard.machine import keep_freed_memory
from regard.word_embeddings import WordVectors
from regard.word_embeddings.bias import (
    GENDER_PAIRS,
    OCCUPATIONS,
    audit,
    read_association_tests,
    read_word_sets,
    read_words,
)
from regard.word_embeddings.contextual import averaged_vectors
from regard.word_embeddings.evaluation.battery import evaluate, read_battery
from regard.word_embeddings.evaluation.extrinsic import (
    evaluate_classification,
    evaluate_cosines,
    evaluate_pairs,
)
from regard.word_embeddings.evaluation.tagging import evaluate_tagging
from regard.word_embeddings.files import read_vectors, write_vectors
from regard.word_embeddings.training import VectorSettings, sentences, train_vectors

ROOT = Path(__file__).resolve().parent.parent

METHODS = {
    "cbow": VectorSettings(method="cbow", epochs=15),
    "skip-gram": VectorSettings(method="skipgram", epochs=15),
    "fasttext": VectorSettings(method="fasttext", epochs=15, buckets=200_000),
    "glove": VectorSettings(method="glove", largest_count=10.0),
}
"""As published, but for more passes and a smaller x_max, since the text is small, and fewer rows for n-grams."""

CONTEXTS = 50
HELD_OUT = 5
"""Of MRPC, which comes without a split here, every fifth pair is for testing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("vectors", type=Path)
    parser.add_argument("--encoder", metavar="NAME=MODEL", action="append", default=[])
    parser.add_argument("--sample", type=Path)
    parser.add_argument("--contexts", type=int, default=CONTEXTS)
    parser.add_argument("--only", help="names of vectors, between commas")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results")
    arguments = parser.parse_args()
    keep_freed_memory()
    text = Text(arguments.data)
    found: dict[str, dict[str, Any]] = {}
    for name, make in sources(arguments, text):
        if arguments.only and name not in arguments.only.split(","):
            continue
        details = arguments.vectors / f"{name}.json"
        if not details.exists():
            results = judged(replace(make(), name=name), arguments.data)
            details.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        found[name] = json.loads(details.read_text(encoding="utf-8"))
        print(
            name,
            json.dumps({key: values.get(name) for key, values in figures({name: found[name]}).items()}),
            flush=True,
        )
    shown = figures(found)
    print_table(shown, list(found))
    record(
        arguments.output / "word-vectors.json",
        title="Word vectors of one text, by every method",
        command="python benchmarks/word_vectors.py DATA VECTORS --encoder bert-small=MODEL --sample FILE",
        precision="float32",
        seed=1,
        figures=shown,
        target="every method trained on the same text, judged without a task, by tasks and for bias, each with its floor",
        note="WikiText-2 (training part) and Python's reference text, in lower case, words seen five times or more. Width "
        "100, and the encoder's own. 15 passes; GloVe 25, x_max 10. bert-small read the same text; its vectors are means "
        f"over at most {arguments.contexts} sentences. google-news-1000 is a sample, of 1,000 words, of vectors trained on other "
        "text: mind how many items it covers. Square brackets: 95 % bootstrap intervals over test items; after a stroke: how "
        "many items could be asked. Tasks: the development sets, linear models with C = 0.1 on frozen vectors; the floor is the "
        "same model on vectors drawn at random for the same words. WEAT: d, with the one-sided p in brackets.",
    )


class Text:
    """The sentences of all that is trained on, read anew each time: tokens as WikiText has them, words of the reference."""

    def __init__(self, data: Path) -> None:
        self._wiki = sentences(
            data / "wikitext-2" / "train.txt.gz", tokenisation="whitespace", sentences="split", cleaning="wikitext"
        )
        self._python = sentences("python_docs")

    def __iter__(self) -> Iterator[list[str]]:
        return chain(self._wiki, self._python)


def sources(arguments: argparse.Namespace, text: Text) -> Iterator[tuple[str, Any]]:
    """Names of vectors, and what makes or reads them."""
    for name, settings in METHODS.items():
        yield (
            name,
            lambda name=name, s=settings: kept(arguments.vectors / name, lambda: train_vectors(text, s, name=name)),
        )
    for given in arguments.encoder:
        name, _, model = given.partition("=")
        yield (
            name,
            lambda name=name, m=model: kept(arguments.vectors / name, lambda: averaged(m, name, text, arguments)),
        )
    if arguments.sample is not None:
        yield arguments.sample.name.split(".")[0], lambda: read_vectors(arguments.sample)


def kept(folder: Path, make: Any) -> WordVectors:
    """What is in a folder; made and put there where it is not."""
    if not folder.exists():
        print(f"making {folder.name} ...", flush=True)
        write_vectors(make(), folder)
    return read_vectors(folder)


def averaged(model: str, name: str, text: Text, arguments: argparse.Namespace) -> WordVectors:
    encoder = regard.load(model, task="sentence_embedding")
    return averaged_vectors(encoder, text, contexts=arguments.contexts, lowercase=True, name=name)


def judged(vectors: WordVectors, data: Path) -> dict[str, Any]:
    """All results, as JSON values."""
    similarity, analogies, bias = data / "word-similarity", data / "word-analogy", data / "word-bias"
    print(f"{vectors.name}: similarity, analogies, ...", flush=True)
    battery = read_battery([similarity], [analogies / "questions-words.txt"])
    found: dict[str, Any] = {"intrinsic": evaluate(vectors, battery).to_json(), "metadata": dict(vectors.metadata)}
    print(f"{vectors.name}: tasks ...", flush=True)
    sst2 = [list(read_labelled(data / "sst2" / f"{split}.tsv", format="sst2")) for split in ("train", "dev")]
    found["SST-2"] = evaluate_classification(vectors, *sst2, words=str.split).to_json()
    stsb = [list(read_labelled(data / "stsb" / f"sts-{split}.csv", format="stsb")) for split in ("train", "dev")]
    found["STS-B, cosine"] = evaluate_cosines(vectors, stsb[1]).to_json()
    found["STS-B, ridge"] = evaluate_pairs(vectors, *stsb).to_json()
    mrpc = list(read_labelled(data / "mrpc" / "msr_paraphrase_train.txt", format="mrpc"))
    held_out = mrpc[::HELD_OUT]
    rest = [pair for number, pair in enumerate(mrpc) if number % HELD_OUT]
    found["MRPC"] = evaluate_pairs(vectors, rest, held_out, positive="equivalent").to_json()
    conll = [list(read_tagged(data / "conll2003" / f"eng.{split}.gz")) for split in ("train", "testa")]
    found["CoNLL-2003"] = evaluate_tagging(vectors, *conll).to_json()
    print(f"{vectors.name}: bias ...", flush=True)
    tests = [
        test
        for number in ("1", "2", "3", "3b", "4", "5", "5b", "6", "6b", "7", "7b", "8", "8b", "9", "10")
        if (bias / "weat" / f"weat{number}.jsonl").exists()
        for test in read_association_tests(bias / "weat" / f"weat{number}.jsonl")
    ]
    lists = bias / "bolukbasi"
    found["bias"] = audit(
        vectors,
        pairs=read_word_sets(lists / "definitional_pairs.json") if lists.is_dir() else GENDER_PAIRS,
        occupations=read_words(lists / "professions.json") if lists.is_dir() else OCCUPATIONS,
        specific=read_words(lists / "gender_specific_full.json") if lists.is_dir() else (),
        word_tests=tests,
    ).to_json()
    return found


def figures(found: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What is shown of all results: by what was measured, a text for each vectors' name."""
    rows: dict[str, dict[str, Any]] = {}
    for name, results in found.items():
        for key, value in shown_of(results):
            rows.setdefault(key, {})[name] = value
    return rows


def shown_of(results: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    own = results["intrinsic"]
    yield "words", own["words"]
    yield "numbers in a vector", own["width"]
    for each in own["similarity"]:
        if each["used"] >= 20:
            yield (
                f"{each['name'].removeprefix('EN-')}, Spearman",
                f"{between(each['spearman'], each['interval'])} / {each['used']}",
            )
    for each in own["analogies"]:
        for part in ("semantic", "syntactic", "total"):
            score = each[part]
            if score is not None and score["asked"]:
                yield f"Google analogies, {part}, accuracy", f"{score['accuracy']:.3f} / {score['asked']}"
    for each in own["categories"]:
        if each["purity"] is not None:
            yield "categories, purity", f"{each['purity']:.3f} / {each['words'] - each['unknown']}"
    for each in own["robustness"]:
        if each["words"]:
            rate = "-" if each["hit_rate"] is None else f"{each['hit_rate']:.2f}"
            yield (
                f"{each['kind']}: has a vector; word among its ten nearest",
                f"{each['coverage']:.2f}; {rate} / {each['words']}",
            )
    if own["frequency"] is not None and own["frequency"]["accuracy"] is not None:
        yield "frequent or rare, accuracy", f"{own['frequency']['accuracy']:.3f}"
    for task, metrics in (
        ("SST-2", ("accuracy",)),
        ("CoNLL-2003", ("f1",)),
        ("STS-B, cosine", ("pearson", "spearman")),
        ("STS-B, ridge", ("pearson",)),
        ("MRPC", ("accuracy", "f1")),
    ):
        each = results[task]
        for metric in metrics:
            yield f"{task}, {metric}", between(each["scores"][metric]["value"], each["scores"][metric])
            yield f"{task}, {metric}, random vectors", rounded(each["floors"]["random vectors"][metric]["value"])
        others = [kind for kind in each["floors"] if kind != "random vectors"]
        for kind in others:
            yield f"{task}, {metrics[0]}, {kind}", rounded(each["floors"][kind][metrics[0]]["value"])
        yield f"{task}, words with a vector", f"{100 * each['coverage']['share']:.1f} %"
    bias = results["bias"]
    for test in bias["tests"]:
        sizes = "+".join(map(str, test["sizes"]))
        yield (
            f"WEAT {test['test'].removeprefix('weat')}, d",
            f"{rounded(test['effect_size'])} ({test['p']:.3g}) / {sizes}",
        )
    if bias["direction"] is not None:
        direction = bias["direction"]
        yield "direct bias of occupations", f"{rounded(direction['direct_bias'])} / {direction['judged']}"
        yield "direct bias along random directions", rounded(direction["random_direct_bias"])
        yield "gender pairs, share of the first direction", rounded(direction["direction"]["explained"][0])


def between(value: float | None, interval: Mapping[str, Any] | None) -> str:
    if interval is None:
        return rounded(value)
    return f"{rounded(value)} [{rounded(interval['low'])}, {rounded(interval['high'])}]"


def rounded(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.3f}"


def print_table(rows: Mapping[str, Mapping[str, Any]], names: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for name in names:
        table.add_column(name, no_wrap=True)
    for key, values in rows.items():
        table.add_row(key, *(str(values.get(name, "-")).replace("[", "\\[") for name in names))
    Console(width=60 + 30 * len(names)).print(table)


if __name__ == "__main__":
    main()
