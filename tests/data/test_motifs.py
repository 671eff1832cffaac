from __future__ import annotations

import pytest

from regard.data.sequences import Motifs
from regard.errors import InputError
from regard.text.events import pitch_of


def shape(motif):
    return tuple(pitch - motif[0] for pitch in motif)


def test_a_melody_is_its_motif_and_the_answer_again_and_again():
    melodies = Motifs(size=40, notes=50)
    for index, text in enumerate(melodies):
        motif, moved = melodies.motif_of(index)
        assert 3 <= len(motif) <= 9
        assert len(set(motif)) == len(motif)
        assert abs(moved) <= 5
        both = motif + [pitch + moved for pitch in motif]
        assert [pitch_of(word) for word in text.split()] == [both[place % len(both)] for place in range(50)]
    assert {melodies.motif_of(index)[1] for index in range(40)} > {0}


def test_a_melody_is_a_pure_function_of_its_place():
    assert Motifs(size=3)[2] == Motifs(size=9)[2] == list(Motifs(size=9))[2]
    assert Motifs(size=3, seed=1)[2] != Motifs(size=3)[2]
    assert Motifs(size=3, notes=20)[1] == " ".join(Motifs(size=3, notes=40)[1].split()[:20])


def test_no_motif_is_in_two_splits_in_whatever_key():
    sizes = {"shortest": 2, "longest": 3, "size": 300}
    found = [
        {shape(Motifs(split, **sizes).motif_of(index)[0]) for index in range(300)}
        for split in ("train", "validation", "test")
    ]
    assert all(found)
    assert not found[0] & found[1]
    assert not found[0] & found[2]
    assert not found[1] & found[2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"split": "tran"}, "no split 'tran'"),
        ({"shortest": 1}, "shortest is 1"),
        ({"longest": 16}, "longest 16"),
        ({"farthest": 25}, "farthest is 25"),
        ({"notes": 0}, "notes is 0"),
    ],
)
def test_numbers_out_of_range_are_refused(change, said):
    with pytest.raises(InputError, match=said):
        Motifs(**change)
    with pytest.raises(IndexError):
        Motifs(size=2)[2]
