"""Sentence encoders: what is learnt, what vectors are, folders both ways, data and bad input."""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import regard
from regard.embeddings.pooling import Dense
from regard.embeddings.sentence_transformers import write_modules
from regard.errors import InputError
from regard.layers import Tokens
from regard.tasks.losses import cosine_loss, ranking_loss, triplet_loss
from regard.tasks.preparation import EncoderTokenizerSettings
from regard.tasks.sentence_data import SentenceData
from regard.tasks.sentence_embedding import SentenceEncoder, prepare_sentences

SETTINGS = EncoderTokenizerSettings(size=120)
OBJECTIVES = ("ranking", "cosine", "triplet")


@pytest.fixture
def encoder(encoder_folders) -> SentenceEncoder:
    return regard.load(encoder_folders("ranking"), task="sentence_embedding")


# --- what it learns ---


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_texts_of_one_topic_come_to_lie_together(encoder_folders, sentence_examples, objective):
    folder = encoder_folders(objective)
    found = regard.load(folder)
    assert isinstance(found, SentenceEncoder)
    rated = regard.evaluate(found, sentence_examples("cosine", 120, seed=5))
    assert rated.metrics["spearman"] > 0.8
    assert set(rated.metrics) == {"spearman", "pearson"}
    triples = regard.evaluate(found, sentence_examples("triplet", 80, seed=6))
    assert triples.metrics["accuracy"] > 0.95
    card = json.loads((folder / "regard.json").read_text())
    assert card["metrics"]["spearman"] > 0.5
    assert set(card["metrics"]) == {"loss", "spearman", "pearson"}


def test_metrics_of_training_are_those_of_the_folder(encoder_folders, sentence_examples):
    folder = encoder_folders("cosine")
    found = regard.evaluate(regard.load(folder), sentence_examples("cosine", 60, seed=1)).metrics
    said = json.loads((folder / "regard.json").read_text())["metrics"]
    for name in ("spearman", "pearson"):
        assert said[name] == pytest.approx(found[name], abs=1e-5)


def test_a_run_resumed_is_the_run_never_stopped(tmp_path, sentence_recipe, sentence_examples):
    """The loss of a batch depends on the whole batch, which is the same one after a stop."""
    objective = "ranking"
    data, held_out = sentence_examples(objective, 90), sentence_examples(objective, 20, seed=1)
    steps = {"schedule": "constant", "evaluate_every": 5, "save_every": 5, "batch_tokens": 200}
    for name, limits in (("whole", [12]), ("parts", [5, 12])):
        for number, limit in enumerate(limits):
            recipe = sentence_recipe(objective, training={**steps, "steps": limit}, model={"dropout": 0.2})
            regard.train(recipe, output=tmp_path / name, data=data, validation=held_out, resume=number > 0)
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert files[0] == files[1]


# --- losses ---


def test_the_ranking_loss_is_a_cross_entropy_over_the_batch():
    draw = torch.Generator().manual_seed(1)
    first, others = torch.randn(4, 6, generator=draw), torch.randn(7, 6, generator=draw)
    total, right = ranking_loss(first, others, scale=3.0)
    cosines = torch.stack([F.cosine_similarity(row[None], others, dim=-1) for row in first])
    wanted = sum(-torch.log_softmax(3 * cosines[row], dim=0)[row] for row in range(4))
    torch.testing.assert_close(total, wanted)
    assert right == sum(int(cosines[row].argmax() == row) for row in range(4))
    same = torch.zeros(4, 7, dtype=torch.bool)
    same[0, 2] = same[0, 0] = same[3, 6] = True
    without = [[column for column in range(7) if not same[row, column] or column == row] for row in range(4)]
    wanted = sum(-torch.log_softmax(3 * cosines[row][without[row]], dim=0)[without[row].index(row)] for row in range(4))
    torch.testing.assert_close(ranking_loss(first, others, scale=3.0, same=same)[0], wanted)


