"""Command lines drawn from the commands and options that there are, with values good and bad."""

from __future__ import annotations

import functools
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import yaml
from typer.main import get_command
from valid import recipe_of

from regard.cli.main import app

MODELS: dict[str, tuple[str, ...]] = {
    "translate": ("marian", "transformer", "bahdanau"),
    "generate": ("gpt2", "lstm", "text_to_text", "foreign-gpt2"),
    "prompt": ("gpt2",),
    "summarize": ("text_to_text",),
    "classify": ("classifier", "rater", "han", "vit"),
    "fill": ("masked", "t5"),
    "tag": ("tagger",),
    "answer": ("answerer",),
    "embed": ("encoder", "classifier", "elmo"),
    "search": ("encoder", "masked"),
    "look": ("bahdanau", "classifier", "gpt2", "vit", "captioner"),
    "walk": ("bahdanau", "marian"),
    "rank": ("masked", "gpt2"),
    "caption": ("captioner",),
    "vectors extract": ("masked", "elmo"),
}
"""Models that a command is for."""

GIVEN: dict[str, list[str]] = {
    "TEXT": ["the old dog sees", "abcd", "", " ", "x" * 3000, "[MASK]", "the [MASK] sees", "\udcff", "žluť 漢字 \u202e",
    "-", "--", "a\nb", "<2xx>"],
    "WORD": ["dog", "king", "unseen", "", "the", "0", "\udcff", "x" * 3000],
    "DATA": ["pairs.tsv", "texts.csv", "tags.conll", "questions.jsonl", "text.txt", "nowhere", "notes", "empty.txt",
    "binary.bin", "part=test"],
    "KEY=VALUE": [
        "training.steps=1", "training.steps=0", "training.steps=nan", "model.width=0", "model.width=1e9", "seed=-1",
        "seed=x", "x", "=", "a=b=c",
        "model=", "model.name=gpt2", "model.name=x", "training=1", "data.train=null", "data.train=nowhere",
        "training.device=cuda", "tokenizer.size=1",
        "training.learning_rate=.inf", "model={", "training.batch_tokens=1", "data={a: &a [*a]}", "model.heads=3",
        "training.precision=float16",
        "generation.beam=1e9", "model.dropout=1,0.5", "seed=1,2", "model.heads=1,2", "size=2", "\udcff=1",
    ],
    "VECTORS": ["vectors", "text.vec", "words.bin", "fasttext.bin", "nowhere", "notes", "empty.txt", "binary.bin",
    "text.txt", "/dev/zero"],
    "RECIPE": ["bahdanau.yaml", "classifier.yaml", "gpt2.yaml", "tagger.yaml", "nowhere.yaml", "text.txt", "binary.bin",
    "notes", "", "dtes", "empty.txt"],
    "FILE": [
        "text.txt", "texts.csv", "pairs.tsv", "questions.jsonl", "tags.conll", "image.png", "empty.txt", "binary.bin",
        "latin.txt", "odd.csv",
        "odd.jsonl", "nowhere", "notes", "", ".", "-", "new.txt", "new.html", "new.json", "new.npy", "new.svg",
        "nowhere/new.txt", "/dev/null", "/dev/zero",
    ],
    "DIR": ["new", "new", "notes", "text.txt", "nowhere/new", ".", "", "empty"],
    "LAYERS": ["1", "all", "-1", "0,1", "99", "x", "", "1-2", "last", "1e9"],
    "LANGUAGE": ["de", "", "x", "\udcff"],
    "ADDRESS": ["*", "encoder.layers.0", "nowhere", "", "[", "decoder*", "layers.0.attention"],
    "SUITE": ["translation", "look", "encoder", "decoder", "x", ""],
    "NAME=PYTHON": ["joeynmt=nowhere", "x", "=", "huggingface=/dev/null"],
    "TOKEN=NUMBER": ["the=1", "5=-1", "x", "=", "the=nan", "999999=1", "the=1e400"],
    "LIMIT=N": ["steps=1", "x", "steps=0", "tokens=1e30", "=", "seconds=nan"],
    "N-M": ["2-3", "3-2", "0-0", "x", "1-1000000000"],
    "QUERY": ["the dog", "", "\udcff"],
    "PATTERN": ["*.txt", "", "[", "**", "../*", "/*"],
    "IMAGE": ["image.png", "text.txt", "nowhere", "notes", "empty.txt"],
    "PIECE": ["text.txt", "nowhere", "binary.bin"],
    "COLUMN": ["text", "label", "0", "1", "-1", "99", "x", ""],
}  # fmt: skip
"""Values by what an argument or option is called in its help."""

