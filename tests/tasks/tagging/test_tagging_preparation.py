"""From files to token stores: schemes, tags, documents, and what is wrong with the data."""

from __future__ import annotations

import gzip

import pytest

from regard.data.tagged import TaggedSentence
from regard.errors import InputError
from regard.tasks.preparation import EncoderTokenizerSettings
from regard.tasks.tagging import GOES_ON, PLACE, TAG, prepare_tags
from regard.tasks.tagging_data import TaggedData, all_tags, documents_of

TRAIN = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC
call NN I-NP O

Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER
Ann NNP B-NP B-PER

BRUSSELS NNP I-NP I-LOC

-DOCSTART- -X- O O

Peter NNP I-NP I-PER
rejects VBZ I-VP O
BRUSSELS NNP I-NP I-LOC
"""

SIZE = EncoderTokenizerSettings(size=120)


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "eng.train"
    path.write_text(TRAIN)
    return path


@pytest.fixture
def prepared(train, tmp_path):
    """Prepare some data for training and validation alike."""

    def make(**settings):
        data = TaggedData(**{"train": str(train), "validation": str(train), **settings})
        return prepare_tags(data, SIZE, tmp_path / "data", seed=1)

    return make


def tags_in(found, row: int) -> list[str]:
    return [found.task.tags[number] for number in found.train.sequence(TAG, row)]


def words_in(found, row: int) -> list[str]:
    """The tokens at which words begin."""
    ids, places = found.train.sequence("text", row), found.train.sequence(PLACE, row)
    return found.task.tokenizer.tokens(ids[places])


def test_iob1_becomes_bio(prepared):
    found = prepared()
    types = ("LOC", "MISC", "ORG", "PER")
    assert found.task.tags == ("O", *(f"{mark}-{type}" for type in types for mark in "BI"))
    assert found.task.scheme == "BIO"
    assert [tags_in(found, row) for row in range(4)] == [
        ["B-ORG", "O", "B-MISC", "O"],
        ["B-PER", "I-PER", "B-PER"],
        ["B-LOC"],
        ["B-PER", "O", "B-LOC"],
    ]
    assert words_in(found, 1)[0][0] == "p"
    assert "The tags of the data are IOB1; they are converted to BIO." in found.notes


def test_the_model_may_write_bioes(prepared):
    found = prepared(scheme="bioes")
    assert len(found.task.tags) == 17
    assert tags_in(found, 1) == ["B-PER", "E-PER", "S-PER"]


def test_tags_as_given(prepared):
    found = prepared(scheme="as_given")
    assert found.task.scheme == "IOB1"
    assert tags_in(found, 1) == ["I-PER", "I-PER", "B-PER"]
    assert not found.notes


def test_parts_of_speech_are_no_spans(prepared):
    found = prepared(tag=1)
    assert found.task.scheme is None
    assert found.task.tags == ("JJ", "NN", "NNP", "VBZ")
    assert tags_in(found, 0) == ["NNP", "VBZ", "JJ", "NN"]


def test_tags_of_a_scheme_may_be_taken_as_no_spans(prepared):
    assert prepared(scheme="none").task.scheme is None


def test_a_scheme_for_tags_that_have_none_is_refused(prepared):
    with pytest.raises(InputError, match=r"data.scheme is 'bio', but the tags \('NNP', .*data.scheme=none"):
        prepared(tag=1, scheme="bio")


def test_gzip_and_jsonl(tmp_path):
    packed = tmp_path / "a.gz"
    packed.write_bytes(gzip.compress(TRAIN.encode()))
    lines = tmp_path / "b.jsonl"
    lines.write_text('{"tokens": ["Ann", "ran"], "tags": ["B-PER", "O"]}\n{"tokens": ["x"], "tags": ["O"]}\n')
    found = prepare_tags(TaggedData(train=str(packed), validation=str(lines)), SIZE, tmp_path / "data", seed=1)
    assert (len(found.train), len(found.validation)) == (4, 2)


def test_sentences_in_memory(tmp_path):
    given = [(["Ann", "ran"], ["B-PER", "O"]), (("x", "y"), ("O", "O"))] * 5
    found = prepare_tags(TaggedData(), SIZE, tmp_path / "data", seed=1, given=given)
    assert (len(found.train), len(found.validation)) == (9, 1)
    assert found.task.tags == ("O", "B-PER", "I-PER")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([(["Ann", "ran"], ["O"])], "sentences, the sentence in line 1: 2 words and 1 tags"),
        ([([], [])], "has no words"),
        ([("Ann ran", ["O", "O"])], "sentence 1: 'Ann ran' is not a list"),
        ([(["Ann", ""], ["O", "O"])], "sentence 1"),
        ([3], "sentence 1 is 3; give"),
        ([], "give a list of examples"),
        ([(["Ann"], ["O"])] * 4, "all words of the training data have the tag 'O'"),
        ([(["Ann"], ["NN"])] * 4, "all words of the training data have the tag 'NN'"),
    ],
)
def test_bad_sentences_in_memory_are_refused(given, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        prepare_tags(TaggedData(), SIZE, tmp_path / "data", seed=1, given=given)


@pytest.mark.parametrize(
    ("line", "settings", "sentence"),
    [
        ("Reuters NNP I-NP I-AGENCY", {}, "dev, the sentence in line 2: the word 'Reuters' has the tag 'B-AGENCY'"),
        ("Reuters NNP I-NP S-ORG", {}, "dev, the sentence in line 2: .*'S-ORG' is not in the scheme IOB1"),
        ("Reuters FW I-NP O", {"tag": 1}, "dev, the sentence in line 2: the word 'Reuters' has the tag 'FW'"),
    ],
)
def test_a_tag_that_was_never_learnt_is_refused_with_file_and_line(train, tmp_path, line, settings, sentence):
    dev = tmp_path / "dev"
    dev.write_text(f"\nPeter NNP I-NP {'NNP' if 'tag' in settings else 'I-PER'}\n{line}\n")
    data = TaggedData(train=str(train), validation=str(dev), **settings)
    with pytest.raises(InputError, match=sentence):
        prepare_tags(data, SIZE, tmp_path / "data", seed=1)


def test_the_column_of_words_taken_for_tags_is_refused(tmp_path):
    path = tmp_path / "wide"
    path.write_text("".join(f"a w{number}\n\n" for number in range(1500)))
    with pytest.raises(InputError, match=r"1,500 different tags, such as 'w0'; name the right column"):
        prepare_tags(TaggedData(train=str(path)), SIZE, tmp_path / "data", seed=1)


def test_tags_that_the_recipe_names_keep_their_order(prepared):
    tags = ("I-PER", "O", "B-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-MISC", "I-MISC")
    assert prepared(tags=tags).task.tags == tags


def test_malformed_sentences_are_left_out_and_told(train, tmp_path):
    train.write_text(TRAIN + "\nx O\ny y y I-PER\n\n")
    found = prepare_tags(TaggedData(train=str(train), validation=str(train)), SIZE, tmp_path / "data", seed=1)
    assert len(found.train) == 4
    assert any("eng.train, line 20: wrong number of columns" in note for note in found.notes), found.notes


def test_long_sentences_take_several_windows(tmp_path):
    given = [([f"w{number % 7}" for number in range(50)], ["B-X"] + ["O"] * 48 + ["B-Y"]), (["w1"], ["O"])]
    data = TaggedData(maximum_length=20)
    found = prepare_tags(data, SIZE, tmp_path / "data", seed=1, given=given, given_validation=given)
    assert len(found.train) > 3
    assert found.train.lengths("text").max() <= 20
    assert [int(found.train.sequence(GOES_ON, row)[0]) for row in range(len(found.train))] == [
        0,
        *[1] * (len(found.train) - 2),
        0,
    ]
    together = [tag for row in range(len(found.train) - 1) for tag in tags_in(found, row)]
    assert together == ["B-X"] + ["O"] * 48 + ["B-Y"]
    assert any(note.startswith("2 sentences were longer") for note in found.notes)


def test_context_is_that_of_the_document(prepared):
    found = prepared(context=50)
    tokens = [found.task.tokenizer.tokens(found.train.sequence("text", row)) for row in range(4)]
    assert tokens[0] == tokens[1] == tokens[2]  # the first document fits as a whole
    assert len(tokens[3]) < len(tokens[0])
    assert [tags_in(found, row) for row in range(3)] == [
        ["B-ORG", "O", "B-MISC", "O"],
        ["B-PER", "I-PER", "B-PER"],
        ["B-LOC"],
    ]
    assert words_in(found, 2)[0][0] == "b"


def test_documents_end_where_files_and_gaps_do():
    def sentence(count: int, file: str, line: int) -> TaggedSentence:
        return TaggedSentence(words=("x",) * count, tags=("O",) * count, file=file, line=line)

    columns = [
        sentence(4, "a", 3),
        sentence(3, "a", 8),
        sentence(1, "a", 12),
        sentence(3, "a", 16),
        sentence(1, "b", 20),
    ]
    assert list(documents_of(columns)) == [0, 0, 0, 1, 2]
    assert list(documents_of([sentence(5, "j", 1), sentence(2, "j", 2), sentence(2, "j", 3)])) == [0, 0, 0]


def test_a_preparation_that_is_there_is_taken_as_it_is(prepared, train):
    first = prepared()
    train.write_text("changed O\n")
    again = prepared()
    assert again.task == first.task
    assert again.notes == first.notes


@pytest.mark.parametrize(
    ("type", "scheme", "tags"),
    [
        ("PER", "BIO", ["B-PER", "I-PER"]),
        ("PER", "IOB1", ["I-PER", "B-PER"]),
        ("A-B", "BIOES", ["B-A-B", "I-A-B", "E-A-B", "S-A-B"]),
        ("PER", "BILOU", ["B-PER", "I-PER", "L-PER", "U-PER"]),
        ("", "BIO", ["B", "I"]),
    ],
)
def test_all_tags_of_a_type(type, scheme, tags):
    assert all_tags(type, scheme) == tags


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"format": "colums"}, "data.format is 'colums'; did you mean 'columns'"),
        ({"validation_share": 1.0}, "data.validation_share"),
        ({"maximum_length": 4}, "data.maximum_length"),
        ({"context": -1}, "data.context"),
        ({"tags": ("O",)}, "data.tags"),
        ({"tags": ("O", "O")}, "data.tags"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        TaggedData(**settings)


def test_data_must_be_named(tmp_path):
    with pytest.raises(InputError, match=r"data\.train is missing"):
        prepare_tags(TaggedData(), SIZE, tmp_path / "data", seed=1)