def test_what_is_the_same_text_is_not_to_be_told_apart(encoder):
    rows = [[2, 7, 3], [2, 8, 3], [2, 9, 3]]
    partners = [[2, 10, 3], [2, 10, 3], [2, 7, 3]]
    batch = encoder.task.batch([rows, partners], [0.0] * 3)
    assert batch.same.tolist() == [[True, True, True], [True, True, False], [False, False, True]]
    loss = encoder.task.loss(encoder.model, batch)
    assert torch.isfinite(loss.total)
    assert loss.tokens == 3


def test_the_other_losses_are_their_equations():
    draw = torch.Generator().manual_seed(2)
    u, v, w = torch.randn(3, 5, 4, generator=draw).double()
    wanted = torch.rand(5, generator=draw).double()
    cosines = torch.stack([(a @ b) / (a.norm() * b.norm()) for a, b in zip(u, v, strict=True)])
    torch.testing.assert_close(cosine_loss(u, v, wanted), ((cosines - wanted) ** 2).sum())
    total, right = triplet_loss(u, v, w, margin=0.5)
    near = [(a - b).norm() for a, b in zip(u, v, strict=True)]
    far = [(a - b).norm() for a, b in zip(u, w, strict=True)]
    torch.testing.assert_close(
        total, sum(max(torch.tensor(0.0).double(), n - f + 0.5) for n, f in zip(near, far, strict=True))
    )
    assert right == sum(int(n < f) for n, f in zip(near, far, strict=True))


def test_every_parameter_gets_a_gradient(encoder):
    """Workers that train together wait for all of them."""
    encoder.model.train()
    try:
        loss = encoder.task.loss(encoder.model, encoder.task.batch([[[2, 7, 3]], [[2, 8, 9, 3]]], [0.0]))
        loss.total.backward()
        assert all(parameter.grad is not None for parameter in encoder.model.parameters())
    finally:
        encoder.model.eval()
        encoder.model.zero_grad()


# --- vectors ---


def test_a_vector_is_the_mean_of_all_tokens_at_length_one(encoder):
    text = "the old ship"
    ids = encoder.task.encode([text], maximum=16)
    with torch.no_grad():
        wanted = F.normalize(encoder.model(Tokens.pad(ids)).hidden.mean(dim=1), dim=-1)
    np.testing.assert_allclose(encoder.embed([text]), wanted.numpy(), rtol=1e-4, atol=1e-6)


def test_vectors_do_not_depend_on_who_else_is_there(encoder):
    texts = ["ship", "", "wave " * 40, "a ship near some shore", "ship", "bird"] * 3
    together = encoder.embed(texts, batch_tokens=30)
    assert together.shape == (18, 24)
    for text, found in zip(texts, together, strict=True):
        np.testing.assert_allclose(found, encoder.embed([text])[0], rtol=1e-4, atol=1e-5)
    assert encoder.embed([]).shape == (0, 24)


def test_no_texts_have_no_vectors_with_several_threads_too(encoder):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert encoder.embed([]).shape == (0, 24)
    finally:
        torch.set_num_threads(before)


def test_long_texts_are_cut_where_the_task_says(encoder):
    assert np.array_equal(encoder.embed(["ship " * 14]), encoder.embed(["ship " * 14 + "cloud"]))


def test_who_watches_is_told_of_every_text_once(encoder):
    told = []

    class Watcher:
        def search_started(self, source): ...
        def search_finished(self, hypotheses): ...
        def predicted(self, predictions, hypotheses):
            told.extend(prediction.text for prediction in predictions)

    with encoder.observing(Watcher()):
        encoder.embed(["ship", "a bird", "wave"])
        with regard.look(encoder):
            encoder.embed(["stone", "root"])
    assert told == ["ship", "a bird", "wave", "stone", "root"]


