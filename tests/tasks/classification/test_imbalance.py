"""Classes of different sizes: what is held out of each, what each counts in the loss, and what is said of them."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import regard
from regard.errors import InputError
from regard.layers import Encoded
from regard.tasks.classification import prepare_classes
from regard.tasks.labelled import LABEL, LabelledData
from regard.tasks.multi_label import MultiLabelData
from regard.tasks.preparation import EncoderTokenizerSettings
from regard.tasks.regression import MultiOutputData, prepare_ratings

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


TRAINING = {"steps": 2, "batch_tokens": 400, "precision": "float32"}


def recipe(*, data: dict | None = None, **training) -> dict:
    return {
        "task": "classification",
        "model": {"name": "bert", "width": 8, "heads": 2, "layers": 1, "feedforward_width": 8},
        "data": {"validation_share": 0.2, **(data or {})},
        "tokenizer": {"size": 60},
        "training": TRAINING | training,
    }


def test_training_tells_the_figures_of_each_class_and_which_is_never_predicted(tmp_path):
    said: list[str] = []
    run = regard.train(recipe(), output=tmp_path / "run", data=rows(ham=60, spam=10), say=said.append)
    shown = dict(run.rows())
    assert shown["  ham"].endswith("(12 examples)")
    assert shown["  spam"].endswith("(2 examples)")
    assert "F1 of spam" in shown
    assert run.metrics["f1"] == run.metrics["f1.spam"]
    predicted = {one.label for one in run.load().classify_batch([text for text, _ in rows(ham=60, spam=10)])}
    warned = [line for line in said if line.startswith("warning: the class ")]
    missing = {"ham", "spam"} - predicted
    assert missing, "two steps are too few to learn both"
    assert {line.split("'")[1] for line in warned} >= missing
    assert all("data.class_weights=balanced" in line for line in warned)


def test_the_figures_of_many_classes_are_those_of_the_largest(tmp_path):
    given = [(f"text {number % 21} {number}", f"class{number % 21:02}") for number in range(210)]
    said: list[str] = []
    run = regard.train(recipe(), output=tmp_path / "run", data=given, say=said.append)
    told = said[said.index("on the validation data:") + 1 :]
    assert [line.split()[0] for line in told[:20]] == [f"class{number:02}" for number in range(20)]
    assert told[20].startswith("  ... and 1 smaller class")
    assert not [name for name in run.metrics if "class" in name]


# --- which class, and from which probability on ---


def test_the_class_that_f1_is_of_can_be_chosen(tmp_path):
    data, validation = rows(ham=60, spam=10), rows(ham=12, spam=4)
    run = regard.train(
        recipe(data={"positive": "ham", "threshold": 0.999999}, best="f1.spam"),
        output=tmp_path / "run",
        data=data,
        validation=validation,
    )
    # No probability of ham reaches the threshold, so all are told to be spam.
    assert run.metrics["f1.ham"] == run.metrics["f1"] == 0.0
    assert run.metrics["f1.spam"] == pytest.approx(2 * 0.25 / 1.25)
    assert run.metrics["recall.spam"] == 1.0
    assert run.metrics["examples.spam"] == 4.0
    assert "F1 of ham" in dict(run.rows())
    model = run.load()
    assert (model.task.positive, model.task.threshold) == ("ham", 0.999999)
    found = regard.evaluate(model, validation)
    assert (found.positive, found.threshold, found.metrics["f1"]) == ("ham", 0.999999, 0.0)
    other = regard.evaluate(model, validation, positive="spam", threshold=1e-6)
    assert (other.positive, other.metrics["f1"]) == ("spam", run.metrics["f1.spam"])
    model.save(tmp_path / "again")
    assert regard.load(tmp_path / "again").task == model.task


def test_a_threshold_decides_on_the_positive_class(tmp_path):
    model = regard.train(recipe(), output=tmp_path / "run", data=rows(ham=60, spam=10)).load()
    texts = [text for text, _ in rows(ham=5, spam=5)]
    shares = [said.probabilities["spam"] for said in model.classify_batch(texts)]
    middle = sorted(shares)[5]
    told = model.classify_batch(texts, threshold=middle)
    assert [said.label == "spam" for said in told] == [share >= middle for share in shares]
    assert all(said.probability == said.probabilities[said.label] for said in told)
    assert model.classify(texts[0], positive="ham", threshold=1e-6).label == "ham"
    with pytest.raises(InputError, match="positive is 'sapm', which is no class; did you mean 'spam'"):
        model.classify(texts[0], positive="sapm", threshold=0.5)
    with pytest.raises(InputError, match=r"threshold is 1\.5; it must be above 0 and below 1"):
        regard.evaluate(model, rows(ham=2), threshold=1.5)


def test_of_more_classes_the_best_of_the_others_is_told_below_the_threshold(tmp_path):
    task = prepare_classes(LabelledData(), SETTINGS, tmp_path / "a", seed=1, given=rows(a=9, b=9, c=9)).task
    assert task.positive_class() is None
    assert task.metric_words() == {"f1": "F1 (mean of 3 classes)"}
    with pytest.raises(InputError, match="with 3 classes it needs a positive class; name one as positive"):
        task.positive_class(None, 0.4)
    assert task.positive_class("a", 0.4) == "a"
    assert [task.predicted(row, "a", 0.4) for row in ([0.4, 0.5, 0.1], [0.39, 0.3, 0.31], [0.1, 0.2, 0.7])] == [0, 2, 2]
    with pytest.raises(InputError, match=r"with 3 classes it needs a positive class; name one as data\.positive"):
        prepare_classes(LabelledData(threshold=0.4), SETTINGS, tmp_path / "b", seed=1, given=rows(a=9, b=9, c=9))
    with pytest.raises(InputError, match=r"data\.positive is 'd', which is no class"):
        prepare_classes(LabelledData(positive="d"), SETTINGS, tmp_path / "c", seed=1, given=rows(a=9, b=9, c=9))


@pytest.mark.parametrize(
    ("best", "message"),
    [
        ("f1.sapm", "training.best is 'f1.sapm', and there is no 'sapm'; did you mean 'spam'"),
        ("examples.spam", "no model for task classification is judged by"),
        ("f1.", "no model for task classification is judged by"),
    ],
)
def test_a_best_that_no_class_has_is_refused_before_training(best, message, tmp_path):
    with pytest.raises(InputError, match=message):
        regard.train(recipe(best=best), output=tmp_path / "run", data=rows(ham=60, spam=10))


def test_settings_of_classes_are_refused_where_there_are_none(tmp_path):
    rated = [(f"text {number}", float(number)) for number in range(9)]
    for name, value in (("positive", "spam"), ("threshold", 0.3), ("class_weights", "balanced")):
        with pytest.raises(InputError, match=rf"data\.{name} is for classes, and task regression has numbers"):
            prepare_ratings(LabelledData(**{name: value}), SETTINGS, tmp_path, seed=1, given=rated)
    with pytest.raises(
        InputError, match=r"data\.threshold is for classes, and task multi_output_regression has numbers"
    ):
        MultiOutputData(threshold=0.3)
    with pytest.raises(
        InputError, match=r"data\.positive is for classes, and task multi_label_classification has labels"
    ):
        MultiLabelData(positive="spam")
