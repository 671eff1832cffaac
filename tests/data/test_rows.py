"""Rows in memory: one check for all tasks, of tuples and of mappings."""

from __future__ import annotations

import pytest

import regard
from regard.data.labelled import labelled_in_memory
from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.tasks.caption_data import CAPTIONS
from regard.tasks.documents import DOCUMENTS
from regard.tasks.image_classification import IMAGES
from regard.tasks.language_task import TEXTS, TextData
from regard.tasks.multiple_choice import QUESTIONS as CHOICES
from regard.tasks.question_data import QUESTIONS
from regard.tasks.sentence_data import SENTENCE_PAIRS
from regard.tasks.tagging_data import SENTENCES
from regard.tasks.text_to_text import EXAMPLES
from regard.tasks.translation_data import PAIRS, TranslationData

READERS = {
    "translation": PAIRS.in_memory,
    "text_to_text": EXAMPLES.in_memory,
    "classification": labelled_in_memory,
    "sentence_embedding": SENTENCE_PAIRS.in_memory,
    "tagging": SENTENCES.in_memory,
    "multiple_choice": CHOICES.in_memory,
    "question_answering": QUESTIONS.in_memory,
    "image_classification": IMAGES.in_memory,
    "captioning": CAPTIONS.in_memory,
    "documents": DOCUMENTS.in_memory,
    "language_modelling": TEXTS.in_memory,
}
OF_TEXTS = ("documents", "language_modelling")


@pytest.mark.parametrize("task", [name for name in READERS if name not in OF_TEXTS])
@pytest.mark.parametrize("row", ["ab", "abc", ("a",), ("a", "b", "c", "d"), 7, None, {"elsewhere": "a"}], ids=repr)
def test_what_is_no_row_is_refused_by_its_number(task, row):
    with pytest.raises(InputError, match=r" 1\b"):
        READERS[task]([row])


@pytest.mark.parametrize("task", OF_TEXTS)
@pytest.mark.parametrize("row", [7, None, {"elsewhere": "a"}], ids=repr)
def test_what_is_no_text_is_refused_by_its_number(task, row):
    with pytest.raises(InputError, match=r" 2\b"):
        READERS[task](["a", row])


@pytest.mark.parametrize("task", READERS)
@pytest.mark.parametrize("rows", ["ab", [], {"text": "a"}, 3], ids=repr)
def test_what_holds_no_rows_is_refused(task, rows):
    with pytest.raises(InputError, match="give a list of examples"):
        READERS[task](rows)


@pytest.mark.parametrize(
    ("task", "row"),
    [
        ("translation", ("", "a")),
        ("translation", {"source": "a", "target": " "}),
        ("text_to_text", ("", "a")),
        ("classification", ("", "a")),
        ("classification", (("a", ""), "b")),
        ("classification", {"text": "\t", "label": 1}),
        ("sentence_embedding", ("a", "")),
    ],
)
def test_an_empty_text_is_refused_with_its_row(task, row):
    with pytest.raises(InputError, match="row 1: empty "):
        READERS[task]([row])


def test_rows_by_the_names_of_columns():
    assert (
        PAIRS.in_memory(
            [{"translation": {"en": "one", "fr": "un"}}],
            TranslationData(source="translation.en", target="translation.fr"),
        )[0].target
        == "un"
    )
    assert EXAMPLES.in_memory([{"target": ["b", "c"], "source": "a", "id": 1}])[0].targets == ("b", "c")
    pair = labelled_in_memory([{"idx": 4, "sentence1": "a", "sentence2": "b", "label": 0}])[0]
    assert (pair.text, pair.pair, pair.label) == ("a", "b", 0)
    assert labelled_in_memory([{"review": "a", "stars": 3, "text": "b"}], "review", None, "stars")[0].text == "a"
    found = SENTENCE_PAIRS.in_memory(
        [{"anchor": "a", "positive": "b", "negative": "c"}, {"sentence1": "a", "sentence2": "b", "score": 0.5}]
    )
    assert [one.texts for one in found] == [("a", "b", "c"), ("a", "b")]
    assert found[1].score == 0.5
    assert SENTENCES.in_memory([{"tokens": ["a", "b"], "ner_tags": [0, 3]}])[0].tags == ("0", "3")
    question = CHOICES.in_memory([{"context": "a", "choices": ["b", "c"], "answer": 1, "question": "d"}])[0]
    assert (question.question, question.answer) == ("d", 1)
    squad = {"question": "Where?", "context": "In Rome.", "answers": {"text": ["Rome"], "answer_start": [3]}}
    assert QUESTIONS.in_memory([squad])[0].answers[0].start == 3
    placed = {"question": "Where?", "context": "Rome, Rome", "answer": "Rome", "answer_start": 6}
    assert QUESTIONS.in_memory([placed])[0].answers[0].start == 6
    assert IMAGES.in_memory([{"image": "a.png", "label": 3}])[0].label == "3"
    assert CAPTIONS.in_memory([{"image": "a.png", "caption": "a dog"}])[0].captions == ("a dog",)
    assert DOCUMENTS.in_memory([{"text": "One. Two."}]) == [["One.", "Two."]]
    read = TEXTS.reader(TextData(), None, [{"text": "a"}, {"text": ""}, "b"])
    assert read is not None
    assert list(read(MalformedRows())) == ["a", "b"]


def test_rows_of_a_library_table():
    class Table:  # as pandas has it: to iterate one gives the names of its columns
        columns = ("text", "label")

        def to_dict(self, kind):
            assert kind == "records"
            return [{"text": "a", "label": 1}]

        def __iter__(self):
            return iter(self.columns)

    assert labelled_in_memory(Table())[0].label == 1


def test_a_run_on_mappings_and_on_no_rows(tmp_path):
    model = {"name": "bahdanau", "embedding_width": 4, "hidden_width": 4, "attention_width": 4, "maxout_width": 4}
    recipe = {
        "task": "translation",
        "model": model,
        "data": {},
        "training": {"steps": 1},
        "tokenizer": {"kind": "character"},
    }
    rows = [{"source": f"a {number}", "target": f"b {number}"} for number in range(12)]
    regard.train(recipe, output=tmp_path / "run", data=rows)
    with pytest.raises(InputError, match="pairs, row 13: empty source"):
        regard.train(recipe, output=tmp_path / "other", data=[*rows, ("", "a")])
