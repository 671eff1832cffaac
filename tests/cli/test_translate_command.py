from __future__ import annotations

import json
import os
import select
import shutil
import sys
import threading

import pytest

import regard
from regard.cli.console import envelope
from regard.cli.main import main
from regard.cli.text_to_text import translation_line, translation_values
from regard.generation import GenerationSettings
from regard.tasks import Translation

WORDS = ["abc", "dcba", "", "aab", "  ", "cd"]


@pytest.fixture(scope="module")
def translator(model):
    return regard.load(model)


@pytest.fixture(scope="module")
def expected(translator):
    return [translator.translate(word).text if word.strip() else "" for word in WORDS]


def test_texts_from_arguments(command, model, expected):
    answer = command("translate", model, *WORDS)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.split("\n") == [*expected, ""]


def test_lines_from_standard_input(command, model, expected):
    assert command("translate", model, stdin="\n".join(WORDS).encode()).out.split("\n") == [*expected, ""]


def test_nothing_in_nothing_out(command, model):
    answer = command("translate", model)
    assert (answer.code, answer.out) == (0, "")
    assert json.loads(command("translate", model, "--json").out) == envelope("translate") | {"translations": []}


def test_lines_from_one_file_to_another(command, model, expected, tmp_path):
    (tmp_path / "in.txt").write_text("\n".join(WORDS * 20))
    answer = command(
        "translate", model, "--input", tmp_path / "in.txt", "--output", tmp_path / "out.txt", "--batch-size", 2
    )
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert (tmp_path / "out.txt").read_text().split("\n") == [*expected * 20, ""]
    assert sorted(os.listdir(tmp_path)) == ["in.txt", "out.txt"]


def test_one_line_is_answered_before_the_next_is_there(model, expected, monkeypatch):
    (asked, ask), (hear, say) = os.pipe(), os.pipe()
    heard = []

    def ask_and_listen():
        with open(ask, "wb", buffering=0) as asking, open(hear, "rb") as answers:
            for word in WORDS:
                asking.write(word.encode() + b"\n")
                if not select.select([hear], [], [], 60)[0]:
                    return  # it waits for more
                heard.append(answers.readline())

    asker = threading.Thread(target=ask_and_listen)
    asker.start()
    with open(asked, encoding="utf-8") as stdin, open(say, "w", encoding="utf-8") as stdout:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        assert main(["translate", str(model), "--batch-size", "1"]) == 0
    asker.join(60)
    assert heard == [text.encode() + b"\n" for text in expected]


def test_json_holds_scores_and_further_answers(command, model, translator):
    answer = command("translate", model, "abc", "", "cd", "--beam", 3, "--n-best", 2, "--length-penalty", 0, "--json")
    assert answer.err == ""
    first, empty, last = json.loads(answer.out)["translations"]
    settings = GenerationSettings(beam=3, n_best=2, length_penalty=0, maximum_length=8)
    found = translator.translate("abc", settings)
    assert first["source"] == "abc"
    assert first["text"] == found.text
    assert first["score"] == pytest.approx(found.score, rel=1e-5)
    assert first["log_probability"] == pytest.approx(found.log_probability, rel=1e-5)
    assert [other["text"] for other in first["alternatives"]] == [text for text, _ in found.alternatives]
    assert len(first["alternatives"]) == 1
    assert empty == {"source": "", "text": "", "score": None, "log_probability": None, "alternatives": []}
    assert last["source"] == "cd"


def test_json_in_a_file(command, model, expected, tmp_path):
    answer = command("translate", model, *WORDS, "--output", tmp_path / "out.txt", "--json")
    assert answer.out == ""
    assert [item["text"] for item in json.loads((tmp_path / "out.txt").read_text())["translations"]] == expected


def test_several_answers_stand_in_one_line(command, model):
    lines = command("translate", model, "abc", "cd", "--beam", 3, "--n-best", 3).out.splitlines()
    assert [len(set(line.split("\t"))) for line in lines] == [3, 3]


def test_a_seed_gives_the_same_samples_twice_and_another_others(command, model):
    def drawn(seed: int) -> str:
        options = ("--sample", "--n-best", 8, "--temperature", 3, "--top-k", 6, "--top-p", 0.99, "--min-p", 0.01)
        return command("translate", model, "abcd", *options, "--seed", seed).out

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_a_line_stays_a_line():
    broken = Translation(
        text="one\ntwo\tthree\r", score=-1.0, log_probability=-2.0, source="x", alternatives=(("a\tb", -3.0),)
    )
    assert translation_line(broken) == "one two three \ta b\n"
    assert translation_values("x", broken)["text"] == "one\ntwo\tthree\r"


def test_a_reader_who_has_enough_ends_it_quietly(process, model, expected, tmp_path):
    (tmp_path / "in.txt").write_text("abc\n" * 20_000)
    with process("translate", model, "--input", tmp_path / "in.txt") as running:
        assert running.stdout.readline() == expected[0].encode() + b"\n"
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 1


