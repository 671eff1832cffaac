"""BERT's tokenizer (Devlin et al. 2019): building it from a vocabulary, learning a vocabulary, and `vocab.txt`.

`anatomy` counts the entries of a WordPiece vocabulary: whole words, continuations, characters, scripts, numbers, lengths.
"""

from __future__ import annotations

import itertools
import json
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.errors import InputError
from regard.reading import read_bytes, read_json_object
from regard.text.sampling import TooSmall, learn, spool

PADDING, UNKNOWN, CLASSIFICATION, SEPARATOR, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUATION = "##"
LONGEST_WORD = 100
"""Characters; a longer word becomes one unknown token."""

# Characters with at least this relative frequency are always in the vocabulary.
_COMMON = 1e-5


def backend_of(
    vocabulary: Mapping[str, int],
    *,
    lowercase: bool,
    strip_accents: bool | None = None,
    space_chinese: bool = True,
    extra_tokens: Sequence[str] = (),
) -> tokenizers.Tokenizer:
    """BERT's tokenizer with a given vocabulary, which has the special tokens.

    Text is cleaned (control characters are removed, all white space becomes spaces), and split at white space and around every
    punctuation mark and Chinese character. Each word is divided greedily: the longest piece that begins it, then the longest
    piece that continues, and so on; if that fails, the word is `[UNK]`.

    Arguments:
        vocabulary: from pieces to ids; pieces inside a word begin with `##`.
        lowercase: whether text is converted to lower case.
        strip_accents: whether accents are stripped; None = if `lowercase`, as published.
        space_chinese: whether every Chinese character is a word.
        extra_tokens: further special tokens, which get the ids after the vocabulary.

    >>> vocabulary = {piece: index for index, piece in enumerate([*SPECIAL, "un", "##aff", "##able"])}
    >>> backend_of(vocabulary, lowercase=True).encode("Unaffable").tokens
    ['[CLS]', 'un', '##aff', '##able', '[SEP]']
    """
    tokenizer = tokenizers.Tokenizer(
        models.WordPiece(
            vocab=dict(vocabulary),
            unk_token=UNKNOWN,
            max_input_chars_per_word=LONGEST_WORD,
            continuing_subword_prefix=CONTINUATION,
        )
    )
    tokenizer.normalizer = _normaliser(lowercase, strip_accents, space_chinese)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUATION)
    tokenizer.add_special_tokens([token for token in SPECIAL if token in vocabulary])
    tokenizer.add_special_tokens(list(extra_tokens))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLASSIFICATION}:0 $A:0 {SEPARATOR}:0",
        pair=f"{CLASSIFICATION}:0 $A:0 {SEPARATOR}:0 $B:1 {SEPARATOR}:1",
        special_tokens=[(token, vocabulary[token]) for token in (CLASSIFICATION, SEPARATOR)],
    )
    return tokenizer


def is_bert(layout: Mapping[str, object]) -> bool:
    """Whether the content of a tokenizer.json is BERT's: WordPiece after BERT's normaliser and splitter."""
    parts = [layout.get(part) or {} for part in ("model", "normalizer", "pre_tokenizer")]
    types = [part.get("type") for part in parts if isinstance(part, Mapping)]
    return types == ["WordPiece", "BertNormalizer", "BertPreTokenizer"]


def _normaliser(lowercase: bool, strip_accents: bool | None, space_chinese: bool) -> normalizers.Normalizer:
    return normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=space_chinese, strip_accents=strip_accents, lowercase=lowercase
    )


