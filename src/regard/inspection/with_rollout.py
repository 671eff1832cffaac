"""The attention of a Vision Transformer's layers, and beside it what all of them come to."""

from __future__ import annotations

from dataclasses import replace

from regard.inspection.analysis.rollout import Rollout
from regard.inspection.view import AttentionView

ROLLOUT = "rollout"
"""The address of what all layers come to."""


def with_rollout(view: AttentionView) -> AttentionView:
    """The view with one more map for each picture: the rollout through all layers, of models with a class token.

    The row of the class token is then the share that each patch has in what the class is told from; see
    `regard.inspection.analysis.rollout`. Other views stay as they are.
    """
    maps = list(view.maps)
    for number in range(len(view.examples)):
        own = [item for item in view.maps if item.example == number]
        if not own or own[-1].query_patches is None or own[-1].query_patches.first == 0:
            return view
        rolled = Rollout.of_maps(own).weights[-1].numpy()
        maps.append(replace(own[-1], address=ROLLOUT, weights=rolled))
    return replace(view, maps=tuple(maps))
