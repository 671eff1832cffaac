"""Samples of what the package reads as text: tables, lists, running text, recipes and templates in YAML."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from valid import RECIPES

from regard.claims.claim import claim_of
from regard.claims.comparison import read_comparison
from regard.cli import maps
from regard.data.choices import read_choices
from regard.data.labelled import read_labelled
from regard.data.labelled_images import read_captions
from regard.data.malformed import MalformedRows
from regard.data.pairs import read_pairs, read_parallel
from regard.data.questions import read_no_answer, read_predictions, read_questions
from regard.data.running_text import read_documents, read_texts
from regard.data.tagged import read_tagged
from regard.data.text_columns import read_table
from regard.embeddings.search import read_document
from regard.prompting.examples import read_examples
from regard.prompting.template import build_prompt, read_template
from regard.training.recipe import read_recipe, read_yaml
from regard.word_embeddings.bias.lists import read_association_tests, read_word_sets, read_words
from regard.word_embeddings.evaluation.analogies import read_analogies
from regard.word_embeddings.evaluation.categories import read_categories
from regard.word_embeddings.evaluation.probes import read_probes
from regard.word_embeddings.evaluation.similarity import read_similarity
from regard.word_embeddings.survey import Item, Questionnaire, read_answers, read_key

OWN = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Sample:
    """Valid files in a folder.

    Arguments:
        folder: they are in.
        damaged: patterns of those that are damaged, one of them drawn before the files that it matches.
        read: reads them, given where the folder has been copied to.
        suffix: as files of which they are damaged, where their own names do not tell.
    """

    folder: Path
    damaged: tuple[str, ...]
    read: Callable[[Path], Any]
    suffix: str = ""


def one_file(place: Path, name: str, content: str | bytes, *reads: Callable[[Path], Any]) -> Sample:
    """A folder with one file, which several functions read in turn."""
    folder = place / f"{len(list(place.iterdir())) if place.exists() else 0}-{name.replace('.', '-')}"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)

    def read(here: Path) -> None:
        refused: Exception | None = None
        for each in reads:
            try:
                _all(each(here / name))
            except ValueError as error:  # an `InputError` is one; the judge tells which
                refused = error
        if refused is not None:
            raise refused

    return Sample(folder, ("*",), read)


def _all(found: Any) -> None:
    """Take all that is read one by one."""
    if isinstance(found, Iterator):
        for _ in found:
            pass


SENTENCES = ["the old dog barks", "naïve birds fly", "a cat, it sleeps", "one man; two", 'the king "sees" 12']
QUESTION = {"id": "1", "question": "which one ?", "context": "the old dog barks", "answer": "dog", "answer_start": 8}
SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "t",
            "paragraphs": [
                {
                    "context": "the old dog barks",
                    "qas": [
                        {"id": "1", "question": "which ?", "answers": [{"text": "dog", "answer_start": 8}]},
                        {"id": "2", "question": "who ?", "is_impossible": True, "answers": []},
                    ],
                }
            ],
        }
    ],
}
CHOICE = {"context": "the dog", "choices": ["barks", "flies"], "answer": 0, "question": "what ?"}
RACE = {"article": "a b c", "questions": ["q ?", "r ?"], "options": [["a", "b"], ["c", "d"]], "answers": ["A", "B"]}


def _jsonl(*rows: Any) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def tables(place: Path) -> Iterator[Sample]:
    """TSV, CSV, JSONL, CoNLL's columns, SQuAD's and RACE's JSON, Parquet, running text, as all the readers of data have them."""
    pairs = "".join(f"{one}\t{other}\n" for one, other in itertools.pairwise(SENTENCES))
    objects = _jsonl(*({"source": text, "target": text[::-1], "text": text, "label": "a"} for text in SENTENCES))
    rows = "id,text,label,score\n" + "".join(
        f'{number},"{text.replace(chr(34), chr(34) * 2)}",{"ab"[number % 2]},{number / 4}\n'
        for number, text in enumerate(SENTENCES)
    )
    labelled = [
        lambda path: read_labelled(path, text="text", label="label"),
        lambda path: read_labelled(path, text="text", label="score", number=True),
        lambda path: read_labelled(path),
    ]
    yield one_file(place, "pairs.tsv", pairs, read_pairs, lambda path: read_examples(path, columns=("a", "b")))
    yield one_file(place, "pairs.tsv.gz", gzip.compress(pairs.encode()), read_pairs)
    yield one_file(place, "pairs.jsonl", objects, read_pairs, read_examples, lambda path: read_table(path, None).rows)
    yield one_file(place, "rows.csv", rows, *labelled, lambda path: read_table(path, None).rows)
    yield one_file(place, "rows.csv.gz", gzip.compress(rows.encode()), *labelled[:1])
    yield one_file(place, "rows.tsv", rows.replace(",", "\t"), *labelled, lambda path: read_document(path))
    yield one_file(
        place, "rows.csv", rows.replace(",", ";"), *labelled, lambda path: read_pairs(path, source=1, target=2)
    )
    conll = "\n".join(
        "".join(f"{word} {'B-X' if word == 'dog' else 'O'}\n" for word in text.split()) for text in SENTENCES
    )
    yield one_file(place, "tags.conll", conll, read_tagged)
    yield one_file(place, "tags.jsonl", _jsonl({"words": ["a", "b"], "tags": ["O", "B-X"]}), read_tagged)
    yield one_file(place, "squad.json", json.dumps(SQUAD), read_questions)
    yield one_file(place, "squad.json.gz", gzip.compress(json.dumps(SQUAD).encode()), read_questions)
    yield one_file(place, "questions.jsonl", _jsonl(QUESTION, QUESTION | {"id": "2"}), read_questions)
    yield one_file(place, "choices.jsonl", _jsonl(CHOICE, CHOICE), read_choices)
    yield one_file(place, "race.json", _jsonl(RACE), lambda path: read_choices(path, format="race"))
    swag = "sent1,sent2,ending0,ending1,ending2,ending3,label\na dog,it,barks,flies,runs,sings,0\n"
    yield one_file(place, "swag.csv", swag, lambda path: read_choices(path, format="swag"))
    text = "\n".join([" = Title = ", "", *SENTENCES, "", 'Mr. Dog barked. It ran. " Yes " he said.', "", *SENTENCES])
    texts = [
        read_texts,
        lambda path: read_texts(path, unit="paragraph"),
        read_documents,
        lambda path: read_documents(path, documents="heading"),
        lambda path: read_document(path),
        lambda path: read_parallel(path, path),
    ]
    yield one_file(place, "text.txt", text, *texts)
    yield one_file(place, "text.txt.gz", gzip.compress(text.encode()), *texts[:1])
    yield one_file(place, "captions.tsv", "a.jpg#0\ta dog runs\nb.jpg#1\ta cat\n", read_captions)
    yield one_file(place, "captions.csv", "image,caption\na.jpg,a dog runs\nb.jpg,a cat\n", read_captions)
    book = "".join(f"{number} a sentence\n" for number in range(1, 21)) + "21 a XXXXX ?\tdog\t\tdog|cat\n\n"
    yield one_file(place, "book.txt", book, lambda path: read_examples(path, format="childrens_books"))
    vectors = [{"text": text, "vector": [0.5, 1.0]} for text in SENTENCES]
    yield one_file(place, "vectors.jsonl", _jsonl(*vectors), lambda path: maps._table(path, 9))
    made = place / "made"
    made.mkdir()
    np.save(made / "a.npy", np.ones((3, 2), np.float32))
    yield one_file(
        place, "vectors.npy", (made / "a.npy").read_bytes(), lambda path: np.asarray(maps._array(path)).sum()
    )
    yield from _parquet(place, made, vectors, labelled[0])