def test_on_a_terminal_it_says_what_it_waits_for(terminal, model, expected):
    answer = terminal("translate", model, typed=b"abc\n\ncd\n\x04")
    assert answer.code == 0
    assert answer.err.count("reading from standard input") == 1
    assert answer.out.split("\n") == [expected[0], "", expected[5], ""]


def test_a_bar_on_the_terminal_leaves_the_output_alone(terminal, model, tmp_path):
    (tmp_path / "in.txt").write_text("abc\n" * 100)
    answer = terminal("translate", model, "--input", tmp_path / "in.txt", "--json")
    assert len(json.loads(answer.out)["translations"]) == 100
    assert "100/?" in answer.err
    assert "texts/s" in answer.err


def test_a_text_longer_than_the_models_positions_is_named(command, model, tmp_path):
    sentence = command("translate", model, "abc", "abcd" * 4).refusal()
    assert "text 2: the source has 17 tokens and the model has positions for 12" in sentence
    (tmp_path / "in.txt").write_text("abc\n" * 6 + "abcd" * 4 + "\n")
    sentence = command("translate", model, "--input", tmp_path / "in.txt", "--output", tmp_path / "out.txt").refusal()
    assert f"{tmp_path}/in.txt, line 7: the source has 17 tokens" in sentence
    assert os.listdir(tmp_path) == ["in.txt"]
    assert "text 1: the source has" in command("translate", model, "abcdabcdabcd").refusal()
    assert command("translate", model, "abcdabcdabc").code == 0


def test_a_text_longer_than_a_location_score_has_places_for_is_named(command, location_model):
    sentence = command("translate", location_model, "abc", "abcd" * 4).refusal()
    assert "text 2: the source has 17 tokens and the model has positions for 12" in sentence
    assert sentence.endswith("a larger model.maximum_source")
    assert command("translate", location_model, "abcdabcdabc").code == 0


def test_coverage_is_refused_where_there_is_no_attention(command, unattended_model):
    sentence = command("translate", unattended_model, "abc", "--beam", 2, "--coverage-penalty", 0.2).refusal()
    assert "generation.coverage_penalty: this model has no attention over the source" in sentence
    assert "set it to 0" in sentence
    assert command("translate", unattended_model, "abc", "--beam", 2, "--coverage-penalty", 0).code == 0


def test_files_that_are_no_text(command, model, tmp_path):
    def refused(content: bytes) -> str:
        (tmp_path / "in.txt").write_bytes(content)
        return command("translate", model, "--input", tmp_path / "in.txt").refusal()

    assert "is empty" in refused(b"")
    assert "not UTF-8" in refused("déjà\n".encode("latin-1") * 9)
    assert "UTF-16" in refused("abc\n".encode("utf-16") * 9)
    assert "is a binary file" in refused(bytes(range(256)) * 9)
    assert "no such file" in command("translate", model, "--input", tmp_path / "none.txt").refusal()
    assert "half of a surrogate pair" in command("translate", model, "caf\udce9").refusal()


def test_an_output_that_cannot_be_written_is_told_before_the_work(command, tmp_path):
    sentence = command("translate", tmp_path / "no-model", "abc", "--output", tmp_path / "none" / "out.txt").refusal()
    assert "none/out.txt: cannot be written" in sentence


def test_folders_that_hold_no_usable_translator(command, model, tmp_path):
    def refused(folder: object) -> str:
        return command("translate", folder, "abc").refusal()

    def damaged(name: str) -> object:
        shutil.copytree(model, tmp_path / name)
        return tmp_path / name

    assert "no such folder" in refused(tmp_path / "none")
    assert "holds no model" in refused(tmp_path)
    folder = damaged("short")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-64])
    assert "short/model.safetensors: not a readable safetensors file" in refused(folder)
    folder = damaged("other")
    card = json.loads((folder / "regard.json").read_text())
    card["task"]["name"] = "classification"
    (folder / "regard.json").write_text(json.dumps(card))
    assert "a model for classification, and translation is wanted" in refused(folder)
    folder = damaged("wordless")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"] = {}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert "wordless/tokenizer.json: the tokenizer has no vocabulary" in refused(folder)


@pytest.mark.parametrize("precision", ["bfloat16", "int8", "int4"])
def test_fewer_bits_translate_much_the_same(command, model, precision):
    words = ("translate", model, "abc", "dcba", "--json")
    plain = json.loads(command(*words).out)["translations"]
    answer = command(*words, "--dtype", precision)
    assert answer.code == 0
    for found, wanted in zip(json.loads(answer.out)["translations"], plain, strict=True):
        assert found["score"] == pytest.approx(wanted["score"], abs=0.3)
        assert found["score"] != wanted["score"]


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_a_recurrent_model_translates_in_fewer_bits(command, dates_model, precision):
    assert command("translate", dates_model, "9 May 2017", "--dtype", precision).code == 0


def test_auto_chooses_a_dtype_and_says_so(command, model):
    answer = command("translate", model, "abc", "--dtype", "auto")
    assert answer.code == 0
    assert "dtype: bfloat16, native on this" in answer.err or "dtype: float32, this" in answer.err
    assert command("translate", model, "abc", "--dtype", "float8").refusal().startswith("error: dtype is 'float8'")
