from __future__ import annotations

import contextlib

import mido
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.music import read_midi, write_midi
from regard.data.notes import Note, Piece
from regard.errors import InputError


@pytest.fixture
def midi(tmp_path):
    """A file of some tracks of (message, ticks since the one before), 100 ticks to a quarter."""

    def make(*tracks, name="a.mid", kind=1):
        file = mido.MidiFile(type=kind, ticks_per_beat=100)
        for track in tracks:
            file.tracks.append(mido.MidiTrack([message.copy(time=time) for message, time in track]))
        file.save(tmp_path / name)
        return tmp_path / name

    return make


def on(pitch, velocity=64, channel=0):
    return mido.Message("note_on", note=pitch, velocity=velocity, channel=channel)


def off(pitch, channel=0):
    return mido.Message("note_off", note=pitch, velocity=0, channel=channel)


def pedal(value, channel=0):
    return mido.Message("control_change", control=64, value=value, channel=channel)


def tempo(quarters_a_minute):
    return mido.MetaMessage("set_tempo", tempo=mido.bpm2tempo(quarters_a_minute))


def times(piece):
    return [(note.pitch, round(note.start, 6), round(note.end, 6)) for note in piece.notes]


def ticks(found):
    return sorted((round(480 * note.start), round(480 * note.end), note.pitch, note.velocity) for note in found)


notes = st.builds(
    lambda start, length, pitch, velocity, voice: Note(start / 480, (start + length) / 480, pitch, velocity, voice),
    st.integers(0, 5000),
    st.integers(1, 2000),
    st.integers(0, 127),
    st.integers(1, 127),
    st.integers(0, 3),
)


@settings(max_examples=25)
@given(found=st.lists(notes, min_size=1, max_size=12))
def test_what_is_written_is_read(found, tmp_path_factory):
    """Times in quarters are exact; of notes that share voice and pitch and overlap the later one ends the earlier."""
    apart = []
    for note in sorted(found):
        if all(n.pitch != note.pitch or n.voice != note.voice or n.end <= note.start for n in apart):
            apart.append(note)
    path = tmp_path_factory.mktemp("midi") / "a.mid"
    write_midi(Piece.of(apart), path, times="quarters")
    read = read_midi(path, times="quarters")
    assert ticks(read.notes) == ticks(apart)


def test_seconds_follow_every_change_of_tempo(midi):
    path = midi(
        [(tempo(60), 0), (tempo(120), 200)],  # two quarters of a second each, then of half a second
        [(on(60), 100), (off(60), 200), (on(62), 0), (on(62, velocity=0), 100)],
    )
    assert times(read_midi(path)) == [(60, 1.0, 2.5), (62, 2.5, 3.0)]
    assert times(read_midi(path, times="quarters")) == [(60, 1.0, 3.0), (62, 3.0, 4.0)]


def test_a_note_sounds_on_while_the_pedal_is_down_and_the_score_does_not_know_of_it(midi):
    path = midi([(tempo(60), 0), (on(60), 0), (pedal(127), 50), (off(60), 50), (pedal(0), 300)])
    assert times(read_midi(path)) == [(60, 0.0, 4.0)]
    assert times(read_midi(path, times="quarters")) == [(60, 0.0, 1.0)]


def test_a_key_struck_again_ends_its_note_and_what_is_never_let_go_ends_with_the_piece(midi):
    path = midi([(tempo(60), 0), (on(60), 0), (on(60), 100), (on(64), 0), (off(60), 100), (pedal(0), 100)])
    assert times(read_midi(path)) == [(60, 0.0, 1.0), (60, 1.0, 2.0), (64, 1.0, 3.0)]


def test_two_tracks_in_unison_on_one_channel_are_two_notes(midi):
    path = midi([(tempo(60), 0), (on(60, 90), 0), (off(60), 200)], [(on(60, 50), 100), (off(60), 200)])
    found = [(note.voice, note.start, note.end, note.velocity) for note in read_midi(path).notes]
    assert sorted(found) == [(0, 0.0, 2.0, 90), (1, 1.0, 3.0, 50)]


def test_a_pedal_in_one_track_holds_the_notes_of_its_channel_in_another(midi):
    path = midi([(tempo(60), 0), (pedal(127), 50), (pedal(0), 350)], [(on(60), 0), (off(60), 100)])
    assert times(read_midi(path)) == [(60, 0.0, 4.0)]


def test_tracks_are_voices_and_drums_are_left_out(midi):
    path = midi(
        [(on(72), 0), (off(72), 100)],
        [(on(35, channel=9), 0), (off(35, channel=9), 100)],
        [(on(48), 0), (off(48), 100)],
    )
    assert [(note.pitch, note.voice) for note in sorted(read_midi(path).notes, key=lambda n: n.voice)] == [
        (72, 0),
        (48, 1),
    ]


def test_a_marker_says_where_the_continuation_begins(tmp_path):
    write_midi(Piece.of([Note(0, 1, 60), Note(1, 2, 64)]), tmp_path / "a.mid", border=1.0)
    file = mido.MidiFile(tmp_path / "a.mid")
    ticks, found = 0, None
    for message in file.tracks[0]:
        ticks += message.time
        found = ticks if message.type == "marker" else found
    assert found is not None
    assert mido.tick2second(found, file.ticks_per_beat, 500_000) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a MIDI file"),
        (b"RIFF....RMID", "is not a MIDI file"),
        (b"MThd\x00\x00", "is a damaged MIDI file"),
        (b"MThd\x00\x00\x00\x06\x00\x01\x00\x02\x00\x60MTrk\x00\x00\x00\x04\x00\x90\x3c", "is a damaged MIDI file"),
        (b"MThd\x00\x00\x00\x06\x00\x01\x00\x01\xe7\x28MTrk\x00\x00\x00\x04\x00\xff\x2f\x00", "film frames"),
        (b"MThd\x00\x00\x00\x06\x00\x00\x00\x01\x00\x60MTrk\x00\x00\x00\x04\x00\xff\x2f\x00", "has no notes"),
    ],
)
def test_broken_files_are_told_in_a_sentence(content, said, tmp_path):
    path = tmp_path / "a.mid"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_midi(path)


@settings(max_examples=30, deadline=None)
@given(at=st.integers(0, 60), byte=st.integers(0, 255), cut=st.integers(0, 70))
def test_no_damage_shows_a_traceback(at, byte, cut, tmp_path_factory):
    folder = tmp_path_factory.mktemp("midi")
    write_midi(Piece.of([Note(0, 1, 60), Note(1, 2, 64, 30)]), folder / "a.mid")
    content = bytearray((folder / "a.mid").read_bytes())
    content[at] = byte
    (folder / "a.mid").write_bytes(content[: len(content) - cut])
    with contextlib.suppress(InputError):
        assert read_midi(folder / "a.mid").notes


def test_what_is_missing_or_far_too_large(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_midi(tmp_path / "none.mid")
    with pytest.raises(InputError, match="is a folder"):
        read_midi(tmp_path)
    with (tmp_path / "large.mid").open("wb") as file:
        file.truncate((1 << 23) + 1)
    with pytest.raises(InputError, match="is larger than 8 MiB"):
        read_midi(tmp_path / "large.mid")
