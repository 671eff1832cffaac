"""The loss of a tagger is over the first pieces of words, each once."""

from __future__ import annotations

import json

import pytest
import torch

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.tasks.encoders import columns_of
from regard.tasks.tagging import GOES_ON, PLACE, TAG, TaggingTask
from regard.tasks.tagging_data import Window


@pytest.fixture
def task(word_tokenizer) -> TaggingTask:
    return TaggingTask(tokenizer=word_tokenizer, tags=("O", "B-X", "I-X"))


WINDOWS = [Window([2, 7, 8, 9, 3], [1, 3]), Window([2, 6, 3], [1])]


def test_labels_stand_at_first_pieces_only(task):
    batch = task.batch(WINDOWS, [[1, 2], [0]])
    assert batch.labels.tolist() == [[-1, 1, -1, 2, -1], [-1, 0, -1, -1, -1]]
    assert batch.tokens.valid.sum().item() == 8
    assert batch.segments.sum().item() == 0


def test_the_loss_is_the_cross_entropy_of_words(task, tagger):
    model = tagger(tags=("O", "B-X", "I-X")).model
    batch = task.batch(WINDOWS, [[1, 2], [0]])
    loss = task.loss(model, batch)
    logits = model(batch.tokens).logits.log_softmax(dim=-1)
    expected = -(logits[0, 1, 1] + logits[0, 3, 2] + logits[1, 1, 0])
    torch.testing.assert_close(loss.total, expected)
    right = (logits[[0, 0, 1], [1, 3, 1]].argmax(dim=-1) == torch.tensor([1, 2, 0])).sum()
    assert (loss.tokens, int(loss.correct)) == (3, int(right))


def test_what_stands_elsewhere_has_no_gradient_of_its_own(task, tagger):
    model = tagger(tags=("O", "B-X", "I-X")).model
    batch = task.batch(WINDOWS, [[1, 2], [0]])
    kept = []
    model.head.output.register_forward_hook(lambda module, given, logits: kept.append(logits))
    loss = task.loss(model, batch)
    (gradient,) = torch.autograd.grad(loss.total, kept)
    touched = gradient.abs().sum(dim=-1) > 0
    assert touched.tolist() == (batch.labels >= 0).tolist()


def test_a_row_counts_its_words(task, tmp_path):
    columns = {**columns_of(task.tokenizer), PLACE: 100, TAG: 3, GOES_ON: 2}
    rows = [(window.ids, [0], window.places, [1] * len(window.places), [0]) for window in WINDOWS]
    store = TokenStore.write(tmp_path / "store", columns, rows)
    assert task.labels(store).tolist() == [2, 1]
    assert task.lengths(store).tolist() == [[5], [3]]
    assert task.read_batch(store, [1, 0]).labels.tolist() == [[-1, 1, -1, -1, -1], [-1, 1, -1, 1, -1]]


def test_the_names_of_tags_are_told_to_other_programs(task):
    said = task.hf_fields()
    assert said["id2label"] == {"0": "O", "1": "B-X", "2": "I-X"}
    assert said["label2id"] == {"O": 0, "B-X": 1, "I-X": 2}
    assert json.loads(json.dumps(task.settings()))["scheme"] == "BIO"


def test_an_unknown_tag_names_the_word_and_the_nearest(task):
    assert task.number_of("I-X", "here") == 2
    with pytest.raises(
        InputError, match=r"a.conll, line 3: the word 'x' has the tag 'I-Y', which the model does not have"
    ):
        task.number_of("I-Y", "a.conll, line 3: the word 'x'")
