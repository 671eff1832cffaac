"""BERT's tokenizer (Devlin et al. 2019): its layout around a vocabulary, learning the vocabulary, and `vocab.txt`.

`anatomy` counts what a WordPiece vocabulary is made of: whole words, continuations, characters, scripts, numbers, lengths.
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
"""Characters; a longer word is unknown as a whole."""

# A character at least this frequent is never left out of a vocabulary.
_COMMON = 1e-5


def backend_of(
    vocabulary: Mapping[str, int],
    *,
    lowercase: bool,
    strip_accents: bool | None = None,
    space_chinese: bool = True,
    extra_tokens: Sequence[str] = (),
) -> tokenizers.Tokenizer:
    """BERT's tokenizer around a vocabulary that has the special tokens.

    Text is cleaned (control characters go, all white space becomes spaces), split at white space and around every mark of
    punctuation and Chinese character; each word is the longest piece that begins it, then the longest that continues, and so
    on; a word for which that fails is `[UNK]`.

    Arguments:
        vocabulary: piece to id; pieces inside a word begin with `##`.
        lowercase: whether case is dropped.
        strip_accents: whether accents are; null as published, with case.
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
    """Whether a tokenizer file is of this layout: WordPiece behind BERT's way to clean and split text."""
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
    """BERT's tokenizer with a vocabulary of at most `size` learned from `texts`.

    The order is that of the released multilingual one: the special tokens, every character, every character again as it stands
    inside a word, then what was learned, first the pieces joined first.

    Raises:
        TooSmall: the characters that must be kept take more than `size`.
    """
    room = size - len(SPECIAL) - len(extra_tokens)
    normalise = _normaliser(lowercase, None, True).normalize_str
    counts: Counter[str] = Counter()
    # What must be numbered beforehand are the characters (see `_train_wordpiece` of training.py), so there are two passes.
    with spool() as kept:
        for text in texts:
            normalised = normalise(text)
            counts.update(normalised)
            kept.put(normalised)
        alphabet = _alphabet(counts, room)
        if 2 * len(alphabet) > room:
            raise TooSmall(2 * len(alphabet) + size - room)
        draft = tokenizers.Tokenizer(models.WordPiece(unk_token=UNKNOWN))
        # Words that will be unknown teach nothing: too long ones, and those with a character that is left out, here a NUL,
        # which no cleaned text has.
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
    """The characters a vocabulary keeps: all, or where that takes more than half of the room, not the rarest."""
    ordered = sorted(
        (character for character in counts if not character.isspace()), key=lambda each: (-counts[each], each)
    )
    fitting, common = room // 4, _COMMON * counts.total()
    return sorted(each for place, each in enumerate(ordered) if place < fitting or counts[each] >= common)


# `vocab.txt`: one piece in each line, its id the number of the line from 0.

VOCABULARY_FILE = "vocab.txt"
NEEDED = (PADDING, UNKNOWN, CLASSIFICATION, SEPARATOR)


def read_vocabulary(file: Path) -> list[str]:
    """The pieces in a vocab.txt, in the order of their ids.

    Raises:
        InputError: for a file that is missing, empty, cut short, damaged or not UTF-8 text, naming the line.
    """
    content = read_bytes(file, f"give a {VOCABULARY_FILE}, or a folder that has one")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        if error.reason == "unexpected end of data":
            raise InputError(f"{file}: is cut short, inside a character of line {line}; copy it again") from None
        raise InputError(f"{file}: is not UTF-8 text in line {line}; give BERT's {VOCABULARY_FILE}") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{file}: is damaged (it holds a NUL in line {line}); copy it again")
    lines = text.split("\n")  # and at nothing else that Unicode takes for the end of a line
    whole = lines[-1] == ""
    pieces = [line.removesuffix("\r") for line in (lines[:-1] if whole else lines)]
    if not any(pieces):
        raise InputError(f"{file}: is empty; a {VOCABULARY_FILE} has one piece in each line")
    if not whole:
        _check_end(file, len(pieces))
    check_pieces(pieces, str(file))
    return pieces


def _check_end(file: Path, lines: int) -> None:
    """Refuse a last line that breaks off where the model next to it has more tokens; one without an end alone may be meant so."""
    config = file.parent / "config.json"
    wanted = read_json_object(config, "copy the file again").get("vocab_size") if config.exists() else None
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
                f"{name}: lines {first[piece]} and {line} both hold {piece!r}; a piece has one id, so remove one and train "
                "the model again, or copy the file again"
            )
    missing = [token for token in NEEDED if token not in first]
    if missing:
        raise InputError(
            f"{name}: has no {', '.join(missing)}; it is cut short, or no vocabulary of BERT's: add the line, or copy it "
            "again"
        )
    if len(pieces) == sum(is_reserved(piece) for piece in pieces):
        raise InputError(f"{name}: has no vocabulary besides its special tokens; it is cut short, so copy it again")


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


# What the first word of a character's Unicode name says otherwise than the name of its script.
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
    """A vocabulary in figures. Every entry is reserved, a continuation, or begins a word.

    Arguments:
        total: all entries.
        reserved: entries that stand for no text: `[CLS]`, `[unused7]`, `<S>`.
        unused: those of them that stand for nothing at all.
        leading: how many reserved entries there are before the first other one.
        beginnings: entries that begin a word, or are one.
        continuations: entries that continue a word, `##` before them.
        single_beginnings, single_continuations: of both, those of one character.
        numbers: entries of digits alone, in any script.
        scripts: entries by the script of their first letter, most first; `-` for those without a letter. A letter whose Unicode
            name begins with no script, such as one in superscript, goes under the first word of that name.
        lengths: entries of each number of characters, `##` not counted, reserved ones left out.
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
        """Of all entries."""
        return self.continuations / self.total

    @property
    def single_characters(self) -> int:
        """Entries of one character, in either form."""
        return self.single_beginnings + self.single_continuations

    @property
    def non_latin_share(self) -> float:
        """Entries in scripts other than Latin, of those with a letter."""
        lettered = sum(count for script, count in self.scripts.items() if script != "-")
        return 1 - self.scripts.get("latin", 0) / lettered if lettered else 0.0

    def to_rows(self) -> list[tuple[str, str]]:
        """Name and figure, as a table for people."""
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
    """The figures of a vocabulary.

    Arguments:
        pieces: in the order of their ids, as `Tokenizer.tokens(range(size))` or the lines of a `vocab.txt` give them.
        first: how many of the first entries to keep.

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
    """The script of the first letter, by its name in Unicode; `-` where there is no letter.

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
