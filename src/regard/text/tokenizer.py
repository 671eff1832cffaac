"""Text to token ids and back: `tokenizers.Tokenizer` with named roles for its special tokens."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar, cast

import tokenizers

from regard.errors import InputError
from regard.files import replace_file
from regard.text import bert, bpe
from regard.text.files import (
    CONFIG_NAME,
    TOKENIZER_FILE,
    check_basic,
    check_layout,
    cleaning_of_config,
    overruled,
    special_names,
    text_of,
    tokenizer_config,
    with_prefix_space,
)
from regard.text.sampling import guarded, half_a_pair
from regard.text.spans import Part, Span, bert_spans, grouped, parts, spans_of
from regard.text.training import train_backend
from regard.text.vocabulary import CLEANED, INPUT_TOKENS, NO_NAMES, Kind, Vocabulary
from regard.text.warnings import CutTexts, UnknownCharacters

__all__ = ["CutTexts", "Tokenizer", "UnknownCharacters"]

T = TypeVar("T")


class Tokenizer(Vocabulary):
    """Strings to token ids and back, with named roles for padding, start, end and unknown.

    `train` trains one on texts, `load` reads a `tokenizer.json` or BERT's `vocab.txt`. Encoding adds no special tokens, and the
    name of a special token in a text ("</s>") is ordinary text, never the special token. Instances are immutable, equal if
    their content is equal, and can be shared between threads and sent to other processes.

    >>> tokenizer = Tokenizer.train(["a dog.", "the dog."], kind="word", size=20)
    >>> ids = tokenizer.encode("the dog.")
    >>> tokenizer.tokens(ids)
    ['▁the', '▁dog', '.']
    >>> tokenizer.decode([tokenizer.start_id, *ids, tokenizer.end_id])
    'the dog.'
    >>> tokenizer.spans("the dog.")
    [(0, 3), (3, 7), (7, 8)]
    """

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        kind: Kind | str,
        size: int,
        lowercase: bool = False,
        extra_tokens: Sequence[str] = (),
        sentinels: int = 0,
    ) -> Tokenizer:
        """A tokenizer trained on `texts`; the same texts in the same order give the same tokenizer.

        `bert` is BERT's WordPiece: `[PAD]`, `[UNK]`, `[CLS]`, `[SEP]` and `[MASK]` have the ids 0 to 4; text is split at white
        space, and around punctuation marks and Chinese characters, and spaces are lost; `lowercase` also strips accents; a word
        of more than 100 characters is unknown. Characters take at most half of the vocabulary, if those left out are rarer than
        one in 100,000.

        `byte_bpe` is GPT-2's tokenizer: its pieces are sequences of bytes, so no text is unknown, and decoding returns the exact
        text. It has one special token, `<|endoftext|>`, for all roles.

        `roberta` is the same with RoBERTa's special tokens: `<s>`, `<pad>`, `</s>` and `<unk>` have the ids 0 to 3, `<mask>` the
        last; between two texts there is `</s></s>`.

        `spelling` is ELMo's: the bytes of each word, with a space before them; words are separated by white space. It is not
        trained, the texts are not read, and its size is always 259.

        `performance` and `grid` are event tokens of music (`regard.text.events`). They are not trained either; their sizes are
        always 391 and 132.

        All other kinds have Marian's special tokens: `</s>` and `<unk>` have the ids 0 and 1, `<pad>` has the last id and also
        starts a target. The text is normalised to Unicode's composed form (NFC), and to lower case with `lowercase`. Apart from
        that, decoding returns the exact text with spaces, if every part is in the vocabulary; except that U+2581, which marks a
        space inside a token, becomes a space in all kinds but `character`.

        Arguments:
            texts: read once, as a stream.
            kind: `bpe` (Sennrich et al. 2016), `unigram` (Kudo 2018), `wordpiece` (pieces inside a word start with `##`; Wu et
                al. 2016) and `bert` have word pieces; `word` has whole words and punctuation marks, `character` single
                characters. A token after a space begins with U+2581; punctuation marks and line breaks are separate tokens:
                "the dog." is "▁the", "▁dog", ".".
            size: the largest number of tokens, with special tokens. If the text has fewer, the vocabulary is smaller; `word` and
                `character` keep the most frequent ones, and encode the others as `<unk>`.
            lowercase: whether text is converted to lower case.
            extra_tokens: further special tokens of the form `<name>`, such as `<2de>`. Each has one id (`id_of`), the last ones
                except that of a `<pad>`; they are never found in a text, and not decoded.
            sentinels: the number of T5's sentinels. The layout is then T5's: `<pad>`, `</s>` and `<unk>` have the ids 0 to 2,
                and the sentinels the last ones, in descending order: `<extra_id_0>` has the last. Not for `bert`, `byte_bpe` and
                `roberta`.

        Raises:
            InputError: no text, unknown kind, a `size` that is too small for the alphabet, an extra token of another form, or
                sentinels for a kind that has none.

        >>> Tokenizer.train(["aab", "ab"], kind="character", size=10).encode("ab?")
        [2, 3, 1]
        >>> Tokenizer.train(["aab"], kind="character", size=10, extra_tokens=["<2de>"]).id_of("<2de>")
        4
        >>> Tokenizer.train(["aab"], kind="character", size=10, sentinels=2).sentinels
        (6, 5)
        """
        return cls(
            train_backend(
                texts, kind=kind, size=size, lowercase=lowercase, extra_tokens=extra_tokens, sentinels=sentinels
            )
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """The tokenizer in a folder's `tokenizer.json` or `vocab.txt`, or in such a file itself; nothing is downloaded.

        If there is neither, the two files of GPT, GPT-2 or RoBERTa are read: `vocab.json` and `merges.txt`, or under their
        original names, such as `encoder.json` and `vocab.bpe`.

        A `vocab.txt` is BERT's, with one piece in each line. `do_lower_case`, `strip_accents` and `tokenize_chinese_chars` are
        taken from the tokenizer_config.json next to it, or derived as in `from_vocabulary`. If a folder has both files, the
        tokenizer.json is read, because it is complete. If it is BERT's and contradicts the tokenizer_config.json, the latter is
        used, as by the programs that wrote it.

        Raises:
            InputError: the file is missing, truncated or not a tokenizer, or the tokenizer has no vocabulary,
                padding token or end token.
        """
        file = Path(path)
        if file.is_dir():
            folder = file
            file = folder / TOKENIZER_FILE
            if not file.is_file() and (folder / bert.VOCABULARY_FILE).is_file():
                file = folder / bert.VOCABULARY_FILE
            pair = None if file.is_file() else bpe.merge_files_in(folder)
        else:
            pair = None if file.name not in bpe.MERGE_NAMES else bpe.merge_files_in(file.parent)
        if pair is not None:
            made = cls(bpe.read_merge_files(*pair))
            return made if made.kind != "roberta" else cls.from_json(with_prefix_space(made.to_json(), pair[0]))
        if file.suffix == ".txt":
            pieces = bert.read_vocabulary(file)
            check_basic(file)
            cleaning = cleaning_of_config(file)
            return cls.from_vocabulary(
                pieces,
                lowercase=cleaning.lowercase,
                strip_accents=cleaning.strip_accents,
                space_chinese=cleaning.space_chinese is not False,
            )
        text = text_of(file)
        tokenizer = cls.from_json(text, name=str(file), names=special_names(file))
        corrected = text
        if tokenizer.kind == "bert":
            corrected = overruled(text, cleaning_of_config(file))
        if tokenizer.kind == "roberta":
            corrected = with_prefix_space(text, file)
        return tokenizer if corrected is text else cls.from_json(corrected, name=str(file), names=special_names(file))

    @classmethod
    def from_vocabulary(
        cls,
        pieces: Sequence[str],
        *,
        lowercase: bool | None = None,
        strip_accents: bool | None = None,
        space_chinese: bool = True,
    ) -> Tokenizer:
        """BERT's tokenizer with a given vocabulary, such as the lines of a `vocab.txt`; the id of a piece is its index.

        Arguments:
            pieces: including `[PAD]`, `[UNK]`, `[CLS]` and `[SEP]`; those that begin with `##` continue a word.
            lowercase: whether text is converted to lower case. None = yes, unless a piece other than special ones such as `[CLS]`
                has an upper-case letter.
            strip_accents: whether accents are stripped; None = if `lowercase`, as published.
            space_chinese: whether every Chinese character is a word.

        Raises:
            InputError: for an empty or repeated piece, or a special token that is missing.

        >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##able"]
        >>> tokenizer = Tokenizer.from_vocabulary(pieces)
        >>> tokenizer.tokens(tokenizer.encode("Unaffable"))
        ['un', '##aff', '##able']
        """
        bert.check_pieces(pieces, "the vocabulary")
        return cls(
            bert.backend_of(
                {piece: index for index, piece in enumerate(pieces)},
                lowercase=bert.is_lowercase(pieces) if lowercase is None else lowercase,
                strip_accents=strip_accents,
                space_chinese=space_chinese,
            )
        )

    @classmethod
    def from_json(cls, text: str, *, name: str = TOKENIZER_FILE, names: Mapping[str, str] = NO_NAMES) -> Tokenizer:
        """The tokenizer written in `text`, the content of a `tokenizer.json`.

        Arguments:
            text: the content.
            name: of the file, for errors.
            names: the start, end, padding and mask tokens (`start`, `end`, `padding`, `mask`), if their names are not those of a
                known family, such as `<|im_end|>`.

        Raises:
            InputError: as `load`.
        """
        check_layout(text, name)
        tokenizer = cls.__new__(cls)
        try:
            guarded(lambda: tokenizer._adopt(text, names), "the tokenizers library failed on it")
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        except Exception as error:  # the library raises a bare Exception for any fault in a file
            raise InputError(f"{name}: is not a usable tokenizer ({error}); save or copy it again") from None
        return tokenizer

    def with_input_tokens(self) -> Tokenizer:
        """The same tokenizer with the special tokens of GPT inputs, `_start_`, `_delimiter_` and `_classify_`.

        They have the ids after all others; a tokenizer that already has them is returned unchanged. As all special tokens they
        are never found in a text.

        Raises:
            InputError: the vocabulary has such a piece already, or has no free ids after its pieces.

        >>> tokenizer = Tokenizer.train(["a dog"], kind="word", size=20).with_input_tokens()
        >>> tokenizer.tokens([tokenizer.start_id, tokenizer.separator_id, tokenizer.end_id])
        ['_start_', '_delimiter_', '_classify_']
        """
        wanted = [token for token in INPUT_TOKENS if self.find(token) not in self.special_ids]
        backend = tokenizers.Tokenizer.from_str(self._backend.to_str())
        backend.add_special_tokens(wanted)
        for token in wanted:
            index = backend.token_to_id(token)
            if index is None or index < self.size:
                raise InputError(
                    f"the tokenizer cannot be given {token}: its id would be {index}, which another piece of the vocabulary has; "
                    "use another tokenizer"
                )
        start, separator, end = ((token, backend.token_to_id(token)) for token in INPUT_TOKENS)
        # Other programs add these tokens around texts by this post-processor.
        backend.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{start[0]} $A {end[0]}",
            pair=f"{start[0]} $A {separator[0]} $B:1 {end[0]}:1",
            special_tokens=[start, separator, end],
        )
        return type(self).from_json(backend.to_str(), names=self._names) if wanted else self

    def within(self, size: int) -> Tokenizer:
        """The same tokenizer without special tokens whose ids are `size` or more, which a model with `size` rows cannot read.

        For example, BART models for summaries have no row for the `<mask>` of their tokenizer. A tokenizer that is not larger is
        returned unchanged.

        Raises:
            InputError: if an ordinary piece has such an id.

        >>> tokenizer = Tokenizer.train(["a dog"] * 9, kind="roberta", size=270)
        >>> tokenizer.within(tokenizer.size - 1).mask_id is None
        True
        """
        if self.size <= size:
            return self
        layout = self.layout
        ids = self._backend.get_vocab(with_added_tokens=True)
        kept = {token for token, index in ids.items() if index < size}
        if any(ids[token] not in self._roles.special for token in ids.keys() - kept):
            raise InputError(
                f"has {self.size} tokens, and config.json's vocab_size is {size}; tokenizer and model must come from the same "
                "folder"
            )
        vocabulary = layout["model"]["vocab"]
        if isinstance(vocabulary, dict):
            layout["model"]["vocab"] = {token: index for token, index in vocabulary.items() if token in kept}
        else:  # a unigram model, whose ids are indices
            layout["model"]["vocab"] = vocabulary[:size]
        layout["added_tokens"] = [each for each in layout["added_tokens"] if each["id"] < size]
        names = {role: token for role, token in self._names.items() if token in kept}
        return type(self).from_json(json.dumps(layout, ensure_ascii=False), names=names)

    def to_json(self) -> str:
        """The content of a `tokenizer.json`, as the `tokenizers` library writes it."""
        return self._backend.to_str(pretty=True)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `tokenizer.json` into `folder`, which is created if needed; a previous file is replaced atomically.

        For BERT's tokenizer a `vocab.txt` is written too, for programs that read no other file; and a tokenizer_config.json if
        the roles of special tokens do not follow from their names.

        Raises:
            InputError: the folder cannot be written, or the disk is full; a previous file is kept.
        """
        if self._kind == "bert":
            text = bert.vocabulary_text(self._backend.get_vocab(with_added_tokens=True))
            if text is not None:
                replace_file(Path(folder) / bert.VOCABULARY_FILE, text)
        if self._names:
            named = json.dumps(tokenizer_config(self), indent=2, ensure_ascii=False)
            replace_file(Path(folder) / CONFIG_NAME, named + "\n")
        replace_file(Path(folder) / TOKENIZER_FILE, self.to_json())

    def encode(self, text: str) -> list[int]:
        """The token ids of `text`, without start or end.

        Raises:
            InputError: the string is not valid Unicode (it has an unpaired surrogate).
        """
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, as by `encode`.

        Raises:
            InputError: as `encode`.
        """
        ids: list[list[int]] = [[] for _ in texts]
        for part, encoding in self._read(texts, self._backend.encode_batch_fast):
            ids[part.row] += self._ordinary(encoding.ids)
        return ids

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """The token ids of each word of a text that is split into words; empty if nothing of a word is left.

        A repeated word is encoded once, so give the words of many sentences together. For the kind `roberta` every word has a
        space before it, as inside a text.

        Raises:
            InputError: as `encode`.

        >>> tokenizer = Tokenizer.train(["playing plays"] * 9, kind="bert", size=60)
        >>> [tokenizer.tokens(ids) for ids in tokenizer.encode_words(["plays", "", "playing", "plays"])]
        [['plays'], [], ['playing'], ['plays']]
        """
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            raise InputError(
                "encode_words takes a list of words, such as ['a', 'dog']; give those of all sentences in one list"
            )
        different = list(dict.fromkeys(words))
        spaced = [" " + word if word else word for word in different] if self._kind == "roberta" else different
        known = dict(zip(different, self.encode_batch(spaced), strict=True))
        return [list(known[word]) for word in words]

    def encode_marked(self, text: str, marks: Sequence[str] = ("[MASK]",)) -> list[int]:
        """The token ids of a text in which some special tokens are recognised, such as "Paris is [MASK].".

        White space next to a special token belongs to it if the tokenizer.json says so, as for RoBERTa's `<mask>`.

        Arguments:
            text: every other special token in it is ordinary text, as for `encode`.
            marks: the special tokens to recognise.

        Raises:
            InputError: a mark is not a special token of this tokenizer; as `encode`.

        >>> tokenizer = Tokenizer.train(["a dog barks"], kind="bert", size=60)
        >>> ids = tokenizer.encode_marked("a [MASK] barks")
        >>> ids.index(tokenizer.mask_id), tokenizer.mask_id in tokenizer.encode("a [MASK] barks")
        (1, False)
        """
        if isinstance(marks, str):
            raise InputError(f"marks is the one string {marks!r}; give a list of special tokens")
        known = {mark: self.id_of(mark) for mark in marks}
        if not known:
            return self.encode(text)
        if not isinstance(text, str):
            raise _fault([text])
        longest_first = sorted(known, key=len, reverse=True)
        pieces = re.split(f"({'|'.join(map(re.escape, longest_first))})", text)
        for place in range(1, len(pieces), 2):
            takes_left, takes_right = self._takes_space.get(known[pieces[place]], (False, False))
            if takes_left:
                pieces[place - 1] = pieces[place - 1].rstrip()
            if takes_right:
                pieces[place + 1] = pieces[place + 1].lstrip()
        between = iter(self.encode_batch(pieces[::2]))
        ids = next(between)
        for mark in pieces[1::2]:
            ids += [known[mark], *next(between)]
        return ids

    def encode_special(self, text: str, *, guard: str = "") -> list[int]:
        """The token ids of a text in which all special tokens are recognised, as in the output of a chat template.

        Arguments:
            text: the text.
            guard: a character inside special tokens that are ordinary text, which is removed; empty = no such character.

        Raises:
            InputError: as `encode`.

        >>> tokenizer = Tokenizer.train(["a dog"] * 9, kind="bert", size=60)
        >>> tokenizer.tokens(tokenizer.encode_special("[CLS]a dog[SEP]"))
        ['[CLS]', 'a', 'dog', '[SEP]']
        """
        if guard:
            marks = sorted(self.tokens(sorted(self.special_ids)), key=len, reverse=True)
            pieces = re.split(f"({'|'.join(map(re.escape, marks))})", text)
            between = iter(self.encode_batch([piece.replace(guard, "") for piece in pieces[::2]]))
            ids = next(between)
            for mark in pieces[1::2]:
                ids += [self.id_of(mark), *next(between)]
            return ids
        return _made_of([text], lambda: self._reading_special.encode(text, add_special_tokens=False).ids)

    @cached_property
    def _reading_special(self) -> tokenizers.Tokenizer:
        backend = tokenizers.Tokenizer.from_str(self._backend.to_str())
        backend.encode_special_tokens = False
        return backend

    @cached_property
    def library(self) -> tokenizers.Tokenizer:
        """A copy as an object of the tokenizers library."""
        backend = tokenizers.Tokenizer.from_str(self._backend.to_str())
        backend.encode_special_tokens = True  # not part of what was copied
        return backend

    def encode_with_spans(self, text: str) -> tuple[list[int], list[Span]]:
        """The token ids of `text`, and the span of each in it; see `spans`.

        Raises:
            InputError: as `encode`.

        >>> tokenizer = Tokenizer.train(["the cafe"] * 9, kind="bert", size=60, lowercase=True)
        >>> ids, spans = tokenizer.encode_with_spans("The Café")
        >>> tokenizer.tokens(ids), spans
        (['the', 'cafe'], [(0, 3), (4, 8)])
        """
        return self.encode_batch_with_spans([text])[0]

    def encode_batch_with_spans(self, texts: Sequence[str]) -> list[tuple[list[int], list[Span]]]:
        """The result of `encode_with_spans` for each text.

        Raises:
            InputError: as `encode`.
        """
        found: list[tuple[list[int], list[Span]]] = [([], []) for _ in texts]
        for part, encoding in self._read(texts, self._backend.encode_batch):
            ids = encoding.ids
            if self._kind in CLEANED:
                spans = bert_spans(encoding, part.text, part.start)
            else:
                spans = spans_of(encoding, part.text, prepends=self._prepends)
            if self._roles.unknown_id is None and not self._roles.special.isdisjoint(ids):
                spans = [span for span, index in zip(spans, ids, strict=True) if index not in self._roles.special]
            found[part.row][0].extend(self._ordinary(ids))
            found[part.row][1].extend(spans)
        return found

    def spans(self, text: str) -> list[Span]:
        """The span of each token of `encode(text)` in `text`: (start, end) in characters, end excluded.

        Spans are in the given text, before normalisation: before accents are stripped, letters are lower-cased and control
        characters are removed. The span of a token that begins with a space includes it; a mark without a character (only at
        the start of a text) has an empty span. The spans of BERT's tokens include no spaces.

        Raises:
            InputError: as `encode`.
        """
        return self.encode_with_spans(text)[1]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, without special tokens, including the unknown token.

        Raises:
            InputError: an id is not in the vocabulary.
        """
        plain = [index for index in map(int, ids) if index not in self._roles.special]
        if plain and not (min(plain) >= 0 and max(plain) < self._roles.size):
            self.tokens(plain)
        return _made_of((), lambda: self._backend.decode(plain, skip_special_tokens=False))

    def __reduce__(self) -> tuple[object, tuple[str, dict[str, str]]]:
        return (_from_json, (self._backend.to_str(), self._names))

    def _read(
        self, texts: Sequence[str], encode: Callable[..., list[tokenizers.Encoding]]
    ) -> Iterator[tuple[Part, tokenizers.Encoding]]:
        """The encodings of the texts by the library, part by part."""
        if not all(isinstance(text, str) for text in texts):
            raise _fault(texts)
        for group in grouped(parts(texts, cut=self._cuts)):
            encodings = _made_of([texts[part.row] for part in group], partial(self._encoded, group, encode))
            yield from zip(group, encodings, strict=True)

    def _encoded(
        self, group: Sequence[Part], encode: Callable[..., list[tokenizers.Encoding]]
    ) -> list[tokenizers.Encoding]:
        if len(group) == 1:
            # Avoid the library's threads, which would cause a warning if the process forks later.
            return [self._backend.encode(group[0].text, add_special_tokens=False)]
        return encode([part.text for part in group], add_special_tokens=False)

    def _ordinary(self, ids: list[int]) -> list[int]:
        """`ids` without special tokens except the unknown one: some loaded vocabularies find others in plain text."""
        if self._roles.special.isdisjoint(ids):
            return ids
        if self._roles.unknown_id is None:
            return [index for index in ids if index not in self._roles.special]
        return [self._roles.unknown_id if index in self._roles.special else index for index in ids]


def _from_json(text: str, names: Mapping[str, str] = NO_NAMES) -> Tokenizer:
    return Tokenizer.from_json(text, names=names)


def _made_of(texts: Sequence[str], make: Callable[[], T]) -> T:
    """The encodings of texts by the library.

    Raises:
        InputError: for a value that is not a text, and if the library fails on a text, for example at a pattern that would never
            end.
    """
    try:
        return cast(T, guarded(make, "the tokenizer fails on a text"))
    except InputError:
        raise
    except (TypeError, UnicodeEncodeError):
        raise _fault(texts) from None
    except Exception as error:  # the library raises a bare Exception for any fault in the tokenizer
        raise InputError(f"the tokenizer fails on a text ({error}); save or copy it again") from None


def _fault(texts: Sequence[str]) -> Exception:
    for text in texts:
        if not isinstance(text, str):
            return TypeError(f"a tokenizer encodes strings, not {type(text).__name__}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return half_a_pair(text, error)
    return TypeError("the tokenizer could not encode this text")
