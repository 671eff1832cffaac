"""What the checks give a model to read, one class for each interface, and how they compare what it gives back."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.errors import InputError
from regard.layers import NEVER, Encoded, Images, Tokens
from regard.models import MODELS, Family

Outputs = list[dict[str, Tensor]]
"""What a model gives, row by row: tensors by name, of real tokens alone."""
R = TypeVar("R")


SEED = 20150519
EXACT = 1e-10
"""Relative tolerance in float64, and the hundredth of it absolute: another order of additions and no more."""


class CheckFailed(AssertionError):
    """A model or a mechanism does not do what its interface promises."""


def run_checks(called: str, checks: dict[str, Callable[[], None]], without: Collection[str]) -> list[str]:
    """Run all checks but some; the names of those that ran.

    Raises:
        CheckFailed: naming the first check that failed, and what it saw.
        InputError: for a name in `without` that no check has.
    """
    unknown = [name for name in without if name not in checks]
    if unknown:
        raise InputError(f"there is no check {unknown[0]!r} of a {called}; choose from {', '.join(checks)}")
    chosen = {name: check for name, check in checks.items() if name not in without}
    for name, check in chosen.items():
        try:
            check()
        except AssertionError as error:
            said = "; ".join([str(error), *getattr(error, "__notes__", [])])
            raise CheckFailed(f"{called}, {name}: {said}") from error
    return list(chosen)


def ensure(condition: bool | Tensor, sentence: str) -> None:
    """Fail with a sentence unless a condition holds."""
    if not bool(condition):
        raise CheckFailed(sentence)


def close(found: Outputs, expected: Outputs, what: str, *, exactly: bool = False, tolerance: float = EXACT) -> None:
    """Fail unless two batches' outputs are the same: bit for bit, or up to rounding."""
    ensure(len(found) == len(expected), f"{what}: {len(found)} rows for {len(expected)}")
    for row, (one, other) in enumerate(zip(found, expected, strict=True)):
        ensure(one.keys() == other.keys(), f"{what}: row {row} gives {', '.join(one)}, and {', '.join(other)} expected")
        for name in one:
            same(one[name], other[name], f"{what}: {name} of row {row}", exactly=exactly, tolerance=tolerance)


def same(found: Tensor, expected: Tensor, what: str, *, exactly: bool = False, tolerance: float = EXACT) -> None:
    """Fail unless two tensors are the same: bit for bit, or up to rounding."""
    rtol, atol = (0.0, 0.0) if exactly else (tolerance, tolerance / 100)
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol, msg=lambda said: f"{what}: {said}")