def _parquet(place: Path, made: Path, vectors: list[dict[str, Any]], read: Callable[[Path], Any]) -> Iterator[Sample]:
    import pyarrow
    import pyarrow.parquet

    labelled = [{"text": text, "label": "a", "when": number} for number, text in enumerate(SENTENCES)]
    for name, rows in {"vectors": vectors, "rows": labelled}.items():
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), made / name, compression="snappy")
    yield one_file(place, "vectors.parquet", (made / "vectors").read_bytes(), lambda path: maps._table(path, 9))
    yield one_file(place, "rows.parquet", (made / "rows").read_bytes(), read)


def lists(place: Path) -> Iterator[Sample]:
    """Lists of words, tests and judgements; what was predicted."""
    malformed = MalformedRows
    yield one_file(
        place,
        "pairs.csv",
        "word1,word2,score\ndog,cat,7.5\nking,queen,9\n",
        lambda path: read_similarity(path, malformed()),
    )
    yield one_file(place, "pairs.txt", "dog\tcat\t7.5\nking queen 9\n", read_similarity)
    yield one_file(place, "analogies.txt", ": family\nman king woman queen\nboy man girl woman\n", read_analogies)
    yield one_file(place, "categories.tsv", "dog\tanimal\ncat\tanimal\nred\tcolour\nblue\tcolour\n", read_categories)
    yield one_file(place, "sets.txt", "# pairs\nman woman\nking, queen\n", read_word_sets)
    yield one_file(place, "sets.json", '[["man", "woman"], ["king", "queen"]]', read_word_sets)
    yield one_file(place, "words.json", '["nurse", "smith"]', read_words)
    test = {
        "name": "t",
        "targ1": {"category": "flowers", "examples": ["rose", "lily"]},
        "targ2": ["ant", "flea"],
        "attr1": ["good", "nice"],
        "attr2": ["bad", "ugly"],
    }
    yield one_file(place, "tests.jsonl", _jsonl(test, test), read_association_tests)
    yield one_file(place, "predictions.json", '{"1": "dog", "2": ""}', read_predictions)
    yield one_file(place, "no_answer.json", '{"1": 0.25, "2": 1}', read_no_answer)
    item = {
        "kind": "neighbour",
        "query": "dog",
        "options": ("cat", "king"),
        "owners": (("a",), ("b",)),
        "tables": ("a", "b"),
    }
    asked = Questionnaire(tables=("a", "b"), items=(Item(name="0f", rank=1, **item),), seed=1)
    yield one_file(place, "page.key.json", json.dumps(asked.to_json()), read_key)
    answer = {"page": asked.page, "judge": "me", "item": "0f", "answer": "cat"}
    yield one_file(place, "answers.jsonl", _jsonl(answer), lambda path: read_answers(asked, [path], malformed()))


