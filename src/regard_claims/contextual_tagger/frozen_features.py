"""A tagger trained on the hidden states of a frozen encoder, to compare its layers as features."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.tagged import TaggedSentence, read_tagged
from regard.data.tags import convert, scheme_of, spans_of
from regard.embeddings.features import layer_choice
from regard.errors import InputError
from regard.metrics.classification import chunk_scores
from regard.tasks.loading import load
from regard.word_embeddings.files import read_vectors
from regard.word_embeddings.store import WordVectors
from regard_claims.shared import check_counts, file_of, split_file

PARTS = {"train": ("train",), "validation": ("dev", "val", "valid", "validation", "testa")}
"""The names of each split, one of which is between the dots of its file's name."""

TOGETHER = 2_000
"""The number of sentences that are encoded at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FrozenFeatures:
    """A tagger on features of a frozen encoder (Devlin et al. 2019, section 5.3): a BiLSTM, or a linear map of each word.

    The feature of a word is the hidden state of its first piece. Measured is the F1 of spans on the validation file, in per cent,
    as `conlleval` computes it.

    Arguments:
        path: a folder with tagged words for training and validation, such as `eng.train` and `eng.testa` of CoNLL-2003, plain or
            gzip, and with the models.
        model: the encoder's folder, in `path` or as a path of its own; `{seed}` is replaced by the seed.
        layers: the layers to use, in the form of `regard embed --layer`.
        vectors: static word embeddings to use instead of the encoder: a file or folder that `regard vectors` opens, named in the
            same way as `model`. A word without an embedding has a vector of zeros.
        tagger: the tagger's architecture.
        width: the width of the BiLSTM in each direction.
        epochs: the number of passes over the training sentences.
        batch: the number of sentences in an update.
        learning_rate: the initial learning rate of Adam; it decreases linearly to 0.
        sentences: the number of training sentences, from the file's beginning. None: all.

    Raises:
        InputError: for a size below its minimum.
    """

    precision: ClassVar[str] = "float32"
    path: str | None = None
    model: str = "bert-{seed}"
    layers: str = "last"
    vectors: str | None = None
    tagger: Literal["bilstm", "linear"] = "bilstm"
    width: int = 128
    epochs: int = 5
    batch: int = 32
    learning_rate: float = 1e-3
    sentences: int | None = None

    def __post_init__(self) -> None:
        check_counts(self, "width", "epochs", "batch")

    @property
    def measures(self) -> tuple[str, ...]:
        """F1 in per cent."""
        return ("F1",)

    def run(self, seed: int) -> dict[str, float]:
        """Train the tagger, and measure it on the validation file.

        Raises:
            InputError: for a missing or unreadable file or model.
        """
        if self.path is None:
            raise InputError(
                "experiment.path is missing; name a folder with train and validation files of tagged words"
            )
        train = list(read_tagged(tagged_file(Path(self.path), "train")))[: self.sentences]
        held_out = list(read_tagged(tagged_file(Path(self.path), "validation")))
        scheme = scheme_of(sentence.tags for sentence in train)
        tags = sorted({tag for sentence in train for tag in convert(sentence.tags, scheme, "BIO")})
        numbers = {tag: number for number, tag in enumerate(tags)}
        right = [[numbers[tag] for tag in convert(sentence.tags, scheme, "BIO")] for sentence in train]
        features = self._features(seed, train)
        tagger = _Tagger(features[0].shape[1], len(tags), self.tagger, self.width, seed)
        _train(tagger, features, right, self, seed)
        predicted = _predict(tagger, self._features(seed, held_out))
        told = [spans_of([tags[number] for number in row]) for row in predicted]
        gold = [spans_of(convert(sentence.tags, scheme, "BIO")) for sentence in held_out]
        return {"F1": 100 * chunk_scores(gold, told).overall.f1}

    def _features(self, seed: int, sentences: Sequence[TaggedSentence]) -> list[np.ndarray]:
        """The feature vectors of each sentence, (words, D) float16."""
        if self.vectors is not None:
            return _static(read_vectors(self._place(self.vectors, seed)), sentences)
        encoder = load(self._place(self.model, seed), task="sentence_embedding")
        layer_choice(self.layers, len(encoder.model.layers))
        found: list[np.ndarray] = []
        for start in range(0, len(sentences), TOGETHER):
            words = [sentence.words for sentence in sentences[start : start + TOGETHER]]
            for each in encoder.features(words, layers=self.layers):
                found.append(each.merged("first").array.astype(np.float16))
        return found

    def _place(self, name: str, seed: int) -> Path:
        """The file or folder of this name in `path`, or at this path, with `{seed}` replaced."""
        return file_of(self.path, name.replace("{seed}", str(seed)))


def tagged_file(folder: Path, split: str) -> Path:
    """The file of tagged words in a folder for a split, `train` or `validation`.

    Raises:
        InputError: if there is no such file.
    """
    return split_file(folder, PARTS[split], f"tagged words for {split}", "conll")


def _static(vectors: WordVectors, sentences: Sequence[TaggedSentence]) -> list[np.ndarray]:
    """The embeddings of each sentence's words, (words, D) float16: of the word, else of the word in lower case, else zeros."""
    rows = {word: row for row, word in enumerate(vectors.words)}
    places = [[rows.get(word, rows.get(word.lower(), -1)) for word in sentence.words] for sentence in sentences]
    table = np.concatenate([vectors.matrix, np.zeros((1, vectors.width), np.float32)]).astype(np.float16)
    return [table[each] for each in places]


