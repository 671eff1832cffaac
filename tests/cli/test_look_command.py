from __future__ import annotations

import json
from pathlib import Path

import pytest

import regard
from regard.inspection import AttentionView

FOLDERS = Path(__file__).parents[1] / "golden" / "folders"
LAYERS = ("encoder.layers.0.attention", "decoder.layers.0.attention", "decoder.layers.0.cross_attention")


def test_heatmaps_over_the_source_on_the_terminal(command, model):
    answer = command("look", model, "abcd")
    text = regard.load(model).translate("abcd").text
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == f"abcd → {text}"
    assert lines[1].startswith(LAYERS[2])
    assert not any(address in answer.out for address in LAYERS[:2])
    assert answer.err.startswith("2 further maps")


def test_all_heatmaps_where_asked(command, model):
    answer = command("look", model, "abcd", "--layer", "*")
    assert [line.split(" ")[0] for line in answer.out.splitlines() if "layers" in line] == list(LAYERS)
    assert answer.err == ""


def test_json_is_the_exact_view(command, model):
    answer = command("look", model, "abcd", "--json")
    view = AttentionView.from_json(answer.out)
    translator = regard.load(model)
    with regard.look(translator) as seen:
        translator.translate("abcd")
    assert answer.err == ""
    assert view == seen.view(0)
    assert view.addresses == LAYERS


def test_teacher_forcing_and_a_choice_of_layers(command, model):
    answer = command("look", model, "abcd", "--target", "dcb", "--layer", "decoder.*.cross_*", "--json")
    view = AttentionView.from_json(answer.out)
    assert view.addresses == LAYERS[2:]
    assert view.maps[0].query_tokens == ("d", "c", "b", "</s>")
    assert view.maps[0].key_tokens == ("a", "b", "c", "d", "</s>")


@pytest.mark.parametrize(
    ("name", "beginning"),
    [("page.html", b"<!doctype html>"), ("plot.png", b"\x89PNG"), ("plot.svg", b"<?xml"), ("w.json", b"{")],
)
def test_files(command, model, tmp_path, name, beginning):
    answer = command("look", model, "abc", "-o", tmp_path / name)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.startswith(f"{tmp_path / name}: 3 attention maps of 'abc → ")
    assert (tmp_path / name).read_bytes()[: len(beginning)].lower() == beginning.lower()


def test_a_file_beside_json(command, model, tmp_path):
    answer = command("look", model, "abc", "-o", tmp_path / "w.json", "--json")
    assert json.loads(answer.out) == json.loads((tmp_path / "w.json").read_text())


def test_a_recurrent_model(command, dates_model):
    answer = command("look", dates_model, "9 mai 2017")
    assert answer.out.splitlines()[1].startswith("decoder.attention")
    assert answer.err == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["", "--json"], "is empty"),
        (["abc", "--target", ""], "--target is empty"),
        (["abc", "-o", "plot.pdf"], "give a name that ends in .html, .png, .svg or .json"),
        (["abc", "-o", "none/plot.html"], "none/plot.html: cannot be written"),
        (
            ["abc", "--layer", "decodr.*"],
            "no attention layer is called 'decodr.*'; choose from encoder.layers.0.attention",
        ),
        (["abcd" * 4], "the source has 17 tokens and the model has positions for 12"),
        (["abc", "--target", "abcd" * 4], "the target has 17 tokens and the model has positions for 12"),
    ],
)
def test_what_cannot_be_looked_at(command, model, words, sentence):
    assert sentence in command("look", model, *words).refusal()


def test_a_model_that_copies_shows_its_memory_and_a_few_shot_classifier_its_episode(command, tmp_path):
    import torch

    import regard
    from regard.models import NTM, SNAIL, NTMConfig, SNAILConfig
    from regard.tasks.copying import Copier, CopyingTask
    from regard.tasks.few_shot import FewShotClassifier, FewShotTask

    torch.manual_seed(0)
    task = CopyingTask(3)
    model = NTM(NTMConfig(**task.model_settings(), slots=5, slot_width=4, controller_width=6)).eval()
    Copier(model, task).save(tmp_path / "ntm")
    result = command("look", tmp_path / "ntm", "101 010", "--json")
    assert result.code == 0, result.err
    view = json.loads(result.out)
    with torch.no_grad(), regard.look(model) as seen:
        model(task.batch([[5, 2]]).x)
    assert [one["address"] for one in view["maps"]] == seen.addresses
    for one in view["maps"]:
        assert one["query_tokens"][:4] == ["101", "010", "delimiter", f"→ {view['title'].split()[3]}"]
        assert one["key_tokens"] == [f"slot {place}" for place in range(1, 6)]
        torch.testing.assert_close(torch.tensor(one["weights"]), seen.weights(one["address"])[0], atol=1e-6, rtol=1e-5)
    for text in ("a cat", " ", "10 01"):
        result = command("look", tmp_path / "ntm", text)
        assert result.code == 2
        assert "zeros and ones" in result.err
    few = FewShotTask(ways=3, shots=1, side=8)
    snail = SNAIL(SNAILConfig(**few.model_settings(), embedding_channels=(4,), embedding_width=6, filters=(4, 4),
                              key_widths=(4, 4, 4), value_widths=(4, 4, 4)))  # fmt: skip
    FewShotClassifier(snail, few).save(tmp_path / "snail")
    result = command("look", tmp_path / "snail", "cat.png")
    assert result.code == 2
    assert "give 3 classes with 1 image(s) of each as CLASS/IMAGE in a folder: --support FOLDER" in result.err
    image = pytest.importorskip("PIL.Image")
    for name in ("cat", "dog", "owl"):
        (tmp_path / "shown" / name).mkdir(parents=True)
        image.effect_noise((8, 8), 90).save(tmp_path / "shown" / name / "one.png")
    asked = tmp_path / "shown" / "owl" / "one.png"
    result = command("look", tmp_path / "snail", asked, "--support", tmp_path / "shown", "--json")
    view = json.loads(result.out)
    assert {tuple(one["key_tokens"]) for one in view["maps"]} == {("cat", "dog", "owl", "asked")}
    reads = next(one for one in view["maps"] if one["address"] == "blocks.1.convolutions")["weights"]
    assert reads[1] == [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]]  # dilation 2
    walked = command("walk", tmp_path / "snail", asked, "--query", "asked", "--support", tmp_path / "shown")
    assert "predicted class: " in walked.out
    assert (
        "--support is for few-shot models"
        in command("look", tmp_path / "ntm", "101", "--support", tmp_path / "shown").refusal()
    )


def test_a_plot_is_the_figure_of_the_paper_where_there_is_one(command, tmp_path):
    answer = command("look", FOLDERS / "lstmn", "a b c", "-o", tmp_path / "read.svg")
    assert answer.err.startswith(f"{tmp_path / 'read.svg'}: the figure of the model's paper")
    answer = command("look", FOLDERS / "lstmn", "a b c", "--layer", "*", "-o", tmp_path / "maps.svg")
    assert "attention maps of" in answer.err
