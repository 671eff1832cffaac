"""`--device`: every command that computes with a model has it, gives it on, and says when a device is not there."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest
import torch

from regard.cli import inputs
from regard.cli.classify import classify
from regard.cli.embedding import embed, search
from regard.cli.evaluate import evaluate
from regard.cli.spans import answer, fill, tag
from regard.cli.text_to_text import translate
from regard.errors import InputError
from regard.machine import device_named, keep_freed_memory
from regard.tasks import loading

COMMANDS = [answer, classify, embed, evaluate, fill, search, tag, translate]


@pytest.mark.parametrize("function", COMMANDS, ids=lambda function: function.__name__)
def test_commands_choose_for_themselves_unless_told(function):
    assert inspect.signature(function).parameters["device"].default == "auto"


def test_the_model_is_loaded_onto_the_device(monkeypatch, tmp_path):
    keep_freed_memory()  # whatever takes `load` for its own has been imported now
    asked = []

    def load(folder, **options):
        asked.append((folder, options))
        return SimpleNamespace(model=None)

    monkeypatch.setattr(loading, "load", load)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name in ("cpu", "cuda", "auto"):
        inputs.opened(tmp_path, name, "tagging")
    places = [torch.device("cpu"), torch.device("cuda"), torch.device("cuda")]
    options = {"task": "tagging", "dtype": "float32"}
    assert asked == [(tmp_path, {**options, "device": place}) for place in places]


@pytest.mark.parametrize("words", [("translate", "a"), ("evaluate", "dates")])
def test_a_device_that_is_not_there_is_one_sentence(command, model, words, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    name, *rest = words
    assert command(name, model, *rest, "--device", "cuda").refusal() == (
        "error: --device is 'cuda' but PyTorch sees no GPU; use auto or cpu"
    )
    assert "--device is 'gpu'; give one of auto, cpu, cuda" in (
        command(name, model, *rest, "--device", "gpu").refusal()
    )


def test_on_the_processor_it_answers_as_without(command, model, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert command("translate", model, "ab", "--device", "cpu").out == command("translate", model, "ab").out != ""


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("gpu", "device is 'gpu'; give one of auto, cpu, cuda"),
        ("meta", "device is 'meta'; give one of"),
        ("cuda", "device is 'cuda' but PyTorch sees no GPU; use auto or cpu"),
        ("cuda:1", "device is 'cuda:1' but PyTorch sees no GPU"),
        (torch.device("cuda"), "device is 'cuda' but PyTorch sees no GPU"),
        (None, "device is 'None'; give one of"),
    ],
)
def test_a_device_that_is_not_there_is_one_sentence_in_python(model, device, said, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match=said):
        loading.load(model, device=device)
    with pytest.raises(InputError, match=said):
        loading.load(model, device="auto").to(device)
    assert loading.load(model, device=torch.device("cpu")).device == torch.device("cpu")


def test_one_graphics_card_of_several(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device_named("cuda:1", "device") == torch.device("cuda", 1)
    with pytest.raises(InputError, match="device is 'cuda:2' but PyTorch sees 2 GPU"):
        device_named("cuda:2", "device")
