"""Taggers that transformers wrote: the same logits, the tags as config.json names them; and ours opened there."""

from __future__ import annotations

import json
from itertools import chain

import pytest
import torch

import regard
from regard.errors import InputError
from regard.layers import Tokens

transformers = pytest.importorskip("transformers")

NAMES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
WORDS = ["Ann", "Lee", "visited", "Paris", "x"]


@pytest.fixture
def folder(word_tokenizer, randomize, tmp_path):
    """A folder of BertForTokenClassification or another."""

    def make(kind: str = "bert", names=NAMES):
        sizes = {"vocab_size": word_tokenizer.size, "id2label": dict(enumerate(names))}
        if kind == "bert":
            config = transformers.BertConfig(
                hidden_size=12, num_attention_heads=3, intermediate_size=10, num_hidden_layers=2, **sizes
            )
            model = transformers.BertForTokenClassification(config)
        else:
            config = transformers.DistilBertConfig(dim=12, n_heads=3, hidden_dim=10, n_layers=2, **sizes)
            model = transformers.DistilBertForTokenClassification(config)
        model = randomize(model).eval()
        model.save_pretrained(tmp_path / kind)
        word_tokenizer.save(tmp_path / kind)
        return tmp_path / kind, model

    return make


@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_the_logits_are_theirs(kind, folder, word_tokenizer):
    place, theirs = folder(kind)
    ours = regard.load(place)
    assert ours.task.tags == NAMES
    rows = [
        [word_tokenizer.start_id, *chain.from_iterable(word_tokenizer.encode_words(words)), word_tokenizer.end_id]
        for words in (WORDS, WORDS[:2])
    ]
    tokens = Tokens.pad(rows)
    with torch.no_grad():
        expected = theirs(input_ids=tokens.ids, attention_mask=tokens.valid.long()).logits
        found = ours.model(tokens).logits
    torch.testing.assert_close(found[tokens.valid], expected[tokens.valid], rtol=1e-5, atol=1e-5)


def test_b_and_i_alone_do_not_tell_the_rules(folder):
    place, _ = folder()
    model = regard.load(place, task="tagging")
    assert (model.task.scheme, model.task.decoding) == ("BIO", "greedy")
    assert model.tag(WORDS) == model.tag(WORDS, decoding="greedy")


@pytest.mark.parametrize(
    ("names", "scheme", "decoding"),
    [
        (("O", "B-X", "I-X", "E-X", "S-X"), "BIOES", "constrained"),
        (("O", "B-X", "I-X", "L-X", "U-X"), "BILOU", "constrained"),
        (("NOUN", "VERB", "ADJ", "X", "DET"), None, "greedy"),
        (("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3", "LABEL_4"), None, "greedy"),
    ],
)
def test_other_names_tell_their_scheme(names, scheme, decoding, folder):
    place, _ = folder(names=names)
    task = regard.load(place).task
    assert (task.scheme, task.decoding) == (scheme, decoding)
    assert len(regard.load(place).tag(WORDS).tags) == 5


def test_names_that_do_not_fit_are_refused(folder):
    place, _ = folder()
    config = json.loads((place / "config.json").read_text())
    config["id2label"] = {"0": "O", "1": "O", "2": "B", "3": "C", "4": "D"}
    (place / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="id2label"):
        regard.load(place)


def test_ours_opens_in_transformers_with_names_and_logits(tagger, tmp_path, word_tokenizer):
    ours = tagger()
    ours.save(tmp_path / "ours")
    theirs = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "ours").eval()
    assert tuple(theirs.config.id2label[number] for number in range(5)) == ours.task.tags
    ids = torch.tensor([[word_tokenizer.start_id, *word_tokenizer.encode("Ann visited x"), word_tokenizer.end_id]])
    with torch.no_grad():
        torch.testing.assert_close(
            theirs(input_ids=ids).logits,
            ours.model(Tokens(ids, torch.ones_like(ids).bool())).logits,
            rtol=1e-5,
            atol=1e-5,
        )