def moved(found: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference of two rows' outputs."""
    return max(float((found[name] - other[name]).detach().abs().max()) for name in found)


def real(logits: Tensor) -> Tensor:
    """Logits with 0 where a huge negative number rules a token out, which would hide the others."""
    return logits.masked_fill(logits <= 0.9 * NEVER, 0.0)


class Inputs(ABC, Generic[R]):
    """Batches of three rows of different lengths for one kind of model.

    Arguments:
        config: of the model.
    """

    low_precision = True
    """Whether parameters may be bfloat16."""
    sides: tuple[str, ...] = ("right",)
    lengths: tuple[int, ...] = (6, 3, 5)
    tolerance = 1e-10

    def __init__(self, config: Any) -> None:
        self.config = config

    @property
    def vocabulary(self) -> int | None:
        """How many tokens the logits are over; None where they are of something else."""
        return None

    @abstractmethod
    def batch(self, side: str = "right") -> R:
        """The batch, padded on a side."""

    @abstractmethod
    def alone(self, row: int) -> R:
        """One of its rows, without padding."""

    @abstractmethod
    def select(self, read: R, rows: Tensor) -> R:
        """Some rows of a batch."""

    @abstractmethod
    def outputs(self, model: Any, read: R) -> Outputs:
        """What the model gives of a batch."""

    @abstractmethod
    def changes(self) -> Iterator[tuple[int, R]]:
        """The batch with one input of a row changed, and the row."""


class PaddedInputs(Inputs[R]):
    """Rows of token ids, padded to one length."""

    @abstractmethod
    def filled(self, read: R) -> R:
        """The batch with other ids at padding."""

    @abstractmethod
    def emptied(self, read: R, row: int) -> R:
        """The batch with no real token in a row."""

    @abstractmethod
    def of_length(self, length: int) -> R:
        """One row of so many tokens."""


class StepInputs(Inputs[R]):
    """What a model reads that gives logits of each next token, at once or one token at a time, from state to state."""

    step_sides: tuple[str, ...] = ("right",)

    @abstractmethod
    def later_changes(self) -> Iterator[tuple[int, int, R]]:
        """The batch with one written token changed: its row, its place, and the batch."""

    @abstractmethod
    def written(self, read: R) -> Tensor:
        """(N, L) the tokens that are fed one at a time."""

    @abstractmethod
    def start(self, model: Any, read: R) -> Any:
        """The state before the first token."""

    @abstractmethod
    def by_row(self, logits: Tensor, read: R) -> Outputs:
        """(N, L, V) logits of every step, row by row, of real tokens alone."""

    def stepped(self, model: Any, read: R) -> tuple[Tensor, list[Any]]:
        """Logits (N, L, V) of feeding the written tokens one by one, and the state after each."""
        state = self.start(model, read)
        logits, states = [], []
        for tokens in self.written(read).unbind(dim=1):
            step, state = model.step(tokens, state)
            logits.append(step)
            states.append(state)
        return torch.stack(logits, dim=1), states


def drawn(lengths: tuple[int, ...], vocabulary: int, seed: int, start: int | None = None) -> list[list[int]]:
    """Rows of random ids from 3 on, perhaps with a start token in the first place."""
    draw = torch.Generator().manual_seed(seed)
    rows = [torch.randint(3, vocabulary, (length,), generator=draw).tolist() for length in lengths]
    return rows if start is None else [[start, *row[1:]] for row in rows]


def changed(tokens: Tokens, row: int, place: int, vocabulary: int) -> Tokens:
    """The tokens with another id at a real place of a row."""
    ids = tokens.ids.clone()
    slot = int(tokens.valid[row].nonzero()[place])
    ids[row, slot] = 3 + (ids[row, slot] - 3 + 1) % (vocabulary - 3)
    return dataclasses.replace(tokens, ids=ids)


def filled(tokens: Tokens, other: int) -> Tokens:
    """The tokens with another id at padding."""
    return dataclasses.replace(tokens, ids=tokens.ids.masked_fill(~tokens.valid, other))


def emptied(tokens: Tokens, row: int) -> Tokens:
    """The tokens with no real one in a row."""
    valid = tokens.valid.clone()
    valid[row] = False
    return Tokens(tokens.ids, valid)


def logits_by_row(logits: Tensor, valid: Tensor) -> Outputs:
    """Of real tokens alone; what is ruled out by a huge number would hide the others, so 0 there."""
    return [{"logits": row.masked_fill(row <= 0.9 * NEVER, 0.0)[real]} for row, real in zip(logits, valid, strict=True)]


class _Texts(PaddedInputs[Tokens], StepInputs[Tokens]):
    """Texts for a language model."""

    sides = ("right", "left")
    lengths = (4, 6, 2)

    @property
    def vocabulary(self) -> int:
        return self.config.vocabulary

    def _rows(self) -> list[list[int]]:
        return drawn(self.lengths, self.config.vocabulary, 1, self.config.end_id)

    def batch(self, side: str = "right") -> Tokens:
        return Tokens.pad(self._rows(), side=side)  # type: ignore[arg-type]

    def alone(self, row: int) -> Tokens:
        return Tokens.pad([self._rows()[row]])

    def select(self, read: Tokens, rows: Tensor) -> Tokens:
        return read.select(rows)

    def outputs(self, model: Any, read: Tokens) -> Outputs:
        return logits_by_row(model(read), read.valid)

    def changes(self) -> Iterator[tuple[int, Tokens]]:
        return ((row, read) for row, _, read in self.later_changes())

    def later_changes(self) -> Iterator[tuple[int, int, Tokens]]:
        for row, place in ((1, 0), (1, 2), (1, 5), (0, 3), (2, 1)):
            yield row, place, changed(self.batch(), row, place, self.config.vocabulary)

    def filled(self, read: Tokens) -> Tokens:
        return filled(read, 5)

    def emptied(self, read: Tokens, row: int) -> Tokens:
        return emptied(read, row)

    def of_length(self, length: int) -> Tokens:
        return Tokens.pad([[4] * length])

    def written(self, read: Tokens) -> Tensor:
        return read.ids

    def start(self, model: Any, read: Tokens) -> Any:
        return model.start(len(read.ids))

    def by_row(self, logits: Tensor, read: Tokens) -> Outputs:
        return logits_by_row(logits, read.valid)


Source = TypeVar("Source", Tokens, Images)


class _Targets(StepInputs[tuple[Source, Tokens]]):
    """A source and the target tokens that are written about it."""

    @property
    def vocabulary(self) -> int:
        return self.config.target_vocabulary

    def select(self, read: tuple[Source, Tokens], rows: Tensor) -> tuple[Source, Tokens]:
        return read[0].select(rows), read[1].select(rows)

    def written(self, read: tuple[Source, Tokens]) -> Tensor:
        return read[1].ids

    def start(self, model: Any, read: tuple[Source, Tokens]) -> Any:
        return model.start(read[0])

    def by_row(self, logits: Tensor, read: tuple[Source, Tokens]) -> Outputs:
        return logits_by_row(logits, read[1].valid)


Pair = tuple[Tokens, Tokens]


class _Pairs(_Targets[Tokens], PaddedInputs[Pair]):
    """Sources and targets for an encoder and decoder."""

    sides = ("right", "left", "left of the source")
    step_sides = ("right", "left of the source")
    targets = (4, 5, 2)

    def _rows(self) -> tuple[list[list[int]], list[list[int]]]:
        source = drawn(self.lengths, self.config.source_vocabulary, 1)
        return source, drawn(self.targets, self.config.target_vocabulary, 2, self.config.start_id)

    def batch(self, side: str = "right") -> Pair:
        source, target = self._rows()
        return (
            Tokens.pad(source, side="right" if side == "right" else "left"),
            Tokens.pad(target, side="left" if side == "left" else "right"),
        )

    def alone(self, row: int) -> Pair:
        source, target = self._rows()
        return Tokens.pad([source[row]]), Tokens.pad([target[row]])

    def outputs(self, model: Any, read: Pair) -> Outputs:
        return logits_by_row(model(*read), read[1].valid)

    def changes(self) -> Iterator[tuple[int, Pair]]:
        source, target = self.batch()
        for row, place in ((0, 0), (0, 5), (1, 2), (2, 4)):
            yield row, (changed(source, row, place, self.config.source_vocabulary), target)

    def later_changes(self) -> Iterator[tuple[int, int, Pair]]:
        source, target = self.batch()
        for row, place in ((1, 0), (1, 2), (1, 4), (0, 3), (2, 1)):
            yield row, place, (source, changed(target, row, place, self.config.target_vocabulary))

    def filled(self, read: Pair) -> Pair:
        return filled(read[0], 5), filled(read[1], 5)

    def emptied(self, read: Pair, row: int) -> Pair:
        return emptied(read[0], row), read[1]

    def of_length(self, length: int) -> Pair:
        return Tokens.pad([[4] * length]), Tokens.pad([[self.config.start_id]])


Parted = tuple[Tokens, Tensor]


class _WholeTexts(PaddedInputs[Parted]):
    """Texts, two of them of two parts, for an encoder, a classifier of whole texts, or a model of one vector for each text."""

    sides = ("right", "left")
    seconds = (4, 3, 2)
    """Where the second part of each row begins."""

    def _rows(self) -> list[list[int]]:
        rows = drawn(self.lengths, self.config.vocabulary, 1, 1)
        # A boundary of sentences in the middle, and at the end, of a text that is read by sentences.
        for boundary in getattr(self.config, "boundary_ids", ())[-1:]:
            rows = [[*row[:2], boundary, *row[3:-1], boundary] if len(row) > 3 else row for row in rows]
        return rows

    def _parted(self, tokens: Tokens, rows: list[int]) -> Parted:
        segments = torch.zeros_like(tokens.ids)
        for place, row in enumerate(rows):
            real = tokens.valid[place].nonzero()[:, 0]
            segments[place, real[self.seconds[row] :]] = 1
        return tokens, segments

    def batch(self, side: str = "right") -> Parted:
        return self._parted(Tokens.pad(self._rows(), side=side), [0, 1, 2])  # type: ignore[arg-type]

    def alone(self, row: int) -> Parted:
        return self._parted(Tokens.pad([self._rows()[row]]), [row])

    def select(self, read: Parted, rows: Tensor) -> Parted:
        return read[0].select(rows), read[1].index_select(0, rows)

    def outputs(self, model: Any, read: Parted) -> Outputs:
        encoded: Encoded = model(*read)
        valid = read[0].valid
        found: Outputs = [{} for _ in valid]
        for name, value in zip(encoded._fields, encoded, strict=True):
            if value is None:
                continue
            of_tokens = value.dim() == 3
            for row, values in enumerate(found):
                values[name] = value[row][valid[row]] if of_tokens else value[row]
        return found

    def changes(self) -> Iterator[tuple[int, Parted]]:
        tokens, segments = self.batch()
        for row, place in ((0, 1), (0, 5), (1, 2), (2, 4)):
            yield row, (changed(tokens, row, place, self.config.vocabulary), segments)

    def filled(self, read: Parted) -> Parted:
        return filled(read[0], 5), read[1].masked_fill(~read[0].valid, 1)

    def emptied(self, read: Parted, row: int) -> Parted:
        return emptied(read[0], row), read[1]

    def of_length(self, length: int) -> Parted:
        tokens = Tokens.pad([[4] * length])
        return tokens, torch.zeros_like(tokens.ids)


class _Images(Inputs[Images]):
    """Images for a classifier: three, of the size of the model's config."""

    lengths = (1, 1, 1)
    tolerance = 1e-6  # images are float32 before the first layer

    def _drawn(self) -> list[np.ndarray]:
        height, width = self.config.image_height, self.config.image_width
        rng = np.random.default_rng(0)
        return [rng.integers(0, 256, (1, height, width, self.config.image_channels), dtype=np.uint8) for _ in range(3)]

    def batch(self, side: str = "right") -> Images:
        return Images.of(self._drawn())

    def alone(self, row: int) -> Images:
        return Images.of([self._drawn()[row]])

    def select(self, read: Images, rows: Tensor) -> Images:
        return read.select(rows)

    def outputs(self, model: Any, read: Images) -> Outputs:
        return [{"logits": row} for row in model(read)]

    def changes(self) -> Iterator[tuple[int, Images]]:
        for row, corner in ((0, (0, 0)), (1, (-1, -1))):
            read = self.batch()
            read.pixels[row, 0, :, corner[0], corner[1]] ^= 0xFF
            yield row, read


Captions = tuple[Images, Tokens]


class _Captions(_Targets[Images]):
    """Images of one to three frames and captions for a captioner."""

    lengths = (3, 5, 2)
    tolerance = 1e-5  # images are float32 before the first layer
    frames = (1, 3, 2)

    def _drawn(self) -> tuple[list[np.ndarray], list[list[int]]]:
        rng, config = np.random.default_rng(0), self.config
        size = (config.image_height, config.image_width, config.image_channels)
        images = [rng.integers(0, 256, (count, *size), dtype=np.uint8) for count in self.frames]
        return images, drawn(self.lengths, config.target_vocabulary, 1, config.start_id)

    def batch(self, side: str = "right") -> Captions:
        images, rows = self._drawn()
        return Images.of(images), Tokens.pad(rows)

    def alone(self, row: int) -> Captions:
        images, rows = self._drawn()
        return Images.of([images[row]]), Tokens.pad([rows[row]])

    def outputs(self, model: Any, read: Captions) -> Outputs:
        found = model(*read, attended=True)
        outputs = logits_by_row(found.logits, read[1].valid)
        if found.weights is not None:
            for row, values in enumerate(outputs):
                values["weights"] = found.weights[row][read[1].valid[row]][:, found.places[row]]
        return outputs

    def changes(self) -> Iterator[tuple[int, Captions]]:
        for row, corner in ((0, (0, 0)), (1, (-1, -1))):
            images, tokens = self.batch()
            images.pixels[row, 0, :, corner[0], corner[1]] ^= 0xFF
            yield row, (images, tokens)

    def later_changes(self) -> Iterator[tuple[int, int, Captions]]:
        images, target = self.batch()
        for row, place in ((1, 0), (1, 2), (1, 4), (2, 1)):
            yield row, place, (images, changed(target, row, place, self.config.target_vocabulary))


KINDS: dict[str, type[Inputs[Any]]] = {
    "language_model": _Texts,
    "encoder_decoder": _Pairs,
    "encoder": _WholeTexts,
    "whole_text": _WholeTexts,
    "text_vectors": _WholeTexts,
    "image_classifier": _Images,
    "captioner": _Captions,
}


def inputs_of(family: Family, config: Any) -> Inputs[Any]:
    """What a family's models read.

    Raises:
        InputError: for an interface without checks.
    """
    if family.interface not in KINDS:
        raise InputError(
            f"a {config.model_type} is called as a {family.interface}, for which there are no checks; there are for "
            + ", ".join(KINDS)
        )
    return KINDS[family.interface](config)


class ModelCase:
    """A config, what its interface reads, and models of it with parameters sampled so that none is at zero or one."""

    def __init__(self, config: Any, idle: tuple[str, ...]) -> None:
        self.config, self.idle = config, idle
        self.family = MODELS[config.model_type]
        self.interface = self.family.interface
        self.inputs: Any = inputs_of(self.family, config)  # perhaps PaddedInputs, StepInputs or both

    def model(self, dtype: torch.dtype = torch.float64) -> Any:
        """The model in evaluation, the same parameters each time."""
        model = self.family.model(self.config)
        draw = torch.Generator().manual_seed(SEED)
        with torch.no_grad():
            for parameter in model.parameters():
                fan = parameter.shape[-1] if parameter.dim() > 1 else 4
                drawn = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
                parameter.copy_(0.8 * drawn / fan**0.5)
        return model.to(dtype).eval()

    def outputs(self, model: Any, read: Any, rows: Sequence[int] | None = None) -> Outputs:
        """What the model gives of a batch, row by row, of real tokens alone."""
        found = self.inputs.outputs(model, read)
        return found if rows is None else [found[row] for row in rows]
