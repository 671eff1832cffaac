"""The attention of a few-shot classifier over an episode, and the receptive fields of its convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from regard.inspection.patches import episode_names
from regard.inspection.record import look
from regard.inspection.view import AttentionMap, AttentionView
from regard.models.snail import SNAIL, ConvolutionBlock
from regard.tasks.few_shot import FewShotClassifier
from regard.tasks.images import ImageInput


def learnt_view(
    classifier: FewShotClassifier,
    shown: Sequence[tuple[ImageInput, str]],
    asked: ImageInput,
    addresses: Sequence[str] | None = None,
) -> AttentionView:
    """The maps of an episode: each image named by its class, and the image without a label last.

    The view also has the connections of the convolutions, as in figure 1 of the paper (Mishra et al. 2018): each convolution of a
    block is a head, with 1 at the positions that it reads. These are connections, not weights.

    Arguments:
        classifier: from `regard.load`.
        shown, asked: as for `FewShotClassifier.classify`.
        addresses: of attention layers, with `*` for any part of a name; None = all, and the convolutions too.

    Raises:
        InputError: as `classify`, and for an address that no layer has.
    """
    names = episode_names([name for _, name in shown])
    with look(classifier, addresses) as record:
        label = classifier.classify(shown, asked).label
    title = f"image 1, predicted class: {label}"
    view = replace(record.view(0, tokens=names), title=title, examples=(title,))
    reads = [] if addresses is not None else convolution_reads(classifier, names)
    if not reads:
        return view
    note = "The maps of convolutions show which places each reads, not weights; each head is a convolution, the dilation doubles."
    return replace(view, maps=(*view.maps, *reads), note=" ".join(part for part in (view.note, note) if part))


def convolution_reads(classifier: FewShotClassifier, names: Sequence[str]) -> list[AttentionMap]:
    """For each block of convolutions a map (convolutions, T, T): 1 if a position reads itself, or the position R before it."""
    blocks = classifier.model.blocks if isinstance(classifier.model, SNAIL) else ()
    back = np.arange(len(names))[:, None] - np.arange(len(names))
    return [
        AttentionMap(
            address=f"blocks.{number}.convolutions",
            kind="self",
            query_tokens=tuple(names),
            key_tokens=tuple(names),
            weights=np.stack([(back == 0) | (back == part.dilation) for part in block]).astype(np.float32),
        )
        for number, block in enumerate(blocks)
        if isinstance(block, ConvolutionBlock)
    ]
