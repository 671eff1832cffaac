"""The suite itself, at tiny sizes: what is asked of whom, and our own side from end to end."""

from __future__ import annotations

import dataclasses

import pytest

import regard
from regard.bench import Options, bench
from regard.bench.rounds import OURS
from regard.bench.translation import QUICK, builtin_pairs, contests
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.models import BahdanauConfig
from regard.models.bahdanau import Bahdanau
from regard.tasks.translation import TranslationTask, Translator
from regard.text import Tokenizer


def quick(*cases, **changes):
    return Options(cases=cases, quick=True, **({"rounds": 1} | changes))


def test_builtin_pairs_are_the_same_each_time_and_long_enough():
    pairs = builtin_pairs(200, words=500)
    assert pairs == builtin_pairs(200, words=500)
    assert pairs != builtin_pairs(200, seed=1, words=500)
    lengths = [len(source.split()) for source, _ in pairs]
    assert lengths == [len(target.split()) for _, target in pairs]
    assert 11 < sum(lengths) / len(lengths) < 13
    assert len({word for source, _ in pairs for word in source.split()}) > 200


def test_ours_from_end_to_end(in_process):
    said = []
    report = bench(
        "translation", quick("training", "translation", peers=()), start=in_process, rest=0.0, say=said.append
    )
    assert report.failed == {}
    assert report.absent == ()
    cases = [row.case.partition(":")[0] for row in report.rows]
    assert cases[:3] == ["training, float32", "training, bfloat16", "training, best precision of each"]
    assert "translation, float32" in cases
    assert "translation, bfloat16" in cases
    assert cases[-1] == "translation, best precision of each"
    assert all(row.ours > 0 and row.unit == "target tokens/s" for row in report.rows)
    assert report.rows[-1].ours == max(row.ours for row in report.rows[3:])
    assert "training: round 1 of 1" in said
    translated = report.details["contests"]["translation, float32 and bfloat16 and int8"]
    assert translated["same answers as ours"]["regard float32"] == 1.0


def test_both_sides_train_on_the_same_tokens(tmp_path, in_process):
    """What the peer is sent, counted by hand, is what our loop counts."""
    (found,) = contests(quick("training", peers=("joeynmt",)), tmp_path)
    own, theirs = found.ours[0], found.peers[0]
    process = in_process(own)
    process.ask({"do": "hello", "kind": "training"})
    process.ask({"do": "prepare", "job": dict(own.job)})
    for turn in range(2):
        batches = theirs.job["batches"][turn * QUICK.updates : (turn + 1) * QUICK.updates]
        by_hand = sum(len(ids) + 1 for _, targets in batches for ids in targets)
        assert process.ask({"do": "run"})["amount"] == by_hand
    sizes = [max(map(len, targets)) * len(targets) for _, targets in theirs.job["batches"]]
    assert max(sizes) <= QUICK.batch_tokens
    assert theirs.job["precision"] == own.job["precision"]


def test_few_pairs_are_repeated_until_one_pass_is_enough(tmp_path):
    pairs = builtin_pairs(12, words=60)
    (found,) = contests(quick("training", peers=("joeynmt",), pairs=pairs, rounds=9), tmp_path)
    assert len(found.peers[0].job["batches"]) == 10 * QUICK.updates


def test_random_weights_write_as_many_tokens_as_they_are_told(tmp_path, in_process):
    (found,) = contests(quick("translation", peers=()), tmp_path)
    own = found.ours[0]
    process = in_process(own)
    process.ask({"do": "hello", "kind": "translation"})
    process.ask({"do": "prepare", "job": dict(own.job)})
    answer = process.ask({"do": "run"})
    told = [
        length for length, batch in zip(own.job["lengths"], own.job["batches"], strict=True) for _ in range(len(batch))
    ]
    assert [len(tokens) for tokens in answer["answers"]] == told
    assert answer["amount"] == sum(told)


