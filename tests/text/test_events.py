from __future__ import annotations

import pickle

import pytest

from regard.errors import InputError
from regard.text import Tokenizer
from regard.text.events import EVENTS, PITCHES, note_name, pitch_of, words


@pytest.mark.parametrize(("kind", "size"), [("performance", 391), ("grid", 132)])
def test_a_kind_has_its_words_and_three_special_tokens(kind, size, tmp_path):
    tokenizer = Tokenizer.train([], kind=kind, size=5)
    assert (tokenizer.size, tokenizer.kind, tokenizer.end_id, tokenizer.padding_id) == (size, kind, 0, size - 1)
    text = " ".join(words(kind))
    ids = tokenizer.encode(text)
    assert ids == list(range(2, size - 1))
    assert tokenizer.decode(ids) == text
    tokenizer.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert (loaded, loaded.kind) == (tokenizer, kind)
    assert pickle.loads(pickle.dumps(tokenizer)) == tokenizer


def test_the_vocabulary_of_a_performance_is_the_papers_388():
    kinds = [word.partition(":")[0] for word in words("performance")]
    assert {kind: kinds.count(kind) for kind in kinds} == {"on": 128, "off": 128, "wait": 100, "velocity": 32}


@pytest.mark.parametrize("kind", EVENTS)
def test_what_is_no_event_is_unknown_and_special_tokens_are_not_read(kind):
    tokenizer = Tokenizer.train([], kind=kind, size=5)
    assert tokenizer.encode("hello H4 </s> <pad>") == [tokenizer.unknown_id] * 4


def test_a_vocabulary_of_words_that_happen_to_be_notes_is_none_of_music():
    assert Tokenizer.train(["C4 D4 rest"], kind="word", size=20).kind == "word"


def test_names_and_pitches_are_one_to_one():
    assert [pitch_of(note_name(pitch)) for pitch in range(PITCHES)] == list(range(PITCHES))
    assert (note_name(60), note_name(69), note_name(127)) == ("C4", "A4", "G9")
    with pytest.raises(InputError, match="'H4' is not a note; write C4"):
        pitch_of("H4")


@pytest.mark.parametrize("more", [{"lowercase": True}, {"extra_tokens": ["<x>"]}, {"sentinels": 2}])
def test_what_belongs_to_texts_is_refused(more):
    with pytest.raises(InputError, match="only event tokens of music"):
        Tokenizer.train([], kind="grid", size=200, **more)
