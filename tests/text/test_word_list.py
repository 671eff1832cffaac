"""Lists of words: the commonest first, unknown ones told as one, files as ELMo's authors write them."""

from __future__ import annotations

import pytest

from regard.errors import InputError
from regard.text.word_list import WordList


def test_words_are_ordered_by_how_common_they_are_and_then_by_when_they_came():
    words = WordList.counted([["b", "a", "c"], ["c", "a", "</S>"], ["c"]], size=6)
    assert words.words == ("<S>", "</S>", "<UNK>", "c", "a", "b")
    assert words.numbers(["a", "zz", "<S>"]) == [4, 2, 0]


def test_a_list_survives_the_way_to_its_file_and_back(tmp_path):
    words = WordList.counted([["naïve", "x\u2028y", "ok"]], size=10)
    words.save(tmp_path)
    assert WordList.load(tmp_path) == words == WordList.load(tmp_path / "words.txt")
    assert (tmp_path / "words.txt").read_text(encoding="utf-8").startswith("<S>\n</S>\n<UNK>\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [("a\nb\n", "must begin with <S>"), ("<S>\n</S>\n<UNK>\na\nb\na\n", "the word 'a' is twice in the list")],
)
def test_what_is_no_such_list_is_told_with_its_file(tmp_path, content, said):
    (tmp_path / "words.txt").write_text(content)
    with pytest.raises(InputError, match=f"words.txt: .*{said}"):
        WordList.load(tmp_path)


def test_a_list_without_room_or_words_is_refused(tmp_path):
    with pytest.raises(InputError, match="give 4 or more"):
        WordList.counted([["a"]], size=3)
    with pytest.raises(InputError, match="no word"):
        WordList.counted([[]], size=9)
    with pytest.raises(InputError, match="no such file"):
        WordList.load(tmp_path / "none.txt")
