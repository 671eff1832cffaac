"""`regard generate`."""

from __future__ import annotations

import json
import shutil

import pytest

import regard
from regard.generation import GenerationSettings

TEXTS = [f"line number {i} of the text" for i in range(30)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "gpt"
    values = {
        "task": "language_modelling",
        "model": {
            "name": "gpt2",
            "width": 16,
            "heads": 2,
            "feedforward_width": 32,
            "layers": 1,
            "maximum_positions": 48,
        },
        "data": {"length": 32},
        "tokenizer": {"kind": "character", "size": 40},
        "training": {"steps": 150, "batch_tokens": 500, "precision": "float32", "learning_rate": 1e-2, "warmup": 5},
    }
    regard.train(values, output=folder, data=TEXTS)
    return folder


def test_a_line_for_each_prompt_and_an_empty_one_for_an_empty_one(command, model, tmp_path):
    (tmp_path / "prompts.txt").write_text("line num\n\nline number 1\n")
    lines = command("generate", model, "--input", tmp_path / "prompts.txt", "--maximum-length", 20).out.split("\n")
    assert lines[0].startswith("ber")
    assert lines[1] == ""
    assert lines[2].startswith("of t")
    command("generate", model, "--input", tmp_path / "prompts.txt", "--output", tmp_path / "out.txt")
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 3


def test_json_has_tokens_and_scores(command, model):
    values = json.loads(command("generate", model, "line nu", "--stop", "ber", "--json").out)["texts"]
    assert values[0]["prompt"] == "line nu"
    assert values[0]["text"] == "m"
    assert values[0]["finished"]
    assert len(values[0]["tokens"]) == len(values[0]["log_probabilities"]) == 4


def test_json_has_the_most_probable_tokens_and_penalties_change_what_is_written(command, model):
    words = ("generate", model, "line nu", "--maximum-length", 12, "--json")
    plain = json.loads(command(*words, "--top-log-probabilities", 3).out)["texts"][0]
    assert [len(place) for place in plain["top"]] == [3] * len(plain["tokens"])
    assert [place[0]["token"] for place in plain["top"]] == plain["tokens"]
    assert [place[0]["log_probability"] for place in plain["top"]] == pytest.approx(
        plain["log_probabilities"], abs=1e-4
    )
    biased = json.loads(command(*words, "--logit-bias", "x=100", "--frequency-penalty", 0.1).out)["texts"][0]
    assert biased["text"] == "x" * 12
    assert "top" not in biased
    penalised = json.loads(command(*words, "--repetition-penalty", 3).out)["texts"][0]
    assert penalised["text"] != plain["text"]


def test_samples_do_not_depend_on_the_batch_size(command, model, tmp_path):
    (tmp_path / "prompts.txt").write_text("line\n" * 5)
    words = ("generate", model, "--input", tmp_path / "prompts.txt", "--sample", "--temperature", 2, "--n-best", 2)
    outs = [command(*words, "--batch-size", size, "--maximum-length", 8).out for size in (1, 3)]
    assert outs[0] == outs[1]
    assert len(set(outs[0].splitlines())) > 1


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["x" * 60], "positions for 48"),
        (["a", "--beam", 2, "--stop", "x"], "set beam to 1"),
        (["a", "--top-p", 2], "top_p"),
        (["a", "--stop", ""], "a stop string is empty"),
        (["a", "--repetition-penalty", 0], "repetition_penalty: 0.0"),
        (["a", "--beam", 2, "--presence-penalty", 1], "presence_penalty: a beam"),
        (["a", "--logit-bias", "number=1"], "'number' is"),
        (["a", "--logit-bias", "=1"], "give a token and a number"),
        (["a", "--logit-bias", "id:x=1"], "give a token and a number"),
        (["a", "--top-log-probabilities", 3], "only printed with --json"),
    ],
)
def test_what_cannot_be_done_is_said(command, model, options, wanted):
    assert wanted in command("generate", model, *options).refusal()


@pytest.mark.parametrize("precision", ["bfloat16", "int8", "int4"])
def test_fewer_bits_write_much_the_same(command, model, precision):
    words = ("generate", model, "line nu", "--maximum-length", 6, "--json")
    plain = json.loads(command(*words).out)["texts"][0]
    found = json.loads(command(*words, "--dtype", precision).out)["texts"][0]
    assert found["text"] == plain["text"]
    assert found["log_probabilities"] == pytest.approx(plain["log_probabilities"], abs=0.3)
    assert found["log_probabilities"] != plain["log_probabilities"]


def test_a_draft_changes_no_greedy_answer(command, model):
    words = ("generate", model, "line nu", "--maximum-length", 12, "--json")
    plain = json.loads(command(*words).out)["texts"][0]
    for draft in (model, "ngram"):
        found = json.loads(command(*words, "--draft", draft, "--ahead", 3).out)["texts"][0]
        assert found["tokens"] == plain["tokens"]
    assert "beam is 3; set beam to 1" in command(*words, "--draft", model, "--beam", 3).err


def test_unknown_precisions_get_the_nearest(command, model):
    assert "did you mean 'int8'" in command("generate", model, "a", "--dtype", "int9").err


CHAT = "{% for m in messages %}{{ m.content[:4] }}{% endfor %} nu"


def test_what_a_user_says_and_a_conversation_are_put_into_the_chat_template(command, model, tmp_path):
    folder = tmp_path / "chat"
    shutil.copytree(model, folder)
    assert command("generate", folder, "line", "--chat").code == 2
    (folder / "chat_template.jinja").write_text(CHAT)
    said = [{"role": "user", "content": "line of all"}]
    wanted = regard.load(folder).chat(said, GenerationSettings(maximum_length=9)).text
    asked = json.dumps([{"role": "system", "content": ""}, *said])
    for words in (("line of all",), (asked,)):
        found = command("generate", folder, *words, "--chat", "--maximum-length", 9, "--json")
        assert [each["text"] for each in json.loads(found.out)["texts"]] == [wanted]
    longer = command("generate", folder, "line", "--chat", "--system", "of t", "--maximum-length", 9, "--json")
    assert json.loads(longer.out)["texts"][0]["text"] != wanted
    told = command("generate", folder, "line", "--system", "of t")
    assert (told.code, "give --chat too" in told.err) == (2, True)


@pytest.mark.parametrize("asked", ["[{", '[{"role": 1}]', "[{}]"])
def test_a_conversation_that_is_none_is_one_sentence(command, model, tmp_path, asked):
    folder = tmp_path / "chat"
    shutil.copytree(model, folder)
    (folder / "chat_template.jinja").write_text(CHAT)
    told = command("generate", folder, asked, "--chat")
    assert told.code == 2
    assert "Traceback" not in told.err
    assert len(told.err.strip().splitlines()) == 1
