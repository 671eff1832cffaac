"""Walks through a neural Turing machine, a captioner, a few-shot classifier and local attention, against their papers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.errors import InputError
from regard.inspection import walk
from regard.inspection.memory import memory_trace

FOLDERS = Path(__file__).parents[1] / "golden" / "folders"
BITS = "10 01 11"
STEPS = ("10", "01", "11", "delimiter")


def close(found, wanted) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), atol=2e-5)


@pytest.fixture(scope="module")
def copier():
    return regard.load(FOLDERS / "ntm")


def addressed(model, step: int, head: int) -> dict[str, np.ndarray]:
    """Equations 5 to 9 of Graves et al. 2014, from what the controller gave, in numpy and from the first step on."""
    given = []
    handle = model.model.address.register_forward_hook(lambda _, read, gave: given.append(gave[0].detach()))
    trace = memory_trace(model, BITS)
    handle.remove()
    config = model.model.config
    previous = model.model.places.softmax(dim=-1).detach().numpy()[head]
    for number in range(step + 1):
        parts = given[number].view(2 * config.heads, -1)[head].numpy().astype(np.float64)
        width, reach = config.slot_width, config.reach
        key, strength, gate = parts[:width], np.logaddexp(0, parts[width]), 1 / (1 + np.exp(-parts[width + 1]))
        shift = np.exp(parts[width + 2 : width + 3 + 2 * reach])
        shift /= shift.sum()
        sharpness = 1 + np.logaddexp(0, parts[-1])
        memory = trace.memory[number].astype(np.float64)
        cosine = memory @ key / np.linalg.norm(key) / np.linalg.norm(memory, axis=1)
        content = np.exp(strength * cosine) / np.exp(strength * cosine).sum()
        mixed = gate * content + (1 - gate) * previous
        slots = len(mixed)
        moved = np.array(
            [sum(mixed[(i - j) % slots] * shift[j + reach] for j in range(-reach, reach + 1)) for i in range(slots)]
        )
        weights = moved**sharpness / (moved**sharpness).sum()
        found = {"cosine": cosine, "wᶜ": content, "wᵍ": mixed, "w̃": moved, "weight": weights, "w before": previous}
        found |= {"s": shift, "g": gate, "β": strength, "γ": sharpness}
        previous = weights
    return found


@pytest.mark.parametrize("head", [0, 1])
@pytest.mark.parametrize("step", [0, 2, 5])
def test_addressing_is_that_of_the_paper(copier, step, head):
    seen = walk(copier, BITS, position=step, head=head)
    assert seen.queries[:4] == STEPS
    assert seen.keys == tuple(f"slot {number}" for number in range(1, 7))
    wanted = addressed(copier, step, head)
    shown = {item.name: item.values for each in seen.steps for item in each.shown}
    for name, values in wanted.items():
        close(shown[name], values)
    assert [each.title for each in seen.steps if each.kind == "step"][1:7] == [
        *("Cosine", "Strength", "Content", "Interpolation", "Shift", "Sharpening")
    ]


def test_a_write_head_erases_and_adds(copier):
    trace = memory_trace(copier, BITS)
    for step in range(len(trace.steps)):
        written = walk(copier, BITS, position=step, head=1).step("Erase and add")
        weights = trace.write_weights[0, step][:, None]
        before = trace.memory[step]
        close(written["M"], before)
        close(written["M after"], before * (1 - weights * trace.erased[0, step]) + weights * trace.added[0, step])
        close(written["M after"], trace.memory[step + 1])
    assert "Erase and add" not in [step.title for step in walk(copier, BITS, position=1, head=0).steps]


def test_a_read_head_reads_what_the_model_reads(copier):
    trace = memory_trace(copier, BITS)
    seen = walk(copier, BITS, "11", head=0)
    close(seen.step("Sum")["o"], trace.read[0, 2])
    close(seen.step("Sum")["o"], trace.read_weights[0, 2] @ trace.memory[2])
    assert float(seen.steps[-1]["largest difference"]) < 1e-5


def test_bits_of_another_width_are_refused(copier):
    for text, wrong in (
        ("abc", "zeros and ones with spaces between"),
        ("101", "give 2 zeros and ones each"),
        (" ", "is empty"),
    ):
        with pytest.raises(InputError, match=wrong):
            walk(copier, text, position=0)


def test_a_captioner_is_walked_through():
    """Xu et al. 2015, section 3.1.2: e_ti = f_att(a_i, h_{t-1}), alpha = softmax(e), z = beta sum alpha a."""
    captioner = regard.load(FOLDERS / "show_attend_and_tell")
    size = captioner.task.size
    image = np.random.default_rng(0).integers(0, 256, (size.height, size.width, size.channels), dtype=np.uint8)
    text = captioner.task.tokenizer.decode(list(range(4, 7)))
    seen = walk(captioner, image, position=1, target=text)
    assert seen.keys[:2] == ("patch 1,1", "patch 1,2")
    assert "image 1, caption: " in seen.title
    layer, batch = captioner.model.attention, captioner.teacher_forced([(image, text)])
    assert seen.queries == tuple(captioner.task.tokenizer.tokens(batch.labels[0].tolist()))
    asked = []
    handle = layer.query.register_forward_pre_hook(lambda _, given: asked.append(given[0].detach()))
    with torch.no_grad():
        annotations, _ = captioner.model.encoder(batch.images)
        told = captioner.model(batch.images, batch.target, attended=True)
        handle.remove()
        hidden = torch.tanh(layer.query(asked[1].flatten(0, 1)) + layer.key(annotations[0]))
        alpha = (hidden @ layer.attention.score.weight).softmax(dim=-1)
    close(seen.weights, alpha)
    close(seen.weights, told.weights[0, 1])
    close(seen.step("Sum")["o"], alpha @ annotations[0])
    assert walk(captioner, image, position=0).notes[0].startswith("The caption is the model's own")


def test_a_few_shot_classifier_is_walked_through():
    classifier = regard.load(FOLDERS / "snail")
    task = classifier.task
    generator = np.random.default_rng(1)
    images = generator.integers(0, 256, (task.ways * task.shots + 1, task.size.height, task.size.width), dtype=np.uint8)
    labels = [f"kind {number % task.ways}" for number in range(len(images) - 1)]
    shown = list(zip(images[:-1], labels, strict=True))
    seen = walk(classifier, (shown, images[-1]), "asked")
    assert seen.queries == seen.keys
    assert seen.keys[-1] == "asked"
    with regard.look(classifier) as record:
        answer = classifier.classify(shown, images[-1])
    close(seen.weights, record.weights(seen.address)[0, 0, -1])
    assert seen.title == f"image 1, predicted class: {answer.label}"
    with pytest.raises(InputError, match=r"give \(shown, asked\)"):
        walk(classifier, images[-1], "asked")


def test_local_attention_predicts_where_to_look(translator):
    """Luong et al. 2015, section 3.2: p = S sigmoid(v tanh(Wp h)), a = softmax(score) exp(-(s - p)^2 / (2 (D/2)^2))."""
    luong = translator("luong")
    seen = walk(luong, "abcdefgh", position=1, target="ABC")
    titles = [step.title for step in seen.steps]
    assert titles[2:5] == ["Window", "Softmax inside the window", "Gaussian"]
    places = np.arange(len(seen.keys))
    centre, score = float(seen.step("Window")["p"]), seen.step("Scores")["score"]
    inside = np.abs(places - centre) <= 2
    weights = np.where(inside, np.exp(score), 0)
    weights = weights / max(weights.sum(), 1e-30) * np.exp(-((places - centre) ** 2) / 2)
    close(seen.weights, weights)
    batch = luong.teacher_forced([("abcdefgh", "ABC")])
    with regard.look(luong.model) as record, torch.no_grad():
        luong.model(batch.source, batch.target)
    close(seen.weights, record.weights(seen.address)[0, 0, 1])


def test_an_answer_that_fills_all_places_is_walked_through():
    seen = walk(regard.load(FOLDERS / "transformer"), "abc", position=0)
    assert any("fills all 24 places" in note for note in seen.notes)