GOOD: dict[str, list[str]] = {
    "--device": ["cpu", "auto"],
    "--dtype": ["float32", "auto", "bfloat16"],
    "--format": ["folder", "word2vec", "glove", "word2vec-binary", "fasttext"],
    "--case": ["exact", "lower", "ignore"],
    "--decoding": ["constrained", "greedy"],
    "--unit": ["paragraph", "line"],
    "--sample": ["once", "each"],
    "--score": ["sum", "token", "character", "byte"],
    "--template": ["review", "choice", "answer"],
    "--pooling": ["mean", "cls", "max"],
    "--layer": ["-1", "0", "1", "*"],
    "--minimum-count": ["1", "2"],
    "--unknown": ["skip", "zero"],
    "--cleaning": ["none", "wikitext"],
    "--sentences": ["split", "line"],
    "--query": ["a", "dog", "d"],
    "--word": ["dog", "king"],
    "--context": ["the old dog sees"],
    "--context-file": ["text.txt"],
    "--text": ["text"],
    "--prompt": ["query"],
    "--tokens": ["words"],
    "--scratch": ["empty"],
    "--pairs": ["word-pairs.tsv"],
    "--weat": ["weat.json"],
    "--similarity": ["similarity.tsv"],
    "--analogies": ["analogies.txt"],
    "--checkpoint": ["best", "last"],
    "--measure": ["loss", "seconds"],
    "--budget": ["steps=1"],
    "--cases": ["training"],
    "--peers": ["none"],
    "rank --output": ["new.svg", "new.png"],
    "embed --output": ["new.npy", "new.jsonl"],
    "look --output": ["new.html", "new.svg", "new.png"],
    "walk --output": ["new.html"],
    "plan --device": ["a100", "cpu"],
    "vectors analogy --method": ["add", "multiply"],
    "vectors evaluate --method": ["add", "multiply"],
    "vectors train --method": ["sgns", "cbow", "glove", "fasttext"],
    "vectors train TEXT": ["text.txt", "notes"],
    "vectors extract TEXT": ["text.txt", "notes"],
    "vectors bias --weat": ["weat.json"],
    "compare KEY=": ["seed=1,2", "training.learning_rate=0.1,0.2", "model.dropout=0.0,0.1"],
    "claims show NAME": ["copying", "deep-stacks"],
    "claims run NAME": ["copying", "one-direction", "deep-stacks"],
    "fill TEXT": ["the [MASK] sees", "the <extra_id_0> sees"],
    "prompt FILE": ["texts.csv"],
    "summarize FILE": ["text.txt"],
    "export OUTPUT": ["new"],
    "check FOLDER": ["notes", "vectors", "models/marian", "models/encoder"],
    "look TEXT": ["abcd", "the old dog sees", "image.png"],
    "compose PIECE": ["text.txt"],
    "vectors evaluate VECTORS": ["text.vec", "vectors", "words.bin"],
}
"""Values that fit, by the name of an option or by command and argument."""

COUNTS = [
    "1",
    "2",
    "3",
    "0",
    "3",
    "-1",
    "1.5",
    "1e9",
    "1000000000",
    "18446744073709551616",
    "-9223372036854775809",
    "nan",
    "inf",
    "0.5",
    "abc",
    "",
    "0x10",
    "١",
]
FEW = ["0", "1", "2", "-1", "abc", "nan", "1.5", "1e9"]
"""For what a user may rightly ask for much of, and has to wait."""

