"""The direction of pairs, what lies along it, and what is left when it is taken out."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import InputError
from regard.word_embeddings.bias import (
    analogy_answers,
    analogy_pairs,
    bias_subspace,
    cluster_test,
    debiasing_effects,
    direct_bias,
    hard_debiased,
    indirect_bias,
    leftover,
    projections,
    random_direct_bias,
    read_word_sets,
    read_words,
)
from regard.word_embeddings.evaluation.similarity import JudgedPair, SimilaritySet
from regard.word_embeddings.store import WordVectors

PAIRS = [("she", "he"), ("her", "his"), ("woman", "man"), ("aunt", "uncle")]


def _unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_the_directions_are_eigenvectors_of_the_covariance_of_centred_sets(planted):
    sets = [*PAIRS, ("w0", "w1", "w2")]
    covariance = np.zeros((planted.width, planted.width))
    for words in sets:
        units = _unit(planted.of(words).astype(float))
        apart = units - units.mean(axis=0)
        covariance += apart.T @ apart / len(words)
    values, vectors = np.linalg.eigh(covariance)
    found = bias_subspace(planted, sets, components=3)
    np.testing.assert_allclose(np.abs(found.directions @ vectors[:, -3:][:, ::-1]), np.eye(3), atol=1e-7)
    np.testing.assert_allclose(found.explained[:3], values[-3:][::-1] / values.sum(), atol=1e-9)


def test_the_direction_is_what_was_planted_and_points_to_the_first_word(planted):
    found = bias_subspace(planted, PAIRS)
    assert found.direction[0] > 0.99
    assert found.ends == ("she", "he")
    turned = bias_subspace(planted, [(he, she) for she, he in PAIRS])
    np.testing.assert_allclose(turned.direction, -found.direction, atol=1e-12)
    assert found.explained[0] > 5 * found.explained[1]


def test_pairs_that_have_no_vectors_are_left_out_and_named(planted):
    found = bias_subspace(planted, [("Mary", "John"), ("she", "Him"), *PAIRS])
    assert found.sets == tuple(PAIRS)
    assert found.missing == ("Mary", "John", "Him")
    with pytest.raises(InputError, match="planted: none of the 1 pairs has vectors for both"):
        bias_subspace(planted, [("Mary", "John")])
    with pytest.raises(InputError, match="differ in 1 directions, and components is 2"):
        bias_subspace(planted, [("she", "he")], components=2)
    alike = WordVectors(words=("she", "he"), matrix=np.ones((2, 3), dtype=np.float32))
    with pytest.raises(InputError, match="differ in 0 directions"):
        bias_subspace(alike, [("she", "he")])


def test_direct_bias_and_what_a_random_direction_has(planted):
    words = [word for word in planted.words if word.startswith("w")]
    axis = np.eye(planted.width)[0]
    cosines = np.abs(_unit(planted.of(words).astype(float))[:, 0])
    assert direct_bias(planted, 3 * axis, [*words, "unheard"]) == pytest.approx(cosines.mean())
    assert direct_bias(planted, axis, words, 0.5) == pytest.approx((cosines**0.5).mean())
    isotropic = planted.with_matrix(np.random.default_rng(1).normal(size=planted.matrix.shape).astype(np.float32))
    expected = np.sqrt(2 / np.pi / planted.width)  # of the cosine of random vectors, nearly
    assert random_direct_bias(isotropic, words) == pytest.approx(expected, rel=0.05)
    assert random_direct_bias(planted, words, seed=1) == random_direct_bias(planted, words, seed=1)
    with pytest.raises(InputError, match="strictness is 0"):
        direct_bias(planted, axis, words, 0)
    with pytest.raises(InputError, match="has no vector for any of the 1 words"):
        direct_bias(planted, axis, ["unheard"])


def test_indirect_bias_is_what_the_direction_adds_to_a_product(planted):
    subspace = bias_subspace(planted, PAIRS)
    w, v = (_unit(planted[word].astype(float)) for word in ("w3", "w4"))
    left = [_unit(each - (each @ subspace.direction) * subspace.direction) for each in (w, v)]
    (found,) = indirect_bias(planted, subspace, "w3", ["w4", "unheard"])
    assert found.cosine == pytest.approx((w @ v - left[0] @ left[1]) / (w @ v))
    after = hard_debiased(planted, subspace, specific=[word for pair in PAIRS for word in pair])
    assert indirect_bias(after, subspace, "w3", ["w4"])[0].cosine == pytest.approx(0, abs=1e-5)


def test_debiasing_removes_the_direction_and_makes_pairs_equally_far(planted):
    specific = [word for pair in PAIRS for word in pair]
    subspace = bias_subspace(planted, PAIRS)
    before = planted.matrix.copy()
    after = hard_debiased(planted, subspace, specific=specific, equalize=PAIRS)
    np.testing.assert_array_equal(planted.matrix, before)
    assert leftover(planted, subspace, specific).largest > 0.2
    assert leftover(after, subspace, specific).largest < 1e-7
    np.testing.assert_allclose(after.lengths, 1, atol=1e-6)
    neutral = after.matrix[len(specific) :].astype(float)
    for she, he in PAIRS:
        one, other = (np.linalg.norm(neutral - after[word], axis=1) for word in (she, he))
        np.testing.assert_allclose(one, other, atol=1e-6)
    about = after.metadata["debiased"]
    assert (about["neutralised"], about["specific"]) == (400, 8)
    assert after.words == planted.words


def test_a_set_of_three_is_equalised_and_two_directions_removed(planted):
    sets = [("she", "he", "w0"), ("her", "his", "w1")]
    subspace = bias_subspace(planted, sets, components=2)
    specific = [word for words in sets for word in words]
    after = hard_debiased(planted, subspace, specific=specific, equalize=sets)
    assert leftover(after, subspace, specific).largest < 1e-7
    common = [after[word] - subspace.projected(after[word]) for word in sets[0]]
    np.testing.assert_allclose(common[0], common[1], atol=1e-6)
    np.testing.assert_allclose(common[0], common[2], atol=1e-6)


def test_words_keep_their_side_though_both_were_neutralised(planted):
    subspace = bias_subspace(planted, PAIRS)
    after = hard_debiased(planted, subspace, equalize=[("uncle", "aunt")])
    assert after["aunt"] @ subspace.direction > 0.01
    assert after["uncle"] @ subspace.direction < -0.01


def test_a_word_that_is_the_direction_itself_is_left_empty_and_named():
    vectors = WordVectors(
        words=("she", "he", "pole", "nurse"),
        matrix=np.array([[1, 1], [-1, 1], [5, 0], [1, 2]], dtype=np.float32),
    )
    subspace = bias_subspace(vectors, [("she", "he")])
    after = hard_debiased(vectors, subspace, specific=["she", "he"])
    assert after.metadata["debiased"]["nothing_left"] == ["pole"]
    assert after["pole"].tolist() == [0, 0]
    assert np.isfinite(after.matrix).all()
    with pytest.raises(InputError, match="compute the directions from the same vectors"):
        hard_debiased(WordVectors(words=("a",), matrix=np.ones((1, 3), np.float32)), subspace)


def test_clusters_survive_debiasing(planted):
    """What goes with the direction and is not it stays, as Gonen and Goldberg found."""
    specific = [word for pair in PAIRS for word in pair]
    subspace = bias_subspace(planted, PAIRS)
    after = hard_debiased(planted, subspace, specific=specific)
    found = cluster_test(after, planted, subspace, leave_out=specific)
    assert (found.accuracy > 0.95, found.count) == (True, 40)
    matrix = after.matrix.copy()
    matrix[:, 1] = 0  # what betrayed the sides
    assert cluster_test(after.with_matrix(matrix), planted, subspace, leave_out=specific).accuracy < 0.75
    assert {*found.positive}.isdisjoint(found.negative)
    with pytest.raises(InputError, match="have different words"):
        cluster_test(after.first(50), planted, subspace)


def test_effects_tell_bias_clusters_and_utility(planted):
    specific = [word for pair in PAIRS for word in pair]
    subspace = bias_subspace(planted, PAIRS)
    after = hard_debiased(planted, subspace, specific=specific)
    pairs = [
        JudgedPair(f"w{n}", f"w{n + 1}", float(_unit(planted[f"w{n}"]) @ _unit(planted[f"w{n + 1}"])))
        for n in range(60)
    ]
    judged = SimilaritySet(name="own", pairs=pairs)
    found = debiasing_effects(
        planted, after, subspace, occupations=["w1", "w2", "she"], leave_out=specific, similarity=[judged]
    )
    assert [each.after is not None and each.after < 1e-7 for each in found.bias] == [True] * 3
    assert found.bias[0].before == leftover(planted, subspace, specific).largest
    assert found.bias[2].count == 2
    assert found.clusters is not None
    assert found.utility[0].before == pytest.approx(1.0)
    assert found.utility[0].after == pytest.approx(0.9, abs=0.1)
    assert found.to_json()["cautions"]


def test_the_answer_without_exclusion_is_mostly_the_word_itself(planted):
    words = [f"w{number}" for number in range(30)]
    found = analogy_answers(planted, "he", "she", [*words, "she", "unheard"])
    assert [each.word for each in found] == words
    assert all(each.answer.word not in (each.word, "she", "he") for each in found)
    assert any(each.with_given.word == each.word for each in found)
    with pytest.raises(InputError, match="has no vector of 'hee'"):
        analogy_answers(planted, "hee", "she", words)


def test_pairs_of_analogies_are_those_of_the_plain_definition(planted):
    table = planted.first(60)
    units = _unit(table.matrix.astype(float))
    axis = _unit(units[0] - units[1])
    plain = []
    for x in range(60):
        for y in range(60):
            apart = np.linalg.norm(units[x] - units[y])
            if x != y and apart <= 1.0:
                plain.append((float((units[x] - units[y]) @ axis / apart), table.words[x], table.words[y]))
    best = max(plain)
    found = analogy_pairs(planted, "she", "he", 50, among=60)
    assert (found[0].first, found[0].second) == best[1:]
    assert found[0].score == pytest.approx(best[0])
    scores = {(x, y): score for score, x, y in plain}
    assert [each.score for each in found] == pytest.approx([scores[each.first, each.second] for each in found])
    assert len({each.first for each in found}) == len({each.second for each in found}) == len(found)
    with pytest.raises(InputError, match="give numbers above 0"):
        analogy_pairs(planted, "she", "he", distance=0)
    with pytest.raises(InputError, match="have the same vector"):
        analogy_pairs(planted, "she", "she")


def test_projections_go_from_one_end_to_the_other(planted):
    found = projections(planted, bias_subspace(planted, PAIRS).direction, ["w1", "he", "she", "she", "unheard"])
    assert (found[0].word, found[-1].word, len(found)) == ("she", "he", 3)


def test_word_lists_are_json_or_lines(tmp_path):
    file = tmp_path / "list"
    file.write_text('[["woman", "man"], ["she", "he"]]')
    assert read_word_sets(file) == (("woman", "man"), ("she", "he"))
    file.write_text("woman man\n\nshe\the they\n")
    assert read_word_sets(file) == (("woman", "man"), ("she", "he", "they"))
    file.write_text("woman, man\nshe;he\n")
    assert read_word_sets(file) == (("woman", "man"), ("she", "he"))
    file.write_text('[["nurse", 0.1, -0.3], ["smith", 0, 1], ["nurse", 1, 1]]')
    assert read_words(file) == ("nurse", "smith")
    file.write_text("nurse\nsmith\n")
    assert read_words(file) == ("nurse", "smith")
    file.write_text("nurse,0.5,-1e-2\n\nsmith\t0\n1984\n")
    assert read_words(file) == ("nurse", "smith", "1984")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "has no words"),
        ("[]", "has no words"),
        ('{"a": 1}', "is not a JSON list"),
        (
            '[["she"]]',
            "entry 1: is 'she'; give at least two different words: a line such as woman man, or JSON such as",
        ),
        ("woman man\n\nshe\n", "line 3: is 'she'; give at least two different words"),
        ("# pairs\nwoman man # gender\n", "line 2: has a # after its words; put the comment on its own line"),
        ('[["she", "she"]]', "give at least two different words"),
        ("[[1, 2]]", "give a word, or a list of words"),
        ("[", "is not JSON"),
        ("\udcff", "is not UTF-8 text"),
    ],
)
def test_word_lists_that_cannot_be_used_are_refused(tmp_path, content, says):
    file = tmp_path / "list.json"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=says):
        read_word_sets(file)
    with pytest.raises(InputError, match="no such file"):
        read_words(tmp_path / "nowhere")


def test_comments_are_no_words_and_repeated_pairs_are_said(tmp_path):
    file = tmp_path / "pairs.txt"
    file.write_text("# female and male\nwoman man\nshe he\n  #more\nman woman\n")
    said: list[str] = []
    assert read_word_sets(file, say=said.append) == (("woman", "man"), ("she", "he"), ("man", "woman"))
    assert said == [f"{file}: 1 of 3 sets are given again: man woman (line 5, as line 2)"]
    with pytest.warns(UserWarning, match="man woman"):
        read_word_sets(file)
    file.write_text("# occupations\nnurse\n")
    assert read_words(file) == ("nurse",)
    file.write_text('["#metoo", "nurse"]')
    assert read_words(file) == ("#metoo", "nurse")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("nurse\npolice officer\n", "line 2: has the words 'police' and 'officer'; give one word per line"),
        ('[["woman", "man"]]', "entry 1: has the words 'woman' and 'man'; give one word per line"),
    ],
)
def test_a_list_of_words_with_two_in_an_entry_is_refused(tmp_path, content, says):
    """The second word would be lost without a word."""
    file = tmp_path / "list"
    file.write_text(content)
    with pytest.raises(InputError, match=says):
        read_words(file)
