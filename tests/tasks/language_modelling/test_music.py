"""Music as the data of a language model, and a model that goes on with it."""

from __future__ import annotations

import json

import pytest

import regard
from regard.data.music import write_midi
from regard.data.notes import Note, Piece
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.tasks.language_modelling import compose, writing_of
from regard.training.recipe import read_recipe

MODEL = {"name": "music_transformer", "width": 16, "heads": 2, "feedforward_width": 24, "layers": 1, "dropout": 0.0}
TRAINING = {"steps": 20, "batch_tokens": 256, "precision": "float32", "learning_rate": 1e-2, "warmup": 5}


def recipe(data, kind="grid", **more):
    return {
        "task": "language_modelling",
        "model": MODEL,
        "data": {"length": 16, **data},
        "tokenizer": {"kind": kind},
        "training": TRAINING,
        **more,
    }


def stream(store, tokenizer):
    """All words of a token store, an end as |."""
    found = []
    for row in range(len(store)):
        found += tokenizer.tokens(store.sequence("text", row).tolist()[1 if row else 0 :])
    return " ".join(found).replace("</s>", "|")


@pytest.fixture(scope="module")
def motifs(tmp_path_factory):
    data = {"motifs": {"notes": 15, "size": 60, "validation_size": 5, "longest": 3}}
    return regard.train(recipe(data), output=tmp_path_factory.mktemp("runs") / "motifs").load()


@pytest.fixture
def chorales(tmp_path):
    piece = [[60 + step, 55, 52, 48] for step in range(8)]
    path = tmp_path / "chorales.json"
    path.write_text(json.dumps({"train": [piece] * 4, "valid": [piece[:4]], "test": [piece[:2]]}))
    return path


def test_builtin_motifs_are_learnt_from_without_any_file(motifs):
    assert motifs.task.tokenizer.kind == "grid"
    assert motifs.metrics["loss"] > 0
    assert writing_of(motifs).grid.voices == 1


def test_a_file_of_chorales_brings_its_own_validation_and_training_is_in_other_keys(chorales, tmp_path):
    data = {"train": str(chorales), "music": {"events": "grid", "transpose": 1}}
    run = regard.train(recipe(data), output=tmp_path / "run")
    tokenizer = run.load().task.tokenizer
    told = stream(TokenStore.open(tmp_path / "run" / "data" / "validation"), tokenizer)
    assert told == "| C4 G3 E3 C3 C#4 G3 E3 C3 D4 G3 E3 C3 D#4 G3 E3 C3 |"
    learnt = stream(TokenStore.open(tmp_path / "run" / "data" / "train"), tokenizer)
    assert learnt.count("|") == 1 + 4 * 3
    assert "| B3 F#3 D#3 B2" in learnt


def test_a_folder_of_midi_files_is_held_out_by_the_file(tmp_path):
    for number in range(6):
        notes = [Note(step / 4, step / 4 + 0.25, 50 + number) for step in range(8)]
        write_midi(Piece.of(notes), tmp_path / f"{number}.mid")
    (tmp_path / "broken.mid").write_bytes(b"MThd")
    run = regard.train(
        recipe({"train": str(tmp_path), "music": {}, "validation_share": 0.3}, kind="performance"),
        output=tmp_path / "run",
    )
    tokenizer = run.load().task.tokenizer
    learnt, told = (
        {word for word in stream(TokenStore.open(tmp_path / "run" / "data" / part), tokenizer).split() if ":" in word}
        for part in ("train", "validation")
    )
    on = [{word for word in words if word.startswith("on:")} for words in (learnt, told)]
    assert [len(each) for each in on] == [4, 2]
    assert not on[0] & on[1]


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        ({"motifs": {}, "train": "x"}, "grid", r"data\.train and data\.motifs are both given"),
        ({"motifs": {}, "music": {}}, "grid", r"data\.music and data\.motifs are both given"),
        ({"music": {}, "builtin": "python_docs"}, "grid", r"data\.builtin and data\.music are both given"),
        ({"music": {"voices": 0}, "train": "x"}, "grid", r"data\.music\.voices"),
        ({"motifs": {"size": 0}}, "grid", r"data\.motifs\.size"),
        ({"motifs": {"size": 3, "validation_size": 2}}, "word", r"give tokenizer\.kind=grid"),
        ({"music": {}}, "performance", r"data\.train is missing; name a folder of MIDI files"),
    ],
)
def test_what_contradicts_itself_is_refused(data, kind, said, tmp_path):
    with pytest.raises(InputError, match=said):
        regard.train(read_recipe(recipe(data, kind)), output=tmp_path / "run")


def test_a_model_goes_on_with_a_piece(motifs):
    settings = GenerationSettings(maximum_length=6, sample=True, seed=3)
    found = compose(motifs, ["C4", "E4", "G4", "rest"], settings)
    assert found == compose(motifs, ["C4", "E4", "G4", "rest"], settings)
    assert found.border == 4 * 60 / 120 / 2  # eighths at 120 quarters a minute
    assert 1 <= len(found.continuation) <= 6
    assert [note.pitch for note in found.piece.notes[:3]] == [60, 64, 67]
    assert len(found.log_probabilities) == len(found.continuation) + found.finished
    begun = compose(motifs, settings=settings)
    assert (begun.prompt, begun.border) == ((), 0)


def test_wrong_events_and_models_of_texts_are_told(motifs, tmp_path):
    with pytest.raises(InputError, match="'H4' is not a note"):
        compose(motifs, ["C4", "H4"])
    words = {**recipe({}, kind="word"), "tokenizer": {"kind": "word", "size": 20}}
    texts = regard.train(words, output=tmp_path / "texts", data=["a b c d", "b c d a"] * 5).load()
    with pytest.raises(InputError, match="has a tokenizer of kind word, for texts"):
        compose(texts)