@pytest.mark.parametrize("texts", ["ship", [3], [None], [b"ship"]])
def test_what_is_no_list_of_strings_is_refused(encoder, texts):
    with pytest.raises(InputError):
        encoder.embed(texts)
    with pytest.raises(InputError, match="float32"):
        encoder.embed(["ship"], precision="float31")


def test_odd_texts_have_vectors(encoder):
    texts = ["\0", "🙂", "x" * 100_000, "ship " * 50_000, "\u202e\ud7ff", "", " \n"]
    found = encoder.embed(texts)
    assert np.isfinite(found).all()
    assert np.array_equal(found[5], found[6])


# --- folders ---


def test_any_encoder_of_ours_gives_vectors(encoder_folders, tmp_path, sentence_examples):
    folder = encoder_folders("ranking")
    plain = tmp_path / "plain"
    shutil.copytree(folder, plain, ignore=shutil.ignore_patterns("checkpoints*", "data", "regard.json", "modules.json"))
    found = regard.load(plain, task="sentence_embedding")
    assert (found.task.pooling, found.task.normalise) == (("mean",), False)
    usual = regard.load(folder).embed(["a ship"])
    vectors = found.embed(["a ship"])
    np.testing.assert_allclose(vectors / np.linalg.norm(vectors), usual, rtol=1e-4, atol=1e-5)
    labelled = [(first, "sea" if "ship" in first else "land") for first, _ in sentence_examples("ranking", 60)]
    recipe = {
        "task": "classification",
        "model": {"pretrained": str(plain)},
        "data": {"maximum_length": 16},
        "training": {"steps": 1, "precision": "float32", "batch_tokens": 100},
    }
    regard.train(recipe, output=tmp_path / "classifier", data=labelled)
    other = regard.load(tmp_path / "classifier", task="sentence_embedding")
    assert other.embed(["a ship"]).shape == (1, 24)


def test_saved_and_loaded_it_is_the_same(encoder, tmp_path):
    encoder.save(tmp_path / "copy")
    again = regard.load(tmp_path / "copy")
    assert again.task == encoder.task
    assert np.array_equal(again.embed(["a ship"]), encoder.embed(["a ship"]))
    foreign = tmp_path / "foreign"
    shutil.copytree(tmp_path / "copy", foreign)
    (foreign / "regard.json").unlink()
    found = regard.load(foreign)
    assert isinstance(found, SentenceEncoder)
    assert np.array_equal(found.embed(["a ship"]), encoder.embed(["a ship"]))
    encoder.save(tmp_path / "copy")  # over what is there


def test_what_stands_behind_the_pooling_is_kept(encoder_folders, tmp_path, generator):
    folder = tmp_path / "dense"
    shutil.copytree(
        encoder_folders("ranking"), folder, ignore=shutil.ignore_patterns("checkpoints*", "data", "regard.json")
    )
    dense = Dense(torch.randn(5, 48, generator=generator), torch.randn(5, generator=generator), "tanh")
    modules = regard.load(encoder_folders("ranking")).task.modules
    shutil.rmtree(folder / "2_Normalize")
    changed = type(modules)(pooling=("cls", "max"), dense=(dense,), prompts={"query": "old ship "}, prompt="query")
    write_modules(folder, changed, width=24, maximum=16)
    found = regard.load(folder)
    assert found.width == 5
    assert found.embed(["bird"]).shape == (1, 5)
    found.save(tmp_path / "copy")
    again = regard.load(tmp_path / "copy")
    assert again.task.dense == (dense,)
    assert np.array_equal(again.embed(["bird"]), found.embed(["bird"]))
    ids = found.task.encode(["bird"], maximum=16)
    with torch.no_grad():
        hidden = found.model(Tokens.pad(ids)).hidden
    wanted = dense(torch.cat([hidden[:, 0], hidden.amax(dim=1)], dim=1))
    np.testing.assert_allclose(found.embed(["bird"]), wanted.numpy(), rtol=1e-4, atol=1e-5)
    assert ids == regard.load(encoder_folders("ranking")).task.encode(["old ship bird"], maximum=16)
    with pytest.raises(InputError, match="did you mean 'query'"):
        found.embed(["bird"], prompt="qery")
    with pytest.raises(InputError, match="linear maps after its pooling"):
        prepare_sentences(
            SentenceData(),
            EncoderTokenizerSettings(path=str(folder)),
            tmp_path / "data",
            seed=1,
            given=[("a", "b")] * 4,
        )


