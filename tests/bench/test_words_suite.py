"""The suites `words` and `tokenizers` at tiny sizes: our own side, gensim where it is installed, and who judges the vectors."""

from __future__ import annotations

import pytest

from regard.bench import Options, bench
from regard.bench.peers import gensim, glove
from regard.bench.words import contests
from regard.word_embeddings.files import read_vectors

TEXT = "the cat sat on the mat .\nthe dog sat on the rug .\na cat and a dog met .\n"


@pytest.fixture
def options(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT * 60)
    (tmp_path / "judged.txt").write_text("cat\tdog\t9\nmat\trug\t8\ncat\tsat\t1\n")

    def made(*cases, **changes):
        given = {"cases": cases, "quick": True, "rounds": 1, "peers": (), "text": tmp_path / "text.txt"}
        return Options(**(given | {"similarity": (tmp_path / "judged.txt",)} | changes))

    return made


def test_ours_from_end_to_end(options, in_process):
    pytest.importorskip("gensim")
    report = bench("words", options("skipgram", "cbow", "glove"), start=in_process, rest=0.0)
    assert report.failed == {}
    assert [row.case.partition(",")[0] for row in report.rows] == ["skipgram", "cbow", "glove"]
    assert all(row.ours > 0 for row in report.rows)
    for contest in report.details["contests"].values():
        (judged,) = contest["measures"].values()
        assert -1 <= judged["Spearman, judged"] <= 1
    assert report.details["options"]["similarity"] == ["judged.txt"]


def test_tokenizers_read_what_they_learnt(options, in_process):
    report = bench("tokenizers", options("training", "reading", similarity=()), start=in_process, rest=0.0)
    assert report.failed == {}
    assert {row.case.partition(":")[0] for row in report.rows} >= {"training, bpe", "reading, bert"}
    assert all(row.ours > 0 and row.unit == "MB/s" and row.peers == {} for row in report.rows)


@pytest.mark.parametrize(("peer", "case"), [(gensim, "skipgram"), (gensim, "cbow"), (glove, "glove")])
def test_a_peer_reads_the_same_words_and_has_vectors_of_the_same(options, tmp_path, in_process, peer, case):
    driver = peer.KINDS[case]()
    if not driver.available():
        pytest.skip("not installed")
    work = tmp_path / "work"
    work.mkdir()
    (contest,) = contests(options(case, peers=("gensim", "glove")), work)
    own = in_process(contest.ours[0])
    own.ask({"do": "hello", "kind": case})
    own.ask({"do": "prepare", "job": dict(contest.ours[0].job)})
    amount = own.ask({"do": "run"})["amount"]
    for contestant in contest.peers:
        driver.prepare(dict(contestant.job))
        assert driver.run()["amount"] == amount
        ours, theirs = (read_vectors(each.job["vectors"]) for each in (contest.ours[0], contestant))
        assert ours.matrix.shape[1] == theirs.matrix.shape[1] == contestant.job["width"]
        assert set(ours.words) <= set(theirs.words)
