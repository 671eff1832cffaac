"""What captioning is to a model: pictures and captions to tensors, logits to a loss, and the files that say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.generation.penalties import check_coverage
from regard.layers import Pictures, Tokens
from regard.models.captioning import Captioned
from regard.structure import from_mapping
from regard.tasks.captioning.objective import Objective
from regard.tasks.captioning.store import TARGET, CaptionStore
from regard.tasks.card import write_with_card
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.pictures import PictureSize
from regard.tasks.task import LossSum, Task
from regard.text import Tokenizer


@dataclass(frozen=True, slots=True, eq=False)
class CaptionBatch:
    """What one step of training reads.

    Arguments:
        pictures: B of them.
        target: (B, L), shifted right: the start token first.
        labels: (B, L) int64, the token each target position has to predict, the end token last.
    """

    pictures: Pictures
    target: Tokens
    labels: Tensor

    def to(self, device: torch.device) -> CaptionBatch:
        """The same batch on another device."""
        return CaptionBatch(self.pictures.to(device), self.target.to(device), self.labels.to(device))


@dataclass(frozen=True, slots=True)
class CaptioningTask(Task):
    """What turns pictures and captions into a captioner's tensors, and its outputs into a loss and captions.

    Arguments:
        tokenizer: of captions.
        size: of pictures.
        generation: how to decode unless told otherwise.
        objective: what is learnt beside the words.
    """

    name: ClassVar[str] = "captioning"

    tokenizer: Tokenizer
    size: PictureSize
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    objective: Objective = field(default_factory=Objective)

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """Of what is written."""
        return {"target": self.tokenizer}

    def model_settings(self) -> dict[str, Any]:
        """The sizes of vocabulary and pictures."""
        return {
            "target_vocabulary": self.tokenizer.size,
            "padding_id": self.tokenizer.padding_id,
            "start_id": self.tokenizer.start_id,
            "end_id": self.tokenizer.end_id,
            "picture_height": self.size.height,
            "picture_width": self.size.width,
            "picture_channels": self.size.channels,
            "frames": self.size.frames,
        }

    def batch(self, pictures: Sequence[np.ndarray], captions: Sequence[Sequence[int]]) -> CaptionBatch:
        """Pictures (F, Y, X, C) uint8 of the task's size and token ids of their captions to a batch for training."""
        tokenizer = self.tokenizer
        inputs = [[tokenizer.start_id, *ids] for ids in captions]
        labels = [[*ids, tokenizer.end_id] for ids in captions]
        return CaptionBatch(
            pictures=Pictures.of(pictures),
            target=Tokens.pad(inputs, padding_id=tokenizer.padding_id),
            labels=Tokens.pad(labels, padding_id=tokenizer.padding_id).ids,
        )

    def lengths(self, data: TokenStore) -> np.ndarray:
        """Tokens of each caption, end token included, (N, 1); a picture takes none."""
        return data.lengths(TARGET)[:, None] + 1

    def labels(self, data: TokenStore) -> np.ndarray:
        """The same, (N,)."""
        return self.lengths(data)[:, 0]

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> CaptionBatch:
        """The captions of these rows, with their pictures, as a batch."""
        store = cast(CaptionStore, data)
        captions = [store.sequence(TARGET, int(row)).tolist() for row in rows]
        return self.batch([store.picture(int(row)) for row in rows], captions)

    def loss(self, model: nn.Module, batch: CaptionBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the labels, summed over real tokens; in training with what else the objective asks for."""
        told: Captioned = model(batch.pictures, batch.target, attended=model.training)
        real = batch.target.valid
        tokenizer = self.tokenizer
        total, correct = smoothed_cross_entropy(
            told.logits.flatten(0, 1),
            batch.labels.flatten(),
            valid=real.flatten(),
            smoothing=smoothing,
            never=tokenizer.padding_id if tokenizer.padding_id != tokenizer.end_id else None,
        )
        if told.weights is not None:
            wrong = F.cross_entropy(told.logits.detach().float().transpose(1, 2), batch.labels, reduction="none")
            total = total + self.objective.beside(told, -wrong, real)
        return LossSum(total, int(real.sum()), correct)

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Captions, pictures and vocabulary in a few words."""
        size = self.size
        several = f"up to {size.frames} frames of " if size.frames > 1 else ""
        return (
            f"{len(train):,} captions to learn from, {len(validation):,} to validate on, of {several}{size.height} x "
            f"{size.width} pixels; a vocabulary of {self.tokenizer.size:,} tokens"
        )

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse a coverage penalty where there is no coverage.

        Raises:
            InputError: naming what to do.
        """
        if self.generation.coverage_penalty > 0:
            check_coverage(model)
        if self.objective.coverage > 0 and not model.has_alignment:
            raise InputError(
                f"data.objective.coverage is {self.objective.coverage}, and {model.config.model_type} has no attention to cover "
                "pictures with; leave it out"
            )

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizer into `folder`; return what else regard.json has to hold."""
        self.tokenizer.save(folder)
        return {
            "name": self.name,
            "size": self.size.settings(),
            "generation": asdict(self.generation),
            "objective": asdict(self.objective),
        }

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> CaptioningTask:
        """The task that `save` wrote into `folder`, `values` being what it returned."""
        where = f"{folder / 'regard.json'}: task"
        return cls(
            Tokenizer.load(folder),
            from_mapping(PictureSize, values.get("size", {}), f"{where}.size"),
            from_mapping(GenerationSettings, values.get("generation", {}), f"{where}.generation"),
            from_mapping(Objective, values.get("objective", {}), f"{where}.objective"),
        )

    def write(
        self,
        folder: Path,
        config: Any,
        tensors: Mapping[str, Tensor],
        *,
        recipe: Mapping[str, Any],
        metrics: Mapping[str, float],
    ) -> None:
        """Write all files of a model into an existing folder."""
        use = ['print(model.caption("picture.jpg").text)']
        write_with_card(folder, config, tensors, task=self.save(folder), recipe=recipe, metrics=metrics, use=use)
