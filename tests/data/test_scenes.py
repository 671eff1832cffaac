"""Builtin scenes: drawn again alike, apart by split, and with everything where it is said to be."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from regard.data.generated import SPLITS
from regard.data.scenes import MOVES, Scenes
from regard.errors import InputError

KINDS = {
    "digits": {},
    "shapes": {"objects": "shapes", "fewest": 1, "most": 4},
    "row words": {"objects": "shapes", "row_words": True},
    "line": {"kind": "line", "columns": 6, "fewest": 3, "most": 6},
    "moving": {"kind": "moving", "frames": 3},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_a_scene_is_a_function_of_its_number(kind):
    one, other = (Scenes("train", **KINDS[kind], size=size)[5] for size in (6, 50))
    assert np.array_equal(one.frames, other.frames)
    assert (one.caption, one.named) == (other.caption, other.named)
    assert not np.array_equal(one.frames, Scenes("train", **KINDS[kind], size=6, seed=1)[5].frames)


@every_kind
def test_everything_that_is_drawn_is_in_a_box_that_is_named(kind):
    scenes = Scenes("validation", **KINDS[kind], size=30)
    for scene in scenes:
        assert scene.frames.shape == scenes.shape
        left = scene.frames.copy()
        for named in scene.named:
            top, first, bottom, after = named.box
            assert 0 <= top < bottom <= scenes.shape[1]
            assert 0 <= first < after <= scenes.shape[2]
            assert scene.frames[named.frame, top:bottom, first:after].any()
            left[named.frame, top:bottom, first:after] = 0
        assert not left.any()


@every_kind
def test_captions_are_of_known_words_and_each_names_its_thing(kind):
    scenes = Scenes("train", **KINDS[kind], size=30)
    for scene in scenes:
        words = scene.caption.split()
        assert set(words) <= set(scenes.words())
        spans = [range(*named.words) for named in scene.named]
        told = [place for span in spans for place in span]
        assert told == sorted(set(told))
        assert {words[place] for place in set(range(len(words))) - set(told)} <= {"top", "middle", "bottom"}


def test_names_stand_in_reading_order():
    for scene in Scenes("train", objects="shapes", fewest=3, most=3, size=30):
        cells = [(named.box[0] // 16, named.box[1] // 16) for named in scene.named]
        assert cells == sorted(cells)


def test_a_thing_moves_as_its_caption_says():
    for scene in Scenes("train", kind="moving", objects="shapes", size=30):
        moves = scene.caption.split()[2:]
        cells = [(named.box[0] // 16, named.box[1] // 16) for named in scene.named]
        for move, (before, after) in zip(moves, pairwise(cells), strict=True):
            assert (after[0] - before[0], after[1] - before[1]) == MOVES[move]


def test_no_arrangement_is_in_two_splits():
    def arrangements(split: str) -> set[tuple[object, ...]]:
        scenes = Scenes(split, objects="shapes", rows=2, columns=2, fewest=1, most=1, size=400)
        return {(scene.caption, *(n // 16 for n in scene.named[0].box[:2])) for scene in scenes}

    found = [arrangements(split) for split in SPLITS]
    assert all(found)
    assert not found[0] & found[1]
    assert not found[0] & found[2]
    assert not found[1] & found[2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"split": "dev"},
        {"kind": "grids"},
        {"objects": "letters"},
        {"kind": "line", "objects": "shapes"},
        {"most": 10},
        {"fewest": 4},
        {"cell": 4},
        {"rows": 4, "row_words": True},
        {"kind": "moving", "rows": 1, "columns": 1},
        {"mnist": "no/such/folder"},
    ],
)
def test_what_makes_no_scene_is_refused(wrong):
    with pytest.raises(InputError):
        Scenes(**wrong)
