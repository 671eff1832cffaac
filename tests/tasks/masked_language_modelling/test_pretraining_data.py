"""From texts to inputs in a folder: files, documents in memory, what is held out, statistics, and what cannot be used."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from regard.errors import InputError
from regard.tasks.encoders import SECOND, TEXT
from regard.tasks.masked_language_modelling import NEXT, ORDINARY, MaskedTextData, prepare_masked
from regard.tasks.preparation import EncoderTokenizerSettings
from regard.text import Tokenizer

TOKENIZER = EncoderTokenizerSettings(size=90)


@pytest.fixture
def prepared(tmp_path, documents):
    def make(name: str = "data", *, seed: int = 1, given=documents, given_validation=None, tokenizer=TOKENIZER, **data):
        settings = MaskedTextData(**({"maximum_length": 24, "validation_share": 0.2} | data))
        return prepare_masked(
            settings, tokenizer, tmp_path / name, seed=seed, given=given, given_validation=given_validation
        )

    return make


def letters_of(prepared, store) -> set[str]:
    texts = (prepared.task.tokenizer.decode(store.sequence(TEXT, row)) for row in range(len(store)))
    return {letter for text in texts for letter in text if letter.isalpha()}


def test_every_input_is_as_the_model_reads_it(prepared):
    found = prepared(duplicates=2)
    tokenizer = found.task.tokenizer
    for store in (found.train, found.validation):
        assert store.columns == (TEXT, SECOND, ORDINARY, NEXT)
        for row in range(len(store)):
            ids, second = store.sequence(TEXT, row), int(store.sequence(SECOND, row)[0])
            assert len(ids) <= 24
            assert ids[0] == tokenizer.start_id
            assert np.flatnonzero(ids == tokenizer.end_id).tolist() == [second - 1, len(ids) - 1]
            assert int(store.sequence(ORDINARY, row)[0]) == len(ids) - 3
    assert not (tmp := Path(found.train._folder).parent / "documents").exists(), tmp
    assert (
        found.task.labels(found.train).tolist()
        == found.task.masking.counts(found.train.lengths(TEXT), found.train.lengths(TEXT) - 3).tolist()
    )


def test_the_statistics_are_those_of_the_stores(prepared):
    found = prepared(duplicates=3)
    for note, store in zip(found.notes, (found.train, found.validation), strict=True):
        inputs = int(re.search(r"([\d,]+) inputs", note)[1].replace(",", ""))
        tokens = int(re.search(r"([\d,]+) in all", note)[1].replace(",", ""))
        true = float(re.search(r"([\d.]+)% have the true next", note)[1])
        assert inputs == len(store)
        assert tokens == store.lengths(TEXT).sum()
        nexts = store.numbers(NEXT)
        assert true == pytest.approx(100 * (nexts == 0).mean(), abs=0.05)
    assert f"{len(found.train):,} inputs to learn from" in found.task.describe(found.train, found.validation)


def test_duplicates_cut_the_same_documents_anew(prepared):
    once, thrice = prepared("one"), prepared("three", duplicates=3)
    assert 2.5 * len(once.train) < len(thrice.train) < 3.5 * len(once.train)
    assert len(once.validation) == len(thrice.validation), "validation sees each document once"


def test_documents_are_held_out_whole_and_none_twice(prepared):
    given = [[f"{letter * 3} {letter * 2}."] * 4 for letter in "abcdefghijklmnopqrst"]
    found = prepared(given=given, tokenizer=EncoderTokenizerSettings(size=300), next_sentence=False)
    train, validation = letters_of(found, found.train), letters_of(found, found.validation)
    assert len(validation) == 4  # a fifth of the documents
    assert train | validation == set("abcdefghijklmnopqrst")
    assert not train & validation


def test_validation_of_its_own(prepared, documents):
    found = prepared(given=documents[:20], given_validation=documents[20:])
    assert "20 documents" in found.notes[0]
    assert "20 documents" in found.notes[1]


@pytest.mark.slow
def test_files_beside_what_comes_with_python(prepared, tmp_path, documents):
    file = tmp_path / "a.txt"
    file.write_text("\n\n".join("\n".join(document) for document in documents))
    found = prepared(given=None, train=str(file), builtin="python_docs", tokenizer=EncoderTokenizerSettings(size=300))
    train, validation = (int(re.search(r"([\d,]+) documents", note)[1]) for note in found.notes)
    assert train > 32 + 40
    assert validation > 8 + 3
    alone = prepared("alone", given=None, builtin="python_docs", tokenizer=EncoderTokenizerSettings(size=300))
    assert int(re.search(r"([\d,]+) documents", alone.notes[0])[1]) == train - 32


def test_the_sentences_of_a_file(prepared, tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("The dog sees. A cat sees.\n\n" * 6)
    found = prepared(given=None, train=str(file), validation=str(file), next_sentence=False)
    assert "6 documents of 12 sentences" in found.notes[0]
    lines = prepared("lines", given=None, train=str(file), validation=str(file), sentences="line", next_sentence=False)
    assert "6 documents of 6 sentences" in lines.notes[0]


def test_rare_words_of_wikitext_are_unknown_and_never_hidden(prepared, tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("\n = One = \n\n The <unk> sees a @-@ cat . [UNK]\n\n = Two = \n\n A <unk> <unk> .\n")
    settings = {"train": str(file), "validation": str(file), "documents": "heading", "next_sentence": False}
    found = prepared(given=None, **settings, cleaning="wikitext")
    tokenizer = found.task.tokenizer
    assert tokenizer.tokens(found.train.sequence(TEXT, 1)) == ["[CLS]", "a", "[UNK]", "[UNK]", ".", "[SEP]"]
    assert found.train.numbers(ORDINARY).tolist()[1] == 2
    plain = prepared("plain", given=None, **settings)
    assert "[UNK]" not in plain.task.tokenizer.tokens(plain.train.sequence(TEXT, 1)), "ordinary text elsewhere"


def test_pairs_without_the_question_whether_they_follow(prepared):
    found = prepared(next_sentence=False, pairs=True)
    assert found.train.columns == (TEXT, SECOND, ORDINARY)
    assert (found.train.numbers(SECOND) > 0).all()
    assert found.task.model_settings()["head"] == "masked"


def test_a_finished_preparation_is_taken_as_it_is(prepared, documents):
    first = prepared()
    again = prepared(given=documents[:3])
    assert again.notes == first.notes
    assert len(again.train) == len(first.train)


def test_a_killed_preparation_is_made_anew(prepared, tmp_path):
    (tmp_path / "data" / "documents").mkdir(parents=True)
    (tmp_path / "data" / "documents" / "tokens.bin").write_bytes(b"x")
    (tmp_path / "data" / ".train.1.ab.partial").mkdir()
    assert len(prepared().train) > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"given": None}, "data.train is missing"),
        ({"given": []}, "give a list of examples"),
        ({"given": "a text"}, "give a list of examples"),
        ({"given": [3]}, "document 1 is 3"),
        ({"given": [["a b c", "d e f"]]}, "1 document, too few to hold out"),
        ({"given": ["", " "]}, "there is no training text; give some"),
        ({"tokenizer": EncoderTokenizerSettings(kind="word", size=50)}, "no mask token"),
        ({"given": None, "train": "/nowhere/a.txt"}, "no such file"),
        (
            {"given_validation": [["one sentence"]]},
            "the validation text has 1 document, and half of the next sentences",
        ),
    ],
)
def test_what_cannot_be_prepared(prepared, settings, message):
    with pytest.raises(InputError, match=message):
        prepared(**settings)


def test_a_line_of_ten_megabytes_is_told(prepared, tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("word " * 2_000_000)
    with pytest.raises(InputError, match=r"no training text \(1 malformed row was left out \(1 longer than 1 MiB\)"):
        prepared(given=None, train=str(file))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pairs": False}, r"data\.next_sentence needs pairs"),
        ({"random_next": 0.0}, "nothing to predict"),
        ({"maximum_length": 4}, r"data\.maximum_length"),
        ({"duplicates": 0}, r"data\.duplicates"),
        ({"mask_share": 0.95}, r"data\.mask_share"),
        ({"teacher": {"folder": "x"}}, "data.teacher"),
        ({"validation_share": 1.0}, r"data\.validation_share"),
    ],
)
def test_settings_that_contradict(settings, message):
    from regard.structure import from_mapping

    with pytest.raises(InputError, match=message):
        from_mapping(MaskedTextData, settings, "data")


def test_a_tokenizer_from_elsewhere(prepared, tmp_path, documents):
    Tokenizer.train([each for document in documents for each in document], kind="bert", size=60).save(tmp_path / "t")
    found = prepared(tokenizer=EncoderTokenizerSettings(path=str(tmp_path / "t")))
    assert found.task.tokenizer.size == 60