PATIENT = {
    "--epochs",
    "--maximum-length",
    "--seeds",
    "--contexts",
    "--ahead",
    "--rounds",
    "--threads",
    "--intruders",
    "--queries",
}
USUAL = ["auto", "x", "", "float32", "cpu", "cuda", "mean", "1", "none", "\udcff"]


def write_material(place: Path, models: Path, vectors: Path, data: Path) -> None:
    """A folder with all that command lines name."""
    shutil.copytree(data, place)
    for folder in models.iterdir():
        shutil.copytree(folder, place / "models" / folder.name)
        shutil.rmtree(place / "models" / folder.name / "data", ignore_errors=True)
    shutil.copytree(vectors / "folder", place / "vectors")
    for name in ("text.vec", "words.bin", "fasttext.bin"):
        if (vectors / name).is_file():
            shutil.copyfile(vectors / name, place / name)
    for name in ("bahdanau", "classifier", "gpt2", "tagger"):
        (place / f"{name}.yaml").write_text(yaml.safe_dump(recipe_of(name, Path())))
    words = [["man", "king"], ["dog", "cat"], ["bird", "house"], ["river", "bank"]]
    test = {"name": "test", "targets": words[:2], "attributes": words[2:], "source": "drawn"}
    (place / "weat.json").write_text(json.dumps([test]))
    (place / "word-pairs.tsv").write_text("man\twoman\nking\tqueen\n")
    (place / "similarity.tsv").write_text("dog\tcat\t8\nman\tking\t6\nriver\tbank\t5\nold\tnew\t1\n")
    (place / "analogies.txt").write_text(": some\nman king woman queen\ndog barks cat sleeps\n")
    (place / "empty.txt").write_text("")
    (place / "empty").mkdir()
    (place / "binary.bin").write_bytes(Random(1).randbytes(3000))
    (place / "latin.txt").write_bytes("žluť é\nü\n".encode("latin2"))
    (place / "odd.csv").write_text('text,label\n"unclosed,1\na,b,c,d\n\n')
    (place / "odd.jsonl").write_text('{"text": 1}\n[]\n{"text"\nnull\n{"text": "a", "label": null}\n')


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, list[Any]]]:
    """Each command with its arguments and options, groups of commands gone through."""
    group = get_command(app) if group is None else group
    if hasattr(group, "commands"):
        for name, each in sorted(group.commands.items()):
            yield from commands(each, (*path, name))
    else:
        yield " ".join(path), list(group.params)


@functools.cache
def _known() -> tuple[tuple[str, list[Any]], ...]:
    return tuple(commands())


def value_of(name: str, part: Any, draw: Random, care: float) -> str:
    """A value for an argument or option.

    Arguments:
        care: how often a value is taken that mostly fits, from 0 to 1.
    """
    called = str(part.metavar or "").removesuffix("...").removeprefix("[").removesuffix("]")
    option = part.opts[0] if part.param_type_name == "option" else ""
    careful = draw.random() < care
    names = [f"{name} {each}" for each in [*(part.opts if option else []), called]] + list(part.opts if option else [])
    fitting = [
        values
        for key, values in GOOD.items()
        if key in names or (key.endswith("=") and any(each.startswith(key) for each in names))
    ]
    if careful and fitting:
        return draw.choice(fitting[-1] if name.count(" ") else fitting[0])
    if not careful and draw.random() < 0.05:
        return draw.choice(["", "\udcff", "x" * 3000, "--help", "-", "\n"])

    def one_of(values: list[str]) -> str:
        return draw.choice(values[:3] if careful else values)

    if called == "MODEL" or (called == "FOLDER" and name != "search"):
        suited = MODELS.get(name)
        if suited and (careful or draw.random() < 0.5):
            return "models/" + draw.choice(suited)
        others = ["models/" + each for each in sorted({each for some in MODELS.values() for each in some})]
        return draw.choice(
            others
            if careful
            else [*others, "nowhere", "notes", "text.txt", "", ".", "/", "hub:nobody/nothing", "/dev/zero"]
        )
    if called == "FOLDER":
        return one_of(["notes", "texts.csv", "notes", "nowhere", "empty", "text.txt", "binary.bin", ""])
    if name.startswith("vectors bias") and called == "VECTORS" and draw.random() < 0.2:
        return "models/masked"
    if option in ("--output", "-o") or called in ("TARGET", "OUTPUT", "PATH"):
        ending = {"FILE.html": [".html"], "FILE": [".html", ".json", ".tsv", ".npy"]}.get(
            called, ["", ".txt", ".vec.gz"]
        )
        return one_of(
            [*("new" + draw.choice(ending) for _ in range(3)), "notes", "text.txt", "nowhere/new", "", ".", "/dev/full"]
        )
    if "RECIPE" in called:
        return one_of(GIVEN["RECIPE"])
    for key in GIVEN:
        if called.startswith(key):
            return one_of(GIVEN[key])
    if called == "SOURCE":
        return one_of(GIVEN["VECTORS"])
    if called in ("A", "B", "C"):
        return one_of(["dog", "king", "man", *GIVEN["WORD"]])
    if called in ("CONTEXT", "QUESTION"):
        return one_of(GIVEN["TEXT"])
    if option in PATIENT:
        return one_of(["1", "2", "3", *FEW])
    named = re.findall(r"[\w-]+", part.help or "")
    if not careful and called in ("NAME", "PLACE", "NAMES", "") and named and draw.random() < 0.4:
        return draw.choice(named)
    return one_of(USUAL if called in ("NAME", "NAMES", "PLACE") else COUNTS)