def test_prompts_stand_before_the_text(encoder, tmp_path):
    encoder.save(tmp_path / "prompted")
    (tmp_path / "prompted" / "regard.json").unlink()
    said = {"prompts": {"query": "old ship "}, "default_prompt_name": None}
    (tmp_path / "prompted" / "config_sentence_transformers.json").write_text(json.dumps(said))
    found = regard.load(tmp_path / "prompted")
    assert np.array_equal(found.embed(["bird"], prompt="query"), found.embed(["old ship bird"]))
    assert not np.array_equal(found.embed(["bird"]), found.embed(["old ship bird"]))


def test_sentence_transformers_opens_the_folder(encoder, tmp_path):
    """Where the library is; its vectors of a real model are golden (tests/embeddings/test_minilm.py)."""
    library = pytest.importorskip("sentence_transformers")
    encoder.save(tmp_path / "ours")
    theirs = library.SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    texts = ["a ship", "", "the bird and " * 30]
    np.testing.assert_allclose(theirs.encode(texts), encoder.embed(texts), rtol=1e-4, atol=1e-5)
    assert theirs.max_seq_length == 16
    assert "sentence_transformers" in sys.modules


def test_training_goes_on_with_the_pooling_it_starts_from(encoder, tmp_path, sentence_recipe, sentence_examples):
    encoder.save(tmp_path / "start")
    listed = json.loads((tmp_path / "start" / "modules.json").read_text())
    (tmp_path / "start" / "modules.json").write_text(json.dumps(listed[:2]))
    (tmp_path / "start" / "1_Pooling" / "config.json").write_text('{"pooling_mode": ["max"]}')
    recipe = sentence_recipe("ranking", training={"steps": 1})
    recipe["model"] = {"pretrained": str(tmp_path / "start")}
    del recipe["tokenizer"]
    said: list[str] = []
    regard.train(recipe, output=tmp_path / "run", data=sentence_examples("ranking", 40), say=said.append)
    found = regard.load(tmp_path / "run")
    assert (found.task.pooling, found.task.normalise) == (("max",), False)
    assert any("nothing is new" in sentence for sentence in said)
    assert any("pairs to learn from" in sentence and "pooling by max" in sentence for sentence in said)


# --- data ---


@pytest.mark.parametrize(
    ("name", "content", "data", "examples"),
    [
        ("a.tsv", "one\ttwo\nthree\tfour\n", {}, [(("one", "two"), None), (("three", "four"), None)]),
        ("a.tsv", "anchor\tpositive\none\ttwo\n", {}, [(("one", "two"), None)]),
        ("a.csv", 'x,y,n\n"one, a",two,3\n', {"text": "x", "pair": "y", "label": "n"}, [(("one, a", "two"), 3.0)]),
        ("a.tsv", "one\ttwo\tthree\n", {"negative": 2}, [(("one", "two", "three"), None)]),
        ("a.jsonl", '{"query": "one", "answer": "two", "s": 1}\n', {"label": "s"}, [(("one", "two"), 1.0)]),
        ("sts.csv", "g\tf\t2012\t1\t3.500\tone\ttwo\n", {"format": "stsb"}, [(("one", "two"), 3.5)]),
        (
            "sts.csv",
            "g\tf\t2012\t1\t3.500\tone\ttwo\n",
            {"format": "stsb", "objective": "ranking"},
            [(("one", "two"), None)],
        ),
    ],
)
def test_files_of_pairs_and_triples(tmp_path, name, content, data, examples):
    from regard.data.malformed import MalformedRows
    from regard.tasks.sentence_data import SENTENCE_PAIRS

    (tmp_path / name).write_text(content)
    found = list(SENTENCE_PAIRS.named(SentenceData(train=str(tmp_path / name), **data), MalformedRows()))
    assert [(example.texts, example.score) for example in found] == examples


