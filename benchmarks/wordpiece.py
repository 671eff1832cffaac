"""BERT's tokenizer compared with transformers' on all text in a folder: equal ids, speed in one run; a vocabulary's anatomy.

python benchmarks/wordpiece.py TEXTS VOCABULARIES

TEXTS is a folder with a folder for each data set: every line of a file of text is compared, plain or gzip, of *.conll and eng.* a
sentence, of SQuAD's JSON a paragraph or question. VOCABULARIES holds bert-base-uncased-vocab.txt, bert-base-cased-vocab.txt and
bert-base-multilingual-cased-vocab.txt, as they were released.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import logging
import os
import sys
import tempfile
import time
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault(
    "RAYON_NUM_THREADS", "1"
)  # both are the same library's threads; one, so that a busy machine is fair

from measured import record
from regard.text import Tokenizer, tokenizer_config
from regard.text.bert import Anatomy, anatomy

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
VOCABULARIES = {
    "uncased": "bert-base-uncased-vocab.txt",
    "cased": "bert-base-cased-vocab.txt",
    "multilingual": "bert-base-multilingual-cased-vocab.txt",
}
SUFFIXES = (".txt", ".tsv", ".csv", ".conll", ".en", ".de", ".fr", ".train", ".testa", ".jsonl", ".json", ".md")
NOT_TEXT = ("jsb-chorales", "tokenizers", "mnist", "omniglot")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
AT_ONCE = 2_000
LECTURES = {
    "entries": 119_547,
    "share that goes on with a word": 0.365,
    "reserved entries at the beginning": 106,
    "characters": 9_997,
    "entries of one character": 19_994,
}
"""The figures of the lectures on the multilingual vocabulary."""


@dataclass
class Count:
    """What came out for one vocabulary."""

    lines: int = 0
    differing: int = 0
    literal: int = 0
    examples: list[str] = field(default_factory=list)
    tokens: int = 0
    ours: float = 0.0
    theirs: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path)
    parser.add_argument("vocabularies", type=Path)
    arguments = parser.parse_args()
    figures: dict[str, Any] = {}
    for name, file in VOCABULARIES.items():
        ours, theirs = Tokenizer.load(arguments.vocabularies / file), reference(arguments.vocabularies / file)
        count, odd = Count(), Count()
        for lines in batches(all_lines(arguments.texts)):
            compare(ours, theirs, lines, count)
        for lines in batches(unusual()):
            compare(ours, theirs, lines, odd)
        figures[f"{name}: lines of text, with other ids"] = [f"{count.lines:,}", count.differing]
        figures[f"{name}: lines of odd characters, with other ids, of which spell a special token"] = [
            f"{odd.lines:,}",
            odd.differing,
            odd.literal,
        ]
        speeds = [count.tokens / seconds / 1e6 for seconds in (count.ours, count.theirs)]
        figures[f"{name}: million tokens/s, ours and transformers'"] = [round(speed, 3) for speed in speeds]
        figures[f"{name}: ours over transformers'"] = round(count.theirs / count.ours, 2)
        for example in count.examples + odd.examples:
            print(f"{name}: {example!r}", file=sys.stderr)
        if name == "uncased":
            figures |= long_texts(ours, theirs)
            figures["Unaffable, uncased, ours and transformers'"] = [
                " ".join(ours.tokens(ours.encode("Unaffable"))),
                " ".join(theirs.tokenize("Unaffable")),
            ]
    record(
        RESULTS / "wordpiece.json",
        title="BERT's tokenizer compared with transformers'",
        command="python benchmarks/wordpiece.py TEXTS VOCABULARIES",
        precision="ids",
        seed=None,
        target="on every line the ids of transformers, except where a line spells a special token, which is text to us",
        figures=figures,
        threads=1,
        note="Text: lines of WikiText-2, Multi30k (en, de, fr), five sets of English and German sentences, SST-2, IMDb, "
        "CoNLL-2003, WNUT17, SQuAD 1.1, SMS Spam, MRPC, STS-B, WiC, CoarseWSD-20, Flickr8k's captions, Tiny Shakespeare and some "
        "word lists. Odd: every character of Unicode in and next to a word, emoji of several characters, control characters. "
        "Both encode 2,000 lines of text at a time, in turns, on one thread, without special tokens; theirs gives no masks "
        "or segments. Of one long line we tokenize parts, which takes less memory and time. Released vocabularies have longer "
        "pieces for Unaffable than the three of the authors' example.",
    )
    vocabulary(arguments.vocabularies / VOCABULARIES["multilingual"])


def reference(file: Path) -> Any:
    """What transformers makes of a vocabulary and the config that we write with it."""
    import transformers

    logging.getLogger("transformers.tokenization_utils_base").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "vocab.txt").write_bytes(file.read_bytes())
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config(Tokenizer.load(file))))
        return transformers.AutoTokenizer.from_pretrained(folder)


def compare(ours: Tokenizer, theirs: Any, lines: list[str], count: Count) -> None:
    def mine() -> list[list[int]]:
        return ours.encode_batch(lines)

    def its() -> list[list[int]]:
        options = {"add_special_tokens": False, "return_attention_mask": False, "return_token_type_ids": False}
        return theirs(lines, **options)["input_ids"]

    found: dict[str, list[list[int]]] = {}
    turns = [("ours", mine), ("theirs", its)]
    for name, action in turns if count.lines // AT_ONCE % 2 else reversed(turns):
        began = time.perf_counter()
        found[name] = action()
        setattr(count, name, getattr(count, name) + time.perf_counter() - began)
    count.lines += len(lines)
    count.tokens += sum(map(len, found["ours"]))
    for line, one, other in zip(lines, found["ours"], found["theirs"], strict=True):
        if one != other:
            count.differing += 1
            count.literal += any(token in line for token in SPECIAL)
            count.examples += [line[:200]] * (len(count.examples) < 5)


def long_texts(ours: Tokenizer, theirs: Any) -> dict[str, Any]:
    """Seconds, ours and theirs, and whether the ids are equal."""
    sentence = "The quick brown fox jumped over the lazy dog, naïvely \u2014 \U0001f98a! "
    figures = {}
    for name, text in (
        ("a line of 10 MB", sentence * (10_000_000 // len(sentence.encode()))),
        ("a word of 1 MB", "a" * 1_000_000),
        ("1 MB of Chinese", "\u4e2d\u6587" * 166_667),
        ("1 MB of control characters", "\x00\x01\u200b\ufeff" * 125_000),
        ("1 MB of stops", "." * 1_000_000),
    ):
        began = time.perf_counter()
        mine = ours.encode(text)
        middle = time.perf_counter()
        its = theirs(text, add_special_tokens=False)["input_ids"]
        seconds = [round(middle - began, 2), round(time.perf_counter() - middle, 2)]
        figures[f"{name}: equal ids; seconds, ours and transformers'"] = [str(mine == its), *seconds]
    return figures


def batches(lines: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(itertools.islice(lines, AT_ONCE)):
        yield batch


def all_lines(folder: Path) -> Iterator[str]:
    """Every line of text under a folder."""
    for path in sorted(folder.rglob("*")):
        plain = path.name.removesuffix(".gz")
        if not path.is_file() or not plain.endswith(SUFFIXES) or set(path.relative_to(folder).parts) & {*NOT_TEXT}:
            continue
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8", "replace")
        if plain.startswith("dev-v1.1"):
            yield from squad(json.loads(text))
        elif plain.endswith((".conll", ".train", ".testa")):
            for sentence in text.split("\n\n"):
                yield " ".join(line.split()[0] for line in sentence.splitlines() if line.strip())
        else:
            yield from (line for line in text.split("\n") if line.strip())


def squad(values: Any) -> Iterator[str]:
    for article in values["data"]:
        for paragraph in article["paragraphs"]:
            yield paragraph["context"]
            yield from (question["question"] for question in paragraph["qas"])


def unusual() -> Iterator[str]:
    """Every character there is, in a word and next to one; emoji of several characters; control characters."""
    for code in range(0x110000):
        character = chr(code)
        if unicodedata.category(character) != "Cs":
            yield f"word{character}word {character} the{character}"
    yield from (
        "👩‍👩‍👧‍👦 👍🏽 🏳️‍🌈 🇩🇪🇫🇷 1️⃣ ❤️",
        "e\u0301\u0308a\u0327",
        "\x00\x07a\x1bb\x7f",
        "\r\n\t\x0b\x0c \u2028\u2029\u0085",
    )
    yield from (" ".join(SPECIAL), "the [MASK] sat", "[unused1] ##ing ## # ###")


def vocabulary(file: Path) -> None:
    """Record what the multilingual vocabulary is made of, and the lectures' figures."""
    found = anatomy(file.read_text(encoding="utf-8").split("\n")[:-1], first=106)
    ours = {
        "entries": found.total,
        "share that goes on with a word": round(found.continuation_share, 4),
        "reserved entries at the beginning": found.leading,
        "characters": found.single_beginnings,
        "entries of one character": found.single_characters,
    }
    figures: dict[str, Any] = {
        name: f"{spoken(value)}; the lectures have {spoken(LECTURES[name])}" for name, value in ours.items()
    }
    record(
        RESULTS / "vocabulary.json",
        title="Anatomy of multilingual BERT's vocabulary",
        command="python benchmarks/wordpiece.py TEXTS VOCABULARIES",
        precision="counted",
        seed=None,
        figures=figures | more(found),
        threads=1,
        note="bert-base-multilingual-cased-vocab.txt as released (SHA-256 fe0fda7c425b...). Every character is in it in both "
        "forms, beginning a word and going on with one.",
    )


def more(found: Anatomy) -> dict[str, Any]:
    first = found.first
    named = [piece for piece in first if not piece.startswith("[unused")]
    return {
        "the first entries": f"{len(first)}: {', '.join(named)} and {len(first) - len(named)} unused",
        "entries that begin a word": f"{found.beginnings:,}",
        "entries that go on with one": f"{found.continuations:,}",
        "entries of digits alone": f"{found.numbers:,}",
        "in scripts other than Latin, of those with a letter": f"{found.non_latin_share:.1%}",
        "scripts": ", ".join(f"{name} {count:,}" for name, count in list(found.scripts.items())[:12]),
        "characters of an entry": ", ".join(f"{length}: {count:,}" for length, count in found.lengths.items()),
    }


def spoken(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{100 * value:.1f} %"


if __name__ == "__main__":
    main()