def test_a_trained_model_ends_its_sentences_itself(tmp_path, in_process):
    """Tokens are counted without the end token, and the texts are those that `Translator` writes."""
    pairs = builtin_pairs(40, words=30)
    model = {"name": "transformer", "width": 16, "heads": 2, "feedforward_width": 16}
    trained = regard.train(
        {
            "model": model | {"encoder_layers": 1, "decoder_layers": 1, "norm": "pre"},
            "data": {},
            "tokenizer": {"size": 120},
            "training": {"steps": 30, "batch_tokens": 500, "learning_rate": 1e-2, "precision": "float32"},
        },
        output=tmp_path / "run",
        data=pairs,
        validation=pairs[:4],
    )
    work = tmp_path / "work"
    work.mkdir()
    options = quick("translation", peers=("ctranslate2",), pairs=pairs[:6], model=trained.folder)
    (found,) = contests(options, work)
    own = found.ours[0]
    assert own.job["lengths"] == [0, 0]
    assert found.peers[0].job["folder"] == own.job["folder"]
    process = in_process(own)
    process.ask({"do": "hello", "kind": "translation"})
    process.ask({"do": "prepare", "job": dict(own.job)})
    answer = process.ask({"do": "run"})
    task = trained.load().task
    settings = GenerationSettings(beam=5, length_penalty=1.0, early_stopping=5)
    texts = sorted((source for source, _ in pairs[:6]), key=lambda text: len(task.source_tokenizer.encode(text)))
    expected = [best.text for best in trained.load().translate_batch(texts, settings, batch_size=4)]
    assert [task.target_tokenizer.decode(tokens) for tokens in answer["answers"]] == expected
    assert not any(task.target_tokenizer.end_id in tokens for tokens in answer["answers"])


def test_peers_are_asked_for_what_was_chosen(tmp_path):
    (found,) = contests(quick("translation", peers=("ctranslate2",)), tmp_path)
    assert {peer.library for peer in found.peers} == {"ctranslate2"}
    assert {contestant.library for contestant in found.ours} == {OURS}
    assert [contestant.name for contestant in found.ours] == ["float32", "bfloat16", "int8"]


def test_a_model_that_peers_could_not_open_is_refused(tmp_path):
    tokenizer = Tokenizer.train(["a b c"], kind="word", size=20)
    sizes = {"embedding_width": 4, "hidden_width": 4, "attention_width": 4, "maxout_width": 4}
    task = TranslationTask(tokenizer, tokenizer)
    Translator(Bahdanau(BahdanauConfig(**task.model_settings(), **sizes)), task).save(tmp_path / "model")
    with pytest.raises(InputError, match="is no Transformer with one shared vocabulary"):
        contests(quick("translation", model=tmp_path / "model"), tmp_path)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"cases": ("trainin",)}, "did you mean 'training'"),
        ({"cases": ("training",), "pairs": [("", "a")]}, "none of the 1 pairs"),
        ({"cases": ("training",), "pairs": [("a " * 200, "a")]}, "none of the 1 pairs"),
    ],
)
def test_what_cannot_be_measured_is_said_at_once(options, sentence):
    with pytest.raises(InputError, match=sentence):
        bench("translation", Options(quick=True, peers=(), **options))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"peers": ("joeynm",)}, "did you mean 'joeynmt'"),
        ({"interpreters": {"joey": "python"}}, "there is no peer 'joey'"),
        ({"rounds": 0}, "rounds: 0 is too few"),
        ({"threads": 0}, "threads: 0 is too few"),
    ],
)
def test_options_are_checked(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        Options(cases=("training",), **changes)


def test_a_model_of_several_languages_is_asked_for_one(tmp_path):
    pairs = builtin_pairs(30, words=20)
    (tmp_path / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    files = {"train": str(tmp_path / "pairs.tsv"), "validation_size": 4}
    trained = regard.train(
        {
            "model": {"name": "transformer", "width": 16, "heads": 2, "feedforward_width": 16, "norm": "pre"},
            "data": {"targets": {"de": files, "fr": files}},
            "tokenizer": {"size": 120},
            "training": {"steps": 2, "batch_tokens": 500, "precision": "float32"},
        },
        output=tmp_path / "run",
    )
    work = tmp_path / "work"
    work.mkdir()
    options = quick("translation", peers=(), pairs=pairs[:6], model=trained.folder)
    with pytest.raises(InputError, match="several languages; name one"):
        contests(options, work)
    (found,) = contests(dataclasses.replace(options, to="fr"), work)
    task = trained.load().task
    first = {source[0] for batch in found.ours[0].job["batches"] for source in batch}
    assert first == {task.encode_sources(["a"], "fr")[0][0]}