class _Tagger(nn.Module):
    """Maps feature vectors of words to logits of tags. The weights are initialized from `seed` alone."""

    def __init__(self, inputs: int, tags: int, kind: str, width: int, seed: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(inputs)  # the layers' vectors have very different lengths
        self.context = nn.LSTM(inputs, width, batch_first=True, bidirectional=True) if kind == "bilstm" else None
        self.output = nn.Linear(inputs if self.context is None else 2 * width, tags)
        generator = torch.Generator().manual_seed(seed)
        for name, parameter in self.named_parameters():
            if not name.startswith("norm"):
                bound = 1 / math.sqrt(width if name.startswith("context") else parameter.shape[-1])
                nn.init.uniform_(parameter, -bound, bound, generator=generator)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Map feature vectors (B, L, D) of sentences with `lengths` words, (B,) int64, to logits (B, L, tags)."""
        x = self.norm(words)
        if self.context is not None:
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            x, _ = nn.utils.rnn.pad_packed_sequence(self.context(packed)[0], batch_first=True)
        return self.output(x)


def _train(
    tagger: _Tagger, features: list[np.ndarray], right: list[list[int]], settings: FrozenFeatures, seed: int
) -> None:
    optimizer = torch.optim.Adam(tagger.parameters(), lr=settings.learning_rate)
    draw = np.random.Generator(np.random.Philox(key=[seed, 0xF0F0]))
    epochs = [list(_batches(features, settings.batch, draw)) for _ in range(settings.epochs)]
    updates = [rows for epoch in epochs for rows in epoch]
    for number, rows in enumerate(updates):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * (1 - number / len(updates))
        words, lengths = _padded([features[row] for row in rows])
        labels = torch.full(words.shape[:2], -100)
        for place, row in enumerate(rows):
            labels[place, : len(right[row])] = torch.tensor(right[row])
        loss = F.cross_entropy(tagger(words, lengths).flatten(0, 1), labels.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(tagger.parameters(), 5.0)
        optimizer.step()


def _predict(tagger: _Tagger, features: list[np.ndarray]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in features]
    with torch.no_grad():
        for rows in _batches(features, 256, None):
            words, lengths = _padded([features[row] for row in rows])
            best = tagger(words, lengths).argmax(dim=-1).tolist()
            for place, row in enumerate(rows):
                found[row] = best[place][: len(features[row])]
    return found


def _batches(features: list[np.ndarray], size: int, draw: np.random.Generator | None) -> Iterator[list[int]]:
    """Row numbers in batches of similar sentence lengths; with `draw`, in random order and with up to 4 added to lengths."""
    lengths = np.array([len(each) for each in features], dtype=np.float64)
    if draw is not None:
        lengths = lengths + 4 * draw.random(len(lengths))
    order = np.argsort(lengths, kind="stable")
    starts = np.arange(0, len(order), size)
    for start in starts if draw is None else draw.permutation(starts):
        yield order[start : start + size].tolist()


def _padded(features: list[np.ndarray]) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(each) for each in features])
    words = torch.zeros(len(features), int(lengths.max()), features[0].shape[1])
    for row, each in enumerate(features):
        words[row, : len(each)] = torch.from_numpy(each.astype(np.float32))
    return words, lengths
