"""The two files that GPT's and GPT-2's tokenizers are told by: pieces with their ids, and the merges that make them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import tokenizers

from regard.errors import InputError
from regard.reading import read_json, read_text
from regard.text import byte_level, gpt

FILES = (
    ("vocab.json", "merges.txt"),
    ("encoder.json", "vocab.bpe"),
    ("encoder_bpe_40000.json", "vocab_40000.bpe"),
)
"""The pieces and the merges, as other libraries call them, and as the authors of GPT-2 and of GPT did."""

NAMES = frozenset(name for pair in FILES for name in pair)


def files_in(folder: Path) -> tuple[Path, Path] | None:
    """The two files where a folder has them."""
    for names in FILES:
        vocabulary, merges = (folder / name for name in names)
        if vocabulary.is_file() and merges.is_file():
            return vocabulary, merges
    return None


def read_files(vocabulary: Path, merges: Path) -> tokenizers.Tokenizer:
    """The tokenizer of two files: GPT's where pieces mark the ends of words, else GPT-2's.

    Raises:
        InputError: for one that is missing, damaged, or of another tokenizer, naming the line of a merge.
    """
    ids = read_json(vocabulary, "copy the file again")
    if not isinstance(ids, dict) or not all(type(index) is int for index in ids.values()):
        raise InputError(f"{vocabulary}: does not map pieces to ids; give GPT-2's {vocabulary.name}")
    if len(set(ids.values())) < len(ids):
        twice = next(index for index, count in Counter(ids.values()).items() if count > 1)
        raise InputError(f"{vocabulary}: several pieces have the id {twice}; copy the file again")
    backend_of = gpt.backend_of if gpt.marks_ends(ids) else byte_level.backend_of
    try:
        return backend_of(ids, _merges(merges))
    except InputError as error:
        raise InputError(f"{error}" if str(error).startswith(str(merges)) else f"{vocabulary}: {error}") from None


def _merges(path: Path) -> list[tuple[str, str]]:
    lines = read_text(path, f"give GPT-2's {path.name}").split("\n")
    found: list[tuple[str, str]] = []
    for number, line in enumerate(lines, start=1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, space, right = line.rstrip("\r").partition(" ")
        if not (left and space and right) or " " in right:
            raise InputError(f"{path}, line {number}: is no merge of two pieces ({line[:40]!r}); copy the file again")
        found.append((left, right))
    return found
