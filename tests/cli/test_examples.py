"""The examples of every --help: all are command lines that exist, and of every command one at least is run as it stands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from regard.cli.main import app
from regard.word_embeddings import WordVectors
from regard.word_embeddings.files import write_vectors

GOLDEN = Path(__file__).parents[1] / "golden" / "folders"

FOLDERS = {
    "runs/en-de": "bahdanau",
    "runs/gpt": "gpt2",
    "runs/language-model": "lstm_language_model",
    "runs/t5": "t5-text-to-text",
    "runs/t5-pretrained": "t5-span-corruption",
    "runs/spam": "bert",
    "runs/imdb": "han",
    "runs/bert": "bert-masked",
    "path/to/bert": "bert-masked",
    "path/to/minilm": "bert-embedding",
    "runs/names": "bert-tagging",
    "runs/squad": "bert-answers",
    "runs/mnist": "vit",
    "runs/digits": "vit",
    "runs/few-shot": "snail",
    "runs/flickr8k": "show_attend_and_tell",
    "runs/piano": "music_transformer",
    "runs/copying": "ntm",
    "runs/lstmn": "lstmn",
}
"""Folders of examples, and the small models that stand for them."""

SMALL = (
    "model.embedding_width=8 model.hidden_width=8 model.attention_width=8 model.maxout_width=8 data.dates.size=60 "
    "data.dates.validation_size=10 training.steps=1 training.precision=float32"
)
RUN: dict[str, str] = {
    "regard train dates --output runs/new": SMALL,
    "regard evaluate runs/dates dates": "--limit 4",
    'regard predict runs/dates "Tuesday, 9 May 2017"': "",
    "regard predict runs/names --help": "",
    'regard translate runs/dates "Tuesday, 9 May 2017" "mardi 9 mai 2017"': "",
    'regard generate runs/gpt "The history of"': "",
    'regard lens runs/gpt "The history of"': "",
    'regard lens runs/gpt "The history of" --position -1 --json': "",
    'regard generate runs/gpt "The history of" --sample --temperature 0.8 --top-p 0.95 --seed 3': "",
    'regard generate runs/gpt --input prompts.txt --output texts.txt --stop "." --maximum-length 40': "",
    'regard generate runs/t5 "translate English to German: The house is small."': "",
    "regard prompt runs/gpt questions.jsonl --template choice --score byte": "",
    "regard summarize runs/t5 article.txt": '--prefix "reverse: "',
    'regard classify runs/spam "WINNER!! Claim your prize now" "see you at eight"': "",
    "regard classify runs/spam --input messages.txt --output classes.tsv": "",
    "regard classify runs/mnist seven.png scans.zip": "",
    'regard fill runs/bert "Paris is the [MASK] of France."': "",
    'regard fill runs/t5-pretrained "Thank you <extra_id_0> me to your party <extra_id_1> week."': "",
    'regard tag runs/names "Angela Merkel visited Paris."': "",
    'regard answer runs/squad "Where does she live?" --context "She has lived in Paris since 1999."': "",
    'regard embed path/to/minilm "How do I read a file?" "Open it and loop over it."': "",
    'regard search path/to/minilm docs "how do I resume a run"': "",
    "regard map glove.6B.300d.txt -o words.html": "",
    "regard map path/to/minilm messages.csv --text message --colour label -o messages.html": "",
    'regard look runs/dates "mardi 9 mai 2017" --target 2017-05-09 -o attention.html': "",
    'regard look runs/copying "10110010 01101100" -o memory.html': "",
    'regard walk runs/en-de "A dog runs." --query Hund': "--target abc",
    'regard rank runs/bert "The animal didn\'t cross the street because it was too tired" --json': "",
    "regard compare dates model.score=dot,general,additive --seeds 3 --budget steps=500 --output runs/scores": (
        SMALL + " --seeds 1 --budget steps=1"
    ),
    "regard info runs/dates --json": "",
    "regard export runs/dates dates": "",
    "regard check runs/dates": "",
    "regard doctor": "",
    "regard plan gpt3-175b --device v100-32 --utilisation 0.224 --price 1.5": "",
    "regard caption runs/flickr8k dog.jpg beach.jpg --beam 5": "",
    "regard compose runs/piano --json": "--maximum-length 8",
    "regard claims list --json": "",
    "regard claims show scaled-scores": "",
    "regard vectors train wiki.train.tokens -o wiki --method glove --x-max 10 --tokens whitespace --cleaning wikitext": (
        "--epochs 1 --dim 4 --minimum-count 1"
    ),
    "regard vectors extract runs/bert -o vectors/pieces --how pieces": "",
    "regard vectors neighbours glove.6B.300d.txt king": "",
    "regard vectors analogy glove.6B.300d.txt man king woman": "",
    "regard vectors doesnt-match glove.6B.300d.txt breakfast lunch dinner car": "",
    "regard vectors evaluate skipgram.vec --similarity sets/ --analogies questions-words.txt": "",
    "regard vectors bias glove.txt --weat weat7.jsonl --occupations professions.json": "",
    "regard vectors debias cbow.vec out.vec --pairs pairs.json --specific gender_specific.json --similarity "
    "EN-WS-353-ALL.txt": "",
    "regard vectors convert glove.6B.300d.txt glove": "",
    "regard vectors survey create skipgram.vec glove.txt --queries 30 -o page.html": "--queries 2 --intruders 1",
}
"""The examples that are run, and what is added so that they take no long."""

SHORTER = {
    "Where does she live?": "the dog",
    "10110010 01101100": "10 01",
    "Hund": "b",
    "The animal didn't cross the street because it was too tired": "the old dog sees",
}
"""Texts that are too long for the small models, or not in their vocabularies, and what they are given instead."""

ELSEWHERE = {
    "push": "test_push_command.py",
    "bench": "test_bench_command.py",
    "claims run": "test_claims_command.py",
    "serve": "../serving/test_server.py",
    "studio": "../serving/test_studio.py",
    "vectors survey score": "../word_embeddings/survey/test_command.py",
}
"""Commands that are run in other tests, for they need the network, or minutes, or people, or run until they are ended."""


def leaves(group: Any, *names: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, *names, name)
        else:
            yield " ".join((*names, name)), command


COMMANDS = dict(leaves(typer.main.get_command(app)))


def examples(help: str) -> list[str]:
    lines = [line.strip() for line in help.partition("Example:\n")[2].splitlines()]
    return [line[line.index("regard ") :] for line in lines if "regard " in line and "torchrun" not in line]


def groups(command: Any) -> Iterator[Any]:
    yield command
    for each in getattr(command, "commands", {}).values():
        if hasattr(each, "commands"):
            yield from groups(each)


EVERY = dict.fromkeys(
    line for each in [*COMMANDS.values(), *groups(typer.main.get_command(app))] for line in examples(each.help or "")
)


@pytest.mark.parametrize("line", EVERY)
def test_an_example_is_a_command_line_that_exists(line):
    words = shlex.split(line)[1:]
    name = next(name for name in sorted(COMMANDS, key=len, reverse=True) if words[: len(name.split())] == name.split())
    context = COMMANDS[name].make_context(name, words[len(name.split()) :], resilient_parsing="--help" in words)
    assert context.args == []


def test_every_command_has_an_example_that_is_run():
    run = [line.split() for line in RUN]
    for name, command in COMMANDS.items():
        found = examples(command.help)
        assert found, f"{name} has no example"
        assert all(line.split()[1 : 1 + len(name.split())] == name.split() for line in found if "predict" not in name)
        if name not in ELSEWHERE:
            assert any(line[1 : 1 + len(name.split())] == name.split() for line in run), f"no example of {name} is run"
    assert {line.replace("runs/new", "runs/dates") for line in RUN} <= EVERY.keys()
    assert all((Path(__file__).parent / place).is_file() for place in ELSEWHERE.values())


def test_an_example_does_not_stand_for_too_much():
    assert set(ELSEWHERE) <= COMMANDS.keys()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files as the examples name them."""
    from PIL import Image

    place = tmp_path_factory.mktemp("shop")
    texts = {
        "prompts.txt": "the old\nthe dog\n",
        "messages.csv": "label,message\nspam,the old dog\nham,the red cat\n",
        "messages.txt": "the old dog\nthe red cat\n",
        "article.txt": "abc\n",
        "docs/a.txt": "the old dog sees\n\nthe red cat sleeps\n",
        "questions.jsonl": json.dumps({"context": "the dog", "choices": ["barks", "sees"], "answer": 0}) + "\n",
        "wiki.train.tokens": "the old dog sees the red cat\n" * 30,
        "sets/a.txt": "man woman 9.0\nking car 1.0\nlunch dinner 8\nbreakfast car 2\n",
        "EN-WS-353-ALL.txt": "man woman 9.0\nking car 1.0\nlunch dinner 8\n",
        "questions-words.txt": ": family\nman king woman queen\n",
        "professions.json": json.dumps(["nurse", "doctor", "car"]),
        "pairs.json": json.dumps([["woman", "man"], ["queen", "king"]]),
        "gender_specific.json": json.dumps(["king", "queen"]),
        "weat7.jsonl": json.dumps(
            {
                "targ1": {"category": "a", "examples": ["nurse", "lunch"]},
                "targ2": {"category": "b", "examples": ["doctor", "car"]},
                "attr1": {"category": "f", "examples": ["woman", "queen"]},
                "attr2": {"category": "m", "examples": ["man", "king"]},
            }
        ),
    }
    for name, text in texts.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    words = ["man", "king", "woman", "queen", "nurse", "doctor", "breakfast", "lunch", "dinner", "car", "she", "he"]
    words += [f"word{number}" for number in range(80)]
    draw = np.random.default_rng(3)
    for name in ("glove.6B.300d.txt", "glove.txt", "skipgram.vec", "cbow.vec"):
        write_vectors(
            WordVectors(words=tuple(words), matrix=draw.normal(size=(len(words), 8)).astype(np.float32)), place / name
        )
    for name in ("dog.jpg", "beach.jpg", "seven.png"):
        pixels = draw.integers(0, 255, size=(8, 8, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(place / name)
    import zipfile

    with zipfile.ZipFile(place / "scans.zip", "w") as archive:
        archive.write(place / "seven.png", "a/seven.png")
    return place


@pytest.fixture
def desk(shop: Path, dates_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the examples can be given as they stand."""
    for each in shop.iterdir():
        (tmp_path / each.name).symlink_to(each)
    for name, folder in {"runs/dates": dates_model, **{name: GOLDEN / kind for name, kind in FOLDERS.items()}}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("line", RUN)
def test_an_example_runs(line, command, desk):
    words = [SHORTER.get(word, word) for word in shlex.split(line)[1:]]
    answer = command(*words, *shlex.split(RUN[line]))
    assert answer.code == 0, answer
    written = {"-o", "--output"} & set(line.split())
    assert answer.out or answer.err or written