def train_bert(
    texts: Iterator[str], *, size: int, lowercase: bool, extra_tokens: Sequence[str] = ()
) -> tokenizers.Tokenizer:
    """BERT's tokenizer with a vocabulary of at most `size` entries learned from `texts`.

    The order is that of the released multilingual vocabulary: special tokens, all characters, all characters with `##`, then the
    learned pieces in the order of their merges.

    Raises:
        TooSmall: if the required characters take more than `size` entries.
    """
    room = size - len(SPECIAL) - len(extra_tokens)
    normalise = _normaliser(lowercase, None, True).normalize_str
    counts: Counter[str] = Counter()
    # Characters must be numbered before training (see `_train_wordpiece` in training.py), so there are two passes.
    with spool() as kept:
        for text in texts:
            normalised = normalise(text)
            counts.update(normalised)
            kept.put(normalised)
        alphabet = _alphabet(counts, room)
        if 2 * len(alphabet) > room:
            raise TooSmall(2 * len(alphabet) + size - room)
        draft = tokenizers.Tokenizer(models.WordPiece(unk_token=UNKNOWN))
        # Words that will be unknown are removed: too long ones, and those with a character that is left out, which is replaced
        # by a NUL, since cleaned text has no NUL.
        hopeless = Regex(rf"\A(?:[\s\S]{{{LONGEST_WORD + 1},}}|[\s\S]*\x00[\s\S]*)\z")
        draft.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Split(hopeless, "removed")]
        )
        trainer = trainers.WordPieceTrainer(
            vocab_size=size - len(extra_tokens),
            min_frequency=2,
            special_tokens=[*SPECIAL, *alphabet, *(CONTINUATION + character for character in alphabet)],
            show_progress=False,
        )
        left_out = {ord(character): "\0" for character in counts.keys() - set(alphabet) if not character.isspace()}
        learn(draft, (text.translate(left_out) if left_out else text for text in kept.texts()), trainer)
    vocabulary = json.loads(draft.to_str())["model"]["vocab"]
    return backend_of(vocabulary, lowercase=lowercase, extra_tokens=extra_tokens)


def _alphabet(counts: Counter[str], room: int) -> list[str]:
    """The characters in the vocabulary: all, or if they need more than half of the room, only the most frequent ones."""
    ordered = sorted(
        (character for character in counts if not character.isspace()), key=lambda each: (-counts[each], each)
    )
    fitting, common = room // 4, _COMMON * counts.total()
    return sorted(each for place, each in enumerate(ordered) if place < fitting or counts[each] >= common)


# `vocab.txt`: one piece per line; its id is the line number, from 0.

VOCABULARY_FILE = "vocab.txt"
NEEDED = (PADDING, UNKNOWN, CLASSIFICATION, SEPARATOR)


def read_vocabulary(file: Path) -> list[str]:
    """The pieces in a vocab.txt, in the order of their ids.

    Raises:
        InputError: if the file is missing, empty, truncated, damaged or not UTF-8; the message has the line.
    """
    content = read_bytes(file, f"give a {VOCABULARY_FILE}, or a folder that has one")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        if error.reason == "unexpected end of data":
            raise InputError(f"{file}: is truncated inside a character of line {line}; copy it again") from None
        raise InputError(f"{file}: is not UTF-8 text in line {line}; give BERT's {VOCABULARY_FILE}") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{file}: is damaged (it has a NUL in line {line}); copy it again")
    lines = text.split("\n")  # not at other line separators of Unicode
    whole = lines[-1] == ""
    pieces = [line.removesuffix("\r") for line in (lines[:-1] if whole else lines)]
    if not any(pieces):
        raise InputError(f"{file}: is empty; a {VOCABULARY_FILE} has one piece in each line")
    if not whole:
        _check_end(file, len(pieces))
    check_pieces(pieces, str(file))
    return pieces


def _check_end(file: Path, lines: int) -> None:
    """Check a last line without a line break: the file is truncated if config.json in its folder has more tokens."""
    config = file.parent / "config.json"
    wanted = read_json_object(config, "copy the file again").get("vocab_size") if config.exists() else None
    if isinstance(wanted, int) and lines < wanted:
        raise InputError(
            f"{file}: is truncated in line {lines} (config.json has {wanted} tokens, and the last line has no line break); "
            "copy it again"
        )


