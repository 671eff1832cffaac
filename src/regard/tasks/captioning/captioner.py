"""Captioning: pictures in, `Caption`s out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings, Hypothesis, search
from regard.layers import Pictures
from regard.tasks.captioning.metrics import compared
from regard.tasks.captioning.pointing import Pointing, in_batches, pointed
from regard.tasks.captioning.store import TARGET, CaptionStore
from regard.tasks.captioning.task import CaptionBatch, CaptioningTask
from regard.tasks.pictures import Picture, frames_of
from regard.tasks.predictor import Observers, Predictor


@dataclass(frozen=True, kw_only=True, slots=True)
class Caption:
    """One caption.

    Arguments:
        text: the best caption.
        score: what hypotheses were compared by: log-probability over length penalty, plus coverage penalty.
        log_probability: of the caption given the picture, natural log.
        tokens: what the model wrote, token by token, the end token included where it came to one.
        alternatives: the further hypotheses of an n-best search as (text, score), best first.
    """

    text: str
    score: float
    log_probability: float
    tokens: tuple[str, ...] = ()
    alternatives: tuple[tuple[str, float], ...] = ()


class Captioner(Predictor[CaptioningTask]):
    """A captioning model ready to use.

    Arguments:
        model: a `PictureDecoder`.
        task: tokenizer, size of pictures and decoding settings.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    judged: ClassVar[tuple[str, ...]] = ("exact_match", "bleu", "pointing", "uncovered")

    def caption(self, picture: Picture, settings: GenerationSettings | None = None) -> Caption:
        """The caption of one picture, or of one sequence of frames.

        Arguments:
            picture: a file; an array (Y, X, C) uint8, or (F, Y, X, C) of frames; or a list of frames, each likewise.
            settings: how to decode; the folder's own where None.

        Raises:
            InputError: for a picture that cannot be read, or more frames than the model reads.
        """
        return self.caption_batch([picture], settings)[0]

    def caption_batch(
        self, pictures: Sequence[Picture], settings: GenerationSettings | None = None, *, batch_size: int = 64
    ) -> list[Caption]:
        """The captions of many pictures, in their order.

        Arguments:
            pictures: as `caption` takes them.
            settings: how to decode; the folder's own where None.
            batch_size: pictures decoded together. It changes memory and speed, and no answer but what is drawn.

        Raises:
            InputError: as `caption`, and for an array of one picture in place of a list of them.
        """
        if not isinstance(pictures, list | tuple):
            raise InputError(f"pictures are a {type(pictures).__name__}; give a list with one for each, or use caption")
        settings = (settings or self.task.generation).with_ids(self.task.tokenizer)
        found: list[Caption] = []
        for rows in in_batches(len(pictures), batch_size):
            found += self._captions([frames_of(pictures[row], self.task.size) for row in rows], settings)
        return found

    def _captions(self, frames: Sequence[np.ndarray], settings: GenerationSettings) -> list[Caption]:
        source = Pictures.of(frames).to(self.device)
        watchers = self._watchers()
        observer = Observers(watchers) if watchers else None
        found = search(self.model, source, settings, observer=observer)
        made = [self._caption(hypotheses) for hypotheses in found]
        for watcher in watchers:
            watcher.predicted(made, found)
        return made

    def _caption(self, found: Sequence[Hypothesis]) -> Caption:
        tokenizer, best = self.task.tokenizer, found[0]
        end = [tokenizer.end_id] if best.length > len(best.tokens) else []
        return Caption(
            text=tokenizer.decode(best.tokens),
            score=best.score,
            log_probability=best.log_probability,
            tokens=tuple(tokenizer.tokens([*best.tokens, *end])),
            alternatives=tuple((tokenizer.decode(other.tokens), other.score) for other in found[1:]),
        )

    def teacher_forced(self, examples: Sequence[tuple[Picture, str]]) -> CaptionBatch:
        """Pictures with captions as the model reads them in training, on the model's device.

        Raises:
            InputError: as `caption`.
        """
        pictures = [frames_of(picture, self.task.size) for picture, _ in examples]
        captions = self.task.tokenizer.encode_batch([caption for _, caption in examples])
        return self.task.batch(pictures, captions).to(self.device)

    def judge(self, data: TokenStore, count: int) -> dict[str, float]:
        """Exact match and BLEU on about `count` pictures, the first, against all captions of each; and where it looks.

        `pointing` and `uncovered`, of models with attention, are read while the model is given the right captions; `pointing`
        only where the data says where things are.
        """
        store = cast(CaptionStore, data)
        by_picture: dict[tuple[int, int], list[int]] = {}
        for row in range(len(store)):
            span = store.span(row)
            if span not in by_picture and len(by_picture) == count:
                break
            by_picture.setdefault(span, []).append(row)
        tokenizer = self.task.tokenizer
        references = [
            [tokenizer.decode(store.sequence(TARGET, row).tolist()) for row in rows] for rows in by_picture.values()
        ]
        pictures = [np.asarray(store.picture(rows[0])) for rows in by_picture.values()]
        texts = [caption.text for caption in self.caption_batch(pictures)]
        metrics, _, _ = compared(texts, references)
        return {name: metrics[name] for name in self.judged if name in metrics} | self._pointing(store, by_picture)

    def _pointing(self, store: CaptionStore, by_picture: dict[tuple[int, int], list[int]]) -> dict[str, float]:
        if not self.model.has_alignment:
            return {}
        rows = [row for rows in by_picture.values() for row in rows]
        total = Pointing()
        for places in in_batches(len(rows)):
            chosen = [rows[place] for place in places]
            batch = self.task.read_batch(store, chosen).to(self.device)
            total += pointed(self.model, batch, [store.named(row) for row in chosen])
        return total.metrics()
