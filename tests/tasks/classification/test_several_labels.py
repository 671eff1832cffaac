"""Texts with any number of labels, and with several numbers: read, learnt, told, measured, saved, opened elsewhere, refused."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.inspection.analysis import ClassProbability, PredictedValue
from regard.metrics.classification import multi_label_scores
from regard.tasks.labelled import labelled, labels_of, ratings_of
from regard.tasks.multi_label import MultiLabelClassifier, MultiLabelData, prepare_labels
from regard.tasks.preparation import EncoderTokenizerSettings
from regard.tasks.regression import MultiOutputData, MultiOutputRegressor, prepare_numbers

WORDS = {"food": ["soup", "bread"], "people": ["waiter", "cook"], "price": ["cheap", "dear"]}
FILLER = ["the", "of", "was", "and", "with", "in", "some", "town"]
LABELLED = [("soup", ["food"]), ("the waiter", []), ("dear bread", ["food", "price"]), ("cheap", ["price"])] * 5
SETTINGS = EncoderTokenizerSettings(size=100)


def remarks(count: int, seed: int = 0) -> list[tuple[str, list[str]]]:
    """Texts whose labels are those of the telling words in them, perhaps none."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        labels = sorted(label for label in WORDS if draw.random() < 0.4)
        text = draw.choices(FILLER, k=3) + [draw.choice(WORDS[label]) for label in labels]
        draw.shuffle(text)
        found.append((" ".join(text), labels))
    return found


@pytest.fixture(scope="module")
def folder(tiny_recipe, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("several") / "run"
    recipe = tiny_recipe("multi_label_classification", training={"best": "micro_f1", "steps": 160})
    regard.train(recipe, output=place, data=remarks(300), validation=remarks(60, seed=1))
    return place


@pytest.fixture(scope="module")
def model(folder) -> MultiLabelClassifier:
    return regard.load(folder, task="multi_label_classification")


def theirs(folder: Path, randomize, kind: str = "Bert", **changes: Any):
    """A folder that `transformers` wrote, and the model in it."""
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 31, "max_position_embeddings": 32, **changes}
    if kind == "Bert":
        sizes |= {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 20}
    else:
        sizes |= {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 20}
    config = getattr(transformers, f"{kind}Config")(**sizes)
    other = randomize(getattr(transformers, f"{kind}ForSequenceClassification")(config)).eval()
    other.save_pretrained(folder)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (folder / "vocab.txt").write_text("\n".join([*special, *map(chr, range(97, 123))]) + "\n")
    return other


def theirs_of(other, folder: Path, texts: list[str], **more: Any):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"))
    read = tokenizer(texts, return_tensors="pt", padding=True)
    if "Distil" in type(other).__name__:
        read.pop("token_type_ids", None)
    with torch.no_grad():
        return other(**read, **more)


# --- what it learns and says ---


def test_labels_are_learnt_each_by_itself(model):
    found = regard.evaluate(model, remarks(100, seed=5))
    assert found.metrics["exact_match"] > 0.95
    assert found.metrics["micro_f1"] > 0.97
    assert found.metrics["macro_f1"] > 0.97
    assert list(found.classes) == ["food", "people", "price"]
    assert model.classify("the soup was dear of").labels == ("food", "price")
    assert model.classify("the town was").labels == ()
    shares = model.classify("soup").probabilities
    assert model.classify("soup", threshold=shares["people"]).labels == ("food", "people") or shares["price"] >= 0.5
    assert model.classify("soup", threshold=0.999_999).labels == ()
    with pytest.raises(InputError, match=r"threshold is 1\.5"):
        model.classify("soup", threshold=1.5)


def test_what_training_found_is_what_an_evaluation_finds(folder, model):
    card = json.loads((folder / "regard.json").read_text())
    found = regard.evaluate(model, remarks(60, seed=1))
    for name in ("micro_f1", "macro_f1", "exact_match"):
        assert card["metrics"][name] == pytest.approx(found.metrics[name], abs=1e-9)
    lower = regard.evaluate(model, remarks(60, seed=1), threshold=1e-6)
    assert lower.classes["food"].recall == 1.0
    assert lower.classes["food"].predicted == 60
    for metric in ("precision", "recall", "f1"):
        assert card["metrics"][f"{metric}.food"] == getattr(found.classes["food"], metric)
    assert card["metrics"]["examples.food"] == found.classes["food"].gold
    assert model.remarks(_store(folder)) == []