def recipes(place: Path) -> Iterator[Sample]:
    """YAML: recipes, comparisons, claims, templates of prompts, probes."""
    for name in sorted(RECIPES):
        recipe = RECIPES[name] | {"training": {"steps": 1}}
        yield one_file(place, "recipe.yaml", yaml.safe_dump(recipe), read_recipe)
    for path in sorted((OWN / "recipes").glob("*.yaml")):
        if "pretrained: null" not in path.read_text():  # which the user is to fill in
            yield one_file(place, path.name, path.read_bytes(), read_recipe)
    compared = {
        "recipe": RECIPES["gpt2"] | {"training": {"steps": 1}},
        "arms": {"one": ["model.width=8"], "other": {"model.width": 16}},
        "seeds": 2,
        "budget": "steps=5",
        "measures": [
            {"name": "parameters", "kind": "parameters"},
            {"name": "v", "kind": "validation", "metric": "loss"},
        ],
    }
    yield one_file(place, "comparison.yaml", yaml.safe_dump(compared), read_comparison)
    for path in sorted((OWN / "src" / "regard_claims").glob("*/claim.yaml"))[:6]:
        yield one_file(place, path.name, path.read_bytes(), lambda path: claim_of(read_yaml(path), str(path)))

    def template(path: Path) -> None:
        made = read_template(str(path))
        for example in examples:
            build_prompt(made, example)

    given = place / "examples.jsonl"
    asked = {
        "question": "is it XXXXX ?",
        "context": "the old dog",
        "answer": "dog",
        "choices": ["dog", "cat"],
        "text": "a b",
    }
    given.write_text(_jsonl(asked | {"label": "0", "candidates": ["dog", "cat"], "source": "a", "target": "b"}))
    examples = read_examples(given)
    for path in sorted((OWN / "src" / "regard" / "prompting" / "templates").glob("*.yaml")):
        yield one_file(place, path.name, path.read_bytes(), template)
    probes = "- {first: [tea, milk], second: [tea, iron], expected: first}\n- first: [a, b]\n  second: [a, c]\n"
    yield one_file(place, "probes.yaml", probes, read_probes)