def check_pieces(pieces: Sequence[str], name: str) -> None:
    """Check that pieces are a vocabulary of BERT; `name` is its name in messages.

    Raises:
        InputError: for an empty or repeated piece (with its line), or a missing special token.
    """
    first: dict[str, int] = {}
    for line, piece in enumerate(pieces, start=1):
        if not piece:
            raise InputError(
                f"{name}: line {line} is empty; every line must have one piece, because its number is the id"
            )
        if first.setdefault(piece, line) != line:
            raise InputError(
                f"{name}: lines {first[piece]} and {line} are both {piece!r}; a piece has one id, so remove one and train "
                "the model again, or copy the file again"
            )
    missing = [token for token in NEEDED if token not in first]
    if missing:
        raise InputError(
            f"{name}: has no {', '.join(missing)}; it is truncated, or not a vocabulary of BERT: add the line, or copy it "
            "again"
        )
    if len(pieces) == sum(is_reserved(piece) for piece in pieces):
        raise InputError(f"{name}: has no vocabulary besides its special tokens; it is truncated, so copy it again")


def is_reserved(piece: str) -> bool:
    """Whether an entry does not represent text: `[PAD]`, `[unused7]`, `<S>`.

    >>> is_reserved("[CLS]"), is_reserved("<S>"), is_reserved("["), is_reserved("<")
    (True, True, False, False)
    """
    return len(piece) > 2 and (piece[0] + piece[-1]) in ("[]", "<>")


def is_lowercase(pieces: Sequence[str]) -> bool:
    """Whether a vocabulary is for lower-cased text: only reserved pieces have upper-case letters.

    >>> is_lowercase(["[UNK]", "dog", "##s"]), is_lowercase(["[UNK]", "Dog"])
    (True, False)
    """
    return all(piece == piece.lower() for piece in pieces if not is_reserved(piece))


def vocabulary_text(vocabulary: Mapping[str, int]) -> str | None:
    r"""The content of a vocab.txt; None if lines cannot represent the vocabulary (gaps in ids, or pieces with line breaks).

    Arguments:
        vocabulary: from pieces to ids, special tokens included.

    >>> vocabulary_text({"b": 1, "[UNK]": 0})
    '[UNK]\nb\n'
    """
    pieces = sorted(vocabulary, key=lambda piece: vocabulary[piece])
    whole = [vocabulary[piece] for piece in pieces] == list(range(len(pieces)))
    if not whole or any("\n" in piece or "\r" in piece for piece in pieces):
        return None
    return "".join(f"{piece}\n" for piece in pieces)


