"""Text to token ids and back: `tokenizers.Tokenizer` with named roles for its special tokens."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import tokenizers

from regard.errors import InputError
from regard.files import replace_file
from regard.text.roles import Kind, Roles, kind_of, prepends
from regard.text.training import guarded, train_backend

FILE_NAME = "tokenizer.json"


class Tokenizer:
    """Strings to token ids and back, with named roles for padding, start, end and unknown.

    `train` learns one from text, `load` reads a `tokenizer.json`. Encoding adds no special token, and the
    spelling of one in a text ("</s>") is ordinary text, never the special token. Instances do not change, are
    equal when their content is, may be shared by threads and sent to other processes.

    >>> tokenizer = Tokenizer.train(["a dog.", "the dog."], kind="word", size=20)
    >>> ids = tokenizer.encode("the dog.")
    >>> tokenizer.tokens(ids)
    ['▁the', '▁dog', '.']
    >>> tokenizer.decode([tokenizer.start_id, *ids, tokenizer.end_id])
    'the dog.'
    >>> tokenizer.spans("the dog.")
    [(0, 3), (3, 7), (7, 8)]
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        # A private copy: what the caller does to his object later does not reach this one.
        self._adopt(backend.to_str())

    def _adopt(self, text: str) -> None:
        backend = tokenizers.Tokenizer.from_str(text)
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True  # not part of the file, so set here
        layout = json.loads(text)
        self._backend = backend
        self._roles = Roles.of(backend)
        self._kind = kind_of(layout)
        self._prepends = prepends(layout)

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        kind: Kind | str,
        size: int,
        lowercase: bool = False,
        extra_tokens: Sequence[str] = (),
    ) -> Tokenizer:
        """A tokenizer learnt from `texts`: the same texts in the same order give the same tokenizer.

        The special tokens are Marian's: `</s>` and `<unk>` have the ids 0 and 1, `<pad>` has the last, and starts a
        target too. The text is brought to
        Unicode's composed form (NFC), and to lower case where asked; apart from that, decoding what was
        encoded gives the text back exactly, spaces included, as long as every part is in the vocabulary. One
        thing more is lost, in all kinds but `character`: U+2581, which marks a space inside a token, reads as
        a space.

        Arguments:
            texts: read once, in a stream.
            kind: `bpe` (Sennrich et al. 2016), `unigram` (Kudo 2018) and `wordpiece` (pieces inside a word
                start with `##`; Wu et al. 2016) learn parts of words; `word` keeps whole words and marks of
                punctuation, `character` single characters. A token that follows a space begins with U+2581;
                punctuation and line breaks are tokens of their own: "the dog." is "▁the", "▁dog", ".".
            size: the largest number of tokens, special ones included. Where the text has fewer, the
                vocabulary is smaller; `word` and `character` keep the most frequent and read the others as
                `<unk>`.
            lowercase: whether case is dropped.
            extra_tokens: further special tokens of the form `<name>`, such as `<2de>`. Each has one id (`id_of`),
                before that of `<pad>`; none is ever read in a text, and none is decoded.

        Raises:
            InputError: no text, unknown kind, a `size` that cannot hold the alphabet, or an extra token of another
                form.

        >>> Tokenizer.train(["aab", "ab"], kind="character", size=10).encode("ab?")
        [2, 3, 1]
        >>> Tokenizer.train(["aab"], kind="character", size=10, extra_tokens=["<2de>"]).id_of("<2de>")
        4
        """
        return cls(train_backend(texts, kind=kind, size=size, lowercase=lowercase, extra_tokens=extra_tokens))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """The tokenizer in a folder's `tokenizer.json`, or in that file itself; nothing is fetched.

        Raises:
            InputError: the file is missing, cut short or not a tokenizer, or the tokenizer has no vocabulary,
                padding token or end token.
        """
        file = Path(path)
        if file.is_dir():
            file = file / FILE_NAME
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise InputError(
                f"{file}: no such file; give a folder with a {FILE_NAME} in it, or train a tokenizer"
            ) from None
        except UnicodeDecodeError:
            raise InputError(f"{file}: is not a tokenizer file (it is not UTF-8 text); save or copy it again") from None
        except OSError as error:
            raise InputError(f"{file}: cannot be read ({error.strerror or error}); check the path") from None
        return cls.from_json(text, name=str(file))

    @classmethod
    def from_json(cls, text: str, *, name: str = FILE_NAME) -> Tokenizer:
        """The tokenizer written in `text`, the content of a `tokenizer.json`; `name` is what errors call it.

        Raises:
            InputError: as `load`.
        """
        try:
            layout = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{name}: is empty, cut short or not JSON ({error}); save or copy the tokenizer again"
            ) from None
        model = layout.get("model") if isinstance(layout, dict) else None
        if not isinstance(model, dict):
            raise InputError(f"{name}: is not a tokenizer (it has no 'model'); give a {FILE_NAME} of `tokenizers`")
        if not model.get("vocab"):
            raise InputError(f"{name}: the tokenizer has no vocabulary; train it on some text and save it again")
        tokenizer = cls.__new__(cls)
        try:
            guarded(lambda: tokenizer._adopt(text), "the tokenizers library failed on it")
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        except Exception as error:  # the library raises bare Exception for every fault in a file
            raise InputError(f"{name}: is not a usable tokenizer ({error}); save or copy it again") from None
        return tokenizer

    def to_json(self) -> str:
        """The content of a `tokenizer.json`, as the `tokenizers` library writes it."""
        return self._backend.to_str(pretty=True)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `tokenizer.json` into `folder`, made where needed; a previous file is replaced in one step.

        Raises:
            InputError: the folder cannot be written, or the disk is full; a previous file is intact.
        """
        replace_file(Path(folder) / FILE_NAME, self.to_json())

    def encode(self, text: str) -> list[int]:
        """The token ids of `text`, without start or end.

        Raises:
            InputError: the string is not text (it holds half of a surrogate pair).
        """
        return self._ordinary(self._encoding(text).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, the same as `encode` gives one by one.

        Raises:
            InputError: as `encode`.
        """
        try:
            encodings = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        except (TypeError, UnicodeEncodeError):
            raise _fault(texts) from None
        return [self._ordinary(encoding.ids) for encoding in encodings]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where each token of `encode(text)` stands in `text`: (start, end) in characters, end excluded.

        They point into the text as given, before normalisation. A token that begins with a space includes it;
        a mark that no character stands for (the start of the text alone) has an empty span.

        Raises:
            InputError: as `encode`.
        """
        encoding = self._encoding(text)
        offsets: list[tuple[int, int]] = encoding.offsets
        spans = []
        for index, (start, end) in enumerate(offsets):
            following = offsets[index + 1][0] if index + 1 < len(offsets) else len(text)
            # A character composed into the one before it (e + U+0301) is in no token by the library's count.
            while start < end < following and not text[end].isspace():
                end += 1
            spans.append((start, end))
        if self._prepends and spans and encoding.tokens[0] == "▁":
            spans[0] = (0, 0)
        if self._roles.unknown_id is None and not self._roles.special.isdisjoint(encoding.ids):
            spans = [span for span, index in zip(spans, encoding.ids, strict=True) if index not in self._roles.special]
        return spans

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens as strings, for display: "▁" is a space, "##" continues a word.

        Raises:
            InputError: an id is not in the vocabulary.
        """
        return [self._token(int(index)) for index in ids]

    def id_of(self, token: str) -> int:
        """The id of a special token, such as `<2de>`: the only way to one, since encoding a text gives none.

        Raises:
            InputError: the vocabulary has no such special token.
        """
        index = self._backend.token_to_id(token)
        if index is None or index not in self._roles.special:
            known = ", ".join(self.tokens(sorted(self._roles.special)))
            raise InputError(f"{token!r} is no special token of this tokenizer; it has {known}")
        return index

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; special tokens are left out, the unknown one too.

        Raises:
            InputError: an id is not in the vocabulary.
        """
        plain = [index for index in map(int, ids) if index not in self._roles.special]
        if plain and not (min(plain) >= 0 and max(plain) < self._roles.size):
            self.tokens(plain)
        return self._backend.decode(plain, skip_special_tokens=False)

    @property
    def size(self) -> int:
        """The number of ids, special ones included: the rows an embedding needs."""
        return self._roles.size

    @property
    def padding_id(self) -> int:
        """The id that fills rows up; where one token plays every part (GPT-2), the same as `end_id`."""
        return self._roles.padding_id

    @property
    def start_id(self) -> int:
        """The id a target starts with; a tokenizer without one (T5, Marian) starts with padding."""
        return self._roles.start_id

    @property
    def end_id(self) -> int:
        """The id that ends a text."""
        return self._roles.end_id

    @property
    def unknown_id(self) -> int | None:
        """The id of what is not in the vocabulary; None where nothing is unknown (byte-level ones)."""
        return self._roles.unknown_id

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids that stand for no text."""
        return self._roles.special

    @property
    def extra_tokens(self) -> tuple[str, ...]:
        """The special tokens beside padding, start, end and unknown, in the order of their ids."""
        roles = {self._roles.padding_id, self._roles.start_id, self._roles.end_id, self._roles.unknown_id}
        return tuple(self.tokens(sorted(self._roles.special - roles)))

    @property
    def adds_end(self) -> bool:
        """Whether the end token follows each text where another program opens the tokenizer.json."""
        with_it, without = (self._backend.encode("", add_special_tokens=adding).ids for adding in (True, False))
        return with_it == [*without, self._roles.end_id]

    @property
    def kind(self) -> str | None:
        """Which of the kinds of `train` this is; None where a loaded one is none of them."""
        return self._kind

    def __len__(self) -> int:
        return self._roles.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokenizer):
            return NotImplemented
        return json.loads(self._backend.to_str()) == json.loads(other._backend.to_str())

    def __hash__(self) -> int:
        return hash((self._kind, self._roles.size))

    def __repr__(self) -> str:
        return f"Tokenizer(kind={self._kind!r}, size={self._roles.size})"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (_from_json, (self._backend.to_str(),))

    def _encoding(self, text: str) -> tokenizers.Encoding:
        try:
            return self._backend.encode(text, add_special_tokens=False)
        except (TypeError, UnicodeEncodeError):
            raise _fault([text]) from None

    def _ordinary(self, ids: list[int]) -> list[int]:
        """`ids` with no special token but the unknown: some loaded vocabularies find one in plain text."""
        if self._roles.special.isdisjoint(ids):
            return ids
        if self._roles.unknown_id is None:
            return [index for index in ids if index not in self._roles.special]
        return [self._roles.unknown_id if index in self._roles.special else index for index in ids]

    def _token(self, index: int) -> str:
        token = self._backend.id_to_token(index) if index >= 0 else None
        if token is None:
            raise InputError(
                f"token id {index} is not in this tokenizer of {self._roles.size} tokens; "
                "are model and tokenizer from the same folder?"
            )
        return token


def _from_json(text: str) -> Tokenizer:
    return Tokenizer.from_json(text)


def _fault(texts: Sequence[str]) -> Exception:
    for text in texts:
        if not isinstance(text, str):
            return TypeError(f"a tokenizer encodes strings, not {type(text).__name__}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return InputError(
                f"the text {text[:40]!r} holds half of a surrogate pair at character {error.start}; "
                "it was read in the wrong encoding, so read it as UTF-8"
            )
    return TypeError("the tokenizer could not encode this text")
