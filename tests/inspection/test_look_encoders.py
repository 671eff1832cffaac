"""Looking at encoders of texts: whatever their task is, their maps have the tokens of what was read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import regard
from regard.checkpoints import parameters_of, write_model
from regard.errors import InputError
from regard.inspection import ablate, patch
from regard.inspection.analysis import HeadStatistics
from regard.inspection.text_reader import TextReader
from regard.layers import Tokens
from regard.models import MODELS, BertConfig, DistilBertConfig
from regard.tasks import TASKS
from regard.tasks.classification import ClassificationTask, Classifier
from regard.tasks.encoders import join
from regard.tasks.regression import RegressionTask, Regressor
from regard.text import Tokenizer

SIZES: dict[str, Any] = {"width": 12, "heads": 3, "feedforward_width": 10, "layers": 2, "maximum_positions": 30}
LAYERS = ["layers.0.attention", "layers.1.attention"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "un", "##aff", "##able", "is", "not", "."]


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer.from_vocabulary(PIECES)


@pytest.fixture
def classifier(tokenizer, seeded, randomize) -> Classifier:
    task = ClassificationTask(tokenizer=tokenizer, classes=("no", "yes"), maximum_length=20, pairs=None)
    config = BertConfig(**SIZES, **task.model_settings())
    return Classifier(randomize(MODELS["bert"].model(config), scale=1.5), task)


@pytest.fixture
def rater(tokenizer, seeded, randomize) -> Regressor:
    task = RegressionTask(tokenizer=tokenizer, maximum_length=20, pairs=None)
    config = DistilBertConfig(**SIZES, **task.model_settings())
    return Regressor(randomize(MODELS["distilbert"].model(config), scale=1.5), task)


def test_labels_are_the_tokens_and_the_title_is_the_text(classifier):
    with regard.look(classifier) as seen:
        classifier.classify("The cat is UNAFFABLE.")
    view = seen.view(0)
    tokens = ("[CLS]", "the", "cat", "is", "un", "##aff", "##able", ".", "[SEP]")
    assert view.title == "The cat is UNAFFABLE."
    assert [item.address for item in view.maps] == LAYERS
    for item in view.maps:
        assert item.kind == "self"
        assert item.query_tokens == item.key_tokens == tokens
        assert item.weights.shape == (3, 9, 9)
        np.testing.assert_allclose(item.weights.sum(axis=-1), 1, rtol=1e-5)
    assert view.maps[0].query_words == view.maps[0].key_words == (0, 1, 2, 3, 4, 4, 4, 5, 6)


def test_of_a_pair_the_tokens_of_both_texts(classifier):
    with regard.look(classifier) as seen:
        classifier.classify(("the cat", "The dog."))
    view = seen.view(0)
    assert view.title == "the cat | The dog."
    assert view.maps[0].key_tokens == ("[CLS]", "the", "cat", "[SEP]", "the", "dog", ".", "[SEP]")


def test_padding_is_left_out_and_each_row_has_its_own_text(classifier):
    """Rows are read shortest first, whatever their order was."""
    texts = ["the cat is not the dog", "The dog", ("the cat.", "is not")]
    with regard.look(classifier) as seen:
        answers = classifier.classify_batch(texts)
    view = seen.view()
    assert set(view.examples) == {"the cat is not the dog", "The dog", "the cat. | is not"}
    for item in view.maps:
        assert "[PAD]" not in item.key_tokens
        assert item.weights.shape[1:] == (len(item.query_tokens), len(item.key_tokens))
        np.testing.assert_allclose(item.weights.sum(axis=-1), 1, rtol=1e-5)
    for text, answer in zip(texts, answers, strict=True):
        title = text if isinstance(text, str) else " | ".join(text)
        row = view.examples.index(title)
        with regard.look(classifier) as alone:
            assert classifier.classify(text) == answer or answer.text == text
        np.testing.assert_allclose(alone.view(0).maps[0].weights, seen.view(row).maps[0].weights, atol=1e-6)


def test_several_batches_are_several_runs(classifier, monkeypatch):
    from regard.tasks import encoders as predictor

    monkeypatch.setattr(predictor, "BATCH_TOKENS", 8)
    monkeypatch.setitem(predictor.EncoderPredictor.encoded.__kwdefaults__, "batch_tokens", 8)
    texts = ["the cat is not the dog", "the dog", "the cat"]
    with regard.look(classifier) as seen:
        classifier.classify_batch(texts)
    assert len(seen.runs) > 1
    assert {title for run in range(len(seen.runs)) for title in seen.view(run=run).examples} == set(texts)


def test_a_rater_too_whatever_order_it_tells_its_answers_in(rater):
    texts = ["the cat is not the dog", "the dog", ("the cat", "is")]
    with regard.look(rater) as seen:
        rater.rate_batch(texts)
    assert set(seen.view().examples) == {"the cat is not the dog", "the dog", "the cat | is"}
    for row, title in enumerate(seen.view().examples):
        tokens = seen.view(row).maps[0].key_tokens
        assert " ".join(token for token in tokens[1:-1]) == title.replace("|", "[SEP]")


def test_a_text_that_was_cut_keeps_its_title(classifier):
    text = "the cat " * 30
    with regard.look(classifier) as seen:
        classifier.classify(text)
    view = seen.view(0)
    assert len(view.maps[0].key_tokens) == 20
    assert view.title.split() == text.split()


def test_without_what_was_given_the_tokens_tell_the_title(classifier, tokenizer):
    """As where somebody calls the model itself under a look at its predictor."""
    ids = join(tokenizer, tokenizer.encode("the cat"), tokenizer.encode("unaffable"), maximum=20).ids
    with regard.look(classifier) as seen:
        classifier.model(Tokens.pad([ids]))
    assert seen.view(0).title == "the cat | unaffable"


def test_a_bare_model_is_told_its_tokens(classifier, tokenizer):
    ids = [[2, 5, 6, 3], [2, 7, 3]]
    with regard.look(classifier.model) as seen:
        classifier.model(Tokens.pad(ids))
    assert seen.view(1).maps[0].key_tokens == ("2", "7", "3")
    view = seen.view(1, tokens=["[CLS]", "dog", "[SEP]", "[PAD]"])
    assert view.maps[0].query_tokens == view.maps[0].key_tokens == ("[CLS]", "dog", "[SEP]")
    assert view.title == "[CLS] dog [SEP]"
    with pytest.raises(InputError, match="tokens: 3 given, but the maps are over 4 places"):
        seen.view(1, tokens=["[CLS]", "dog", "[SEP]"])
    with regard.look(classifier) as known:
        classifier.classify("the dog")
    with pytest.raises(InputError, match="the tokens of this run are known; leave tokens and target_tokens out"):
        known.view(0, tokens=["a", "b", "c", "d"])


def test_heads_that_look_at_delimiters_are_named(classifier):
    """One made to: its scores are large at [CLS] and [SEP] alone."""
    with torch.no_grad():
        attention = classifier.model.layers[0].attention
        attention.query.weight[4:8] = 0
        attention.query.bias[4:8] = torch.tensor([30.0, 0, 0, 0])
        for name in ("weight", "bias"):
            getattr(attention.key, name)[4:8] = 0
        table = classifier.model.embedding.tokens.weight
        classifier.model.embedding.positions.weight.zero_()
        classifier.model.embedding.segments.weight.zero_()
        table[:, 0] = -1.0
        table[2:4, 0] = 3.0
        classifier.model.embedding.norm.weight.fill_(1.0)
        classifier.model.embedding.norm.bias.zero_()
        attention.key.weight[4, 0] = 1.0
    with regard.look(classifier) as seen:
        classifier.classify_batch(["the cat is not", "unaffable dog", "the dog is the cat"])
    found = HeadStatistics.of_record(seen)
    assert "delimiter" in found.head("layers.0.attention", 1).names()
    assert "delimiter" in found.head("layers.0.attention", 1).shares
    assert ("layers.0.attention", 1) in {(head.address, head.head) for head in found.named("delimiter")}


@pytest.mark.parametrize("name", [name for name, kind in TASKS.items() if MODELS["bert"].serves(kind.interface)])
def test_every_task_of_an_encoder_can_be_looked_at(name, tokenizer, seeded, randomize):
    """By what all of them have in common: a tokenizer, and inputs that are read in batches."""
    kind = TASKS[name]
    head: Any = kind.derived_config["head"]
    outputs = kind.derived_config["outputs"]
    config = BertConfig(**SIZES, vocabulary=tokenizer.size, head=head, outputs=outputs)
    if kind.from_hf is None:
        pytest.skip("no other program writes models of this task")
    model = randomize(MODELS["bert"].model(config))
    task = _task(kind.from_hf, config, tokenizer)
    predictor = kind.predictor(model, task)
    inputs = [
        join(tokenizer, tokenizer.encode("the unaffable dog"), maximum=20),
        join(tokenizer, tokenizer.encode("the cat"), tokenizer.encode("is"), maximum=20),
    ]
    with regard.look(predictor) as seen:
        list(predictor.encoded(inputs))  # type: ignore[attr-defined]
    views = {view.title: view for view in (seen.view(row) for row in range(2))}
    assert set(views) == {"the unaffable dog", "the cat | is"}
    expected = ("[CLS]", "the", "un", "##aff", "##able", "dog", "[SEP]")
    assert views["the unaffable dog"].maps[0].query_tokens == expected


def _task(foreign: Callable[..., Any], config: BertConfig, tokenizer: Tokenizer) -> Any:
    """The task of a folder that another program wrote, as its kind reads it."""
    import json
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as place:
        tokenizer.save(place)
        labels = {str(number): f"B-{number}" if number else "O" for number in range(config.outputs)}
        (Path(place) / "config.json").write_text(json.dumps({"id2label": labels}))
        return foreign(Path(place), config)


def test_what_each_head_is_worth_to_a_classifiers_accuracy(classifier):
    """`ablate` over a metric of a task: any function that runs the predictor."""
    texts = ["the cat", "unaffable", "not the dog.", "is the cat", "dog", "the dog is not unaffable"]
    logits = torch.tensor([list(each.probabilities.values()) for each in classifier.classify_batch(texts)]).log()
    with torch.no_grad():  # so that half of them are yes, and none by much
        classifier.model.head.output.bias[1] -= (logits[:, 1] - logits[:, 0]).sort().values[2:4].mean()
    labels = [each.label for each in classifier.classify_batch(texts)]
    assert set(labels) == {"no", "yes"}

    def accuracy() -> float:
        return sum(a.label == b for a, b in zip(classifier.classify_batch(texts), labels, strict=True)) / len(texts)

    found = ablate(classifier, accuracy)
    assert found.baseline == 1.0
    assert [(row.address, row.part) for row in found.rows] == [(a, head) for a in LAYERS for head in range(3)]
    assert all(-1 <= row.effect <= 0 for row in found.rows)
    assert any(row.effect < 0 for row in found.rows)
    assert [each.label for each in classifier.classify_batch(texts)] == labels
    layers = ablate(classifier, accuracy, by="layer", to="mean")
    assert [(row.address, row.part) for row in layers.rows] == [(address, None) for address in LAYERS]


def test_activation_patching_between_two_texts_of_a_classifier(classifier):
    found = patch(
        classifier,
        clean=lambda: classifier.classify("the cat is"),
        corrupted=lambda: classifier.classify("the dog is"),
        score=lambda said: said.probabilities["yes"],
        hidden=["layers.*"],
        by_position=True,
    )
    assert {row.address for row in found.rows} == {"layers.0", "layers.1"}
    assert len(found.rows) == 2 * 5
    last = {row.part: row.effect for row in found.rows if row.address == "layers.1"}
    assert last[0] == pytest.approx(1, abs=1e-4), "the pooler reads the first token alone"
    assert all(abs(effect) < 1e-4 for part, effect in last.items() if part)


# --- a folder without a task ------------------------------------------------------------------------------------


@pytest.fixture
def folder(tokenizer, seeded, randomize, tmp_path):
    """As another program writes it; with any head, or none."""

    def make(**changes: Any):
        config = BertConfig(**SIZES, vocabulary=tokenizer.size, **changes)
        model = randomize(MODELS["bert"].model(config))
        write_model(tmp_path, config, parameters_of(model), task={}, recipe={}, metrics={})
        (tmp_path / "regard.json").unlink()
        tokenizer.save(tmp_path)
        return tmp_path

    return make


def test_an_encoder_without_a_head_is_read(folder, classifier):
    reader = TextReader.load(folder())
    view = reader.view("The unaffable cat")
    assert view.title == view.examples[0] == "The unaffable cat"
    assert view.addresses == tuple(LAYERS)
    assert view.maps[0].key_tokens == ("[CLS]", "the", "un", "##aff", "##able", "cat", "[SEP]")
    assert view.maps[0].key_words == (0, 1, 2, 2, 2, 3, 4)
    pair = reader.view("the cat", "is not", addresses=["layers.1.*"])
    assert pair.addresses == ("layers.1.attention",)
    assert pair.title == "the cat | is not"
    assert pair.maps[0].key_tokens == ("[CLS]", "the", "cat", "[SEP]", "is", "not", "[SEP]")


def test_segments_count(folder, randomize):
    reader = TextReader.load(folder())
    one = reader.view("the cat [SEP]", None)
    assert "[SEP]" not in one.maps[0].key_tokens[1:-1], "spelt in a text it is text"
    plain, pair = reader.view("the cat is"), reader.view("the cat", "is")
    assert plain.maps[0].weights.shape != pair.maps[0].weights.shape


def test_a_mask_is_one_where_the_model_was_trained_on_them(folder):
    assert TextReader.load(folder(head="masked")).view("the [MASK] is").maps[0].key_tokens == (
        "[CLS]",
        "the",
        "[MASK]",
        "is",
        "[SEP]",
    )
    assert "[MASK]" not in TextReader.load(folder()).view("the [MASK] is").maps[0].key_tokens


def test_a_text_of_too_many_tokens_is_refused(folder):
    with pytest.raises(InputError, match="the text has 32 tokens and the model has positions for 30"):
        TextReader.load(folder()).view("the " * 30)


def test_folders_that_cannot_be_read_so(folder, tmp_path):
    place = folder()
    (place / "tokenizer.json").unlink()
    (place / "vocab.txt").unlink()
    with pytest.raises(InputError, match=r"has neither tokenizer.json nor vocab.txt"):
        TextReader.load(place)
    with pytest.raises(InputError, match="no such folder"):
        TextReader.load(tmp_path / "none")


def test_a_torch_module_of_ones_own_is_called_with_ids(tokenizer):
    class Own(nn.Module):
        """Gives logits alone."""

        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(tokenizer.size, 8)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, ids):
            x = self.table(ids)
            return self.attention(x, x, x, need_weights=False)[0].mean(dim=1)

    view = TextReader(Own().eval(), tokenizer).view("the cat", "is")
    assert view.addresses == ("attention",)
    assert view.maps[0].key_tokens == ("[CLS]", "the", "cat", "[SEP]", "is", "[SEP]")


def test_a_model_that_returns_logits_alone_is_told_what_to_return(classifier):
    class Alone(nn.Module):
        def __init__(self, model) -> None:
            super().__init__()
            self.model, self.config, self.maximum_length = model, model.config, model.maximum_length

        def forward(self, tokens, segments=None, **named):
            return self.model(tokens, segments, **named).logits

    alone = type(classifier)(Alone(classifier.model), classifier.task)
    sentence = r"the forward of Alone returns a tensor; return a regard\.layers\.Encoded"
    with pytest.raises(InputError, match=sentence), regard.look(alone):
        alone.classify("the cat")