def line(draw: Random) -> list[str]:
    """A command line."""
    known, care = _known(), draw.choice([0.6, 0.95, 0.99, 1.0, 1.0])
    name, parts = draw.choice(known)
    words: list[str] = name.split()
    chance = draw.random()
    if chance < 0.02:
        return [draw.choice(["", "x", "--help", "--version", "-h", "\udcff", words[0][:-1], "--json"]), *words[1:]]
    arguments = [part for part in parts if part.param_type_name == "argument"]
    options = [part for part in parts if part.param_type_name == "option"]
    given: list[list[str]] = []
    for part in arguments:
        if part.required or draw.random() < 0.7:
            count = 1 if part.nargs != -1 else draw.choice([3, 4] if name == "vectors doesnt-match" else [1, 1, 2])
            given += [[value_of(name, part, draw, care)] for _ in range(count if draw.random() < 0.98 else 0)]
    for part in options:
        wanted = part.required or (name == "train" and "--output" in part.opts)
        if (wanted and draw.random() < 0.97) or draw.random() < 2.0 / max(2, len(options)):
            spelt = draw.choice([*part.opts, *part.secondary_opts])
            if spelt == "--prove-resume" or (spelt == "--code" and draw.random() < 0.95):
                continue  # the first trains in processes of its own, which takes longer than a case may
            for _ in range(draw.choice([1, 1, 2]) if part.multiple else 1):
                if part.is_flag:
                    given.append([spelt])
                elif draw.random() < 0.99:
                    given.append([spelt, value_of(name, part, draw, care)])
                else:
                    given.append([spelt])
    if draw.random() < 0.03:
        given.append([draw.choice(["--unknown", "--jsn", "-x", "--output", "extra", "--code"])])
    if draw.random() < 0.1:
        draw.shuffle(given)
    if name == "bench":
        given.append(["--quick"])
    if name == "train":
        given.append(["training.steps=1"])
    return words + [word for some in given for word in some]


def bring(words: list[str], material: Path, work: Path) -> None:
    """Copy what a command line names, and what its recipes name, into the folder where it runs."""
    wanted = set(words) & {path.name for path in material.iterdir()}
    if any(word.endswith(".yaml") for word in words):
        wanted |= {"pairs.tsv", "texts.csv", "text.txt", "tags.conll"}
    for name in sorted(wanted):
        if (material / name).is_dir():
            shutil.copytree(material / name, work / name)
        else:
            shutil.copyfile(material / name, work / name)
    for word in words:
        if word.startswith("models/") and (material / word).is_dir():
            shutil.copytree(material / word, work / word, dirs_exist_ok=True)
