"""GPT-2's own vocabulary: our ids compared with those of transformers, and whether every text comes back.

python benchmarks/byte_level.py TOKENIZER FILE...

TOKENIZER is a folder with GPT-2's vocab.json and merges.txt. Of each file, perhaps gzip, every line is read; bytes that are no
UTF-8 are replaced.
"""

from __future__ import annotations

import argparse
import gzip
from importlib.metadata import version
from pathlib import Path
from typing import Any

from measured import record
from regard.text import Tokenizer

ROOT = Path(__file__).resolve().parent.parent
ODD = [
    "",
    " ",
    "\t\r\n",
    "🙂🏽👩‍👩‍👧",
    "\x00\x01\x7f",
    "a\u0301\u0300",
    "\ufffd",
    "x" * 20_000,
    "don't I'LL we've",
    "\u3000\u2028",
]
TOGETHER = 5_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    arguments = parser.parse_args()
    import transformers

    ours = Tokenizer.load(arguments.tokenizer)
    theirs: Any = transformers.GPT2TokenizerFast.from_pretrained(arguments.tokenizer)
    lines = other = lost = 0
    for texts in (ODD, *map(read, arguments.files)):
        for start in range(0, len(texts), TOGETHER):
            some = texts[start : start + TOGETHER]
            found = ours.encode_batch(some)
            lines += len(some)
            other += sum(a != b for a, b in zip(found, theirs(some)["input_ids"], strict=True))
            lost += sum(ours.decode(ids) != text for ids, text in zip(found, some, strict=True))
    record(
        ROOT / "docs" / "results" / "byte-level.json",
        title="Byte-level BPE: GPT-2's tokenizer compared with transformers'",
        command="python benchmarks/byte_level.py TOKENIZER FILE...",
        precision="integers",
        seed=None,
        target="the same ids, and every text back",
        figures={
            "lines": lines,
            "lines with other ids": other,
            "lines that do not come back": lost,
            "tokens": ours.size,
        },
        note=f"transformers {version('transformers')}. Shakespeare, Multi30k, translated news and Europarl, WikiText-2, film "
        f"reviews, short messages, noisy social text, and {len(ODD)} odd lines.",
    )


def read(file: Path) -> list[str]:
    opened: Any = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8", errors="replace", newline="") as lines:
        return lines.read().split("\n")


if __name__ == "__main__":
    main()
