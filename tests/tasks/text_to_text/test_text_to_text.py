"""Text to text: prefixes and parts, mixtures in proportion, questions as texts, going on from a pre-trained model."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.data.batching import Mixing
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.inspection.analysis import GradientTimesInput, TargetProbability, attribute
from regard.models import MODELS
from regard.tasks.pairs import measured
from regard.tasks.text_to_text import PART, TextToText, TextToTextTask, as_text
from regard.text import Tokenizer

SIZES: dict[str, Any] = {
    "name": "t5",
    "width": 16,
    "heads": 2,
    "head_width": 8,
    "feedforward_width": 24,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "dropout": 0.0,
}
NOUNS = {"dog": "Hund", "cat": "Kater", "bird": "Vogel", "horse": "Gaul"}
PREFIXES = {"german": "to German: ", "summaries": "summarize: ", "answers": ""}
QUICK = {
    "steps": 4,
    "batch_tokens": 400,
    "learning_rate": 1e-2,
    "warmup": 2,
    "precision": "float32",
    "evaluate_every": 2,
    "save_every": 2,
}


def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    return [(draw.choice(list(NOUNS)), draw.choice(list(NOUNS))) for _ in range(count)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three tasks over one small language: pairs, documents with summaries, questions with contexts."""
    folder = tmp_path_factory.mktemp("tasks")
    pairs = [f"the {a} sees the {b}.\tder {NOUNS[a]} sieht den {NOUNS[b]}.\n" for a, b in sentences(60, 1)]
    (folder / "de.tsv").write_text("".join(pairs), encoding="utf-8")
    documents = [
        json.dumps({"article": f"the {a} sees the {b} and sleeps.", "summary": f"{a} sees {b}"}) + "\n"
        for a, b in sentences(30, 2)
    ]
    (folder / "articles.jsonl").write_text("".join(documents), encoding="utf-8")
    paragraphs = []
    for number, (a, b) in enumerate(sentences(20, 3)):
        answers = [{"text": a, "answer_start": 4}, {"text": f"the {a}", "answer_start": 0}]
        asked = {"id": str(number), "question": "who?", "answers": answers, "is_impossible": False}
        none = {"id": f"n{number}", "question": "when?", "answers": [], "is_impossible": True}
        paragraphs.append({"context": f"the {a} sees the {b}.", "qas": [asked, none]})
    (folder / "q.json").write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}), encoding="utf-8")
    return folder


def mixture(files: Path, **data: Any) -> dict[str, Any]:
    parts = {
        "german": {"train": str(files / "de.tsv"), "prefix": PREFIXES["german"]},
        "summaries": {
            "train": str(files / "articles.jsonl"),
            "prefix": PREFIXES["summaries"],
            "source": "article",
            "target": "summary",
        },
        "answers": {"train": str(files / "q.json"), "format": "questions"},
    }
    return {
        "task": "text_to_text",
        "seed": 3,
        "model": SIZES,
        "data": {"parts": parts} | data,
        "tokenizer": {"kind": "word", "size": 60, "sentinels": 4},
        "training": QUICK,
        "generation": {"maximum_length": 6},
    }


@pytest.fixture(scope="module")
def run(files: Path, tmp_path_factory: pytest.TempPathFactory) -> regard.Trained:
    recipe = mixture(files, limit=25)
    recipe["training"] = QUICK | {"evaluate_generated": 6}
    return regard.train(recipe, output=tmp_path_factory.mktemp("runs") / "mixture")


@pytest.fixture
def model(randomize) -> TextToText:
    texts = [
        "summarize: the dog sees the cat. It sleeps well and",
        "question: who? context: Hund sieht den Kater a b c",
    ]
    task = TextToTextTask(
        Tokenizer.train(texts, kind="word", size=60, sentinels=4),
        GenerationSettings(maximum_length=6),
        prefixes=PREFIXES,
        maximum_source=16,
    )
    sizes = {key: value for key, value in SIZES.items() if key != "name"}
    return TextToText(randomize(MODELS["t5"].model(MODELS["t5"].config(**sizes, **task.model_settings())), 2.0), task)


# --- what is learnt from ----------------------------------------------------------------------------------


def test_sources_begin_with_what_is_wanted_and_questions_become_texts(run):
    task, store = run.load().task, TokenStore.open(run.folder / "data" / "train")
    numbers, decode = store.numbers(PART), task.tokenizer.decode
    seen = {
        name: decode(store.sequence("source", int(np.flatnonzero(numbers == i)[0])).tolist())
        for i, name in enumerate(PREFIXES)
    }
    assert seen["german"].startswith("to German: the ")
    assert seen["summaries"].startswith("summarize: the ")
    assert seen["answers"].startswith("question: who? context: the ")
    row = int(np.flatnonzero(numbers == 2)[0])
    assert decode(store.sequence("target", row).tolist()) in NOUNS  # the first answer; what has none is left out
    assert (numbers == 2).sum() == 18


