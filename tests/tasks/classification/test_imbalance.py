"""Classes of different sizes: what is held out of each, what each counts in the loss, and what is said of them."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import regard
from regard.errors import InputError
from regard.layers import Encoded
from regard.tasks.classification.data import LabelledData
from regard.tasks.classification.preparation import prepare_classes
from regard.tasks.classification.task import LABEL
from regard.tasks.encoders import EncoderTokenizerSettings

SETTINGS = EncoderTokenizerSettings(size=200)


def rows(**counts: int) -> list[tuple[str, str]]:
    return [(f"{name} text {number}", name) for name, count in counts.items() for number in range(count)]


def labels(prepared, split: str) -> Counter[str]:
    store = getattr(prepared, split)
    return Counter(prepared.task.classes[int(store.sequence(LABEL, row)[0])] for row in range(len(store)))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_same_share_of_each_class_is_held_out(seed, tmp_path):
    data = LabelledData(validation_share=0.2)
    given = rows(ham=90, spam=10, odd=2, rare=1)
    found = prepare_classes(data, SETTINGS, tmp_path, seed=seed, given=given)
    assert labels(found, "validation") == {"ham": 18, "spam": 2, "odd": 1}
    assert labels(found, "train") == {"ham": 72, "spam": 8, "odd": 1, "rare": 1}
    assert list(found.notes) == [
        "the 2 classes 'odd', 'rare': one example to learn from; give more, or leave them out.",
    ]


def test_classes_of_one_example_each_are_held_out_of_as_before(tmp_path):
    given = [(f"text {number}", str(number)) for number in range(20)]
    found = prepare_classes(LabelledData(), SETTINGS, tmp_path, seed=1, given=given)
    assert (len(found.train), len(found.validation)) == (18, 2)


def test_balanced_weights_are_those_of_the_formula_and_come_back(tmp_path):
    data = LabelledData(class_weights="balanced", validation_share=0.2)
    task = prepare_classes(data, SETTINGS, tmp_path / "a", seed=1, given=rows(ham=90, spam=10)).task
    assert task.class_weights == pytest.approx((80 / (2 * 72), 80 / (2 * 8)))
    again = prepare_classes(data, SETTINGS, tmp_path / "a", seed=1, given=rows(ham=90, spam=10)).task
    assert again.class_weights == task.class_weights


def test_the_loss_of_each_example_counts_its_classs_weight(tmp_path):
    data = LabelledData(class_weights={"spam": 5.0})
    found = prepare_classes(data, SETTINGS, tmp_path, seed=1, given=rows(ham=9, spam=9, odd=9))
    task = found.task
    assert dict(zip(task.classes, task.class_weights or (), strict=True)) == {"ham": 1.0, "odd": 1.0, "spam": 5.0}
    batch = task.read_batch(found.train, range(7))
    logits = torch.randn(7, 3, generator=torch.Generator().manual_seed(1), requires_grad=True)

    def model(tokens, segments, readings):
        return Encoded(torch.zeros(7, 1, 1), None, logits, None)

    loss = task.loss(model, batch)  # pyright: ignore[reportArgumentType]
    wanted = sum(
        -task.class_weights[label] * (logits[row].exp()[label] / logits[row].exp().sum()).log()
        for row, label in enumerate(batch.labels.tolist())
    )
    assert loss.total.item() == pytest.approx(float(wanted), rel=1e-5)
    assert loss.tokens == 7
    assert int(loss.correct) == int((logits.argmax(dim=1) == batch.labels).sum())


@pytest.mark.parametrize(
    ("weights", "message"),
    [({"spma": 2.0}, "'spma' is no class of the data; did you mean 'spam'"), ({"spam": 0.0}, "numbers above 0")],
)
def test_weights_that_cannot_be_are_refused(weights, message, tmp_path):
    def prepare() -> None:
        data = LabelledData(class_weights=weights)
        prepare_classes(data, SETTINGS, tmp_path, seed=1, given=rows(ham=9, spam=9))

    with pytest.raises(InputError, match=message):
        prepare()


def test_training_tells_the_figures_of_each_class_and_which_is_never_predicted(tmp_path):
    recipe = {
        "task": "classification",
        "model": {"name": "bert", "width": 8, "heads": 2, "layers": 1, "feedforward_width": 8},
        "data": {"validation_share": 0.2},
        "tokenizer": {"size": 60},
        "training": {"steps": 2, "batch_tokens": 400, "precision": "float32"},
    }
    said: list[str] = []
    run = regard.train(recipe, output=tmp_path / "run", data=rows(ham=60, spam=10), say=said.append)
    told = said[said.index("on the validation data:") + 1 :]
    assert [line.split()[0] for line in told[:2]] == ["ham", "spam"]
    assert told[0].endswith("(12 examples)")
    assert told[1].endswith("(2 examples)")
    predicted = {one.label for one in run.load().classify_batch([text for text, _ in rows(ham=60, spam=10)])}
    warned = [line for line in told if line.startswith("warning: the class ")]
    missing = {"ham", "spam"} - predicted
    assert missing, "two steps are too few to learn both"
    assert {line.split("'")[1] for line in warned} >= missing
    assert all("data.class_weights=balanced" in line for line in warned)
