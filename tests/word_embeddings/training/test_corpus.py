"""Text as sentences of words: what is a word, what is a sentence, what is left out, and what cannot be read."""

from __future__ import annotations

import gzip

import pytest

from regard.errors import InputError
from regard.word_embeddings.training import sentences
from regard.word_embeddings.training.corpus import count_words


@pytest.fixture
def text(tmp_path):
    def make(content: str, name: str = "a.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
        return path

    return make


def test_raw_text_is_split_into_sentences_and_words(text):
    path = text("Dr. Who's here, at 7.\nHe left_early! Cafe\u0301 “naïve”\n\nहिन्दी में.\n")
    assert list(sentences(path)) == [
        ["dr", "who's", "here", "at", "7"],
        ["he", "left", "early"],
        ["café", "naïve"],
        ["हिन्दी", "में"],
    ]
    assert next(iter(sentences(path, lowercase=False, sentences="line"))) == ["Dr", "Who's", "here", "at", "7"]


def test_tokenised_text_is_taken_as_it_is(text):
    path = text("The U.S. , it 's\n\nnext line\n")
    corpus = sentences(path, tokenisation="whitespace", lowercase=False)
    assert list(corpus) == [["The", "U.S.", ",", "it", "'s"], ["next", "line"]]
    assert list(corpus) == list(corpus)  # read anew each time


def test_what_wikitext_has_beside_text_is_left_out(text):
    path = text(" \n = Title = \n \n A <unk> sold 2 @,@ 500 . \n \n = = Part = = \n \n It 's . \n", "wiki.txt.gz")
    tokenised = sentences(path, tokenisation="whitespace", cleaning="wikitext")
    assert list(tokenised) == [["a", "sold", "2", "@,@", "500", "."], ["it", "'s", "."]]
    assert list(sentences(path, cleaning="wikitext")) == [["a", "sold", "2", "500"], ["it's"]]


def test_very_long_sentences_are_cut(text):
    path = text("a " * 25_000)
    assert [len(each) for each in sentences(path, tokenisation="whitespace")] == [10_000, 10_000, 5_000]


def test_folders_and_several_paths(text, tmp_path):
    text("one", "part/b.txt")
    text("two", "part/a.txt.gz")
    text("three", "part/notes.md")
    text("", "part/empty.txt")
    last = text("four", "c.md")
    assert list(sentences([tmp_path / "part", last])) == [["two"], ["one"], ["four"]]


def test_the_builtin_text():
    assert count_words(sentences("python_docs"), 50).counts[0] > 1000


def test_what_cannot_be_read_is_said(text, tmp_path):
    with pytest.raises(InputError, match="no such file; name a file, a folder"):
        sentences(tmp_path / "nothing.txt")
    with pytest.raises(InputError, match="contains no"):
        sentences(tmp_path)
    with pytest.raises(InputError, match="no text is given"):
        sentences([])
    with pytest.raises(InputError, match="is empty"):
        list(sentences(text("")))
    latin = tmp_path / "latin.txt"
    latin.write_bytes("häßlich\n".encode("latin-1") * 10)
    with pytest.raises(InputError, match="is not UTF-8"):
        list(sentences(latin))
    with pytest.raises(InputError, match="tokenisation is 'word'; choose 'words' or 'whitespace'"):
        sentences(latin, tokenisation="word")  # type: ignore[arg-type]


def test_words_by_falling_count():
    vocabulary = count_words([["b", "a", "c"], ["c", "b", "d"]])
    assert vocabulary.words == ("b", "c", "a", "d")
    assert (vocabulary.tokens, vocabulary.sentences) == (6, 2)
    with pytest.raises(InputError, match="none of the 6 words occurs 3 times; lower minimum_count"):
        count_words([["b", "a", "c"], ["c", "b", "d"]], 3)
    with pytest.raises(InputError, match="the text has no words"):
        count_words([[], []])


def test_rare_words_are_forgotten_where_there_are_too_many():
    text = [["often"] * 3] + [[f"word{number}", "often"] for number in range(100)]
    assert count_words(text, 20, most=10).words == ("often",)
    with pytest.raises(InputError, match="more than 10 different words"):
        count_words(text, 2, most=10)