def test_an_epoch_mixes_parts_in_proportion_to_their_size_up_to_the_limit(run):
    task, store = run.load().task, TokenStore.open(run.folder / "data" / "train")
    numbers = store.numbers(PART)
    sizes = np.bincount(numbers)
    assert sizes.tolist() == [54, 27, 18]
    choose = task.epoch_rows(store)
    assert choose is not None
    seen = set()
    for epoch in range(3):
        rows = choose(epoch)
        assert np.bincount(numbers[rows]).tolist() == [25, 25, 18]
        seen |= set(rows[numbers[rows] == 0].tolist())
    assert len(seen) == 54  # what the limit leaves out of one epoch comes in the next
    whole = TextToTextTask(task.tokenizer, prefixes=task.prefixes)
    assert whole.epoch_rows(store) is None


def test_the_proportions_are_told(run, files, tmp_path):
    said: list[str] = []
    regard.train(mixture(files, limit=25), output=tmp_path / "run", say=said.append)
    assert (
        "an epoch has 68 examples: german 25 of 54 (36.8%), summaries 25 of 27 (36.8%), answers 18 of 18 (26.5%)."
        in said
    )


def test_each_part_has_its_losses_and_what_is_written_is_judged(run):
    names = [f"{name}.{part}" for name in ("loss", "exact_match", "f1", "bleu", "rougeL") for part in PREFIXES]
    assert {*names, "loss", "rougeL"} <= run.metrics.keys()
    store = TokenStore.open(run.folder / "data" / "validation")
    counts = np.bincount(store.numbers(PART))
    assert counts.tolist() == [6, 3, 2]


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(files, tmp_path):
    recipe = mixture(files, limit=10)
    recipe["training"] = QUICK | {"steps": 8, "batch_tokens": 200}
    whole = regard.train(recipe, output=tmp_path / "whole")
    recipe["training"] = recipe["training"] | {"steps": 5}
    regard.train(recipe, output=tmp_path / "parts")
    recipe["training"] = recipe["training"] | {"steps": 8}
    again = regard.train(recipe, output=tmp_path / "parts", resume=True)
    one, other = (found.load().model.state_dict() for found in (whole, again))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_long_sources_are_cut_and_pairs_with_long_targets_left_out_and_both_are_told(tmp_path):
    pairs = [("a " * 20, "b c")] * 30 + [("a", "b " * 9)] * 3
    recipe = mixture(tmp_path)
    recipe["data"] = {"maximum_source": 10, "maximum_target": 8}
    said: list[str] = []
    run = regard.train(recipe, output=tmp_path / "run", data=pairs, say=said.append)
    store = TokenStore.open(run.folder / "data" / "train")
    assert store.lengths("source").max() == 9  # and the end token
    assert store.lengths("target").max() <= 7
    assert any("sources the first 10 tokens are read" in each for each in said)
    assert any("have a target longer than data.maximum_target = 8" in each for each in said)


# --- going on from a pre-trained model --------------------------------------------------------------------


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = [[f"the {a} sees the {b}.", f"der {NOUNS[a]} sieht den {NOUNS[b]}."] for a, b in sentences(40, 4)]
    recipe = {
        "task": "span_corruption",
        "model": SIZES,
        "data": {"length": 24},
        "tokenizer": {"kind": "word", "size": 60, "sentinels": 6},
        "training": QUICK,
    }
    return regard.train(recipe, output=tmp_path_factory.mktemp("runs") / "pretrained", data=texts).folder


def test_weights_and_vocabulary_are_those_of_the_pre_trained_model(pretrained, tmp_path):
    pairs = [(f"to German: the {a}", f"der {NOUNS[a]}") for a, _ in sentences(40, 5)]
    recipe = {
        "task": "text_to_text",
        "model": {"pretrained": str(pretrained)},
        "data": {},
        "training": QUICK | {"steps": 1, "learning_rate": 1e-9},
    }
    said: list[str] = []
    run = regard.train(recipe, output=tmp_path / "run", data=pairs, say=said.append)
    before, after = regard.load(pretrained), run.load()
    assert after.task.tokenizer == before.task.tokenizer
    assert any("nothing is new" in each for each in said)
    old, new = before.model.state_dict(), after.model.state_dict()
    assert old.keys() == new.keys()
    assert all(torch.allclose(old[name], new[name], atol=1e-6) for name in old)