def _store(folder: Path):
    from regard.data.token_store import TokenStore

    return TokenStore.open(folder / "data" / "validation")


def test_metrics_are_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    draw = torch.Generator().manual_seed(0)
    for count in (1, 2, 9, 40):
        for share in (0.0, 0.3, 1.0):
            gold, said = (torch.rand(count, 5, generator=draw) < share for _ in range(2))
            sets = [[set(row.nonzero().flatten().tolist()) for row in each] for each in (gold, said)]
            found = multi_label_scores(*sets, range(5))
            kept = {"zero_division": 0}
            assert found.exact_match == metrics.accuracy_score(gold.numpy(), said.numpy())
            for average, value in (("micro", found.micro_f1), ("macro", found.macro_f1)):
                assert value == pytest.approx(
                    metrics.f1_score(gold.numpy(), said.numpy(), average=average, **kept), abs=1e-12
                )
            each = metrics.precision_recall_fscore_support(gold.numpy(), said.numpy(), **kept)
            for number, score in enumerate(found.classes.values()):
                told = (score.precision, score.recall, score.f1, score.gold)
                assert told == pytest.approx([column[number] for column in each], abs=1e-12)


def test_a_class_and_a_number_are_attributed(model, tmp_path, randomize):
    score = ClassProbability(text="dear bread", label="price").of(model)
    read = [regard.layers.Tokens.pad([list(each.ids)]) for each in score.read]
    share = model.classify("dear bread").probabilities["price"]
    assert score.score(read).exp().item() == pytest.approx(share, abs=1e-6)
    theirs(tmp_path, randomize, num_labels=2, problem_type="regression", id2label={0: "joy", 1: "fear"})
    rater = regard.load(tmp_path)
    score = PredictedValue(text="a b", output="fear").of(rater)
    read = [regard.layers.Tokens.pad([list(each.ids)]) for each in score.read]
    assert score.score(read).item() == pytest.approx(rater.rate("a b").values["fear"], abs=1e-5)
    with pytest.raises(InputError, match="no number 'love'"):
        PredictedValue(text="a b", output="love").of(rater)


# --- folders ---


@pytest.mark.parametrize("kind", ["Bert", "DistilBert"])
def test_their_multi_label_folder_is_told_by_the_sigmoid_and_saved_as_such(kind, randomize, tmp_path):
    names = {0: "old", 1: "red", 2: "big"}
    problem = "multi_label_classification"
    other = theirs(tmp_path / "theirs", randomize, kind, problem_type=problem, num_labels=3, id2label=names)
    regard.load(tmp_path / "theirs").save(tmp_path / "ours")
    said = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert said["problem_type"] == problem
    assert said["id2label"] == {"0": "old", "1": "red", "2": "big"}
    texts = ["a b c", "z", "q r s t u"]
    expected = theirs_of(other, tmp_path / "theirs", texts).logits.sigmoid()
    for folder in ("theirs", "ours"):
        told = regard.load(tmp_path / folder)
        assert isinstance(told, MultiLabelClassifier)
        for row, found in zip(expected.tolist(), told.classify_batch(texts), strict=True):
            assert list(found.probabilities.values()) == pytest.approx(row, abs=1e-5)
            assert found.labels == tuple(name for name, share in zip(names.values(), row, strict=True) if share >= 0.5)


def test_the_losses_are_theirs(randomize, tmp_path):
    labels = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    for problem in ("multi_label_classification", "regression"):
        place = tmp_path / problem
        other = theirs(place, randomize, problem_type=problem, num_labels=3)
        ours = regard.load(place)
        expected = theirs_of(other, place, ["a b", "c d"], labels=labels).loss
        inputs = [_joined(ours, text) for text in ("a b", "c d")]
        told = [[0, 2], []] if problem != "regression" else labels.tolist()
        found = ours.task.loss(ours.model, ours.task.batch(inputs, told))
        assert found.total.item() / 2 == pytest.approx(expected.item(), rel=1e-5)


def _joined(predictor, text: str):
    from regard.tasks.labelled import joined

    return joined(predictor.task, [text], pairs=False, maximum=20)[0]


