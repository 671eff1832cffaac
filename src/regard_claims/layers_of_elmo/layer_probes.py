"""Linear probes on each layer of a bidirectional language model, for parts of speech and for word senses."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.tagged import read_tagged
from regard.errors import InputError
from regard.layers import ScalarMix
from regard.tasks.bidirectional_language_modelling import BidirectionalLanguageModel
from regard.tasks.loading import load
from regard_claims.contextual_tagger.frozen_features import tagged_file
from regard_claims.shared import check_counts, file_of

TOGETHER = 500
"""The number of sentences that are encoded at once."""

MIX = "mix"


class Examples(NamedTuple):
    """The examples of a probe.

    Arguments:
        states: the hidden states of words in their sentences, (N, layers, D) float32.
        labels: the label of each word, (N,) int64; -1 for a label that does not occur in training.
    """

    states: Tensor
    labels: Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerProbes:
    """Linear classifiers on single layers of a frozen ELMo, and on a learned mix of all layers (Peters et al. 2018, section 5.3).

        p(label) = softmax(V gamma sum_j s_j z_j + b),    s = softmax(w)

    z_j is the hidden state of layer j, each component standardized to mean 0 and variance 1 on the training examples. A probe of
    one layer has s = 1. Measured are the accuracy of parts of speech on the validation file (`POS`), and the accuracy of word
    senses in test sentences, mean over the words (`WSD`), both in per cent.

    Arguments:
        path: a folder with tagged words for training and validation (`eng.train` and `eng.testa` of CoNLL-2003, with parts of
            speech in the second column), a folder of word senses in the format of CoarseWSD-20, and the models.
        model: the model's folder, in `path` or as a path of its own; `{seed}` is replaced by the seed.
        senses: the folder of word senses. It contains one folder for each word, with the files `train.data.txt`,
            `train.gold.txt`, `test.data.txt` and `test.gold.txt`.
        layers: the number of the model's LSTM layers; the character layer (0) is probed as well.
        shuffled: whether to randomly permute the entries of each parameter tensor. This is a control: the probes can then use
            only the characters of words, nothing that training has learned.
        sentences: the number of tagged training sentences, from the file's beginning; half as many validation sentences.
        examples: the largest number of training examples of each word with senses, and of test examples; they are spread evenly
            over the files.
        epochs: the number of passes over the examples.
        batch: the number of examples in an update.
        learning_rate: the initial learning rate of Adam; it decreases linearly to 0.

    Raises:
        InputError: for a size below its minimum.
    """

    precision: ClassVar[str] = "float32"
    path: str | None = None
    model: str = "elmo-{seed}"
    senses: str = "coarsewsd-20"
    layers: int = 2
    shuffled: bool = False
    sentences: int = 6000
    examples: int = 300
    epochs: int = 12
    batch: int = 256
    learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        check_counts(self, "layers", "sentences", "examples", "epochs", "batch")

    @property
    def chosen(self) -> dict[str, tuple[int, ...]]:
        """The layers of each probe, by the probe's name."""
        every = tuple(range(self.layers + 1))
        return {**{str(layer): (layer,) for layer in every}, MIX: every}

    @property
    def measures(self) -> tuple[str, ...]:
        """One accuracy for each task and probe."""
        return tuple(f"{task} {name}" for task in ("POS", "WSD") for name in self.chosen)

    def run(self, seed: int) -> dict[str, float]:
        """Train each probe, and measure its accuracy.

        Raises:
            InputError: for a missing or unreadable file or model.
        """
        if self.path is None:
            raise InputError("experiment.path is missing; name a folder with tagged words, senses and the models")
        model = self._model(seed)
        found: dict[str, float] = {}
        train, held_out = self._parts_of_speech(model)
        for name, layers in self.chosen.items():
            found[f"POS {name}"] = 100 * self._probed(train, held_out, layers, seed)
        each: dict[str, list[float]] = {name: [] for name in self.chosen}
        for word in self._words():
            train, held_out = self._sense_examples(model, word)
            for name, layers in self.chosen.items():
                each[name].append(self._probed(train, held_out, layers, seed))
        return found | {f"WSD {name}": 100 * sum(shares) / len(shares) for name, shares in each.items()}

    def _model(self, seed: int) -> BidirectionalLanguageModel:
        name = self.model.replace("{seed}", str(seed))
        model = load(file_of(self.path, name), task="bidirectional_language_modelling")
        if len(model.model.layers) != self.layers:
            raise InputError(
                f"{name}: has {len(model.model.layers)} layers, and experiment.layers is {self.layers}; set it"
            )
        if self.shuffled:
            generator = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for parameter in model.model.parameters():
                    order = torch.randperm(parameter.numel(), generator=generator)
                    parameter.copy_(parameter.flatten()[order].view_as(parameter))
        return model

    def _parts_of_speech(self, model: BidirectionalLanguageModel) -> tuple[Examples, Examples]:
        splits = []
        numbers: dict[str, int] = {}
        for split, count in (("train", self.sentences), ("validation", max(1, self.sentences // 2))):
            sentences = list(read_tagged(tagged_file(Path(self.path or ""), split), word=0, tag=1))[:count]
            if split == "train":
                tags = sorted({tag for sentence in sentences for tag in sentence.tags})
                numbers = {tag: number for number, tag in enumerate(tags)}
            states = _states(model, [sentence.words for sentence in sentences], None)
            # A tag that does not occur in training cannot be predicted and counts as wrong.
            labels = [numbers.get(tag, -1) for sentence in sentences for tag in sentence.tags]
            splits.append(Examples(states, torch.tensor(labels)))
        return splits[0], splits[1]

    def _words(self) -> list[Path]:
        folder = Path(self.path or "") / self.senses
        found = sorted(each for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []
        if not found:
            raise InputError(f"{folder}: holds no folder for a word with senses; give one laid out as CoarseWSD-20")
        return found

    def _sense_examples(self, model: BidirectionalLanguageModel, word: Path) -> tuple[Examples, Examples]:
        splits = []
        for split in ("train", "test"):
            rows = [line.split("\t") for line in _lines(word, f"{split}.data.txt")]
            gold = [int(line) for line in _lines(word, f"{split}.gold.txt")]
            if len(rows) != len(gold) or not rows or any(len(row) != 2 for row in rows):
                raise InputError(f"{word}: {split}.data.txt and {split}.gold.txt do not fit together; copy them again")
            spread = np.linspace(0, len(rows) - 1, min(self.examples, len(rows))).round().astype(int).tolist()
            rows, gold = [rows[number] for number in spread], [gold[number] for number in spread]
            sentences = [row[1].split() for row in rows]
            states = _states(model, sentences, [int(row[0]) for row in rows])
            splits.append(Examples(states, torch.tensor(gold)))
        return splits[0], splits[1]

    def _probed(self, train: Examples, held_out: Examples, layers: Sequence[int], seed: int) -> float:
        """Train a probe of some layers, and return its accuracy on the held-out examples, from 0 to 1."""
        chosen = list(layers)
        given = train.states[:, chosen]
        mean, deviation = given.mean(dim=0), given.std(dim=0, correction=0).clamp_min(1e-6)
        mix = ScalarMix(len(chosen))
        weight = torch.zeros(int(train.labels.max()) + 1, given.shape[-1], requires_grad=True)
        bias = torch.zeros(len(weight), requires_grad=True)
        optimizer = torch.optim.Adam([weight, bias, *mix.parameters()], lr=self.learning_rate, weight_decay=0.0)

        def logits(states: Tensor) -> Tensor:
            return F.linear(mix(((states - mean) / deviation).unbind(1)), weight, bias)

        draw = np.random.Generator(np.random.Philox(key=[seed, 0x9707]))
        updates = [
            rows
            for _ in range(self.epochs)
            for rows in torch.from_numpy(draw.permutation(len(given))).split(self.batch)
        ]
        for number, rows in enumerate(updates):
            optimizer.param_groups[0]["lr"] = self.learning_rate * (1 - number / len(updates))
            loss = F.cross_entropy(logits(given[rows]), train.labels[rows])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = sum(
                int((logits(states[:, chosen]).argmax(dim=-1) == labels).sum())
                for states, labels in zip(held_out.states.split(4096), held_out.labels.split(4096), strict=True)
            )
        return right / len(held_out.labels)


def _states(
    model: BidirectionalLanguageModel, sentences: Sequence[Sequence[str]], places: Sequence[int] | None
) -> Tensor:
    """The hidden states (N, layers, D) of all words, or of the word at one position of each sentence if `places` is given."""
    found: list[np.ndarray] = []
    for start in range(0, len(sentences), TOGETHER):
        some = model.word_states(sentences[start : start + TOGETHER])
        if places is not None:
            some = [states[[place]] for states, place in zip(some, places[start : start + TOGETHER], strict=True)]
        found += some
    return torch.from_numpy(np.concatenate(found))


def _lines(folder: Path, name: str) -> list[str]:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            content = path.read_bytes()
            text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
            return [line for line in text.split("\n") if line.strip()]
    raise InputError(f"{folder / name}: no such file; give a folder laid out as CoarseWSD-20")