def test_another_vocabulary_is_refused(pretrained, tmp_path):
    larger = Tokenizer.train([f"w{i}" for i in range(300)], kind="word", size=200, sentinels=6)
    larger.save(tmp_path / "tokenizer")
    recipe = {
        "task": "text_to_text",
        "model": {"pretrained": str(pretrained)},
        "data": {},
        "tokenizer": {"path": str(tmp_path / "tokenizer")},
        "training": QUICK,
    }
    with pytest.raises(InputError, match="take the folder's own, by leaving"):
        regard.train(recipe, output=tmp_path / "run", data=[("a", "b")] * 20)


# --- what is written --------------------------------------------------------------------------------------


def test_a_part_puts_its_prefix_in_front(model):
    text = "the dog sees the cat."
    asked = model.generate(text, part="summaries")
    assert asked.tokens == model.generate("summarize: " + text).tokens
    assert asked.tokens == model.generate(text, prefix="summarize: ").tokens
    assert asked.prompt == text
    with pytest.raises(InputError, match="part is 'summary'; did you mean 'summaries'"):
        model.generate(text, part="summary")


def test_one_part_alone_has_no_name_and_its_prefix_is_always_there(model):
    alone = TextToText(model.model, TextToTextTask(model.task.tokenizer, model.task.generation, {"": "summarize: "}))
    assert alone.generate("the dog").tokens == model.generate("summarize: the dog").tokens
    with pytest.raises(InputError, match="the model has none by name"):
        alone.generate("the dog", part="summaries")


def test_the_batch_changes_no_answer(model):
    texts = ["the dog sees the cat.", "the cat", "question: who? context: the dog sees the cat."]
    alone = [model.generate(text) for text in texts]
    together = model.generate(texts)
    assert [each.tokens for each in together] == [each.tokens for each in alone]
    for one, other in zip(together, alone, strict=True):
        assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-5)
    assert [each.text for each in model.generate(texts, batch_size=1)] == [each.text for each in alone]


def test_no_sentinel_and_no_unknown_token_is_written(model):
    tokenizer = model.task.tokenizer
    never = set(tokenizer.tokens([*tokenizer.sentinels, tokenizer.unknown_id]))
    settings = GenerationSettings(sample=True, maximum_length=60, temperature=5.0)
    written = model.generate(["the dog", "the cat", "a b c"], settings)
    assert not never & {token for each in written for token in each.tokens}


def test_several_answers_and_stops(model):
    several = model.generate("the dog sees", GenerationSettings(beam=3, n_best=3, maximum_length=4))
    assert len(several.alternatives) == 2
    whole = model.generate("the dog sees").text
    word = whole.split()[1]
    assert model.generate("the dog sees", stop=[word]).text == whole[: whole.index(word)]


def test_long_texts_are_refused_cut_or_read_in_pieces(model):
    text = "the dog sees the cat. It sleeps well. " * 4
    with pytest.raises(InputError, match=r"text 2 has \d+ tokens and the model reads 16"):
        model.generate(["the dog", text])
    short = model.task.tokenizer.decode(model.encode([text], cut=True)[0])
    assert model.generate(text, cut=True).tokens == model.generate(short).tokens
    pieces = model.pieces_of(text, part="summaries")
    assert " ".join(pieces) == " ".join(text.split())
    assert len(pieces) > 1
    assert all(len(model.encode([piece], part="summaries")[0]) < 16 for piece in pieces)
    unbroken = "the dog and " * 20
    assert " ".join(model.pieces_of(unbroken)) == unbroken.strip()
    assert model.pieces_of("the dog.") == ["the dog."]


def test_evaluation_takes_the_best_of_several_right_answers(model):
    written = model.generate("the dog sees the cat.", part="summaries").text
    found = regard.evaluate(model, [("the dog sees the cat.", ["no", written])], part="summaries")
    assert found.metrics["exact_match"] == found.metrics["normalized_match"] == found.metrics["f1"] == 1.0
    assert found.metrics["rouge1"] == pytest.approx(100)
    assert found.predictions[0].text == written
    assert regard.evaluate(model, [("the dog " * 40, "x")]).cut == 1


def test_a_folder_is_loaded_as_it_was_saved(model, tmp_path):
    model.save(tmp_path / "model")
    again = regard.load(tmp_path / "model", task="text_to_text")
    assert again.task == model.task
    assert again.generate("the dog").tokens == model.generate("the dog").tokens
    with pytest.raises(InputError, match="a model for text to text, and translation is wanted"):
        regard.load(tmp_path / "model", task="translation")


