"""Pieces as words and back, and where pieces come from."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.malformed import MalformedRows
from regard.data.music import Writing, own_split, read_chorales, read_pieces, write_midi
from regard.data.notes import Grid, Note, Piece, from_events, in_keys, seconds_of, to_events
from regard.errors import InputError
from regard.text.events import words

SATB = [[60, 55, 52, 48], [62, 55, 52, 48], [62, -1, 53, 41], [62, -1, 53, 41]]


@pytest.fixture
def chorales(tmp_path):
    path = tmp_path / "chorales.json"
    path.write_text(json.dumps({"train": [SATB, SATB[:2]], "valid": [SATB[1:]], "test": [SATB[2:]]}))
    return path


notes = st.builds(
    lambda start, length, pitch, level: Note(start / 100, (start + length) / 100, pitch, 4 * level + 2),
    st.integers(0, 500),
    st.integers(1, 300),
    st.integers(50, 60),
    st.integers(0, 31),
)


@given(found=st.lists(notes, max_size=15))
def test_a_performance_comes_back_from_its_words(found):
    """But for voices, and for notes of one pitch that overlap: the later ends the earlier."""
    struck = {(note.pitch, round(100 * note.start)): note for note in sorted(found, key=lambda n: n.end)}
    piece = Piece.of(list(struck.values()))
    events = to_events(piece)
    assert set(events) <= set(words("performance"))
    back = from_events(events)
    assert {(note.pitch, round(100 * note.start)) for note in back.notes} == set(struck)
    for note in back.notes:
        own = struck[note.pitch, round(100 * note.start)]
        later = [n.start for n in piece.notes if n.pitch == note.pitch and n.start > own.start]
        assert note.end == pytest.approx(min([own.end, *later]))
        assert note.velocity == own.velocity
    assert to_events(back) == events


def test_long_silences_are_ten_seconds_and_waits_at_most_one():
    events = to_events(Piece.of([Note(0, 1, 60), Note(5000, 5001, 60)]))
    assert events.count("wait:100") == 12
    assert seconds_of(events) == 12.0


def test_what_no_player_would_write_is_understood():
    piece = from_events(["off:C4", "on:C4", "wait:10", "on:C4", "on:E4", "wait:10"])
    assert [(n.pitch, n.start, n.end) for n in piece.notes] == [(60, 0.0, 0.1), (60, 0.1, 0.2), (64, 0.1, 0.2)]
    assert from_events([]).length == 0
    for wrong in ("C4", "wait:x", "on:H2", "velocity:"):
        with pytest.raises(InputError):
            from_events(["on:C4", wrong])


steps = st.lists(
    st.tuples(*[st.one_of(st.none(), st.integers(40, 70)) for _ in range(3)]), min_size=1, max_size=20
).filter(lambda found: any(pitch is not None for pitch in found[-1]))


@given(found=steps, rate=st.sampled_from([1, 3, 4]))
def test_a_grid_comes_back_from_its_words_and_from_its_piece(found, rate):
    grid = Grid(voices=3, steps_per_quarter=rate)
    events = grid.to_events(found)
    assert len(events) == 3 * len(found)
    piece = grid.from_events(events)
    again = Grid(voices=3, steps_per_quarter=rate).steps_of(piece)
    heard = sorted({note.voice for note in piece.notes})
    assert [tuple(step[voice] for voice in heard) for step in found] == [step[: len(heard)] for step in again]
    assert grid.from_events(events[:-1]) == grid.from_events(events[: 3 * (len(found) - 1)])  # a step cut in two


def test_chords_are_dealt_out_from_the_top_and_too_many_notes_are_refused():
    chord = Piece.of([Note(0, 1, 60), Note(0, 1, 67), Note(0, 1, 64), Note(0, 1, 60, voice=1)])
    assert Grid(voices=4, steps_per_quarter=1).steps_of(chord) == [(67, 64, 60, None)]
    with pytest.raises(InputError, match="3 notes sound at once at step 1"):
        Grid(voices=2, steps_per_quarter=1).steps_of(chord)
    with pytest.raises(InputError, match="0 steps"):
        Grid().steps_of(Piece.of([]))
    with pytest.raises(InputError, match="a piece has 1 to 20,000"):
        Grid().steps_of(Piece.of([Note(0, 1e7, 60)]))


def test_chorales_of_each_split(chorales):
    assert read_chorales(chorales)[0][2] == (62, None, 53, 41)
    writing = Writing(events="grid")
    assert list(read_pieces(chorales, writing)) == [
        "C4 G3 E3 C3 D4 G3 E3 C3 D4 rest F3 F2 D4 rest F3 F2",
        "C4 G3 E3 C3 D4 G3 E3 C3",
    ]
    assert len(list(read_pieces(chorales, writing, split="validation"))) == 1
    assert own_split(chorales, "validation")
    played = next(read_pieces(chorales, Writing(events="performance", tempo=60)))
    assert seconds_of(played.split()) == 1.0  # four sixteenths


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not JSON"),
        ("[]", "is not a file of chorales"),
        ('{"valid": []}', "has no train pieces; it has valid"),
        ('{"train": [[[60, "x"]]]}', "train piece 1, step 1"),
        ('{"train": [[[60, 128]]]}', "is not a list of MIDI pitches"),
        ('{"train": [[[1, 2, 3, 4, 5]]]}', "5 pitches for 4 voices"),
        ('{"train": [3]}', "is not a list of steps"),
    ],
)
def test_files_of_chorales_that_are_none(content, said, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(InputError, match=said):
        read_chorales(path)


def test_a_folder_is_read_to_its_end_and_broken_files_are_told(tmp_path):
    (tmp_path / "deep").mkdir()
    write_midi(Piece.of([Note(0, 1, 60)]), tmp_path / "deep" / "b.MID")
    (tmp_path / "a.mid").write_bytes(b"no")
    (tmp_path / "c.txt").write_text("nothing")
    malformed = MalformedRows()
    assert list(read_pieces(tmp_path, Writing(), malformed=malformed)) == ["velocity:21 on:C4 wait:100 off:C4"]
    assert malformed.total == 1
    assert "a.mid" in malformed.summary()
    (tmp_path / "deep" / "b.MID").unlink()
    with pytest.raises(InputError, match="none of its 1 MIDI files can be used"):
        list(read_pieces(tmp_path, Writing()))
    (tmp_path / "a.mid").unlink()
    with pytest.raises(InputError, match=r"has no MIDI files in it; give one with \.mid files"):
        list(read_pieces(tmp_path, Writing()))


def test_other_keys_move_all_notes_alike_and_stay_in_midi():
    found = list(in_keys("C4 rest G4", 2))
    assert found == ["C4 rest G4", "B3 rest F#4", "C#4 rest G#4", "A#3 rest F4", "D4 rest A4"]
    assert list(in_keys("on:C-1 wait:3 velocity:7", 1)) == ["on:C-1 wait:3 velocity:7", "on:C#-1 wait:3 velocity:7"]