def test_their_regressions_keep_every_number(randomize, tmp_path):
    other = theirs(tmp_path / "theirs", randomize, problem_type="regression", num_labels=3)
    regard.load(tmp_path / "theirs").save(tmp_path / "ours")
    assert json.loads((tmp_path / "ours" / "config.json").read_text())["problem_type"] == "regression"
    expected = theirs_of(other, tmp_path / "theirs", ["a b"]).logits[0].tolist()
    for folder in ("theirs", "ours"):
        told = regard.load(tmp_path / folder)
        assert isinstance(told, MultiOutputRegressor)
        assert told.rate("a b").values == pytest.approx(
            dict(zip(("LABEL_0", "LABEL_1", "LABEL_2"), expected, strict=True)), abs=1e-5
        )


@pytest.mark.parametrize(
    ("outputs", "taken", "name"), [(3, "one class of each text", "Classifier"), (1, "a number", "Regressor")]
)
def test_a_folder_without_a_problem_type_is_said_what_it_is_taken_for(outputs, taken, name, randomize, tmp_path):
    theirs(tmp_path, randomize, num_labels=outputs)
    with pytest.warns(UserWarning, match=f"no problem_type.*{taken}"):
        assert type(regard.load(tmp_path)).__name__ == name
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        named = regard.load(tmp_path, task="multi_label_classification")
        regard.load(tmp_path, task="classification" if outputs > 1 else "regression")
    assert isinstance(named, MultiLabelClassifier)


@pytest.mark.parametrize(
    ("problem", "outputs", "task"),
    [
        ("multi_label_classification", 3, "classification"),
        ("regression", 3, "classification"),
        ("regression", 3, "multi_label_classification"),
        ("single_label_classification", 3, "multi_output_regression"),
        ("single_label_classification", 1, None),
        ("ranking", 3, None),
    ],
)
def test_another_problem_than_the_folder_has_is_refused_by_name(problem, outputs, task, randomize, tmp_path):
    theirs(tmp_path, randomize, num_labels=outputs)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"problem_type": problem}))
    with pytest.raises(InputError, match=f"problem_type '{problem}'"):
        regard.load(tmp_path, task=task)


def test_a_run_of_one_task_is_no_model_of_the_other(folder):
    with pytest.raises(InputError, match="multi label classification, and classification is wanted"):
        regard.load(folder, task="classification")


# --- data ---


def read(data: MultiLabelData | MultiOutputData, *, number: bool) -> list[Any]:
    found = list(labelled(number=number, several=True).reader(data, data.train)(MalformedRows()))
    return [ratings_of(each) if number else labels_of(each, data.separator) for each in found]


def test_labels_are_read_from_cells_and_from_lists(tmp_path):
    csv, jsonl = tmp_path / "a.csv", tmp_path / "a.jsonl"
    csv.write_text('text,label\nsoup,"food, price"\nthe waiter,\nbread,food|\n')
    jsonl.write_text(
        '{"text": "soup", "label": ["food", "price", "food"]}\n{"text": "waiter", "label": []}\n{"text": "b", "label": [1]}\n'
    )
    assert read(MultiLabelData(train=str(csv)), number=False) == [("food", "price"), (), ("food|",)]
    assert read(MultiLabelData(train=str(csv), separator="|"), number=False)[2] == ("food",)
    assert read(MultiLabelData(train=str(jsonl)), number=False) == [("food", "price"), (), ("1",)]


def test_numbers_are_read_from_columns_and_from_lists(tmp_path):
    csv, jsonl = tmp_path / "a.csv", tmp_path / "a.jsonl"
    csv.write_text("id,text,joy,fear\n7,soup,0.5,-1\n8,bread,2,x\n9,tea,1,1e-3\n")
    jsonl.write_text('{"text": "soup", "label": [0.5, -1]}\n{"text": "tea", "label": [1, 0.001]}\n')
    for data in (
        MultiOutputData(train=str(csv), text="text", values=("joy", "fear")),
        MultiOutputData(train=str(csv), text=1, values=(2, 3)),
        MultiOutputData(train=str(jsonl)),
    ):
        assert read(data, number=True) == [[0.5, -1.0], [1.0, 0.001]]
    swapped = MultiOutputData(train=str(csv), text="text", values=("fear", "joy"))
    assert read(swapped, number=True) == [[-1.0, 0.5], [0.001, 1.0]]