def test_a_folder_of_another_program_tells_its_tasks(model, tmp_path):
    """As the published T5s': a config.json with task_specific_params, and no regard.json."""
    model.save(tmp_path / "model")
    (tmp_path / "model" / "regard.json").unlink()
    config = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))
    config["task_specific_params"] = {"summarization": {"prefix": "summarize: ", "num_beams": 4}, "other": {"x": 1}}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = regard.load(tmp_path / "model").with_generation(model.task.generation)
    assert found.task.prefixes == {"": "", "summarization": "summarize: "}
    assert found.generate("the dog", part="summarization").tokens == model.generate("the dog", part="summaries").tokens
    assert regard.load(tmp_path / "model", task="span_corruption").task.tokenizer == model.task.tokenizer


def test_what_was_read_is_credited_with_what_is_written(model):
    source = "the dog sees the cat."
    found = attribute(model, TargetProbability(source=source, to="summaries"), method=GradientTimesInput())
    tokens = model.task.tokenizer.tokens([*model.encode_source(source, "summaries"), model.task.tokenizer.end_id])
    assert list(found.of("source").tokens) == tokens
    assert (found.of("source").scores != 0).any()


# --- metrics ----------------------------------------------------------------------------------------------


def test_metrics_of_answers_are_squads():
    tokenizer = Tokenizer.train(["the Eiffel Tower in Paris no"], kind="word", size=20)
    metrics, _, note = measured(["the tall Eiffel Tower", "Paris!"], [["Eiffel Tower", "Paris"], ["paris"]], tokenizer)
    assert metrics["exact_match"] == 0.0
    assert metrics["normalized_match"] == 0.5
    assert metrics["f1"] == pytest.approx((0.8 + 1.0) / 2)
    assert note == ""


def test_a_question_as_text():
    assert as_text("Who?", "Ann did.") == "question: Who? context: Ann did."


# --- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"parts": {"a": {"train": "x.tsv"}}}, "two or more"),
        ({"parts": {"a b": {"train": "x.tsv"}, "c": {"train": "y.tsv"}}}, "the name of a part"),
        ({"parts": {"a": {"train": "x.tsv"}, "c": {"train": "y.tsv", "limit": 5}}}, "data.parts.c.limit is given"),
        (
            {"parts": {"a": {"train": "x.tsv"}, "c": {"train": "y.tsv"}}, "prefix": "p"},
            "data.prefix and data.parts are both given",
        ),
        ({"limit": 0}, "data.limit"),
        ({"temperature": 0.2}, "data.temperature"),
        ({"format": "questions", "source": 1}, "have no columns"),
        ({"maximum_source": 1}, "data.maximum_source"),
        ({}, "data.train is missing"),
        ({"train": "nowhere.tsv"}, "nowhere.tsv: no such file"),
    ],
)
def test_what_a_recipe_cannot_say(data, words, tmp_path):
    with pytest.raises(InputError, match=words):
        regard.train(mixture(tmp_path) | {"data": data}, output=tmp_path / "run")


@pytest.mark.parametrize("example", ["text", ("a",), ("a", 3), (1, "b"), ("a", []), ("a", ["b", 2])])
def test_what_is_no_example(model, example):
    with pytest.raises(InputError, match=r"example 2 is|examples, row 2: "):
        regard.evaluate(model, [("a", "b"), example])


def test_an_empty_text_is_refused(model):
    with pytest.raises(InputError, match="text 2 is empty"):
        model.generate(["a", " "])


def test_mixing_is_saved_with_the_seed_of_its_order(run):
    assert run.load().task.mixing == Mixing(limit=25, seed=3)


def test_transformers_writes_the_same_from_the_same_folder(model, tmp_path):
    transformers = pytest.importorskip("transformers")
    model.save(tmp_path / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model").eval()
    settings = GenerationSettings(maximum_length=8)
    for text in ("summarize: the dog sees the cat.", "the cat", "question: who? context: the dog sees the cat."):
        ours = model.generate(text, settings)
        given = tokenizer(text, return_tensors="pt")
        assert given["input_ids"][0, :-1].tolist() == model.encode([text])[0]
        never = [[each] for each in (model.task.tokenizer.unknown_id, *model.task.tokenizer.sentinels)]
        written = theirs.generate(**given, max_new_tokens=8, num_beams=1, do_sample=False, bad_words_ids=never)
        assert tuple(tokenizer.convert_ids_to_tokens(written[0, 1:])) == ours.tokens
