"""Analogies: the same questions right and wrong as in gensim, and what the exclusion of the three words is worth."""

from __future__ import annotations

import numpy as np
import pytest

from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.word_embeddings import WordVectors, analogy
from regard.word_embeddings.evaluation.analogies import AnalogySet, Question, evaluate_analogies, read_analogies

CITIES, THINGS = 30, 25


@pytest.fixture
def made(tmp_path):
    """Words with relations planted in noise, some in several forms; questions about them, some with unknown words."""
    draw = np.random.default_rng(1)
    width = 12
    relation = draw.normal(size=(2, width))
    base = draw.normal(size=(CITIES + THINGS, width))
    names = [f"base{number}" for number in range(len(base))]
    other = base + relation[(np.arange(len(base)) >= CITIES).astype(int)] + 0.7 * draw.normal(size=base.shape)
    forms = [name.upper() for name in names[:20]] + [f"Other{number}" for number in range(10)]
    again = np.concatenate([base[:20], other[:10]]) + 0.3 * draw.normal(size=(30, width))
    words = [*names, *(f"other{number}" for number in range(len(base))), *forms]
    matrix = np.concatenate([base, other, again]).astype(np.float32)
    order = draw.permutation(len(words))
    words, matrix = [words[row] for row in order], matrix[order]
    sections = {"cities": range(CITIES), "gram1-things": range(CITIES, CITIES + THINGS)}
    lines = []
    for name, numbers in sections.items():
        lines.append(f": {name}")
        for _ in range(120):
            one, two = draw.choice(numbers, size=2, replace=False)
            form = "Other" if draw.random() < 0.2 else "other"
            lines.append(f"base{one} {form}{one} base{two} other{two if draw.random() < 0.9 else 999}")
    file = tmp_path / "questions.txt"
    file.write_text("\n".join(lines) + "\n")
    return WordVectors(words=tuple(words), matrix=matrix), file


@pytest.mark.parametrize("case", ["ignore", "exact"])
@pytest.mark.parametrize("unknown", ["skip", "zero"])
@pytest.mark.parametrize("among", [None, 90])
def test_right_and_wrong_are_gensims(made, case, unknown, among):
    ours, file = made
    theirs = pytest.importorskip("gensim.models").KeyedVectors(ours.width)
    theirs.add_vectors(ours.words, ours.matrix)
    score, sections = theirs.evaluate_word_analogies(
        str(file),
        restrict_vocab=among or len(ours),
        case_insensitive=case == "ignore",
        dummy4unknown=unknown == "zero",
    )
    found = evaluate_analogies(ours, read_analogies(file), case=case, unknown=unknown, among=among)
    asked = [answer for answer in found.answers if unknown == "zero" or answer.word is not None]
    spelt = [tuple(word.upper() if case == "ignore" else word for word in answer.question) for answer in asked]
    right = [question for question, answer in zip(spelt, asked, strict=True) if answer.right]
    wrong = [question for question, answer in zip(spelt, asked, strict=True) if not answer.right]
    assert (right, wrong) == (sections[-1]["correct"], sections[-1]["incorrect"])
    assert found.total.accuracy == pytest.approx(score)
    assert len(right) > 5
    assert len(wrong) > 5
    assert [(each.name, each.correct, each.asked) for each in found.sections] == [
        (each["section"], len(each["correct"]), len(each["correct"]) + len(each["incorrect"])) for each in sections[:-1]
    ]
    assert found.semantic.correct == found.sections[0].correct
    assert found.syntactic.asked == found.sections[1].asked
    assert found.interval.low < score < found.interval.high


@pytest.mark.parametrize("method", ["add", "multiply"])
@pytest.mark.parametrize("with_given", [False, True])
def test_answers_are_those_of_single_analogies(made, method, with_given):
    ours, file = made
    found = evaluate_analogies(ours, read_analogies(file), method=method, case="exact", with_given=with_given)
    for answer in found.answers[::9]:
        if answer.word is not None:
            one = analogy(ours, *answer.question[:3], 1, method=method, with_given=with_given)
            assert answer.word == one[0].word


def test_without_the_exclusion_the_answer_is_mostly_one_of_the_three(made):
    ours, file = made
    asked = read_analogies(file)
    with_it, without = (evaluate_analogies(ours, asked, with_given=given) for given in (False, True))
    assert without.total.accuracy < 0.5 * with_it.total.accuracy
    known = [answer for answer in without.answers if answer.word is not None]
    given = [answer.word.lower() in {word.lower() for word in answer.question[:3]} for answer in known]
    assert np.mean(given) > 0.5


def test_pieces_give_what_the_whole_gives(made, monkeypatch):
    ours, file = made
    whole = evaluate_analogies(ours, read_analogies(file))
    monkeypatch.setattr("regard.word_embeddings.evaluation.analogies.SCORES", 3 * len(ours))
    assert evaluate_analogies(ours, read_analogies(file)) == whole


def test_all_unknown_is_no_accuracy(made):
    ours, _ = made
    asked = AnalogySet(name="x", sections=[("gram", [Question("a", "b", "c", "d")]), ("empty", [])])
    found = evaluate_analogies(ours, asked)
    assert (found.total.accuracy, found.total.unknown, found.interval, found.semantic) == (None, 1, None, None)
    assert evaluate_analogies(ours, asked, unknown="zero").total.accuracy == 0.0
    assert "answers" not in found.to_json()


def test_lines_without_four_words_are_counted(tmp_path):
    file = tmp_path / "some.txt"
    file.write_text("a b c d\n: gram1\na b c\ne f g h\n:tight\ni j k l m\n")
    malformed = MalformedRows()
    found = read_analogies(file, malformed)
    assert [(name, len(questions)) for name, questions in found.sections] == [("some", 1), ("gram1", 1), ("tight", 0)]
    assert malformed.by_reason == {"not four words": 2}
    file.write_text("a b\n")
    with pytest.raises(InputError, match="no line has four words"):
        read_analogies(file)