# Scripts of characters whose Unicode name does not begin with the name of their script.
_SCRIPTS = {
    "KATAKANA-HIRAGANA": "katakana",
    "MASCULINE": "latin",
    "FEMININE": "latin",
    "FULLWIDTH": "latin",
    "MICRO": "greek",
    "IDEOGRAPHIC": "cjk",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Anatomy:
    """Statistics of a vocabulary. Every entry is reserved, a continuation, or the beginning of a word.

    Arguments:
        total: the number of entries.
        reserved: the number of entries that do not represent text: `[CLS]`, `[unused7]`, `<S>`.
        unused: the number of reserved entries without a role, `[unused...]`.
        leading: the number of reserved entries before the first other entry.
        beginnings: the number of entries that are a word or begin one.
        continuations: the number of entries that continue a word, with `##`.
        single_beginnings, single_continuations: the numbers of these with a single character.
        numbers: the number of entries that consist of digits, in any script.
        scripts: the number of entries by the script of their first letter, in descending order; `-` without a letter. If a
            letter's Unicode name does not begin with a script (as for superscripts), its first word is used.
        lengths: the number of entries by length in characters, without `##` and reserved entries.
        first: the first entries, in order.
    """

    total: int
    reserved: int
    unused: int
    leading: int
    beginnings: int
    continuations: int
    single_beginnings: int
    single_continuations: int
    numbers: int
    scripts: dict[str, int]
    lengths: dict[int, int]
    first: tuple[str, ...]

    @property
    def continuation_share(self) -> float:
        """The share of continuations among all entries."""
        return self.continuations / self.total

    @property
    def single_characters(self) -> int:
        """The number of entries with a single character."""
        return self.single_beginnings + self.single_continuations

    @property
    def non_latin_share(self) -> float:
        """The share of other scripts than Latin among entries with a letter."""
        lettered = sum(count for script, count in self.scripts.items() if script != "-")
        return 1 - self.scripts.get("latin", 0) / lettered if lettered else 0.0

    def to_rows(self) -> list[tuple[str, str]]:
        """(name, value) rows of a table for display."""
        scripts = [f"{name} {count:,}" for name, count in list(self.scripts.items())[:8]]
        return [
            ("entries", f"{self.total:,}"),
            ("reserved", f"{self.reserved:,}, {self.unused:,} of them unused; the first {self.leading:,} entries"),
            ("begin a word", f"{self.beginnings:,} ({self.beginnings / self.total:.1%})"),
            ("go on with one", f"{self.continuations:,} ({self.continuation_share:.1%})"),
            ("of one character", f"{self.single_beginnings:,} and, going on, {self.single_continuations:,}"),
            ("of digits alone", f"{self.numbers:,}"),
            ("scripts", ", ".join(scripts)),
            ("longest", f"{max(self.lengths, default=0)} characters"),
        ]


def anatomy(pieces: Sequence[str], *, first: int = 10) -> Anatomy:
    """Compute the statistics of a vocabulary.

    Arguments:
        pieces: the pieces in the order of their ids, from `Tokenizer.tokens(range(size))` or the lines of a `vocab.txt`.
        first: the number of first entries to keep.

    Raises:
        InputError: for a vocabulary without entries.

    >>> found = anatomy(["[PAD]", "[UNK]", "a", "b", "##a", "##b", "ab", "1990"])
    >>> found.leading, found.continuations, found.single_characters, found.numbers
    (2, 2, 4, 1)
    """
    if not pieces:
        raise InputError("the vocabulary is empty; give its pieces, in the order of their ids")
    reserved = [piece for piece in pieces if is_reserved(piece)]
    others = [piece for piece in pieces if not is_reserved(piece)]
    continuations = [piece[len(CONTINUATION) :] for piece in others if _continues(piece)]
    beginnings = [piece for piece in others if not _continues(piece)]
    bare = [*beginnings, *continuations]
    lengths = Counter(map(len, bare))
    return Anatomy(
        total=len(pieces),
        reserved=len(reserved),
        unused=sum(piece.startswith("[unused") for piece in reserved),
        leading=sum(1 for _ in itertools.takewhile(is_reserved, pieces)),
        beginnings=len(beginnings),
        continuations=len(continuations),
        single_beginnings=sum(len(piece) == 1 for piece in beginnings),
        single_continuations=sum(len(piece) == 1 for piece in continuations),
        numbers=sum(piece.isdecimal() for piece in bare),
        scripts=dict(Counter(map(script, bare)).most_common()),
        lengths={length: lengths[length] for length in sorted(lengths)},
        first=tuple(pieces[:first]),
    )


def script(piece: str) -> str:
    """The script of the first letter, by its Unicode name; `-` if there is no letter.

    >>> [script(piece) for piece in ("Straße", "дом", "東京", "1990", "!")]
    ['latin', 'cyrillic', 'cjk', '-', '-']
    """
    letter = next((character for character in piece if unicodedata.category(character).startswith("L")), None)
    if letter is None:
        return "-"
    word = unicodedata.name(letter, "unnamed").split()[0]
    return _SCRIPTS.get(word, word.lower())


def _continues(piece: str) -> bool:
    return len(piece) > len(CONTINUATION) and piece.startswith(CONTINUATION)