def test_malformed_rows_are_counted(tmp_path):
    file = tmp_path / "a.tsv"
    file.write_text("one\ttwo\t3\n\ttwo\t3\none\ttwo\thigh\none\ttwo\n" + "one\tother\t1\n" * 3)
    data = SentenceData(train=str(file), label=2)
    found = prepare_sentences(data, SETTINGS, tmp_path / "data", seed=1)
    assert len(found.train) + len(found.validation) == 4
    assert any("3 of 7" in note or "3 " in note for note in found.notes)
    assert (found.task.objective, found.task.lowest, found.task.highest) == ("cosine", 1.0, 3.0)


@pytest.mark.parametrize(
    ("given", "data", "message"),
    [
        ([("a", "b"), ("c", "d", 3.0), ("a", "b"), ("a", "b")], {}, "has another form"),
        ([("a", "b")] * 4, {"objective": "triplet", "negative": 2}, "needs a third"),
        ([("a", "b")] * 4, {"objective": "cosine", "label": 2}, "needs one for each pair"),
        ([("a", "b", 2.0)] * 4, {}, "give data.lowest"),
        ([("a",)], {}, "give two texts"),
        (["a", "b"], {}, "give two texts"),
        ([("a", "b", "c", 1.0)], {}, "give two texts"),
        ([("a", " ")], {}, "empty text"),
        ([("a", "b", float("nan"))] * 2, {}, "finite"),
        ([], {}, "give a list"),
        ("ab", {}, "give a list of examples"),
    ],
)
def test_examples_that_are_no_use_are_refused(tmp_path, given, data, message):
    with pytest.raises(InputError, match=message):
        prepare_sentences(SentenceData(**data), SETTINGS, tmp_path / "data", seed=1, given=given)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"objective": "triplet"}, r"data\.negative"),
        ({"objective": "cosine"}, r"data\.label"),
        ({"objective": "cosine", "label": 2, "negative": 3}, "leave it out"),
        ({"format": "sst2"}, "stsb"),
        ({"pooling": ("meen",)}, "did you mean 'mean'"),
        ({"scale": 0.0}, r"data\.scale"),
        ({"lowest": 1.0, "highest": 1.0}, r"data\.highest"),
        ({"maximum_length": 2}, "at least 3"),
    ],
)
def test_settings_that_make_no_sense_are_refused(data, message):
    with pytest.raises(InputError, match=message):
        SentenceData(**data)


def test_long_texts_are_cut_and_the_user_is_told(tmp_path):
    found = prepare_sentences(
        SentenceData(maximum_length=6), SETTINGS, tmp_path, seed=1, given=[("ship " * 20, "a wave")] * 6
    )
    assert found.train.lengths("text").max() == 6
    assert any("longer than data.maximum_length = 6" in note for note in found.notes)


# --- evaluation ---


def test_partners_are_found_among_all(encoder, sentence_examples):
    pairs = [("ship wave", "ship wave"), ("bird cloud", "bird cloud"), ("root stone", "root stone"), ("a", "ship wave")]
    found = regard.evaluate(encoder, pairs)
    assert found.metrics["recall_at_1"] >= 0.75
    assert found.metrics["recall_at_10"] == 1.0
    assert 0.75 <= found.metrics["mean_reciprocal_rank"] <= 1.0
    assert found.count == 4
    assert found.predictions[0].cosine == pytest.approx(1.0, abs=1e-5)
    with pytest.raises(InputError, match="at least one"):
        regard.evaluate(encoder, [])
    with pytest.raises(InputError, match="has another form"):
        regard.evaluate(encoder, [("a", "b"), ("a", "b", 1.0)])
