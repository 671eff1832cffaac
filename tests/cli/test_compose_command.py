"""`regard compose`, and the other commands on a model of music."""

from __future__ import annotations

import json

import mido
import pytest

import regard
from regard.data.music import read_midi, write_midi
from regard.data.notes import Note, Piece


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "motifs"
    values = {
        "task": "language_modelling",
        "model": {"name": "music_transformer", "width": 16, "heads": 2, "feedforward_width": 24, "layers": 1},
        "data": {"motifs": {"notes": 15, "size": 60, "validation_size": 5}, "length": 16},
        "tokenizer": {"kind": "grid"},
        "training": {"steps": 15, "batch_tokens": 256, "precision": "float32", "learning_rate": 1e-2, "warmup": 5},
    }
    regard.train(values, output=folder)
    return folder


def test_a_midi_file_and_a_plot_of_prompt_and_continuation(command, model, tmp_path):
    where = ["--output", tmp_path / "a.mid", "--piano-roll", tmp_path / "a.svg"]
    answer = command("compose", model, "motifs:1", "--first", 6, "--maximum-length", 8, "--seed", 2, *where)
    assert answer.code == 0
    assert answer.out == ""
    assert "6 events of the prompt" in answer.err
    assert "<svg" in (tmp_path / "a.svg").read_text()
    marked = [message for track in mido.MidiFile(tmp_path / "a.mid").tracks for message in track]
    assert "continuation" in [message.text for message in marked if message.type == "marker"]
    told = json.loads(
        command("compose", model, "motifs:1", "--first", 6, "--maximum-length", 8, "--seed", 2, "--json").out
    )
    assert len(told["prompt"]) == 6
    assert told["border"] == 1.5
    read = read_midi(tmp_path / "a.mid")
    assert [(note.pitch, note.start) for note in read.notes] == [
        (note["pitch"], pytest.approx(note["start"])) for note in told["notes"]
    ]


def test_the_seed_decides_and_a_tempo_stretches(command, model):
    def ask(*more):
        return json.loads(command("compose", model, "--maximum-length", 12, "--json", *more).out)

    assert ask("--seed", 1)["continuation"] == ask("--seed", 1)["continuation"] != ask("--seed", 2)["continuation"]
    assert ask("--seed", 1, "--tempo", 60)["seconds"] == pytest.approx(2 * ask("--seed", 1)["seconds"])
    greedy = [ask("--no-sample")["continuation"] for _ in range(2)]
    assert greedy[0] == greedy[1]


def test_events_are_printed_where_no_file_is_asked_for(command, model, tmp_path):
    write_midi(Piece.of([Note(0, 0.5, 60), Note(0.5, 1, 64)]), tmp_path / "two.mid", times="quarters")
    answer = command("compose", model, tmp_path / "two.mid", "--maximum-length", 5)
    assert answer.code == 0
    assert 1 <= len(answer.out.split()) <= 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.mid"], "none.mid: no such file"),
        (["motifs:0", "--output", "a.wav"], "a.wav: give a name that ends in .mid"),
        (["motifs:0", "--piano-roll", "a.gif"], "a.gif: give a name that ends in .png or .svg"),
        (["--first", "3"], "--first limits PIECE"),
        (["none.json:2"], "none.json: no such file"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(command, model, words, said):
    assert said in command("compose", model, *words).refusal()


def test_chords_for_a_model_of_one_voice_are_refused(command, model, tmp_path):
    write_midi(Piece.of([Note(0, 1, 60), Note(0, 1, 64)]), tmp_path / "chord.mid")
    said = command("compose", model, tmp_path / "chord.mid").refusal()
    assert "chord.mid: 2 notes sound at once at step 1" in said


def test_its_attention_over_events_is_seen_and_its_loss_measured(command, model, tmp_path):
    view = json.loads(command("look", model, "C4 E4 G4", "--json").out)
    assert "C4" in json.dumps(view)
    named = command("look", model, "motifs:0", "-o", tmp_path / "a.json")
    assert "1 attention maps of 'motifs:0'" in named.err
    found = json.loads(command("evaluate", model, "motifs", "--limit", 4, "--json").out)
    assert (found["count"], found["tokens"], found["unknown"]) == (4, 64, 0)
