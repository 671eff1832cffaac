"""BERT's `vocab.txt`: one piece in each line, its id the number of the line from 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from regard.errors import InputError
from regard.reading import read_bytes
from regard.text.bert import CLASSIFICATION, PADDING, SEPARATOR, UNKNOWN
from regard.text.layout import object_of

FILE_NAME = "vocab.txt"
NEEDED = (PADDING, UNKNOWN, CLASSIFICATION, SEPARATOR)


def read_vocabulary(file: Path) -> list[str]:
    """The pieces in a vocab.txt, in the order of their ids.

    Raises:
        InputError: for a file that is missing, empty, cut short, damaged or not UTF-8 text, naming the line.
    """
    content = read_bytes(file, f"give a {FILE_NAME}, or a folder that has one")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        if error.reason == "unexpected end of data":
            raise InputError(f"{file}: is cut short, inside a character of line {line}; copy it again") from None
        raise InputError(f"{file}: is not UTF-8 text in line {line}; give BERT's {FILE_NAME}") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{file}: is damaged (it holds a NUL in line {line}); copy it again")
    lines = text.split("\n")  # and at nothing else that Unicode takes for the end of a line
    whole = lines[-1] == ""
    pieces = [line.removesuffix("\r") for line in (lines[:-1] if whole else lines)]
    if not any(pieces):
        raise InputError(f"{file}: is empty; a {FILE_NAME} has one piece in each line")
    if not whole:
        _check_end(file, len(pieces))
    check_pieces(pieces, str(file))
    return pieces


def _check_end(file: Path, lines: int) -> None:
    """Refuse a last line that breaks off where the model beside it has more tokens; one without an end alone may be meant so."""
    config = object_of(file.parent / "config.json")
    wanted = config.get("vocab_size")
    if isinstance(wanted, int) and lines < wanted:
        raise InputError(
            f"{file}: is cut short in line {lines} (config.json says {wanted} tokens, and the last line has no end); "
            "copy it again"
        )


def check_pieces(pieces: Sequence[str], name: str) -> None:
    """Refuse what is no vocabulary of BERT's; `name` is what errors call it.

    Raises:
        InputError: naming the line of an empty or repeated piece, or the special token that is missing.
    """
    first: dict[str, int] = {}
    for line, piece in enumerate(pieces, start=1):
        if not piece:
            raise InputError(
                f"{name}: line {line} is empty; every line must hold one piece, since its number is the id"
            )
        if first.setdefault(piece, line) != line:
            raise InputError(
                f"{name}: lines {first[piece]} and {line} both hold {piece!r}; a piece has one id, so take one out and "
                "train the model anew, or copy the file again"
            )
    missing = [token for token in NEEDED if token not in first]
    if missing:
        raise InputError(
            f"{name}: has no {', '.join(missing)}; it is cut short, or no vocabulary of BERT's: add the line, or copy it again"
        )
    if len(pieces) == sum(is_reserved(piece) for piece in pieces):
        raise InputError(f"{name}: has no vocabulary beside its special tokens; it is cut short, so copy it again")


def is_reserved(piece: str) -> bool:
    """Whether an entry stands for no text: `[PAD]`, `[unused7]`, `<S>`.

    >>> is_reserved("[CLS]"), is_reserved("<S>"), is_reserved("["), is_reserved("<")
    (True, True, False, False)
    """
    return len(piece) > 2 and (piece[0] + piece[-1]) in ("[]", "<>")


def is_lowercase(pieces: Sequence[str]) -> bool:
    """Whether a vocabulary is one of lower-cased text: no piece but the reserved ones has a letter in upper case.

    >>> is_lowercase(["[UNK]", "dog", "##s"]), is_lowercase(["[UNK]", "Dog"])
    (True, False)
    """
    return all(piece == piece.lower() for piece in pieces if not is_reserved(piece))


def vocabulary_text(vocabulary: Mapping[str, int]) -> str | None:
    r"""The content of a vocab.txt; None where the vocabulary is none that lines can hold.

    Arguments:
        vocabulary: piece to id, the special tokens included.

    >>> vocabulary_text({"b": 1, "[UNK]": 0})
    '[UNK]\nb\n'
    """
    pieces = sorted(vocabulary, key=lambda piece: vocabulary[piece])
    whole = [vocabulary[piece] for piece in pieces] == list(range(len(pieces)))
    if not whole or any("\n" in piece or "\r" in piece for piece in pieces):
        return None
    return "".join(f"{piece}\n" for piece in pieces)