def test_what_is_prepared_is_what_was_given(tmp_path):
    rows = [{"text": text, "label": labels} for text, labels in LABELLED]
    for number, given in enumerate((LABELLED, rows, [(text, ",".join(labels)) for text, labels in LABELLED])):
        found = prepare_labels(
            MultiLabelData(class_weights="balanced"),
            SETTINGS,
            tmp_path / str(number),
            seed=0,
            given=given,
            given_validation=LABELLED[:4],
        )
        assert found.task.classes == ("food", "price")
        assert found.task.class_weights == (1.0, 1.0)
        assert [found.task.stored(found.validation, row) for row in range(4)] == [[0], [], [0, 1], [1]]
        assert found.task.read_batch(found.validation, [2, 1]).labels.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    given = [{"text": "soup", "joy": 0.5, "fear": -1.0}, {"text": "tea", "joy": 1.5, "fear": -1.0}] * 4
    data = MultiOutputData(values=("joy", "fear"))
    found = prepare_numbers(data, SETTINGS, tmp_path / "numbers", seed=0, given=given, given_validation=given[:2])
    assert (found.task.names, found.task.means, found.task.spreads) == (("joy", "fear"), (1.0, -1.0), (0.5, 1.0))
    assert [found.task.stored(found.validation, row) for row in range(2)] == [[0.5, -1.0], [1.5, -1.0]]


@pytest.mark.parametrize(
    ("task", "data", "said"),
    [
        ("classification", LABELLED, "several labels; choose task multi_label_classification"),
        ("regression", [("a", [1.0, 2.0])] * 20, "several numbers; choose task multi_output_regression"),
        ("multi_label_classification", [("a", None)] * 20, "has no labels"),
        ("multi_label_classification", [("a", [])] * 20, "no training example has a label"),
        ("multi_label_classification", [("a", [["b"]])] * 20, "has the label"),
        ("multi_output_regression", [("a", [1.0])] * 20, "has one number"),
        ("multi_output_regression", [("a", [1.0, "b"])] * 20, "is not a number"),
        (
            "multi_output_regression",
            [("a", [1.0, 2.0]), ("a", [1.0, 2.0, 3.0])] * 10,
            "has 3 numbers instead of 2",
        ),
    ],
)
def test_examples_that_do_not_fit_are_refused_by_what_is_wrong(task, data, said, tiny_recipe, tmp_path):
    with pytest.raises(InputError, match=said):
        regard.train(tiny_recipe(task, training={"best": "loss", "steps": 1}), output=tmp_path / "run", data=data)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"threshold": 1.0}, r"data\.threshold is 1"),
        ({"separator": " "}, r"data\.separator"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, said):
    with pytest.raises(InputError, match=said):
        MultiLabelData(**settings)
    with pytest.raises(InputError, match="two different columns"):
        MultiOutputData(values=("joy", "joy"))
    with pytest.raises(InputError, match=r"data\.values are both given"):
        MultiOutputData(values=("joy", "fear"), label="joy")


# --- other models ---

OTHERS: list[dict[str, Any]] = [
    {"name": "han", "embedding_width": 8, "hidden_width": 6, "attention_width": 4},
    {"name": "gpt2_classifier", "width": 8, "heads": 2, "layers": 1, "maximum_positions": 40},
]


@pytest.mark.parametrize("sizes", OTHERS, ids=lambda sizes: sizes["name"])
@pytest.mark.parametrize("task", ["multi_label_classification", "multi_output_regression"])
def test_every_reader_of_whole_texts_tells_several(sizes, task, tiny_recipe, tmp_path):
    recipe = tiny_recipe(task, training={"best": "loss", "steps": 2, "evaluate_every": 2, "save_every": 2})
    recipe["model"] = sizes
    examples: Any = LABELLED if task == "multi_label_classification" else [(text, [1.0, 2.0]) for text, _ in LABELLED]
    run = regard.train(recipe, output=tmp_path / "run", data=examples, validation=examples[:8])
    model = regard.load(tmp_path / "run")
    again = model.classify("soup").probabilities if task == "multi_label_classification" else model.rate("soup").values
    assert len(again) == 2
    model.save(tmp_path / "saved")
    read = regard.load(tmp_path / "saved")
    assert again == (read.classify("soup").probabilities if "label" in task else read.rate("soup").values)
    assert run is not None
